/* Every architecture's file with one number of its directory changed, a key's value or a tensor's type, is looked at
 * (sluice_examine) and, where that says that it runs, opened: no crash, and a reason wherever it does not. Under the
 * sanitizers a step out of a table shows. */
#include "support.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define ITEMS_TRIED 1 /* of an array */
#ifdef SLUICE_SANITIZED
#define KEYS_STEP 2 /* each file has its turn with other keys */
#else
#define KEYS_STEP 1
#endif

static char folder[] = "/tmp/sluice-damaged-XXXXXX";

struct file {
    uint8_t *bytes;
    size_t n;
    char path[SUPPORT_PATH_MAX]; /* of the copy that is changed */
    size_t n_looked, n_refused, n_opened;
};

static void read_file(const char *path, struct file *f)
{
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    assert_int_equal(fseek(in, 0, SEEK_END), 0);
    f->n = (size_t)ftell(in);
    rewind(in);
    f->bytes = malloc(f->n);
    assert_non_null(f->bytes);
    assert_int_equal(fread(f->bytes, 1, f->n, in), f->n);
    fclose(in);
}

static void write_at(const char *path, const void *bytes, size_t n, size_t at)
{
    FILE *out = fopen(path, "r+b");
    assert_non_null(out);
    assert_int_equal(fseek(out, (long)at, SEEK_SET), 0);
    assert_int_equal(fwrite(bytes, 1, n, out), n);
    assert_int_equal(fclose(out), 0);
}

/* Where the file's name of a key or tensor stops. */
static size_t behind_name(const struct file *f, const char *name, size_t n)
{
    uint8_t wanted[8 + 256] = {0};
    assert_true(n < 256);
    wanted[0] = (uint8_t)n; /* a length of 64 bits stands before it */
    memcpy(wanted + 8, name, n);
    const uint8_t *at = memmem(f->bytes, f->n, wanted, 8 + n);
    assert_non_null(at);
    return (size_t)(at - f->bytes) + 8 + n;
}

static void count_reason(void *user, const struct sluice_finding *finding)
{
    size_t *n = user;
    assert_true(finding->message[0] && finding->code[0]);
    *n += finding->stops;
}

/* The file with these n bytes at `at`. */
static void look(struct file *f, const void *bytes, size_t n, size_t at)
{
    struct sluice_error err;
    struct sluice_examination seen;
    struct sluice_options o = support_options(f->path);
    size_t reasons = 0;
    write_at(f->path, bytes, n, at);
    const enum sluice_status st = sluice_examine(&o, count_reason, &reasons, &seen, &err);
    f->n_looked++;
    if (st) {
        assert_true(err.message[0]);
        f->n_refused++;
    } else if (!seen.runs) {
        assert_true(reasons > 0);
        f->n_refused++;
    } else if (f->n_looked % 8 == 0) { /* opening takes longer */
        sluice_engine *e;
        if (!sluice_engine_open(&o, &e, &err)) {
            f->n_opened++;
            sluice_engine_close(e);
        } else {
            assert_true(err.message[0]);
        }
    }
    write_at(f->path, f->bytes + at, n, at);
}

static size_t item_bytes(enum gguf_value_type type)
{
    switch (type) {
    case GGUF_U8:
    case GGUF_I8:
    case GGUF_BOOL: return 1;
    case GGUF_U16:
    case GGUF_I16: return 2;
    case GGUF_U32:
    case GGUF_I32:
    case GGUF_F32: return 4;
    case GGUF_U64:
    case GGUF_I64:
    case GGUF_F64: return 8;
    default: return 0;
    }
}

/* A key's value, or the first few of its values, becomes each of these. */
static void damage_key(struct file *f, const struct gguf_value *v)
{
    static const uint64_t numbers[] = {0, 5, 0x7fffffff, UINT64_MAX};
    const size_t bytes = item_bytes(v->type == GGUF_ARRAY ? v->item_type : v->type);
    if (!bytes) return;
    size_t at = behind_name(f, v->key.at, v->key.bytes) + 4 + (v->type == GGUF_ARRAY ? 12 : 0);
    for (uint64_t i = 0; i < v->n && i < ITEMS_TRIED; i++, at += bytes) {
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) look(f, &numbers[k], bytes, at);
        const float negative = -1;
        if (bytes == 4) look(f, &negative, bytes, at);
    }
}

static void damage_tensor(struct file *f, const struct gguf_tensor *t, uint32_t type)
{
    const size_t at = behind_name(f, t->name, strlen(t->name)) + 4 + 8 * (size_t)t->n_dims;
    look(f, &type, sizeof type, at);
}

/* Returns how many variants could still be opened. */
static size_t damage(const char *path, size_t turn)
{
    struct file f = {.n = 0};
    struct sluice_error err;
    struct gguf *g;
    if (gguf_open(os_system(), path, &g, &err)) return 0; /* the folder has others */
    read_file(path, &f);
    snprintf(f.path, sizeof f.path, "%s/model.gguf", folder);
    FILE *out = fopen(f.path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(f.bytes, 1, f.n, out), f.n);
    assert_int_equal(fclose(out), 0);
    struct gguf_str arch;
    assert_int_equal(gguf_get_str(g, "general.architecture", true, &arch, &err), SLUICE_OK);
    for (size_t i = turn % KEYS_STEP; i < gguf_n_values(g); i += KEYS_STEP) {
        const struct gguf_value *v = gguf_value(g, i);
        if (v->key.bytes > arch.bytes && memcmp(v->key.at, arch.at, arch.bytes) == 0) damage_key(&f, v);
    }
    for (size_t i = 0; i < gguf_n_tensors(g); i++) damage_tensor(&f, gguf_tensor(g, i), (uint32_t)(7 * i % 41));
    if (f.n_refused < 20) fail_msg("%s: %zu of %zu refused", path, f.n_refused, f.n_looked);
    gguf_close(g);
    free(f.bytes);
    return f.n_opened;
}

static void test_damaged(void **state)
{
    (void)state;
    const char *shared = getenv("SLUICE_SHARED");
    char oracle[SUPPORT_PATH_MAX], path[2 * SUPPORT_PATH_MAX];
    snprintf(oracle, sizeof oracle, "%s/oracle/arch", shared ? shared : "");
    DIR *d = opendir(oracle);
    if (!d) {
        print_message("no oracle: %s\n", oracle);
        skip();
    }
    size_t n = 0, n_opened = 0;
    for (struct dirent *e; (e = readdir(d));) {
        const size_t length = strlen(e->d_name);
        if (length < 5 || strcmp(e->d_name + length - 5, ".gguf") != 0) continue;
        snprintf(path, sizeof path, "%s/%s", oracle, e->d_name);
        n_opened += damage(path, n++);
    }
    closedir(d);
    assert_true(n > 0 && n_opened > 0); /* a number that nobody uses does no harm */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_damaged)};
    if (!mkdtemp(folder)) return 1;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command) ? 1 : failed;
}
