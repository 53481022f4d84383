/* Files as the table reads them. */
#include "os/os.h"

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

#define BYTES 10000u

static const struct os_calls *os;
static char path[512];

static int begin(void **state)
{
    const char *dir = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/sluice-os-XXXXXX", dir && dir[0] ? dir : "/tmp");
    int fd = mkstemp(path);
    if (fd < 0) return 1;
    uint8_t data[BYTES];
    for (unsigned i = 0; i < BYTES; i++) data[i] = (uint8_t)(i * 7 + i / 256);
    bool good = write(fd, data, BYTES) == (ssize_t)BYTES && fsync(fd) == 0;
    return close(fd) || !good;
}

static int end(void **state) { return unlink(path); }

static void test_buffered(void **state)
{
    int fd = os->open_read(os->user, path, false);
    assert_true(fd >= 0);
    uint8_t data[BYTES];
    assert_int_equal(os->pread(os->user, fd, data, 100, 3), 100);
    for (unsigned i = 0; i < 100; i++) assert_int_equal(data[i], (uint8_t)((i + 3) * 7 + (i + 3) / 256));
    assert_int_equal(os->pread(os->user, fd, data, 100, BYTES - 30), 30);
    assert_int_equal(os->pread(os->user, fd, data, 100, BYTES), 0);
    assert_int_equal(os->pread(os->user, fd, data, 100, UINT64_MAX), -EINVAL);
    assert_int_equal(os->drop_cached(os->user, fd, 0, BYTES), 0);
    assert_int_equal(os->drop_cached(os->user, fd, UINT64_MAX, 1), -EINVAL);
    char name[64];
    os_filesystem_name(fd, name, sizeof name);
    assert_true(strlen(name) > 1);
    assert_int_equal(os->close(os->user, fd), 0);
    assert_int_equal(os->pread(os->user, fd, data, 100, 0), -EBADF);
    assert_int_equal(os->close(os->user, fd), -EBADF);
    os_filesystem_name(fd, name, sizeof name);
    assert_string_equal(name, "unknown");
}

static void test_info(void **state)
{
    int fd = os->open_read(os->user, path, false);
    struct os_file_info info;
    struct stat st;
    assert_int_equal(os->file_info(os->user, fd, &info), 0);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(info.bytes, BYTES);
    assert_int_equal(info.inode, st.st_ino);
    assert_int_equal(info.device, st.st_dev);
    assert_true(info.regular);
    assert_int_equal(info.direct_align & (info.direct_align - 1), 0);
    assert_int_equal(truncate(path, 5000), 0);
    struct os_file_info now;
    assert_int_equal(os->file_info(os->user, fd, &now), 0);
    assert_int_equal(now.bytes, 5000);
    assert_int_equal(now.inode, info.inode);
    assert_int_equal(os->close(os->user, fd), 0);
    assert_int_equal(os->file_info(os->user, fd, &info), -EBADF);
}

static void test_direct(void **state)
{
    int fd = os->open_read(os->user, path, true);
    if (fd == -EINVAL) skip(); /* this file system has no direct reads */
    assert_true(fd >= 0);
    struct os_file_info info;
    assert_int_equal(os->file_info(os->user, fd, &info), 0);
    if (info.direct_align == 0) {
        os->close(os->user, fd);
        skip();
    }
    uint8_t *data = aligned_alloc(65536, 65536);
    assert_int_equal(os->pread(os->user, fd, data, 65536, info.direct_align), BYTES - info.direct_align);
    for (unsigned i = 0; i < BYTES - info.direct_align; i++) {
        unsigned at = i + info.direct_align;
        assert_int_equal(data[i], (uint8_t)(at * 7 + at / 256));
    }
    free(data);
    assert_int_equal(os->close(os->user, fd), 0);
}

static void test_odd_files(void **state)
{
    assert_int_equal(os->open_read(os->user, "/nonexistent", false), -ENOENT);
    struct os_file_info info;
    int fd = os->open_read(os->user, "/dev/null", false);
    assert_true(fd >= 0);
    assert_int_equal(os->file_info(os->user, fd, &info), 0);
    assert_false(info.regular);
    os->close(os->user, fd);
    /* A pipe that nobody writes to must not hang the one who opens it. */
    char fifo[600];
    snprintf(fifo, sizeof fifo, "%s.fifo", path);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    fd = os->open_read(os->user, fifo, false);
    assert_true(fd >= 0);
    assert_int_equal(os->file_info(os->user, fd, &info), 0);
    assert_false(info.regular);
    assert_false(fcntl(fd, F_GETFL) & O_NONBLOCK);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    os->close(os->user, fd);
    unlink(fifo);
}

int main(void)
{
    os = os_system();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_buffered, begin, end),
        cmocka_unit_test_setup_teardown(test_info, begin, end),
        cmocka_unit_test_setup_teardown(test_direct, begin, end),
        cmocka_unit_test_setup_teardown(test_odd_files, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
