/* Products of the formats with blocks of 32: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, IQ4_NL, MXFP4.
 *
 * Few tokens: the 32 values of a row stand in one register, their products with the activations are summed across the
 * register, 8 rows together. Many tokens: 8 rows are unpacked once a block and turned so that a lane holds a row's 4
 * (or 2) successive values; activations are spread over the lanes and no sum across lanes is left.
 *
 * Saturation. Unsigned values u <= u_max: a pair of maddubs is at most 2 * 127 * u_max, and `steps` of them are added
 * in 16 bits before they are widened. Q4_0, Q4_1: u_max 15, 8 * 3810 = 30480. Q5_0, Q5_1: u_max 31, 4 * 7874 = 31496.
 * MXFP4: u_max 24, 4 * 6096 = 24384. All below 32768, whatever the bytes of the file. Q8_0 and IQ4_NL are signed:
 * avx2_pairs_signed for few tokens, 16-bit products for many. */
#include "kernel/x86/avx2.h"

struct format {
    size_t block_bytes;
    __m256i (*values)(const uint8_t *block); /* 32 bytes in order */
    __m256 (*scales)(const struct avx2_rows *g, size_t at);
    size_t min_at; /* offset of the minimum, 0: none */
    int offset;    /* unsigned values are this much too large */
    int steps;     /* see above; 0: values are signed */
};

/* ---- formats ---- */

/* Low nibbles, then high nibbles. */
AVX2_INLINE __m256i nibbles(const uint8_t *p)
{
    __m128i v = avx2_load_half(p);
    return _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(v, 4), v), _mm256_set1_epi8(15));
}

/* 16 where bit i of the four bytes is set, for value i. */
AVX2_INLINE __m256i fifth_bits(const uint8_t *p)
{
    const __m256i byte_of = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bit_of = _mm256_set1_epi64x((long long)0x8040201008040201);
    __m256i bytes = _mm256_shuffle_epi8(avx2_spread(p), byte_of);
    return _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit_of), bit_of), _mm256_set1_epi8(16));
}

AVX2_INLINE __m256 scales_half(const struct avx2_rows *g, size_t at) { return avx2_halves(g, at); }

AVX2_INLINE __m256i values_q4_0(const uint8_t *p) { return nibbles(p + 2); }
AVX2_INLINE __m256i values_q4_1(const uint8_t *p) { return nibbles(p + 4); }
AVX2_INLINE __m256i values_q5_0(const uint8_t *p) { return _mm256_or_si256(nibbles(p + 6), fifth_bits(p + 2)); }
AVX2_INLINE __m256i values_q5_1(const uint8_t *p) { return _mm256_or_si256(nibbles(p + 8), fifth_bits(p + 4)); }
AVX2_INLINE __m256i values_q8_0(const uint8_t *p) { return avx2_load(p + 2); }

AVX2_INLINE __m256i values_iq4_nl(const uint8_t *p)
{
    const __m256i table = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113));
    return _mm256_shuffle_epi8(table, nibbles(p + 2));
}

/* The doubled E2M1 values plus 12. */
AVX2_INLINE __m256i values_mxfp4(const uint8_t *p)
{
    const __m256i table =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    return _mm256_shuffle_epi8(table, nibbles(p + 1));
}

/* 2^(e - 128): for e = 0 and 1 subnormal, else (e - 1) in the exponent field. */
AVX2_INLINE __m256 scales_mxfp4(const struct avx2_rows *g, size_t at)
{
    __m256i e = _mm256_setr_epi32(g->p[0][at], g->p[1][at], g->p[2][at], g->p[3][at], g->p[4][at], g->p[5][at],
                                  g->p[6][at], g->p[7][at]);
    __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    __m256i small = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
    __m256i is_small = _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e);
    return _mm256_castsi256_ps(_mm256_blendv_epi8(normal, small, is_small));
}

/* ---- few tokens ---- */

/* One activation row against the 8 rows of a group. */
AVX2_INLINE __m256 dot_group(const struct format *f, const struct avx2_rows *g, const struct quant_x *x,
                             size_t n_blocks, size_t ahead)
{
    const __m256i ones = _mm256_set1_epi16(1);
    __m256 acc = _mm256_setzero_ps();
    for (size_t b = 0; b < n_blocks; b++) {
        size_t at = b * f->block_bytes;
        __m256i xv = avx2_load(x->q + 32 * b), s[AVX2_ROWS];
        for (int r = 0; r < AVX2_ROWS; r++) {
            __m256i w = f->values(g->p[r] + at);
            __m256i pairs = f->steps ? _mm256_maddubs_epi16(w, xv) : avx2_pairs_signed(w, xv);
            s[r] = _mm256_madd_epi16(pairs, ones);
            avx2_prefetch(g->p[r] + at, ahead);
        }
        __m256i sum = avx2_sum_each(s);
        if (f->offset)
            sum = _mm256_sub_epi32(sum, _mm256_set1_epi32(f->offset * (x->sums[2 * b] + x->sums[2 * b + 1])));
        __m256 d = _mm256_mul_ps(f->scales(g, at), _mm256_set1_ps(x->d[b]));
        acc = _mm256_fmadd_ps(d, _mm256_cvtepi32_ps(sum), acc);
        if (f->min_at) {
            __m256 m = _mm256_mul_ps(avx2_halves(g, at + f->min_at), _mm256_set1_ps(x->d[b]));
            acc = _mm256_fmadd_ps(m, _mm256_set1_ps((float)(x->sums[2 * b] + x->sums[2 * b + 1])), acc);
        }
    }
    return acc;
}

/* ---- many tokens ---- */

/* 8 rows of one block: lane r of q[i] holds values 4i .. 4i + 3 of row r (unsigned), or words 2i and 2i + 1 (signed).
 */
struct unpacked {
    __m256i q[16];
    __m256 d, m;
};

AVX2_INLINE void unpack(const struct format *f, const struct avx2_rows *g, size_t at, struct unpacked *u)
{
    __m256i rows[AVX2_ROWS], low[AVX2_ROWS], high[AVX2_ROWS];
    for (int r = 0; r < AVX2_ROWS; r++) rows[r] = f->values(g->p[r] + at);
    if (f->steps) {
        avx2_transpose(rows, u->q);
    } else {
        for (int r = 0; r < AVX2_ROWS; r++) {
            low[r] = _mm256_cvtepi8_epi16(_mm256_castsi256_si128(rows[r]));
            high[r] = _mm256_cvtepi8_epi16(_mm256_extracti128_si256(rows[r], 1));
        }
        avx2_transpose(low, u->q);
        avx2_transpose(high, u->q + 8);
    }
    u->d = f->scales(g, at);
    if (f->min_at) u->m = avx2_halves(g, at + f->min_at);
}

/* The block's integer sums of AVX2_STEP tokens. */
AVX2_INLINE void sums_unsigned(const struct format *f, const struct unpacked *u, const struct quant_x *x, size_t b,
                               __m256i sum[AVX2_STEP])
{
    const __m256i ones = _mm256_set1_epi16(1);
    for (int i = 0; i < 8; i += f->steps) {
        __m256i pairs[AVX2_STEP];
        for (int t = 0; t < AVX2_STEP; t++)
            pairs[t] = _mm256_maddubs_epi16(u->q[i], avx2_spread(x[t].q + 32 * b + 4 * (size_t)i));
        for (int k = i + 1; k < i + f->steps; k++)
            for (int t = 0; t < AVX2_STEP; t++)
                pairs[t] = _mm256_add_epi16(
                    pairs[t], _mm256_maddubs_epi16(u->q[k], avx2_spread(x[t].q + 32 * b + 4 * (size_t)k)));
        for (int t = 0; t < AVX2_STEP; t++) {
            __m256i wide = _mm256_madd_epi16(pairs[t], ones);
            sum[t] = i == 0 ? wide : _mm256_add_epi32(sum[t], wide);
        }
    }
    if (f->offset)
        for (int t = 0; t < AVX2_STEP; t++)
            sum[t] = _mm256_sub_epi32(
                sum[t], _mm256_madd_epi16(_mm256_set1_epi16((short)f->offset), avx2_spread(x[t].sums + 2 * b)));
}

AVX2_INLINE void sums_signed(const struct unpacked *u, const struct quant_x *x, size_t b, __m256i sum[AVX2_STEP])
{
    _Alignas(32) int16_t words[AVX2_STEP][32];
    for (int t = 0; t < AVX2_STEP; t++) {
        const int8_t *q = x[t].q + 32 * b;
        _mm256_store_si256((__m256i *)words[t], _mm256_cvtepi8_epi16(avx2_load_half(q)));
        _mm256_store_si256((__m256i *)(words[t] + 16), _mm256_cvtepi8_epi16(avx2_load_half(q + 16)));
        sum[t] = _mm256_setzero_si256();
    }
    for (int i = 0; i < 16; i++)
        for (int t = 0; t < AVX2_STEP; t++)
            sum[t] = _mm256_add_epi32(sum[t], _mm256_madd_epi16(u->q[i], avx2_spread(words[t] + 2 * i)));
}

AVX2_INLINE void dot_tile(const struct format *f, const struct avx2_rows *g, const struct avx2_tokens *t,
                          size_t n_blocks, __m256 acc[AVX2_TILE])
{
    struct unpacked u;
    for (size_t i = 0; i < t->n; i++) acc[i] = _mm256_setzero_ps();
    for (size_t i = t->n; i % AVX2_STEP != 0; i++) acc[i] = _mm256_setzero_ps();
    for (size_t b = 0; b < n_blocks; b++) {
        unpack(f, g, b * f->block_bytes, &u);
        for (size_t i = 0; i < t->n; i += AVX2_STEP) {
            __m256i sum[AVX2_STEP];
            const struct quant_x *x = t->x + i;
            if (f->steps)
                sums_unsigned(f, &u, x, b, sum);
            else
                sums_signed(&u, x, b, sum);
            for (int k = 0; k < AVX2_STEP; k++) {
                __m256 d = _mm256_set1_ps(x[k].d[b]), a = acc[i + (size_t)k];
                a = _mm256_fmadd_ps(_mm256_mul_ps(u.d, d), _mm256_cvtepi32_ps(sum[k]), a);
                if (f->min_at) {
                    __m256i s = _mm256_madd_epi16(_mm256_set1_epi16(1), avx2_spread(x[k].sums + 2 * b));
                    a = _mm256_fmadd_ps(_mm256_mul_ps(u.m, d), _mm256_cvtepi32_ps(s), a);
                }
                acc[i + (size_t)k] = a;
            }
        }
    }
}

AVX2_INLINE void product(const struct format *f, AVX2_PRODUCT_ARGS)
{
    size_t n_blocks = acts->n / 32, stride = n_blocks * f->block_bytes;
    if (n_tokens <= (f->steps ? AVX2_FEW_UNSIGNED : AVX2_FEW_SIGNED)) {
        for (size_t r = 0; r < n_rows; r += AVX2_ROWS) {
            struct avx2_rows g = avx2_rows_at(w, stride, r, n_rows);
            for (size_t j = 0; j < n_tokens; j++) {
                struct quant_x x = avx2_row_of(acts, QUANT_FORM_32, 32, tokens ? tokens[j] : j);
                avx2_store_rows(out + (out_rows ? out_rows[j] : j) * out_stride + r, g.n,
                                dot_group(f, &g, &x, n_blocks, AVX2_ROWS * stride));
            }
        }
        return;
    }
    struct avx2_tokens t;
    __m256 acc[AVX2_TILE];
    for (size_t j = 0; j < n_tokens; j += AVX2_TILE) {
        avx2_tokens_at(&t, QUANT_FORM_32, 32, acts, tokens, j, n_tokens, out, out_stride, out_rows);
        for (size_t r = 0; r < n_rows; r += AVX2_ROWS) {
            struct avx2_rows g = avx2_rows_at(w, stride, r, n_rows);
            dot_tile(f, &g, &t, n_blocks, acc);
            for (size_t i = 0; i < t.n; i++) avx2_store_rows(t.out[i] + r, g.n, acc[i]);
        }
    }
}

#define PRODUCT(name, bytes, scale_of, min, off, n_steps)                          \
    void kernel_avx2_##name(AVX2_PRODUCT_ARGS)                                     \
    {                                                                              \
        static const struct format f = {.block_bytes = bytes,                      \
                                        .values = values_##name,                   \
                                        .scales = scale_of,                        \
                                        .min_at = min,                             \
                                        .offset = off,                             \
                                        .steps = n_steps};                         \
        product(&f, w, n_rows, acts, tokens, n_tokens, out, out_stride, out_rows); \
    }
PRODUCT(q4_0, 18, scales_half, 0, 8, 8)
PRODUCT(q4_1, 20, scales_half, 2, 0, 8)
PRODUCT(q5_0, 22, scales_half, 0, 16, 4)
PRODUCT(q5_1, 24, scales_half, 2, 0, 4)
PRODUCT(q8_0, 34, scales_half, 0, 0, 0)
PRODUCT(iq4_nl, 18, scales_half, 0, 0, 0)
PRODUCT(mxfp4, 17, scales_mxfp4, 0, 12, 4)

void kernel_avx2_rows_q8_0(const void *w, size_t stride, size_t n_rows, const struct quant_x *x, size_t n, float *out)
{
    static const struct format f = {.block_bytes = 34, .values = values_q8_0, .scales = scales_half};
    for (size_t r = 0; r < n_rows; r += AVX2_ROWS) {
        struct avx2_rows g = avx2_rows_at(w, stride, r, n_rows);
        avx2_store_rows(out + r, g.n, dot_group(&f, &g, x, n / 32, AVX2_ROWS * stride));
    }
}
