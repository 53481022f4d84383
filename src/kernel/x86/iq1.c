/* Products of IQ1_S and IQ1_M, by block256.h; the layouts are explained in quant/iq1.c. A point of the grid is eight
 * nibbles 0, 1, 2; the sign of the shift is put above them as a 4, and a table gives 8 * value +- 1, plus 16.
 *
 * Saturation. Those are 7, 9, 15, 17, 23 and 25: a pair is at most 2 * 25 * 127 = 6350. Many tokens: magnitudes of at
 * most 9, four pairs 4 * 2 * 9 * 255 = 18360. With scales of at most 15 a block's sum is at most 256 * 25 * 127 * 15 =
 * 1.3e7. */
#include "kernel/x86/iq.h"

#define MINUS 0x44444444 /* of all eight values */

AVX2_INLINE __m256i four_points(const uint16_t *i, __m128i minus)
{
    const uint32_t *grid = quant_iq1_grid;
    const __m256i table =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(9, 17, 25, 0, 7, 15, 23, 0, 0, 0, 0, 0, 0, 0, 0, 0));
    const __m128i nibble = _mm_set1_epi8(15);
    __m128i v = _mm_setr_epi32((int)grid[i[0]], (int)grid[i[1]], (int)grid[i[2]], (int)grid[i[3]]);
    v = _mm_or_si128(v, minus);
    __m128i even = _mm_and_si128(v, nibble), odd = _mm_and_si128(_mm_srli_epi16(v, 4), nibble);
    return _mm256_shuffle_epi8(table, _mm256_set_m128i(_mm_unpackhi_epi8(even, odd), _mm_unpacklo_epi8(even, odd)));
}

/* Top bits of four indices from each word, moved to the top of a word each and then down to bits 8 to 10; extra[c]:
 * MINUS where the words' top bits say so. */
AVX2_INLINE void prepare_iq1_s(const uint8_t *p, struct prepared *u)
{
    const __m256i first = _mm256_setr_epi8(0, 1, 0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 2, 3, 4, 5, 4, 5, 4, 5, 4, 5, 6, 7,
                                           6, 7, 6, 7, 6, 7);
    const __m256i up = _mm256_set1_epi64x(0x0010008004002000), three = _mm256_set1_epi16(0x700);
    __m128i half = avx2_load_half(p + 34);
    __m256i words = _mm256_broadcastsi128_si256(half);
    __m256i a = _mm256_mullo_epi16(_mm256_shuffle_epi8(words, first), up);
    __m256i b = _mm256_mullo_epi16(_mm256_shuffle_epi8(words, _mm256_add_epi8(first, _mm256_set1_epi8(8))), up);
    store(u->index, _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(a, 5), three), load_words(p + 2)));
    store(u->index + 16, _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(b, 5), three), load_words(p + 18)));
    store(u->extra, _mm256_and_si256(_mm256_srai_epi32(_mm256_cvtepi16_epi32(half), 31), _mm256_set1_epi32(MINUS)));
}

AVX2_INLINE __m256i values_iq1_s(const uint8_t *p, const struct prepared *u, int c)
{
    return four_points(u->index + 4 * c, _mm_set1_epi32((int)u->extra[c]));
}

/* 2 s + 1 for bits 12 to 14 of eight words; each is wanted twice. */
AVX2_INLINE __m128i scales_iq1_s(const uint8_t *p)
{
    __m128i s = _mm_and_si128(_mm_srli_epi16(avx2_load_half(p + 34), 11), _mm_set1_epi16(14));
    s = _mm_add_epi16(s, _mm_set1_epi16(1));
    return _mm_or_si128(s, _mm_slli_epi16(s, 8));
}

/* MINUS for each of the lower eight bytes whose bit 3 is set. */
AVX2_INLINE __m256i minus_of(__m128i nibbles)
{
    __m256i v = _mm256_slli_epi32(_mm256_cvtepu8_epi32(nibbles), 28);
    return _mm256_and_si256(_mm256_srai_epi32(v, 31), _mm256_set1_epi32(MINUS));
}

/* A nibble a group: three top bits of its index, and the sign of its shift, which goes to extra[group]. */
AVX2_INLINE void prepare_iq1_m(const uint8_t *p, struct prepared *u)
{
    const __m128i nibble = _mm_set1_epi8(15), three = _mm_set1_epi8(7);
    __m128i v = avx2_load_half(p + 32);
    __m128i even = _mm_and_si128(v, nibble), odd = _mm_and_si128(_mm_srli_epi16(v, 4), nibble);
    __m128i a = _mm_unpacklo_epi8(even, odd), b = _mm_unpackhi_epi8(even, odd);
    store(u->index,
          _mm256_or_si256(_mm256_slli_epi16(_mm256_cvtepu8_epi16(_mm_and_si128(a, three)), 8), load_words(p)));
    store(u->index + 16,
          _mm256_or_si256(_mm256_slli_epi16(_mm256_cvtepu8_epi16(_mm_and_si128(b, three)), 8), load_words(p + 16)));
    store(u->extra, minus_of(a));
    store(u->extra + 8, minus_of(_mm_srli_si128(a, 8)));
    store(u->extra + 16, minus_of(b));
    store(u->extra + 24, minus_of(_mm_srli_si128(b, 8)));
}

AVX2_INLINE __m256i values_iq1_m(const uint8_t *p, const struct prepared *u, int c)
{
    return four_points(u->index + 4 * c, avx2_load_half(u->extra + 4 * c));
}

/* Four scales of three bits in the low twelve bits of each of four words: they are moved to the top of a word each. */
AVX2_INLINE __m128i scales_iq1_m(const uint8_t *p)
{
    __m128i v = load_low_8(p + 48);
    const __m128i first = _mm_setr_epi8(0, 1, 0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 2, 3);
    const __m128i up = _mm_setr_epi16(1 << 13, 1 << 10, 1 << 7, 1 << 4, 1 << 13, 1 << 10, 1 << 7, 1 << 4);
    __m128i a = _mm_mullo_epi16(_mm_shuffle_epi8(v, first), up);
    __m128i b = _mm_mullo_epi16(_mm_shuffle_epi8(v, _mm_add_epi8(first, _mm_set1_epi8(4))), up);
    __m128i s = _mm_packus_epi16(_mm_srli_epi16(a, 13), _mm_srli_epi16(b, 13));
    return _mm_add_epi8(_mm_add_epi8(s, s), _mm_set1_epi8(1));
}

/* The words' top nibbles are the half of a row. */
AVX2_INLINE __m256 d_iq1_m(const struct avx2_rows *g, size_t at)
{
    uint16_t h[AVX2_ROWS];
    for (int r = 0; r < AVX2_ROWS; r++) {
        uint64_t v = load_u64(g->p[r] + at + 48);
        h[r] = (uint16_t)((v >> 12 & 0xf) | (v >> 24 & 0xf0) | (v >> 36 & 0xf00) | (v >> 48 & 0xf000));
    }
    return _mm256_mul_ps(_mm256_cvtph_ps(avx2_load_half(h)), _mm256_set1_ps(0.125f));
}

PRODUCT(iq1_s, .block_bytes = 50, .d_factor = 0.125f, .offset_log2 = 4, .steps = 4, .few = 1, .prepare = prepare_iq1_s,
        .scales = scales_iq1_s)
PRODUCT(iq1_m, .block_bytes = 56, .d = d_iq1_m, .offset_log2 = 4, .steps = 4, .few = 1, .prepare = prepare_iq1_m,
        .scales = scales_iq1_m)
