/* The integer sub-scales and minima of the K formats and of IQ4_XS: 16 signed bytes, one a 16 values (where the file
 * has one a 32, it stands twice). All levels of this processor share them. The bit layouts are explained in quant/k.c
 * and quant/iq4.c. */
#ifndef KERNEL_X86_K_SCALES_H
#define KERNEL_X86_K_SCALES_H

#include "kernel/x86/avx2.h"

AVX2_INLINE __m128i scales_q2_k(const uint8_t *p) { return _mm_and_si128(avx2_load_half(p), _mm_set1_epi8(15)); }
AVX2_INLINE __m128i mins_q2_k(const uint8_t *p)
{
    return _mm_and_si128(_mm_srli_epi16(avx2_load_half(p), 4), _mm_set1_epi8(15));
}

/* 16 low nibbles in bytes 96..103 (low halves first), top bits in pairs of bytes 104..107. */
AVX2_INLINE __m128i scales_q3_k(const uint8_t *p)
{
    __m128i s = _mm_srli_si128(avx2_load_half(p + 94), 2); /* bytes 96..107, then d; the block ends with it */
    __m128i low = _mm_unpacklo_epi64(s, _mm_srli_epi16(s, 4));
    /* pair i of the four bytes belongs to scales 4i .. 4i + 3 and goes to bits 4 and 5 */
    __m128i t = _mm_shuffle_epi32(s, 0xaa);
    __m128i first = _mm_blend_epi16(_mm_slli_epi16(t, 4), _mm_slli_epi16(t, 2), 0x0c);
    __m128i top = _mm_blend_epi16(first, _mm_blend_epi16(t, _mm_srli_epi16(t, 2), 0xc0), 0xf0);
    __m128i six = _mm_or_si128(_mm_and_si128(low, _mm_set1_epi8(15)), _mm_and_si128(top, _mm_set1_epi8(48)));
    return _mm_sub_epi8(six, _mm_set1_epi8(32));
}

/* The 12 bytes at `at`: 8 scales and 8 minima of 6 bits. Each is wanted twice. */
AVX2_INLINE __m128i six_bits(const uint8_t *at, bool minima)
{
    uint32_t a = (uint32_t)avx2_load_i32(at + (minima ? 4 : 0)), c = (uint32_t)avx2_load_i32(at + 8);
    uint32_t first = a & 0x3f3f3f3f;
    uint32_t second = ((minima ? c >> 4 : c) & 0x0f0f0f0f) | (a >> 2 & 0x30303030);
    __m128i v = _mm_insert_epi32(_mm_cvtsi32_si128((int)first), (int)second, 1);
    return _mm_unpacklo_epi8(v, v);
}

AVX2_INLINE __m128i scales_q4_k(const uint8_t *p) { return six_bits(p + 4, false); }
AVX2_INLINE __m128i mins_q4_k(const uint8_t *p) { return six_bits(p + 4, true); }

AVX2_INLINE __m128i scales_q6_k(const uint8_t *p) { return avx2_load_half(p + 192); }

/* Low nibbles in the order of the nibbles of bytes 4..7, top bits in the pairs of bytes 2 and 3. */
AVX2_INLINE __m128i scales_iq4_xs(const uint8_t *p)
{
    __m128i low = _mm_cvtsi32_si128(avx2_load_i32(p + 4));
    low = _mm_and_si128(_mm_unpacklo_epi8(low, _mm_srli_epi16(low, 4)), _mm_set1_epi8(15));
    /* byte j gets the byte of pair j, multiplied so that the pair comes to bits 4 and 5 of a word, and masked */
    __m128i top = _mm_shuffle_epi8(_mm_cvtsi32_si128((uint16_t)avx2_load_i16(p + 2)),
                                   _mm_setr_epi8(0, -1, 0, -1, 0, -1, 0, -1, 1, -1, 1, -1, 1, -1, 1, -1));
    top = _mm_mullo_epi16(top, _mm_setr_epi16(64, 16, 4, 1, 64, 16, 4, 1));
    top = _mm_and_si128(_mm_srli_epi16(top, 2), _mm_set1_epi16(48));
    top = _mm_packus_epi16(top, top);
    __m128i v = _mm_sub_epi8(_mm_or_si128(low, top), _mm_set1_epi8(32));
    return _mm_unpacklo_epi8(v, v);
}

#endif
