/* `recall`: keeps what followed the tokens that were routed like the present one.
 *
 * Each layer remembers the choices of its last `window` tokens. Let S(t) be the choice of the present token t, S(u) one
 * of the past. How alike they are, sim(u) = (|S(t) and S(u)| / |S(t)|)^4, says how much what followed u is worth as a
 * guess of what follows t:
 *
 *     vote(e) = sum over u of sim(u) * (1[e in S(u+1)] + 1/2 * 1[e in S(u+2)] + 1/4 * 1[e in S(u+3)]) / (0.3 + sum sim)
 *
 * The rating adds how often and how lately: rating(e) = fast(e) + slow(e) + 2.5 * vote(e), where fast and slow are sums
 * of (1 - a) * a^age over the past selections of e with a = 0.6 and a = 0.95. Choices of the past stay when an expert
 * leaves, and across prompts. How the numbers were found, and what their neighbours give: docs/CACHE-MEASURED.md.
 *
 * What a token costs: the two sums decay with each token of a prefill; the comparison, window * top-k steps, and the
 * votes, as many, are made when a victim is asked for. Only float additions, multiplications and divisions in a fixed
 * order: the same everywhere. */
#include "expert/policy_private.h"

#include <stdlib.h>
#include <string.h>

#define WINDOW 128
#define FAST 0.6f
#define SLOW 0.95f
#define RECALL_WEIGHT 2.5f
#define UNSURE 0.3f /* sum of sim at which half-way is trusted */
#define TINY 1e-20f /* below it a sum is 0: no denormal numbers */
#define FOLLOWERS 3u

struct recall_layer {
    uint32_t n_tokens; /* remembered, at most window */
    uint32_t last;     /* place of the newest in the ring */
    size_t ring;       /* index of its ring in `past` */
};

struct recall {
    struct recall_layer *layers; /* [n_layers] */
    float *fast, *slow;          /* [n_keys] */
    uint16_t *past;              /* for each layer [window][n_used] experts; filled up with n_expert */
    /* While a layer is rated: */
    float *alike;  /* [window + FOLLOWERS + 1] sim by age: 1 is the token before the newest; 0 where there is none */
    float *votes;  /* [largest n_expert + 1] the last takes what fills up */
    uint8_t *here; /* [largest n_expert + 1] 1: in S(t) */
    uint32_t window;
    float recall_weight;
};

static uint32_t window_of(const struct policy_shape *shape) { return shape->window ? shape->window : WINDOW; }

static size_t past_length(const struct policy_shape *shape)
{
    size_t n = 0;
    for (uint32_t i = 0; i < shape->n_layers; i++)
        if (shape->layers[i].n_expert) n += (size_t)shape->layers[i].n_used * window_of(shape);
    return n + 1;
}

static size_t widest(const struct policy_shape *shape)
{
    size_t n = 0;
    for (uint32_t i = 0; i < shape->n_layers; i++)
        if (shape->layers[i].n_expert > n) n = shape->layers[i].n_expert;
    return n + 1;
}

static size_t recall_array_bytes(const struct policy_shape *shape, uint32_t n_keys)
{
    return ((size_t)shape->n_layers + 1) * sizeof(struct recall_layer) + ((size_t)n_keys + 1) * 2 * sizeof(float) +
           past_length(shape) * sizeof(uint16_t) + (window_of(shape) + FOLLOWERS + 1) * sizeof(float) +
           widest(shape) * (sizeof(float) + 1);
}

/* Fills alike; returns its sum. */
static float compare_past(struct recall *s, const struct recall_layer *l, uint32_t n_used, uint32_t n_expert)
{
    const uint16_t *past = s->past + l->ring, *now = past + (size_t)l->last * n_used;
    memset(s->here, 0, n_expert + 1);
    uint32_t n_now = 0;
    for (uint32_t k = 0; k < n_used; k++) {
        s->here[now[k]] = now[k] != n_expert;
        n_now += now[k] != n_expert;
    }
    const float one = 1.0f / (float)(n_now ? n_now : 1);
    float sum = 0;
    for (uint32_t age = 1, u = l->last; age < l->n_tokens; age++) {
        u = u ? u - 1 : s->window - 1;
        uint32_t n = 0;
        for (uint32_t k = 0; k < n_used; k++) n += s->here[past[(size_t)u * n_used + k]];
        const float share = (float)n * one;
        s->alike[age] = share * share * share * share;
        sum += s->alike[age];
    }
    for (uint32_t age = l->n_tokens; age < l->n_tokens + FOLLOWERS; age++) s->alike[age] = 0;
    return sum;
}

static void recall_rate(struct policy *p, uint32_t layer, float *ratings)
{
    struct recall *s = p->state;
    const struct recall_layer *l = &s->layers[layer];
    const uint32_t n_expert = p->layers[layer].n_expert, n_used = p->layers[layer].n_used;
    const float *fast = s->fast + p->layers[layer].first_key, *slow = s->slow + p->layers[layer].first_key;
    const float sum = compare_past(s, l, n_used, n_expert), *alike = s->alike;
    memset(s->votes, 0, ((size_t)n_expert + 1) * sizeof *s->votes);
    for (uint32_t age = 0, at = l->last; age < l->n_tokens; age++, at = at ? at - 1 : s->window - 1) {
        const float worth = alike[age + 1] + 0.5f * alike[age + 2] + 0.25f * alike[age + 3];
        const uint16_t *choice = s->past + l->ring + (size_t)at * n_used;
        if (worth == 0) continue;
        for (uint32_t k = 0; k < n_used; k++) s->votes[choice[k]] += worth;
    }
    const float factor = s->recall_weight / (UNSURE + sum);
    for (uint32_t e = 0; e < n_expert; e++) ratings[e] = fast[e] + slow[e] + factor * s->votes[e];
}

static void decay(float *sums, uint32_t n, float a)
{
    for (uint32_t e = 0; e < n; e++) {
        const float x = sums[e] * a;
        sums[e] = x < TINY ? 0 : x;
    }
}

static void recall_route(struct policy *p, uint32_t layer, const uint32_t *ids, uint32_t n, uint64_t at)
{
    struct recall *s = p->state;
    struct recall_layer *l = &s->layers[layer];
    const uint32_t n_expert = p->layers[layer].n_expert, n_used = p->layers[layer].n_used;
    float *fast = s->fast + p->layers[layer].first_key, *slow = s->slow + p->layers[layer].first_key;
    l->last = l->last + 1 < s->window ? l->last + 1 : 0;
    if (l->n_tokens < s->window) l->n_tokens++;
    uint16_t *choice = s->past + l->ring + (size_t)l->last * n_used;
    for (uint32_t i = 0; i < n_used; i++) choice[i] = (uint16_t)(i < n ? ids[i] : n_expert);
    for (uint32_t i = 0; i < n; i++) {
        fast[ids[i]] += 1 - FAST;
        slow[ids[i]] += 1 - SLOW;
    }
    decay(fast, n_expert, FAST);
    decay(slow, n_expert, SLOW);
}

static bool recall_begin(struct policy *p, const struct policy_shape *shape)
{
    struct recall *s = p->state;
    s->window = window_of(shape);
    s->recall_weight = shape->recall_weight > 0 ? shape->recall_weight : RECALL_WEIGHT;
    s->layers = calloc((size_t)p->n_layers + 1, sizeof *s->layers);
    s->fast = calloc((size_t)p->n_keys + 1, sizeof *s->fast);
    s->slow = calloc((size_t)p->n_keys + 1, sizeof *s->slow);
    s->past = calloc(past_length(shape), sizeof *s->past);
    s->alike = calloc((size_t)s->window + FOLLOWERS + 1, sizeof *s->alike);
    s->votes = calloc(widest(shape), sizeof *s->votes);
    s->here = calloc(widest(shape), 1);
    if (!s->layers || !s->fast || !s->slow || !s->past || !s->alike || !s->votes || !s->here) return false;
    size_t ring = 0;
    for (uint32_t i = 0; i < p->n_layers; i++) {
        s->layers[i].ring = ring;
        if (p->layers[i].n_expert) ring += (size_t)p->layers[i].n_used * s->window;
    }
    return true;
}

static void recall_end(struct policy *p)
{
    struct recall *s = p->state;
    free(s->here);
    free(s->votes);
    free(s->alike);
    free(s->past);
    free(s->slow);
    free(s->fast);
    free(s->layers);
}

const struct policy_ops policy_recall_ops = {
    .name = "recall",
    .state_bytes = sizeof(struct recall),
    .array_bytes = recall_array_bytes,
    .begin = recall_begin,
    .end = recall_end,
    .route = recall_route,
    .rate = recall_rate,
};
