/* DeepSeek-V4 (2026): hyper-connections around every block; a window of attention beside compressed rows, chosen by an
 * indexer where they stand for few positions; experts by a table of token ids in the first layers. */
#include "model/arch.h"

#include "model/attention_compressed.h"
#include "model/heads.h"
#include "model/hyper.h"
#include "model/moe.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#define RATIO_LONG 128 /* the other ratio of compression beside COMPRESS_OVERLAP */

enum {
    D_Q_ALL = D_ARCH,
    D_Q_LORA,
    D_O_IN, /* of a group of heads */
    D_O_LORA,
    D_O_GROUPS,
    D_O_LATENT,
    D_STREAMS, /* all streams' elements */
    D_MIXES,
    D_N_STREAMS,
    D_THREE,
    D_RATIO,
    D_WIDTH,
    D_INDEX_HEADS,
    D_INDEX_HEAD,
    D_INDEX_ALL,
    D_INDEX_WIDTH,
    D_USED,
};

static const struct bind_row rows[] = {
    BIND_ROW("attn_norm.weight", attn_norm, BIND_VECTOR, D_EMBD),
    BIND_ROW("attn_sinks.weight", sinks, BIND_VECTOR, D_HEADS),
    BIND_ROW("attn_q_a.weight", q_a, 0, D_EMBD, D_Q_LORA),
    BIND_ROW("attn_q_a_norm.weight", q_a_norm, BIND_VECTOR, D_Q_LORA),
    BIND_ROW("attn_q_b.weight", q_b, 0, D_Q_LORA, D_Q_ALL),
    BIND_ROW("attn_kv.weight", kv, 0, D_EMBD, D_HEAD),
    BIND_ROW("attn_kv_a_norm.weight", kv_a_norm, BIND_VECTOR, D_HEAD),
    BIND_ROW("attn_output_a.weight", o_a, BIND_FLAT, D_O_IN, D_O_LORA, D_O_GROUPS),
    BIND_ROW("attn_output_b.weight", o_b, 0, D_O_LATENT, D_EMBD),
    BIND_ROW("attn_compressor_kv.weight", comp_kv, 0, D_EMBD, D_WIDTH),
    BIND_ROW("attn_compressor_gate.weight", comp_gate, 0, D_EMBD, D_WIDTH),
    BIND_ROW("attn_compressor_ape.weight", comp_pos, BIND_VECTOR, D_WIDTH, D_RATIO),
    BIND_ROW("attn_compressor_norm.weight", comp_norm, BIND_VECTOR, D_HEAD),
    BIND_ROW("indexer.attn_q_b.weight", index_q, 0, D_Q_LORA, D_INDEX_ALL),
    BIND_ROW("indexer.proj.weight", index_weights, 0, D_EMBD, D_INDEX_HEADS),
    BIND_ROW("indexer_compressor_kv.weight", index_comp_kv, 0, D_EMBD, D_INDEX_WIDTH),
    BIND_ROW("indexer_compressor_gate.weight", index_comp_gate, 0, D_EMBD, D_INDEX_WIDTH),
    BIND_ROW("indexer_compressor_ape.weight", index_comp_pos, BIND_VECTOR, D_INDEX_WIDTH, D_RATIO),
    BIND_ROW("indexer_compressor_norm.weight", index_comp_norm, BIND_VECTOR, D_INDEX_HEAD),
    BIND_ROW("hc_attn_fn.weight", hyper_fn[HYPER_ATTENTION], 0, D_STREAMS, D_MIXES),
    BIND_ROW("hc_attn_base.weight", hyper_base[HYPER_ATTENTION], BIND_VECTOR, D_MIXES),
    BIND_ROW("hc_attn_scale.weight", hyper_scale[HYPER_ATTENTION], BIND_VECTOR, D_THREE),
    BIND_ROW("hc_ffn_fn.weight", hyper_fn[HYPER_FEED_FORWARD], 0, D_STREAMS, D_MIXES),
    BIND_ROW("hc_ffn_base.weight", hyper_base[HYPER_FEED_FORWARD], BIND_VECTOR, D_MIXES),
    BIND_ROW("hc_ffn_scale.weight", hyper_scale[HYPER_FEED_FORWARD], BIND_VECTOR, D_THREE),
    BIND_ROW("ffn_norm.weight", ffn_norm, BIND_VECTOR, D_EMBD),
    BIND_ROUTER_ROW,
    BIND_PROBS_BIAS_ROW(0),
    BIND_ROW("ffn_gate_tid2eid.weight", table, BIND_IDS, D_USED, D_VOCAB),
    BIND_SHARED_ROWS,
    {0},
};

static const struct bind_row model_rows[] = {
    {"output_hc_fn.weight", BIND_MODEL_AT(hyper_fn), {D_STREAMS, D_N_STREAMS}, 0},
    {"output_hc_base.weight", BIND_MODEL_AT(hyper_base), {D_N_STREAMS}, BIND_VECTOR},
    {"output_hc_scale.weight", BIND_MODEL_AT(hyper_scale), {D_ONE}, BIND_VECTOR},
    {0},
};

static uint64_t dim(const struct model_hparams *hp, uint32_t layer, uint8_t d)
{
    const struct model_layer_hparams *l = &hp->layer[layer];
    const uint64_t heads = (uint64_t)l->n_head * l->d_head_k, twice = l->compress == COMPRESS_OVERLAP ? 2 : 1;
    switch (d) {
    case D_Q_ALL: return heads;
    case D_Q_LORA: return hp->mla.q_lora;
    case D_O_IN: return heads / hp->o_groups;
    case D_O_LORA: return hp->o_lora;
    case D_O_GROUPS: return hp->o_groups;
    case D_O_LATENT: return (uint64_t)hp->o_groups * hp->o_lora;
    case D_STREAMS: return (uint64_t)HYPER_STREAMS * hp->n_embd;
    case D_MIXES: return HYPER_STREAMS * (HYPER_STREAMS + 2);
    case D_N_STREAMS: return HYPER_STREAMS;
    case D_THREE: return 3;
    case D_RATIO: return l->compress;
    case D_WIDTH: return twice * l->d_head_k;
    case D_INDEX_HEADS: return hp->indexer.n_head;
    case D_INDEX_HEAD: return hp->indexer.d_head;
    case D_INDEX_ALL: return (uint64_t)hp->indexer.n_head * hp->indexer.d_head;
    case D_INDEX_WIDTH: return twice * hp->indexer.d_head;
    case D_USED: return l->n_expert_used;
    default: return 0;
    }
}

static bool applies(const struct model_hparams *hp, uint32_t layer, const struct bind_row *row)
{
    const struct model_layer_hparams *l = &hp->layer[layer];
    const uint32_t at = row->at;
    if (at == BIND_AT(table)) return l->by_table;
    if (at == BIND_AT(probs_bias)) return !l->by_table;
    if (at >= BIND_AT(comp_kv) && at <= BIND_AT(comp_norm)) return l->compress > 0;
    if (at == BIND_AT(index_q) || at == BIND_AT(index_weights) ||
        (at >= BIND_AT(index_comp_kv) && at <= BIND_AT(index_comp_norm)))
        return l->indexes;
    return true;
}

/* ---- hyper-parameters ---- */

/* The clamp of the experts' activation: a number or a list of equal ones; 0: none. */
static void read_clamp(struct model_keys *k, const char *suffix, float *limit)
{
    char key[160];
    double first = 0, value;
    if (k->status || !keys_has(k, suffix)) return;
    snprintf(key, sizeof key, "%s.%s", k->arch, suffix);
    const struct gguf_value *v = gguf_find(k->g, key);
    const uint64_t n = v->type == GGUF_ARRAY ? v->n : 1;
    for (uint64_t i = 0; i < n && !k->status; i++) {
        if (!gguf_item_f64(v, i, &value) || !(value >= 0))
            keys_fail(k, suffix, "the file is damaged", "is no list of limits");
        else if (i && value != first)
            keys_fail(k, suffix, "Sluice knows this architecture with one limit for all layers", "differs by layer");
        first = value;
    }
    *limit = first > 1e-6 ? (float)first : INFINITY;
}

/* Files may count blocks for further tokens that they do not have: then all blocks are layers. */
static void without_mtp(struct model_keys *k, struct model_hparams *hp)
{
    char name[64];
    snprintf(name, sizeof name, "blk.%" PRIu32 ".nextn.eh_proj.weight", hp->n_layer);
    if (!hp->n_layer_mtp || gguf_find_tensor(k->g, name)) return;
    for (; hp->n_layer_mtp; hp->n_layer_mtp--, hp->n_layer++) hp->layer[hp->n_layer] = hp->layer[hp->n_layer - 1];
}

static void read_keys(struct model_keys *k, struct model_hparams *hp, uint32_t *window, uint32_t *n_table)
{
    struct indexer_kind *x = &hp->indexer;
    keys_u32(k, "attention.q_lora_rank", true, 1, MODEL_EMBD_MAX, &hp->mla.q_lora);
    keys_u32(k, "attention.sliding_window", true, 1, MODEL_CTX_MAX, window);
    keys_u32(k, "attention.indexer.head_count", true, 1, MODEL_HEADS_MAX, &x->n_head);
    keys_u32(k, "attention.indexer.key_length", true, 2, MODEL_HEAD_DIM_MAX, &x->d_head);
    keys_u32(k, "attention.indexer.top_k", true, 1, MODEL_CTX_MAX, &x->top_k);
    keys_u32(k, "attention.output_group_count", true, 1, MODEL_HEADS_MAX, &hp->o_groups);
    keys_u32(k, "attention.output_lora_rank", true, 1, MODEL_EMBD_MAX, &hp->o_lora);
    keys_u32(k, "hyper_connection.count", true, HYPER_STREAMS, HYPER_STREAMS, &hp->hyper.n);
    keys_u32(k, "hyper_connection.sinkhorn_iterations", true, 1, 1000, &hp->hyper.sinkhorn);
    keys_f32(k, "hyper_connection.epsilon", true, &hp->hyper.eps);
    keys_u32(k, "hash_layer_count", true, 0, hp->n_layer, n_table);
    keys_layers(k, "attention.compress_ratios", true, 0, RATIO_LONG, hp->n_layer, &hp->layer[0].compress,
                sizeof hp->layer[0]);
    hp->moe.limit = INFINITY;
    read_clamp(k, "swiglu_clamp_exp", &hp->moe.limit);
    hp->moe.shexp_limit = hp->moe.limit;
    read_clamp(k, "swiglu_clamp_shexp", &hp->moe.shexp_limit);
}

/* Layers without compression rotate plainly, those with it by YaRN from another base; neither grows cos and sin. */
static void read_ropes(struct model_keys *k, struct model_hparams *hp)
{
    struct model_rope *plain = &hp->ropes[0], *compressed = &hp->ropes[1];
    plain->factors = false;
    plain->magnitude = 1;
    *compressed = *plain;
    plain->yarn = false;
    plain->scale = 1;
    hp->n_ropes = 2;
    keys_f32(k, "attention.compress_rope_freq_base", true, &compressed->base);
    if (!k->status && !(compressed->base > 0))
        keys_fail(k, "attention.compress_rope_freq_base", "the file is damaged", "is not above 0");
}

static void check_layer(struct model_keys *k, const struct model_hparams *hp, uint32_t i)
{
    const struct model_layer_hparams *l = &hp->layer[i];
    const uint32_t heads = l->n_head * l->d_head_k;
    if (l->compress && l->compress != COMPRESS_OVERLAP && l->compress != RATIO_LONG)
        keys_fail(k, "attention.compress_ratios", "Sluice knows this architecture with ratios of 0, 4 and 128",
                  "of layer %" PRIu32 " is %" PRIu32, i, l->compress);
    if (l->n_head_kv != 1)
        keys_fail(k, "attention.head_count_kv", "the file is damaged", "is %" PRIu32 ", expected 1", l->n_head_kv);
    if (l->d_head_v != l->d_head_k || l->d_head_k < hp->ropes[0].n_rot)
        keys_fail(k, "attention.value_length", "the file is damaged", "is %" PRIu32 ", of keys %" PRIu32, l->d_head_v,
                  l->d_head_k);
    if (hp->indexer.d_head < hp->ropes[0].n_rot)
        keys_fail(k, "attention.indexer.key_length", "the file is damaged", "is %" PRIu32, hp->indexer.d_head);
    if (heads % hp->o_groups || l->n_head % hp->o_groups || heads / hp->o_groups > HEADS_IN_MAX)
        keys_fail(k, "attention.output_group_count",
                  "the file is damaged, or its model larger than Sluice was made for",
                  "is %" PRIu32 " for %" PRIu32 " heads of %" PRIu32, hp->o_groups, l->n_head, l->d_head_k);
}

static enum sluice_status finish(struct model_keys *k, struct model_hparams *hp)
{
    uint32_t window = 0, n_table = 0;
    without_mtp(k, hp);
    read_keys(k, hp, &window, &n_table);
    model_hparams_router(k, hp, ROUTER_SQRT_SOFTPLUS);
    read_ropes(k, hp);
    hp->moe.act = KERNEL_SILU_LIMIT;
    for (uint32_t i = 0; i < hp->n_layer && !k->status; i++) {
        struct model_layer_hparams *l = &hp->layer[i];
        check_layer(k, hp, i);
        if (k->status) break;
        l->window = window;
        l->rope = l->compress ? 1 : 0;
        l->indexes = l->compress == COMPRESS_OVERLAP;
        l->by_table = i < n_table;
        l->n_ff_shexp = l->n_ff_exp * hp->n_expert_shared;
        compressed_room(hp, l);
    }
    return k->status;
}

/* ---- the layer ---- */

/* A token's experts from the table, ascending; false: they are not k distinct ones. */
static bool look_up(const int32_t *table, uint32_t k, uint32_t n_expert, uint32_t *ids)
{
    for (uint32_t i = 0; i < k; i++) {
        const uint32_t id = (uint32_t)table[i];
        uint32_t at = i;
        if (id >= n_expert) return false;
        for (; at && ids[at - 1] >= id; at--) {
            if (ids[at - 1] == id) return false;
            ids[at] = ids[at - 1];
        }
        ids[at] = id;
    }
    return true;
}

static enum sluice_status routed_by_table(struct model_run *r, const struct model_step *s, uint32_t layer,
                                          struct sluice_error *err)
{
    const struct model_hparams *hp = &r->model->hp;
    const struct model_layer_hparams *l = &hp->layer[layer];
    const struct model_tensor *table = &r->model->layers[layer].table;
    const uint32_t k = l->n_expert_used;
    struct model_scratch *sc = &r->scratch;
    struct kernel_acts acts;
    moe_router_logits(r, layer, sc->x, s->n_tokens, sc->h, sc->acts_in, &acts, sc->router);
    for (size_t t = 0; t < s->n_tokens; t++) {
        if (!look_up((const int32_t *)table->data + (size_t)s->ids[t] * k, k, l->n_expert, sc->ids + t * k))
            return base_fail(err, SLUICE_ERR_MODEL, "the file is damaged; compare its checksum with the publisher's",
                             "tensor '%s' does not give token %" PRId32 " %" PRIu32 " distinct experts below %" PRIu32,
                             table->name, s->ids[t], k, l->n_expert);
        router_weights(r->kernel.table, &hp->moe.router, sc->router + t * l->n_expert, l->n_expert, k, sc->ids + t * k,
                       sc->weights + t * k);
    }
    return moe_chosen(r, s, layer, &acts, false, err);
}

static enum sluice_status run_layer(struct model_run *r, const struct model_step *s, uint32_t layer,
                                    struct sluice_error *err)
{
    const struct model_hparams *hp = &r->model->hp;
    if (layer == 0) hyper_begin(r, s);
    hyper_split(r, s, layer, HYPER_ATTENTION);
    attention_compressed(r, s, layer);
    hyper_join(r, s, r->scratch.y);
    s = model_narrow(r, s, layer);
    if (!s->n_tokens) return SLUICE_OK;
    hyper_narrow(r, s);
    hyper_split(r, s, layer, HYPER_FEED_FORWARD);
    enum sluice_status st = hp->layer[layer].by_table ? routed_by_table(r, s, layer, err) : moe_sums(r, s, layer, err);
    if (st) return st;
    hyper_join(r, s, r->scratch.h);
    if (layer + 1 == hp->n_layer) hyper_end(r, s);
    return SLUICE_OK;
}

const struct model_arch arch_deepseek4 = {.name = "deepseek4",
                                          .rows = rows,
                                          .model_rows = model_rows,
                                          .finish = finish,
                                          .applies = applies,
                                          .dim = dim,
                                          .layer = run_layer};
