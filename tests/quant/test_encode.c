/* Encoders: as good as llama.cpp's on the golden weights, bounded errors on seeded ones, sane on edges. */
#include "common.h"

#include "base/bits.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define N 4096

static const uint32_t ids[] = {QUANT_F32,  QUANT_F16,  QUANT_BF16,  QUANT_Q8_0, QUANT_Q4_0,
                               QUANT_Q4_K, QUANT_Q6_K, QUANT_TQ1_0, QUANT_TQ2_0};
#define N_IDS (sizeof ids / sizeof ids[0])

static float x[N], y[N];
static uint8_t blocks[N * 4];

/* Squared error of y against x over the square of x. */
static double relative_error(void)
{
    double error = 0.0, square = 0.0;
    for (size_t i = 0; i < N; i++) {
        error += ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
        square += (double)x[i] * x[i];
    }
    return error / square;
}

static double round_trip(const struct quant_type *t)
{
    t->encode(x, blocks, N);
    t->decode(blocks, y, N);
    return relative_error();
}

/* Below one where we search more than llama.cpp does. */
static void test_not_worse_than_llama(void **state)
{
    static const double ratio[N_IDS] = {1.0, 1.0, 1.0, 1.0, 0.978, 0.964, 0.943, 0.5, 0.5};
    for (size_t k = 0; k < N_IDS; k++) {
        const struct quant_type *t = quant_type(ids[k]);
        load_golden("F32", ".values.f32", x, sizeof x);
        load_golden(t->name, ".values.f32", y, sizeof y); /* llama.cpp's encoding of the same weights */
        double theirs = relative_error(), ours = round_trip(t);
        if (!(ours <= ratio[k] * theirs)) fail_msg("%s: error %g, llama.cpp %g", t->name, ours, theirs);
    }
}

/* For a normal distribution of weights. Uniform rounding gives step^2 / 12; the bounds leave a tenth above what is
 * reached, so a bit or a sub-block lost breaks them. */
static void test_error_bounds(void **state)
{
    static const double bound[N_IDS] = {0.0, 4.6e-8, 3.0e-6, 3.1e-5, 7.1e-3, 5.4e-3, 3.15e-4, 0.21, 0.21};
    uint64_t seed = 21;
    for (int scale = -8; scale <= 8; scale += 4)
        for (size_t k = 0; k < N_IDS; k++) {
            const struct quant_type *t = quant_type(ids[k]);
            for (size_t i = 0; i < N; i++) {
                float sum = 0.0f;
                for (int j = 0; j < 12; j++) sum += rng_float(&seed);
                x[i] = ldexpf(sum, scale) * 0.1f;
            }
            double error = round_trip(t);
            if (!(error <= bound[k])) fail_msg("%s at 2^%d: error %g, bound %g", t->name, scale, error, bound[k]);
        }
}

/* Values that are already on a format's grid come back almost exactly. (Not Q4_K: random blocks use scales of both
 * signs and minima that an encoder would not choose. Nor TQ2_0: random blocks hold the 2 that is never written.) */
static void test_grid_values_survive(void **state)
{
    uint64_t seed = 22;
    for (size_t k = 0; k < n_fields; k++) {
        const struct quant_type *t = quant_type(fields[k].id);
        if (!t->encode || t->id == QUANT_Q4_K || t->id == QUANT_TQ2_0) continue;
        random_blocks(t, &fields[k], N, blocks, &seed);
        t->decode(blocks, x, N);
        double error = round_trip(t);
        if (!(error <= 1e-4)) fail_msg("%s: error %g", t->name, error);
    }
}

static void fill_edge(int edge, uint64_t *seed)
{
    for (size_t i = 0; i < N; i++) {
        float r = rng_float(seed);
        switch (edge) {
        case 0: x[i] = 0.0f; break;
        case 1: x[i] = -0.0f; break;
        case 2: x[i] = 0.37f; break;
        case 3: x[i] = -0.37f; break;
        case 4: x[i] = r * FLT_MAX; break;
        case 5: x[i] = i & 1 ? FLT_MAX : -FLT_MAX; break;
        case 6: x[i] = r * 1e-40f; break;
        case 7: x[i] = r * 1e-7f; break;
        case 8: x[i] = r * FLT_MIN; break;
        case 9: x[i] = i % 256 == 77 ? r * 1e30f : 0.0f; break;
        case 10: x[i] = i % 32 == 5 ? 1e-45f : 0.0f; break;
        case 11: x[i] = i % 256 < 32 ? r * 1e5f : r * 1e-5f; break;
        case 12: x[i] = 10.0f + r; break;
        case 13: x[i] = -10.0f + r; break;
        case 14: x[i] = base_f32_of_bits((uint32_t)(rng_next(seed) >> 32) & 0xff7fffff); break;
        default: x[i] = base_f32_of_bits((uint32_t)(rng_next(seed) >> 32) & 0x807fffff); break;
        }
    }
}

#define EDGES 16

static void test_edges_are_finite(void **state)
{
    uint64_t seed = 23;
    for (size_t k = 0; k < N_IDS; k++) {
        const struct quant_type *t = quant_type(ids[k]);
        for (int edge = 0; edge < EDGES; edge++) {
            fill_edge(edge, &seed);
            t->encode(x, blocks, N);
            t->decode(blocks, y, N);
            for (size_t i = 0; i < N; i++) {
                bool fine = t->form == QUANT_FORM_FLOAT ? !isnan(y[i]) : isfinite(y[i]) != 0;
                if (!fine) fail_msg("%s edge %d: %a became %a", t->name, edge, (double)x[i], (double)y[i]);
                if (edge < 2) assert_true(y[i] == 0.0f);
            }
            if (edge == 2 || edge == 3) { /* constant blocks keep their value */
                for (size_t i = 0; i < N; i++) assert_true(fabsf(y[i] - x[i]) <= 0.004f * fabsf(x[i]));
            }
        }
    }
}

/* Too large for the scale: saturates with the right sign. Too small: zero. */
static void test_saturation(void **state)
{
    static const uint32_t block_ids[] = {QUANT_Q8_0, QUANT_Q4_0, QUANT_Q4_K, QUANT_Q6_K};
    for (size_t k = 0; k < 4; k++) {
        const struct quant_type *t = quant_type(block_ids[k]);
        for (size_t i = 0; i < N; i++) x[i] = i & 1 ? 1e30f : -1e30f;
        t->encode(x, blocks, N);
        t->decode(blocks, y, N);
        for (size_t i = 0; i < N; i++) assert_true(y[i] * x[i] > 0.0f && fabsf(y[i]) > 1e5f);
        for (size_t i = 0; i < N; i++) x[i] = i & 1 ? 1e-12f : -1e-12f;
        t->encode(x, blocks, N);
        t->decode(blocks, y, N);
        for (size_t i = 0; i < N; i++) assert_true(y[i] == 0.0f);
    }
}

static void test_faults_show(void **state)
{
    static const uint32_t block_ids[] = {QUANT_Q8_0, QUANT_Q4_0, QUANT_Q4_K, QUANT_Q6_K, QUANT_TQ1_0, QUANT_TQ2_0};
    uint64_t seed = 24;
    for (size_t k = 0; k < 6; k++) {
        const struct quant_type *t = quant_type(block_ids[k]);
        for (size_t i = 0; i < N; i++) x[i] = rng_float(&seed);
        x[t->block_len + 3] = k & 1 ? NAN : -INFINITY;
        t->encode(x, blocks, N);
        t->decode(blocks, y, N);
        for (size_t i = 0; i < N; i++) assert_int_equal(isnan(y[i]) != 0, i / t->block_len == 1);
    }
}

/* README.md fixes Q8_0 to the bit, because vector versions write it into the KV cache. */
static void test_q8_0_rule(void **state)
{
    uint64_t seed = 25;
    const struct quant_type *t = quant_type(QUANT_Q8_0);
    for (int edge = -1; edge < EDGES; edge++) {
        if (edge < 0)
            for (size_t i = 0; i < N; i++) x[i] = rng_float(&seed);
        else
            fill_edge(edge, &seed);
        t->encode(x, blocks, N);
        for (size_t b = 0; b < N / 32; b++) {
            const uint8_t *p = blocks + 34 * b;
            float amax = 0.0f;
            for (size_t i = 0; i < 32; i++) amax = fmaxf(amax, fabsf(x[32 * b + i]));
            uint16_t h = quant_f32_to_f16(fminf(amax / 127.0f, 65504.0f));
            assert_int_equal(p[0] | p[1] << 8, h);
            for (size_t i = 0; i < 32; i++) {
                int expected = 0;
                if (h)
                    expected = (int)rintf(fmaxf(-127.0f, fminf(127.0f, x[32 * b + i] * (1.0f / quant_f16_to_f32(h)))));
                assert_int_equal((int8_t)p[2 + i], expected);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_not_worse_than_llama),
        cmocka_unit_test(test_error_bounds),
        cmocka_unit_test(test_grid_values_survive),
        cmocka_unit_test(test_edges_are_finite),
        cmocka_unit_test(test_saturation),
        cmocka_unit_test(test_faults_show),
        cmocka_unit_test(test_q8_0_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
