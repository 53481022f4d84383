/* How learned heat decays, and who is hottest. The file is test_usage.c's. */
#include "base/math.h"
#include "expert/usage.h"
#include "shape.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define FINGERPRINT UINT64_C(0x0123456789abcdef)
#define N_FIRST 8
#define N_KEYS 13

static struct expert_catalog *catalog; /* 8 experts, none, 5 */
static struct sluice_error err;

static struct expert_usage *make(void)
{
    struct expert_usage *u;
    assert_int_equal(expert_usage_create(catalog, FINGERPRINT, &u, &err), SLUICE_OK);
    return u;
}

static void select_key(struct expert_usage *u, uint32_t key)
{
    uint32_t layer, expert;
    expert_catalog_unkey(catalog, key, &layer, &expert);
    expert_usage_selected(u, layer, &expert, 1);
}

static void assert_near(double got, double want, double relative)
{
    double off = got > want ? got - want : want - got;
    if (!(off <= relative * (want < 0 ? -want : want))) fail_msg("%.17g, not %.17g", got, want);
}

static double decay(double tokens) { return math_pow_d(2.0, -tokens / EXPERT_USAGE_HALF_LIFE); }

/* Against a model that multiplies everything at each step. */
static void heat_decays_as_it_should(void **state)
{
    (void)state;
    struct shape_random r = {7};
    struct expert_usage *u = make();
    double want[N_KEYS] = {0}, tokens = 0;
    for (uint32_t step = 0; step < 20000; step++) {
        uint32_t n = step % 997 == 0 ? 3000000 : 1 + shape_below(&r, step % 5 == 0 ? 2048 : 3);
        for (uint32_t i = shape_below(&r, 4); i > 0; i--) {
            uint32_t key = shape_below(&r, N_KEYS);
            select_key(u, key);
            want[key] += 1;
        }
        expert_usage_tick(u, n);
        const double d = decay(n);
        tokens = (tokens + n) * d;
        for (uint32_t key = 0; key < N_KEYS; key++) want[key] *= d;
        if (step % 100 != 99) continue;
        assert_near(expert_usage_tokens(u), tokens, 1e-10);
        for (uint32_t key = 0; key < N_KEYS; key++)
            assert_near(expert_usage_probability(u, key), want[key] < tokens ? want[key] / tokens : 1, 1e-10);
    }
    expert_usage_free(u);
}

static void probability_is_at_most_one(void **state)
{
    (void)state;
    struct expert_usage *u = make();
    expert_usage_tick(u, 1);
    for (unsigned i = 0; i < 5; i++) select_key(u, 4); /* steps that were given up */
    assert_true(expert_usage_probability(u, 4) == 1.0);
    expert_usage_free(u);
}

/* The order of a plain search, for every bound and length. */
static void the_hottest_come_first(void **state)
{
    (void)state;
    struct shape_random r = {3};
    for (unsigned round = 0; round < 200; round++) {
        struct expert_usage *u = make();
        for (unsigned i = shape_below(&r, 60); i > 0; i--) select_key(u, shape_below(&r, N_KEYS)); /* many ties */
        expert_usage_tick(u, 1 + shape_below(&r, 20));
        const double least = (1 + shape_below(&r, 40)) / 100.0;
        const uint32_t max = shape_below(&r, N_KEYS + 3);
        uint32_t keys[N_KEYS + 3], n = expert_usage_hottest(u, least, keys, max);
        bool taken[N_KEYS] = {false};
        for (uint32_t i = 0; i <= n; i++) {
            uint32_t best = UINT32_MAX;
            for (uint32_t key = 0; key < N_KEYS; key++)
                if (!taken[key] && expert_usage_probability(u, key) >= least &&
                    (best == UINT32_MAX || expert_usage_probability(u, key) > expert_usage_probability(u, best)))
                    best = key;
            if (i < n) assert_int_equal(keys[i], best);
            if (i == n) assert_true(n == max || best == UINT32_MAX);
            if (i < n) taken[best] = true;
        }
        expert_usage_free(u);
    }
}

static int set_up(void **state)
{
    (void)state;
    uint64_t at = 64;
    struct expert_layer layers[3] = {{0}};
    layers[0] = shape_layer(N_FIRST, 2, 64, 64, 64, 0, &at);
    layers[2] = shape_layer(N_KEYS - N_FIRST, 2, 32, 32, 32, 0, &at);
    return expert_catalog_create(layers, 3, 1, &catalog, &err) != SLUICE_OK;
}

static int tear_down(void **state)
{
    (void)state;
    expert_catalog_destroy(catalog);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heat_decays_as_it_should),
        cmocka_unit_test(probability_is_at_most_one),
        cmocka_unit_test(the_hottest_come_first),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
