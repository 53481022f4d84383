#include "model/hparams.h"

#include "base/math.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Keys that say what the tensors' shapes say too, or that concern training alone. */
static const char *const known[] = {
    "vocab_size",         "attention.causal", "rope.scaling.original_context_length", "rope.scaling.finetuned",
    "tensor_data_layout", "pooling_type",
};

static bool is(const struct gguf_str *s, const char *text)
{
    return s->bytes == strlen(text) && !memcmp(s->at, text, s->bytes);
}

static float yarn_magnitude(float factor, float multiplier)
{
    return factor <= 1 ? 1 : 0.1f * multiplier * math_log(factor) + 1;
}

/* rope.scaling.*: none, linear, yarn and longrope, which is linear with factors from the tensors rope_factors_*. */
static void read_scaling(struct model_keys *k, struct model_rope *rope)
{
    struct gguf_str type = {"", 0};
    keys_str(k, "rope.scaling.type", false, &type);
    if (k->status) return;
    const bool none = is(&type, "none"), yarn = is(&type, "yarn"), longrope = is(&type, "longrope");
    if (type.bytes && !none && !yarn && !longrope && !is(&type, "linear")) {
        keys_fail(k, "rope.scaling.type", "Sluice runs files with the RoPE scaling types none, linear, yarn, longrope",
                  "is '%.*s'", (int)(type.bytes < 40 ? type.bytes : 40), type.at);
        return;
    }
    float factor = 0, attn_factor = 1, log_multiplier = 0, ext_factor = -1;
    keys_f32(k, "rope.scale_linear", false, &factor); /* the key's name before 2023-10 */
    keys_f32(k, "rope.scaling.factor", false, &factor);
    keys_f32(k, "rope.scaling.attn_factor", false, &attn_factor);
    keys_f32(k, "rope.scaling.yarn_log_multiplier", false, &log_multiplier);
    keys_f32(k, "rope.scaling.yarn_ext_factor", false, &ext_factor);
    keys_f32(k, "rope.scaling.yarn_beta_fast", false, &rope->beta_fast);
    keys_f32(k, "rope.scaling.yarn_beta_slow", false, &rope->beta_slow);
    keys_u32(k, "rope.scaling.original_context_length", false, 0, MODEL_CTX_MAX, &rope->n_ctx_orig);
    if (!none && factor > 0) rope->scale = 1.0f / factor;
    rope->magnitude = attn_factor;
    rope->ext_factor = ext_factor < 0 ? 1 : ext_factor;
    rope->yarn = yarn && rope->ext_factor > 0;
    if (!rope->yarn) return;
    if (!rope->n_ctx_orig) keys_fail(k, "rope.scaling.original_context_length", "the file is damaged", "is 0");
    rope->magnitude *= yarn_magnitude(factor, 1) / (log_multiplier > 0 ? yarn_magnitude(factor, log_multiplier) : 1);
}

static void read_rope(struct model_keys *k, struct model_hparams *hp, uint32_t n_rot)
{
    struct model_rope *rope = &hp->ropes[0];
    *rope = (struct model_rope){.n_rot = n_rot,
                                .base = 10000,
                                .scale = 1,
                                .factors = true,
                                .beta_fast = 32,
                                .beta_slow = 1,
                                .n_ctx_orig = hp->n_ctx_train,
                                .magnitude = 1};
    hp->n_ropes = 1;
    keys_f32(k, "rope.freq_base", false, &rope->base);
    keys_u32(k, "rope.dimension_count", false, 2, n_rot, &rope->n_rot);
    read_scaling(k, rope);
    if (!(rope->base > 0)) keys_fail(k, "rope.freq_base", "the file is damaged", "is %g", (double)rope->base);
    if (rope->n_rot % 2)
        keys_fail(k, "rope.dimension_count", "the file is damaged", "is %" PRIu32 ", which is odd", rope->n_rot);
}

static void read_attention(struct model_keys *k, struct model_hparams *hp)
{
    struct model_layer_hparams *l = hp->layer;
    const size_t stride = sizeof *l;
    uint32_t most = 0, d_k, d_v;
    keys_layers(k, "attention.head_count", true, 0, MODEL_HEADS_MAX, hp->n_layer, &l->n_head, stride);
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        l[i].n_head_kv = l[i].n_head;
        if (l[i].n_head > most) most = l[i].n_head;
    }
    if (!k->status && !most) keys_fail(k, "attention.head_count", "the file is damaged", "is 0");
    keys_layers(k, "attention.head_count_kv", false, 0, MODEL_HEADS_MAX, hp->n_layer, &l->n_head_kv, stride);
    if (k->status) return;
    d_k = d_v = hp->n_embd / most;
    keys_u32(k, "attention.key_length", false, 1, MODEL_HEAD_DIM_MAX, &d_k);
    keys_u32(k, "attention.value_length", false, 1, MODEL_HEAD_DIM_MAX, &d_v);
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        l[i].d_head_k = d_k;
        l[i].d_head_v = d_v;
    }
    if (!k->status && (d_k < 2 || d_k > MODEL_HEAD_DIM_MAX || d_v > MODEL_HEAD_DIM_MAX))
        keys_fail(k, "attention.head_count", "the file is damaged", "makes heads %" PRIu32 " wide", d_k);
    if (!k->status) read_rope(k, hp, d_k);
    keys_f32(k, "attention.layer_norm_rms_epsilon", true, &hp->norm_eps);
    if (!k->status && !(hp->norm_eps >= 0 && hp->norm_eps < 1))
        keys_fail(k, "attention.layer_norm_rms_epsilon", "the file is damaged", "is %g", (double)hp->norm_eps);
}

static void read_feed_forward(struct model_keys *k, struct model_hparams *hp)
{
    struct model_layer_hparams *l = hp->layer;
    const size_t stride = sizeof *l;
    const uint32_t n = hp->n_layer;
    keys_layers(k, "feed_forward_length", false, 0, MODEL_FF_MAX, n, &l->n_ff, stride);
    keys_u32(k, "expert_count", false, 0, MODEL_EXPERTS_MAX, &hp->n_expert);
    if (k->status || !hp->n_expert) return;
    const uint32_t most = hp->n_expert < MODEL_TOPK_MAX ? hp->n_expert : MODEL_TOPK_MAX;
    keys_layers(k, "expert_used_count", true, 1, most, n, &l->n_expert_used, stride);
    keys_layers(k, "expert_feed_forward_length", false, 0, MODEL_FF_MAX, n, &l->n_ff_exp, stride);
    keys_layers(k, "expert_shared_feed_forward_length", false, 0, MODEL_FF_MAX, n, &l->n_ff_shexp, stride);
    keys_u32(k, "expert_shared_count", false, 0, MODEL_EXPERTS_MAX, &hp->n_expert_shared);
    keys_f32(k, "expert_weights_scale", false, &hp->moe.router.scale);
    if (hp->moe.router.scale == 0) hp->moe.router.scale = 1;
    for (uint32_t i = 0; i < n; i++) l[i].n_expert = hp->n_expert;
}

enum sluice_status model_hparams_read(struct model_keys *k, struct model_hparams *hp)
{
    memset(hp, 0, sizeof *hp);
    hp->moe.router.scale = hp->embedding_scale = hp->logit_scale = hp->residual_scale = 1;
    snprintf(hp->arch, sizeof hp->arch, "%s", k->arch);
    keys_known(k, known, sizeof known / sizeof *known);
    uint32_t n_blocks = 0;
    keys_u32(k, "block_count", true, 1, MODEL_LAYERS_MAX, &n_blocks);
    keys_u32(k, "nextn_predict_layers", false, 0, n_blocks ? n_blocks - 1 : 0, &hp->n_layer_mtp);
    hp->n_layer = n_blocks - hp->n_layer_mtp;
    keys_u32(k, "embedding_length", true, 1, MODEL_EMBD_MAX, &hp->n_embd);
    keys_u32(k, "context_length", true, 1, MODEL_CTX_MAX, &hp->n_ctx_train);
    if (!k->status) read_attention(k, hp);
    if (!k->status) read_feed_forward(k, hp);
    if (k->status) return k->status;

    const struct gguf_tensor *embd = gguf_find_tensor(k->g, "token_embd.weight");
    if (!embd || embd->n_dims != 2 || embd->dims[1] > INT32_MAX)
        return k->status =
                   base_fail(k->err, SLUICE_ERR_MODEL, "is this a complete language model?",
                             "%s: tensor 'token_embd.weight' is missing or is no matrix", gguf_shard(k->g, 0)->path);
    hp->n_vocab = (uint32_t)embd->dims[1];
    return SLUICE_OK;
}

void model_hparams_dense(struct model_hparams *hp, uint32_t n_lead, uint32_t step)
{
    for (uint32_t i = 0; i < hp->n_layer; i++)
        if (i < n_lead || (step > 1 && (i + 1) % step)) hp->layer[i].n_expert = 0;
}

void model_hparams_experts(struct model_hparams *hp, uint32_t n_ff_exp, uint32_t n_ff_shexp)
{
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        struct model_layer_hparams *l = &hp->layer[i];
        if (!l->n_ff_exp) l->n_ff_exp = n_ff_exp;
        if (!l->n_ff_shexp) l->n_ff_shexp = n_ff_shexp;
    }
}

void model_hparams_router(struct model_keys *k, struct model_hparams *hp, enum router_gate gate)
{
    static const enum router_gate gates[] = {ROUTER_SOFTMAX, ROUTER_SIGMOID, ROUTER_SOFTMAX_SELECTED,
                                             ROUTER_SQRT_SOFTPLUS};
    struct router_kind *r = &hp->moe.router;
    uint32_t func = 0;
    keys_u32(k, "expert_gating_func", false, 0, sizeof gates / sizeof *gates, &func);
    keys_bool(k, "expert_weights_norm", false, &r->normalise);
    keys_u32(k, "expert_group_count", false, 0, MODEL_EXPERTS_MAX, &r->n_groups);
    keys_u32(k, "expert_group_used_count", false, 0, MODEL_EXPERTS_MAX, &r->n_groups_used);
    r->gate = func ? gates[func - 1] : gate;
}

void model_hparams_windows(struct model_keys *k, struct model_hparams *hp, const struct model_window_defaults *d)
{
    static const char *const pattern_key = "attention.sliding_window_pattern";
    uint32_t window = 0, period = d->period, windowed[MODEL_LAYERS_MAX];
    keys_u32(k, "attention.sliding_window", d->required, 0, MODEL_CTX_MAX, &window);
    if (k->status || !window) return;
    char key[160];
    snprintf(key, sizeof key, "%s.%s", k->arch, pattern_key);
    const struct gguf_value *v = gguf_find(k->g, key);
    const bool list = v && v->type == GGUF_ARRAY;
    if (list)
        keys_layers(k, pattern_key, false, 0, 1, hp->n_layer, windowed, sizeof *windowed);
    else
        keys_u32(k, pattern_key, false, 0, MODEL_LAYERS_MAX, &period);
    struct model_rope *rope = &hp->ropes[1];
    *rope = hp->ropes[0];
    keys_f32(k, "rope.freq_base_swa", false, &rope->base);
    if (!k->status && !(rope->base > 0)) keys_fail(k, "rope.freq_base_swa", "the file is damaged", "is not above 0");
    const bool own_rope = rope->base != hp->ropes[0].base;
    if (own_rope) hp->n_ropes = 2;
    for (uint32_t i = 0; i < hp->n_layer && !k->status; i++) {
        if (list ? !windowed[i] : period && i % period == period - 1) continue;
        hp->layer[i].window = window;
        hp->layer[i].rope = own_rope;
    }
}

void model_hparams_shared(struct model_hparams *hp, uint32_t count)
{
    for (uint32_t i = 0; i < hp->n_layer; i++) hp->layer[i].n_ff_shexp = hp->layer[i].n_ff_exp * count;
}

void model_hparams_no_shared(struct model_hparams *hp)
{
    for (uint32_t i = 0; i < hp->n_layer; i++) hp->layer[i].n_ff_shexp = 0;
}

void model_hparams_experts_as_dense(struct model_hparams *hp)
{
    for (uint32_t i = 0; i < hp->n_layer; i++) hp->layer[i].n_ff_exp = hp->layer[i].n_ff;
}

static void raise(uint32_t *most, uint64_t value)
{
    if (value > *most) *most = (uint32_t)value;
}

static void settle_heads(struct model_keys *k, struct model_hparams *hp, struct model_layer_hparams *l, uint32_t layer)
{
    if (l->n_head && l->n_head_kv && l->n_head % l->n_head_kv)
        keys_fail(k, "attention.head_count", "the file is damaged",
                  "of layer %" PRIu32 " is %" PRIu32 ", which %" PRIu32 " key heads cannot share evenly", layer,
                  l->n_head, l->n_head_kv);
    if (l->no_kv)
        l->kv_k = l->kv_v = 0;
    else if (!l->n_head_kv)
        keys_fail(k, "attention.head_count_kv", "the file is damaged", "of layer %" PRIu32 " is 0", layer);
    else if (!l->kv_k) {
        l->kv_k = l->n_head_kv * l->d_head_k;
        l->kv_v = l->n_head_kv * l->d_head_v;
    }
    if (!l->kv_block) l->kv_block = l->d_head_k % 32 ? l->d_head_k : l->d_head_v;
    raise(&hp->n_head, l->n_head);
    raise(&hp->n_head_kv, l->n_head_kv);
    raise(&hp->q_floats, (uint64_t)l->n_head * l->d_head_k * (hp->attention.gated ? 2 : 1));
    raise(&hp->k_floats, (uint64_t)l->n_head_kv * l->d_head_k);
    raise(&hp->v_floats, (uint64_t)l->n_head_kv * l->d_head_v);
    raise(&hp->attn_floats, (uint64_t)l->n_head * l->d_head_v);
}

static void settle_feed_forward(struct model_keys *k, struct model_hparams *hp, struct model_layer_hparams *l)
{
    if (!l->n_expert) l->n_expert_used = l->n_ff_exp = l->n_ff_shexp = 0;
    if (!l->n_expert && !l->n_ff && !l->bare)
        keys_fail(k, "feed_forward_length", "the file is damaged", "is missing or 0");
    if (l->n_expert && !l->n_ff_exp)
        keys_fail(k, "expert_feed_forward_length", "the file is damaged", "is missing or 0");
    const struct router_kind *r = &hp->moe.router;
    if (l->n_expert && r->n_groups > 1) {
        if (l->n_expert % r->n_groups || l->n_expert / r->n_groups < 2)
            keys_fail(k, "expert_group_count", "the file is damaged", "does not divide %" PRIu32 " experts",
                      l->n_expert);
        else if (!r->n_groups_used || r->n_groups_used > r->n_groups ||
                 r->n_groups_used * (l->n_expert / r->n_groups) < l->n_expert_used)
            keys_fail(k, "expert_group_used_count", "the file is damaged", "is %" PRIu32, r->n_groups_used);
    }
    raise(&hp->n_expert, l->n_expert);
    raise(&hp->n_expert_used, l->n_expert_used);
    raise(&hp->n_ff_exp, l->n_ff_exp);
    raise(&hp->n_ff_shexp, l->n_ff_shexp);
    if (!l->n_expert) raise(&hp->n_ff, l->n_ff);
}

enum sluice_status model_hparams_settle(struct model_keys *k, struct model_hparams *hp)
{
    hp->n_expert = 0;
    for (uint32_t i = 0; i < hp->n_layer && !k->status; i++) {
        settle_heads(k, hp, &hp->layer[i], i);
        settle_feed_forward(k, hp, &hp->layer[i]);
        hp->state_floats += hp->layer[i].state_floats;
        raise(&hp->window, hp->layer[i].window);
    }
    for (uint32_t i = 0; i < hp->n_ropes; i++) raise(&hp->n_rot, hp->ropes[i].n_rot);
    raise(&hp->acts_floats, hp->n_ff);
    raise(&hp->acts_floats, hp->n_ff_exp);
    raise(&hp->acts_floats, hp->n_ff_shexp);
    raise(&hp->acts_floats, hp->attn_floats);
    return k->status;
}
