/* Tiles under emulation: every thread that computes a product sets up its own and gives them up again, and products of
 * few tokens set up none. (That the results are right is the business of the programs that run on all levels.) */
#include "../util.h"
#include "tiles.h"

enum { N = 512, ROWS = 100, TOKENS = 40 };

static struct kernel_acts acts;
static uint8_t *w;
static float *out, *want;

static void check_product(uint32_t type, struct kernel_pool *pool, bool tiles)
{
    struct kernel_weight weight = {.type = quant_type(type), .data = w, .n_in = N, .n_out = ROWS};
    struct kernel_ctx k = {.table = level_table("amx"), .pool = pool};
    atomic_store(&kernel_amx_from_32, tiles ? TOKENS : TOKENS + 1);
    atomic_store(&kernel_amx_from_256, tiles ? TOKENS : TOKENS + 1);
    size_t before = emulated_tiles_begun();
    kernel_matmul(&k, &weight, NULL, &acts, out);
    assert_false(emulated_tiles_held());
    size_t begun = emulated_tiles_begun() - before;
    if (tiles)
        assert_true(begun > 0);
    else
        assert_int_equal(begun, 0);
    scalar_table()->product[type](w, ROWS, &acts, NULL, TOKENS, want, ROWS, NULL);
    expect_same(out, want, TOKENS * ROWS, quant_type(type)->name);
}

static void test_own_tiles(void **state)
{
    static const uint32_t types[] = {QUANT_Q4_K, QUANT_Q6_K, QUANT_Q8_0, QUANT_MXFP4};
    uint64_t seed = 11;
    float *x = must_alloc(TOKENS * N * sizeof *x);
    for (size_t i = 0; i < TOKENS * N; i++) x[i] = random_float(&seed);
    void *forms = aligned_alloc(64, kernel_acts_bytes(N, TOKENS));
    kernel_acts_place(&acts, x, N, TOKENS, forms);
    w = must_alloc(ROWS * N * 2);
    out = must_alloc(TOKENS * ROWS * sizeof *out);
    want = must_alloc(TOKENS * ROWS * sizeof *want);
    for (unsigned n_threads = 1; n_threads <= 3; n_threads += 2) {
        struct kernel_pool *pool;
        struct sluice_error err;
        assert_int_equal(kernel_pool_create(n_threads, &pool, &err), SLUICE_OK);
        struct kernel_ctx k = {.table = scalar_table(), .pool = pool};
        kernel_acts_fill(&k, &acts, QUANT_FORM_32);
        kernel_acts_fill(&k, &acts, QUANT_FORM_256);
        for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
            const struct quant_type *t = quant_type(types[i]);
            size_t bytes = ROWS * quant_row_bytes(t, N);
            for (size_t b = 0; b < bytes; b++) w[b] = (uint8_t)next_random(&seed);
            tame_scales(types[i], w, ROWS * N / t->block_len, &seed);
            check_product(types[i], pool, true);
            check_product(types[i], pool, false);
        }
        kernel_pool_destroy(pool);
    }
    free(x);
    free(forms);
    free(w);
    free(out);
    free(want);
}

/* Choosing the level measures from how many tokens on tiles are faster; it leaves one of the answers that there are. */
static void test_tune(void **state)
{
    void (*tune)(void) = level_table("amx")->tune;
    assert_non_null(tune);
    tune();
    size_t from[] = {atomic_load(&kernel_amx_from_32), atomic_load(&kernel_amx_from_256)};
    for (int i = 0; i < 2; i++)
        assert_true(from[i] == 4 || from[i] == 8 || from[i] == 16 || from[i] == 32 || from[i] == SIZE_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_tiles),
        cmocka_unit_test(test_tune),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
