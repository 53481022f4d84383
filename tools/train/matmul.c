#include "matmul.h"

#include <cblas.h>
#include <omp.h>
#include <stddef.h>

/* This thread's part of n rows. */
static int share(int n, int *begin)
{
    long thread = omp_get_thread_num(), n_threads = omp_get_num_threads();
    *begin = (int)(n * thread / n_threads);
    return (int)(n * (thread + 1) / n_threads) - *begin;
}

void matmul_forward(const float *x, const float *w, float *out, int n, int n_out, int n_in, float keep)
{
#pragma omp parallel
    {
        int at, rows = share(n, &at);
        if (rows > 0)
            cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, n_out, n_in, 1, x + (size_t)at * n_in, n_in, w,
                        n_in, keep, out + (size_t)at * n_out, n_out);
    }
}

void matmul_input(const float *dout, const float *w, float *dx, int n, int n_out, int n_in, float keep)
{
#pragma omp parallel
    {
        int at, rows = share(n, &at);
        if (rows > 0)
            cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, n_in, n_out, 1, dout + (size_t)at * n_out,
                        n_out, w, n_in, keep, dx + (size_t)at * n_in, n_in);
    }
}

void matmul_weight(const float *dout, const float *x, float *dw, int n, int n_out, int n_in)
{
#pragma omp parallel
    {
        int at, rows = share(n_out, &at);
        if (rows > 0)
            cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, rows, n_in, n, 1, dout + at, n_out, x, n_in, 1,
                        dw + (size_t)at * n_in, n_in);
    }
}
