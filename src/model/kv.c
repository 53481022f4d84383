#include "model/kv.h"

#include "quant/quant.h"

#include <inttypes.h>
#include <string.h>

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
    *out = (struct model_kv){.type = type, .ctx = ctx, .memory = memory};
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        struct model_kv_layer *l = &out->layer[i];
        l->k_row_bytes = quant_row_bytes(t, hp->layer[i].kv_k);
        l->v_row_bytes = quant_row_bytes(t, hp->layer[i].kv_v);
        l->k_at = at;
        at += ctx * l->k_row_bytes;
        l->v_at = at;
        at += ctx * l->v_row_bytes;
    }
    model_state_place(hp, out->memory + (at + 63) / 64 * 64, &out->state);
}

void model_kv_copy(struct model_kv *to, const struct model_kv *from, uint32_t n_layer, size_t begin, size_t end)
{
    for (uint32_t i = 0; i < n_layer; i++) {
        memcpy(model_kv_k(to, i, begin), model_kv_k(from, i, begin), (end - begin) * to->layer[i].k_row_bytes);
        memcpy(model_kv_v(to, i, begin), model_kv_v(from, i, begin), (end - begin) * to->layer[i].v_row_bytes);
    }
}
