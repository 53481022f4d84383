/* Elementary functions: near libm's results in higher precision, exact on edges, and golden bits, so that another
 * compiler or machine that computes something else is caught. */
#include "base/bits.h"
#include "base/math.h"

#include "golden_math.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static uint64_t seed = 7;

static double uniform(void) /* [-1, 1) */
{
    uint64_t z = seed += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (double)(int64_t)(z ^ z >> 31) * 0x1p-63;
}

/* |y - truth| in units in the last place of a float at truth */
static double ulps_f(float y, double truth)
{
    int e;
    frexp(truth, &e);
    if (e < -125) e = -125;
    return fabs((double)y - truth) / ldexp(1.0, e - 24);
}

static double ulps_d(double y, long double truth)
{
    int e;
    frexpl(truth, &e);
    if (e < -1021) e = -1021;
    return (double)(fabsl((long double)y - truth) / ldexpl(1.0L, e - 53));
}

static void near_f(const char *name, float x, float y, double truth, double bound)
{
    if (fabs(truth) > (double)FLT_MAX) return; /* edges are tested by themselves */
    if (!(ulps_f(y, truth) <= bound)) fail_msg("%s(%a) = %a, true %a", name, (double)x, (double)y, truth);
}

static void near_d(const char *name, double x, double y, long double truth, double bound)
{
    if (fabsl(truth) > (long double)DBL_MAX) return;
    if (!(ulps_d(y, truth) <= bound)) fail_msg("%s(%a) = %a, true %La", name, x, y, truth);
}

/* Every 5003rd float of each sign, which visits all exponents. */
static void test_float_functions(void **state)
{
    for (uint32_t bits = 0; bits < 0x7f800000; bits += 5003)
        for (int sign = 0; sign < 2; sign++) {
            float x = base_f32_of_bits(bits | (uint32_t)sign << 31);
            near_f("math_exp", x, math_exp(x), exp((double)x), 1.05);
            near_f("math_tanh", x, math_tanh(x), tanh((double)x), 1.5);
            if (!sign && bits) near_f("math_log", x, math_log(x), log((double)x), 0.52);
        }
}

/* Dense where models live, and around the reduction's turning points. */
static void test_float_functions_dense(void **state)
{
    for (int i = -400000; i <= 400000; i++) {
        float x = (float)i * (105.0f / 400000.0f);
        near_f("math_exp", x, math_exp(x), exp((double)x), 1.05);
        near_f("math_tanh", x * 0.1f, math_tanh(x * 0.1f), tanh((double)(x * 0.1f)), 1.5);
        float near_one = 1.0f + (float)i * 0x1p-22f;
        if (near_one > 0.0f) near_f("math_log", near_one, math_log(near_one), log((double)near_one), 0.52);
    }
    for (int n = -150; n <= 128; n++) {
        float x = (float)((n + 0.5) * 0.6931471805599453);
        for (int k = 0; k < 5; k++, x = nextafterf(x, INFINITY))
            near_f("math_exp", x, math_exp(x), exp((double)x), 1.05);
    }
}

static void test_float_edges(void **state)
{
    assert_true(math_exp(0.0f) == 1.0f && math_exp(-0.0f) == 1.0f);
    assert_true(math_exp(INFINITY) == INFINITY && math_exp(FLT_MAX) == INFINITY && math_exp(88.73f) == INFINITY);
    assert_true(isfinite(math_exp(88.72f)));
    assert_int_equal(base_bits_f32(math_exp(-INFINITY)), 0);
    assert_int_equal(base_bits_f32(math_exp(-FLT_MAX)), 0);
    assert_int_equal(base_bits_f32(math_exp(-103.98f)), 0);
    assert_int_equal(base_bits_f32(math_exp(-103.97f)), 1); /* the smallest subnormal */
    assert_true(math_exp(-87.5f) > 0.0f && math_exp(-87.5f) < FLT_MIN);
    assert_true(isnan(math_exp(NAN)) && isnan(math_tanh(NAN)) && isnan(math_log(NAN)));
    assert_int_equal(base_bits_f32(math_tanh(-0.0f)), 0x80000000);
    assert_true(math_tanh(INFINITY) == 1.0f && math_tanh(-INFINITY) == -1.0f && math_tanh(50.0f) == 1.0f);
    assert_true(math_tanh(1e-45f) == 1e-45f);
    assert_true(math_log(1.0f) == 0.0f && math_log(INFINITY) == INFINITY);
    assert_true(math_log(0.0f) == -INFINITY && math_log(-0.0f) == -INFINITY);
    assert_true(isnan(math_log(-1.0f)) && isnan(math_log(-INFINITY)));
}

#if LDBL_MANT_DIG >= 64
static void test_double_functions(void **state)
{
    for (int i = 0; i < 60000; i++) {
        double u = uniform();
        static const double reach[] = {1.0, 10.0, 1e4, 1e6, 0x1p30};
        for (int k = 0; k < 5; k++) {
            double x = u * reach[k];
            near_d("math_sin_d", x, math_sin_d(x), sinl((long double)x), 1.0);
            near_d("math_cos_d", x, math_cos_d(x), cosl((long double)x), 1.0);
        }
        near_d("math_exp_d", u, math_exp_d(u), expl((long double)u), 1.0);
        near_d("math_exp_d", u * 745.0, math_exp_d(u * 745.0), expl((long double)(u * 745.0)), 1.0);
        double a = ldexp(fabs(u), (int)(uniform() * 1020.0)), b = 1.0 + u * 0.4, c = fabs(u) * 0x1p-1030;
        near_d("math_log_d", a, math_log_d(a), logl((long double)a), 0.52);
        near_d("math_log_d", b, math_log_d(b), logl((long double)b), 0.52);
        if (c > 0.0) near_d("math_log_d", c, math_log_d(c), logl((long double)c), 0.52);
        double base = 10000.0 * (1.0 + floor(fabs(u) * 1000.0)), y = uniform();
        near_d("math_pow_d", base, math_pow_d(base, y), powl((long double)base, (long double)y), 1.0);
        near_d("math_pow_d", b, math_pow_d(b, y * 900.0), powl((long double)b, (long double)(y * 900.0)), 1.0);
    }
}

/* The doubles nearest to multiples of pi / 2, where the reduction cancels most. */
static void test_angles_near_zeros(void **state)
{
    for (int i = 0; i < 100000; i++) {
        long double n = floorl((long double)fabs(uniform()) * (i & 1 ? 0x1p29L : 2000.0L));
        double x = (double)(n * 1.57079632679489661923132169163975144L);
        near_d("math_sin_d", x, math_sin_d(x), sinl((long double)x), 1.0);
        near_d("math_cos_d", x, math_cos_d(x), cosl((long double)x), 1.0);
    }
}
#endif

static void test_double_edges(void **state)
{
    const double inf = (double)INFINITY, nan = (double)NAN;
    assert_true(base_bits_f64(math_sin_d(-0.0)) == base_bits_f64(-0.0) && math_sin_d(0.0) == 0.0);
    assert_true(math_cos_d(0.0) == 1.0 && math_cos_d(-0.0) == 1.0);
    assert_true(math_sin_d(5e-324) == 5e-324);
    assert_true(isnan(math_sin_d(0x1.0000000000001p30)) && isnan(math_cos_d(-0x1.0000000000001p30)));
    assert_true(isnan(math_sin_d(inf)) && isnan(math_cos_d(-inf)) && isnan(math_sin_d(nan)) && isnan(math_cos_d(nan)));
    assert_true(math_exp_d(0.0) == 1.0 && math_exp_d(709.79) == inf && math_exp_d(inf) == inf);
    assert_true(math_exp_d(-745.2) == 0.0 && math_exp_d(-745.1) == 5e-324 && math_exp_d(-inf) == 0.0);
    assert_true(isfinite(math_exp_d(709.78)) && isnan(math_exp_d(nan)));
    assert_true(math_log_d(1.0) == 0.0 && math_log_d(0.0) == -inf && math_log_d(inf) == inf);
    assert_true(isnan(math_log_d(-1.0)) && isnan(math_log_d(nan)));
    assert_true(math_pow_d(10.0, 0.0) == 1.0 && math_pow_d(1.0, 1e300) == 1.0 && math_pow_d(2.0, 10.0) == 1024.0);
    assert_true(math_pow_d(2.0, 1e300) == inf && math_pow_d(2.0, -1e300) == 0.0 && math_pow_d(0.5, inf) == 0.0);
    assert_true(math_pow_d(0.0, 2.0) == 0.0 && math_pow_d(0.0, -2.0) == inf);
    assert_true(math_pow_d(inf, 2.0) == inf && math_pow_d(inf, -2.0) == 0.0);
    assert_true(isnan(math_pow_d(-2.0, 2.0)) && isnan(math_pow_d(nan, 1.0)) && isnan(math_pow_d(2.0, nan)));
}

static void test_golden_bits(void **state)
{
    for (size_t i = 0; i < sizeof golden_float / sizeof golden_float[0]; i++) {
        const uint32_t *g = golden_float[i];
        float x = base_f32_of_bits(g[0]);
        uint32_t got[] = {base_bits_f32(math_exp(x)), base_bits_f32(math_tanh(x)), base_bits_f32(math_log(fabsf(x)))};
        for (int k = 0; k < 3; k++)
            if (got[k] != g[1 + k]) fail_msg("float row %zu, column %d: %08x, not %08x", i, k, got[k], g[1 + k]);
    }
    for (size_t i = 0; i < sizeof golden_double / sizeof golden_double[0]; i++) {
        const uint64_t *g = golden_double[i];
        double x = base_f64_of_bits(g[0]), a = fabs(x);
        uint64_t got[] = {base_bits_f64(math_sin_d(x)), base_bits_f64(math_cos_d(x)), base_bits_f64(math_exp_d(x)),
                          base_bits_f64(math_log_d(a)), base_bits_f64(math_pow_d(a, 0.75))};
        for (int k = 0; k < 5; k++)
            if (got[k] != g[1 + k])
                fail_msg("double row %zu, column %d: %016llx, not %016llx", i, k, (unsigned long long)got[k],
                         (unsigned long long)g[1 + k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_float_functions),
        cmocka_unit_test(test_float_functions_dense),
        cmocka_unit_test(test_float_edges),
        cmocka_unit_test(test_double_edges),
#if LDBL_MANT_DIG >= 64 /* else there is nothing more precise to compare with */
        cmocka_unit_test(test_double_functions),
        cmocka_unit_test(test_angles_near_zeros),
#endif
        cmocka_unit_test(test_golden_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
