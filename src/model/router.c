#include "model/router.h"

#include <math.h>

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

void router_softmax_topk(const struct kernel_table *t, const struct router_kind *kind, float *logits, uint32_t n_expert,
                         uint32_t k, uint32_t *ids, float *weights)
{
    t->softmax(logits, n_expert);
    router_rank(logits, n_expert, k, ids);
    sort_ids(ids, k);
    float sum = 0;
    for (uint32_t i = 0; i < k; i++) sum += weights[i] = logits[ids[i]];
    if (kind->normalise) {
        const float least =
            6.103515625e-5f; /* 2^-14, the smallest normal half: the clamp of the reference implementation */
        if (sum < least) sum = least;
        for (uint32_t i = 0; i < k; i++) weights[i] /= sum;
    }
    for (uint32_t i = 0; i < k; i++) weights[i] *= kind->scale;
}
