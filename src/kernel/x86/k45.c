/* Q4_K and Q5_K: ways of their own for few tokens, for which the packed weights are gone over once, and to unpack for
 * many. (Bit layouts: quant/k.c.)
 *
 * Both blocks begin with 16 bytes of d, minimum, scales and minima. Those of 8 rows are turned together, so that a
 * lane holds a row. Few tokens: the minima's term is finished there, and scales go to memory, from where each comes
 * back spread over a register; 32 values then cost their unpacking and, for each token, a product, one with the scale
 * and an addition. Many tokens: values are turned while two of them are still in a byte.
 *
 * No step saturates: a pair of maddubs is at most 2 * 127 * 31 = 7874; minima are at most 63 and sums of 32 activations
 * at most 4064, so that a row's 8 products stay below 2^21. */
#include "kernel/x86/k45.h"

#define TOKENS 4 /* together */
#define HEADER 16

/* What the headers of 8 rows hold; lane r belongs to row r. */
struct headers {
    __m256 d, min;     /* min: negative */
    __m256i scales[8]; /* of values 32 c .. 32 c + 31, twice */
    __m256i mins[4];   /* 2 i and 2 i + 1 */
};

/* Two bytes of each lane as words. */
AVX2_INLINE __m256i two_bytes(__m256i v, unsigned first, unsigned second)
{
    const unsigned lane = 0x80008000u | second << 16 | first;
    return _mm256_shuffle_epi8(
        v, _mm256_broadcastsi128_si256(_mm_setr_epi32((int)lane, (int)(lane + 0x00040004u), (int)(lane + 0x00080008u),
                                                      (int)(lane + 0x000c000cu))));
}

/* The low halves of lanes as half floats. */
AVX2_INLINE __m256 floats_of(__m256i lanes)
{
    return _mm256_cvtph_ps(_mm_packus_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1)));
}

AVX2_INLINE void read_headers(const struct avx2_rows *g, size_t at, struct headers *h)
{
    const __m256i six = _mm256_set1_epi8(0x3f), four = _mm256_set1_epi8(0x0f), top = _mm256_set1_epi8(0x30);
    __m256i v[4];
    for (int i = 0; i < 4; i++) v[i] = _mm256_set_m128i(avx2_load_half(g->p[i + 4] + at), avx2_load_half(g->p[i] + at));
    const __m256i a = _mm256_unpacklo_epi32(v[0], v[1]), b = _mm256_unpackhi_epi32(v[0], v[1]),
                  c = _mm256_unpacklo_epi32(v[2], v[3]), d = _mm256_unpackhi_epi32(v[2], v[3]);
    const __m256i halves = _mm256_unpacklo_epi64(a, c), first = _mm256_unpackhi_epi64(a, c),
                  second = _mm256_unpacklo_epi64(b, d), third = _mm256_unpackhi_epi64(b, d);
    h->d = floats_of(_mm256_and_si256(halves, _mm256_set1_epi32(0xffff)));
    h->min = _mm256_xor_ps(floats_of(_mm256_srli_epi32(halves, 16)), _mm256_set1_ps(-0.0f));
    for (int i = 0; i < 2; i++) {
        __m256i scales = _mm256_and_si256(first, six), mins = _mm256_and_si256(second, six);
        if (i == 1) {
            scales = _mm256_or_si256(_mm256_and_si256(third, four), _mm256_and_si256(_mm256_srli_epi32(first, 2), top));
            mins = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi32(third, 4), four),
                                   _mm256_and_si256(_mm256_srli_epi32(second, 2), top));
        }
        h->scales[4 * i] = two_bytes(scales, 0, 0);
        h->scales[4 * i + 1] = two_bytes(scales, 1, 1);
        h->scales[4 * i + 2] = two_bytes(scales, 2, 2);
        h->scales[4 * i + 3] = two_bytes(scales, 3, 3);
        h->mins[2 * i] = two_bytes(mins, 0, 1);
        h->mins[2 * i + 1] = two_bytes(mins, 2, 3);
    }
    /* or the compiler takes scales out of registers one by one, which is far slower than from memory */
    __asm__ volatile("" : : "r"(h) : "memory");
}

AVX2_INLINE __m256i minima_sum(const __m256i mins[4], const int16_t *sums)
{
    const __m128i half = _mm_hadd_epi16(avx2_load_half(sums), avx2_load_half(sums + 8));
    const __m256i s = _mm256_broadcastsi128_si256(half);
    __m256i v = _mm256_madd_epi16(mins[0], _mm256_shuffle_epi32(s, 0x00));
    v = _mm256_add_epi32(v, _mm256_madd_epi16(mins[1], _mm256_shuffle_epi32(s, 0x55)));
    v = _mm256_add_epi32(v, _mm256_madd_epi16(mins[2], _mm256_shuffle_epi32(s, 0xaa)));
    return _mm256_add_epi32(v, _mm256_madd_epi16(mins[3], _mm256_shuffle_epi32(s, 0xff)));
}

/* Bit `from` of each byte, moved to bit 4. */
AVX2_INLINE __m256i fifth_bit(__m256i v, int from)
{
    v = from < 4 ? _mm256_slli_epi16(v, 4 - from) : _mm256_srli_epi16(v, from - 4);
    return _mm256_and_si256(v, _mm256_set1_epi8(16));
}

/* A row's block times n tokens'. */
AVX2_INLINE void row_sums(bool five, int n, const uint8_t *p, const __m256i *scales, const int8_t *const *x,
                          __m256i *sums)
{
    const __m256i nibble = _mm256_set1_epi8(15), bits = five ? avx2_load(p + HEADER) : nibble;
    p += five ? HEADER + 32 : HEADER;
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        const __m256i w = avx2_load(p + 32 * i);
        __m256i low = _mm256_and_si256(w, nibble), high = _mm256_and_si256(_mm256_srli_epi16(w, 4), nibble);
        if (five) {
            low = _mm256_or_si256(low, fifth_bit(bits, 2 * i));
            high = _mm256_or_si256(high, fifth_bit(bits, 2 * i + 1));
        }
        const __m256i s0 = avx2_spread(scales + 2 * i), s1 = avx2_spread(scales + 2 * i + 1);
        for (int t = 0; t < n; t++) {
            const __m256i a = _mm256_madd_epi16(_mm256_maddubs_epi16(low, avx2_load(x[t] + 64 * i)), s0);
            const __m256i b = _mm256_madd_epi16(_mm256_maddubs_epi16(high, avx2_load(x[t] + 64 * i + 32)), s1);
            sums[t] = i == 0 ? a : _mm256_add_epi32(sums[t], a);
            sums[t] = _mm256_add_epi32(sums[t], b);
        }
    }
}

/* 8 rows times n tokens. */
AVX2_INLINE void dot_group(bool five, int n, const struct avx2_rows *g, const struct quant_x *x, size_t n_blocks,
                           size_t ahead, __m256 *acc)
{
    const size_t block_bytes = five ? 176 : 144;
    struct headers h;
    __m256i sums[TOKENS][AVX2_ROWS];
    for (int t = 0; t < n; t++) acc[t] = _mm256_setzero_ps();
    for (size_t b = 0; b < n_blocks; b++) {
        const size_t at = b * block_bytes;
        const int8_t *q[TOKENS];
        for (int t = 0; t < n; t++) q[t] = x[t].q + 256 * b;
        read_headers(g, at, &h);
#pragma GCC unroll 1
        for (int r = 0; r < AVX2_ROWS; r++) {
            __m256i one[TOKENS];
            row_sums(five, n, g->p[r] + at, (const __m256i *)(const void *)((const int *)h.scales + r), q, one);
            for (int t = 0; t < n; t++) sums[t][r] = one[t];
            const uint8_t *next = g->p[0] + ahead + (8 * b + (size_t)r) * block_bytes;
            avx2_prefetch(next, 0);
            avx2_prefetch(next, 64);
            if (five || r % 2) avx2_prefetch(next, 128);
        }
        for (int t = 0; t < n; t++) {
            const __m256 d = _mm256_set1_ps(x[t].d[b]);
            acc[t] = _mm256_fmadd_ps(_mm256_mul_ps(h.d, d), _mm256_cvtepi32_ps(avx2_sum_each(sums[t])), acc[t]);
            acc[t] = _mm256_fmadd_ps(_mm256_mul_ps(h.min, d),
                                     _mm256_cvtepi32_ps(minima_sum(h.mins, x[t].sums + 16 * b)), acc[t]);
        }
    }
}

AVX2_INLINE void product(bool five, AVX2_PRODUCT_ARGS)
{
    const size_t n_blocks = acts->n / 256, stride = n_blocks * (five ? 176 : 144);
    for (size_t r = 0; r < n_rows; r += AVX2_ROWS) {
        const struct avx2_rows g = avx2_rows_at(w, stride, r, n_rows);
        for (size_t j = 0; j < n_tokens; j += TOKENS) {
            const size_t n = n_tokens - j < TOKENS ? n_tokens - j : TOKENS;
            struct quant_x x[TOKENS];
            __m256 acc[TOKENS];
            for (size_t t = 0; t < n; t++)
                x[t] = avx2_row_of(acts, QUANT_FORM_256, 256, tokens ? tokens[j + t] : j + t);
            switch (n) {
            case 1: dot_group(five, 1, &g, x, n_blocks, AVX2_ROWS * stride, acc); break;
            case 2: dot_group(five, 2, &g, x, n_blocks, AVX2_ROWS * stride, acc); break;
            case 3: dot_group(five, 3, &g, x, n_blocks, AVX2_ROWS * stride, acc); break;
            default: dot_group(five, 4, &g, x, n_blocks, AVX2_ROWS * stride, acc); break;
            }
            for (size_t t = 0; t < n; t++)
                avx2_store_rows(out + (out_rows ? out_rows[j + t] : j + t) * out_stride + r, g.n, acc[t]);
        }
    }
}

void kernel_avx2_q4_k_few(AVX2_PRODUCT_ARGS)
{
    product(false, w, n_rows, acts, tokens, n_tokens, out, out_stride, out_rows);
}

void kernel_avx2_q5_k_few(AVX2_PRODUCT_ARGS)
{
    product(true, w, n_rows, acts, tokens, n_tokens, out, out_stride, out_rows);
}

/* ---- many tokens ---- */

AVX2_INLINE void unpack(bool five, const struct avx2_rows *g, size_t block, struct tile_slab *u)
{
    const size_t at = block * (five ? 176 : 144), values = at + (five ? HEADER + 32 : HEADER);
    const __m256i nibble = _mm256_set1_epi8(15);
    __m256i in[AVX2_ROWS], bits[8], out[8];
    struct headers h;
    read_headers(g, at, &h);
    u->d[0] = h.d;
    u->m[0] = h.min;
    for (int i = 0; i < 16; i++) u->scale[i] = h.scales[i / 2];
    for (int i = 0; i < 4; i++) u->mins[i] = h.mins[i];
    if (five) {
        for (int r = 0; r < AVX2_ROWS; r++) in[r] = avx2_load(g->p[r] + at + HEADER);
        avx2_transpose(in, bits);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        for (int r = 0; r < AVX2_ROWS; r++) in[r] = avx2_load(g->p[r] + values + (size_t)(32 * i));
        avx2_transpose(in, out);
        for (int k = 0; k < 8; k++) {
            __m256i low = _mm256_and_si256(out[k], nibble),
                    high = _mm256_and_si256(_mm256_srli_epi16(out[k], 4), nibble);
            if (five) {
                low = _mm256_or_si256(low, fifth_bit(bits[k], 2 * i));
                high = _mm256_or_si256(high, fifth_bit(bits[k], 2 * i + 1));
            }
            u->q[16 * i + k] = low;
            u->q[16 * i + 8 + k] = high;
        }
    }
}

void kernel_avx2_unpack_q4_k(const struct avx2_rows *g, size_t block, size_t n_blocks, struct tile_slab *u)
{
    unpack(false, g, block, u);
}

void kernel_avx2_unpack_q5_k(const struct avx2_rows *g, size_t block, size_t n_blocks, struct tile_slab *u)
{
    unpack(true, g, block, u);
}
