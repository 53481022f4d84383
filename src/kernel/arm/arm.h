/* Private to arm/: pieces that the kernels of all three levels share. Plain A64 with NEON, which every 64-bit ARM has.
 *
 *   neon     products of bytes by widening multiplications
 *   dotprod  sdot: four products of bytes added in a lane (ARMv8.2, HWCAP_ASIMDDP)
 *   i8mm     for many tokens smmla: 2 rows times 2 tokens, 8 values each (ARMv8.6, HWCAP2_I8MM)
 *
 * Quantised products have one weight row a lane, so that the float chain of a row is one lane's sequence of fma in
 * block order, as the contract wants it. A group with fewer rows computes its last row several times and stores it
 * once. */
#ifndef KERNEL_ARM_ARM_H
#define KERNEL_ARM_ARM_H

#include "kernel/tables.h"

#include <arm_neon.h>
#include <string.h>

#define ARM_INLINE static inline __attribute__((always_inline))

#define ARM_LANES 4
/* Up to so many tokens go over the packed weights together; more share rows that are unpacked first (tile.h). */
#define ARM_FEW 4

#define ARM_PRODUCT_ARGS                                                                                               \
    const void *w, size_t n_rows, const struct kernel_acts *acts, const uint32_t *tokens, size_t n_tokens, float *out, \
        size_t out_stride, const uint32_t *out_rows

extern const struct kernel_table kernel_table_neon, kernel_table_dotprod, kernel_table_i8mm;

/* The quantised products of a level (block32.h, block256.h). */
#define ARM_DECLARE_PRODUCTS(level)                 \
    void kernel_##level##_q4_0(ARM_PRODUCT_ARGS);   \
    void kernel_##level##_q4_1(ARM_PRODUCT_ARGS);   \
    void kernel_##level##_q5_0(ARM_PRODUCT_ARGS);   \
    void kernel_##level##_q5_1(ARM_PRODUCT_ARGS);   \
    void kernel_##level##_q8_0(ARM_PRODUCT_ARGS);   \
    void kernel_##level##_iq4_nl(ARM_PRODUCT_ARGS); \
    void kernel_##level##_mxfp4(ARM_PRODUCT_ARGS);  \
    void kernel_##level##_q2_k(ARM_PRODUCT_ARGS);   \
    void kernel_##level##_q3_k(ARM_PRODUCT_ARGS);   \
    void kernel_##level##_q4_k(ARM_PRODUCT_ARGS);   \
    void kernel_##level##_q5_k(ARM_PRODUCT_ARGS);   \
    void kernel_##level##_q6_k(ARM_PRODUCT_ARGS);   \
    void kernel_##level##_iq4_xs(ARM_PRODUCT_ARGS)

ARM_DECLARE_PRODUCTS(neon);
ARM_DECLARE_PRODUCTS(dotprod);
ARM_DECLARE_PRODUCTS(i8mm);

/* Scores also multiply bytes, where keys are Q8_0; i8mm uses those of dotprod. */
#define ARM_DECLARE_SCORES(level)                                                                                      \
    void kernel_##level##_attn_scores(uint32_t kv_type, const float *q, const struct quant_x *qx, const void *k,       \
                                      size_t k_stride_bytes, size_t d_head, size_t n, float scale, float *scores);     \
    void kernel_##level##_attn_scores_many(uint32_t kv_type, const struct quant_x *x, size_t n_queries, const void *k, \
                                           size_t k_stride_bytes, size_t d_head, size_t n, float scale,                \
                                           float(*scores)[64])

ARM_DECLARE_SCORES(neon);
ARM_DECLARE_SCORES(dotprod);

/* float.c */
void kernel_neon_f32(ARM_PRODUCT_ARGS);
void kernel_neon_f16(ARM_PRODUCT_ARGS);
void kernel_neon_bf16(ARM_PRODUCT_ARGS);
/* One activation row, or several, against n_rows rows that lie stride bytes apart. type: F32 or F16. */
void kernel_neon_rows(uint32_t type, const void *w, size_t stride, size_t n_rows, const float *x, size_t n, float *out);
void kernel_neon_rows_many(uint32_t type, const void *w, size_t stride, size_t n_rows, const float *const *x,
                           size_t n_x, size_t n, float *const *out);

/* attention.c, activations.c */
void kernel_neon_attn_values(uint32_t kv_type, const float *p, const void *v, size_t v_stride_bytes, size_t d_head,
                             size_t n, float *acc);
void kernel_neon_attn_values_many(uint32_t kv_type, const float (*p)[64], size_t n_queries, const void *v,
                                  size_t v_stride_bytes, size_t d_head, size_t n, float *const *acc);
void kernel_neon_store_kv(uint32_t kv_type, const float *x, size_t n, void *out);
void kernel_neon_quantize(enum quant_form form, const float *x, size_t n, int8_t *q, float *d, int16_t *sums);

/* ---- rows of a group ---- */

struct arm_rows {
    const uint8_t *p[ARM_LANES];
    size_t n; /* rows that exist */
};

ARM_INLINE struct arm_rows arm_rows_at(const void *w, size_t stride, size_t first, size_t n_rows)
{
    struct arm_rows g = {.n = n_rows - first < ARM_LANES ? n_rows - first : ARM_LANES};
    for (size_t r = 0; r < ARM_LANES; r++) g.p[r] = (const uint8_t *)w + (first + (r < g.n ? r : g.n - 1)) * stride;
    return g;
}

ARM_INLINE void arm_store_rows(float *out, size_t n, float32x4_t v)
{
    if (n == ARM_LANES) {
        vst1q_f32(out, v);
        return;
    }
    float all[ARM_LANES];
    vst1q_f32(all, v);
    memcpy(out, all, n * sizeof *out);
}

/* ---- loading ---- */

ARM_INLINE uint16_t arm_load_u16(const uint8_t *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

ARM_INLINE uint32_t arm_load_u32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* Half floats from four places. */
ARM_INLINE float32x4_t arm_halves(const struct arm_rows *g, size_t at)
{
    const uint16_t h[ARM_LANES] = {arm_load_u16(g->p[0] + at), arm_load_u16(g->p[1] + at), arm_load_u16(g->p[2] + at),
                                   arm_load_u16(g->p[3] + at)};
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(h)));
}

/* ---- integer sums ---- */

/* Lane r of the result is the sum of the 4 lanes of s[r]. */
ARM_INLINE int32x4_t arm_sum_each(const int32x4_t s[ARM_LANES])
{
    return vpaddq_s32(vpaddq_s32(s[0], s[1]), vpaddq_s32(s[2], s[3]));
}

/* How a level multiplies 16 bytes by 16 bytes: adds all products to acc, in whichever lane. Activations are never -128,
 * so that two products, at most 2 * 128 * 127 = 32512, fit 16 bits. */
typedef int32x4_t arm_dot(int32x4_t acc, int8x16_t w, int8x16_t x);

/* ---- activations ---- */

ARM_INLINE struct quant_x arm_row_of(const struct kernel_acts *a, enum quant_form form, size_t block, size_t row)
{
    return (struct quant_x){.x = a->x + row * a->n,
                            .q = a->q[form] + row * a->n,
                            .d = a->d[form] + row * (a->n / block),
                            .sums = a->sums[form] + row * (a->n / 16)};
}

/* Rows of activations and of results, of up to n_max tokens from `first`. Returns how many. */
ARM_INLINE size_t arm_tokens_at(enum quant_form form, size_t block, const struct kernel_acts *acts,
                                const uint32_t *tokens, size_t first, size_t n_tokens, size_t n_max, float *out,
                                size_t out_stride, const uint32_t *out_rows, struct quant_x *x, float **to)
{
    const size_t n = n_tokens - first < n_max ? n_tokens - first : n_max;
    for (size_t i = 0; i < n; i++) {
        const size_t j = first + i;
        x[i] = arm_row_of(acts, form, block, tokens ? tokens[j] : j);
        to[i] = out + (out_rows ? out_rows[j] : j) * out_stride;
    }
    return n;
}

#endif
