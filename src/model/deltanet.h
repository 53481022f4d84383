/* Layers with a gated delta rule in place of attention: Gated DeltaNet (Yang, Kautz, Hatamizadeh, 2024) and Kimi Delta
 * Attention (Kimi Linear, 2025). A layer keeps one matrix a value head and the last inputs of a short convolution. */
#ifndef MODEL_DELTANET_H
#define MODEL_DELTANET_H

#include "model/arch.h"

#define DELTANET_TAPS_MAX 16
#define DELTANET_HEAD_MAX 1024 /* longest key and value */

/* Sizes of these layers for the tables of architectures. */
enum deltanet_dim {
    D_DELTA_KEY = D_ARCH + 32, /* all key heads */
    D_DELTA_VALUE,             /* all value heads */
    D_DELTA_MIXED,             /* q, k and v of a token */
    D_DELTA_GROUPED,           /* the same with the gate */
    D_DELTA_HEADS,             /* value heads */
    D_DELTA_2HEADS,
    D_DELTA_HEAD, /* length of a key, and of a value */
};
/* struct model_arch.dim for them. */
uint64_t deltanet_dim(const struct model_hparams *hp, uint32_t layer, uint8_t d);

/* For finish functions of the Qwen family: reads ssm.*, attention.recurrent_layers and full_attention_interval. */
void deltanet_read(struct model_keys *k, struct model_hparams *hp);
/* For finish functions: hp.delta and hp.n_conv are known; layers with no_kv get their state and scratch. n_raw: floats
 * a token that wait for being sorted. */
void deltanet_settle(struct model_hparams *hp, uint32_t n_raw);

/* x += out(norm(delta rule(norm(x))) * gate), token by token whatever the size of the step. */
void deltanet_block(struct model_run *r, const struct model_step *s, uint32_t layer);

/* struct model_arch.layer: this or attention, then the feed-forward that the layer has. */
enum sluice_status deltanet_layer(struct model_run *r, const struct model_step *s, uint32_t layer,
                                  struct sluice_error *err);

/* Rows of the Qwen family's tables. */
#define BIND_DELTA_ROWS                                                                       \
    BIND_ROW("ssm_conv1d.weight", conv, BIND_RECURRENT | BIND_VECTOR, D_CONV, D_DELTA_MIXED), \
        BIND_ROW("ssm_a", delta_a, BIND_RECURRENT | BIND_VECTOR, D_DELTA_HEADS),              \
        BIND_ROW("ssm_dt.bias", delta_dt, BIND_RECURRENT | BIND_VECTOR, D_DELTA_HEADS),       \
        BIND_ROW("ssm_norm.weight", delta_norm, BIND_RECURRENT | BIND_VECTOR, D_DELTA_HEAD),  \
        BIND_ROW("ssm_out.weight", o, BIND_RECURRENT, D_DELTA_VALUE, D_EMBD)

#endif
