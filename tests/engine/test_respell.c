/* Text that comes back in other tokens than were generated: which known sequence it is, and how far. */
#include "support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 96 };

struct world {
    sluice_engine *engine;
    sluice_session *session;
    int32_t special; /* a control token */
};

static void must(enum sluice_status st, const struct sluice_error *err)
{
    if (st) fail_msg("%s (%s)", err->message, err->hint);
}

static struct world open_world(bool kept)
{
    struct world w = {.special = -1};
    struct sluice_error err;
    char model[SUPPORT_PATH_MAX];
    support_source("models/demo.gguf", model);
    struct sluice_options o = support_options(model);
    o.ctx = 256;
    if (kept) o.prefix_memory = "64M";
    must(engine_open(support_steady(), &o, &w.engine, &err), &err);
    must(sluice_session_open(w.engine, &w.session, &err), &err);
    for (int32_t id = 0; (size_t)id < text_n_vocab(w.engine->tokenizer) && w.special < 0; id++)
        if (text_is_control(w.engine->tokenizer, id)) w.special = id;
    assert_true(w.special >= 0);
    return w;
}

static void close_world(struct world *w)
{
    sluice_session_close(w->session);
    sluice_engine_close(w->engine);
}

static size_t encode(const struct world *w, const char *text, int32_t *ids)
{
    const struct sluice_encode_options o = {0};
    struct sluice_error err;
    size_t n;
    must(sluice_encode(w->engine, text, strlen(text), &o, ids, MOST, &n, &err), &err);
    return n;
}

static size_t bytes_of(const struct world *w, const int32_t *ids, size_t n, char *out)
{
    size_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += text_token_bytes(w->engine->tokenizer, ids[i], false, out + sum, 64);
        if (text_is_control(w->engine->tokenizer, ids[i])) out[sum++] = (char)0xff; /* stands for itself */
    }
    return sum;
}

/* Another spelling of ids: each token that can be is cut into its first byte and the rest, if those are tokens. */
static size_t cut(const struct world *w, const int32_t *ids, size_t n, int32_t *out)
{
    const struct text_tokenizer *t = w->engine->tokenizer;
    size_t n_out = 0;
    for (size_t i = 0; i < n; i++) {
        char whole[64], part[64];
        const size_t bytes = text_token_bytes(t, ids[i], false, whole, sizeof whole);
        int32_t first = -1, rest = -1;
        for (int32_t id = 0; bytes > 1 && (size_t)id < text_n_vocab(t); id++) {
            const size_t k = text_token_bytes(t, id, false, part, sizeof part);
            if (k == 1 && part[0] == whole[0]) first = id;
            if (k == bytes - 1 && !memcmp(part, whole + 1, k)) rest = id;
        }
        if (first >= 0 && rest >= 0) {
            out[n_out++] = first;
            out[n_out++] = rest;
        } else {
            out[n_out++] = ids[i];
        }
    }
    return n_out;
}

/* What respelling ids gives; the text is always the same. */
static size_t respell(const struct world *w, const int32_t *ids, size_t n, int32_t *out)
{
    struct sluice_error err;
    int32_t *got;
    size_t n_got;
    char a[4096], b[4096];
    must(sluice_respell(w->engine, ids, n, &got, &n_got, &err), &err);
    assert_true(n_got <= 2 * MOST);
    memcpy(out, got, n_got * sizeof *out);
    sluice_free(got);
    const size_t n_a = bytes_of(w, ids, n, a), n_b = bytes_of(w, out, n_got, b);
    assert_int_equal(n_a, n_b);
    assert_memory_equal(a, b, n_a);
    return n_got;
}

static void know(struct world *w, const int32_t *ids, size_t n, bool kept)
{
    struct sluice_error err;
    must(sluice_session_rewind(w->session, 0, &err), &err);
    must(sluice_eval(w->session, ids, n, NULL, NULL, NULL, &err), &err);
    if (!kept) return;
    must(sluice_session_keep(w->session, &err), &err);
    must(sluice_session_rewind(w->session, 0, &err), &err);
}

/* Known: a question, a special token, an answer in other tokens, a special token. New: the same as the tokenizer cuts
 * it, and more. */
static void an_answer_comes_back(bool kept)
{
    struct world w = open_world(kept);
    int32_t question[MOST], answer[MOST], odd[MOST], more[MOST], known[2 * MOST], fresh[2 * MOST], got[2 * MOST];
    const size_t n_question = encode(&w, "What did the keeper see from the tower?", question),
                 n_answer = encode(&w, " Nothing but the water, he said, and a sail.", answer),
                 n_more = encode(&w, " And after that?", more), n_odd = cut(&w, answer, n_answer, odd);
    assert_true(n_odd > n_answer);
    size_t n_known = 0, n_fresh = 0;
    memcpy(known, question, n_question * sizeof *known);
    memcpy(fresh, question, n_question * sizeof *fresh);
    n_known = n_fresh = n_question;
    known[n_known++] = fresh[n_fresh++] = w.special;
    memcpy(known + n_known, odd, n_odd * sizeof *odd);
    memcpy(fresh + n_fresh, answer, n_answer * sizeof *answer);
    n_known += n_odd;
    n_fresh += n_answer;
    known[n_known++] = fresh[n_fresh++] = w.special;
    memcpy(fresh + n_fresh, more, n_more * sizeof *more);
    n_fresh += n_more;

    assert_int_equal(respell(&w, fresh, n_fresh, got), n_fresh); /* nothing is known yet */
    assert_memory_equal(got, fresh, n_fresh * sizeof *got);
    know(&w, known, n_known, kept);
    assert_int_equal(respell(&w, fresh, n_fresh, got), n_known + n_more);
    assert_memory_equal(got, known, n_known * sizeof *got);
    assert_memory_equal(got + n_known, more, n_more * sizeof *got);

    /* another way on from the middle of the answer: both are found */
    int32_t branch[2 * MOST], other[MOST];
    const size_t at = n_question + 1 + n_odd / 2, n_other = encode(&w, " a cloud", other);
    memcpy(branch, known, at * sizeof *branch);
    const size_t n_cut = cut(&w, other, n_other, branch + at);
    know(&w, branch, at + n_cut, kept);
    if (kept) {
        assert_int_equal(respell(&w, fresh, n_fresh, got), n_known + n_more);
        assert_memory_equal(got, known, n_known * sizeof *got);
    }
    size_t n = respell(&w, branch, at + n_cut, got);
    assert_int_equal(n, at + n_cut);
    assert_memory_equal(got, branch, n * sizeof *got);
    close_world(&w);
}

static void in_a_session(void **state)
{
    (void)state;
    an_answer_comes_back(false);
}

static void in_the_tree(void **state)
{
    (void)state;
    an_answer_comes_back(true);
}

/* A special token and the text that looks like it are two things; what differs in text ends at a border of both. */
static void only_the_same_text(void **state)
{
    (void)state;
    struct world w = open_world(false);
    int32_t ids[2 * MOST], odd[2 * MOST], got[2 * MOST];
    const size_t n = encode(&w, "the harbour wall", ids);
    size_t n_odd = cut(&w, ids, n, odd);
    odd[n_odd++] = w.special;
    know(&w, odd, n_odd, false);
    char name[64];
    const size_t bytes = text_token_bytes(w.engine->tokenizer, w.special, true, name, sizeof name - 1);
    name[bytes] = 0;
    const size_t n_all = n + encode(&w, name, ids + n);
    const size_t n_got = respell(&w, ids, n_all, got);
    assert_int_equal(n_got, n_odd - 1 + n_all - n);
    for (size_t i = 0; i < n_got; i++) assert_int_not_equal(got[i], w.special);

    /* a known text that goes on otherwise in the middle of a new token */
    int32_t one[MOST], two[MOST];
    const size_t n_one = encode(&w, "the water", one), n_two = encode(&w, "the wa", two);
    know(&w, two, n_two, false);
    assert_int_equal(respell(&w, one, n_one, got), n_one);
    assert_memory_equal(got, one, n_one * sizeof *got);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(in_a_session), cmocka_unit_test(in_the_tree),
                                       cmocka_unit_test(only_the_same_text)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
