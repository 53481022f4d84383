/* The writer: what it writes is read back the same, and a failure leaves nothing behind. */
#include "file.h"
#include "gguf/write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fcntl.h>
#include <signal.h>

struct fixture {
    char *folder, path[4096], part[4104];
    struct gguf_writer *w;
    struct sluice_error err;
};

static int set_up(void **state)
{
    struct fixture *x = calloc(1, sizeof *x);
    assert_non_null(x);
    x->folder = folder_make();
    snprintf(x->path, sizeof x->path, "%s", folder_path(x->folder, "out.gguf"));
    snprintf(x->part, sizeof x->part, "%s.part", x->path);
    if (gguf_writer_open(x->path, &x->w, &x->err) != SLUICE_OK) fail_msg("%s", x->err.message);
    *state = x;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *x = *state;
    gguf_writer_abandon(x->w);
    assert_int_not_equal(access(x->part, F_OK), 0);
    folder_remove(x->folder);
    free(x);
    return 0;
}

static enum sluice_status finish(struct fixture *x)
{
    struct gguf_writer *w = x->w;
    x->w = NULL;
    return gguf_writer_finish(w, &x->err);
}

/* The writer's complaint, and no file. */
static void finish_fails(struct fixture *x, enum sluice_status status, const char *text)
{
    assert_int_equal(finish(x), status);
    error_says(&x->err, status, "out.gguf", text, NULL);
    assert_int_not_equal(access(x->path, F_OK), 0);
    assert_int_not_equal(access(x->part, F_OK), 0);
    assert_int_equal(gguf_writer_open(x->path, &x->w, &x->err), SLUICE_OK); /* for the next case */
}

static struct gguf *read_back(struct fixture *x)
{
    struct gguf *g = NULL;
    if (finish(x) != SLUICE_OK) fail_msg("%s", x->err.message);
    if (gguf_open(os_system(), x->path, &g, &x->err) != SLUICE_OK) fail_msg("%s", x->err.message);
    return g;
}

static void writes_what_is_read(void **state)
{
    struct fixture *x = *state;
    static const int32_t numbers[] = {1, -2, 3};
    const struct gguf_str strings[] = {{"a", 1}, {"", 0}, {"b\0c", 3}};
    uint8_t data[68 + 32];
    for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)i;
    assert_int_equal(gguf_write_str(x->w, "general.architecture", "llama"), SLUICE_OK);
    assert_int_equal(gguf_write_u32(x->w, "u", 7), SLUICE_OK);
    assert_int_equal(gguf_write_f32(x->w, "f", 0.5f), SLUICE_OK);
    assert_int_equal(gguf_write_bool(x->w, "b", true), SLUICE_OK);
    assert_int_equal(gguf_write_strs(x->w, "strings", strings, 3), SLUICE_OK);
    assert_int_equal(gguf_write_strs(x->w, "none", NULL, 0), SLUICE_OK);
    assert_int_equal(gguf_write_array(x->w, "numbers", GGUF_I32, numbers, 3), SLUICE_OK);
    assert_int_equal(gguf_write_tensor(x->w, "q", 8, 1, (const uint64_t[]){64}), SLUICE_OK);
    assert_int_equal(gguf_write_tensor(x->w, "m", 0, 2, (const uint64_t[]){4, 2}), SLUICE_OK);
    /* pieces that end within, at and beyond a tensor's end */
    assert_int_equal(gguf_write_data(x->w, data, 10, &x->err), SLUICE_OK);
    assert_int_equal(gguf_write_data(x->w, data + 10, 0, &x->err), SLUICE_OK);
    assert_int_equal(gguf_write_data(x->w, data + 10, 60, &x->err), SLUICE_OK);
    assert_int_equal(gguf_write_data(x->w, data + 70, 30, &x->err), SLUICE_OK);
    assert_int_not_equal(access(x->path, F_OK), 0); /* not before it is complete */
    struct gguf *g = read_back(x);

    uint32_t u = 0;
    float f = 0;
    bool b = false;
    int64_t i = 0;
    struct gguf_str s;
    assert_int_equal(gguf_version(g), 3);
    assert_int_equal(gguf_get_u32(g, "u", true, &u, &x->err), SLUICE_OK);
    assert_int_equal(u, 7);
    assert_int_equal(gguf_get_f32(g, "f", true, &f, &x->err), SLUICE_OK);
    assert_true(f == 0.5f);
    assert_int_equal(gguf_get_bool(g, "b", true, &b, &x->err), SLUICE_OK);
    assert_true(b);
    assert_true(gguf_item_str(gguf_find(g, "strings"), 2, &s) && s.bytes == 3 && memcmp(s.at, "b\0c", 3) == 0);
    assert_int_equal(gguf_find(g, "none")->n, 0);
    assert_true(gguf_item_i64(gguf_find(g, "numbers"), 1, &i) && i == -2);

    struct file bytes = {0};
    file_load(&bytes, x->path);
    const struct gguf_tensor *q = gguf_find_tensor(g, "q"), *m = gguf_find_tensor(g, "m");
    assert_int_equal(bytes.bytes, m->offset + 32);
    assert_memory_equal(bytes.data + q->offset, data, 68);
    assert_memory_equal(bytes.data + m->offset, data + 68, 32);
    for (size_t k = 68; k < 96; k++) assert_int_equal(bytes.data[q->offset + k], 0);
    file_free(&bytes);
    gguf_close(g);
}

/* Copies every value and tensor of g into w. */
static void copy(struct fixture *x, const struct gguf *g, const struct file *bytes)
{
    for (size_t i = 0; i < gguf_n_values(g); i++) gguf_write_value(x->w, gguf_value(g, i));
    for (size_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor(g, i);
        gguf_write_tensor(x->w, t->name, t->type, t->n_dims, t->dims);
    }
    for (size_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor(g, i);
        gguf_write_data(x->w, bytes->data + t->offset, (size_t)t->bytes, &x->err);
    }
}

static void copies_every_value_type(void **state)
{
    struct fixture *x = *state;
    struct file f = {0}, out = {0};
    file_head(&f, 3, 2, 12);
    for (uint32_t type = 0; type <= GGUF_F64; type++) {
        char key[16];
        snprintf(key, sizeof key, "array.%u", type);
        if (type == GGUF_ARRAY) continue;
        file_key_array(&f, key, type, 2);
        if (type == GGUF_STRING)
            file_str(&f, "one"), file_str(&f, "");
        else if (type == GGUF_BOOL)
            file_u16(&f, 1);
        else
            for (size_t i = 0; i < 2 * (type < 2 ? 1u : type < 4 ? 2u : type < 8 ? 4u : 8u); i++)
                file_u8(&f, (uint8_t)(250 + i));
    }
    file_tensor(&f, "scalar", 0, 0, NULL, 0);
    file_tensor(&f, "cube", 30, 3, (const uint64_t[]){3, 2, 2}, 32);
    file_pad(&f, 32);
    for (unsigned i = 0; i < 64; i++) file_u8(&f, i < 4 || (i >= 32 && i < 56) ? (uint8_t)i : 0);
    struct gguf *g = file_open(&f);
    copy(x, g, &f);
    gguf_close(g);
    gguf_close(read_back(x));
    file_load(&out, x->path);
    assert_int_equal(out.bytes, f.bytes);
    assert_memory_equal(out.data, f.data, f.bytes);
    file_free(&f), file_free(&out);
}

static void copies_scalars_and_alignment(void **state)
{
    struct fixture *x = *state;
    struct file f = {0}, out = {0};
    file_head(&f, 3, 1, 4);
    file_key(&f, "i64", GGUF_I64), file_u64(&f, (uint64_t)-5);
    file_key_str(&f, "s", "");
    file_key_u32(&f, "general.alignment", 4096);
    file_key(&f, "u8", GGUF_U8), file_u8(&f, 255);
    file_tensor_1d(&f, "t", 0, 1024, 0);
    file_pad(&f, 4096), file_zeros(&f, 4096);
    struct gguf *g = file_open(&f);
    copy(x, g, &f);
    gguf_close(g);
    gguf_close(read_back(x));
    file_load(&out, x->path);
    assert_int_equal(out.bytes, f.bytes);
    assert_memory_equal(out.data, f.data, f.bytes);
    file_free(&f), file_free(&out);
}

/* More than the writer gathers, in pieces around that size. */
static void writes_large_tensors(void **state)
{
    struct fixture *x = *state;
    size_t n = (size_t)3 << 20;
    uint8_t *data = malloc(n);
    assert_non_null(data);
    for (size_t i = 0; i < n; i++) data[i] = (uint8_t)(i * 7 + (i >> 11));
    gguf_write_tensor(x->w, "a", 24, 1, (const uint64_t[]){n - 5});
    gguf_write_tensor(x->w, "b", 24, 1, (const uint64_t[]){5});
    assert_int_equal(gguf_write_data(x->w, data, 100000, &x->err), SLUICE_OK);
    assert_int_equal(gguf_write_data(x->w, data + 100000, 1500000, &x->err), SLUICE_OK);
    assert_int_equal(gguf_write_data(x->w, data + 1600000, n - 1600000, &x->err), SLUICE_OK);
    struct gguf *g = read_back(x);
    struct file out = {0};
    file_load(&out, x->path);
    assert_memory_equal(out.data + gguf_tensor(g, 0)->offset, data, n - 5);
    assert_memory_equal(out.data + gguf_tensor(g, 1)->offset, data + n - 5, 5);
    gguf_close(g);
    file_free(&out);
    free(data);
}

static void writes_metadata_alone(void **state)
{
    struct fixture *x = *state;
    gguf_write_str(x->w, "general.architecture", "gpt2");
    struct gguf *g = read_back(x);
    assert_int_equal(gguf_n_tensors(g), 0);
    assert_int_equal(gguf_n_values(g), 1);
    gguf_close(g);
}

static void writes_many_keys_and_tensors(void **state)
{
    enum { N = 3000 };
    struct fixture *x = *state;
    char name[32];
    for (uint32_t i = 0; i < N; i++) {
        snprintf(name, sizeof name, "k%u", i);
        assert_int_equal(gguf_write_u32(x->w, name, i), SLUICE_OK);
    }
    for (uint32_t i = 0; i < N; i++) {
        snprintf(name, sizeof name, "t%u", i);
        assert_int_equal(gguf_write_tensor(x->w, name, 24, 1, (const uint64_t[]){1 + i % 40}), SLUICE_OK);
    }
    uint8_t byte = 9;
    for (uint32_t i = 0; i < N; i++)
        for (uint32_t k = 0; k < 1 + i % 40; k++) gguf_write_data(x->w, &byte, 1, &x->err);
    struct gguf *g = read_back(x);
    assert_int_equal(gguf_n_tensors(g), N);
    assert_int_equal(gguf_find_tensor(g, "t2999")->bytes, 1 + 2999 % 40);
    gguf_close(g);
}

static void refuses_bad_metadata(void **state)
{
    struct fixture *x = *state;
    gguf_write_u32(x->w, "k", 1);
    assert_int_equal(gguf_write_u32(x->w, "k", 2), SLUICE_ERR_USAGE);
    assert_int_equal(gguf_write_u32(x->w, "other", 2), SLUICE_ERR_USAGE); /* the first failure sticks */
    finish_fails(x, SLUICE_ERR_USAGE, "key 'k' is written twice");
    assert_int_equal(gguf_write_u32(x->w, "", 1), SLUICE_ERR_USAGE);
    finish_fails(x, SLUICE_ERR_USAGE, "0 bytes");
    assert_int_equal(gguf_write_u32(x->w, "general.alignment", 48), SLUICE_ERR_MODEL);
    finish_fails(x, SLUICE_ERR_MODEL, "is 48");
    assert_int_equal(gguf_write_str(x->w, "general.alignment", "32"), SLUICE_ERR_USAGE);
    finish_fails(x, SLUICE_ERR_USAGE, "must be an integer");
    assert_int_equal(gguf_write_array(x->w, "k", GGUF_STRING, "abc", 1), SLUICE_ERR_USAGE);
    finish_fails(x, SLUICE_ERR_USAGE, "strings");
    assert_int_equal(gguf_write_array(x->w, "k", GGUF_ARRAY, "abc", 1), SLUICE_ERR_USAGE);
    finish_fails(x, SLUICE_ERR_USAGE, "cannot be written");
    assert_int_equal(gguf_write_array(x->w, "k", GGUF_BOOL, "\0\1\2", 3), SLUICE_ERR_USAGE);
    finish_fails(x, SLUICE_ERR_USAGE, "item 2");
    assert_int_equal(gguf_write_array(x->w, "k", GGUF_U64, "", UINT64_MAX / 8 + 2), SLUICE_ERR_USAGE);
    finish_fails(x, SLUICE_ERR_USAGE, "limit");
}

static void refuses_bad_tensors(void **state)
{
    struct fixture *x = *state;
    gguf_write_tensor(x->w, "t", 0, 1, (const uint64_t[]){8});
    assert_int_equal(gguf_write_u32(x->w, "k", 1), SLUICE_ERR_USAGE);
    finish_fails(x, SLUICE_ERR_USAGE, "'k'");
    gguf_write_tensor(x->w, "t", 0, 1, (const uint64_t[]){8});
    assert_int_equal(gguf_write_tensor(x->w, "t", 0, 1, (const uint64_t[]){8}), SLUICE_ERR_USAGE);
    finish_fails(x, SLUICE_ERR_USAGE, "tensor 't' is written twice");
    assert_int_equal(gguf_write_tensor(x->w, "t", 8, 1, (const uint64_t[]){33}), SLUICE_ERR_MODEL);
    finish_fails(x, SLUICE_ERR_MODEL, "33 elements");
    assert_int_equal(gguf_write_tensor(x->w, "t", 0, 5, (const uint64_t[]){1, 1, 1, 1, 1}), SLUICE_ERR_USAGE);
    finish_fails(x, SLUICE_ERR_USAGE, "5 dimensions");
    assert_int_equal(gguf_write_tensor(x->w, "", 0, 1, (const uint64_t[]){1}), SLUICE_ERR_USAGE);
    finish_fails(x, SLUICE_ERR_USAGE, "0 bytes");
}

static void refuses_too_few_or_too_many_bytes(void **state)
{
    struct fixture *x = *state;
    uint8_t data[40] = {0};
    gguf_write_tensor(x->w, "t", 0, 1, (const uint64_t[]){8});
    gguf_write_tensor(x->w, "u", 0, 1, (const uint64_t[]){8});
    gguf_write_data(x->w, data, 39, &x->err);
    finish_fails(x, SLUICE_ERR_USAGE, "tensor 'u' (2 of 2) got 7 of its 32 bytes");
    gguf_write_tensor(x->w, "t", 0, 1, (const uint64_t[]){8});
    assert_int_equal(gguf_write_data(x->w, data, 33, &x->err), SLUICE_ERR_USAGE);
    finish_fails(x, SLUICE_ERR_USAGE, "1 bytes of data come after all 1 tensors");
    gguf_write_data(x->w, data, 0, &x->err);
    assert_int_equal(gguf_write_tensor(x->w, "late", 0, 1, (const uint64_t[]){8}), SLUICE_ERR_USAGE);
    finish_fails(x, SLUICE_ERR_USAGE, "'late' comes after the data began");
}

static void abandons_without_a_trace(void **state)
{
    struct fixture *x = *state;
    assert_int_equal(access(x->part, F_OK), 0);
    gguf_writer_abandon(x->w);
    x->w = NULL;
    assert_int_not_equal(access(x->part, F_OK), 0);
    assert_int_not_equal(access(x->path, F_OK), 0);
}

#define RESUMED_BYTES ((size_t)3 << 20)

/* Writes the same two tensors each time; after `bytes` of their data it stops. */
static void begin_again(struct fixture *x, const uint8_t *data, size_t bytes)
{
    if (gguf_writer_resume(x->path, &x->w, &x->err) != SLUICE_OK) fail_msg("%s", x->err.message);
    gguf_write_u32(x->w, "general.alignment", 4096);
    gguf_write_tensor(x->w, "a", 24, 1, (const uint64_t[]){RESUMED_BYTES - 5});
    gguf_write_tensor(x->w, "b", 24, 1, (const uint64_t[]){5});
    for (size_t at = 0; at < bytes; at += 300000)
        assert_int_equal(gguf_write_data(x->w, data + at, bytes - at < 300000 ? bytes - at : 300000, &x->err),
                         SLUICE_OK);
}

/* Ends it, and compares with what an undisturbed writer makes; returns what was kept. */
static uint64_t ends_as(struct fixture *x, const struct file *whole)
{
    struct file out = {0};
    assert_int_equal(gguf_writer_sync(x->w, &x->err), SLUICE_OK);
    assert_int_not_equal(access(x->path, F_OK), 0); /* it has no name yet, but is complete */
    file_load(&out, x->part);
    assert_int_equal(out.bytes, whole->bytes);
    assert_memory_equal(out.data, whole->data, whole->bytes);
    file_free(&out);
    uint64_t kept = gguf_writer_kept_bytes(x->w);
    assert_int_equal(gguf_writer_finish(x->w, &x->err), SLUICE_OK);
    x->w = NULL;
    file_load(&out, x->path);
    assert_memory_equal(out.data, whole->data, whole->bytes);
    file_free(&out);
    assert_int_equal(unlink(x->path), 0);
    return kept;
}

static void goes_on_with_what_was_left(void **state)
{
    struct fixture *x = *state;
    struct file whole = {0}, part = {0};
    uint8_t *data = malloc(RESUMED_BYTES);
    assert_non_null(data);
    for (size_t i = 0; i < RESUMED_BYTES; i++) data[i] = (uint8_t)(i * 7 + (i >> 11));
    gguf_writer_abandon(x->w);
    begin_again(x, data, RESUMED_BYTES); /* nothing was left */
    assert_int_equal(gguf_writer_sync(x->w, &x->err), SLUICE_OK);
    file_load(&whole, x->part);
    assert_int_equal(gguf_writer_kept_bytes(x->w), 0);
    assert_int_equal(gguf_writer_finish(x->w, &x->err), SLUICE_OK);
    x->w = NULL;
    assert_int_equal(unlink(x->path), 0);

    begin_again(x, data, 2000000); /* left on purpose */
    gguf_writer_leave(x->w);
    x->w = NULL;
    file_load(&part, x->part);
    assert_true(part.bytes >= 2000000 && part.bytes < whole.bytes);
    file_free(&part);
    begin_again(x, data, RESUMED_BYTES);
    uint64_t kept = ends_as(x, &whole);
    assert_true(kept >= 1000000 && kept <= 2000000 + 4096);

    file_save(&whole, x->part); /* complete, but for its name */
    begin_again(x, data, RESUMED_BYTES);
    assert_int_equal(ends_as(x, &whole), whole.bytes);

    file_raw(&part, whole.data, whole.bytes); /* longer than it should be, and a bit is wrong */
    file_zeros(&part, 5000);
    part.data[2500000] ^= 1;
    file_save(&part, x->part);
    begin_again(x, data, RESUMED_BYTES);
    kept = ends_as(x, &whole);
    assert_true(kept >= 1000000 && kept <= 2500000);

    memset(part.data, 'x', part.bytes); /* something else */
    file_save(&part, x->part);
    begin_again(x, data, RESUMED_BYTES);
    assert_int_equal(ends_as(x, &whole), 0);
    file_free(&part);
    file_free(&whole);
    free(data);
}

static void replaces_an_older_file_only_when_complete(void **state)
{
    struct fixture *x = *state;
    struct file old = {0}, now = {0};
    file_model(&old);
    file_save(&old, x->path);
    gguf_write_u32(x->w, "new", 1);
    file_load(&now, x->path);
    assert_int_equal(now.bytes, old.bytes);
    file_free(&now), file_free(&old);
    struct gguf *g = read_back(x);
    assert_non_null(gguf_find(g, "new"));
    gguf_close(g);
}

static void a_part_file_in_use_and_one_left_over(void **state)
{
    struct fixture *x = *state;
    struct gguf_writer *second = NULL;
    assert_int_equal(gguf_writer_open(x->path, &second, &x->err), SLUICE_ERR_IO);
    error_says(&x->err, SLUICE_ERR_IO, "out.gguf.part", "another process", NULL);
    assert_null(second);
    assert_int_equal(access(x->part, F_OK), 0); /* the first writer's file is untouched */
    gguf_writer_abandon(x->w);
    struct file f = {0};
    file_zeros(&f, 100000);
    file_save(&f, x->part); /* as after a crash */
    file_free(&f);
    assert_int_equal(gguf_writer_open(x->path, &x->w, &x->err), SLUICE_OK);
    gguf_write_u32(x->w, "k", 1);
    gguf_close(read_back(x));
}

static void refuses_bad_paths(void **state)
{
    struct fixture *x = *state;
    struct gguf_writer *w = NULL;
    assert_int_equal(gguf_writer_open(folder_path(x->folder, "no/such/folder.gguf"), &w, &x->err), SLUICE_ERR_IO);
    error_says(&x->err, SLUICE_ERR_IO, "folder.gguf.part", "No such file", NULL);
    assert_int_equal(gguf_writer_open(x->folder, &w, &x->err), SLUICE_ERR_IO);
    error_says(&x->err, SLUICE_ERR_IO, "not a regular file", NULL);
    assert_int_equal(symlink("elsewhere", folder_path(x->folder, "link.gguf.part")), 0);
    assert_int_equal(gguf_writer_open(folder_path(x->folder, "link.gguf"), &w, &x->err), SLUICE_ERR_IO);
    assert_int_equal(mkfifo(folder_path(x->folder, "pipe.gguf.part"), 0600), 0);
    assert_int_equal(gguf_writer_open(folder_path(x->folder, "pipe.gguf"), &w, &x->err), SLUICE_ERR_IO);
    error_says(&x->err, SLUICE_ERR_IO, "pipe.gguf.part", "not a regular file", NULL);
    assert_null(w);
}

/* A limit on file size stands for a full disk. */
static void a_full_disk(void **state)
{
    struct fixture *x = *state;
    struct rlimit before, small;
    static uint8_t data[1 << 16];
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = (struct rlimit){.rlim_cur = 1 << 20, .rlim_max = before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    gguf_write_tensor(x->w, "t", 24, 1, (const uint64_t[]){1 << 22});
    for (int i = 0; i < 1 << 6; i++) gguf_write_data(x->w, data, sizeof data, NULL);
    enum sluice_status status = finish(x);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(status, SLUICE_ERR_IO);
    error_says(&x->err, SLUICE_ERR_IO, "out.gguf.part", "cannot write", NULL);
    assert_int_not_equal(access(x->path, F_OK), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(writes_what_is_read),
        TEST(copies_every_value_type),
        TEST(copies_scalars_and_alignment),
        TEST(writes_large_tensors),
        TEST(writes_metadata_alone),
        TEST(writes_many_keys_and_tensors),
        TEST(refuses_bad_metadata),
        TEST(refuses_bad_tensors),
        TEST(refuses_too_few_or_too_many_bytes),
        TEST(abandons_without_a_trace),
        TEST(goes_on_with_what_was_left),
        TEST(replaces_an_older_file_only_when_complete),
        TEST(a_part_file_in_use_and_one_left_over),
        TEST(refuses_bad_paths),
        TEST(a_full_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
