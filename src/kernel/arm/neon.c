/* The NEON table: what every 64-bit ARM processor can run. The elementwise functions are the scalar ones, which the
 * compiler vectorises for the same instructions; formats with grids, the ternary ones and NVFP4 have no kernels here.
 */
#include "kernel/arm/arm.h"

const struct kernel_table kernel_table_neon = {
    .level = KERNEL_NEON,
    .name = "neon",
    .quantize = kernel_neon_quantize,
    .product =
        {
            [QUANT_F32] = kernel_neon_f32,           [QUANT_F16] = kernel_neon_f16,
            [QUANT_BF16] = kernel_neon_bf16,         [QUANT_Q4_0] = kernel_neon_q4_0,
            [QUANT_Q4_1] = kernel_neon_q4_1,         [QUANT_Q5_0] = kernel_neon_q5_0,
            [QUANT_Q5_1] = kernel_neon_q5_1,         [QUANT_Q8_0] = kernel_neon_q8_0,
            [QUANT_IQ4_NL] = kernel_neon_iq4_nl,     [QUANT_MXFP4] = kernel_neon_mxfp4,
            [QUANT_Q2_K] = kernel_neon_q2_k,         [QUANT_Q3_K] = kernel_neon_q3_k,
            [QUANT_Q4_K] = kernel_neon_q4_k,         [QUANT_Q5_K] = kernel_neon_q5_k,
            [QUANT_Q6_K] = kernel_neon_q6_k,         [QUANT_IQ4_XS] = kernel_neon_iq4_xs,
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
    .attn_scores = kernel_neon_attn_scores,
    .attn_values = kernel_neon_attn_values,
    .attn_scores_many = kernel_neon_attn_scores_many,
    .attn_values_many = kernel_neon_attn_values_many,
    .attn_merge = kernel_attn_merge_scalar,
    .attn_join = kernel_attn_join_scalar,
    .store_kv = kernel_neon_store_kv,
};
