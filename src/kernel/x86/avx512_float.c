/* AVX-512 products of F32, F16 and BF16 rows with float activations: the contract's 16 lanes are one register. Several
 * rows and tokens at a time keep enough independent chains of fma in flight. */
#include "kernel/x86/avx512.h"

#define ROWS 4
#define TOKENS 4
#define ROWS_A_BLOCK 16 /* stay in the second-level cache while the tokens go by */

struct format {
    size_t bytes;                     /* of an element */
    __m512 (*load)(const uint8_t *p); /* 16 elements */
};

AVX2_INLINE __m512 load_f32(const uint8_t *p) { return _mm512_loadu_ps((const float *)(const void *)p); }
AVX2_INLINE __m512 load_f16(const uint8_t *p) { return _mm512_cvtph_ps(avx2_load(p)); }
AVX2_INLINE __m512 load_bf16(const uint8_t *p)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(avx2_load(p)), 16));
}

static const struct format f32 = {4, load_f32}, f16 = {2, load_f16}, bf16 = {2, load_bf16};

/* Lane i with i + 8, then + 4, + 2, + 1. */
AVX2_INLINE float sum_lanes(__m512 lanes)
{
    __m256 high = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(lanes), 1));
    __m256 v = _mm256_add_ps(_mm512_castps512_ps256(lanes), high);
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

/* The last n < 16 elements. Lanes beyond them keep their bits: adding a product of zeros would turn -0 into 0. */
AVX2_INLINE __m512 add_tail(const struct format *f, const uint8_t *w, const float *x, size_t n, __m512 acc)
{
    uint8_t w16[16 * sizeof(float)] = {0};
    float x16[16] = {0};
    memcpy(w16, w, n * f->bytes);
    memcpy(x16, x, n * sizeof *x);
    __m512 sum = _mm512_fmadd_ps(f->load(w16), _mm512_loadu_ps(x16), acc);
    return _mm512_mask_mov_ps(acc, (__mmask16)((1u << n) - 1), sum);
}

/* sums[r][t] for ROWS rows and n_tokens tokens, a constant of at most TOKENS. */
AVX2_INLINE void tile(const struct format *f, const uint8_t *const w[ROWS], const float *const *x, size_t n_tokens,
                      size_t n, float sums[ROWS][TOKENS])
{
    __m512 acc[ROWS][TOKENS];
    for (size_t r = 0; r < ROWS; r++)
        for (size_t t = 0; t < n_tokens; t++) acc[r][t] = _mm512_setzero_ps();
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m512 xv[TOKENS];
        for (size_t t = 0; t < n_tokens; t++) xv[t] = _mm512_loadu_ps(x[t] + i);
        for (size_t r = 0; r < ROWS; r++) {
            __m512 wv = f->load(w[r] + i * f->bytes);
            for (size_t t = 0; t < n_tokens; t++) acc[r][t] = _mm512_fmadd_ps(wv, xv[t], acc[r][t]);
        }
    }
    for (size_t r = 0; r < ROWS; r++)
        for (size_t t = 0; t < n_tokens; t++) {
            if (i < n) acc[r][t] = add_tail(f, w[r] + i * f->bytes, x[t] + i, n - i, acc[r][t]);
            sums[r][t] = sum_lanes(acc[r][t]);
        }
}

AVX2_INLINE void rows_many(const struct format *f, const void *w, size_t stride, size_t n_rows, const float *const *x,
                           size_t n_tokens, size_t n, float *const *out)
{
    for (size_t r = 0; r < n_rows; r += ROWS) {
        size_t n_here = n_rows - r < ROWS ? n_rows - r : ROWS;
        const uint8_t *rows[ROWS];
        for (size_t i = 0; i < ROWS; i++) {
            rows[i] = (const uint8_t *)w + (r + (i < n_here ? i : n_here - 1)) * stride;
            if (n_tokens == 1) avx2_prefetch(rows[i], ROWS * stride);
        }
        float sums[ROWS][TOKENS];
        tile(f, rows, x, n_tokens, n, sums);
        for (size_t t = 0; t < n_tokens; t++)
            for (size_t i = 0; i < n_here; i++) out[t][r + i] = sums[i][t];
    }
}

AVX2_INLINE void product(const struct format *f, AVX2_PRODUCT_ARGS)
{
    size_t n = acts->n, stride = n * f->bytes;
    for (size_t r = 0; r < n_rows; r += ROWS_A_BLOCK) {
        const uint8_t *rows = (const uint8_t *)w + r * stride;
        size_t n_here = n_rows - r < ROWS_A_BLOCK ? n_rows - r : ROWS_A_BLOCK;
        for (size_t j = 0; j < n_tokens;) {
            const float *x[TOKENS];
            float *o[TOKENS];
            size_t n_step = n_tokens - j < TOKENS ? 1 : TOKENS;
            for (size_t t = 0; t < n_step; t++) {
                x[t] = acts->x + (tokens ? tokens[j + t] : j + t) * n;
                o[t] = out + (out_rows ? out_rows[j + t] : j + t) * out_stride + r;
            }
            if (n_step == TOKENS)
                rows_many(f, rows, stride, n_here, x, TOKENS, n, o);
            else
                rows_many(f, rows, stride, n_here, x, 1, n, o);
            j += n_step;
        }
    }
}

void kernel_avx512_f32(AVX2_PRODUCT_ARGS)
{
    product(&f32, w, n_rows, acts, tokens, n_tokens, out, out_stride, out_rows);
}

void kernel_avx512_f16(AVX2_PRODUCT_ARGS)
{
    product(&f16, w, n_rows, acts, tokens, n_tokens, out, out_stride, out_rows);
}

void kernel_avx512_bf16(AVX2_PRODUCT_ARGS)
{
    product(&bf16, w, n_rows, acts, tokens, n_tokens, out, out_stride, out_rows);
}

void kernel_avx512_rows_f32(const void *w, size_t stride, size_t n_rows, const float *x, size_t n, float *out)
{
    rows_many(&f32, w, stride, n_rows, &x, 1, n, &out);
}

void kernel_avx512_rows_f16(const void *w, size_t stride, size_t n_rows, const float *x, size_t n, float *out)
{
    rows_many(&f16, w, stride, n_rows, &x, 1, n, &out);
}
