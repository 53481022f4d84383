/* What is claimed about the processor agrees with the kernel's own view. */
#include "os/os.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char flags[8192];

static bool read_flags(void)
{
    FILE *f = fopen("/proc/cpuinfo", "r");
    char line[sizeof flags];
    while (f && fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        if (!colon || (strncmp(line, "flags", 5) != 0 && strncmp(line, "Features", 8) != 0)) continue;
        colon[strlen(colon) - 1] = ' ';
        snprintf(flags, sizeof flags, "%s", colon + 1);
        break;
    }
    if (f) fclose(f);
    return flags[0] != 0;
}

static bool kernel_has(const char *name)
{
    char word[64];
    snprintf(word, sizeof word, " %s ", name);
    return strstr(flags, word) != NULL;
}

static void test_features(void **state)
{
    if (!read_flags()) skip();
    struct os_cpu cpu;
    for (unsigned i = 0; i < 200; i++) { /* the same answer each time */
        os_cpu(&cpu);
        struct {
            bool ours;
            const char *name;
        } pairs[] = {
            {cpu.avx2, "avx2"},
            {cpu.fma, "fma"},
            {cpu.f16c, "f16c"},
            {cpu.avx512f, "avx512f"},
            {cpu.avx512bw, "avx512bw"},
            {cpu.avx512vl, "avx512vl"},
            {cpu.avx512vnni, "avx512_vnni"},
            {cpu.avx512vbmi, "avx512vbmi"},
            {cpu.neon, "asimd"},
            {cpu.dotprod, "asimddp"},
            {cpu.i8mm, "i8mm"},
        };
        for (unsigned k = 0; k < sizeof pairs / sizeof pairs[0]; k++)
            if (pairs[k].ours != kernel_has(pairs[k].name))
                fail_msg("%s: we say %d, the kernel says %d", pairs[k].name, pairs[k].ours, !pairs[k].ours);
        if (cpu.amx_int8) assert_true(kernel_has("amx_int8"));
        assert_true(strlen(cpu.name) > 0);
    }
}

static void test_threads(void **state)
{
    struct os_cpu cpu;
    os_cpu(&cpu);
    assert_true(cpu.n_threads >= 1);
    assert_true(cpu.n_threads <= (unsigned)sysconf(_SC_NPROCESSORS_CONF));
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) { /* bound to one processor */
        cpu_set_t all, one;
        CPU_ZERO(&one);
        if (sched_getaffinity(0, sizeof all, &all)) _exit(2);
        for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
            if (CPU_ISSET(i, &all)) CPU_SET(i, &one);
        if (sched_setaffinity(0, sizeof one, &one)) _exit(2);
        os_cpu(&cpu);
        _exit(cpu.n_threads == 1 ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_features), cmocka_unit_test(test_threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
