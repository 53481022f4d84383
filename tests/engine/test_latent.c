/* Models with latent attention, indexers and compressed caches: the logits are llama.cpp's, and the same bits for every
 * size of step, after a rewind to any position, and whatever the type of the cache. */
#include "support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct subject {
    const char *name;
    bool is_short;       /* NAME.f32 */
    bool is_long;        /* NAME.300.f32 */
    bool chooses;        /* has an indexer: another type of cache makes other choices */
    const char *kv_type; /* a second one */
};

static const struct subject subjects[] = {
    {"deepseek2-moe", true, false, false, "q8_0"}, {"deepseek2-kv-b", true, false, false, "f16"},
    {"deepseek2-yarn", true, false, false, "f16"}, {"glm-dsa-moe", true, true, true, "q8_0"},
    {"deepseek32-moe", true, false, true, "f16"},  {"deepseek4-table", false, true, true, "f16"},
};

struct rows {
    float *at;
    size_t n_vocab;
};

static bool keep(void *user, size_t index, const float *logits, size_t n_vocab)
{
    struct rows *r = user;
    memcpy(r->at + index * n_vocab, logits, n_vocab * sizeof *logits);
    return true;
}

static void name_file(const struct subject *s, const char *end, char *out)
{
    char name[96];
    snprintf(name, sizeof name, "arch/%s%s", s->name, end);
    if (!support_golden(name, out)) *out = '\0';
}

static float *run(const char *model, const char *kv_type, uint32_t chunk, const int32_t *ids, size_t n, size_t *n_vocab)
{
    struct sluice_options o = support_options(model);
    struct sluice_error err;
    float *got;
    o.ctx = 512;
    o.kv_type = kv_type;
    o.chunk = chunk;
    o.threads = 1 + chunk % 3;
    if (support_logits(NULL, &o, ids, n, &got, n_vocab, &err)) fail_msg("%s: %s (%s)", model, err.message, err.hint);
    return got;
}

static void same(const char *what, size_t number, const float *got, const float *want, size_t n, size_t n_vocab)
{
    for (size_t i = 0; i < n * n_vocab; i++)
        if (memcmp(&got[i], &want[i], sizeof *got))
            fail_msg("%s %zu: logits differ from token %zu on: %.9g, expected %.9g", what, number, i / n_vocab,
                     (double)got[i], (double)want[i]);
}

/* Evaluates all, then rewinds to several positions and goes on from there in steps of other sizes. */
static void rewinds(const char *model, const int32_t *ids, size_t n, const float *want, size_t n_vocab)
{
    const size_t back[] = {n - 1, n - 30, n / 2 + 1, 33, 4, 3, 0}, n_back = n > 100 ? 3 : 7;
    struct sluice_options o = support_options(model);
    struct sluice_error err;
    sluice_engine *e;
    sluice_session *s;
    o.ctx = 512;
    o.kv_type = "f32";
    o.chunk = 40;
    struct rows rows = {.at = malloc(n * n_vocab * sizeof(float)), .n_vocab = n_vocab};
    assert_non_null(rows.at);
    if (engine_open(os_system(), &o, &e, &err)) fail_msg("%s: %s (%s)", model, err.message, err.hint);
    assert_int_equal(sluice_session_open(e, &s, &err), 0);
    assert_int_equal(sluice_eval(s, ids, n, NULL, keep, &rows, &err), 0);
    same("all at once", 0, rows.at, want, n, n_vocab);
    for (size_t i = 0; i < n_back; i++) {
        memset(rows.at, 0, n * n_vocab * sizeof(float));
        if (sluice_session_rewind(s, back[i], &err)) fail_msg("rewind to %zu: %s", back[i], err.message);
        for (size_t at = back[i], step = 1; at < n; at += step, step = step % 7 + 1) {
            if (at + step > n) step = n - at;
            struct rows tail = {.at = rows.at + at * n_vocab, .n_vocab = n_vocab};
            if (sluice_eval(s, ids + at, step, NULL, keep, &tail, &err)) fail_msg("%s: %s", model, err.message);
        }
        same("after a rewind to", back[i], rows.at + back[i] * n_vocab, want + back[i] * n_vocab, n - back[i], n_vocab);
    }
    support_last_rows(s, ids, n, want, n_vocab);
    sluice_session_close(s);
    sluice_engine_close(e);
    free(rows.at);
}

static void one_length(const struct subject *s, const char *model, const char *golden_end, const char *tokens)
{
    static const uint32_t chunks[] = {1, 2, 7, 64};
    char golden[SUPPORT_PATH_MAX], path[SUPPORT_PATH_MAX];
    size_t n, n_want, n_vocab;
    name_file(s, golden_end, golden);
    assert_true(*golden);
    assert_true(support_golden(tokens, path));
    int32_t *ids = support_tokens(path, &n);
    float *truth = support_floats(golden, &n_want), *want = run(model, "f32", 0, ids, n, &n_vocab);
    assert_int_equal(n_want, n * n_vocab);
    const double e = support_nmse(want, truth, n_want);
    const size_t faults = support_argmax_faults(want, truth, n, n_vocab, 1e-2);
    print_message("%s%s: nmse %.3g, arg-max faults %zu\n", s->name, golden_end, e, faults);
    assert_true(e <= 1e-5);
    assert_int_equal(faults, 0);
    for (size_t i = n > 100 ? 2 : 0; i < sizeof chunks / sizeof *chunks; i++) {
        float *got = run(model, "f32", chunks[i], ids, n, &n_vocab);
        same("chunk", chunks[i], got, want, n, n_vocab);
        free(got);
    }
    rewinds(model, ids, n, want, n_vocab);
    float *other = run(model, s->kv_type, 0, ids, n, &n_vocab), *steps = run(model, s->kv_type, 5, ids, n, &n_vocab);
    same("another cache type, chunk", 5, steps, other, n, n_vocab);
    assert_true(s->chooses || support_nmse(other, truth, n_want) < 5e-2);
    free(steps);
    free(other);
    free(want);
    free(truth);
    free(ids);
}

static void every_step_size(void **state)
{
    (void)state;
    size_t run_n = 0;
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++) {
        char model[SUPPORT_PATH_MAX];
        name_file(&subjects[i], ".gguf", model);
        if (!*model) continue; /* the repository holds a part of the set */
        if (subjects[i].is_short) one_length(&subjects[i], model, ".f32", "arch/tokens.txt");
        if (subjects[i].is_long) one_length(&subjects[i], model, ".300.f32", "arch/tokens-300.txt");
        run_n++;
    }
    if (!run_n) skip();
}

/* A prompt and then single tokens with a cache of half of the experts. */
static void run_tables(const char *model, const char *prefetch, const int32_t *ids, size_t n, float *logits,
                       struct sluice_stats *stats)
{
    enum { PROMPT = 9, N_VOCAB = 256 };
    struct sluice_options o = support_options(model);
    struct sluice_error err;
    sluice_engine *e;
    sluice_session *s;
    o.experts = "50%";
    o.io = "sync"; /* figures do not depend on the disk */
    o.threads = 1;
    o.prefetch = prefetch;
    if (engine_open(os_system(), &o, &e, &err)) fail_msg("%s (%s)", err.message, err.hint);
    assert_int_equal(sluice_session_open(e, &s, &err), 0);
    for (size_t t = 0, step = PROMPT; t < n; t += step, step = 1) {
        struct rows row = {.at = logits + t * N_VOCAB, .n_vocab = N_VOCAB};
        assert_int_equal(sluice_eval(s, ids + t, step, NULL, keep, &row, &err), 0);
    }
    sluice_stats(e, stats);
    sluice_session_close(s);
    sluice_engine_close(e);
}

/* The experts of layers whose router is a table are named before the layer is reached, and every one of them is wanted
 * there; whether they are named or not, the bits are the same. */
static void certain_experts(void **state)
{
    (void)state;
    static const char *const settings[] = {"off", "auto", "certain", "lookahead,transitions,next"};
    char model[SUPPORT_PATH_MAX], path[SUPPORT_PATH_MAX];
    struct sluice_error err;
    sluice_engine *e;
    float *logits[2];
    size_t n;
    assert_true(support_golden("arch/deepseek4-table.gguf", model));
    assert_true(support_golden("arch/tokens.txt", path));
    int32_t *ids = support_tokens(path, &n);
    for (int k = 0; k < 2; k++) assert_non_null(logits[k] = malloc(n * 256 * sizeof(float)));
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        const bool on = i == 1 || i == 2;
        struct sluice_stats stats;
        run_tables(model, settings[i], ids, n, logits[i > 0], &stats);
        if (i) same("prefetch", i, logits[1], logits[0], n, 256);
        assert_string_equal(stats.prefetch[EXPERT_CERTAIN].name, "certain");
        assert_int_equal(stats.prefetch[EXPERT_CERTAIN].on, on);
        const uint64_t named = stats.prefetch[EXPERT_CERTAIN].named;
        print_message("prefetch %s: certain: %llu named, %llu came true, %llu read, %llu useful\n", settings[i],
                      (unsigned long long)named, (unsigned long long)stats.prefetch[EXPERT_CERTAIN].came_true,
                      (unsigned long long)stats.prefetch[EXPERT_CERTAIN].reads,
                      (unsigned long long)stats.prefetch[EXPERT_CERTAIN].useful);
        assert_int_equal(stats.prefetch[EXPERT_CERTAIN].came_true, named); /* a precision of 100 % */
        assert_int_equal(stats.prefetch[EXPERT_CERTAIN].chosen, named);    /* and none was forgotten */
        assert_true(on ? named > 2 * n && stats.prefetch[EXPERT_CERTAIN].useful > 0
                       : named == 0 && stats.prefetch[EXPERT_CERTAIN].reads == 0);
        assert_int_equal(stats.prefetch[EXPERT_LOOKAHEAD].named > 0, i == 1 || i == 3);
    }
    free(logits[0]);
    free(logits[1]);
    free(ids);
    assert_true(support_golden("arch/qwen3moe-moe.gguf", model)); /* no tables: the name alone has no effect */
    struct sluice_options o = support_options(model);
    o.prefetch = "next,certain";
    assert_int_equal(engine_open(os_system(), &o, &e, &err), SLUICE_ERR_USAGE);
    assert_non_null(strstr(err.message, "qwen3moe"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_step_size), cmocka_unit_test(certain_experts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
