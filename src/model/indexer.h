/* The lightning indexer (DeepSeek-V3.2, 2025): a row's score for a token is the sum over small heads of
 * weight * max(0, query . key); the rows with the best scores are what attention looks at. */
#ifndef MODEL_INDEXER_H
#define MODEL_INDEXER_H

#include "kernel/kernel.h"

#define INDEXER_TILE 1024 /* rows scored before the best are picked out of them */

struct indexer_choice {
    const float *q;       /* [n_tokens][n_head][d_head] */
    const float *weights; /* [n_tokens][n_head] */
    const void *k;        /* rows of `type`, k_stride_bytes apart */
    size_t k_stride_bytes;
    uint32_t type;
    size_t n_head, d_head, n_tokens;
    const uint32_t *n_rows; /* [n_tokens] rows 0 .. n_rows - 1 may be chosen */
    uint32_t top_k;
    float *tile;           /* [n_tokens][INDEXER_TILE] scratch */
    float *best;           /* [n_tokens][top_k] scratch */
    uint32_t *ids, *n_ids; /* result: [n_tokens][top_k] ascending, [n_tokens] */
};

/* The top_k rows with the largest scores, ties to the lower row, NaN last; all rows where there are not more. The
 * result depends on the token's query and the rows alone. */
void indexer_choose(const struct kernel_ctx *k, const struct indexer_choice *c);

/* out = (x - mean) / sqrt(variance + eps) * w + b; in place allowed; b may be NULL. */
void indexer_layer_norm(const float *x, const float *w, const float *b, size_t n, float eps, float *out);

#endif
