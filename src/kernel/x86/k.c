/* Products of the K formats, Q2_K to Q6_K (unsigned values with an offset or a minimum), and of IQ4_XS (signed values
 * from a table), by block256.h. The bit layouts are explained in quant/k.c and quant/iq4.c.
 *
 * Saturation. Unsigned values u <= u_max: a pair of maddubs is at most 2 * 127 * u_max, and `steps` of them are added
 * in 16 bits before a sub-scale widens them. Q2_K: 3, 4 * 762; Q3_K: 7, 4 * 1778; Q4_K: 15, 8 * 3810 = 30480; Q5_K: 31,
 * 4 * 7874 = 31496; Q6_K: 63, 2 * 16002 = 32004: all below 32768 whatever the bytes of the file. IQ4_XS: pairs of at
 * most 2 * 127 * 127 (few); value * sub-scale, at most 127 * 32, fits 16 bits (many). Sums of a block fit 32 bits
 * (quant/formats.h), with the offset left in as well: Q6_K 256 * 63 * 127 * 128 = 2.6e8. */
#include "kernel/x86/block256.h"

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

AVX2_INLINE __m256i values_iq4_xs(const uint8_t *p, const struct prepared *u, int c)
{
    const __m256i table = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113));
    __m128i v = avx2_load_half(p + 8 + 16 * c);
    __m256i both = _mm256_set_m128i(_mm_srli_epi16(v, 4), v);
    return _mm256_shuffle_epi8(table, _mm256_and_si256(both, _mm256_set1_epi8(15)));
}

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

PRODUCT(q2_k, .block_bytes = 84, .d_at = 80, .min_at = 82, .offset_log2 = -1, .steps = 4, .few = AVX2_FEW_UNSIGNED,
        .scales = scales_q2_k, .mins = mins_q2_k)
PRODUCT(q3_k, .block_bytes = 110, .d_at = 108, .offset_log2 = 2, .steps = 4, .few = AVX2_FEW_UNSIGNED,
        .scales = scales_q3_k)
PRODUCT(q4_k, .block_bytes = 144, .d_at = 0, .min_at = 2, .offset_log2 = -1, .steps = 8, .few = AVX2_FEW_UNSIGNED,
        .scales = scales_q4_k, .mins = mins_q4_k)
PRODUCT(q5_k, .block_bytes = 176, .d_at = 0, .min_at = 2, .offset_log2 = -1, .steps = 4, .few = AVX2_FEW_UNSIGNED,
        .scales = scales_q4_k, .mins = mins_q4_k)
PRODUCT(q6_k, .block_bytes = 210, .d_at = 208, .offset_log2 = 5, .steps = 2, .few = AVX2_FEW_UNSIGNED,
        .scales = scales_q6_k)
PRODUCT(iq4_xs, .block_bytes = 136, .d_at = 0, .offset_log2 = -1, .steps = 0, .few = AVX2_FEW_SIGNED,
        .scales = scales_iq4_xs)
