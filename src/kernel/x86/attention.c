/* One query head over one block of cached keys and values, the cache's encoding, and the quantisation of activations.
 */
#include "kernel/x86/avx2.h"

#include "base/assert.h"

#include <math.h>

void kernel_avx2_attn_scores(uint32_t kv_type, const float *q, const struct quant_x *qx, const void *k,
                             size_t k_stride_bytes, size_t d_head, size_t n, float scale, float *scores)
{
    switch (kv_type) {
    case QUANT_F32: kernel_avx2_rows_f32(k, k_stride_bytes, n, q, d_head, scores); break;
    case QUANT_F16: kernel_avx2_rows_f16(k, k_stride_bytes, n, q, d_head, scores); break;
    case QUANT_Q8_0: kernel_avx2_rows_q8_0(k, k_stride_bytes, n, qx, d_head, scores); break;
    default: BASE_ASSERT(false, "K5 keys and values are F32, F16 or Q8_0");
    }
    for (size_t i = 0; i < n; i++) scores[i] *= scale;
}

/* ---- values: 32 elements in registers while the positions go by ---- */

AVX2_INLINE void values_f32(const float *p, const uint8_t *v, size_t stride, size_t d_head, size_t n, float *acc)
{
    size_t e = 0;
    for (; e + 8 <= d_head; e += 8) {
        size_t wide = d_head - e >= 32 ? 4 : 1;
        if (wide == 4) {
            __m256 a[4];
            for (int i = 0; i < 4; i++) a[i] = _mm256_loadu_ps(acc + e + 8 * i);
            for (size_t j = 0; j < n; j++) {
                const float *row = (const float *)(const void *)(v + j * stride) + e;
                __m256 pj = _mm256_set1_ps(p[j]);
                for (int i = 0; i < 4; i++) a[i] = _mm256_fmadd_ps(pj, _mm256_loadu_ps(row + 8 * i), a[i]);
            }
            for (int i = 0; i < 4; i++) _mm256_storeu_ps(acc + e + 8 * i, a[i]);
            e += 24;
        } else {
            __m256 a = _mm256_loadu_ps(acc + e);
            for (size_t j = 0; j < n; j++)
                a = _mm256_fmadd_ps(_mm256_set1_ps(p[j]),
                                    _mm256_loadu_ps((const float *)(const void *)(v + j * stride) + e), a);
            _mm256_storeu_ps(acc + e, a);
        }
    }
    for (; e < d_head; e++)
        for (size_t j = 0; j < n; j++) {
            float x;
            memcpy(&x, v + j * stride + 4 * e, sizeof x);
            acc[e] = fmaf(p[j], x, acc[e]);
        }
}

AVX2_INLINE void values_f16(const float *p, const uint8_t *v, size_t stride, size_t d_head, size_t n, float *acc)
{
    size_t e = 0;
    for (; e + 32 <= d_head; e += 32) {
        __m256 a[4];
        for (int i = 0; i < 4; i++) a[i] = _mm256_loadu_ps(acc + e + 8 * i);
        for (size_t j = 0; j < n; j++) {
            const uint8_t *row = v + j * stride + 2 * e;
            __m256 pj = _mm256_set1_ps(p[j]);
            for (int i = 0; i < 4; i++) a[i] = _mm256_fmadd_ps(pj, _mm256_cvtph_ps(avx2_load_half(row + 16 * i)), a[i]);
        }
        for (int i = 0; i < 4; i++) _mm256_storeu_ps(acc + e + 8 * i, a[i]);
    }
    for (; e + 8 <= d_head; e += 8) {
        __m256 a = _mm256_loadu_ps(acc + e);
        for (size_t j = 0; j < n; j++)
            a = _mm256_fmadd_ps(_mm256_set1_ps(p[j]), _mm256_cvtph_ps(avx2_load_half(v + j * stride + 2 * e)), a);
        _mm256_storeu_ps(acc + e, a);
    }
    for (; e < d_head; e++)
        for (size_t j = 0; j < n; j++)
            acc[e] = fmaf(p[j], _cvtsh_ss((uint16_t)avx2_load_i16(v + j * stride + 2 * e)), acc[e]);
}

AVX2_INLINE void values_q8_0(const float *p, const uint8_t *v, size_t stride, size_t d_head, size_t n, float *acc)
{
    for (size_t e = 0; e < d_head; e += 32) {
        __m256 a[4];
        for (int i = 0; i < 4; i++) a[i] = _mm256_loadu_ps(acc + e + 8 * i);
        for (size_t j = 0; j < n; j++) {
            const uint8_t *block = v + j * stride + e / 32 * 34;
            __m256 pj = _mm256_set1_ps(p[j]), d = _mm256_set1_ps(_cvtsh_ss((uint16_t)avx2_load_i16(block)));
            for (int i = 0; i < 4; i++) {
                __m128i q = _mm_loadl_epi64((const __m128i *)(const void *)(block + 2 + 8 * i));
                __m256 x = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q)), d);
                a[i] = _mm256_fmadd_ps(pj, x, a[i]);
            }
        }
        for (int i = 0; i < 4; i++) _mm256_storeu_ps(acc + e + 8 * i, a[i]);
    }
}

void kernel_avx2_attn_values(uint32_t kv_type, const float *p, const void *v, size_t v_stride_bytes, size_t d_head,
                             size_t n, float *acc)
{
    switch (kv_type) {
    case QUANT_F32: values_f32(p, v, v_stride_bytes, d_head, n, acc); break;
    case QUANT_F16: values_f16(p, v, v_stride_bytes, d_head, n, acc); break;
    case QUANT_Q8_0: values_q8_0(p, v, v_stride_bytes, d_head, n, acc); break;
    default: BASE_ASSERT(false, "K5 keys and values are F32, F16 or Q8_0");
    }
}

/* ---- several queries ---- */

void kernel_avx2_attn_scores_many(uint32_t kv_type, const struct quant_x *x, size_t n_queries, const void *k,
                                  size_t k_stride_bytes, size_t d_head, size_t n, float scale, float (*scores)[64])
{
    const float *q[KERNEL_QUERIES_MAX];
    float *out[KERNEL_QUERIES_MAX];
    for (size_t i = 0; i < n_queries; i++) {
        q[i] = x[i].x;
        out[i] = scores[i];
    }
    switch (kv_type) {
    case QUANT_F32: kernel_avx2_rows_many_f32(k, k_stride_bytes, n, q, n_queries, d_head, out); break;
    case QUANT_F16: kernel_avx2_rows_many_f16(k, k_stride_bytes, n, q, n_queries, d_head, out); break;
    case QUANT_Q8_0:
        for (size_t i = 0; i < n_queries; i++) kernel_avx2_rows_q8_0(k, k_stride_bytes, n, &x[i], d_head, out[i]);
        break;
    default: BASE_ASSERT(false, "K5 keys and values are F32, F16 or Q8_0");
    }
    for (size_t i = 0; i < n_queries; i++)
        for (size_t j = 0; j < n; j++) scores[i][j] *= scale;
}

/* ---- the sum of exponentials: the steps of math_exp (base/math.c), 8 lanes at a time ---- */

AVX2_INLINE __m256 exp_8(__m256 x)
{
    const __m256 magic = _mm256_set1_ps(0x1.8p+23f);
    x = _mm256_min_ps(_mm256_set1_ps(89.0f), x); /* both give x if it is NaN */
    x = _mm256_max_ps(_mm256_set1_ps(-104.5f), x);
    const __m256 t = _mm256_fmadd_ps(x, _mm256_set1_ps(0x1.715476p+0f), magic), n = _mm256_sub_ps(t, magic);
    const __m256i k = _mm256_sub_epi32(_mm256_castps_si256(t), _mm256_castps_si256(magic));
    __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(-0x1.62e4p-1f), x);
    r = _mm256_fmadd_ps(n, _mm256_set1_ps(-0x1.7f7d1cp-20f), r);
    __m256 q = _mm256_fmadd_ps(_mm256_set1_ps(0x1.6a2434p-10f), r, _mm256_set1_ps(0x1.1239e2p-7f));
    q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(0x1.5558f2p-5f));
    q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(0x1.555492p-3f));
    q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(0x1.fffffcp-2f));
    const __m256 y = _mm256_add_ps(_mm256_set1_ps(1.0f), _mm256_fmadd_ps(q, _mm256_mul_ps(r, r), r));
    const __m256i bias = _mm256_set1_epi32(127), k1 = _mm256_srai_epi32(k, 1);
    const __m256i a = _mm256_slli_epi32(_mm256_add_epi32(k1, bias), 23),
                  b = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(k, k1), bias), 23);
    return _mm256_mul_ps(_mm256_mul_ps(y, _mm256_castsi256_ps(a)), _mm256_castsi256_ps(b));
}

/* None is NaN; a zero is +0. */
AVX2_INLINE float largest_lane(__m256 x)
{
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m))) + 0.0f;
}

/* As the elementwise function, which does what is not a multiple of 16. */
float kernel_avx2_exp_sum(float *x, size_t n, float *max)
{
    if (n % 16 != 0) return kernel_exp_sum_avx2(x, n, max);
    __m256 low = _mm256_set1_ps(-INFINITY), high = low;
    for (size_t i = 0; i < n; i += 16) {
        low = _mm256_max_ps(_mm256_loadu_ps(x + i), low); /* keeps what it has if x is NaN */
        high = _mm256_max_ps(_mm256_loadu_ps(x + i + 8), high);
    }
    *max = largest_lane(_mm256_max_ps(low, high));
    const __m256 top = _mm256_set1_ps(*max);
    low = high = _mm256_setzero_ps();
    for (size_t i = 0; i < n; i += 16) {
        __m256 a = exp_8(_mm256_sub_ps(_mm256_loadu_ps(x + i), top)),
               b = exp_8(_mm256_sub_ps(_mm256_loadu_ps(x + i + 8), top));
        _mm256_storeu_ps(x + i, a);
        _mm256_storeu_ps(x + i + 8, b);
        low = _mm256_add_ps(low, a);
        high = _mm256_add_ps(high, b);
    }
    return avx2_sum_lanes(low, high);
}

/* Rows of 64, n_rows <= 2: what one waits for, the other fills. */
AVX2_INLINE void exp_rows(float (*x)[64], int n_rows, float *sum, float *max)
{
    __m256 top[2], low[2], high[2];
    for (int r = 0; r < n_rows; r++) {
        low[r] = high[r] = _mm256_set1_ps(-INFINITY);
        for (int i = 0; i < 64; i += 16) {
            low[r] = _mm256_max_ps(_mm256_loadu_ps(x[r] + i), low[r]);
            high[r] = _mm256_max_ps(_mm256_loadu_ps(x[r] + i + 8), high[r]);
        }
        max[r] = largest_lane(_mm256_max_ps(low[r], high[r]));
        top[r] = _mm256_set1_ps(max[r]);
        low[r] = high[r] = _mm256_setzero_ps();
    }
    for (int i = 0; i < 64; i += 16)
        for (int r = 0; r < n_rows; r++) {
            const __m256 a = exp_8(_mm256_sub_ps(_mm256_loadu_ps(x[r] + i), top[r])),
                         b = exp_8(_mm256_sub_ps(_mm256_loadu_ps(x[r] + i + 8), top[r]));
            _mm256_storeu_ps(x[r] + i, a);
            _mm256_storeu_ps(x[r] + i + 8, b);
            low[r] = _mm256_add_ps(low[r], a);
            high[r] = _mm256_add_ps(high[r], b);
        }
    for (int r = 0; r < n_rows; r++) sum[r] = avx2_sum_lanes(low[r], high[r]);
}

void kernel_avx2_exp_sum_many(float (*x)[64], size_t n_rows, float *sum, float *max)
{
    size_t r = 0;
    for (; r + 2 <= n_rows; r += 2) exp_rows(x + r, 2, sum + r, max + r);
    if (r < n_rows) exp_rows(x + r, 1, sum + r, max + r);
}

#define POSITIONS 16

/* 8 values from element e of a row. */
AVX2_INLINE __m256 load_f32(const uint8_t *row, size_t e)
{
    return _mm256_loadu_ps((const float *)(const void *)row + e);
}
AVX2_INLINE __m256 load_f16(const uint8_t *row, size_t e) { return _mm256_cvtph_ps(avx2_load_half(row + 2 * e)); }
AVX2_INLINE __m256 load_q8_0(const uint8_t *row, size_t e)
{
    const uint8_t *block = row + e / 32 * 34;
    __m128i q = _mm_loadl_epi64((const __m128i *)(const void *)(block + 2 + e % 32));
    return _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q)),
                         _mm256_set1_ps(_cvtsh_ss((uint16_t)avx2_load_i16(block))));
}

/* 32 elements of n_queries <= 3 queries in registers while the positions go by. */
AVX2_INLINE void values_32(__m256 (*load)(const uint8_t *row, size_t e), const float (*p)[64], int n_queries,
                           const uint8_t *v, size_t stride, size_t e, size_t n, float *const *acc)
{
    __m256 a[3][4];
    for (int t = 0; t < n_queries; t++)
        for (int i = 0; i < 4; i++) a[t][i] = _mm256_loadu_ps(acc[t] + e + 8 * (size_t)i);
    for (size_t j = 0; j < n; j++, v += stride)
        for (int i = 0; i < 4; i++) {
            __m256 x = load(v, e + 8 * (size_t)i);
            for (int t = 0; t < n_queries; t++) a[t][i] = _mm256_fmadd_ps(_mm256_set1_ps(p[t][j]), x, a[t][i]);
        }
    for (int t = 0; t < n_queries; t++)
        for (int i = 0; i < 4; i++) _mm256_storeu_ps(acc[t] + e + 8 * (size_t)i, a[t][i]);
}

AVX2_INLINE void values_queries(__m256 (*load)(const uint8_t *row, size_t e), const float (*p)[64], size_t n_queries,
                                const uint8_t *v, size_t stride, size_t d_head, size_t n, float *const *acc)
{
    for (size_t e = 0; e + 32 <= d_head; e += 32) {
        size_t t = 0;
        for (; n_queries - t == 3 || n_queries - t >= 5; t += 3) values_32(load, p + t, 3, v, stride, e, n, acc + t);
        for (; n_queries - t >= 2; t += 2) values_32(load, p + t, 2, v, stride, e, n, acc + t);
        if (t < n_queries) values_32(load, p + t, 1, v, stride, e, n, acc + t);
    }
}

/* For many queries: 32 elements of all positions become floats once, and so they also come to lie together. */
AVX2_INLINE size_t values_floats(__m256 (*load)(const uint8_t *row, size_t e), const float (*p)[64], size_t n_queries,
                                 const uint8_t *v, size_t stride, size_t d_head, size_t n, float *const *acc)
{
    _Alignas(32) float values[64][32];
    float *at[KERNEL_QUERIES_MAX];
    size_t e = 0;
    for (; e + 32 <= d_head; e += 32) {
        for (size_t j = 0; j < n; j++)
            for (size_t i = 0; i < 32; i += 8) _mm256_store_ps(values[j] + i, load(v + j * stride, e + i));
        for (size_t t = 0; t < n_queries; t++) at[t] = acc[t] + e;
        values_queries(load_f32, p, n_queries, (const uint8_t *)values, sizeof values[0], 32, n, at);
    }
    return e;
}

/* Few positions at a time, as many as find a place in the first-level cache however far apart they lie. */
AVX2_INLINE size_t values_many(__m256 (*load)(const uint8_t *row, size_t e), const float (*p)[64], size_t n_queries,
                               const uint8_t *v, size_t stride, size_t row_bytes, size_t d_head, size_t n,
                               float *const *acc)
{
    if (n_queries >= AVX2_QUERIES_MANY) return values_floats(load, p, n_queries, v, stride, d_head, n, acc);
    for (size_t j = 0; j < n; j += POSITIONS, v += POSITIONS * stride) {
        for (size_t i = POSITIONS; i < 2 * POSITIONS; i++) avx2_prefetch_row(v + i * stride, row_bytes);
        values_queries(load, (const float(*)[64])(const void *)&p[0][j], n_queries, v, stride, d_head,
                       n - j < POSITIONS ? n - j : POSITIONS, acc);
    }
    return d_head / 32 * 32;
}

void kernel_avx2_attn_values_many(uint32_t kv_type, const float (*p)[64], size_t n_queries, const void *v,
                                  size_t v_stride_bytes, size_t d_head, size_t n, float *const *acc)
{
    size_t e = 0;
    switch (kv_type) {
    case QUANT_F32: e = values_many(load_f32, p, n_queries, v, v_stride_bytes, 4 * d_head, d_head, n, acc); break;
    case QUANT_F16: e = values_many(load_f16, p, n_queries, v, v_stride_bytes, 2 * d_head, d_head, n, acc); break;
    case QUANT_Q8_0:
        e = values_many(load_q8_0, p, n_queries, v, v_stride_bytes, d_head / 32 * 34, d_head, n, acc);
        break;
    default: BASE_ASSERT(false, "K5 keys and values are F32, F16 or Q8_0");
    }
    if (e == d_head) return; /* Q8_0 always ends here */
    const uint8_t *rest = (const uint8_t *)v + e * (kv_type == QUANT_F16 ? 2 : 4);
    for (size_t t = 0; t < n_queries; t++)
        kernel_avx2_attn_values(kv_type, p[t], rest, v_stride_bytes, d_head - e, n, acc[t] + e);
}

void kernel_avx2_store_kv(uint32_t kv_type, const float *x, size_t n, void *out)
{
    if (kv_type != QUANT_F16) {
        quant_type(kv_type)->encode(x, out, n);
        return;
    }
    uint8_t *at = out;
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(void *)(at + 2 * i), _mm256_cvtps_ph(_mm256_loadu_ps(x + i), 0));
    quant_type(kv_type)->encode(x + i, at + 2 * i, n - i);
}

/* ---- activations ---- */

AVX2_INLINE float largest(const float *x, size_t len)
{
    /* magnitudes as bits: a NaN or an infinity is the largest of all */
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    __m256i top = _mm256_setzero_si256();
    for (size_t i = 0; i < len; i += 8) top = _mm256_max_epu32(top, _mm256_and_si256(avx2_load(x + i), magnitude));
    __m128i t = _mm_max_epu32(_mm256_castsi256_si128(top), _mm256_extracti128_si256(top, 1));
    t = _mm_max_epu32(t, _mm_shuffle_epi32(t, 0x4e));
    t = _mm_max_epu32(t, _mm_shuffle_epi32(t, 0xb1));
    return _mm_cvtss_f32(_mm_castsi128_ps(t));
}

/* 32 values to bytes and the sums of 16. The conversion rounds half to even, as the contract's addition does. */
AVX2_INLINE void quantize_32(const float *x, __m256 inverse, int8_t *q, int16_t *sums)
{
    __m256i v[4];
    for (int i = 0; i < 4; i++) v[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), inverse));
    __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(v[0], v[1]), _mm256_packs_epi32(v[2], v[3]));
    bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_storeu_si256((__m256i *)(void *)q, bytes);
    __m256i s = _mm256_hadd_epi32(_mm256_add_epi32(v[0], v[1]), _mm256_add_epi32(v[2], v[3]));
    s = _mm256_hadd_epi32(s, s); /* lanes 0 and 1 of both halves */
    __m128i both = _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
    both = _mm_packs_epi32(both, both);
    int two = _mm_cvtsi128_si32(both);
    memcpy(sums, &two, sizeof two);
}

AVX2_INLINE void quantize_16(const float *x, __m256 inverse, int8_t *q, int16_t *sums)
{
    __m256i a = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x), inverse));
    __m256i b = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8), inverse));
    __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8);
    _mm_storeu_si128((__m128i *)(void *)q,
                     _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
    __m256i s = _mm256_add_epi32(a, b);
    __m128i t = _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
    t = _mm_hadd_epi32(t, t);
    *sums = (int16_t)_mm_cvtsi128_si32(_mm_hadd_epi32(t, t));
}

void kernel_avx2_quantize(enum quant_form form, const float *x, size_t n, int8_t *q, float *d, int16_t *sums)
{
    if (form == QUANT_FORM_FLOAT) return;
    size_t len = quant_form_len(form);
    BASE_ASSERT(n % len == 0, "K2 a form needs rows that are multiples of its block");
    for (size_t b = 0; b < n / len; b++, x += len, q += len, sums += len / 16) {
        float top = largest(x, len), inverse = 127.0f / top;
        bool finite = top <= 0x1.fffffep+127f;
        if (!finite || isinf(inverse)) {
            uint32_t nan_bits = 0x7fc00000;
            d[b] = 0.0f;
            if (!finite) memcpy(&d[b], &nan_bits, sizeof nan_bits);
            memset(q, 0, len);
            memset(sums, 0, len / 16 * sizeof *sums);
            continue;
        }
        d[b] = top / 127.0f;
        __m256 factor = _mm256_set1_ps(inverse);
        if (len == 16) quantize_16(x, factor, q, sums);
        for (size_t i = 0; i + 32 <= len; i += 32) quantize_32(x + i, factor, q + i, sums + i / 16);
    }
}
