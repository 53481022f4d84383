/* Products of F32, F16 and BF16 rows with float activations: 16 lanes a result as four registers, then the contract's
 * tree. Several rows and tokens at a time keep enough independent chains of fma in flight. */
#include "kernel/arm/arm.h"

#include "base/assert.h"

#include <math.h>

#define TOKENS 48       /* that are looked up at once; a multiple of 3 */
#define ROWS_A_BLOCK 16 /* stay in the cache while the tokens go by */
#define ROWS_MAX 4      /* at a time for one token; for two or three: 2 */
#define TOKENS_MAX 3

struct format {
    size_t bytes;                          /* of an element */
    float32x4_t (*load)(const uint8_t *p); /* 4 elements */
};

ARM_INLINE float32x4_t load_f32(const uint8_t *p) { return vreinterpretq_f32_u8(vld1q_u8(p)); }
ARM_INLINE float32x4_t load_f16(const uint8_t *p) { return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p))); }
ARM_INLINE float32x4_t load_bf16(const uint8_t *p)
{
    return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(p)), 16));
}

static const struct format f32 = {4, load_f32}, f16 = {2, load_f16}, bf16 = {2, load_bf16};

/* Lane i with i + 8, then + 4, + 2, + 1. */
ARM_INLINE float sum_lanes(const float32x4_t a[4])
{
    const float32x4_t v = vaddq_f32(vaddq_f32(a[0], a[2]), vaddq_f32(a[1], a[3]));
    const float32x2_t s = vadd_f32(vget_low_f32(v), vget_high_f32(v));
    return vget_lane_f32(s, 0) + vget_lane_f32(s, 1);
}

/* The last n < 16 elements. Lanes beyond them keep their bits: adding a product of zeros would turn -0 into 0. */
ARM_INLINE void add_tail(const struct format *f, const uint8_t *w, const float *x, size_t n, float32x4_t a[4])
{
    uint8_t copy[16 * sizeof(float)] = {0};
    float lane[16], values[16];
    memcpy(copy, w, n * f->bytes);
    for (size_t i = 0; i < 4; i++) {
        vst1q_f32(values + 4 * i, f->load(copy + 4 * i * f->bytes));
        vst1q_f32(lane + 4 * i, a[i]);
    }
    for (size_t i = 0; i < n; i++) lane[i] = fmaf(values[i], x[i], lane[i]);
    for (size_t i = 0; i < 4; i++) a[i] = vld1q_f32(lane + 4 * i);
}

/* n_w rows and n_x tokens. */
ARM_INLINE void tile(const struct format *f, int n_w, int n_x, const uint8_t *const *w, const float *const *x, size_t n,
                     float sums[ROWS_MAX][TOKENS_MAX])
{
    float32x4_t a[ROWS_MAX][TOKENS_MAX][4];
    for (int r = 0; r < n_w; r++)
        for (int t = 0; t < n_x; t++)
            for (int i = 0; i < 4; i++) a[r][t][i] = vdupq_n_f32(0);
    size_t at = 0;
    for (; at + 16 <= n; at += 16)
#pragma GCC unroll 4
        for (size_t i = 0; i < 4; i++) {
            float32x4_t v[ROWS_MAX];
            for (int r = 0; r < n_w; r++) v[r] = f->load(w[r] + (at + 4 * i) * f->bytes);
            for (int t = 0; t < n_x; t++) {
                const float32x4_t xv = vld1q_f32(x[t] + at + 4 * i);
                for (int r = 0; r < n_w; r++) a[r][t][i] = vfmaq_f32(a[r][t][i], v[r], xv);
            }
        }
    for (int r = 0; r < n_w; r++)
        for (int t = 0; t < n_x; t++) {
            if (at < n) add_tail(f, w[r] + at * f->bytes, x[t] + at, n - at, a[r][t]);
            sums[r][t] = sum_lanes(a[r][t]);
        }
}

/* All rows times n_x tokens; results from out[.][at]. */
ARM_INLINE void rows_few(const struct format *f, int n_w, int n_x, const uint8_t *w, size_t stride, size_t n_rows,
                         const float *const *x, size_t n, float *const *out, size_t at)
{
    for (size_t r = 0; r < n_rows; r += (size_t)n_w) {
        const uint8_t *rows[ROWS_MAX];
        float sums[ROWS_MAX][TOKENS_MAX];
        const size_t n_here = n_rows - r < (size_t)n_w ? n_rows - r : (size_t)n_w;
        for (size_t i = 0; i < (size_t)n_w; i++) rows[i] = w + (r + (i < n_here ? i : n_here - 1)) * stride;
        tile(f, n_w, n_x, rows, x, n, sums);
        for (int t = 0; t < n_x; t++)
            for (size_t i = 0; i < n_here; i++) out[t][at + r + i] = sums[i][t];
    }
}

/* By threes; of four the last two by two. */
ARM_INLINE void rows_many(const struct format *f, const uint8_t *w, size_t stride, size_t n_rows, const float *const *x,
                          size_t n_x, size_t n, float *const *out, size_t at)
{
    size_t j = 0;
    for (; n_x - j == 3 || n_x - j >= 5; j += 3) rows_few(f, 2, 3, w, stride, n_rows, x + j, n, out + j, at);
    for (; n_x - j >= 2; j += 2) rows_few(f, 2, 2, w, stride, n_rows, x + j, n, out + j, at);
    if (j < n_x) rows_few(f, 4, 1, w, stride, n_rows, x + j, n, out + j, at);
}

ARM_INLINE void product(const struct format *f, ARM_PRODUCT_ARGS)
{
    const size_t n = acts->n, stride = n * f->bytes;
    for (size_t r = 0; r < n_rows; r += ROWS_A_BLOCK) {
        const uint8_t *rows = (const uint8_t *)w + r * stride;
        const size_t n_here = n_rows - r < ROWS_A_BLOCK ? n_rows - r : ROWS_A_BLOCK;
        for (size_t j = 0; j < n_tokens; j += TOKENS) {
            const float *x[TOKENS];
            float *to[TOKENS];
            const size_t n_x = n_tokens - j < TOKENS ? n_tokens - j : TOKENS;
            for (size_t t = 0; t < n_x; t++) {
                x[t] = acts->x + (tokens ? tokens[j + t] : j + t) * n;
                to[t] = out + (out_rows ? out_rows[j + t] : j + t) * out_stride;
            }
            rows_many(f, rows, stride, n_here, x, n_x, n, to, r);
        }
    }
}

void kernel_neon_f32(ARM_PRODUCT_ARGS) { product(&f32, w, n_rows, acts, tokens, n_tokens, out, out_stride, out_rows); }

void kernel_neon_f16(ARM_PRODUCT_ARGS) { product(&f16, w, n_rows, acts, tokens, n_tokens, out, out_stride, out_rows); }

void kernel_neon_bf16(ARM_PRODUCT_ARGS)
{
    product(&bf16, w, n_rows, acts, tokens, n_tokens, out, out_stride, out_rows);
}

/* Cached keys lie far apart: four are done with for all queries before the next. */
ARM_INLINE void keys(const struct format *f, const uint8_t *w, size_t stride, size_t n_rows, const float *const *x,
                     size_t n_x, size_t n, float *const *out)
{
    for (size_t r = 0; r < n_rows; r += ROWS_MAX)
        rows_many(f, w + r * stride, stride, n_rows - r < ROWS_MAX ? n_rows - r : ROWS_MAX, x, n_x, n, out, r);
}

void kernel_neon_rows_many(uint32_t type, const void *w, size_t stride, size_t n_rows, const float *const *x,
                           size_t n_x, size_t n, float *const *out)
{
    switch (type) {
    case QUANT_F32: keys(&f32, w, stride, n_rows, x, n_x, n, out); break;
    case QUANT_F16: keys(&f16, w, stride, n_rows, x, n_x, n, out); break;
    default: BASE_ASSERT(false, "K5 keys and values are F32, F16 or Q8_0");
    }
}

void kernel_neon_rows(uint32_t type, const void *w, size_t stride, size_t n_rows, const float *x, size_t n, float *out)
{
    kernel_neon_rows_many(type, w, stride, n_rows, &x, 1, n, &out);
}
