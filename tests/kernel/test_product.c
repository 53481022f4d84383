/* Every product of every level against the scalar one, to the bit, at awkward shapes and with hostile bytes. */
#include "util.h"

#define ROWS_MAX 17
#define TOKENS_MAX 33

enum weights { TAME, WILD, FILLED, N_WEIGHTS };
enum inputs { NORMAL, ONES, SIGNS, HUGE_X, TINY_X, BROKEN, N_INPUTS };

static const char *const weights_names[] = {"tame", "wild", "filled"};
static const char *const inputs_names[] = {"normal", "ones", "signs", "huge", "tiny", "broken"};

static void fill_weights(enum weights kind, uint32_t type, uint8_t *w, size_t n_blocks, uint64_t *seed)
{
    static const uint8_t bytes[] = {0xff, 0x80, 0x7f, 0x00, 0x88, 0x0f, 0xf0};
    const struct quant_type *t = quant_type(type);
    for (size_t i = 0; i < n_blocks * t->block_bytes; i++) w[i] = (uint8_t)next_random(seed);
    if (kind == FILLED)
        for (size_t b = 0; b < n_blocks; b++)
            memset(w + b * t->block_bytes, bytes[next_random(seed) % sizeof bytes], t->block_bytes);
    if (kind != WILD) tame_scales(type, w, n_blocks, seed);
}

static void fill_inputs(enum inputs kind, float *x, size_t n, uint64_t *seed)
{
    for (size_t i = 0; i < n; i++) {
        float r = random_float(seed);
        uint64_t bit = next_random(seed) & 1;
        switch (kind) {
        case NORMAL: x[i] = r; break;
        case ONES: x[i] = 1.0f; break;
        case SIGNS: x[i] = bit ? 1.0f : -1.0f; break;
        case HUGE_X: x[i] = r * 1e38f; break;
        case TINY_X: x[i] = r * 1e-38f; break;
        case BROKEN:
            x[i] = r;
            if (next_random(seed) % 97 == 0) x[i] = bit ? NAN : INFINITY;
            break;
        case N_INPUTS: break;
        }
    }
}

/* One weight matrix and one set of activations, and what the scalar table makes of them. */
struct bench {
    uint32_t type;
    size_t n, row_bytes;
    uint8_t *memory, *w;
    float *x;
    void *forms;
    struct kernel_acts acts;
    float expected[TOKENS_MAX][ROWS_MAX];
};

static void bench_make(struct bench *b, uint32_t type, size_t n, enum weights kind, enum inputs inputs, size_t offset,
                       uint64_t *seed)
{
    const struct quant_type *t = quant_type(type);
    *b = (struct bench){.type = type, .n = n, .row_bytes = quant_row_bytes(t, n)};
    /* the last row ends where the allocation ends, so that a sanitizer sees a read beyond it */
    b->memory = must_alloc(ROWS_MAX * b->row_bytes + offset);
    b->w = b->memory + offset;
    fill_weights(kind, type, b->w, ROWS_MAX * n / t->block_len, seed);
    b->x = must_alloc(TOKENS_MAX * n * sizeof *b->x);
    fill_inputs(inputs, b->x, TOKENS_MAX * n, seed);
    size_t bytes = kernel_acts_bytes(n, TOKENS_MAX);
    b->forms = aligned_alloc(64, bytes ? bytes : 64);
    kernel_acts_place(&b->acts, b->x, n, TOKENS_MAX, b->forms);
    if (t->form != QUANT_FORM_FLOAT)
        scalar_table()->quantize(t->form, b->x, TOKENS_MAX * n, b->acts.q[t->form], b->acts.d[t->form],
                                 b->acts.sums[t->form]);
    scalar_table()->product[type](b->w, ROWS_MAX, &b->acts, NULL, TOKENS_MAX, b->expected[0], ROWS_MAX, NULL);
}

static void bench_free(struct bench *b)
{
    free(b->memory);
    free(b->x);
    free(b->forms);
}

#define GUARD 12345.0f

static void check(const struct bench *b, const struct kernel_table *t, size_t n_rows, size_t n_tokens, bool shuffled,
                  const char *what)
{
    const size_t stride = ROWS_MAX + 3;
    float out[TOKENS_MAX][ROWS_MAX + 3];
    uint32_t tokens[TOKENS_MAX], out_rows[TOKENS_MAX];
    for (size_t j = 0; j < TOKENS_MAX; j++) {
        tokens[j] = (uint32_t)(shuffled ? (j * 5 + 2) % TOKENS_MAX : j);
        out_rows[j] = (uint32_t)(shuffled ? TOKENS_MAX - 1 - j : j);
        for (size_t r = 0; r < stride; r++) out[j][r] = GUARD;
    }
    t->product[b->type](b->w, n_rows, &b->acts, shuffled ? tokens : NULL, n_tokens, out[0], stride,
                        shuffled ? out_rows : NULL);
    size_t n_guards = 0;
    for (size_t j = 0; j < TOKENS_MAX; j++)
        for (size_t r = 0; r < stride; r++) n_guards += out[j][r] == GUARD;
    for (size_t j = 0; j < n_tokens; j++)
        for (size_t r = 0; r < n_rows; r++) {
            float got = out[out_rows[j]][r], want = b->expected[tokens[j]][r];
            if (!same_bits(got, want))
                fail_msg("%s: %zu rows, %zu tokens%s: row %zu token %zu: %a, not %a", what, n_rows, n_tokens,
                         shuffled ? " shuffled" : "", r, j, (double)got, (double)want);
            n_guards += got == GUARD; /* never; the sum below would notice */
        }
    if (n_guards != TOKENS_MAX * stride - n_rows * n_tokens)
        fail_msg("%s: %zu rows, %zu tokens: wrote elsewhere", what, n_rows, n_tokens);
}

/* Fewer combinations: under a sanitizer or an emulated processor each step costs ten times as much. */
static bool compact(void) { return getenv("SLUICE_TEST_COMPACT") != NULL; }

static void check_shapes(const struct bench *b, const struct kernel_table *t, const char *what)
{
    static const size_t tokens[] = {1, 2, 3, 7, 8, 9, 31, 33};
    for (size_t n_rows = 1; n_rows <= ROWS_MAX; n_rows += compact() && n_rows >= 9 ? 4 : 1)
        for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++) {
            check(b, t, n_rows, tokens[i], false, what);
            check(b, t, n_rows, tokens[i], true, what);
        }
}

/* All shapes with ordinary values; hostile ones at two shapes a kind. */
static void test_level(const struct kernel_table *t, uint32_t type, size_t n)
{
    uint64_t seed = type * 1000 + n;
    char what[96];
    for (int w = 0; w < N_WEIGHTS; w++)
        for (int x = 0; x < N_INPUTS; x++) {
            struct bench b;
            size_t offset = next_random(&seed) % 4;
            bench_make(&b, type, n, w, x, offset, &seed);
            snprintf(what, sizeof what, "%s %s n %zu, %s weights, %s inputs", t->name, quant_type(type)->name, n,
                     weights_names[w], inputs_names[x]);
            if (w == TAME && x == NORMAL) {
                check_shapes(&b, t, what);
            } else {
                check(&b, t, ROWS_MAX, TOKENS_MAX, true, what);
                check(&b, t, 8, 1, false, what);
                check(&b, t, 5, 4, false, what);
            }
            bench_free(&b);
        }
}

/* Not the function of a lesser level, which is checked with that one. */
static bool is_own(const struct kernel_table *t, uint32_t type)
{
    for (const char *const *name = lesser_levels; *name; name++) {
        const struct kernel_table *other = level_table(*name);
        if (other && other->level < t->level && other->product[type] == t->product[type]) return false;
    }
    return true;
}

static void test_products(void **state)
{
    for (const char *const *name = other_levels; *name; name++) {
        const struct kernel_table *t = level_table(*name);
        if (!t) continue;
        for (size_t i = 0; i < N_ALL_TYPES; i++) {
            if (!is_own(t, all_types[i])) continue;
            uint32_t block = quant_type(all_types[i])->block_len;
            if (block == 1) {
                for (size_t n = 1; n <= 100; n += n >= 34 ? 11 : compact() ? 3 : 1) test_level(t, all_types[i], n);
            } else {
                for (size_t n = 1; n <= 5; n += compact() ? 2 : 1) test_level(t, all_types[i], n * block);
            }
        }
    }
}

/* The scalar table is the reference of room quant. */
static void test_scalar_is_quant(void **state)
{
    uint64_t seed = 7;
    for (size_t i = 0; i < N_ALL_TYPES; i++) {
        const struct quant_type *t = quant_type(all_types[i]);
        struct bench b;
        bench_make(&b, t->id, 512, TAME, NORMAL, 1, &seed);
        for (size_t r = 0; r < ROWS_MAX; r++) {
            struct quant_x x = {.x = b.x, .q = b.acts.q[t->form], .d = b.acts.d[t->form], .sums = b.acts.sums[t->form]};
            float want = t->dot(b.w + r * b.row_bytes, &x, 512);
            assert_true(same_bits(want, b.expected[0][r]));
            assert_true(want == want);
        }
        bench_free(&b);
    }
}

/* Products that underflow to -0 in every lane: the sum is -0, unless a lane beyond the last element is touched. */
static void test_negative_zero(void **state)
{
    static const uint32_t types[] = {QUANT_F32, QUANT_F16, QUANT_BF16};
    enum { N = 37, ROWS = 5, TOKENS = 9 };
    float w[ROWS * N], x[TOKENS * N], want[TOKENS * ROWS], got[TOKENS * ROWS];
    uint8_t rows[sizeof w];
    for (size_t i = 0; i < ROWS * N; i++) w[i] = -0x1p-20f;
    for (size_t i = 0; i < TOKENS * N; i++) x[i] = 0x1p-140f;
    const struct kernel_acts acts = {.x = x, .n = N, .n_tokens = TOKENS};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        quant_type(types[i])->encode(w, rows, ROWS * N);
        scalar_table()->product[types[i]](rows, ROWS, &acts, NULL, TOKENS, want, ROWS, NULL);
        assert_true(same_bits(want[0], -0.0f));
        for (const char *const *name = other_levels; *name; name++) {
            const struct kernel_table *t = level_table(*name);
            if (!t) continue;
            t->product[types[i]](rows, ROWS, &acts, NULL, TOKENS, got, ROWS, NULL);
            expect_same(got, want, TOKENS * ROWS, quant_type(types[i])->name);
        }
    }
}

/* Products of the types, at most n_rows[0] rows of n values and n_tokens[0] tokens, the largest of their lists, against
 * the scalar ones: rows[i] with tokens[i], or with `all` each with each. */
static void compare_sizes(const uint32_t *types, size_t n_types, size_t n, const size_t *rows, size_t n_rows,
                          const size_t *tokens, size_t n_tokens, bool all, uint64_t seed)
{
    const size_t most_rows = rows[0], most_tokens = tokens[0];
    float *x = must_alloc(most_tokens * n * sizeof *x), *a = must_alloc(most_tokens * most_rows * sizeof *a),
          *b = must_alloc(most_tokens * most_rows * sizeof *b);
    void *forms = aligned_alloc(64, kernel_acts_bytes(n, most_tokens));
    for (size_t i = 0; i < most_tokens * n; i++) x[i] = random_float(&seed);
    struct kernel_acts acts;
    kernel_acts_place(&acts, x, n, most_tokens, forms);
    for (enum quant_form f = QUANT_FORM_32; f < QUANT_FORMS; f++)
        scalar_table()->quantize(f, x, most_tokens * n, acts.q[f], acts.d[f], acts.sums[f]);
    for (size_t i = 0; i < n_types; i++) {
        const struct quant_type *t = quant_type(types[i]);
        uint8_t *w = must_alloc(most_rows * quant_row_bytes(t, n));
        fill_weights(TAME, t->id, w, most_rows * n / t->block_len, &seed);
        scalar_table()->product[t->id](w, most_rows, &acts, NULL, most_tokens, a, most_rows, NULL);
        for (const char *const *name = other_levels; *name; name++) {
            const struct kernel_table *level = level_table(*name);
            if (!level || !is_own(level, t->id)) continue;
            for (size_t r = 0; r < n_rows; r++)
                for (size_t k = all ? 0 : r; k < (all ? n_tokens : r + 1); k++) {
                    memset(b, 0xff, most_tokens * most_rows * sizeof *b);
                    level->product[t->id](w, rows[r], &acts, NULL, tokens[k], b, most_rows, NULL);
                    for (size_t j = 0; j < tokens[k]; j++)
                        expect_same(b + j * most_rows, a + j * most_rows, rows[r], t->name);
                }
        }
        free(w);
    }
    free(x);
    free(a);
    free(b);
    free(forms);
}

/* More tokens and rows than any tile, both sides of a tile's edge, and a row long enough for every unrolled loop. */
static void test_large(void **state)
{
    static const size_t rows[] = {139, 128, 129, 136, 65}, tokens[] = {150, 63, 64, 65, 66};
    compare_sizes(all_types, N_ALL_TYPES, 1024, rows, 5, tokens, 5, false, 3);
}

/* More rows than a kernel takes at once, and numbers of tokens at which it changes its way. */
static void test_tall(void **state)
{
    static const uint32_t types[] = {QUANT_Q2_K, QUANT_Q4_K, QUANT_Q6_K, QUANT_Q4_1, QUANT_Q8_0};
    static const size_t rows[] = {785, 401, 384, 9}, tokens[] = {49, 48, 33, 17, 16, 5, 4};
    compare_sizes(types, 5, 512, rows, 4, tokens, 7, true, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scalar_is_quant), cmocka_unit_test(test_products), cmocka_unit_test(test_negative_zero),
        cmocka_unit_test(test_large),           cmocka_unit_test(test_tall),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
