/* Reads of all shapes by every back end: the bytes are right, each request is reported once. */
#include "rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FILE_BYTES 1234567u
#define N_REQUESTS 200u
#define REQUEST_BYTES_MAX 100000u

struct wanted {
    uint64_t offset;
    size_t bytes, at;
};

static void read_many(struct rig *r, bool registered)
{
    static struct io_request requests[N_REQUESTS];
    static struct wanted wanted[N_REQUESTS];
    struct io_request *list[N_REQUESTS];
    unsigned seen[N_REQUESTS] = {0};
    memset(r->memory, 0xee, r->memory_bytes);
    if (registered) io_memory_add(r->io, r->memory, r->memory_bytes);
    size_t at = 0;
    for (unsigned i = 0; i < N_REQUESTS; i++) {
        struct wanted *w = &wanted[i];
        w->bytes = 1 + test_random(&r->seed) % REQUEST_BYTES_MAX;
        if (i % 5 == 0) w->bytes = 1 + w->bytes % 700;
        w->offset = test_random(&r->seed) % (FILE_BYTES - w->bytes + 1);
        if (i % 17 == 0) w->offset = FILE_BYTES - w->bytes; /* up to the end of the file */
        w->at = at;
        requests[i] =
            rig_request(r, w->offset, w->bytes, (enum io_priority)(test_random(&r->seed) % IO_PRIORITIES), at);
        requests[i].tag = i;
        list[i] = &requests[i];
        at += (requests[i].bytes + 4095) & ~(size_t)4095;
    }
    /* In batches of changing size, polling now and then. */
    size_t reported = 0;
    for (unsigned i = 0; i < N_REQUESTS;) {
        size_t n = 1 + test_random(&r->seed) % 30;
        if (n > N_REQUESTS - i) n = N_REQUESTS - i;
        assert_int_equal(io_submit(r->io, list + i, n, NULL), SLUICE_OK);
        i += (unsigned)n;
        struct io_done done[4];
        size_t got = io_poll(r->io, done, 4, test_random(&r->seed) % 2 == 0);
        for (size_t k = 0; k < got; k++) {
            assert_int_equal(done[k].status, SLUICE_OK);
            seen[done[k].request->tag]++;
        }
        reported += got;
    }
    reported += rig_drain(r, seen, N_REQUESTS);
    assert_int_equal(reported, N_REQUESTS);
    for (unsigned i = 0; i < N_REQUESTS; i++) {
        assert_int_equal(seen[i], 1);
        assert_int_equal(requests[i].error_, 0);
        size_t head = (size_t)(wanted[i].offset - requests[i].offset);
        assert_true(test_file_matches(r->memory + wanted[i].at + head, wanted[i].offset, wanted[i].bytes));
    }
    struct io_done none;
    assert_int_equal(io_poll(r->io, &none, 1, true), 0); /* I2: nothing twice, and no wait for nothing */
    if (registered) io_memory_forget(r->io, r->memory, r->memory_bytes);
}

static void each_backend(bool buffered, bool registered, unsigned files_error)
{
    struct rig r;
    rig_init(&r, FILE_BYTES, N_REQUESTS * (REQUEST_BYTES_MAX + 8192));
    enum io_backend backends[3];
    unsigned n = rig_backends(backends);
    for (unsigned i = 0; i < n; i++) {
        struct io_config config = rig_config(&r, backends[i]);
        config.buffered = buffered;
        r.fault.uring_files_error = (int)files_error;
        rig_open(&r, &config);
        read_many(&r, registered);
        struct io_stats s;
        io_stats(r.io, &s);
        assert_int_equal(s.backend, backends[i]);
        assert_true(s.read_bytes > 0 && s.reads >= N_REQUESTS && s.busy_ns > 0);
        if (buffered) {
            assert_false(s.direct);
            assert_true(r.fault.n_dropped > 0);
        }
        rig_close(&r);
        assert_int_equal(r.fault.n_open, 0);
    }
    rig_end(&r);
}

static void test_direct(void **state) { each_backend(false, false, 0); }
static void test_registered(void **state) { each_backend(false, true, 0); }
static void test_buffered(void **state) { each_backend(true, true, 0); }
static void test_files_not_registered(void **state) { each_backend(false, false, 22); }

/* Sizes of pieces and depths at their smallest, so that every limit is met. */
static void test_small_limits(void **state)
{
    struct rig r;
    rig_init(&r, FILE_BYTES, N_REQUESTS * (REQUEST_BYTES_MAX + 8192));
    enum io_backend backends[3];
    unsigned n = rig_backends(backends);
    for (unsigned i = 0; i < n; i++) {
        struct io_config config = rig_config(&r, backends[i]);
        config.depth = 1;
        config.threads = 1;
        config.piece_bytes = 1;
        rig_open(&r, &config);
        read_many(&r, false);
        rig_close(&r);
    }
    rig_end(&r);
}

static void test_read_now(void **state)
{
    struct rig r;
    rig_init(&r, FILE_BYTES, FILE_BYTES);
    enum io_backend backends[3];
    unsigned n = rig_backends(backends);
    for (unsigned i = 0; i < n; i++)
        for (unsigned buffered = 0; buffered <= 1; buffered++) {
            struct io_config config = rig_config(&r, backends[i]);
            config.buffered = buffered;
            rig_open(&r, &config);
            for (unsigned k = 0; k < 30; k++) {
                size_t bytes = test_random(&r.seed) % (k < 25 ? 5000 : FILE_BYTES);
                uint64_t offset = test_random(&r.seed) % (FILE_BYTES - bytes + 1);
                uint8_t *dst = r.memory + test_random(&r.seed) % 64; /* any alignment */
                assert_int_equal(io_read_now(r.io, r.index, offset, dst, bytes, NULL), SLUICE_OK);
                assert_true(test_file_matches(dst, offset, bytes));
            }
            assert_int_equal(io_read_now(r.io, r.index, 0, r.memory, FILE_BYTES, NULL), SLUICE_OK);
            assert_true(test_file_matches(r.memory, 0, FILE_BYTES));
            assert_int_equal(io_read_now(r.io, r.index, FILE_BYTES, r.memory, 0, NULL), SLUICE_OK);
            struct sluice_error err = {0};
            assert_int_equal(io_read_now(r.io, r.index, FILE_BYTES - 3, r.memory, 4, &err), SLUICE_ERR_IO);
            assert_non_null(strstr(err.message, "1234567"));
            assert_int_not_equal(io_read_now(r.io, 7, 0, r.memory, 4, &err), SLUICE_OK);
            rig_close(&r);
        }
    rig_end(&r);
}

/* io_read_now while other reads are under way: those are reported afterwards, by io_poll. */
static void test_read_now_between(void **state)
{
    struct rig r;
    rig_init(&r, FILE_BYTES, 2 * FILE_BYTES);
    enum io_backend backends[3];
    unsigned n = rig_backends(backends);
    for (unsigned i = 0; i < n; i++) {
        struct io_config config = rig_config(&r, backends[i]);
        rig_open(&r, &config);
        struct io_request q = rig_request(&r, 0, FILE_BYTES, IO_WARM, 0), *list = &q;
        assert_int_equal(io_submit(r.io, &list, 1, NULL), SLUICE_OK);
        uint8_t *dst = r.memory + FILE_BYTES + 70000;
        assert_int_equal(io_read_now(r.io, r.index, 77, dst, 300000, NULL), SLUICE_OK);
        assert_true(test_file_matches(dst, 77, 300000));
        assert_int_equal(io_outstanding(r.io), 1);
        struct io_done done;
        assert_int_equal(io_poll(r.io, &done, 1, true), 1);
        assert_ptr_equal(done.request, &q);
        assert_int_equal(done.status, SLUICE_OK);
        assert_true(test_file_matches(r.memory, 0, FILE_BYTES));
        rig_close(&r);
    }
    rig_end(&r);
}

static void test_end_of_file(void **state)
{
    struct rig r;
    rig_init(&r, 10000, 1 << 20);
    enum io_backend backends[3];
    unsigned n = rig_backends(backends);
    for (unsigned i = 0; i < n; i++)
        for (unsigned buffered = 0; buffered <= 1; buffered++) {
            struct io_config config = rig_config(&r, backends[i]);
            config.buffered = buffered;
            rig_open(&r, &config);
            /* May reach far past the end, if what is needed is there. */
            struct io_request q = rig_request(&r, 0, 10000, IO_DEMAND, 0);
            q.bytes = 655360;
            assert_int_equal(rig_read(&r, &q).status, SLUICE_OK);
            assert_true(test_file_matches(r.memory, 0, 10000));
            /* One byte more than there is. */
            q.needed_bytes = 10001;
            struct io_done done = rig_read(&r, &q);
            assert_int_equal(done.status, SLUICE_ERR_IO);
            assert_int_equal(done.error, 0);
            struct sluice_error err = {0};
            assert_int_equal(io_explain(r.io, &done, &err), SLUICE_ERR_IO);
            assert_non_null(strstr(err.message, r.file.path));
            assert_non_null(strstr(err.message, "ended at byte 10000, needed 10001"));
            /* Behind the end, nothing needed: nothing to read, and good. */
            q.offset = 65536;
            q.bytes = 4096;
            q.needed_bytes = 0;
            assert_int_equal(rig_read(&r, &q).status, SLUICE_OK);
            q.needed_bytes = 1;
            assert_int_equal(rig_read(&r, &q).status, SLUICE_ERR_IO);
            rig_close(&r);
        }
    rig_end(&r);
}

static void test_refused_requests(void **state)
{
    struct rig r;
    rig_init(&r, 100000, 1 << 20);
    r.fault.direct_align = 4096;
    struct io_config config = rig_config(&r, IO_THREADS);
    config.requests_max = 3;
    rig_open(&r, &config);
    if (!io_file_direct(r.io, r.index)) {
        rig_end(&r);
        skip();
    }
    assert_int_equal(io_file_align(r.io, r.index), 4096);
    struct io_request good = rig_request(&r, 0, 4096, IO_DEMAND, 0);
    struct io_request bad[7] = {good, good, good, good, good, good, good};
    bad[0].offset = 512;
    bad[1].bytes = 5000;
    bad[2].dst = r.memory + 8;
    bad[3].needed_bytes = 4097;
    bad[4].file = 1;
    bad[5].bytes = bad[5].needed_bytes = 0;
    bad[6].offset = UINT64_MAX - 4095;
    struct sluice_error err;
    for (unsigned i = 0; i < 7; i++) {
        struct io_request *list[2] = {&good, &bad[i]};
        assert_int_not_equal(io_submit(r.io, list, 2, &err), SLUICE_OK);
        assert_true(strlen(err.message) > 0);
        assert_int_equal(io_outstanding(r.io), 0); /* all or nothing */
    }
    struct io_request many[4] = {good, good, good, good}, *list[4] = {&many[0], &many[1], &many[2], &many[3]};
    for (unsigned i = 0; i < 4; i++) many[i].dst = r.memory + i * 4096;
    assert_int_not_equal(io_submit(r.io, list, 4, &err), SLUICE_OK);
    assert_int_equal(io_submit(r.io, list, 3, &err), SLUICE_OK);
    assert_int_not_equal(io_submit(r.io, list + 3, 1, &err), SLUICE_OK);
    rig_end(&r); /* closing with requests that nobody polled for */
}

static void test_files(void **state)
{
    struct rig r;
    rig_init(&r, 5000, 1 << 20);
    struct io_config config = rig_config(&r, IO_AUTO);
    rig_open(&r, &config);
    assert_int_equal(io_file_bytes(r.io, r.index), 5000);
    assert_string_equal(io_file_path(r.io, r.index), r.file.path);
    struct sluice_error err = {0};
    uint32_t index = 99;
    assert_int_equal(io_file_add(r.io, "/nonexistent/file", &index, &err), SLUICE_ERR_IO);
    assert_non_null(strstr(err.message, "/nonexistent/file"));
    assert_int_equal(io_file_add(r.io, "/tmp", &index, &err), SLUICE_ERR_IO);
    assert_int_equal(io_file_add(r.io, "/dev/null", &index, &err), SLUICE_ERR_IO);
    /* More than the ring's first table of files holds, and reading from the last of them. */
    for (uint32_t i = 1; i < 150; i++) {
        assert_int_equal(io_file_add(r.io, r.file.path, &index, &err), SLUICE_OK);
        assert_int_equal(index, i);
    }
    assert_int_equal(io_read_now(r.io, 149, 1, r.memory, 4000, &err), SLUICE_OK);
    assert_true(test_file_matches(r.memory, 1, 4000));
    rig_end(&r);
    io_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_direct),           cmocka_unit_test(test_registered),
        cmocka_unit_test(test_buffered),         cmocka_unit_test(test_files_not_registered),
        cmocka_unit_test(test_small_limits),     cmocka_unit_test(test_read_now),
        cmocka_unit_test(test_read_now_between), cmocka_unit_test(test_end_of_file),
        cmocka_unit_test(test_refused_requests), cmocka_unit_test(test_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
