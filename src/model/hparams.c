#include "model/hparams.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* "ARCH.suffix" */
static void key_of(const struct model_hparams *hp, const char *suffix, char *out, size_t out_bytes)
{
    snprintf(out, out_bytes, "%s.%s", hp->arch, suffix);
}

struct reader {
    const struct gguf *g;
    const struct model_hparams *hp;
    struct sluice_error *err;
    enum sluice_status status; /* of the first failure */
};

/* A required or optional count with its legal range. */
static void read_u32(struct reader *r, const char *suffix, bool required, uint32_t min, uint32_t max, uint32_t *out)
{
    char key[160];
    if (r->status) return;
    key_of(r->hp, suffix, key, sizeof key);
    r->status = gguf_get_u32(r->g, key, required, out, r->err);
    if (r->status || (*out >= min && *out <= max)) return;
    r->status =
        base_fail(r->err, SLUICE_ERR_MODEL, "the file is damaged, or its model is larger than Sluice was made for",
                  "%s: key '%s' is %" PRIu32 ", allowed are %" PRIu32 " to %" PRIu32, gguf_shard(r->g, 0)->path, key,
                  *out, min, max);
}

static void read_f32(struct reader *r, const char *suffix, bool required, float *out)
{
    char key[160];
    if (r->status) return;
    key_of(r->hp, suffix, key, sizeof key);
    r->status = gguf_get_f32(r->g, key, required, out, r->err);
    if (r->status || isfinite(*out)) return;
    r->status = base_fail(r->err, SLUICE_ERR_MODEL, "the file is damaged", "%s: key '%s' is not a finite number",
                          gguf_shard(r->g, 0)->path, key);
}

/* feed_forward_length is a number, or an array with one number a layer (accepted if all are equal). */
static void read_ff(struct reader *r, uint32_t *out)
{
    char key[160];
    if (r->status) return;
    key_of(r->hp, "feed_forward_length", key, sizeof key);
    const struct gguf_value *v = gguf_find(r->g, key);
    if (!v) return;
    for (uint64_t i = 0; i < v->n; i++) {
        uint64_t item;
        if (!gguf_item_u64(v, i, &item) || item > UINT32_MAX / 4 || (i && item != *out)) {
            r->status = base_fail(r->err, SLUICE_ERR_MODEL, "this kind of model is not supported",
                                  "%s: key '%s' differs between layers or is no count", gguf_shard(r->g, 0)->path, key);
            return;
        }
        *out = (uint32_t)item;
    }
}

/* rope.scaling.*: none and linear; the others change the angles in ways that are not built yet. */
static void read_rope(struct reader *r, struct model_hparams *hp)
{
    char key[160];
    hp->rope_base = 10000.0f;
    hp->rope_scale = 1.0f;
    read_f32(r, "rope.freq_base", false, &hp->rope_base);
    if (r->status) return;
    struct gguf_str type = {"", 0};
    key_of(hp, "rope.scaling.type", key, sizeof key);
    if ((r->status = gguf_get_str(r->g, key, false, &type, r->err))) return;
    bool none = type.bytes == 4 && !memcmp(type.at, "none", 4),
         linear = type.bytes == 6 && !memcmp(type.at, "linear", 6);
    if (type.bytes && !none && !linear) {
        r->status = base_fail(r->err, SLUICE_ERR_MODEL, "Sluice runs files with the RoPE scaling types none and linear",
                              "%s: key '%s' is '%.*s'", gguf_shard(r->g, 0)->path, key,
                              (int)(type.bytes < 40 ? type.bytes : 40), type.at);
        return;
    }
    float factor = 0;
    read_f32(r, "rope.scale_linear", false, &factor); /* the key's name before 2023-10 */
    read_f32(r, "rope.scaling.factor", false, &factor);
    if (!none && factor > 0) hp->rope_scale = 1.0f / factor;
    if (!r->status && !(hp->rope_base > 0))
        r->status = base_fail(r->err, SLUICE_ERR_MODEL, "the file is damaged", "%s: key '%s.rope.freq_base' is %g",
                              gguf_shard(r->g, 0)->path, hp->arch, (double)hp->rope_base);
}

static void read_attention(struct reader *r, struct model_hparams *hp)
{
    read_u32(r, "attention.head_count", true, 1, MODEL_HEADS_MAX, &hp->n_head);
    if (r->status) return;
    hp->n_head_kv = hp->n_head;
    read_u32(r, "attention.head_count_kv", false, 1, hp->n_head, &hp->n_head_kv);
    hp->d_head_k = hp->d_head_v = hp->n_embd / hp->n_head;
    read_u32(r, "attention.key_length", false, 1, MODEL_HEAD_DIM_MAX, &hp->d_head_k);
    read_u32(r, "attention.value_length", false, 1, MODEL_HEAD_DIM_MAX, &hp->d_head_v);
    hp->n_rot = hp->d_head_k;
    read_u32(r, "rope.dimension_count", false, 2, hp->d_head_k, &hp->n_rot);
    read_f32(r, "attention.layer_norm_rms_epsilon", true, &hp->norm_eps);
    if (r->status) return;
    const char *path = gguf_shard(r->g, 0)->path;
    if (hp->n_head % hp->n_head_kv)
        r->status = base_fail(r->err, SLUICE_ERR_MODEL, "the file is damaged",
                              "%s: %" PRIu32 " attention heads cannot share %" PRIu32 " key heads evenly", path,
                              hp->n_head, hp->n_head_kv);
    else if (hp->n_rot % 2 || hp->d_head_k < 2 || hp->d_head_k > MODEL_HEAD_DIM_MAX)
        r->status =
            base_fail(r->err, SLUICE_ERR_MODEL, "the file is damaged",
                      "%s: %" PRIu32 " rotated dimensions of heads %" PRIu32 " wide", path, hp->n_rot, hp->d_head_k);
    else if (!(hp->norm_eps >= 0 && hp->norm_eps < 1))
        r->status =
            base_fail(r->err, SLUICE_ERR_MODEL, "the file is damaged",
                      "%s: key '%s.attention.layer_norm_rms_epsilon' is %g", path, hp->arch, (double)hp->norm_eps);
}

static void read_experts(struct reader *r, struct model_hparams *hp)
{
    read_u32(r, "expert_count", false, 0, MODEL_EXPERTS_MAX, &hp->n_expert);
    if (r->status || !hp->n_expert) return;
    read_u32(r, "expert_used_count", true, 1, hp->n_expert < MODEL_TOPK_MAX ? hp->n_expert : MODEL_TOPK_MAX,
             &hp->n_expert_used);
    read_u32(r, "expert_feed_forward_length", false, 0, UINT32_MAX / 4, &hp->n_ff_exp);
    read_u32(r, "expert_shared_feed_forward_length", false, 0, UINT32_MAX / 4, &hp->n_ff_shexp);
    read_f32(r, "expert_weights_scale", false, &hp->expert_weights_scale);
    if (hp->expert_weights_scale == 0) hp->expert_weights_scale = 1;
}

enum sluice_status model_hparams_read(const struct gguf *g, struct model_hparams *hp, struct sluice_error *err)
{
    struct gguf_str arch;
    enum sluice_status st = gguf_get_str(g, "general.architecture", true, &arch, err);
    if (st) return st;
    *hp = (struct model_hparams){.expert_weights_scale = 1};
    snprintf(hp->arch, sizeof hp->arch, "%.*s", (int)(arch.bytes < sizeof hp->arch ? arch.bytes : sizeof hp->arch - 1),
             arch.at);

    struct reader r = {.g = g, .hp = hp, .err = err};
    read_u32(&r, "block_count", true, 1, MODEL_LAYERS_MAX, &hp->n_layer);
    read_u32(&r, "embedding_length", true, 1, MODEL_EMBD_MAX, &hp->n_embd);
    read_u32(&r, "context_length", true, 1, MODEL_CTX_MAX, &hp->n_ctx_train);
    if (!r.status) read_attention(&r, hp);
    if (!r.status) read_ff(&r, &hp->n_ff);
    if (!r.status) read_rope(&r, hp);
    if (!r.status) read_experts(&r, hp);
    if (r.status) return r.status;

    const struct gguf_tensor *embd = gguf_find_tensor(g, "token_embd.weight");
    if (!embd || embd->n_dims != 2 || embd->dims[1] > INT32_MAX)
        return base_fail(err, SLUICE_ERR_MODEL, "is this a complete language model?",
                         "%s: tensor 'token_embd.weight' is missing or is no matrix", gguf_shard(g, 0)->path);
    hp->n_vocab = (uint32_t)embd->dims[1];
    return SLUICE_OK;
}
