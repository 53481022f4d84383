/* Working memory of the forward pass: one block, laid out once for the largest chunk. No allocation per token. */
#ifndef MODEL_SCRATCH_H
#define MODEL_SCRATCH_H

#include "kernel/kernel.h"
#include "model/model.h"

#define MODEL_LOGITS_ROWS 8 /* rows of logits computed at once */

/* Which tokens of the chunk chose an expert. */
struct model_group {
    uint32_t expert;
    uint32_t begin, n; /* range in group_tokens and group_rows */
};

struct model_scratch {
    size_t chunk; /* tokens */
    float *x;     /* [chunk][n_embd] residual stream */
    float *h;     /* [chunk][n_embd] normed input of a block */
    /* [chunk][n_head * d_head_k] (twice that where gated), [chunk][n_head_kv * d_head_k], [chunk][n_head_kv * d_head_v]
     */
    float *q, *k, *v;
    float *attn;                                /* [chunk][n_head * d_head_v] */
    float *attn_gate;                           /* likewise; NULL: not gated */
    float *y;                                   /* [chunk][n_embd] output of a block */
    float *cos[MODEL_ROPES], *sin[MODEL_ROPES]; /* [chunk][n_rot / 2] */
    double *freq;                               /* [n_rot / 2] */
    float *gate, *up;                           /* [chunk][largest feed-forward] */
    float *router;                              /* [chunk][n_expert] */
    uint32_t *ids;                              /* [chunk][n_expert_used] ascending */
    float *weights;                             /* [chunk][n_expert_used] */
    float *row_weights;                         /* [chunk] of one group, where weights go on the experts' input */
    float *expert_out;                          /* [chunk][n_expert_used][n_embd] kept outputs (E5) */
    struct model_group *groups;                 /* [n_expert] */
    uint32_t *group_tokens, *group_rows;        /* [chunk * n_expert_used] */
    uint32_t *wanted;                           /* [n_expert] */
    float *ahead_h, *ahead_router;              /* [64][n_embd], [64][n_expert]: foresight.h */
    void *ahead_acts;
    float *extra;             /* [chunk][hp.extra_floats]: an architecture's own */
    float *logits;            /* [MODEL_LOGITS_ROWS][n_vocab] */
    void *acts_in, *acts_mid; /* quantised forms of a block's input, and of its hidden activations */
};

struct model_scratch_sizes {
    uint64_t fixed_bytes, per_token_bytes; /* without the expert outputs */
    uint64_t output_bytes_per_token;       /* of expert_out */
};
void model_scratch_sizes(const struct model_hparams *hp, struct model_scratch_sizes *out);
/* Total for a chunk; at least fixed + chunk * (per_token + output). */
uint64_t model_scratch_bytes(const struct model_hparams *hp, size_t chunk);
/* memory: model_scratch_bytes, aligned to 64. */
void model_scratch_place(const struct model_hparams *hp, size_t chunk, void *memory, struct model_scratch *out);

#endif
