/* Products of IQ2_XXS, IQ2_XS and IQ2_S, by block256.h; the layouts are explained in quant/iq2.c.
 *
 * Saturation. An index, whatever it is, gives a point of the grid: magnitudes of at most 43. Few tokens: a pair is at
 * most 2 * 43 * 127 = 10922. Many tokens: 2 * 43 * 255 = 21930, widened at once. With scales of at most 31 a block's
 * sum is at most 256 * 43 * 255 * 31 = 8.7e7. */
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

AVX2_INLINE void prepare_iq2_xxs(const uint8_t *p, struct prepared *u)
{
    store(u->signs, signs_of_words(words_iq2_xxs(p)));
}

AVX2_INLINE __m256i values_iq2_xxs(const uint8_t *p, const struct prepared *u, int c)
{
    const uint64_t *grid = quant_iq2xxs_grid;
    const uint8_t *i = p + 2 + 8 * c;
    return four_points(grid[i[0]], grid[i[1]], grid[i[2]], grid[i[3]]);
}

AVX2_INLINE __m128i scales_iq2_xxs(const uint8_t *p) { return scales_of_words(words_iq2_xxs(p)); }

AVX2_INLINE void prepare_iq2_xs(const uint8_t *p, struct prepared *u)
{
    __m256i a = avx2_load(p + 2), b = avx2_load(p + 34), nine = _mm256_set1_epi16(511);
    store(u->index, _mm256_and_si256(a, nine));
    store(u->index + 16, _mm256_and_si256(b, nine));
    __m256i seven = _mm256_packus_epi16(_mm256_srli_epi16(a, 9), _mm256_srli_epi16(b, 9));
    store(u->signs, eighth_signs(_mm256_permute4x64_epi64(seven, 0xd8)));
}

AVX2_INLINE __m256i values_iq2_xs(const uint8_t *p, const struct prepared *u, int c)
{
    const uint64_t *grid = quant_iq2xs_grid;
    const uint16_t *i = u->index + 4 * c;
    return four_points(grid[i[0]], grid[i[1]], grid[i[2]], grid[i[3]]);
}

AVX2_INLINE __m128i scales_iq2_xs(const uint8_t *p) { return scales_of_nibbles(load_low_8(p + 66)); }

/* Pair l of a byte goes to bits 8 and 9 of a word, four words a byte. */
AVX2_INLINE void prepare_iq2_s(const uint8_t *p, struct prepared *u)
{
    const __m256i first = _mm256_setr_epi8(0, -1, 0, -1, 0, -1, 0, -1, 1, -1, 1, -1, 1, -1, 1, -1, 2, -1, 2, -1, 2, -1,
                                           2, -1, 3, -1, 3, -1, 3, -1, 3, -1);
    const __m256i last = _mm256_setr_epi8(4, -1, 4, -1, 4, -1, 4, -1, 5, -1, 5, -1, 5, -1, 5, -1, 6, -1, 6, -1, 6, -1,
                                          6, -1, 7, -1, 7, -1, 7, -1, 7, -1);
    const __m256i up = _mm256_set1_epi64x(0x0004001000400100), two = _mm256_set1_epi16(0x300);
    __m256i top = _mm256_broadcastsi128_si256(load_low_8(p + 66));
    __m256i a = _mm256_and_si256(_mm256_mullo_epi16(_mm256_shuffle_epi8(top, first), up), two);
    __m256i b = _mm256_and_si256(_mm256_mullo_epi16(_mm256_shuffle_epi8(top, last), up), two);
    store(u->index, _mm256_or_si256(a, load_words(p + 2)));
    store(u->index + 16, _mm256_or_si256(b, load_words(p + 18)));
    store(u->signs, avx2_load(p + 34));
}

AVX2_INLINE __m256i values_iq2_s(const uint8_t *p, const struct prepared *u, int c)
{
    const uint64_t *grid = quant_iq2s_grid;
    const uint16_t *i = u->index + 4 * c;
    return four_points(grid[i[0]], grid[i[1]], grid[i[2]], grid[i[3]]);
}

AVX2_INLINE __m128i scales_iq2_s(const uint8_t *p) { return scales_of_nibbles(load_low_8(p + 74)); }

PRODUCT(iq2_xxs, .block_bytes = 66, .d_factor = 0.125f, .offset_log2 = 6, .steps = 1, .few = 2, .sign_bits = true,
        .prepare = prepare_iq2_xxs, .scales = scales_iq2_xxs)
PRODUCT(iq2_xs, .block_bytes = 74, .d_factor = 0.125f, .offset_log2 = 6, .steps = 1, .few = 2, .sign_bits = true,
        .prepare = prepare_iq2_xs, .scales = scales_iq2_xs)
PRODUCT(iq2_s, .block_bytes = 82, .d_factor = 0.125f, .offset_log2 = 6, .steps = 1, .few = 2, .sign_bits = true,
        .prepare = prepare_iq2_s, .scales = scales_iq2_s)
