/* The sampler as a distribution: each filter alone and together, compared with probabilities worked out here by plain
 * sorting and libm, by a chi-square test at fixed seeds. */
#include "sample/sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DRAWS 40000
#define VOCAB 12

static const float logits12[VOCAB] = {0.5f, 2.0f, -1.0f, 2.0f, 0.0f, 1.5f, -3.0f, 0.7f, 1.0f, -0.5f, 0.5f, -20.0f};

static struct sample_params plain(void)
{
    return (struct sample_params){.temperature = 1.0f, .top_p = 1.0f, .repeat_penalty = 1.0f, .seed = 1};
}

static uint32_t draw_one(const struct sample_params *p, struct sample_state *s, const float *logits, size_t n)
{
    void *scratch = malloc(sample_scratch_bytes(n));
    uint32_t id = sample_token(p, s, logits, n, NULL, 0, 0, scratch);
    free(scratch);
    return id;
}

/* The specification, written the slow way. */
static void expected(const struct sample_params *p, const float *logits, size_t n, const int32_t *history,
                     size_t n_history, double *probability)
{
    double value[64];
    size_t order[64];
    size_t window = n_history < p->repeat_last ? n_history : p->repeat_last;
    for (size_t i = 0; i < n; i++) {
        bool seen = false;
        for (size_t h = n_history - window; h < n_history; h++) seen = seen || history[h] == (int32_t)i;
        double l = (double)logits[i], penalty = (double)p->repeat_penalty;
        value[i] = !seen ? l : l > 0 ? l / penalty : l * penalty;
        order[i] = i;
    }
    for (size_t i = 1; i < n; i++)
        for (size_t j = i; j > 0 && value[order[j]] > value[order[j - 1]]; j--) {
            size_t t = order[j];
            order[j] = order[j - 1];
            order[j - 1] = t;
        }
    size_t k = p->top_k > 0 && p->top_k < n ? p->top_k : n;
    double weight[64], sum = 0;
    for (size_t i = 0; i < k; i++) sum += weight[i] = exp((value[order[i]] - value[order[0]]) / (double)p->temperature);
    if (p->top_p < 1.0f) {
        double mass = 0;
        size_t kept = 0;
        while (kept < k) {
            mass += weight[kept++];
            if (mass >= sum * (double)p->top_p) break;
        }
        k = kept;
    }
    while (k > 1 && weight[k - 1] < (double)p->min_p) k--;
    sum = 0;
    for (size_t i = 0; i < k; i++) sum += weight[i];
    for (size_t i = 0; i < n; i++) probability[i] = 0;
    for (size_t i = 0; i < k; i++) probability[order[i]] = weight[i] / sum;
}

/* Chi-square of DRAWS draws against probability; cells with fewer than 5 expected draws are pooled. The 99.99 % point
 * for up to 11 degrees of freedom is below 38. */
static void check_distribution(const struct sample_params *p, const float *logits, size_t n, const int32_t *history,
                               size_t n_history)
{
    double probability[64], chi = 0, rest_expected = 0;
    size_t count[64] = {0}, rest = 0;
    expected(p, logits, n, history, n_history, probability);
    struct sample_state s;
    sample_init(&s, p->seed);
    void *scratch = malloc(sample_scratch_bytes(n));
    for (int i = 0; i < DRAWS; i++) {
        uint32_t id = sample_token(p, &s, logits, n, history, n_history, n_history, scratch);
        assert_true(id < n);
        count[id]++;
    }
    free(scratch);
    for (size_t i = 0; i < n; i++) {
        double e = probability[i] * DRAWS;
        if (probability[i] == 0) assert_int_equal(count[i], 0);
        if (e < 5) {
            rest_expected += e;
            rest += count[i];
        } else {
            chi += ((double)count[i] - e) * ((double)count[i] - e) / e;
        }
    }
    if (rest_expected > 0) {
        double d = (double)rest - rest_expected;
        chi += d * d / (rest_expected < 1 ? 1 : rest_expected);
    }
    if (!(chi < 38)) fail_msg("chi-square %g: the draws do not follow the distribution", chi);
}

static void test_distribution(void **state)
{
    (void)state;
    static const struct {
        float temperature, top_p, min_p, penalty;
        uint32_t top_k, last;
    } rows[] = {
        {1.0f, 1.0f, 0.0f, 1.0f, 0, 0},    {0.5f, 1.0f, 0.0f, 1.0f, 0, 0},   {2.0f, 1.0f, 0.0f, 1.0f, 0, 0},
        {1.0f, 1.0f, 0.0f, 1.0f, 4, 0},    {1.0f, 1.0f, 0.0f, 1.0f, 12, 0},  {1.0f, 1.0f, 0.0f, 1.0f, 1000, 0},
        {1.0f, 0.7f, 0.0f, 1.0f, 0, 0},    {1.0f, 0.999f, 0.0f, 1.0f, 0, 0}, {1.0f, 1.0f, 0.2f, 1.0f, 0, 0},
        {0.7f, 0.8f, 0.0f, 1.0f, 6, 0},    {0.7f, 1.0f, 0.05f, 1.0f, 6, 0},  {1.3f, 0.9f, 0.1f, 1.0f, 0, 0},
        {0.8f, 0.95f, 0.05f, 1.0f, 10, 0}, {1.0f, 1.0f, 0.0f, 1.3f, 0, 64},  {0.8f, 0.9f, 0.02f, 1.2f, 8, 3},
        {1.0f, 1.0f, 0.0f, 0.8f, 0, 64},   {0.9f, 0.5f, 0.0f, 2.0f, 0, 2},
    };
    static const int32_t history[] = {5, 1, 1, 9, 1};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sample_params p = {.temperature = rows[i].temperature,
                                  .top_k = rows[i].top_k,
                                  .top_p = rows[i].top_p,
                                  .min_p = rows[i].min_p,
                                  .repeat_penalty = rows[i].penalty,
                                  .repeat_last = rows[i].last,
                                  .seed = 1000 + i};
        check_distribution(&p, logits12, VOCAB, history, 5);
    }
}

/* The chi-square test itself must be able to fail: draws at one temperature judged by another. */
static void test_chi_square_sees_wrong_temperature(void **state)
{
    (void)state;
    struct sample_params p = plain();
    double probability[VOCAB], chi = 0;
    expected(&p, logits12, VOCAB, NULL, 0, probability);
    p.temperature = 1.1f;
    size_t count[VOCAB] = {0};
    struct sample_state s;
    sample_init(&s, 7);
    for (int i = 0; i < DRAWS; i++) count[draw_one(&p, &s, logits12, VOCAB)]++;
    for (size_t i = 0; i < VOCAB; i++) {
        double e = probability[i] * DRAWS;
        if (e >= 5) chi += ((double)count[i] - e) * ((double)count[i] - e) / e;
    }
    assert_true(chi > 38);
}

static void test_greedy_and_ties(void **state)
{
    (void)state;
    struct sample_params p = plain();
    struct sample_state s;
    sample_init(&s, 1);
    p.temperature = 0.0f;
    for (int i = 0; i < 10; i++) assert_int_equal(draw_one(&p, &s, logits12, VOCAB), 1); /* 1 and 3 are equal */
    p.temperature = 1.0f;
    p.top_k = 1;
    for (int i = 0; i < 10; i++) assert_int_equal(draw_one(&p, &s, logits12, VOCAB), 1);
    p.top_k = 0;
    p.top_p = 0.0f;
    for (int i = 0; i < 10; i++) assert_int_equal(draw_one(&p, &s, logits12, VOCAB), 1);
    p.top_p = 1.0f;
    p.temperature = 1e-30f;
    for (int i = 0; i < 20; i++) {
        uint32_t id = draw_one(&p, &s, logits12, VOCAB);
        assert_true(id == 1 || id == 3);
    }
    /* equal logits: top-k keeps the lower ids */
    float equal[9] = {0};
    p = plain();
    p.top_k = 3;
    bool seen[9] = {false};
    for (int i = 0; i < 200; i++) seen[draw_one(&p, &s, equal, 9)] = true;
    assert_true(seen[0] && seen[1] && seen[2]);
    for (int i = 3; i < 9; i++) assert_false(seen[i]);
    /* ... and so does top-p */
    p = plain();
    p.top_p = 0.3f; /* 0.3 * 9 = 2.7: three tokens */
    memset(seen, 0, sizeof seen);
    for (int i = 0; i < 200; i++) seen[draw_one(&p, &s, equal, 9)] = true;
    assert_true(seen[0] && seen[1] && seen[2]);
    for (int i = 3; i < 9; i++) assert_false(seen[i]);
}

static void test_penalty(void **state)
{
    (void)state;
    struct sample_params p = plain();
    struct sample_state s;
    sample_init(&s, 1);
    p.temperature = 0.0f;
    p.repeat_penalty = 1.5f;
    p.repeat_last = 2;
    char scratch[VOCAB * 16];
    assert_true(sample_scratch_bytes(VOCAB) <= sizeof scratch);
    static const int32_t history[] = {3, 1, 1, 1}; /* 1 is penalised once however often it occurs; 3 is too old */
    assert_int_equal(sample_token(&p, &s, logits12, VOCAB, history, 4, 4, scratch), 3);
    static const int32_t both[] = {1, 3}; /* 2.0 / 1.5 = 1.33 for both: 5 (1.5) wins */
    assert_int_equal(sample_token(&p, &s, logits12, VOCAB, both, 2, 2, scratch), 5);
    static const int32_t wild[] = {-1, INT32_MAX, INT32_MIN, 12};
    p.repeat_last = UINT32_MAX;
    assert_int_equal(sample_token(&p, &s, logits12, VOCAB, wild, 4, 4, scratch), 1);
    static const float negative[] = {-1.0f, -1.2f};
    static const int32_t first[] = {0};
    assert_int_equal(sample_token(&p, &s, negative, 2, first, 1, 1, scratch), 1); /* -1.5 < -1.2 */
}

/* Penalties of the answer and biases: greedy shows which logit became the largest, to the hundredth. */
static void test_answer_penalties_and_bias(void **state)
{
    (void)state;
    static const float two[] = {3.0f, 2.0f, -9.0f};
    static const int32_t history[] = {1, 0, 0, 0}; /* 1 is of the prompt, 0 was generated up to three times */
    char scratch[64];
    assert_true(sample_scratch_bytes(3) <= sizeof scratch);
    struct sample_state s;
    sample_init(&s, 1);
    for (size_t count = 0; count <= 3; count++)
        for (int frequency = -200; frequency <= 200; frequency += 25)
            for (int presence = -200; presence <= 200; presence += 25) {
                struct sample_params p = plain();
                p.temperature = 0.0f;
                p.frequency_penalty = (float)frequency / 100.0f;
                p.presence_penalty = (float)presence / 100.0f;
                const float zero = 3.0f - (float)count * p.frequency_penalty - (count ? p.presence_penalty : 0.0f);
                assert_int_equal(sample_token(&p, &s, two, 3, history, 1 + count, 1, scratch), zero >= 2.0f ? 0 : 1);
                /* nothing counts but the answer */
                assert_int_equal(sample_token(&p, &s, two, 3, history, 1 + count, 1 + count, scratch), 0);
            }
    static const struct sample_bias bias[] = {{2, 6.0f}, {2, 6.5f}, {-1, 5.0f}, {3, 5.0f}}; /* -9 + 12.5 = 3.5 */
    struct sample_params p = plain();
    p.temperature = 0.0f;
    p.bias = bias;
    p.n_bias = 1;
    assert_int_equal(sample_token(&p, &s, two, 3, history, 4, 1, scratch), 0);
    p.n_bias = 4;
    assert_int_equal(sample_token(&p, &s, two, 3, history, 4, 1, scratch), 2);
    static const int32_t third[] = {2, 2};
    p.repeat_penalty = 2.0f; /* of the biased logit, once: 1.75 */
    p.repeat_last = 64;
    assert_int_equal(sample_token(&p, &s, two, 3, third, 2, 2, scratch), 0);
    const uint64_t only = 6; /* 2.0 against 1.75: of the mask's tokens, ids as they were */
    assert_int_equal(sample_token_of(&p, &s, two, 3, &only, third, 2, 2, scratch), 1);
    p.presence_penalty = -2.0f;
    assert_int_equal(sample_token_of(&p, &s, two, 3, &only, third, 2, 0, scratch), 2);
    static const struct sample_bias wild[] = {{0, 101.0f}, {0, -101.0f}, {0, NAN}};
    struct sluice_error err;
    for (size_t i = 0; i < 3; i++) {
        p.bias = &wild[i];
        p.n_bias = 1;
        assert_int_equal(sample_check(&p, &err), SLUICE_ERR_USAGE);
        assert_non_null(strstr(err.message, "logit bias"));
    }
    static const float bad[] = {2.01f, -2.01f, NAN};
    for (size_t i = 0; i < 3; i++) {
        p = plain();
        p.presence_penalty = bad[i];
        assert_int_equal(sample_check(&p, &err), SLUICE_ERR_USAGE);
        assert_non_null(strstr(err.message, "presence_penalty"));
        p = plain();
        p.frequency_penalty = bad[i];
        assert_int_equal(sample_check(&p, &err), SLUICE_ERR_USAGE);
        assert_non_null(strstr(err.message, "frequency_penalty"));
    }
}

static void test_hostile_logits(void **state)
{
    (void)state;
    struct sample_state s;
    sample_init(&s, 3);
    float one[1] = {-5.0f};
    float lonely[100], extreme[4] = {3.0e38f, -3.0e38f, 3.0e38f, 0.0f};
    for (int i = 0; i < 100; i++) lonely[i] = -INFINITY;
    lonely[42] = -1000.0f;
    float nans[5] = {NAN, 1.0f, NAN, 0.5f, -INFINITY};
    for (uint32_t mask = 0; mask < 8; mask++) {
        struct sample_params p = plain();
        p.top_k = mask & 1 ? 50 : 0;
        p.top_p = mask & 2 ? 0.9f : 1.0f;
        p.min_p = mask & 4 ? 0.1f : 0.0f;
        assert_int_equal(draw_one(&p, &s, one, 1), 0);
        for (int i = 0; i < 50; i++) {
            assert_int_equal(draw_one(&p, &s, lonely, 100), 42);
            uint32_t id = draw_one(&p, &s, extreme, 4);
            assert_true(id == 0 || id == 2);
            id = draw_one(&p, &s, nans, 5);
            assert_true(id == 1 || id == 3);
        }
    }
    lonely[42] = -INFINITY; /* nothing can be chosen: the lowest id, without a crash */
    struct sample_params p = plain();
    assert_int_equal(draw_one(&p, &s, lonely, 100), 0);
    lonely[7] = INFINITY;
    assert_int_equal(draw_one(&p, &s, lonely, 100), 7);
}

/* Partial selection against full sorting in a large vocabulary with many ties. */
static void test_large_selection(void **state)
{
    (void)state;
    enum { N = 20000 };
    float *logits = malloc(N * sizeof *logits);
    void *scratch = malloc(sample_scratch_bytes(N));
    struct sample_state s;
    uint64_t x = 88172645463325252u;
    for (int i = 0; i < N; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        logits[i] = (float)(x % 512) / 64.0f;
    }
    struct sample_params p = plain();
    for (uint32_t k = 1; k <= 4096; k *= 4) {
        p.top_k = k;
        sample_init(&s, k);
        for (int i = 0; i < 20; i++) {
            uint32_t id = sample_token(&p, &s, logits, N, NULL, 0, 0, scratch);
            size_t before = 0;
            for (uint32_t j = 0; j < N; j++) before += logits[j] > logits[id] || (logits[j] == logits[id] && j < id);
            assert_true(before < k);
        }
    }
    p.top_k = 0;
    p.top_p = 0.25f;
    double sum = 0;
    for (int i = 0; i < N; i++) sum += exp((double)logits[i]);
    for (int i = 0; i < 50; i++) { /* the mass before a drawn token is less than top_p */
        uint32_t id = sample_token(&p, &s, logits, N, NULL, 0, 0, scratch);
        double before = 0;
        for (uint32_t j = 0; j < N; j++)
            if (logits[j] > logits[id] || (logits[j] == logits[id] && j < id)) before += exp((double)logits[j]);
        assert_true(before < 0.25 * sum * (1 + 1e-5));
    }
    free(scratch);
    free(logits);
}

/* The generators against their published first outputs; a change would change every seeded answer. */
static void test_seed_is_stable(void **state)
{
    (void)state;
    struct sample_state s, again;
    sample_init(&s, 0);
    assert_true(s.random[0] == UINT64_C(0xe220a8397b1dcdaf)); /* splitmix64's published first outputs for seed 0 */
    assert_true(s.random[1] == UINT64_C(0x6e789e6aa1b965f4));
    assert_true(s.random[2] == UINT64_C(0x06c45d188009454f));
    assert_true(s.random[3] == UINT64_C(0xf88bb8a8724c81ec));
    struct sample_params p = plain();
    float flat[64] = {0};
    /* xoshiro256** from state 1, 2, 3, 4: outputs 11520, 0, 1509978240, ...; 64 equal logits show the top 6 bits */
    static const uint64_t outputs[] = {11520,
                                       0,
                                       1509978240,
                                       1215971899390074240,
                                       1216172134540287360,
                                       607988272756665600,
                                       UINT64_C(16172922978634559625),
                                       8476171486693032832,
                                       UINT64_C(10595114339597558777),
                                       2904607092377533576};
    s = (struct sample_state){{1, 2, 3, 4}};
    for (size_t i = 0; i < 10; i++) assert_int_equal(draw_one(&p, &s, flat, 64), outputs[i] >> 58);
    sample_init(&s, 12345);
    sample_init(&again, 12345);
    size_t differs = 0;
    struct sample_state other;
    sample_init(&other, 12346);
    for (int i = 0; i < 100; i++) {
        uint32_t id = draw_one(&p, &s, flat, 64);
        assert_int_equal(id, draw_one(&p, &again, flat, 64));
        differs += id != draw_one(&p, &other, flat, 64);
    }
    assert_true(differs > 80);
}

/* A mask: nothing else is drawn, and what is drawn is as if the other tokens were not there. */
static void test_mask(void **state)
{
    (void)state;
    enum { N = 200 };
    float logits[N], few[N];
    uint64_t mask[(N + 63) / 64] = {0};
    uint32_t ids[N], n = 0;
    char scratch[N * 16];
    uint64_t x = 12345;
    assert_true(sample_scratch_bytes(N) <= sizeof scratch);
    for (uint32_t i = 0; i < N; i++) {
        x = x * UINT64_C(6364136223846793005) + 1442695040888963407u;
        logits[i] = (float)(x >> 40) / 2e6f;
        if (x >> 33 & 1) continue;
        mask[i / 64] |= UINT64_C(1) << i % 64;
        few[n] = logits[i];
        ids[n++] = i;
    }
    for (uint32_t how = 0; how < 16; how++) {
        struct sample_params p = plain();
        struct sample_state s, t;
        if (how & 1) p.temperature = how & 8 ? 0.0f : 2.0f;
        if (how & 2) p.top_k = 7;
        if (how & 4) p.top_p = 0.7f;
        sample_init(&s, how);
        sample_init(&t, how);
        for (int i = 0; i < 100; i++) {
            const uint32_t id = sample_token_of(&p, &s, logits, N, mask, NULL, 0, 0, scratch);
            assert_int_equal(id, ids[sample_token(&p, &t, few, n, NULL, 0, 0, scratch)]);
        }
    }
    memset(mask, 0, sizeof mask);
    mask[2] = 8;
    struct sample_params p = plain();
    struct sample_state s;
    sample_init(&s, 1);
    assert_int_equal(sample_token_of(&p, &s, logits, N, mask, NULL, 0, 0, scratch), 131);
}

static void test_check(void **state)
{
    (void)state;
    struct sample_params good = plain();
    struct sluice_error err;
    assert_int_equal(sample_check(&good, &err), SLUICE_OK);
    static const float bad[] = {-0.1f, NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < 4; i++) {
        struct sample_params p = good;
        p.temperature = bad[i];
        assert_int_equal(sample_check(&p, &err), SLUICE_ERR_USAGE);
        assert_non_null(strstr(err.message, "temperature"));
        p = good;
        p.top_p = bad[i];
        assert_int_equal(sample_check(&p, &err), SLUICE_ERR_USAGE);
        assert_non_null(strstr(err.message, "top_p"));
        p = good;
        p.min_p = bad[i];
        assert_int_equal(sample_check(&p, &err), SLUICE_ERR_USAGE);
        assert_non_null(strstr(err.message, "min_p"));
        p = good;
        p.repeat_penalty = bad[i];
        assert_int_equal(sample_check(&p, &err), SLUICE_ERR_USAGE);
        assert_non_null(strstr(err.message, "repeat_penalty"));
    }
    good.repeat_penalty = 0.0f;
    assert_int_equal(sample_check(&good, &err), SLUICE_ERR_USAGE);
    good = plain();
    good.top_p = 1.01f;
    assert_int_equal(sample_check(&good, &err), SLUICE_ERR_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_distribution),
        cmocka_unit_test(test_chi_square_sees_wrong_temperature),
        cmocka_unit_test(test_greedy_and_ties),
        cmocka_unit_test(test_penalty),
        cmocka_unit_test(test_answer_penalties_and_bias),
        cmocka_unit_test(test_hostile_logits),
        cmocka_unit_test(test_large_selection),
        cmocka_unit_test(test_seed_is_stable),
        cmocka_unit_test(test_check),
        cmocka_unit_test(test_mask),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
