/* `expected`: the least expected next use, per expert the average of P(selected) and P(selected | whether it was
 * selected at the token before). Both are ratios of counts over the tokens of its layer, which decay by DECAY a token,
 * so that they follow the text; counts are kept when a key leaves, and across prompts. */
#include "expert/policy_private.h"

#include <stdlib.h>

#define DECAY 0.95f
#define TINY 1e-20f /* below it a count is 0: no denormal numbers */

struct expected {
    float *n, *n_kept; /* [n_keys] tokens that selected it; of them, those whose token before did too */
    uint32_t *last;    /* [n_keys] number of the layer's token that used it last; 0: none */
    uint32_t *now;     /* [n_layers] number of its newest token */
    float *n_tokens;   /* [n_layers] */
};

static size_t expected_array_bytes(const struct policy_shape *shape, uint32_t n_keys)
{
    return ((size_t)n_keys + 1) * (2 * sizeof(float) + sizeof(uint32_t)) +
           ((size_t)shape->n_layers + 1) * (sizeof(uint32_t) + sizeof(float));
}

/* No denominator is 0: the newest token alone adds 1 to it. */
static void expected_rate(struct policy *p, uint32_t layer, float *ratings)
{
    const struct expected *s = p->state;
    const uint32_t first = p->layers[layer].first_key, now = s->now[layer];
    const float n_tokens = s->n_tokens[layer];
    for (uint32_t e = 0; e < p->layers[layer].n_expert; e++) {
        const float n = s->n[first + e], kept = s->n_kept[first + e];
        const float after = s->last[first + e] == now ? kept / n : (n - kept) / (n_tokens - n);
        ratings[e] = 0.5f * (n / n_tokens) + 0.5f * after;
    }
}

static bool expected_begin(struct policy *p, const struct policy_shape *shape)
{
    struct expected *s = p->state;
    s->n = calloc((size_t)p->n_keys + 1, sizeof *s->n);
    s->n_kept = calloc((size_t)p->n_keys + 1, sizeof *s->n_kept);
    s->last = calloc((size_t)p->n_keys + 1, sizeof *s->last);
    s->now = calloc((size_t)p->n_layers + 1, sizeof *s->now);
    s->n_tokens = calloc((size_t)p->n_layers + 1, sizeof *s->n_tokens);
    return s->n && s->n_kept && s->last && s->now && s->n_tokens;
}

static void expected_end(struct policy *p)
{
    struct expected *s = p->state;
    free(s->n_tokens);
    free(s->now);
    free(s->last);
    free(s->n_kept);
    free(s->n);
}

static void decay(float *counts, uint32_t n)
{
    for (uint32_t e = 0; e < n; e++) {
        const float x = counts[e] * DECAY;
        counts[e] = x < TINY ? 0 : x;
    }
}

static void expected_route(struct policy *p, uint32_t layer, const uint32_t *ids, uint32_t n, uint64_t at)
{
    struct expected *s = p->state;
    const uint32_t first = p->layers[layer].first_key, now = ++s->now[layer];
    decay(s->n + first, p->layers[layer].n_expert);
    decay(s->n_kept + first, p->layers[layer].n_expert);
    s->n_tokens[layer] = s->n_tokens[layer] * DECAY + 1;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t key = first + ids[i];
        if (now > 1 && s->last[key] == now - 1) s->n_kept[key] += 1;
        s->n[key] += 1;
        s->last[key] = now;
    }
}

const struct policy_ops policy_expected_ops = {
    .name = "expected",
    .state_bytes = sizeof(struct expected),
    .array_bytes = expected_array_bytes,
    .begin = expected_begin,
    .end = expected_end,
    .route = expected_route,
    .rate = expected_rate,
};
