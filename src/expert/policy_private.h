/* What the policies share behind policy.h: the layers, the clock, the last use of each key, the ratings and the set of
 * evictable keys. A policy says in which order experts leave, by a table of functions; its own state follows struct
 * policy in one allocation. Finding the first in that order is the same for all (policy_rated.c). */
#ifndef EXPERT_POLICY_PRIVATE_H
#define EXPERT_POLICY_PRIVATE_H

#include "expert/policy.h"
#include "expert/policy_rated.h"

/* Keys are ordered by rating, then by what `tie` says, then by last use, then by number. Between two tokens of its
 * layer and two prompts a key's rating stands still. */
struct policy_ops {
    const char *name;
    size_t state_bytes;
    /* Memory besides the state; NULL: none. */
    size_t (*array_bytes)(const struct policy_shape *shape, uint32_t n_keys);
    bool (*begin)(struct policy *p, const struct policy_shape *shape); /* false: no memory; end is called then too */
    void (*end)(struct policy *p);
    void (*prompt)(struct policy *p);
    /* at: the token's time. Stamps are still those before it. */
    void (*route)(struct policy *p, uint32_t layer, const uint32_t *ids, uint32_t n, uint64_t at);
    /* Writes the ratings of one layer's experts, none NaN or negative, when they are looked at for the first time after
     * a token of the layer. NULL: `route` keeps them. They only rise then, and only those of the chosen. */
    void (*rate)(struct policy *p, uint32_t layer, float *ratings /* [n_expert] */);
    /* Two keys of equal rating: negative if a is colder, 0 if last use decides; NULL: it does. */
    int (*tie)(const struct policy *p, uint32_t a, uint32_t b);
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
    struct rated rated;
    void *state; /* the policy's own, zero at begin */
};

/* Order of last use, ties by key. */
static inline int policy_compare_use(const struct policy *p, uint32_t a, uint32_t b)
{
    if (p->stamps[a] != p->stamps[b]) return p->stamps[a] < p->stamps[b] ? -1 : 1;
    return a < b ? -1 : a > b;
}

#endif
