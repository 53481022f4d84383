/* The type table, and every format's values against llama.cpp's (tests/golden/README.md). */
#include "common.h"

#include "base/bits.h"
#include "quant/iq_tables.h"

#include <stdlib.h>
#include <string.h>

#define GOLDEN_VALUES 4096

static void test_values_match_golden(void **state)
{
    static float golden[GOLDEN_VALUES], got[GOLDEN_VALUES];
    static uint8_t blocks[GOLDEN_VALUES * 4];
    for (size_t i = 0; i < n_fields; i++) {
        const struct quant_type *t = quant_type(fields[i].id);
        assert_non_null(t);
        load_golden(t->name, ".bin", blocks, quant_row_bytes(t, GOLDEN_VALUES));
        load_golden(t->name, ".values.f32", golden, sizeof golden);
        t->decode(blocks, got, GOLDEN_VALUES);
        double sum = 0.0;
        for (size_t k = 0; k < GOLDEN_VALUES; k++) {
            /* One unit in the last place is allowed by the golden files; we promise their very bits (README.md). */
            if (base_bits_f32(got[k]) != base_bits_f32(golden[k]))
                fail_msg("%s: value %zu is %a, not %a", t->name, k, (double)got[k], (double)golden[k]);
            sum += (double)golden[k] * (double)golden[k];
        }
        assert_true(sum > 1.0); /* the file is not empty of meaning */
    }
}

/* FNV-1a over the bits of the values of 1024 random blocks: every index of a grid, every pattern of signs and every
 * scale comes up. The hashes are llama.cpp's (tools/golden/decode_hashes.py). */
static const struct {
    uint32_t id;
    uint64_t hash;
} decoded[] = {
    {QUANT_IQ1_S, 0x5c90f3181564f759},  {QUANT_IQ1_M, 0xf9a2ee3be196e319}, {QUANT_IQ2_XXS, 0x7ccd4fdc5c0543a6},
    {QUANT_IQ2_XS, 0xbf6a33c323bb4068}, {QUANT_IQ2_S, 0x91398fcd6fb880cf}, {QUANT_IQ3_XXS, 0xb675694add9c35d0},
    {QUANT_IQ3_S, 0x93f518e5e5d0fdb1},  {QUANT_TQ1_0, 0xca7bfd10a27579b5}, {QUANT_TQ2_0, 0xf3127ad7849a5775},
    {QUANT_NVFP4, 0x6db8b7c7e4d2a857},
};

static void test_random_blocks_match_llama(void **state)
{
    enum { BLOCKS = 1024 };
    for (size_t k = 0; k < sizeof decoded / sizeof decoded[0]; k++) {
        const struct quant_type *t = quant_type(decoded[k].id);
        const struct field *f = fields;
        while (f->id != t->id) f++;
        uint64_t seed = 1000 + t->id, hash = 0xcbf29ce484222325;
        for (size_t b = 0; b < BLOCKS; b++) {
            uint8_t block[256];
            float values[256];
            for (size_t i = 0; i < t->block_bytes; i++) block[i] = (uint8_t)(rng_next(&seed) >> 56);
            if (t->id != QUANT_NVFP4) set_scales(f, block, f->unit, 0.0f);
            t->decode(block, values, t->block_len);
            for (size_t i = 0; i < 4 * t->block_len; i++)
                hash = (hash ^ (base_bits_f32(values[i / 4]) >> (i % 4 * 8) & 0xff)) * 0x100000001b3;
        }
        if (hash != decoded[k].hash) fail_msg("%s: values of random blocks differ from llama.cpp's", t->name);
    }
}

/* The bounds that the kernels' proofs rest on. */
static void test_grids(void **state)
{
    uint64_t top2 = 0, top3 = 0, top3s = 0, top1 = 0;
#define SCAN(grid, bits, top)                                      \
    for (size_t i = 0; i < sizeof grid / sizeof grid[0]; i++)      \
        for (size_t at = 0; at < 8 * sizeof grid[0]; at += bits) { \
            uint64_t v = grid[i] >> at & ((1u << bits) - 1);       \
            if (v > top) top = v;                                  \
        }
    SCAN(quant_iq2xxs_grid, 8, top2)
    SCAN(quant_iq2xs_grid, 8, top2)
    SCAN(quant_iq2s_grid, 8, top2)
    SCAN(quant_iq3xxs_grid, 8, top3)
    SCAN(quant_iq3s_grid, 8, top3s)
    SCAN(quant_iq1_grid, 4, top1)
#undef SCAN
    assert_int_equal(top2, 43);
    assert_int_equal(top3, 62);
    assert_int_equal(top3s, 15);
    assert_int_equal(top1, 2);
}

static void test_rows_agree_with_shapes(void **state)
{
    size_t computable = 0, named = 0;
    for (uint32_t id = 0; id < 1000; id++) {
        const struct quant_type *t = quant_type(id);
        const char *name = quant_type_name(id);
        uint32_t len = 0, bytes = 0;
        bool shape = quant_type_shape(id, &len, &bytes);
        named += name != NULL;
        if (shape) {
            assert_non_null(name);
            assert_true(len > 0 && bytes > 0);
        } else {
            assert_true(len == 0 && bytes == 0);
        }
        if (!t) continue;
        computable++;
        assert_true(shape && id < QUANT_IDS);
        assert_int_equal(t->id, id);
        assert_string_equal(t->name, name);
        assert_int_equal(t->block_len, len);
        assert_int_equal(t->block_bytes, bytes);
        assert_int_equal(len, t->form == QUANT_FORM_16 ? 64 : quant_form_len(t->form));
        assert_ptr_equal(quant_type_by_name(name), t);
        assert_int_equal(quant_row_bytes(t, 512), 512 / len * bytes);
    }
    assert_int_equal(computable, n_fields);
    assert_true(named > 90);
}

static void test_names(void **state)
{
    assert_ptr_equal(quant_type_by_name("q4_k"), quant_type(QUANT_Q4_K));
    assert_ptr_equal(quant_type_by_name("Bf16"), quant_type(QUANT_BF16));
    assert_null(quant_type_by_name("Q4_K_M")); /* a preset, not a type */
    assert_null(quant_type_by_name(""));
    assert_null(quant_type_by_name("Q1_0"));
    assert_null(quant_type(41));
    assert_string_equal(quant_type_name(41), "Q1_0");
    assert_string_equal(quant_type_name(19), "IQ1_S");
    assert_string_equal(quant_type_name(34), "TQ1_0");
    assert_string_equal(quant_type_name(40), "NVFP4");
    assert_string_equal(quant_type_name(139), "IQ4_K"); /* the fork's */
    assert_string_equal(quant_type_name(212), "Q4_K_R4");
    assert_null(quant_type_name(43));
    assert_null(quant_type_name(200));
    assert_null(quant_type_name(UINT32_MAX));
    assert_null(quant_type(UINT32_MAX));
}

static void test_shapes_of_others(void **state)
{
    static const struct {
        uint32_t id, len, bytes;
    } expected[] = {{16, 256, 66}, {17, 256, 74}, {18, 256, 98}, {19, 256, 50}, {21, 256, 110},
                    {22, 256, 82}, {26, 1, 4},    {28, 1, 8},    {29, 256, 56}, {34, 256, 54},
                    {35, 256, 66}, {40, 64, 36},  {41, 128, 18}, {42, 64, 18}};
    uint32_t len, bytes;
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        assert_true(quant_type_shape(expected[i].id, &len, &bytes));
        assert_int_equal(len, expected[i].len);
        assert_int_equal(bytes, expected[i].bytes);
    }
    assert_false(quant_type_shape(139, &len, &bytes));
    assert_false(quant_type_shape(99999, &len, &bytes));
}

/* The OCP format's corner: tiny exponents are subnormal scales, 255 is ggml's 2^127. */
static void test_mxfp4_exponents(void **state)
{
    const struct quant_type *t = quant_type(QUANT_MXFP4);
    uint8_t block[17] = {0};
    float out[32];
    block[1] = 0x21; /* value 0: doubled 1; value 16: doubled 2 */
    static const struct {
        uint8_t e;
        float one;
    } expected[] = {{0, 0x1p-128f}, {1, 0x1p-127f},  {2, 0x1p-126f}, {127, 0.5f},
                    {128, 1.0f},    {254, 0x1p126f}, {255, 0x1p127f}};
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        block[0] = expected[i].e;
        t->decode(block, out, 32);
        assert_true(out[0] == expected[i].one);
        if (expected[i].e < 255) assert_true(out[16] == 2.0f * expected[i].one);
    }
}

/* UE4M3, halved: subnormals, normal ones, the NaN that ggml reads as 0, and the bit that nobody looks at. */
static void test_nvfp4_scales(void **state)
{
    const struct quant_type *t = quant_type(QUANT_NVFP4);
    static const struct {
        uint8_t byte;
        float one;
    } expected[] = {{0x00, 0.0f},   {0x01, 0x1p-10f}, {0x07, 0x1.cp-8f}, {0x08, 0x1p-7f}, {0x40, 1.0f},  {0x41, 1.125f},
                    {0x7e, 224.0f}, {0x7f, 0.0f},     {0x80, 0.0f},      {0xc0, 1.0f},    {0xff, 240.0f}};
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        uint8_t block[36] = {0};
        float out[64];
        block[2] = expected[i].byte;
        block[4 + 16 + 3] = 0x91; /* sub-block 2, values 3 and 11: doubled 1 and -1 */
        t->decode(block, out, 64);
        for (size_t k = 0; k < 64; k++) {
            float want = k == 35 ? expected[i].one : k == 43 ? -expected[i].one : 0.0f;
            assert_true(out[k] == want);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_match_golden),
        cmocka_unit_test(test_random_blocks_match_llama),
        cmocka_unit_test(test_grids),
        cmocka_unit_test(test_rows_agree_with_shapes),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_shapes_of_others),
        cmocka_unit_test(test_mxfp4_exponents),
        cmocka_unit_test(test_nvfp4_scales),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
