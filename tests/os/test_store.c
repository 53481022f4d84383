/* Files that are written, renamed, removed and locked, and folders. */
#include "os/os.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static const struct os_calls *os;
static char folder[256];

static int begin(void **state)
{
    const char *dir = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/sluice-store-XXXXXX", dir && dir[0] ? dir : "/tmp");
    return mkdtemp(folder) ? 0 : 1;
}

static int end(void **state) { return rmdir(folder); }

static const char *in_folder(const char *name, char out[512])
{
    snprintf(out, 512, "%s/%s", folder, name);
    return out;
}

static bool count(void *arg, const char *name)
{
    assert_true(!strcmp(name, "a") || !strcmp(name, "b"));
    ++*(int *)arg;
    return true;
}

static bool first(void *arg, const char *name)
{
    ++*(int *)arg;
    return false;
}

static void test_written(void **state)
{
    char a[512], b[512], back[16];
    struct os_file_info info;
    int n = 0;
    int fd = os->create(os->user, in_folder("a", a));
    assert_true(fd >= 0);
    assert_int_equal(os->create(os->user, a), -EEXIST);
    assert_int_equal(os->write(os->user, fd, "hello", 5), 5);
    assert_int_equal(os->write(os->user, fd, " you", 4), 4);
    assert_int_equal(os->sync(os->user, fd), 0);
    assert_int_equal(os->file_info(os->user, fd, &info), 0);
    assert_int_equal(info.bytes, 9);
    assert_int_equal(info.disk_bytes % 512, 0);
    assert_int_equal(os->close(os->user, fd), 0);
    fd = os->create(os->user, in_folder("b", b));
    assert_int_equal(os->close(os->user, fd), 0);
    assert_int_equal(os->list_folder(os->user, folder, count, &n), 0);
    assert_int_equal(n, 2);
    assert_int_equal(os->list_folder(os->user, folder, first, &n), 0);
    assert_int_equal(n, 3);
    assert_int_equal(os->rename(os->user, a, b), 0);
    assert_int_equal(os->sync_folder(os->user, folder), 0);
    fd = os->open_read(os->user, b, false);
    assert_int_equal(os->pread(os->user, fd, back, sizeof back, 0), 9);
    assert_memory_equal(back, "hello you", 9);
    assert_int_equal(os->close(os->user, fd), 0);
    assert_int_equal(os->remove(os->user, b), 0);
    assert_int_equal(os->remove(os->user, b), -ENOENT);
    assert_int_equal(os->rename(os->user, a, b), -ENOENT);
}

/* Nobody else reads what was kept, and nothing is written through a link. */
static void test_private(void **state)
{
    char a[512], b[512];
    struct stat st;
    assert_int_equal(os->make_folder(os->user, in_folder("d", a)), 0);
    assert_int_equal(os->make_folder(os->user, a), 0);
    assert_int_equal(stat(a, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(rmdir(a), 0);
    int fd = os->create(os->user, in_folder("a", a));
    assert_int_equal(os->close(os->user, fd), 0);
    assert_int_equal(stat(a, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(os->make_folder(os->user, a), -ENOTDIR);
    assert_int_equal(symlink(a, in_folder("b", b)), 0);
    assert_int_equal(os->create(os->user, b), -EEXIST);
    assert_int_equal(os->lock_file(os->user, b), -ELOOP);
    assert_int_equal(os->remove(os->user, b), 0);
    assert_int_equal(os->remove(os->user, a), 0);
    assert_int_equal(os->list_folder(os->user, a, first, NULL), -ENOENT);
    assert_int_equal(os->sync_folder(os->user, a), -ENOENT);
}

static void test_locks(void **state)
{
    char a[512];
    int fd = os->lock_file(os->user, in_folder("lock", a));
    assert_true(fd >= 0);
    assert_int_equal(os->lock_file(os->user, a), -EWOULDBLOCK);
    assert_int_equal(os->close(os->user, fd), 0);
    fd = os->lock_file(os->user, a);
    assert_true(fd >= 0);
    assert_int_equal(os->close(os->user, fd), 0);
    assert_int_equal(os->remove(os->user, a), 0);
}

int main(void)
{
    os = os_system();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_written),
        cmocka_unit_test(test_private),
        cmocka_unit_test(test_locks),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
