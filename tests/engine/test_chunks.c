/* Every architecture: the same bits in one chunk and in chunks of 1, 2, 7 and 64, and across rewinds. */
#include "support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TOKENS 70 /* more than the largest chunk */
#define TOKENS_COMPACT 20

static const char *const archs[] = {
    "qwen3moe-moe",    "olmoe-moe",       "qwen2moe-moe",       "llama-moe",     "llama-dense",     "gpt-oss-moe",
    "gpt-oss-yarn",    "gemma4-moe",      "glm4moe-moe",        "glm4moe-mtp",   "minimax-m2-moe",  "ernie4_5-moe-moe",
    "hunyuan-moe-moe", "bailingmoe2-moe", "bailingmoe2-groups", "phimoe-moe",    "phimoe-longrope", "granitemoe-moe",
    "llama4-moe",      "lfm2moe-moe",     "qwen3next-moe",      "qwen35moe-moe", "kimi-linear-moe"};

struct rows {
    float *at;
    size_t n_vocab;
};

static bool keep_row(void *user, size_t index, const float *logits, size_t n_vocab)
{
    struct rows *r = user;
    memcpy(r->at + index * n_vocab, logits, n_vocab * sizeof *logits);
    return true;
}

static void must(enum sluice_status st, const char *what, const struct sluice_error *err)
{
    if (st) fail_msg("%s: %s (%s)", what, err->message, err->hint);
}

/* The same bits in other chunks, and across rewinds: to a place in the middle with other tokens in between, by one
 * token and to the very beginning. */
static void same_bits(const char *model, const int32_t *ids, size_t n, uint32_t chunk, bool rewinds, const float *want)
{
    enum { BACK = 13, OTHER = 9 };
    struct sluice_options o = support_options(model);
    struct sluice_error err;
    sluice_engine *e;
    sluice_session *s;
    struct sluice_model_info info;
    o.kv_type = "f32";
    o.chunk = chunk;
    must(engine_open(os_system(), &o, &e, &err), model, &err);
    sluice_model_info(e, &info);
    const size_t v = info.n_vocab;
    struct rows rows = {.at = malloc(n * v * sizeof(float)), .n_vocab = v};
    assert_non_null(rows.at);
    must(sluice_session_open(e, &s, &err), model, &err);
    must(sluice_eval(s, ids, n, NULL, keep_row, &rows, &err), model, &err);
    assert_memory_equal(rows.at, want, n * v * sizeof(float));
    support_last_rows(s, ids, n, want, v);
    if (!rewinds) goto done;

    must(sluice_session_rewind(s, BACK, &err), model, &err);
    must(sluice_eval(s, ids + n - OTHER, OTHER, NULL, NULL, NULL, &err), model, &err);
    must(sluice_session_rewind(s, BACK, &err), model, &err);
    memset(rows.at, 0, n * v * sizeof(float));
    must(sluice_eval(s, ids + BACK, n - BACK, NULL, keep_row, &rows, &err), model, &err);
    assert_memory_equal(rows.at, want + BACK * v, (n - BACK) * v * sizeof(float));

    must(sluice_session_rewind(s, n - 1, &err), model, &err);
    must(sluice_eval(s, ids + n - 1, 1, rows.at, NULL, NULL, &err), model, &err);
    assert_memory_equal(rows.at, want + (n - 1) * v, v * sizeof(float));
    must(sluice_session_rewind(s, 0, &err), model, &err);
    must(sluice_eval(s, ids, 5, rows.at, NULL, NULL, &err), model, &err);
    assert_memory_equal(rows.at, want + 4 * v, v * sizeof(float));
done:
    free(rows.at);
    sluice_session_close(s);
    sluice_engine_close(e);
}

static void chunks_and_rewinds(void **state)
{
    (void)state;
    static const uint32_t chunks[] = {512, 1, 2, 7, 64}; /* rewinds with the first and with 7 */
    char tokens[SUPPORT_PATH_MAX];
    assert_true(support_golden("arch/tokens.txt", tokens));
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
        char gguf[96], model[SUPPORT_PATH_MAX];
        snprintf(gguf, sizeof gguf, "arch/%s.gguf", archs[i]);
        if (!support_golden(gguf, model)) continue;
        size_t n, n_vocab;
        int32_t *ids = support_tokens(tokens, &n);
        n = getenv("SLUICE_TEST_COMPACT") ? TOKENS_COMPACT : TOKENS;
        struct sluice_options o = support_options(model);
        struct sluice_error err;
        float *want;
        o.kv_type = "f32";
        must(support_logits(NULL, &o, ids, n, &want, &n_vocab, &err), gguf, &err);
        for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++)
            same_bits(model, ids, n, chunks[c], c == 0 || c == 3, want);
        free(want);
        free(ids);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(chunks_and_rewinds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
