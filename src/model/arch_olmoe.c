/* OLMoE (Muennighoff et al., 2024): queries and keys are RMS-normed as whole rows, softmax router whose weights are not
 * renormalised. */
#include "model/arch.h"

static const struct bind_row rows[] = {
    BIND_COMMON_ROWS,
    BIND_ROW_NORM_ROWS,
    {0},
};

static enum sluice_status finish(struct model_keys *k, struct model_hparams *hp)
{
    hp->attention = (struct attention_kind){.qk_norm = QK_NORM_ROW, .neox = true};
    model_hparams_no_shared(hp);
    model_hparams_experts_as_dense(hp);
    return k->status;
}

const struct model_arch arch_olmoe = {.name = "olmoe", .rows = rows, .finish = finish, .layer = model_layer_plain};
