/* Qwen3-Next (Qwen3-Next-80B-A3B, 2025): three of four layers are gated delta rules, the others attention whose output
 * is gated; softmax router with renormalisation; a shared expert weighted by the sigmoid of its own gate. */
#include "model/arch.h"
#include "model/deltanet.h"

#include <inttypes.h>
#include <stdio.h>

static const struct bind_row rows[] = {
    BIND_ATTENTION_ROWS,
    BIND_QKV_SCALE_ROWS,
    BIND_HEAD_NORM_ROWS(0),
    BIND_DELTA_ROWS,
    BIND_ROW("attn_qkv.weight", qkv, BIND_RECURRENT | BIND_OPTIONAL, D_EMBD, D_DELTA_MIXED),
    BIND_ROW("attn_gate.weight", delta_z, BIND_RECURRENT | BIND_OPTIONAL, D_EMBD, D_DELTA_VALUE),
    BIND_ROW("ssm_in.weight", delta_in, BIND_RECURRENT | BIND_OPTIONAL, D_EMBD, D_DELTA_GROUPED),
    BIND_ROW("ssm_ba.weight", delta_ba, BIND_RECURRENT, D_EMBD, D_DELTA_2HEADS),
    BIND_ROW("post_attention_norm.weight", ffn_norm, BIND_VECTOR, D_EMBD),
    BIND_ROUTER_ROW,
    BIND_EXPERT_SCALE_ROWS,
    BIND_ROW("ffn_gate_inp_shexp.weight", shexp_gate_inp, BIND_SHARED | BIND_VECTOR, D_EMBD),
    BIND_SHARED_ROWS,
    BIND_SHARED_SCALE_ROWS,
    {0},
};

static bool has(const struct model_keys *k, uint32_t layer, const char *name)
{
    char full[64];
    snprintf(full, sizeof full, "blk.%" PRIu32 ".%s", layer, name);
    return gguf_find_tensor(k->g, full) != NULL;
}

/* Files of the architecture's first weeks have one matrix for q, k, v and the gate, a key head after the other.
 * Returns what of it has to be sorted, in floats a token. */
static uint32_t grouped_floats(struct model_keys *k, const struct model_hparams *hp)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < hp->n_layer && !k->status; i++) {
        if (!hp->layer[i].no_kv || (has(k, i, "attn_qkv.weight") && has(k, i, "attn_gate.weight"))) continue;
        n = (uint32_t)deltanet_dim(hp, i, D_DELTA_GROUPED);
        if (has(k, i, "attn_qkv.weight") || !has(k, i, "ssm_in.weight"))
            k->status =
                base_fail(k->err, SLUICE_ERR_MODEL, "the file is incomplete; `sluice inspect` lists its tensors",
                          "%s: layer %" PRIu32 " has neither attn_qkv.weight and attn_gate.weight nor "
                          "ssm_in.weight",
                          gguf_shard(k->g, 0)->path, i);
    }
    return n;
}

static enum sluice_status finish(struct model_keys *k, struct model_hparams *hp)
{
    hp->attention = (struct attention_kind){.qk_norm = QK_NORM_HEAD, .neox = true, .gated = true};
    hp->moe.router.normalise = true;
    model_hparams_experts(hp, hp->layer[0].n_ff / (hp->n_expert ? hp->layer[0].n_expert_used : 1), hp->layer[0].n_ff);
    deltanet_read(k, hp);
    if (k->status) return k->status;
    deltanet_settle(hp, grouped_floats(k, hp) + 2 * hp->delta.n_head_v);
    return k->status;
}

const struct model_arch arch_qwen3next = {
    .name = "qwen3next", .rows = rows, .finish = finish, .dim = deltanet_dim, .layer = deltanet_layer};
