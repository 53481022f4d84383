/* Half conversions, and the 16-lane float dot product against a transcription of README.md. */
#include "common.h"

#include "base/bits.h"

#include <math.h>
#include <string.h>

static void test_f16_every_half(void **state)
{
    for (uint32_t h = 0; h < 0x10000; h++) {
        uint32_t e = h >> 10 & 31, m = h & 1023;
        float f = quant_f16_to_f32((uint16_t)h);
        if (e == 31 && m) {
            assert_true(isnan(f));
            assert_int_equal(quant_f32_to_f16(f), h | 0x200); /* quiet, sign and payload kept */
            continue;
        }
        double v = e == 31 ? INFINITY : e ? ldexp(1024 + m, (int)e - 25) : ldexp(m, -24);
        if (h & 0x8000) v = -v;
        assert_true((double)f == v && !signbit(f) == !signbit(v));
        assert_int_equal(quant_f32_to_f16(f), h);
    }
}

/* Between neighbouring halves: just below the middle rounds down, the middle to even, just above rounds up. */
static void test_f16_rounding(void **state)
{
    for (uint32_t h = 0; h < 0x7bff; h++) {
        float a = quant_f16_to_f32((uint16_t)h), b = quant_f16_to_f32((uint16_t)(h + 1));
        float middle = a + (b - a) * 0.5f; /* exact */
        assert_int_equal(quant_f32_to_f16(middle), h + (h & 1));
        assert_int_equal(quant_f32_to_f16(nextafterf(middle, 0.0f)), h);
        assert_int_equal(quant_f32_to_f16(nextafterf(middle, INFINITY)), h + 1);
        assert_int_equal(quant_f32_to_f16(-middle), 0x8000 | (h + (h & 1)));
    }
    assert_int_equal(quant_f32_to_f16(65519.996f), 0x7bff);
    assert_int_equal(quant_f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(quant_f32_to_f16(3e38f), 0x7c00);
    assert_int_equal(quant_f32_to_f16(-INFINITY), 0xfc00);
    assert_int_equal(quant_f32_to_f16(1e-45f), 0);
    assert_int_equal(quant_f32_to_f16(-1e-45f), 0x8000);
    assert_int_equal(quant_f32_to_f16(base_f32_of_bits(0x7f800001)), 0x7e00); /* a NaN stays one */
}

static void test_bf16(void **state)
{
    for (uint32_t h = 0; h < 0x10000; h++) {
        float f = quant_bf16_to_f32((uint16_t)h);
        assert_int_equal(base_bits_f32(f), h << 16);
        assert_int_equal(quant_f32_to_bf16(f), isnan(f) ? h | 0x40 : h);
    }
    assert_int_equal(quant_f32_to_bf16(base_f32_of_bits(0x3f808000)), 0x3f80);
    assert_int_equal(quant_f32_to_bf16(base_f32_of_bits(0x3f818000)), 0x3f82);
    assert_int_equal(quant_f32_to_bf16(base_f32_of_bits(0x3f808001)), 0x3f81);
    assert_int_equal(quant_f32_to_bf16(base_f32_of_bits(0x7f7fffff)), 0x7f80); /* rounds to infinity */
    assert_int_equal(quant_f32_to_bf16(base_f32_of_bits(0x7fffffff)), 0x7fff);
    assert_int_equal(quant_f32_to_bf16(base_f32_of_bits(0xff800001)), 0xffc0);
}

/* Lane by lane, then the written-out tree. */
static float reference_dot(const float *a, const float *b, size_t n)
{
    float s[16];
    for (size_t lane = 0; lane < 16; lane++) {
        s[lane] = 0.0f;
        for (size_t i = lane; i < n; i += 16) s[lane] = fmaf(a[i], b[i], s[lane]);
    }
    float e[8];
    for (int i = 0; i < 8; i++) e[i] = s[i] + s[i + 8];
    float l = (e[0] + e[4]) + (e[2] + e[6]), r = (e[1] + e[5]) + (e[3] + e[7]);
    return l + r;
}

static void test_dot_lanes(void **state)
{
    enum { N = 300 };
    float a[N], b[N], w[N];
    uint8_t row[N * 4];
    uint64_t seed = 5;
    for (size_t i = 0; i < N; i++) {
        a[i] = rng_float(&seed) * ldexpf(1.0f, (int)(rng_next(&seed) % 20) - 10);
        b[i] = rng_float(&seed);
    }
    static const uint32_t ids[] = {QUANT_F32, QUANT_F16, QUANT_BF16};
    size_t differs = 0;
    for (size_t n = 0; n <= N; n++) {
        float sequential = 0.0f;
        for (size_t i = 0; i < n; i++) sequential = fmaf(a[i], b[i], sequential);
        float got = quant_dot_f32(a, b, n);
        assert_int_equal(base_bits_f32(got), base_bits_f32(reference_dot(a, b, n)));
        differs += got != sequential;
        for (size_t k = 0; k < 3; k++) {
            const struct quant_type *t = quant_type(ids[k]);
            struct quant_x x = {.x = b};
            t->encode(a, row, n);
            t->decode(row, w, n);
            assert_int_equal(base_bits_f32(t->dot(row, &x, n)), base_bits_f32(reference_dot(w, b, n)));
        }
    }
    assert_true(differs > N / 2); /* the order matters on this input, so the test sees it */
}

/* An odd address: rows of a file are aligned to nothing. */
static void test_unaligned(void **state)
{
    uint8_t bytes[1 + 4 * 40];
    float a[40], b[40], out[40];
    uint64_t seed = 9;
    for (size_t i = 0; i < 40; i++) a[i] = rng_float(&seed), b[i] = rng_float(&seed);
    const struct quant_type *t = quant_type(QUANT_F32);
    struct quant_x x = {.x = b};
    t->encode(a, bytes + 1, 40);
    t->decode(bytes + 1, out, 40);
    assert_memory_equal(a, out, sizeof a);
    assert_true(t->dot(bytes + 1, &x, 40) == quant_dot_f32(a, b, 40));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f16_every_half), cmocka_unit_test(test_f16_rounding), cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_dot_lanes),      cmocka_unit_test(test_unaligned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
