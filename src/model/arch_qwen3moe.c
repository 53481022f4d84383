/* Qwen3-MoE (Qwen3 Technical Report, 2025): per-head normed queries and keys, top-k softmax router with renormalised
 * weights, no shared expert. */
#include "model/arch.h"

static const struct bind_row rows[] = {
    BIND_COMMON_ROWS, BIND_QKV_EXTRA_ROWS, BIND_HEAD_NORM_ROWS(0), BIND_EXPERT_SCALE_ROWS, {0},
};

static enum sluice_status finish(struct model_keys *k, struct model_hparams *hp)
{
    hp->attention = (struct attention_kind){.qk_norm = QK_NORM_HEAD, .neox = true};
    hp->moe.router.normalise = true;
    model_hparams_no_shared(hp);
    model_hparams_experts(hp, hp->layer[0].n_ff / hp->layer[0].n_expert_used, 0);
    return k->status;
}

const struct model_arch arch_qwen3moe = {
    .name = "qwen3moe", .rows = rows, .finish = finish, .layer = model_layer_plain};
