/* What the policies must do, written so that it cannot be wrong: every key is touched at every step.
 *
 * Counts are doubles that are really halved, for every key; exact while there are fewer than 32 such halvings, which
 * the tests see to. Ratings are worked out from the layer's past as the formulas say, for all its experts, with each
 * token; in floats and in the same order, so that ties are ties. Layers are equally large. */
#ifndef TESTS_EXPERT_NAIVE_POLICY_H
#define TESTS_EXPERT_NAIVE_POLICY_H

#include "expert/policy.h"

#include <string.h>

#define NAIVE_KEYS_MAX 512
#define NAIVE_LAYERS_MAX 16
#define NAIVE_USED_MAX 4
#define NAIVE_PAST 128 /* tokens that `recall` remembers */
#define NAIVE_NO_CLASS 255

struct naive_choice {
    uint32_t ids[NAIVE_USED_MAX], n;
};

struct naive_policy {
    enum policy_kind kind;
    uint32_t n_keys, n_each; /* keys; experts of a layer */
    uint32_t halve_ticks;
    uint64_t ticks, start, heat_start, latest; /* now, begin of the prompt, of the counting, the latest use ever */
    double heat[NAIVE_KEYS_MAX];
    float rating[NAIVE_KEYS_MAX], fast[NAIVE_KEYS_MAX], slow[NAIVE_KEYS_MAX];
    float often[NAIVE_KEYS_MAX], kept[NAIVE_KEYS_MAX]; /* selections, and those right after one, decaying */
    uint32_t n[NAIVE_KEYS_MAX], age[NAIVE_KEYS_MAX];   /* selections; in tokens of the layer */
    float alike[NAIVE_PAST + 3];                       /* the layer's tokens to its newest, for `recall` */
    uint64_t use[NAIVE_KEYS_MAX];
    uint8_t class_of[NAIVE_KEYS_MAX];
    struct {
        float n_tokens; /* decaying */
        uint32_t n_past;
        struct naive_choice past[NAIVE_PAST]; /* [0]: the newest */
    } layers[NAIVE_LAYERS_MAX];
};

static inline void naive_init(struct naive_policy *n, enum policy_kind kind, uint32_t n_keys, uint32_t n_each,
                              uint32_t halve_ticks)
{
    memset(n, 0, sizeof *n);
    n->kind = kind;
    n->n_keys = n_keys;
    n->n_each = n_each;
    n->ticks = n->start = n->heat_start = 1;
    n->halve_ticks = halve_ticks ? halve_ticks : kind == POLICY_HOTNESS ? 16 : 4096;
    memset(n->class_of, NAIVE_NO_CLASS, sizeof n->class_of);
}

static inline void naive_tick(struct naive_policy *n)
{
    n->ticks++;
    if ((n->ticks - n->heat_start) % n->halve_ticks == 0)
        for (uint32_t i = 0; i < n->n_keys; i++) n->heat[i] /= 2;
}

static inline void naive_prompt(struct naive_policy *n)
{
    while (n->ticks <= n->latest) naive_tick(n);
    n->start = n->ticks;
    if (n->kind != POLICY_HOTNESS) return;
    memset(n->heat, 0, sizeof n->heat);
    n->heat_start = n->start;
}

static inline void naive_touch(struct naive_policy *n, uint32_t key, uint32_t ahead)
{
    if (n->ticks + ahead > n->use[key]) n->use[key] = n->ticks + ahead;
    if (n->use[key] > n->latest) n->latest = n->use[key];
}

static inline bool naive_chose(const struct naive_choice *c, uint32_t expert)
{
    for (uint32_t i = 0; i < c->n; i++)
        if (c->ids[i] == expert) return true;
    return false;
}

static inline float naive_decay(float x, float by) { return x * by < 1e-20f ? 0 : x * by; }

static inline float naive_alike(const struct naive_choice *now, const struct naive_choice *then)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < then->n; i++) n += naive_chose(now, then->ids[i]);
    float share = (float)n * (1.0f / (float)now->n);
    return share * share * share * share;
}

static inline float naive_recall(const struct naive_policy *n, uint32_t layer, uint32_t expert)
{
    const struct naive_choice *past = n->layers[layer].past;
    const float *alike = n->alike;
    uint32_t n_past = n->layers[layer].n_past, key = layer * n->n_each + expert;
    float sum = 0, vote = 0;
    for (uint32_t u = 1; u < n_past; u++) sum += alike[u];
    for (uint32_t v = 0; v < n_past; v++)
        if (naive_chose(&past[v], expert)) vote += alike[v + 1] + 0.5f * alike[v + 2] + 0.25f * alike[v + 3];
    return n->fast[key] + n->slow[key] + 2.5f / (0.3f + sum) * vote;
}

static inline float naive_rating(const struct naive_policy *n, uint32_t layer, uint32_t expert)
{
    uint32_t key = layer * n->n_each + expert;
    float often = n->often[key], kept = n->kept[key], n_tokens = n->layers[layer].n_tokens;
    if (n->kind == POLICY_RECALL) return naive_recall(n, layer, expert);
    if (n->kind == POLICY_FREQ_AGE) return (float)n->n[key] / (float)(n->age[key] + 1);
    bool last = n->age[key] == 0 && n->n[key];
    return 0.5f * (often / n_tokens) + 0.5f * (last ? kept / often : (often - kept) / (n_tokens - often));
}

static inline void naive_route(struct naive_policy *n, uint32_t layer, const uint32_t *ids, uint32_t n_ids,
                               uint32_t ahead)
{
    struct naive_choice *past = n->layers[layer].past;
    memmove(past + 1, past, (NAIVE_PAST - 1) * sizeof *past);
    past[0].n = n_ids;
    memcpy(past[0].ids, ids, n_ids * sizeof *ids);
    n->layers[layer].n_tokens = n->layers[layer].n_tokens * 0.95f + 1;
    if (n->layers[layer].n_past < NAIVE_PAST) n->layers[layer].n_past++;
    double heat = 1;
    for (uint64_t t = n->ticks + 1; t <= n->ticks + ahead; t++)
        if ((t - n->heat_start) % n->halve_ticks == 0) heat *= 2; /* what it will be worth once its token has come */
    for (uint32_t e = 0; e < n->n_each; e++) {
        uint32_t key = layer * n->n_each + e;
        bool chosen = naive_chose(&past[0], e);
        n->often[key] = naive_decay(n->often[key], 0.95f);
        n->kept[key] = naive_decay(n->kept[key], 0.95f);
        if (chosen) {
            naive_touch(n, key, ahead);
            n->heat[key] += heat;
            n->fast[key] += 1 - 0.6f;
            n->slow[key] += 1 - 0.95f;
            n->kept[key] += n->age[key] == 0 && n->n[key] ? 1 : 0;
            n->often[key] += 1;
            n->n[key]++;
        }
        n->age[key] = chosen ? 0 : n->age[key] + 1;
        n->fast[key] = naive_decay(n->fast[key], 0.6f);
        n->slow[key] = naive_decay(n->slow[key], 0.95f);
    }
    memset(n->alike, 0, sizeof n->alike);
    for (uint32_t u = 1; u < n->layers[layer].n_past; u++) n->alike[u] = naive_alike(&past[0], &past[u]);
    for (uint32_t e = 0; e < n->n_each; e++) n->rating[layer * n->n_each + e] = naive_rating(n, layer, e);
}

static inline void naive_insert(struct naive_policy *n, uint8_t class_index, uint32_t key)
{
    if (n->use[key] < n->start) naive_touch(n, key, 0);
    n->class_of[key] = class_index;
}

static inline int naive_compare(const struct naive_policy *n, uint32_t a, uint32_t b)
{
    bool counts = n->kind == POLICY_HOTNESS || n->kind == POLICY_LFU, rates = n->kind >= POLICY_FREQ_AGE;
    if (counts && n->heat[a] != n->heat[b]) return n->heat[a] < n->heat[b] ? -1 : 1;
    if (rates && n->rating[a] != n->rating[b]) return n->rating[a] < n->rating[b] ? -1 : 1;
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
