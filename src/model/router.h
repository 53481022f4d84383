/* From router logits to the experts of a token and their weights. Pure. */
#ifndef MODEL_ROUTER_H
#define MODEL_ROUTER_H

#include "kernel/kernel.h"
#include "model/hparams.h"

#include <stdbool.h>
#include <stdint.h>

/* logits [n_expert] become the gate's probabilities in place; selection_bias [n_expert] or NULL takes part in the
 * choice alone. The k best are chosen, ties to the lower id; ids come out ascending, weights in the same order. NaN
 * counts as smaller than any number, so the choice is defined and the NaN goes on into the weights. */
void router_choose(const struct kernel_table *t, const struct router_kind *kind, float *logits,
                   const float *selection_bias, uint32_t n_expert, uint32_t k, uint32_t *ids, float *weights);
/* The weights alone, of experts that are chosen otherwise. */
void router_weights(const struct kernel_table *t, const struct router_kind *kind, float *logits, uint32_t n_expert,
                    uint32_t k, const uint32_t *ids, float *weights);
/* The scores by which router_choose chooses, in place; nothing but these (for guesses). */
void router_scores(const struct kernel_table *t, const struct router_kind *kind, float *logits,
                   const float *selection_bias, uint32_t n_expert);

/* The k <= n ids with the largest values, best first, ties to the lower id; NaN last. */
void router_rank(const float *values, uint32_t n, uint32_t k, uint32_t *ids);

#endif
