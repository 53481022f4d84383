/* Everything that a read can come back with: short, interrupted, refused, failed, cut. */
#include "rig.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define FILE_BYTES ((size_t)300000)

/* One request over the whole file with a rule in force; gives the report. */
static struct io_done read_with(struct rig *r, enum io_backend backend, bool buffered, struct fault_rule rule)
{
    struct io_config config = rig_config(r, backend);
    config.buffered = buffered;
    rig_open(r, &config);
    fault_clear(&r->fault);
    fault_add(&r->fault, rule);
    memset(r->memory, 0, r->memory_bytes);
    static struct io_request q;
    q = rig_request(r, 0, FILE_BYTES, IO_DEMAND, 0);
    return rig_read(r, &q);
}

typedef void (*check)(struct rig *r, enum io_backend backend, bool buffered);

static void each(check one)
{
    enum io_backend backends[3];
    unsigned n = rig_backends(backends);
    for (unsigned i = 0; i < n; i++)
        for (unsigned buffered = 0; buffered <= 1; buffered++) {
            struct rig r;
            rig_init(&r, FILE_BYTES, FILE_BYTES + 65536);
            one(&r, backends[i], buffered);
            rig_end(&r);
        }
}

static void check_short(struct rig *r, enum io_backend backend, bool buffered)
{
    size_t sizes[] = {8192, 5000, 4097, 1000};
    for (unsigned i = 0; i < 4; i++) {
        /* Below the alignment every second attempt is whole, or nothing would ever move. */
        struct fault_rule rule = {.kind = FAULT_SHORT, .count = sizes[i] < 4096 ? 5 : FAULT_ALWAYS, .bytes = sizes[i]};
        struct io_done done = read_with(r, backend, buffered, rule);
        assert_int_equal(done.status, SLUICE_OK);
        assert_true(test_file_matches(r->memory, 0, FILE_BYTES));
        struct io_stats s;
        io_stats(r->io, &s);
        assert_true(s.short_reads > 0);
        assert_false(rig_logged(r, "at the first read")); /* the rest was asked for at an aligned place */
        rig_close(r);
    }
}

static void test_short(void **state) { each(check_short); }

static void check_interrupted(struct rig *r, enum io_backend backend, bool buffered)
{
    int errors[] = {EINTR, EAGAIN};
    for (unsigned i = 0; i < 2; i++) {
        struct fault_rule rule = {.kind = FAULT_ERROR, .nth = 2, .count = 3, .error = errors[i]};
        assert_int_equal(read_with(r, backend, buffered, rule).status, SLUICE_OK);
        assert_true(test_file_matches(r->memory, 0, FILE_BYTES));
        struct io_stats s;
        io_stats(r->io, &s);
        assert_int_equal(s.retries, 3);
        rig_close(r);
    }
    /* For ever: there is a limit. */
    struct fault_rule rule = {.kind = FAULT_ERROR, .count = FAULT_ALWAYS, .error = EINTR};
    struct io_done done = read_with(r, backend, buffered, rule);
    assert_int_equal(done.status, SLUICE_ERR_IO);
    assert_int_equal(done.error, EINTR);
    rig_close(r);
}

static void test_interrupted(void **state) { each(check_interrupted); }

/* EAGAIN without end: pauses grow, and the limit ends it. */
static void test_again_for_ever(void **state)
{
    enum io_backend backends[3];
    unsigned n = rig_backends(backends);
    struct rig r;
    rig_init(&r, FILE_BYTES, FILE_BYTES + 65536);
    struct fault_rule rule = {.kind = FAULT_ERROR, .count = FAULT_ALWAYS, .error = EAGAIN};
    struct io_done done = read_with(&r, backends[n - 1], false, rule);
    assert_int_equal(done.status, SLUICE_ERR_IO);
    assert_int_equal(done.error, EAGAIN);
    rig_end(&r);
}

static void check_failed(struct rig *r, enum io_backend backend, bool buffered)
{
    struct fault_rule rule = {.kind = FAULT_ERROR, .nth = 5, .error = EIO};
    struct io_done done = read_with(r, backend, buffered, rule);
    assert_int_equal(done.status, SLUICE_ERR_IO);
    assert_int_equal(done.error, EIO);
    assert_false(done.stuck);
    struct sluice_error err = {0};
    assert_int_equal(io_explain(r->io, &done, &err), SLUICE_ERR_IO);
    assert_non_null(strstr(err.message, r->file.path));
    assert_non_null(strstr(err.message, "Input/output error"));
    assert_null(strstr(err.message, "; "));
    assert_true(strlen(err.hint) > 0);
    /* The failure is over with its request. */
    struct io_request q = rig_request(r, 0, FILE_BYTES, IO_DEMAND, 0);
    assert_int_equal(rig_read(r, &q).status, SLUICE_OK);
    fault_add(&r->fault, (struct fault_rule){.kind = FAULT_ERROR, .error = EIO});
    assert_int_equal(io_read_now(r->io, r->index, 1, r->memory, 100, &err), SLUICE_ERR_IO);
    assert_int_equal(io_read_now(r->io, r->index, 1, r->memory, 100, &err), SLUICE_OK);
    assert_true(test_file_matches(r->memory, 1, 100));
}

static void test_failed(void **state) { each(check_failed); }

/* Several requests, one of which fails: the others are whole. */
static void check_neighbours(struct rig *r, enum io_backend backend, bool buffered)
{
    struct io_config config = rig_config(r, backend);
    config.buffered = buffered;
    rig_open(r, &config);
    fault_add(&r->fault, (struct fault_rule){.kind = FAULT_ERROR, .nth = 4, .error = EIO});
    struct io_request q[8], *list[8];
    for (unsigned i = 0; i < 8; i++) {
        q[i] = rig_request(r, i * 32768, 32768, IO_GUESS, i * 32768);
        q[i].tag = i;
        list[i] = &q[i];
    }
    assert_int_equal(io_submit(r->io, list, 8, NULL), SLUICE_OK);
    unsigned failed = 0, n = 0;
    while (io_outstanding(r->io) > 0) {
        struct io_done done;
        assert_int_equal(io_poll(r->io, &done, 1, true), 1);
        n++;
        if (done.status != SLUICE_OK)
            failed++;
        else
            assert_true(test_file_matches(done.request->dst, done.request->offset, 32768));
    }
    assert_int_equal(n, 8);
    assert_int_equal(failed, 1);
}

static void test_neighbours(void **state) { each(check_neighbours); }

static void check_cut(struct rig *r, enum io_backend backend, bool buffered)
{
    /* At a place that no alignment knows, and at one that every alignment knows. */
    size_t cuts[] = {100001, 131072};
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(truncate(r->file.path, 0), 0);
        test_file_remove(&r->file);
        assert_true(test_file_make(&r->file, FILE_BYTES));
        struct fault_rule rule = {.kind = FAULT_CUT, .nth = 2, .bytes = cuts[i], .path = r->file.path};
        struct io_done done = read_with(r, backend, buffered, rule);
        assert_int_equal(done.status, SLUICE_ERR_IO);
        assert_int_equal(done.error, 0);
        struct sluice_error err = {0};
        io_explain(r->io, &done, &err);
        char expected[64];
        snprintf(expected, sizeof expected, "it had %zu bytes when it was opened and has %zu now", FILE_BYTES, cuts[i]);
        assert_non_null(strstr(err.message, "truncated or changed while reading"));
        assert_non_null(strstr(err.message, expected));
        /* What is still there can be read, what is not cannot, and both are told. */
        struct io_request q = rig_request(r, 0, 50000, IO_DEMAND, 0);
        assert_int_equal(rig_read(r, &q).status, SLUICE_OK);
        q = rig_request(r, cuts[i] - 1000, 2000, IO_DEMAND, 0);
        done = rig_read(r, &q);
        assert_int_equal(done.status, SLUICE_ERR_IO);
        io_explain(r->io, &done, &err);
        snprintf(expected, sizeof expected, "ended at byte %zu, needed %zu", cuts[i], cuts[i] + 1000);
        assert_non_null(strstr(err.message, expected));
        rig_close(r);
    }
}

static void test_cut(void **state) { each(check_cut); }

static void check_changed(struct rig *r, enum io_backend backend, bool buffered)
{
    struct fault_rule rule = {.kind = FAULT_ERROR, .error = EIO};
    struct io_done done = read_with(r, backend, buffered, rule);
    struct sluice_error err = {0};
    assert_int_equal(done.status, SLUICE_ERR_IO);
    struct test_file other;
    assert_true(test_file_make(&other, FILE_BYTES));
    assert_int_equal(rename(other.path, r->file.path), 0);
    io_explain(r->io, &done, &err);
    assert_non_null(strstr(err.message, "another file was put in its place"));
    test_file_remove(&r->file);
    io_explain(r->io, &done, &err);
    assert_non_null(strstr(err.message, "removed"));
}

static void test_changed(void **state) { each(check_changed); }

/* Direct reads refused when the file is opened: buffered from the start, with one line. */
static void test_refused_at_open(void **state)
{
    enum io_backend backends[3];
    unsigned n = rig_backends(backends);
    for (unsigned i = 0; i < n; i++) {
        struct rig r;
        rig_init(&r, FILE_BYTES, FILE_BYTES + 65536);
        r.fault.open_direct_error = EINVAL;
        struct io_config config = rig_config(&r, backends[i]);
        rig_open(&r, &config);
        uint32_t second;
        assert_int_equal(io_file_add(r.io, r.file.path, &second, NULL), SLUICE_OK);
        assert_false(io_file_direct(r.io, r.index));
        assert_int_equal(io_file_align(r.io, r.index), 1);
        assert_int_equal(r.n_lines, 2); /* the back end, and this; not once more for the second file */
        assert_true(rig_logged(&r, "refuses direct reads (Invalid argument)"));
        struct io_request q = rig_request(&r, 1, FILE_BYTES - 1, IO_DEMAND, 3); /* any alignment is good now */
        assert_int_equal(rig_read(&r, &q).status, SLUICE_OK);
        assert_true(test_file_matches(r.memory + 3, 1, FILE_BYTES - 1));
        assert_true(r.fault.n_dropped > 0);
        rig_end(&r);
    }
}

/* Refused at the first read only (some file systems open, and then do not read). */
static void test_refused_at_read(void **state)
{
    enum io_backend backends[3];
    unsigned n = rig_backends(backends);
    for (unsigned i = 0; i < n; i++) {
        struct rig r;
        rig_init(&r, FILE_BYTES, FILE_BYTES + 65536);
        struct io_config config = rig_config(&r, backends[i]);
        rig_open(&r, &config);
        if (!io_file_direct(r.io, r.index)) {
            rig_end(&r);
            skip();
        }
        uint32_t align = io_file_align(r.io, r.index);
        fault_add(&r.fault, (struct fault_rule){
                                .kind = FAULT_ERROR, .count = FAULT_ALWAYS, .error = EINVAL, .direct_only = true});
        struct io_request q = rig_request(&r, 0, FILE_BYTES, IO_DEMAND, 0);
        assert_int_equal(rig_read(&r, &q).status, SLUICE_OK);
        assert_true(test_file_matches(r.memory, 0, FILE_BYTES));
        assert_false(io_file_direct(r.io, r.index));
        assert_int_equal(io_file_align(r.io, r.index), align); /* it never changes after the file was added */
        assert_int_equal(r.n_lines, 2);
        char name[32];
        int fd = os_system()->open_read(NULL, r.file.path, false);
        os_filesystem_name(fd, name, sizeof name);
        os_system()->close(NULL, fd);
        assert_true(rig_logged(&r, "refuses direct reads (at the first read"));
        assert_true(rig_logged(&r, name));
        assert_int_equal(io_read_now(r.io, r.index, 5, r.memory, 1000, NULL), SLUICE_OK);
        rig_end(&r);
    }
}

/* Refused, and the file has been replaced meanwhile: not another file's bytes, an error. */
static void test_refused_and_replaced(void **state)
{
    struct rig r;
    rig_init(&r, FILE_BYTES, FILE_BYTES + 65536);
    struct io_config config = rig_config(&r, IO_THREADS);
    rig_open(&r, &config);
    if (!io_file_direct(r.io, r.index)) {
        rig_end(&r);
        skip();
    }
    struct test_file other;
    assert_true(test_file_make(&other, FILE_BYTES));
    assert_int_equal(rename(other.path, r.file.path), 0);
    fault_add(&r.fault,
              (struct fault_rule){.kind = FAULT_ERROR, .count = FAULT_ALWAYS, .error = EINVAL, .direct_only = true});
    struct io_request q = rig_request(&r, 0, FILE_BYTES, IO_DEMAND, 0);
    struct io_done done = rig_read(&r, &q);
    struct sluice_error err = {0};
    assert_int_equal(done.status, SLUICE_ERR_IO);
    io_explain(r.io, &done, &err);
    assert_non_null(strstr(err.message, "another file was put in its place"));
    rig_end(&r);
}

/* Faults of all kinds among many requests: what is reported as good is good (I3). */
static void test_storm(void **state)
{
    enum io_backend backends[3];
    unsigned n = rig_backends(backends);
    for (unsigned i = 0; i < n; i++) {
        struct rig r;
        rig_init(&r, FILE_BYTES, 64 * 20480);
        struct io_config config = rig_config(&r, backends[i]);
        config.piece_bytes = 4096;
        rig_open(&r, &config);
        for (unsigned k = 0; k < 3; k++)
            fault_add(&r.fault,
                      (struct fault_rule){.kind = FAULT_SHORT, .nth = 7 + 31 * k, .count = 9, .bytes = 1 + 900 * k});
        fault_add(&r.fault, (struct fault_rule){.kind = FAULT_ERROR, .nth = 20, .count = 7, .error = EINTR});
        fault_add(&r.fault, (struct fault_rule){.kind = FAULT_ERROR, .nth = 40, .count = 3, .error = EAGAIN});
        fault_add(&r.fault, (struct fault_rule){.kind = FAULT_ERROR, .nth = 90, .count = 2, .error = EIO});
        struct io_request q[64], *list[64];
        for (unsigned k = 0; k < 64; k++) {
            q[k] = rig_request(&r, test_random(&r.seed) % (FILE_BYTES - 12000), 12000, (enum io_priority)(k % 4),
                               k * 20480);
            q[k].tag = k;
            list[k] = &q[k];
        }
        assert_int_equal(io_submit(r.io, list, 64, NULL), SLUICE_OK);
        unsigned failed = 0, reported = 0;
        while (io_outstanding(r.io) > 0) {
            struct io_done done;
            assert_int_equal(io_poll(r.io, &done, 1, true), 1);
            reported++;
            if (done.status == SLUICE_OK)
                assert_true(test_file_matches(done.request->dst, done.request->offset, done.request->needed_bytes));
            else
                failed++;
        }
        assert_int_equal(reported, 64);
        assert_true(failed == 1 || failed == 2);
        rig_end(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_short),           cmocka_unit_test(test_interrupted),
        cmocka_unit_test(test_again_for_ever),  cmocka_unit_test(test_failed),
        cmocka_unit_test(test_neighbours),      cmocka_unit_test(test_cut),
        cmocka_unit_test(test_changed),         cmocka_unit_test(test_refused_at_open),
        cmocka_unit_test(test_refused_at_read), cmocka_unit_test(test_refused_and_replaced),
        cmocka_unit_test(test_storm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
