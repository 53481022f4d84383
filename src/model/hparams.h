/* Hyper-parameters of a model, read from GGUF metadata (keys "ARCH.*") and checked. Names follow the keys. */
#ifndef MODEL_HPARAMS_H
#define MODEL_HPARAMS_H

#include "base/error.h"
#include "gguf/gguf.h"

#include <stdbool.h>
#include <stdint.h>

#define MODEL_LAYERS_MAX 512
#define MODEL_EMBD_MAX 65536
#define MODEL_HEADS_MAX 1024
#define MODEL_HEAD_DIM_MAX 512
#define MODEL_EXPERTS_MAX 1024
#define MODEL_TOPK_MAX 64
#define MODEL_CTX_MAX (1u << 24)

struct model_hparams {
    char arch[32];
    uint32_t n_layer, n_embd, n_vocab, n_ctx_train;
    uint32_t n_head, n_head_kv, d_head_k, d_head_v;
    uint32_t n_rot;                                         /* rotated dimensions of a head */
    uint32_t n_ff;                                          /* of dense layers */
    uint32_t n_expert, n_expert_used, n_ff_exp, n_ff_shexp; /* n_expert 0: a dense model */
    float norm_eps;
    float rope_base, rope_scale; /* angle = position * rope_scale * base^(-2i/n_rot) */
    float expert_weights_scale;  /* 1: none */
};

/* Reads what every supported architecture has. Refuses values out of range by key, value and limit, and rope scaling
 * types that are not supported. */
enum sluice_status model_hparams_read(const struct gguf *g, struct model_hparams *hp, struct sluice_error *err);

#endif
