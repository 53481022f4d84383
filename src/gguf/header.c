/* Metadata and tensor directory of one file, from bytes to positions to pointers.
 *
 * The window moves while it grows, so the first pass stores positions; once the header has ended the window is cut to
 * the metadata (the directory's names are copied out) and positions become pointers. Arrays grow with what was parsed,
 * never with what the file announces. */
#include "gguf/private.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The smallest encodings: key length, one letter, type, one byte; name length, one letter, n_dims, type, offset. */
#define VALUE_BYTES_MIN (8 + 1 + 4 + 1)
#define TENSOR_BYTES_MIN (8 + 1 + 4 + 4 + 8)

static enum sluice_status no_memory(const struct gguf_source *s, struct sluice_error *err)
{
    return base_fail(err, SLUICE_ERR_MEMORY, GGUF_HINT_MEMORY, "%s: no memory for its header", s->shown);
}

/* Doubles an array's room when it is full. */
static bool reserve_one(void **array, size_t n, size_t *room, size_t item_bytes)
{
    if (n < *room) return true;
    size_t wanted = *room ? *room * 2 : 64;
    void *p = realloc(*array, wanted * item_bytes);
    if (!p) return false;
    *array = p;
    *room = wanted;
    return true;
}

static enum sluice_status take_u32(struct gguf_source *s, uint32_t *out, struct sluice_error *err)
{
    enum sluice_status status = gguf_source_need(s, 4, err);
    if (status != SLUICE_OK) return status;
    *out = gguf_load_u32(s->window + s->at);
    s->at += 4;
    return SLUICE_OK;
}

static enum sluice_status take_u64(struct gguf_source *s, uint64_t *out, struct sluice_error *err)
{
    enum sluice_status status = gguf_source_need(s, 8, err);
    if (status != SLUICE_OK) return status;
    *out = gguf_load_u64(s->window + s->at);
    s->at += 8;
    return SLUICE_OK;
}

/* A key or tensor name of 1 to max bytes; s->name is set for later messages. */
static enum sluice_status take_name(struct gguf_source *s, uint64_t max, size_t *at, size_t *bytes,
                                    struct sluice_error *err)
{
    uint64_t n = 0;
    s->name[0] = 0;
    enum sluice_status status = take_u64(s, &n, err);
    if (status != SLUICE_OK) return status;
    if (n == 0 || n > max)
        return base_fail(err, SLUICE_ERR_MODEL, "the file is damaged: download it again",
                         "%s: the name of %s %" PRIu64 " of %" PRIu64 " has %" PRIu64 " bytes; 1 to %" PRIu64
                         " are allowed",
                         s->shown, s->stage, s->item + 1, s->n_items, n, max);
    status = gguf_source_need(s, n, err);
    if (status != SLUICE_OK) return status;
    *at = s->at;
    *bytes = (size_t)n;
    gguf_shown_name(s->name, s->window + s->at, (size_t)n);
    s->at += (size_t)n;
    if (memchr(s->window + *at, 0, (size_t)n))
        return base_fail(err, SLUICE_ERR_MODEL, "the file is damaged: download it again",
                         "%s: the name of %s '%s' has a zero byte", s->shown, s->stage, s->name);
    return SLUICE_OK;
}

static enum sluice_status take_value_type(struct gguf_source *s, const char *of, enum gguf_value_type *out,
                                          struct sluice_error *err)
{
    uint32_t type = 0;
    enum sluice_status status = take_u32(s, &type, err);
    if (status != SLUICE_OK) return status;
    if (type > GGUF_F64)
        return base_fail(err, SLUICE_ERR_MODEL, "the file is damaged: download it again",
                         "%s: key '%s' has %s %" PRIu32 ", which GGUF does not define", s->shown, s->name, of, type);
    *out = (enum gguf_value_type)type;
    return SLUICE_OK;
}

/* One length-prefixed string, skipped. */
static enum sluice_status skip_str(struct gguf_source *s, struct sluice_error *err)
{
    uint64_t n = 0;
    enum sluice_status status = take_u64(s, &n, err);
    if (status == SLUICE_OK) status = gguf_source_need(s, n, err);
    if (status == SLUICE_OK) s->at += (size_t)n;
    return status;
}

/* The strings of an array, with a table of their offsets so that any item is found in O(1). */
static enum sluice_status take_strs(struct gguf_source *s, struct gguf_entry *e, struct sluice_error *err)
{
    if (e->v.n > (s->bytes - s->at) / 8)
        return base_fail(err, SLUICE_ERR_MODEL, "the file is cut off or damaged: download it again",
                         "%s: key '%s' announces %" PRIu64 " strings, but only %" PRIu64 " bytes of the file follow",
                         s->shown, s->name, e->v.n, s->bytes - s->at);
    if (e->v.n > GGUF_HEADER_BYTES_MAX / 8)
        return base_fail(err, SLUICE_ERR_MODEL, "the file is damaged: download it again",
                         "%s: key '%s' announces %" PRIu64 " strings; the limit is %zu", s->shown, s->name, e->v.n,
                         GGUF_HEADER_BYTES_MAX / 8);
    if (e->v.n == 0) return SLUICE_OK;
    uint32_t *index = NULL;
    size_t room = 0, n = 0;
    size_t begin = s->at;
    enum sluice_status status = SLUICE_OK;
    for (; n < e->v.n && status == SLUICE_OK; n++) {
        if (!reserve_one((void **)&index, n, &room, sizeof *index)) {
            free(index);
            return no_memory(s, err);
        }
        index[n] = (uint32_t)(s->at - begin); /* < GGUF_HEADER_BYTES_MAX */
        status = skip_str(s, err);
    }
    uint32_t *cut = status == SLUICE_OK ? realloc(index, n * sizeof *index) : NULL;
    e->v.index_ = cut ? cut : index; /* freed with the file in either case */
    return status;
}

static enum sluice_status check_bools(struct gguf_source *s, const struct gguf_value *v, struct sluice_error *err)
{
    for (uint64_t i = 0; i < v->n; i++) {
        uint8_t b = s->window[s->at + i];
        if (b > 1)
            return base_fail(err, SLUICE_ERR_MODEL, "the file is damaged: download it again",
                             "%s: key '%s' holds %u where a bool is 0 or 1", s->shown, s->name, b);
    }
    return SLUICE_OK;
}

static enum sluice_status take_items(struct gguf_source *s, struct gguf_entry *e, struct sluice_error *err)
{
    struct gguf_value *v = &e->v;
    e->data_at = s->at;
    if (v->item_type == GGUF_STRING) return v->type == GGUF_ARRAY ? take_strs(s, e, err) : skip_str(s, err);

    size_t item_bytes = gguf_value_type_bytes(v->item_type);
    if (v->n > (s->bytes - s->at) / item_bytes)
        return base_fail(err, SLUICE_ERR_MODEL, "the file is cut off or damaged: download it again",
                         "%s: ends inside its header, in key %" PRIu64 " of %" PRIu64 " '%s': %" PRIu64
                         " items of %zu bytes are announced at byte %zu, the file has %" PRIu64 " bytes",
                         s->shown, s->item + 1, s->n_items, s->name, v->n, item_bytes, s->at, s->bytes);
    enum sluice_status status = gguf_source_need(s, v->n * item_bytes, err);
    if (status == SLUICE_OK && v->item_type == GGUF_BOOL) status = check_bools(s, v, err);
    if (status == SLUICE_OK) s->at += (size_t)v->n * item_bytes;
    return status;
}

static enum sluice_status take_value(struct gguf_source *s, struct gguf_entry *e, struct sluice_error *err)
{
    enum sluice_status status = take_name(s, GGUF_KEY_BYTES_MAX, &e->key_at, &e->v.key.bytes, err);
    if (status == SLUICE_OK) status = take_value_type(s, "the value type", &e->v.type, err);
    if (status != SLUICE_OK) return status;
    e->v.item_type = e->v.type;
    e->v.n = 1;
    if (e->v.type == GGUF_ARRAY) {
        status = take_value_type(s, "the item type", &e->v.item_type, err);
        if (status == SLUICE_OK && e->v.item_type == GGUF_ARRAY)
            status = base_fail(err, SLUICE_ERR_MODEL, "no model file needs them; rewrite the file without this key",
                               "%s: key '%s' is an array of arrays, which Sluice does not read", s->shown, s->name);
        if (status == SLUICE_OK) status = take_u64(s, &e->v.n, err);
        if (status != SLUICE_OK) return status;
    }
    return take_items(s, e, err);
}

static enum sluice_status take_values(struct gguf_source *s, struct gguf_file *f, uint64_t n, struct sluice_error *err)
{
    s->stage = "key";
    s->n_items = n;
    for (uint64_t i = 0; i < n; i++) {
        s->item = i;
        if (!reserve_one((void **)&f->entries, f->n_entries, &f->room_entries, sizeof *f->entries))
            return no_memory(s, err);
        struct gguf_entry *e = &f->entries[f->n_entries++];
        *e = (struct gguf_entry){0};
        enum sluice_status status = take_value(s, e, err);
        if (status != SLUICE_OK) return status;
    }
    return SLUICE_OK;
}

static enum sluice_status take_tensor(struct gguf_source *s, struct gguf_row *row, struct sluice_error *err)
{
    enum sluice_status status = take_name(s, GGUF_NAME_BYTES_MAX, &row->name_at, &row->name_bytes, err);
    if (status == SLUICE_OK) status = take_u32(s, &row->t.n_dims, err);
    if (status != SLUICE_OK) return status;
    if (row->t.n_dims > GGUF_DIMS_MAX)
        return base_fail(err, SLUICE_ERR_MODEL, "the file is damaged: download it again",
                         "%s: tensor '%s' has %" PRIu32 " dimensions; the limit is %d", s->shown, s->name,
                         row->t.n_dims, GGUF_DIMS_MAX);
    for (uint32_t d = 0; d < GGUF_DIMS_MAX; d++) {
        row->t.dims[d] = 1;
        if (d < row->t.n_dims) status = take_u64(s, &row->t.dims[d], err);
        if (status != SLUICE_OK) return status;
    }
    status = take_u32(s, &row->t.type, err);
    return status == SLUICE_OK ? take_u64(s, &row->t.offset, err) : status;
}

static enum sluice_status take_tensors(struct gguf_source *s, struct gguf_file *f, uint64_t n, struct sluice_error *err)
{
    s->stage = "tensor";
    s->n_items = n;
    for (uint64_t i = 0; i < n; i++) {
        s->item = i;
        if (!reserve_one((void **)&f->rows, f->n_rows, &f->room_rows, sizeof *f->rows)) return no_memory(s, err);
        struct gguf_row *row = &f->rows[f->n_rows++];
        *row = (struct gguf_row){0};
        enum sluice_status status = take_tensor(s, row, err);
        if (status != SLUICE_OK) return status;
        f->names_bytes += row->name_bytes + 1;
    }
    s->stage = NULL;
    return SLUICE_OK;
}

static enum sluice_status check_count(struct gguf_source *s, const char *what, uint64_t n, uint64_t n_max,
                                      uint64_t item_bytes_min, struct sluice_error *err)
{
    if (n > (s->bytes - s->at) / item_bytes_min)
        return base_fail(err, SLUICE_ERR_MODEL, "the file is cut off or damaged: download it again",
                         "%s: announces %" PRIu64 " %s, more than fit into the file's %" PRIu64 " bytes", s->shown, n,
                         what, s->bytes);
    if (n > n_max)
        return base_fail(err, SLUICE_ERR_MODEL, "the file is damaged: download it again",
                         "%s: announces %" PRIu64 " %s; the limit is %" PRIu64, s->shown, n, what, n_max);
    return SLUICE_OK;
}

static struct gguf_str key_of(const void *owner, uint32_t i)
{
    const struct gguf_file *f = owner;
    return f->entries[i].v.key;
}

/* Positions become pointers; the window is kept up to metadata_end. */
static enum sluice_status settle(struct gguf_source *s, struct gguf_file *f, size_t metadata_end,
                                 struct sluice_error *err)
{
    f->names = malloc(f->names_bytes ? f->names_bytes : 1);
    if (!f->names) return no_memory(s, err);
    char *name = f->names;
    for (size_t i = 0; i < f->n_rows; i++) {
        struct gguf_row *row = &f->rows[i];
        memcpy(name, s->window + row->name_at, row->name_bytes);
        name[row->name_bytes] = 0;
        row->t.name = name;
        name += row->name_bytes + 1;
    }

    f->head = gguf_source_keep(s, metadata_end);
    if (!f->head) return no_memory(s, err);
    f->head_bytes = metadata_end;
    for (size_t i = 0; i < f->n_entries; i++) {
        struct gguf_entry *e = &f->entries[i];
        e->v.key.at = (const char *)f->head + e->key_at;
        e->v.data = f->head + e->data_at;
    }
    gguf_table_init(&f->keys, key_of, f);
    for (size_t i = 0; i < f->n_entries; i++) {
        enum gguf_put put = gguf_table_put(&f->keys, (uint32_t)i);
        if (put == GGUF_PUT_NO_MEMORY) return no_memory(s, err);
        if (put == GGUF_PUT_EXISTS) {
            char key[GGUF_SHOWN_BYTES];
            gguf_shown_name(key, f->entries[i].v.key.at, f->entries[i].v.key.bytes);
            return base_fail(err, SLUICE_ERR_MODEL, "the file is damaged or badly converted: download it again",
                             "%s: key '%s' occurs twice (the second time as key %zu of %zu)", s->shown, key, i + 1,
                             f->n_entries);
        }
    }
    return SLUICE_OK;
}

static enum sluice_status parse(struct gguf_source *s, struct gguf_file *f, struct sluice_error *err)
{
    uint64_t n_tensors = 0, n_values = 0;
    enum sluice_status status = gguf_sniff(s, &f->version, err);
    if (status == SLUICE_OK) status = take_u64(s, &n_tensors, err);
    if (status == SLUICE_OK) status = take_u64(s, &n_values, err);
    if (status == SLUICE_OK) status = check_count(s, "keys", n_values, GGUF_VALUES_MAX, VALUE_BYTES_MIN, err);
    if (status == SLUICE_OK) status = check_count(s, "tensors", n_tensors, GGUF_TENSORS_MAX, TENSOR_BYTES_MIN, err);
    if (status == SLUICE_OK) status = take_values(s, f, n_values, err);
    if (status != SLUICE_OK) return status;
    size_t metadata_end = s->at;
    status = take_tensors(s, f, n_tensors, err);
    if (status != SLUICE_OK) return status;
    f->header_bytes = s->at; /* the layout step aligns it */
    status = settle(s, f, metadata_end, err);
    return status == SLUICE_OK ? gguf_file_layout(f, s, err) : status;
}

enum sluice_status gguf_file_read(struct gguf_source *s, const char *path, struct gguf_file **out,
                                  struct sluice_error *err)
{
    struct gguf_file *f = calloc(1, sizeof *f);
    if (!f || !(f->path = strdup(path))) {
        free(f);
        return no_memory(s, err);
    }
    f->shown = gguf_shown_path(f->path);
    f->bytes = s->bytes;
    enum sluice_status status = parse(s, f, err);
    if (status != SLUICE_OK) {
        gguf_file_free(f);
        return status;
    }
    *out = f;
    return SLUICE_OK;
}

void gguf_file_drop_values(struct gguf_file *f)
{
    for (size_t i = 0; i < f->n_entries; i++) free((void *)f->entries[i].v.index_);
    free(f->entries);
    free(f->head);
    gguf_table_free(&f->keys);
    f->entries = NULL;
    f->head = NULL;
    f->n_entries = f->room_entries = f->head_bytes = 0;
}

void gguf_file_free(struct gguf_file *f)
{
    if (!f) return;
    gguf_file_drop_values(f);
    free(f->rows);
    free(f->names);
    free(f->path);
    free(f);
}

size_t gguf_file_memory_bytes(const struct gguf_file *f)
{
    size_t bytes = sizeof *f + strlen(f->path) + 1 + f->head_bytes + f->room_entries * sizeof *f->entries +
                   gguf_table_bytes(&f->keys) + f->room_rows * sizeof *f->rows + f->names_bytes;
    for (size_t i = 0; i < f->n_entries; i++)
        if (f->entries[i].v.index_) bytes += (size_t)f->entries[i].v.n * sizeof(uint32_t);
    return bytes;
}
