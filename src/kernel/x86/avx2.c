/* The AVX2 table; it needs FMA and F16C as well (table.c asks for all three). */
#include "kernel/x86/avx2.h"
#include "kernel/x86/x86.h"

const struct kernel_table kernel_table_avx2 = {
    .level = KERNEL_AVX2,
    .name = "avx2",
    .quantize = kernel_avx2_quantize,
    .product =
        {
            [QUANT_F32] = kernel_avx2_f32,         [QUANT_F16] = kernel_avx2_f16,
            [QUANT_BF16] = kernel_avx2_bf16,       [QUANT_Q4_0] = kernel_avx2_q4_0,
            [QUANT_Q4_1] = kernel_avx2_q4_1,       [QUANT_Q5_0] = kernel_avx2_q5_0,
            [QUANT_Q5_1] = kernel_avx2_q5_1,       [QUANT_Q8_0] = kernel_avx2_q8_0,
            [QUANT_Q2_K] = kernel_avx2_q2_k,       [QUANT_Q3_K] = kernel_avx2_q3_k,
            [QUANT_Q4_K] = kernel_avx2_q4_k,       [QUANT_Q5_K] = kernel_avx2_q5_k,
            [QUANT_Q6_K] = kernel_avx2_q6_k,       [QUANT_IQ4_NL] = kernel_avx2_iq4_nl,
            [QUANT_IQ4_XS] = kernel_avx2_iq4_xs,   [QUANT_MXFP4] = kernel_avx2_mxfp4,
            [QUANT_IQ1_S] = kernel_avx2_iq1_s,     [QUANT_IQ1_M] = kernel_avx2_iq1_m,
            [QUANT_IQ2_XXS] = kernel_avx2_iq2_xxs, [QUANT_IQ2_XS] = kernel_avx2_iq2_xs,
            [QUANT_IQ2_S] = kernel_avx2_iq2_s,     [QUANT_IQ3_XXS] = kernel_avx2_iq3_xxs,
            [QUANT_IQ3_S] = kernel_avx2_iq3_s,     [QUANT_TQ1_0] = kernel_avx2_tq1_0,
            [QUANT_TQ2_0] = kernel_avx2_tq2_0,     [QUANT_NVFP4] = kernel_avx2_nvfp4,
        },
    .dot_f32 = kernel_dot_f32_avx2,
    .rms_norm = kernel_rms_norm_avx2,
    .silu_mul = kernel_silu_mul_avx2,
    .act_mul = kernel_act_mul_avx2,
    .add = kernel_add_avx2,
    .add_scaled = kernel_add_scaled_avx2,
    .scale = kernel_scale_avx2,
    .exp_sum = kernel_avx2_exp_sum,
    .exp_sum_many = kernel_avx2_exp_sum_many,
    .softmax = kernel_softmax_avx2,
    .rope = kernel_rope_avx2,
    .angles = kernel_angles_avx2,
    .attn_scores = kernel_avx2_attn_scores,
    .attn_values = kernel_avx2_attn_values,
    .attn_scores_many = kernel_avx2_attn_scores_many,
    .attn_values_many = kernel_avx2_attn_values_many,
    .attn_merge = kernel_attn_merge_avx2,
    .attn_join = kernel_attn_join_avx2,
    .store_kv = kernel_avx2_store_kv,
};
