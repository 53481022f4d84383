/* A trace through a cache of slots that hold no bytes: the same policies, told the same, and what would have been hit.
 */
#ifndef EXPERT_REPLAY_H
#define EXPERT_REPLAY_H

#include "expert/policy.h"
#include "expert/trace.h"

struct replay_result {
    uint64_t hits, misses, read_bytes, n_tokens; /* of decode */
    uint64_t all_hits, all_misses, evictions;    /* with the prompts that warmed it */
};

struct replay_config {
    enum policy_kind policy;
    /* Slots of each layer: tokens come one by one. 0: `slots` of all layers together, and steps as they were recorded:
     * what the engine does if all experts are of one size. */
    uint32_t slots_per_layer;
    uint32_t slots;
    struct policy_shape tuning; /* its parameters alone count */
};

/* A step's own experts are never victims; of a step that needs more than there is, not those that came last. */
enum sluice_status replay_run(const struct trace *t, const struct replay_config *config, struct replay_result *out,
                              struct sluice_error *err);
/* The limit: evicts what is used again last (Belady 1966). Per layer. */
enum sluice_status replay_belady(const struct trace *t, uint32_t slots_per_layer, struct replay_result *out,
                                 struct sluice_error *err);
/* The largest top-k of the layers. */
uint32_t replay_n_used(const struct trace *t);

#endif
