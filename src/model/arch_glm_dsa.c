/* GLM-5 (2026): built like DeepSeek-V3.2, but for the indexer's RoPE pairs; from 5.2 on most layers take the choice of
 * an earlier layer's indexer. */
#include "model/mla.h"

#define CTX_SHARED (1u << 20) /* from this trained context on, files that do not say so share indexers */

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

/* Which layers have an indexer of their own. GLM-5.2's files may leave it to us: layers 0 and 1, then every fourth. */
static void read_sharing(struct model_keys *k, struct model_hparams *hp)
{
    uint32_t own[MODEL_LAYERS_MAX];
    for (uint32_t i = 0; i < hp->n_layer; i++) own[i] = hp->n_ctx_train < CTX_SHARED || i < 2 || i % 4 == 2;
    keys_layers(k, "attention.indexer.types", false, 0, 1, hp->n_layer, own, sizeof *own);
    for (uint32_t i = 0; i < hp->n_layer; i++) hp->layer[i].indexes = own[i];
    if (!own[0])
        keys_fail(k, "attention.indexer.types", "the file is damaged", "gives the first layer no indexer of its own");
}

static enum sluice_status finish(struct model_keys *k, struct model_hparams *hp)
{
    mla_read_indexer(k, hp);
    read_sharing(k, hp);
    mla_read(k, hp, false);
    model_hparams_router(k, hp, ROUTER_SIGMOID);
    return k->status;
}

const struct model_arch arch_glm_dsa = {
    .name = "glm-dsa", .rows = rows, .finish = finish, .applies = mla_applies, .dim = mla_dim, .layer = mla_layer};
