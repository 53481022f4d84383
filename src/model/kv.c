#include "model/kv.h"

#include "base/hash.h"
#include "quant/quant.h"

#include <inttypes.h>
#include <string.h>

/* Rises when the numbers of a row or a state change (the numeric contract, a kernel's order of sums, a layout): what
 * was kept before is not used then. */
#define SHAPE_VERSION 2u
#define SHAPE_TOKENS 4096u

enum sluice_status model_kv_check(const struct model_hparams *hp, uint32_t type, struct sluice_error *err)
{
    const struct quant_type *t = quant_type(type);
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        const struct model_layer_hparams *l = &hp->layer[i];
        if (!l->no_kv && l->kv_block % t->block_len)
            return base_fail(err, SLUICE_ERR_USAGE, "use --kv-type f16",
                             "a KV cache of type %s needs heads that are multiples of %" PRIu32
                             " wide; this model's are %" PRIu32 " and %" PRIu32,
                             t->name, t->block_len, l->d_head_k, l->d_head_v);
    }
    return SLUICE_OK;
}

/* Compressed rows stand beside the window for all of the context, as values. */
static bool in_ring(const struct model_layer_hparams *l, bool values) { return l->window && !(values && l->compress); }

/* Of one position: rows that can be in rings, and the others. */
static void token_bytes(const struct model_hparams *hp, uint32_t type, uint64_t *ring, uint64_t *kept)
{
    const struct quant_type *t = quant_type(type);
    *ring = *kept = 0;
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        const struct model_layer_hparams *l = &hp->layer[i];
        if (l->no_kv) continue;
        *(in_ring(l, false) ? ring : kept) += quant_row_bytes(t, l->kv_k);
        *(in_ring(l, true) ? ring : kept) += quant_row_bytes(t, l->kv_v);
    }
}

static uint64_t align64(uint64_t n) { return (n + 63) / 64 * 64; }

/* Rows of the rings, 0: none; bytes of all. Rings are had where they take less, with what a rewind needs. */
static uint32_t choose_rings(const struct model_hparams *hp, uint32_t type, uint32_t ctx, uint32_t chunk,
                             uint64_t *bytes)
{
    uint64_t ring, kept;
    token_bytes(hp, type, &ring, &kept);
    *bytes = align64(ctx * (kept + ring)) + model_state_bytes(hp, 0, ctx);
    if (!hp->window || !ring) return 0;
    const uint64_t rows = model_window_rows(hp->window, chunk);
    if (rows >= ctx) return 0;
    const uint64_t with = align64(ctx * kept + rows * ring) + model_state_bytes(hp, (hp->window - 1) * ring, ctx);
    if (with >= *bytes) return 0;
    *bytes = with;
    return (uint32_t)rows;
}

uint64_t model_kv_bytes(const struct model_hparams *hp, uint32_t type, uint32_t ctx, uint32_t chunk)
{
    uint64_t bytes;
    (void)choose_rings(hp, type, ctx, chunk, &bytes);
    return bytes;
}

uint64_t model_kv_token_bytes(const struct model_hparams *hp, uint32_t type, bool rings)
{
    uint64_t ring, kept;
    token_bytes(hp, type, &ring, &kept);
    return kept + (rings ? 0 : ring);
}

uint64_t model_kv_state_bytes(const struct model_hparams *hp, uint32_t type, bool rings)
{
    uint64_t ring, kept;
    token_bytes(hp, type, &ring, &kept);
    return hp->state_floats * sizeof(float) + (rings && hp->window ? (hp->window - 1) * ring : 0);
}

static void add_part(struct model_window *w, uint8_t *at, size_t row_bytes)
{
    w->part[w->n_parts].at = at;
    w->part[w->n_parts++].row_bytes = row_bytes;
    w->token_bytes += row_bytes;
}

void model_kv_place(const struct model_hparams *hp, uint32_t type, uint32_t ctx, uint32_t chunk, void *memory,
                    struct model_kv *out)
{
    const struct quant_type *t = quant_type(type);
    uint64_t at = 0, bytes;
    const uint32_t rows = choose_rings(hp, type, ctx, chunk, &bytes);
    struct model_window window = {.rows = rows, .back = rows ? hp->window - 1 : 0};
    *out = (struct model_kv){.type = type, .ctx = ctx, .n_layer = hp->n_layer, .memory = memory};
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        const struct model_layer_hparams *lh = &hp->layer[i];
        struct model_kv_layer *l = &out->layer[i];
        l->k_row_bytes = quant_row_bytes(t, lh->kv_k);
        l->v_row_bytes = quant_row_bytes(t, lh->kv_v);
        l->v_block = lh->compress ? lh->compress : 1;
        if (in_ring(lh, false)) l->k_ring = rows;
        if (in_ring(lh, true)) l->v_ring = rows;
        l->k_at = at;
        at += (l->k_ring ? rows : ctx) * l->k_row_bytes;
        l->v_at = at;
        at += (l->v_ring ? rows : ctx) * l->v_row_bytes;
        if (l->k_ring && l->k_row_bytes) add_part(&window, out->memory + l->k_at, l->k_row_bytes);
        if (l->v_ring && l->v_row_bytes) add_part(&window, out->memory + l->v_at, l->v_row_bytes);
    }
    model_state_place(hp, &window, ctx, out->memory + align64(at), &out->state);
}

struct model_kv_span model_kv_span(const struct model_kv *kv, uint32_t part, size_t begin, size_t end)
{
    const struct model_kv_layer *l = &kv->layer[part / MODEL_KV_PARTS];
    const bool values = part % MODEL_KV_PARTS;
    if (values ? l->v_ring : l->k_ring) return (struct model_kv_span){.bytes = 0};
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
    const uint64_t head[] = {
        SHAPE_VERSION, kv->type, kv->n_layer, kv->state.floats, kv->state.window.back, kv->state.window.token_bytes};
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
