/* The scalar table: the numeric contract itself, in the functions of room quant. Other levels are checked against it.
 */
#include "kernel/tables.h"

#include "base/assert.h"

#include <math.h>

static inline struct quant_x row_of(const struct kernel_acts *a, enum quant_form form, size_t row)
{
    struct quant_x x = {.x = a->x + row * a->n};
    if (form != QUANT_FORM_FLOAT) {
        size_t block = quant_form_len(form);
        x.q = a->q[form] + row * a->n;
        x.d = a->d[form] + row * (a->n / block);
        x.sums = a->sums[form] + row * (a->n / 16);
    }
    return x;
}

static inline void product(uint32_t id, const void *w, size_t n_rows, const struct kernel_acts *acts,
                           const uint32_t *tokens, size_t n_tokens, float *out, size_t out_stride,
                           const uint32_t *out_rows)
{
    const struct quant_type *type = quant_type(id);
    size_t row_bytes = quant_row_bytes(type, acts->n);
    for (size_t j = 0; j < n_tokens; j++) {
        struct quant_x x = row_of(acts, type->form, tokens ? tokens[j] : j);
        float *o = out + (out_rows ? out_rows[j] : j) * out_stride;
        for (size_t r = 0; r < n_rows; r++) o[r] = type->dot((const char *)w + r * row_bytes, &x, acts->n);
    }
}

#define PRODUCT(name)                                                                                               \
    void kernel_scalar_##name(const void *w, size_t n_rows, const struct kernel_acts *acts, const uint32_t *tokens, \
                              size_t n_tokens, float *out, size_t out_stride, const uint32_t *out_rows)             \
    {                                                                                                               \
        product(QUANT_##name, w, n_rows, acts, tokens, n_tokens, out, out_stride, out_rows);                        \
    }
PRODUCT(F32)
PRODUCT(F16)
PRODUCT(BF16)
PRODUCT(Q4_0)
PRODUCT(Q4_1)
PRODUCT(Q5_0)
PRODUCT(Q5_1)
PRODUCT(Q8_0)
PRODUCT(Q2_K)
PRODUCT(Q3_K)
PRODUCT(Q4_K)
PRODUCT(Q5_K)
PRODUCT(Q6_K)
PRODUCT(IQ4_NL)
PRODUCT(IQ4_XS)
PRODUCT(MXFP4)
PRODUCT(IQ1_S)
PRODUCT(IQ1_M)
PRODUCT(IQ2_XXS)
PRODUCT(IQ2_XS)
PRODUCT(IQ2_S)
PRODUCT(IQ3_XXS)
PRODUCT(IQ3_S)
PRODUCT(TQ1_0)
PRODUCT(TQ2_0)
PRODUCT(NVFP4)

static void attn_scores(uint32_t kv_type, const float *q, const struct quant_x *qx, const void *k,
                        size_t k_stride_bytes, size_t d_head, size_t n, float scale, float *scores)
{
    const struct quant_type *type = quant_type(kv_type);
    struct quant_x x = {.x = q};
    if (qx) x = *qx;
    for (size_t i = 0; i < n; i++) scores[i] = type->dot((const char *)k + i * k_stride_bytes, &x, d_head) * scale;
}

static void attn_values(uint32_t kv_type, const float *p, const void *v, size_t v_stride_bytes, size_t d_head, size_t n,
                        float *acc)
{
    const struct quant_type *type = quant_type(kv_type);
    BASE_ASSERT(d_head <= KERNEL_HEAD_MAX, "K5 heads have at most 576 elements");
    float row[KERNEL_HEAD_MAX];
    for (size_t i = 0; i < n; i++) {
        type->decode((const char *)v + i * v_stride_bytes, row, d_head);
        for (size_t e = 0; e < d_head; e++) acc[e] = fmaf(p[i], row[e], acc[e]);
    }
}

static void store_kv(uint32_t kv_type, const float *x, size_t n, void *out) { quant_type(kv_type)->encode(x, out, n); }

const struct kernel_table kernel_table_scalar = {
    .level = KERNEL_SCALAR,
    .name = "scalar",
    .quantize = quant_activations,
    .product =
        {
            [QUANT_F32] = kernel_scalar_F32,         [QUANT_F16] = kernel_scalar_F16,
            [QUANT_BF16] = kernel_scalar_BF16,       [QUANT_Q4_0] = kernel_scalar_Q4_0,
            [QUANT_Q4_1] = kernel_scalar_Q4_1,       [QUANT_Q5_0] = kernel_scalar_Q5_0,
            [QUANT_Q5_1] = kernel_scalar_Q5_1,       [QUANT_Q8_0] = kernel_scalar_Q8_0,
            [QUANT_Q2_K] = kernel_scalar_Q2_K,       [QUANT_Q3_K] = kernel_scalar_Q3_K,
            [QUANT_Q4_K] = kernel_scalar_Q4_K,       [QUANT_Q5_K] = kernel_scalar_Q5_K,
            [QUANT_Q6_K] = kernel_scalar_Q6_K,       [QUANT_IQ4_NL] = kernel_scalar_IQ4_NL,
            [QUANT_IQ4_XS] = kernel_scalar_IQ4_XS,   [QUANT_MXFP4] = kernel_scalar_MXFP4,
            [QUANT_IQ1_S] = kernel_scalar_IQ1_S,     [QUANT_IQ1_M] = kernel_scalar_IQ1_M,
            [QUANT_IQ2_XXS] = kernel_scalar_IQ2_XXS, [QUANT_IQ2_XS] = kernel_scalar_IQ2_XS,
            [QUANT_IQ2_S] = kernel_scalar_IQ2_S,     [QUANT_IQ3_XXS] = kernel_scalar_IQ3_XXS,
            [QUANT_IQ3_S] = kernel_scalar_IQ3_S,     [QUANT_TQ1_0] = kernel_scalar_TQ1_0,
            [QUANT_TQ2_0] = kernel_scalar_TQ2_0,     [QUANT_NVFP4] = kernel_scalar_NVFP4,
        },
    .dot_f32 = kernel_dot_f32_scalar,
    .rms_norm = kernel_rms_norm_scalar,
    .silu_mul = kernel_silu_mul_scalar,
    .act_mul = kernel_act_mul_scalar,
    .add = kernel_add_scalar,
    .add_scaled = kernel_add_scaled_scalar,
    .scale = kernel_scale_scalar,
    .exp_sum = kernel_exp_sum_scalar,
    .softmax = kernel_softmax_scalar,
    .rope = kernel_rope_scalar,
    .angles = kernel_angles_scalar,
    .attn_scores = attn_scores,
    .attn_values = attn_values,
    .attn_merge = kernel_attn_merge_scalar,
    .attn_join = kernel_attn_join_scalar,
    .store_kv = store_kv,
};
