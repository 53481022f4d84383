/* Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, IQ4_NL and MXFP4 by sdot; cached keys of Q8_0. */
#include "kernel/arm/block32.h"
#include "kernel/arm/level_dotprod.h"

ARM_PRODUCT_32(dotprod, q4_0)
ARM_PRODUCT_32(dotprod, q4_1)
ARM_PRODUCT_32(dotprod, q5_0)
ARM_PRODUCT_32(dotprod, q5_1)
ARM_PRODUCT_32(dotprod, q8_0)
ARM_PRODUCT_32(dotprod, iq4_nl)
ARM_PRODUCT_32(dotprod, mxfp4)

void kernel_dotprod_attn_scores(uint32_t kv_type, const float *q, const struct quant_x *qx, const void *k,
                                size_t k_stride_bytes, size_t d_head, size_t n, float scale, float *scores)
{
    arm_attn_scores(level_dotprod.dot, kv_type, q, qx, k, k_stride_bytes, d_head, n, scale, scores);
}

void kernel_dotprod_attn_scores_many(uint32_t kv_type, const struct quant_x *x, size_t n_queries, const void *k,
                                     size_t k_stride_bytes, size_t d_head, size_t n, float scale, float (*scores)[64])
{
    arm_attn_scores_many(level_dotprod.dot, kv_type, x, n_queries, k, k_stride_bytes, d_head, n, scale, scores);
}
