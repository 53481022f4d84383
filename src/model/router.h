/* From router logits to the experts of a token and their weights. Pure. */
#ifndef MODEL_ROUTER_H
#define MODEL_ROUTER_H

#include "kernel/kernel.h"

#include <stdbool.h>
#include <stdint.h>

struct router_kind {
    bool normalise; /* divide the chosen weights by their sum (clamped to at least 2^-14) */
    float scale;    /* then multiply; 1: none */
};

/* logits [n_expert] become probabilities in place (softmax). The k largest are chosen, ties to the lower id; ids come
 * out ascending, weights in the same order. NaN counts as smaller than any number, so the choice is defined and the NaN
 * goes on into the weights. */
void router_softmax_topk(const struct kernel_table *t, const struct router_kind *kind, float *logits, uint32_t n_expert,
                         uint32_t k, uint32_t *ids, float *weights);

/* The k <= n ids with the largest values, best first, ties to the lower id; NaN last. */
void router_rank(const float *values, uint32_t n, uint32_t k, uint32_t *ids);

#endif
