/* What the reader asks of the system, and what it does when the system refuses: a wrapped os table counts and fails. */
#include "file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct faults {
    const struct os_calls *real;
    uint64_t bytes_read;
    unsigned n_open, n_reads;
    unsigned fail_at; /* the read (from 1) that fails with -error */
    int error;
    size_t piece_max;   /* short reads of at most this, 0: whole */
    uint64_t ends_at;   /* reads from here on find the end of the file, 0: never */
    bool interrupt_all; /* every other read is interrupted */
};

static int count_open(void *user, const char *path, bool direct)
{
    struct faults *x = user;
    assert_false(direct);
    int fd = x->real->open_read(x->real->user, path, direct);
    if (fd >= 0) x->n_open++;
    return fd;
}

static int count_close(void *user, int fd)
{
    struct faults *x = user;
    x->n_open--;
    return x->real->close(x->real->user, fd);
}

static ssize_t faulty_pread(void *user, int fd, void *buf, size_t bytes, uint64_t offset)
{
    struct faults *x = user;
    x->n_reads++;
    if (x->n_reads == x->fail_at) return -x->error;
    if (x->interrupt_all && x->n_reads % 2) return -EINTR;
    if (x->piece_max && bytes > x->piece_max) bytes = x->piece_max;
    if (x->ends_at && offset >= x->ends_at) return 0;
    if (x->ends_at && offset + bytes > x->ends_at) bytes = (size_t)(x->ends_at - offset);
    ssize_t n = x->real->pread(x->real->user, fd, buf, bytes, offset);
    if (n > 0) x->bytes_read += (uint64_t)n;
    return n;
}

static int real_info(void *user, int fd, struct os_file_info *info)
{
    struct faults *x = user;
    return x->real->file_info(x->real->user, fd, info);
}

struct fixture {
    char *folder;
    struct faults faults;
    struct os_calls os;
    struct gguf *g;
    struct sluice_error err;
};

static int set_up(void **state)
{
    struct fixture *x = calloc(1, sizeof *x);
    assert_non_null(x);
    x->folder = folder_make();
    x->faults.real = os_system();
    x->os = (struct os_calls){.user = &x->faults,
                              .open_read = count_open,
                              .close = count_close,
                              .pread = faulty_pread,
                              .file_info = real_info};
    *state = x;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *x = *state;
    assert_int_equal(x->faults.n_open, 0); /* whatever happened, no file stays open */
    gguf_close(x->g);
    folder_remove(x->folder);
    free(x);
    return 0;
}

static const char *save_model(struct fixture *x)
{
    struct file f = {0};
    file_model(&f);
    file_save(&f, folder_path(x->folder, "m.gguf"));
    file_free(&f);
    return folder_path(x->folder, "m.gguf");
}

static enum sluice_status open_model(struct fixture *x, const char *path)
{
    return gguf_open(&x->os, path, &x->g, &x->err);
}

/* 100 000 strings, a header of several windows. */
static void file_vocabulary(struct file *f)
{
    file_head(f, 3, 1, 2);
    file_key_array(f, "tokens", GGUF_STRING, 100000);
    for (unsigned i = 0; i < 100000; i++) file_str(f, i % 3 ? "token" : "");
    file_key_str(f, "general.architecture", "llama");
    file_tensor_1d(f, "a", 0, 1 << 24, 0);
    file_pad(f, 32);
}

static void reads_the_header_only(void **state)
{
    struct fixture *x = *state;
    struct file f = {0};
    file_vocabulary(&f);
    const char *path = folder_path(x->folder, "m.gguf");
    file_save(&f, path);
    assert_int_equal(truncate(path, (off_t)f.bytes + (1 << 26)), 0); /* 64 MiB of weights, sparse */
    if (open_model(x, path) != SLUICE_OK) fail_msg("%s", x->err.message);
    assert_true(x->faults.bytes_read >= f.bytes);
    assert_true(x->faults.bytes_read <= 2 * f.bytes + (256 << 10));
    assert_true(gguf_memory_bytes(x->g) < 2 * f.bytes);
    struct gguf_str s;
    assert_true(gguf_item_str(gguf_find(x->g, "tokens"), 99998, &s) && s.bytes == 5);
    file_free(&f);
}

static void short_and_interrupted_reads(void **state)
{
    struct fixture *x = *state;
    x->faults.piece_max = 7;
    x->faults.interrupt_all = true;
    if (open_model(x, save_model(x)) != SLUICE_OK) fail_msg("%s", x->err.message);
    assert_int_equal(gguf_n_tensors(x->g), 2);
}

static void failed_reads(void **state)
{
    struct fixture *x = *state;
    const char *path = save_model(x);
    x->faults.piece_max = 100;
    for (unsigned i = 1; i <= 3; i++) {
        x->faults.n_reads = 0;
        x->faults.fail_at = i;
        x->faults.error = EIO;
        assert_int_equal(open_model(x, path), SLUICE_ERR_IO);
        error_says(&x->err, SLUICE_ERR_IO, "m.gguf", "Input/output error", i == 1 ? "at byte 0 " : "00 failed", NULL);
        assert_null(x->g);
    }
}

static void a_file_that_shrinks(void **state)
{
    struct fixture *x = *state;
    x->faults.ends_at = 100;
    assert_int_equal(open_model(x, save_model(x)), SLUICE_ERR_IO);
    error_says(&x->err, SLUICE_ERR_IO, "m.gguf", "had 288 bytes", "ends at byte 100", "download has finished", NULL);
}

static void not_a_file(void **state)
{
    struct fixture *x = *state;
    assert_int_equal(open_model(x, folder_path(x->folder, "absent.gguf")), SLUICE_ERR_IO);
    error_says(&x->err, SLUICE_ERR_IO, "absent.gguf: no such file", NULL);
    assert_int_equal(open_model(x, x->folder), SLUICE_ERR_IO);
    error_says(&x->err, SLUICE_ERR_IO, "a directory", ".gguf file inside", NULL);
    assert_int_equal(open_model(x, "/dev/null"), SLUICE_ERR_IO);
    error_says(&x->err, SLUICE_ERR_IO, "/dev/null", "not a regular file", NULL);
    assert_int_equal(open_model(x, ""), SLUICE_ERR_IO);
    const char *path = save_model(x);
    char below[4200];
    snprintf(below, sizeof below, "%s/x.gguf", path);
    assert_int_equal(open_model(x, below), SLUICE_ERR_IO);
    error_says(&x->err, SLUICE_ERR_IO, "x.gguf: no such file", NULL);
}

static void not_readable(void **state)
{
    struct fixture *x = *state;
    const char *path = save_model(x);
    assert_int_equal(chmod(path, 0), 0);
    if (access(path, R_OK) == 0) skip(); /* root reads everything */
    assert_int_equal(open_model(x, path), SLUICE_ERR_IO);
    error_says(&x->err, SLUICE_ERR_IO, "m.gguf: may not be read", "permission", NULL);
}

static int refuse_open(void *user, const char *path, bool direct) { return -EACCES; }

static void permission_denied(void **state)
{
    struct fixture *x = *state;
    x->os.open_read = refuse_open;
    assert_int_equal(open_model(x, "m.gguf"), SLUICE_ERR_IO);
    error_says(&x->err, SLUICE_ERR_IO, "m.gguf: may not be read", "permission", NULL);
}

static int no_info(void *user, int fd, struct os_file_info *info) { return -EIO; }

static void no_file_info(void **state)
{
    struct fixture *x = *state;
    x->os.file_info = no_info;
    assert_int_equal(open_model(x, save_model(x)), SLUICE_ERR_IO);
    error_says(&x->err, SLUICE_ERR_IO, "m.gguf: cannot tell its size", NULL);
}

/* The end of a long path is what tells files apart. */
static void long_paths(void **state)
{
    struct fixture *x = *state;
    char path[2000];
    memset(path, 'x', sizeof path);
    memcpy(path + sizeof path - 10, "/end.gguf", 10);
    assert_int_equal(open_model(x, path), SLUICE_ERR_IO);
    error_says(&x->err, SLUICE_ERR_IO, "xxx/end.gguf: ", NULL);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(reads_the_header_only),
        TEST(short_and_interrupted_reads),
        TEST(failed_reads),
        TEST(a_file_that_shrinks),
        TEST(not_a_file),
        TEST(not_readable),
        TEST(permission_denied),
        TEST(no_file_info),
        TEST(long_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
