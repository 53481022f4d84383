/* Hotlists: what is written is read back, what people may write is read, and every kind of bad line is named. */
#include "expert/hotlist.h"
#include "fault_os.h"
#include "shape.h"

#include <errno.h>
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define FINGERPRINT UINT64_C(0x0123456789abcdef)
#define HEAD "sluice-hotlist 1\nmodel 0123456789abcdef\n"

static struct expert_catalog *catalog; /* 8 experts, none, 5 */
static char path[64];
static struct sluice_error err;

static void save(const char *text, size_t bytes)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, bytes, f), bytes);
    assert_int_equal(fclose(f), 0);
}

static enum sluice_status read_back(struct expert_hotlist *h)
{
    memset(&err, 0, sizeof err);
    return expert_hotlist_read(os_system(), path, catalog, FINGERPRINT, false, h, &err);
}

static void read_text(const char *text, struct expert_hotlist *h)
{
    save(text, strlen(text));
    if (read_back(h)) fail_msg("'%s' is refused: %s", text, err.message);
}

static void refused_bytes(const char *text, size_t bytes, const char *says)
{
    struct expert_hotlist h;
    save(text, bytes);
    if (read_back(&h) != SLUICE_ERR_USAGE) fail_msg("'%s' is not refused: %s", text, err.message);
    if (!strstr(err.message, says)) fail_msg("'%s': says '%s', not '%s'", text, err.message, says);
    assert_non_null(strstr(err.message, path));
    assert_true(err.hint[0] != '\0');
    assert_int_equal(h.n, 0);
    assert_null(h.keys);
}

static void refused(const char *text, const char *says) { refused_bytes(text, strlen(text), says); }

static void written(const uint32_t *keys, const float *probabilities, uint32_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_true(expert_hotlist_write(f, catalog, FINGERPRINT, keys, probabilities, n));
    assert_int_equal(fclose(f), 0);
}

static void comes_back(void **state)
{
    (void)state;
    static const uint32_t keys[] = {12, 0, 7, 8, 3, 4};
    static const float probabilities[] = {1.0f, 0.875f, 0.231f, 1e-6f, 1e-9f, 0.0f};
    struct expert_hotlist h;
    written(keys, probabilities, 6);
    assert_int_equal(read_back(&h), SLUICE_OK);
    assert_int_equal(h.n, 6);
    assert_memory_equal(h.keys, keys, sizeof keys);
    for (unsigned i = 0; i < 6; i++) {
        float off = h.probabilities[i] - probabilities[i];
        assert_true(off <= 5e-7f && off >= -5e-7f);
    }
    assert_true(h.probabilities[0] == 1.0f && h.probabilities[1] == 0.875f && h.probabilities[4] == 0.0f);
    struct expert_hotlist again; /* what was read and is written is the same for good */
    written(h.keys, h.probabilities, h.n);
    assert_int_equal(read_back(&again), SLUICE_OK);
    assert_memory_equal(again.probabilities, h.probabilities, 6 * sizeof(float));
    expert_hotlist_free(&again);
    expert_hotlist_free(&h);
    written(keys, NULL, 6);
    assert_int_equal(read_back(&h), SLUICE_OK);
    assert_int_equal(h.n, 6);
    assert_true(h.probabilities[0] == 0.0f);
    expert_hotlist_free(&h);
    written(NULL, NULL, 0);
    assert_int_equal(read_back(&h), SLUICE_OK);
    assert_int_equal(h.n, 0);
    expert_hotlist_free(&h);
}

/* The text itself, also where numbers have a decimal comma, and probabilities that are none. */
static void is_written_so(void **state)
{
    (void)state;
    static const uint32_t keys[] = {9, 1, 2, 3, 4};
    const float nan = strtof("nan", NULL);
    const float probabilities[] = {0.5f, 0.0625f, nan, -1.0f, 7.0f};
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "ru_RU.UTF-8"};
    for (unsigned i = 0; i < 4 && !setlocale(LC_NUMERIC, names[i]); i++) {
    }
    char text[256];
    written(keys, probabilities, 5);
    setlocale(LC_NUMERIC, "C");
    FILE *f = fopen(path, "rb");
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = '\0';
    assert_string_equal(text, HEAD "# layer expert probability, hottest first\n"
                                   "2 1 0.500000\n0 1 0.062500\n0 2 0.000000\n0 3 0.000000\n0 4 1.000000\n");
    f = fopen("/dev/full", "wb");
    if (!f) skip();
    assert_false(expert_hotlist_write(f, catalog, FINGERPRINT, keys, probabilities, 5));
    assert_int_equal(errno, ENOSPC);
    fclose(f);
}

static void people_write_freely(void **state)
{
    (void)state;
    static const char *const texts[] = {
        HEAD "2 4 0.25\n0 7\n",
        HEAD "2 4 .25\n0 7", /* no end of the last line */
        "sluice-hotlist 1\r\nmodel 0123456789ABCDEF\r\n\r\n2 4 0.25\r\n0 7 0\r\n",
        "sluice-hotlist 1 \n\n# mine\n \t# also\n  model\t0123456789abcdef  # which\n\t2  4\t0.2500000000000000000000 "
        "# "
        "hot\n\n0 7 0.#\n#",
        HEAD "002 04 00.25\n00 7 0.0\n",
    };
    for (unsigned i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct expert_hotlist h;
        read_text(texts[i], &h);
        assert_int_equal(h.n, 2);
        assert_true(h.keys[0] == 12 && h.keys[1] == 7);
        assert_true(h.probabilities[0] == 0.25f && h.probabilities[1] == 0.0f);
        expert_hotlist_free(&h);
    }
}

static void bad_lines_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "is not a hotlist"},
        {"\n", "is not a hotlist"},
        {"GGUF\x03", "is not a hotlist"},
        {"sluice-hotlist", "is not a hotlist"},
        {" sluice-hotlist 1\n", "is not a hotlist"},
        {"# first\n" HEAD, "is not a hotlist"},
        {"sluice-hotlist x\n", "line 1: the version"},
        {"sluice-hotlist 1 2\n", "line 1: the version"},
        {"sluice-hotlist 2\nmodel x\n", "version 2; this Sluice reads version 1"},
        {"sluice-hotlist 1\n", "no model was named"},
        {"sluice-hotlist 1", "no model was named"},
        {"sluice-hotlist 1\n0 1 0.5\n", "line 2: the first line"},
        {"sluice-hotlist 1\nmodels 0123456789abcdef\n", "line 2: the first line"},
        {"sluice-hotlist 1\nmodel\n", "line 2: the model's fingerprint is not"},
        {"sluice-hotlist 1\nmodel 123456789abcdef\n", "line 2: the model's fingerprint is not"},
        {"sluice-hotlist 1\nmodel 0123456789abcdeg\n", "line 2: the model's fingerprint is not"},
        {"sluice-hotlist 1\nmodel 00123456789abcdef\n", "line 2: the model's fingerprint is not"},
        {"sluice-hotlist 1\nmodel 0123456789abcdef x\n", "line 2: the model's fingerprint is not"},
        {"sluice-hotlist 1\n\nmodel 0123456789abcdee\n", "line 3: this hotlist belongs to another model"},
        {HEAD "model 0123456789abcdef\n", "line 3: the model is named a second time"},
        {HEAD "\n# x\n0\n", "line 5: is not 'layer expert probability'"},
        {HEAD "zero 1 0.5\n", "line 3: is not 'layer expert probability'"},
        {HEAD "0 -1 0.5\n", "line 3: is not 'layer expert probability'"},
        {HEAD "0 +1 0.5\n", "line 3: is not 'layer expert probability'"},
        {HEAD "0 1.0 0.5\n", "line 3: is not 'layer expert probability'"},
        {HEAD "0 0x1 0.5\n", "line 3: is not 'layer expert probability'"},
        {HEAD "0 4294967297 0.5\n", "line 3: is not 'layer expert probability'"},
        {HEAD "3 1 0.5\n", "line 3: layer 3; the model has 3"},
        {HEAD "999999999 1 0.5\n", "line 3: layer 999999999; the model has 3"},
        {HEAD "0 8 0.5\n", "line 3: expert 8; layer 0 has 8 experts"},
        {HEAD "1 0 0.5\n", "line 3: expert 0; layer 1 has 0 experts"},
        {HEAD "2 5\n", "line 3: expert 5; layer 2 has 5 experts"},
        {HEAD "0 1 0.5\n2 1 0.5\n0 1 0.4\n", "line 5: layer 0, expert 1 is named a second time"},
        {HEAD "0 1 1.0000001\n", "line 3: the probability is not a number from 0 to 1"},
        {HEAD "0 1 2\n", "line 3: the probability"},
        {HEAD "0 1 19.000000000000000000\n", "line 3: the probability"}, /* 19e18 is more than 64 bits */
        {HEAD "0 1 99999999999999999999999\n", "line 3: the probability"},
        {HEAD "0 1 -0.5\n", "line 3: the probability"},
        {HEAD "0 1 0,5\n", "line 3: the probability"},
        {HEAD "0 1 1e-3\n", "line 3: the probability"},
        {HEAD "0 1 nan\n", "line 3: the probability"},
        {HEAD "0 1 .\n", "line 3: the probability"},
        {HEAD "0 1 0.5.5\n", "line 3: the probability"},
        {HEAD "0 1 0.5 0.5\n", "line 3: something follows"},
        {HEAD "0 1 0.5\r\r\n", "line 3: there is a control character"},
        {HEAD "0\v1 0.5\n", "line 3: there is a control character"},
        {HEAD "# \x1b[2J\n", "line 3: there is a control character"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) refused(cases[i].text, cases[i].says);
    refused_bytes(HEAD "0 1 0.5\0 1\n", sizeof HEAD + 10, "line 3: there is a control character");
}

static void lengths_are_bounded(void **state)
{
    (void)state;
    struct expert_hotlist h;
    char line[EXPERT_HOTLIST_LINE_MAX + 8];
    memset(line, 'x', sizeof line);
    line[0] = '#';
    for (unsigned more = 0; more < 4; more++) { /* too long at once, too long without its CR, and much too long */
        char text[1024];
        int n = snprintf(text, sizeof text, HEAD "%.*s\n0 1\n", (int)(EXPERT_HOTLIST_LINE_MAX + more), line);
        if (more) refused_bytes(text, (size_t)n, "line 3: the line is too long");
        if (!more) read_text(text, &h);
        if (!more) assert_int_equal(h.n, 1);
        if (!more) expert_hotlist_free(&h);
        n = snprintf(text, sizeof text, HEAD "%.*s\r\n0 1\r\n", (int)(EXPERT_HOTLIST_LINE_MAX + more), line);
        if (more) refused_bytes(text, (size_t)n, "line 3: the line is too long");
        if (!more) read_text(text, &h);
        if (!more) expert_hotlist_free(&h);
    }
    enum { HUGE = 4 << 20 }; /* endless comments, and one endless line: some other file */
    char *text = malloc(HUGE);
    assert_non_null(text);
    memset(text, 'a', HUGE);
    refused_bytes(text, HUGE, "is not a hotlist");
    memcpy(text, HEAD, strlen(HEAD));
    for (size_t i = strlen(HEAD); i < HUGE; i += 2) memcpy(text + i, "#\n", 2);
    refused_bytes(text, HUGE, "longer than any hotlist");
    free(text);
}

static void absent_and_unreadable(void **state)
{
    (void)state;
    struct expert_hotlist h;
    unlink(path);
    assert_int_equal(read_back(&h), SLUICE_ERR_IO);
    assert_non_null(strstr(err.message, path));
    assert_int_equal(expert_hotlist_read(os_system(), path, catalog, FINGERPRINT, true, &h, &err), SLUICE_OK);
    assert_int_equal(h.n, 0);
    expert_hotlist_free(&h);
    assert_int_equal(mkfifo(path, 0600), 0); /* nobody writes: no hang */
    assert_int_equal(read_back(&h), SLUICE_ERR_USAGE);
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(read_back(&h), SLUICE_ERR_USAGE);
    rmdir(path);

    save(HEAD "0 1 0.5\n", strlen(HEAD "0 1 0.5\n"));
    static struct fault_os f;
    fault_os_init(&f);
    fault_add(&f, (struct fault_rule){.kind = FAULT_ERROR, .error = EINTR});
    fault_add(&f, (struct fault_rule){.kind = FAULT_SHORT, .nth = 2, .count = FAULT_ALWAYS, .bytes = 1});
    assert_int_equal(expert_hotlist_read(&f.calls, path, catalog, FINGERPRINT, false, &h, &err), SLUICE_OK);
    assert_int_equal(h.n, 1);
    expert_hotlist_free(&h);
    fault_clear(&f);
    fault_add(&f, (struct fault_rule){.kind = FAULT_ERROR, .nth = 2, .error = EIO});
    assert_int_equal(expert_hotlist_read(&f.calls, path, catalog, FINGERPRINT, true, &h, &err), SLUICE_ERR_IO);
    assert_null(h.keys);
    f.info_error = EIO;
    assert_int_equal(expert_hotlist_read(&f.calls, path, catalog, FINGERPRINT, true, &h, &err), SLUICE_ERR_IO);
    f.open_error = EACCES;
    assert_int_equal(expert_hotlist_read(&f.calls, path, catalog, FINGERPRINT, true, &h, &err), SLUICE_ERR_IO);
    assert_int_equal(f.n_open, 0);
    fault_os_destroy(&f);
}

static int set_up(void **state)
{
    (void)state;
    uint64_t at = 64;
    struct expert_layer layers[3] = {{0}};
    layers[0] = shape_layer(8, 2, 64, 64, 64, 0, &at);
    layers[2] = shape_layer(5, 2, 32, 32, 32, 0, &at);
    snprintf(path, sizeof path, "/tmp/sluice-hotlist-XXXXXX");
    int fd = mkstemp(path);
    if (fd >= 0) close(fd);
    return fd < 0 || expert_catalog_create(layers, 3, 1, &catalog, &err) != SLUICE_OK;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path);
    expert_catalog_destroy(catalog);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comes_back),          cmocka_unit_test(is_written_so),
        cmocka_unit_test(people_write_freely), cmocka_unit_test(bad_lines_are_named),
        cmocka_unit_test(lengths_are_bounded), cmocka_unit_test(absent_and_unreadable),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
