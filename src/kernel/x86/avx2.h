/* Private to x86/: pieces that the AVX2 kernels share. Everything here is compiled with -mavx2 -mfma -mf16c.
 *
 * Products work on 8 weight rows at a time with one row a lane, so that the float chain of a row is one lane's sequence
 * of fma in block order, as the contract wants it. A group with fewer than 8 rows computes its last row several times
 * and stores it once. */
#ifndef KERNEL_X86_AVX2_H
#define KERNEL_X86_AVX2_H

#include "kernel/tables.h"

#include <immintrin.h>
#include <string.h>

#define AVX2_INLINE static inline __attribute__((always_inline))

/* Keeps a sum in its register and in the order in which it was written: compilers that know integer addition to be
 * associative make trees of all products of an unrolled loop first, and run out of registers. No instruction. */
#define AVX2_KEEP(v) __asm__("" : "+x"(v))

#define AVX2_ROWS 8
/* Up to so many tokens, each goes over the packed weights by itself; measured: where both ways take the same time. */
#define AVX2_FEW 2
#define AVX2_TILE 64 /* tokens for which one group of rows is unpacked once */
#define AVX2_STEP 4  /* tokens that share a load of unpacked weights */
/* From so many queries on, keys and values are turned into floats before all of them; measured. */
#define AVX2_QUERIES_MANY 9

#define AVX2_PRODUCT_ARGS                                                                                              \
    const void *w, size_t n_rows, const struct kernel_acts *acts, const uint32_t *tokens, size_t n_tokens, float *out, \
        size_t out_stride, const uint32_t *out_rows

void kernel_avx2_q4_0(AVX2_PRODUCT_ARGS);
void kernel_avx2_q4_1(AVX2_PRODUCT_ARGS);
void kernel_avx2_q5_0(AVX2_PRODUCT_ARGS);
void kernel_avx2_q5_1(AVX2_PRODUCT_ARGS);
void kernel_avx2_q8_0(AVX2_PRODUCT_ARGS);
void kernel_avx2_iq4_nl(AVX2_PRODUCT_ARGS);
void kernel_avx2_mxfp4(AVX2_PRODUCT_ARGS);
void kernel_avx2_q2_k(AVX2_PRODUCT_ARGS);
void kernel_avx2_q3_k(AVX2_PRODUCT_ARGS);
void kernel_avx2_q4_k(AVX2_PRODUCT_ARGS);
void kernel_avx2_q5_k(AVX2_PRODUCT_ARGS);
void kernel_avx2_q6_k(AVX2_PRODUCT_ARGS);
void kernel_avx2_iq4_xs(AVX2_PRODUCT_ARGS);
void kernel_avx2_iq1_s(AVX2_PRODUCT_ARGS);
void kernel_avx2_iq1_m(AVX2_PRODUCT_ARGS);
void kernel_avx2_iq2_xxs(AVX2_PRODUCT_ARGS);
void kernel_avx2_iq2_xs(AVX2_PRODUCT_ARGS);
void kernel_avx2_iq2_s(AVX2_PRODUCT_ARGS);
void kernel_avx2_iq3_xxs(AVX2_PRODUCT_ARGS);
void kernel_avx2_iq3_s(AVX2_PRODUCT_ARGS);
void kernel_avx2_tq1_0(AVX2_PRODUCT_ARGS);
void kernel_avx2_tq2_0(AVX2_PRODUCT_ARGS);
void kernel_avx2_nvfp4(AVX2_PRODUCT_ARGS);
void kernel_avx2_f32(AVX2_PRODUCT_ARGS);
void kernel_avx2_f16(AVX2_PRODUCT_ARGS);
void kernel_avx2_bf16(AVX2_PRODUCT_ARGS);

/* One activation row against n_rows rows that lie stride bytes apart. */
void kernel_avx2_rows_f32(const void *w, size_t stride, size_t n_rows, const float *x, size_t n, float *out);
void kernel_avx2_rows_f16(const void *w, size_t stride, size_t n_rows, const float *x, size_t n, float *out);
void kernel_avx2_rows_q8_0(const void *w, size_t stride, size_t n_rows, const struct quant_x *x, size_t n, float *out);
/* Several. */
void kernel_avx2_rows_many_f32(const void *w, size_t stride, size_t n_rows, const float *const *x, size_t n_x, size_t n,
                               float *const *out);
void kernel_avx2_rows_many_f16(const void *w, size_t stride, size_t n_rows, const float *const *x, size_t n_x, size_t n,
                               float *const *out);

void kernel_avx2_quantize(enum quant_form form, const float *x, size_t n, int8_t *q, float *d, int16_t *sums);
void kernel_avx2_attn_scores(uint32_t kv_type, const float *q, const struct quant_x *qx, const void *k,
                             size_t k_stride_bytes, size_t d_head, size_t n, float scale, float *scores);
void kernel_avx2_attn_values(uint32_t kv_type, const float *p, const void *v, size_t v_stride_bytes, size_t d_head,
                             size_t n, float *acc);
void kernel_avx2_attn_scores_many(uint32_t kv_type, const struct quant_x *x, size_t n_queries, const void *k,
                                  size_t k_stride_bytes, size_t d_head, size_t n, float scale, float (*scores)[64]);
void kernel_avx2_attn_values_many(uint32_t kv_type, const float (*p)[64], size_t n_queries, const void *v,
                                  size_t v_stride_bytes, size_t d_head, size_t n, float *const *acc);
float kernel_avx2_exp_sum(float *x, size_t n, float *max);
void kernel_avx2_exp_sum_many(float (*x)[64], size_t n_rows, float *sum, float *max);
void kernel_avx2_store_kv(uint32_t kv_type, const float *x, size_t n, void *out);

/* ---- rows of a group ---- */

struct avx2_rows {
    const uint8_t *p[AVX2_ROWS];
    size_t n; /* rows that exist */
};

AVX2_INLINE struct avx2_rows avx2_rows_at(const void *w, size_t stride, size_t first, size_t n_rows)
{
    struct avx2_rows g = {.n = n_rows - first < AVX2_ROWS ? n_rows - first : AVX2_ROWS};
    for (size_t r = 0; r < AVX2_ROWS; r++) g.p[r] = (const uint8_t *)w + (first + (r < g.n ? r : g.n - 1)) * stride;
    return g;
}

AVX2_INLINE void avx2_store_rows(float *out, size_t n, __m256 v)
{
    if (n == AVX2_ROWS) {
        _mm256_storeu_ps(out, v);
        return;
    }
    __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    _mm256_maskstore_ps(out, _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), lane), v);
}

/* The same place of the group that follows; a prefetch beyond the last row does nothing. */
AVX2_INLINE void avx2_prefetch(const uint8_t *p, size_t ahead)
{
    _mm_prefetch((const char *)((uintptr_t)p + ahead), _MM_HINT_T0);
}

AVX2_INLINE void avx2_prefetch_row(const uint8_t *p, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 64) avx2_prefetch(p, i);
}

AVX2_INLINE int avx2_load_i32(const void *p)
{
    int v;
    memcpy(&v, p, sizeof v);
    return v;
}

AVX2_INLINE short avx2_load_i16(const void *p)
{
    short v;
    memcpy(&v, p, sizeof v);
    return v;
}

AVX2_INLINE __m256i avx2_load(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }
AVX2_INLINE __m128i avx2_load_half(const void *p) { return _mm_loadu_si128((const __m128i *)p); }

/* Four bytes or two words of activations, in every lane. */
AVX2_INLINE __m256i avx2_spread(const void *p) { return _mm256_set1_epi32(avx2_load_i32(p)); }

/* The half float at offset `at` of each row. */
AVX2_INLINE __m256 avx2_halves(const struct avx2_rows *g, size_t at)
{
    __m128i h = _mm_cvtsi32_si128((uint16_t)avx2_load_i16(g->p[0] + at));
    h = _mm_insert_epi16(h, avx2_load_i16(g->p[1] + at), 1);
    h = _mm_insert_epi16(h, avx2_load_i16(g->p[2] + at), 2);
    h = _mm_insert_epi16(h, avx2_load_i16(g->p[3] + at), 3);
    h = _mm_insert_epi16(h, avx2_load_i16(g->p[4] + at), 4);
    h = _mm_insert_epi16(h, avx2_load_i16(g->p[5] + at), 5);
    h = _mm_insert_epi16(h, avx2_load_i16(g->p[6] + at), 6);
    h = _mm_insert_epi16(h, avx2_load_i16(g->p[7] + at), 7);
    return _mm256_cvtph_ps(h);
}

/* ---- integer sums ---- */

/* In each half, lanes 0 and 2 of the result together hold the sum of a's four lanes, lanes 1 and 3 that of b's. Two
 * shuffles and an addition each; a horizontal addition takes twice as long. */
AVX2_INLINE __m256i avx2_fold_2(__m256i a, __m256i b)
{
    return _mm256_add_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
}

/* Of two results of that, in each half: the sums of the four. */
AVX2_INLINE __m256i avx2_fold_4(__m256i ab, __m256i cd)
{
    return _mm256_add_epi32(_mm256_unpacklo_epi64(ab, cd), _mm256_unpackhi_epi64(ab, cd));
}

/* Lane r of the result is the sum of the 8 lanes of s[r]. */
AVX2_INLINE __m256i avx2_sum_each(const __m256i s[AVX2_ROWS])
{
    __m256i a = avx2_fold_4(avx2_fold_2(s[0], s[1]), avx2_fold_2(s[2], s[3]));
    __m256i b = avx2_fold_4(avx2_fold_2(s[4], s[5]), avx2_fold_2(s[6], s[7]));
    return _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(a, b, 0x31));
}

/* Lane i with i + 8, then + 4, + 2, + 1. */
AVX2_INLINE float avx2_sum_lanes(__m256 low, __m256 high)
{
    __m256 v = _mm256_add_ps(low, high);
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

/* Lane r of out[i] is lane i of in[r]. */
AVX2_INLINE void avx2_transpose(const __m256i in[8], __m256i out[8])
{
    __m256i a[8], b[8];
    for (int i = 0; i < 4; i++) {
        a[2 * i] = _mm256_unpacklo_epi32(in[2 * i], in[2 * i + 1]);
        a[2 * i + 1] = _mm256_unpackhi_epi32(in[2 * i], in[2 * i + 1]);
    }
    for (int i = 0; i < 2; i++) {
        b[4 * i] = _mm256_unpacklo_epi64(a[4 * i], a[4 * i + 2]);
        b[4 * i + 1] = _mm256_unpackhi_epi64(a[4 * i], a[4 * i + 2]);
        b[4 * i + 2] = _mm256_unpacklo_epi64(a[4 * i + 1], a[4 * i + 3]);
        b[4 * i + 3] = _mm256_unpackhi_epi64(a[4 * i + 1], a[4 * i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        out[i] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x20);
        out[i + 4] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x31);
    }
}

/* Signed weights times activations: maddubs wants its first operand unsigned, so the sign moves to the second. |w| <=
 * 128 and |x| <= 127, hence a pair is at most 2 * 128 * 127 = 32512 and never saturates; x is never -128, so its sign
 * can be turned. */
AVX2_INLINE __m256i avx2_pairs_signed(__m256i w, __m256i x)
{
    return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
}

/* ---- activations ---- */

AVX2_INLINE struct quant_x avx2_row_of(const struct kernel_acts *a, enum quant_form form, size_t block, size_t row)
{
    return (struct quant_x){.x = a->x + row * a->n,
                            .q = a->q[form] + row * a->n,
                            .d = a->d[form] + row * (a->n / block),
                            .sums = a->sums[form] + row * (a->n / 16)};
}

/* The rows of one tile of tokens; the last one is repeated up to a multiple of AVX2_STEP. */
struct avx2_tokens {
    struct quant_x x[AVX2_TILE];
    float *out[AVX2_TILE];
    size_t n;
};

AVX2_INLINE void avx2_tokens_at(struct avx2_tokens *t, enum quant_form form, size_t block,
                                const struct kernel_acts *acts, const uint32_t *tokens, size_t first, size_t n_tokens,
                                float *out, size_t out_stride, const uint32_t *out_rows)
{
    t->n = n_tokens - first < AVX2_TILE ? n_tokens - first : AVX2_TILE;
    for (size_t i = 0; i < t->n; i++) {
        size_t j = first + i;
        t->x[i] = avx2_row_of(acts, form, block, tokens ? tokens[j] : j);
        t->out[i] = out + (out_rows ? out_rows[j] : j) * out_stride;
    }
    for (size_t i = t->n; i % AVX2_STEP != 0; i++) t->x[i] = t->x[t->n - 1];
}

#endif
