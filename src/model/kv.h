/* The KV cache of one sequence: per layer, rows of keys and values in one of three types. Rows of a position are
 * written once and never changed, so rewinding is forgetting the tail. Layers may have rows of different lengths, or
 * none. Layers that look at a window alone keep a ring of rows, which counts as state (window.h, state.h), unless rings
 * and their checkpoints would take as much as all rows. */
#ifndef MODEL_KV_H
#define MODEL_KV_H

#include "base/error.h"
#include "model/hparams.h"
#include "model/state.h"

#include <stddef.h>

struct model_kv_layer {
    size_t k_row_bytes, v_row_bytes;
    uint64_t k_at, v_at;     /* of position 0, in memory */
    uint32_t k_ring, v_ring; /* rows; position p has row p % ring. 0: each position has its own */
    uint32_t v_block;        /* so many positions have one record among them, at the first; the last one writes it */
};

/* Part of a layer's rows: of the tokens of a sequence, or those that a stretch of them has added. */
#define MODEL_KV_PARTS 2 /* of each layer: keys, values */
struct model_kv_span {
    uint8_t *at;
    size_t bytes; /* 0: none */
};

struct model_kv {
    uint32_t type; /* QUANT_F32, QUANT_F16 or QUANT_Q8_0 */
    uint32_t ctx;  /* rows */
    uint32_t n_layer;
    uint8_t *memory;
    struct model_kv_layer layer[MODEL_LAYERS_MAX];
    struct model_state state; /* of recurrent layers and windows */
};

/* Whether the cache can have this type. One that does not fit the head size (Q8_0 needs multiples of 32):
 * SLUICE_ERR_USAGE. */
enum sluice_status model_kv_check(const struct model_hparams *hp, uint32_t type, struct sluice_error *err);
/* For a context of `ctx` tokens and steps of at most `chunk`: rows, rings, state and its checkpoints. Never less for
 * more of either. */
uint64_t model_kv_bytes(const struct model_hparams *hp, uint32_t type, uint32_t ctx, uint32_t chunk);
/* With windows in rings, or without: what one token adds; a checkpoint at most. */
uint64_t model_kv_token_bytes(const struct model_hparams *hp, uint32_t type, bool rings);
uint64_t model_kv_state_bytes(const struct model_hparams *hp, uint32_t type, bool rings);
/* memory: model_kv_bytes, aligned to 64, owned by the caller. */
void model_kv_place(const struct model_hparams *hp, uint32_t type, uint32_t ctx, uint32_t chunk, void *memory,
                    struct model_kv *out);

/* Part `part` of n_layer * MODEL_KV_PARTS: what the tokens [begin, end) have added to it. Spans of neighbouring
 * stretches are neighbours. Whoever copies, keeps or restores tokens goes through all parts, and so needs to know no
 * layout. Rings have no spans: they are in the state. */
struct model_kv_span model_kv_span(const struct model_kv *kv, uint32_t part, size_t begin, size_t end);
uint64_t model_kv_span_bytes(const struct model_kv *kv, size_t begin, size_t end); /* of all parts */
/* Two caches with the same number have rows, and states, that mean the same at the same place: layout and sizes. */
uint64_t model_kv_shape(const struct model_kv *kv);
/* Rows [begin, end) of one sequence become those of another with the same layout. */
void model_kv_copy(struct model_kv *to, const struct model_kv *from, size_t begin, size_t end);

static inline uint8_t *model_kv_k(const struct model_kv *kv, uint32_t layer, size_t pos)
{
    const struct model_kv_layer *l = &kv->layer[layer];
    return kv->memory + l->k_at + (l->k_ring ? pos % l->k_ring : pos) * l->k_row_bytes;
}
static inline uint8_t *model_kv_v(const struct model_kv *kv, uint32_t layer, size_t pos)
{
    const struct model_kv_layer *l = &kv->layer[layer];
    return kv->memory + l->v_at + (l->v_ring ? pos % l->v_ring : pos) * l->v_row_bytes;
}

#endif
