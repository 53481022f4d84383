/* Qwen3-MoE (Qwen3 Technical Report, 2025): grouped-query attention with RMS-normed heads, top-k softmax router with
 * renormalised weights, no shared expert. */
#include "model/arch.h"
#include "model/attention.h"
#include "model/moe.h"

static const struct bind_row rows[] = {
    BIND_COMMON_ROWS,
    BIND_QKV_EXTRA_ROWS,
    {"attn_q_norm.weight", BIND_AT(q_norm), {D_HEAD}, BIND_VECTOR},
    {"attn_k_norm.weight", BIND_AT(k_norm), {D_HEAD}, BIND_VECTOR},
    BIND_EXPERT_SCALE_ROWS,
    {0},
};

static enum sluice_status finish(struct model_hparams *hp, struct sluice_error *err)
{
    (void)err;
    if (!hp->n_ff_exp) hp->n_ff_exp = hp->n_ff / hp->n_expert_used;
    hp->n_ff_shexp = 0;
    return SLUICE_OK;
}

static enum sluice_status layer(struct model_run *r, const struct model_step *s, uint32_t l, struct sluice_error *err)
{
    static const struct attention_kind attention = {.qk_norm = QK_NORM_HEAD, .neox = true};
    const struct router_kind router = {.normalise = true, .scale = r->model->hp.expert_weights_scale};
    enum sluice_status st = attention_gqa(r, s, l, &attention, err);
    return st ? st : moe_block(r, s, l, &router, err);
}

const struct model_arch arch_qwen3moe = {.name = "qwen3moe", .rows = rows, .finish = finish, .layer = layer};
