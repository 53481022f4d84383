/* The formats with blocks of 32 values as the AVX-512 and AMX kernels see them. A file includes this and instantiates
 * its products with FORMATS_32(PRODUCT). */
#ifndef KERNEL_X86_AVX512_FORMATS32_H
#define KERNEL_X86_AVX512_FORMATS32_H

#include "kernel/x86/avx512.h"

struct format {
    size_t block_bytes;
    __m512i (*values)(const uint8_t *a, const uint8_t *b); /* the unsigned values of two rows' blocks, in order */
    __m512 (*scales)(const struct avx512_rows *g, size_t at);
    size_t min_at; /* offset of the minimum, 0: none */
    int offset;    /* unsigned values are this much too large */
};

AVX2_INLINE __m512i two_nibbles(const uint8_t *a, const uint8_t *b)
{
    return avx512_nibbles(_mm256_set_m128i(avx2_load_half(b), avx2_load_half(a)));
}

/* 16 where bit i of a row's four bytes is set, for its value i. */
AVX2_INLINE __m512i two_fifth_bits(const uint8_t *a, const uint8_t *b)
{
    uint64_t bits = (uint64_t)(uint32_t)avx2_load_i32(b) << 32 | (uint32_t)avx2_load_i32(a);
    return _mm512_maskz_mov_epi8((__mmask64)bits, _mm512_set1_epi8(16));
}

AVX2_INLINE __m512i values_q4_0(const uint8_t *a, const uint8_t *b) { return two_nibbles(a + 2, b + 2); }
AVX2_INLINE __m512i values_q4_1(const uint8_t *a, const uint8_t *b) { return two_nibbles(a + 4, b + 4); }
AVX2_INLINE __m512i values_q5_0(const uint8_t *a, const uint8_t *b)
{
    return _mm512_or_si512(two_nibbles(a + 6, b + 6), two_fifth_bits(a + 2, b + 2));
}
AVX2_INLINE __m512i values_q5_1(const uint8_t *a, const uint8_t *b)
{
    return _mm512_or_si512(two_nibbles(a + 8, b + 8), two_fifth_bits(a + 4, b + 4));
}
/* Plus 128, which turns the sign bit; a file's -128 becomes 0. */
AVX2_INLINE __m512i values_q8_0(const uint8_t *a, const uint8_t *b)
{
    return _mm512_xor_si512(avx512_join(avx2_load(a + 2), avx2_load(b + 2)), _mm512_set1_epi8((char)0x80));
}
AVX2_INLINE __m512i values_iq4_nl(const uint8_t *a, const uint8_t *b) { return avx512_iq4(two_nibbles(a + 2, b + 2)); }

/* The doubled E2M1 values plus 12. */
AVX2_INLINE __m512i values_mxfp4(const uint8_t *a, const uint8_t *b)
{
    const __m512i table =
        _mm512_broadcast_i32x4(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    return _mm512_shuffle_epi8(table, two_nibbles(a + 1, b + 1));
}

AVX2_INLINE __m512 scales_half(const struct avx512_rows *g, size_t at) { return avx512_halves(g, at); }

/* 2^(e - 128): for e = 0 and 1 subnormal, else (e - 1) in the exponent field. */
AVX2_INLINE __m512 scales_mxfp4(const struct avx512_rows *g, size_t at)
{
    _Alignas(64) int32_t bytes[AVX512_ROWS];
    for (int r = 0; r < AVX512_ROWS; r++) bytes[r] = g->p[r][at];
    __m512i e = avx512_load(bytes);
    __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
    __m512i small = _mm512_sllv_epi32(_mm512_set1_epi32(0x00200000), e);
    __mmask16 is_small = _mm512_cmpgt_epi32_mask(_mm512_set1_epi32(2), e);
    return _mm512_castsi512_ps(_mm512_mask_mov_epi32(normal, is_small, small));
}

/* P(name, bytes of a block, scales, offset of the minimum, offset of the values) for each format. */
#define FORMATS_32(P)                  \
    P(q4_0, 18, scales_half, 0, 8)     \
    P(q4_1, 20, scales_half, 2, 0)     \
    P(q5_0, 22, scales_half, 0, 16)    \
    P(q5_1, 24, scales_half, 2, 0)     \
    P(q8_0, 34, scales_half, 0, 128)   \
    P(iq4_nl, 18, scales_half, 0, 128) \
    P(mxfp4, 17, scales_mxfp4, 0, 12)

#endif
