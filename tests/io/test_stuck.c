/* Reads that the kernel does not give back (I4): reported as stuck, released later, left behind by io_close.
 *
 * The sync back end has no part in this: its reads are the caller's own calls. */
#include "rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FILE_BYTES ((size_t)400000)
#define LIMIT_NS ((uint64_t)30000000000) /* passes by fault_skip_time */
#define SHORT_NS ((uint64_t)40000000)    /* where the room itself waits for it, and nothing else need be fast */

typedef void (*check)(struct rig *r);

static void each(check one, uint64_t limit_ns)
{
    enum io_backend backends[3];
    unsigned n = rig_backends(backends);
    for (unsigned i = 1; i < n; i++) {
        struct rig r;
        rig_init(&r, FILE_BYTES, 2 * FILE_BYTES);
        struct io_config config = rig_config(&r, backends[i]);
        config.wait_limit_ns = limit_ns;
        rig_open(&r, &config);
        one(&r);
        rig_end(&r);
    }
}

/* Time passes, and the room looks at the clock again and again. */
static void pass(struct rig *r, uint64_t ns)
{
    for (const uint64_t step = LIMIT_NS / 100; ns > 0;) {
        const uint64_t now = ns < step ? ns : step;
        fault_skip_time(&r->fault, now);
        io_poll(r->io, NULL, 0, false);
        ns -= now;
    }
}

static struct io_done poll_until(struct rig *r)
{
    struct io_done done;
    while (io_poll(r->io, &done, 1, false) == 0) {
    }
    return done;
}

static void check_one_stuck(struct rig *r)
{
    fault_add(&r->fault, (struct fault_rule){.kind = FAULT_HANG, .nth = 2});
    struct io_request bad = rig_request(r, 0, 65536, IO_DEMAND, 0);
    struct io_request good = rig_request(r, 100000, 50000, IO_GUESS, 131072), *list[2] = {&bad, &good};
    bad.tag = 1;
    assert_int_equal(io_submit(r->io, list, 2, NULL), SLUICE_OK);
    unsigned stuck = 0, fine = 0;
    while (io_outstanding(r->io) > 0) {
        struct io_done done;
        assert_int_equal(io_poll(r->io, &done, 1, true), 1);
        assert_false(done.released);
        if (done.request == &bad) {
            assert_int_equal(done.status, SLUICE_ERR_TIMEOUT);
            assert_true(done.stuck);
            struct sluice_error err = {0};
            assert_int_equal(io_explain(r->io, &done, &err), SLUICE_ERR_TIMEOUT);
            assert_non_null(strstr(err.message, r->file.path));
            assert_non_null(strstr(err.message, "30 s"));
            assert_true(strlen(err.hint) > 0);
            stuck++;
        } else {
            assert_int_equal(done.status, SLUICE_OK);
            fine++;
            fault_wait_hung(&r->fault, 1);
            pass(r, LIMIT_NS + 1);
        }
    }
    assert_int_equal(stuck, 1);
    assert_int_equal(fine, 1);
    /* The reader goes on meanwhile, and nobody waits for the stuck one. */
    struct io_done done;
    assert_int_equal(io_poll(r->io, &done, 1, true), 0);
    struct io_request next = rig_request(r, 200000, 65536, IO_DEMAND, 262144);
    assert_int_equal(rig_read(r, &next).status, SLUICE_OK);
    assert_true(test_file_matches(next.dst, next.offset, 65536));
    io_raise(r->io, &bad, IO_DEMAND); /* neither does anything to it */
    io_cancel(r->io, &bad);
    fault_release(&r->fault);
    done = poll_until(r);
    assert_ptr_equal(done.request, &bad);
    assert_true(done.released);
    assert_false(done.stuck);
    assert_int_equal(done.status, SLUICE_ERR_TIMEOUT);
    assert_int_equal(io_outstanding(r->io), 0);
    assert_int_equal(io_poll(r->io, &done, 1, false), 0);
    /* The same memory again. */
    assert_int_equal(rig_read(r, &bad).status, SLUICE_OK);
    assert_true(test_file_matches(r->memory, 0, 65536));
}

static void test_one_stuck(void **state) { each(check_one_stuck, LIMIT_NS); }

/* Everything hangs: what has begun is stuck, what has not is only late, and all is reported. */
static void check_all_stuck(struct rig *r)
{
    fault_add(&r->fault, (struct fault_rule){.kind = FAULT_HANG, .count = FAULT_ALWAYS});
    struct io_request q[30], *list[30];
    for (unsigned i = 0; i < 30; i++) {
        q[i] = rig_request(r, i * 12288, 4096, (enum io_priority)(i % 4), i * 16384);
        q[i].tag = i;
        list[i] = &q[i];
    }
    assert_int_equal(io_submit(r->io, list, 30, NULL), SLUICE_OK);
    struct io_stats s;
    io_stats(r->io, &s);
    fault_wait_hung(&r->fault, s.backend == IO_URING ? 8 : 4); /* all places, all workers */
    pass(r, LIMIT_NS + 1);
    unsigned stuck = 0, late = 0;
    while (io_outstanding(r->io) > 0) {
        struct io_done done;
        assert_int_equal(io_poll(r->io, &done, 1, true), 1);
        assert_int_equal(done.status, SLUICE_ERR_TIMEOUT);
        if (done.stuck)
            stuck++;
        else
            late++;
    }
    assert_int_equal(stuck + late, 30);
    assert_int_equal(stuck, fault_hung(&r->fault));
    /* New requests do not wait for a disk that is known not to answer. */
    struct io_request more = rig_request(r, 0, 4096, IO_DEMAND, 500000 & ~(size_t)4095);
    struct io_done done = rig_read(r, &more);
    assert_int_equal(done.status, SLUICE_ERR_TIMEOUT);
    assert_false(done.stuck);
    assert_int_equal(io_read_now(r->io, r->index, 0, r->memory + 700000, 10, NULL), SLUICE_ERR_TIMEOUT);
    /* It answers again. */
    fault_release(&r->fault);
    for (unsigned i = 0; i < stuck; i++) assert_true(poll_until(r).released);
    assert_int_equal(rig_read(r, &more).status, SLUICE_OK);
    assert_int_equal(io_read_now(r->io, r->index, 0, r->memory + 700000, 10, NULL), SLUICE_OK);
}

static void test_all_stuck(void **state) { each(check_all_stuck, LIMIT_NS); }

/* A stuck read that returns before its report was fetched is not stuck any more; either way the count is right. */
static void check_returns_unseen(struct rig *r)
{
    fault_add(&r->fault, (struct fault_rule){.kind = FAULT_HANG});
    struct io_request q = rig_request(r, 0, 4096, IO_DEMAND, 0), *list = &q;
    assert_int_equal(io_submit(r->io, &list, 1, NULL), SLUICE_OK);
    fault_wait_hung(&r->fault, 1);
    pass(r, LIMIT_NS + 1);
    io_poll(r->io, NULL, 0, false);
    fault_release(&r->fault);
    for (unsigned i = 0; i < 1000 || fault_hung(&r->fault) > 0; i++) io_poll(r->io, NULL, 0, false);
    struct io_done done = poll_until(r);
    assert_int_equal(done.status, SLUICE_ERR_TIMEOUT);
    assert_false(done.released);
    if (done.stuck) assert_true(poll_until(r).released);
    assert_int_equal(io_outstanding(r->io), 0);
    assert_int_equal(io_poll(r->io, &done, 1, true), 0);
}

static void test_returns_unseen(void **state) { each(check_returns_unseen, LIMIT_NS); }

/* The process was stopped (SIGSTOP) for much longer than the limit, with reads in flight: it is told nothing about the
 * disk, once or several times. Time that passes while it runs counts as always, before and after. */
static void check_stopped(struct rig *r)
{
    fault_add(&r->fault, (struct fault_rule){.kind = FAULT_HANG, .count = FAULT_ALWAYS});
    struct io_request q[6], *list[6];
    for (unsigned i = 0; i < 6; i++) {
        q[i] = rig_request(r, i * 16384, 16384, IO_DEMAND, i * 16384);
        list[i] = &q[i];
    }
    assert_int_equal(io_submit(r->io, list, 3, NULL), SLUICE_OK);
    fault_wait_hung(&r->fault, 3);
    pass(r, LIMIT_NS / 2);
    struct io_done done;
    for (int i = 0; i < 3; i++) {
        fault_skip_time(&r->fault, 100 * LIMIT_NS);
        assert_int_equal(io_poll(r->io, &done, 1, false), 0);
    }
    /* younger than the stop: the clock is looked at by others too */
    fault_skip_time(&r->fault, 100 * LIMIT_NS);
    assert_int_equal(io_submit(r->io, list + 3, 1, NULL), SLUICE_OK);
    assert_int_equal(io_poll(r->io, &done, 1, false), 0);
    fault_release(&r->fault);
    for (int i = 0; i < 4; i++) assert_int_equal(poll_until(r).status, SLUICE_OK);
    assert_int_equal(io_outstanding(r->io), 0);

    fault_hang_again(&r->fault);
    assert_int_equal(io_submit(r->io, list + 4, 2, NULL), SLUICE_OK);
    fault_wait_hung(&r->fault, 2);
    fault_skip_time(&r->fault, 100 * LIMIT_NS);
    pass(r, LIMIT_NS / 2);
    assert_int_equal(io_poll(r->io, &done, 1, false), 0);
    pass(r, LIMIT_NS / 2 + 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(io_poll(r->io, &done, 1, false), 1);
        assert_true(done.stuck);
    }
    fault_release(&r->fault);
    for (int i = 0; i < 2; i++) assert_true(poll_until(r).released);
}

static void test_stopped(void **state) { each(check_stopped, LIMIT_NS); }

static void check_read_now(struct rig *r)
{
    fault_add(&r->fault, (struct fault_rule){.kind = FAULT_HANG});
    struct sluice_error err = {0};
    assert_int_equal(io_read_now(r->io, r->index, 10, r->memory, 1000, &err), SLUICE_ERR_TIMEOUT);
    assert_int_equal(io_read_now(r->io, r->index, 10, r->memory, 1000, &err), SLUICE_ERR_TIMEOUT);
    assert_non_null(strstr(err.message, "holds the staging memory"));
    fault_release(&r->fault);
    do io_poll(r->io, NULL, 0, false);
    while (io_read_now(r->io, r->index, 10, r->memory, 1000, &err) != SLUICE_OK);
    assert_true(test_file_matches(r->memory, 10, 1000));
}

static void test_read_now(void **state) { each(check_read_now, SHORT_NS); }

/* What a ring that was left behind leaks stays reachable, so that a leak checker looks at the rest. */
static struct os_uring *volatile left_behind;

/* Closing leaves a stuck read's things alone and says so; the read returns into memory that still exists. */
static void check_close(struct rig *r)
{
    fault_add(&r->fault, (struct fault_rule){.kind = FAULT_HANG, .nth = 2});
    struct io_request q[3], *list[3];
    for (unsigned i = 0; i < 3; i++) {
        q[i] = rig_request(r, i * 65536, 65536, IO_GUESS, i * 65536);
        list[i] = &q[i];
    }
    assert_int_equal(io_submit(r->io, list, 3, NULL), SLUICE_OK);
    fault_wait_hung(&r->fault, 1);
    if (r->fault.n_held > 0) left_behind = r->fault.held[0].ring;
    io_close(r->io);
    r->io = NULL;
    assert_true(rig_logged(r, "have not returned"));
    assert_non_null(strstr(r->lines[r->n_lines - 1], r->file.path));
}

static void test_close(void **state) { each(check_close, SHORT_NS); }

/* Closing with many reads under way and none stuck: nothing is left behind, nothing said. */
static void check_close_busy(struct rig *r)
{
    struct io_request q[20], *list[20];
    for (unsigned i = 0; i < 20; i++) {
        q[i] = rig_request(r, i * 16384, 16384, (enum io_priority)(i % 4), i * 16384);
        list[i] = &q[i];
    }
    assert_int_equal(io_submit(r->io, list, 20, NULL), SLUICE_OK);
    io_close(r->io);
    r->io = NULL;
    assert_int_equal(r->n_lines, 1);
    assert_int_equal(r->fault.n_open, 0);
}

static void test_close_busy(void **state) { each(check_close_busy, LIMIT_NS); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_stuck),  cmocka_unit_test(test_all_stuck), cmocka_unit_test(test_returns_unseen),
        cmocka_unit_test(test_stopped),    cmocka_unit_test(test_read_now),  cmocka_unit_test(test_close),
        cmocka_unit_test(test_close_busy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
