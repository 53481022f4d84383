/* Learned heat: how it decays, and the file that several runs share. */
#include "base/bits.h"
#include "base/cursor.h"
#include "base/hash.h"
#include "base/math.h"
#include "counting.h"
#include "expert/replace.h"
#include "expert/usage.h"
#include "fault_os.h"
#include "shape.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define FINGERPRINT UINT64_C(0x0123456789abcdef)
#define N_FIRST 8
#define N_KEYS 13
#define IMAGE_BYTES (32 + 3 * 4 + N_KEYS * 4 + 8)
#define TOKENS_AT 24
#define HEAT_AT 44
#define WAIT_MS 60000 /* for a lock that will be free */

static struct expert_catalog *catalog; /* 8 experts, none, 5 */
static char folder[64], path[96], lock_path[128], part_path[128];
static struct sluice_error err;

/* ---- small helpers ---- */

static struct expert_usage *make(void)
{
    struct expert_usage *u;
    assert_int_equal(expert_usage_create(catalog, FINGERPRINT, &u, &err), SLUICE_OK);
    return u;
}

static void select_key(struct expert_usage *u, uint32_t key)
{
    uint32_t layer, expert;
    expert_catalog_unkey(catalog, key, &layer, &expert);
    expert_usage_selected(u, layer, &expert, 1);
}

static enum sluice_status load(struct expert_usage *u)
{
    memset(&err, 0, sizeof err);
    return expert_usage_load(u, os_system(), path, &err);
}

static enum sluice_status save(struct expert_usage *u, uint32_t wait_ms)
{
    memset(&err, 0, sizeof err);
    return expert_usage_save(u, os_system(), path, wait_ms, &err);
}

static void saved(struct expert_usage *u)
{
    if (save(u, WAIT_MS)) fail_msg("%s", err.message);
    assert_false(expert_usage_changed(u));
}

static double heat(const struct expert_usage *u, uint32_t key)
{
    return expert_usage_probability(u, key) * expert_usage_tokens(u);
}

static void assert_near(double got, double want, double relative)
{
    double off = got > want ? got - want : want - got;
    if (!(off <= relative * (want < 0 ? -want : want))) fail_msg("%.17g, not %.17g", got, want);
}

static double decay(double tokens) { return math_pow_d(2.0, -tokens / EXPERT_USAGE_HALF_LIFE); }

static void write_bytes(const void *data, size_t bytes)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, bytes, f), bytes);
    assert_int_equal(fclose(f), 0);
}

static size_t read_bytes(uint8_t data[IMAGE_BYTES + 8])
{
    int fd = open(path, O_RDONLY | O_NONBLOCK); /* it may be a pipe */
    if (fd < 0) return 0;
    ssize_t n = read(fd, data, IMAGE_BYTES + 8);
    close(fd);
    return n > 0 ? (size_t)n : 0;
}

/* The file's numbers, read by this test's own idea of the format. */
static double file_heat(uint32_t key)
{
    uint8_t data[IMAGE_BYTES + 8];
    struct base_cursor c;
    assert_int_equal(read_bytes(data), IMAGE_BYTES);
    base_cursor_init(&c, data + HEAT_AT + 4 * key, 4);
    return base_cursor_f32(&c);
}

static double file_tokens(void)
{
    uint8_t data[IMAGE_BYTES + 8];
    struct base_cursor c;
    assert_int_equal(read_bytes(data), IMAGE_BYTES);
    base_cursor_init(&c, data + TOKENS_AT, 8);
    return base_cursor_f64(&c);
}

/* The same bytes with a right checksum of their own. */
static void seal(uint8_t *data, size_t bytes)
{
    uint64_t sum = base_hash_of(data, bytes - 8, 0);
    for (unsigned i = 0; i < 8; i++) data[bytes - 8 + i] = (uint8_t)(sum >> 8 * i);
}

/* A file of some heat, and its bytes. */
static void some_file(uint8_t data[IMAGE_BYTES + 8])
{
    struct expert_usage *u = make();
    unlink(path);
    for (uint32_t key = 0; key < N_KEYS; key++)
        for (uint32_t i = 0; i <= key; i++) select_key(u, key);
    expert_usage_tick(u, 100);
    saved(u);
    expert_usage_free(u);
    assert_int_equal(read_bytes(data), IMAGE_BYTES);
}

static bool there(const char *name)
{
    struct stat info;
    return lstat(name, &info) == 0;
}

/* Neither load nor save takes this file, and both leave it and the heat alone. */
static void refused(enum sluice_status as, const char *says)
{
    uint8_t before[IMAGE_BYTES + 8] = {0}, after[IMAGE_BYTES + 8] = {0};
    struct expert_usage *u = make();
    const struct {
        const char *what;
        bool saves;
    } ways[] = {{"load", false}, {"save", true}};
    select_key(u, 3);
    expert_usage_tick(u, 1);
    size_t n = read_bytes(before);
    for (unsigned i = 0; i < 2; i++) {
        enum sluice_status status = ways[i].saves ? save(u, WAIT_MS) : load(u);
        if (status != as) fail_msg("%s, '%s': %d, %s", ways[i].what, says, status, err.message);
        if (!strstr(err.message, says)) fail_msg("%s says '%s', not '%s'", ways[i].what, err.message, says);
        assert_non_null(strstr(err.message, path));
        assert_non_null(strstr(err.hint, "--usage"));
        assert_non_null(strstr(err.hint, "--no-usage"));
        assert_true(expert_usage_changed(u));
        assert_true(expert_usage_probability(u, 3) == 1.0 && expert_usage_probability(u, 2) == 0.0);
    }
    assert_int_equal(read_bytes(after), n);
    assert_memory_equal(before, after, n);
    assert_false(there(part_path));
    expert_usage_free(u);
}

/* ---- heat ---- */

static void nothing_is_learned_at_first(void **state)
{
    (void)state;
    struct expert_usage *u = make();
    uint32_t keys[N_KEYS];
    assert_int_equal(load(u), SLUICE_OK);
    assert_false(expert_usage_changed(u));
    assert_true(expert_usage_tokens(u) == 0 && expert_usage_probability(u, 12) == 0);
    assert_int_equal(expert_usage_hottest(u, 1e-300, keys, N_KEYS), 0);
    expert_usage_selected(u, 1, keys, 0);
    expert_usage_tick(u, 0);
    assert_false(expert_usage_changed(u));
    assert_int_equal(save(u, 0), SLUICE_OK); /* nothing to be written */
    assert_false(there(path) || there(lock_path));
    select_key(u, 5); /* a step that is given up: no token */
    assert_true(expert_usage_changed(u) && expert_usage_probability(u, 5) == 0);
    expert_usage_free(u);
    expert_usage_free(NULL);
    assert_true(expert_usage_memory_bytes(catalog) >= IMAGE_BYTES + N_KEYS * 8);
}

/* 10^9 tokens: the sum of the series, not a bit less or more than rounding explains; then nothing is left. */
static void heat_does_not_drift(void **state)
{
    (void)state;
    struct expert_usage *u = make();
    const uint32_t one = 0;
    for (uint32_t step = 0; step < 1000000; step++) {
        expert_usage_selected(u, 0, &one, 1);
        if (step & 1) select_key(u, 9);
        expert_usage_tick(u, 1000);
    }
    const double d = decay(1000), d2 = decay(2000);
    assert_near(expert_usage_tokens(u), 1000 * d / (1 - d), 1e-12);
    assert_near(heat(u, 0), d / (1 - d), 1e-12);
    assert_near(heat(u, 9), d / (1 - d2), 1e-12);
    for (unsigned i = 0; i < 100; i++) {
        expert_usage_tick(u, UINT32_MAX);
        assert_true(expert_usage_tokens(u) >= 0 && expert_usage_tokens(u) < 1);
        assert_true(expert_usage_probability(u, 0) >= 0 && expert_usage_probability(u, 0) <= 1);
    }
    saved(u);
    assert_int_equal(load(u), SLUICE_OK);
    expert_usage_free(u);
}

static void nothing_is_allocated(void **state)
{
    (void)state;
    uint32_t keys[N_KEYS];
    unsigned before = counting_calls;
    struct expert_usage *u = make();
    assert_true(counting_calls > before); /* the counter counts */
    before = counting_calls;
    for (unsigned i = 0; i < 100; i++) {
        for (uint32_t key = 0; key < N_KEYS; key++) select_key(u, key);
        expert_usage_tick(u, 100000);
        assert_int_equal(expert_usage_hottest(u, 1e-6, keys, N_KEYS), N_KEYS);
        if (i % 10 == 0) saved(u);
        if (i % 10 == 5) assert_int_equal(load(u), SLUICE_OK);
    }
    assert_int_equal(counting_calls, before);
    expert_usage_free(u);
}

/* ---- the file ---- */

static void comes_back(void **state)
{
    (void)state;
    uint8_t data[IMAGE_BYTES + 8];
    some_file(data);
    struct base_cursor c;
    base_cursor_init(&c, data, IMAGE_BYTES);
    assert_memory_equal(base_cursor_take(&c, 8), "SLUICUSE", 8);
    assert_int_equal(base_cursor_u32(&c), 1);
    assert_int_equal(base_cursor_u32(&c), 3);
    assert_true(base_cursor_u64(&c) == FINGERPRINT);
    assert_near(base_cursor_f64(&c), 100 * decay(100), 1e-14);
    assert_int_equal(base_cursor_u32(&c), N_FIRST);
    assert_int_equal(base_cursor_u32(&c), 0);
    assert_int_equal(base_cursor_u32(&c), N_KEYS - N_FIRST);
    for (uint32_t key = 0; key < N_KEYS; key++) assert_near(base_cursor_f32(&c), (key + 1) * decay(100), 1e-7);
    assert_true(base_cursor_u64(&c) == base_hash_of(data, IMAGE_BYTES - 8, 0));
    assert_int_equal(base_cursor_left(&c), 0);

    struct expert_usage *u = make();
    expert_usage_tick(u, 5000000); /* what was before does not matter */
    expert_usage_free(u);
    u = make();
    assert_int_equal(load(u), SLUICE_OK);
    assert_false(expert_usage_changed(u));
    assert_true(expert_usage_tokens(u) == file_tokens());
    for (uint32_t key = 0; key < N_KEYS; key++) assert_near(heat(u, key), file_heat(key), 1e-14);
    assert_int_equal(load(u), SLUICE_OK); /* a second time it is not added */
    assert_true(expert_usage_tokens(u) == file_tokens());
    expert_usage_tick(u, 100 * EXPERT_USAGE_HALF_LIFE + 5); /* what the file held decays like the rest */
    assert_near(heat(u, 12), file_heat(12) * decay(100 * EXPERT_USAGE_HALF_LIFE + 5), 1e-12);
    unlink(path); /* forgotten by the user */
    assert_int_equal(load(u), SLUICE_OK);
    assert_true(heat(u, 12) == 0);
    expert_usage_free(u);
}

/* Steps that were given up add heat without tokens; however many they were, the file can be read. */
static void what_is_written_can_be_read(void **state)
{
    (void)state;
    struct expert_usage *u = make();
    for (unsigned i = 0; i < 1000100; i++) select_key(u, 8);
    saved(u);
    assert_int_equal(load(u), SLUICE_OK);
    select_key(u, 8);
    saved(u);
    assert_int_equal(load(u), SLUICE_OK);
    assert_true(file_heat(8) == 1e6);
    expert_usage_free(u);
}

/* What a run has learned, what it saves and what it still knows are one sum; the mode of the file is kept. */
static void a_run_goes_on_after_a_save(void **state)
{
    (void)state;
    uint8_t data[IMAGE_BYTES + 8];
    struct stat info;
    some_file(data);
    assert_int_equal(chmod(path, 0640), 0);
    const double first = file_heat(2), tokens = file_tokens();
    struct expert_usage *u = make();
    expert_usage_tick(u, 7000); /* before it has read the file */
    assert_int_equal(load(u), SLUICE_OK);
    assert_near(expert_usage_tokens(u), tokens + 7000 * decay(7000), 1e-13);
    select_key(u, 2);
    expert_usage_tick(u, 90000);
    assert_near(heat(u, 2), (first + 1) * decay(90000), 1e-13);
    saved(u);
    assert_near(file_heat(2), first * decay(97000) + decay(90000), 1e-6);
    assert_near(heat(u, 2), file_heat(2), 1e-14);
    select_key(u, 2);
    saved(u);
    assert_near(file_heat(2), first * decay(97000) + decay(90000) + 1, 1e-6);
    assert_near(file_tokens(), tokens * decay(97000) + 7000 * decay(97000) + 90000 * decay(90000), 1e-12);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
    expert_usage_free(u);
}

/* Three runs that save in any order are one run in the order of their saves. */
static void runs_that_overlap_are_one_behind_the_other(void **state)
{
    (void)state;
    struct shape_random r = {11};
    struct expert_usage *runs[3] = {make(), make(), make()};
    double want[N_KEYS] = {0}, tokens = 0, added[3][N_KEYS] = {{0}}, added_tokens[3] = {0}, since[3] = {0};
    unlink(path);
    for (unsigned step = 0; step < 600; step++) {
        const uint32_t i = shape_below(&r, 3), key = shape_below(&r, N_KEYS), n = 1 + shape_below(&r, 2000);
        select_key(runs[i], key);
        expert_usage_tick(runs[i], n);
        added[i][key] += 1;
        added_tokens[i] = (added_tokens[i] + n) * decay(n);
        for (uint32_t k = 0; k < N_KEYS; k++) added[i][k] *= decay(n);
        since[i] += n;
        if (shape_below(&r, 4)) continue;
        saved(runs[i]);
        tokens = tokens * decay(since[i]) + added_tokens[i];
        assert_near(file_tokens(), tokens, 1e-9);
        for (uint32_t k = 0; k < N_KEYS; k++) {
            want[k] = want[k] * decay(since[i]) + added[i][k];
            if (want[k] > 1e-3) assert_near(file_heat(k), want[k], 1e-4);
            added[i][k] = 0;
        }
        added_tokens[i] = since[i] = 0;
    }
    for (unsigned i = 0; i < 3; i++) expert_usage_free(runs[i]);
}

static void damage_is_refused(void **state)
{
    (void)state;
    uint8_t data[IMAGE_BYTES + 8];
    some_file(data);
    for (size_t i = 0; i < IMAGE_BYTES; i++)
        for (unsigned bit = 0; bit < 8; bit += 7) {
            data[i] ^= (uint8_t)(1u << bit);
            write_bytes(data, IMAGE_BYTES);
            refused(SLUICE_ERR_USAGE, i < 8 ? "is not a usage file" : i < 12 ? "version" : "damaged");
            data[i] ^= (uint8_t)(1u << bit);
        }
    for (size_t n = 0; n < IMAGE_BYTES; n++) {
        write_bytes(data, n);
        refused(SLUICE_ERR_USAGE, n < 8 ? "is not a usage file" : "damaged");
    }
    for (size_t more = 1; more <= 8; more++) {
        memset(data + IMAGE_BYTES, 0, 8);
        write_bytes(data, IMAGE_BYTES + more);
        refused(SLUICE_ERR_USAGE, "damaged: it has");
    }
    assert_int_equal(truncate(path, (off_t)1 << 40), 0); /* a hole: nobody reads it all */
    refused(SLUICE_ERR_USAGE, "damaged: it has");
}

/* What a right checksum of its own does not excuse. */
static void nonsense_is_refused(void **state)
{
    (void)state;
    static const struct {
        size_t at, bytes;
        uint64_t value;
        const char *says;
    } cases[] = {
        {8, 4, 2, "version 2; this Sluice reads version 1"},    {12, 4, 2, "layers are not the model's"},
        {12, 4, UINT32_MAX, "layers are not the model's"},      {16, 8, FINGERPRINT + 1, "belongs to another model"},
        {TOKENS_AT, 8, 0x7ff8000000000000, "number of tokens"}, /* NaN */
        {TOKENS_AT, 8, 0x7ff0000000000000, "number of tokens"}, /* infinite */
        {TOKENS_AT, 8, 0xbff0000000000000, "number of tokens"}, /* -1 */
        {TOKENS_AT, 8, 0x7fe0000000000000, "number of tokens"}, /* more than any run has */
        {32, 4, N_FIRST - 1, "layers are not the model's"},     {36, 4, 1, "layers are not the model's"},
        {40, 4, UINT32_MAX, "layers are not the model's"},      {HEAT_AT, 4, 0x7fc00000, "layer 0, expert 0"},
        {HEAT_AT + 4 * 7, 4, 0x7f800000, "layer 0, expert 7"},  {HEAT_AT + 4 * 8, 4, 0xbf800000, "layer 2, expert 0"},
        {HEAT_AT + 4 * 12, 4, 0x80000001, "layer 2, expert 4"}, {HEAT_AT + 4 * 12, 4, 0x7f000000, "layer 2, expert 4"},
    };
    uint8_t data[IMAGE_BYTES + 8], bad[IMAGE_BYTES];
    some_file(data);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memcpy(bad, data, IMAGE_BYTES);
        for (size_t k = 0; k < cases[i].bytes; k++) bad[cases[i].at + k] = (uint8_t)(cases[i].value >> 8 * k);
        seal(bad, IMAGE_BYTES);
        write_bytes(bad, IMAGE_BYTES);
        refused(SLUICE_ERR_USAGE, cases[i].says);
    }
    memset(bad, 0, sizeof bad); /* a larger model's, whose length differs too */
    memcpy(bad, data, 16);
    write_bytes(bad, 64);
    refused(SLUICE_ERR_USAGE, "belongs to another model");
    write_bytes("a shopping list, long enough to be something else", 49);
    refused(SLUICE_ERR_USAGE, "is not a usage file");
}

/* ---- several processes ---- */

#define N_PROCESSES 2
#define N_SAVES 20

/* Without cmocka, which is the parent's. */
static int child_saves(uint32_t key)
{
    struct expert_usage *u;
    struct sluice_error e;
    uint32_t layer, expert;
    expert_catalog_unkey(catalog, key, &layer, &expert);
    if (expert_usage_create(catalog, FINGERPRINT, &u, &e)) return 1;
    if (expert_usage_load(u, os_system(), path, &e)) return 2;
    for (unsigned i = 0; i < N_SAVES; i++) {
        for (unsigned k = 0; k < 3; k++) expert_usage_selected(u, layer, &expert, 1);
        expert_usage_tick(u, 5000);
        if (expert_usage_save(u, os_system(), path, WAIT_MS, &e)) return 3;
    }
    expert_usage_free(u);
    return 0;
}

static void processes_lose_nothing(void **state)
{
    (void)state;
    pid_t pids[N_PROCESSES];
    unlink(path);
    for (uint32_t i = 0; i < N_PROCESSES; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0) _exit(child_saves(i * 11));
    }
    for (unsigned i = 0; i < N_PROCESSES; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    double tokens = 0, sum = 0; /* whoever saved when: 40 steps one behind the other */
    for (unsigned i = 0; i < N_PROCESSES * N_SAVES; i++) {
        tokens = (tokens + 5000) * decay(5000);
        sum = (sum + 3) * decay(5000);
    }
    assert_near(file_tokens(), tokens, 1e-12);
    assert_near(file_heat(0) + file_heat(11), sum, 1e-5);
    assert_true(file_heat(0) > 0 && file_heat(11) > 0);
    assert_false(there(part_path));
}

static void a_held_lock_is_not_waited_for_long(void **state)
{
    (void)state;
    uint8_t data[IMAGE_BYTES + 8], after[IMAGE_BYTES + 8];
    some_file(data);
    const double before = file_heat(6), tokens = file_tokens();
    struct expert_usage *u = make();
    int fd = open(lock_path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    for (uint32_t wait_ms = 0; wait_ms <= 20; wait_ms += 10) {
        select_key(u, 6);
        expert_usage_tick(u, 10);
        assert_int_equal(save(u, wait_ms), SLUICE_ERR_IO);
        assert_non_null(strstr(err.message, path));
        assert_non_null(strstr(err.message, "locked"));
        assert_non_null(strstr(err.hint, "--usage"));
        assert_true(expert_usage_changed(u));
        assert_int_equal(read_bytes(after), IMAGE_BYTES);
        assert_memory_equal(data, after, IMAGE_BYTES);
    }
    close(fd);
    saved(u);
    assert_near(file_heat(6), before * decay(30) + decay(30) + decay(20) + decay(10), 1e-6);
    assert_near(file_tokens(), tokens * decay(30) + 10 * (decay(30) + decay(20) + decay(10)), 1e-12);
    expert_usage_free(u);
}

/* It has the lock and half a file, and dies. */
static void a_dead_process_blocks_nobody(void **state)
{
    (void)state;
    uint8_t data[IMAGE_BYTES + 8];
    some_file(data);
    struct expert_usage *u = make();
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        int fd = open(lock_path, O_RDWR), part = open(part_path, O_WRONLY | O_CREAT, 0600);
        if (fd >= 0 && flock(fd, LOCK_EX) == 0 && write(part, data, 20) == 20) kill(getpid(), SIGKILL);
        _exit(1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && there(part_path));
    select_key(u, 1);
    saved(u);
    assert_near(file_heat(1), 2 * decay(100) + 1, 1e-6);
    assert_false(there(part_path));
    unlink(lock_path); /* and somebody who removes it does no harm */
    select_key(u, 1);
    saved(u);
    assert_near(file_heat(1), 2 * decay(100) + 2, 1e-6);
    expert_usage_free(u);
}

/* ---- places where no file can be ---- */

static void strange_paths_are_refused(void **state)
{
    (void)state;
    uint8_t data[IMAGE_BYTES + 8];
    char other[160];
    some_file(data);
    snprintf(other, sizeof other, "%s/other", folder);
    assert_int_equal(rename(path, other), 0);
    assert_int_equal(symlink("other", path), 0); /* to a good file: a rename would replace the link */
    refused(SLUICE_ERR_USAGE, "a symbolic link");
    unlink(other);
    refused(SLUICE_ERR_USAGE, "a symbolic link");
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    refused(SLUICE_ERR_USAGE, "a pipe");
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    refused(SLUICE_ERR_USAGE, "a directory");
    rmdir(path);
}

/* Saving fails, says so, and nothing is lost or left. */
static void fails_to_save(struct expert_usage *u, const char *says)
{
    uint8_t before[IMAGE_BYTES + 8], after[IMAGE_BYTES + 8];
    size_t n = read_bytes(before);
    enum sluice_status status = save(u, WAIT_MS);
    if (status != SLUICE_ERR_IO) fail_msg("'%s': %d, %s", says, status, err.message);
    if (!strstr(err.message, says)) fail_msg("says '%s', not '%s'", err.message, says);
    assert_non_null(strstr(err.message, path));
    assert_non_null(strstr(err.hint, "--no-usage"));
    assert_true(expert_usage_changed(u));
    assert_int_equal(read_bytes(after), n);
    assert_memory_equal(before, after, n);
}

static void strange_files_beside_it(void **state)
{
    (void)state;
    uint8_t data[IMAGE_BYTES + 8];
    some_file(data);
    struct expert_usage *u = make();
    select_key(u, 0);
    unlink(lock_path);
    assert_int_equal(symlink("nowhere", lock_path), 0);
    fails_to_save(u, "locked");
    unlink(lock_path);
    assert_int_equal(mkfifo(lock_path, 0600), 0);
    fails_to_save(u, "locked");
    unlink(lock_path);
    assert_int_equal(mkdir(lock_path, 0700), 0);
    fails_to_save(u, "locked");
    rmdir(lock_path);
    assert_int_equal(mkdir(part_path, 0700), 0);
    fails_to_save(u, "cannot be removed");
    rmdir(part_path);
    saved(u);
    expert_usage_free(u);
}

static void full_and_forbidden_places(void **state)
{
    (void)state;
    uint8_t data[IMAGE_BYTES + 8];
    some_file(data);
    struct expert_usage *u = make();
    select_key(u, 0);
    struct rlimit limit, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small = limit;
    for (rlim_t bytes = 0; bytes < IMAGE_BYTES; bytes += 40) { /* the first write, or the rest of one that was short */
        small.rlim_cur = bytes;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        enum sluice_status status = save(u, WAIT_MS);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        assert_int_equal(status, SLUICE_ERR_IO);
        assert_non_null(strstr(err.message, strerror(EFBIG)));
        assert_non_null(strstr(err.hint, "ulimit"));
        assert_non_null(strstr(err.hint, "--no-usage"));
        assert_false(there(part_path));
        uint8_t after[IMAGE_BYTES + 8];
        assert_int_equal(read_bytes(after), IMAGE_BYTES);
        assert_memory_equal(data, after, IMAGE_BYTES);
    }
    if (geteuid() != 0) {
        assert_int_equal(chmod(path, 0400), 0);
        fails_to_save(u, strerror(EACCES));
        assert_int_equal(chmod(path, 0600), 0);
        assert_int_equal(chmod(folder, 0500), 0);
        fails_to_save(u, strerror(EACCES));
        unlink(lock_path);
        fails_to_save(u, strerror(EACCES));
        assert_int_equal(chmod(folder, 0700), 0);
    }
    saved(u);
    char long_path[6000], good[sizeof path];
    memset(long_path, 'x', sizeof long_path - 1);
    long_path[sizeof long_path - 1] = '\0';
    select_key(u, 0);
    assert_int_equal(expert_usage_save(u, os_system(), long_path, 0, &err), SLUICE_ERR_IO);
    memcpy(good, path, sizeof path);
    snprintf(path, sizeof path, "%s/no/file", folder); /* a folder that is not there: nothing known, but no place */
    assert_int_equal(load(u), SLUICE_OK);
    fails_to_save(u, strerror(ENOENT));
    memcpy(path, good, sizeof path);
    saved(u);
    expert_usage_free(u);
}

static void reading_fails(void **state)
{
    (void)state;
    static struct fault_os f;
    uint8_t data[IMAGE_BYTES + 8];
    some_file(data);
    struct expert_usage *u = make();
    fault_os_init(&f);
    fault_add(&f, (struct fault_rule){.kind = FAULT_ERROR, .error = EINTR});
    fault_add(&f, (struct fault_rule){.kind = FAULT_SHORT, .nth = 2, .count = FAULT_ALWAYS, .bytes = 5});
    assert_int_equal(expert_usage_load(u, &f.calls, path, &err), SLUICE_OK);
    assert_true(expert_usage_tokens(u) == file_tokens());
    const double tokens = expert_usage_tokens(u);
    select_key(u, 0);
    for (unsigned way = 0; way < 4; way++) {
        fault_clear(&f);
        if (way == 0) fault_add(&f, (struct fault_rule){.kind = FAULT_ERROR, .error = EIO, .count = FAULT_ALWAYS});
        if (way == 1) fault_add(&f, (struct fault_rule){.kind = FAULT_SHORT, .bytes = 0, .count = FAULT_ALWAYS});
        f.info_error = way == 2 ? EIO : 0;
        f.open_error = way == 3 ? EMFILE : 0;
        assert_int_equal(expert_usage_load(u, &f.calls, path, &err), SLUICE_ERR_IO);
        assert_non_null(strstr(err.message, path));
        assert_int_equal(expert_usage_save(u, &f.calls, path, WAIT_MS, &err), SLUICE_ERR_IO);
        assert_non_null(strstr(err.hint, "--no-usage"));
        assert_true(expert_usage_tokens(u) == tokens && expert_usage_changed(u));
        assert_int_equal(f.n_open, 0);
    }
    f.open_error = ENOENT; /* it has gone between two looks at it */
    assert_int_equal(expert_usage_load(u, &f.calls, path, &err), SLUICE_OK);
    fault_os_destroy(&f);
    saved(u); /* the lock is free again */
    expert_usage_free(u);
}

static int remove_all(void **state)
{
    (void)state;
    unlink(path);
    unlink(lock_path);
    unlink(part_path);
    return 0;
}

static int set_up(void **state)
{
    (void)state;
    uint64_t at = 64;
    struct expert_layer layers[3] = {{0}};
    layers[0] = shape_layer(N_FIRST, 2, 64, 64, 64, 0, &at);
    layers[2] = shape_layer(N_KEYS - N_FIRST, 2, 32, 32, 32, 0, &at);
    snprintf(folder, sizeof folder, "/tmp/sluice-usage-XXXXXX");
    if (!mkdtemp(folder)) return 1;
    snprintf(path, sizeof path, "%s/m.gguf" EXPERT_USAGE_SUFFIX, folder);
    snprintf(lock_path, sizeof lock_path, "%s" REPLACE_LOCK_SUFFIX, path);
    snprintf(part_path, sizeof part_path, "%s" REPLACE_PART_SUFFIX, path);
    signal(SIGXFSZ, SIG_IGN);
    return expert_catalog_create(layers, 3, 1, &catalog, &err) != SLUICE_OK;
}

static int tear_down(void **state)
{
    remove_all(state);
    expert_catalog_destroy(catalog);
    return rmdir(folder); /* nothing else was left there */
}

#define TEST(f) cmocka_unit_test_setup(f, remove_all)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nothing_is_learned_at_first),
        TEST(heat_does_not_drift),
        TEST(nothing_is_allocated),
        TEST(comes_back),
        TEST(what_is_written_can_be_read),
        TEST(a_run_goes_on_after_a_save),
        TEST(runs_that_overlap_are_one_behind_the_other),
        TEST(damage_is_refused),
        TEST(nonsense_is_refused),
        TEST(processes_lose_nothing),
        TEST(a_held_lock_is_not_waited_for_long),
        TEST(a_dead_process_blocks_nobody),
        TEST(strange_paths_are_refused),
        TEST(strange_files_beside_it),
        TEST(full_and_forbidden_places),
        TEST(reading_fails),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
