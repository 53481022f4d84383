/* A trace that the engine records, replayed: the same policy over the same slots has the same hits as the engine's own
 * cache, in prefill chunks and in decode, for every policy. demo.gguf's experts are of one size, so its cache is one
 * set of slots for all layers. And recording changes no logit. */
#include "expert/replay.h"
#include "support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define N_PROMPT 24
#define N_DECODE 24

static char model[SUPPORT_PATH_MAX], path[64];

#define EXPERTS_USED_MAX 64

/* Any tokens will do; these wander and come back. */
static int32_t token(uint32_t i) { return (int32_t)(10 + i * i % 97 + i / 40 * 7); }

/* Two prompts with decode behind them. Returns the last logit's bits, fills the engine's own figures. */
static void run(const char *policy, const char *experts, uint32_t chunk, const char *trace, struct sluice_stats *stats,
                float *last)
{
    struct sluice_options o = support_options(model);
    struct sluice_error err;
    sluice_engine *e;
    o.policy = policy;
    o.experts = experts;
    o.chunk = chunk;
    o.ctx = 256;
    o.trace_path = trace;
    o.prefetch = "off"; /* a replay knows of demand alone */
    o.route = "selected";
    if (sluice_engine_open(&o, &e, &err)) fail_msg("%s", err.message);
    assert_int_equal(expert_catalog_n_classes(e->catalog), 1);
    *last = support_two_prompts(e, token, N_PROMPT, N_DECODE);
    sluice_stats(e, stats);
    sluice_engine_close(e);
}

/* Every layer has chosen for every token, but the last one for none of a prompt other than its last. */
static void check_choices(const struct trace *t, uint32_t token)
{
    const uint32_t in_prompt = token % (N_PROMPT + N_DECODE);
    uint32_t ids[EXPERTS_USED_MAX];
    float weights[EXPERTS_USED_MAX];
    for (uint32_t layer = 0; layer < t->n_layers; layer++) {
        const bool chosen = layer + 1 < t->n_layers || in_prompt + 1 >= N_PROMPT;
        assert_int_equal(trace_choice(t, token, layer, ids, weights) > 0, chosen);
    }
}

static void test_replay_is_the_engine(void **state)
{
    (void)state;
    static const struct {
        const char *experts;
        uint32_t chunk;
    } cases[] = {{"30%", 1}, {"60%", 1}, {"60%", 4}, {"85%", 24}};
    for (int kind = 0; kind < POLICY_KINDS; kind++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            /* Every policy in one setting; the plainest and the default one in all. */
            if (i != 2 && kind != POLICY_LRU && kind != POLICY_RECALL) continue;
            struct sluice_stats with, without;
            struct sluice_error err;
            struct replay_result r;
            struct trace t;
            float a, b;
            const char *name = policy_name((enum policy_kind)kind);
            run(name, cases[i].experts, cases[i].chunk, path, &with, &a);
            if (i == 1) {
                run(name, cases[i].experts, cases[i].chunk, NULL, &without, &b);
                assert_memory_equal(&a, &b, sizeof a);
                assert_int_equal(with.hits, without.hits);
            }
            if (trace_read(path, &t, &err)) fail_msg("%s", err.message);
            assert_int_equal(t.n_tokens, 2 * (N_PROMPT + N_DECODE));
            for (uint32_t at = 0; at < t.n_tokens; at++) check_choices(&t, at);
            const struct replay_config config = {.policy = (enum policy_kind)kind,
                                                 .slots = (uint32_t)with.experts_slots};
            if (replay_run(&t, &config, &r, &err)) fail_msg("%s", err.message);
            print_message("%-9s %s chunk %u: %llu slots, engine %llu hits %llu misses, replay %llu %llu\n", name,
                          cases[i].experts, cases[i].chunk, (unsigned long long)with.experts_slots,
                          (unsigned long long)with.hits, (unsigned long long)with.misses,
                          (unsigned long long)r.all_hits, (unsigned long long)r.all_misses);
            assert_int_equal(r.all_hits, with.hits);
            assert_int_equal(r.all_misses, with.misses);
            assert_int_equal(r.evictions, with.evictions);
            assert_true(with.evictions > 0);
            assert_int_equal(r.n_tokens, 2 * N_DECODE);
            trace_free(&t);
        }
}

static void test_a_path_that_cannot_be_written(void **state)
{
    (void)state;
    struct sluice_options o = support_options(model);
    struct sluice_error err;
    sluice_engine *e = NULL;
    o.trace_path = "/nonexistent/trace";
    assert_int_equal(sluice_engine_open(&o, &e, &err), SLUICE_ERR_IO);
    assert_non_null(strstr(err.message, "/nonexistent/trace"));
    assert_null(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replay_is_the_engine),
        cmocka_unit_test(test_a_path_that_cannot_be_written),
    };
    support_source("models/demo.gguf", model);
    if (access(model, R_OK)) {
        printf("skipped: no models/demo.gguf\n");
        return 77;
    }
    snprintf(path, sizeof path, "/tmp/sluice-engine-trace-%ld", (long)getpid());
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failures;
}
