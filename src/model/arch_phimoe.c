/* Phi-3.5-MoE (Phi-3 Technical Report, 2024): norms and products have biases; longrope factors; softmax router, weights
 * renormalised. The norms are RMS norms with a bias, as the reference computes them (the paper's are LayerNorms). */
#include "model/arch.h"

static const struct bind_row model_rows[] = {
    BIND_MODEL_ROW("output_norm.bias", output_norm_bias, BIND_VECTOR, D_EMBD),
    BIND_MODEL_ROW("output.bias", output_bias, BIND_VECTOR, D_VOCAB),
    {0},
};

static const struct bind_row rows[] = {
    BIND_COMMON_ROWS,
    BIND_QKV_EXTRA_ROWS,
    BIND_O_BIAS_ROW,
    BIND_ROW("attn_norm.bias", attn_norm_bias, BIND_VECTOR, D_EMBD),
    BIND_ROW("ffn_norm.bias", ffn_norm_bias, BIND_VECTOR, D_EMBD),
    {0},
};

static enum sluice_status finish(struct model_keys *k, struct model_hparams *hp)
{
    hp->attention = (struct attention_kind){.neox = true};
    hp->moe.router.normalise = true;
    model_hparams_no_shared(hp);
    model_hparams_experts_as_dense(hp);
    return k->status;
}

const struct model_arch arch_phimoe = {
    .name = "phimoe", .rows = rows, .model_rows = model_rows, .finish = finish, .layer = model_layer_plain};
