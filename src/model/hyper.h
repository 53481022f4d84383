/* Hyper-connections (Zhu et al., 2024; constrained to a manifold as in DeepSeek-V4): the residual stream is n streams.
 * A block's input is a mix of them, its output goes to each with a weight, and they are mixed among themselves by a
 * nearly doubly stochastic matrix; all of these weights come from the streams themselves. */
#ifndef MODEL_HYPER_H
#define MODEL_HYPER_H

#include "model/forward.h"

#define HYPER_STREAMS 4

enum hyper_block { HYPER_ATTENTION, HYPER_FEED_FORWARD };

/* Floats a token at the start of scratch.extra, which keep from layer to layer. */
uint32_t hyper_floats(const struct model_hparams *hp);
/* All streams are the embedding. */
void hyper_begin(struct model_run *r, const struct model_step *s);
/* x = the block's input. */
void hyper_split(struct model_run *r, const struct model_step *s, uint32_t layer, enum hyper_block block);
/* The block's output y [n_tokens][n_embd] joins the streams with the weights of the last hyper_split. */
void hyper_join(struct model_run *r, const struct model_step *s, const float *y);
/* Moves the streams of the tokens that model_narrow has left together. */
void hyper_narrow(struct model_run *r, const struct model_step *rest);
/* x = what goes to the last norm. */
void hyper_end(struct model_run *r, const struct model_step *s);

#endif
