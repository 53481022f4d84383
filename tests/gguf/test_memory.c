/* Every allocation fails once: the reader and the writer say so and leave neither memory (address sanitizer) nor files
 * behind. The linker sends the room's allocations through here (--wrap). */
#include "file.h"
#include "gguf/write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *p, size_t bytes);
char *__real_strdup(const char *s);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *p, size_t bytes);
char *__wrap_strdup(const char *s);

static unsigned fail_in; /* the allocation that fails, counted down; 0: none */
static bool failed;

static bool fails(void)
{
    if (fail_in == 0 || --fail_in) return false;
    failed = true;
    return true;
}

void *__wrap_malloc(size_t bytes) { return fails() ? NULL : __real_malloc(bytes); }
void *__wrap_calloc(size_t n, size_t bytes) { return fails() ? NULL : __real_calloc(n, bytes); }
void *__wrap_realloc(void *p, size_t bytes) { return fails() ? NULL : __real_realloc(p, bytes); }
char *__wrap_strdup(const char *s) { return fails() ? NULL : __real_strdup(s); }

/* Enough of everything that each array grows at least once. */
static void file_large(struct file *f)
{
    char name[32];
    file_head(f, 3, 150, 152);
    file_key_str(f, "general.architecture", "llama");
    file_key_array(f, "strings", GGUF_STRING, 200);
    for (unsigned i = 0; i < 200; i++) file_str(f, "abc");
    for (unsigned i = 0; i < 150; i++) snprintf(name, sizeof name, "k%u", i), file_key_u32(f, name, i);
    for (unsigned i = 0; i < 150; i++) snprintf(name, sizeof name, "t%u", i), file_tensor_1d(f, name, 0, 8, i * 32);
    file_pad(f, 32), file_zeros(f, 150 * 32);
}

static void reading(void **state)
{
    struct file f = {0};
    file_large(&f);
    unsigned n = 0;
    for (unsigned i = 1;; i++) {
        struct gguf *g = NULL;
        struct sluice_error err = {0};
        failed = false;
        fail_in = i;
        enum sluice_status status = gguf_open_memory(f.data, f.bytes, "m.gguf", &g, &err);
        fail_in = 0;
        if (!failed) {
            assert_int_equal(status, SLUICE_OK);
            gguf_close(g);
            break;
        }
        if (status == SLUICE_OK) { /* giving memory back may fail and does no harm */
            assert_int_equal(gguf_n_tensors(g), 150);
            gguf_close(g);
            continue;
        }
        n++;
        assert_int_equal(status, SLUICE_ERR_MEMORY);
        assert_int_equal(err.status, SLUICE_ERR_MEMORY);
        assert_non_null(strstr(err.message, "m.gguf: no memory"));
        assert_null(g);
    }
    assert_true(n >= 12);
    file_free(&f);
}

static void reading_shards(void **state)
{
    char *folder = folder_make();
    struct file f = {0};
    file_shard(&f, 0, 2, 4, 2, "a");
    file_save(&f, folder_path(folder, "m-00001-of-00002.gguf"));
    f.bytes = 0;
    file_shard(&f, 1, 2, 4, 2, "b");
    file_save(&f, folder_path(folder, "m-00002-of-00002.gguf"));
    file_free(&f);
    for (unsigned i = 1;; i++) {
        struct gguf *g = NULL;
        struct sluice_error err = {0};
        failed = false;
        fail_in = i;
        enum sluice_status status = gguf_open(os_system(), folder_path(folder, "m-00001-of-00002.gguf"), &g, &err);
        fail_in = 0;
        if (status == SLUICE_OK)
            gguf_close(g);
        else
            assert_int_equal(status, SLUICE_ERR_MEMORY);
        if (!failed) break;
    }
    folder_remove(folder);
}

static enum sluice_status write_some(const char *path, struct sluice_error *err)
{
    struct gguf_writer *w;
    char name[32];
    uint8_t data[32] = {0};
    enum sluice_status status = gguf_writer_open(path, &w, err);
    if (status != SLUICE_OK) return status;
    for (unsigned i = 0; i < 150; i++) snprintf(name, sizeof name, "k%u", i), gguf_write_u32(w, name, i);
    for (unsigned i = 0; i < 150; i++) {
        snprintf(name, sizeof name, "t%u", i);
        gguf_write_tensor(w, name, 0, 1, (const uint64_t[]){8});
    }
    for (unsigned i = 0; i < 150; i++) gguf_write_data(w, data, sizeof data, err);
    return gguf_writer_finish(w, err);
}

static void writing(void **state)
{
    char *folder = folder_make();
    char path[4096], part[4104];
    snprintf(path, sizeof path, "%s/m.gguf", folder);
    snprintf(part, sizeof part, "%s.part", path);
    for (unsigned i = 1;; i++) {
        struct sluice_error err = {0};
        remove(path);
        failed = false;
        fail_in = i;
        enum sluice_status status = write_some(path, &err);
        fail_in = 0;
        assert_int_not_equal(access(part, F_OK), 0);
        if (status == SLUICE_OK) {
            struct gguf *g = NULL;
            assert_int_equal(gguf_open(os_system(), path, &g, &err), SLUICE_OK);
            gguf_close(g);
        } else {
            assert_int_equal(status, SLUICE_ERR_MEMORY);
            assert_int_not_equal(access(path, F_OK), 0);
        }
        if (!failed) break;
    }
    folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reading),
        cmocka_unit_test(reading_shards),
        cmocka_unit_test(writing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
