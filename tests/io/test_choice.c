/* Which back end is taken and what is said about it; registered memory and its limit. */
#include "rig.h"

#include <errno.h>
#include <linux/capability.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define FILE_BYTES ((size_t)300000)

static void test_automatic(void **state)
{
    struct rig r;
    rig_init(&r, FILE_BYTES, FILE_BYTES);
    struct io_config config = rig_config(&r, IO_AUTO);
    struct io_stats s;
    if (fault_uring_works()) {
        rig_open(&r, &config);
        io_stats(r.io, &s);
        assert_int_equal(s.backend, IO_URING);
        assert_true(s.registered_files);
        assert_int_equal(strncmp(r.lines[0], "reads: io_uring", 15), 0);
        rig_close(&r);
    }
    int errors[] = {EPERM, ENOSYS, ENOMEM, EMFILE};
    for (unsigned i = 0; i < 4; i++) {
        r.fault.uring_open_error = errors[i];
        rig_open(&r, &config);
        io_stats(r.io, &s);
        assert_int_equal(s.backend, IO_THREADS);
        assert_true(rig_logged(&r, "4 worker threads"));
        assert_true(rig_logged(&r, "not io_uring"));
        assert_true(rig_logged(&r, strerror(errors[i])));
        for (unsigned k = 1; k < r.n_lines; k++) assert_null(strstr(r.lines[k], "worker threads")); /* said once */
        rig_close(&r);
        struct sluice_error err = {0};
        struct io_config strict = rig_config(&r, IO_URING);
        assert_int_equal(io_open(&strict, &r.io, &err), SLUICE_ERR_IO);
        assert_non_null(strstr(err.message, strerror(errors[i])));
        assert_non_null(strstr(err.hint, "threads"));
        r.io = NULL;
    }
    rig_end(&r);
}

static void test_names(void **state)
{
    assert_string_equal(io_backend_name(IO_AUTO), "auto");
    assert_string_equal(io_backend_name(IO_URING), "uring");
    assert_string_equal(io_backend_name(IO_THREADS), "threads");
    assert_string_equal(io_backend_name(IO_SYNC), "sync");
}

static void test_refused_configs(void **state)
{
    struct rig r;
    rig_init(&r, FILE_BYTES, FILE_BYTES);
    struct sluice_error err = {0};
    struct io_config config = rig_config(&r, IO_THREADS);
    config.depth = 100000;
    assert_int_equal(io_open(&config, &r.io, &err), SLUICE_ERR_USAGE);
    config = rig_config(&r, IO_THREADS);
    config.threads = 100000;
    assert_int_equal(io_open(&config, &r.io, &err), SLUICE_ERR_USAGE);
    config = rig_config(&r, IO_THREADS);
    config.piece_bytes = (size_t)1 << 40;
    assert_int_equal(io_open(&config, &r.io, &err), SLUICE_ERR_USAGE);
    config = rig_config(&r, IO_THREADS);
    r.fault.commit_error = ENOMEM;
    assert_int_equal(io_open(&config, &r.io, &err), SLUICE_ERR_MEMORY);
    r.fault.commit_error = 0;
    r.fault.reserve_error = ENOMEM;
    assert_int_equal(io_open(&config, &r.io, &err), SLUICE_ERR_MEMORY);
    r.fault.reserve_error = 0;
    r.fault.open_error = EACCES;
    assert_int_equal(io_open(&config, &r.io, &err), SLUICE_OK);
    uint32_t index;
    assert_int_equal(io_file_add(r.io, r.file.path, &index, &err), SLUICE_ERR_IO);
    assert_non_null(strstr(err.message, "Permission denied"));
    r.fault.open_error = 0;
    r.fault.info_error = EIO;
    assert_int_equal(io_file_add(r.io, r.file.path, &index, &err), SLUICE_ERR_IO);
    assert_int_equal(r.fault.n_open, 0);
    r.fault.info_error = 0;
    assert_int_equal(io_file_add(r.io, r.file.path, &index, &err), SLUICE_OK);
    rig_end(&r);
}

/* Three regions, the middle one forgotten: reads into each of them, and across, are good. */
static void test_regions(void **state)
{
    if (!fault_uring_works()) skip();
    struct rig r;
    rig_init(&r, FILE_BYTES, 6 * 65536);
    struct io_config config = rig_config(&r, IO_URING);
    config.piece_bytes = 65536;
    rig_open(&r, &config);
    struct io_stats s;
    io_stats(r.io, &s);
    assert_false(s.registered_buffers);
    for (unsigned i = 3; i-- > 0;) io_memory_add(r.io, r.memory + 2 * i * 65536, 2 * 65536);
    io_memory_add(r.io, r.memory + 65536, 2 * 65536); /* overlaps what is known: nothing happens */
    assert_int_equal(r.fault.n_buffers_set, 3);
    io_stats(r.io, &s);
    assert_true(s.registered_buffers);
    for (unsigned round = 0; round < 2; round++) {
        unsigned before = r.fault.n_registered_reads;
        for (size_t at = 0; at < 6 * 65536; at += 32768) {
            size_t bytes = 6 * 65536 - at < 65536 ? 32768 : 65536;
            struct io_request q = rig_request(&r, at % 200704, bytes, IO_DEMAND, at);
            assert_int_equal(rig_read(&r, &q).status, SLUICE_OK);
            assert_true(test_file_matches(r.memory + at, at % 200704, bytes));
        }
        /* Of twelve reads two cross a border between regions, and later four lie in or reach into the forgotten one. */
        assert_int_equal(r.fault.n_registered_reads - before, round == 0 ? 10 : 7);
        if (round == 0) io_memory_forget(r.io, r.memory + 2 * 65536, 2 * 65536);
    }
    io_memory_forget(r.io, r.memory, 6 * 65536);
    io_stats(r.io, &s);
    assert_false(s.registered_buffers);
    for (unsigned i = 0; i < 5000; i++) { /* places in the table come back */
        io_memory_add(r.io, r.memory, 65536);
        io_memory_forget(r.io, r.memory, 65536);
    }
    assert_int_equal(r.fault.n_buffers_set, 5003);
    assert_int_equal(r.n_lines, 1);
    rig_end(&r);
}

static void test_buffers_refused(void **state)
{
    if (!fault_uring_works()) skip();
    struct rig r;
    rig_init(&r, FILE_BYTES, 4 * 65536);
    int errors[] = {ENOMEM, EPERM, EOPNOTSUPP};
    for (unsigned i = 0; i < 6; i++) {
        struct io_config config = rig_config(&r, IO_URING);
        /* The table refused, or its first entry. */
        r.fault.uring_buffers_error = i < 3 ? errors[i] : 0;
        r.fault.uring_buffer_set_error = i >= 3 ? errors[i - 3] : 0;
        r.fault.n_buffers_set = r.fault.n_registered_reads = 0;
        rig_open(&r, &config);
        for (unsigned k = 0; k < 4; k++) io_memory_add(r.io, r.memory + k * 65536, 65536);
        assert_int_equal(r.fault.n_buffers_set, i < 3 ? 0 : 1); /* not tried again */
        assert_int_equal(r.n_lines, 2);
        if (errors[i % 3] != EOPNOTSUPP) assert_true(rig_logged(&r, "RLIMIT_MEMLOCK"));
        struct io_stats s;
        io_stats(r.io, &s);
        assert_false(s.registered_buffers);
        struct io_request q = rig_request(&r, 0, 200000, IO_DEMAND, 0);
        assert_int_equal(rig_read(&r, &q).status, SLUICE_OK);
        assert_true(test_file_matches(r.memory, 0, 200000));
        assert_int_equal(r.fault.n_registered_reads, 0);
        io_memory_forget(r.io, r.memory, 4 * 65536);
        rig_close(&r);
    }
    rig_end(&r);
}

/* The kernel does not take the queue for a moment. */
static void test_submit_refused(void **state)
{
    if (!fault_uring_works()) skip();
    struct rig r;
    rig_init(&r, FILE_BYTES, FILE_BYTES + 65536);
    int errors[] = {EAGAIN, EBUSY, EINTR};
    for (unsigned i = 0; i < 3; i++) {
        struct io_config config = rig_config(&r, IO_URING);
        rig_open(&r, &config);
        r.fault.uring_submit_error = errors[i];
        r.fault.uring_submit_errors = 5;
        struct io_request q = rig_request(&r, 0, FILE_BYTES, IO_DEMAND, 0);
        assert_int_equal(rig_read(&r, &q).status, SLUICE_OK);
        assert_true(test_file_matches(r.memory, 0, FILE_BYTES));
        assert_int_equal(r.fault.uring_submit_errors, 0);
        rig_close(&r);
    }
    rig_end(&r);
}

static bool drop_ipc_lock(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &header, data)) return false;
    data[0].effective &= ~(1u << CAP_IPC_LOCK);
    data[0].permitted &= ~(1u << CAP_IPC_LOCK);
    data[0].inheritable &= ~(1u << CAP_IPC_LOCK);
    return syscall(SYS_capset, &header, data) == 0;
}

#define LARGE_BYTES ((size_t)64 << 20)

/* In a child without the capability and with 8 MiB to lock. Returns 0 or the number of the step that went wrong. */
static int limited_child(struct rig *r)
{
    struct rlimit limit = {(rlim_t)8 << 20, (rlim_t)8 << 20};
    if (setrlimit(RLIMIT_MEMLOCK, &limit) || !drop_ipc_lock()) return 1;
    struct os_memory m;
    os_memory(&m);
    if (m.can_ipc_lock || m.memlock_bytes != (uint64_t)8 << 20) return 2;
    struct io_config config = rig_config(r, IO_URING);
    if (io_open(&config, &r->io, NULL)) return 3;
    if (io_file_add(r->io, r->file.path, &r->index, NULL)) return 4;
    void *large = mmap(NULL, LARGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (large == MAP_FAILED) return 5;
    io_memory_add(r->io, large, LARGE_BYTES);
    struct io_stats s;
    io_stats(r->io, &s);
    if (s.registered_buffers) return 6;
    if (!rig_logged(r, "RLIMIT_MEMLOCK is 8192 KiB, no CAP_IPC_LOCK")) return 7;
    unsigned lines = r->n_lines;
    io_memory_add(r->io, large, LARGE_BYTES);
    if (r->n_lines != lines) return 8;
    struct io_request q = {
        .file = r->index,
        .bytes = (FILE_BYTES + 65535) / 65536 * 65536,
        .needed_bytes = FILE_BYTES,
        .dst = large,
    };
    struct io_request *list = &q;
    struct io_done done;
    if (io_submit(r->io, &list, 1, NULL) || io_poll(r->io, &done, 1, true) != 1) return 9;
    if (done.status != SLUICE_OK || !test_file_matches(large, 0, FILE_BYTES)) return 10;
    io_close(r->io);
    return 0;
}

static void test_memlock(void **state)
{
    if (!fault_uring_works()) skip();
    struct rig r;
    rig_init(&r, FILE_BYTES, 65536);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) _exit(limited_child(&r));
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    rig_end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_automatic),       cmocka_unit_test(test_names),
        cmocka_unit_test(test_refused_configs), cmocka_unit_test(test_regions),
        cmocka_unit_test(test_buffers_refused), cmocka_unit_test(test_submit_refused),
        cmocka_unit_test(test_memlock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
