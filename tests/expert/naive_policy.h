/* What the policies must do, written so that it cannot be wrong: every key is touched at every step.
 *
 * Heat is a double that is really halved, for every key, every 16 tokens; exact while a prompt has fewer than 32 such
 * epochs, which the tests see to. */
#ifndef TESTS_EXPERT_NAIVE_POLICY_H
#define TESTS_EXPERT_NAIVE_POLICY_H

#include "expert/policy.h"

#include <string.h>

#define NAIVE_KEYS_MAX 512
#define NAIVE_NO_CLASS 255

struct naive_policy {
    enum policy_kind kind;
    uint32_t n_keys;
    uint64_t ticks, start, latest; /* now, begin of the prompt, the latest use ever */
    double heat[NAIVE_KEYS_MAX];
    uint64_t use[NAIVE_KEYS_MAX];
    bool touched[NAIVE_KEYS_MAX]; /* in this prompt */
    uint8_t class_of[NAIVE_KEYS_MAX];
};

static inline void naive_init(struct naive_policy *n, enum policy_kind kind, uint32_t n_keys)
{
    *n = (struct naive_policy){.kind = kind, .n_keys = n_keys, .ticks = 1, .start = 1};
    memset(n->class_of, NAIVE_NO_CLASS, sizeof n->class_of);
}

static inline void naive_prompt(struct naive_policy *n)
{
    memset(n->heat, 0, sizeof n->heat);
    memset(n->touched, 0, sizeof n->touched);
    if (n->ticks <= n->latest) n->ticks = n->latest + 1;
    n->start = n->ticks;
}

static inline void naive_tick(struct naive_policy *n)
{
    n->ticks++;
    if ((n->ticks - n->start) % 16 == 0)
        for (uint32_t i = 0; i < n->n_keys; i++) n->heat[i] /= 2;
}

static inline void naive_touch(struct naive_policy *n, uint32_t key, uint32_t ahead)
{
    if (n->ticks + ahead > n->use[key]) n->use[key] = n->ticks + ahead;
    if (n->use[key] > n->latest) n->latest = n->use[key];
    n->touched[key] = true;
}

static inline void naive_selected(struct naive_policy *n, uint32_t key, uint32_t ahead)
{
    double heat = 1;
    for (uint64_t t = n->ticks + 1; t <= n->ticks + ahead; t++)
        if ((t - n->start) % 16 == 0) heat *= 2; /* what it will be worth once its token has come */
    n->heat[key] += heat;
    naive_touch(n, key, ahead);
}

static inline void naive_insert(struct naive_policy *n, uint8_t class_index, uint32_t key)
{
    if (!n->touched[key]) naive_touch(n, key, 0);
    n->class_of[key] = class_index;
}

static inline int naive_compare(const struct naive_policy *n, uint32_t a, uint32_t b)
{
    if (n->kind == POLICY_HOTNESS && n->heat[a] != n->heat[b]) return n->heat[a] < n->heat[b] ? -1 : 1;
    if (n->use[a] != n->use[b]) return n->use[a] < n->use[b] ? -1 : 1;
    return a < b ? -1 : a > b;
}

static inline uint32_t naive_victim(const struct naive_policy *n, uint8_t class_index)
{
    uint32_t best = POLICY_NONE;
    for (uint32_t i = 0; i < n->n_keys; i++)
        if (n->class_of[i] == class_index && (best == POLICY_NONE || naive_compare(n, i, best) < 0)) best = i;
    return best;
}

#endif
