/* Models with windows whose rows stand in rings: the same bits as with all rows, however the text is cut, across the
 * places where a ring begins anew, rewinds near and far, stopped steps, tokens of other sessions, and prefixes. */
#include "support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define TOKENS 460u /* the rings here have 128 rows, or 192 */
#define CTX 1400u   /* so long that rings are worth it, with as many checkpoints as small states may have */

static const struct {
    const char *name, *kv_type;
    uint32_t window;
} models[] = {{"gpt-oss-yarn", "f32", 32},
              {"gemma4-moe", "f16", 24},
              {"deepseek4-table", "f16", 16},
              {"deepseek4-table", "q8_0", 16}};
#define N_MODELS (sizeof models / sizeof *models)

static struct sluice_error err;

#define CHECK(call)                                                      \
    do {                                                                 \
        if (call) fail_msg("%s: %s (%s)", #call, err.message, err.hint); \
    } while (0)

struct subject {
    const char *name;
    char model[SUPPORT_PATH_MAX];
    struct sluice_options o;
    int32_t ids[TOKENS];
    size_t n, n_vocab;
    float *want, *got; /* [n][n_vocab]; want: from all rows */
    sluice_engine *e;
    sluice_session *s;
};

static bool keep_row(void *user, size_t index, const float *logits, size_t n_vocab)
{
    memcpy((float *)user + index * n_vocab, logits, n_vocab * sizeof *logits);
    return true;
}

static const struct model_window *ring(const struct subject *x) { return &x->s->kv.state.window; }

static void open_engine(struct subject *x)
{
    CHECK(engine_open(support_steady(), &x->o, &x->e, &err));
    CHECK(sluice_session_open(x->e, &x->s, &err));
    assert_true(ring(x)->rows > 0 && ring(x)->rows % 64 == 0 && 2 * ring(x)->rows < x->n);
}

static void close_engine(struct subject *x)
{
    sluice_session_close(x->s);
    sluice_engine_close(x->e);
    x->e = NULL;
}

static void begin(struct subject *x, size_t model, uint32_t chunk)
{
    char file[96];
    *x = (struct subject){.name = models[model].name, .n = TOKENS};
    snprintf(file, sizeof file, "arch/%s.gguf", x->name);
    assert_true(support_golden(file, x->model));
    uint32_t v = 77;
    for (size_t i = 0; i < x->n; i++) {
        v = v * 1664525u + 1013904223u;
        x->ids[i] = (int32_t)(3 + (v >> 16) % 200);
    }
    x->o = support_options(x->model);
    x->o.kv_type = models[model].kv_type;
    x->o.threads = 1;
    x->o.ctx = TOKENS; /* with chunks of 512 no ring would be smaller */
    sluice_session *s;
    CHECK(engine_open(support_steady(), &x->o, &x->e, &err));
    CHECK(sluice_session_open(x->e, &s, &err));
    assert_int_equal(s->kv.state.window.rows, 0);
    x->n_vocab = x->e->model->hp.n_vocab;
    x->want = malloc(x->n * x->n_vocab * sizeof *x->want);
    x->got = malloc(x->n * x->n_vocab * sizeof *x->got);
    assert_non_null(x->want);
    assert_non_null(x->got);
    CHECK(sluice_eval(s, x->ids, x->n, NULL, keep_row, x->want, &err));
    sluice_session_close(s);
    sluice_engine_close(x->e);
    x->o.ctx = CTX;
    x->o.chunk = chunk;
    x->o.threads = chunk > 7 ? 2 : 1;
    open_engine(x);
    assert_int_equal(ring(x)->back, models[model].window - 1);
}

static void end(struct subject *x)
{
    if (x->e) close_engine(x);
    free(x->want);
    free(x->got);
}

/* Evaluates ids [from, to) in calls of `size` tokens and compares every row. */
static void evaluate(struct subject *x, sluice_session *s, size_t from, size_t to, size_t size, const char *what)
{
    assert_int_equal(sluice_session_tokens(s), from);
    for (size_t at = from; at < to; at += size)
        CHECK(sluice_eval(s, x->ids + at, to - at < size ? to - at : size, NULL, keep_row, x->got + at * x->n_vocab,
                          &err));
    for (size_t i = from; i < to; i++)
        if (memcmp(x->got + i * x->n_vocab, x->want + i * x->n_vocab, x->n_vocab * sizeof *x->got))
            fail_msg("%s, chunks of %u, %s: other bits from token %zu on", x->name, x->o.chunk, what, i);
}

static void back_to(struct subject *x, size_t n, const char *what)
{
    CHECK(sluice_session_rewind(x->s, n, &err));
    const size_t to = n + 70 < x->n ? n + 70 : x->n;
    evaluate(x, x->s, n, to, 70, what);
}

/* Every length of a step, ends of calls before, at and behind the ring's end; rewinds that the ring holds and such that
 * need a checkpoint; other tokens in between. */
static void test_chunks_and_rewinds(void **state)
{
    (void)state;
    static const uint32_t chunks[] = {7, 64, 2, 1};
    for (size_t m = 0; m < N_MODELS; m++)
        for (size_t c = 0; c < (getenv("SLUICE_TEST_COMPACT") || m == 3 ? 1 : m ? 2 : 4); c++) {
            struct subject x;
            begin(&x, m, chunks[c]);
            const size_t rows = ring(&x)->rows, back = ring(&x)->back, step = chunks[c] > 1 ? 100 : 460;
            evaluate(&x, x.s, 0, rows - 1, step, "up to the ring's end");
            evaluate(&x, x.s, rows - 1, rows, 1, "the last row");
            evaluate(&x, x.s, rows, rows + 1, 1, "the first row again");
            evaluate(&x, x.s, rows + 1, x.n, step, "behind the ring's end");
            const bool alone = !x.e->model->hp.state_floats;
            const size_t free_tokens = rows - back;
            if (alone) { /* what the ring holds costs nothing */
                assert_int_equal(model_state_known(&x.s->kv.state, x.n - free_tokens), x.n - free_tokens);
                assert_true(model_state_known(&x.s->kv.state, x.n - free_tokens - 1) < x.n - free_tokens - 1);
            }
            const size_t ways[] = {1, MODEL_WINDOW_SLACK, free_tokens, free_tokens + 1, rows, 2 * rows - 1, 2 * rows};
            for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
                const size_t n = sluice_session_tokens(x.s);
                if (i % 2) {
                    CHECK(sluice_session_rewind(x.s, n - ways[i] / 2, &err));
                    CHECK(sluice_eval(x.s, x.ids + 5, ways[i] / 2 < 20 ? 1 : 20, NULL, NULL, NULL, &err));
                }
                back_to(&x, n - ways[i], "after a rewind");
                evaluate(&x, x.s, sluice_session_tokens(x.s), x.n, step, "to the end again");
            }
            back_to(&x, 0, "from the start");
            end(&x);
        }
}

static bool stop_row(void *user, size_t index, const float *logits, size_t n_vocab)
{
    (void)logits, (void)n_vocab;
    return index < *(const size_t *)user;
}

/* A step that was stopped wrote its rows over old ones, but over none that the tokens before it look at. */
static void test_stopped(void **state)
{
    (void)state;
    for (size_t m = 0; m < N_MODELS; m++) {
        struct subject x;
        begin(&x, m, 64);
        evaluate(&x, x.s, 0, 300, 300, "before");
        for (size_t after = 0; after < 80; after += 26) {
            assert_int_equal(sluice_eval(x.s, x.ids + 3, 90, NULL, stop_row, &after, &err), SLUICE_CANCELLED);
            const size_t n = sluice_session_tokens(x.s); /* whole chunks of it stand */
            assert_true(n == 300 || n == 364);
            CHECK(sluice_session_rewind(x.s, 300, &err));
        }
        evaluate(&x, x.s, 300, 310, 1, "after stops");
        back_to(&x, 250, "after stops");
        end(&x);
    }
}

/* Sessions side by side, and tokens taken over from one that has gone on. */
static void test_sessions(void **state)
{
    (void)state;
    for (size_t m = 0; m < 3; m++) {
        struct subject x;
        sluice_session *other;
        begin(&x, m, 64);
        close_engine(&x);
        x.o.sessions = 2;
        open_engine(&x);
        CHECK(sluice_session_open(x.e, &other, &err));
        float *row = malloc(x.n_vocab * sizeof *row);
        evaluate(&x, x.s, 0, 200, 200, "first of two");
        size_t ready;
        CHECK(sluice_session_reuse(other, x.ids, 199, &ready, &err));
        if (!x.e->model->hp.state_floats) assert_int_equal(ready, 198);
        evaluate(&x, other, ready, 199, 64, "taken over");
        for (size_t i = 0; i < 60; i++) { /* apart by one, both across their rings' ends */
            const size_t n = sluice_session_tokens(x.s), k = sluice_session_tokens(other);
            const struct sluice_part parts[] = {{x.s, x.ids + n, 1 + i % 3, NULL}, {other, x.ids + k, 1 + i % 3, row}};
            CHECK(sluice_eval_together(x.e, parts, 2, &err));
            assert_memory_equal(row, x.want + (k + i % 3) * x.n_vocab, x.n_vocab * sizeof *row);
        }
        /* far behind what the other one's ring holds: from a checkpoint of it, or not at all */
        CHECK(sluice_session_rewind(other, 0, &err));
        CHECK(sluice_eval(other, x.ids + 40, 9, NULL, NULL, NULL, &err));
        CHECK(sluice_session_reuse(other, x.ids, 120, &ready, &err));
        assert_true(ready < 120);
        evaluate(&x, other, ready, 260, 64, "taken over from a checkpoint");
        evaluate(&x, x.s, sluice_session_tokens(x.s), x.n, 64, "first of two at the end");
        free(row);
        sluice_session_close(other);
        end(&x);
    }
}

/* ---- prefixes ---- */

static void again(struct subject *x) /* another session, so that only the tree is left */
{
    sluice_session_close(x->s);
    CHECK(sluice_session_open(x->e, &x->s, &err));
}

static size_t reuse(struct subject *x, size_t n)
{
    size_t ready;
    CHECK(sluice_session_reuse(x->s, x->ids, n, &ready, &err));
    evaluate(x, x->s, ready, n, 512, "a prefix");
    return ready;
}

/* A state is kept where a turn ends, where its prompt ended, and where a second text leaves one that was kept. The
 * ring's size does not matter to it. */
static void test_prefixes(void **state)
{
    (void)state;
    for (size_t m = 0; m < N_MODELS; m++) {
        enum { PROMPT = 301, TURN = 333, LEAVES = 290 };
        struct subject x;
        struct sluice_stats stats;
        char folder[64], command[96];
        int32_t own[TOKENS];
        snprintf(folder, sizeof folder, "%s/sluice-windows-XXXXXX", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
        assert_non_null(mkdtemp(folder));
        begin(&x, m, 64);
        close_engine(&x);
        x.o.prefix_memory = "8M";
        x.o.prefix_dir = folder;
        open_engine(&x);
        const bool alone = !x.e->model->hp.state_floats;
        evaluate(&x, x.s, 0, 2, 2, "a short one"); /* no row of some models is complete then */
        CHECK(sluice_session_keep(x.s, &err));
        evaluate(&x, x.s, 2, PROMPT, 512, "the prompt");
        evaluate(&x, x.s, PROMPT, TURN, 1, "the answer");
        CHECK(sluice_session_keep(x.s, &err));
        again(&x);
        assert_int_equal(reuse(&x, TURN + 20), TURN);
        again(&x);
        assert_int_equal(reuse(&x, TURN - 5), PROMPT);
        memcpy(own, x.ids, sizeof own);
        again(&x);
        size_t ready; /* another text leaves; a third one finds the place */
        own[LEAVES] ^= 1;
        CHECK(sluice_session_reuse(x.s, own, LEAVES + 30, &ready, &err));
        assert_int_equal(ready, 2);
        CHECK(sluice_eval(x.s, own + ready, LEAVES + 30 - ready, NULL, NULL, NULL, &err));
        CHECK(sluice_session_keep(x.s, &err));
        again(&x);
        own[LEAVES] ^= 3;
        CHECK(sluice_session_reuse(x.s, own, LEAVES + 30, &ready, &err));
        assert_int_equal(ready, alone ? LEAVES : 2 + MODEL_CHECKPOINT_TOKENS); /* one stands there by the way */
        prefix_tree_check(&x.e->prefix.store.tree);
        close_engine(&x);
        for (uint32_t chunk = 64; chunk; chunk = chunk > 7 ? 7 : 0) { /* another day, and a ring of another size */
            x.o.chunk = chunk;
            open_engine(&x);
            sluice_stats(x.e, &stats);
            assert_int_equal(stats.prefix_memory_bytes, 0);
            assert_int_equal(reuse(&x, x.n), TURN);
            back_to(&x, TURN + 3, "after a prefix");
            back_to(&x, 100, "before a prefix");
            sluice_stats(x.e, &stats);
            assert_int_equal(stats.prefix_refused, 0);
            close_engine(&x);
        }
        /* All rows: other payloads, none of which is taken for these. */
        x.o.ctx = TOKENS;
        x.o.chunk = 0;
        CHECK(engine_open(support_steady(), &x.o, &x.e, &err));
        CHECK(sluice_session_open(x.e, &x.s, &err));
        assert_int_equal(reuse(&x, 50), 0);
        end(&x);
        snprintf(command, sizeof command, "rm -rf '%s'", folder);
        assert_int_equal(system(command), 0);
    }
}

/* What the ledger says for a long context, and for one that rings would not make smaller. */
static uint64_t kv_row(const char *model, uint32_t ctx, uint32_t chunk)
{
    struct sluice_options o = support_options(model);
    struct sluice_ledger l;
    sluice_engine *e;
    uint64_t bytes = 0;
    o.ctx = ctx;
    o.chunk = chunk;
    o.kv_type = "f16";
    o.plan_only = true;
    CHECK(engine_open(os_system(), &o, &e, &err));
    sluice_ledger(e, &l);
    for (size_t i = 0; i < l.n_rows; i++)
        if (!strcmp(l.rows[i].name, "KV cache")) bytes = l.rows[i].bytes;
    sluice_engine_close(e);
    return bytes;
}

static void test_ledger(void **state)
{
    (void)state;
    char model[SUPPORT_PATH_MAX];
    enum { TOKEN = 4 * 2 * 2 * 16 * 2, WINDOW = 32 }; /* layers, keys and values, heads, elements, bytes */
    assert_true(support_golden("arch/gpt-oss-yarn.gguf", model));
    assert_int_equal(kv_row(model, 256, 256), 256 * TOKEN);
    assert_int_equal(kv_row(model, 131072, 2048),
                     131072 * TOKEN / 2 + (2176 + MODEL_CHECKPOINTS_MAX * (WINDOW - 1)) * TOKEN / 2);
    assert_int_equal(kv_row(model, 131072, 1), 131072 * TOKEN / 2 + (128 + 32 * (WINDOW - 1)) * TOKEN / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_chunks_and_rewinds), cmocka_unit_test(test_stopped),
                                       cmocka_unit_test(test_sessions), cmocka_unit_test(test_prefixes),
                                       cmocka_unit_test(test_ledger)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
