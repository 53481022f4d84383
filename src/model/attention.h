/* Attention blocks. */
#ifndef MODEL_ATTENTION_H
#define MODEL_ATTENTION_H

#include "model/forward.h"

/* x += wo attention(norm(x)): grouped-query attention as hp.attention and the layer's hyper-parameters say;
 * scratch.x is the residual stream. */
enum sluice_status attention_gqa(struct model_run *r, const struct model_step *s, uint32_t layer,
                                 struct sluice_error *err);

/* Its pieces, for architectures that compose their own. */

/* x += norm(y * factor + bias) for all tokens, with what the layer has of o_scale, o_bias and attn_post_norm. */
void attention_join(struct model_run *r, const struct model_step *s, uint32_t layer);
/* y = wo attn (attn [n_tokens][n_head * d_head_v] in scratch.attn, product in scratch.y), then attention_join. */
void attention_output(struct model_run *r, const struct model_step *s, uint32_t layer);

#endif
