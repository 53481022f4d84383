/* smmla, for many tokens: two rows and two tokens, 8 values each, give four sums. Few tokens use sdot, which every
 * processor with smmla has (table.c asks for both). */
#ifndef KERNEL_ARM_LEVEL_I8MM_H
#define KERNEL_ARM_LEVEL_I8MM_H

#include "kernel/arm/level_dotprod.h"

#define I8MM_PAIRS (ARM_TILE_ROWS / 2)

/* The first and the last 8 bytes of two registers. */
ARM_INLINE int8x16_t i8mm_first(int8x16_t a, int8x16_t b)
{
    return vreinterpretq_s8_s64(vzip1q_s64(vreinterpretq_s64_s8(a), vreinterpretq_s64_s8(b)));
}

ARM_INLINE int8x16_t i8mm_last(int8x16_t a, int8x16_t b)
{
    return vreinterpretq_s8_s64(vzip2q_s64(vreinterpretq_s64_s8(a), vreinterpretq_s64_s8(b)));
}

ARM_INLINE void i8mm_interleave(const int8x16_t rows[ARM_TILE_ROWS], int8x16_t to[ARM_TILE_ROWS])
{
    for (int r = 0; r < ARM_TILE_ROWS; r += 2) {
        to[r] = i8mm_first(rows[r], rows[r + 1]);
        to[r + 1] = i8mm_last(rows[r], rows[r + 1]);
    }
}

/* Each twice: lanes 0 and 1 of a pair of rows belong to the first row, 2 and 3 to the second. */
ARM_INLINE void i8mm_spread(int16x8_t scales, int32_t to[16])
{
    const int32x4_t low = vmovl_s16(vget_low_s16(scales)), high = vmovl_high_s16(scales);
    vst1q_s32(to, vzip1q_s32(low, low));
    vst1q_s32(to + 4, vzip2q_s32(low, low));
    vst1q_s32(to + 8, vzip1q_s32(high, high));
    vst1q_s32(to + 12, vzip2q_s32(high, high));
}

/* A step of all rows times n tokens; part[p][t]: pair of rows, pair of tokens. */
ARM_INLINE void i8mm_step(const int8x16_t q[ARM_TILE_ROWS], const int8_t *const *x, int at, int n,
                          int32x4_t part[I8MM_PAIRS][ARM_TILE_STEP / 2])
{
    int8x16_t first[ARM_TILE_STEP / 2], last[ARM_TILE_STEP / 2];
    for (int t = 0; t < n / 2; t++) {
        const int8x16_t a = vld1q_s8(x[2 * t] + at), b = vld1q_s8(x[2 * t + 1] + at);
        first[t] = i8mm_first(a, b);
        last[t] = i8mm_last(a, b);
    }
#pragma GCC unroll 4
    for (int p = 0; p < I8MM_PAIRS; p++)
        for (int t = 0; t < n / 2; t++) {
            part[p][t] = vmmlaq_s32(part[p][t], q[2 * p], first[t]);
            part[p][t] = vmmlaq_s32(part[p][t], q[2 * p + 1], last[t]);
        }
}

ARM_INLINE void i8mm_sums(const int8x16_t (*q)[ARM_TILE_ROWS], const int32_t (*scale)[16], int n_steps, int run,
                          const int8_t *const *x, int n, int32x4_t sums[2][ARM_TILE_STEP])
{
    const int32x4_t zero = vdupq_n_s32(0);
    int32x4_t total[I8MM_PAIRS][ARM_TILE_STEP / 2];
    for (int p = 0; p < I8MM_PAIRS; p++)
        for (int t = 0; t < n / 2; t++) total[p][t] = zero;
    for (int i = 0; i < n_steps; i += run) {
        int32x4_t part[I8MM_PAIRS][ARM_TILE_STEP / 2];
        for (int p = 0; p < I8MM_PAIRS; p++)
            for (int t = 0; t < n / 2; t++) part[p][t] = scale ? zero : total[p][t];
#pragma GCC unroll 2
        for (int s = i; s < i + run; s++) i8mm_step(q[s], x, 16 * s, n, part);
        for (int p = 0; p < I8MM_PAIRS; p++)
            for (int t = 0; t < n / 2; t++)
                total[p][t] = scale ? vmlaq_s32(total[p][t], part[p][t], vld1q_s32(scale[i] + 4 * p)) : part[p][t];
    }
    for (int k = 0; k < 2; k++)
        for (int t = 0; t < n / 2; t++) {
            sums[k][2 * t] = vuzp1q_s32(total[2 * k][t], total[2 * k + 1][t]);
            sums[k][2 * t + 1] = vuzp2q_s32(total[2 * k][t], total[2 * k + 1][t]);
        }
}

static const struct arm_level level_i8mm = {
    .dot = dotprod_dot, .interleave = i8mm_interleave, .spread = i8mm_spread, .sums = i8mm_sums};

#endif
