/* A cache whose slots hold no bytes: which experts would be there, by the policies' own code. For `replay`, which tells
 * it a recorded routing, and `ghost`, which tells it the running one.
 *
 * Does what the cache does with a want: hits are held first, then room is found for the others in order; what is held
 * is no victim, and a want that needs more than there is goes in waves. Two simplifications: all reads arrive at once,
 * and room is counted in bytes over all classes, not in chunks of one class (in the cache a chunk changes class). */
#ifndef EXPERT_SLOTS_SIM_H
#define EXPERT_SLOTS_SIM_H

#include "expert/policy.h"

struct slots_config {
    enum policy_kind policy;
    const struct policy_shape *shape; /* its layers outlive the simulation */
    const uint64_t *slot_bytes;       /* [n_classes] of one expert, in any unit (copied) */
    uint64_t room_bytes;              /* in the same unit */
    bool room_each;                   /* each class has so much room of its own; else all have it together */
    uint64_t kept_bytes_max;          /* of room_bytes: for what slots_keep names */
};

struct slots_sim {
    struct policy *policy; /* told of the routing (policy_route, policy_tick, policy_prompt) by the owner */
    uint64_t evictions;

    /* private */
    const struct policy_layer *layers;
    uint32_t n_keys, n_rooms, n_held;
    uint64_t room_bytes, kept_bytes_max, kept_bytes;
    uint64_t *slot_bytes; /* [n_classes] */
    uint64_t *used_bytes; /* [n_rooms] */
    uint8_t *state;       /* [n_keys] */
    uint32_t *held;       /* [largest n_expert] keys of the running want that are out of the policy's set */
    uint32_t *missing;    /* [largest n_expert] */
    uint32_t n_classes;
    uint32_t *class_of; /* [n_keys] */
};

/* Nothing is allocated later. On failure nothing is left. */
enum sluice_status slots_create(struct slots_sim *s, const struct slots_config *config, struct sluice_error *err);
void slots_destroy(struct slots_sim *s); /* of zeroes, too */
/* The most that slots_create allocates. */
size_t slots_memory_bytes(const struct policy_shape *shape);

/* n distinct experts of a layer are wanted; returns how many were there. */
uint32_t slots_want(struct slots_sim *s, uint32_t layer, const uint32_t *ids, uint32_t n);
bool slots_there(const struct slots_sim *s, uint32_t key);
/* Between wants. keep: once the expert is there it stays, while those that stay fit into kept_bytes_max; who came first
 * stays. Otherwise it may leave again. */
void slots_keep(struct slots_sim *s, uint32_t key, bool keep);

#endif
