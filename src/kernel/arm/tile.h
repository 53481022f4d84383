/* Many tokens: 8 rows are unpacked once for up to 64 tokens, a slab of 256 values at a time, into the order in which
 * the level multiplies; then four tokens at a time go over the slab. Four rows are a register's lanes again when the
 * integers of a block are complete.
 *
 * Steps of 16 values. In a step's 8 registers lie
 *   neon     a row each
 *   dotprod  4 values of each of 4 rows: values 0..3, 4..7, 8..11, 12..15 of the first four rows, then of the others
 *   i8mm     8 values of each of 2 rows: values 0..7, 8..15 of the first two rows, then of the next two, ... */
#ifndef KERNEL_ARM_TILE_H
#define KERNEL_ARM_TILE_H

#include "kernel/arm/arm.h"

#define ARM_TILE_ROWS 8
#define ARM_TILE_TOKENS 64
#define ARM_TILE_STEP 4   /* tokens at a time; a rest of one or two: 2 */
#define ARM_TILE_STEPS 16 /* of a slab */

struct arm_slab {
    int8x16_t q[ARM_TILE_STEPS][ARM_TILE_ROWS];
    int32_t scale[ARM_TILE_STEPS][16];           /* of each step, as the level wants them */
    int16_t mins[ARM_TILE_STEPS][ARM_TILE_ROWS]; /* blocks of 256: of each 16 or 32 values */
    float32x4_t d[8][2], m[8][2];                /* of each block and four rows */
};

/* What a level brings. */
struct arm_level {
    arm_dot *dot;
    /* 16 values of 8 rows into the level's order. */
    void (*interleave)(const int8x16_t rows[ARM_TILE_ROWS], int8x16_t to[ARM_TILE_ROWS]);
    /* The 8 rows' scales of a step. */
    void (*spread)(int16x8_t scales, int32_t to[16]);
    /* sums[g][t], lane r: row 4 g + r times token t over n_steps. Each `run` steps share a scale; scale NULL: there is
     * none. n: 2 or 4 tokens. */
    void (*sums)(const int8x16_t (*q)[ARM_TILE_ROWS], const int32_t (*scale)[16], int n_steps, int run,
                 const int8_t *const *x, int n, int32x4_t sums[2][ARM_TILE_STEP]);
};

/* The rows of a tile; a second group that does not exist repeats the first. */
ARM_INLINE void arm_tile_rows(const void *w, size_t stride, size_t first, size_t n_rows, struct arm_rows g[2])
{
    g[0] = arm_rows_at(w, stride, first, n_rows);
    g[1] = g[0];
    g[1].n = 0;
    if (first + ARM_LANES < n_rows) g[1] = arm_rows_at(w, stride, first + ARM_LANES, n_rows);
}

/* Column i of 8 rows of 16 bytes, widened. */
ARM_INLINE void arm_columns(const int8x16_t rows[ARM_TILE_ROWS], int16x8_t columns[16])
{
    int8x16_t a[8], b[8];
    for (int i = 0; i < 4; i++) {
        a[2 * i] = vzip1q_s8(rows[i], rows[i + 4]);
        a[2 * i + 1] = vzip2q_s8(rows[i], rows[i + 4]);
    }
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++) { /* rows i, i + 2, i + 4, i + 6 */
            b[4 * i + 2 * k] = vzip1q_s8(a[2 * i + k], a[2 * i + 4 + k]);
            b[4 * i + 2 * k + 1] = vzip2q_s8(a[2 * i + k], a[2 * i + 4 + k]);
        }
    for (int k = 0; k < 4; k++) {
        const int8x16_t first = vzip1q_s8(b[k], b[4 + k]), second = vzip2q_s8(b[k], b[4 + k]);
        columns[4 * k] = vmovl_s8(vget_low_s8(first));
        columns[4 * k + 1] = vmovl_high_s8(first);
        columns[4 * k + 2] = vmovl_s8(vget_low_s8(second));
        columns[4 * k + 3] = vmovl_high_s8(second);
    }
}

/* The tokens of a tile. The last one is repeated up to a whole number of steps. */
struct arm_tile_tokens {
    struct quant_x x[ARM_TILE_TOKENS + ARM_TILE_STEP];
    float *out[ARM_TILE_TOKENS];
    size_t n;
};

ARM_INLINE void arm_tile_tokens_at(struct arm_tile_tokens *t, enum quant_form form, size_t block,
                                   const struct kernel_acts *acts, const uint32_t *tokens, size_t first,
                                   size_t n_tokens, float *out, size_t out_stride, const uint32_t *out_rows)
{
    t->n = arm_tokens_at(form, block, acts, tokens, first, n_tokens, ARM_TILE_TOKENS, out, out_stride, out_rows, t->x,
                         t->out);
    for (size_t i = t->n; i < t->n + ARM_TILE_STEP; i++) t->x[i] = t->x[t->n - 1];
}

ARM_INLINE void arm_tile_store(const struct arm_tile_tokens *t, size_t row, const struct arm_rows g[2],
                               float32x4_t (*acc)[2])
{
    for (size_t i = 0; i < t->n; i++) {
        arm_store_rows(t->out[i] + row, g[0].n, acc[i][0]);
        if (g[1].n) arm_store_rows(t->out[i] + row + ARM_LANES, g[1].n, acc[i][1]);
    }
}

#endif
