/* Recurrent state: where a rewind leads to, and that what is restored is what was saved. */
#include "model/state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FLOATS 3

static struct model_hparams hp; /* large */

static void *place(struct model_state *s)
{
    memset(&hp, 0, sizeof hp);
    hp.n_layer = 2;
    hp.layer[1].state_floats = FLOATS;
    hp.state_floats = FLOATS;
    void *memory = malloc(model_state_bytes(&hp));
    assert_non_null(memory);
    memset(memory, 0xa5, model_state_bytes(&hp));
    model_state_place(&hp, memory, s);
    return memory;
}

/* The state of this test is the number of tokens that it has seen. */
static void step(struct model_state *s, size_t n, bool keep)
{
    model_state_begin(s);
    for (size_t i = 0; i < FLOATS; i++) model_state_of(s, 1)[i] += (float)n;
    model_state_end(s, n, keep);
}

static void expect_at(struct model_state *s, size_t n)
{
    assert_int_equal(s->at, n);
    for (size_t i = 0; i < FLOATS; i++) assert_true(model_state_of(s, 1)[i] == (float)n);
}

static void rewinds(void **state)
{
    (void)state;
    struct model_state s;
    void *memory = place(&s);
    expect_at(&s, 0);
    step(&s, 100, true);
    step(&s, 7, false);
    expect_at(&s, 107);
    assert_int_equal(model_state_rewind(&s, 107), 107); /* nothing to do */
    assert_int_equal(model_state_rewind(&s, 105), 100);
    expect_at(&s, 100);
    step(&s, 5, false);
    assert_int_equal(model_state_rewind(&s, 99), 0); /* the checkpoint lies behind */
    expect_at(&s, 0);
    assert_int_equal(model_state_rewind(&s, 0), 0);
    free(memory);
}

/* A step that fails leaves nothing to go on from but a checkpoint. */
static void broken(void **state)
{
    (void)state;
    struct model_state s;
    void *memory = place(&s);
    step(&s, 10, true);
    step(&s, 1, false);
    model_state_begin(&s);
    model_state_of(&s, 1)[0] = 1e9f;
    assert_int_equal(model_state_rewind(&s, 11), 10);
    expect_at(&s, 10);
    free(memory);
}

/* However long it runs: a rewind by r tokens costs a share of the length, and never a wrong state. */
static void many(void **state)
{
    (void)state;
    struct model_state s;
    void *memory = place(&s);
    srand(3);
    for (int i = 0; i < 20000; i++) step(&s, 1 + (size_t)rand() % 3, rand() % 50 == 0);
    assert_int_equal(s.n_saved, s.n_max);
    size_t n = s.at;
    for (int i = 0; i < 200 && n; i++) {
        const size_t to = n - (size_t)rand() % (n / 20 + 1), from = model_state_rewind(&s, to);
        assert_true(from <= to && to - from <= 2 * 20000 * 3 / MODEL_CHECKPOINTS_MAX + MODEL_CHECKPOINT_TOKENS);
        expect_at(&s, from);
        if (to > from) step(&s, to - from, false);
        n = to;
    }
    free(memory);
}

static void none(void **state)
{
    (void)state;
    struct model_state s;
    memset(&hp, 0, sizeof hp);
    hp.n_layer = 2;
    assert_int_equal(model_state_bytes(&hp), 0);
    model_state_place(&hp, NULL, &s);
    assert_int_equal(model_state_rewind(&s, 12), 12);
    model_state_begin(&s);
    model_state_end(&s, 3, true);
    assert_int_equal(model_state_rewind(&s, 5), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rewinds), cmocka_unit_test(broken), cmocka_unit_test(many),
                                       cmocka_unit_test(none)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
