/* Guesses: the learned tables against a naive model and against known optima, the width, the gate, the seams, and that
 * nothing is allocated. On recorded routings transitions must beat popularity (left out without the traces). */
#include "counting.h"
#include "expert/predict.h"
#include "expert/trace.h"
#include "naive_predict.h"
#include "shape.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BOTH (1u << PREDICT_TRANSITIONS | 1u << PREDICT_NEXT)
#define MS 1000000u

/* ---- models ---- */

static struct expert_catalog *catalog_of(const uint32_t *n_experts, const uint32_t *n_used, uint32_t n_layers)
{
    struct expert_layer layers[64];
    struct expert_catalog *c = NULL;
    uint64_t offset = 0;
    assert_true(n_layers <= 64);
    for (uint32_t i = 0; i < n_layers; i++)
        layers[i] = n_experts[i] ? shape_layer(n_experts[i], n_used[i], 32, 32, 32, 0, &offset)
                                 : (struct expert_layer){.n_expert = 0};
    assert_int_equal(expert_catalog_create(layers, n_layers, 1, &c, NULL), SLUICE_OK);
    return c;
}

static struct predict *make(const uint32_t *n_experts, const uint32_t *n_used, uint32_t n_layers, unsigned tables)
{
    struct expert_catalog *c = catalog_of(n_experts, n_used, n_layers);
    struct predict *p = NULL;
    counting_bytes = 0;
    assert_int_equal(predict_create(c, tables, &p, NULL), SLUICE_OK);
    assert_int_equal(counting_bytes, predict_memory_bytes(c, tables)); /* what is told is what is held */
    expert_catalog_destroy(c);                                         /* is not needed any more */
    return p;
}

static void choose(struct shape_random *r, uint32_t n_expert, uint32_t *ids, uint32_t n)
{
    const uint32_t range = shape_below(r, 2) && n_expert / 3 >= n ? n_expert / 3 : n_expert; /* some are hotter */
    for (uint32_t i = 0; i < n; i++) {
        bool twice = true;
        while (twice) {
            ids[i] = shape_below(r, range);
            twice = false;
            for (uint32_t k = 0; k < i; k++) twice = twice || ids[k] == ids[i];
        }
    }
}

static bool among(uint32_t e, const uint32_t *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] == e) return true;
    return false;
}

/* ---- the naive model ---- */

/* Names are in order of the naive ratings, and nobody better is left out. */
static void check_names(const struct naive_predict *naive, uint32_t from, const uint32_t *ids, uint32_t n, uint32_t to,
                        const uint32_t *names, uint32_t n_names, uint32_t max)
{
    double ratings[NAIVE_EXPERTS_MAX];
    uint32_t n_ever = 0;
    for (uint32_t e = 0; e < naive->n_experts[to]; e++) {
        ratings[e] = naive_ever(naive, to, e) ? naive_rating(naive, from, ids, n, to, e) : -1;
        n_ever += ratings[e] >= 0;
    }
    assert_int_equal(n_names, n_ever < max ? n_ever : max);
    for (uint32_t i = 0; i < n_names; i++) {
        assert_true(names[i] < naive->n_experts[to]);
        assert_false(among(names[i], names, i));
        assert_true(ratings[names[i]] >= 0);
        for (uint32_t e = 0; e < naive->n_experts[to]; e++)
            if (!among(e, names, i + 1) && ratings[e] > ratings[names[i]] * 1.001) /* its popularity is a float */
                fail_msg("rank %u is %u with %g, but %u has %g", i, names[i], ratings[names[i]], e, ratings[e]);
    }
}

static void ask(const struct predict *p, const struct naive_predict *naive, struct shape_random *r)
{
    uint32_t layer = shape_below(r, NAIVE_PREDICT_LAYERS), ids[NAIVE_PREDICT_USED], names[PREDICT_WIDTH_MAX], to;
    if (!naive->n_experts[layer]) return;
    const uint32_t n = 1 + shape_below(r, naive->n_used[layer]), max = 1 + shape_below(r, PREDICT_WIDTH_MAX);
    uint32_t after = layer + 1;
    choose(r, naive->n_experts[layer], ids, n);
    while (after < NAIVE_PREDICT_LAYERS && !naive->n_experts[after]) after++;
    uint32_t n_names = predict_transitions(p, layer, ids, n, &to, names, max);
    if (after < NAIVE_PREDICT_LAYERS) {
        assert_int_equal(to, after);
        check_names(naive, layer, ids, n, after, names, n_names, max);
    } else {
        assert_int_equal(to, UINT32_MAX);
        assert_int_equal(n_names, 0);
    }
    n_names = predict_next(p, layer, ids, n, names, max);
    check_names(naive, layer, ids, n, layer, names, n_names, max);
}

/* A step of n tokens: the tables see it layer by layer. */
static void random_step(struct predict *p, struct naive_predict *naive, uint32_t n, struct shape_random *r)
{
    const uint32_t first = naive->n_tokens;
    const bool prompt = shape_below(r, 20) == 0;
    assert_true(first + n <= NAIVE_TOKENS_MAX);
    if (prompt) predict_prompt(p);
    for (uint32_t t = 0; t < n; t++) {
        naive->tokens[first + t].prompt = prompt && t == 0;
        naive->tokens[first + t].teaches = t < PREDICT_AHEAD_MAX;
    }
    for (uint32_t layer = 0; layer < NAIVE_PREDICT_LAYERS; layer++) {
        if (!naive->n_experts[layer]) continue;
        for (uint32_t t = 0; t < n; t++) {
            uint32_t *ids = naive->tokens[first + t].ids[layer];
            choose(r, naive->n_experts[layer], ids, naive->n_used[layer]);
            /* Something to learn: often the choice follows from the one before. */
            if (layer && naive->n_used[layer] == 1 && shape_below(r, 2))
                ids[0] = naive->tokens[first + t].ids[0][0] % naive->n_experts[layer];
            predict_selected(p, layer, ids, naive->n_used[layer], t);
        }
    }
    naive->n_tokens += n;
    predict_tick(p, n);
}

static void test_naive(void **state)
{
    (void)state;
    static const struct {
        uint32_t n_experts[NAIVE_PREDICT_LAYERS], n_used[NAIVE_PREDICT_LAYERS];
    } models[] = {
        {{16, 16, 16, 16, 16}, {2, 2, 2, 2, 2}},
        {{0, 8, 0, 0, 24}, {0, 1, 0, 0, 4}}, /* layers without experts before and between */
        {{4, 1, 40, 3, 0}, {4, 1, 1, 3, 0}}, /* one expert; all experts used */
        {{1, 0, 12, 0, 1}, {1, 0, 3, 0, 1}},
    };
    struct naive_predict *naive = malloc(sizeof *naive);
    assert_non_null(naive);
    for (uint32_t m = 0; m < 12; m++) {
        struct shape_random r = {m};
        memset(naive, 0, sizeof *naive);
        memcpy(naive->n_experts, models[m % 4].n_experts, sizeof naive->n_experts);
        memcpy(naive->n_used, models[m % 4].n_used, sizeof naive->n_used);
        struct predict *p = make(naive->n_experts, naive->n_used, NAIVE_PREDICT_LAYERS, BOTH);
        const unsigned before = counting_calls;
        for (uint32_t i = 0; i < 150; i++) {
            uint32_t n = shape_below(&r, 4) ? 1 : 1 + shape_below(&r, 9);
            if (i % 50 == 49) n = PREDICT_AHEAD_MAX - 1 + shape_below(&r, 40); /* both sides of the seam */
            random_step(p, naive, n, &r);
            if (i % 5 == 0) ask(p, naive, &r);
        }
        assert_int_equal(counting_calls, before); /* nothing is allocated */
        predict_destroy(p);
    }
    free(naive);
}

/* ---- known optima ---- */

#define CHAIN 32
#define CHAIN_TOKENS 6000

/* Two independent chains, one in each half of the experts, which go on as expected with probability 0.7: nobody can
 * name more than 0.7 + 0.3 / 16 with one name a chain. */
static void follow(struct shape_random *r, const uint32_t *before, const uint32_t *map, uint32_t *out)
{
    for (uint32_t i = 0; i < 2; i++)
        out[i] = shape_below(r, 10) < 7 ? map[before[i]] : i * CHAIN / 2 + shape_below(r, CHAIN / 2);
}

static void test_chains(void **state)
{
    (void)state;
    const uint32_t n_experts[3] = {CHAIN, 0, CHAIN}, n_used[3] = {2, 0, 2};
    struct predict *p = make(n_experts, n_used, 3, BOTH);
    struct shape_random r = {1};
    uint32_t in_time[CHAIN], across[CHAIN], ids[2] = {0, CHAIN / 2}, other[2], names[2], to;
    uint32_t n_next = 0, n_across = 0, n_asked = 0;
    for (uint32_t half = 0; half < 2; half++)
        for (uint32_t i = 0; i < CHAIN / 2; i++) {
            in_time[half * CHAIN / 2 + i] = half * CHAIN / 2 + (i + 1) % (CHAIN / 2); /* one long cycle */
            across[half * CHAIN / 2 + i] = half * CHAIN / 2 + (5 * i + 3) % (CHAIN / 2);
        }
    for (uint32_t t = 0; t < CHAIN_TOKENS; t++) {
        const bool counts = t >= CHAIN_TOKENS / 3;
        const uint32_t n = predict_next(p, 0, ids, 2, names, 2); /* ids: of the token before */
        uint32_t now[2];
        follow(&r, ids, in_time, now);
        for (uint32_t i = 0; counts && i < n; i++) n_next += among(names[i], now, 2);
        memcpy(ids, now, sizeof ids);
        predict_selected(p, 0, ids, 2, 0);
        follow(&r, ids, across, other);
        const uint32_t n_names = predict_transitions(p, 0, ids, 2, &to, names, 2);
        for (uint32_t i = 0; counts && i < n_names; i++) n_across += among(names[i], other, 2);
        predict_selected(p, 2, other, 2, 0);
        predict_tick(p, 1);
        n_asked += counts ? 2 : 0;
    }
    const double best = 0.7 + 0.3 / (CHAIN / 2), near = best - 0.03;
    if (n_next < near * n_asked) fail_msg("next: %.3f of %.3f", (double)n_next / n_asked, best);
    if (n_across < near * n_asked) fail_msg("transitions: %.3f of %.3f", (double)n_across / n_asked, best);
    assert_true(n_next < (best + 0.03) * n_asked && n_across < (best + 0.03) * n_asked);
    predict_destroy(p);
}

/* ---- recorded routings ---- */

static const uint32_t *counts_to_sort;

static int by_count(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (counts_to_sort[x] != counts_to_sort[y]) return counts_to_sort[x] > counts_to_sort[y] ? -1 : 1;
    return x < y ? -1 : 1;
}

/* Points of recall with K names in decode: transitions, and what was chosen most often so far. */
static void recall(const struct trace *t, double *transitions, double *popular)
{
    uint32_t n_experts[64] = {0}, n_used[64] = {0}, ids[EXPERT_COUNT_MAX], names[PREDICT_WIDTH_MAX], to = 0;
    uint32_t order[EXPERT_COUNT_MAX], n_names = 0;
    float weights[EXPERT_COUNT_MAX];
    uint64_t n = 0, n_transitions = 0, n_popular = 0;
    assert_true(t->n_layers <= 64);
    for (uint32_t i = 0; i < t->n_layers; i++) {
        n_experts[i] = t->layers[i].n_expert;
        n_used[i] = t->layers[i].n_used;
    }
    uint32_t(*counts)[EXPERT_COUNT_MAX] = calloc(t->n_layers, sizeof *counts);
    assert_non_null(counts);
    struct predict *p = make(n_experts, n_used, t->n_layers, BOTH);
    for (uint32_t token = 0; token < t->n_tokens; token++) {
        if (t->flags[token] & TRACE_PROMPT) predict_prompt(p);
        n_names = 0;
        for (uint32_t layer = 0; layer < t->n_layers; layer++) {
            const uint32_t n_ids = trace_choice(t, token, layer, ids, weights), k = n_used[layer];
            if ((t->flags[token] & TRACE_DECODE) && n_names) {
                for (uint32_t e = 0; e < n_experts[layer]; e++) order[e] = e;
                counts_to_sort = counts[layer];
                qsort(order, n_experts[layer], sizeof *order, by_count);
                assert_int_equal(to, layer);
                for (uint32_t i = 0; i < n_names; i++) n_transitions += among(names[i], ids, n_ids);
                for (uint32_t i = 0; i < k; i++) n_popular += among(order[i], ids, n_ids);
                n += n_ids;
            }
            for (uint32_t i = 0; i < n_ids; i++) counts[layer][ids[i]]++;
            predict_selected(p, layer, ids, n_ids, 0);
            n_names = predict_transitions(p, layer, ids, n_ids, &to, names, k);
        }
    }
    *transitions = 100.0 * (double)n_transitions / (double)n;
    *popular = 100.0 * (double)n_popular / (double)n;
    predict_destroy(p);
    free(counts);
}

static void test_traces(void **state)
{
    (void)state;
    static const char *const files[] = {"qwen", "gemma", "gptoss"};
    const char *shared = getenv("SLUICE_SHARED");
    for (int i = 0; i < 3; i++) {
        char path[4096];
        struct trace t;
        struct sluice_error err;
        double transitions, popular;
        snprintf(path, sizeof path, "%s/traces/%s.csv", shared ? shared : ".", files[i]);
        FILE *f = fopen(path, "r");
        if (!f) {
            print_message("no traces/%s.csv: left out\n", files[i]);
            continue;
        }
        fclose(f);
        if (trace_read(path, &t, &err)) fail_msg("%s", err.message);
        recall(&t, &transitions, &popular);
        if (transitions < popular + 5)
            fail_msg("%s: transitions name %.1f %%, popularity %.1f %%", files[i], transitions, popular);
        trace_free(&t);
    }
}

/* ---- seams ---- */

static void test_nothing_learned(void **state)
{
    (void)state;
    const uint32_t n_experts[2] = {8, 8}, n_used[2] = {2, 2}, ids[2] = {3, 5};
    struct predict *p = make(n_experts, n_used, 2, BOTH);
    uint32_t names[PREDICT_WIDTH_MAX], to = 7;
    assert_int_equal(predict_transitions(p, 0, ids, 2, &to, names, 4), 0);
    assert_int_equal(to, 1);
    assert_int_equal(predict_next(p, 0, ids, 2, names, 4), 0);
    predict_selected(p, 1, ids, 2, 0);
    assert_int_equal(predict_transitions(p, 0, ids, 2, &to, names, 0), 0);
    assert_int_equal(predict_transitions(p, 0, ids, 0, &to, names, 4), 0);
    assert_int_equal(predict_next(p, 0, ids, 2, names, 4), 0); /* that layer has not chosen yet */
    assert_int_equal(predict_transitions(p, 0, ids, 2, &to, names, 4), 2);
    assert_int_equal(names[0], 3); /* equal: the lower id first */
    assert_int_equal(names[1], 5);
    predict_destroy(p);
}

/* What is named first for layer 0's expert 1 in layer 1, after expert 6 was made popular there. */
static uint32_t first_of_one(struct predict *p)
{
    const uint32_t one = 1;
    uint32_t name = UINT32_MAX, to;
    assert_int_equal(predict_transitions(p, 0, &one, 1, &to, &name, 1), 1);
    return name;
}

static void test_steps_given_up(void **state)
{
    (void)state;
    const uint32_t n_experts[2] = {8, 8}, n_used[2] = {1, 1}, one = 1, two = 2, six = 6;
    struct predict *p = make(n_experts, n_used, 2, BOTH);
    for (int i = 0; i < 8; i++) {
        predict_selected(p, 0, &two, 1, 0);
        predict_selected(p, 1, &six, 1, 0);
    }
    assert_int_equal(first_of_one(p), 6);
    /* Layer 0 of a step that ends there; the next step begins with layer 0 again. */
    predict_selected(p, 0, &one, 1, 0);
    predict_selected(p, 0, &two, 1, 0);
    predict_selected(p, 1, &two, 1, 0);
    assert_int_equal(first_of_one(p), 6); /* the first step taught nothing about 1 */
    /* A layer whose choice before is of a token that was not told teaches nothing either. */
    predict_selected(p, 0, &one, 1, 0);
    predict_selected(p, 1, &two, 1, 1);
    assert_int_equal(first_of_one(p), 6);
    /* Of a step that was given up nothing stays, whichever token the next one begins with. */
    predict_selected(p, 0, &one, 1, 0);
    predict_selected(p, 0, &two, 1, 1);
    predict_selected(p, 0, &two, 1, 1);
    predict_selected(p, 1, &two, 1, 0);
    assert_int_equal(first_of_one(p), 6);
    predict_selected(p, 1, &two, 1, 0); /* and the layer before belongs to one step alone */
    predict_selected(p, 0, &one, 1, 0);
    predict_selected(p, 1, &six, 1, 0);
    for (int i = 0; i < 3; i++) predict_selected(p, 1, &two, 1, 0);
    assert_int_equal(first_of_one(p), 6);
    /* A prompt is a border for both tables. */
    predict_selected(p, 0, &one, 1, 0);
    predict_prompt(p);
    predict_selected(p, 1, &two, 1, 0);
    assert_int_equal(first_of_one(p), 6);
    for (int i = 0; i < 3; i++) {
        predict_selected(p, 0, &one, 1, 0);
        predict_selected(p, 1, &two, 1, 0);
    }
    assert_int_equal(first_of_one(p), 2);
    predict_destroy(p);
}

/* Layer 1 is passed over: layer 2 must not take layer 0 for the one before it. */
static void test_layer_passed_over(void **state)
{
    (void)state;
    const uint32_t n_experts[3] = {8, 8, 8}, n_used[3] = {1, 1, 1}, one = 1, two = 2, six = 6;
    struct predict *p = make(n_experts, n_used, 3, BOTH);
    uint32_t name, to;
    for (int i = 0; i < 8; i++) predict_selected(p, 2, &six, 1, 0);
    for (int i = 0; i < 4; i++) {
        predict_selected(p, 0, &one, 1, 0);
        predict_selected(p, 2, &two, 1, 0);
    }
    assert_int_equal(predict_transitions(p, 1, &one, 1, &to, &name, 1), 1);
    assert_int_equal(to, 2);
    assert_int_equal(name, 6);
    predict_destroy(p);
}

static void test_prompt_border(void **state)
{
    (void)state;
    const uint32_t n_experts = 8, n_used = 1, one = 1, two = 2, six = 6;
    struct predict *p = make(&n_experts, &n_used, 1, BOTH);
    uint32_t name;
    assert_false(predict_on(p, PREDICT_TRANSITIONS)); /* one layer has no pairs */
    assert_true(predict_on(p, PREDICT_NEXT));
    for (int i = 0; i < 4; i++) predict_selected(p, 0, &six, 1, 0);
    for (int i = 0; i < 3; i++) {
        predict_selected(p, 0, &one, 1, 0);
        predict_prompt(p);
        predict_selected(p, 0, &two, 1, 0);
        predict_prompt(p);
    }
    assert_int_equal(predict_next(p, 0, &one, 1, &name, 1), 1);
    assert_int_equal(name, 6);
    for (int i = 0; i < 3; i++) {
        predict_selected(p, 0, &one, 1, 0);
        predict_selected(p, 0, &two, 1, 0);
    }
    assert_int_equal(predict_next(p, 0, &one, 1, &name, 1), 1);
    assert_int_equal(name, 2);
    predict_destroy(p);
}

static void test_all_experts_used(void **state)
{
    (void)state;
    uint32_t n_experts[2] = {100, 100}, n_used[2] = {100, 100}, ids[100], names[PREDICT_WIDTH_MAX], to;
    struct predict *p = make(n_experts, n_used, 2, BOTH);
    for (uint32_t i = 0; i < 100; i++) ids[i] = i;
    for (uint32_t t = 0; t < 3000; t++)
        for (uint32_t layer = 0; layer < 2; layer++) predict_selected(p, layer, ids, 100, 0);
    assert_int_equal(predict_transitions(p, 0, ids, 100, &to, names, 1000), PREDICT_WIDTH_MAX);
    for (uint32_t i = 0; i < PREDICT_WIDTH_MAX; i++) assert_int_equal(names[i], i);
    assert_int_equal(predict_next(p, 1, ids, 100, names, PREDICT_WIDTH_MAX), PREDICT_WIDTH_MAX);
    for (uint32_t i = 0; i < PREDICT_WIDTH_MAX; i++) assert_int_equal(names[i], i);
    predict_destroy(p);
}

static void test_tables_left_out(void **state)
{
    (void)state;
    /* 3 x 4096 x 4096 bytes are too many for `next`; two pairs of layers fit just so. */
    uint32_t n_experts[4] = {4096, 4096, 4096, 16}, n_used[4] = {2, 2, 2, 2}, ids[2] = {0, 1}, names[4], to;
    struct predict *p = make(n_experts, n_used, 3, BOTH);
    assert_true(predict_on(p, PREDICT_TRANSITIONS));
    assert_false(predict_on(p, PREDICT_NEXT));
    assert_int_equal(predict_width(p, PREDICT_NEXT, 8), 0);
    predict_allow(p, PREDICT_NEXT, true, false); /* nobody can be allowed what is not there */
    assert_false(predict_on(p, PREDICT_NEXT));
    for (uint32_t layer = 0; layer < 3; layer++) predict_selected(p, layer, ids, 2, 0);
    assert_int_equal(predict_next(p, 0, ids, 2, names, 4), 0);
    assert_int_equal(predict_transitions(p, 0, ids, 2, &to, names, 4), 2);
    predict_destroy(p);
    p = make(n_experts, n_used, 4, BOTH); /* one more pair of layers */
    assert_false(predict_on(p, PREDICT_TRANSITIONS));
    assert_true(predict_on(p, PREDICT_LOOKAHEAD));
    predict_selected(p, 0, ids, 2, 0);
    assert_int_equal(predict_transitions(p, 0, ids, 2, &to, names, 4), 0);
    predict_destroy(p);
    p = make(n_experts, n_used, 2, 0);
    assert_false(predict_on(p, PREDICT_TRANSITIONS));
    assert_false(predict_on(p, PREDICT_NEXT));
    predict_prompt(p);
    predict_destroy(p);
    n_experts[0] = n_experts[1] = 0; /* a dense model */
    p = make(n_experts, n_used, 2, BOTH);
    assert_false(predict_on(p, PREDICT_TRANSITIONS));
    predict_selected(p, 1, ids, 0, 0);
    predict_prompt(p);
    predict_tick(p, 1);
    predict_destroy(p);
    predict_destroy(NULL);
}

/* ---- width ---- */

#define K 4

static struct predict *small(void)
{
    const uint32_t n_experts[2] = {32, 32}, n_used[2] = {K, K};
    return make(n_experts, n_used, 2, BOTH);
}

/* n outcomes; the first n_good ranks came true, the first n_told of PREDICT_WIDTH_MAX are told. */
static void tell(struct predict *p, uint32_t n, uint32_t n_good, uint32_t n_told)
{
    bool came_true[PREDICT_WIDTH_MAX], asked[PREDICT_WIDTH_MAX];
    for (uint32_t i = 0; i < PREDICT_WIDTH_MAX; i++) {
        came_true[i] = i < n_good;
        asked[i] = true;
    }
    while (n--) predict_outcome(p, PREDICT_TRANSITIONS, came_true, asked, n_told);
}

static void test_width(void **state)
{
    (void)state;
    struct predict *p = small();
    bool yes[K] = {true, true, true, true}, no[K] = {false};
    assert_int_equal(predict_width(p, PREDICT_TRANSITIONS, 32), K); /* the prior */
    assert_int_equal(predict_width(p, PREDICT_TRANSITIONS, 3), 3);
    assert_int_equal(predict_width(p, PREDICT_TRANSITIONS, 0), 0);
    tell(p, 500, 2, PREDICT_WIDTH_MAX);
    assert_int_equal(predict_width(p, PREDICT_TRANSITIONS, 32), 2);
    assert_int_equal(predict_width(p, PREDICT_NEXT, 32), K); /* each source for itself */
    tell(p, 1500, 0, PREDICT_WIDTH_MAX);
    assert_int_equal(predict_width(p, PREDICT_TRANSITIONS, 32), 0);
    for (int i = 0; i < 5000; i++) predict_outcome(p, PREDICT_TRANSITIONS, yes, no, K); /* residents teach nothing */
    assert_int_equal(predict_width(p, PREDICT_TRANSITIONS, 32), 0);
    tell(p, 1500, 7, PREDICT_WIDTH_MAX);
    assert_int_equal(predict_width(p, PREDICT_TRANSITIONS, 32), 7);
    tell(p, 1500, PREDICT_WIDTH_MAX, PREDICT_WIDTH_MAX + 9); /* more ranks than there are */
    assert_int_equal(predict_width(p, PREDICT_TRANSITIONS, 1000), PREDICT_WIDTH_MAX);
    predict_destroy(p);
}

/* A rank that comes true half the time, one in ten: the border lies between. */
static void test_width_follows_precision(void **state)
{
    (void)state;
    struct predict *p = small();
    struct shape_random r = {3};
    for (int i = 0; i < 4000; i++) {
        bool came_true[8], asked[8];
        for (uint32_t k = 0; k < 8; k++) {
            came_true[k] = shape_below(&r, 10) < (k < 5 ? 6 : 1);
            asked[k] = shape_below(&r, 2);
        }
        predict_outcome(p, PREDICT_TRANSITIONS, came_true, asked, 8);
    }
    assert_int_equal(predict_width(p, PREDICT_TRANSITIONS, 32), 5);
    /* One bad rank in front does not hide the good ones. */
    for (int i = 0; i < 2000; i++) {
        const bool came_true[3] = {false, true, true}, asked[3] = {i % 4 == 0, true, true};
        predict_outcome(p, PREDICT_TRANSITIONS, came_true, asked, 3);
    }
    assert_true(predict_width(p, PREDICT_TRANSITIONS, 32) >= 3);
    predict_destroy(p);
}

static void test_width_recovers(void **state)
{
    (void)state;
    struct predict *p = small();
    uint32_t n_explored = 0, most = 0;
    tell(p, 2000, 0, PREDICT_WIDTH_MAX);
    predict_tick(p, 16); /* all was told: nothing to explore */
    assert_int_equal(predict_width(p, PREDICT_TRANSITIONS, 32), 0);
    for (int i = 0; i < 1600; i++) { /* the caller tells what it reads; all of it is wrong */
        const uint32_t width = predict_width(p, PREDICT_TRANSITIONS, 32);
        n_explored += width > 0;
        if (width > most) most = width;
        if (width) tell(p, 8, 0, width);
        predict_tick(p, 1);
    }
    assert_int_equal(n_explored, 99); /* one token in 16, the first after 16 */
    assert_true(most <= 2);
    for (int i = 0; i < 3200; i++) { /* now six ranks come true */
        const uint32_t width = predict_width(p, PREDICT_TRANSITIONS, 32);
        if (width) tell(p, 8, 6, width);
        predict_tick(p, 1);
    }
    assert_in_range(predict_width(p, PREDICT_TRANSITIONS, 32), 6, 8);
    predict_destroy(p);
}

/* ---- gate ---- */

/* Tokens, one by one, until the source is on (or off); at most `most`. */
static uint32_t tokens_until(struct predict *p, bool on, uint64_t saved, uint64_t cost, uint32_t most)
{
    uint32_t n = 0;
    for (; n < most && predict_on(p, PREDICT_NEXT) != on; n++) {
        predict_saved(p, PREDICT_NEXT, saved);
        predict_cost(p, PREDICT_NEXT, cost);
        predict_tick(p, 1);
    }
    return n;
}

static void test_gate_rests_and_doubles(void **state)
{
    (void)state;
    struct predict *p = small();
    uint32_t rest = 0;
    assert_int_equal(tokens_until(p, false, 3 * MS, 2 * MS, 5000), 5000); /* pays: stays */
    assert_int_equal(tokens_until(p, false, 0, 0, 5000), 5000);           /* nothing happens: stays */
    assert_in_range(tokens_until(p, false, MS, 2 * MS, 100), 1, 64);
    assert_true(predict_on(p, PREDICT_TRANSITIONS)); /* each source for itself */
    for (int i = 0; i < 12; i++) {
        const uint32_t before = rest;
        rest = tokens_until(p, true, 0, MS, 100000);
        assert_in_range(rest, 1, 4096);
        if (i && before < 4096) assert_int_equal(rest, 2 * before);
        if (before == 4096) assert_int_equal(rest, 4096);
        assert_in_range(tokens_until(p, false, MS, 2 * MS, 100), 1, 64); /* tried for a whole window */
    }
    assert_int_equal(rest, 4096);
    /* It pays again: on, and the next rest is short. */
    assert_int_equal(tokens_until(p, true, 0, 0, 100000), 4096);
    assert_int_equal(tokens_until(p, false, 2 * MS, MS, 64), 64);
    assert_in_range(tokens_until(p, false, MS, 9 * MS, 100), 1, 64);
    assert_int_equal(tokens_until(p, true, 0, 0, 100000), 64);
    predict_destroy(p);
}

static void test_gate_hysteresis(void **state)
{
    (void)state;
    struct predict *p = small();
    assert_int_equal(tokens_until(p, false, 100, 105, 5000), 5000); /* about even: on stays on */
    assert_in_range(tokens_until(p, false, 100, 150, 100), 1, 64);
    assert_int_equal(tokens_until(p, true, 0, 0, 1000), 64);
    assert_int_equal(tokens_until(p, false, 105, 100, 64), 64); /* about even: not forgiven either */
    assert_in_range(tokens_until(p, false, 100, 150, 100), 1, 64);
    assert_int_equal(tokens_until(p, true, 0, 0, 1000), 128);
    /* What is reported during a rest is about the time before. */
    assert_in_range(tokens_until(p, false, 100, 150, 100), 1, 64);
    assert_int_equal(tokens_until(p, true, 0, 1000 * MS, 1000), 256);
    assert_int_equal(tokens_until(p, false, MS, 0, 64), 64);
    predict_destroy(p);
}

static void test_gate_long_steps(void **state)
{
    (void)state;
    struct predict *p = small();
    predict_cost(p, PREDICT_NEXT, MS);
    predict_tick(p, 512); /* one step is a window */
    assert_false(predict_on(p, PREDICT_NEXT));
    predict_tick(p, 512); /* and more than the rest */
    assert_true(predict_on(p, PREDICT_NEXT));
    predict_cost(p, PREDICT_NEXT, UINT64_MAX); /* sums do not wrap */
    predict_cost(p, PREDICT_NEXT, 2);
    predict_saved(p, PREDICT_NEXT, 5);
    predict_tick(p, UINT32_MAX);
    assert_false(predict_on(p, PREDICT_NEXT));
    predict_destroy(p);
}

static void test_allow(void **state)
{
    (void)state;
    struct predict *p = small();
    predict_allow(p, PREDICT_NEXT, false, true);
    assert_false(predict_on(p, PREDICT_NEXT));
    assert_int_equal(tokens_until(p, true, MS, 0, 1000), 1000);
    predict_allow(p, PREDICT_NEXT, true, false);
    assert_int_equal(tokens_until(p, false, 0, MS, 1000), 1000); /* on whatever it costs */
    predict_allow(p, PREDICT_NEXT, true, true);
    assert_in_range(tokens_until(p, false, 0, MS, 1000), 1, 64);
    predict_allow(p, PREDICT_NEXT, true, false);
    assert_true(predict_on(p, PREDICT_NEXT));
    predict_destroy(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_naive),
        cmocka_unit_test(test_chains),
        cmocka_unit_test(test_traces),
        cmocka_unit_test(test_nothing_learned),
        cmocka_unit_test(test_steps_given_up),
        cmocka_unit_test(test_layer_passed_over),
        cmocka_unit_test(test_prompt_border),
        cmocka_unit_test(test_all_experts_used),
        cmocka_unit_test(test_tables_left_out),
        cmocka_unit_test(test_width),
        cmocka_unit_test(test_width_follows_precision),
        cmocka_unit_test(test_width_recovers),
        cmocka_unit_test(test_gate_rests_and_doubles),
        cmocka_unit_test(test_gate_hysteresis),
        cmocka_unit_test(test_gate_long_steps),
        cmocka_unit_test(test_allow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
