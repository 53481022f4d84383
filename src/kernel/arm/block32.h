/* Products of the formats with blocks of 32 values, written once for all of them and all levels; a level's file gives
 * its struct arm_level and instantiates each with ARM_PRODUCT_32. */
#ifndef KERNEL_ARM_BLOCK32_H
#define KERNEL_ARM_BLOCK32_H

#include "kernel/arm/formats32.h"
#include "kernel/arm/tile.h"

#define ARM_BLOCKS_A_SLAB 8

/* The sum of a block's 32 activations. */
ARM_INLINE float32x4_t arm_sum_of_32(const struct quant_x *x, size_t b)
{
    return vdupq_n_f32((float)(x->sums[2 * b] + x->sums[2 * b + 1]));
}

/* ---- few tokens: n, 1, 2 or 4, share a row's unpacked values ---- */

ARM_INLINE void arm_dot_group_32(arm_dot *dot, const struct arm_format32 *f, int n, const struct arm_rows *g,
                                 const struct quant_x *x, size_t n_blocks, float32x4_t *acc)
{
    const int32x4_t zero = vdupq_n_s32(0);
    for (int t = 0; t < n; t++) acc[t] = vdupq_n_f32(0);
    for (size_t b = 0; b < n_blocks; b++) {
        const size_t at = b * f->block_bytes;
        int8x16x2_t v[ARM_LANES];
        for (int r = 0; r < ARM_LANES; r++) v[r] = f->values(g->p[r] + at);
        const float32x4_t d = f->d(g, at), m = f->min_at ? arm_halves(g, at + f->min_at) : d;
#pragma GCC unroll 4
        for (int t = 0; t < n; t++) {
            const int8x16_t x0 = vld1q_s8(x[t].q + 32 * b), x1 = vld1q_s8(x[t].q + 32 * b + 16);
            int32x4_t s[ARM_LANES];
            for (int r = 0; r < ARM_LANES; r++) s[r] = dot(dot(zero, v[r].val[0], x0), v[r].val[1], x1);
            const float xd = x[t].d[b];
            acc[t] = vfmaq_f32(acc[t], vmulq_n_f32(d, xd), vcvtq_f32_s32(arm_sum_each(s)));
            if (f->min_at) acc[t] = vfmaq_f32(acc[t], vmulq_n_f32(m, xd), arm_sum_of_32(&x[t], b));
        }
    }
}

ARM_INLINE void arm_few_32(arm_dot *dot, const struct arm_format32 *f, ARM_PRODUCT_ARGS)
{
    const size_t n_blocks = acts->n / 32, stride = n_blocks * f->block_bytes;
    struct quant_x x[ARM_FEW];
    float *to[ARM_FEW];
    float32x4_t acc[ARM_FEW];
    const size_t n =
        arm_tokens_at(QUANT_FORM_32, 32, acts, tokens, 0, n_tokens, ARM_FEW, out, out_stride, out_rows, x, to);
    if (n == 3) x[3] = x[2];
    for (size_t r = 0; r < n_rows; r += ARM_LANES) {
        const struct arm_rows g = arm_rows_at(w, stride, r, n_rows);
        if (n == 1)
            arm_dot_group_32(dot, f, 1, &g, x, n_blocks, acc);
        else if (n == 2)
            arm_dot_group_32(dot, f, 2, &g, x, n_blocks, acc);
        else
            arm_dot_group_32(dot, f, 4, &g, x, n_blocks, acc);
        for (size_t t = 0; t < n; t++) arm_store_rows(to[t] + r, g.n, acc[t]);
    }
}

/* ---- scores of cached keys; those of Q8_0 are rows of a product ---- */

ARM_INLINE void arm_keys_q8_0(arm_dot *dot, const struct quant_x *x, const void *k, size_t stride, size_t d_head,
                              size_t n, float *scores)
{
    for (size_t r = 0; r < n; r += ARM_LANES) {
        const struct arm_rows g = arm_rows_at(k, stride, r, n);
        float32x4_t acc;
        arm_dot_group_32(dot, &arm_q8_0, 1, &g, x, d_head / 32, &acc);
        arm_store_rows(scores + r, g.n, acc);
    }
}

ARM_INLINE void arm_attn_scores(arm_dot *dot, uint32_t kv_type, const float *q, const struct quant_x *qx, const void *k,
                                size_t stride, size_t d_head, size_t n, float scale, float *scores)
{
    if (kv_type == QUANT_Q8_0)
        arm_keys_q8_0(dot, qx, k, stride, d_head, n, scores);
    else
        kernel_neon_rows(kv_type, k, stride, n, q, d_head, scores);
    for (size_t i = 0; i < n; i++) scores[i] *= scale;
}

ARM_INLINE void arm_attn_scores_many(arm_dot *dot, uint32_t kv_type, const struct quant_x *x, size_t n_queries,
                                     const void *k, size_t stride, size_t d_head, size_t n, float scale,
                                     float (*scores)[64])
{
    const float *q[KERNEL_QUERIES_MAX] = {NULL};
    float *out[KERNEL_QUERIES_MAX] = {NULL};
    if (kv_type == QUANT_Q8_0) {
        for (size_t i = 0; i < n_queries; i++)
            arm_attn_scores(dot, kv_type, NULL, &x[i], k, stride, d_head, n, scale, scores[i]);
        return;
    }
    for (size_t i = 0; i < n_queries; i++) {
        q[i] = x[i].x;
        out[i] = scores[i];
    }
    kernel_neon_rows_many(kv_type, k, stride, n, q, n_queries, d_head, out);
    for (size_t i = 0; i < n_queries; i++)
        for (size_t j = 0; j < n; j++) scores[i][j] *= scale;
}

/* ---- many tokens: see tile.h ---- */

ARM_INLINE void arm_unpack_32(const struct arm_level *l, const struct arm_format32 *f, const struct arm_rows g[2],
                              size_t block, size_t n_blocks, struct arm_slab *u)
{
    for (size_t i = 0; i < n_blocks; i++) {
        const size_t at = (block + i) * f->block_bytes;
        int8x16_t rows[ARM_TILE_ROWS], second[ARM_TILE_ROWS];
        for (int r = 0; r < ARM_TILE_ROWS; r++) {
            const int8x16x2_t v = f->values(g[r / 4].p[r % 4] + at);
            rows[r] = v.val[0];
            second[r] = v.val[1];
        }
        l->interleave(rows, u->q[2 * i]);
        l->interleave(second, u->q[2 * i + 1]);
        for (int k = 0; k < 2; k++) {
            u->d[i][k] = f->d(&g[k], at);
            if (f->min_at) u->m[i][k] = arm_halves(&g[k], at + f->min_at);
        }
    }
}

/* n tokens, 2 or 4, times the blocks of a slab. */
ARM_INLINE void arm_slab_32(const struct arm_level *l, const struct arm_format32 *f, const struct arm_slab *u,
                            const struct quant_x *x, size_t block, size_t n_blocks, int n, float32x4_t (*acc)[2])
{
    float32x4_t a[ARM_TILE_STEP][2];
    for (int t = 0; t < n; t++)
        for (int k = 0; k < 2; k++) a[t][k] = acc[t][k];
    for (size_t i = 0; i < n_blocks; i++) {
        int32x4_t sums[2][ARM_TILE_STEP];
        const int8_t *q[ARM_TILE_STEP];
        for (int t = 0; t < n; t++) q[t] = x[t].q + 32 * (block + i);
        l->sums(u->q + 2 * i, NULL, 2, 2, q, n, sums);
        for (int t = 0; t < n; t++)
            for (int k = 0; k < 2; k++) {
                const float xd = x[t].d[block + i];
                a[t][k] = vfmaq_f32(a[t][k], vmulq_n_f32(u->d[i][k], xd), vcvtq_f32_s32(sums[k][t]));
                if (f->min_at)
                    a[t][k] = vfmaq_f32(a[t][k], vmulq_n_f32(u->m[i][k], xd), arm_sum_of_32(&x[t], block + i));
            }
    }
    for (int t = 0; t < n; t++)
        for (int k = 0; k < 2; k++) acc[t][k] = a[t][k];
}

ARM_INLINE void arm_many_32(const struct arm_level *l, const struct arm_format32 *f, ARM_PRODUCT_ARGS)
{
    const size_t n_all = acts->n / 32, stride = n_all * f->block_bytes;
    struct arm_tile_tokens t;
    struct arm_slab u;
    float32x4_t acc[ARM_TILE_TOKENS + ARM_TILE_STEP][2];
    for (size_t j = 0; j < n_tokens; j += ARM_TILE_TOKENS) {
        arm_tile_tokens_at(&t, QUANT_FORM_32, 32, acts, tokens, j, n_tokens, out, out_stride, out_rows);
        for (size_t r = 0; r < n_rows; r += ARM_TILE_ROWS) {
            struct arm_rows g[2];
            arm_tile_rows(w, stride, r, n_rows, g);
            memset(acc, 0, sizeof acc);
            for (size_t b = 0; b < n_all; b += ARM_BLOCKS_A_SLAB) {
                const size_t n_blocks = n_all - b < ARM_BLOCKS_A_SLAB ? n_all - b : ARM_BLOCKS_A_SLAB;
                arm_unpack_32(l, f, g, b, n_blocks, &u);
                size_t i = 0;
                for (; i + 2 < t.n; i += 4) arm_slab_32(l, f, &u, t.x + i, b, n_blocks, 4, acc + i);
                if (i < t.n) arm_slab_32(l, f, &u, t.x + i, b, n_blocks, 2, acc + i);
            }
            arm_tile_store(&t, r, g, acc);
        }
    }
}

/* kernel_LEVEL_NAME, a product of the level. */
#define ARM_PRODUCT_32(level, name)                                                                                   \
    void kernel_##level##_##name(ARM_PRODUCT_ARGS)                                                                    \
    {                                                                                                                 \
        if (n_tokens <= ARM_FEW)                                                                                      \
            arm_few_32(level_##level.dot, &arm_##name, w, n_rows, acts, tokens, n_tokens, out, out_stride, out_rows); \
        else                                                                                                          \
            arm_many_32(&level_##level, &arm_##name, w, n_rows, acts, tokens, n_tokens, out, out_stride, out_rows);   \
    }

/* The same with the few tokens of a lesser level. */
#define ARM_PRODUCT_MANY_32(level, name, few)                                                                       \
    void kernel_##level##_##name(ARM_PRODUCT_ARGS)                                                                  \
    {                                                                                                               \
        if (n_tokens <= ARM_FEW)                                                                                    \
            few(w, n_rows, acts, tokens, n_tokens, out, out_stride, out_rows);                                      \
        else                                                                                                        \
            arm_many_32(&level_##level, &arm_##name, w, n_rows, acts, tokens, n_tokens, out, out_stride, out_rows); \
    }

#endif
