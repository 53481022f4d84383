/* Short convolutions in place of attention (Liquid AI's LFM2, 2025). */
#ifndef MODEL_SHORTCONV_H
#define MODEL_SHORTCONV_H

#include "model/forward.h"

/* x += conv_out (c * conv(b * v)), [b | c | v] = conv_in norm(x): the convolution is causal, one filter of hp.n_conv
 * taps a channel. Needs scratch.extra of 3 n_embd floats and a state of shortconv_state_floats. */
void shortconv_block(struct model_run *r, const struct model_step *s, uint32_t layer);
uint32_t shortconv_state_floats(const struct model_hparams *hp); /* the last n_conv - 1 inputs */

#endif
