/* The policies on recorded routings: hit rates in decode with a cache of some times K slots a layer (K: experts used a
 * token), next to those published for these traces, and the default policy's mean. Skipped without the traces.
 *
 * `lru`, `lfu`, `freq-age`, `expected` and the limit agree within a point. `hotness` does where 6 experts are used; for
 * gpt-oss, where 2 are, it is 3 points better than published: the published counts were halved as integers, so that an
 * expert used once was forgotten after 16 tokens, ours are really halved (docs/CACHE-MEASURED.md). There it is held
 * from below.
 */
#include "expert/replay.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LIMIT POLICY_KINDS
#define CLOSE 1.0 /* points */
#define DEFAULT_MEAN 60.2

static const char *const names[3] = {"qwen", "gemma", "gptoss"};
static const uint32_t times[5] = {2, 3, 4, 6, 8};
static struct trace traces[3];

static const struct {
    int policy;
    double rates[3][5];
} published[] = {
    {POLICY_LRU, {{52.2, 64.7, 72.8, 85.0, 91.7}, {52.3, 64.6, 72.2, 83.0, 90.7}, {33.8, 45.4, 51.6, 59.6, 65.7}}},
    {POLICY_LFU, {{56.1, 66.2, 74.0, 85.2, 91.9}, {56.9, 67.6, 74.7, 84.2, 90.9}, {27.3, 35.3, 41.7, 50.6, 58.1}}},
    {POLICY_HOTNESS, {{56.6, 67.3, 75.2, 85.9, 92.1}, {57.4, 67.9, 74.9, 83.7, 90.6}, {30.9, 40.8, 47.3, 56.2, 62.8}}},
    {POLICY_FREQ_AGE, {{56.1, 67.8, 75.7, 86.5, 92.4}, {57.1, 67.6, 75.0, 84.6, 91.2}, {35.4, 45.5, 51.7, 61.0, 67.1}}},
    {POLICY_EXPECTED, {{57.5, 68.6, 76.3, 86.1, 92.2}, {57.0, 67.6, 74.6, 84.4, 91.1}, {34.7, 45.3, 51.4, 60.5, 66.7}}},
    {LIMIT, {{67.3, 79.0, 85.6, 93.0, 96.1}, {67.1, 78.2, 84.5, 91.9, 95.1}, {48.1, 60.1, 66.6, 74.5, 79.8}}},
};

static double rate(const struct trace *t, int policy, uint32_t slots)
{
    struct replay_result r;
    struct sluice_error err;
    const struct replay_config config = {.policy = (enum policy_kind)policy, .slots_per_layer = slots};
    if (policy == LIMIT ? replay_belady(t, slots, &r, &err) : replay_run(t, &config, &r, &err))
        fail_msg("%s", err.message);
    assert_true(r.all_hits + r.all_misses == t->n_selections);
    return 100.0 * (double)r.hits / (double)(r.hits + r.misses);
}

static void load(void)
{
    const char *shared = getenv("SLUICE_SHARED");
    for (int i = 0; i < 3; i++) {
        char path[4096];
        struct sluice_error err;
        snprintf(path, sizeof path, "%s/traces/%s.csv", shared ? shared : ".", names[i]);
        FILE *f = fopen(path, "r");
        if (!f) {
            printf("skipped: no traces/%s.csv\n", names[i]);
            exit(77);
        }
        fclose(f);
        if (trace_read(path, &traces[i], &err)) fail_msg("%s", err.message);
    }
}

static void test_published_rates(void **state)
{
    (void)state;
    for (size_t p = 0; p < sizeof published / sizeof *published; p++)
        for (int i = 0; i < 3; i++)
            for (int k = 0; k < 5; k++) {
                const int policy = published[p].policy;
                const double got = rate(&traces[i], policy, times[k] * replay_n_used(&traces[i]));
                const double off = got - published[p].rates[i][k];
                const bool better = policy == POLICY_HOTNESS && i == 2 && off > 0;
                if (off < -CLOSE || (off > CLOSE && !better))
                    fail_msg("%s, %s, %uK: %.2f instead of %.1f",
                             policy == LIMIT ? "limit" : policy_name((enum policy_kind)policy), names[i], times[k], got,
                             published[p].rates[i][k]);
            }
}

static void test_the_default_wins(void **state)
{
    (void)state;
    double means[POLICY_KINDS] = {0};
    for (int policy = 0; policy < POLICY_KINDS; policy++)
        for (int i = 0; i < 3; i++)
            for (int k = 0; k < 3; k++)
                means[policy] += rate(&traces[i], policy, times[k] * replay_n_used(&traces[i])) / 9;
    for (int policy = 0; policy < POLICY_KINDS; policy++) {
        print_message("%-9s %.2f\n", policy_name((enum policy_kind)policy), means[policy]);
        if (policy != POLICY_AUTO) assert_true(means[policy] < means[POLICY_AUTO]);
    }
    assert_true(means[POLICY_AUTO] >= DEFAULT_MEAN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_rates),
        cmocka_unit_test(test_the_default_wins),
    };
    load();
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    for (int i = 0; i < 3; i++) trace_free(&traces[i]);
    return failures;
}
