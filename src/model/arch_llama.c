/* Llama (Touvron et al., 2023) and Mixtral (Jiang et al., 2024): RoPE on adjacent pairs; dense SwiGLU, or experts with
 * a softmax router whose weights are renormalised. rope_freqs (Llama 3.1) divides the angles where the file has it. */
#include "model/arch.h"

static const struct bind_row rows[] = {
    BIND_COMMON_ROWS,
    BIND_QKV_EXTRA_ROWS,
    BIND_O_BIAS_ROW,
    BIND_EXPERT_SCALE_ROWS,
    BIND_DENSE_ROWS,
    BIND_DENSE_EXTRA_ROWS,
    {0},
};

static enum sluice_status finish(struct model_keys *k, struct model_hparams *hp)
{
    hp->moe.router.normalise = true;
    model_hparams_no_shared(hp);
    model_hparams_experts_as_dense(hp);
    return k->status;
}

const struct model_arch arch_llama = {
    .name = "llama", .rows = rows, .moe_optional = true, .finish = finish, .layer = model_layer_plain};
