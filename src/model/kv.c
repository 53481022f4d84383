#include "model/kv.h"

#include "quant/quant.h"

#include <inttypes.h>

enum sluice_status model_kv_token_bytes(const struct model_hparams *hp, uint32_t type, uint64_t *bytes,
                                        struct sluice_error *err)
{
    const struct quant_type *t = quant_type(type);
    if (hp->d_head_k % t->block_len || hp->d_head_v % t->block_len)
        return base_fail(err, SLUICE_ERR_USAGE, "use --kv-type f16",
                         "a KV cache of type %s needs heads that are multiples of %" PRIu32
                         " wide; this model's are %" PRIu32 " and %" PRIu32,
                         t->name, t->block_len, hp->d_head_k, hp->d_head_v);
    *bytes =
        (uint64_t)hp->n_layer * hp->n_head_kv * (quant_row_bytes(t, hp->d_head_k) + quant_row_bytes(t, hp->d_head_v));
    return SLUICE_OK;
}

void model_kv_place(const struct model_hparams *hp, uint32_t type, uint32_t ctx, void *memory, struct model_kv *out)
{
    const struct quant_type *t = quant_type(type);
    *out = (struct model_kv){.type = type,
                             .ctx = ctx,
                             .k_row_bytes = hp->n_head_kv * quant_row_bytes(t, hp->d_head_k),
                             .v_row_bytes = hp->n_head_kv * quant_row_bytes(t, hp->d_head_v),
                             .memory = memory,
                             .n_layer = hp->n_layer};
}
