/* The whole model: files joined, tensors in one list, names in one table. */
#include "gguf/private.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static struct gguf_str tensor_name(const void *owner, uint32_t i)
{
    const struct gguf *g = owner;
    return (struct gguf_str){g->tensors[i].name, strlen(g->tensors[i].name)};
}

static enum sluice_status fail_duplicate(const struct gguf *g, size_t i, struct sluice_error *err)
{
    const struct gguf_tensor *t = &g->tensors[i], *before = gguf_find_tensor(g, t->name);
    if (before->shard == t->shard)
        return base_fail(err, SLUICE_ERR_MODEL, "the file is damaged or badly converted: download it again",
                         "%s: tensor '%s' occurs twice in the directory (the second time as tensor %zu of %zu)",
                         g->files[t->shard]->shown, t->name, i + 1, g->n_tensors);
    return base_fail(err, SLUICE_ERR_MODEL, "shards of different models are mixed: download all of them again",
                     "%s: tensor '%s' is also in shard %" PRIu32, g->files[t->shard]->shown, t->name,
                     before->shard + 1);
}

/* Moves the files' directories into one list. */
static enum sluice_status join(struct gguf *g, const struct gguf_lenience *lenient, struct sluice_error *err)
{
    struct sluice_error why;
    size_t n = 0;
    for (size_t i = 0; i < g->n_files; i++) n += g->files[i]->n_rows;
    if (n > GGUF_TENSORS_MAX)
        return base_fail(err, SLUICE_ERR_MODEL, "the files are damaged: download them again",
                         "%s: has %zu tensors in all its shards; the limit is %u", g->files[0]->shown, n,
                         GGUF_TENSORS_MAX);
    g->tensors = malloc((n ? n : 1) * sizeof *g->tensors);
    g->shards = malloc(g->n_files * sizeof *g->shards);
    if (!g->tensors || !g->shards) goto no_memory;
    for (size_t i = 0; i < g->n_files; i++) {
        struct gguf_file *f = g->files[i];
        g->shards[i] = (struct gguf_shard){.path = f->path, .bytes = f->bytes, .header_bytes = f->header_bytes};
        for (size_t k = 0; k < f->n_rows; k++) {
            g->tensors[g->n_tensors] = f->rows[k].t;
            g->tensors[g->n_tensors++].shard = (uint32_t)i;
        }
        free(f->rows);
        f->rows = NULL;
        f->n_rows = f->room_rows = 0;
    }
    gguf_table_init(&g->names, tensor_name, g);
    for (size_t i = 0; i < g->n_tensors; i++) {
        enum gguf_put put = gguf_table_put(&g->names, (uint32_t)i);
        if (put == GGUF_PUT_NO_MEMORY) goto no_memory;
        if (put != GGUF_PUT_EXISTS) continue;
        enum sluice_status status = fail_duplicate(g, i, lenient ? &why : err);
        if (!gguf_tolerate(lenient, GGUF_FAULT_LAYOUT, &why)) return status;
    }
    return SLUICE_OK;

no_memory:
    return base_fail(err, SLUICE_ERR_MEMORY, GGUF_HINT_MEMORY, "%s: no memory for its %zu tensors", g->files[0]->shown,
                     n);
}

bool gguf_tolerate(const struct gguf_lenience *l, enum gguf_fault kind, const struct sluice_error *fault)
{
    if (l) l->fault(l->user, kind, fault);
    return l != NULL;
}

/* Takes over the source, which is open, in every case. */
static enum sluice_status open_source(struct gguf_source *s, const struct os_calls *os, const char *path,
                                      struct gguf **out, struct sluice_error *err)
{
    const struct gguf_lenience *lenient = s->lenient;
    struct gguf *g = calloc(1, sizeof *g);
    if (g) g->files = malloc(sizeof(*g->files));
    if (!g || !g->files) {
        base_fail(err, SLUICE_ERR_MEMORY, GGUF_HINT_MEMORY, "%s: no memory for its header", s->shown);
        gguf_source_close(s);
        free(g);
        return SLUICE_ERR_MEMORY;
    }
    enum sluice_status status = gguf_file_read(s, path, &g->files[0], err);
    gguf_source_close(s);
    if (status == SLUICE_OK) {
        g->n_files = 1;
        status = gguf_open_shards(g, os, lenient, err);
    }
    if (status == SLUICE_OK) status = join(g, lenient, err);
    if (status != SLUICE_OK) {
        gguf_close(g);
        return status;
    }
    *out = g;
    return SLUICE_OK;
}

enum sluice_status gguf_open(const struct os_calls *os, const char *path, struct gguf **out, struct sluice_error *err)
{
    struct gguf_source s;
    enum sluice_status status = gguf_source_open(&s, os, path, err);
    return status == SLUICE_OK ? open_source(&s, os, path, out, err) : status;
}

enum sluice_status gguf_open_lenient(const struct os_calls *os, const char *path, gguf_fault_fn *fault, void *user,
                                     struct gguf **out, struct sluice_error *err)
{
    struct gguf_source s;
    const struct gguf_lenience lenient = {fault, user};
    enum sluice_status status = gguf_source_open(&s, os, path, err);
    if (status != SLUICE_OK) return status;
    s.lenient = &lenient;
    return open_source(&s, os, path, out, err);
}

enum sluice_status gguf_open_memory(const void *data, size_t bytes, const char *name, struct gguf **out,
                                    struct sluice_error *err)
{
    struct gguf_source s;
    gguf_source_open_memory(&s, data, bytes, name);
    return open_source(&s, NULL, name, out, err);
}

void gguf_close(struct gguf *g)
{
    if (!g) return;
    for (size_t i = 0; i < g->n_files; i++) gguf_file_free(g->files[i]);
    gguf_table_free(&g->names);
    free(g->files);
    free(g->shards);
    free(g->tensors);
    free(g);
}

uint32_t gguf_version(const struct gguf *g) { return g->files[0]->version; }
uint64_t gguf_alignment(const struct gguf *g) { return g->files[0]->alignment; }
size_t gguf_n_shards(const struct gguf *g) { return g->n_files; }
const struct gguf_shard *gguf_shard(const struct gguf *g, size_t i) { return i < g->n_files ? &g->shards[i] : NULL; }
size_t gguf_n_values(const struct gguf *g) { return g->files[0]->n_entries; }

const struct gguf_value *gguf_value(const struct gguf *g, size_t i)
{
    return i < g->files[0]->n_entries ? &g->files[0]->entries[i].v : NULL;
}

size_t gguf_n_tensors(const struct gguf *g) { return g->n_tensors; }

const struct gguf_tensor *gguf_tensor(const struct gguf *g, size_t i)
{
    return i < g->n_tensors ? &g->tensors[i] : NULL;
}

const struct gguf_tensor *gguf_find_tensor(const struct gguf *g, const char *name)
{
    uint32_t i = gguf_table_find(&g->names, (struct gguf_str){name, strlen(name)});
    return i == GGUF_TABLE_NONE ? NULL : &g->tensors[i];
}

const struct gguf_value *gguf_find(const struct gguf *g, const char *key) { return gguf_file_find(g->files[0], key); }

size_t gguf_memory_bytes(const struct gguf *g)
{
    size_t bytes = sizeof *g + g->n_files * (sizeof *g->files + sizeof *g->shards) + g->n_tensors * sizeof *g->tensors +
                   gguf_table_bytes(&g->names);
    for (size_t i = 0; i < g->n_files; i++) bytes += gguf_file_memory_bytes(g->files[i]);
    return bytes;
}
