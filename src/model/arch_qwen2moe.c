/* Qwen2-MoE (Qwen2 Technical Report, 2024): biased q, k, v; softmax router without renormalisation; one shared expert
 * weighted by the sigmoid of its own gate. */
#include "model/arch.h"
#include "model/attention.h"
#include "model/moe.h"

static const struct bind_row rows[] = {
    BIND_COMMON_ROWS,
    BIND_QKV_EXTRA_ROWS,
    {"ffn_gate_inp_shexp.weight", BIND_AT(shexp_gate_inp), {D_EMBD}, BIND_VECTOR},
    {"ffn_gate_shexp.weight", BIND_AT(shexp_gate), {D_EMBD, D_FF_SHEXP}, 0},
    {"ffn_up_shexp.weight", BIND_AT(shexp_up), {D_EMBD, D_FF_SHEXP}, 0},
    {"ffn_down_shexp.weight", BIND_AT(shexp_down), {D_FF_SHEXP, D_EMBD}, 0},
    {0},
};

static enum sluice_status finish(struct model_hparams *hp, struct sluice_error *err)
{
    (void)err;
    if (!hp->n_ff_exp) hp->n_ff_exp = hp->n_ff / hp->n_expert_used;
    if (!hp->n_ff_shexp) hp->n_ff_shexp = hp->n_ff;
    return SLUICE_OK;
}

static enum sluice_status layer(struct model_run *r, const struct model_step *s, uint32_t l, struct sluice_error *err)
{
    static const struct attention_kind attention = {.qk_norm = QK_NORM_NONE, .neox = true};
    const struct router_kind router = {.normalise = false, .scale = r->model->hp.expert_weights_scale};
    enum sluice_status st = attention_gqa(r, s, l, &attention, err);
    return st ? st : moe_block(r, s, l, &router, err);
}

const struct model_arch arch_qwen2moe = {.name = "qwen2moe", .rows = rows, .finish = finish, .layer = layer};
