/* Prefixes as files: what was written comes back to the bit, damage of every kind is refused, a full disk and a killed
 * process lose only what was not written, the limit holds. */
#include "fault_os.h"
#include "prefix_kit.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define MEMORY ((uint64_t)1 << 20)
#define LIMIT ((uint64_t)64 << 20)
#define TEXT 700u

static char folder[256];
static struct sluice_error err;
static struct fault_os faults;

static void path_in(const char *name, char out[600]) { snprintf(out, 600, "%s/%s", folder, name); }

/* Calls each for every kept file; returns their number, and their bytes on the disk. */
static size_t files(void (*each)(const char *path), uint64_t *bytes)
{
    size_t n = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    if (bytes) *bytes = 0;
    for (struct dirent *e; (e = readdir(d));) {
        char path[600];
        struct stat st;
        path_in(e->d_name, path);
        if (!prefix_file_id(e->d_name, PREFIX_FILE_SUFFIX)) continue;
        assert_int_equal(stat(path, &st), 0);
        n++;
        if (bytes) *bytes += (uint64_t)st.st_blocks * 512;
        if (each) each(path);
    }
    closedir(d);
    return n;
}

static int begin(void **state)
{
    const char *dir = getenv("TMPDIR");
    if (!dir || !dir[0]) dir = access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm"; /* thousands of syncs */
    snprintf(folder, sizeof folder, "%s/sluice-prefix-XXXXXX", dir);
    kit_warnings = 0;
    kit_line[0] = 0;
    fault_os_init(&faults);
    return mkdtemp(folder) ? 0 : 1;
}

static int end(void **state)
{
    char command[300];
    fault_os_destroy(&faults);
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static void open_kit(struct kit *k, bool stateful)
{
    if (kit_open(k, &faults.calls, MEMORY, stateful, folder, LIMIT, &err)) fail_msg("%s", err.message);
}

/* A folder with three texts, of which two share a beginning. */
static void make(int32_t ids[3][TEXT], bool stateful)
{
    struct kit k = {0};
    for (int i = 0; i < 3; i++) kit_text(ids[i], TEXT, (uint64_t)i);
    memcpy(ids[1], ids[0], 300 * sizeof *ids[0]);
    open_kit(&k, stateful);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(kit_keep(&k, ids[i], 300), 300);
        assert_int_equal(kit_keep(&k, ids[i], TEXT), TEXT);
    }
    kit_close(&k);
}

static void test_again(void **state)
{
    for (int stateful = 0; stateful < 2; stateful++) {
        int32_t ids[3][TEXT];
        struct kit k = {0};
        uint64_t bytes;
        make(ids, stateful);
        const size_t n = files(NULL, &bytes);
        assert_int_equal(n, stateful ? 9 + 5 + 9 : 7 + 4 + 7);
        open_kit(&k, stateful);
        assert_int_equal(k.store.disk->bytes, bytes);
        assert_int_equal(prefix_tree_memory_bytes(&k.store.tree), 0);
        assert_true(k.store.disk->read_bytes == 0);
        for (int i = 0; i < 3; i++) assert_int_equal(kit_reuse(&k, ids[i], TEXT), TEXT);
        assert_int_equal(kit_reuse(&k, ids[2], 299), stateful ? 0 : 299);
        ids[2][400]++;
        assert_int_equal(kit_reuse(&k, ids[2], TEXT), stateful ? 300 : 400);
        assert_int_equal(kit_keep(&k, ids[2], TEXT), TEXT);
        kit_close(&k);
        open_kit(&k, stateful);
        assert_int_equal(kit_reuse(&k, ids[2], TEXT), TEXT);
        ids[2][400]--;
        assert_int_equal(kit_reuse(&k, ids[2], TEXT), TEXT);
        assert_int_equal(k.store.disk->refused, 0);
        kit_close(&k);
        assert_int_equal(kit_warnings, 0);
        end(NULL);
        begin(NULL);
    }
}

/* ---- damage ---- */

static long damage_at; /* byte; < 0: cut to -damage_at - 1 bytes */
static int n_damaged;

static void damage(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    if (damage_at < 0) {
        assert_int_equal(truncate(path, -damage_at - 1 < st.st_size ? -damage_at - 1 : st.st_size - 1), 0);
    } else {
        FILE *f = fopen(path, "r+b");
        const long at = damage_at < st.st_size ? damage_at : st.st_size - 1;
        assert_non_null(f);
        fseek(f, at, SEEK_SET);
        const int c = fgetc(f);
        fseek(f, at, SEEK_SET);
        fputc(c ^ 0x10, f);
        fclose(f);
    }
    n_damaged++;
}

/* One file with one text: every byte of its header, some of its payload, some lengths. */
static void test_damage(void **state)
{
    int32_t ids[20];
    const long header = (long)prefix_header_bytes(20), all = header + 20 * (long)KIT_TOKEN_BYTES;
    kit_text(ids, 20, 5);
    for (long at = -all; at < all; at += at < -header ? 397 : at < 0 ? 13 : at < header ? 1 : 401) {
        struct kit k = {0};
        open_kit(&k, false);
        assert_int_equal(kit_keep(&k, ids, 20), 20);
        kit_close(&k);
        damage_at = at;
        assert_int_equal(files(damage, NULL), 1);
        kit_warnings = 0;
        open_kit(&k, false);
        assert_int_equal(kit_reuse(&k, ids, 20), 0); /* kit_reuse checks bytes itself */
        assert_int_equal(k.store.disk->refused, 1);
        assert_true(kit_warnings >= 1 || strstr(kit_line, "other models")); /* a changed fingerprint is a foreign one */
        const bool gone = files(NULL, NULL) == 0;
        assert_true(gone || strstr(kit_line, "version") || strstr(kit_line, "other models"));
        assert_int_equal(kit_keep(&k, ids, 20), 20); /* and it is kept again */
        assert_int_equal(kit_reuse(&k, ids, 20), 20);
        kit_close(&k);
        end(NULL);
        begin(NULL);
    }
}

static int which;

static void damage_one(const char *path)
{
    if (which-- == 0) damage(path);
}

/* One of many is damaged: the others serve on, what hung below it goes, and nothing of it comes back wrong. */
static void test_damage_of_many(void **state)
{
    for (int i = 0; i < 6; i++) {
        for (int late = 0; late < 2; late++) {
            int32_t ids[3][TEXT];
            struct kit k = {0};
            const bool stateful = i % 2;
            make(ids, stateful);
            damage_at = i % 3 == 0 ? -100 : i % 3 == 1 ? 50 : 2000;
            which = i * 3;
            if (!late) files(damage_one, NULL);
            open_kit(&k, stateful);
            if (late) files(damage_one, NULL); /* after its header was read */
            size_t sum = 0;
            for (int t = 0; t < 3; t++) sum += kit_reuse(&k, ids[t], TEXT);
            assert_true(sum < 3 * TEXT);
            assert_true(k.store.disk->refused > 0);
            for (int t = 0; t < 3; t++) assert_int_equal(kit_keep(&k, ids[t], TEXT), TEXT);
            kit_close(&k);
            open_kit(&k, stateful);
            for (int t = 0; t < 3; t++) assert_int_equal(kit_reuse(&k, ids[t], TEXT), TEXT);
            assert_int_equal(k.store.disk->refused, 0);
            kit_close(&k);
            end(NULL);
            begin(NULL);
        }
    }
}

/* Of another model, another KV type, another layout: not used, not removed while there is room, and counted. */
static void test_foreign(void **state)
{
    int32_t ids[3][TEXT];
    make(ids, false);
    const size_t n = files(NULL, NULL);
    for (int i = 0; i < 3; i++) {
        struct kit k = {.owner = {.fingerprint = 11 + (i == 0), .shape = 22 + (i == 1), .kv_type = 1 + (i == 2)}};
        open_kit(&k, false);
        assert_int_equal(kit_reuse(&k, ids[0], TEXT), 0);
        assert_int_equal(k.store.disk->refused, n);
        assert_non_null(strstr(kit_line, "other models"));
        assert_int_equal(kit_warnings, 0);
        kit_close(&k);
        assert_int_equal(files(NULL, NULL), n);
        /* They share the folder's limit, and the older ones leave first. */
        int32_t own[TEXT];
        kit_text(own, TEXT, 77 + (uint64_t)i);
        uint64_t bytes;
        files(NULL, &bytes);
        if (kit_open(&k, &faults.calls, MEMORY, false, folder, bytes, &err)) fail_msg("%s", err.message);
        assert_int_equal(kit_keep(&k, own, TEXT), TEXT);
        prefix_disk_drain(k.store.disk);
        assert_true(files(NULL, &bytes) <= n);
        assert_int_equal(bytes, k.store.disk->bytes);
        kit_close(&k);
        open_kit(&k, false);
        assert_int_equal(kit_reuse(&k, own, TEXT), TEXT);
        kit_close(&k);
        end(NULL);
        begin(NULL);
        make(ids, false);
    }
}

/* Names that look like those of kept prefixes, with the largest numbers there are: ids go on from where they were. */
static void test_odd_names(void **state)
{
    static const char *const names[] = {"ffffffffffffffff.sluice-kv", "fffffffffffffffe.sluice-kv",
                                        "7fffffffffffffff.sluice-kv"};
    int32_t ids[TEXT];
    struct kit k = {0};
    kit_text(ids, TEXT, 3);
    for (size_t i = 0; i < 3; i++) {
        char path[600];
        path_in(names[i], path);
        FILE *f = fopen(path, "wb");
        assert_non_null(f);
        fputs("SLUICEKV, or not", f);
        fclose(f);
    }
    for (size_t n = 300; n <= TEXT; n += TEXT - 300) {
        open_kit(&k, false);
        assert_int_equal(kit_keep(&k, ids, n), n);
        kit_close(&k);
        open_kit(&k, false);
        assert_int_equal(k.store.disk->refused, 0);
        assert_int_equal(kit_reuse(&k, ids, TEXT), n);
        kit_close(&k);
    }
}

/* ---- limits ---- */

static void test_limit(void **state)
{
    for (uint64_t limit = 4096; limit < 40 * 4096; limit += 3 * 4096 + 100) {
        struct kit k = {0};
        int32_t ids[TEXT];
        uint64_t bytes;
        if (kit_open(&k, &faults.calls, MEMORY, limit % 3 == 0, folder, limit, &err)) fail_msg("%s", err.message);
        for (uint64_t i = 0; i < 12; i++) {
            kit_text(ids, TEXT, i);
            kit_keep(&k, ids, 100 + (size_t)i * 50);
            prefix_disk_drain(k.store.disk);
            files(NULL, &bytes);
            assert_true(bytes <= limit);
            assert_int_equal(bytes, k.store.disk->bytes);
            prefix_tree_check(&k.store.tree);
        }
        kit_close(&k);
        /* A smaller limit holds from the start on. */
        if (kit_open(&k, &faults.calls, MEMORY, limit % 3 == 0, folder, limit / 2, &err)) fail_msg("%s", err.message);
        files(NULL, &bytes);
        assert_true(bytes <= limit / 2);
        kit_close(&k);
        end(NULL);
        begin(NULL);
    }
}

/* Less memory than is on the disk: everything comes back all the same. */
static void test_small_memory(void **state)
{
    struct kit k = {0};
    static int32_t ids[20][TEXT];
    for (uint64_t i = 0; i < 20; i++) kit_text(ids[i], TEXT, i);
    if (kit_open(&k, &faults.calls, 400000, true, folder, LIMIT, &err)) fail_msg("%s", err.message);
    for (int i = 0; i < 20; i++) {
        size_t n = 0;
        for (int more = 0; more < 50 && n < TEXT; more++) { /* what has been written makes room */
            n = kit_keep(&k, ids[i], TEXT);
            prefix_disk_drain(k.store.disk);
            prefix_tree_check(&k.store.tree);
        }
        assert_int_equal(n, TEXT);
    }
    size_t whole = 0;
    for (int i = 0; i < 20; i++) whole += kit_reuse(&k, ids[i], TEXT) == TEXT;
    assert_true(whole >= 7 && whole < 20); /* as many as the index has items for */
    kit_close(&k);
}

/* ---- faults ---- */

static void test_errors(void **state)
{
    static int *const errors[] = {&faults.write_error, &faults.sync_error, &faults.rename_error, &faults.create_error};
    for (size_t i = 0; i < 4; i++) {
        for (unsigned good = 0; good < 12; good += 5) {
            struct kit k = {0};
            int32_t ids[TEXT];
            kit_text(ids, TEXT, 9);
            open_kit(&k, false);
            assert_int_equal(kit_keep(&k, ids, 300), 300);
            prefix_disk_drain(k.store.disk);
            const size_t before = files(NULL, NULL);
            faults.writes_good = faults.n_writes + good;
            *errors[i] = i == 0 ? ENOSPC : EIO;
            kit_warnings = 0;
            assert_int_equal(kit_keep(&k, ids, TEXT), TEXT);
            prefix_disk_drain(k.store.disk);
            assert_int_equal(kit_warnings, 1);
            assert_non_null(strstr(kit_line, i == 0 ? "No space left" : "Input/output error"));
            for (int again = 0; again < 3; again++) { /* tried again later, said once */
                fault_skip_time(&faults, PREFIX_RETRY_NS + 1);
                prefix_disk_drain(k.store.disk);
            }
            assert_int_equal(kit_warnings, 1);
            assert_int_equal(kit_reuse(&k, ids, TEXT), TEXT); /* from memory */
            *errors[i] = 0;
            fault_skip_time(&faults, PREFIX_RETRY_NS + 1);
            prefix_disk_drain(k.store.disk);
            assert_true(files(NULL, NULL) > before);
            kit_close(&k);
            open_kit(&k, false);
            assert_int_equal(kit_reuse(&k, ids, TEXT), TEXT);
            assert_int_equal(k.store.disk->refused, 0);
            /* Reads that fail: computed again. */
            kit_close(&k);
            open_kit(&k, false);
            fault_add(&faults, (struct fault_rule){.kind = FAULT_ERROR, .error = EIO, .nth = 5, .count = 1});
            assert_true(kit_reuse(&k, ids, TEXT) < TEXT);
            assert_int_equal(k.store.disk->refused, 1);
            fault_clear(&faults);
            kit_close(&k);
            end(NULL);
            begin(NULL);
        }
    }
    assert_int_equal(faults.n_open, 0);
}

/* Who comes second reads. */
static void test_two(void **state)
{
    struct kit a = {0}, b = {0};
    int32_t ids[3][TEXT], own[TEXT];
    make(ids, false);
    const size_t n = files(NULL, NULL);
    kit_text(own, TEXT, 99);
    open_kit(&a, false);
    open_kit(&b, false);
    assert_int_equal(kit_warnings, 1);
    assert_non_null(strstr(kit_line, "another process"));
    assert_int_equal(kit_reuse(&b, ids[0], TEXT), TEXT);
    assert_int_equal(kit_keep(&b, own, TEXT), TEXT);
    assert_int_equal(kit_reuse(&b, own, TEXT), TEXT);
    kit_close(&b);
    assert_int_equal(files(NULL, NULL), n);
    open_kit(&b, false);
    while (a.store.tree.n_heap[PREFIX_DISK]) prefix_disk_evict(a.store.disk, false); /* under its eyes */
    prefix_disk_drain(a.store.disk);
    assert_int_equal(files(NULL, NULL), 0);
    kit_warnings = 0;
    assert_int_equal(kit_reuse(&b, ids[0], TEXT), 0);
    assert_int_equal(kit_warnings, 0);
    kit_close(&b);
    kit_close(&a);
    open_kit(&b, false);
    assert_true(b.store.disk->lock >= 0);
    kit_close(&b);
}

/* ---- killed ---- */

static void child_of(unsigned round)
{
    struct kit k = {0};
    int32_t ids[TEXT];
    if (kit_open(&k, os_system(), MEMORY, round % 2, folder, 60 * 4096, &err)) _exit(1);
    for (uint64_t i = 0;; i++) {
        const uint64_t seed = round % 2 * 100 + i % 30;
        kit_text(ids, TEXT, seed);
        const size_t n = 100 + seed * 17 % 600;
        kit_reuse(&k, ids, n); /* checks every byte */
        kit_keep(&k, ids, n);
    }
}

/* Killed at any moment: the folder opens, and what is in it is right. SLUICE_KILLS: how often. */
static void test_killed(void **state)
{
    const unsigned kills = getenv("SLUICE_KILLS") ? (unsigned)atoi(getenv("SLUICE_KILLS")) : 30;
    unsigned long kept = 0;
    for (unsigned round = 0; round < kills; round++) {
        fflush(NULL);
        const pid_t pid = fork();
        assert_true(pid >= 0);
        if (!pid) child_of(round);
        nanosleep(&(struct timespec){.tv_nsec = 1000000 + round * 1237 % 40 * 700000}, NULL);
        kill(pid, SIGKILL);
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status)); /* it has not found anything wrong */
        struct kit k = {0};
        kit_warnings = 0;
        if (kit_open(&k, os_system(), MEMORY, round % 2, folder, 60 * 4096, &err)) fail_msg("%s", err.message);
        int32_t ids[TEXT];
        for (uint64_t i = 0; i < 30; i++) {
            kit_text(ids, TEXT, round % 2 * 100 + i);
            kept += kit_reuse(&k, ids, TEXT) > 0;
        }
        assert_int_equal(kit_warnings, 0);
        kit_close(&k);
    }
    assert_true(kept > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_again, begin, end),
        cmocka_unit_test_setup_teardown(test_damage, begin, end),
        cmocka_unit_test_setup_teardown(test_damage_of_many, begin, end),
        cmocka_unit_test_setup_teardown(test_foreign, begin, end),
        cmocka_unit_test_setup_teardown(test_odd_names, begin, end),
        cmocka_unit_test_setup_teardown(test_limit, begin, end),
        cmocka_unit_test_setup_teardown(test_small_memory, begin, end),
        cmocka_unit_test_setup_teardown(test_errors, begin, end),
        cmocka_unit_test_setup_teardown(test_two, begin, end),
        cmocka_unit_test_setup_teardown(test_killed, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
