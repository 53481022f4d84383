/* Small files replaced as a whole by writers that hold no lock: what is there under the name is always all of one
 * writing, and what fails leaves it alone. */
#include "expert/replace.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define HINT "choose another place"
#define BYTES 40000u

static char folder[32], path[64];
static struct sluice_error err;

static int setup(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/sluice-replace-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    snprintf(path, sizeof path, "%s/list", folder);
    return 0;
}

static unsigned files_in_folder(bool remove)
{
    unsigned n = 0;
    char name[400];
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *f; (f = readdir(d));) {
        if (f->d_name[0] == '.') continue;
        n++;
        snprintf(name, sizeof name, "%s/%s", folder, f->d_name);
        if (remove) unlink(name);
    }
    closedir(d);
    return n;
}

static int teardown(void **state)
{
    (void)state;
    files_in_folder(true);
    return rmdir(folder);
}

static void put(const char *at, const char *text)
{
    FILE *f = fopen(at, "we");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void assert_holds(const char *at, const char *text)
{
    char seen[64] = "";
    FILE *f = fopen(at, "re");
    assert_non_null(f);
    seen[fread(seen, 1, sizeof seen - 1, f)] = '\0';
    fclose(f);
    assert_string_equal(seen, text);
}

static enum sluice_status write_text(const char *at, const char *text)
{
    return replace_write_alone(at, HINT, text, strlen(text), &err);
}

static void test_new_and_again(void **state)
{
    struct stat info;
    (void)state;
    assert_int_equal(write_text(path, "first"), SLUICE_OK);
    assert_holds(path, "first");
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(write_text(path, "2nd"), SLUICE_OK);
    assert_holds(path, "2nd");
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600); /* it may be private */
    assert_int_equal(files_in_folder(false), 1);
}

static void test_links(void **state)
{
    char link[80];
    struct stat info;
    (void)state;
    snprintf(link, sizeof link, "%s/link", folder);
    assert_int_equal(symlink("list", link), 0);
    assert_int_equal(write_text(link, "x"), SLUICE_ERR_IO); /* it leads nowhere */
    assert_non_null(strstr(err.message, link));
    put(path, "old");
    assert_int_equal(write_text(link, "new"), SLUICE_OK);
    assert_holds(path, "new");
    assert_int_equal(lstat(link, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_int_equal(files_in_folder(false), 2);
}

static void test_a_pipe_is_written_to(void **state)
{
    char seen[8] = "";
    (void)state;
    assert_int_equal(mkfifo(path, 0600), 0);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write_text(path, "pipe"), SLUICE_OK);
    assert_int_equal(read(fd, seen, sizeof seen - 1), 4);
    assert_string_equal(seen, "pipe");
    close(fd);
    assert_int_equal(files_in_folder(false), 1);
}

static void test_part_files_of_others(void **state)
{
    char part[100];
    (void)state;
    put(path, "old");
    snprintf(part, sizeof part, "%s" REPLACE_PART_SUFFIX ".0", path);
    put(part, "not mine");
    assert_int_equal(write_text(path, "new"), SLUICE_OK);
    assert_holds(path, "new");
    assert_holds(part, "not mine");
    for (unsigned i = 1; i < 100; i++) {
        snprintf(part, sizeof part, "%s" REPLACE_PART_SUFFIX ".%u", path, i);
        put(part, "nor this");
    }
    assert_int_equal(write_text(path, "newer"), SLUICE_ERR_IO);
    assert_holds(path, "new");
    assert_holds(part, "nor this");
}

static void test_a_failure_leaves_what_was_there(void **state)
{
    static const char many[BYTES];
    struct rlimit before, small;
    (void)state;
    put(path, "old");
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = BYTES / 2;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    enum sluice_status status = replace_write_alone(path, HINT, many, BYTES, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(status, SLUICE_ERR_IO);
    assert_non_null(strstr(err.message, path));
    assert_non_null(strstr(err.hint, "ulimit -f"));
    assert_holds(path, "old");
    assert_int_equal(files_in_folder(false), 1);
    assert_int_equal(write_text("/nowhere/list", "x"), SLUICE_ERR_IO);
    assert_non_null(strstr(err.message, "/nowhere/list"));
    assert_int_equal(write_text(folder, "x"), SLUICE_ERR_IO); /* a directory */
}

/* Several write at once, another looks: it never sees a part, nor of two writings. */
static void test_whole_at_any_time(void **state)
{
    static char mine[BYTES], seen[BYTES + 1];
    pid_t writers[3];
    (void)state;
    memset(mine, 'a', sizeof mine);
    assert_int_equal(replace_write_alone(path, HINT, mine, BYTES, &err), SLUICE_OK);
    for (int i = 0; i < 3; i++) {
        writers[i] = fork();
        assert_true(writers[i] >= 0);
        if (writers[i]) continue;
        memset(mine, 'b' + i, sizeof mine);
        for (int n = 0; n < 15; n++)
            if (replace_write_alone(path, HINT, mine, BYTES, &err)) _exit(1);
        _exit(0);
    }
    for (int running = 3, status; running > 0;) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        assert_true(fd >= 0);
        assert_int_equal(read(fd, seen, sizeof seen), BYTES);
        close(fd);
        for (unsigned i = 1; i < BYTES; i++) assert_true(seen[i] == seen[0]);
        for (int i = 0; i < 3; i++)
            if (writers[i] && waitpid(writers[i], &status, WNOHANG) == writers[i]) {
                assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
                writers[i] = 0;
                running--;
            }
    }
    assert_int_equal(files_in_folder(false), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_new_and_again, setup, teardown),
        cmocka_unit_test_setup_teardown(test_links, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_pipe_is_written_to, setup, teardown),
        cmocka_unit_test_setup_teardown(test_part_files_of_others, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_failure_leaves_what_was_there, setup, teardown),
        cmocka_unit_test_setup_teardown(test_whole_at_any_time, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
