/* The self-check: a level that computes wrongly in any one of its functions is found and not used. */
#include "util.h"

#include "kernel/tables.h"

/* The scalar table with one function that is off by a little, under the name of another level. */
static struct kernel_table wrong;

static const struct os_cpu able = {.avx2 = true, .fma = true, .f16c = true, .n_threads = 1, .name = "a faulty CPU"};

static float *nudge(float *x)
{
    *x = nextafterf(*x, INFINITY);
    return x;
}

static void wrong_quantize(enum quant_form form, const float *x, size_t n, int8_t *q, float *d, int16_t *sums)
{
    scalar_table()->quantize(form, x, n, q, d, sums);
    if (form == QUANT_FORM_16) q[n - 1]++;
}
static float wrong_dot_f32(const float *a, const float *b, size_t n)
{
    float sum = scalar_table()->dot_f32(a, b, n);
    return *nudge(&sum);
}
static void wrong_rms_norm(const float *x, const float *w, size_t n, float eps, float *out)
{
    scalar_table()->rms_norm(x, w, n, eps, out);
    nudge(out + n - 1);
}
static void wrong_silu_mul(const float *gate, const float *up, size_t n, float *out)
{
    scalar_table()->silu_mul(gate, up, n, out);
    nudge(out + n - 1);
}
static void wrong_act_mul(enum kernel_act act, float limit, const float *gate, const float *up, size_t n, float *out)
{
    scalar_table()->act_mul(act, limit, gate, up, n, out);
    if (act == KERNEL_GELU) nudge(out);
}
static void wrong_add(float *acc, const float *x, size_t n)
{
    scalar_table()->add(acc, x, n);
    nudge(acc + n - 1);
}
static void wrong_add_scaled(float *acc, const float *x, float s, size_t n)
{
    for (size_t i = 0; i < n; i++) { /* two roundings */
        volatile float product = x[i] * s;
        acc[i] += product;
    }
}
static void wrong_scale(float *x, float s, size_t n) { scalar_table()->scale(x, s, n - 1); }
static float wrong_exp_sum(float *x, size_t n, float *max)
{
    float sum = scalar_table()->exp_sum(x, n, max);
    nudge(max);
    return sum;
}
static void wrong_softmax(float *x, size_t n)
{
    scalar_table()->softmax(x, n);
    nudge(x);
}
static void wrong_rope(float *x, size_t n_heads, size_t d_head, size_t n_rot, const float *cos_, const float *sin_,
                       int neox)
{
    scalar_table()->rope(x, n_heads, d_head, n_rot, cos_, sin_, 0);
}
static void wrong_attn_merge(float *acc, const float *block, float a, float b, size_t n)
{
    scalar_table()->attn_merge(acc, block, b, a, n);
}
static void wrong_attn_join(float *acc, float *max, float *sum, const float *block, float block_max, float block_sum,
                            size_t n)
{
    scalar_table()->attn_join(acc, max, sum, block, block_max, block_sum, n);
    if (block_max < *max) nudge(sum); /* when the old part is the larger one */
}
static void wrong_angles(double pos, const double *freq, size_t n, float *cos_, float *sin_)
{
    scalar_table()->angles(pos, freq, n, cos_, sin_);
    nudge(sin_ + n - 1);
}
static void wrong_attn_scores(uint32_t kv_type, const float *q, const struct quant_x *qx, const void *k,
                              size_t k_stride_bytes, size_t d_head, size_t n, float scale, float *scores)
{
    scalar_table()->attn_scores(kv_type, q, qx, k, k_stride_bytes, d_head, n, scale, scores);
    if (kv_type == QUANT_Q8_0) nudge(scores + n - 1);
}
static void wrong_attn_values(uint32_t kv_type, const float *p, const void *v, size_t v_stride_bytes, size_t d_head,
                              size_t n, float *acc)
{
    scalar_table()->attn_values(kv_type, p, v, v_stride_bytes, d_head, n, acc);
    if (kv_type == QUANT_F16) nudge(acc + d_head - 1);
}
static void wrong_exp_sum_many(float (*x)[64], size_t n_rows, float *sum, float *max)
{
    for (size_t r = 0; r < n_rows; r++) sum[r] = scalar_table()->exp_sum(x[r], 64, &max[r]);
    nudge(sum + n_rows - 1);
}
static void wrong_attn_scores_many(uint32_t kv_type, const struct quant_x *x, size_t n_queries, const void *k,
                                   size_t k_stride_bytes, size_t d_head, size_t n, float scale, float (*scores)[64])
{
    for (size_t i = 0; i < n_queries; i++)
        scalar_table()->attn_scores(kv_type, x[0].x, &x[0], k, k_stride_bytes, d_head, n, scale, scores[i]);
}
static void wrong_attn_values_many(uint32_t kv_type, const float (*p)[64], size_t n_queries, const void *v,
                                   size_t v_stride_bytes, size_t d_head, size_t n, float *const *acc)
{
    for (size_t i = 0; i < n_queries; i++)
        scalar_table()->attn_values(kv_type, p[0], v, v_stride_bytes, d_head, n, acc[i]);
}
static void wrong_attn_values_join(uint32_t kv_type, const float (*p)[64], size_t n_queries, const void *v,
                                   size_t v_stride_bytes, size_t d_head, size_t n, const struct kernel_join *join)
{
    float block[KERNEL_HEAD_MAX];
    for (size_t i = 0; i < n_queries; i++) { /* as if nothing were ever the first */
        memset(block, 0, sizeof block);
        scalar_table()->attn_values(kv_type, p[i], v, v_stride_bytes, d_head, n, block);
        scalar_table()->attn_join(join[i].acc, join[i].max, join[i].sum, block, join[i].block_max, join[i].block_sum,
                                  d_head);
    }
}
static void wrong_store_kv(uint32_t kv_type, const float *x, size_t n, void *out)
{
    scalar_table()->store_kv(kv_type, x, n, out);
    if (kv_type == QUANT_F16) *(uint8_t *)out ^= 1;
}

/* Which product, and from how many tokens on it is wrong. */
static uint32_t wrong_id;
static size_t wrong_from;

static void wrong_product(const void *w, size_t n_rows, const struct kernel_acts *acts, const uint32_t *tokens,
                          size_t n_tokens, float *out, size_t out_stride, const uint32_t *out_rows)
{
    scalar_table()->product[wrong_id](w, n_rows, acts, tokens, n_tokens, out, out_stride, out_rows);
    if (n_tokens >= wrong_from) nudge(out + n_rows - 1);
}

static void reset(void)
{
    wrong = *scalar_table();
    wrong.level = KERNEL_AVX2;
    wrong.name = "avx2";
}

static const struct kernel_table *const tables[] = {&wrong, NULL};

static void expect_refusal(const char *function, const char *type)
{
    struct sluice_error err;
    const struct kernel_table *t;
    struct kernel_fault fault;
    if (kernel_check(&wrong, &fault)) fail_msg("a wrong %s passes", function);
    assert_string_equal(fault.function, function);
    if (type) assert_string_equal(fault.type, type);

    assert_int_equal(kernel_select_from(tables, &able, NULL, &t, &err), SLUICE_OK);
    assert_ptr_equal(t, scalar_table());
    assert_int_equal(kernel_passed_over_from(tables, &able, t, &err), SLUICE_ERR_HARDWARE);
    assert_non_null(strstr(err.message, "avx2 kernels are not used"));
    assert_non_null(strstr(err.message, function));
    assert_non_null(strstr(err.message, able.name));

    assert_int_equal(kernel_select_from(tables, &able, "avx2", &t, &err), SLUICE_ERR_HARDWARE);
    assert_null(t);
    assert_non_null(strstr(err.message, function));
    if (type) assert_non_null(strstr(err.message, type));
    assert_non_null(strstr(err.hint, "auto"));
}

#define EXPECT_REFUSAL(function)           \
    do {                                   \
        reset();                           \
        wrong.function = wrong_##function; \
        expect_refusal(#function, NULL);   \
    } while (0)

static void test_functions(void **state)
{
    EXPECT_REFUSAL(quantize);
    EXPECT_REFUSAL(dot_f32);
    EXPECT_REFUSAL(rms_norm);
    EXPECT_REFUSAL(silu_mul);
    EXPECT_REFUSAL(act_mul);
    EXPECT_REFUSAL(add);
    EXPECT_REFUSAL(add_scaled);
    EXPECT_REFUSAL(scale);
    EXPECT_REFUSAL(exp_sum);
    EXPECT_REFUSAL(exp_sum_many);
    EXPECT_REFUSAL(softmax);
    EXPECT_REFUSAL(rope);
    EXPECT_REFUSAL(attn_merge);
    EXPECT_REFUSAL(attn_join);
    EXPECT_REFUSAL(angles);
    EXPECT_REFUSAL(attn_scores);
    EXPECT_REFUSAL(attn_values);
    EXPECT_REFUSAL(attn_scores_many);
    EXPECT_REFUSAL(attn_values_many);
    EXPECT_REFUSAL(attn_values_join);
    EXPECT_REFUSAL(store_kv);
}

static void test_products(void **state)
{
    for (size_t i = 0; i < N_ALL_TYPES; i++) {
        reset();
        wrong_id = all_types[i];
        wrong_from = i % 2 ? 1 : 16;
        wrong.product[wrong_id] = wrong_product;
        expect_refusal("product", quant_type(wrong_id)->name);
    }
}

/* A table without fault passes, is used, and measures what it has to once. */
static unsigned tuned;
static void count_tune(void) { tuned++; }

static void test_good(void **state)
{
    struct sluice_error err;
    const struct kernel_table *t;
    reset();
    wrong.tune = count_tune;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(kernel_select_from(tables, &able, i == 1 ? "avx2" : "auto", &t, &err), SLUICE_OK);
        assert_ptr_equal(t, &wrong);
        assert_int_equal(tuned, 1);
        assert_int_equal(kernel_passed_over_from(tables, &able, t, &err), SLUICE_OK);
    }
}

/* What this machine has passes: if not, its kernels or the check are at fault. */
static void test_this_machine(void **state)
{
    struct kernel_fault fault;
    for (size_t i = 0; i < N_LEVELS; i++) {
        const struct kernel_table *t = level_table(levels[i]);
        if (t && !kernel_check(t, &fault))
            fail_msg("%s: %s of %s", t->name, fault.function, fault.type ? fault.type : "no type");
    }
}

int main(void)
{
    const struct CMUnitTest tests_[] = {
        cmocka_unit_test(test_functions),
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_good), /* last of the wrong ones: what passed is remembered by its address */
        cmocka_unit_test(test_this_machine),
    };
    return cmocka_run_group_tests(tests_, NULL, NULL);
}
