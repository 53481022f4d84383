/* Products of IQ2_XXS, IQ2_XS and IQ2_S, by block256.h; the layouts are explained in quant/iq2.c.
 *
 * Saturation. An index, whatever it is, gives a point of the grid: magnitudes of at most 43. Few tokens: a pair is at
 * most 2 * 43 * 127 = 10922. Many tokens: values are 64 too large, at most 107, and a pair at most 2 * 107 * 127 =
 * 27178, widened at once. With scales of at most 31 and the offset left in, a block's sum is at most 256 * 107 * 127 *
 * 31 = 1.1e8. */
#include "kernel/x86/iq.h"

AVX2_INLINE __m256i four_points(uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    return _mm256_setr_epi64x((long long)a, (long long)b, (long long)c, (long long)d);
}

/* The second word of each of the eight pairs behind the half. */
AVX2_INLINE __m256i words_iq2_xxs(const uint8_t *p)
{
    __m256 a = _mm256_castsi256_ps(avx2_load(p + 2)), b = _mm256_castsi256_ps(avx2_load(p + 34));
    return _mm256_permute4x64_epi64(_mm256_castps_si256(_mm256_shuffle_ps(a, b, 0xdd)), 0xd8);
}

AVX2_INLINE __m256i values_iq2_xxs(const uint8_t *p, int c)
{
    const uint64_t *grid = quant_iq2xxs_grid;
    uint32_t index = load_u32(p + 2 + 8 * c);
    return four_points(grid[index & 255], grid[index >> 8 & 255], grid[index >> 16 & 255], grid[index >> 24]);
}

AVX2_INLINE __m256i signs_iq2_xxs(const uint8_t *p) { return signs_of_words(words_iq2_xxs(p)); }
AVX2_INLINE __m128i scales_iq2_xxs(const uint8_t *p) { return scales_of_words(words_iq2_xxs(p)); }

AVX2_INLINE __m256i values_iq2_xs(const uint8_t *p, int c)
{
    const uint64_t *grid = quant_iq2xs_grid;
    uint64_t index = load_u64(p + 2 + 8 * c);
    return four_points(grid[index & 511], grid[index >> 16 & 511], grid[index >> 32 & 511], grid[index >> 48 & 511]);
}

AVX2_INLINE __m256i signs_iq2_xs(const uint8_t *p)
{
    __m256i a = _mm256_srli_epi16(avx2_load(p + 2), 9), b = _mm256_srli_epi16(avx2_load(p + 34), 9);
    return eighth_signs(_mm256_permute4x64_epi64(_mm256_packus_epi16(a, b), 0xd8));
}

AVX2_INLINE __m128i scales_iq2_xs(const uint8_t *p) { return scales_of_nibbles(load_low_8(p + 66)); }

AVX2_INLINE __m256i values_iq2_s(const uint8_t *p, int c)
{
    const uint64_t *grid = quant_iq2s_grid;
    uint32_t low = load_u32(p + 2 + 4 * c), top = p[66 + c];
    return four_points(grid[(low & 255) | (top << 8 & 0x300)], grid[(low >> 8 & 255) | (top << 6 & 0x300)],
                       grid[(low >> 16 & 255) | (top << 4 & 0x300)], grid[low >> 24 | (top << 2 & 0x300)]);
}

AVX2_INLINE __m256i signs_iq2_s(const uint8_t *p) { return avx2_load(p + 34); }
AVX2_INLINE __m128i scales_iq2_s(const uint8_t *p) { return scales_of_nibbles(load_low_8(p + 74)); }

PRODUCT(iq2_xxs, .block_bytes = 66, .d_at = 0, .d_factor = 0.125f, .offset_log2 = 6, .steps = 1, .few = 2,
        .signs = signs_iq2_xxs, .scales = scales_iq2_xxs)
PRODUCT(iq2_xs, .block_bytes = 74, .d_at = 0, .d_factor = 0.125f, .offset_log2 = 6, .steps = 1, .few = 2,
        .signs = signs_iq2_xs, .scales = scales_iq2_xs)
PRODUCT(iq2_s, .block_bytes = 82, .d_at = 0, .d_factor = 0.125f, .offset_log2 = 6, .steps = 1, .few = 2,
        .signs = signs_iq2_s, .scales = scales_iq2_s)
