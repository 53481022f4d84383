/* The routed feed-forward block: router, experts through the cache, optional shared experts. */
#ifndef MODEL_MOE_H
#define MODEL_MOE_H

#include "model/forward.h"
#include "model/router.h"

/* x += experts(norm(x)) [+ [sigmoid(gate . h) *] shared(h)], as hp.moe says. Outputs are summed in ascending expert id,
 * then the shared experts (E5). */
enum sluice_status moe_block(struct model_run *r, const struct model_step *s, uint32_t layer, struct sluice_error *err);
/* The same without the last step: the sums are left in scratch.h. */
enum sluice_status moe_sums(struct model_run *r, const struct model_step *s, uint32_t layer, struct sluice_error *err);
/* The choice is known beforehand (scratch.ids ascending and distinct a token, scratch.weights): the rest of moe_block.
 * acts: the experts' input in scratch.h. */
enum sluice_status moe_chosen(struct model_run *r, const struct model_step *s, uint32_t layer, struct kernel_acts *acts,
                              bool join, struct sluice_error *err);

/* The layer's router on n rows of the residual stream: its input goes to h [n][n_embd], logits to out [n][n_expert].
 * acts: placed on h with the memory acts_memory. */
void moe_router_logits(struct model_run *r, uint32_t layer, const float *x, size_t n, float *h, void *acts_memory,
                       struct kernel_acts *acts, float *out);

#endif
