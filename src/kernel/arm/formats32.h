/* The formats with blocks of 32 values: how a block becomes signed bytes, a scale and, for some, a minimum. The bit
 * layouts are explained in quant/legacy.c, quant/iq4.c and quant/mxfp4.c. */
#ifndef KERNEL_ARM_FORMATS32_H
#define KERNEL_ARM_FORMATS32_H

#include "kernel/arm/formats256.h"

struct arm_format32 {
    size_t block_bytes;
    size_t min_at;                                         /* 0: no minimum */
    float32x4_t (*d)(const struct arm_rows *g, size_t at); /* of the block `at` bytes from the rows' begin */
    int8x16x2_t (*values)(const uint8_t *p);
};

ARM_INLINE float32x4_t arm_d_half(const struct arm_rows *g, size_t at) { return arm_halves(g, at); }

/* 2^(e - 128); subnormal for e = 0 and 1. */
ARM_INLINE float32x4_t arm_d_mxfp4(const struct arm_rows *g, size_t at)
{
    const uint32_t exponents[ARM_LANES] = {g->p[0][at], g->p[1][at], g->p[2][at], g->p[3][at]};
    const uint32x4_t e = vld1q_u32(exponents);
    const uint32x4_t small = vshlq_u32(vdupq_n_u32(0x00200000), vreinterpretq_s32_u32(e)),
                     normal = vshlq_n_u32(vsubq_u32(e, vdupq_n_u32(1)), 23);
    return vreinterpretq_f32_u32(vbslq_u32(vcltq_u32(e, vdupq_n_u32(2)), small, normal));
}

/* Nibbles less an offset. */
ARM_INLINE int8x16x2_t arm_four_bits(const uint8_t *q, int offset)
{
    const int8x16_t o = vdupq_n_s8((int8_t)offset);
    return (int8x16x2_t){{vsubq_s8(arm_signed(arm_nibbles(q, 0)), o), vsubq_s8(arm_signed(arm_nibbles(q, 1)), o)}};
}

/* 16 where the bit is set: bit i of two bytes for value i. */
ARM_INLINE uint8x16_t arm_fifth_bits(const uint8_t *bits)
{
    static const uint8_t masks[8] = {1, 2, 4, 8, 16, 32, 64, 128};
    const uint8x16_t spread = vcombine_u8(vdup_n_u8(bits[0]), vdup_n_u8(bits[1]));
    return vandq_u8(vtstq_u8(spread, vcombine_u8(vld1_u8(masks), vld1_u8(masks))), vdupq_n_u8(16));
}

ARM_INLINE int8x16x2_t arm_five_bits(const uint8_t *bits, const uint8_t *q, int offset)
{
    const int8x16_t o = vdupq_n_s8((int8_t)offset);
    const uint8x16_t a = vorrq_u8(arm_nibbles(q, 0), arm_fifth_bits(bits)),
                     b = vorrq_u8(arm_nibbles(q, 1), arm_fifth_bits(bits + 2));
    return (int8x16x2_t){{vsubq_s8(arm_signed(a), o), vsubq_s8(arm_signed(b), o)}};
}

ARM_INLINE int8x16x2_t arm_values_q4_0(const uint8_t *p) { return arm_four_bits(p + 2, 8); }
ARM_INLINE int8x16x2_t arm_values_q4_1(const uint8_t *p) { return arm_four_bits(p + 4, 0); }
ARM_INLINE int8x16x2_t arm_values_q5_0(const uint8_t *p) { return arm_five_bits(p + 2, p + 6, 16); }
ARM_INLINE int8x16x2_t arm_values_q5_1(const uint8_t *p) { return arm_five_bits(p + 4, p + 8, 0); }

ARM_INLINE int8x16x2_t arm_values_q8_0(const uint8_t *p)
{
    const int8_t *q = (const int8_t *)p + 2;
    return (int8x16x2_t){{vld1q_s8(q), vld1q_s8(q + 16)}};
}

ARM_INLINE int8x16x2_t arm_values_iq4_nl(const uint8_t *p)
{
    return (int8x16x2_t){{arm_of_iq4(arm_nibbles(p + 2, 0)), arm_of_iq4(arm_nibbles(p + 2, 1))}};
}

/* Twice the values of E2M1. */
ARM_INLINE int8x16x2_t arm_values_mxfp4(const uint8_t *p)
{
    static const int8_t doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    const int8x16_t table = vld1q_s8(doubled);
    return (int8x16x2_t){{vqtbl1q_s8(table, arm_nibbles(p + 1, 0)), vqtbl1q_s8(table, arm_nibbles(p + 1, 1))}};
}

static const struct arm_format32 arm_q4_0 = {.block_bytes = 18, .d = arm_d_half, .values = arm_values_q4_0};
static const struct arm_format32 arm_q4_1 = {
    .block_bytes = 20, .min_at = 2, .d = arm_d_half, .values = arm_values_q4_1};
static const struct arm_format32 arm_q5_0 = {.block_bytes = 22, .d = arm_d_half, .values = arm_values_q5_0};
static const struct arm_format32 arm_q5_1 = {
    .block_bytes = 24, .min_at = 2, .d = arm_d_half, .values = arm_values_q5_1};
static const struct arm_format32 arm_q8_0 = {.block_bytes = 34, .d = arm_d_half, .values = arm_values_q8_0};
static const struct arm_format32 arm_iq4_nl = {.block_bytes = 18, .d = arm_d_half, .values = arm_values_iq4_nl};
static const struct arm_format32 arm_mxfp4 = {.block_bytes = 17, .d = arm_d_mxfp4, .values = arm_values_mxfp4};

#endif
