/* Several sessions in one engine: what each gets is what it would get alone, to the bit, whoever else is in the step,
 * across rewinds, steps that fail, and tokens taken over from another session. Every architecture that there is a
 * golden file of. */
#include "support.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SESSIONS = 3, LENGTH = 26, APART = 11 };

static void must(enum sluice_status st, const char *what, const struct sluice_error *err)
{
    if (st) fail_msg("%s: %s (%s)", what, err->message, err->hint);
}

/* What one model says to three texts, alone. */
struct alone {
    const char *model;
    const int32_t *ids[SESSIONS]; /* [LENGTH] */
    float *logits[SESSIONS];      /* [LENGTH][n_vocab] */
    size_t n_vocab;
};

struct joint {
    const struct alone *alone;
    sluice_engine *engine;
    sluice_session *sessions[SESSIONS];
    float *got; /* [SESSIONS][n_vocab] */
};

/* One step with so many tokens for each (0: not in it); each must get what it got alone. */
static void step(struct joint *j, const size_t n[SESSIONS])
{
    struct sluice_part parts[SESSIONS];
    struct sluice_error err;
    const size_t v = j->alone->n_vocab;
    size_t n_parts = 0, of[SESSIONS];
    for (size_t i = 0; i < SESSIONS; i++) {
        if (!n[i]) continue;
        of[n_parts] = i;
        parts[n_parts++] = (struct sluice_part){.session = j->sessions[i],
                                                .ids = j->alone->ids[i] + sluice_session_tokens(j->sessions[i]),
                                                .n = n[i],
                                                .logits = j->got + i * v};
    }
    must(sluice_eval_together(j->engine, parts, n_parts, &err), j->alone->model, &err);
    for (size_t p = 0; p < n_parts; p++) {
        const size_t at = sluice_session_tokens(parts[p].session) - 1;
        if (memcmp(parts[p].logits, j->alone->logits[of[p]] + at * v, v * sizeof(float)) != 0)
            fail_msg("%s: session %zu differs at token %zu", j->alone->model, of[p], at);
    }
}

/* After taking over from others, a session goes on as if it had computed everything itself. */
static void take_over(struct joint *j)
{
    struct sluice_error err;
    const struct alone *a = j->alone;
    size_t ready;
    /* the second becomes the first, wherever that can be picked up */
    must(sluice_session_reuse(j->sessions[1], a->ids[0], LENGTH, &ready, &err), a->model, &err);
    assert_int_equal(ready, sluice_session_tokens(j->sessions[1]));
    assert_true(ready < LENGTH);
    if (!j->engine->model->hp.state_floats) assert_int_equal(ready, LENGTH - 1);
    must(sluice_eval(j->sessions[1], a->ids[0] + ready, LENGTH - ready, j->got, NULL, NULL, &err), a->model, &err);
    assert_memory_equal(j->got, a->logits[0] + (LENGTH - 1) * a->n_vocab, a->n_vocab * sizeof(float));
    /* and its own again */
    must(sluice_session_reuse(j->sessions[1], a->ids[1], LENGTH, &ready, &err), a->model, &err);
    must(sluice_eval(j->sessions[1], a->ids[1] + ready, LENGTH - ready, j->got, NULL, NULL, &err), a->model, &err);
    assert_memory_equal(j->got, a->logits[1] + (LENGTH - 1) * a->n_vocab, a->n_vocab * sizeof(float));
}

static struct joint open_joint(const struct alone *a, const char *experts)
{
    struct sluice_options o = support_options(a->model);
    struct sluice_error err;
    struct joint j = {.alone = a, .got = malloc(SESSIONS * a->n_vocab * sizeof(float))};
    assert_non_null(j.got);
    o.sessions = SESSIONS;
    o.chunk = 24;
    o.experts = experts;
    must(sluice_engine_open(&o, &j.engine, &err), a->model, &err);
    for (size_t i = 0; i < SESSIONS; i++) must(sluice_session_open(j.engine, &j.sessions[i], &err), a->model, &err);
    return j;
}

static void close_joint(struct joint *j)
{
    for (size_t i = 0; i < SESSIONS; i++) sluice_session_close(j->sessions[i]);
    sluice_engine_close(j->engine);
    free(j->got);
}

static void run(const struct alone *a)
{
    struct sluice_error err;
    struct joint j = open_joint(a, NULL);
    step(&j, (size_t[]){9, 0, 1});
    step(&j, (size_t[]){1, 5, 7});
    step(&j, (size_t[]){1, 1, 1});
    step(&j, (size_t[]){0, 12, 3});
    step(&j, (size_t[]){1, 1, 0});
    must(sluice_session_rewind(j.sessions[2], 4, &err), a->model, &err);
    step(&j, (size_t[]){2, 1, 13});
    step(&j, (size_t[]){1, 1, 1});
    step(&j, (size_t[]){1, 0, 1});
    step(&j, (size_t[]){10, 5, 7});
    take_over(&j);
    close_joint(&j);
}

static void one_model(const char *model, const int32_t *ids)
{
    struct alone a = {.model = model};
    struct sluice_error err;
    for (size_t i = 0; i < SESSIONS; i++) {
        struct sluice_options o = support_options(model);
        a.ids[i] = ids + i * APART;
        must(support_logits(NULL, &o, a.ids[i], LENGTH, &a.logits[i], &a.n_vocab, &err), model, &err);
    }
    run(&a);
    for (size_t i = 0; i < SESSIONS; i++) free(a.logits[i]);
}

static int32_t *some_ids(void)
{
    char path[SUPPORT_PATH_MAX];
    size_t n;
    assert_true(support_golden("arch/tokens.txt", path));
    int32_t *ids = support_tokens(path, &n);
    assert_true(n >= (SESSIONS - 1) * APART + LENGTH);
    return ids;
}

static void every_architecture(void **state)
{
    (void)state;
    char first[SUPPORT_PATH_MAX], source[SUPPORT_PATH_MAX];
    int32_t *ids = some_ids();
    size_t n_models = 0;
    assert_true(support_golden("arch/qwen3moe-moe.gguf", first));
    *strrchr(first, '/') = 0;
    support_source("tests/golden/arch", source);
    const char *const folders[] = {first, source};
    for (size_t f = 0; f < (strcmp(first, source) != 0 ? 2 : 1); f++) {
        DIR *d = opendir(folders[f]);
        assert_non_null(d);
        for (struct dirent *x; (x = readdir(d));) {
            char path[SUPPORT_PATH_MAX + 300], in_first[SUPPORT_PATH_MAX + 300];
            const size_t n = strlen(x->d_name);
            if (n < 5 || strcmp(x->d_name + n - 5, ".gguf") != 0) continue;
            snprintf(path, sizeof path, "%s/%s", folders[f], x->d_name);
            snprintf(in_first, sizeof in_first, "%s/%s", first, x->d_name);
            FILE *same = f ? fopen(in_first, "r") : NULL;
            if (same) fclose(same);
            if (same) continue;
            one_model(path, ids);
            n_models++;
        }
        closedir(d);
    }
    free(ids);
    assert_true(n_models > 10);
}

static bool stop(void *user, const struct sluice_progress *p)
{
    (void)user;
    return p->phase != SLUICE_PHASE_PREFILL;
}

/* A step that is stopped changes nobody; the same step then gives the right bits. */
static void stopped(void **state)
{
    (void)state;
    char model[SUPPORT_PATH_MAX];
    int32_t *ids = some_ids();
    static const char *const models[] = {"arch/qwen3moe-moe.gguf", "arch/qwen3next-moe.gguf"};
    for (size_t m = 0; m < 2; m++) {
        assert_true(support_golden(models[m], model));
        struct alone a = {.model = model};
        struct sluice_error err;
        for (size_t i = 0; i < SESSIONS; i++) {
            struct sluice_options o = support_options(model);
            a.ids[i] = ids + i * APART;
            must(support_logits(NULL, &o, a.ids[i], LENGTH, &a.logits[i], &a.n_vocab, &err), model, &err);
        }
        struct joint j = open_joint(&a, NULL);
        step(&j, (size_t[]){6, 3, 1});
        j.engine->options.progress = stop;
        const struct sluice_part parts[] = {{.session = j.sessions[0], .ids = a.ids[0] + 6, .n = 2},
                                            {.session = j.sessions[1], .ids = a.ids[1] + 3, .n = 4}};
        assert_int_equal(sluice_eval_together(j.engine, parts, 2, &err), SLUICE_CANCELLED);
        j.engine->options.progress = NULL;
        assert_int_equal(sluice_session_tokens(j.sessions[0]), 6);
        assert_int_equal(sluice_session_tokens(j.sessions[1]), 3);
        int32_t id;
        assert_int_equal(sluice_sample(j.sessions[0], &id, &err), SLUICE_ERR_USAGE);
        assert_int_equal(sluice_sample(j.sessions[2], &id, &err), SLUICE_OK); /* was not in it */
        step(&j, (size_t[]){2, 4, 0});
        step(&j, (size_t[]){1, 1, 1});
        close_joint(&j);
        for (size_t i = 0; i < SESSIONS; i++) free(a.logits[i]);
    }
    free(ids);
}

static void refusals(void **state)
{
    (void)state;
    char model[SUPPORT_PATH_MAX];
    int32_t *ids = some_ids();
    assert_true(support_golden("arch/qwen3moe-moe.gguf", model));
    struct alone a = {.model = model, .n_vocab = 1};
    struct joint j = open_joint(&a, NULL), other = open_joint(&a, NULL);
    struct sluice_error err;
    sluice_session *s;
    assert_int_equal(sluice_session_open(j.engine, &s, &err), SLUICE_ERR_USAGE);
    assert_non_null(strstr(err.message, "3 sessions"));
    assert_int_equal(sluice_eval_together(j.engine, NULL, 0, &err), SLUICE_ERR_USAGE);
    struct sluice_part twice[] = {
        {j.sessions[0], ids, 1, NULL}, {j.sessions[1], ids, 1, NULL}, {j.sessions[0], ids, 1, NULL}};
    assert_int_equal(sluice_eval_together(j.engine, twice, 3, &err), SLUICE_ERR_USAGE);
    assert_non_null(strstr(err.message, "parts 0 and 2"));
    twice[2].session = other.sessions[0];
    assert_int_equal(sluice_eval_together(j.engine, twice, 3, &err), SLUICE_ERR_USAGE);
    assert_non_null(strstr(err.message, "another engine"));
    twice[1].n = 0;
    assert_int_equal(sluice_eval_together(j.engine, twice, 2, &err), SLUICE_ERR_USAGE);
    twice[1].n = 24; /* one more than the step holds beside the other */
    assert_int_equal(sluice_eval_together(j.engine, twice, 2, &err), SLUICE_ERR_USAGE);
    assert_non_null(strstr(err.message, "25 tokens"));
    for (size_t i = 0; i < SESSIONS; i++) assert_int_equal(sluice_session_tokens(j.sessions[i]), 0);
    /* a place that was closed is free again, and empty */
    twice[1].n = 3;
    assert_int_equal(sluice_eval_together(j.engine, twice, 2, &err), SLUICE_OK);
    sluice_session_close(j.sessions[1]);
    must(sluice_session_open(j.engine, &j.sessions[1], &err), model, &err);
    assert_int_equal(sluice_session_tokens(j.sessions[1]), 0);
    close_joint(&j);
    close_joint(&other);
    struct sluice_options o = support_options(model);
    o.sessions = 65;
    sluice_engine *e;
    assert_int_equal(sluice_engine_open(&o, &e, &err), SLUICE_ERR_USAGE);
    free(ids);
}

/* Experts that several sessions choose are read once for all: with room for few, three sessions side by side read fewer
 * bytes than the same sessions one after the other. */
static void reads_once(void **state)
{
    (void)state;
    char model[SUPPORT_PATH_MAX];
    int32_t *ids = some_ids();
    uint64_t bytes[2];
    assert_true(support_golden("arch/qwen3moe-moe.gguf", model));
    struct alone a = {.model = model};
    struct sluice_error err;
    for (size_t i = 0; i < SESSIONS; i++) {
        struct sluice_options o = support_options(model);
        a.ids[i] = ids; /* the same text */
        must(support_logits(NULL, &o, a.ids[i], LENGTH, &a.logits[i], &a.n_vocab, &err), model, &err);
    }
    char smallest[32];
    struct sluice_options o = support_options(model);
    struct sluice_ledger ledger;
    sluice_engine *e;
    o.plan_only = true;
    o.chunk = 24;
    must(sluice_engine_open(&o, &e, &err), model, &err);
    sluice_ledger(e, &ledger);
    sluice_engine_close(e);
    snprintf(smallest, sizeof smallest, "%lluB", (unsigned long long)ledger.slots_floor_bytes);
    for (int together = 0; together < 2; together++) {
        struct joint j = open_joint(&a, smallest);
        struct sluice_stats stats;
        for (size_t t = 0; t < 8; t++) {
            if (together)
                step(&j, (size_t[]){1, 1, 1});
            else
                for (size_t i = 0; i < SESSIONS; i++) step(&j, (size_t[]){i == 0, i == 1, i == 2});
        }
        sluice_stats(j.engine, &stats);
        bytes[together] = stats.read_bytes;
        close_joint(&j);
    }
    assert_true(bytes[1] * 2 < bytes[0]);
    for (size_t i = 0; i < SESSIONS; i++) free(a.logits[i]);
    free(ids);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_architecture), cmocka_unit_test(stopped),
                                       cmocka_unit_test(refusals), cmocka_unit_test(reads_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
