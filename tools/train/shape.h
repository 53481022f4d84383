/* The model's dimensions and the training batch's. Comments use these letters: N tokens of a batch, D width, H heads,
 * KV key-value heads, HD head size, E experts, K of them used, FF expert width, V vocabulary. */
#ifndef TRAIN_SHAPE_H
#define TRAIN_SHAPE_H

#include <stddef.h>

#define SHAPE_LAYERS_MAX 64
#define SHAPE_EXPERTS_MAX 256
#define SHAPE_USED_MAX 16

struct shape {
    int n_layers, d_model, n_head, n_head_kv, d_head, n_expert, n_used, d_ff, n_vocab;
    int n_window; /* tokens of one training window */
    int n_batch;  /* windows of one step */
};

/* N */
static inline size_t shape_tokens(const struct shape *s) { return (size_t)s->n_batch * (size_t)s->n_window; }

#endif
