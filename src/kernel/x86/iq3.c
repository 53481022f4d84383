/* Products of IQ3_XXS and IQ3_S, by block256.h; the layouts are explained in quant/iq3.c.
 *
 * Saturation. An index, whatever it is, gives a point of the grid: magnitudes of at most 62 and 15. Few tokens: a pair
 * is at most 2 * 62 * 127 = 15748. Many tokens, IQ3_XXS: 2 * 62 * 255 = 31620, widened at once; IQ3_S: four pairs of
 * 2 * 15 * 255 are 30600. With scales of at most 31 a block's sum is at most 256 * 62 * 255 * 31 = 1.3e8. */
#include "kernel/x86/iq.h"

/* Eight points of four bytes. */
#define EIGHT_POINTS(grid, i)                                                                             \
    _mm256_setr_epi32((int)(grid)[(i)[0]], (int)(grid)[(i)[1]], (int)(grid)[(i)[2]], (int)(grid)[(i)[3]], \
                      (int)(grid)[(i)[4]], (int)(grid)[(i)[5]], (int)(grid)[(i)[6]], (int)(grid)[(i)[7]])

AVX2_INLINE void prepare_iq3_xxs(const uint8_t *p, struct prepared *u)
{
    store(u->signs, signs_of_words(avx2_load(p + 66)));
}

AVX2_INLINE __m256i values_iq3_xxs(const uint8_t *p, const struct prepared *u, int c)
{
    return EIGHT_POINTS(quant_iq3xxs_grid, p + 2 + 8 * c);
}

AVX2_INLINE __m128i scales_iq3_xxs(const uint8_t *p) { return scales_of_words(avx2_load(p + 66)); }

/* Bit j of a byte goes to bit 8 of a word, eight words a byte; 16 words at a time. */
AVX2_INLINE __m256i index_iq3_s(const uint8_t *p, __m256i top, int k)
{
    const __m256i pick =
        _mm256_set_m128i(_mm_set1_epi16((short)(0x8000 | (2 * k + 1))), _mm_set1_epi16((short)(0x8000 | (2 * k))));
    const __m256i up = _mm256_broadcastsi128_si256(_mm_setr_epi16(256, 128, 64, 32, 16, 8, 4, 2));
    __m256i bit = _mm256_and_si256(_mm256_mullo_epi16(_mm256_shuffle_epi8(top, pick), up), _mm256_set1_epi16(256));
    return _mm256_or_si256(bit, load_words(p + 2 + 16 * k));
}

AVX2_INLINE void prepare_iq3_s(const uint8_t *p, struct prepared *u)
{
    __m256i top = _mm256_broadcastsi128_si256(load_low_8(p + 66));
    store(u->index, index_iq3_s(p, top, 0));
    store(u->index + 16, index_iq3_s(p, top, 1));
    store(u->index + 32, index_iq3_s(p, top, 2));
    store(u->index + 48, index_iq3_s(p, top, 3));
    store(u->signs, avx2_load(p + 74));
}

AVX2_INLINE __m256i values_iq3_s(const uint8_t *p, const struct prepared *u, int c)
{
    return EIGHT_POINTS(quant_iq3s_grid, u->index + 8 * c);
}

/* Eight nibbles, each wanted twice. */
AVX2_INLINE __m128i scales_iq3_s(const uint8_t *p)
{
    __m128i v = scales_of_nibbles(_mm_cvtsi32_si128(avx2_load_i32(p + 106)));
    return _mm_unpacklo_epi8(v, v);
}

PRODUCT(iq3_xxs, .block_bytes = 98, .d_factor = 0.25f, .offset_log2 = 6, .steps = 1, .few = 1, .sign_bits = true,
        .prepare = prepare_iq3_xxs, .scales = scales_iq3_xxs)
PRODUCT(iq3_s, .block_bytes = 110, .offset_log2 = 4, .steps = 4, .few = 1, .sign_bits = true, .prepare = prepare_iq3_s,
        .scales = scales_iq3_s)
