/* Products of F32, F16 and BF16 rows with float activations: 16 lanes a result as two registers, then the contract's
 * tree. Several rows and tokens at a time keep enough independent chains of fma in flight. */
#include "kernel/x86/avx2.h"

#define TOKENS 48       /* that are looked up at once; a multiple of 3 */
#define ROWS_A_BLOCK 16 /* stay in the second-level cache while the tokens go by */

/* ---- loading ---- */

struct format {
    size_t bytes;                     /* of an element */
    __m256 (*load)(const uint8_t *p); /* 8 elements */
};

AVX2_INLINE __m256 load_f32(const uint8_t *p) { return _mm256_loadu_ps((const float *)(const void *)p); }
AVX2_INLINE __m256 load_f16(const uint8_t *p) { return _mm256_cvtph_ps(avx2_load_half(p)); }
AVX2_INLINE __m256 load_bf16(const uint8_t *p)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(avx2_load_half(p)), 16));
}

static const struct format f32 = {4, load_f32}, f16 = {2, load_f16}, bf16 = {2, load_bf16};

/* The last n < 16 elements. Lanes beyond them keep their bits: adding a product of zeros would turn -0 into 0. */
AVX2_INLINE void add_tail(const struct format *f, const uint8_t *w, const float *x, size_t n, __m256 *low, __m256 *high)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i mask_low = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), lane);
    __m256i mask_high = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n - 8), lane);
    uint8_t copy[16 * sizeof(float)] = {0};
    memcpy(copy, w, n * f->bytes);
    __m256 l = _mm256_fmadd_ps(f->load(copy), _mm256_maskload_ps(x, mask_low), *low);
    *low = _mm256_blendv_ps(*low, l, _mm256_castsi256_ps(mask_low));
    if (n <= 8) return;
    __m256 h = _mm256_fmadd_ps(f->load(copy + 8 * f->bytes), _mm256_maskload_ps(x + 8, mask_high), *high);
    *high = _mm256_blendv_ps(*high, h, _mm256_castsi256_ps(mask_high));
}

/* ---- tiles ---- */

/* In each half: lanes 0 and 1 plus lanes 2 and 3 of a, then the same of b. */
AVX2_INLINE __m256 fold_halves(__m256 a, __m256 b)
{
    return _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x44), _mm256_shuffle_ps(a, b, 0xee));
}

/* The contract's tree for four rows together: lane r is row r's sum. */
AVX2_INLINE __m128 sum_rows(const __m256 low[4], const __m256 high[4])
{
    __m256 v[4], half[2];
    for (int r = 0; r < 4; r++) v[r] = _mm256_add_ps(low[r], high[r]);
    for (int r = 0; r < 2; r++) /* rows r and r + 2, a half each */
        half[r] =
            _mm256_add_ps(_mm256_permute2f128_ps(v[r], v[r + 2], 0x20), _mm256_permute2f128_ps(v[r], v[r + 2], 0x31));
    __m256 s = fold_halves(half[0], half[1]);
    s = _mm256_add_ps(s, _mm256_movehdup_ps(s)); /* lanes 0, 2, 4, 6: rows 0, 1, 2, 3 */
    return _mm_shuffle_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1), 0x88);
}

/* 4 rows and one token. */
AVX2_INLINE __m128 tile_4_1(const struct format *f, const uint8_t *const w[4], const float *x, size_t n)
{
    __m256 low[4], high[4];
    for (int r = 0; r < 4; r++) low[r] = high[r] = _mm256_setzero_ps();
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m256 x0 = _mm256_loadu_ps(x + i), x1 = _mm256_loadu_ps(x + i + 8);
        for (int r = 0; r < 4; r++) {
            low[r] = _mm256_fmadd_ps(f->load(w[r] + i * f->bytes), x0, low[r]);
            high[r] = _mm256_fmadd_ps(f->load(w[r] + (i + 8) * f->bytes), x1, high[r]);
        }
    }
    if (i < n)
        for (int r = 0; r < 4; r++) add_tail(f, w[r] + i * f->bytes, x + i, n - i, &low[r], &high[r]);
    return sum_rows(low, high);
}

/* 2 rows and n_x tokens, at most 3. */
AVX2_INLINE void tile_2(const struct format *f, const uint8_t *const w[2], const float *const x[3], int n_x, size_t n,
                        float sums[2][4])
{
    __m256 low[2][3], high[2][3];
    for (int r = 0; r < 2; r++)
        for (int t = 0; t < n_x; t++) low[r][t] = high[r][t] = _mm256_setzero_ps();
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m256 a = f->load(w[0] + i * f->bytes), b = f->load(w[1] + i * f->bytes);
        for (int t = 0; t < n_x; t++) {
            __m256 xv = _mm256_loadu_ps(x[t] + i);
            AVX2_KEEP(xv); /* or it would be loaded for each row */
            low[0][t] = _mm256_fmadd_ps(a, xv, low[0][t]);
            low[1][t] = _mm256_fmadd_ps(b, xv, low[1][t]);
        }
        a = f->load(w[0] + (i + 8) * f->bytes);
        b = f->load(w[1] + (i + 8) * f->bytes);
        for (int t = 0; t < n_x; t++) {
            __m256 xv = _mm256_loadu_ps(x[t] + i + 8);
            AVX2_KEEP(xv);
            high[0][t] = _mm256_fmadd_ps(a, xv, high[0][t]);
            high[1][t] = _mm256_fmadd_ps(b, xv, high[1][t]);
        }
    }
    for (int t = 0; t < n_x; t++) {
        if (i < n) add_tail(f, w[0] + i * f->bytes, x[t] + i, n - i, &low[0][t], &high[0][t]);
        if (i < n) add_tail(f, w[1] + i * f->bytes, x[t] + i, n - i, &low[1][t], &high[1][t]);
        low[0][t] = _mm256_add_ps(low[0][t], high[0][t]);
        low[1][t] = _mm256_add_ps(low[1][t], high[1][t]);
        low[0][t] = _mm256_add_ps(_mm256_permute2f128_ps(low[0][t], low[1][t], 0x20),
                                  _mm256_permute2f128_ps(low[0][t], low[1][t], 0x31)); /* a row a half */
    }
    const int second = n_x > 1 ? 1 : 0, third = n_x > 2 ? 2 : second;
    __m256 a = fold_halves(low[0][0], low[0][second]), b = fold_halves(low[0][third], low[0][third]);
    a = _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x88), _mm256_shuffle_ps(a, b, 0xdd));
    _mm_storeu_ps(sums[0], _mm256_castps256_ps128(a));
    _mm_storeu_ps(sums[1], _mm256_extractf128_ps(a, 1));
}

AVX2_INLINE void store_few(float *out, size_t n, __m128 v)
{
    if (n == 4) {
        _mm_storeu_ps(out, v);
        return;
    }
    float each[4];
    _mm_storeu_ps(each, v);
    memcpy(out, each, n * sizeof *out);
}

AVX2_INLINE void rows_one(const struct format *f, const void *w, size_t stride, size_t n_rows, const float *x, size_t n,
                          float *out)
{
    for (size_t r = 0; r < n_rows; r += 4) {
        size_t n_here = n_rows - r < 4 ? n_rows - r : 4;
        const uint8_t *rows[4];
        for (size_t i = 0; i < 4; i++) {
            rows[i] = (const uint8_t *)w + (r + (i < n_here ? i : n_here - 1)) * stride;
            avx2_prefetch(rows[i], 4 * stride);
        }
        store_few(out + r, n_here, tile_4_1(f, rows, x, n));
    }
}

/* Two or three tokens. */
AVX2_INLINE void rows_few(const struct format *f, const uint8_t *w, size_t stride, size_t n_rows,
                          const float *const x[3], int n_x, size_t n, float *const out[3], size_t at)
{
    for (size_t r = 0; r < n_rows; r += 2) {
        size_t second = r + 1 < n_rows ? r + 1 : r;
        const uint8_t *rows[2] = {w + r * stride, w + second * stride};
        float sums[2][4];
        tile_2(f, rows, x, n_x, n, sums);
        for (int t = 0; t < n_x; t++) {
            out[t][at + r] = sums[0][t];
            out[t][at + second] = sums[second - r][t];
        }
    }
}

/* By threes; of four the last two by two. Results from out[.][at]. */
AVX2_INLINE void rows_many(const struct format *f, const void *w, size_t stride, size_t n_rows, const float *const *x,
                           size_t n_x, size_t n, float *const *out, size_t at)
{
    size_t j = 0;
    for (; n_x - j == 3 || n_x - j >= 5; j += 3) rows_few(f, w, stride, n_rows, x + j, 3, n, out + j, at);
    for (; n_x - j >= 2; j += 2) rows_few(f, w, stride, n_rows, x + j, 2, n, out + j, at);
    if (j < n_x) rows_one(f, w, stride, n_rows, x[j], n, out[j] + at);
}

AVX2_INLINE void product(const struct format *f, AVX2_PRODUCT_ARGS)
{
    size_t n = acts->n, stride = n * f->bytes;
    for (size_t r = 0; r < n_rows; r += ROWS_A_BLOCK) {
        const uint8_t *rows = (const uint8_t *)w + r * stride;
        size_t n_here = n_rows - r < ROWS_A_BLOCK ? n_rows - r : ROWS_A_BLOCK;
        for (size_t j = 0; j < n_tokens; j += TOKENS) {
            const float *x[TOKENS];
            float *o[TOKENS];
            size_t n_x = n_tokens - j < TOKENS ? n_tokens - j : TOKENS;
            for (size_t t = 0; t < n_x; t++) {
                x[t] = acts->x + (tokens ? tokens[j + t] : j + t) * n;
                o[t] = out + (out_rows ? out_rows[j + t] : j + t) * out_stride + r;
            }
            rows_many(f, rows, stride, n_here, x, n_x, n, o, 0);
        }
    }
}

void kernel_avx2_f32(AVX2_PRODUCT_ARGS) { product(&f32, w, n_rows, acts, tokens, n_tokens, out, out_stride, out_rows); }

void kernel_avx2_f16(AVX2_PRODUCT_ARGS) { product(&f16, w, n_rows, acts, tokens, n_tokens, out, out_stride, out_rows); }

void kernel_avx2_bf16(AVX2_PRODUCT_ARGS)
{
    product(&bf16, w, n_rows, acts, tokens, n_tokens, out, out_stride, out_rows);
}

void kernel_avx2_rows_f32(const void *w, size_t stride, size_t n_rows, const float *x, size_t n, float *out)
{
    rows_one(&f32, w, stride, n_rows, x, n, out);
}

void kernel_avx2_rows_f16(const void *w, size_t stride, size_t n_rows, const float *x, size_t n, float *out)
{
    rows_one(&f16, w, stride, n_rows, x, n, out);
}

/* Cached keys lie far apart, so that a block of them finds too few places in the first-level cache: four are done with
 * for all queries before the next. */
AVX2_INLINE void keys_few(const struct format *f, const uint8_t *w, size_t stride, size_t n_rows, const float *const *x,
                          size_t n_x, size_t n, float *const *out)
{
    for (size_t r = 0; r < n_rows; r += 4) {
        const uint8_t *rows = w + r * stride;
        for (size_t i = 4; i < 8; i++) avx2_prefetch_row(rows + i * stride, n * f->bytes);
        rows_many(f, rows, stride, n_rows - r < 4 ? n_rows - r : 4, x, n_x, n, out, r);
    }
}

/* ---- keys for many queries: a lane is a position ----
 *
 * 16 keys become floats and are turned once for all queries, so that no sum goes across a register. The contract's 16
 * lanes of a result are 16 registers then, of which two at a time (i and i + 8) are filled for three queries. */

#define KEYS 16

struct keys {
    _Alignas(32) float at[KERNEL_HEAD_MAX][KEYS]; /* element, position */
};

/* The last key stands in for those that are not there. */
AVX2_INLINE void keys_turn(const struct format *f, const uint8_t *w, size_t stride, size_t n_rows, size_t n,
                           struct keys *k)
{
    for (size_t first = 0; first < KEYS; first += 8)
        for (size_t e = 0; e < n; e += 8) {
            __m256i in[8], out[8];
            for (size_t r = 0; r < 8; r++) {
                const size_t row = first + r < n_rows ? first + r : n_rows - 1;
                in[r] = _mm256_castps_si256(f->load(w + row * stride + e * f->bytes));
            }
            avx2_transpose(in, out);
            for (size_t i = 0; i < 8; i++) _mm256_store_si256((__m256i *)(void *)(k->at[e + i] + first), out[i]);
        }
}

/* Lanes i and i + 8 of n_x <= 3 queries times 16 keys, added. */
AVX2_INLINE void keys_lanes(const struct keys *k, const float *const *x, int n_x, size_t i, size_t n,
                            __m256 (*out)[KEYS / 8])
{
    __m256 low[3][2], high[3][2];
    for (int t = 0; t < n_x; t++) low[t][0] = low[t][1] = high[t][0] = high[t][1] = _mm256_setzero_ps();
    for (size_t e = i; e < n; e += 16) {
        __m256 a = _mm256_load_ps(k->at[e]), b = _mm256_load_ps(k->at[e] + 8);
        AVX2_KEEP(a); /* or they would be loaded for each query */
        AVX2_KEEP(b);
        for (int t = 0; t < n_x; t++) {
            const __m256 v = _mm256_set1_ps(x[t][e]);
            low[t][0] = _mm256_fmadd_ps(a, v, low[t][0]);
            low[t][1] = _mm256_fmadd_ps(b, v, low[t][1]);
        }
        a = _mm256_load_ps(k->at[e + 8]);
        b = _mm256_load_ps(k->at[e + 8] + 8);
        AVX2_KEEP(a);
        AVX2_KEEP(b);
        for (int t = 0; t < n_x; t++) {
            const __m256 v = _mm256_set1_ps(x[t][e + 8]);
            high[t][0] = _mm256_fmadd_ps(a, v, high[t][0]);
            high[t][1] = _mm256_fmadd_ps(b, v, high[t][1]);
        }
    }
    for (int t = 0; t < n_x; t++)
        for (int h = 0; h < 2; h++) out[t][h] = _mm256_add_ps(low[t][h], high[t][h]);
}

AVX2_INLINE void keys_queries(const struct keys *k, const float *const *x, int n_x, size_t n, size_t n_rows,
                              float *const *out, size_t at)
{
    __m256 s[8][3][2];
    for (size_t i = 0; i < 8; i++) keys_lanes(k, x, n_x, i, n, s[i]);
    for (int t = 0; t < n_x; t++) {
        __m256 sum[2];
        for (int h = 0; h < 2; h++) {
            __m256 even = _mm256_add_ps(_mm256_add_ps(s[0][t][h], s[4][t][h]), _mm256_add_ps(s[2][t][h], s[6][t][h]));
            __m256 odd = _mm256_add_ps(_mm256_add_ps(s[1][t][h], s[5][t][h]), _mm256_add_ps(s[3][t][h], s[7][t][h]));
            sum[h] = _mm256_add_ps(even, odd);
        }
        if (n_rows >= KEYS) {
            _mm256_storeu_ps(out[t] + at, sum[0]);
            _mm256_storeu_ps(out[t] + at + 8, sum[1]);
        } else {
            float each[KEYS];
            _mm256_storeu_ps(each, sum[0]);
            _mm256_storeu_ps(each + 8, sum[1]);
            memcpy(out[t] + at, each, n_rows * sizeof *each);
        }
    }
}

AVX2_INLINE void keys_many(const struct format *f, const uint8_t *w, size_t stride, size_t n_rows,
                           const float *const *x, size_t n_x, size_t n, float *const *out)
{
    if (n_x < AVX2_QUERIES_MANY || n % 16 != 0) {
        keys_few(f, w, stride, n_rows, x, n_x, n, out);
        return;
    }
    struct keys keys;
    for (size_t r = 0; r < n_rows; r += KEYS) {
        const size_t left = n_rows - r;
        keys_turn(f, w + r * stride, stride, left, n, &keys);
        size_t t = 0;
        for (; n_x - t == 3 || n_x - t >= 5; t += 3) keys_queries(&keys, x + t, 3, n, left, out + t, r);
        for (; n_x - t >= 2; t += 2) keys_queries(&keys, x + t, 2, n, left, out + t, r);
        if (t < n_x) keys_queries(&keys, x + t, 1, n, left, out + t, r);
    }
}

void kernel_avx2_rows_many_f32(const void *w, size_t stride, size_t n_rows, const float *const *x, size_t n_x, size_t n,
                               float *const *out)
{
    keys_many(&f32, w, stride, n_rows, x, n_x, n, out);
}

void kernel_avx2_rows_many_f16(const void *w, size_t stride, size_t n_rows, const float *const *x, size_t n_x, size_t n,
                               float *const *out)
{
    keys_many(&f16, w, stride, n_rows, x, n_x, n, out);
}
