/* `freq-age`: the least count / (age + 1), where age is the number of its layer's tokens since the last use. Counts are
 * kept when a key leaves, and across prompts. */
#include "expert/policy_private.h"

#include <stdlib.h>

struct use {
    uint32_t count;
    uint32_t last; /* number of the layer's token that used it last */
};

struct freq_age {
    struct use *uses;   /* [n_keys] */
    uint32_t *n_tokens; /* [n_layers] */
};

static size_t freq_age_array_bytes(const struct policy_shape *shape, uint32_t n_keys)
{
    return ((size_t)n_keys + 1) * sizeof(struct use) + ((size_t)shape->n_layers + 1) * sizeof(uint32_t);
}

static void freq_age_rate(struct policy *p, uint32_t layer, float *ratings)
{
    const struct freq_age *s = p->state;
    const struct use *u = s->uses + p->layers[layer].first_key;
    const uint32_t now = s->n_tokens[layer];
    for (uint32_t e = 0; e < p->layers[layer].n_expert; e++)
        ratings[e] = (float)u[e].count / (float)(now - u[e].last + 1);
}

static bool freq_age_begin(struct policy *p, const struct policy_shape *shape)
{
    struct freq_age *s = p->state;
    s->uses = calloc((size_t)p->n_keys + 1, sizeof *s->uses);
    s->n_tokens = calloc((size_t)p->n_layers + 1, sizeof *s->n_tokens);
    return s->uses && s->n_tokens;
}

static void freq_age_end(struct policy *p)
{
    struct freq_age *s = p->state;
    free(s->n_tokens);
    free(s->uses);
}

static void freq_age_route(struct policy *p, uint32_t layer, const uint32_t *ids, uint32_t n, uint64_t at)
{
    struct freq_age *s = p->state;
    struct use *u = s->uses + p->layers[layer].first_key;
    s->n_tokens[layer]++; /* wraps after 4 billion tokens: ages are differences */
    for (uint32_t i = 0; i < n; i++) u[ids[i]] = (struct use){u[ids[i]].count + 1, s->n_tokens[layer]};
}

const struct policy_ops policy_freq_age_ops = {
    .name = "freq-age",
    .state_bytes = sizeof(struct freq_age),
    .array_bytes = freq_age_array_bytes,
    .begin = freq_age_begin,
    .end = freq_age_end,
    .route = freq_age_route,
    .rate = freq_age_rate,
};
