/* Ling and Ring 2.0 (Every Activation Boosted, 2025): q, k and v are one matrix, queries and keys normed, RoPE turns a
 * part of each head; the first layers are dense; a router (sigmoid) whose choice a bias corrects and groups limit;
 * shared experts as one. */
#include "model/arch.h"

static const struct bind_row rows[] = {
    BIND_QKV_ROWS,
    BIND_HEAD_NORM_ROWS(0),
    BIND_ROW("ffn_norm.weight", ffn_norm, BIND_VECTOR, D_EMBD),
    BIND_ROUTER_ROW,
    BIND_PROBS_BIAS_ROW(BIND_OPTIONAL),
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
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        struct model_layer_hparams *l = &hp->layer[i];
        l->n_ff_shexp = (l->n_ff_shexp ? l->n_ff_shexp : l->n_ff_exp) * hp->n_expert_shared;
    }
    return k->status;
}

const struct model_arch arch_bailingmoe2 = {
    .name = "bailingmoe2", .rows = rows, .finish = finish, .layer = model_layer_plain};
