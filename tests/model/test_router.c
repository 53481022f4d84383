/* The router against a naive selection: ties to the lower id, ascending output, NaN last, weights. */
#include "model/router.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define N 64

static const struct kernel_table *table(void)
{
    struct os_cpu cpu;
    const struct kernel_table *t;
    os_cpu(&cpu);
    assert_int_equal(kernel_select(&cpu, NULL, &t, NULL), SLUICE_OK);
    return t;
}

/* Marks the k best one after the other. */
static void naive(const float *p, uint32_t n, uint32_t k, bool *chosen)
{
    memset(chosen, 0, n * sizeof *chosen);
    for (uint32_t j = 0; j < k; j++) {
        uint32_t best = n;
        for (uint32_t i = 0; i < n; i++) {
            if (chosen[i]) continue;
            if (best == n || (isnan(p[best]) && !isnan(p[i])) || p[i] > p[best]) best = i;
        }
        chosen[best] = true;
    }
}

static void against_naive(void **state)
{
    (void)state;
    const struct kernel_table *t = table();
    srand(5);
    for (int round = 0; round < 3000; round++) {
        const uint32_t n = 1 + (uint32_t)rand() % N, k = 1 + (uint32_t)rand() % n;
        float x[N], p[N], weights[N];
        uint32_t ids[N];
        bool chosen[N];
        /* Few distinct values, so that ties are common. */
        for (uint32_t i = 0; i < n; i++) x[i] = (float)(rand() % 9) * 0.5f - 2.0f;
        memcpy(p, x, sizeof p);
        t->softmax(p, n);
        naive(p, n, k, chosen);
        const struct router_kind kind = {.normalise = round % 2, .scale = round % 3 ? 1.0f : 2.5f};
        router_choose(t, &kind, x, NULL, n, k, ids, weights);
        float sum = 0, all = 0;
        for (uint32_t i = 0; i < k; i++) {
            assert_true(chosen[ids[i]]);
            if (i) assert_true(ids[i] > ids[i - 1]);
            sum += p[ids[i]];
            all += weights[i];
        }
        const float scale = kind.scale;
        for (uint32_t i = 0; i < k; i++) {
            float want = (kind.normalise ? p[ids[i]] / sum : p[ids[i]]) * scale;
            assert_true(fabsf(weights[i] - want) <= 1e-6f * scale);
        }
        if (kind.normalise)
            assert_true(fabsf(all - scale) < 1e-5f * scale);
        else
            assert_true(all <= scale * 1.00001f);
    }
}

/* A NaN spoils the softmax: the choice stays defined (the lowest ids) and the weights carry the NaN on. */
static void nan_is_defined(void **state)
{
    (void)state;
    float x[N], weights[4];
    uint32_t ids[4];
    for (uint32_t i = 0; i < N; i++) x[i] = 0.1f * (float)i;
    x[7] = NAN;
    const struct router_kind kind = {.normalise = true, .scale = 1};
    router_choose(table(), &kind, x, NULL, N, 4, ids, weights);
    bool any = false;
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(ids[i] < N && (!i || ids[i] > ids[i - 1]));
        any |= isnan(weights[i]);
    }
    assert_true(any);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(against_naive), cmocka_unit_test(nan_is_defined)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
