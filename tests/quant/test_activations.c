/* Activations to int8: the rule of README.md and its special cases. */
#include "common.h"

#include "base/bits.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define N 512

static float x[N], d[N / 16];
static int8_t q[N];
static int16_t sums[N / 16];

static void quantise(enum quant_form form)
{
    memset(q, 0x55, sizeof q);
    memset(d, 0x55, sizeof d);
    memset(sums, 0x55, sizeof sums);
    quant_activations(form, x, N, q, d, sums);
}

static void check_sums(void)
{
    for (size_t j = 0; j < N / 16; j++) {
        int sum = 0;
        for (size_t i = 0; i < 16; i++) sum += q[16 * j + i];
        assert_int_equal(sums[j], sum);
    }
}

static void test_rule(void **state)
{
    uint64_t seed = 1;
    for (int round = 0; round < 2000; round++) {
        float scale = ldexpf(1.0f, (int)(rng_next(&seed) % 240) - 119);
        for (size_t i = 0; i < N; i++) x[i] = rng_float(&seed) * scale;
        for (enum quant_form form = QUANT_FORM_32; form < QUANT_FORMS; form++) {
            size_t len = quant_form_len(form);
            quantise(form);
            for (size_t b = 0; b < N / len; b++) {
                float amax = 0.0f;
                for (size_t i = b * len; i < (b + 1) * len; i++) amax = fmaxf(amax, fabsf(x[i]));
                assert_true(d[b] == amax / 127.0f);
                float inverse = 127.0f / amax;
                for (size_t i = b * len; i < (b + 1) * len; i++) {
                    assert_int_equal(q[i], (int)rintf(x[i] * inverse));
                    assert_true(q[i] >= -127);
                }
            }
            check_sums();
        }
    }
}

static void test_ties_go_to_even(void **state)
{
    memset(x, 0, sizeof x);
    x[0] = 127.0f;
    for (int i = 1; i < 16; i++) x[i] = (float)i + 0.5f, x[16 + i] = -(float)i - 0.5f;
    quantise(QUANT_FORM_32);
    for (int i = 1; i < 16; i++) {
        assert_int_equal(q[i], i + (i & 1));
        assert_int_equal(q[16 + i], -(i + (i & 1)));
    }
}

static void test_never_128(void **state)
{
    uint64_t seed = 2;
    for (int round = 0; round < 20000; round++) {
        memset(x, 0, sizeof x);
        uint32_t bits = (uint32_t)(rng_next(&seed) % 0x7f800000);
        x[0] = base_f32_of_bits(bits | 0x80000000);
        x[1] = base_f32_of_bits(bits);
        quantise(QUANT_FORM_256);
        assert_true(q[0] == -127 || q[0] == 0);
        assert_int_equal(q[1], -q[0]);
        assert_true((q[0] == 0) == (d[0] == 0.0f));
    }
}

static void expect_zero_block(size_t first, size_t len)
{
    for (size_t i = first; i < first + len; i++) assert_int_equal(q[i], 0);
    for (size_t j = first / 16; j < (first + len) / 16; j++) assert_int_equal(sums[j], 0);
}

static void test_zero_tiny_huge(void **state)
{
    for (enum quant_form form = QUANT_FORM_32; form < QUANT_FORMS; form++) {
        size_t len = quant_form_len(form);
        static const float none[] = {0.0f, 1e-45f, 1e-38f, 3.7e-37f};
        for (size_t k = 0; k < 4; k++) {
            for (size_t i = 0; i < N; i++) x[i] = i & 1 ? none[k] : -none[k];
            quantise(form);
            for (size_t b = 0; b < N / len; b++) assert_true(base_bits_f32(d[b]) == 0);
            expect_zero_block(0, N);
        }
        static const float some[] = {3.8e-37f, 1.0f, FLT_MAX};
        for (size_t k = 0; k < 3; k++) {
            for (size_t i = 0; i < N; i++) x[i] = i & 1 ? some[k] : -some[k];
            quantise(form);
            assert_true(d[0] == some[k] / 127.0f && d[0] > 0.0f);
            for (size_t i = 0; i < N; i++) assert_int_equal(q[i], i & 1 ? 127 : -127);
            check_sums();
        }
    }
}

static void test_faults_show(void **state)
{
    const float faults[] = {NAN, -NAN, INFINITY, -INFINITY, base_f32_of_bits(0x7f800001)};
    uint64_t seed = 3;
    for (enum quant_form form = QUANT_FORM_32; form < QUANT_FORMS; form++)
        for (size_t k = 0; k < 5; k++) {
            size_t len = quant_form_len(form);
            for (size_t i = 0; i < N; i++) x[i] = rng_float(&seed);
            x[len + 7] = faults[k];
            quantise(form);
            for (size_t b = 0; b < N / len; b++) assert_int_equal(isnan(d[b]) != 0, b == 1);
            expect_zero_block(len, len);
            check_sums();
        }
}

static void test_float_form_needs_nothing(void **state)
{
    quant_activations(QUANT_FORM_FLOAT, x, 17, NULL, NULL, NULL);
    quant_activations(QUANT_FORM_32, NULL, 0, NULL, NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rule),        cmocka_unit_test(test_ties_go_to_even),
        cmocka_unit_test(test_never_128),   cmocka_unit_test(test_zero_tiny_huge),
        cmocka_unit_test(test_faults_show), cmocka_unit_test(test_float_form_needs_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
