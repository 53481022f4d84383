/* Qwen2-MoE (Qwen2 Technical Report, 2024): biased q, k, v; softmax router without renormalisation; one shared expert
 * weighted by the sigmoid of its own gate. */
#include "model/arch.h"

static const struct bind_row rows[] = {
    BIND_COMMON_ROWS,
    BIND_QKV_EXTRA_ROWS,
    BIND_ROW("ffn_gate_inp_shexp.weight", shexp_gate_inp, BIND_VECTOR, D_EMBD),
    BIND_SHARED_ROWS,
    {0},
};

static enum sluice_status finish(struct model_keys *k, struct model_hparams *hp)
{
    hp->attention = (struct attention_kind){.neox = true};
    model_hparams_experts(hp, hp->layer[0].n_ff / hp->layer[0].n_expert_used, hp->layer[0].n_ff);
    return k->status;
}

const struct model_arch arch_qwen2moe = {
    .name = "qwen2moe", .rows = rows, .finish = finish, .layer = model_layer_plain};
