/* Logits against llama.cpp's, by the tolerances of tests/golden/README.md. */
#include "support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static double reference_nmse(const char *type)
{
    char path[SUPPORT_PATH_MAX], name[64];
    double v, found = -1;
    if (!support_golden("quant/NMSE.txt", path)) return -1;
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fscanf(f, "%63s %lf", name, &v) == 2)
        if (!strcmp(name, type)) found = v;
    fclose(f);
    return found;
}

#define TIED 1e-5 /* error of a row from which on it is another choice, not rounding */

/* Takes out the n_tied rows at most that are further away than TIED; returns how many these were. */
static size_t drop_tied(float *got, float *want, size_t n_rows, size_t n_vocab, size_t n_tied)
{
    size_t dropped = 0;
    for (size_t i = 0; i < n_rows && dropped < n_tied; i++) {
        float *g = got + i * n_vocab, *w = want + i * n_vocab;
        if (support_nmse(g, w, n_vocab) <= TIED) continue;
        memcpy(g, w, n_vocab * sizeof *g);
        dropped++;
    }
    return dropped;
}

/* Runs gguf over the tokens and compares with the golden logits; prints the error. */
static void compare_rows(const char *gguf, const char *golden, const char *tokens, double limit, double gap,
                         size_t n_tied)
{
    char path[SUPPORT_PATH_MAX], model[SUPPORT_PATH_MAX];
    assert_true(support_golden(tokens, path));
    size_t n, n_want, n_vocab;
    int32_t *ids = support_tokens(path, &n);
    assert_true(support_golden(golden, path));
    float *want = support_floats(path, &n_want), *got;
    assert_true(support_golden(gguf, model));
    struct sluice_options o = support_options(model);
    o.kv_type = "f32";
    o.ctx = (uint32_t)n;
    struct sluice_error err;
    enum sluice_status st = support_logits(NULL, &o, ids, n, &got, &n_vocab, &err);
    if (st) fail_msg("%s: %s (%s)", gguf, err.message, err.hint);
    assert_int_equal(n_want, n * n_vocab);
    const size_t tied = drop_tied(got, want, n, n_vocab, n_tied);
    double e = support_nmse(got, want, n_want);
    size_t faults = support_argmax_faults(got, want, n, n_vocab, gap);
    print_message("%-28s nmse %.3g (limit %.3g), arg-max faults %zu", gguf, e, limit, faults);
    print_message(tied ? ", %zu rows with another choice\n" : "\n", tied);
    assert_true(e <= limit);
    assert_int_equal(faults, 0);
    free(ids);
    free(want);
    free(got);
}

static void compare(const char *gguf, const char *golden, const char *tokens, double limit, double gap)
{
    compare_rows(gguf, golden, tokens, limit, gap, 0);
}

/* llama.cpp rounds activations to half precision before products with F16 weights. Where two experts are nearly tied
 * that decides which one is taken, and the whole row differs; `tied` and `tied_300` say in how many of the 96 and 300
 * rows. deepseek4's indexer chooses likewise among compressed rows. With the same weights in F32 none does
 * (tests/golden/README.md). */
static const struct {
    const char *name;
    double limit;
    bool has_300;
    size_t tied, tied_300;
} archs[] = {
    {.name = "qwen3moe-moe", .limit = 1e-5},
    {.name = "olmoe-moe", .limit = 1e-5},
    {.name = "qwen2moe-moe", .limit = 1e-5},
    {.name = "llama-moe", .limit = 1e-5},
    {.name = "llama-dense", .limit = 1e-5},
    {.name = "gpt-oss-moe", .limit = 1e-5, .has_300 = true, .tied = 1, .tied_300 = 1},
    {.name = "gpt-oss-yarn", .limit = 1e-6},
    {.name = "gemma4-moe", .limit = 1e-6},
    {.name = "glm4moe-moe", .limit = 1e-5},
    {.name = "glm4moe-mtp", .limit = 1e-5},
    {.name = "minimax-m2-moe", .limit = 1e-5, .tied = 1},
    {.name = "ernie4_5-moe-moe", .limit = 1e-5},
    {.name = "hunyuan-moe-moe", .limit = 1e-5},
    {.name = "bailingmoe2-moe", .limit = 1e-5},
    {.name = "bailingmoe2-groups", .limit = 1e-5},
    {.name = "phimoe-moe", .limit = 1e-5},
    {.name = "phimoe-longrope", .limit = 1e-5},
    {.name = "granitemoe-moe", .limit = 1e-5},
    {.name = "llama4-moe", .limit = 1e-5, .has_300 = true},
    {.name = "lfm2moe-moe", .limit = 1e-5, .has_300 = true},
    {.name = "qwen3next-moe", .limit = 1e-5, .has_300 = true},
    {.name = "qwen35moe-moe", .limit = 1e-5, .has_300 = true},
    {.name = "kimi-linear-moe", .limit = 1e-5, .has_300 = true},
    {.name = "deepseek4-hash-moe", .limit = 1e-5, .has_300 = true, .tied_300 = 4},
};

static void architectures(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
        char gguf[96], golden[96], path[SUPPORT_PATH_MAX];
        snprintf(gguf, sizeof gguf, "arch/%s.gguf", archs[i].name);
        if (!support_golden(gguf, path)) continue; /* the repository holds a part of the set */
        snprintf(golden, sizeof golden, "arch/%s.f32", archs[i].name);
        compare_rows(gguf, golden, "arch/tokens.txt", archs[i].limit, 1e-2, archs[i].tied);
        snprintf(golden, sizeof golden, "arch/%s.300.f32", archs[i].name);
        if (archs[i].has_300 && support_golden(golden, path))
            compare_rows(gguf, golden, "arch/tokens-300.txt", archs[i].limit, 1e-2, archs[i].tied_300);
    }
}

static void formats(void **state)
{
    (void)state;
    static const char *const names[] = {"F32",     "F16",       "BF16",   "Q4_0",   "Q4_1",    "Q5_0",   "Q5_1",
                                        "Q8_0",    "Q2_K",      "Q3_K_M", "Q4_K_M", "Q5_K_M",  "Q6_K",   "IQ4_NL",
                                        "IQ4_XS",  "MXFP4_MOE", "IQ1_S",  "IQ1_M",  "IQ2_XXS", "IQ2_XS", "IQ2_M",
                                        "IQ3_XXS", "IQ3_S",     "TQ1_0",  "TQ2_0",  "mixed"};
    size_t run = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char gguf[96], golden[96], path[SUPPORT_PATH_MAX];
        snprintf(gguf, sizeof gguf, "quant/%s.gguf", names[i]);
        snprintf(golden, sizeof golden, "quant/%s.deq.f32", names[i]);
        if (!support_golden(gguf, path)) continue; /* the repository holds a part of the set */
        double ref = reference_nmse(names[i]), limit = 1.5 * ref > 1e-6 ? 1.5 * ref : 1e-6;
        assert_true(ref >= 0);
        compare(gguf, golden, "quant/tokens.txt", limit, 0.5);
        run++;
    }
    assert_true(run >= 4);
    /* llama.cpp's own errors on these files are told in tests/golden/README.md */
    compare("blend/blend.gguf", "blend/blend.deq.f32", "quant/tokens.txt", 1.5 * 2.990e-05, 0.5);
    compare("rare/rare.gguf", "rare/rare.deq.f32", "quant/tokens.txt", 1.5 * 4.792e-05, 0.5);
}

static void bundled_model(void **state)
{
    (void)state;
    char path[SUPPORT_PATH_MAX];
    support_source("tests/golden/demo/demo.f32", path);
    size_t n, n_want, n_vocab;
    float *want = support_floats(path, &n_want), *got;
    support_source("tests/golden/demo/demo-tokens.txt", path);
    int32_t *ids = support_tokens(path, &n);
    support_source("models/demo.gguf", path);
    struct sluice_options o = support_options(path);
    o.kv_type = "f32";
    struct sluice_error err;
    if (support_logits(NULL, &o, ids, n, &got, &n_vocab, &err)) fail_msg("%s (%s)", err.message, err.hint);
    assert_int_equal(n_want, n * n_vocab);
    double e = support_nmse(got, want, n_want);
    size_t faults = support_argmax_faults(got, want, n, n_vocab, 0.5);
    print_message("demo.gguf nmse %.3g, arg-max faults %zu\n", e, faults);
    assert_true(e < 2e-3);
    assert_int_equal(faults, 0);
    free(ids);
    free(want);
    free(got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(architectures), cmocka_unit_test(formats),
                                       cmocka_unit_test(bundled_model)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
