/* RMS norm: y = x / sqrt(mean(x^2) + eps) * w, over n rows of d. */
#ifndef TRAIN_NORM_H
#define TRAIN_NORM_H

#include <stdbool.h>

#define NORM_EPS 1e-6f

/* inverse[n]: 1 / sqrt(...) of each row, which the backward pass needs. */
void norm_forward(const float *x, const float *w, float *y, float *inverse, int n, int d);
/* dw is added to; dx is added to if `add`, else set. */
void norm_backward(const float *x, const float *w, const float *inverse, const float *dy, float *dx, float *dw, int n,
                   int d, bool add);

#endif
