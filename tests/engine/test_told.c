/* What a long chunk chose is told by several workers at once: to policy and trace, to the caches of other sizes that
 * are simulated, to heat and predictions. What does not go by the clock ends as with one thread. (The thread sanitizer
 * runs it, too.) */
#include "support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define N_PROMPT 150
#define N_DECODE 20
#define FILE_MAX (1 << 20)

struct told {
    struct sluice_stats stats;
    float last;
    size_t trace_bytes, usage_bytes;
    char trace[FILE_MAX], usage[FILE_MAX];
};

static struct told one, several;

static size_t read_all(const char *path, char *to)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    const size_t n = fread(to, 1, FILE_MAX, f);
    assert_true(n > 0 && n < FILE_MAX);
    fclose(f);
    unlink(path);
    return n;
}

static int32_t token(uint32_t i) { return (int32_t)(10 + i * i % 397 + i / 40 * 7); }

static void run(unsigned threads, struct told *out)
{
    char model[SUPPORT_PATH_MAX], trace[64], usage[64], lock[80];
    struct sluice_error err;
    sluice_engine *e;
    support_source("models/demo.gguf", model);
    snprintf(trace, sizeof trace, "/tmp/sluice-told-%d.trace", (int)getpid());
    snprintf(usage, sizeof usage, "/tmp/sluice-told-%d.usage", (int)getpid());
    snprintf(lock, sizeof lock, "%s.lock", usage);
    struct sluice_options o = support_options(model);
    o.threads = threads;
    o.ctx = 512;
    o.experts = "60%";
    o.trace_path = trace;
    o.usage_path = usage;
    o.no_usage = false;
    o.route = "selected"; /* else the clock would choose */
    if (sluice_engine_open(&o, &e, &err)) fail_msg("%s", err.message);
    out->last = support_two_prompts(e, token, N_PROMPT, N_DECODE);
    sluice_stats(e, &out->stats);
    sluice_engine_close(e);
    out->trace_bytes = read_all(trace, out->trace);
    out->usage_bytes = read_all(usage, out->usage);
    unlink(lock);
}

static void test_told(void **state)
{
    run(1, &one);
    run(4, &several);
    assert_memory_equal(&one.last, &several.last, sizeof one.last);
    assert_int_equal(one.trace_bytes, several.trace_bytes);
    assert_memory_equal(one.trace, several.trace, one.trace_bytes);
    assert_int_equal(one.usage_bytes, several.usage_bytes);
    assert_memory_equal(one.usage, several.usage, one.usage_bytes);
    size_t same = 0; /* the cache's own size is; others go by what the process takes, which grows with its threads */
    for (size_t i = 0; i < one.stats.n_sizes; i++)
        for (size_t k = 0; k < several.stats.n_sizes; k++) {
            if (one.stats.sizes[i].slots_bytes != several.stats.sizes[k].slots_bytes) continue;
            assert_memory_equal(&one.stats.sizes[i].hit_rate, &several.stats.sizes[k].hit_rate, sizeof(double));
            same += one.stats.sizes[i].hit_rate > 0 && one.stats.sizes[i].hit_rate < 1;
        }
    assert_true(same > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_told)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
