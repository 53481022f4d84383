/* Products over the pool: the same bits for every number of workers and level, biases, several weights at once, the two
 * steps of an expert. */
#include "util.h"

static const unsigned thread_counts[] = {1, 2, 3, 8};
#define N_THREAD_COUNTS (sizeof thread_counts / sizeof thread_counts[0])

static struct kernel_pool *pools[N_THREAD_COUNTS];

static int make_pools(void **state)
{
    struct sluice_error err;
    for (size_t i = 0; i < N_THREAD_COUNTS; i++)
        if (kernel_pool_create(thread_counts[i], &pools[i], &err) != SLUICE_OK) return -1;
    return 0;
}

static int free_pools(void **state)
{
    for (size_t i = 0; i < N_THREAD_COUNTS; i++) kernel_pool_destroy(pools[i]);
    return 0;
}

struct input {
    float *x;
    void *forms;
    struct kernel_acts acts;
};

static void input_make(struct input *in, size_t n, size_t n_tokens, uint64_t *seed)
{
    in->x = must_alloc(n * n_tokens * sizeof *in->x);
    for (size_t i = 0; i < n * n_tokens; i++) in->x[i] = random_float(seed);
    size_t bytes = kernel_acts_bytes(n, n_tokens);
    in->forms = aligned_alloc(64, bytes ? bytes : 64);
    kernel_acts_place(&in->acts, in->x, n, n_tokens, in->forms);
}

static void input_free(struct input *in)
{
    free(in->x);
    free(in->forms);
}

static void *random_weight(struct kernel_weight *w, uint32_t type, size_t n_in, size_t n_out, uint64_t *seed)
{
    *w = (struct kernel_weight){.type = quant_type(type), .n_in = n_in, .n_out = n_out};
    size_t bytes = quant_row_bytes(w->type, n_in) * n_out;
    uint8_t *p = must_alloc(bytes);
    for (size_t i = 0; i < bytes; i++) p[i] = (uint8_t)next_random(seed);
    tame_scales(type, p, n_out * n_in / w->type->block_len, seed);
    w->data = p;
    return p;
}

/* Calls body for every level and pool, with `ctx` set. */
#define FOR_ALL_CONTEXTS(ctx)                           \
    for (size_t l_ = 0; l_ < N_LEVELS; l_++)            \
        for (size_t p_ = 0; p_ < N_THREAD_COUNTS; p_++) \
            if (((ctx).table = level_table(levels[l_])) != NULL && ((ctx).pool = pools[p_]) != NULL)

static void test_forms(void **state)
{
    uint64_t seed = 1;
    static const size_t shapes[][2] = {{256, 1}, {768, 3}, {2048, 40}, {96, 700}};
    for (size_t i = 0; i < 4; i++) {
        size_t n = shapes[i][0], n_tokens = shapes[i][1];
        struct kernel_ctx k;
        FOR_ALL_CONTEXTS(k)
        {
            struct input in;
            input_make(&in, n, n_tokens, &seed);
            assert_true(((uintptr_t)in.acts.q[QUANT_FORM_32] & 63) == 0);
            assert_true((in.acts.q[QUANT_FORM_256] == NULL) == (n % 256 != 0));
            for (enum quant_form f = QUANT_FORM_FLOAT; f < QUANT_FORMS; f++) {
                if (f == QUANT_FORM_256 && n % 256) continue;
                kernel_acts_fill(&k, &in.acts, f);
                if (f == QUANT_FORM_FLOAT) continue;
                size_t block = quant_form_len(f);
                int8_t *q = must_alloc(n * n_tokens);
                float *d = must_alloc(n * n_tokens / block * sizeof *d);
                int16_t *sums = must_alloc(n * n_tokens / 16 * sizeof *sums);
                quant_activations(f, in.x, n * n_tokens, q, d, sums);
                assert_memory_equal(q, in.acts.q[f], n * n_tokens);
                assert_memory_equal(d, in.acts.d[f], n * n_tokens / block * sizeof *d);
                assert_memory_equal(sums, in.acts.sums[f], n * n_tokens / 16 * sizeof *sums);
                in.acts.q[f][0] ^= 1; /* a second call must not fill again */
                int8_t first = in.acts.q[f][0];
                kernel_acts_fill(&k, &in.acts, f);
                assert_int_equal(in.acts.q[f][0], first);
                free(q);
                free(d);
                free(sums);
            }
            input_free(&in);
        }
    }
}

static void test_matmul(void **state)
{
    static const size_t rows[] = {1, 8, 9, 65, 130, 300};
    static const size_t tokens[] = {1, 5, 70};
    static const uint32_t types[] = {QUANT_F32, QUANT_Q8_0, QUANT_Q4_K, QUANT_MXFP4, QUANT_IQ2_XXS, QUANT_NVFP4};
    const bool compact = getenv("SLUICE_TEST_COMPACT") != NULL;
    uint64_t seed = 2;
    for (size_t a = 0; a < 6; a++)
        for (size_t b = 0; b < 6; b++)
            for (size_t c = 0; c < 3; c++) {
                if (compact && (a + b + c) % 2) continue;
                size_t n_out = rows[a], n_in = n_out == 300 ? 512 : 256, n = tokens[c];
                struct kernel_weight w;
                void *data = random_weight(&w, types[b], n_in, n_out, &seed);
                struct input in;
                input_make(&in, n_in, n, &seed);
                float *want = must_alloc(n * n_out * sizeof *want), *got = must_alloc(n * n_out * sizeof *got);
                float *bias = must_alloc(n_out * sizeof *bias);
                for (size_t i = 0; i < n_out; i++) bias[i] = random_float(&seed);
                struct kernel_ctx k = {.table = scalar_table(), .pool = pools[0]};
                kernel_acts_fill(&k, &in.acts, w.type->form);
                scalar_table()->product[types[b]](data, n_out, &in.acts, NULL, n, want, n_out, NULL);
                for (size_t i = 0; i < n * n_out; i++) want[i] += bias[i % n_out];
                FOR_ALL_CONTEXTS(k)
                {
                    memset(got, 0xff, n * n_out * sizeof *got);
                    kernel_matmul(&k, &w, bias, &in.acts, got);
                    expect_same(got, want, n * n_out, "kernel_matmul");
                }
                free(data);
                free(want);
                free(got);
                free(bias);
                input_free(&in);
            }
}

/* More weights than one dispatch holds, of several types and heights, some with a bias. */
static void test_many(void **state)
{
    enum { N = 11, TOKENS = 5, N_IN = 256 };
    static const uint32_t types[] = {QUANT_Q4_K, QUANT_F16, QUANT_Q8_0};
    uint64_t seed = 3;
    struct kernel_weight w[N];
    void *data[N];
    const float *bias[N];
    float *out[N], *want[N], *one_bias = must_alloc(100 * sizeof *one_bias);
    for (size_t i = 0; i < 100; i++) one_bias[i] = random_float(&seed);
    struct input in;
    input_make(&in, N_IN, TOKENS, &seed);
    struct kernel_ctx k = {.table = scalar_table(), .pool = pools[0]};
    for (enum quant_form f = 0; f < QUANT_FORMS; f++) kernel_acts_fill(&k, &in.acts, f);
    for (size_t i = 0; i < N; i++) {
        size_t n_out = 1 + i * 9;
        data[i] = random_weight(&w[i], types[i % 3], N_IN, n_out, &seed);
        bias[i] = i % 2 ? one_bias : NULL;
        out[i] = must_alloc(TOKENS * n_out * sizeof(float));
        want[i] = must_alloc(TOKENS * n_out * sizeof(float));
        kernel_matmul(&k, &w[i], bias[i], &in.acts, want[i]);
    }
    FOR_ALL_CONTEXTS(k)
    {
        for (size_t i = 0; i < N; i++) memset(out[i], 0xff, TOKENS * w[i].n_out * sizeof(float));
        kernel_matmul_many(&k, w, bias, N, &in.acts, out);
        for (size_t i = 0; i < N; i++) expect_same(out[i], want[i], TOKENS * w[i].n_out, "kernel_matmul_many");
        kernel_matmul_many(&k, w, NULL, 1, &in.acts, out);
        expect_same(out[0], want[0], TOKENS * w[0].n_out, "kernel_matmul_many without biases");
    }
    for (size_t i = 0; i < N; i++) {
        free(data[i]);
        free(out[i]);
        free(want[i]);
    }
    free(one_bias);
    input_free(&in);
}

/* The expert's arithmetic in the table's own scalar functions. */
static void expert_by_hand(const struct kernel_weight w[3], const float scales[2], const struct kernel_acts *acts,
                           const uint32_t *tokens, size_t n, float *hidden, float *out, const uint32_t *out_rows)
{
    const struct kernel_table *t = scalar_table();
    size_t n_ff = w[0].n_out, n_embd = w[2].n_out;
    float *up = must_alloc(n * n_ff * sizeof *up);
    t->product[w[0].type->id](w[0].data, n_ff, acts, tokens, n, hidden, n_ff, NULL);
    t->product[w[1].type->id](w[1].data, n_ff, acts, tokens, n, up, n_ff, NULL);
    for (size_t i = 0; i < n * n_ff; i++) {
        hidden[i] *= scales[0];
        up[i] *= scales[1];
    }
    t->silu_mul(hidden, up, n * n_ff, hidden);
    void *forms = aligned_alloc(64, kernel_acts_bytes(n_ff, n) + 64);
    struct kernel_acts h;
    kernel_acts_place(&h, hidden, n_ff, n, forms);
    enum quant_form f = w[2].type->form;
    t->quantize(f, hidden, n * n_ff, h.q[f], h.d[f], h.sums[f]);
    t->product[w[2].type->id](w[2].data, n_embd, &h, NULL, n, out, n_embd, out_rows);
    free(forms);
    free(up);
}

/* n_experts of counts[.] tokens in one dispatch a step; every second has half the up scale. */
static void check_experts(const uint32_t types[3], size_t n_embd, size_t n_ff, const size_t *counts, size_t n_experts,
                          const float scales[2])
{
    enum { CHUNK = 192 };
    uint64_t seed = n_ff + n_experts + counts[0];
    struct kernel_expert experts[KERNEL_EXPERTS_MAX] = {{.n = 0}};
    void *data[KERNEL_EXPERTS_MAX][3];
    uint32_t tokens[CHUNK], out_rows[CHUNK];
    size_t rows = 0;
    for (uint32_t i = 0; i < CHUNK; i++) {
        tokens[i] = (i * 7 + 3) % CHUNK;
        out_rows[i] = CHUNK - 1 - i;
    }
    for (size_t i = 0; i < n_experts; i++) {
        struct kernel_expert *e = &experts[i];
        data[i][0] = random_weight(&e->gate, types[0], n_embd, n_ff, &seed);
        data[i][1] = random_weight(&e->up, types[1], n_embd, n_ff, &seed);
        data[i][2] = random_weight(&e->down, types[2], n_ff, n_embd, &seed);
        e->glu = (struct kernel_glu){.gate_scale = scales[0], .up_scale = i % 2 ? 0.5f * scales[1] : scales[1]};
        e->tokens = tokens + rows;
        e->out_rows = out_rows + rows;
        e->n = counts[i];
        rows += counts[i];
    }
    assert_true(rows <= CHUNK);
    struct input in;
    input_make(&in, n_embd, CHUNK, &seed);
    size_t hidden_bytes = rows * n_ff * sizeof(float), out_bytes = CHUNK * n_embd * sizeof(float);
    float *hidden[2] = {must_alloc(hidden_bytes), must_alloc(hidden_bytes)}, *up = must_alloc(hidden_bytes);
    float *out[2] = {must_alloc(out_bytes), must_alloc(out_bytes)};
    void *forms = aligned_alloc(64, kernel_acts_bytes(n_ff, rows) + 64);
    struct kernel_ctx k = {.table = scalar_table(), .pool = pools[0]};
    struct kernel_acts h;
    for (enum quant_form f = 0; f < QUANT_FORMS; f++) kernel_acts_fill(&k, &in.acts, f);
    memset(out[0], 0, out_bytes);
    for (size_t i = 0, row = 0; i < n_experts; row += experts[i++].n) {
        const struct kernel_expert *e = &experts[i];
        const struct kernel_weight w[3] = {e->gate, e->up, e->down};
        const float both[2] = {e->glu.gate_scale, e->glu.up_scale};
        expert_by_hand(w, both, &in.acts, e->tokens, e->n, hidden[0] + row * n_ff, out[0], e->out_rows);
    }
    FOR_ALL_CONTEXTS(k)
    {
        memset(out[1], 0, out_bytes);
        kernel_experts_glu(&k, experts, n_experts, &in.acts, hidden[1], up);
        expect_same(hidden[1], hidden[0], rows * n_ff, "kernel_experts_glu");
        kernel_acts_place(&h, hidden[1], n_ff, rows, forms);
        kernel_experts_down(&k, experts, n_experts, &h, out[1]);
        expect_same(out[1], out[0], CHUNK * n_embd, "kernel_experts_down");
    }
    for (size_t i = 0; i < n_experts; i++)
        for (int m = 0; m < 3; m++) free(data[i][m]);
    for (int i = 0; i < 2; i++) {
        free(hidden[i]);
        free(out[i]);
    }
    free(up);
    free(forms);
    input_free(&in);
}

static void test_expert(void **state)
{
    static const uint32_t mixes[][3] = {{QUANT_Q4_K, QUANT_Q4_K, QUANT_Q6_K},
                                        {QUANT_Q2_K, QUANT_Q8_0, QUANT_Q3_K},
                                        {QUANT_MXFP4, QUANT_MXFP4, QUANT_MXFP4},
                                        {QUANT_F16, QUANT_BF16, QUANT_F32}};
    static const float one[2] = {1.0f, 1.0f}, other[2] = {0.7f, 1.3f};
    static const size_t counts[] = {1, 9, 66};
    for (size_t m = 0; m < 4; m++)
        for (size_t c = 0; c < 3; c++) {
            check_experts(mixes[m], 256, 512, &counts[c], 1, one);
            check_experts(mixes[m], 256, 256, &counts[c], 1, other);
        }
}

static void test_experts(void **state)
{
    (void)state;
    static const float plain[2] = {1, 1};
    static const uint32_t same[3] = {QUANT_Q4_K, QUANT_Q4_K, QUANT_Q4_K},
                          mixed[3] = {QUANT_Q5_K, QUANT_Q8_0, QUANT_F16};
    static const size_t many[4] = {1, 65, 9, 33}, one[1] = {3};
    size_t ones[KERNEL_EXPERTS_MAX], few[KERNEL_EXPERTS_MAX];
    for (size_t i = 0; i < KERNEL_EXPERTS_MAX; i++) {
        ones[i] = 1;
        few[i] = 1 + 37 * i % 9;
    }
#ifdef __SANITIZE_THREAD__ /* takes minutes with all of them, and who shares what is the same */
    enum { MOST = 9 };
#else
    enum { MOST = KERNEL_EXPERTS_MAX };
#endif
    check_experts(same, 256, 256, ones, MOST, plain);
    check_experts(same, 256, 512, few, MOST, plain);
    check_experts(same, 512, 256, many, 4, plain);
    check_experts(mixed, 256, 512, many, 4, plain);
    check_experts(mixed, 256, 256, one, 1, plain);
}

static void test_norm_rows(void **state)
{
    uint64_t seed = 5;
    static const size_t shapes[][2] = {{64, 3}, {128, 400}, {2048, 20}};
    for (size_t i = 0; i < 3; i++) {
        size_t n = shapes[i][0], n_rows = shapes[i][1];
        float *x = must_alloc(n * n_rows * sizeof *x), *w = must_alloc(n * sizeof *w);
        float *got = must_alloc(n * n_rows * sizeof *got), *want = must_alloc(n * n_rows * sizeof *want);
        for (size_t j = 0; j < n * n_rows; j++) x[j] = random_float(&seed);
        for (size_t j = 0; j < n; j++) w[j] = random_float(&seed);
        for (size_t r = 0; r < n_rows; r++) scalar_table()->rms_norm(x + r * n, w, n, 1e-6f, want + r * n);
        struct kernel_ctx k;
        FOR_ALL_CONTEXTS(k)
        {
            kernel_rms_norm_rows(&k, x, w, n, n_rows, 1e-6f, got);
            expect_same(got, want, n * n_rows, "kernel_rms_norm_rows");
        }
        free(x);
        free(w);
        free(got);
        free(want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),  cmocka_unit_test(test_matmul),  cmocka_unit_test(test_many),
        cmocka_unit_test(test_expert), cmocka_unit_test(test_experts), cmocka_unit_test(test_norm_rows),
    };
    return cmocka_run_group_tests(tests, make_pools, free_pools);
}
