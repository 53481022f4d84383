/* sdot, for many tokens by element: a lane is a row, and four of a token's values go to all of them. */
#ifndef KERNEL_ARM_LEVEL_DOTPROD_H
#define KERNEL_ARM_LEVEL_DOTPROD_H

#include "kernel/arm/tile.h"

ARM_INLINE int32x4_t dotprod_dot(int32x4_t acc, int8x16_t w, int8x16_t x) { return vdotq_s32(acc, w, x); }

/* Of four rows: lane r of to[i] is lane i of rows[r]. */
ARM_INLINE void dotprod_turn(const int8x16_t *rows, int8x16_t *to)
{
    const int32x4_t a = vreinterpretq_s32_s8(rows[0]), b = vreinterpretq_s32_s8(rows[1]),
                    c = vreinterpretq_s32_s8(rows[2]), d = vreinterpretq_s32_s8(rows[3]);
    const int64x2_t ab = vreinterpretq_s64_s32(vtrn1q_s32(a, b)), ab_odd = vreinterpretq_s64_s32(vtrn2q_s32(a, b)),
                    cd = vreinterpretq_s64_s32(vtrn1q_s32(c, d)), cd_odd = vreinterpretq_s64_s32(vtrn2q_s32(c, d));
    to[0] = vreinterpretq_s8_s64(vtrn1q_s64(ab, cd));
    to[1] = vreinterpretq_s8_s64(vtrn1q_s64(ab_odd, cd_odd));
    to[2] = vreinterpretq_s8_s64(vtrn2q_s64(ab, cd));
    to[3] = vreinterpretq_s8_s64(vtrn2q_s64(ab_odd, cd_odd));
}

ARM_INLINE void dotprod_interleave(const int8x16_t rows[ARM_TILE_ROWS], int8x16_t to[ARM_TILE_ROWS])
{
    dotprod_turn(rows, to);
    dotprod_turn(rows + 4, to + 4);
}

ARM_INLINE void dotprod_spread(int16x8_t scales, int32_t to[16])
{
    vst1q_s32(to, vmovl_s16(vget_low_s16(scales)));
    vst1q_s32(to + 4, vmovl_high_s16(scales));
}

/* 16 values of four rows times a token's. */
ARM_INLINE int32x4_t dotprod_rows(int32x4_t acc, const int8x16_t w[ARM_LANES], int8x16_t x)
{
    acc = vdotq_laneq_s32(acc, w[0], x, 0);
    acc = vdotq_laneq_s32(acc, w[1], x, 1);
    acc = vdotq_laneq_s32(acc, w[2], x, 2);
    return vdotq_laneq_s32(acc, w[3], x, 3);
}

ARM_INLINE void dotprod_sums(const int8x16_t (*q)[ARM_TILE_ROWS], const int32_t (*scale)[16], int n_steps, int run,
                             const int8_t *const *x, int n, int32x4_t sums[2][ARM_TILE_STEP])
{
    const int32x4_t zero = vdupq_n_s32(0);
    int32x4_t total[2][ARM_TILE_STEP];
    for (int t = 0; t < n; t++) total[0][t] = total[1][t] = zero;
    for (int i = 0; i < n_steps; i += run) {
        int32x4_t part[2][ARM_TILE_STEP];
        for (int t = 0; t < n; t++)
            for (int k = 0; k < 2; k++) part[k][t] = scale ? zero : total[k][t];
#pragma GCC unroll 2
        for (int s = i; s < i + run; s++)
#pragma GCC unroll 4
            for (int t = 0; t < n; t++) {
                const int8x16_t xv = vld1q_s8(x[t] + 16 * s);
                part[0][t] = dotprod_rows(part[0][t], q[s], xv);
                part[1][t] = dotprod_rows(part[1][t], q[s] + 4, xv);
            }
        for (int k = 0; k < 2; k++)
            for (int t = 0; t < n; t++)
                total[k][t] = scale ? vmlaq_s32(total[k][t], part[k][t], vld1q_s32(scale[i] + 4 * k)) : part[k][t];
    }
    for (int k = 0; k < 2; k++)
        for (int t = 0; t < n; t++) sums[k][t] = total[k][t];
}

static const struct arm_level level_dotprod = {
    .dot = dotprod_dot, .interleave = dotprod_interleave, .spread = dotprod_spread, .sums = dotprod_sums};

#endif
