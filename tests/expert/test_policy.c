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

static void check_same(struct policy *p, const struct naive_policy *n, uint32_t n_classes, struct shape_random *r)
{
    policy_check(p);
    for (uint32_t k = 0; k < n_classes; k++) assert_int_equal(policy_victim(p, k), naive_victim(n, (uint8_t)k));
    uint32_t a = shape_below(r, n->n_keys), b = shape_below(r, n->n_keys);
    assert_int_equal(sign(policy_compare(p, a, b)), naive_compare(n, a, b));
    assert_int_equal(sign(policy_compare(p, a, b)), -sign(policy_compare(p, b, a)));
}

/* Equally large layers; a layer's class is its number modulo the classes. */
static struct policy *make(enum policy_kind kind, uint32_t n_layers, uint32_t n_each, uint32_t n_used,
                           uint32_t n_classes, uint32_t halve_ticks)
{
    struct policy_layer layers[NAIVE_LAYERS_MAX];
    assert_true(n_layers <= NAIVE_LAYERS_MAX);
    for (uint32_t i = 0; i < n_layers; i++)
        layers[i] = (struct policy_layer){
            .first_key = i * n_each, .n_expert = n_each, .n_used = n_used, .class_index = i % n_classes};
    struct policy_shape shape = {
        .layers = layers, .n_layers = n_layers, .n_classes = n_classes, .halve_ticks = halve_ticks};
    struct policy *p = NULL;
    assert_int_equal(policy_create(kind, &shape, &p, NULL), SLUICE_OK);
    return p;
}

/* One expert of the first layer, or of layers of one expert each. */
static void select_key(struct policy *p, uint32_t key, uint32_t ahead) { policy_route(p, 0, &key, NULL, 1, ahead); }

/* One token in one layer, some experts hotter than others. */
static void random_route(struct policy *p, struct naive_policy *n, uint32_t n_used, struct shape_random *r)
{
    uint32_t layer = shape_below(r, n->n_keys / n->n_each), ids[NAIVE_USED_MAX], n_ids = 0;
    uint32_t ahead = shape_below(r, 3) ? 0 : shape_below(r, 40), most = 1 + shape_below(r, n_used);
    uint32_t range = shape_below(r, 2) ? 1 + n->n_each / 8 : n->n_each;
    for (uint32_t i = 0; i < most; i++) {
        uint32_t id = shape_below(r, range);
        bool twice = false;
        for (uint32_t k = 0; k < n_ids; k++) twice = twice || ids[k] == id;
        if (!twice) ids[n_ids++] = id;
    }
    policy_route(p, layer, ids, NULL, n_ids, ahead);
    naive_route(n, layer, ids, n_ids, ahead);
}

static void random_operation(struct policy *p, struct naive_policy *n, uint32_t n_used, uint32_t n_classes,
                             struct shape_random *r)
{
    uint32_t key = shape_below(r, n->n_keys), what = shape_below(r, 1000);
    if (what < 400) {
        random_route(p, n, n_used, r);
    } else if (what < 600) {
        if (n->class_of[key] == NONE) {
            uint32_t k = key / n->n_each % n_classes;
            policy_insert(p, k, key);
            naive_insert(n, (uint8_t)k, key);
        } else {
            policy_remove(p, n->class_of[key], key);
            n->class_of[key] = NONE;
        }
    } else if (what < 750) { /* evict */
        uint32_t k = shape_below(r, n_classes), victim = policy_victim(p, k);
        if (victim == POLICY_NONE) return;
        policy_remove(p, k, victim);
        n->class_of[victim] = NONE;
    } else if (what < 998 && n->ticks - n->start < 400) {
        uint32_t ticks = 1 + shape_below(r, 3);
        policy_tick(p, ticks);
        while (ticks--) naive_tick(n);
    } else {
        policy_prompt(p);
        naive_prompt(n);
    }
}

static void run(enum policy_kind kind, uint32_t n_layers, uint32_t n_each, uint32_t n_classes, uint64_t seed, int steps)
{
    struct shape_random r = {seed};
    static struct naive_policy n;
    uint32_t n_used = n_each < NAIVE_USED_MAX ? n_each : NAIVE_USED_MAX;
    uint32_t halve_ticks = kind == POLICY_LFU ? 1000 : 0;
    naive_init(&n, kind, n_layers * n_each, n_each, halve_ticks);
    struct policy *p = make(kind, n_layers, n_each, n_used, n_classes, halve_ticks);
    for (int i = 0; i < steps; i++) {
        random_operation(p, &n, n_used, n_classes, &r);
        if (shape_below(&r, 4) == 0) check_same(p, &n, n_classes, &r); /* what is put off is done late, too */
    }
    /* In the end all leave in the naive order. */
    for (uint32_t k = 0; k < n_classes; k++)
        for (uint32_t victim; (victim = policy_victim(p, k)) != POLICY_NONE;) {
            assert_int_equal(victim, naive_victim(&n, (uint8_t)k));
            policy_remove(p, k, victim);
            n.class_of[victim] = NONE;
        }
    for (uint32_t i = 0; i < n.n_keys; i++) assert_int_equal(n.class_of[i], NONE);
    policy_destroy(p);
}

static void test_policies_are_the_naive_ones(void **state)
{
    (void)state;
    for (int kind = 0; kind < POLICY_KINDS; kind++) {
        run((enum policy_kind)kind, 1, 1, 1, 1, 500);
        for (uint64_t seed = 1; seed <= 10; seed++) run((enum policy_kind)kind, 2, 4, 2, seed, 5000);
        run((enum policy_kind)kind, 1, 300, 1, 3, 20000);
        run((enum policy_kind)kind, 10, 30, 5, 4, 20000);
        run((enum policy_kind)kind, 15, 20, 1, 5, 20000);
        run((enum policy_kind)kind, 3, 130, 1, 6, 10000); /* more than two words of bits a layer */
    }
}

static void test_hotness_by_hand(void **state)
{
    (void)state;
    struct policy *p = make(POLICY_HOTNESS, 1, 4, 1, 1, 0);
    assert_int_equal(policy_victim(p, 0), POLICY_NONE);
    for (uint32_t key = 0; key < 3; key++) {
        select_key(p, 2 - key, 0); /* 2, 1, 0 */
        policy_insert(p, 0, 2 - key);
        policy_tick(p, 1);
    }
    select_key(p, 2, 0); /* heat 1, 1, 2: the older of the two goes */
    assert_int_equal(policy_victim(p, 0), 1);
    policy_remove(p, 0, 1); /* evicted; its count stays */
    select_key(p, 1, 0);
    policy_insert(p, 0, 1); /* heat 1, 2, 2 */
    assert_int_equal(policy_victim(p, 0), 0);
    policy_remove(p, 0, 0);
    assert_int_equal(policy_victim(p, 0), 1); /* the same token used both: by key */
    policy_insert(p, 0, 0);

    policy_tick(p, 13);  /* 16 in all: heat 1/2, 1, 1 */
    select_key(p, 0, 0); /* 3/2 */
    assert_int_equal(policy_victim(p, 0), 1);
    assert_true(policy_compare(p, 1, 2) < 0 && policy_compare(p, 2, 0) < 0 && policy_compare(p, 3, 1) < 0);

    policy_prompt(p); /* all are equal again, the order of use remains: 1, 2, 0 */
    assert_int_equal(policy_victim(p, 0), 1);
    select_key(p, 1, 0);
    assert_int_equal(policy_victim(p, 0), 2);
    policy_insert(p, 0, 3); /* a prefetch: no heat, but younger than what the last prompt left */
    assert_int_equal(policy_victim(p, 0), 2);
    policy_remove(p, 0, 2);
    policy_remove(p, 0, 0);
    assert_int_equal(policy_victim(p, 0), 3);
    policy_destroy(p);
}

/* What each policy is for, in its smallest case. */
static void test_the_others_by_hand(void **state)
{
    (void)state;
    struct policy *p = make(POLICY_LFU, 1, 3, 1, 1, 0);
    for (uint32_t key = 0; key < 3; key++) policy_insert(p, 0, key);
    const uint32_t often[] = {0, 0, 0, 1, 1, 2, 2};
    for (int i = 0; i < 7; i++) select_key(p, often[i], 0), policy_tick(p, 1);
    assert_int_equal(policy_victim(p, 0), 1); /* two uses as 2 has, but longer ago */
    policy_prompt(p);
    select_key(p, 1, 0);
    assert_int_equal(policy_victim(p, 0), 2); /* 3, 3, 2: counts outlive the prompt */
    policy_destroy(p);

    p = make(POLICY_FREQ_AGE, 1, 3, 1, 1, 0);
    for (uint32_t key = 0; key < 3; key++) policy_insert(p, 0, key);
    for (int i = 0; i < 7; i++) select_key(p, often[i], 0), policy_tick(p, 1);
    assert_true(policy_compare(p, 0, 1) < 0); /* 3/5 of 0, 2/3 of 1, 2/1 of 2 */
    assert_true(policy_compare(p, 1, 2) < 0);
    policy_destroy(p);

    p = make(POLICY_EXPECTED, 1, 3, 1, 1, 0);
    const uint32_t runs[] = {1, 1, 1, 0, 2, 0, 2, 0}; /* 0 never follows itself */
    for (int i = 0; i < 8; i++) select_key(p, runs[i], 0), policy_tick(p, 1);
    assert_true(policy_compare(p, 0, 2) < 0); /* used later and as often or oftener, but 2 is to come */
    policy_destroy(p);

    p = make(POLICY_RECALL, 1, 6, 2, 1, 0);
    const uint32_t pairs[][2] = {{0, 1}, {2, 3}, {4, 5}};
    for (int i = 0; i < 9; i++) policy_route(p, 0, pairs[i % 3], NULL, 2, 0), policy_tick(p, 1);
    policy_route(p, 0, pairs[0], NULL, 2, 0); /* {2, 3} came after this each time, {4, 5} only then */
    assert_true(policy_compare(p, 4, 2) < 0 && policy_compare(p, 5, 3) < 0);
    policy_destroy(p);
}

/* A prompt leaves the same order behind whether its tokens come one by one or as one step, layer by layer. */
static void test_steps_do_not_matter(void **state)
{
    (void)state;
    enum { N_KEYS = 40, N_TOKENS = 100, N_LAYERS = 4, N_EACH = 10 };
    for (int kind = 0; kind < POLICY_KINDS; kind++) {
        struct policy *one = make((enum policy_kind)kind, N_LAYERS, N_EACH, 1, 1, 0),
                      *all = make((enum policy_kind)kind, N_LAYERS, N_EACH, 1, 1, 0);
        struct shape_random r = {5};
        uint32_t chosen[N_TOKENS][N_LAYERS];
        for (uint32_t t = 0; t < N_TOKENS; t++)
            for (uint32_t l = 0; l < N_LAYERS; l++) {
                chosen[t][l] = shape_below(&r, 1 + shape_below(&r, N_EACH));
                policy_route(one, l, &chosen[t][l], NULL, 1, 0);
                if (l + 1 == N_LAYERS) policy_tick(one, 1);
            }
        for (uint32_t l = 0; l < N_LAYERS; l++)
            for (uint32_t t = 0; t < N_TOKENS; t++) policy_route(all, l, &chosen[t][l], NULL, 1, t);
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
    struct policy *p = make(POLICY_HOTNESS, 1, 3, 1, 1, 0);
    for (uint32_t key = 0; key < 3; key++) policy_insert(p, 0, key);
    for (int i = 0; i < 1000; i++) select_key(p, 0, 0);
    policy_tick(p, 16 * 5); /* 1000 / 32 = 31.25 */
    for (int i = 0; i < 31; i++) select_key(p, 1, 0);
    select_key(p, 2, 0);
    assert_true(policy_compare(p, 1, 0) < 0);
    select_key(p, 1, 0);
    assert_true(policy_compare(p, 0, 1) < 0);
    policy_tick(p, 16 * 200);
    assert_int_equal(policy_victim(p, 0), 2);
    select_key(p, 2, 0);
    assert_int_equal(policy_victim(p, 0), 0);
    policy_tick(p, UINT32_MAX);
    select_key(p, 0, UINT32_MAX);
    assert_int_equal(policy_victim(p, 0), 1);
    policy_destroy(p);
}

/* Comparisons across epochs are exact to the last bit. */
static void test_exact_comparisons(void **state)
{
    (void)state;
    struct policy *p = make(POLICY_HOTNESS, 1, 3, 1, 1, 0);
    select_key(p, 0, 0);
    select_key(p, 0, 16 * 32);
    select_key(p, 0, 16 * 32);
    select_key(p, 1, 16 * 33); /* 2^33 against 2^33 + 1 */
    assert_true(policy_compare(p, 1, 0) < 0);
    policy_insert(p, 0, 0);
    policy_insert(p, 0, 1);
    assert_int_equal(policy_victim(p, 0), 1); /* though it was used later */
    policy_check(p);
    policy_tick(p, 16 * 200);
    policy_insert(p, 0, 2); /* no heat at all, but young */
    assert_true(policy_compare(p, 2, 0) < 0 && policy_compare(p, 2, 1) < 0 && policy_compare(p, 0, 2) > 0);
    policy_destroy(p);

    /* Between layers, and for a layer whose coldest has become another since. */
    p = make(POLICY_LFU, 3, 1, 1, 1, 16);
    const uint32_t it = 0;
    for (uint32_t layer = 0; layer < 3; layer++) policy_insert(p, 0, layer);
    policy_route(p, 2, &it, NULL, 1, 0);
    policy_route(p, 2, &it, NULL, 1, 16 * 32);
    policy_route(p, 2, &it, NULL, 1, 16 * 32);
    for (uint32_t layer = 0; layer < 2; layer++) policy_route(p, layer, &it, NULL, 1, 16 * 33);
    assert_int_equal(policy_victim(p, 0), 0);
    policy_route(p, 0, &it, NULL, 1, 16 * 33);
    assert_int_equal(policy_victim(p, 0), 1);
    policy_check(p);
    policy_route(p, 1, &it, NULL, 1, 16 * 33);
    assert_int_equal(policy_victim(p, 0), 2); /* the one that leads by so little has one use the fewer now */
    policy_remove(p, 0, 2);
    assert_int_equal(policy_victim(p, 0), 0); /* all is equal: by key */
    policy_destroy(p);
}

/* A step that was given up has told of tokens that never came; the next prompt still begins with an even order. */
static void test_prompt_after_a_step_given_up(void **state)
{
    (void)state;
    for (int kind = 0; kind <= POLICY_HOTNESS; kind++) {
        if (kind == POLICY_LFU) continue; /* counts go on */
        struct policy *p = make((enum policy_kind)kind, 1, 3, 1, 1, 0);
        for (uint32_t key = 0; key < 3; key++) policy_insert(p, 0, key);
        select_key(p, 0, 500);
        select_key(p, 1, 400);
        policy_prompt(p);
        select_key(p, 2, 0);
        select_key(p, 0, 0);
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
    assert_int_equal(kind, POLICY_AUTO);
    for (int i = 0; i < POLICY_KINDS; i++) {
        assert_true(policy_by_name(policy_name((enum policy_kind)i), &kind));
        assert_int_equal(kind, i);
    }
    assert_false(policy_by_name("fifo", &kind));
    assert_false(policy_by_name("", &kind));
    char choices[200] = "auto";
    for (int i = 0; i < POLICY_KINDS; i++) {
        strcat(choices, "|");
        strcat(choices, policy_name((enum policy_kind)i));
    }
    assert_string_equal(choices, POLICY_CHOICES);
}

static void test_a_dense_model(void **state)
{
    (void)state;
    const struct policy_layer layers[2] = {{0}};
    const struct policy_shape shape = {.layers = layers, .n_layers = 2};
    assert_true(policy_memory_bytes(&shape) > 0);
    for (int kind = 0; kind < POLICY_KINDS; kind++) {
        struct policy *p = NULL;
        assert_int_equal(policy_create((enum policy_kind)kind, &shape, &p, NULL), SLUICE_OK);
        policy_prompt(p);
        policy_tick(p, 1);
        policy_check(p);
        policy_destroy(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_policies_are_the_naive_ones),
        cmocka_unit_test(test_hotness_by_hand),
        cmocka_unit_test(test_the_others_by_hand),
        cmocka_unit_test(test_far_apart),
        cmocka_unit_test(test_exact_comparisons),
        cmocka_unit_test(test_steps_do_not_matter),
        cmocka_unit_test(test_prompt_after_a_step_given_up),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_a_dense_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
