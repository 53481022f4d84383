/* Llama (Touvron et al., 2023) and Mixtral (Jiang et al., 2024): RoPE on adjacent pairs; dense SwiGLU, or experts with
 * a softmax router whose weights are renormalised. rope_freqs (Llama 3.1) divides the angles where the file has it. */
#include "model/arch.h"
#include "model/attention.h"
#include "model/ffn.h"
#include "model/moe.h"

static const struct bind_row rows[] = {
    BIND_COMMON_ROWS,
    BIND_QKV_EXTRA_ROWS,
    {"attn_output.bias", BIND_AT(o_bias), {D_EMBD}, BIND_VECTOR | BIND_OPTIONAL},
    BIND_EXPERT_SCALE_ROWS,
    {"ffn_gate.weight", BIND_AT(gate), {D_EMBD, D_FF}, BIND_DENSE},
    {"ffn_up.weight", BIND_AT(up), {D_EMBD, D_FF}, BIND_DENSE},
    {"ffn_down.weight", BIND_AT(down), {D_FF, D_EMBD}, BIND_DENSE},
    {"ffn_gate.bias", BIND_AT(gate_bias), {D_FF}, BIND_DENSE | BIND_VECTOR | BIND_OPTIONAL},
    {"ffn_up.bias", BIND_AT(up_bias), {D_FF}, BIND_DENSE | BIND_VECTOR | BIND_OPTIONAL},
    {"ffn_down.bias", BIND_AT(down_bias), {D_EMBD}, BIND_DENSE | BIND_VECTOR | BIND_OPTIONAL},
    {"ffn_gate.scale", BIND_AT(gate_scale), {D_ONE}, BIND_DENSE | BIND_VECTOR | BIND_OPTIONAL},
    {"ffn_up.scale", BIND_AT(up_scale), {D_ONE}, BIND_DENSE | BIND_VECTOR | BIND_OPTIONAL},
    {"ffn_down.scale", BIND_AT(down_scale), {D_ONE}, BIND_DENSE | BIND_VECTOR | BIND_OPTIONAL},
    {0},
};

static enum sluice_status finish(struct model_hparams *hp, struct sluice_error *err)
{
    if (!hp->n_ff)
        return base_fail(err, SLUICE_ERR_MODEL, "the file is damaged",
                         "key 'llama.feed_forward_length' is missing or 0");
    hp->n_ff_exp = hp->n_ff;
    hp->n_ff_shexp = 0;
    return SLUICE_OK;
}

static enum sluice_status layer(struct model_run *r, const struct model_step *s, uint32_t l, struct sluice_error *err)
{
    static const struct attention_kind attention = {.qk_norm = QK_NORM_NONE, .neox = false};
    const struct router_kind router = {.normalise = true, .scale = r->model->hp.expert_weights_scale};
    enum sluice_status st = attention_gqa(r, s, l, &attention, err);
    if (st) return st;
    return r->model->layers[l].is_moe ? moe_block(r, s, l, &router, err) : ffn_block(r, s, l, err);
}

const struct model_arch arch_llama = {
    .name = "llama", .rows = rows, .moe_optional = true, .finish = finish, .layer = layer};
