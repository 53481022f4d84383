/* `pack` reads back what it wrote: whatever a disk may give back in its place is refused, leaves no file under the
 * name, and is told with the file and the place in it. */
#include "cli/options.h"
#include "cli/pack.h"
#include "fault_os.h"
#include "gguf/gguf.h"
#include "sluice.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define SAID_MAX 4000
#define TENSORS_MAX 200
#define IO_EXIT 5

struct place {
    char name[GGUF_NAME_BYTES_MAX + 1];
    uint64_t offset;
};

static char folder[32], model[400], packed[64], part[80], sums[80], said[SAID_MAX];
static struct cli_options options;
static struct fault_os fault;
static uint8_t *good; /* the packed file */
static size_t good_bytes;
static struct place places[TENSORS_MAX]; /* its tensors */
static size_t n_places;
/* The reads of a run without faults: IN from 0 on, OUT's header from `header` on, its data from `data` to the end. */
static struct fault_read reads[512];
static unsigned header, data, n_reads;

void sluice_cancel(sluice_engine *e) { (void)e; } /* no engine runs here; Ctrl-C would stop one */

static char *no_environment(const char *name)
{
    (void)name;
    return NULL;
}

static int close_said(int saved, FILE *f)
{
    fflush(stderr);
    rewind(f);
    said[fread(said, 1, SAID_MAX - 1, f)] = '\0';
    dup2(saved, STDERR_FILENO);
    close(saved);
    return fclose(f);
}

static int pack(void)
{
    FILE *f = tmpfile();
    fflush(stderr);
    int saved = dup(STDERR_FILENO);
    assert_true(f && saved >= 0 && dup2(fileno(f), STDERR_FILENO) >= 0);
    int code = pack_run(&fault.calls, &options);
    close_said(saved, f);
    return code;
}

/* With one fault; rule.nth counts from the run's first read. */
static int pack_with(struct fault_rule rule)
{
    fault_os_init(&fault);
    fault_add(&fault, rule);
    int code = pack();
    fault_os_destroy(&fault);
    return code;
}

static bool exists(const char *path) { return access(path, F_OK) == 0; }

static void assert_said(const char *what)
{
    if (!strstr(said, what)) fail_msg("'%s' is not in: %s", what, said);
}

static void assert_good(void)
{
    struct stat info;
    assert_int_equal(stat(packed, &info), 0);
    assert_int_equal(info.st_size, good_bytes);
    uint8_t *now = malloc(good_bytes);
    FILE *f = fopen(packed, "re");
    assert_true(now && f);
    assert_int_equal(fread(now, 1, good_bytes, f), good_bytes);
    fclose(f);
    assert_memory_equal(now, good, good_bytes);
    free(now);
    assert_true(exists(sums) && !exists(part));
}

/* Nothing has a final name; and the next run, on a disk that is well again, goes on with what there is. */
static void assert_refused(void)
{
    assert_said(part);
    assert_true(!exists(packed) && !exists(sums));
    fault_os_init(&fault);
    assert_int_equal(pack(), 0);
    fault_os_destroy(&fault);
    assert_good();
    unlink(packed);
    unlink(sums);
}

static void look_at_packed(void)
{
    struct gguf *g;
    struct sluice_error err;
    struct stat info;
    assert_int_equal(stat(packed, &info), 0);
    good_bytes = (size_t)info.st_size;
    good = malloc(good_bytes);
    FILE *f = fopen(packed, "re");
    assert_true(good && f);
    assert_int_equal(fread(good, 1, good_bytes, f), good_bytes);
    fclose(f);
    assert_int_equal(gguf_open(os_system(), packed, &g, &err), SLUICE_OK);
    n_places = gguf_n_tensors(g);
    assert_in_range(n_places, 1, TENSORS_MAX);
    for (size_t i = 0; i < n_places; i++) {
        snprintf(places[i].name, sizeof places[i].name, "%s", gguf_tensor(g, i)->name);
        places[i].offset = gguf_tensor(g, i)->offset;
    }
    gguf_close(g);
}

static bool is_in(const struct fault_read *r, uint64_t offset)
{
    return r->offset <= offset && offset < r->offset + r->bytes;
}

static int setup(void **state)
{
    (void)state;
    struct sluice_error err = {0};
    strcpy(folder, "/tmp/sluice-pack-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    snprintf(model, sizeof model, "%s/tests/golden/arch/qwen3moe-moe.gguf", getenv("SLUICE_SOURCE"));
    snprintf(packed, sizeof packed, "%s/packed.gguf", folder);
    snprintf(part, sizeof part, "%s.part", packed);
    snprintf(sums, sizeof sums, "%s.sluice-sums", packed);
    static char program[] = "sluice", command[] = "pack";
    char *argv[] = {program, command, model, packed, NULL};
    if (cli_parse(4, argv, no_environment, &options, &err)) return -1;
    fault_os_init(&fault);
    int code = pack();
    n_reads = fault_reads(&fault);
    if (code == 0 && n_reads <= sizeof reads / sizeof *reads) memcpy(reads, fault.reads, n_reads * sizeof *reads);
    fault_os_destroy(&fault);
    if (code) fprintf(stderr, "%s", said);
    if (code || n_reads > sizeof reads / sizeof *reads) return -1;
    look_at_packed();
    for (unsigned i = 0; i < n_reads; i++)
        if (reads[i].offset == 0) header = i;
    for (data = header + 1; data < n_reads && !is_in(&reads[data], places[0].offset);) data++;
    unlink(packed);
    unlink(sums);
    return header > 0 && data < n_reads ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    free(good);
    return rmdir(folder);
}

static void test_a_flipped_bit_in_a_tensor(void **state)
{
    (void)state;
    if (!fault_uring_works()) skip(); /* worker threads begin reads in any order: which one is to be spoilt? */
    for (size_t i = 0; i < n_places; i += i + 1 < n_places && i + 9 >= n_places ? 1 : 9) {
        unsigned at = data;
        while (at < n_reads && !is_in(&reads[at], places[i].offset)) at++;
        assert_true(at < n_reads);
        assert_int_equal(pack_with((struct fault_rule){.kind = FAULT_FLIP,
                                                       .nth = at + 1,
                                                       .bytes = (size_t)(places[i].offset - reads[at].offset)}),
                         IO_EXIT);
        char place[32];
        snprintf(place, sizeof place, "at byte %llu)", (unsigned long long)places[i].offset);
        assert_said("reads back with other bytes");
        assert_said(places[i].name);
        assert_said(place);
        assert_refused();
    }
}

/* Any bit of any read, also of the header, of padding and of IN (which has no checksums here, so its data is left
 * out): refused, or it did not matter. */
static void test_a_flipped_bit_anywhere(void **state)
{
    unsigned n_refused = 0;
    (void)state;
    for (unsigned at = header; at < n_reads; at++)
        for (size_t byte = at % 3; byte < reads[at].bytes; byte += reads[at].bytes / 5 + 1) {
            int code = pack_with((struct fault_rule){.kind = FAULT_FLIP, .nth = at + 1, .bytes = byte});
            if (code == 0) {
                assert_good();
            } else {
                n_refused++;
                assert_said(part);
                assert_true(!exists(packed) && !exists(sums));
            }
            unlink(packed);
            unlink(sums);
            unlink(part);
        }
    assert_true(n_refused > 0);
}

static void test_read_errors(void **state)
{
    (void)state;
    for (unsigned at = header; at < n_reads; at++) {
        assert_int_equal(
            pack_with((struct fault_rule){.kind = FAULT_ERROR, .nth = at + 1, .count = FAULT_ALWAYS, .error = EIO}),
            IO_EXIT);
        assert_said(strerror(EIO));
        if (at >= data) assert_said("at byte ");
        assert_refused();
    }
}

static void test_short_reads(void **state)
{
    (void)state;
    for (unsigned at = data; at < n_reads; at++) {
        /* One is gone on with. */
        assert_int_equal(pack_with((struct fault_rule){.kind = FAULT_SHORT, .nth = at + 1, .bytes = 4096}), 0);
        assert_good();
        unlink(packed);
        unlink(sums);
        /* Nothing more comes. */
        assert_int_equal(pack_with((struct fault_rule){.kind = FAULT_SHORT, .nth = at + 1, .count = FAULT_ALWAYS}),
                         IO_EXIT);
        assert_said("ended at byte ");
        assert_refused();
    }
}

static void test_the_file_is_cut_meanwhile(void **state)
{
    (void)state;
    assert_int_equal(
        pack_with((struct fault_rule){.kind = FAULT_CUT, .nth = data + 1, .bytes = good_bytes / 2, .path = part}),
        IO_EXIT);
    assert_said("ended at byte ");
    assert_refused();
}

/* The bytes themselves are wrong on the disk: the next run compares before it goes on, and writes what differs. */
static void test_the_next_run_trusts_nothing(void **state)
{
    (void)state;
    assert_int_equal(pack_with((struct fault_rule){.kind = FAULT_ERROR, .nth = n_reads, .error = EIO}), IO_EXIT);
    int fd = open(part, O_RDWR | O_CLOEXEC);
    uint8_t byte;
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, (off_t)places[n_places - 1].offset), 1);
    byte ^= 0x40;
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)places[n_places - 1].offset), 1);
    close(fd);
    assert_refused();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_flipped_bit_in_a_tensor),
        cmocka_unit_test(test_a_flipped_bit_anywhere),
        cmocka_unit_test(test_read_errors),
        cmocka_unit_test(test_short_reads),
        cmocka_unit_test(test_the_file_is_cut_meanwhile),
        cmocka_unit_test(test_the_next_run_trusts_nothing),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
