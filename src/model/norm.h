/* Norms of the residual stream, and how a block's output joins it. */
#ifndef MODEL_NORM_H
#define MODEL_NORM_H

#include "model/forward.h"

/* out = RMS norm of the rows of x (n_embd wide), times weight, plus bias where the file has one. */
void model_norm(const struct model_run *r, const float *x, const struct model_tensor *weight,
                const struct model_tensor *bias, size_t n_rows, float *out);
/* x += residual_scale * norm(y) for one row; post_norm without a name: y itself. y is overwritten. */
void model_join(const struct model_run *r, float *x, float *y, const struct model_tensor *post_norm);

#endif
