/* A run whose memory cgroup is tightened half-way through, step by step, each step as large as the kernel grants (it
 * refuses a limit below what is used and cannot be reclaimed): it goes on with the same tokens. Needs root and a memory
 * cgroup, v1 or v2; skipped without. */
#include "engine/engine.h"
#include "fault_os.h"
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define TOKENS 150
#define MIB ((uint64_t)1 << 20)
#define GROUP_BYTES (192 * MIB)

static char group[200];
static bool v2;

static bool put(const char *name, const char *text)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", group, name);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return false;
    bool good = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    close(fd);
    return good;
}

static bool put_number(const char *name, uint64_t n)
{
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)n);
    return put(name, text);
}

static uint64_t get(const char *name)
{
    char path[300];
    unsigned long long n = 0;
    snprintf(path, sizeof path, "%s/%s", group, name);
    FILE *f = fopen(path, "re");
    if (!f) return 0;
    if (fscanf(f, "%llu", &n) != 1) n = 0;
    fclose(f);
    return n;
}

static bool make_group(void)
{
    static const char *const roots[] = {"/sys/fs/cgroup/memory", "/sys/fs/cgroup"};
    for (int i = 0; i < 2; i++) {
        v2 = i == 1;
        if (v2 && access("/sys/fs/cgroup/cgroup.controllers", R_OK)) continue;
        snprintf(group, sizeof group, "%s/sluice-test-%d", roots[i], (int)getpid());
        if (mkdir(group, 0755)) continue;
        if (put_number(v2 ? "memory.max" : "memory.limit_in_bytes", GROUP_BYTES)) return true;
        rmdir(group);
    }
    return false;
}

static int32_t token(uint32_t i) { return (int32_t)(5 + i * 11 % 300); }

/* The logits' bits after all tokens. tighten: the limit goes down with each token of the second half. */
static uint64_t run(const char *model, bool tighten, uint64_t *used_first, uint64_t *limit_last,
                    struct sluice_stats *stats)
{
    static struct fault_os f;
    fault_os_init(&f);
    struct sluice_options o = support_options(model);
    o.experts = "100%";
    o.ctx = 256;
    o.threads = 1;
    sluice_engine *e;
    sluice_session *s;
    struct sluice_error err;
    if (engine_open(&f.calls, &o, &e, &err)) fail_msg("%s (%s)", err.message, err.hint);
    assert_int_equal(sluice_session_open(e, &s, &err), SLUICE_OK);
    int32_t ids[64];
    for (uint32_t i = 0; i < 64; i++) ids[i] = token(i);
    assert_int_equal(sluice_eval(s, ids, 64, NULL, NULL, NULL, &err), SLUICE_OK);
    *used_first = tighten ? get(v2 ? "memory.current" : "memory.usage_in_bytes") : 0; /* in use */
    *limit_last = GROUP_BYTES;
    for (uint32_t i = 0; i < TOKENS; i++) {
        int32_t id = token(64 + i);
        if (sluice_eval(s, &id, 1, NULL, NULL, NULL, &err)) fail_msg("%s (%s)", err.message, err.hint);
        fault_skip_time(&f, (uint64_t)300000000);
        if (!tighten || i < TOKENS / 4) continue;
        const uint64_t next = get(v2 ? "memory.current" : "memory.usage_in_bytes") + MIB;
        if (next < *limit_last && put_number(v2 ? "memory.max" : "memory.limit_in_bytes", next)) *limit_last = next;
    }
    uint64_t sum = 0;
    for (size_t i = 0; i < e->model->hp.n_vocab; i++) {
        uint32_t bits;
        memcpy(&bits, &s->logits[i], sizeof bits);
        sum = sum * 31 + bits;
    }
    sluice_stats(e, stats);
    sluice_session_close(s);
    sluice_engine_close(e);
    fault_os_destroy(&f);
    return sum;
}

static int in_group(const char *model, uint64_t want)
{
    struct sluice_stats stats;
    uint64_t first, last;
    if (!put_number(v2 ? "cgroup.procs" : "tasks", (uint64_t)getpid())) return 77;
    const uint64_t sum = run(model, true, &first, &last, &stats);
    print_message("tightened from %.1f MiB in use to %.1f MiB; %llu shrinks gave back %.1f MiB, the cache has %.1f\n",
                  (double)first / MIB, (double)last / MIB, (unsigned long long)stats.shrinks,
                  (double)stats.shrunk_bytes / MIB, (double)stats.slots_limit_bytes / MIB);
    if (sum != want) return 2;
    if (!stats.shrinks || stats.shrunk_bytes < 8 * MIB) return 3; /* the model's experts are 22 MiB */
    if (last + 8 * MIB > first) return 4;
    return 0;
}

static void test_tightened(void **state)
{
    (void)state;
    char model[SUPPORT_PATH_MAX];
    struct sluice_stats stats;
    uint64_t a, b;
    if (getenv("SLUICE_TEST_COMPACT")) skip(); /* a sanitizer's memory is not ours to give back */
    support_source("models/demo.gguf", model);
    const uint64_t want = run(model, false, &a, &b, &stats);
    assert_int_equal(stats.shrinks, 0);
    if (!make_group()) {
        print_message("no memory cgroup can be made here\n");
        skip();
    }
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) _exit(in_group(model, want));
    int how = 0;
    while (waitpid(child, &how, 0) < 0 && errno == EINTR) {
    }
    for (int i = 0; i < 100 && rmdir(group); i++) usleep(10000);
    if (WIFEXITED(how) && WEXITSTATUS(how) == 77) skip();
    if (!WIFEXITED(how)) fail_msg("the run was ended by signal %d", WTERMSIG(how));
    assert_int_equal(WEXITSTATUS(how), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tightened)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
