/* The three matrix products of a linear layer y = W x, over OpenBLAS, rows split over threads. All row-major; a weight
 * is [out][in]. */
#ifndef TRAIN_MATMUL_H
#define TRAIN_MATMUL_H

/* out[n][n_out] = keep * out + x[n][n_in] W^T */
void matmul_forward(const float *x, const float *w, float *out, int n, int n_out, int n_in, float keep);
/* dx[n][n_in] = keep * dx + dout[n][n_out] W */
void matmul_input(const float *dout, const float *w, float *dx, int n, int n_out, int n_in, float keep);
/* dw[n_out][n_in] += dout^T x */
void matmul_weight(const float *dout, const float *x, float *dw, int n, int n_out, int n_in);

#endif
