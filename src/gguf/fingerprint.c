/* What makes a file the same model for whatever lies beside it (checksums, learned heat): its metadata, its directory
 * and the sizes of its files. No weight is looked at, and no path. */
#include "gguf/private.h"

#include "base/hash.h"

#include <string.h>

static void add_u64(struct base_hash *h, uint64_t v)
{
    uint8_t bytes[8];
    for (unsigned i = 0; i < 8; i++) bytes[i] = (uint8_t)(v >> 8 * i);
    base_hash_add(h, bytes, sizeof bytes);
}

/* With its length, so that no two lists of texts look alike. */
static void add_text(struct base_hash *h, const char *at, size_t bytes)
{
    add_u64(h, bytes);
    base_hash_add(h, at, bytes);
}

static void add_value(struct base_hash *h, const struct gguf_value *v)
{
    add_text(h, v->key.at, v->key.bytes);
    add_u64(h, v->type);
    add_u64(h, v->item_type);
    add_u64(h, v->n);
    struct gguf_str text;
    if (v->item_type != GGUF_STRING)
        base_hash_add(h, v->data, (size_t)v->n * gguf_value_type_bytes(v->item_type));
    else
        for (uint64_t i = 0; gguf_item_str(v, i, &text); i++) add_text(h, text.at, text.bytes);
}

uint64_t gguf_fingerprint(const struct gguf *g)
{
    struct base_hash h;
    base_hash_init(&h, 0);
    add_u64(&h, g->n_files);
    for (size_t i = 0; i < g->n_files; i++) add_u64(&h, g->shards[i].bytes);
    add_u64(&h, gguf_n_values(g));
    for (size_t i = 0; i < gguf_n_values(g); i++) add_value(&h, gguf_value(g, i));
    add_u64(&h, g->n_tensors);
    for (size_t i = 0; i < g->n_tensors; i++) {
        const struct gguf_tensor *t = &g->tensors[i];
        add_text(&h, t->name, strlen(t->name));
        add_u64(&h, t->type);
        add_u64(&h, t->n_dims);
        for (unsigned d = 0; d < GGUF_DIMS_MAX; d++) add_u64(&h, t->dims[d]);
        add_u64(&h, t->shard);
        add_u64(&h, t->offset);
    }
    return base_hash_value(&h);
}
