/* Maximum, exponentials and their sum of whole rows of scores with AVX-512: the steps of math_exp (base/math.c), 16
 * lanes at a time. Four rows go together: what one waits for, the others fill, and their trees are folded into one. */
#include "kernel/x86/avx512_exp.h"
#include "kernel/x86/avx512_fold.h"

#include <math.h>

#define ROWS 4

/* The largest lane of each, none of which is NaN, in any order; a zero is +0. */
AVX2_INLINE void largest(const __m512 v[ROWS], float out[ROWS])
{
    __m512 a = _mm512_max_ps(_mm512_unpacklo_ps(v[0], v[1]), _mm512_unpackhi_ps(v[0], v[1]));
    __m512 b = _mm512_max_ps(_mm512_unpacklo_ps(v[2], v[3]), _mm512_unpackhi_ps(v[2], v[3]));
    a = _mm512_max_ps(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xee)); /* one of each a quarter */
    const __m256 half = _mm256_max_ps(_mm512_castps512_ps256(a), avx512_high_half(a));
    const __m128 m = _mm_max_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    _mm_storeu_ps(out, _mm_add_ps(m, _mm_setzero_ps()));
}

/* n <= ROWS, a constant. */
AVX2_INLINE void exp_rows(float (*x)[64], size_t n, float *sum, float *max)
{
    __m512 v[ROWS];
    float of_row[ROWS];
    for (size_t r = 0; r < ROWS; r++) v[r] = _mm512_set1_ps(-INFINITY);
    for (size_t r = 0; r < n; r++)
        for (size_t i = 0; i < 64; i += 16) v[r] = _mm512_max_ps(_mm512_loadu_ps(x[r] + i), v[r]); /* keeps it at NaN */
    largest(v, of_row);
    memcpy(max, of_row, n * sizeof *max);
    for (size_t r = 0; r < ROWS; r++) v[r] = _mm512_setzero_ps();
    for (size_t i = 0; i < 64; i += 16)
        for (size_t r = 0; r < n; r++) {
            const __m512 e = avx512_exp(_mm512_sub_ps(_mm512_loadu_ps(x[r] + i), _mm512_set1_ps(of_row[r])));
            _mm512_storeu_ps(x[r] + i, e);
            v[r] = _mm512_add_ps(v[r], e);
        }
    avx512_sum_four(v, of_row);
    memcpy(sum, of_row, n * sizeof *sum);
}

void kernel_avx512_exp_sum_many(float (*x)[64], size_t n_rows, float *sum, float *max)
{
    size_t r = 0;
    for (; r + ROWS <= n_rows; r += ROWS) exp_rows(x + r, ROWS, sum + r, max + r);
    switch (n_rows - r) {
    case 1: exp_rows(x + r, 1, sum + r, max + r); break;
    case 2: exp_rows(x + r, 2, sum + r, max + r); break;
    case 3: exp_rows(x + r, 3, sum + r, max + r); break;
    default: break;
    }
}
