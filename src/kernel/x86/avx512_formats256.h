/* The K formats and IQ4_XS, with blocks of 256 values and 16 sub-blocks, as the AVX-512 and AMX kernels see them. A
 * file includes this and instantiates its products with FORMATS_256(PRODUCT). The bit layouts are explained in
 * quant/k.c and quant/iq4.c. */
#ifndef KERNEL_X86_AVX512_FORMATS256_H
#define KERNEL_X86_AVX512_FORMATS256_H

#include "kernel/x86/avx512.h"
#include "kernel/x86/k_scales.h"

struct format {
    size_t block_bytes;
    size_t d_at, min_at;                        /* min_at 0: no minimum */
    int offset;                                 /* unsigned values are this much too large */
    int top;                                    /* largest magnitude of a value without its offset */
    bool in_32;                                 /* sub-blocks have 32 values: scales come in equal pairs */
    __m512i (*values)(const uint8_t *p, int c); /* 64 unsigned values from 64 c */
    __m128i (*scales)(const uint8_t *p);        /* 16 signed bytes */
    __m128i (*mins)(const uint8_t *p);          /* 16 bytes, at most 63 */
};

/* 32 bytes twice, the low half shifted right by `low` bits and the high half by `high`; negative: to the left. Bits
 * cross bytes, so they are to be masked. Both have the same direction. */
AVX2_INLINE __m512i twice_shifted(const uint8_t *p, int low, int high)
{
    __m512i v = _mm512_broadcast_i64x4(avx2_load(p));
    bool left = low < 0 || high < 0;
    long long l = left ? -low : low, h = left ? -high : high;
    __m512i by = _mm512_set_epi64(h, h, h, h, l, l, l, l);
    return left ? _mm512_sllv_epi64(v, by) : _mm512_srlv_epi64(v, by);
}

AVX2_INLINE __m512i masked(__m512i v, int bits) { return _mm512_and_si512(v, _mm512_set1_epi8((char)bits)); }

/* Bit pairs 2 c and 2 c + 1, counted on through the two halves of 32 bytes. */
AVX2_INLINE __m512i two_pairs(const uint8_t *p, int c)
{
    return masked(twice_shifted(p + 32 * (c / 2), 4 * (c % 2), 4 * (c % 2) + 2), 3);
}

/* Low and high nibbles of 32 bytes. */
AVX2_INLINE __m512i two_nibbles(const uint8_t *p) { return masked(twice_shifted(p, 0, 4), 15); }

AVX2_INLINE __m512i values_q2_k(const uint8_t *p, int c) { return two_pairs(p + 16, c); }

/* Bits 2 c and 2 c + 1 of the 32 first bytes come to bit 2. */
AVX2_INLINE __m512i values_q3_k(const uint8_t *p, int c)
{
    return _mm512_or_si512(two_pairs(p + 32, c), masked(twice_shifted(p, 2 * c - 2, 2 * c - 1), 4));
}

AVX2_INLINE __m512i values_q4_k(const uint8_t *p, int c) { return two_nibbles(p + 16 + 32 * c); }

/* Bits 2 c and 2 c + 1 of the 32 bytes at 16 come to bit 4. */
AVX2_INLINE __m512i values_q5_k(const uint8_t *p, int c)
{
    return _mm512_or_si512(two_nibbles(p + 48 + 32 * c), masked(twice_shifted(p + 16, 2 * c - 4, 2 * c - 3), 16));
}

/* c = 2 h + s: low (s = 0) or high nibbles of the 64 bytes from 64 h; above them bit pairs 2 s and 2 s + 1 of the 32
 * bytes from 128 + 32 h, which come to bit 4. */
AVX2_INLINE __m512i values_q6_k(const uint8_t *p, int c)
{
    int h = c / 2, s = c % 2;
    __m512i low = avx512_load(p + 64 * h);
    if (s) low = _mm512_srli_epi16(low, 4);
    return _mm512_or_si512(masked(low, 15), masked(twice_shifted(p + 128 + 32 * h, s ? 0 : -4, s ? 2 : -2), 48));
}

AVX2_INLINE __m512i values_iq4_xs(const uint8_t *p, int c)
{
    return avx512_iq4(avx512_nibbles(avx2_load(p + 8 + 32 * c)));
}

AVX2_INLINE __m128i no_mins(const uint8_t *p) { return _mm_setzero_si128(); }

/* P(name, bytes of a block, offset of d, offset of the minimum's factor, values' offset, largest value, sub-blocks of
 * 32, scales, mins) for each format. */
#define FORMATS_256(P)                                        \
    P(q2_k, 84, 80, 82, 0, 3, false, scales_q2_k, mins_q2_k)  \
    P(q3_k, 110, 108, 0, 4, 4, false, scales_q3_k, no_mins)   \
    P(q4_k, 144, 0, 2, 0, 15, true, scales_q4_k, mins_q4_k)   \
    P(q5_k, 176, 0, 2, 0, 31, true, scales_q4_k, mins_q4_k)   \
    P(q6_k, 210, 208, 0, 32, 32, false, scales_q6_k, no_mins) \
    P(iq4_xs, 136, 0, 0, 128, 127, true, scales_iq4_xs, no_mins)

#endif
