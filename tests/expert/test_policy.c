/* The policies against a naive model that touches every key at every tick, with random operations. */
#include "expert/policy.h"
#include "naive_policy.h"
#include "shape.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define KEYS_MAX 300
#define NONE NAIVE_NO_CLASS

static int sign(int x) { return x < 0 ? -1 : x > 0; }

static void check_same(const struct policy *p, const struct naive_policy *n, uint32_t n_classes, struct shape_random *r)
{
    policy_check(p);
    for (uint32_t k = 0; k < n_classes; k++) assert_int_equal(policy_victim(p, k), naive_victim(n, (uint8_t)k));
    uint32_t a = shape_below(r, n->n_keys), b = shape_below(r, n->n_keys);
    assert_int_equal(sign(policy_compare(p, a, b)), naive_compare(n, a, b));
    assert_int_equal(sign(policy_compare(p, a, b)), -sign(policy_compare(p, b, a)));
}

static void run(enum policy_kind kind, uint32_t n_keys, uint32_t n_classes, uint64_t seed, int steps)
{
    struct shape_random r = {seed};
    struct naive_policy n;
    naive_init(&n, kind, n_keys);
    struct policy *p = NULL;
    assert_int_equal(policy_create(kind, n_keys, n_classes, &p, NULL), SLUICE_OK);
    for (int i = 0; i < steps; i++) {
        uint32_t key = shape_below(&r, n_keys), what = shape_below(&r, 1000);
        if (shape_below(&r, 2)) key = key % (1 + n_keys / 8); /* some are hotter */
        if (what < 400) {
            uint32_t ahead = shape_below(&r, 3) ? 0 : shape_below(&r, 40);
            policy_selected(p, key, 0.5f, ahead);
            naive_selected(&n, key, ahead);
        } else if (what < 600) {
            if (n.class_of[key] == NONE) {
                uint32_t k = key % n_classes;
                policy_insert(p, k, key);
                naive_insert(&n, (uint8_t)k, key);
            } else {
                policy_remove(p, n.class_of[key], key);
                n.class_of[key] = NONE;
            }
        } else if (what < 750) { /* evict */
            uint32_t k = shape_below(&r, n_classes), victim = policy_victim(p, k);
            if (victim != POLICY_NONE) {
                policy_remove(p, k, victim);
                n.class_of[victim] = NONE;
            }
        } else if (what < 998 && n.ticks - n.start < 400) {
            uint32_t ticks = 1 + shape_below(&r, 3);
            policy_tick(p, ticks);
            while (ticks--) naive_tick(&n);
        } else {
            policy_prompt(p);
            naive_prompt(&n);
        }
        check_same(p, &n, n_classes, &r);
    }
    /* In the end all leave in the naive order. */
    for (uint32_t k = 0; k < n_classes; k++)
        for (uint32_t victim; (victim = policy_victim(p, k)) != POLICY_NONE;) {
            assert_int_equal(victim, naive_victim(&n, (uint8_t)k));
            policy_remove(p, k, victim);
            n.class_of[victim] = NONE;
        }
    for (uint32_t i = 0; i < n_keys; i++) assert_int_equal(n.class_of[i], NONE);
    policy_destroy(p);
}

static void test_lru_is_the_naive_one(void **state)
{
    (void)state;
    run(POLICY_LRU, 1, 1, 1, 500);
    run(POLICY_LRU, 7, 2, 2, 5000);
    run(POLICY_LRU, KEYS_MAX, 1, 3, 20000);
    run(POLICY_LRU, KEYS_MAX, 5, 4, 20000);
}

static void test_hotness_is_the_naive_one(void **state)
{
    (void)state;
    run(POLICY_HOTNESS, 1, 1, 1, 500);
    for (uint64_t seed = 1; seed <= 10; seed++) run(POLICY_HOTNESS, 7, 2, seed, 5000);
    run(POLICY_HOTNESS, KEYS_MAX, 1, 3, 20000);
    run(POLICY_HOTNESS, KEYS_MAX, 5, 4, 20000);
}

static void test_hotness_by_hand(void **state)
{
    (void)state;
    struct policy *p = NULL;
    assert_int_equal(policy_create(POLICY_HOTNESS, 4, 1, &p, NULL), SLUICE_OK);
    assert_int_equal(policy_victim(p, 0), POLICY_NONE);
    for (uint32_t key = 0; key < 3; key++) {
        policy_selected(p, 2 - key, 1, 0); /* 2, 1, 0 */
        policy_insert(p, 0, 2 - key);
        policy_tick(p, 1);
    }
    policy_selected(p, 2, 1, 0); /* heat 1, 1, 2: the older of the two goes */
    assert_int_equal(policy_victim(p, 0), 1);
    policy_remove(p, 0, 1); /* evicted; its count stays */
    policy_selected(p, 1, 1, 0);
    policy_insert(p, 0, 1); /* heat 1, 2, 2 */
    assert_int_equal(policy_victim(p, 0), 0);
    policy_remove(p, 0, 0);
    assert_int_equal(policy_victim(p, 0), 1); /* the same token used both: by key */
    policy_insert(p, 0, 0);

    policy_tick(p, 13);          /* 16 in all: heat 1/2, 1, 1 */
    policy_selected(p, 0, 1, 0); /* 3/2 */
    assert_int_equal(policy_victim(p, 0), 1);
    assert_true(policy_compare(p, 1, 2) < 0 && policy_compare(p, 2, 0) < 0 && policy_compare(p, 3, 1) < 0);

    policy_prompt(p); /* all are equal again, the order of use remains: 1, 2, 0 */
    assert_int_equal(policy_victim(p, 0), 1);
    policy_selected(p, 1, 1, 0);
    assert_int_equal(policy_victim(p, 0), 2);
    policy_insert(p, 0, 3); /* a prefetch: no heat, but younger than what the last prompt left */
    assert_int_equal(policy_victim(p, 0), 2);
    policy_remove(p, 0, 2);
    policy_remove(p, 0, 0);
    assert_int_equal(policy_victim(p, 0), 3);
    policy_destroy(p);
}

/* A prompt leaves the same order behind whether its tokens come one by one or as one step, layer by layer. */
static void test_steps_do_not_matter(void **state)
{
    (void)state;
    enum { N_KEYS = 40, N_TOKENS = 100, N_LAYERS = 4, N_EACH = 10 };
    for (int kind = 0; kind < POLICY_KINDS; kind++) {
        struct policy *one = NULL, *all = NULL;
        assert_int_equal(policy_create((enum policy_kind)kind, N_KEYS, 1, &one, NULL), SLUICE_OK);
        assert_int_equal(policy_create((enum policy_kind)kind, N_KEYS, 1, &all, NULL), SLUICE_OK);
        struct shape_random r = {5};
        uint32_t chosen[N_TOKENS][N_LAYERS];
        for (uint32_t t = 0; t < N_TOKENS; t++)
            for (uint32_t l = 0; l < N_LAYERS; l++) {
                chosen[t][l] = l * N_EACH + shape_below(&r, 1 + shape_below(&r, N_EACH));
                policy_selected(one, chosen[t][l], 1, 0);
                if (l + 1 == N_LAYERS) policy_tick(one, 1);
            }
        for (uint32_t l = 0; l < N_LAYERS; l++)
            for (uint32_t t = 0; t < N_TOKENS; t++) policy_selected(all, chosen[t][l], 1, t);
        policy_tick(all, N_TOKENS);
        for (uint32_t a = 0; a < N_KEYS; a++)
            for (uint32_t b = 0; b < N_KEYS; b++)
                assert_int_equal(sign(policy_compare(one, a, b)), sign(policy_compare(all, a, b)));
        policy_destroy(one);
        policy_destroy(all);
    }
}

/* A long run: epochs far apart, large counts. */
static void test_far_apart(void **state)
{
    (void)state;
    struct policy *p = NULL;
    assert_int_equal(policy_create(POLICY_HOTNESS, 3, 1, &p, NULL), SLUICE_OK);
    for (uint32_t key = 0; key < 3; key++) policy_insert(p, 0, key);
    for (int i = 0; i < 1000; i++) policy_selected(p, 0, 1, 0);
    policy_tick(p, 16 * 5); /* 1000 / 32 = 31.25 */
    for (int i = 0; i < 31; i++) policy_selected(p, 1, 1, 0);
    policy_selected(p, 2, 1, 0);
    assert_true(policy_compare(p, 1, 0) < 0);
    policy_selected(p, 1, 1, 0);
    assert_true(policy_compare(p, 0, 1) < 0);
    policy_tick(p, 16 * 200);
    assert_int_equal(policy_victim(p, 0), 2);
    policy_selected(p, 2, 1, 0);
    assert_int_equal(policy_victim(p, 0), 0);
    policy_tick(p, UINT32_MAX);
    policy_selected(p, 0, 1, UINT32_MAX);
    assert_int_equal(policy_victim(p, 0), 1);
    policy_destroy(p);
}

/* Comparisons across epochs are exact to the last bit. */
static void test_exact_comparisons(void **state)
{
    (void)state;
    struct policy *p = NULL;
    assert_int_equal(policy_create(POLICY_HOTNESS, 3, 1, &p, NULL), SLUICE_OK);
    policy_selected(p, 0, 1, 0);
    policy_selected(p, 0, 1, 16 * 32);
    policy_selected(p, 0, 1, 16 * 32);
    policy_selected(p, 1, 1, 16 * 33); /* 2^33 against 2^33 + 1 */
    assert_true(policy_compare(p, 1, 0) < 0);
    policy_tick(p, 16 * 200);
    policy_insert(p, 0, 2); /* no heat at all, but young */
    assert_true(policy_compare(p, 2, 0) < 0 && policy_compare(p, 2, 1) < 0 && policy_compare(p, 0, 2) > 0);
    policy_destroy(p);
}

/* A step that was given up has told of tokens that never came; the next prompt still begins with an even order. */
static void test_prompt_after_a_step_given_up(void **state)
{
    (void)state;
    for (int kind = 0; kind < POLICY_KINDS; kind++) {
        struct policy *p = NULL;
        assert_int_equal(policy_create((enum policy_kind)kind, 3, 1, &p, NULL), SLUICE_OK);
        for (uint32_t key = 0; key < 3; key++) policy_insert(p, 0, key);
        policy_selected(p, 0, 1, 500);
        policy_selected(p, 1, 1, 400);
        policy_prompt(p);
        policy_selected(p, 2, 1, 0);
        policy_selected(p, 0, 1, 0);
        assert_int_equal(policy_victim(p, 0), 1);
        policy_remove(p, 0, 1);
        assert_int_equal(policy_victim(p, 0), 0);
        policy_destroy(p);
    }
}

static void test_names(void **state)
{
    (void)state;
    enum policy_kind kind = POLICY_LRU;
    assert_true(policy_by_name("auto", &kind));
    assert_int_equal(kind, POLICY_HOTNESS);
    for (int i = 0; i < POLICY_KINDS; i++) {
        assert_true(policy_by_name(policy_name((enum policy_kind)i), &kind));
        assert_int_equal(kind, i);
    }
    assert_false(policy_by_name("fifo", &kind));
    assert_false(policy_by_name("", &kind));
    assert_true(policy_memory_bytes(1000, 3) > 1000);
    struct policy *p = NULL;
    assert_int_equal(policy_create(POLICY_LRU, 0, 0, &p, NULL), SLUICE_OK); /* a dense model */
    policy_prompt(p);
    policy_tick(p, 1);
    policy_destroy(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lru_is_the_naive_one),
        cmocka_unit_test(test_hotness_is_the_naive_one),
        cmocka_unit_test(test_hotness_by_hand),
        cmocka_unit_test(test_far_apart),
        cmocka_unit_test(test_exact_comparisons),
        cmocka_unit_test(test_steps_do_not_matter),
        cmocka_unit_test(test_prompt_after_a_step_given_up),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
