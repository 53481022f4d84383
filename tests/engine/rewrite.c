#include "rewrite.h"

#include "gguf/write.h"
#include "os/os.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(enum sluice_status st, const struct sluice_error *err, const char *what)
{
    if (!st) return;
    fprintf(stderr, "rewrite: %s: %s\n", what, err ? err->message : "");
    exit(1);
}

static uint8_t *tensor_bytes(const struct gguf *g, const struct gguf_tensor *t)
{
    FILE *f = fopen(gguf_shard(g, t->shard)->path, "rb");
    uint8_t *data = malloc(t->bytes);
    if (!f || !data || fseek(f, (long)t->offset, SEEK_SET) || fread(data, 1, t->bytes, f) != t->bytes) {
        fprintf(stderr, "rewrite: cannot read tensor %s\n", t->name);
        exit(1);
    }
    fclose(f);
    return data;
}

/* blk.N.ffn_X_exps.weight; fills the pieces of the new name. */
static bool is_experts(const char *name, unsigned *layer, char part[8])
{
    return sscanf(name, "blk.%u.ffn_%7[a-z]_exps.weight", layer, part) == 2 && strstr(name, "_exps.weight");
}

static bool in_shard(const struct rewrite *r, size_t i, size_t n, unsigned shard)
{
    return r->n_shards < 2 || i * r->n_shards / n == shard;
}

static bool dropped(const struct rewrite *r, const char *name)
{
    if (r->drop && !strcmp(r->drop, name)) return true;
    for (int i = 0; i < 2; i++)
        if (r->drop_like[i] && strstr(name, r->drop_like[i])) return true;
    return false;
}

static void write_directory(const struct gguf *g, struct gguf_writer *w, const struct rewrite *r, unsigned shard)
{
    const size_t n = gguf_n_tensors(g);
    for (size_t i = 0; i < n; i++) {
        const struct gguf_tensor *t = gguf_tensor(g, i);
        unsigned layer;
        char part[8], name[128];
        if (!in_shard(r, i, n, shard) || dropped(r, t->name)) continue;
        if (r->single_experts && is_experts(t->name, &layer, part)) {
            for (uint64_t e = 0; e < t->dims[2]; e++) {
                snprintf(name, sizeof name, "blk.%u.ffn_%s.%" PRIu64 ".weight", layer, part, e);
                must(gguf_write_tensor(w, name, t->type, 2, t->dims), NULL, name);
            }
        } else {
            must(gguf_write_tensor(w, t->name, t->type, t->n_dims, t->dims), NULL, t->name);
        }
    }
}

static void write_metadata(const struct gguf *g, struct gguf_writer *w, const struct rewrite *r, unsigned shard)
{
    for (size_t i = 0; shard == 0 && i < gguf_n_values(g); i++) {
        const struct gguf_value *v = gguf_value(g, i);
        if (r->put_str_key && strlen(r->put_str_key) == v->key.bytes &&
            !memcmp(v->key.at, r->put_str_key, v->key.bytes))
            continue;
        if (r->set_u32_key && strlen(r->set_u32_key) == v->key.bytes &&
            !memcmp(v->key.at, r->set_u32_key, v->key.bytes))
            must(gguf_write_u32(w, r->set_u32_key, r->set_u32), NULL, r->set_u32_key);
        else
            must(gguf_write_value(w, v), NULL, "metadata");
    }
    if (r->put_str_key && shard == 0) must(gguf_write_str(w, r->put_str_key, r->put_str), NULL, r->put_str_key);
    if (r->n_shards < 2) return;
    must(gguf_write_u32(w, "split.no", shard), NULL, "split.no");
    must(gguf_write_u32(w, "split.count", r->n_shards), NULL, "split.count");
    must(gguf_write_u32(w, "split.tensors.count", (uint32_t)gguf_n_tensors(g)), NULL, "split.tensors.count");
}

void rewrite_gguf(const char *from, const char *to, const struct rewrite *r)
{
    struct sluice_error err = {0};
    struct gguf *g;
    must(gguf_open(os_system(), from, &g, &err), &err, from);
    const unsigned n_shards = r->n_shards > 1 ? r->n_shards : 1;
    for (unsigned shard = 0; shard < n_shards; shard++) {
        char path[1024];
        if (n_shards > 1)
            snprintf(path, sizeof path, "%s-%05u-of-%05u.gguf", to, shard + 1, n_shards);
        else
            snprintf(path, sizeof path, "%s", to);
        struct gguf_writer *w;
        must(gguf_writer_open(path, &w, &err), &err, path);
        write_metadata(g, w, r, shard);
        write_directory(g, w, r, shard);
        for (size_t i = 0; i < gguf_n_tensors(g); i++) {
            const struct gguf_tensor *t = gguf_tensor(g, i);
            if (!in_shard(r, i, gguf_n_tensors(g), shard) || dropped(r, t->name)) continue;
            uint8_t *data = tensor_bytes(g, t);
            if (r->patch && !strcmp(r->patch, t->name)) r->patch_bytes(data, t->bytes);
            if (r->patch_each) r->patch_each(t->name, data, t->bytes);
            unsigned layer;
            char part[8];
            const bool single = r->single_experts && is_experts(t->name, &layer, part);
            const uint64_t pieces = single ? t->dims[2] : 1, piece = t->bytes / pieces;
            for (uint64_t e = 0; e < pieces; e++)
                must(gguf_write_data(w, data + e * piece, piece, &err), &err, t->name);
            free(data);
        }
        must(gguf_writer_finish(w, &err), &err, path);
    }
    gguf_close(g);
}
