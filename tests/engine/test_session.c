/* Sessions: one answer whatever the cutting of the prompt, rewinding, cancelling, the context's end, refusals. */
#include "support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LONG_PROMPT 1025

static char model[SUPPORT_PATH_MAX];
static int32_t *text_ids; /* LONG_PROMPT + 64 tokens of real text */
static struct sluice_error err;

#define CHECK(call)                                                      \
    do {                                                                 \
        if (call) fail_msg("%s: %s (%s)", #call, err.message, err.hint); \
    } while (0)

static sluice_engine *engine_of(const char *experts, uint32_t ctx, uint32_t chunk)
{
    struct sluice_options o = support_options(model);
    sluice_engine *e;
    o.experts = experts;
    o.ctx = ctx;
    o.chunk = chunk;
    CHECK(sluice_engine_open(&o, &e, &err));
    return e;
}

static int load_text(void **state)
{
    (void)state;
    support_source("models/demo.gguf", model);
    char path[SUPPORT_PATH_MAX];
    support_source("tests/engine/text.txt", path);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    static char text[16384];
    size_t bytes = fread(text, 1, sizeof text, f), n;
    fclose(f);
    struct sluice_options o = support_options(model);
    o.vocab_only = true;
    sluice_engine *e;
    CHECK(sluice_engine_open(&o, &e, &err));
    text_ids = calloc(bytes + 8, sizeof *text_ids);
    const struct sluice_encode_options plain = {0};
    CHECK(sluice_encode(e, text, bytes, &plain, text_ids, bytes + 8, &n, &err));
    assert_true(n >= LONG_PROMPT + 64);
    sluice_engine_close(e);
    return 0;
}

static int free_text(void **state)
{
    (void)state;
    free(text_ids);
    return 0;
}

static const size_t seams[] = {1, 2, 9, 10, 31, 32, 33, 63, 64, 65, 255, 256, 257, 1023, 1024, 1025};
#define N_SEAMS (sizeof seams / sizeof *seams)

/* One token at a time against the whole prompt at once, at every length where a route could change. */
static void prompt_lengths(void **state)
{
    (void)state;
    sluice_engine *e = engine_of("30%", 1100, 512);
    sluice_session *s;
    CHECK(sluice_session_open(e, &s, &err));
    struct sluice_model_info info;
    sluice_model_info(e, &info);
    const size_t n_vocab = info.n_vocab;
    float *want = malloc(N_SEAMS * n_vocab * sizeof *want), *got = malloc(n_vocab * sizeof *got);
    assert_non_null(want);
    assert_non_null(got);
    /* Under a sanitizer a token costs ten times as much: the shorter seams. */
    const size_t longest = getenv("SLUICE_TEST_COMPACT") ? 80 : LONG_PROMPT;
    for (size_t i = 0, at = 0; i < longest; i++) {
        CHECK(sluice_eval(s, text_ids + i, 1, got, NULL, NULL, &err));
        if (at < N_SEAMS && i + 1 == seams[at]) memcpy(want + at++ * n_vocab, got, n_vocab * sizeof *got);
    }
    for (size_t i = 0; i < N_SEAMS && seams[i] <= longest; i++) {
        CHECK(sluice_session_rewind(s, 0, &err));
        CHECK(sluice_eval(s, text_ids, seams[i], got, NULL, NULL, &err));
        if (memcmp(got, want + i * n_vocab, n_vocab * sizeof *got))
            fail_msg("prompt of %zu tokens: other bits than token by token", seams[i]);
    }
    free(want);
    free(got);
    sluice_session_close(s);
    sluice_engine_close(e);
}

/* A cached prefix equals a recomputed one. */
static void rewinding(void **state)
{
    (void)state;
    sluice_engine *e = engine_of("25%", 256, 64);
    sluice_session *s;
    CHECK(sluice_session_open(e, &s, &err));
    struct sluice_model_info info;
    sluice_model_info(e, &info);
    float *fresh = malloc(info.n_vocab * sizeof *fresh), *again = malloc(info.n_vocab * sizeof *again);
    assert_non_null(fresh);
    assert_non_null(again);
    CHECK(sluice_eval(s, text_ids, 100, fresh, NULL, NULL, &err));
    CHECK(sluice_eval(s, text_ids + 500, 50, NULL, NULL, NULL, &err)); /* another branch */
    for (size_t keep = 99; keep > 0; keep /= 3) {
        CHECK(sluice_session_rewind(s, keep, &err));
        assert_int_equal(sluice_session_tokens(s), keep);
        int32_t id;
        assert_int_equal(sluice_sample(s, &id, &err), SLUICE_ERR_USAGE); /* the logits went with the tokens */
        CHECK(sluice_eval(s, text_ids + keep, 100 - keep, again, NULL, NULL, &err));
        assert_memory_equal(fresh, again, info.n_vocab * sizeof *fresh);
    }
    assert_int_equal(sluice_session_rewind(s, 101, &err), SLUICE_ERR_USAGE);
    free(fresh);
    free(again);
    sluice_session_close(s);
    sluice_engine_close(e);
}

struct stopper {
    sluice_engine *e;
    uint64_t after; /* calls */
};

static bool stop_after(void *user, const struct sluice_progress *p)
{
    struct stopper *x = user;
    if (p->phase != SLUICE_PHASE_PREFILL || !x->after) return true;
    return --x->after > 0;
}

static void cancelling(void **state)
{
    (void)state;
    struct stopper stopper = {0};
    struct sluice_options o = support_options(model);
    o.experts = "25%";
    o.ctx = 256;
    o.chunk = 32;
    o.progress = stop_after;
    o.user = &stopper;
    o.log = NULL;
    sluice_engine *e;
    sluice_session *s;
    CHECK(sluice_engine_open(&o, &e, &err));
    CHECK(sluice_session_open(e, &s, &err));
    struct sluice_model_info info;
    sluice_model_info(e, &info);
    float *want = malloc(info.n_vocab * sizeof *want), *got = malloc(info.n_vocab * sizeof *got);
    assert_non_null(want);
    assert_non_null(got);
    CHECK(sluice_eval(s, text_ids, 100, want, NULL, NULL, &err));
    /* Stopped in the middle of any chunk's layers, the session goes on from the last whole chunk with the same bits. */
    for (uint64_t after = 1; after < 30; after += 4) {
        CHECK(sluice_session_rewind(s, 0, &err));
        stopper.after = after;
        assert_int_equal(sluice_eval(s, text_ids, 100, NULL, NULL, NULL, &err), SLUICE_CANCELLED);
        size_t have = sluice_session_tokens(s);
        assert_int_equal(have, (after - 1) / info.n_layers * 32);
        CHECK(sluice_eval(s, text_ids + have, 100 - have, got, NULL, NULL, &err));
        assert_memory_equal(want, got, info.n_vocab * sizeof *want);
    }
    sluice_cancel(e);
    CHECK(sluice_session_rewind(s, 0, &err));
    assert_int_equal(sluice_eval(s, text_ids, 100, NULL, NULL, NULL, &err), SLUICE_CANCELLED);
    CHECK(sluice_eval(s, text_ids, 100, got, NULL, NULL, &err));
    assert_memory_equal(want, got, info.n_vocab * sizeof *want);
    free(want);
    free(got);
    sluice_session_close(s);
    sluice_engine_close(e);
}

static void context_end(void **state)
{
    (void)state;
    sluice_engine *e = engine_of(NULL, 40, 0);
    sluice_session *s, *second;
    CHECK(sluice_session_open(e, &s, &err));
    assert_int_equal(sluice_session_open(e, &second, &err), SLUICE_ERR_USAGE);
    CHECK(sluice_eval(s, text_ids, 39, NULL, NULL, NULL, &err));
    assert_int_equal(sluice_eval(s, text_ids, 2, NULL, NULL, NULL, &err), SLUICE_CONTEXT_FULL);
    assert_int_equal(sluice_session_tokens(s), 39);
    CHECK(sluice_eval(s, text_ids, 1, NULL, NULL, NULL, &err));
    assert_int_equal(sluice_eval(s, text_ids, 1, NULL, NULL, NULL, &err), SLUICE_CONTEXT_FULL);
    const int32_t bad[] = {-1, 4096, INT32_MAX};
    CHECK(sluice_session_rewind(s, 0, &err));
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(sluice_eval(s, &bad[i], 1, NULL, NULL, NULL, &err), SLUICE_ERR_USAGE);
        assert_non_null(strstr(err.message, "4096"));
    }
    assert_int_equal(sluice_eval(s, text_ids, 0, NULL, NULL, NULL, &err), SLUICE_ERR_USAGE);
    sluice_session_close(s);
    CHECK(sluice_session_open(e, &second, &err));
    sluice_session_close(second);
    sluice_engine_close(e);
}

/* Seeded sampling gives the same text at any cache size. */
static void sampling(void **state)
{
    (void)state;
    int32_t first[60];
    for (int round = 0; round < 2; round++) {
        sluice_engine *e = engine_of(round ? "20%" : "100%", 200, round ? 5 : 0);
        sluice_session *s;
        CHECK(sluice_session_open(e, &s, &err));
        struct sluice_sampling p;
        sluice_sampling_init(&p);
        p.seed = 7;
        CHECK(sluice_session_sampling(s, &p, &err));
        CHECK(sluice_eval(s, text_ids, 30, NULL, NULL, NULL, &err));
        for (int i = 0; i < 60; i++) {
            int32_t id;
            CHECK(sluice_sample(s, &id, &err));
            if (round) assert_int_equal(id, first[i]);
            first[i] = id;
            CHECK(sluice_eval(s, &id, 1, NULL, NULL, NULL, &err));
        }
        p.top_p = 1.5f;
        assert_int_equal(sluice_session_sampling(s, &p, &err), SLUICE_ERR_USAGE);
        sluice_sampling_init(&p);
        p.n_bias = 2;
        assert_int_equal(sluice_session_sampling(s, &p, &err), SLUICE_ERR_USAGE);
        assert_non_null(strstr(err.message, "NULL"));
        sluice_session_close(s);
        sluice_engine_close(e);
    }
}

/* Logits are those of the last token that was evaluated, or there are none. */
static void logits_after_reuse(void **state)
{
    (void)state;
    struct sluice_options o = support_options(model);
    sluice_engine *e;
    sluice_session *s, *other;
    int32_t id;
    size_t n;
    o.ctx = 128;
    o.sessions = 2;
    CHECK(sluice_engine_open(&o, &e, &err));
    CHECK(sluice_session_open(e, &s, &err));
    CHECK(sluice_session_open(e, &other, &err));
    CHECK(sluice_eval(other, text_ids, 40, NULL, NULL, NULL, &err));
    CHECK(sluice_eval(s, text_ids, 10, NULL, NULL, NULL, &err));
    for (int round = 0; round < 2; round++) { /* a beginning of it; then as many, of which the last are others */
        CHECK(sluice_sample(s, &id, &err));
        CHECK(sluice_session_reuse(s, text_ids, 31, &n, &err));
        assert_int_equal(n, 30);
        assert_int_equal(sluice_sample(s, &id, &err), SLUICE_ERR_USAGE);
        CHECK(sluice_session_rewind(s, 10, &err));
        CHECK(sluice_eval(s, text_ids + 100, 20, NULL, NULL, NULL, &err));
    }
    sluice_session_close(s);
    sluice_session_close(other);
    sluice_engine_close(e);
}

/* Where an answer begins is forgotten with the tokens before it: `id` is what would be drawn, if it did not occur in an
 * answer. */
static void answer_mark(void **state)
{
    (void)state;
    sluice_engine *e = engine_of(NULL, 128, 0);
    sluice_session *s;
    int32_t many[60], id = text_ids[20], got;
    for (size_t i = 0; i < 60; i++) many[i] = id;
    const struct sluice_bias bias = {id, 100};
    struct sluice_sampling p;
    size_t n;
    sluice_sampling_init(&p);
    p.temperature = 0;
    p.frequency_penalty = 2;
    p.bias = &bias;
    p.n_bias = 1;
    CHECK(sluice_session_open(e, &s, &err));
    CHECK(sluice_session_sampling(s, &p, &err));
    for (int how = 0; how < 3; how++) {
        CHECK(sluice_session_rewind(s, 0, &err));
        CHECK(sluice_eval(s, text_ids, 10, NULL, NULL, NULL, &err));
        sluice_session_answer(s);
        CHECK(sluice_eval(s, text_ids + 10, 10, NULL, NULL, NULL, &err));
        if (how == 1) CHECK(sluice_session_reuse(s, text_ids, 6, &n, &err));
        if (how != 1) CHECK(sluice_session_rewind(s, how == 0 ? 5 : 10, &err)); /* 10: the answer once more */
        CHECK(sluice_eval(s, many, 60, NULL, NULL, NULL, &err));
        CHECK(sluice_sample(s, &got, &err));
        assert_true((got == id) == (how < 2));
    }
    sluice_session_close(s);
    sluice_engine_close(e);
}

/* A text that could not fit the context is refused before it takes memory that the ledger does not have. */
static void long_text(void **state)
{
    (void)state;
    static char text[300000];
    memset(text, 'x', sizeof text);
    const struct sluice_encode_options plain = {0};
    size_t n;
    struct sluice_options o = support_options(model);
    sluice_engine *e;
    o.ctx = 256;
    CHECK(sluice_engine_open(&o, &e, &err));
    CHECK(sluice_encode(e, text, 256 * 32, &plain, NULL, 0, &n, &err));
    assert_int_equal(sluice_encode(e, text, 256 * 32 + 1, &plain, NULL, 0, &n, &err), SLUICE_ERR_MEMORY);
    struct sluice_ledger small, large;
    sluice_ledger(e, &small);
    sluice_engine_close(e);
    o.text_bytes = sizeof text;
    CHECK(sluice_engine_open(&o, &e, &err));
    sluice_ledger(e, &large);
    CHECK(sluice_encode(e, text, sizeof text, &plain, NULL, 0, &n, &err));
    uint64_t rows[2] = {0};
    for (size_t i = 0; i < small.n_rows; i++)
        if (!strcmp(small.rows[i].name, "texts")) rows[0] = small.rows[i].bytes;
    for (size_t i = 0; i < large.n_rows; i++)
        if (!strcmp(large.rows[i].name, "texts")) rows[1] = large.rows[i].bytes;
    assert_true(rows[0] > 0 && rows[1] > rows[0]);
    sluice_engine_close(e);
}

/* Every KV type answers alike to within its precision, and differs from the others (so the option does something). */
static void kv_types(void **state)
{
    (void)state;
    static const char *const types[] = {"f32", "f16", "q8_0"};
    float *rows[3];
    size_t n_vocab = 0;
    for (int i = 0; i < 3; i++) {
        struct sluice_options o = support_options(model);
        o.kv_type = types[i];
        CHECK(support_logits(NULL, &o, text_ids, 80, &rows[i], &n_vocab, &err));
    }
    const double half = support_nmse(rows[1], rows[0], 80 * n_vocab),
                 bytes = support_nmse(rows[2], rows[0], 80 * n_vocab);
    print_message("nmse against an f32 cache: f16 %.3g, q8_0 %.3g\n", half, bytes);
    assert_true(half < 1e-3);
    assert_true(bytes < 2e-2);
    assert_memory_not_equal(rows[0], rows[1], n_vocab * 80 * sizeof(float));
    assert_memory_not_equal(rows[1], rows[2], n_vocab * 80 * sizeof(float));
    for (int i = 0; i < 3; i++) free(rows[i]);
}

/* Openers: the document is held to its end if it is chosen, and behind an opener a token is drawn as without a grammar.
 */
static void both_ways(sluice_engine *e, sluice_session *s, sluice_grammar *g)
{
    const char *openers[] = {"<call>", ""};
    const struct sluice_encode_options how = {.special = false};
    struct sluice_sampling p;
    int32_t ids[64], free_id, id;
    size_t n;
    const uint64_t *mask;
    struct sluice_model_info info;
    sluice_model_info(e, &info);
    assert_int_equal(sluice_grammar_branch(g), SLUICE_BRANCH_DOCUMENT);
    assert_int_equal(sluice_grammar_openers(g, openers, 2, &err), SLUICE_ERR_USAGE);
    assert_true(sluice_grammar_complete(g)); /* as it was */
    CHECK(sluice_grammar_openers(g, openers, 1, &err));
    assert_int_equal(sluice_grammar_branch(g), SLUICE_BRANCH_OPEN);
    CHECK(sluice_encode(e, "{", 1, &how, ids, 64, &n, &err));
    CHECK(sluice_grammar_accept(g, ids[n - 1], &err));
    assert_int_equal(sluice_grammar_branch(g), SLUICE_BRANCH_DOCUMENT);
    sluice_grammar_reset(g); /* the openers stay */
    CHECK(sluice_encode(e, "<call>", 6, &how, ids, 64, &n, &err));
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(sluice_grammar_branch(g), SLUICE_BRANCH_OPEN);
        assert_false(sluice_grammar_complete(g));
        CHECK(sluice_grammar_accept(g, ids[i], &err));
    }
    assert_int_equal(sluice_grammar_branch(g), SLUICE_BRANCH_FREE);
    assert_true(sluice_grammar_complete(g));
    CHECK(sluice_grammar_mask(g, &mask, &err));
    for (uint32_t i = 0; i < info.n_vocab; i++) assert_true(mask[i / 64] >> i % 64 & 1);
    sluice_sampling_init(&p);
    p.seed = 9;
    CHECK(sluice_session_sampling(s, &p, &err));
    CHECK(sluice_sample(s, &free_id, &err));
    CHECK(sluice_session_sampling(s, &p, &err));
    CHECK(sluice_sample_constrained(s, g, &id, &err));
    assert_int_equal(id, free_id);
    CHECK(sluice_grammar_openers(g, NULL, 0, &err));
    assert_int_equal(sluice_grammar_branch(g), SLUICE_BRANCH_DOCUMENT);
}

/* An answer under a schema: JSON of that shape, of the most likely tokens among those that are allowed. */
static void constrained(void **state)
{
    static const char schema[] =
        "{\"type\": \"object\", \"properties\": {\"word\": {\"type\": \"string\", \"maxLength\": 12}, "
        "\"n\": {\"type\": \"integer\"}}, \"required\": [\"word\", \"n\"]}";
    (void)state;
    struct sluice_options o = support_options(model);
    o.ctx = 512;
    o.experts = "8M";
    sluice_engine *e;
    sluice_grammar *g;
    CHECK(sluice_engine_open(&o, &e, &err));
    assert_int_equal(sluice_grammar_json(e, schema, strlen(schema), &g, &err), SLUICE_ERR_USAGE); /* no memory for it */
    assert_null(g);
    struct sluice_ledger without, with;
    sluice_ledger(e, &without);
    sluice_engine_close(e);
    o.grammar = true;
    CHECK(sluice_engine_open(&o, &e, &err));
    sluice_ledger(e, &with);
    assert_true(with.rows[0].bytes > without.rows[0].bytes + ((uint64_t)16 << 20));
    assert_int_equal(sluice_grammar_json(e, "{\"pattern\": 1}", 14, &g, &err), SLUICE_ERR_USAGE);
    CHECK(sluice_grammar_json(e, schema, strlen(schema), &g, &err));
    sluice_session *s;
    CHECK(sluice_session_open(e, &s, &err));
    int32_t id;
    assert_int_equal(sluice_sample_constrained(s, g, &id, &err), SLUICE_ERR_USAGE); /* no logits */
    struct sluice_sampling p;
    sluice_sampling_init(&p);
    struct sluice_model_info info;
    sluice_model_info(e, &info);
    float *logits = malloc(info.n_vocab * sizeof *logits);
    assert_non_null(logits);
    for (int turn = 0; turn < 4; turn++) {
        char text[2048], piece[SLUICE_PIECE_BYTES_MAX];
        size_t n = 0;
        struct sluice_decoder d = {{0}};
        sluice_decoder_init(&d, true);
        p.temperature = turn ? 1.2f : 0.0f;
        p.seed = (uint64_t)turn;
        CHECK(sluice_session_sampling(s, &p, &err));
        CHECK(sluice_session_rewind(s, 0, &err));
        sluice_grammar_reset(g);
        CHECK(sluice_eval(s, text_ids, 8, logits, NULL, NULL, &err));
        for (;;) {
            const uint64_t *mask;
            uint32_t best = UINT32_MAX;
            CHECK(sluice_grammar_mask(g, &mask, &err));
            for (uint32_t i = 0; i < info.n_vocab; i++)
                if (mask[i / 64] >> i % 64 & 1 && (best == UINT32_MAX || logits[i] > logits[best])) best = i;
            const bool complete = sluice_grammar_complete(g);
            CHECK(sluice_sample_constrained(s, g, &id, &err));
            if (!turn) assert_int_equal(id, best);
            assert_true(complete == sluice_ends_generation(e, id)); /* of this schema: nothing but the end can follow */
            if (complete) break;
            n += sluice_decode(e, &d, id, false, memset(piece, 0, sizeof piece));
            assert_true(n < sizeof text);
            memcpy(text + n - strlen(piece), piece, strlen(piece));
            if (sluice_session_tokens(s) == 500) fail_msg("no end: %.*s", (int)n, text);
            CHECK(sluice_eval(s, &id, 1, logits, NULL, NULL, &err));
        }
        text[n] = '\0';
        print_message("%s\n", text);
        const char *at = strchr(text, '{');
        assert_true(at && strstr(at, "\"word\"") && strstr(at, "\"n\"") && text[n - 1] == '}');
        assert_int_equal(sluice_grammar_accept(g, text_ids[0], &err), SLUICE_ERR_USAGE);
    }
    free(logits);
    both_ways(e, s, g);
    sluice_grammar_free(g);
    sluice_session_close(s);
    sluice_engine_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompt_lengths), cmocka_unit_test(rewinding),   cmocka_unit_test(cancelling),
        cmocka_unit_test(context_end),    cmocka_unit_test(sampling),    cmocka_unit_test(kv_types),
        cmocka_unit_test(long_text),      cmocka_unit_test(constrained), cmocka_unit_test(logits_after_reuse),
        cmocka_unit_test(answer_mark),
    };
    return cmocka_run_group_tests(tests, load_text, free_text);
}
