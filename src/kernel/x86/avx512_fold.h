/* Private to x86/: the contract's tree of sums for several results together. Each result is a register of 16 lanes, and
 * each step adds the lanes of two registers pairwise into one: lane i and i + 8, then + 4, + 2, + 1. */
#ifndef KERNEL_X86_AVX512_FOLD_H
#define KERNEL_X86_AVX512_FOLD_H

#include "kernel/x86/avx512.h"

/* Quarters 0 and 2, 1 and 3 added: those of a, then those of b. */
AVX2_INLINE __m512 avx512_fold_i8(__m512 a, __m512 b)
{
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
}

/* Quarters 0 and 1, 2 and 3 added: those of a, then those of b. */
AVX2_INLINE __m512 avx512_fold_i4(__m512 a, __m512 b)
{
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
}

/* In each quarter: lanes 0 and 2, 1 and 3 added: those of a, then those of b. */
AVX2_INLINE __m512 avx512_fold_i2(__m512 a, __m512 b)
{
    return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xee));
}

/* In each quarter: lanes 0 and 1, 2 and 3 added: those of a, then those of b. */
AVX2_INLINE __m512 avx512_fold_i1(__m512 a, __m512 b)
{
    return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd));
}

/* The first two steps of four results: a quarter each. */
AVX2_INLINE __m512 avx512_fold_quarter_each(const __m512 s[4])
{
    return avx512_fold_i4(avx512_fold_i8(s[0], s[1]), avx512_fold_i8(s[2], s[3]));
}

/* Four results. */
AVX2_INLINE void avx512_sum_four(const __m512 s[4], float out[4])
{
    __m512 v = avx512_fold_quarter_each(s);
    v = avx512_fold_i2(v, v);
    v = avx512_fold_i1(v, v); /* every lane of a quarter */
    float each[16];
    _mm512_storeu_ps(each, v);
    for (int t = 0; t < 4; t++) out[t] = each[4 * t];
}

/* Sixteen results: lane 4 t + k is the sum of s[k][t]. */
AVX2_INLINE __m512 avx512_sum_sixteen(const __m512 s[4][4])
{
    return avx512_fold_i1(avx512_fold_i2(avx512_fold_quarter_each(s[0]), avx512_fold_quarter_each(s[1])),
                          avx512_fold_i2(avx512_fold_quarter_each(s[2]), avx512_fold_quarter_each(s[3])));
}

AVX2_INLINE __m256 avx512_high_half(__m512 v)
{
    return _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(v), 1));
}

#endif
