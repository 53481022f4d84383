/* Which expert leaves when room is needed. Pure: sees keys (dense expert ids), layers, classes, counters, weights and a
 * tick; no time, no I/O, no memory addresses, so the engine and a replay of traces run the very same code.
 *
 * The policy keeps, for each class, the set of keys that may be evicted now (resident and not pinned). The cache puts a
 * key in when it becomes evictable and takes it out when it is pinned or leaves. What a call costs does not grow with
 * the number of slots (README.md); policy_prompt alone may look at every key. */
#ifndef EXPERT_POLICY_H
#define EXPERT_POLICY_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum policy_kind {
    POLICY_LRU,      /* the longest not used */
    POLICY_LFU,      /* the least often used; counts outlive eviction and prompts */
    POLICY_HOTNESS,  /* the same, halved every 16 tokens, forgotten at a new prompt */
    POLICY_FREQ_AGE, /* the least count / (age + 1) */
    POLICY_EXPECTED, /* the least expected next use */
    POLICY_RECALL,   /* what followed tokens that were routed alike is kept */
    POLICY_KINDS,
};
#define POLICY_AUTO POLICY_RECALL /* docs/CACHE-MEASURED.md: the measurement */
#define POLICY_NONE UINT32_MAX
#define POLICY_CHOICES "auto|lru|lfu|hotness|freq-age|expected|recall"

struct policy; /* opaque */

struct policy_layer {
    uint32_t first_key; /* of expert 0; those of a layer are neighbours */
    uint32_t n_expert;  /* 0: no experts here */
    uint32_t n_used;    /* top-k */
    uint32_t class_index;
};

struct policy_shape {
    const struct policy_layer *layers; /* [n_layers], in order of first_key, without gaps (copied) */
    uint32_t n_layers, n_classes;
    /* Parameters; 0 is the policy's own. */
    uint32_t halve_ticks; /* `lfu`, `hotness`: tokens after which counts are halved */
    uint32_t window;      /* `recall`: past tokens that are compared */
    float recall_weight;  /* `recall`: of what followed, against how often and how lately */
};

const char *policy_name(enum policy_kind kind);
bool policy_by_name(const char *name, enum policy_kind *out); /* "auto" is the default policy */

enum sluice_status policy_create(enum policy_kind kind, const struct policy_shape *shape, struct policy **out,
                                 struct sluice_error *err);
void policy_destroy(struct policy *p);
/* The most that any policy allocates for a model of this shape; nothing is allocated after policy_create. */
size_t policy_memory_bytes(const struct policy_shape *shape);

void policy_prompt(struct policy *p);           /* a new prompt begins: `hotness` forgets, residents stay */
void policy_tick(struct policy *p, uint32_t n); /* n tokens have passed */
/* The router's choice for one token in one layer: n distinct experts (numbers within the layer) with their weights
 * (NULL: not known). ahead: how many tokens of the running step come before this one (a prefill step sees many tokens
 * layer by layer, so its later tokens count as if `ahead` ticks had already passed: counts and last use follow the
 * token, not the order of computing). Within a layer, tokens come in order. */
void policy_route(struct policy *p, uint32_t layer, const uint32_t *ids, const float *weights, uint32_t n,
                  uint32_t ahead);
void policy_insert(struct policy *p, uint32_t class_index, uint32_t key); /* becomes evictable */
void policy_remove(struct policy *p, uint32_t class_index, uint32_t key); /* pinned or gone */
/* The coldest, or POLICY_NONE; does not remove it. */
uint32_t policy_victim(struct policy *p, uint32_t class_index);
/* Orders two keys of any classes: negative if a is colder than b. Total: ties go by last use, then by key. */
int policy_compare(struct policy *p, uint32_t a, uint32_t b);
/* Walks every structure and asserts that it is sound (tests; O(keys)). */
void policy_check(struct policy *p);

#endif
