/* Causal grouped-query attention of one layer over windows that do not see each other, with RoPE. */
#ifndef TRAIN_ATTENTION_H
#define TRAIN_ATTENTION_H

#include "model.h"

/* Rotates the pairs (i, i + HD/2) of x [N][n_heads][HD] by the token's place in its window; direction -1 turns back. */
void attention_rotate(const struct model *m, float *x, int n_heads, float direction);
/* a->q_in, k_in, v -> a->attn_probs, a->heads */
void attention_forward(const struct model *m, struct layer_acts *a);
/* flow.heads -> flow.q_in, k_in, v */
void attention_backward(struct model *m, const struct layer_acts *a);

#endif
