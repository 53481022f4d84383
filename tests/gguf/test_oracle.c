/* Files that other programs wrote: every one opens, its tensors account for its bytes, and
 * the writer can repeat it. */
#include "file.h"
#include "gguf/write.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define COPY_BYTES_MAX (1200u << 10)

static unsigned n_files, n_copies;

/* The writer's copy is the same to the byte. */
static void check_copy(const struct gguf *g, const char *path)
{
    char *out_folder = folder_make();
    const char *out_path = folder_path(out_folder, "copy.gguf");
    struct gguf_writer *w = NULL;
    struct sluice_error err;
    struct file f = {0}, out = {0};
    file_load(&f, path);
    if (gguf_writer_open(out_path, &w, &err) != SLUICE_OK) fail_msg("%s", err.message);
    for (size_t i = 0; i < gguf_n_values(g); i++) gguf_write_value(w, gguf_value(g, i));
    for (size_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor(g, i);
        gguf_write_tensor(w, t->name, t->type, t->n_dims, t->dims);
    }
    for (size_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor(g, i);
        gguf_write_data(w, f.data + t->offset, (size_t)t->bytes, &err);
    }
    if (gguf_writer_finish(w, &err) != SLUICE_OK) fail_msg("%s", err.message);
    file_load(&out, out_path);
    assert_int_equal(out.bytes, f.bytes);
    if (memcmp(out.data, f.data, f.bytes) != 0) fail_msg("%s: its copy differs", path);
    file_free(&f), file_free(&out);
    folder_remove(out_folder);
    n_copies++;
}

static void check_file(const char *path)
{
    struct gguf *g = NULL;
    struct sluice_error err;
    if (gguf_open(os_system(), path, &g, &err) != SLUICE_OK) fail_msg("%s (%s)", err.message, err.hint);
    n_files++;
    uint64_t mask = gguf_alignment(g) - 1, sum = gguf_shard(g, 0)->header_bytes;
    for (size_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor(g, i);
        assert_int_equal(t->offset, sum); /* llama.cpp leaves no gaps */
        sum += (t->bytes + mask) & ~mask;
        assert_ptr_equal(gguf_find_tensor(g, t->name), t);
    }
    if (sum != gguf_shard(g, 0)->bytes) fail_msg("%s: tensors end at %" PRIu64, path, sum);
    bool vocab_only = gguf_n_tensors(g) == 0;
    if (gguf_check_language_model(g, vocab_only, &err) != SLUICE_OK) fail_msg("%s", err.message);

    const struct gguf_value *tokens = gguf_find(g, "tokenizer.ggml.tokens");
    if (vocab_only) assert_non_null(tokens);
    if (tokens) {
        assert_int_equal(tokens->item_type, GGUF_STRING);
        const char *next = tokens->data;
        for (uint64_t i = 0; i < tokens->n; i++) {
            struct gguf_str s;
            assert_true(gguf_item_str(tokens, i, &s));
            assert_ptr_equal(s.at, next + 8);
            next = s.at + s.bytes;
        }
    }
    if (!vocab_only && gguf_shard(g, 0)->bytes <= COPY_BYTES_MAX) check_copy(g, path);
    gguf_close(g);
}

static void check_folder(const char *folder)
{
    DIR *dir = opendir(folder);
    if (!dir) fail_msg("%s: cannot open", folder);
    for (struct dirent *e; (e = readdir(dir));) {
        char path[4096];
        struct stat info;
        size_t n = strlen(e->d_name);
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (stat(path, &info) == 0 && S_ISDIR(info.st_mode))
            check_folder(path);
        else if (n > 5 && strcmp(e->d_name + n - 5, ".gguf") == 0)
            check_file(path);
    }
    closedir(dir);
}

static char folder[4096];

static void every_file_opens_and_adds_up(void **state)
{
    check_folder(folder);
    assert_true(n_files >= 40 && n_copies >= 20);
}

int main(void)
{
    struct stat info;
    const char *shared = getenv("SLUICE_SHARED");
    if (shared) snprintf(folder, sizeof folder, "%s/oracle", shared);
    if (!shared || stat(folder, &info) != 0) {
        puts("skipped: no folder $SLUICE_SHARED/oracle");
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_file_opens_and_adds_up)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
