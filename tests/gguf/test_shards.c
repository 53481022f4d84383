/* Split models: what opens, and what each kind of muddle is called. */
#include "file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct fixture {
    char *folder;
    struct gguf *g;
    struct sluice_error err;
};

static int set_up(void **state)
{
    struct fixture *x = calloc(1, sizeof *x);
    assert_non_null(x);
    x->folder = folder_make();
    *state = x;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *x = *state;
    gguf_close(x->g);
    folder_remove(x->folder);
    free(x);
    return 0;
}

static void put(struct fixture *x, const char *name, uint16_t no, uint16_t count, uint32_t n_all, unsigned n,
                const char *prefix)
{
    struct file f = {0};
    file_shard(&f, no, count, n_all, n, prefix);
    file_save(&f, folder_path(x->folder, name));
    file_free(&f);
}

/* m-0000{1,2,3}-of-00003.gguf with 0, 2 and 3 tensors. */
static void put_model(struct fixture *x)
{
    put(x, "m-00001-of-00003.gguf", 0, 3, 5, 0, "");
    put(x, "m-00002-of-00003.gguf", 1, 3, 5, 2, "two.");
    put(x, "m-00003-of-00003.gguf", 2, 3, 5, 3, "three.");
}

static void open_fails(struct fixture *x, const char *name)
{
    memset(&x->err, 0, sizeof x->err);
    enum sluice_status status = gguf_open(os_system(), folder_path(x->folder, name), &x->g, &x->err);
    assert_int_not_equal(status, SLUICE_OK);
    assert_int_equal(status, x->err.status);
    assert_null(x->g);
}

static void opens_all_shards(void **state)
{
    struct fixture *x = *state;
    put_model(x);
    if (gguf_open(os_system(), folder_path(x->folder, "m-00001-of-00003.gguf"), &x->g, &x->err) != SLUICE_OK)
        fail_msg("%s", x->err.message);
    assert_int_equal(gguf_n_shards(x->g), 3);
    assert_int_equal(gguf_n_tensors(x->g), 5);
    assert_int_equal(gguf_n_values(x->g), 4);
    assert_string_equal(gguf_shard(x->g, 1)->path, folder_path(x->folder, "m-00002-of-00003.gguf"));
    assert_string_equal(gguf_shard(x->g, 2)->path, folder_path(x->folder, "m-00003-of-00003.gguf"));
    const struct gguf_tensor *t = gguf_find_tensor(x->g, "three.2");
    assert_int_equal(t->shard, 2);
    assert_int_equal(t->offset, gguf_shard(x->g, 2)->header_bytes + 64);
    assert_int_equal(gguf_find_tensor(x->g, "two.1")->shard, 1);
    assert_string_equal(gguf_tensor(x->g, 0)->name, "two.0");
    assert_int_equal(gguf_check_language_model(x->g, false, &x->err), SLUICE_OK);
}

static void opens_a_split_of_one(void **state)
{
    struct fixture *x = *state;
    put(x, "any name.gguf", 0, 1, 2, 2, "a");
    assert_int_equal(gguf_open(os_system(), folder_path(x->folder, "any name.gguf"), &x->g, &x->err), SLUICE_OK);
    assert_int_equal(gguf_n_shards(x->g), 1);
}

/* The current folder has no path in front. */
static void opens_beside_itself(void **state)
{
    struct fixture *x = *state;
    char before[4096];
    assert_non_null(getcwd(before, sizeof before));
    put_model(x);
    assert_int_equal(chdir(x->folder), 0);
    enum sluice_status status = gguf_open(os_system(), "m-00001-of-00003.gguf", &x->g, &x->err);
    assert_int_equal(chdir(before), 0);
    assert_int_equal(status, SLUICE_OK);
}

static void missing_shards(void **state)
{
    struct fixture *x = *state;
    put_model(x);
    remove(folder_path(x->folder, "m-00003-of-00003.gguf"));
    open_fails(x, "m-00001-of-00003.gguf");
    error_says(&x->err, SLUICE_ERR_MODEL, "m-00003-of-00003.gguf: shard 3 of 3 is missing (1 missing in all: 3)",
               "download m-00003-of-00003.gguf into", NULL);
    remove(folder_path(x->folder, "m-00002-of-00003.gguf"));
    open_fails(x, "m-00001-of-00003.gguf");
    error_says(&x->err, SLUICE_ERR_MODEL, "m-00002-of-00003.gguf: shard 2 of 3", "(2 missing in all: 2, 3)", NULL);
}

static void opened_through_another_shard(void **state)
{
    struct fixture *x = *state;
    put_model(x);
    open_fails(x, "m-00002-of-00003.gguf");
    error_says(&x->err, SLUICE_ERR_MODEL, "m-00002-of-00003.gguf: is shard 2 of 3", "open m-00001-of-00003.gguf", NULL);
    put(x, "renamed.gguf", 2, 3, 5, 3, "three.");
    open_fails(x, "renamed.gguf");
    error_says(&x->err, SLUICE_ERR_MODEL, "is shard 3 of 3", "first shard", NULL);
    put(x, "m-00004-of-00003.gguf", 3, 3, 5, 1, "four.");
    open_fails(x, "m-00004-of-00003.gguf");
    error_says(&x->err, SLUICE_ERR_MODEL, "shard 4 of only 3", NULL);
}

static void renamed_first_shard(void **state)
{
    struct fixture *x = *state;
    put_model(x);
    put(x, "model.gguf", 0, 3, 5, 0, "");
    open_fails(x, "model.gguf");
    error_says(&x->err, SLUICE_ERR_MODEL, "shard 1 of 3", "renamed", "-00001-of-00003.gguf", NULL);
    put(x, "m-00002-of-00003.gguf", 0, 3, 5, 0, "");
    open_fails(x, "m-00002-of-00003.gguf");
    error_says(&x->err, SLUICE_ERR_MODEL, "is shard 1 of 3 by its metadata", "its name says shard 2", NULL);
}

static void counts_that_differ(void **state)
{
    struct fixture *x = *state;
    put_model(x);
    put(x, "m-00001-of-00004.gguf", 0, 3, 5, 0, "");
    open_fails(x, "m-00001-of-00004.gguf");
    error_says(&x->err, SLUICE_ERR_MODEL, "its name says 4 shards, its metadata (split.count) 3", NULL);
    put(x, "m-00002-of-00003.gguf", 1, 2, 5, 2, "two.");
    open_fails(x, "m-00001-of-00003.gguf");
    error_says(&x->err, SLUICE_ERR_MODEL, "m-00002-of-00003.gguf", "of 2 shards (split.count), shard 1 says 3", NULL);
}

static void duplicate_or_renamed_sibling(void **state)
{
    struct fixture *x = *state;
    put_model(x);
    put(x, "m-00003-of-00003.gguf", 1, 3, 5, 2, "two.");
    open_fails(x, "m-00001-of-00003.gguf");
    error_says(&x->err, SLUICE_ERR_MODEL, "m-00003-of-00003.gguf: is shard 2 by its metadata", "name says shard 3",
               "copy", NULL);
}

static void mixed_models(void **state)
{
    struct fixture *x = *state;
    put_model(x);
    put(x, "m-00003-of-00003.gguf", 2, 3, 5, 4, "three.");
    open_fails(x, "m-00001-of-00003.gguf");
    error_says(&x->err, SLUICE_ERR_MODEL, "announces 5 tensors (split.tensors.count), its 3 shards hold 6", NULL);
    put(x, "m-00003-of-00003.gguf", 2, 3, 5, 3, "two.");
    open_fails(x, "m-00001-of-00003.gguf");
    error_says(&x->err, SLUICE_ERR_MODEL, "m-00003-of-00003.gguf: tensor 'two.0' is also in shard 2", NULL);
}

static void sibling_that_is_no_shard(void **state)
{
    struct fixture *x = *state;
    struct file f = {0};
    put_model(x);
    file_model(&f);
    file_save(&f, folder_path(x->folder, "m-00002-of-00003.gguf"));
    open_fails(x, "m-00001-of-00003.gguf");
    error_says(&x->err, SLUICE_ERR_MODEL, "m-00002-of-00003.gguf", "'split.count'", "missing", NULL);
    f.bytes -= 5;
    file_save(&f, folder_path(x->folder, "m-00002-of-00003.gguf"));
    open_fails(x, "m-00001-of-00003.gguf");
    error_says(&x->err, SLUICE_ERR_MODEL, "m-00002-of-00003.gguf: needs 288 bytes and has 283", NULL);
    f.bytes = 0;
    file_save(&f, folder_path(x->folder, "m-00002-of-00003.gguf"));
    open_fails(x, "m-00001-of-00003.gguf");
    error_says(&x->err, SLUICE_ERR_MODEL, "m-00002-of-00003.gguf: is not a GGUF file", "empty", NULL);
    file_free(&f);
}

static void whole_model_with_a_shards_name(void **state)
{
    struct fixture *x = *state;
    struct file f = {0};
    file_model(&f);
    file_save(&f, folder_path(x->folder, "m-00001-of-00002.gguf"));
    file_save(&f, folder_path(x->folder, "m-00001-of-00001.gguf"));
    file_free(&f);
    open_fails(x, "m-00001-of-00002.gguf");
    error_says(&x->err, SLUICE_ERR_MODEL, "its name says shard 1 of 2", "not split", NULL);
    assert_int_equal(gguf_open(os_system(), folder_path(x->folder, "m-00001-of-00001.gguf"), &x->g, &x->err),
                     SLUICE_OK);
}

static void raw_pieces(void **state)
{
    struct fixture *x = *state;
    struct file f = {0};
    file_model(&f);
    f.bytes -= 40;
    file_save(&f, folder_path(x->folder, "m.gguf.part1of2"));
    file_save(&f, folder_path(x->folder, "m.gguf"));
    file_save(&f, folder_path(x->folder, "m.gguf.part"));
    file_free(&f);
    open_fails(x, "m.gguf.part");
    error_says(&x->err, SLUICE_ERR_MODEL, "needs 288 bytes and has 248", "download is incomplete", NULL);
    open_fails(x, "m.gguf.part1of2");
    error_says(&x->err, SLUICE_ERR_MODEL, "needs 288 bytes and has 248", "join all pieces", NULL);
    open_fails(x, "m.gguf");
    error_says(&x->err, SLUICE_ERR_MODEL, "needs 288 bytes and has 248", "download is incomplete", NULL);
    file_raw(&f, "the rest of the file", 20);
    file_save(&f, folder_path(x->folder, "m.gguf-split-b"));
    file_free(&f);
    open_fails(x, "m.gguf-split-b");
    error_says(&x->err, SLUICE_ERR_MODEL, "m.gguf-split-b", "a raw piece", "cat", NULL);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(opens_all_shards),         TEST(opens_a_split_of_one),           TEST(opens_beside_itself),
        TEST(missing_shards),           TEST(opened_through_another_shard),   TEST(renamed_first_shard),
        TEST(counts_that_differ),       TEST(duplicate_or_renamed_sibling),   TEST(mixed_models),
        TEST(sibling_that_is_no_shard), TEST(whole_model_with_a_shards_name), TEST(raw_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
