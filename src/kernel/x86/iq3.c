/* Products of IQ3_XXS and IQ3_S, by block256.h; the layouts are explained in quant/iq3.c.
 *
 * Saturation. An index, whatever it is, gives a point of the grid: magnitudes of at most 62 and 15. Few tokens: a pair
 * is at most 2 * 62 * 127 = 15748. Many tokens, IQ3_XXS: values are 64 too large, at most 126, and a pair at most
 * 2 * 126 * 127 = 32004, widened at once; IQ3_S: 16 too large, at most 31, four pairs of 7874 are 31496. With scales of
 * at most 31 and the offset left in, a block's sum is at most 256 * 126 * 127 * 31 = 1.3e8. */
#include "kernel/x86/iq.h"

AVX2_INLINE __m256i values_iq3_xxs(const uint8_t *p, int c)
{
    const uint32_t *grid = quant_iq3xxs_grid;
    const uint8_t *i = p + 2 + 8 * c;
    return _mm256_setr_epi32((int)grid[i[0]], (int)grid[i[1]], (int)grid[i[2]], (int)grid[i[3]], (int)grid[i[4]],
                             (int)grid[i[5]], (int)grid[i[6]], (int)grid[i[7]]);
}

AVX2_INLINE __m256i signs_iq3_xxs(const uint8_t *p) { return signs_of_words(avx2_load(p + 66)); }
AVX2_INLINE __m128i scales_iq3_xxs(const uint8_t *p) { return scales_of_words(avx2_load(p + 66)); }

AVX2_INLINE __m256i values_iq3_s(const uint8_t *p, int c)
{
    const uint32_t *grid = quant_iq3s_grid;
    const uint8_t *i = p + 2 + 8 * c;
    uint32_t top = p[66 + c];
    return _mm256_setr_epi32((int)grid[i[0] | (top << 8 & 256)], (int)grid[i[1] | (top << 7 & 256)],
                             (int)grid[i[2] | (top << 6 & 256)], (int)grid[i[3] | (top << 5 & 256)],
                             (int)grid[i[4] | (top << 4 & 256)], (int)grid[i[5] | (top << 3 & 256)],
                             (int)grid[i[6] | (top << 2 & 256)], (int)grid[i[7] | (top << 1 & 256)]);
}

AVX2_INLINE __m256i signs_iq3_s(const uint8_t *p) { return avx2_load(p + 74); }

/* Eight nibbles, each wanted twice. */
AVX2_INLINE __m128i scales_iq3_s(const uint8_t *p)
{
    __m128i v = scales_of_nibbles(_mm_cvtsi32_si128(avx2_load_i32(p + 106)));
    return _mm_unpacklo_epi8(v, v);
}

PRODUCT(iq3_xxs, .block_bytes = 98, .d_at = 0, .d_factor = 0.25f, .offset_log2 = 6, .steps = 1, .few = 2,
        .signs = signs_iq3_xxs, .scales = scales_iq3_xxs)
PRODUCT(iq3_s, .block_bytes = 110, .d_at = 0, .offset_log2 = 4, .steps = 4, .few = 2, .signs = signs_iq3_s,
        .scales = scales_iq3_s)
