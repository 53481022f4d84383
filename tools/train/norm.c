#include "norm.h"

#include "memory.h"

#include <math.h>
#include <stdlib.h>

void norm_forward(const float *x, const float *w, float *y, float *inverse, int n, int d)
{
#pragma omp parallel for
    for (int i = 0; i < n; i++) {
        const float *a = x + (size_t)i * d;
        float *b = y + (size_t)i * d, sum = 0;
        for (int j = 0; j < d; j++) sum += a[j] * a[j];
        float r = 1.0f / sqrtf(sum / d + NORM_EPS);
        inverse[i] = r;
        for (int j = 0; j < d; j++) b[j] = a[j] * r * w[j];
    }
}

void norm_backward(const float *x, const float *w, const float *inverse, const float *dy, float *dx, float *dw, int n,
                   int d, bool add)
{
#pragma omp parallel
    {
        float *dw_here = memory_floats(d); /* each thread sums its own rows */
#pragma omp for
        for (int i = 0; i < n; i++) {
            const float *a = x + (size_t)i * d, *b = dy + (size_t)i * d;
            float *c = dx + (size_t)i * d, r = inverse[i], along = 0;
            for (int j = 0; j < d; j++) {
                along += b[j] * w[j] * a[j];
                dw_here[j] += b[j] * a[j] * r;
            }
            along *= r * r * r / d;
            for (int j = 0; j < d; j++) c[j] = (add ? c[j] : 0.0f) + r * w[j] * b[j] - along * a[j];
        }
#pragma omp critical
        for (int j = 0; j < d; j++) dw[j] += dw_here[j];
        free(dw_here);
    }
}
