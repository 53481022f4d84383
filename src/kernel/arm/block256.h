/* Products of the formats with blocks of 256 values, written once for all of them and all levels; a level's file gives
 * its struct arm_level and instantiates each with ARM_PRODUCT_256.
 *
 * All integers are exact: sums of 16 products are below 2^19, those of a block fit 32 bits (quant/formats.h). */
#ifndef KERNEL_ARM_BLOCK256_H
#define KERNEL_ARM_BLOCK256_H

#include "kernel/arm/formats256.h"
#include "kernel/arm/tile.h"

/* ---- few tokens: n, 1, 2 or 4, share a row's unpacked values ---- */

ARM_INLINE int32x4_t arm_mins_sum(uint8x16_t mins, const int16_t *sums)
{
    const int16x8_t m0 = vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(mins))),
                    m1 = vreinterpretq_s16_u16(vmovl_high_u8(mins)), s0 = vld1q_s16(sums), s1 = vld1q_s16(sums + 8);
    int32x4_t v = vmull_s16(vget_low_s16(m0), vget_low_s16(s0));
    v = vmlal_high_s16(v, m0, s0);
    v = vmlal_s16(v, vget_low_s16(m1), vget_low_s16(s1));
    return vmlal_high_s16(v, m1, s1);
}

ARM_INLINE void arm_store_scales(int8x16_t scales, int32_t to[16])
{
    const int16x8_t low = vmovl_s8(vget_low_s8(scales)), high = vmovl_high_s8(scales);
    vst1q_s32(to, vmovl_s16(vget_low_s16(low)));
    vst1q_s32(to + 4, vmovl_high_s16(low));
    vst1q_s32(to + 8, vmovl_s16(vget_low_s16(high)));
    vst1q_s32(to + 12, vmovl_high_s16(high));
}

/* A row's block times n tokens' (values 256 b of each). */
ARM_INLINE void arm_row_sums_256(arm_dot *dot, const struct arm_format256 *f, int n, const uint8_t *p,
                                 const int8_t *const *x, int32x4_t *sums)
{
    const int32x4_t zero = vdupq_n_s32(0);
    int32_t scales[16];
    arm_store_scales(f->scales(p), scales);
    for (int t = 0; t < n; t++) sums[t] = zero;
#pragma GCC unroll 8
    for (int c = 0; c < 8; c++) {
        const int8x16x2_t w = f->values(p, c);
#pragma GCC unroll 4
        for (int t = 0; t < n; t++) {
            const int8x16_t a = vld1q_s8(x[t] + 32 * c), b = vld1q_s8(x[t] + 32 * c + 16);
            if (f->of_32) {
                sums[t] = vmlaq_n_s32(sums[t], dot(dot(zero, w.val[0], a), w.val[1], b), scales[2 * c]);
            } else {
                sums[t] = vmlaq_n_s32(sums[t], dot(zero, w.val[0], a), scales[2 * c]);
                sums[t] = vmlaq_n_s32(sums[t], dot(zero, w.val[1], b), scales[2 * c + 1]);
            }
        }
    }
}

ARM_INLINE void arm_dot_group_256(arm_dot *dot, const struct arm_format256 *f, int n, const struct arm_rows *g,
                                  const struct quant_x *x, size_t n_blocks, float32x4_t *acc)
{
    int32x4_t s[ARM_FEW][ARM_LANES], m[ARM_FEW][ARM_LANES];
    for (int t = 0; t < n; t++) acc[t] = vdupq_n_f32(0);
    for (size_t b = 0; b < n_blocks; b++) {
        const size_t at = b * f->block_bytes;
        const int8_t *q[ARM_FEW];
        for (int t = 0; t < n; t++) q[t] = x[t].q + 256 * b;
#pragma GCC unroll 1
        for (int r = 0; r < ARM_LANES; r++) {
            const uint8_t *p = g->p[r] + at;
            int32x4_t one[ARM_FEW];
            arm_row_sums_256(dot, f, n, p, q, one);
            for (int t = 0; t < n; t++) s[t][r] = one[t];
            if (f->min_at) {
                const uint8x16_t mins = f->mins(p);
                for (int t = 0; t < n; t++) m[t][r] = arm_mins_sum(mins, x[t].sums + 16 * b);
            }
        }
        const float32x4_t d = arm_halves(g, at + f->d_at);
        const float32x4_t dmin = f->min_at ? vnegq_f32(arm_halves(g, at + f->min_at)) : d;
        for (int t = 0; t < n; t++) {
            const float xd = x[t].d[b];
            acc[t] = vfmaq_f32(acc[t], vmulq_n_f32(d, xd), vcvtq_f32_s32(arm_sum_each(s[t])));
            if (f->min_at) acc[t] = vfmaq_f32(acc[t], vmulq_n_f32(dmin, xd), vcvtq_f32_s32(arm_sum_each(m[t])));
        }
    }
}

ARM_INLINE void arm_few_256(arm_dot *dot, const struct arm_format256 *f, ARM_PRODUCT_ARGS)
{
    const size_t n_blocks = acts->n / 256, stride = n_blocks * f->block_bytes;
    struct quant_x x[ARM_FEW];
    float *to[ARM_FEW];
    float32x4_t acc[ARM_FEW];
    const size_t n =
        arm_tokens_at(QUANT_FORM_256, 256, acts, tokens, 0, n_tokens, ARM_FEW, out, out_stride, out_rows, x, to);
    if (n == 3) x[3] = x[2];
    for (size_t r = 0; r < n_rows; r += ARM_LANES) {
        const struct arm_rows g = arm_rows_at(w, stride, r, n_rows);
        if (n == 1)
            arm_dot_group_256(dot, f, 1, &g, x, n_blocks, acc);
        else if (n == 2)
            arm_dot_group_256(dot, f, 2, &g, x, n_blocks, acc);
        else
            arm_dot_group_256(dot, f, 4, &g, x, n_blocks, acc);
        for (size_t t = 0; t < n; t++) arm_store_rows(to[t] + r, g.n, acc[t]);
    }
}

/* ---- many tokens: see tile.h ---- */

ARM_INLINE void arm_unpack_mins(const struct arm_format256 *f, const struct arm_rows g[2], size_t at,
                                struct arm_slab *u)
{
    int8x16_t rows[ARM_TILE_ROWS];
    int16x8_t columns[16];
    for (int r = 0; r < ARM_TILE_ROWS; r++) rows[r] = arm_signed(f->mins(g[r / 4].p[r % 4] + at));
    arm_columns(rows, columns);
    const int every = f->of_32 ? 2 : 1;
    for (int i = 0; i < 16 / every; i++) vst1q_s16(u->mins[i], columns[every * i]);
    for (int k = 0; k < 2; k++) u->m[0][k] = vnegq_f32(arm_halves(&g[k], at + f->min_at));
}

ARM_INLINE void arm_unpack_256(const struct arm_level *l, const struct arm_format256 *f, const struct arm_rows g[2],
                               size_t at, struct arm_slab *u)
{
    int8x16_t rows[ARM_TILE_ROWS], second[ARM_TILE_ROWS];
    int16x8_t columns[16];
    for (int k = 0; k < 2; k++) u->d[0][k] = arm_halves(&g[k], at + f->d_at);
#pragma GCC unroll 8
    for (int c = 0; c < 8; c++) {
        for (int r = 0; r < ARM_TILE_ROWS; r++) {
            const int8x16x2_t v = f->values(g[r / 4].p[r % 4] + at, c);
            rows[r] = v.val[0];
            second[r] = v.val[1];
        }
        l->interleave(rows, u->q[2 * c]);
        l->interleave(second, u->q[2 * c + 1]);
    }
    for (int r = 0; r < ARM_TILE_ROWS; r++) rows[r] = f->scales(g[r / 4].p[r % 4] + at);
    arm_columns(rows, columns);
    for (int i = 0; i < 16; i++) l->spread(columns[i], u->scale[i]);
    if (f->min_at) arm_unpack_mins(f, g, at, u);
}

/* Eight minima of four rows times eight sums of activations. */
ARM_INLINE int32x4_t arm_mins_times(int32x4_t s, const int16_t (*mins)[ARM_TILE_ROWS], int16x8_t sums)
{
    s = vmlal_laneq_s16(s, vld1_s16(mins[0]), sums, 0);
    s = vmlal_laneq_s16(s, vld1_s16(mins[1]), sums, 1);
    s = vmlal_laneq_s16(s, vld1_s16(mins[2]), sums, 2);
    s = vmlal_laneq_s16(s, vld1_s16(mins[3]), sums, 3);
    s = vmlal_laneq_s16(s, vld1_s16(mins[4]), sums, 4);
    s = vmlal_laneq_s16(s, vld1_s16(mins[5]), sums, 5);
    s = vmlal_laneq_s16(s, vld1_s16(mins[6]), sums, 6);
    return vmlal_laneq_s16(s, vld1_s16(mins[7]), sums, 7);
}

/* Rows 4 k and on. */
ARM_INLINE int32x4_t arm_tile_mins(bool of_32, const struct arm_slab *u, int k, const int16_t *sums)
{
    const int16x8_t a = vld1q_s16(sums), b = vld1q_s16(sums + 8);
    const int16_t(*mins)[ARM_TILE_ROWS] = (const int16_t(*)[ARM_TILE_ROWS])(const void *)(u->mins[0] + 4 * k);
    if (of_32) return arm_mins_times(vdupq_n_s32(0), mins, vpaddq_s16(a, b));
    return arm_mins_times(arm_mins_times(vdupq_n_s32(0), mins, a), mins + 8, b);
}

/* n tokens, 2 or 4, times a slab. */
ARM_INLINE void arm_slab_256(const struct arm_level *l, const struct arm_format256 *f, const struct arm_slab *u,
                             const struct quant_x *x, size_t b, int n, float32x4_t (*acc)[2])
{
    int32x4_t sums[2][ARM_TILE_STEP];
    const int8_t *q[ARM_TILE_STEP];
    for (int t = 0; t < n; t++) q[t] = x[t].q + 256 * b;
    l->sums(u->q, u->scale, ARM_TILE_STEPS, f->of_32 ? 2 : 1, q, n, sums);
    for (int t = 0; t < n; t++)
        for (int k = 0; k < 2; k++) {
            const float xd = x[t].d[b];
            acc[t][k] = vfmaq_f32(acc[t][k], vmulq_n_f32(u->d[0][k], xd), vcvtq_f32_s32(sums[k][t]));
            if (f->min_at)
                acc[t][k] = vfmaq_f32(acc[t][k], vmulq_n_f32(u->m[0][k], xd),
                                      vcvtq_f32_s32(arm_tile_mins(f->of_32, u, k, x[t].sums + 16 * b)));
        }
}

ARM_INLINE void arm_many_256(const struct arm_level *l, const struct arm_format256 *f, ARM_PRODUCT_ARGS)
{
    const size_t n_blocks = acts->n / 256, stride = n_blocks * f->block_bytes;
    struct arm_tile_tokens t;
    struct arm_slab u;
    float32x4_t acc[ARM_TILE_TOKENS + ARM_TILE_STEP][2];
    for (size_t j = 0; j < n_tokens; j += ARM_TILE_TOKENS) {
        arm_tile_tokens_at(&t, QUANT_FORM_256, 256, acts, tokens, j, n_tokens, out, out_stride, out_rows);
        for (size_t r = 0; r < n_rows; r += ARM_TILE_ROWS) {
            struct arm_rows g[2];
            arm_tile_rows(w, stride, r, n_rows, g);
            memset(acc, 0, sizeof acc);
            for (size_t b = 0; b < n_blocks; b++) {
                arm_unpack_256(l, f, g, b * f->block_bytes, &u);
                size_t i = 0;
                for (; i + 2 < t.n; i += 4) arm_slab_256(l, f, &u, t.x + i, b, 4, acc + i);
                if (i < t.n) arm_slab_256(l, f, &u, t.x + i, b, 2, acc + i);
            }
            arm_tile_store(&t, r, g, acc);
        }
    }
}

/* kernel_LEVEL_NAME, a product of the level. */
#define ARM_PRODUCT_256(level, name)                                                                                   \
    void kernel_##level##_##name(ARM_PRODUCT_ARGS)                                                                     \
    {                                                                                                                  \
        if (n_tokens <= ARM_FEW)                                                                                       \
            arm_few_256(level_##level.dot, &arm_##name, w, n_rows, acts, tokens, n_tokens, out, out_stride, out_rows); \
        else                                                                                                           \
            arm_many_256(&level_##level, &arm_##name, w, n_rows, acts, tokens, n_tokens, out, out_stride, out_rows);   \
    }

/* The same with the few tokens of a lesser level. */
#define ARM_PRODUCT_MANY_256(level, name, few)                                                                       \
    void kernel_##level##_##name(ARM_PRODUCT_ARGS)                                                                   \
    {                                                                                                                \
        if (n_tokens <= ARM_FEW)                                                                                     \
            few(w, n_rows, acts, tokens, n_tokens, out, out_stride, out_rows);                                       \
        else                                                                                                         \
            arm_many_256(&level_##level, &arm_##name, w, n_rows, acts, tokens, n_tokens, out, out_stride, out_rows); \
    }

#endif
