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
    void *memory = malloc(model_state_bytes(&hp, 0, 0));
    assert_non_null(memory);
    memset(memory, 0xa5, model_state_bytes(&hp, 0, 0));
    model_state_place(&hp, &(struct model_window){.rows = 0}, 0, memory, s);
    return memory;
}

/* The state of this test is the number of tokens that it has seen. */
static void step(struct model_state *s, size_t n, bool keep)
{
    model_state_begin(s, n);
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
    model_state_begin(&s, 1);
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

/* ---- windows ---- */

enum { BACK = 9, ROWS = 64, ROW = 6 };

struct ringed {
    struct model_state s;
    uint8_t rows[2][ROWS * ROW];
    void *memory;
};

static void place_rings(struct ringed *r, uint32_t floats)
{
    memset(r, 0, sizeof *r);
    memset(&hp, 0, sizeof hp);
    hp.n_layer = 2;
    hp.state_floats = hp.layer[1].state_floats = floats;
    struct model_window w = {.rows = ROWS, .back = BACK, .token_bytes = 2 * ROW, .n_parts = 2};
    for (size_t i = 0; i < 2; i++) {
        w.part[i].at = r->rows[i];
        w.part[i].row_bytes = ROW;
    }
    r->memory = malloc(model_state_bytes(&hp, BACK * w.token_bytes, 0));
    assert_non_null(r->memory);
    model_state_place(&hp, &w, 0, r->memory, &r->s);
}

/* Rows of this test hold their position. */
static void write_rows(struct ringed *r, size_t n, bool end)
{
    const size_t at = r->s.at;
    model_state_begin(&r->s, n);
    for (size_t p = at; p < at + n; p++)
        for (size_t i = 0; i < 2; i++) {
            const uint32_t value = (uint32_t)(p * 2 + i);
            memcpy(r->rows[i] + p % ROWS * ROW, &value, sizeof value);
        }
    if (r->s.floats) model_state_of(&r->s, 1)[0] = (float)(at + n);
    if (end) model_state_end(&r->s, n, n > 1);
}

static void expect_rows(struct ringed *r, size_t at)
{
    assert_int_equal(r->s.at, at);
    for (size_t p = at > BACK ? at - BACK : 0; p < at; p++)
        for (size_t i = 0; i < 2; i++) {
            uint32_t value;
            memcpy(&value, r->rows[i] + p % ROWS * ROW, sizeof value);
            assert_int_equal(value, p * 2 + i);
        }
    if (r->s.floats) assert_true(model_state_of(&r->s, 1)[0] == (float)at);
}

/* Whatever a sequence does: where it stands the rows of the window are those of its own positions. What the ring has is
 * free, and one position more is not. */
static void windows(void **state)
{
    (void)state;
    static struct ringed r, other;
    for (uint32_t floats = 0; floats < 2; floats++) {
        place_rings(&r, floats);
        place_rings(&other, floats);
        srand(5);
        for (size_t i = 0; i < 3 * ROWS; i++) write_rows(&r, 1, true);
        if (!floats) {
            const size_t n = 3 * ROWS, free_tokens = ROWS - BACK;
            assert_int_equal(model_state_known(&r.s, n - free_tokens), n - free_tokens);
            assert_int_equal(model_state_known(&r.s, n - free_tokens - 1), 0);
            write_rows(&r, ROWS - BACK, false); /* the largest step fails: no more than what it needs is there */
            assert_int_equal(model_state_rewind(&r.s, n), n);
            assert_int_equal(model_state_known(&r.s, n - 1), 0);
            expect_rows(&r, n);
        }
        for (int i = 0; i < 20000; i++) {
            struct ringed *a = rand() % 3 ? &r : &other, *b = a == &r ? &other : &r;
            const size_t n = a->s.broken ? 0 : a->s.at, to = n ? (size_t)rand() % n : 0;
            switch (rand() % 8) {
            case 0: {
                const size_t known = model_state_known(&a->s, to), at = model_state_rewind(&a->s, to);
                assert_true(at <= known && known <= to);
                expect_rows(a, at);
                break;
            }
            case 1:
                write_rows(a, 1 + (size_t)rand() % (ROWS - BACK), false);
                expect_rows(a, model_state_rewind(&a->s, n));
                break;
            case 2: {
                const size_t at = model_state_known(&a->s, to);
                model_state_copy(&b->s, &a->s, at);
                expect_rows(b, at);
                break;
            }
            case 3:
                model_state_cut(&a->s, to);
                expect_rows(a, model_state_rewind(&a->s, to));
                break;
            default: write_rows(a, 1 + (size_t)rand() % 20, true); expect_rows(a, a->s.at);
            }
        }
        free(r.memory);
        free(other.memory);
    }
}

static void none(void **state)
{
    (void)state;
    struct model_state s;
    memset(&hp, 0, sizeof hp);
    hp.n_layer = 2;
    assert_int_equal(model_state_bytes(&hp, 0, 0), 0);
    model_state_place(&hp, &(struct model_window){.rows = 0}, 0, NULL, &s);
    assert_int_equal(model_state_rewind(&s, 12), 12);
    model_state_begin(&s, 3);
    model_state_end(&s, 3, true);
    assert_int_equal(model_state_rewind(&s, 5), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rewinds), cmocka_unit_test(broken), cmocka_unit_test(many),
                                       cmocka_unit_test(windows), cmocka_unit_test(none)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
