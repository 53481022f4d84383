/* Private to x86/: how AVX-512 reads a row of cached keys or values. */
#ifndef KERNEL_X86_AVX512_KV_H
#define KERNEL_X86_AVX512_KV_H

#include "kernel/x86/avx512.h"

struct avx512_kv {
    size_t bytes;                                 /* of an element; 0: heads are whole blocks of 32 */
    __m512 (*load)(const uint8_t *row, size_t e); /* 16 elements from e */
};

AVX2_INLINE __m512 avx512_kv_f32(const uint8_t *row, size_t e)
{
    return _mm512_loadu_ps((const float *)(const void *)(row + 4 * e));
}
AVX2_INLINE __m512 avx512_kv_f16(const uint8_t *row, size_t e) { return _mm512_cvtph_ps(avx2_load(row + 2 * e)); }
/* Decoded as the contract says: q * d, rounded. */
AVX2_INLINE __m512 avx512_kv_q8_0(const uint8_t *row, size_t e)
{
    const uint8_t *block = row + e / 32 * 34;
    __m512i q = _mm512_cvtepi8_epi32(avx2_load_half(block + 2 + e % 32));
    return _mm512_mul_ps(_mm512_cvtepi32_ps(q), _mm512_set1_ps(_cvtsh_ss((uint16_t)avx2_load_i16(block))));
}

/* n elements from e, followed by zeros up to a multiple of 16. */
AVX2_INLINE void avx512_kv_floats(const struct avx512_kv *f, const uint8_t *row, size_t e, size_t n, float *out)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16) _mm512_store_ps(out + i, f->load(row, e + i));
    if (i == n) return;
    uint8_t copy[16 * sizeof(float)] = {0};
    memcpy(copy, row + (e + i) * f->bytes, (n - i) * f->bytes);
    _mm512_store_ps(out + i, f->load(copy, 0));
}

/* The same bytes of the next block's row on the way to the second-level cache; beyond the last row this does nothing.
 */
AVX2_INLINE void avx512_kv_prefetch(const uint8_t *p, size_t stride, size_t bytes)
{
    const uintptr_t next = (uintptr_t)p + KERNEL_ATTENTION_BLOCK * stride;
    for (size_t i = 0; i < bytes; i += 64) _mm_prefetch((const char *)(next + i), _MM_HINT_T1);
}

/* The first n lanes, all from 16 on. */
AVX2_INLINE __mmask16 avx512_first_lanes(size_t n) { return (__mmask16)(n < 16 ? (1u << n) - 1 : 0xffff); }

#endif
