/* gpt-oss (gpt-oss-120b & gpt-oss-20b Model Card, 2025): biased attention with a sink a head, every other layer with a
 * sliding window; a router that takes the softmax over the chosen experts; experts with biases and a clamped SwiGLU. */
#include "model/arch.h"

#define CLAMP 7.0f

static const struct bind_row rows[] = {
    BIND_ATTENTION_ROWS,
    BIND_QKV_EXTRA_ROWS,
    BIND_O_BIAS_ROW,
    BIND_ROW("attn_sinks.weight", sinks, BIND_VECTOR, D_HEADS),
    BIND_ROW("post_attention_norm.weight", ffn_norm, BIND_VECTOR, D_EMBD),
    BIND_ROUTER_ROW,
    BIND_ROW("ffn_gate_inp.bias", router_bias, BIND_VECTOR, D_EXPERT),
    BIND_ROW("ffn_gate_exps.bias", exps_bias[MODEL_GATE], BIND_VECTOR, D_FF_EXP, D_EXPERT),
    BIND_ROW("ffn_up_exps.bias", exps_bias[MODEL_UP], BIND_VECTOR, D_FF_EXP, D_EXPERT),
    BIND_ROW("ffn_down_exps.bias", exps_bias[MODEL_DOWN], BIND_VECTOR, D_EMBD, D_EXPERT),
    {0},
};

static enum sluice_status finish(struct model_keys *k, struct model_hparams *hp)
{
    hp->attention = (struct attention_kind){.neox = true};
    hp->moe.router.gate = ROUTER_SOFTMAX_SELECTED;
    hp->moe.act = KERNEL_SILU_OAI;
    hp->moe.limit = CLAMP;
    model_hparams_no_shared(hp);
    model_hparams_windows(k, hp, &(struct model_window_defaults){.required = true, .period = 2});
    return k->status;
}

const struct model_arch arch_gpt_oss = {.name = "gpt-oss", .rows = rows, .finish = finish, .layer = model_layer_plain};
