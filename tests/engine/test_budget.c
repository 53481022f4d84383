/* The budget is a hard limit, seen from outside: the built program runs as a child, in a memory cgroup where one can be
 * made, and the system says how much memory it held at most. */
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB ((uint64_t)1 << 20)

static char model[SUPPORT_PATH_MAX];
static const char *program;
static struct sluice_error err;

struct outcome {
    int exit_code; /* -1: killed by a signal */
    uint64_t peak_bytes;
    char stderr_text[8192];
};

/* A cgroup (v1) with a memory limit, or false. */
static bool make_cgroup(uint64_t limit, char folder[256])
{
    char path[300];
    snprintf(folder, 256, "/sys/fs/cgroup/memory/sluice-test-%d", (int)getpid());
    if (mkdir(folder, 0755) && errno != EEXIST) return false;
    snprintf(path, sizeof path, "%s/memory.limit_in_bytes", folder);
    FILE *f = fopen(path, "w");
    if (!f) return false;
    fprintf(f, "%" PRIu64 "\n", limit);
    return fclose(f) == 0;
}

static void enter_cgroup(const char *folder)
{
    char path[300];
    snprintf(path, sizeof path, "%s/cgroup.procs", folder);
    FILE *f = fopen(path, "w");
    if (!f || fprintf(f, "%d\n", (int)getpid()) < 0 || fclose(f)) _exit(99);
}

/* Runs the program with arguments (NULL at the end); cgroup "" for none. stdout is thrown away. */
static struct outcome run(const char *cgroup, const char *const *arguments)
{
    struct outcome out = {0};
    int pipe_fd[2], status;
    assert_int_equal(pipe(pipe_fd), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        int null = open("/dev/null", O_RDWR);
        dup2(null, 0);
        dup2(null, 1);
        dup2(pipe_fd[1], 2);
        close(pipe_fd[0]);
        close(pipe_fd[1]);
        if (*cgroup) enter_cgroup(cgroup);
        execv(program, (char *const *)arguments);
        _exit(98);
    }
    close(pipe_fd[1]);
    size_t n = 0;
    for (ssize_t got; (got = read(pipe_fd[0], out.stderr_text + n, sizeof out.stderr_text - 1 - n)) > 0;)
        n += (size_t)got;
    close(pipe_fd[0]);
    struct rusage usage;
    assert_int_equal(wait4(pid, &status, 0, &usage), pid);
    out.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    out.peak_bytes = (uint64_t)usage.ru_maxrss * 1024;
    return out;
}

static const char *const prompt =
    "It was the best of times, it was the worst of times, it was the age of wisdom, and the boy said unto "
    "his father that he would go down to the sea in a ship";

static struct outcome run_memory(const char *cgroup, const char *memory, const char *extra, const char *value)
{
    const char *arguments[] = {program, "run",      "-m",       model,  "-p",  prompt, "-n",
                               "40",    "--greedy", "--memory", memory, extra, value,  NULL};
    return run(cgroup, arguments);
}

static void peak_stays_under_the_budget(void **state)
{
    (void)state;
    static const unsigned sizes[] = {24, 27, 31, 40, 64};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char folder[256] = "", memory[32];
        snprintf(memory, sizeof memory, "%uM", sizes[i]);
        /* Room for the kernel's own pages and the program's file pages; a program that held much more would be killed.
         */
        if (!make_cgroup((sizes[i] + 16) * MIB, folder)) {
            folder[0] = 0;
            print_message("no memory cgroup can be made here; measured without one\n");
        }
        struct outcome o = run_memory(folder, memory, "--ctx", "256");
        if (*folder) rmdir(folder);
        if (o.exit_code) fail_msg("--memory %s: exit code %d: %s", memory, o.exit_code, o.stderr_text);
        print_message("--memory %s: peak %.1f MiB\n", memory, (double)o.peak_bytes / (double)MIB);
        assert_true(o.peak_bytes <= sizes[i] * MIB);
    }
}

/* A refusal names the smallest --memory that would do; given that number, it works and stays under it. */
static void refusal_names_what_would_do(void **state)
{
    (void)state;
    struct outcome o = run_memory("", "9M", "--ctx", "64");
    assert_int_equal(o.exit_code, 4);
    const char *at = strstr(o.stderr_text, "--memory ");
    if (!at) fail_msg("no way out is named: %s", o.stderr_text);
    char memory[32];
    assert_int_equal(sscanf(at, "--memory %31[0-9A-Za-z.]", memory), 1);
    o = run_memory("", memory, "--ctx", "64");
    if (o.exit_code) fail_msg("--memory %s, as named, gives exit code %d: %s", memory, o.exit_code, o.stderr_text);
    char *end;
    const uint64_t number = strtoull(memory, &end, 10), bytes = number * (*end == 'G'   ? 1024 * MIB
                                                                          : *end == 'M' ? MIB
                                                                                        : 1024);
    print_message("floor --memory %s: peak %.1f MiB\n", memory, (double)o.peak_bytes / (double)MIB);
    assert_true(o.peak_bytes <= bytes);
}

/* The memory of the second reads is in the ledger. */
static void the_same_with_verify(void **state)
{
    assert_int_equal(setenv("SLUICE_VERIFY", "1", 1), 0);
    peak_stays_under_the_budget(state);
    unsetenv("SLUICE_VERIFY");
}

static void more_than_the_machine_has(void **state)
{
    (void)state;
    struct outcome o = run_memory("", "900000G", "--ctx", "64");
    assert_int_equal(o.exit_code, 4);
    assert_non_null(strstr(o.stderr_text, "878.91 TiB"));
    char folder[256];
    if (!make_cgroup(48 * MIB, folder)) return;
    o = run_memory(folder, "60M", "--ctx", "64");
    rmdir(folder);
    assert_int_equal(o.exit_code, 4);
    assert_non_null(strstr(o.stderr_text, "cgroup"));
}

/* Before the first prompt nothing is read but metadata and dense weights, and planning reads not even those. */
static void nothing_is_read_early(void **state)
{
    (void)state;
    struct sluice_options o = support_options(model);
    sluice_engine *e;
    if (sluice_engine_open(&o, &e, &err)) fail_msg("%s", err.message);
    struct sluice_stats s;
    struct sluice_model_info info;
    struct io_stats io;
    sluice_stats(e, &s);
    sluice_model_info(e, &info);
    io_stats(e->io, &io);
    print_message("dense weights %" PRIu64 " bytes, read %" PRIu64 "\n", info.dense_bytes, io.read_bytes);
    assert_int_equal(s.read_bytes, 0);
    assert_int_equal(s.experts_resident, 0);
    assert_true(io.read_bytes >= info.dense_bytes);
    /* 1 %, and a block of alignment at both ends of each run of tensors (a small model has small runs) */
    assert_true(io.read_bytes <=
                info.dense_bytes + info.dense_bytes / 100 + e->load.n_runs * 2 * io_file_align(e->io, 0));
    sluice_engine_close(e);
    o.plan_only = true;
    if (sluice_engine_open(&o, &e, &err)) fail_msg("%s", err.message);
    io_stats(e->io, &io);
    assert_int_equal(io.read_bytes, 0);
    struct sluice_ledger l;
    sluice_ledger(e, &l);
    uint64_t sum = 0;
    for (size_t i = 0; i < l.n_rows; i++) sum += l.rows[i].bytes;
    assert_true(l.n_rows >= 6 && sum <= l.budget_bytes && l.budget_bytes <= l.machine_limit_bytes);
    sluice_engine_close(e);
}

int main(void)
{
    program = getenv("SLUICE_BIN");
    support_source("models/demo.gguf", model);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_read_early), cmocka_unit_test(peak_stays_under_the_budget),
        cmocka_unit_test(refusal_names_what_would_do), cmocka_unit_test(the_same_with_verify),
        cmocka_unit_test(more_than_the_machine_has)};
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    (void)tests;
    puts("skipped: a sanitizer's shadow memory is not the program's");
    return 77;
#endif
    if (!program) {
        puts("skipped: SLUICE_BIN does not name the program");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
