#include "model/router.h"

#include "base/math.h"

#include <math.h>
#include <string.h>

/* Whether (value a, id i) comes before (value b, id j): larger value first, ties to the lower id, NaN last. */
static bool before(float a, uint32_t i, float b, uint32_t j)
{
    if (isnan(a)) return isnan(b) && i < j;
    if (isnan(b)) return true;
    return a > b || (a == b && i < j);
}

/* Keeps the k best seen so far as a list ordered best first: k is small, so insertion is the fastest way. */
void router_rank(const float *p, uint32_t n, uint32_t k, uint32_t *ids)
{
    uint32_t have = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (have == k && p[i] <= p[ids[k - 1]]) continue; /* most of them; what follows knows of NaN */
        if (have == k && !before(p[i], i, p[ids[k - 1]], ids[k - 1])) continue;
        uint32_t at = have < k ? have++ : k - 1;
        for (; at > 0 && before(p[i], i, p[ids[at - 1]], ids[at - 1]); at--) ids[at] = ids[at - 1];
        ids[at] = i;
    }
}

static void sort_ids(uint32_t *ids, uint32_t k)
{
    for (uint32_t i = 1; i < k; i++) {
        uint32_t id = ids[i], at = i;
        for (; at > 0 && ids[at - 1] > id; at--) ids[at] = ids[at - 1];
        ids[at] = id;
    }
}

/* Logits to probabilities. */
static void gate(const struct kernel_table *t, enum router_gate kind, float *x, uint32_t n)
{
    switch (kind) {
    case ROUTER_SOFTMAX: t->softmax(x, n); return;
    case ROUTER_SIGMOID:
        for (uint32_t i = 0; i < n; i++) x[i] = 1.0f / (1.0f + math_exp(-x[i]));
        return;
    case ROUTER_SQRT_SOFTPLUS:
        for (uint32_t i = 0; i < n; i++) x[i] = sqrtf(x[i] > 20.0f ? x[i] : math_log(1.0f + math_exp(x[i])));
        return;
    case ROUTER_SOFTMAX_SELECTED: return; /* the softmax comes after the choice */
    }
}

/* Experts outside of the best groups drop out. A group counts its two best experts. */
static void limit_groups(const struct router_kind *kind, float *scores, uint32_t n)
{
    float sums[MODEL_EXPERTS_MAX] = {0};
    uint32_t best[MODEL_EXPERTS_MAX];
    const uint32_t size = n / kind->n_groups;
    for (uint32_t g = 0; g < kind->n_groups; g++) {
        uint32_t two[2];
        router_rank(scores + g * size, size, 2, two);
        sums[g] = scores[g * size + two[0]] + scores[g * size + two[1]];
    }
    router_rank(sums, kind->n_groups, kind->n_groups_used, best);
    for (uint32_t g = 0; g < kind->n_groups; g++) {
        bool in = false;
        for (uint32_t i = 0; i < kind->n_groups_used; i++) in = in || best[i] == g;
        for (uint32_t e = g * size; !in && e < (g + 1) * size; e++) scores[e] = -INFINITY;
    }
}

/* probs and, where they differ, logits before the gate: what the choice goes by. */
static void score(const struct router_kind *kind, float *scores, const float *selection_bias, uint32_t n)
{
    if (selection_bias)
        for (uint32_t i = 0; i < n; i++) scores[i] += selection_bias[i];
    if (kind->n_groups > 1) limit_groups(kind, scores, n);
}

void router_scores(const struct kernel_table *t, const struct router_kind *kind, float *logits,
                   const float *selection_bias, uint32_t n_expert)
{
    if (!selection_bias && kind->n_groups <= 1) return; /* every gate keeps the order of its logits */
    if (!kind->by_logit) gate(t, kind->gate, logits, n_expert);
    score(kind, logits, selection_bias, n_expert);
}

/* The weights of the chosen ones. */
static void weigh(const struct kernel_table *t, const struct router_kind *kind, const float *probs, uint32_t k,
                  const uint32_t *ids, float *weights)
{
    for (uint32_t i = 0; i < k; i++) weights[i] = probs[ids[i]];
    if (kind->gate == ROUTER_SOFTMAX_SELECTED) t->softmax(weights, k);
    if (kind->normalise) {
        const float least =
            6.103515625e-5f; /* 2^-14, the smallest normal half: the clamp of the reference implementation */
        float sum = 0;
        for (uint32_t i = 0; i < k; i++) sum += weights[i];
        if (sum < least) sum = least;
        for (uint32_t i = 0; i < k; i++) weights[i] /= sum;
    }
    for (uint32_t i = 0; i < k; i++) weights[i] *= kind->scale;
}

void router_choose(const struct kernel_table *t, const struct router_kind *kind, float *logits,
                   const float *selection_bias, uint32_t n_expert, uint32_t k, uint32_t *ids, float *weights)
{
    float scores[MODEL_EXPERTS_MAX];
    if (kind->by_logit) memcpy(scores, logits, n_expert * sizeof *scores);
    gate(t, kind->gate, logits, n_expert);
    if (!kind->by_logit) memcpy(scores, logits, n_expert * sizeof *scores);
    score(kind, scores, selection_bias, n_expert);
    router_rank(scores, n_expert, k, ids);
    sort_ids(ids, k);
    weigh(t, kind, logits, k, ids, weights);
}

void router_weights(const struct kernel_table *t, const struct router_kind *kind, float *logits, uint32_t n_expert,
                    uint32_t k, const uint32_t *ids, float *weights)
{
    gate(t, kind->gate, logits, n_expert);
    weigh(t, kind, logits, k, ids, weights);
}
