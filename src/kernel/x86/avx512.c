/* The AVX-512 and AMX tables. Formats with grids, ternary ones and NVFP4 go the way of AVX2, which every such processor
 * has; so do few tokens of Q4_K and Q5_K, quantisation and the cache's encoding. */
#include "kernel/x86/amx.h"
#include "kernel/x86/x86.h"

#define SHARED                                                                                                     \
    [QUANT_IQ1_S] = kernel_avx2_iq1_s, [QUANT_IQ1_M] = kernel_avx2_iq1_m, [QUANT_IQ2_XXS] = kernel_avx2_iq2_xxs,   \
    [QUANT_IQ2_XS] = kernel_avx2_iq2_xs, [QUANT_IQ2_S] = kernel_avx2_iq2_s, [QUANT_IQ3_XXS] = kernel_avx2_iq3_xxs, \
    [QUANT_IQ3_S] = kernel_avx2_iq3_s, [QUANT_TQ1_0] = kernel_avx2_tq1_0, [QUANT_TQ2_0] = kernel_avx2_tq2_0,       \
    [QUANT_NVFP4] = kernel_avx2_nvfp4, [QUANT_F32] = kernel_avx512_f32, [QUANT_F16] = kernel_avx512_f16,           \
    [QUANT_BF16] = kernel_avx512_bf16

#define INTEGER(level)                                                                                                \
    [QUANT_Q4_0] = kernel_##level##_q4_0, [QUANT_Q4_1] = kernel_##level##_q4_1, [QUANT_Q5_0] = kernel_##level##_q5_0, \
    [QUANT_Q5_1] = kernel_##level##_q5_1, [QUANT_Q8_0] = kernel_##level##_q8_0, [QUANT_Q2_K] = kernel_##level##_q2_k, \
    [QUANT_Q3_K] = kernel_##level##_q3_k, [QUANT_Q4_K] = kernel_##level##_q4_k, [QUANT_Q5_K] = kernel_##level##_q5_k, \
    [QUANT_Q6_K] = kernel_##level##_q6_k, [QUANT_IQ4_NL] = kernel_##level##_iq4_nl,                                   \
    [QUANT_IQ4_XS] = kernel_##level##_iq4_xs, [QUANT_MXFP4] = kernel_##level##_mxfp4

#define REST                                                                                                          \
    .quantize = kernel_avx2_quantize, .dot_f32 = kernel_dot_f32_avx512, .rms_norm = kernel_rms_norm_avx512,           \
    .silu_mul = kernel_silu_mul_avx512, .act_mul = kernel_act_mul_avx512, .add = kernel_add_avx512,                   \
    .add_scaled = kernel_add_scaled_avx512, .scale = kernel_scale_avx512, .exp_sum = kernel_exp_sum_avx512,           \
    .exp_sum_many = kernel_avx512_exp_sum_many, .softmax = kernel_softmax_avx512, .rope = kernel_rope_avx512,         \
    .angles = kernel_angles_avx512, .attn_scores = kernel_avx512_attn_scores,                                         \
    .attn_values = kernel_avx512_attn_values, .attn_queries = 32, .attn_values_join = kernel_avx512_attn_values_join, \
    .attn_scores_many = kernel_avx512_attn_scores_many, .attn_values_many = kernel_avx512_attn_values_many,           \
    .attn_merge = kernel_attn_merge_avx512, .attn_join = kernel_attn_join_avx512, .store_kv = kernel_avx2_store_kv

const struct kernel_table kernel_table_avx512 = {
    .level = KERNEL_AVX512, .name = "avx512", .product = {SHARED, INTEGER(avx512)}, REST};

const struct kernel_table kernel_table_amx = {.level = KERNEL_AMX,
                                              .name = "amx",
                                              .tune = kernel_amx_tune,
                                              .many_rows = AMX_GROUPS * AVX512_ROWS,
                                              .many_bytes = 1 << 20,
                                              .product = {SHARED, INTEGER(amx)},
                                              REST};
