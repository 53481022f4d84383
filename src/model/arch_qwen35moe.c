/* Qwen3.5 and 3.6 with experts: as Qwen3-Next, but for the order of value heads, a matrix each for the delta
 * rule's rate and decay, and RoPE in sections, which for text is plain RoPE. */
#include "model/arch.h"
#include "model/deltanet.h"

#include <inttypes.h>

static const struct bind_row rows[] = {
    BIND_ATTENTION_ROWS,
    BIND_QKV_SCALE_ROWS,
    BIND_HEAD_NORM_ROWS(0),
    BIND_DELTA_ROWS,
    BIND_ROW("attn_qkv.weight", qkv, BIND_RECURRENT, D_EMBD, D_DELTA_MIXED),
    BIND_ROW("attn_gate.weight", delta_z, BIND_RECURRENT, D_EMBD, D_DELTA_VALUE),
    BIND_ROW("ssm_beta.weight", delta_beta, BIND_RECURRENT, D_EMBD, D_DELTA_HEADS),
    BIND_ROW("ssm_alpha.weight", delta_alpha, BIND_RECURRENT, D_EMBD, D_DELTA_HEADS),
    BIND_ROW("attn_qkv.scale", qkv_scale, BIND_RECURRENT | BIND_VECTOR | BIND_OPTIONAL, D_ONE),
    BIND_ROW("attn_gate.scale", delta_z_scale, BIND_RECURRENT | BIND_VECTOR | BIND_OPTIONAL, D_ONE),
    BIND_ROW("ssm_beta.scale", delta_beta_scale, BIND_RECURRENT | BIND_VECTOR | BIND_OPTIONAL, D_ONE),
    BIND_ROW("ssm_alpha.scale", delta_alpha_scale, BIND_RECURRENT | BIND_VECTOR | BIND_OPTIONAL, D_ONE),
    BIND_ROW("ssm_out.scale", o_scale, BIND_RECURRENT | BIND_VECTOR | BIND_OPTIONAL, D_ONE),
    BIND_ROW("post_attention_norm.weight", ffn_norm, BIND_VECTOR, D_EMBD),
    BIND_ROUTER_ROW,
    BIND_EXPERT_SCALE_ROWS,
    BIND_ROW("ffn_gate_inp_shexp.weight", shexp_gate_inp, BIND_SHARED | BIND_VECTOR, D_EMBD),
    BIND_SHARED_ROWS,
    BIND_SHARED_SCALE_ROWS,
    {0},
};

/* Pair i turns by the position in time, height or width (i % 3) as far as that section goes. All three are the same for
 * text; a pair that belongs to none would not turn at all, which no known model has. */
static void check_sections(struct model_keys *k, const struct model_hparams *hp)
{
    uint32_t sections[4] = {0};
    if (!keys_has(k, "rope.dimension_sections")) return;
    keys_layers(k, "rope.dimension_sections", false, 0, MODEL_HEAD_DIM_MAX, 4, sections, sizeof *sections);
    for (uint32_t i = 0; i < hp->ropes[0].n_rot / 2 && !k->status; i++)
        if (i >= 3 * sections[i % 3])
            keys_fail(k, "rope.dimension_sections", "Sluice runs files whose sections cover all rotated dimensions",
                      "(%" PRIu32 ", %" PRIu32 ", %" PRIu32 ", %" PRIu32 ") leaves out pair %" PRIu32 " of %" PRIu32,
                      sections[0], sections[1], sections[2], sections[3], i, hp->ropes[0].n_rot / 2);
}

static enum sluice_status finish(struct model_keys *k, struct model_hparams *hp)
{
    hp->attention = (struct attention_kind){.qk_norm = QK_NORM_HEAD, .neox = true, .gated = true};
    hp->moe.router.normalise = true;
    hp->delta.tiled = true;
    model_hparams_experts(hp, hp->layer[0].n_ff / (hp->n_expert ? hp->layer[0].n_expert_used : 1), hp->layer[0].n_ff);
    check_sections(k, hp);
    deltanet_read(k, hp);
    if (!k->status) deltanet_settle(hp, 0);
    return k->status;
}

const struct model_arch arch_qwen35moe = {
    .name = "qwen35moe", .rows = rows, .finish = finish, .dim = deltanet_dim, .layer = deltanet_layer};
