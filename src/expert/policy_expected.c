/* `expected`: the least expected next use, per expert the average of P(selected) and P(selected | whether it was
 * selected at the token before), both counted over the tokens of its layer. Counts are kept when a key leaves, and
 * across prompts. */
#include "expert/policy_rated.h"

#include <stdlib.h>

struct chances {
    uint32_t n;      /* tokens that selected it */
    uint32_t n_kept; /* of them, those whose token before did too */
    uint32_t last;   /* number of the layer's token that used it last */
};

struct expected {
    struct rated rated;
    struct chances *keys; /* [n_keys] */
    uint32_t *n_tokens;   /* [n_layers] */
};

static size_t expected_array_bytes(const struct policy_shape *shape, uint32_t n_keys)
{
    return rated_array_bytes(shape, n_keys) + ((size_t)n_keys + 1) * sizeof(struct chances) +
           ((size_t)shape->n_layers + 1) * sizeof(uint32_t);
}

static void expected_rate(struct policy *p, uint32_t layer, float *ratings)
{
    const struct expected *s = p->state;
    const struct chances *c = s->keys + p->layers[layer].first_key;
    const uint32_t n_tokens = s->n_tokens[layer];
    for (uint32_t e = 0; e < p->layers[layer].n_expert; e++) {
        const bool selected = c[e].n && c[e].last == n_tokens;
        const float often = (float)c[e].n / (float)(n_tokens ? n_tokens : 1);
        const uint32_t n = selected ? c[e].n : n_tokens - c[e].n,
                       of_them = selected ? c[e].n_kept : c[e].n - c[e].n_kept;
        ratings[e] = 0.5f * often + 0.5f * (float)of_them / (float)(n ? n : 1);
    }
}

static bool expected_begin(struct policy *p, const struct policy_shape *shape)
{
    struct expected *s = p->state;
    s->keys = calloc((size_t)p->n_keys + 1, sizeof *s->keys);
    s->n_tokens = calloc((size_t)p->n_layers + 1, sizeof *s->n_tokens);
    return rated_begin(p, shape, expected_rate) && s->keys && s->n_tokens;
}

static void expected_end(struct policy *p)
{
    struct expected *s = p->state;
    rated_end(p);
    free(s->n_tokens);
    free(s->keys);
}

static void expected_route(struct policy *p, uint32_t layer, const uint32_t *ids, uint32_t n, uint64_t at)
{
    struct expected *s = p->state;
    struct chances *c = s->keys + p->layers[layer].first_key;
    const uint32_t now = ++s->n_tokens[layer];
    for (uint32_t i = 0; i < n; i++) {
        struct chances *x = &c[ids[i]];
        x->n_kept += x->n && x->last == now - 1;
        x->n++;
        x->last = now;
    }
    rated_route(p, layer, ids, n, at);
}

const struct policy_ops policy_expected_ops = {
    .name = "expected",
    .state_bytes = sizeof(struct expected),
    .array_bytes = expected_array_bytes,
    .begin = expected_begin,
    .end = expected_end,
    .route = expected_route,
    .insert = rated_insert,
    .remove = rated_remove,
    .victim = rated_victim,
    .compare = rated_compare,
    .check = rated_check,
};
