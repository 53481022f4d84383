/* Dense gated feed-forward blocks. */
#ifndef MODEL_FFN_H
#define MODEL_FFN_H

#include "model/forward.h"

/* x += down(act(gate h) * up h), h = norm(x), with the optional biases and factors of dense layers. */
enum sluice_status ffn_block(struct model_run *r, const struct model_step *s, uint32_t layer, struct sluice_error *err);
/* The same without the last step: y = ... of norm(x). */
void ffn_dense(struct model_run *r, const struct model_step *s, uint32_t layer, float *y);
/* y = shared experts of h (scratch.h, forms in acts), times sigmoid(shexp_gate_inp . h) where the layer has that. */
void ffn_shared(struct model_run *r, const struct model_step *s, uint32_t layer, struct kernel_acts *acts, float *y);

#endif
