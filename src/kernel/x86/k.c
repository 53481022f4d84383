/* Products of the K formats, Q2_K to Q6_K (unsigned values with an offset or a minimum), and of IQ4_XS (signed values
 * from a table), by block256.h. The bit layouts are explained in quant/k.c and quant/iq4.c.
 *
 * Saturation. Few tokens: a pair of maddubs is at most 2 * 127 * 63 = 16002 and a sub-scale widens it at once. Many
 * tokens add `steps` pairs in 16 bits before. Unsigned values u <= u_max, a pair 2 * 127 * u_max: Q2_K: 3, 4 * 762;
 * Q4_K: 15, 8 * 3810 = 30480; Q5_K: 31, 4 * 7874 = 31496. Signed ones with activations of at most 255: Q3_K: magnitudes
 * of at most 4, 4 * 2040; Q6_K: 32, 2 * 16320 = 32640. All below 32768 whatever the bytes of the file. IQ4_XS: pairs of
 * at most 2 * 127 * 127 (few); value * sub-scale, at most 127 * 32, fits 16 bits (many). Sums of a block fit 32 bits
 * (quant/formats.h), with the activations' 128 left in as well: Q6_K 256 * 32 * 255 * 128 = 2.7e8. */
#include "kernel/x86/block256.h"
#include "kernel/x86/k45.h"
#include "kernel/x86/k_scales.h"

/* Low (c even) or high nibbles of the 32 bytes of quarter c / 2. */
AVX2_INLINE __m256i nibbles(const uint8_t *p, int c)
{
    __m256i v = avx2_load(p + 32 * (c / 2));
    return _mm256_and_si256(c % 2 ? _mm256_srli_epi16(v, 4) : v, _mm256_set1_epi8(15));
}

/* Bit c of the 32 bytes, moved to bit `to`. */
AVX2_INLINE __m256i one_bit(const uint8_t *p, int c, int to)
{
    __m256i v = avx2_load(p);
    v = c < to ? _mm256_slli_epi16(v, to - c) : _mm256_srli_epi16(v, c - to);
    return _mm256_and_si256(v, _mm256_set1_epi8((char)(1 << to)));
}

AVX2_INLINE __m256i values_q2_k(const uint8_t *p, const struct prepared *u, int c) { return bit_pairs(p + 16, c); }
AVX2_INLINE __m256i values_q3_k(const uint8_t *p, const struct prepared *u, int c)
{
    return _mm256_or_si256(bit_pairs(p + 32, c), one_bit(p, c, 2));
}
AVX2_INLINE __m256i values_q4_k(const uint8_t *p, const struct prepared *u, int c) { return nibbles(p + 16, c); }
AVX2_INLINE __m256i values_q5_k(const uint8_t *p, const struct prepared *u, int c)
{
    return _mm256_or_si256(nibbles(p + 48, c), one_bit(p + 16, c, 4));
}

/* c = 4 h + s: nibbles of bytes 64 h + 32 (s % 2), low for s < 2; top bits from pair s of bytes 32 h. */
AVX2_INLINE __m256i values_q6_k(const uint8_t *p, const struct prepared *u, int c)
{
    int h = c / 4, s = c % 4;
    __m256i low = avx2_load(p + 64 * h + 32 * (s % 2)), top = avx2_load(p + 128 + 32 * h);
    if (s >= 2) low = _mm256_srli_epi16(low, 4);
    if (s < 2)
        top = _mm256_slli_epi16(top, 4 - 2 * s);
    else
        top = _mm256_srli_epi16(top, 2 * s - 4);
    return _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi8(15)), _mm256_and_si256(top, _mm256_set1_epi8(48)));
}

AVX2_INLINE __m256i of_iq4(__m256i nibbles)
{
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_setr_epi8(-127, -104, -83, -65, -49, -35, -22, -10, 1,
                                                                         13, 25, 38, 53, 69, 89, 113)),
                               _mm256_and_si256(nibbles, _mm256_set1_epi8(15)));
}

AVX2_INLINE __m256i values_iq4_xs(const uint8_t *p, const struct prepared *u, int c)
{
    __m128i v = avx2_load_half(p + 8 + 16 * c);
    return of_iq4(_mm256_set_m128i(_mm_srli_epi16(v, 4), v));
}

PRODUCT(q2_k, .block_bytes = 84, .d_at = 80, .min_at = 82, .offset_log2 = -1, .steps = 4, .few = AVX2_FEW,
        .scales = scales_q2_k, .mins = mins_q2_k)
PRODUCT(q3_k, .block_bytes = 110, .d_at = 108, .offset_log2 = 2, .steps = 4, .few = AVX2_FEW, .scales = scales_q3_k)
PRODUCT(q4_k, .block_bytes = 144, .d_at = 0, .min_at = 2, .offset_log2 = -1, .steps = 8, .few = 4,
        .few_tokens = kernel_avx2_q4_k_few, .unpack = kernel_avx2_unpack_q4_k, .scales = scales_q4_k, .mins = mins_q4_k,
        .mins_of_32 = true)
PRODUCT(q5_k, .block_bytes = 176, .d_at = 0, .min_at = 2, .offset_log2 = -1, .steps = 4, .few = 4,
        .few_tokens = kernel_avx2_q5_k_few, .unpack = kernel_avx2_unpack_q5_k, .scales = scales_q4_k, .mins = mins_q4_k,
        .mins_of_32 = true)
PRODUCT(q6_k, .block_bytes = 210, .d_at = 208, .offset_log2 = 5, .steps = 2, .few = AVX2_FEW, .scales = scales_q6_k)
PRODUCT(iq4_xs, .block_bytes = 136, .d_at = 0, .offset_log2 = -1, .steps = 0, .few = 4, .scales = scales_iq4_xs)
