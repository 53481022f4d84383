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

/* Runs gguf over the tokens and compares with the golden logits; returns the error, prints it. */
static double compare(const char *gguf, const char *golden, const char *tokens, double limit, double gap)
{
    char path[SUPPORT_PATH_MAX], model[SUPPORT_PATH_MAX];
    assert_true(support_golden(tokens, path));
    size_t n, n_want, n_vocab;
    int32_t *ids = support_tokens(path, &n);
    assert_true(support_golden(golden, path));
    float *want = support_floats(path, &n_want), *got;
    if (!strncmp(gguf, "models/", 7))
        support_source(gguf, model);
    else
        assert_true(support_golden(gguf, model));
    struct sluice_options o = support_options(model);
    o.kv_type = "f32";
    struct sluice_error err;
    enum sluice_status st = support_logits(NULL, &o, ids, n, &got, &n_vocab, &err);
    if (st) fail_msg("%s: %s (%s)", gguf, err.message, err.hint);
    assert_int_equal(n_want, n * n_vocab);
    double e = support_nmse(got, want, n_want);
    size_t faults = support_argmax_faults(got, want, n, n_vocab, gap);
    print_message("%-28s nmse %.3g (limit %.3g), arg-max faults %zu\n", gguf, e, limit, faults);
    assert_true(e <= limit);
    assert_int_equal(faults, 0);
    free(ids);
    free(want);
    free(got);
    return e;
}

static void architectures(void **state)
{
    (void)state;
    static const char *const names[] = {"qwen3moe-moe", "olmoe-moe", "qwen2moe-moe", "llama-moe", "llama-dense"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char gguf[96], golden[96];
        snprintf(gguf, sizeof gguf, "arch/%s.gguf", names[i]);
        snprintf(golden, sizeof golden, "arch/%s.f32", names[i]);
        compare(gguf, golden, "arch/tokens.txt", 1e-5, 1e-2);
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
