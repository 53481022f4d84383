#include "model/kv.h"

#include "base/hash.h"
#include "quant/quant.h"

#include <inttypes.h>
#include <string.h>

/* Rises when the numbers of a row or a state change (the numeric contract, a kernel's order of sums, a layout): what
 * was kept before is not used then. */
#define SHAPE_VERSION 1u
#define SHAPE_TOKENS 4096u

enum sluice_status model_kv_token_bytes(const struct model_hparams *hp, uint32_t type, uint64_t *bytes,
                                        struct sluice_error *err)
{
    const struct quant_type *t = quant_type(type);
    *bytes = 0;
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        const struct model_layer_hparams *l = &hp->layer[i];
        if (l->no_kv) continue;
        if (l->kv_block % t->block_len)
            return base_fail(err, SLUICE_ERR_USAGE, "use --kv-type f16",
                             "a KV cache of type %s needs heads that are multiples of %" PRIu32
                             " wide; this model's are %" PRIu32 " and %" PRIu32,
                             t->name, t->block_len, l->d_head_k, l->d_head_v);
        *bytes += quant_row_bytes(t, l->kv_k) + quant_row_bytes(t, l->kv_v);
    }
    return SLUICE_OK;
}

uint64_t model_kv_fixed_bytes(const struct model_hparams *hp)
{
    const uint64_t state = model_state_bytes(hp);
    return state ? state + 64 : 0;
}

void model_kv_place(const struct model_hparams *hp, uint32_t type, uint32_t ctx, void *memory, struct model_kv *out)
{
    const struct quant_type *t = quant_type(type);
    uint64_t at = 0;
    *out = (struct model_kv){.type = type, .ctx = ctx, .n_layer = hp->n_layer, .memory = memory};
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        struct model_kv_layer *l = &out->layer[i];
        l->k_row_bytes = quant_row_bytes(t, hp->layer[i].kv_k);
        l->v_row_bytes = quant_row_bytes(t, hp->layer[i].kv_v);
        l->v_block = hp->layer[i].compress ? hp->layer[i].compress : 1;
        l->k_at = at;
        at += ctx * l->k_row_bytes;
        l->v_at = at;
        at += ctx * l->v_row_bytes;
    }
    model_state_place(hp, out->memory + (at + 63) / 64 * 64, &out->state);
}

struct model_kv_span model_kv_span(const struct model_kv *kv, uint32_t part, size_t begin, size_t end)
{
    const struct model_kv_layer *l = &kv->layer[part / MODEL_KV_PARTS];
    const bool values = part % MODEL_KV_PARTS;
    const size_t row_bytes = values ? l->v_row_bytes : l->k_row_bytes, block = values ? l->v_block : 1;
    const size_t first = begin - begin % block;
    return (struct model_kv_span){.at = kv->memory + (values ? l->v_at : l->k_at) + first * row_bytes,
                                  .bytes = (end - end % block - first) * row_bytes};
}

uint64_t model_kv_span_bytes(const struct model_kv *kv, size_t begin, size_t end)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < kv->n_layer * MODEL_KV_PARTS; i++) bytes += model_kv_span(kv, i, begin, end).bytes;
    return bytes;
}

uint64_t model_kv_shape(const struct model_kv *kv)
{
    struct base_hash h;
    const uint64_t head[] = {SHAPE_VERSION, kv->type, kv->n_layer, kv->state.floats};
    base_hash_init(&h, 0);
    base_hash_add(&h, head, sizeof head);
    for (uint32_t i = 0; i < kv->n_layer * MODEL_KV_PARTS; i++) {
        /* of one token, and of many: parts need not have a row for each */
        const uint64_t part[] = {model_kv_span(kv, i, 0, 1).bytes, model_kv_span(kv, i, 0, SHAPE_TOKENS).bytes};
        base_hash_add(&h, part, sizeof part);
    }
    for (uint32_t i = 0; i < kv->n_layer; i++) base_hash_add(&h, &kv->state.layer_at[i], sizeof kv->state.layer_at[i]);
    return base_hash_value(&h);
}

void model_kv_copy(struct model_kv *to, const struct model_kv *from, size_t begin, size_t end)
{
    for (uint32_t i = 0; i < to->n_layer * MODEL_KV_PARTS; i++) {
        const struct model_kv_span a = model_kv_span(to, i, begin, end), b = model_kv_span(from, i, begin, end);
        if (a.bytes) memcpy(a.at, b.at, a.bytes);
    }
}
