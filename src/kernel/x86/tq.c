/* Products of TQ1_0 and TQ2_0, by block256.h; the layouts are explained in quant/tq.c.
 *
 * Saturation. Values are 1 too large: at most 2 (TQ1_0, whatever the byte) and 3 (TQ2_0). A pair is at most
 * 2 * 3 * 127 = 762, eight of them 6096; many tokens: magnitudes of at most 2, eight pairs 8 * 2 * 2 * 255 = 8160. */
#include "kernel/x86/block256.h"

/* What is left of a byte behind its first digit, in 8 bits: three times the byte. */
AVX2_INLINE __m256i next(__m256i t) { return _mm256_add_epi8(_mm256_add_epi8(t, t), t); }
AVX2_INLINE __m128i next_half(__m128i t) { return _mm_add_epi8(_mm_add_epi8(t, t), t); }

/* The first digit, what three times the byte carries out of 8 bits: 0 to 85, 1 from 86, 2 from 171. */
AVX2_INLINE __m256i digits(__m256i t)
{
    const __m256i one = _mm256_set1_epi8(1);
    return _mm256_add_epi8(_mm256_min_epu8(_mm256_subs_epu8(t, _mm256_set1_epi8(85)), one),
                           _mm256_min_epu8(_mm256_subs_epu8(t, _mm256_set1_epi8((char)170)), one));
}

/* Chunks 5 to 7 hold the five digits of the 16 bytes behind the first 32, and then the four digits of the last four. */
AVX2_INLINE __m256i values_tq1_0(const uint8_t *p, const struct prepared *u, int c)
{
    if (c < 5) {
        __m256i t = avx2_load(p);
        for (int k = 0; k < c; k++) t = next(t);
        return digits(t);
    }
    __m128i t = avx2_load_half(p + 32);
    for (int k = 5; k < c; k++) t = next_half(next_half(t));
    if (c < 7) return digits(_mm256_set_m128i(next_half(t), t));
    __m128i last = _mm_set1_epi32(avx2_load_i32(p + 48)), third = next_half(next_half(last));
    __m128i low = _mm_blend_epi16(last, next_half(last), 0x0c), high = _mm_blend_epi16(third, next_half(third), 0xc0);
    return digits(_mm256_set_m128i(_mm_blend_epi16(low, high, 0xf0), t));
}

AVX2_INLINE __m256i values_tq2_0(const uint8_t *p, const struct prepared *u, int c) { return bit_pairs(p, c); }

PRODUCT(tq1_0, .block_bytes = 54, .d_at = 52, .offset_log2 = 0, .steps = 8, .few = 2)
PRODUCT(tq2_0, .block_bytes = 66, .d_at = 64, .offset_log2 = 0, .steps = 8, .few = 4)
