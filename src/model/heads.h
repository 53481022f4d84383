/* Products with a matrix of its own for each head. */
#ifndef MODEL_HEADS_H
#define MODEL_HEADS_H

#include "model/forward.h"

#define HEADS_IN_MAX 4096 /* elements of an input row */

/* out[t * out_token + h * out_head + i] = row i of head h's matrix . x[t * x_token + h * x_head ...]; w [n_in][n_out]
 * [n_head]. One dispatch. */
struct heads_product {
    const struct model_tensor *w;
    const float *x;
    size_t x_token, x_head;
    float *out;
    size_t out_token, out_head;
    size_t n_tokens;
};
void heads_product_run(const struct kernel_ctx *k, const struct heads_product *p);

#endif
