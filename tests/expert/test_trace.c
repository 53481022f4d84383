/* Trace files: what is written is read; damaged and foreign ones are refused by name; synthetic traces, on which the
 * default must not lose to `lru`. */
#include "expert/replay.h"
#include "shape.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define N_LAYERS 3
#define N_EXPERT 10
#define N_USED 2

static const struct trace_layer layers[N_LAYERS] = {{N_EXPERT, N_USED, 1000}, {0, 0, 0}, {N_EXPERT, N_USED, 3000}};
static char path[64], part[80];

static void choose(struct shape_random *r, uint32_t ids[N_USED])
{
    ids[0] = shape_below(r, N_EXPERT);
    ids[1] = (ids[0] + 1 + shape_below(r, N_EXPERT - 1)) % N_EXPERT;
}

/* A prompt of 5 tokens in steps of 3 and 2, 20 tokens of decode, and a step that is given up. */
static void record(uint64_t seed)
{
    struct shape_random r = {seed};
    struct trace_writer *w = NULL;
    struct sluice_error err;
    const float weights[N_USED] = {0.75f, 0.25f};
    if (trace_create(path, "a model", layers, N_LAYERS, &w, &err)) fail_msg("%s", err.message);
    trace_prompt(w);
    for (uint32_t step = 0; step < 23; step++) {
        const uint32_t n = step == 0 ? 3 : step == 1 ? 2 : 1;
        trace_step(w, n, step > 1);
        for (uint32_t l = 0; l < N_LAYERS; l += 2)
            for (uint32_t t = 0; t < n && !(step == 22 && l); t++) {
                uint32_t ids[N_USED];
                choose(&r, ids);
                trace_route(w, l, ids, weights, N_USED, t);
            }
        if (step < 22) trace_step_end(w);
    }
    if (trace_close(w, &err)) fail_msg("%s", err.message);
    assert_int_not_equal(access(part, F_OK), 0);
}

static void test_round_trip(void **state)
{
    (void)state;
    struct trace t;
    struct sluice_error err;
    struct shape_random r = {1};
    record(1);
    if (trace_read(path, &t, &err)) fail_msg("%s", err.message);
    assert_string_equal(t.model, "a model");
    assert_int_equal(t.n_layers, N_LAYERS);
    assert_int_equal(t.n_tokens, 25); /* not the one that was given up */
    assert_int_equal(t.n_selections, 25 * 2 * N_USED);
    assert_int_equal(t.layers[2].expert_bytes, 3000);
    static const uint32_t begins[3] = {0, 3, 5};
    for (uint32_t step = 0; step < 22; step++) {
        const uint32_t n = step == 0 ? 3 : step == 1 ? 2 : 1, begin = step < 3 ? begins[step] : step + 3;
        for (uint32_t l = 0; l < N_LAYERS; l += 2)
            for (uint32_t k = 0; k < n; k++) {
                uint32_t want[N_USED], got[N_USED];
                float weights[N_USED];
                choose(&r, want);
                assert_int_equal(trace_choice(&t, begin + k, l, got, weights), N_USED);
                assert_memory_equal(got, want, sizeof got);
                assert_true(weights[0] == 0.75f && weights[1] == 0.25f);
            }
        assert_int_equal(t.flags[begin], TRACE_STEP | (step == 0 ? TRACE_PROMPT : 0) | (step > 1 ? TRACE_DECODE : 0));
    }
    trace_free(&t);
}

static void spoil(const unsigned char *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

static void expect_refused(const char *what)
{
    struct trace t;
    struct sluice_error err;
    if (!trace_read(path, &t, &err)) fail_msg("%s was read", what);
    assert_non_null(strstr(err.message, path));
    assert_null(t.ids);
}

static void test_damaged_files_are_refused(void **state)
{
    (void)state;
    unsigned char bytes[8192];
    record(1);
    FILE *f = fopen(path, "rb");
    const size_t n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    assert_true(n > 500 && n < sizeof bytes);
    for (size_t cut = 0; cut < n; cut++) { /* also between two records */
        spoil(bytes, cut);
        expect_refused("a trace that is cut short");
    }
    bytes[n] = 'P';
    spoil(bytes, n + 1);
    expect_refused("a trace with something behind it");
    bytes[8] = 2;
    spoil(bytes, n);
    expect_refused("a trace of version 2");
    bytes[8] = 1;
    struct shape_random r = {7};
    for (int i = 0; i < 3000; i++) { /* anything may come out, but in order */
        struct trace t;
        struct sluice_error err;
        size_t at = shape_below(&r, (uint32_t)n);
        unsigned char was = bytes[at];
        bytes[at] = (unsigned char)shape_next(&r);
        if (at >= 8 + 4 + 2 + 7 && at < 8 + 4 + 2 + 7 + 4 + N_LAYERS * 16) bytes[at] = was;
        spoil(bytes, n);
        if (!trace_read(path, &t, &err)) trace_free(&t);
        bytes[at] = was;
    }
}

static void test_foreign_files_are_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "# Sluice\n\nRuns models.\n",
        "GGUF\3\0\0\0aaaaaaaaaaaa",
        "# route_trace v1\n",
        "# route_trace v1\nturn,phase,step,layer,slot,expert,weight\n0,0,0,0,0,one,0.5\n",
        "# route_trace v1\n0,2,0,0,0,1,0.5,0,100\n",
        "# route_trace v1\n0,0,0,5000,0,1,0.5,0,100\n",
        "# route_trace v1\n0,0,0,0,0,1,0.5,0,100\n0,0,0,0,1,1,0.5,0,100\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        spoil((const unsigned char *)texts[i], i == 2 ? 20 : strlen(texts[i]));
        expect_refused(texts[i]);
    }
    unlink(path);
    expect_refused("a file that is not there");
}

/* What was read for a choice is 0 for a hit, so an expert's bytes are the most that a layer's rows or the head say. */
static void test_bytes_and_name_of_a_csv(void **state)
{
    (void)state;
    static const char text[] = "# route_trace v1\n# model=/some/where/A-Model.gguf arch=x n_layer=3 n_expert=8\n"
                               "# layer=2 expert_bytes=700 dense_bytes=9\n"
                               "turn,phase,step,layer,slot,expert,weight,residency,expert_bytes\n"
                               "0,0,0,0,0,1,0.5,0,500\n0,0,0,1,0,1,0.5,0,600\n0,0,0,2,0,1,0.5,1,0\n"
                               "0,1,1,0,0,1,0.5,1,0\n0,1,1,1,0,1,0.5,1,0\n0,1,1,2,0,1,0.5,1,0\n";
    spoil((const unsigned char *)text, strlen(text));
    struct trace t;
    struct sluice_error err;
    if (trace_read(path, &t, &err)) fail_msg("%s", err.message);
    assert_string_equal(t.model, "A-Model.gguf");
    for (uint32_t i = 0; i < 3; i++) assert_int_equal(t.layers[i].expert_bytes, 500 + 100 * i);
    trace_free(&t);
}

static void test_a_trace_that_cannot_be_written(void **state)
{
    (void)state;
    struct trace_writer *w = NULL;
    struct sluice_error err;
    assert_int_equal(trace_create("/nonexistent/trace", "", layers, N_LAYERS, &w, &err), SLUICE_ERR_IO);
    assert_non_null(strstr(err.message, "/nonexistent/trace"));
    assert_null(w);
    assert_int_equal(trace_close(NULL, &err), SLUICE_OK);
    if (access("/dev/full", W_OK)) return;
    /* The disk is full: told at the end, and no file stays. */
    unlink(part);
    assert_int_equal(symlink("/dev/full", part), 0);
    assert_int_equal(trace_create(path, "", layers, N_LAYERS, &w, &err), SLUICE_OK);
    for (int i = 0; i < 100000; i++) trace_step_end(w);
    assert_int_equal(trace_close(w, &err), SLUICE_ERR_IO);
    assert_non_null(strstr(err.message, path));
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_not_equal(access(part, F_OK), 0);
}

/* By tools/traces/synth, if there is a Python. */
static bool synthesise(const char *options)
{
    char command[4096];
    const char *source = getenv("SLUICE_SOURCE");
    snprintf(command, sizeof command, "python3 '%s/tools/traces/synth' %s --layers 4 --decode 200 > '%s' 2> /dev/null",
             source ? source : ".", options, path);
    return system(command) == 0;
}

static void test_the_default_does_not_lose(void **state)
{
    (void)state;
    static const char *const kinds[] = {
        "--like qwen3 --seed 1",
        "--like gemma --seed 2",
        "--like gptoss --seed 3",
        "--like qwen3 --seed 4 --slow-half-life 20",
        "--like qwen3 --seed 5 --slow-half-life 600 --experts 256 --used 8",
        "--like gemma --seed 6 --experts 64 --used 4 --fast-rho 0.6",
        "--like gptoss --seed 7 --zipf 0.6 --used 4 --experts 32",
    };
    if (system("python3 -c 'import sys' 2> /dev/null")) {
        print_message("no Python: synthetic traces are left out\n");
        return;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct trace t;
        struct sluice_error err;
        assert_true(synthesise(kinds[i]));
        if (trace_read(path, &t, &err)) fail_msg("%s", err.message);
        for (uint32_t times = 2; times <= 4; times++) {
            struct replay_result lru, ours;
            struct replay_config config = {.policy = POLICY_LRU, .slots_per_layer = times * replay_n_used(&t)};
            assert_int_equal(replay_run(&t, &config, &lru, &err), SLUICE_OK);
            config.policy = POLICY_AUTO;
            assert_int_equal(replay_run(&t, &config, &ours, &err), SLUICE_OK);
            assert_int_equal(lru.hits + lru.misses, ours.hits + ours.misses);
            if (ours.hits < lru.hits)
                fail_msg("%s, %uK: %llu hits, lru has %llu", kinds[i], times, (unsigned long long)ours.hits,
                         (unsigned long long)lru.hits);
        }
        trace_free(&t);
    }
}

static void test_too_few_slots(void **state)
{
    (void)state;
    struct trace t;
    struct sluice_error err;
    struct replay_result r;
    record(2);
    if (trace_read(path, &t, &err)) fail_msg("%s", err.message);
    struct replay_config config = {.policy = POLICY_AUTO, .slots_per_layer = N_USED - 1};
    assert_int_equal(replay_run(&t, &config, &r, &err), SLUICE_ERR_USAGE);
    assert_int_equal(replay_belady(&t, 1, &r, &err), SLUICE_ERR_USAGE);
    for (int kind = 0; kind < POLICY_KINDS; kind++) {
        config = (struct replay_config){.policy = (enum policy_kind)kind, .slots_per_layer = N_USED};
        assert_int_equal(replay_run(&t, &config, &r, &err), SLUICE_OK);
        assert_int_equal(r.hits + r.misses, 20 * 2 * N_USED);
        config.slots_per_layer = 1000; /* all of them: each expert misses once */
        assert_int_equal(replay_run(&t, &config, &r, &err), SLUICE_OK);
        assert_int_equal(r.evictions, 0);
        assert_true(r.all_misses <= 2 * N_EXPERT);
        config = (struct replay_config){.policy = (enum policy_kind)kind, .slots = N_USED}; /* steps in waves */
        assert_int_equal(replay_run(&t, &config, &r, &err), SLUICE_OK);
        assert_true(r.all_hits + r.all_misses <= t.n_selections);
    }
    trace_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_damaged_files_are_refused),
        cmocka_unit_test(test_bytes_and_name_of_a_csv),
        cmocka_unit_test(test_foreign_files_are_refused),
        cmocka_unit_test(test_a_trace_that_cannot_be_written),
        cmocka_unit_test(test_the_default_does_not_lose),
        cmocka_unit_test(test_too_few_slots),
    };
    snprintf(path, sizeof path, "/tmp/sluice-trace-%ld", (long)getpid());
    snprintf(part, sizeof part, "%s.part", path);
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    unlink(part);
    return failures;
}
