/* The io_uring functions by themselves. */
#include "os/os.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define BYTES 65536u

static const struct os_calls *os;
static char path[512];
static uint8_t *memory; /* [4 * BYTES] */

static int begin(void **state)
{
    const char *dir = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/sluice-os-XXXXXX", dir && dir[0] ? dir : "/tmp");
    int fd = mkstemp(path);
    memory = aligned_alloc(65536, 4 * BYTES);
    if (fd < 0 || !memory) return 1;
    for (unsigned i = 0; i < BYTES; i++) memory[i] = (uint8_t)(i % 251);
    bool good = write(fd, memory, BYTES) == (ssize_t)BYTES && fsync(fd) == 0;
    memset(memory, 0, 4 * BYTES);
    return close(fd) || !good;
}

static int end(void **state)
{
    free(memory);
    return unlink(path);
}

static struct os_uring *ring_of(unsigned entries)
{
    struct os_uring *ring = NULL;
    if (os->uring_open(os->user, entries, &ring) < 0) skip(); /* forbidden here */
    return ring;
}

static bool matches(size_t at, size_t offset, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (memory[at + i] != (offset + i) % 251) return false;
    return true;
}

static struct os_uring_done wait_one(struct os_uring *ring)
{
    struct os_uring_done done = {0};
    int n = 0;
    for (unsigned i = 0; n == 0 && i < 100; i++) n = os->uring_reap(os->user, ring, &done, 1, 100000000);
    assert_int_equal(n, 1);
    return done;
}

static void read_all(struct os_uring *ring, unsigned file, int buffer)
{
    memset(memory, 0, BYTES);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(os->uring_read(os->user, ring, file, memory + i * 16384, 16384, i * 16384, buffer, 100 + i),
                         0);
    assert_int_equal(os->uring_submit(os->user, ring), 4);
    unsigned tags = 0;
    for (unsigned i = 0; i < 4; i++) {
        struct os_uring_done done = wait_one(ring);
        assert_int_equal(done.result, 16384);
        assert_in_range(done.tag, 100, 103);
        tags |= 1u << (done.tag - 100);
    }
    assert_int_equal(tags, 15);
    assert_true(matches(0, 0, BYTES));
}

static void test_files(void **state)
{
    struct os_uring *ring = ring_of(8);
    for (int direct = 0; direct <= 1; direct++) {
        int fd = os->open_read(os->user, path, direct);
        if (fd == -EINVAL) continue;
        assert_true(fd >= 0);
        if (direct == 0) read_all(ring, (unsigned)fd, -1); /* no table yet: by descriptor */
        /* A table that grows past its first size, its last entry, an entry that changes, a table that shrinks. */
        int fds[130];
        for (unsigned i = 0; i < 130; i++) fds[i] = fd;
        assert_int_equal(os->uring_files(os->user, ring, fds, 1), 0);
        read_all(ring, 0, -1);
        assert_int_equal(os->uring_files(os->user, ring, fds, 130), 0);
        read_all(ring, 129, -1);
        fds[7] = os->open_read(os->user, path, false);
        assert_int_equal(os->uring_files(os->user, ring, fds, 130), 0);
        read_all(ring, 7, -1);
        assert_int_equal(os->uring_files(os->user, ring, fds, 130), 0);
        os->close(os->user, fds[7]);
        assert_int_equal(os->uring_files(os->user, ring, fds, 2), 0);
        read_all(ring, 1, -1);
        assert_int_equal(os->uring_read(os->user, ring, 2, memory, 10, 0, -1, 1), -EINVAL);
        os->close(os->user, fd);
    }
    os->uring_close(os->user, ring);
}

static void test_buffers(void **state)
{
    struct os_uring *ring = ring_of(8);
    int fd = os->open_read(os->user, path, false);
    assert_int_equal(os->uring_buffer_set(os->user, ring, 0, memory, BYTES), -EINVAL); /* no table */
    int rc = os->uring_buffers(os->user, ring, 16);
    if (rc < 0) {
        os->close(os->user, fd);
        os->uring_close(os->user, ring);
        skip(); /* before 5.13, or nothing may be locked */
    }
    assert_int_equal(os->uring_buffers(os->user, ring, 16), -EBUSY);
    assert_int_equal(os->uring_buffer_set(os->user, ring, 16, memory, BYTES), -EINVAL);
    assert_int_equal(os->uring_buffer_set(os->user, ring, 15, memory, BYTES), 0);
    read_all(ring, (unsigned)fd, 15);
    assert_int_equal(os->uring_buffer_set(os->user, ring, 15, NULL, 0), 0);
    /* Neither an empty entry nor memory outside of the buffer is read into. */
    assert_int_equal(os->uring_read(os->user, ring, (unsigned)fd, memory, 100, 0, 15, 9), 0);
    os->uring_submit(os->user, ring);
    assert_int_equal(wait_one(ring).result, -EFAULT);
    assert_int_equal(os->uring_buffer_set(os->user, ring, 3, memory, BYTES), 0);
    assert_int_equal(os->uring_read(os->user, ring, (unsigned)fd, memory + BYTES - 50, 100, 0, 3, 9), 0);
    os->uring_submit(os->user, ring);
    assert_int_equal(wait_one(ring).result, -EFAULT);
    assert_int_equal(os->uring_read(os->user, ring, (unsigned)fd, memory, 100, 0, 16, 9), -EINVAL);
    os->close(os->user, fd);
    os->uring_close(os->user, ring);
}

static void test_edges(void **state)
{
    struct os_uring *ring = NULL;
    assert_int_equal(os->uring_open(os->user, 0, &ring), -EINVAL);
    assert_int_equal(os->uring_open(os->user, 1u << 20, &ring), -EINVAL);
    ring = ring_of(4);
    int fd = os->open_read(os->user, path, false);
    struct os_uring_done done[8];
    assert_int_equal(os->uring_reap(os->user, ring, done, 8, 0), 0);
    assert_int_equal(os->uring_reap(os->user, ring, done, 8, 1000000), 0); /* the wait ends: not an error */
    assert_int_equal(os->uring_reap(os->user, ring, done, 0, 1000000), 0);
    assert_int_equal(os->uring_submit(os->user, ring), 0);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(os->uring_read(os->user, ring, (unsigned)fd, memory + i * 100, 100, i * 100, -1, i), 0);
    assert_int_equal(os->uring_read(os->user, ring, (unsigned)fd, memory, 100, 0, -1, 9), -EAGAIN); /* full */
    assert_int_equal(os->uring_read(os->user, ring, (unsigned)fd, memory, SIZE_MAX, 0, -1, 9), -EINVAL);
    assert_int_equal(os->uring_submit(os->user, ring), 4);
    for (unsigned i = 0; i < 4; i++) assert_int_equal(wait_one(ring).result, 100);
    assert_true(matches(0, 0, 400));
    /* The end of the file, past it, and a descriptor that is none: answers, not failures of the call. */
    assert_int_equal(os->uring_read(os->user, ring, (unsigned)fd, memory, 100, BYTES - 10, -1, 1), 0);
    assert_int_equal(os->uring_submit(os->user, ring), 1);
    assert_int_equal(wait_one(ring).result, 10);
    assert_int_equal(os->uring_read(os->user, ring, (unsigned)fd, memory, 100, BYTES, -1, 1), 0);
    assert_int_equal(os->uring_submit(os->user, ring), 1);
    assert_int_equal(wait_one(ring).result, 0);
    assert_int_equal(os->uring_read(os->user, ring, 9999, memory, 100, 0, -1, 77), 0);
    assert_int_equal(os->uring_read(os->user, ring, (unsigned)fd, memory, 100, 0, -1, 78), 0);
    os->uring_submit(os->user, ring);
    for (unsigned i = 0; i < 2; i++) {
        struct os_uring_done one = wait_one(ring);
        assert_int_equal(one.result, one.tag == 77 ? -EBADF : 100);
    }
    os->close(os->user, fd);
    os->uring_close(os->user, ring);
    os->uring_close(os->user, NULL);
}

int main(void)
{
    os = os_system();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_files, begin, end),
        cmocka_unit_test_setup_teardown(test_buffers, begin, end),
        cmocka_unit_test_setup_teardown(test_edges, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
