/* The integer dot products: bit by bit against a transcription of the contract that takes each block's integers out of
 * decode, near the double product of decoded values, against golden hashes, and with any bytes whatever. */
#include "common.h"

#include "base/bits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define N 2048

static uint8_t row[N * 4];
static float x[N], xd[N / 16], w[N];
static int8_t xq[N];
static int16_t xsums[N / 16];

static struct quant_x activations(enum quant_form form)
{
    if (form != QUANT_FORM_FLOAT) quant_activations(form, x, N, xq, xd, xsums);
    return (struct quant_x){.x = x, .q = xq, .d = xd, .sums = xsums};
}

static void random_activations(uint64_t *seed)
{
    for (size_t i = 0; i < N; i++) x[i] = rng_float(seed) * (i % 64 == 3 ? 8.0f : 1.0f);
}

/* Sum of (decoded value) * q over one block; the scales were set so that values are integers. */
static int64_t block_sum(const struct quant_type *t, const uint8_t *block, size_t sub, const int8_t *q)
{
    float values[256];
    int64_t sum = 0;
    size_t len = quant_form_len(t->form);
    t->decode(block, values, t->block_len);
    for (size_t i = 0; i < len; i++) {
        float v = values[sub * len + i];
        assert_true(v == rintf(v));
        sum += (int64_t)v * q[i];
    }
    return sum;
}

static float reference(const struct quant_type *t, const struct field *f, const struct quant_x *a)
{
    float acc = 0.0f;
    size_t len = quant_form_len(t->form), subs = t->block_len / len; /* of a block in the file: 1, NVFP4: 4 */
    for (size_t b = 0; b < N / len; b++) {
        uint8_t block[256];
        const int8_t *q = a->q + b * len;
        memcpy(block, row + b / subs * t->block_bytes, t->block_bytes);
        float d = get_d(f, block, b % subs), min = get_min(f, block);
        set_scales(f, block, 1.0f, 0.0f);
        int64_t main_sum = block_sum(t, block, b % subs, q);
        assert_true(llabs(main_sum) <= INT32_MAX);
        acc = fmaf(d * a->d[b], (float)main_sum, acc);
        if (f->min < 0) continue;
        set_scales(f, block, 0.0f, 1.0f);
        int64_t min_sum = block_sum(t, block, 0, q); /* its sign is the format's: + m or - dmin */
        acc = fmaf(f->min_sign * min * a->d[b], (float)(min_sum * (int)f->min_sign), acc);
    }
    return acc;
}

static void test_contract_to_the_bit(void **state)
{
    uint64_t seed = 11;
    for (size_t k = 0; k < n_fields; k++) {
        const struct quant_type *t = quant_type(fields[k].id);
        if (t->form == QUANT_FORM_FLOAT) continue; /* test_float.c */
        for (int round = 0; round < 50; round++) {
            random_blocks(t, &fields[k], N, row, &seed);
            random_activations(&seed);
            struct quant_x a = activations(t->form);
            float got = t->dot(row, &a, N), expected = reference(t, &fields[k], &a);
            if (base_bits_f32(got) != base_bits_f32(expected))
                fail_msg("%s: %a, by the contract %a", t->name, (double)got, (double)expected);
        }
    }
}

static void test_near_the_true_product(void **state)
{
    uint64_t seed = 12;
    for (size_t k = 0; k < n_fields; k++) {
        const struct quant_type *t = quant_type(fields[k].id);
        random_blocks(t, &fields[k], N, row, &seed);
        random_activations(&seed);
        struct quant_x a = activations(t->form);
        t->decode(row, w, N);
        double truth = 0.0, ww = 0.0;
        for (size_t i = 0; i < N; i++) {
            truth += (double)w[i] * x[i];
            ww += (double)w[i] * w[i];
        }
        /* An activation is off by d / 2 at most, uniformly: d / sqrt 12 each, five sigma; d <= 8 / 127. */
        double bound = t->form == QUANT_FORM_FLOAT ? 1e-4 : 5.0 * sqrt(ww / 12.0) * 8.0 / 127.0;
        double got = (double)t->dot(row, &a, N);
        if (!(fabs(got - truth) <= bound)) fail_msg("%s: %g, true %g, bound %g", t->name, got, truth, bound);
        assert_true(sqrt(ww) > 10.0 * bound / sqrt(N)); /* the bound is not trivial */
    }
}

/* The largest integers that any bytes can give, with q = -128 everywhere (activations never are): exact, no overflow.
 */
static void test_extreme_integers(void **state)
{
    static const uint8_t fills[] = {0x00, 0x7f, 0x80, 0xff, 0x0f, 0xf0};
    static const int qs[] = {-128, 127, -127};
    for (size_t k = 0; k < n_fields; k++) {
        const struct quant_type *t = quant_type(fields[k].id);
        if (t->form == QUANT_FORM_FLOAT) continue;
        for (size_t fill = 0; fill < sizeof fills; fill++)
            for (size_t side = 0; side < 3; side++) {
                memset(row, fills[fill], sizeof row);
                for (size_t b = 0; b < N / t->block_len; b++)
                    set_scales(&fields[k], row + b * t->block_bytes, 0.25f, 0.5f);
                for (size_t b = 0; b < N / 16; b++) xd[b] = 1.0f;
                for (size_t i = 0; i < N; i++) xq[i] = (int8_t)qs[side];
                for (size_t j = 0; j < N / 16; j++) xsums[j] = (int16_t)(16 * qs[side]);
                struct quant_x a = {.x = x, .q = xq, .d = xd, .sums = xsums};
                assert_int_equal(base_bits_f32(t->dot(row, &a, N)), base_bits_f32(reference(t, &fields[k], &a)));
            }
    }
}

/* FNV-1a over the bits of 64 results of rows of seeded bytes. A change here is a change of the contract: it needs a
 * decision and a line in the changelog, not a new number. */
static const struct {
    uint32_t id;
    uint64_t hash;
} golden[] = {
    {QUANT_F32, 0x049a0da50e8fb128},     {QUANT_F16, 0x31bdf133adfc40a4},    {QUANT_BF16, 0xc19e9711a758b613},
    {QUANT_Q4_0, 0x8f71e698ad87b843},    {QUANT_Q4_1, 0xda7a7d20303861c6},   {QUANT_Q5_0, 0x0842bbe148732ebf},
    {QUANT_Q5_1, 0x903de1eef69c56ee},    {QUANT_Q8_0, 0x038ea6da7bc8b631},   {QUANT_Q2_K, 0xb58a9ab0f5a83380},
    {QUANT_Q3_K, 0xe9824196304879f5},    {QUANT_Q4_K, 0xe4d9302190bd501e},   {QUANT_Q5_K, 0xedc4f66d10d038e5},
    {QUANT_Q6_K, 0x9bf7f84e0f8fc358},    {QUANT_IQ4_NL, 0x9a6198dc2c6e3589}, {QUANT_IQ4_XS, 0x1d2a71816a2f0fdb},
    {QUANT_MXFP4, 0x1e77746dc7cc7a49},   {QUANT_IQ1_S, 0xb6656183baadfc7b},  {QUANT_IQ1_M, 0x7d36d03e59a15b80},
    {QUANT_IQ2_XXS, 0x73b07e0e8582246f}, {QUANT_IQ2_XS, 0x7c8d1805d5d3da88}, {QUANT_IQ2_S, 0x73d9e13c88261a06},
    {QUANT_IQ3_XXS, 0xf04a8fa8a328b4d3}, {QUANT_IQ3_S, 0xdff4c6c7a808ab42},  {QUANT_TQ1_0, 0xbff426e1b50da66b},
    {QUANT_TQ2_0, 0xea8a78a2f6e49fc0},   {QUANT_NVFP4, 0xa99a8cbdb6fc5dac},
};

static void test_golden_hashes(void **state)
{
    assert_int_equal(sizeof golden / sizeof golden[0], n_fields);
    size_t wrong = 0;
    for (size_t k = 0; k < n_fields; k++) {
        const struct quant_type *t = quant_type(golden[k].id);
        uint64_t seed = 100 + golden[k].id, hash = 0xcbf29ce484222325;
        assert_int_equal(fields[k].id, golden[k].id);
        for (int round = 0; round < 64; round++) {
            random_blocks(t, &fields[k], N, row, &seed);
            random_activations(&seed);
            struct quant_x a = activations(t->form);
            uint32_t bits = base_bits_f32(t->dot(row, &a, N));
            for (int i = 0; i < 4; i++) hash = (hash ^ (bits >> (8 * i) & 0xff)) * 0x100000001b3;
        }
        if (hash == golden[k].hash) continue;
        print_error("{QUANT_%s, 0x%016llx},\n", t->name, (unsigned long long)hash);
        wrong++;
    }
    assert_int_equal(wrong, 0);
}

static void test_faults_propagate(void **state)
{
    uint64_t seed = 13;
    for (size_t k = 0; k < n_fields; k++) {
        const struct quant_type *t = quant_type(fields[k].id);
        random_blocks(t, &fields[k], N, row, &seed);
        random_activations(&seed);
        x[N / 2] = k & 1 ? INFINITY : NAN;
        struct quant_x a = activations(t->form);
        float y = t->dot(row, &a, N);
        assert_true(t->form == QUANT_FORM_FLOAT ? !isfinite(y) : isnan(y));
    }
}

/* Any bytes: no undefined behaviour (sanitizers watch), nothing read outside (exact allocation), pure. */
static void test_any_bytes(void **state)
{
    uint64_t seed = 14;
    for (size_t k = 0; k < n_fields; k++) {
        const struct quant_type *t = quant_type(fields[k].id);
        size_t bytes = quant_row_bytes(t, 512);
        uint8_t *exact = malloc(bytes);
        float *out = malloc(512 * sizeof *out);
        assert_non_null(exact);
        assert_non_null(out);
        random_activations(&seed);
        struct quant_x a = activations(t->form);
        for (int round = 0; round < 300; round++) {
            for (size_t i = 0; i < bytes; i++) exact[i] = (uint8_t)(rng_next(&seed) >> (round % 3 ? 56 : 60) & 0xff);
            if (round < 4) memset(exact, round * 0x55, bytes);
            t->decode(exact, out, 512);
            float one = t->dot(exact, &a, 512), two = t->dot(exact, &a, 512);
            assert_true(base_bits_f32(one) == base_bits_f32(two) || (isnan(one) && isnan(two)));
        }
        free(exact);
        free(out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_contract_to_the_bit), cmocka_unit_test(test_near_the_true_product),
        cmocka_unit_test(test_extreme_integers),    cmocka_unit_test(test_golden_hashes),
        cmocka_unit_test(test_faults_propagate),    cmocka_unit_test(test_any_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
