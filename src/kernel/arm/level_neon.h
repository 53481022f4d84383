/* Plain NEON: products of bytes by widening multiplications, a row at a time. */
#ifndef KERNEL_ARM_LEVEL_NEON_H
#define KERNEL_ARM_LEVEL_NEON_H

#include "kernel/arm/tile.h"

ARM_INLINE int32x4_t neon_dot(int32x4_t acc, int8x16_t w, int8x16_t x)
{
    return vpadalq_s16(acc, vmlal_high_s8(vmull_s8(vget_low_s8(w), vget_low_s8(x)), w, x));
}

ARM_INLINE void neon_interleave(const int8x16_t rows[ARM_TILE_ROWS], int8x16_t to[ARM_TILE_ROWS])
{
    for (int r = 0; r < ARM_TILE_ROWS; r++) to[r] = rows[r];
}

ARM_INLINE void neon_spread(int16x8_t scales, int32_t to[16])
{
    vst1q_s32(to, vmovl_s16(vget_low_s16(scales)));
    vst1q_s32(to + 4, vmovl_high_s16(scales));
}

ARM_INLINE void neon_sums(const int8x16_t (*q)[ARM_TILE_ROWS], const int32_t (*scale)[16], int n_steps, int run,
                          const int8_t *const *x, int n, int32x4_t sums[2][ARM_TILE_STEP])
{
    const int32x4_t zero = vdupq_n_s32(0);
    for (int k = 0; k < 2; k++) {
        int32x4_t total[ARM_TILE_STEP][ARM_LANES];
        for (int t = 0; t < n; t++)
            for (int r = 0; r < ARM_LANES; r++) total[t][r] = zero;
        for (int i = 0; i < n_steps; i += run)
#pragma GCC unroll 4
            for (int t = 0; t < n; t++)
#pragma GCC unroll 4
                for (int r = 0; r < ARM_LANES; r++) {
                    int32x4_t part = scale ? zero : total[t][r];
                    for (int s = i; s < i + run; s++) part = neon_dot(part, q[s][4 * k + r], vld1q_s8(x[t] + 16 * s));
                    total[t][r] = scale ? vmlaq_n_s32(total[t][r], part, scale[i][4 * k + r]) : part;
                }
        for (int t = 0; t < n; t++) sums[k][t] = arm_sum_each(total[t]);
    }
}

static const struct arm_level level_neon = {
    .dot = neon_dot, .interleave = neon_interleave, .spread = neon_spread, .sums = neon_sums};

#endif
