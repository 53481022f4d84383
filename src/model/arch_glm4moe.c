/* GLM-4.5 to 4.7 (GLM-4.5 Technical Report, 2025): the first layers are dense; a sigmoid router whose choice a bias
 * corrects; a shared expert. Queries and keys are normed in some sizes. RoPE turns a part of each head. */
#include "model/arch.h"

static const struct bind_row rows[] = {
    BIND_ATTENTION_ROWS,
    BIND_QKV_EXTRA_ROWS,
    BIND_HEAD_NORM_ROWS(BIND_OPTIONAL),
    BIND_ROW("post_attention_norm.weight", ffn_norm, BIND_VECTOR, D_EMBD),
    BIND_ROUTER_ROW,
    BIND_PROBS_BIAS_ROW(0),
    BIND_SHARED_ROWS,
    BIND_DENSE_ROWS,
    {0},
};

static enum sluice_status finish(struct model_keys *k, struct model_hparams *hp)
{
    uint32_t n_lead = 0;
    hp->attention = (struct attention_kind){.qk_norm = QK_NORM_HEAD, .neox = true};
    keys_u32(k, "leading_dense_block_count", false, 0, hp->n_layer, &n_lead);
    model_hparams_router(k, hp, ROUTER_SIGMOID);
    model_hparams_dense(hp, n_lead, 1);
    model_hparams_shared(hp, hp->n_expert_shared);
    return k->status;
}

const struct model_arch arch_glm4moe = {.name = "glm4moe", .rows = rows, .finish = finish, .layer = model_layer_plain};
