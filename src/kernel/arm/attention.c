/* Values of one block of cached positions, for one query head or several, and the cache's encoding. */
#include "kernel/arm/arm.h"

#include "base/assert.h"

#include <math.h>

#define QUERIES 3 /* at a time: with 16 elements, 12 sums in registers */

/* 4 values from element e of a row. */
typedef float32x4_t load_four(const uint8_t *row, size_t e);

ARM_INLINE float32x4_t load_f32(const uint8_t *row, size_t e) { return vreinterpretq_f32_u8(vld1q_u8(row + 4 * e)); }

ARM_INLINE float32x4_t load_f16(const uint8_t *row, size_t e)
{
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(row + 2 * e)));
}

ARM_INLINE float32x4_t load_q8_0(const uint8_t *row, size_t e)
{
    const uint8_t *block = row + e / 32 * 34;
    const int8x8_t q = vreinterpret_s8_u32(vdup_n_u32(arm_load_u32(block + 2 + e % 32)));
    const float32x4_t d = vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(arm_load_u16(block))));
    return vmulq_f32(vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(q)))), d);
}

/* 4 n_regs elements of n_queries queries in registers while the positions go by. */
ARM_INLINE void values_of(load_four *load, const float (*p)[64], int n_queries, int n_regs, const uint8_t *v,
                          size_t stride, size_t e, size_t n, float *const *acc)
{
    float32x4_t a[QUERIES][4];
    for (int t = 0; t < n_queries; t++)
        for (int i = 0; i < n_regs; i++) a[t][i] = vld1q_f32(acc[t] + e + 4 * (size_t)i);
    for (size_t j = 0; j < n; j++, v += stride)
#pragma GCC unroll 4
        for (int i = 0; i < n_regs; i++) {
            const float32x4_t x = load(v, e + 4 * (size_t)i);
            for (int t = 0; t < n_queries; t++) a[t][i] = vfmaq_n_f32(a[t][i], x, p[t][j]);
        }
    for (int t = 0; t < n_queries; t++)
        for (int i = 0; i < n_regs; i++) vst1q_f32(acc[t] + e + 4 * (size_t)i, a[t][i]);
}

ARM_INLINE void values_queries(load_four *load, const float (*p)[64], int n_queries, const uint8_t *v, size_t stride,
                               size_t d_head, size_t n, float *const *acc)
{
    size_t e = 0;
    for (; e + 16 <= d_head; e += 16) values_of(load, p, n_queries, 4, v, stride, e, n, acc);
    for (; e + 4 <= d_head; e += 4) values_of(load, p, n_queries, 1, v, stride, e, n, acc);
}

ARM_INLINE void values_all(load_four *load, const float (*p)[64], size_t n_queries, const uint8_t *v, size_t stride,
                           size_t d_head, size_t n, float *const *acc)
{
    size_t t = 0;
    for (; n_queries - t >= 3; t += 3) values_queries(load, p + t, 3, v, stride, d_head, n, acc + t);
    if (n_queries - t == 2) values_queries(load, p + t, 2, v, stride, d_head, n, acc + t);
    if (n_queries - t == 1) values_queries(load, p + t, 1, v, stride, d_head, n, acc + t);
}

/* The last elements of a head whose length is not a multiple of 4. */
static void values_rest(uint32_t kv_type, const float *p, const uint8_t *v, size_t stride, size_t first, size_t d_head,
                        size_t n, float *acc)
{
    for (size_t e = first; e < d_head; e++)
        for (size_t j = 0; j < n; j++) {
            const uint8_t *row = v + j * stride;
            float x;
            if (kv_type == QUANT_F16)
                x = quant_f16_to_f32(arm_load_u16(row + 2 * e));
            else
                memcpy(&x, row + 4 * e, sizeof x);
            acc[e] = fmaf(p[j], x, acc[e]);
        }
}

void kernel_neon_attn_values_many(uint32_t kv_type, const float (*p)[64], size_t n_queries, const void *v,
                                  size_t v_stride_bytes, size_t d_head, size_t n, float *const *acc)
{
    switch (kv_type) {
    case QUANT_F32: values_all(load_f32, p, n_queries, v, v_stride_bytes, d_head, n, acc); break;
    case QUANT_F16: values_all(load_f16, p, n_queries, v, v_stride_bytes, d_head, n, acc); break;
    case QUANT_Q8_0: values_all(load_q8_0, p, n_queries, v, v_stride_bytes, d_head, n, acc); break;
    default: BASE_ASSERT(false, "K5 keys and values are F32, F16 or Q8_0");
    }
    if (d_head % 4 == 0) return; /* as it always is for Q8_0 */
    for (size_t t = 0; t < n_queries; t++)
        values_rest(kv_type, p[t], v, v_stride_bytes, d_head / 4 * 4, d_head, n, acc[t]);
}

void kernel_neon_attn_values(uint32_t kv_type, const float *p, const void *v, size_t v_stride_bytes, size_t d_head,
                             size_t n, float *acc)
{
    kernel_neon_attn_values_many(kv_type, (const float(*)[64])(const void *)p, 1, v, v_stride_bytes, d_head, n, &acc);
}

void kernel_neon_store_kv(uint32_t kv_type, const float *x, size_t n, void *out)
{
    if (kv_type != QUANT_F16) {
        quant_type(kv_type)->encode(x, out, n);
        return;
    }
    uint8_t *at = out;
    size_t i = 0;
    for (; i + 4 <= n; i += 4) vst1_u8(at + 2 * i, vreinterpret_u8_f16(vcvt_f16_f32(vld1q_f32(x + i))));
    quant_type(kv_type)->encode(x + i, at + 2 * i, n - i);
}
