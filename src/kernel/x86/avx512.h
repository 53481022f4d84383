/* Private to x86/: pieces that the AVX-512 and AMX kernels share. Needs F, BW, VL and VNNI.
 *
 * Products work on 16 weight rows at a time with one row a lane, as the AVX2 kernels do on 8. A format hands out its
 * values as unsigned bytes that are `offset` too large (0 for formats with a minimum), because the first operand of
 * dpbusd is unsigned.
 *
 * dpbusd (not dpbusds, which saturates) adds four products of 8 bits to a lane of 32 bits modulo 2^32, exactly: its
 * intermediate products and their sum are at most 4 * 255 * 128 and do not saturate either. What remains to be shown is
 * that a block's sum fits 32 bits, which quant/README.md does for every format and any bytes of a file. Sums with the
 * offset left in are not bounded by that, but they are exact modulo 2^32 and so is their correction. */
#ifndef KERNEL_X86_AVX512_H
#define KERNEL_X86_AVX512_H

#include "kernel/x86/avx2.h"
#include "kernel/x86/intrinsics.h"

#define AVX512_ROWS 16
#define AVX512_FEW 3   /* up to so many tokens go over the packed weights one after the other; measured */
#define AVX512_TILE 64 /* tokens for which one group of rows is unpacked once */
#define AVX512_STEP 8  /* tokens together: that many independent chains of dpbusd */

void kernel_avx512_q4_0(AVX2_PRODUCT_ARGS);
void kernel_avx512_q4_1(AVX2_PRODUCT_ARGS);
void kernel_avx512_q5_0(AVX2_PRODUCT_ARGS);
void kernel_avx512_q5_1(AVX2_PRODUCT_ARGS);
void kernel_avx512_q8_0(AVX2_PRODUCT_ARGS);
void kernel_avx512_iq4_nl(AVX2_PRODUCT_ARGS);
void kernel_avx512_mxfp4(AVX2_PRODUCT_ARGS);
void kernel_avx512_q2_k(AVX2_PRODUCT_ARGS);
void kernel_avx512_q3_k(AVX2_PRODUCT_ARGS);
void kernel_avx512_q4_k(AVX2_PRODUCT_ARGS);
void kernel_avx512_q5_k(AVX2_PRODUCT_ARGS);
void kernel_avx512_q6_k(AVX2_PRODUCT_ARGS);
void kernel_avx512_iq4_xs(AVX2_PRODUCT_ARGS);
void kernel_avx512_f32(AVX2_PRODUCT_ARGS);
void kernel_avx512_f16(AVX2_PRODUCT_ARGS);
void kernel_avx512_bf16(AVX2_PRODUCT_ARGS);

/* One activation row against n_rows rows that lie stride bytes apart. */
void kernel_avx512_rows_f32(const void *w, size_t stride, size_t n_rows, const float *x, size_t n, float *out);
void kernel_avx512_rows_f16(const void *w, size_t stride, size_t n_rows, const float *x, size_t n, float *out);
void kernel_avx512_rows_q8_0(const void *w, size_t stride, size_t n_rows, const struct quant_x *x, size_t n,
                             float *out);
/* Several, into rows of 64; n_rows <= 64. */
void kernel_avx512_rows_many_q8_0(const void *w, size_t stride, size_t n_rows, const struct quant_x *x, size_t n_x,
                                  size_t n, float (*out)[64]);

void kernel_avx512_attn_scores(uint32_t kv_type, const float *q, const struct quant_x *qx, const void *k,
                               size_t k_stride_bytes, size_t d_head, size_t n, float scale, float *scores);
void kernel_avx512_attn_values(uint32_t kv_type, const float *p, const void *v, size_t v_stride_bytes, size_t d_head,
                               size_t n, float *acc);

void kernel_avx512_attn_scores_many(uint32_t kv_type, const struct quant_x *x, size_t n_queries, const void *k,
                                    size_t k_stride_bytes, size_t d_head, size_t n, float scale, float (*scores)[64]);
void kernel_avx512_attn_values_many(uint32_t kv_type, const float (*p)[64], size_t n_queries, const void *v,
                                    size_t v_stride_bytes, size_t d_head, size_t n, float *const *acc);

void kernel_avx512_attn_values_join(uint32_t kv_type, const float (*p)[64], size_t n_queries, const void *v,
                                    size_t v_stride_bytes, size_t d_head, size_t n, const struct kernel_join *join);
void kernel_avx512_exp_sum_many(float (*x)[64], size_t n_rows, float *sum, float *max);

/* ---- rows of a group ---- */

struct avx512_rows {
    const uint8_t *p[AVX512_ROWS];
    size_t n; /* rows that exist; the last one stands in for the others */
};

AVX2_INLINE struct avx512_rows avx512_rows_at(const void *w, size_t stride, size_t first, size_t n_rows)
{
    struct avx512_rows g = {.n = n_rows - first < AVX512_ROWS ? n_rows - first : AVX512_ROWS};
    for (size_t r = 0; r < AVX512_ROWS; r++) g.p[r] = (const uint8_t *)w + (first + (r < g.n ? r : g.n - 1)) * stride;
    return g;
}

AVX2_INLINE void avx512_store_rows(float *out, size_t n, __m512 v)
{
    _mm512_mask_storeu_ps(out, (__mmask16)((1u << n) - 1), v);
}

AVX2_INLINE __m512i avx512_load(const void *p) { return _mm512_loadu_si512(p); }
AVX2_INLINE void avx512_store(void *p, __m512i v) { _mm512_storeu_si512(p, v); }

AVX2_INLINE __m512i avx512_join(__m256i low, __m256i high)
{
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

/* Four bytes or two words of activations, in every lane. */
AVX2_INLINE __m512i avx512_spread(const void *p) { return _mm512_set1_epi32(avx2_load_i32(p)); }

AVX2_INLINE __m128i avx512_eight_words(const uint8_t *const p[8], size_t at)
{
    __m128i h = _mm_cvtsi32_si128((uint16_t)avx2_load_i16(p[0] + at));
    h = _mm_insert_epi16(h, avx2_load_i16(p[1] + at), 1);
    h = _mm_insert_epi16(h, avx2_load_i16(p[2] + at), 2);
    h = _mm_insert_epi16(h, avx2_load_i16(p[3] + at), 3);
    h = _mm_insert_epi16(h, avx2_load_i16(p[4] + at), 4);
    h = _mm_insert_epi16(h, avx2_load_i16(p[5] + at), 5);
    h = _mm_insert_epi16(h, avx2_load_i16(p[6] + at), 6);
    return _mm_insert_epi16(h, avx2_load_i16(p[7] + at), 7);
}

/* The half float at offset `at` of each row. */
AVX2_INLINE __m512 avx512_halves(const struct avx512_rows *g, size_t at)
{
    return _mm512_cvtph_ps(_mm256_set_m128i(avx512_eight_words(g->p + 8, at), avx512_eight_words(g->p, at)));
}

/* The sign turned. */
AVX2_INLINE __m512 avx512_negate(__m512 v)
{
    return _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(v), _mm512_set1_epi32((int)0x80000000u)));
}

/* ---- integer sums ---- */

/* a and b added pairwise inside each quarter of a register: a0 + a2, b0 + b2, a1 + a3, b1 + b3. */
AVX2_INLINE __m512i avx512_fold_2(__m512i a, __m512i b)
{
    return _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
}

/* Quarters of four registers summed: each quarter of the result holds its sums of a, b, c and d. */
AVX2_INLINE __m512i avx512_fold_4(__m512i a, __m512i b, __m512i c, __m512i d)
{
    __m512i ab = avx512_fold_2(a, b), cd = avx512_fold_2(c, d);
    return _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
}

/* Quarters 0 + 1 and 2 + 3 of a, then those of b. */
AVX2_INLINE __m512i avx512_fold_quarters(__m512i a, __m512i b)
{
    return _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd));
}

/* Lane r of the result is the sum of the 16 lanes of s[r]. */
AVX2_INLINE __m512i avx512_sum_each(const __m512i s[AVX512_ROWS])
{
    __m512i a = avx512_fold_quarters(avx512_fold_4(s[0], s[1], s[2], s[3]), avx512_fold_4(s[4], s[5], s[6], s[7]));
    __m512i b =
        avx512_fold_quarters(avx512_fold_4(s[8], s[9], s[10], s[11]), avx512_fold_4(s[12], s[13], s[14], s[15]));
    return avx512_fold_quarters(a, b);
}

/* Which two rows a register of avx512_sum_halves holds: i (its low half) is one of 0 .. 3 and 8 .. 11, and i + 4. */
AVX2_INLINE size_t avx512_half_row(size_t i) { return i < 4 ? i : i + 4; }

/* The same where each s[i] holds two rows, avx512_half_row(i) and that + 4. */
AVX2_INLINE __m512i avx512_sum_halves(const __m512i s[AVX512_ROWS / 2])
{
    return avx512_fold_quarters(avx512_fold_4(s[0], s[1], s[2], s[3]), avx512_fold_4(s[4], s[5], s[6], s[7]));
}

/* ---- turning rows to lanes ---- */

/* 4 x 4 lanes inside each quarter, for the four registers from `in`. */
AVX2_INLINE void avx512_turn_quarters(const __m512i in[4], __m512i out[4])
{
    __m512i a = _mm512_unpacklo_epi32(in[0], in[1]), b = _mm512_unpackhi_epi32(in[0], in[1]);
    __m512i c = _mm512_unpacklo_epi32(in[2], in[3]), d = _mm512_unpackhi_epi32(in[2], in[3]);
    out[0] = _mm512_unpacklo_epi64(a, c);
    out[1] = _mm512_unpackhi_epi64(a, c);
    out[2] = _mm512_unpacklo_epi64(b, d);
    out[3] = _mm512_unpackhi_epi64(b, d);
}

/* Lane r of out[i] is lane i of in[r]. */
AVX2_INLINE void avx512_transpose(const __m512i in[16], __m512i out[16])
{
    __m512i t[16];
    for (int i = 0; i < 4; i++) avx512_turn_quarters(in + 4 * i, t + 4 * i); /* t[4 i + j], quarter k: lane 4 k + j */
    for (int j = 0; j < 4; j++) {
        __m512i a = _mm512_shuffle_i32x4(t[j], t[4 + j], 0x88), b = _mm512_shuffle_i32x4(t[j], t[4 + j], 0xdd);
        __m512i c = _mm512_shuffle_i32x4(t[8 + j], t[12 + j], 0x88),
                d = _mm512_shuffle_i32x4(t[8 + j], t[12 + j], 0xdd);
        out[j] = _mm512_shuffle_i32x4(a, c, 0x88);
        out[8 + j] = _mm512_shuffle_i32x4(a, c, 0xdd);
        out[4 + j] = _mm512_shuffle_i32x4(b, d, 0x88);
        out[12 + j] = _mm512_shuffle_i32x4(b, d, 0xdd);
    }
}

/* Rows of 8 lanes: in[i] holds row i in its low half and row i + 8 in its high half. */
AVX2_INLINE void avx512_transpose_halves(const __m512i in[8], __m512i out[8])
{
    const __m512i even = _mm512_set_epi64(13, 12, 5, 4, 9, 8, 1, 0); /* quarters 0 and 2: of both, low halves first */
    const __m512i odd = _mm512_set_epi64(15, 14, 7, 6, 11, 10, 3, 2);
    __m512i t[8];
    avx512_turn_quarters(in, t);
    avx512_turn_quarters(in + 4, t + 4);
    for (int j = 0; j < 4; j++) {
        out[j] = _mm512_permutex2var_epi64(t[j], even, t[4 + j]);
        out[4 + j] = _mm512_permutex2var_epi64(t[j], odd, t[4 + j]);
    }
}

/* 16 bytes of each row as words: lane r of out[i] holds bytes 2i and 2i + 1 of row r. */
AVX2_INLINE void avx512_pairs(__m128i (*bytes)(const uint8_t *), const struct avx512_rows *g, size_t at, __m512i out[8])
{
    __m512i rows[8];
    for (int r = 0; r < 8; r++)
        rows[r] = avx512_join(_mm256_cvtepi8_epi16(bytes(g->p[r] + at)), _mm256_cvtepi8_epi16(bytes(g->p[r + 8] + at)));
    avx512_transpose_halves(rows, out);
}

/* Their products with 16 words. */
AVX2_INLINE __m512i avx512_pair_sum(const __m512i pairs[8], const int16_t *words)
{
    __m512i sum = _mm512_setzero_si512();
    for (int i = 0; i < 8; i++) sum = _mm512_dpwssd_epi32(sum, pairs[i], avx512_spread(words + 2 * i));
    return sum;
}

/* ---- values ---- */

/* 16 bytes as nibbles, low ones first, then the next 16 bytes likewise. */
AVX2_INLINE __m512i avx512_nibbles(__m256i bytes)
{
    __m512i v = _mm512_permutexvar_epi64(_mm512_set_epi64(3, 2, 3, 2, 1, 0, 1, 0), _mm512_castsi256_si512(bytes));
    v = _mm512_srlv_epi64(v, _mm512_set_epi64(4, 4, 0, 0, 4, 4, 0, 0));
    return _mm512_and_si512(v, _mm512_set1_epi8(15));
}

/* The values of IQ4_NL and IQ4_XS, plus 128. */
AVX2_INLINE __m512i avx512_iq4(__m512i nibbles)
{
    const __m512i table =
        _mm512_broadcast_i32x4(_mm_setr_epi8(1, 24, 45, 63, 79, 93, 106, 118, (char)129, (char)141, (char)153,
                                             (char)166, (char)181, (char)197, (char)217, (char)241));
    return _mm512_shuffle_epi8(table, nibbles);
}

/* ---- activations ---- */

/* The rows of one tile of tokens; the last one is repeated up to a multiple of AVX512_STEP. */
struct avx512_tokens {
    struct quant_x x[AVX512_TILE];
    float *out[AVX512_TILE];
    size_t n;
};

AVX2_INLINE void avx512_tokens_at(struct avx512_tokens *t, enum quant_form form, const struct kernel_acts *acts,
                                  const uint32_t *tokens, size_t first, size_t n_tokens, float *out, size_t out_stride,
                                  const uint32_t *out_rows)
{
    t->n = n_tokens - first < AVX512_TILE ? n_tokens - first : AVX512_TILE;
    for (size_t i = 0; i < t->n; i++) {
        size_t j = first + i;
        t->x[i] = avx2_row_of(acts, form, quant_form_len(form), tokens ? tokens[j] : j);
        t->out[i] = out + (out_rows ? out_rows[j] : j) * out_stride;
    }
    for (size_t i = t->n; i % AVX512_STEP != 0; i++) t->x[i] = t->x[t->n - 1];
}

#endif
