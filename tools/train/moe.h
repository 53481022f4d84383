/* The mixture of experts of one layer: softmax over the router's K best, SwiGLU experts, weighted sum. */
#ifndef TRAIN_MOE_H
#define TRAIN_MOE_H

#include "model.h"

/* out [N][D] += the experts' mixture of a->ffn_in */
void moe_forward(const struct model *m, struct layer_acts *a, const struct layer_weights *w, float *out);
/* dout [N][D] -> dx [N][D] (gradient of a->ffn_in, set), gradients of the layer's weights added to g. balance: weight
 * of the load-balancing loss E * sum over experts of (share of the choices) * (mean router probability). */
void moe_backward(struct model *m, const struct layer_acts *a, const struct layer_weights *w,
                  const struct layer_weights *g, const float *dout, float *dx, float balance);

#endif
