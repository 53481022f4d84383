/* Models with recurrent layers: the same bits after every rewind (to before, at and after checkpoints), after a step
 * that was stopped, and from files of the older layout. Golden logits and cuttings: test_golden.c, test_chunks.c. */
#include "rewrite.h"
#include "support.h"

#include "gguf/gguf.h"
#include "os/os.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char *const names[] = {"qwen3next", "qwen35moe", "kimi-linear", "lfm2moe"};
#define N_NAMES (sizeof names / sizeof *names)
#define TOKENS 290 /* past the place where a checkpoint is kept while tokens come one by one */
#define TOKENS_COMPACT 40
#define PROMPT 30

static struct sluice_error err;

#define CHECK(call)                                                      \
    do {                                                                 \
        if (call) fail_msg("%s: %s (%s)", #call, err.message, err.hint); \
    } while (0)

struct subject {
    const char *name;
    char model[SUPPORT_PATH_MAX];
    int32_t ids[TOKENS];
    size_t n, n_vocab;
    float *want, *got; /* [n][n_vocab] */
    sluice_engine *e;
    sluice_session *session;
};

static bool keep_row(void *user, size_t index, const float *logits, size_t n_vocab)
{
    memcpy((float *)user + index * n_vocab, logits, n_vocab * sizeof *logits);
    return true;
}

static struct sluice_options options(const struct subject *s)
{
    struct sluice_options o = support_options(s->model);
    o.kv_type = "f32";
    o.ctx = TOKENS + 20;
    o.threads = 1; /* more of them: test_chunks.c and the matrix */
    o.chunk = 64;
    return o;
}

/* False if the file is not here: the repository holds a part of the set. */
static bool begin(struct subject *s, const char *name)
{
    char file[96], path[SUPPORT_PATH_MAX];
    size_t n_ids;
    *s = (struct subject){.name = name, .n = getenv("SLUICE_TEST_COMPACT") ? TOKENS_COMPACT : TOKENS};
    snprintf(file, sizeof file, "arch/%s-moe.gguf", name);
    if (!support_golden(file, s->model)) return false;
    assert_true(support_golden("arch/tokens.txt", path));
    int32_t *ids = support_tokens(path, &n_ids);
    for (size_t i = 0; i < s->n; i++) s->ids[i] = ids[(i + i / n_ids * 7) % n_ids];
    free(ids);
    struct sluice_options o = options(s);
    CHECK(support_logits(NULL, &o, s->ids, s->n, &s->want, &s->n_vocab, &err));
    s->got = calloc(s->n * s->n_vocab, sizeof *s->got);
    assert_non_null(s->got);
    CHECK(sluice_engine_open(&o, &s->e, &err));
    CHECK(sluice_session_open(s->e, &s->session, &err));
    return true;
}

static void end(struct subject *s)
{
    sluice_session_close(s->session);
    sluice_engine_close(s->e);
    free(s->want);
    free(s->got);
}

/* Evaluates ids [from, to) in calls of `size` tokens. */
static void evaluate(struct subject *s, size_t from, size_t to, size_t size)
{
    for (size_t at = from; at < to; at += size)
        CHECK(sluice_eval(s->session, s->ids + at, to - at < size ? to - at : size, NULL, keep_row,
                          s->got + at * s->n_vocab, &err));
}

static void same_rows(const struct subject *s, size_t from, size_t to, const char *what, size_t number)
{
    for (size_t i = from; i < to; i++)
        if (memcmp(s->got + i * s->n_vocab, s->want + i * s->n_vocab, s->n_vocab * sizeof *s->got))
            fail_msg("%s: %s %zu: other bits from token %zu on", s->name, what, number, i);
}

/* Another branch comes after the first `keep` tokens, then the first one again. */
static void rewinds(void **state)
{
    (void)state;
    static const size_t keeps[] = {289, 287, 286, 285, 39, 31, 30, 29, 1, 0};
    size_t run = 0;
    for (size_t m = 0; m < N_NAMES; m++) {
        struct subject s;
        if (!begin(&s, names[m])) continue;
        evaluate(&s, 0, PROMPT, PROMPT); /* a prompt: a checkpoint at its end; */
        evaluate(&s, PROMPT, s.n, 1);    /* and an answer: another one 256 tokens later */
        same_rows(&s, 0, s.n, "at first", 0);
        for (size_t i = 0; i < sizeof keeps / sizeof *keeps; i++) {
            const size_t keep = keeps[i], to = keep + 20 < s.n ? keep + 20 : s.n;
            if (keep >= s.n) continue;
            CHECK(sluice_session_rewind(s.session, keep, &err));
            if (i % 2) CHECK(sluice_eval(s.session, s.ids + 17, 5, NULL, NULL, NULL, &err));
            CHECK(sluice_session_rewind(s.session, keep, &err));
            assert_int_equal(sluice_session_tokens(s.session), keep);
            memset(s.got, 0, s.n * s.n_vocab * sizeof *s.got);
            evaluate(&s, keep, to, i % 3 == 2 ? 1 : s.n);
            same_rows(&s, keep, to, "rewind to", keep);
            evaluate(&s, to, i % 5 ? to : s.n, s.n); /* the next one is further back, sometimes from the end */
        }
        end(&s);
        run++;
    }
    assert_true(run > 0);
}

struct stopper {
    size_t after; /* rows, or layers */
};

static bool stop_row(void *user, size_t index, const float *logits, size_t n_vocab)
{
    (void)logits, (void)n_vocab;
    return index < ((struct stopper *)user)->after;
}

/* A step that ends half-way has gone through some layers, or all of them, and none of it counts. */
static void stops(void **state)
{
    (void)state;
    for (size_t m = 0; m < N_NAMES; m++) {
        struct subject s;
        if (!begin(&s, names[m])) continue;
        evaluate(&s, 0, 20, 20);
        for (size_t after = 0; after < 3; after++) {
            struct stopper stop = {.after = after};
            assert_int_equal(sluice_eval(s.session, s.ids + 3, 9, NULL, stop_row, &stop, &err), SLUICE_CANCELLED);
            assert_int_equal(sluice_session_tokens(s.session), 20);
        }
        sluice_cancel(s.e); /* before the first layer */
        assert_int_equal(sluice_eval(s.session, s.ids + 20, 4, NULL, NULL, NULL, &err), SLUICE_CANCELLED);
        evaluate(&s, 20, 40, 7);
        same_rows(&s, 0, 40, "after stops at", 20);
        end(&s);
    }
}

/* ---- files with one matrix for q, k, v and the gate ---- */

#define KEY_HEADS 2 /* of the model in arch/qwen3next-moe.gguf */
#define SHARE 2     /* value heads a key head */
#define HEAD 128

static struct gguf *source;

static uint8_t *read_tensor(const char *name, size_t *row_bytes)
{
    const struct gguf_tensor *t = gguf_find_tensor(source, name);
    assert_non_null(t);
    FILE *f = fopen(gguf_shard(source, t->shard)->path, "rb");
    uint8_t *data = malloc(t->bytes);
    assert_non_null(f);
    assert_non_null(data);
    assert_int_equal(fseek(f, (long)t->offset, SEEK_SET), 0);
    assert_int_equal(fread(data, 1, t->bytes, f), t->bytes);
    fclose(f);
    *row_bytes = t->bytes / t->dims[1];
    return data;
}

/* Rows of ssm_in: q, k, v and z of the first key head, then of the next. */
static void group_rows(const char *name, uint8_t *data, size_t bytes)
{
    unsigned layer;
    char other[64];
    size_t row, z_row;
    if (!strstr(name, "ssm_in.weight") || sscanf(name, "blk.%u.", &layer) != 1) return;
    snprintf(other, sizeof other, "blk.%u.attn_qkv.weight", layer);
    uint8_t *qkv = read_tensor(other, &row);
    snprintf(other, sizeof other, "blk.%u.attn_gate.weight", layer);
    uint8_t *z = read_tensor(other, &z_row);
    assert_int_equal(bytes, (2 + 2 * SHARE) * KEY_HEADS * HEAD * row);
    assert_int_equal(row, z_row);
    const size_t head = HEAD * row;
    for (size_t g = 0; g < KEY_HEADS; g++) {
        memcpy(data, qkv + g * head, head);
        memcpy(data + head, qkv + (KEY_HEADS + g) * head, head);
        memcpy(data + 2 * head, qkv + (2 * KEY_HEADS + g * SHARE) * head, SHARE * head);
        memcpy(data + (2 + SHARE) * head, z + g * SHARE * head, SHARE * head);
        data += (2 + 2 * SHARE) * head;
    }
    free(qkv);
    free(z);
}

static void old_layout(void **state)
{
    (void)state;
    struct subject s;
    char folder[] = "/tmp/sluice-recurrent-XXXXXX", path[64];
    if (!begin(&s, "qwen3next")) skip();
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/old.gguf", folder);
    CHECK(gguf_open(os_system(), s.model, &source, &err));
    rewrite_gguf(s.model, path, &(struct rewrite){.drop_like = {"attn_qkv", "attn_gate"}, .patch_each = group_rows});
    gguf_close(source);
    struct sluice_options o = options(&s);
    o.model_path = path;
    float *got;
    size_t n_vocab;
    CHECK(support_logits(NULL, &o, s.ids, 40, &got, &n_vocab, &err));
    assert_memory_equal(got, s.want, 40 * n_vocab * sizeof *got);
    free(got);
    unlink(path);
    /* With neither layout the layer is named. */
    rewrite_gguf(s.model, path, &(struct rewrite){.drop_like = {"attn_qkv", "ssm_in"}});
    assert_int_equal(support_logits(NULL, &o, s.ids, 40, &got, &n_vocab, &err), SLUICE_ERR_MODEL);
    assert_non_null(strstr(err.message, "layer 0 has neither"));
    unlink(path);
    rmdir(folder);
    end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rewinds), cmocka_unit_test(stops),
                                       cmocka_unit_test(old_layout)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
