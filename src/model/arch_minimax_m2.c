/* MiniMax-M2 (2025): queries and keys are RMS-normed as whole rows, RoPE turns half of each head; a sigmoid router
 * whose choice a bias corrects, weights renormalised. */
#include "model/arch.h"

static const struct bind_row rows[] = {
    BIND_COMMON_ROWS,
    BIND_ROW_NORM_ROWS,
    BIND_PROBS_BIAS_ROW(0),
    {0},
};

static enum sluice_status finish(struct model_keys *k, struct model_hparams *hp)
{
    hp->attention = (struct attention_kind){.qk_norm = QK_NORM_ROW, .neox = true};
    model_hparams_router(k, hp, ROUTER_SIGMOID);
    hp->moe.router.normalise = true;
    model_hparams_no_shared(hp);
    model_hparams_experts_as_dense(hp);
    return k->status;
}

const struct model_arch arch_minimax_m2 = {
    .name = "minimax-m2", .rows = rows, .finish = finish, .layer = model_layer_plain};
