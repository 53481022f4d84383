/* Multi-head latent attention (DeepSeek-V2, 2024) and what the architectures that use it have in common. */
#ifndef MODEL_MLA_H
#define MODEL_MLA_H

#include "model/arch.h"

/* Sizes of latent attention in tensor shapes. */
enum mla_dim {
    D_MLA_Q = D_ARCH, /* n_head * d_k */
    D_MLA_Q_LORA,
    D_MLA_KV_LORA,
    D_MLA_KV_A, /* kv_lora + n_rot */
    D_MLA_NOPE, /* d_k - n_rot */
    D_MLA_V,
    D_MLA_KV_B, /* n_head * (nope + d_v) */
    D_MLA_O,    /* n_head * d_v */
    D_INDEX_HEADS,
    D_INDEX_HEAD,
    D_INDEX_Q, /* all heads */
    D_MLA_LAST
};

#define BIND_MLA_ROWS                                                                                               \
    BIND_ROW("attn_norm.weight", attn_norm, BIND_VECTOR, D_EMBD), BIND_ROW("attn_q.weight", q, 0, D_EMBD, D_MLA_Q), \
        BIND_ROW("attn_q_a.weight", q_a, 0, D_EMBD, D_MLA_Q_LORA),                                                  \
        BIND_ROW("attn_q_a_norm.weight", q_a_norm, BIND_VECTOR, D_MLA_Q_LORA),                                      \
        BIND_ROW("attn_q_b.weight", q_b, 0, D_MLA_Q_LORA, D_MLA_Q),                                                 \
        BIND_ROW("attn_kv_a_mqa.weight", kv_a, 0, D_EMBD, D_MLA_KV_A),                                              \
        BIND_ROW("attn_kv_a_norm.weight", kv_a_norm, BIND_VECTOR, D_MLA_KV_LORA),                                   \
        BIND_ROW("attn_k_b.weight", k_b, 0, D_MLA_NOPE, D_MLA_KV_LORA, D_HEADS),                                    \
        BIND_ROW("attn_v_b.weight", v_b, 0, D_MLA_KV_LORA, D_MLA_V, D_HEADS),                                       \
        BIND_ROW("attn_kv_b.weight", kv_b, 0, D_MLA_KV_LORA, D_MLA_KV_B),                                           \
        BIND_ROW("attn_output.weight", o, 0, D_MLA_O, D_EMBD),                                                      \
        BIND_ROW("attn_output.scale", o_scale, BIND_VECTOR | BIND_OPTIONAL, D_ONE)

#define BIND_INDEXER_ROWS                                                                              \
    BIND_ROW("indexer.attn_q_b.weight", index_q, 0, D_MLA_Q_LORA, D_INDEX_Q),                          \
        BIND_ROW("indexer.attn_k.weight", index_k, 0, D_EMBD, D_INDEX_HEAD),                           \
        BIND_ROW("indexer.k_norm.weight", index_k_norm, BIND_VECTOR, D_INDEX_HEAD),                    \
        BIND_ROW("indexer.k_norm.bias", index_k_norm_bias, BIND_VECTOR | BIND_OPTIONAL, D_INDEX_HEAD), \
        BIND_ROW("indexer.proj.weight", index_weights, 0, D_EMBD, D_INDEX_HEADS)

/* For finish functions: reads the keys of latent attention, its YaRN and the leading dense layers, sizes the rows of
 * the cache and of the scratch. log_mul_cancels: the YaRN factor of cos and sin is cancelled whatever
 * yarn_log_multiplier says. */
/* The indexer's keys; before mla_read. */
void mla_read_indexer(struct model_keys *k, struct model_hparams *hp);
void mla_read(struct model_keys *k, struct model_hparams *hp, bool log_mul_cancels);
uint64_t mla_dim(const struct model_hparams *hp, uint32_t layer, uint8_t d);
bool mla_applies(const struct model_hparams *hp, uint32_t layer, const struct bind_row *row);

/* Attention, then the feed-forward that the layer has. */
enum sluice_status mla_layer(struct model_run *r, const struct model_step *s, uint32_t layer, struct sluice_error *err);

#endif
