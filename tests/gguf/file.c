#include "file.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME "made-up.gguf"

void file_raw(struct file *f, const void *data, size_t bytes)
{
    if (f->bytes + bytes > f->room) {
        f->room = (f->bytes + bytes) * 2;
        f->data = realloc(f->data, f->room);
        assert_non_null(f->data);
    }
    if (bytes) memcpy(f->data + f->bytes, data, bytes);
    f->bytes += bytes;
}

void file_zeros(struct file *f, size_t bytes)
{
    void *zeros = calloc(1, bytes ? bytes : 1);
    assert_non_null(zeros);
    file_raw(f, zeros, bytes);
    free(zeros);
}

static void little(struct file *f, uint64_t v, size_t bytes)
{
    uint8_t b[8];
    for (size_t i = 0; i < bytes; i++) b[i] = (uint8_t)(v >> (8 * i));
    file_raw(f, b, bytes);
}

void file_u8(struct file *f, uint8_t v) { little(f, v, 1); }
void file_u16(struct file *f, uint16_t v) { little(f, v, 2); }
void file_u32(struct file *f, uint32_t v) { little(f, v, 4); }
void file_u64(struct file *f, uint64_t v) { little(f, v, 8); }

void file_str(struct file *f, const char *s)
{
    file_u64(f, strlen(s));
    file_raw(f, s, strlen(s));
}

void file_head(struct file *f, uint32_t version, uint64_t n_tensors, uint64_t n_values)
{
    file_raw(f, "GGUF", 4);
    file_u32(f, version);
    file_u64(f, n_tensors);
    file_u64(f, n_values);
}

void file_key(struct file *f, const char *key, uint32_t type)
{
    file_str(f, key);
    file_u32(f, type);
}

void file_key_array(struct file *f, const char *key, uint32_t item_type, uint64_t n)
{
    file_key(f, key, GGUF_ARRAY);
    file_u32(f, item_type);
    file_u64(f, n);
}

void file_key_u32(struct file *f, const char *key, uint32_t v)
{
    file_key(f, key, GGUF_U32);
    file_u32(f, v);
}

void file_key_u16(struct file *f, const char *key, uint16_t v)
{
    file_key(f, key, GGUF_U16);
    file_u16(f, v);
}

void file_key_str(struct file *f, const char *key, const char *v)
{
    file_key(f, key, GGUF_STRING);
    file_str(f, v);
}

void file_tensor(struct file *f, const char *name, uint32_t type, uint32_t n_dims, const uint64_t *dims,
                 uint64_t offset)
{
    file_str(f, name);
    file_u32(f, n_dims);
    for (uint32_t i = 0; i < n_dims; i++) file_u64(f, dims[i]);
    file_u32(f, type);
    file_u64(f, offset);
}

void file_tensor_1d(struct file *f, const char *name, uint32_t type, uint64_t ne0, uint64_t offset)
{
    file_tensor(f, name, type, 1, &ne0, offset);
}

void file_pad(struct file *f, size_t alignment) { file_zeros(f, (alignment - f->bytes % alignment) % alignment); }

void file_poke_u64(struct file *f, size_t at, uint64_t v)
{
    assert_true(at + 8 <= f->bytes);
    for (size_t i = 0; i < 8; i++) f->data[at + i] = (uint8_t)(v >> (8 * i));
}

void file_free(struct file *f)
{
    free(f->data);
    *f = (struct file){0};
}

void file_model(struct file *f)
{
    file_head(f, 3, 2, 1);
    file_key_str(f, "general.architecture", "llama");
    file_tensor_1d(f, "a", 8, 64, 0);
    file_tensor(f, "b", 0, 2, (const uint64_t[]){4, 2}, 96);
    file_pad(f, 32);
    file_zeros(f, 96 + 32);
}

void file_shard(struct file *f, uint16_t no, uint16_t count, uint32_t n_all, unsigned n, const char *prefix)
{
    file_head(f, 3, n, no == 0 ? 4 : 3);
    if (no == 0) file_key_str(f, "general.architecture", "llama");
    file_key_u16(f, "split.no", no);
    file_key_u16(f, "split.count", count);
    file_key(f, "split.tensors.count", GGUF_I32);
    file_u32(f, n_all);
    for (unsigned i = 0; i < n; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s%u", prefix, i);
        file_tensor_1d(f, name, 0, 8, i * 32);
    }
    file_pad(f, 32);
    file_zeros(f, n * 32);
}

struct gguf *file_open(const struct file *f)
{
    struct gguf *g = NULL;
    struct sluice_error err = {0};
    if (gguf_open_memory(f->data, f->bytes, NAME, &g, &err) != SLUICE_OK) fail_msg("%s", err.message);
    return g;
}

static void check(const struct sluice_error *err, enum sluice_status status, va_list texts)
{
    if (err->status != status) fail_msg("status %d instead of %d: %s", err->status, status, err->message);
    if (err->hint[0] == 0 && status != SLUICE_ERR_USAGE) fail_msg("no hint: %s", err->message);
    for (const char *text; (text = va_arg(texts, const char *));)
        if (!strstr(err->message, text) && !strstr(err->hint, text))
            fail_msg("'%s' is not in: %s (%s)", text, err->message, err->hint);
}

void error_says(const struct sluice_error *err, enum sluice_status status, ...)
{
    va_list texts;
    va_start(texts, status);
    check(err, status, texts);
    va_end(texts);
}

void file_refused(const struct file *f, enum sluice_status status, ...)
{
    struct gguf *g = NULL;
    struct sluice_error err = {0};
    /* a copy of the exact length, so that a sanitizer sees any byte read past the end */
    void *copy = malloc(f->bytes ? f->bytes : 1);
    assert_non_null(copy);
    if (f->bytes) memcpy(copy, f->data, f->bytes);
    enum sluice_status got = gguf_open_memory(copy, f->bytes, NAME, &g, &err);
    free(copy);
    if (got == SLUICE_OK) {
        gguf_close(g);
        fail_msg("was opened");
    }
    assert_int_equal(got, err.status);
    if (strncmp(err.message, NAME ": ", strlen(NAME) + 2) != 0) fail_msg("does not name the file: %s", err.message);
    va_list texts;
    va_start(texts, status);
    check(&err, status, texts);
    va_end(texts);
}

char *folder_make(void)
{
    const char *base = getenv("TMPDIR");
    char path[4096];
    snprintf(path, sizeof path, "%s/sluice-gguf-XXXXXX", base ? base : "/tmp");
    assert_non_null(mkdtemp(path));
    char *folder = strdup(path);
    assert_non_null(folder);
    return folder;
}

const char *folder_path(const char *folder, const char *name)
{
    static char paths[8][4096];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

void folder_remove(char *folder)
{
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) remove(folder_path(folder, e->d_name));
    closedir(dir);
    assert_int_equal(rmdir(folder), 0);
    free(folder);
}

void file_save(const struct file *f, const char *path)
{
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(f->data, 1, f->bytes, out), f->bytes);
    assert_int_equal(fclose(out), 0);
}

void file_load(struct file *f, const char *path)
{
    FILE *in = fopen(path, "rb");
    if (!in) fail_msg("%s: cannot open", path);
    char piece[4096];
    for (size_t n; (n = fread(piece, 1, sizeof piece, in)) > 0;) file_raw(f, piece, n);
    fclose(in);
}
