/* Granite MoE (Granite 3.0 Language Models, 2024): factors on the embedding, the scores, each block's output and the
 * logits; softmax router, weights renormalised; a shared expert in some sizes. */
#include "model/arch.h"

static const struct bind_row rows[] = {
    BIND_COMMON_ROWS, BIND_QKV_EXTRA_ROWS, BIND_O_BIAS_ROW, BIND_SHARED_ROWS, {0},
};

static enum sluice_status finish(struct model_keys *k, struct model_hparams *hp)
{
    float logits = 1, residual = 0, embedding = 0;
    keys_f32(k, "logit_scale", true, &logits);
    keys_f32(k, "residual_scale", false, &residual);
    keys_f32(k, "embedding_scale", false, &embedding);
    keys_f32(k, "attention.scale", false, &hp->attention.scale);
    if (logits == 0) keys_fail(k, "logit_scale", "the file is damaged", "is 0");
    hp->logit_scale = 1 / logits;
    if (residual != 0) hp->residual_scale = residual;
    if (embedding != 0) hp->embedding_scale = embedding;
    hp->moe.router.normalise = true;
    model_hparams_experts_as_dense(hp);
    return k->status;
}

const struct model_arch arch_granitemoe = {
    .name = "granitemoe", .rows = rows, .finish = finish, .layer = model_layer_plain};
