/* A look at files that do not open: what is told of, and what is there all the same. And what files are. */
#include "file.h"

#include <stdlib.h>
#include <string.h>

struct told {
    size_t n[4]; /* by kind */
    char text[4096];
};

static void tell(void *user, enum gguf_fault kind, const struct sluice_error *fault)
{
    struct told *t = user;
    assert_int_equal(fault->status, SLUICE_ERR_MODEL);
    assert_true(strlen(t->text) + strlen(fault->message) + 2 < sizeof t->text);
    strcat(strcat(t->text, fault->message), "\n");
    t->n[kind]++;
}

struct fixture {
    char *folder;
    struct gguf *g;
    struct told told;
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

/* Opens `name` leniently; the strict way fails exactly if anything is told of. */
static void look(struct fixture *x, const char *name)
{
    struct sluice_error err;
    struct gguf *g = NULL;
    gguf_close(x->g);
    x->g = NULL;
    memset(&x->told, 0, sizeof x->told);
    const char *path = folder_path(x->folder, name);
    if (gguf_open_lenient(os_system(), path, tell, &x->told, &x->g, &err)) fail_msg("%s", err.message);
    enum sluice_status strict = gguf_open(os_system(), path, &g, &err);
    assert_int_equal(strict != SLUICE_OK, x->told.n[0] + x->told.n[1] + x->told.n[2] + x->told.n[3] > 0);
    if (strict && !strstr(err.message, "whose layout")) /* it is among what is told of */
        assert_non_null(strstr(x->told.text, err.message));
    gguf_close(g);
}

static void says(const struct fixture *x, const char *text)
{
    if (!strstr(x->told.text, text)) fail_msg("'%s' is not in: %s", text, x->told.text);
}

static void put(struct fixture *x, const char *name, uint16_t no, uint16_t count, uint32_t n_all, unsigned n,
                const char *prefix)
{
    struct file f = {0};
    file_shard(&f, no, count, n_all, n, prefix);
    file_save(&f, folder_path(x->folder, name));
    file_free(&f);
}

static void good_files(void **state)
{
    struct fixture *x = *state;
    struct file f = {0};
    file_model(&f);
    file_save(&f, folder_path(x->folder, "m.gguf"));
    file_free(&f);
    look(x, "m.gguf");
    assert_int_equal(gguf_n_tensors(x->g), 2);
    assert_int_equal(gguf_kind(x->g), GGUF_LANGUAGE_MODEL);
}

static void data_that_is_cut_off(void **state)
{
    struct fixture *x = *state;
    struct file f = {0};
    file_model(&f);
    f.bytes -= 20;
    file_save(&f, folder_path(x->folder, "m.gguf"));
    file_free(&f);
    look(x, "m.gguf");
    assert_int_equal(x->told.n[GGUF_FAULT_CUT], 1);
    says(x, "tensor 'b' ends at byte");
    assert_int_equal(gguf_find_tensor(x->g, "b")->bytes, 32);
}

static void several_faults(void **state)
{
    struct fixture *x = *state;
    struct file f = {0};
    file_head(&f, 3, 4, 1);
    file_key_str(&f, "general.architecture", "llama");
    file_tensor_1d(&f, "a", 0, 8, 0);
    file_tensor_1d(&f, "odd", 77, 8, 32); /* a type without a known layout is no fault here */
    file_tensor_1d(&f, "skew", 0, 8, 5);
    file_tensor_1d(&f, "far", 0, 8, 4096);
    file_pad(&f, 32), file_zeros(&f, 128);
    file_save(&f, folder_path(x->folder, "m.gguf"));
    file_free(&f);
    look(x, "m.gguf");
    assert_int_equal(x->told.n[GGUF_FAULT_LAYOUT], 1);
    says(x, "tensor 'skew' lies at offset 5");
    assert_int_equal(x->told.n[GGUF_FAULT_CUT], 1);
    says(x, "tensor 'far' ends");
    assert_int_equal(gguf_n_tensors(x->g), 4);
    assert_int_equal(gguf_find_tensor(x->g, "odd")->bytes, 0);
    assert_int_equal(gguf_find_tensor(x->g, "a")->bytes, 32);
}

static void overlaps_and_twins(void **state)
{
    struct fixture *x = *state;
    struct file f = {0};
    file_head(&f, 3, 3, 1);
    file_key_str(&f, "general.architecture", "llama");
    file_tensor_1d(&f, "a", 0, 16, 0);
    file_tensor_1d(&f, "b", 0, 16, 32);
    file_tensor_1d(&f, "a", 0, 8, 96);
    file_pad(&f, 32), file_zeros(&f, 128);
    file_save(&f, folder_path(x->folder, "m.gguf"));
    file_free(&f);
    look(x, "m.gguf");
    assert_int_equal(x->told.n[GGUF_FAULT_LAYOUT], 2);
    says(x, "overlap");
    says(x, "occurs twice");
    assert_int_equal(gguf_find_tensor(x->g, "a")->bytes, 64); /* the first */
}

static void shards_that_are_missing(void **state)
{
    struct fixture *x = *state;
    put(x, "m-00001-of-00005.gguf", 0, 5, 9, 1, "one.");
    put(x, "m-00003-of-00005.gguf", 2, 5, 9, 2, "three.");
    put(x, "m-00004-of-00005.gguf", 1, 5, 9, 2, "two."); /* a copy of another */
    look(x, "m-00001-of-00005.gguf");
    assert_int_equal(x->told.n[GGUF_FAULT_SHARD], 2);
    says(x, "(2 missing in all: 2, 5)");
    says(x, "m-00004-of-00005.gguf: is shard 2 by its metadata");
    assert_int_equal(gguf_n_shards(x->g), 3);
    assert_int_equal(gguf_n_tensors(x->g), 5);
    assert_non_null(strstr(gguf_shard(x->g, gguf_find_tensor(x->g, "three.1")->shard)->path, "m-00003"));
    look(x, "m-00003-of-00005.gguf"); /* not the first: looked at alone */
    assert_int_equal(x->told.n[GGUF_FAULT_LATER], 1);
    says(x, "is shard 3 of 5");
    assert_int_equal(gguf_n_tensors(x->g), 2);
}

static void no_way_on(void **state)
{
    struct fixture *x = *state;
    struct file f = {0};
    struct sluice_error err;
    file_model(&f);
    f.bytes = 40; /* within the header */
    file_save(&f, folder_path(x->folder, "m.gguf"));
    file_free(&f);
    const char *path = folder_path(x->folder, "m.gguf");
    assert_int_equal(gguf_open_lenient(os_system(), path, tell, &x->told, &x->g, &err), SLUICE_ERR_MODEL);
    assert_null(x->g);
    path = folder_path(x->folder, "none.gguf");
    assert_int_equal(gguf_open_lenient(os_system(), path, tell, &x->told, &x->g, &err), SLUICE_ERR_IO);
    assert_int_equal(x->told.n[0] + x->told.n[1] + x->told.n[2] + x->told.n[3], 0);
}

static void kinds(void **state)
{
    (void)state;
    static const struct {
        const char *type, *architecture;
        unsigned n_tensors;
        enum gguf_kind kind;
    } rows[] = {
        {"model", "llama", 1, GGUF_LANGUAGE_MODEL},
        {"model", "unheard-of", 1, GGUF_LANGUAGE_MODEL},
        {"model", "llama", 0, GGUF_VOCABULARY},
        {"mmproj", "clip", 1, GGUF_PROJECTOR},
        {"model", "clip", 1, GGUF_PROJECTOR},
        {"adapter", "llama", 1, GGUF_ADAPTER},
        {"imatrix", "", 1, GGUF_IMATRIX},
        {"model", "controlvector", 1, GGUF_CONTROL_VECTOR},
        {"model", "nomic-bert", 1, GGUF_EMBEDDING_MODEL},
        {"model", "whisper", 1, GGUF_SPEECH_MODEL},
        {"model", "flux", 1, GGUF_IMAGE_MODEL},
        {"model", "", 1, GGUF_NO_MODEL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct file f = {0};
        file_head(&f, 3, rows[i].n_tensors, 2);
        file_key_str(&f, "general.type", rows[i].type);
        file_key_str(&f, "general.architecture", rows[i].architecture);
        if (rows[i].n_tensors) file_tensor_1d(&f, "a", 0, 8, 0);
        file_pad(&f, 32), file_zeros(&f, 32);
        struct gguf *g = file_open(&f);
        assert_int_equal(gguf_kind(g), rows[i].kind);
        assert_true(strlen(gguf_kind_text(rows[i].kind)) > 10);
        gguf_close(g);
        file_free(&f);
    }
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(good_files),   IN_FOLDER(data_that_is_cut_off), IN_FOLDER(several_faults),
        IN_FOLDER(no_way_on),    IN_FOLDER(overlaps_and_twins),   IN_FOLDER(shards_that_are_missing),
        cmocka_unit_test(kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
