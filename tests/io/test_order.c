/* Priorities (I5), raising and taking back. */
#include "rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define PIECE ((size_t)4096)
#define N 24u

static unsigned piece_of(const struct rig *r, const struct fault_read *read)
{
    return (unsigned)((size_t)((const uint8_t *)read->dst - r->memory) / PIECE);
}

/* One worker that hangs in a first read; everything else is submitted meanwhile, in an order that is not the one of
 * priorities. After the release reads must begin by priority, first come first served within one. */
static void order_with(enum io_backend backend)
{
    struct rig r;
    rig_init(&r, 64 * PIECE, 64 * PIECE);
    struct io_config config = rig_config(&r, backend);
    config.piece_bytes = PIECE;
    config.depth = backend == IO_URING ? 1 : 6; /* the threads hold pieces that have not begun */
    config.threads = 1;
    rig_open(&r, &config);
    bool hangs = backend != IO_SYNC;
    if (hangs) fault_add(&r.fault, (struct fault_rule){.kind = FAULT_HANG});
    struct io_request first = rig_request(&r, 0, PIECE, IO_WARM, 63 * PIECE), *list = &first;
    first.tag = N;
    assert_int_equal(io_submit(r.io, &list, 1, NULL), SLUICE_OK);
    if (hangs) fault_wait_hung(&r.fault, 1);
    struct io_request requests[N];
    for (unsigned i = 0; i < N; i++) {
        requests[i] = rig_request(&r, i * PIECE, PIECE, (enum io_priority)(3 - i % 4), i * PIECE);
        requests[i].tag = i;
        list = &requests[i];
        assert_int_equal(io_submit(r.io, &list, 1, NULL), SLUICE_OK);
    }
    unsigned seen[N + 1] = {0};
    fault_release(&r.fault);
    assert_int_equal(rig_drain(&r, seen, N + 1), N + 1);
    unsigned n = fault_reads(&r.fault);
    assert_int_equal(n, N + 1);
    unsigned from = hangs ? 1 : 0; /* sync begins nothing before io_poll: the first one waits like the others */
    unsigned last_priority = 0, last_piece = 0;
    for (unsigned k = from; k < n; k++) {
        unsigned piece = piece_of(&r, &r.fault.reads[k]);
        unsigned priority = piece == 63 ? (unsigned)IO_WARM : 3 - piece % 4;
        assert_true(priority >= last_priority);
        if (piece == 63) piece = 0;
        if (priority == last_priority && k > from) assert_true(piece >= last_piece);
        last_priority = priority;
        last_piece = piece;
    }
    rig_end(&r);
}

static void test_order(void **state)
{
    enum io_backend backends[3];
    unsigned n = rig_backends(backends);
    for (unsigned i = 0; i < n; i++) order_with(backends[i]);
}

/* A demand read overtakes the parts of a large guess that have not begun, and the guess is complete afterwards. */
static void test_overtake(void **state)
{
    enum io_backend backends[3];
    unsigned n = rig_backends(backends);
    for (unsigned i = 0; i < n; i++) {
        struct rig r;
        rig_init(&r, 64 * PIECE, 128 * PIECE);
        struct io_config config = rig_config(&r, backends[i]);
        config.piece_bytes = PIECE;
        config.depth = config.guess_depth = 8;
        config.threads = 1; /* two could change places between taking a piece and reading it */
        rig_open(&r, &config);
        unsigned begin = backends[i] == IO_URING ? 8 : backends[i] == IO_THREADS ? 1 : 0;
        if (begin) fault_add(&r.fault, (struct fault_rule){.kind = FAULT_HANG, .count = begin});
        struct io_request guess = rig_request(&r, 0, 40 * PIECE, IO_GUESS, 0), *list = &guess;
        guess.tag = 0;
        assert_int_equal(io_submit(r.io, &list, 1, NULL), SLUICE_OK);
        if (begin) fault_wait_hung(&r.fault, begin);
        struct io_request demand = rig_request(&r, 50 * PIECE, 10 * PIECE, IO_DEMAND, 64 * PIECE);
        demand.tag = 1;
        list = &demand;
        assert_int_equal(io_submit(r.io, &list, 1, NULL), SLUICE_OK);
        fault_release(&r.fault);
        unsigned seen[2] = {0};
        assert_int_equal(rig_drain(&r, seen, 2), 2);
        assert_true(test_file_matches(r.memory, 0, 40 * PIECE));
        assert_true(test_file_matches(r.memory + 64 * PIECE, 50 * PIECE, 10 * PIECE));
        assert_int_equal(fault_reads(&r.fault), 50); /* no piece was read twice */
        for (unsigned k = begin; k < begin + 10; k++) assert_true(piece_of(&r, &r.fault.reads[k]) >= 64);
        rig_end(&r);
    }
}

static void test_raise(void **state)
{
    enum io_backend backends[3];
    unsigned n = rig_backends(backends);
    for (unsigned i = 0; i < n; i++) {
        struct rig r;
        rig_init(&r, 64 * PIECE, 64 * PIECE);
        struct io_config config = rig_config(&r, backends[i]);
        config.piece_bytes = PIECE;
        config.depth = backends[i] == IO_URING ? 1 : 4;
        config.threads = 1;
        rig_open(&r, &config);
        bool hangs = backends[i] != IO_SYNC;
        if (hangs) fault_add(&r.fault, (struct fault_rule){.kind = FAULT_HANG});
        struct io_request q[8], *list[8];
        for (unsigned k = 0; k < 8; k++) {
            q[k] = rig_request(&r, 2 * k * PIECE, 2 * PIECE, IO_GUESS, 2 * k * PIECE);
            q[k].tag = k;
            list[k] = &q[k];
        }
        assert_int_equal(io_submit(r.io, list, 8, NULL), SLUICE_OK);
        if (hangs) fault_wait_hung(&r.fault, 1);
        io_raise(r.io, &q[5], IO_DEMAND);
        io_raise(r.io, &q[1], IO_CERTAIN); /* partly with the driver already */
        io_raise(r.io, &q[5], IO_WARM);    /* lower: nothing happens */
        io_raise(r.io, &q[0], IO_DEMAND);  /* its first half has begun */
        assert_int_equal(q[5].priority, IO_DEMAND);
        fault_release(&r.fault);
        unsigned seen[8] = {0};
        assert_int_equal(rig_drain(&r, seen, 8), 8);
        assert_true(test_file_matches(r.memory, 0, 16 * PIECE));
        assert_int_equal(fault_reads(&r.fault), 16);
        /* Without a hang nothing had begun. Then: the two demands, the certain one, the guesses. */
        unsigned expect_hung[16] = {0, 10, 11, 1, 2, 3}, expect_sync[16] = {10, 11, 0, 1, 2, 3};
        for (unsigned k = 0; k < 6; k++)
            assert_int_equal(piece_of(&r, &r.fault.reads[k]), hangs ? expect_hung[k] : expect_sync[k]);
        rig_end(&r);
    }
}

/* A request whose pieces all stand in a worker's lane, raised over those before it. */
static void test_raise_handed(void **state)
{
    enum io_backend backends[3];
    unsigned n = rig_backends(backends);
    for (unsigned i = 0; i < n; i++) {
        struct rig r;
        rig_init(&r, 64 * PIECE, 64 * PIECE);
        struct io_config config = rig_config(&r, backends[i]);
        config.piece_bytes = PIECE;
        config.depth = backends[i] == IO_URING ? 1 : 4;
        config.threads = 1;
        rig_open(&r, &config);
        bool hangs = backends[i] != IO_SYNC;
        if (hangs) fault_add(&r.fault, (struct fault_rule){.kind = FAULT_HANG});
        struct io_request q[2], *list[2] = {&q[0], &q[1]};
        for (unsigned k = 0; k < 2; k++) {
            q[k] = rig_request(&r, 2 * k * PIECE, 2 * PIECE, IO_GUESS, 2 * k * PIECE);
            q[k].tag = k;
        }
        assert_int_equal(io_submit(r.io, list, 2, NULL), SLUICE_OK);
        if (hangs) fault_wait_hung(&r.fault, 1);
        io_raise(r.io, &q[1], IO_DEMAND);
        fault_release(&r.fault);
        unsigned seen[2] = {0}, expect_hung[4] = {0, 2, 3, 1}, expect_sync[4] = {2, 3, 0, 1};
        assert_int_equal(rig_drain(&r, seen, 2), 2);
        assert_int_equal(fault_reads(&r.fault), 4);
        for (unsigned k = 0; k < 4; k++)
            assert_int_equal(piece_of(&r, &r.fault.reads[k]), hangs ? expect_hung[k] : expect_sync[k]);
        assert_true(test_file_matches(r.memory, 0, 4 * PIECE));
        rig_end(&r);
    }
}

static void test_cancel(void **state)
{
    enum io_backend backends[3];
    unsigned n = rig_backends(backends);
    for (unsigned i = 0; i < n; i++) {
        struct rig r;
        rig_init(&r, 64 * PIECE, 64 * PIECE);
        struct io_config config = rig_config(&r, backends[i]);
        config.piece_bytes = PIECE;
        config.depth = backends[i] == IO_URING ? 1 : 4;
        config.threads = 1;
        rig_open(&r, &config);
        bool hangs = backends[i] != IO_SYNC;
        if (hangs) fault_add(&r.fault, (struct fault_rule){.kind = FAULT_HANG});
        struct io_request q[6], *list[6];
        for (unsigned k = 0; k < 6; k++) {
            q[k] = rig_request(&r, 2 * k * PIECE, 2 * PIECE, IO_GUESS, 2 * k * PIECE);
            q[k].tag = k;
            list[k] = &q[k];
        }
        assert_int_equal(io_submit(r.io, list, 6, NULL), SLUICE_OK);
        if (hangs) fault_wait_hung(&r.fault, 1);
        if (hangs) io_cancel(r.io, &q[0]); /* has begun: runs on */
        io_cancel(r.io, &q[1]);            /* handed over, not begun */
        io_cancel(r.io, &q[5]);            /* waiting */
        io_cancel(r.io, &q[5]);            /* twice is once */
        io_raise(r.io, &q[5], IO_DEMAND);  /* too late for that */
        unsigned cancelled = 0, good = 0;
        struct io_done done[8];
        size_t got = io_poll(r.io, done, 8, true);
        fault_release(&r.fault);
        for (;;) {
            for (size_t k = 0; k < got; k++) {
                bool taken_back = done[k].request == &q[1] || done[k].request == &q[5];
                assert_int_equal(done[k].status, taken_back ? SLUICE_CANCELLED : SLUICE_OK);
                struct sluice_error err;
                assert_int_equal(io_explain(r.io, &done[k], &err), done[k].status);
                if (taken_back)
                    cancelled++;
                else
                    good++;
            }
            if (io_outstanding(r.io) == 0) break;
            got = io_poll(r.io, done, 8, true);
        }
        assert_int_equal(cancelled, 2);
        assert_int_equal(good, 4);
        assert_int_equal(fault_reads(&r.fault), 8);
        assert_true(test_file_matches(r.memory, 0, 2 * PIECE));
        assert_int_equal(r.memory[2 * PIECE], 0); /* nothing was read into memory that was given back */
        assert_int_equal(r.memory[10 * PIECE], 0);
        io_cancel(r.io, &q[2]); /* reported long ago */
        assert_int_equal(io_outstanding(r.io), 0);
        rig_end(&r);
    }
}

/* A guess takes its share of the places and no more; a demanded read finds the others free. */
static void test_guess_depth(void **state)
{
    enum io_backend backends[3];
    unsigned n = rig_backends(backends);
    for (unsigned i = 0; i < n; i++) {
        if (backends[i] == IO_SYNC) continue; /* one read at a time anyway */
        struct rig r;
        rig_init(&r, 64 * PIECE, 64 * PIECE);
        struct io_config config = rig_config(&r, backends[i]);
        config.piece_bytes = PIECE;
        config.depth = 8;
        config.guess_depth = 2;
        config.threads = 8;
        rig_open(&r, &config);
        fault_add(&r.fault, (struct fault_rule){.kind = FAULT_HANG, .count = 3});
        struct io_request guess = rig_request(&r, 0, 20 * PIECE, IO_GUESS, 0), *list = &guess;
        guess.tag = 0;
        assert_int_equal(io_submit(r.io, &list, 1, NULL), SLUICE_OK);
        fault_wait_hung(&r.fault, 2);
        struct io_request demand = rig_request(&r, 50 * PIECE, PIECE, IO_DEMAND, 50 * PIECE);
        demand.tag = 1;
        list = &demand;
        assert_int_equal(io_submit(r.io, &list, 1, NULL), SLUICE_OK);
        fault_wait_hung(&r.fault, 3);
        assert_int_equal(piece_of(&r, &r.fault.reads[2]), 50); /* not a third piece of the guess */
        fault_release(&r.fault);
        unsigned seen[2] = {0};
        assert_int_equal(rig_drain(&r, seen, 2), 2);
        assert_true(test_file_matches(r.memory, 0, 20 * PIECE));
        rig_end(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),        cmocka_unit_test(test_overtake), cmocka_unit_test(test_raise),
        cmocka_unit_test(test_raise_handed), cmocka_unit_test(test_cancel),   cmocka_unit_test(test_guess_depth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
