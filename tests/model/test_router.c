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

static float gate_of(enum router_gate gate, float x)
{
    if (gate == ROUTER_SIGMOID) return 1 / (1 + expf(-x));
    if (gate == ROUTER_SQRT_SOFTPLUS) return sqrtf(log1pf(expf(x)));
    return x;
}

/* Gates of each expert for itself, a bias for the choice alone, groups of which the best compete. */
static void biased_and_grouped(void **state)
{
    (void)state;
    static const enum router_gate gates[] = {ROUTER_SIGMOID, ROUTER_SQRT_SOFTPLUS};
    enum { SIZE = 8, GROUPS = 6, ALL = SIZE * GROUPS };
    srand(11);
    for (int round = 0; round < 2000; round++) {
        const enum router_gate gate = gates[round % 2];
        const uint32_t used = 1 + (uint32_t)rand() % GROUPS, k = 1 + (uint32_t)rand() % (used * SIZE);
        const struct router_kind kind = {.gate = gate, .scale = 1, .n_groups = GROUPS, .n_groups_used = used};
        float x[ALL], probs[ALL], scores[ALL], bias[ALL], sums[GROUPS], weights[ALL];
        uint32_t ids[ALL];
        bool in[GROUPS], chosen[ALL];
        for (int i = 0; i < ALL; i++) {
            x[i] = (float)rand() / (float)RAND_MAX * 8 - 4;
            bias[i] = (float)rand() / (float)RAND_MAX - 0.5f;
            probs[i] = gate_of(gate, x[i]);
            scores[i] = probs[i] + bias[i];
        }
        for (int g = 0; g < GROUPS; g++) {
            naive(scores + g * SIZE, SIZE, 2, chosen);
            sums[g] = 0;
            for (int i = 0; i < SIZE; i++) sums[g] += chosen[i] ? scores[g * SIZE + i] : 0;
        }
        naive(sums, GROUPS, used, in);
        for (int i = 0; i < ALL; i++)
            if (!in[i / SIZE]) scores[i] = -INFINITY;
        naive(scores, ALL, k, chosen);
        router_choose(table(), &kind, x, bias, ALL, k, ids, weights);
        for (uint32_t i = 0; i < k; i++) {
            assert_true(chosen[ids[i]]);
            if (i) assert_true(ids[i] > ids[i - 1]);
            assert_true(fabsf(weights[i] - probs[ids[i]]) < 1e-5f); /* without the bias */
        }
    }
}

/* The softmax over the chosen ones alone; and the choice by logit. */
static void selected(void **state)
{
    (void)state;
    const float logits[6] = {1, 3, -2, 3, 0.5f, 2.5f};
    float x[6], weights[3];
    uint32_t ids[3];
    memcpy(x, logits, sizeof x);
    router_choose(table(), &(struct router_kind){.gate = ROUTER_SOFTMAX_SELECTED, .scale = 1}, x, NULL, 6, 3, ids,
                  weights);
    assert_true(ids[0] == 1 && ids[1] == 3 && ids[2] == 5);
    const float all = 2 + expf(-0.5f);
    assert_true(fabsf(weights[0] - 1 / all) < 1e-6f && fabsf(weights[2] - expf(-0.5f) / all) < 1e-6f);
    memcpy(x, (float[6]){100, 200, 300, 0, 150, 50}, sizeof x); /* a sigmoid of 1 for five of them */
    router_choose(table(), &(struct router_kind){.gate = ROUTER_SIGMOID, .by_logit = true, .scale = 1}, x, NULL, 6, 2,
                  ids, weights);
    assert_true(ids[0] == 1 && ids[1] == 2 && weights[0] == 1 && weights[1] == 1);
}

/* What guesses rank by gives the same choice. */
static void scores_rank_alike(void **state)
{
    (void)state;
    srand(12);
    for (int round = 0; round < 1000; round++) {
        const struct router_kind kind = {
            .gate = (enum router_gate)(round % 4), .scale = 1, .n_groups = round % 3 ? 1 : 4, .n_groups_used = 2};
        float x[16], y[16], bias[16], weights[4];
        uint32_t ids[4], ranked[4];
        for (int i = 0; i < 16; i++) {
            x[i] = y[i] = (float)rand() / (float)RAND_MAX * 6 - 3;
            bias[i] = (float)rand() / (float)RAND_MAX - 0.5f;
        }
        const float *b = round % 2 ? bias : NULL;
        router_choose(table(), &kind, x, b, 16, 4, ids, weights);
        router_scores(table(), &kind, y, b, 16);
        router_rank(y, 16, 4, ranked);
        for (int i = 0; i < 4; i++) {
            bool there = false;
            for (int j = 0; j < 4; j++) there |= ranked[j] == ids[i];
            assert_true(there);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(against_naive), cmocka_unit_test(nan_is_defined),
                                       cmocka_unit_test(biased_and_grouped), cmocka_unit_test(selected),
                                       cmocka_unit_test(scores_rank_alike)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
