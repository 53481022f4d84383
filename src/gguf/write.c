/* The writer. Metadata is encoded at once into a buffer, the directory is a list until the first data arrives; then
 * the header goes out and data follows, padded where a tensor ends. The first failure sticks: later calls return it
 * and write nothing, so that a caller may check once, at gguf_write_data or gguf_writer_finish.
 *
 * The part file is locked while it is written. A part file that a crash left behind is unlocked and is written over;
 * one that another process is writing is refused. */
#include "gguf/write.h"

#include "gguf/private.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "items are copied as they lie in memory");

#define VERSION 3
#define BUFFER_BYTES ((size_t)1 << 20)
#define COMPARED_BYTES ((size_t)64 << 10) /* of what was left, at once */
#define OPEN_TRIES_MAX 8

enum stage { STAGE_METADATA, STAGE_DIRECTORY, STAGE_DATA };

struct key {
    size_t at, bytes; /* in metadata */
};

struct planned {
    char name[GGUF_NAME_BYTES_MAX + 1];
    struct gguf_tensor t; /* offset: relative to the data; name is not used */
};

struct gguf_writer {
    char *path, *part;
    const char *shown;
    int fd;
    enum stage stage;
    struct sluice_error failed; /* status SLUICE_OK: nothing has failed */

    uint8_t *metadata;
    size_t metadata_bytes, metadata_room;
    struct key *keys;
    size_t n_keys, room_keys;
    struct gguf_table key_table;
    uint64_t alignment;

    struct planned *tensors;
    size_t n_tensors, room_tensors;
    struct gguf_table name_table;
    uint64_t data_bytes; /* of the tensors so far, padding included */

    size_t current; /* the tensor whose bytes come next */
    uint64_t got;   /* bytes of it that came */
    uint8_t *buffer;
    size_t buffered;
    uint64_t written; /* file position behind the buffer */
    uint64_t at;      /* of the next byte that goes to the file */

    bool resumes;
    uint64_t old_bytes;  /* of the part file as it was found, until something in it differs */
    uint64_t kept_bytes; /* found equal */
    uint8_t *old;        /* [COMPARED_BYTES] if it resumes */
};

static struct gguf_str key_of(const void *owner, uint32_t i)
{
    const struct gguf_writer *w = owner;
    return (struct gguf_str){(const char *)w->metadata + w->keys[i].at, w->keys[i].bytes};
}

static struct gguf_str name_of(const void *owner, uint32_t i)
{
    const struct gguf_writer *w = owner;
    return (struct gguf_str){w->tensors[i].name, strlen(w->tensors[i].name)};
}

static enum sluice_status no_memory(struct gguf_writer *w)
{
    return base_fail(&w->failed, SLUICE_ERR_MEMORY, GGUF_HINT_MEMORY, "%s: no memory to write its header", w->shown);
}

static bool has_room(void **array, size_t n, size_t *room, size_t item_bytes)
{
    if (n <= *room) return true;
    size_t wanted = n < 32 ? 64 : n * 2;
    void *p = realloc(*array, wanted * item_bytes);
    if (!p) return false;
    *array = p;
    *room = wanted;
    return true;
}

/* ---- files ---- */

static enum sluice_status fail_io(struct gguf_writer *w, const char *path, const char *doing, int error)
{
    return base_fail(&w->failed, SLUICE_ERR_IO,
                     error == ENOSPC || error == EDQUOT ? "free disk space, or write to another disk"
                                                        : "check the folder and its permissions",
                     "%s: cannot %s: %s", gguf_shown_path(path), doing, strerror(error));
}

/* Opens and locks the part file. Between open and lock its owner may have renamed it to the finished file, which must
 * not be touched: then the name no longer leads to the file that was locked, and opening starts again. */
static enum sluice_status open_part(struct gguf_writer *w)
{
    for (int i = 0; i < OPEN_TRIES_MAX; i++) {
        w->fd = open(w->part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
        if (w->fd < 0) return fail_io(w, w->part, "create", errno);
        struct stat by_fd, by_name;
        if (fstat(w->fd, &by_fd) != 0) return fail_io(w, w->part, "look at", errno);
        if (!S_ISREG(by_fd.st_mode)) {
            close(w->fd);
            w->fd = -1;
            return base_fail(&w->failed, SLUICE_ERR_IO, "write to a file on a disk", "%s: is not a regular file",
                             gguf_shown_path(w->part));
        }
        bool locked = flock(w->fd, LOCK_EX | LOCK_NB) == 0;
        if (!locked && errno == EWOULDBLOCK) {
            close(w->fd);
            w->fd = -1; /* not ours: it must not be deleted */
            return base_fail(&w->failed, SLUICE_ERR_IO, "wait for it, or choose another name",
                             "%s: another process is writing this file", gguf_shown_path(w->part));
        }
        if (lstat(w->part, &by_name) == 0 && by_name.st_dev == by_fd.st_dev && by_name.st_ino == by_fd.st_ino) {
            w->old_bytes = w->resumes ? (uint64_t)by_fd.st_size : 0;
            if (w->resumes || ftruncate(w->fd, 0) == 0) return SLUICE_OK;
            return fail_io(w, w->part, "empty", errno);
        }
        close(w->fd);
        w->fd = -1;
    }
    return fail_io(w, w->part, "create", EBUSY);
}

/* Does the part file have these bytes already? What cannot be read is written again. */
static bool is_there(struct gguf_writer *w, const uint8_t *p, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = pread(w->fd, w->old + done, bytes - done, (off_t)(w->at + done));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        done += (size_t)n;
    }
    return memcmp(w->old, p, bytes) == 0;
}

static enum sluice_status write_all(struct gguf_writer *w, const void *data, size_t bytes)
{
    const uint8_t *p = data;
    while (bytes && w->at < w->old_bytes) {
        size_t n = bytes < COMPARED_BYTES ? bytes : COMPARED_BYTES;
        if (n > w->old_bytes - w->at) n = (size_t)(w->old_bytes - w->at);
        if (!is_there(w, p, n)) {
            w->old_bytes = w->at;
            break;
        }
        w->kept_bytes += n;
        w->at += n;
        p += n;
        bytes -= n;
    }
    while (bytes) {
        ssize_t n = pwrite(w->fd, p, bytes, (off_t)w->at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            int error = n < 0 ? errno : EIO;
            return base_fail(&w->failed, SLUICE_ERR_IO,
                             error == ENOSPC || error == EDQUOT ? "free disk space, or write to another disk"
                                                                : "check the disk and the system's log",
                             "%s: cannot write %zu bytes (near byte %" PRIu64 "): %s", gguf_shown_path(w->part), bytes,
                             w->written, strerror(error));
        }
        p += n;
        w->at += (uint64_t)n;
        bytes -= (size_t)n;
    }
    return SLUICE_OK;
}

static enum sluice_status flush(struct gguf_writer *w)
{
    size_t bytes = w->buffered;
    w->buffered = 0;
    return write_all(w, w->buffer, bytes);
}

/* Small pieces are gathered, large ones go straight to the file. data NULL: zeros. */
static enum sluice_status emit(struct gguf_writer *w, const void *data, size_t bytes)
{
    const uint8_t *p = data;
    w->written += bytes;
    if (p && w->buffered == 0 && bytes >= BUFFER_BYTES) return write_all(w, p, bytes);
    while (bytes) {
        size_t n = BUFFER_BYTES - w->buffered;
        if (n > bytes) n = bytes;
        if (p)
            memcpy(w->buffer + w->buffered, p, n);
        else
            memset(w->buffer + w->buffered, 0, n);
        if (p) p += n;
        w->buffered += n;
        bytes -= n;
        if (w->buffered == BUFFER_BYTES && flush(w) != SLUICE_OK) return w->failed.status;
    }
    return SLUICE_OK;
}

static enum sluice_status emit_u32(struct gguf_writer *w, uint32_t v) { return emit(w, &v, sizeof v); }
static enum sluice_status emit_u64(struct gguf_writer *w, uint64_t v) { return emit(w, &v, sizeof v); }

static enum sluice_status pad(struct gguf_writer *w)
{
    return emit(w, NULL, (size_t)(-w->written & (w->alignment - 1)));
}

/* ---- life ---- */

static void free_writer(struct gguf_writer *w)
{
    gguf_table_free(&w->key_table);
    gguf_table_free(&w->name_table);
    free(w->metadata);
    free(w->keys);
    free(w->tensors);
    free(w->buffer);
    free(w->old);
    free(w->path);
    free(w->part);
    free(w);
}

static enum sluice_status open_writer(const char *path, bool resumes, struct gguf_writer **out,
                                      struct sluice_error *err)
{
    struct gguf_writer *w = calloc(1, sizeof *w);
    if (!w) goto no_memory;
    w->fd = -1;
    w->alignment = GGUF_ALIGNMENT_DEFAULT;
    w->path = strdup(path);
    w->part = malloc(strlen(path) + sizeof ".part");
    w->buffer = malloc(BUFFER_BYTES);
    w->resumes = resumes;
    w->old = resumes ? malloc(COMPARED_BYTES) : NULL;
    if (!w->path || !w->part || !w->buffer || (resumes && !w->old)) goto no_memory;
    sprintf(w->part, "%s.part", path);
    w->shown = gguf_shown_path(w->path);
    gguf_table_init(&w->key_table, key_of, w);
    gguf_table_init(&w->name_table, name_of, w);
    struct stat there;
    if (stat(path, &there) == 0 && !S_ISREG(there.st_mode))
        base_fail(&w->failed, SLUICE_ERR_IO, "write to a file on a disk", "%s: is not a regular file", w->shown);
    else
        open_part(w);
    if (w->failed.status != SLUICE_OK) {
        enum sluice_status status = w->failed.status;
        if (err) *err = w->failed;
        gguf_writer_abandon(w);
        return status;
    }
    *out = w;
    return SLUICE_OK;

no_memory:
    if (w) free_writer(w);
    return base_fail(err, SLUICE_ERR_MEMORY, GGUF_HINT_MEMORY, "%s: no memory to write it", gguf_shown_path(path));
}

enum sluice_status gguf_writer_open(const char *path, struct gguf_writer **out, struct sluice_error *err)
{
    return open_writer(path, false, out, err);
}

enum sluice_status gguf_writer_resume(const char *path, struct gguf_writer **out, struct sluice_error *err)
{
    return open_writer(path, true, out, err);
}

uint64_t gguf_writer_kept_bytes(const struct gguf_writer *w) { return w->kept_bytes; }

void gguf_writer_leave(struct gguf_writer *w)
{
    if (!w) return;
    if (w->fd >= 0) {
        if (w->failed.status == SLUICE_OK) flush(w); /* what does not arrive is written again */
        close(w->fd);
        w->fd = -1;
    }
    free_writer(w);
}

void gguf_writer_abandon(struct gguf_writer *w)
{
    if (!w) return;
    if (w->fd >= 0) {
        unlink(w->part); /* before the lock ends with close */
        close(w->fd);
    }
    free_writer(w);
}

/* ---- metadata ---- */

static bool append(struct gguf_writer *w, const void *data, size_t bytes)
{
    if (!has_room((void **)&w->metadata, w->metadata_bytes + bytes, &w->metadata_room, 1)) return false;
    if (bytes) memcpy(w->metadata + w->metadata_bytes, data, bytes);
    w->metadata_bytes += bytes;
    return true;
}

static bool append_u32(struct gguf_writer *w, uint32_t v) { return append(w, &v, sizeof v); }
static bool append_u64(struct gguf_writer *w, uint64_t v) { return append(w, &v, sizeof v); }

/* Begins a value: its key, checked. */
static enum sluice_status put_key(struct gguf_writer *w, struct gguf_str key)
{
    if (w->failed.status != SLUICE_OK) return w->failed.status;
    char shown[GGUF_SHOWN_BYTES];
    gguf_shown_name(shown, key.at, key.bytes);
    if (w->stage != STAGE_METADATA)
        return base_fail(&w->failed, SLUICE_ERR_USAGE, "write all keys before the first tensor",
                         "%s: key '%s' comes after the tensor directory began", w->shown, shown);
    if (key.bytes == 0 || key.bytes > GGUF_KEY_BYTES_MAX || memchr(key.at, 0, key.bytes))
        return base_fail(&w->failed, SLUICE_ERR_USAGE, NULL,
                         "%s: a key has %zu bytes ('%s'); 1 to %d without zero bytes are allowed", w->shown, key.bytes,
                         shown, GGUF_KEY_BYTES_MAX);
    if (w->n_keys == GGUF_VALUES_MAX)
        return base_fail(&w->failed, SLUICE_ERR_USAGE, NULL, "%s: more than %u keys", w->shown, GGUF_VALUES_MAX);
    if (!has_room((void **)&w->keys, w->n_keys + 1, &w->room_keys, sizeof *w->keys)) return no_memory(w);
    if (!append_u64(w, key.bytes)) return no_memory(w);
    w->keys[w->n_keys] = (struct key){w->metadata_bytes, key.bytes};
    if (!append(w, key.at, key.bytes)) return no_memory(w);
    switch (gguf_table_put(&w->key_table, (uint32_t)w->n_keys)) {
    case GGUF_PUT_OK: break;
    case GGUF_PUT_NO_MEMORY: return no_memory(w);
    case GGUF_PUT_EXISTS:
        return base_fail(&w->failed, SLUICE_ERR_USAGE, "leave out one of them", "%s: key '%s' is written twice",
                         w->shown, shown);
    }
    w->n_keys++;
    return SLUICE_OK;
}

/* The alignment decides where tensors lie, so the writer obeys the key when it is written. */
static enum sluice_status note_alignment(struct gguf_writer *w, const struct gguf_value *v)
{
    uint64_t alignment = 0;
    if (v->key.bytes != strlen(GGUF_KEY_ALIGNMENT) || memcmp(v->key.at, GGUF_KEY_ALIGNMENT, v->key.bytes) != 0)
        return SLUICE_OK;
    if (v->type == GGUF_ARRAY || !gguf_item_u64(v, 0, &alignment))
        return base_fail(&w->failed, SLUICE_ERR_USAGE, "write it as u32",
                         "%s: key '" GGUF_KEY_ALIGNMENT "' must be an integer", w->shown);
    if (gguf_alignment_check(w->shown, alignment, &w->failed) != SLUICE_OK) return w->failed.status;
    w->alignment = alignment;
    return SLUICE_OK;
}

static enum sluice_status check_item_type(struct gguf_writer *w, const struct gguf_value *v)
{
    char shown[GGUF_SHOWN_BYTES];
    gguf_shown_name(shown, v->key.at, v->key.bytes);
    bool is_indexed = v->item_type != GGUF_STRING || v->n <= 1 || v->index_;
    bool ok = is_indexed && v->item_type != GGUF_ARRAY && (unsigned)v->item_type <= GGUF_F64 &&
              (v->type == GGUF_ARRAY || (v->type == v->item_type && v->n == 1));
    if (!ok)
        return base_fail(&w->failed, SLUICE_ERR_USAGE, NULL,
                         "%s: key '%s' has a type that cannot be written (%s of %s)", w->shown, shown,
                         gguf_value_type_name(v->type), gguf_value_type_name(v->item_type));
    if (v->item_type == GGUF_BOOL)
        for (uint64_t i = 0; i < v->n; i++)
            if (((const uint8_t *)v->data)[i] > 1)
                return base_fail(&w->failed, SLUICE_ERR_USAGE, NULL, "%s: item %" PRIu64 " of key '%s' is no bool",
                                 w->shown, i, shown);
    return SLUICE_OK;
}

enum sluice_status gguf_write_value(struct gguf_writer *w, const struct gguf_value *v)
{
    if (w->failed.status != SLUICE_OK) return w->failed.status;
    if (check_item_type(w, v) != SLUICE_OK || put_key(w, v->key) != SLUICE_OK || note_alignment(w, v) != SLUICE_OK)
        return w->failed.status;

    bool ok = append_u32(w, v->type);
    if (v->type == GGUF_ARRAY) ok = ok && append_u32(w, v->item_type) && append_u64(w, v->n);
    uint64_t bytes = 0;
    if (v->item_type != GGUF_STRING) {
        bytes = v->n > GGUF_HEADER_BYTES_MAX ? UINT64_MAX : v->n * gguf_value_type_bytes(v->item_type);
    } else if (v->n) { /* strings lie one behind the other: the last one's end is the end of all */
        struct gguf_str last;
        gguf_item_str(v, v->n - 1, &last);
        bytes = (uint64_t)(last.at + last.bytes - (const char *)v->data);
    }
    if (bytes > GGUF_HEADER_BYTES_MAX - w->metadata_bytes)
        return base_fail(&w->failed, SLUICE_ERR_USAGE, NULL, "%s: its metadata is larger than the limit of %zu bytes",
                         w->shown, GGUF_HEADER_BYTES_MAX);
    return ok && append(w, v->data, (size_t)bytes) ? SLUICE_OK : no_memory(w);
}

static struct gguf_str str_of(const char *s) { return (struct gguf_str){s, strlen(s)}; }

static enum sluice_status put_scalar(struct gguf_writer *w, const char *key, enum gguf_value_type type,
                                     const void *data)
{
    return gguf_write_value(
        w, &(struct gguf_value){.key = str_of(key), .type = type, .item_type = type, .n = 1, .data = data});
}

enum sluice_status gguf_write_u32(struct gguf_writer *w, const char *key, uint32_t v)
{
    return put_scalar(w, key, GGUF_U32, &v);
}

enum sluice_status gguf_write_f32(struct gguf_writer *w, const char *key, float v)
{
    return put_scalar(w, key, GGUF_F32, &v);
}

enum sluice_status gguf_write_bool(struct gguf_writer *w, const char *key, bool v)
{
    uint8_t byte = v;
    return put_scalar(w, key, GGUF_BOOL, &byte);
}

enum sluice_status gguf_write_array(struct gguf_writer *w, const char *key, enum gguf_value_type item, const void *data,
                                    uint64_t n)
{
    if (w->failed.status == SLUICE_OK && item == GGUF_STRING)
        return base_fail(&w->failed, SLUICE_ERR_USAGE, "use gguf_write_strs", "%s: key '%s': strings are not raw items",
                         w->shown, key);
    return gguf_write_value(
        w, &(struct gguf_value){.key = str_of(key), .type = GGUF_ARRAY, .item_type = item, .n = n, .data = data});
}

/* A key whose value is given as separate strings, not as they lie in a file. */
static enum sluice_status put_str_key(struct gguf_writer *w, const char *key)
{
    struct gguf_value v = {.key = str_of(key), .type = GGUF_STRING, .item_type = GGUF_STRING};
    return put_key(w, v.key) == SLUICE_OK ? note_alignment(w, &v) : w->failed.status;
}

static enum sluice_status put_strs(struct gguf_writer *w, const struct gguf_str *v, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        if (v[i].bytes > GGUF_HEADER_BYTES_MAX || w->metadata_bytes > GGUF_HEADER_BYTES_MAX - v[i].bytes)
            return base_fail(&w->failed, SLUICE_ERR_USAGE, NULL,
                             "%s: its metadata is larger than the limit of %zu bytes", w->shown, GGUF_HEADER_BYTES_MAX);
        if (!append_u64(w, v[i].bytes) || !append(w, v[i].at, v[i].bytes)) return no_memory(w);
    }
    return SLUICE_OK;
}

enum sluice_status gguf_write_str(struct gguf_writer *w, const char *key, const char *v)
{
    if (put_str_key(w, key) != SLUICE_OK) return w->failed.status;
    struct gguf_str s = str_of(v);
    return append_u32(w, GGUF_STRING) ? put_strs(w, &s, 1) : no_memory(w);
}

enum sluice_status gguf_write_strs(struct gguf_writer *w, const char *key, const struct gguf_str *v, uint64_t n)
{
    if (put_str_key(w, key) != SLUICE_OK) return w->failed.status;
    bool ok = append_u32(w, GGUF_ARRAY) && append_u32(w, GGUF_STRING) && append_u64(w, n);
    return ok ? put_strs(w, v, n) : no_memory(w);
}

/* ---- directory ---- */

enum sluice_status gguf_write_tensor(struct gguf_writer *w, const char *name, uint32_t type, uint32_t n_dims,
                                     const uint64_t *dims)
{
    if (w->failed.status != SLUICE_OK) return w->failed.status;
    size_t name_bytes = strlen(name);
    if (w->stage == STAGE_DATA)
        return base_fail(&w->failed, SLUICE_ERR_USAGE, "write the whole directory before the data",
                         "%s: tensor '%s' comes after the data began", w->shown, name);
    if (name_bytes == 0 || name_bytes > GGUF_NAME_BYTES_MAX)
        return base_fail(&w->failed, SLUICE_ERR_USAGE, NULL,
                         "%s: the name of tensor '%.160s' has %zu bytes; 1 to %d are allowed", w->shown, name,
                         name_bytes, GGUF_NAME_BYTES_MAX);
    if (n_dims > GGUF_DIMS_MAX)
        return base_fail(&w->failed, SLUICE_ERR_USAGE, NULL,
                         "%s: tensor '%s' has %" PRIu32 " dimensions; the limit is %d", w->shown, name, n_dims,
                         GGUF_DIMS_MAX);
    if (w->n_tensors == GGUF_TENSORS_MAX)
        return base_fail(&w->failed, SLUICE_ERR_USAGE, NULL, "%s: more than %u tensors", w->shown, GGUF_TENSORS_MAX);
    if (!has_room((void **)&w->tensors, w->n_tensors + 1, &w->room_tensors, sizeof *w->tensors)) return no_memory(w);

    w->stage = STAGE_DIRECTORY;
    struct planned *p = &w->tensors[w->n_tensors];
    *p = (struct planned){.t = {.name = name, .type = type, .n_dims = n_dims, .offset = w->data_bytes}};
    memcpy(p->name, name, name_bytes + 1);
    for (uint32_t d = 0; d < GGUF_DIMS_MAX; d++) p->t.dims[d] = d < n_dims ? dims[d] : 1;
    if (gguf_tensor_measure(w->shown, &p->t, &w->failed) != SLUICE_OK) return w->failed.status;
    if (p->t.bytes > (uint64_t)INT64_MAX / 2 - w->data_bytes)
        return base_fail(&w->failed, SLUICE_ERR_USAGE, NULL, "%s: tensor '%s' of %" PRIu64 " bytes makes it too large",
                         w->shown, name, p->t.bytes);
    w->data_bytes = (w->data_bytes + p->t.bytes + w->alignment - 1) & ~(w->alignment - 1);
    switch (gguf_table_put(&w->name_table, (uint32_t)w->n_tensors)) {
    case GGUF_PUT_OK: break;
    case GGUF_PUT_NO_MEMORY: return no_memory(w);
    case GGUF_PUT_EXISTS:
        return base_fail(&w->failed, SLUICE_ERR_USAGE, "leave out one of them", "%s: tensor '%s' is written twice",
                         w->shown, name);
    }
    w->n_tensors++;
    return SLUICE_OK;
}

static enum sluice_status emit_header(struct gguf_writer *w)
{
    w->stage = STAGE_DATA;
    emit(w, "GGUF", 4);
    emit_u32(w, VERSION);
    emit_u64(w, w->n_tensors);
    emit_u64(w, w->n_keys);
    emit(w, w->metadata, w->metadata_bytes);
    for (size_t i = 0; i < w->n_tensors && w->failed.status == SLUICE_OK; i++) {
        const struct planned *p = &w->tensors[i];
        size_t name_bytes = strlen(p->name);
        emit_u64(w, name_bytes);
        emit(w, p->name, name_bytes);
        emit_u32(w, p->t.n_dims);
        for (uint32_t d = 0; d < p->t.n_dims; d++) emit_u64(w, p->t.dims[d]);
        emit_u32(w, p->t.type);
        emit_u64(w, p->t.offset);
    }
    pad(w);
    return w->failed.status;
}

/* ---- data ---- */

enum sluice_status gguf_write_data(struct gguf_writer *w, const void *data, size_t bytes, struct sluice_error *err)
{
    const uint8_t *p = data;
    if (w->failed.status == SLUICE_OK && w->stage != STAGE_DATA) emit_header(w);
    while (bytes && w->failed.status == SLUICE_OK) {
        if (w->current == w->n_tensors) {
            base_fail(&w->failed, SLUICE_ERR_USAGE, NULL,
                      "%s: %zu bytes of data come after all %zu tensors have got theirs", w->shown, bytes,
                      w->n_tensors);
            break;
        }
        uint64_t left = w->tensors[w->current].t.bytes - w->got;
        size_t n = left < bytes ? (size_t)left : bytes;
        emit(w, p, n);
        p += n;
        bytes -= n;
        w->got += n;
        if (w->got == w->tensors[w->current].t.bytes) {
            pad(w);
            w->current++;
            w->got = 0;
        }
    }
    if (w->failed.status != SLUICE_OK && err) *err = w->failed;
    return w->failed.status;
}

/* Makes the renamed entry durable. Some file systems cannot sync a directory; the file itself is safe by then. */
static void sync_folder(const char *path)
{
    char *folder = strdup(path);
    if (!folder) return;
    char *slash = strrchr(folder, '/');
    if (slash) slash[slash == folder] = 0;
    int fd = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    free(folder);
}

static enum sluice_status finish_data(struct gguf_writer *w)
{
    if (w->failed.status == SLUICE_OK && w->stage != STAGE_DATA) emit_header(w);
    if (w->failed.status != SLUICE_OK) return w->failed.status;
    if (w->current < w->n_tensors)
        return base_fail(&w->failed, SLUICE_ERR_USAGE, NULL,
                         "%s: tensor '%s' (%zu of %zu) got %" PRIu64 " of its %" PRIu64 " bytes", w->shown,
                         w->tensors[w->current].name, w->current + 1, w->n_tensors, w->got,
                         w->tensors[w->current].t.bytes);
    if (flush(w) != SLUICE_OK) return w->failed.status;
    if (w->resumes && ftruncate(w->fd, (off_t)w->written) != 0) return fail_io(w, w->part, "cut", errno);
    if (fsync(w->fd) != 0) return fail_io(w, w->part, "sync", errno);
    return SLUICE_OK;
}

enum sluice_status gguf_writer_sync(struct gguf_writer *w, struct sluice_error *err)
{
    enum sluice_status status = finish_data(w);
    if (status != SLUICE_OK && err) *err = w->failed;
    return status;
}

static enum sluice_status finish(struct gguf_writer *w)
{
    if (finish_data(w) != SLUICE_OK) return w->failed.status;
    if (rename(w->part, w->path) != 0) return fail_io(w, w->path, "rename its part file to it", errno);
    close(w->fd); /* all bytes are on the disk since fsync; the lock ends here, after the rename */
    w->fd = -1;
    sync_folder(w->path);
    return SLUICE_OK;
}

enum sluice_status gguf_writer_finish(struct gguf_writer *w, struct sluice_error *err)
{
    enum sluice_status status = finish(w);
    if (status != SLUICE_OK && err) *err = w->failed;
    gguf_writer_abandon(w); /* deletes the part file if it is still there */
    return status;
}
