/* DeepSeek-V3.2 (2025): V3 with an indexer that chooses the positions of each layer's attention. */
#include "model/mla.h"

static const struct bind_row rows[] = {
    BIND_MLA_ROWS,
    BIND_INDEXER_ROWS,
    BIND_ROW("ffn_norm.weight", ffn_norm, BIND_VECTOR, D_EMBD),
    BIND_ROUTER_ROW,
    BIND_PROBS_BIAS_ROW(BIND_OPTIONAL),
    BIND_EXPERT_SCALE_ROWS,
    BIND_SHARED_ROWS,
    BIND_SHARED_SCALE_ROWS,
    BIND_DENSE_ROWS,
    BIND_DENSE_SCALE_ROWS,
    {0},
};

static enum sluice_status finish(struct model_keys *k, struct model_hparams *hp)
{
    mla_read_indexer(k, hp);
    hp->indexer.neox = true;
    mla_read(k, hp, false);
    model_hparams_router(k, hp, ROUTER_SIGMOID);
    return k->status;
}

const struct model_arch arch_deepseek32 = {
    .name = "deepseek32", .rows = rows, .finish = finish, .applies = mla_applies, .dim = mla_dim, .layer = mla_layer};
