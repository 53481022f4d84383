/* Hunyuan-A13B (Technical Report, 2025): queries and keys are normed after they are turned; softmax router, weights
 * renormalised; a shared expert. */
#include "model/arch.h"

static const struct bind_row rows[] = {
    BIND_COMMON_ROWS, BIND_QKV_EXTRA_ROWS, BIND_O_BIAS_ROW, BIND_HEAD_NORM_ROWS(0), BIND_SHARED_ROWS, {0},
};

static enum sluice_status finish(struct model_keys *k, struct model_hparams *hp)
{
    hp->attention = (struct attention_kind){.qk_norm = QK_NORM_HEAD, .norm_after_rope = true, .neox = true};
    hp->moe.router.normalise = true;
    model_hparams_experts_as_dense(hp);
    for (uint32_t i = 0; i < hp->n_layer; i++)
        if (!hp->layer[i].n_ff_shexp) hp->layer[i].n_ff_shexp = hp->layer[i].n_ff;
    return k->status;
}

const struct model_arch arch_hunyuan_moe = {
    .name = "hunyuan-moe", .rows = rows, .finish = finish, .layer = model_layer_plain};
