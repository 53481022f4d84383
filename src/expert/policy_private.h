/* What the policies share behind policy.h: the layers, the clock, the last use of each key and the set of evictable
 * ones. A policy is a table of functions; its own state follows struct policy in one allocation. */
#ifndef EXPERT_POLICY_PRIVATE_H
#define EXPERT_POLICY_PRIVATE_H

#include "expert/policy.h"

#define POLICY_NO_CLASS UINT16_MAX

struct policy_ops {
    const char *name;
    size_t state_bytes;
    /* Memory besides the state. */
    size_t (*array_bytes)(const struct policy_shape *shape, uint32_t n_keys);
    bool (*begin)(struct policy *p, const struct policy_shape *shape); /* false: no memory; end is called then too */
    void (*end)(struct policy *p);
    void (*prompt)(struct policy *p); /* may be NULL */
    /* at: the token's time. Stamps are still those before it; the policy gives them by policy_stamp. */
    void (*route)(struct policy *p, uint32_t layer, const uint32_t *ids, uint32_t n, uint64_t at);
    void (*insert)(struct policy *p, uint32_t key); /* its class is set already */
    void (*remove)(struct policy *p, uint32_t key); /* its class is still set */
    uint32_t (*victim)(struct policy *p, uint32_t class_index);
    int (*compare)(struct policy *p, uint32_t a, uint32_t b);
    void (*check)(struct policy *p);
};

extern const struct policy_ops policy_lru_ops, policy_lfu_ops, policy_hotness_ops, policy_freq_age_ops,
    policy_expected_ops, policy_recall_ops;

struct policy {
    const struct policy_ops *ops;
    struct policy_layer *layers; /* [n_layers] */
    uint32_t n_layers, n_classes, n_keys;
    uint64_t clock;        /* tokens */
    uint64_t prompt_clock; /* when the prompt began: later than all stamps of prompts before */
    uint64_t stamp_max;    /* the latest last use that was given */
    uint64_t *stamps;      /* [n_keys] clock of the last use; 0: never */
    uint16_t *class_of;    /* [n_keys]; POLICY_NO_CLASS: not evictable now */
    void *state;           /* the policy's own, zero at begin */
};

/* Order of last use, ties by key. */
int policy_compare_use(const struct policy *p, uint32_t a, uint32_t b);
/* A use at this time; uses may be told out of order. The key is in no structure that is ordered by its last use. */
void policy_stamp(struct policy *p, uint32_t key, uint64_t at);

#endif
