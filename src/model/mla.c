/* Keys and sizes of multi-head latent attention. The YaRN of these models (DeepSeek-V2's code calls its factors mscale
 * and mscale_all_dim) puts its gain on the scores instead of on cos and sin. */
#include "model/mla.h"

#include "base/math.h"
#include "model/attention_mla.h"
#include "model/ffn.h"
#include "model/moe.h"

#include <inttypes.h>
#include <math.h>

static float gain(float multiplier, float factor) { return 1.0f + 0.1f * multiplier * math_log(factor); }

/* The gain of YaRN, on cos and sin (hp->ropes[0].magnitude) and on scores. */
static void read_yarn(struct model_keys *k, struct model_hparams *hp, bool log_mul_cancels)
{
    struct model_rope *rope = &hp->ropes[0];
    float factor = 0, attn_factor = 1, log_mul = 0;
    keys_f32(k, "rope.scaling.factor", false, &factor);
    keys_f32(k, "rope.scaling.attn_factor", false, &attn_factor);
    keys_f32(k, "rope.scaling.yarn_log_multiplier", false, &log_mul);
    float on_scores = 1;
    if (rope->yarn && factor > 1) {
        log_mul /= 0.1f; /* files hold a tenth of it */
        rope->magnitude = attn_factor;
        if (log_mul == 0 || !log_mul_cancels) rope->magnitude *= gain(1, factor) / gain(log_mul, factor);
        on_scores = rope->magnitude * gain(log_mul, factor);
    }
    hp->attention.scale = on_scores * on_scores / sqrtf((float)hp->mla.d_k);
}

static void check_sizes(struct model_keys *k, const struct model_hparams *hp)
{
    const struct mla_kind *m = &hp->mla;
    const uint32_t n_rot = hp->ropes[0].n_rot;
    if (m->d_k <= n_rot)
        keys_fail(k, "rope.dimension_count", "the file is damaged",
                  "is %" PRIu32 ", as much as a head of %" PRIu32 " has", n_rot, m->d_k);
    if (m->absorbed && m->kv_lora + n_rot > KERNEL_HEAD_MAX)
        keys_fail(k, "attention.kv_lora_rank", "its model is larger than Sluice was made for",
                  "is %" PRIu32 ", with %" PRIu32 " rotated elements more than %d", m->kv_lora, n_rot, KERNEL_HEAD_MAX);
}

void mla_read_indexer(struct model_keys *k, struct model_hparams *hp)
{
    struct indexer_kind *x = &hp->indexer;
    x->norm_eps = 1e-6f;
    keys_u32(k, "attention.indexer.head_count", true, 1, MODEL_HEADS_MAX, &x->n_head);
    keys_u32(k, "attention.indexer.key_length", true, 2, MODEL_HEAD_DIM_MAX, &x->d_head);
    keys_u32(k, "attention.indexer.top_k", true, 1, MODEL_CTX_MAX, &x->top_k);
    keys_f32(k, "attention.layer_norm_epsilon", false, &x->norm_eps);
    if (!k->status && x->d_head < hp->ropes[0].n_rot)
        keys_fail(k, "attention.indexer.key_length", "the file is damaged",
                  "is %" PRIu32 ", less than the %" PRIu32 " elements that rotate", x->d_head, hp->ropes[0].n_rot);
    for (uint32_t i = 0; i < hp->n_layer; i++) hp->layer[i].indexes = true;
}

void mla_read(struct model_keys *k, struct model_hparams *hp, bool log_mul_cancels)
{
    struct mla_kind *m = &hp->mla;
    uint32_t n_lead = 0, temperature_floor = 0;
    m->absorbed = keys_has(k, "attention.key_length_mla");
    m->d_k = hp->layer[0].d_head_k;
    m->d_v = hp->layer[0].d_head_v;
    keys_u32(k, "attention.key_length_mla", false, 2, MODEL_HEAD_DIM_MAX, &m->d_k);
    keys_u32(k, "attention.value_length_mla", m->absorbed, 1, MODEL_HEAD_DIM_MAX, &m->d_v);
    keys_u32(k, "attention.kv_lora_rank", true, 1, MODEL_EMBD_MAX, &m->kv_lora);
    keys_u32(k, "attention.q_lora_rank", false, 0, MODEL_EMBD_MAX, &m->q_lora);
    if (gguf_find_tensor(k->g, "blk.0.attn_q.weight")) m->q_lora = 0; /* the small models have none, whatever the key */
    keys_u32(k, "leading_dense_block_count", false, 0, hp->n_layer, &n_lead);
    keys_f32(k, "attention.temperature_scale", false, &hp->attention.t_scale);
    keys_u32(k, "attention.temperature_length", false, 0, MODEL_CTX_MAX, &temperature_floor);
    hp->attention.t_floor = (float)temperature_floor;
    if (!k->status && hp->attention.t_scale != 0 && !temperature_floor)
        keys_fail(k, "attention.temperature_length", "the file is damaged", "is missing or 0");
    model_hparams_dense(hp, n_lead, 1);
    if (k->status) return;
    read_yarn(k, hp, log_mul_cancels);
    check_sizes(k, hp);
    if (hp->indexer.n_head && !(m->absorbed && m->q_lora))
        keys_fail(k, "attention.key_length_mla", "convert the model anew",
                  "or latent queries are missing; a model with an indexer needs both");
    if (k->status) return;
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        struct model_layer_hparams *l = &hp->layer[i];
        l->n_ff_shexp = l->n_ff_exp * hp->n_expert_shared;
        l->d_head_k = m->absorbed ? m->kv_lora + hp->ropes[0].n_rot : m->d_k;
        l->d_head_v = m->absorbed ? m->kv_lora : m->d_v;
        l->n_head_kv = m->absorbed ? 1 : l->n_head;
        if (m->absorbed) l->kv_k = l->d_head_k; /* values are the first part of the keys */
        if (l->indexes) {
            l->kv_v = hp->indexer.d_head; /* the indexer's keys stand where values would */
            if (l->kv_v % 32) l->kv_block = l->kv_v;
        }
        mla_room(hp, l);
    }
}

uint64_t mla_dim(const struct model_hparams *hp, uint32_t layer, uint8_t d)
{
    const struct mla_kind *m = &hp->mla;
    const uint64_t n_head = hp->layer[layer].n_head, n_rot = hp->ropes[0].n_rot;
    switch ((enum mla_dim)d) {
    case D_MLA_Q: return n_head * m->d_k;
    case D_MLA_Q_LORA: return m->q_lora;
    case D_MLA_KV_LORA: return m->kv_lora;
    case D_MLA_KV_A: return m->kv_lora + n_rot;
    case D_MLA_NOPE: return m->d_k - n_rot;
    case D_MLA_V: return m->d_v;
    case D_MLA_KV_B: return n_head * (m->d_k - n_rot + m->d_v);
    case D_MLA_O: return n_head * m->d_v;
    case D_INDEX_HEADS: return hp->indexer.n_head;
    case D_INDEX_HEAD: return hp->indexer.d_head;
    case D_INDEX_Q: return (uint64_t)hp->indexer.n_head * hp->indexer.d_head;
    case D_MLA_LAST: break;
    }
    return 0;
}

bool mla_applies(const struct model_hparams *hp, uint32_t layer, const struct bind_row *row)
{
    const uint32_t at = row->at;
    if (at == BIND_AT(q)) return !hp->mla.q_lora;
    if (at == BIND_AT(q_a) || at == BIND_AT(q_a_norm) || at == BIND_AT(q_b)) return hp->mla.q_lora > 0;
    if (at == BIND_AT(k_b) || at == BIND_AT(v_b)) return hp->mla.absorbed;
    if (at == BIND_AT(kv_b)) return !hp->mla.absorbed;
    if (at == BIND_AT(index_q) || at == BIND_AT(index_k) || at == BIND_AT(index_k_norm) ||
        at == BIND_AT(index_k_norm_bias) || at == BIND_AT(index_weights))
        return hp->layer[layer].indexes;
    return true;
}

enum sluice_status mla_layer(struct model_run *r, const struct model_step *s, uint32_t layer, struct sluice_error *err)
{
    enum sluice_status st = attention_mla(r, s, layer, err);
    return st ? st : model_feed_forward(r, s, layer, err);
}
