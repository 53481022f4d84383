/* DeepSeek-V2 (2024), V3 (2024) and what is built like them (Kimi-K2, GLM-4.7-Flash): latent attention; the first
 * layers are dense; a router whose choice a bias corrects and groups limit; shared experts as one. */
#include "model/mla.h"

#define GLM_FLASH_VOCAB 154880

static const struct bind_row rows[] = {
    BIND_MLA_ROWS,
    BIND_ROW("ffn_norm.weight", ffn_norm, BIND_VECTOR, D_EMBD),
    BIND_ROUTER_ROW,
    BIND_PROBS_BIAS_ROW(BIND_OPTIONAL),
    BIND_SHARED_ROWS,
    BIND_DENSE_ROWS,
    {0},
};

static enum sluice_status finish(struct model_keys *k, struct model_hparams *hp)
{
    /* GLM-4.7-Flash is called deepseek2 too, and its first files did not name the gate. */
    const bool glm_flash = (hp->n_layer == 47 || hp->n_layer == 48) && hp->n_vocab == GLM_FLASH_VOCAB;
    mla_read(k, hp, true);
    model_hparams_router(k, hp, glm_flash ? ROUTER_SIGMOID : ROUTER_SOFTMAX);
    return k->status;
}

const struct model_arch arch_deepseek2 = {
    .name = "deepseek2", .rows = rows, .finish = finish, .applies = mla_applies, .dim = mla_dim, .layer = mla_layer};
