/* Elementwise kernels, the attention pieces and the quantisation of activations: the scalar level against the contract,
 * every other level against the scalar one, to the bit. */
#include "util.h"

#include "base/math.h"

#define N_MAX 700
#define GUARD 12345.0f

/* Ordinary, large, tiny and broken values in turn. */
static void fill(float *x, size_t n, int kind, uint64_t *seed)
{
    static const float odd[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 3e38f, -3e38f, 1e-40f, 88.8f, -103.9f};
    for (size_t i = 0; i < n; i++) {
        x[i] = random_float(seed);
        if (kind == 1) x[i] *= 60.0f;
        if (kind == 2) x[i] *= 1e-39f;
        if (kind == 3 && next_random(seed) % 5 == 0) x[i] = odd[next_random(seed) % 10];
        if (kind == 4) x[i] = 0.0f;
    }
}

static void test_scalar_is_contract(void **state)
{
    const struct kernel_table *t = scalar_table();
    uint64_t seed = 1;
    float x[N_MAX], y[N_MAX], got[N_MAX];
    for (size_t n = 1; n < 100; n++) {
        fill(x, n, 0, &seed);
        fill(y, n, 0, &seed);
        assert_true(same_bits(t->dot_f32(x, y, n), quant_dot_f32(x, y, n)));

        t->rms_norm(x, y, n, 1e-6f, got);
        float r = 1.0f / sqrtf(quant_dot_f32(x, x, n) / (float)n + 1e-6f);
        for (size_t i = 0; i < n; i++) assert_true(same_bits(got[i], x[i] * r * y[i]));

        t->silu_mul(x, y, n, got);
        for (size_t i = 0; i < n; i++) assert_true(same_bits(got[i], x[i] / (1.0f + math_exp(-x[i])) * y[i]));

        memcpy(got, x, n * sizeof *got);
        float max = -INFINITY, ones[N_MAX], p[N_MAX];
        for (size_t i = 0; i < n; i++) max = x[i] > max ? x[i] : max;
        for (size_t i = 0; i < n; i++) p[i] = math_exp(x[i] - max), ones[i] = 1.0f;
        t->softmax(got, n);
        float sum = quant_dot_f32(p, ones, n);
        for (size_t i = 0; i < n; i++) assert_true(same_bits(got[i], p[i] / sum));
    }
}

/* exp inside the kernels is math_exp, over all magnitudes. */
static void test_exp(void **state)
{
    for (size_t level = 0; level < N_LEVELS; level++) {
        const struct kernel_table *t = level_table(levels[level]);
        if (!t) continue;
        float x[64], got[64], max;
        for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += 63 * 4099) {
            x[0] = 0.0f; /* the maximum; the others are not above it */
            for (uint32_t i = 1; i < 64; i++) {
                uint32_t b = (uint32_t)bits + i * 4099u;
                memcpy(&x[i], &b, sizeof b);
                x[i] = x[i] > 0 ? -x[i] : x[i];
            }
            memcpy(got, x, sizeof x);
            t->exp_sum(got, 64, &max);
            assert_true(max == 0.0f);
            for (size_t i = 0; i < 64; i++)
                if (!same_bits(got[i], math_exp(x[i] - max))) fail_msg("%s: exp(%a)", t->name, (double)x[i]);
        }
    }
}

static void compare_elementwise(const struct kernel_table *a, const struct kernel_table *b, size_t n, int kind,
                                uint64_t *seed)
{
    float x[N_MAX + 1], y[N_MAX + 1], p[N_MAX + 1], q[N_MAX + 1];
    fill(x, n, kind, seed);
    fill(y, n, kind, seed);
    p[n] = q[n] = GUARD;
    assert_true(same_bits(a->dot_f32(x, y, n), b->dot_f32(x, y, n)));
#define CHECK(call_a, call_b, what)     \
    do {                                \
        memcpy(p, x, n * sizeof *p);    \
        memcpy(q, x, n * sizeof *q);    \
        call_a;                         \
        call_b;                         \
        expect_same(q, p, n + 1, what); \
        assert_true(q[n] == GUARD);     \
    } while (0)
    float max_a = 0, max_b = 0, sum_a = 0, sum_b = 0;
    CHECK(a->rms_norm(x, y, n, 1e-5f, p), b->rms_norm(x, y, n, 1e-5f, q), "rms_norm");
    CHECK(a->rms_norm(p, y, n, 1e-5f, p), b->rms_norm(q, y, n, 1e-5f, q), "rms_norm in place");
    CHECK(a->rms_norm(x, NULL, n, 1e-5f, p), b->rms_norm(x, NULL, n, 1e-5f, q), "rms_norm without weights");
    CHECK(a->silu_mul(x, y, n, p), b->silu_mul(x, y, n, q), "silu_mul");
    CHECK(a->silu_mul(p, y, n, p), b->silu_mul(q, y, n, q), "silu_mul in place");
    CHECK(a->add(p, y, n), b->add(q, y, n), "add");
    CHECK(a->add_scaled(p, y, 0.37f, n), b->add_scaled(q, y, 0.37f, n), "add_scaled");
    CHECK(a->scale(p, 1.7f, n), b->scale(q, 1.7f, n), "scale");
    CHECK(a->softmax(p, n), b->softmax(q, n), "softmax");
    CHECK(sum_a = a->exp_sum(p, n, &max_a), sum_b = b->exp_sum(q, n, &max_b), "exp_sum");
    assert_true(same_bits(sum_a, sum_b) && max_a == max_b);
    CHECK(a->attn_merge(p, y, 0.3f, 0.9f, n), b->attn_merge(q, y, 0.3f, 0.9f, n), "attn_merge");
    for (int i = 0; i < 3; i++) { /* a maximum below the one before, above it, and NaN */
        const float block_max = i == 2 ? NAN : 0.25f + 0.5f * (float)i;
        max_a = max_b = 0.5f;
        sum_a = sum_b = 2.5f;
        CHECK(a->attn_join(p, &max_a, &sum_a, y, block_max, 1.5f, n),
              b->attn_join(q, &max_b, &sum_b, y, block_max, 1.5f, n), "attn_join");
        assert_true(same_bits(sum_a, sum_b) && max_a == max_b);
    }
}

static void test_levels(void **state)
{
    uint64_t seed = 2;
    for (const char *const *name = other_levels; *name; name++) {
        const struct kernel_table *t = level_table(*name);
        for (size_t n = 1; t && n <= N_MAX; n += n < 70 ? 1 : 63)
            for (int kind = 0; kind < 5; kind++) compare_elementwise(scalar_table(), t, n, kind, &seed);
    }
}

static void test_exp_rows(void **state)
{
    enum { ROWS = 7 };
    uint64_t seed = 11;
    for (size_t level = 0; level < N_LEVELS; level++) {
        const struct kernel_table *t = level_table(levels[level]);
        for (int kind = 0; t && t->exp_sum_many && kind < 5; kind++)
            for (size_t n = 0; n <= ROWS; n++) {
                float x[ROWS][64], got[ROWS][64], sum[ROWS + 1] = {0}, max[ROWS + 1] = {0};
                fill(x[0], ROWS * 64, kind, &seed);
                x[3][17] = NAN;
                for (size_t i = 0; i < 64; i++) x[4][i] = i % 2 ? -0.0f : -INFINITY;
                memcpy(got, x, sizeof x);
                sum[n] = max[n] = GUARD;
                t->exp_sum_many(got, n, sum, max);
                assert_true(sum[n] == GUARD && max[n] == GUARD);
                for (size_t r = 0; r < n; r++) {
                    float top, all = scalar_table()->exp_sum(x[r], 64, &top);
                    assert_true(same_bits(sum[r], all) && same_bits(max[r], top));
                }
                expect_same(got[0], x[0], ROWS * 64, "exp_sum_many"); /* the rows behind as they were */
            }
    }
}

static void test_angles(void **state)
{
    enum { N = 67 };
    static const double positions[] = {0, 1, 2, 3, 63, 1024, 4097, 131071, 1048575, 0x1p30, 0x1p31};
    const struct kernel_table *t = scalar_table();
    uint64_t seed = 9;
    for (const char *const *name = other_levels;; t = level_table(*name++)) {
        for (size_t p = 0; t && p < sizeof positions / sizeof *positions; p++)
            for (size_t n = 1; n <= N; n++) {
                double freq[N];
                float c[N + 1], s[N + 1];
                c[n] = s[n] = GUARD;
                for (size_t i = 0; i < n; i++) freq[i] = i == 0 ? 1 : fabs((double)random_float(&seed));
                t->angles(positions[p], freq, n, c, s);
                for (size_t i = 0; i < n; i++) {
                    const double x = positions[p] * freq[i];
                    if (!same_bits(c[i], (float)math_cos_d(x)) || !same_bits(s[i], (float)math_sin_d(x)))
                        fail_msg("%s: angle %a: %a, %a", t->name, x, (double)c[i], (double)s[i]);
                }
                assert_true(c[n] == GUARD && s[n] == GUARD);
            }
        if (!*name) break;
    }
}

static void test_rope(void **state)
{
    enum { HEADS = 3, D = 70 };
    uint64_t seed = 4;
    for (size_t n_rot = 2; n_rot <= D; n_rot += 2)
        for (int neox = 0; neox < 2; neox++) {
            float x[HEADS * D], p[HEADS * D], q[HEADS * D], c[D / 2], s[D / 2];
            fill(x, HEADS * D, 0, &seed);
            for (size_t i = 0; i < n_rot / 2; i++) {
                double angle = (double)random_float(&seed) * 3;
                c[i] = (float)cos(angle);
                s[i] = (float)sin(angle);
            }
            memcpy(p, x, sizeof p);
            scalar_table()->rope(p, HEADS, D, n_rot, c, s, neox);
            for (size_t h = 0; h < HEADS; h++)
                for (size_t i = 0; i < n_rot / 2; i++) {
                    size_t a = h * D + (neox ? i : 2 * i), b = h * D + (neox ? i + n_rot / 2 : 2 * i + 1);
                    assert_true(fabs((double)x[a] * c[i] - (double)x[b] * s[i] - p[a]) < 1e-5);
                    assert_true(fabs((double)x[a] * s[i] + (double)x[b] * c[i] - p[b]) < 1e-5);
                }
            for (size_t h = 0; h < HEADS; h++)
                for (size_t i = n_rot; i < D; i++) assert_true(same_bits(x[h * D + i], p[h * D + i]));
            for (const char *const *name = other_levels; *name; name++) {
                const struct kernel_table *t = level_table(*name);
                if (!t) continue;
                memcpy(q, x, sizeof q);
                t->rope(q, HEADS, D, n_rot, c, s, neox);
                expect_same(q, p, HEADS * D, "rope");
            }
        }
}

static void test_quantize(void **state)
{
    enum { N = 1280 };
    uint64_t seed = 5;
    for (const char *const *name = other_levels; *name; name++) {
        const struct kernel_table *t = level_table(*name);
        if (!t) continue;
        for (int kind = 0; kind < 60; kind++)
            for (enum quant_form f = QUANT_FORM_32; f < QUANT_FORMS; f++) {
                float x[N], d[2][N / 16] = {{0}};
                int8_t q[2][N];
                int16_t sums[2][N / 16];
                fill(x, N, kind % 5, &seed);
                if (kind % 5 == 1 && kind > 30)
                    for (size_t i = 0; i < N; i++)
                        x[i] = (float)((int)(next_random(&seed) % 255) - 127) * 0.5f; /* ties */
                scalar_table()->quantize(f, x, N, q[0], d[0], sums[0]);
                t->quantize(f, x, N, q[1], d[1], sums[1]);
                assert_memory_equal(q[0], q[1], N);
                assert_memory_equal(sums[0], sums[1], sizeof sums[0]);
                assert_memory_equal(d[0], d[1], sizeof d[0]);
            }
    }
}

static void compare_attention(const struct kernel_table *t, uint32_t type, size_t d_head, size_t n, int kind,
                              uint64_t *seed)
{
    const struct quant_type *q_type = quant_type(type);
    size_t row = quant_row_bytes(q_type, d_head), stride = row * 3;
    size_t used = (n - 1) * stride + row;
    uint8_t *kv[2] = {must_alloc(used), must_alloc(used)};
    float *x = must_alloc(d_head * sizeof *x), scores[2][64], acc[2][N_MAX], d[N_MAX / 32];
    int8_t q[N_MAX];
    int16_t sums[N_MAX / 16];
    for (int i = 0; i < 2; i++) memset(kv[i], 0, used);
    for (size_t j = 0; j < n; j++) {
        fill(x, d_head, kind, seed);
        scalar_table()->store_kv(type, x, d_head, kv[0] + j * stride);
        t->store_kv(type, x, d_head, kv[1] + j * stride);
    }
    if (kind != 3) assert_memory_equal(kv[0], kv[1], used); /* a NaN's payload may differ */
    fill(x, d_head, kind, seed);
    struct quant_x qx = {.x = x, .q = q, .d = d, .sums = sums};
    if (q_type->form == QUANT_FORM_32) quant_activations(QUANT_FORM_32, x, d_head, q, d, sums);
    scalar_table()->attn_scores(type, x, &qx, kv[0], stride, d_head, n, 0.125f, scores[0]);
    t->attn_scores(type, x, &qx, kv[0], stride, d_head, n, 0.125f, scores[1]);
    expect_same(scores[1], scores[0], n, "attn_scores");
    for (size_t e = 0; e < d_head; e++) acc[0][e] = acc[1][e] = random_float(seed);
    scalar_table()->attn_values(type, scores[0], kv[0], stride, d_head, n, acc[0]);
    t->attn_values(type, scores[0], kv[0], stride, d_head, n, acc[1]);
    expect_same(acc[1], acc[0], d_head, "attn_values");
    free(kv[0]);
    free(kv[1]);
    free(x);
}

static void test_attention_pieces(void **state)
{
    static const size_t positions[] = {1, 2, 7, 8, 9, 63, 64};
    uint64_t seed = 6;
    for (const char *const *name = other_levels; *name; name++) {
        const struct kernel_table *t = level_table(*name);
        if (!t) continue;
        for (int kind = 0; kind < 5; kind++)
            for (size_t i = 0; i < sizeof positions / sizeof positions[0]; i++) {
                for (size_t d = 1; d <= 576; d += d < 70 ? 1 : 46) {
                    compare_attention(t, QUANT_F32, d, positions[i], kind, &seed);
                    compare_attention(t, QUANT_F16, d, positions[i], kind, &seed);
                }
                for (size_t d = 32; d <= 576; d += d < 128 ? 32 : 64)
                    compare_attention(t, QUANT_Q8_0, d, positions[i], kind, &seed);
            }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scalar_is_contract),
        cmocka_unit_test(test_exp),
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_exp_rows),
        cmocka_unit_test(test_angles),
        cmocka_unit_test(test_rope),
        cmocka_unit_test(test_quantize),
        cmocka_unit_test(test_attention_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
