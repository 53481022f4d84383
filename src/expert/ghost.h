/* Ghost caches: caches that hold no bytes and are told what the real one is told, so that a run knows what other sizes,
 * or other pins, would have given. The same policy code decides; nothing of it touches the real cache.
 *
 * A ghost follows some layers only (every k-th, with as much smaller slots), because a spatial sample estimates a hit
 * rate well (Waldspurger et al., "Efficient MRC Construction with SHARDS", FAST 2015) and costs a fraction. */
#ifndef EXPERT_GHOST_H
#define EXPERT_GHOST_H

#include "expert/catalog.h"

#include <stdbool.h>

struct expert_ghosts; /* opaque */

struct expert_ghost_config {
    uint64_t slots_bytes; /* of the cache that is imagined, all layers */
    const uint8_t *kept;  /* [n_experts] by key, nonzero: once there it never leaves, as far as the cache's floor stays
                             free (who came first stays); NULL: none. Borrowed: the caller may change it between steps
                             and calls expert_ghosts_kept then */
};

struct expert_ghost_result {
    uint64_t slots_bytes;
    uint64_t hits, misses; /* of decode steps, in the layers that are followed */
    uint64_t hit_bytes, miss_bytes;
};

#define EXPERT_GHOSTS_MAX 12

/* layers_max: at most so many layers with experts are followed, spread evenly (0: all). Nothing is allocated later. */
enum sluice_status expert_ghosts_create(const struct expert_catalog *catalog, enum policy_kind policy,
                                        const struct expert_ghost_config *ghosts, uint32_t n_ghosts,
                                        uint32_t layers_max, struct expert_ghosts **out, struct sluice_error *err);
void expert_ghosts_destroy(struct expert_ghosts *g);
/* An upper bound of what create allocates. */
size_t expert_ghosts_memory_bytes(const struct expert_catalog *catalog, uint32_t n_ghosts, uint32_t layers_max);

/* A step, told as the real cache is told: begin, then for each layer in order the tokens' choices and once `want` with
 * the distinct experts, then end. */
void expert_ghosts_begin(struct expert_ghosts *g, bool decode);
void expert_ghosts_selected(struct expert_ghosts *g, uint32_t layer, const uint32_t *ids, const float *weights,
                            uint32_t n, uint32_t ahead);
void expert_ghosts_want(struct expert_ghosts *g, uint32_t layer, const uint32_t *ids, uint32_t n);
void expert_ghosts_tick(struct expert_ghosts *g, uint32_t n_tokens);
void expert_ghosts_prompt(struct expert_ghosts *g);

/* The pins of ghost i have changed: those resident are held, others let go. */
void expert_ghosts_kept(struct expert_ghosts *g, uint32_t i);
/* Counts since creation or the last reset (which leaves what is resident alone). */
void expert_ghosts_result(const struct expert_ghosts *g, uint32_t i, struct expert_ghost_result *out);
void expert_ghosts_reset(struct expert_ghosts *g);

#endif
