/* The formats with blocks of 256 values: where a block has its scales, and how 32 values become signed bytes. The bit
 * layouts are explained in quant/k.c and quant/iq4.c. */
#ifndef KERNEL_ARM_FORMATS256_H
#define KERNEL_ARM_FORMATS256_H

#include "kernel/arm/arm.h"

struct arm_format256 {
    size_t block_bytes;
    size_t d_at, min_at;                            /* min_at 0: no minimum */
    bool of_32;                                     /* sub-blocks have 32 values: each scale and minimum stands twice */
    int8x16x2_t (*values)(const uint8_t *p, int c); /* 32 values from 32 c */
    int8x16_t (*scales)(const uint8_t *p);          /* of each 16 values */
    uint8x16_t (*mins)(const uint8_t *p);           /* at most 63 */
};

ARM_INLINE int8x16_t arm_signed(uint8x16_t v) { return vreinterpretq_s8_u8(v); }

ARM_INLINE uint8x16_t arm_low_nibbles(uint8x16_t v) { return vandq_u8(v, vdupq_n_u8(15)); }

/* Bit pair s of each byte. */
ARM_INLINE uint8x16_t arm_bit_pair(const uint8_t *p, int s)
{
    return vandq_u8(vshlq_u8(vld1q_u8(p), vdupq_n_s8((int8_t)(-2 * s))), vdupq_n_u8(3));
}

/* Bit `from` of each byte, moved to bit `to`. */
ARM_INLINE uint8x16_t arm_one_bit(const uint8_t *p, int from, int to)
{
    return vandq_u8(vshlq_u8(vld1q_u8(p), vdupq_n_s8((int8_t)(to - from))), vdupq_n_u8((uint8_t)(1 << to)));
}

/* Low (s 0) or high (s 1) nibbles. */
ARM_INLINE uint8x16_t arm_nibbles(const uint8_t *p, int s)
{
    const uint8x16_t v = vld1q_u8(p);
    return s ? vshrq_n_u8(v, 4) : arm_low_nibbles(v);
}

/* ---- values ---- */

ARM_INLINE int8x16x2_t arm_values_q2_k(const uint8_t *p, int c)
{
    const uint8_t *q = p + 16 + 32 * (c / 4);
    return (int8x16x2_t){{arm_signed(arm_bit_pair(q, c % 4)), arm_signed(arm_bit_pair(q + 16, c % 4))}};
}

ARM_INLINE int8x16x2_t arm_values_q3_k(const uint8_t *p, int c)
{
    const uint8_t *q = p + 32 + 32 * (c / 4);
    const uint8x16_t a = vorrq_u8(arm_bit_pair(q, c % 4), arm_one_bit(p, c, 2)),
                     b = vorrq_u8(arm_bit_pair(q + 16, c % 4), arm_one_bit(p + 16, c, 2));
    return (int8x16x2_t){{vsubq_s8(arm_signed(a), vdupq_n_s8(4)), vsubq_s8(arm_signed(b), vdupq_n_s8(4))}};
}

ARM_INLINE int8x16x2_t arm_values_q4_k(const uint8_t *p, int c)
{
    const uint8_t *q = p + 16 + 32 * (c / 2);
    return (int8x16x2_t){{arm_signed(arm_nibbles(q, c % 2)), arm_signed(arm_nibbles(q + 16, c % 2))}};
}

ARM_INLINE int8x16x2_t arm_values_q5_k(const uint8_t *p, int c)
{
    const uint8_t *q = p + 48 + 32 * (c / 2);
    return (int8x16x2_t){{arm_signed(vorrq_u8(arm_nibbles(q, c % 2), arm_one_bit(p + 16, c, 4))),
                          arm_signed(vorrq_u8(arm_nibbles(q + 16, c % 2), arm_one_bit(p + 32, c, 4)))}};
}

/* c = 4 h + s: nibbles of bytes 64 h + 32 (s % 2), low for s < 2; top bits from pair s of bytes 32 h. */
ARM_INLINE int8x16x2_t arm_values_q6_k(const uint8_t *p, int c)
{
    const int h = c / 4, s = c % 4;
    const uint8_t *low = p + 64 * h + 32 * (s % 2), *top = p + 128 + 32 * h;
    const uint8x16_t a = vorrq_u8(arm_nibbles(low, s / 2), vshlq_n_u8(arm_bit_pair(top, s), 4)),
                     b = vorrq_u8(arm_nibbles(low + 16, s / 2), vshlq_n_u8(arm_bit_pair(top + 16, s), 4));
    return (int8x16x2_t){{vsubq_s8(arm_signed(a), vdupq_n_s8(32)), vsubq_s8(arm_signed(b), vdupq_n_s8(32))}};
}

/* ggml's table kvalues_iq4nl (ggml-common.h, MIT). */
ARM_INLINE int8x16_t arm_of_iq4(uint8x16_t index)
{
    static const int8_t values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    return vqtbl1q_s8(vld1q_s8(values), index);
}

ARM_INLINE int8x16x2_t arm_values_iq4_xs(const uint8_t *p, int c)
{
    const uint8_t *q = p + 8 + 16 * c;
    return (int8x16x2_t){{arm_of_iq4(arm_nibbles(q, 0)), arm_of_iq4(arm_nibbles(q, 1))}};
}

/* ---- scales and minima ---- */

ARM_INLINE int8x16_t arm_scales_q2_k(const uint8_t *p) { return arm_signed(arm_nibbles(p, 0)); }
ARM_INLINE uint8x16_t arm_mins_q2_k(const uint8_t *p) { return arm_nibbles(p, 1); }

/* Scale j: its low bits are nibble j / 8 of byte j % 8, its top bits pair j / 4 of byte 8 + j % 4. */
ARM_INLINE int8x16_t arm_scales_q3_k(const uint8_t *p)
{
    static const int8_t shifts[16] = {0, 0, 0, 0, -2, -2, -2, -2, -4, -4, -4, -4, -6, -6, -6, -6};
    const uint8x8_t low = vld1_u8(p + 96);
    const uint8x16_t lows = vcombine_u8(vand_u8(low, vdup_n_u8(15)), vshr_n_u8(low, 4));
    const uint8x16_t tops = vshlq_u8(vreinterpretq_u8_u32(vdupq_n_u32(arm_load_u32(p + 104))), vld1q_s8(shifts));
    const uint8x16_t six = vorrq_u8(lows, vshlq_n_u8(vandq_u8(tops, vdupq_n_u8(3)), 4));
    return vsubq_s8(arm_signed(six), vdupq_n_s8(32));
}

/* Eight bytes, each twice. */
ARM_INLINE uint8x16_t arm_twice(uint32_t first, uint32_t second)
{
    const uint8x16_t v = vreinterpretq_u8_u64(vdupq_n_u64(first | (uint64_t)second << 32));
    return vzip1q_u8(v, v);
}

/* The 12 bytes of Q4_K and Q5_K as three words: see quant/k.c. */
ARM_INLINE int8x16_t arm_scales_q4_k(const uint8_t *p)
{
    const uint32_t a = arm_load_u32(p + 4), c = arm_load_u32(p + 12);
    return arm_signed(arm_twice(a & 0x3f3f3f3f, (c & 0x0f0f0f0f) | (a >> 2 & 0x30303030)));
}

ARM_INLINE uint8x16_t arm_mins_q4_k(const uint8_t *p)
{
    const uint32_t b = arm_load_u32(p + 8), c = arm_load_u32(p + 12);
    return arm_twice(b & 0x3f3f3f3f, (c >> 4 & 0x0f0f0f0f) | (b >> 2 & 0x30303030));
}

ARM_INLINE int8x16_t arm_scales_q6_k(const uint8_t *p) { return vld1q_s8((const int8_t *)p + 192); }

/* Scale j: its low bits are nibble j of the word at 4, its top bits pair j of the 16 bits at 2. */
ARM_INLINE int8x16_t arm_scales_iq4_xs(const uint8_t *p)
{
    static const int8_t shifts[8] = {0, -2, -4, -6, 0, -2, -4, -6};
    const uint8x8_t low = vreinterpret_u8_u32(vdup_n_u32(arm_load_u32(p + 4)));
    const uint8x8_t lows = vzip1_u8(vand_u8(low, vdup_n_u8(15)), vshr_n_u8(low, 4));
    const uint64_t both = p[2] * UINT64_C(0x01010101) | p[3] * UINT64_C(0x0101010100000000);
    const uint8x8_t tops = vand_u8(vshl_u8(vcreate_u8(both), vld1_s8(shifts)), vdup_n_u8(3));
    const int8x8_t six = vsub_s8(vreinterpret_s8_u8(vorr_u8(lows, vshl_n_u8(tops, 4))), vdup_n_s8(32));
    const int8x16_t v = vcombine_s8(six, six);
    return vzip1q_s8(v, v);
}

/* ---- the formats ---- */

static const struct arm_format256 arm_q2_k = {.block_bytes = 84,
                                              .d_at = 80,
                                              .min_at = 82,
                                              .values = arm_values_q2_k,
                                              .scales = arm_scales_q2_k,
                                              .mins = arm_mins_q2_k};
static const struct arm_format256 arm_q3_k = {
    .block_bytes = 110, .d_at = 108, .values = arm_values_q3_k, .scales = arm_scales_q3_k};
static const struct arm_format256 arm_q4_k = {.block_bytes = 144,
                                              .d_at = 0,
                                              .min_at = 2,
                                              .of_32 = true,
                                              .values = arm_values_q4_k,
                                              .scales = arm_scales_q4_k,
                                              .mins = arm_mins_q4_k};
static const struct arm_format256 arm_q5_k = {.block_bytes = 176,
                                              .d_at = 0,
                                              .min_at = 2,
                                              .of_32 = true,
                                              .values = arm_values_q5_k,
                                              .scales = arm_scales_q4_k,
                                              .mins = arm_mins_q4_k};
static const struct arm_format256 arm_q6_k = {
    .block_bytes = 210, .d_at = 208, .values = arm_values_q6_k, .scales = arm_scales_q6_k};
static const struct arm_format256 arm_iq4_xs = {
    .block_bytes = 136, .d_at = 0, .of_32 = true, .values = arm_values_iq4_xs, .scales = arm_scales_iq4_xs};

#endif
