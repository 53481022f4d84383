/* Attention over chosen rows: all query heads of a token share one key head, and a token sees up to two sets of rows,
 * each of them a range of positions or a list. For layers that keep one latent row a position (its head is the value
 * too), and for layers that look at a selection of positions. */
#ifndef KERNEL_ROWS_H
#define KERNEL_ROWS_H

#include "kernel/kernel.h"

#define KERNEL_ROW_SETS 2

/* Rows as they lie in a cache, and which of them each token sees. A list has precedence over a range. */
struct kernel_rows {
    const void *k, *v; /* row 0; may be the same */
    size_t k_stride_bytes, v_stride_bytes;
    size_t ring;                 /* of a range: position p has row p % ring, a multiple of 64; 0: row p */
    const uint32_t *begin, *end; /* [n_tokens] rows begin .. end - 1 */
    const uint32_t *ids, *n_ids; /* [n_tokens][ids_stride] ascending, [n_tokens]; NULL: the range */
    size_t ids_stride;
};

struct kernel_rows_attention {
    const float *q; /* [n_tokens][n_head][d_head] */
    struct kernel_rows sets[KERNEL_ROW_SETS];
    size_t n_sets;
    uint32_t type; /* of keys and values: F32, F16 or Q8_0 (heads in multiples of 32) */
    size_t n_head, d_head, d_head_v, n_tokens;
    float scale;
    const float *sinks; /* [n_head] a score without a value that joins the softmax; NULL: none */
    float *out;         /* [n_tokens][n_head][d_head_v]; zeros for a token that sees nothing */
};

/* Rows of a set are taken in blocks of 64 row numbers, each with its own maximum and sum over the rows seen; blocks
 * merge in ascending order, the first set before the second. So the bits depend on the rows seen alone (README.md,
 * "Attention"). */
void kernel_rows_attention_run(const struct kernel_ctx *k, const struct kernel_rows_attention *a);

#endif
