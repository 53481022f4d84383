/* AVX-512 products of the K formats and IQ4_XS.
 *
 * Few tokens (of Q4_K and Q5_K they go over AVX2, see below): 64 values of a row in a register, dpbusd adds four
 * products a lane, and the offset's part is taken off in the lane. Then |lane| <= 4 * 127 * top. top <= 64 (all but
 * IQ4_XS): that is at most 32512, so the lanes of two registers are packed to words without saturating and dpwssd
 * multiplies them with sub-scales and adds pairs; it is modulo 2^32, with pairs of at most 2 * 32512 * 128. IQ4_XS
 * multiplies lanes of 32 bits.
 *
 * Many tokens: 16 rows are unpacked once a block and turned so that a lane holds a row's 4 successive values. The sum
 * of 16 values is at most 16 * 127 * top in magnitude, with the offset's part as its beginning. top <= 16 (Q2_K, Q3_K,
 * Q4_K): at most 32512, so its low word is the whole of it, and dpwssd with the sub-scale in the low word and 0 in the
 * high word multiplies and adds in one step. Else a product of 32 bits, of at most 32 * 127 * 127 * 63 < 2^26.
 *
 * Sums of a block fit 32 bits (quant/README.md). */
#include "kernel/x86/avx512_formats256.h"

/* ---- few tokens ---- */

/* 256 activations, and what a lane of dpbusd begins with. */
struct block_x {
    __m512i q[4], begin[4];
};

AVX2_INLINE struct block_x block_x(const struct format *f, const int8_t *q)
{
    struct block_x x;
    const __m512i zero = _mm512_setzero_si512();
    for (int c = 0; c < 4; c++) {
        x.q[c] = avx512_load(q + 64 * c);
        x.begin[c] = zero;
        if (f->offset)
            x.begin[c] =
                _mm512_sub_epi32(zero, _mm512_dpbusd_epi32(zero, _mm512_set1_epi8((char)(uint8_t)f->offset), x.q[c]));
    }
    return x;
}

/* Words of packs_epi32(chunk 2 h, chunk 2 h + 1): quarter j has four of sub-block 8 h + j and four of 8 h + 4 + j. */
AVX2_INLINE __m512i word_scales(__m512i scales, int h)
{
    const __m512i which =
        _mm512_set_epi32(0x00070007, 0x00070007, 0x00030003, 0x00030003, 0x00060006, 0x00060006, 0x00020002, 0x00020002,
                         0x00050005, 0x00050005, 0x00010001, 0x00010001, 0x00040004, 0x00040004, 0, 0);
    return _mm512_permutexvar_epi16(_mm512_add_epi16(which, _mm512_set1_epi16((short)(8 * h))), scales);
}

/* Lanes of chunk c: quarter j is of sub-block 4 c + j. */
AVX2_INLINE __m512i lane_scales(__m512i scales, int c)
{
    const __m512i which = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
    return _mm512_permutexvar_epi32(_mm512_add_epi32(which, _mm512_set1_epi32(4 * c)), scales);
}

AVX2_INLINE __m512i row_sum(const struct format *f, const uint8_t *p, const struct block_x *x)
{
    __m512i s0 = _mm512_dpbusd_epi32(x->begin[0], f->values(p, 0), x->q[0]);
    __m512i s1 = _mm512_dpbusd_epi32(x->begin[1], f->values(p, 1), x->q[1]);
    __m512i s2 = _mm512_dpbusd_epi32(x->begin[2], f->values(p, 2), x->q[2]);
    __m512i s3 = _mm512_dpbusd_epi32(x->begin[3], f->values(p, 3), x->q[3]);
    __m128i bytes = f->scales(p);
    if (f->top <= 64) {
        __m512i scales = _mm512_castsi256_si512(_mm256_cvtepi8_epi16(bytes));
        __m512i sum = _mm512_dpwssd_epi32(_mm512_setzero_si512(), _mm512_packs_epi32(s0, s1), word_scales(scales, 0));
        return _mm512_dpwssd_epi32(sum, _mm512_packs_epi32(s2, s3), word_scales(scales, 1));
    }
    __m512i scales = _mm512_cvtepi8_epi32(bytes);
    s0 = _mm512_add_epi32(_mm512_mullo_epi32(s0, lane_scales(scales, 0)),
                          _mm512_mullo_epi32(s1, lane_scales(scales, 1)));
    s2 = _mm512_add_epi32(_mm512_mullo_epi32(s2, lane_scales(scales, 2)),
                          _mm512_mullo_epi32(s3, lane_scales(scales, 3)));
    return _mm512_add_epi32(s0, s2);
}

/* One activation row against the 16 rows of a group. */
AVX2_INLINE __m512 dot_group(const struct format *f, const struct avx512_rows *g, const struct quant_x *x,
                             size_t n_blocks, size_t ahead)
{
    __m512 acc = _mm512_setzero_ps();
    for (size_t b = 0; b < n_blocks; b++) {
        size_t at = b * f->block_bytes;
        struct block_x xv = block_x(f, x->q + 256 * b);
        __m256i sums = avx2_load(x->sums + 16 * b), m[AVX512_ROWS];
        __m512i s[AVX512_ROWS];
        for (int r = 0; r < AVX512_ROWS; r++) {
            const uint8_t *p = g->p[r] + at;
            s[r] = row_sum(f, p, &xv);
            if (f->min_at) m[r] = _mm256_madd_epi16(_mm256_cvtepi8_epi16(f->mins(p)), sums);
            for (size_t line = 0; line < f->block_bytes; line += 64) avx2_prefetch(p + line, ahead);
        }
        __m512 xd = _mm512_set1_ps(x->d[b]), d = _mm512_mul_ps(avx512_halves(g, at + f->d_at), xd);
        acc = _mm512_fmadd_ps(d, _mm512_cvtepi32_ps(avx512_sum_each(s)), acc);
        if (f->min_at) {
            __m512 dmin = _mm512_mul_ps(avx512_negate(avx512_halves(g, at + f->min_at)), xd);
            __m512i minima = avx512_join(avx2_sum_each(m), avx2_sum_each(m + 8));
            acc = _mm512_fmadd_ps(dmin, _mm512_cvtepi32_ps(minima), acc);
        }
    }
    return acc;
}

/* ---- many tokens ---- */

struct unpacked {
    __m512i q[64];     /* lane r: values 4i .. 4i + 3 of row r */
    __m512i scale[16]; /* lane r: sub-scale i of row r; top <= 16: in the low word */
    __m512i pairs[8];  /* lane r: minima 2i and 2i + 1 of row r */
    __m512 d, dmin;
};

AVX2_INLINE void unpack_values(const struct format *f, const struct avx512_rows *g, size_t at, int c, __m512i *q)
{
    __m512i rows[AVX512_ROWS];
    for (int r = 0; r < AVX512_ROWS; r++) rows[r] = f->values(g->p[r] + at, c);
    avx512_transpose(rows, q + 16 * c);
}

AVX2_INLINE void unpack(const struct format *f, const struct avx512_rows *g, size_t at, struct unpacked *u)
{
    unpack_values(f, g, at, 0, u->q);
    unpack_values(f, g, at, 1, u->q);
    unpack_values(f, g, at, 2, u->q);
    unpack_values(f, g, at, 3, u->q);
    __m512i rows[AVX512_ROWS];
    for (int r = 0; r < AVX512_ROWS; r++) rows[r] = _mm512_cvtepi8_epi32(f->scales(g->p[r] + at));
    avx512_transpose(rows, u->scale);
    if (f->top <= 16)
        for (int i = 0; i < 16; i++) u->scale[i] = _mm512_and_si512(u->scale[i], _mm512_set1_epi32(0xffff));
    u->d = avx512_halves(g, at + f->d_at);
    if (!f->min_at) return;
    avx512_pairs(f->mins, g, at, u->pairs);
    u->dmin = avx512_negate(avx512_halves(g, at + f->min_at));
}

/* What each token's sums of 16 (in_32: of 32) values begin with, at block b. */
AVX2_INLINE void begin_tile(const struct format *f, const struct avx512_tokens *t, size_t b,
                            int32_t begin[AVX512_TILE][16])
{
    if (!f->offset) return;
    for (size_t i = 0; i < t->n; i += AVX512_STEP)
        for (size_t k = i; k < i + AVX512_STEP; k++) {
            __m512i sums = _mm512_cvtepi16_epi32(avx2_load(t->x[k].sums + 16 * b));
            if (f->in_32) sums = _mm512_add_epi32(sums, _mm512_rol_epi64(sums, 32));
            avx512_store(begin[k], _mm512_mullo_epi32(sums, _mm512_set1_epi32(-f->offset)));
        }
}

/* The block's integer sums of AVX512_STEP tokens. */
AVX2_INLINE void sums_of(const struct format *f, const struct unpacked *u, const struct quant_x *x, size_t b,
                         int32_t begin[AVX512_STEP][16], __m512i sum[AVX512_STEP])
{
    const bool words = f->top <= 16;
    const int together = f->in_32 && !words ? 8 : 4; /* values / 4 that share a multiplication */
    for (int k = 0; k < AVX512_STEP; k++) sum[k] = _mm512_setzero_si512();
    for (int i = 0; i < 64; i += together) {
        __m512i part[AVX512_STEP];
        for (int k = 0; k < AVX512_STEP; k++)
            part[k] = f->offset ? _mm512_set1_epi32(begin[k][i / 4]) : _mm512_setzero_si512();
        for (int v = i; v < i + together; v++)
            for (int k = 0; k < AVX512_STEP; k++)
                part[k] = _mm512_dpbusd_epi32(part[k], u->q[v], avx512_spread(x[k].q + 256 * b + 4 * (size_t)v));
        for (int k = 0; k < AVX512_STEP; k++)
            sum[k] = words ? _mm512_dpwssd_epi32(sum[k], part[k], u->scale[i / 4])
                           : _mm512_add_epi32(sum[k], _mm512_mullo_epi32(part[k], u->scale[i / 4]));
    }
}

AVX2_INLINE void dot_tile(const struct format *f, const struct avx512_rows *g, const struct avx512_tokens *t,
                          size_t n_blocks, __m512 acc[AVX512_TILE])
{
    struct unpacked u;
    _Alignas(64) int32_t begin[AVX512_TILE][16];
    for (size_t i = 0; i < t->n; i += AVX512_STEP)
        for (size_t k = 0; k < AVX512_STEP; k++) acc[i + k] = _mm512_setzero_ps();
    for (size_t b = 0; b < n_blocks; b++) {
        unpack(f, g, b * f->block_bytes, &u);
        begin_tile(f, t, b, begin);
        for (size_t i = 0; i < t->n; i += AVX512_STEP) {
            const struct quant_x *x = t->x + i;
            __m512i sum[AVX512_STEP];
            sums_of(f, &u, x, b, begin + i, sum);
            for (int k = 0; k < AVX512_STEP; k++) {
                __m512 d = _mm512_set1_ps(x[k].d[b]), a = acc[i + (size_t)k];
                a = _mm512_fmadd_ps(_mm512_mul_ps(u.d, d), _mm512_cvtepi32_ps(sum[k]), a);
                if (f->min_at)
                    a = _mm512_fmadd_ps(_mm512_mul_ps(u.dmin, d),
                                        _mm512_cvtepi32_ps(avx512_pair_sum(u.pairs, x[k].sums + 16 * b)), a);
                acc[i + (size_t)k] = a;
            }
        }
    }
}

AVX2_INLINE void product(const struct format *f, AVX2_PRODUCT_ARGS)
{
    size_t n_blocks = acts->n / 256, stride = n_blocks * f->block_bytes;
    if (n_tokens <= AVX512_FEW) {
        for (size_t r = 0; r < n_rows; r += AVX512_ROWS) {
            struct avx512_rows g = avx512_rows_at(w, stride, r, n_rows);
            for (size_t j = 0; j < n_tokens; j++) {
                struct quant_x x = avx2_row_of(acts, QUANT_FORM_256, 256, tokens ? tokens[j] : j);
                avx512_store_rows(out + (out_rows ? out_rows[j] : j) * out_stride + r, g.n,
                                  dot_group(f, &g, &x, n_blocks, AVX512_ROWS * stride));
            }
        }
        return;
    }
    struct avx512_tokens t;
    __m512 acc[AVX512_TILE];
    for (size_t j = 0; j < n_tokens; j += AVX512_TILE) {
        avx512_tokens_at(&t, QUANT_FORM_256, acts, tokens, j, n_tokens, out, out_stride, out_rows);
        for (size_t r = 0; r < n_rows; r += AVX512_ROWS) {
            struct avx512_rows g = avx512_rows_at(w, stride, r, n_rows);
            dot_tile(f, &g, &t, n_blocks, acc);
            for (size_t i = 0; i < t.n; i++) avx512_store_rows(t.out[i] + r, g.n, acc[i]);
        }
    }
}

/* How many tokens go over packed weights faster by AVX2, which for these takes up to four together; measured. */
#define FEW_TO_AVX2_q2_k(n) false
#define FEW_TO_AVX2_q3_k(n) false
#define FEW_TO_AVX2_q4_k(n) ((n) <= 4)
#define FEW_TO_AVX2_q5_k(n) ((n) >= 2 && (n) <= 4)
#define FEW_TO_AVX2_q6_k(n) false
#define FEW_TO_AVX2_iq4_xs(n) false

#define PRODUCT(name, bytes, half_at, minimum_at, off, largest, pairs, scales_of, mins_of)    \
    void kernel_avx512_##name(AVX2_PRODUCT_ARGS)                                              \
    {                                                                                         \
        static const struct format f = {.block_bytes = bytes,                                 \
                                        .d_at = half_at,                                      \
                                        .min_at = minimum_at,                                 \
                                        .offset = off,                                        \
                                        .top = largest,                                       \
                                        .in_32 = pairs,                                       \
                                        .values = values_##name,                              \
                                        .scales = scales_of,                                  \
                                        .mins = mins_of};                                     \
        if (FEW_TO_AVX2_##name(n_tokens))                                                     \
            kernel_avx2_##name(w, n_rows, acts, tokens, n_tokens, out, out_stride, out_rows); \
        else                                                                                  \
            product(&f, w, n_rows, acts, tokens, n_tokens, out, out_stride, out_rows);        \
    }
FORMATS_256(PRODUCT)
