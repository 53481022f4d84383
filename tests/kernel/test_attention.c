/* Attention against a plain computation in double precision, and to the bit over levels, workers and the way a prompt
 * is cut into chunks. */
#include "util.h"

static const unsigned thread_counts[] = {1, 2, 3, 4, 5, 6, 7, 8};
#define N_THREAD_COUNTS (sizeof thread_counts / sizeof thread_counts[0])

struct shape {
    uint32_t k_type, v_type;
    size_t n_head, n_head_kv, d_head, d_head_v, n_tokens, pos0;
    size_t window;
    bool window_chunks, sinks;
    float softcap;
};

static const float sinks[] = {0.5f, -1.0f, 3.0f, 0.0f, 8.0f, 2.0f, -3.0f, 1.0f};

struct cache {
    struct shape s;
    size_t n_positions, k_bytes, v_bytes;
    float *q;
    uint8_t *k, *v;
};

static void cache_make(struct cache *c, const struct shape *s, uint64_t *seed)
{
    *c = (struct cache){.s = *s, .n_positions = s->pos0 + s->n_tokens};
    c->k_bytes = quant_row_bytes(quant_type(s->k_type), s->d_head);
    c->v_bytes = quant_row_bytes(quant_type(s->v_type), s->d_head_v);
    c->q = must_alloc(s->n_tokens * s->n_head * s->d_head * sizeof *c->q);
    c->k = must_alloc(c->n_positions * s->n_head_kv * c->k_bytes);
    c->v = must_alloc(c->n_positions * s->n_head_kv * c->v_bytes);
    float x[KERNEL_HEAD_MAX];
    for (size_t i = 0; i < s->n_tokens * s->n_head * s->d_head; i++) c->q[i] = random_float(seed) * 2;
    for (size_t i = 0; i < c->n_positions * s->n_head_kv; i++) {
        for (size_t e = 0; e < s->d_head; e++) x[e] = random_float(seed) * 2;
        scalar_table()->store_kv(s->k_type, x, s->d_head, c->k + i * c->k_bytes);
        for (size_t e = 0; e < s->d_head_v; e++) x[e] = random_float(seed);
        scalar_table()->store_kv(s->v_type, x, s->d_head_v, c->v + i * c->v_bytes);
    }
}

static void cache_free(struct cache *c)
{
    free(c->q);
    free(c->k);
    free(c->v);
}

/* Tokens first .. first + n - 1 of the shape. */
static void run(const struct kernel_ctx *k, const struct cache *c, size_t first, size_t n, float *out)
{
    const struct shape *s = &c->s;
    struct kernel_attention a = {.q = c->q + first * s->n_head * s->d_head,
                                 .k = c->k,
                                 .v = c->v,
                                 .k_type = s->k_type,
                                 .v_type = s->v_type,
                                 .n_head = s->n_head,
                                 .n_head_kv = s->n_head_kv,
                                 .d_head = s->d_head,
                                 .d_head_v = s->d_head_v,
                                 .n_tokens = n,
                                 .pos0 = s->pos0 + first,
                                 .scale = 0.2f,
                                 .softcap = s->softcap,
                                 .sinks = s->sinks ? sinks : NULL,
                                 .window = s->window,
                                 .window_chunks = s->window_chunks,
                                 .out = out + first * s->n_head * s->d_head_v};
    kernel_attention_run(k, &a);
}

/* The query as the products see it: Q8_0 keys meet a quantised one. */
static void query_values(const struct shape *s, const float *x, float *out)
{
    int8_t q[KERNEL_HEAD_MAX];
    int16_t sums[KERNEL_HEAD_MAX / 16];
    float d[KERNEL_HEAD_MAX / 32];
    memcpy(out, x, s->d_head * sizeof *out);
    if (s->k_type != QUANT_Q8_0) return;
    quant_activations(QUANT_FORM_32, x, s->d_head, q, d, sums);
    for (size_t e = 0; e < s->d_head; e++) out[e] = (float)q[e] * d[e / 32];
}

static void by_hand(const struct cache *c, double *out)
{
    const struct shape *s = &c->s;
    double *p = must_alloc(c->n_positions * sizeof *p);
    float row[KERNEL_HEAD_MAX];
    for (size_t t = 0; t < s->n_tokens; t++)
        for (size_t h = 0; h < s->n_head; h++) {
            float q[KERNEL_HEAD_MAX];
            query_values(s, c->q + (t * s->n_head + h) * s->d_head, q);
            double *o = out + (t * s->n_head + h) * s->d_head_v, max = -INFINITY, sum = 0;
            size_t kv = h / (s->n_head / s->n_head_kv), n = s->pos0 + t + 1;
            size_t begin = !s->window         ? 0
                           : s->window_chunks ? (n - 1) / s->window * s->window
                           : (n > s->window)  ? n - s->window
                                              : 0;
            for (size_t j = begin; j < n; j++) {
                quant_type(s->k_type)->decode(c->k + (j * s->n_head_kv + kv) * c->k_bytes, row, s->d_head);
                p[j] = 0;
                for (size_t e = 0; e < s->d_head; e++) p[j] += (double)q[e] * (double)row[e];
                p[j] *= 0.2;
                if (s->softcap != 0) p[j] = (double)s->softcap * tanh(p[j] / (double)s->softcap);
                max = p[j] > max ? p[j] : max;
            }
            if (s->sinks) sum = exp((double)sinks[h] - max);
            for (size_t e = 0; e < s->d_head_v; e++) o[e] = 0;
            for (size_t j = begin; j < n; j++) {
                double weight = exp(p[j] - max);
                sum += weight;
                quant_type(s->v_type)->decode(c->v + (j * s->n_head_kv + kv) * c->v_bytes, row, s->d_head_v);
                for (size_t e = 0; e < s->d_head_v; e++) o[e] += weight * (double)row[e];
            }
            for (size_t e = 0; e < s->d_head_v; e++) o[e] /= sum;
        }
    free(p);
}

static void check_shape(const struct shape *s, struct kernel_pool *const pools[N_THREAD_COUNTS])
{
    uint64_t seed = s->d_head * 100 + s->pos0 + s->n_head;
    struct cache c;
    cache_make(&c, s, &seed);
    size_t n = s->n_tokens * s->n_head * s->d_head_v;
    float *want = must_alloc(n * sizeof *want), *got = must_alloc(n * sizeof *got);
    double *plain = must_alloc(n * sizeof *plain);

    struct kernel_ctx k = {.table = scalar_table(), .pool = pools[0]};
    run(&k, &c, 0, s->n_tokens, want);
    by_hand(&c, plain);
    for (size_t i = 0; i < n; i++)
        if (!(fabs(plain[i] - (double)want[i]) < 1e-4))
            fail_msg("element %zu: %g, not %g", i, (double)want[i], plain[i]);

    for (size_t level = 0; level < N_LEVELS; level++)
        for (size_t p = 0; p < N_THREAD_COUNTS; p++) {
            k = (struct kernel_ctx){.table = level_table(levels[level]), .pool = pools[p]};
            if (!k.table) continue;
            memset(got, 0xff, n * sizeof *got);
            run(&k, &c, 0, s->n_tokens, got);
            expect_same(got, want, n, "attention");
            memset(got, 0xff, n * sizeof *got); /* token by token, and in chunks of 7 */
            size_t step = p % 2 ? 7 : 1;
            for (size_t t = 0; t < s->n_tokens; t += step)
                run(&k, &c, t, s->n_tokens - t < step ? s->n_tokens - t : step, got);
            expect_same(got, want, n, "attention in chunks");
        }
    free(want);
    free(got);
    free(plain);
    cache_free(&c);
}

static void test_attention(void **state)
{
    static const struct shape shapes[] = {
        {QUANT_F16, QUANT_F16, 7, 1, 33, 47, 66, 3, .window = 0},
        {QUANT_F32, QUANT_F16, 11, 1, 40, 96, 3, 126, .window = 0},

        {QUANT_F32, QUANT_F32, 4, 2, 64, 64, 5, 0, .window = 0},
        {QUANT_F32, QUANT_F32, 3, 3, 17, 5, 70, 60, .window = 0},
        {QUANT_F16, QUANT_F16, 8, 2, 128, 128, 3, 63, .window = 0},
        {QUANT_F16, QUANT_F16, 8, 2, 128, 128, 1, 64, .window = 0},
        {QUANT_F16, QUANT_F32, 5, 1, 80, 40, 20, 120, .window = 0},
        {QUANT_F16, QUANT_F16, 20, 1, 576, 512, 2, 130, .window = 0},
        {QUANT_Q8_0, QUANT_Q8_0, 4, 4, 64, 64, 9, 190, .window = 0},
        {QUANT_Q8_0, QUANT_F16, 6, 2, 96, 70, 33, 31, .window = 0},
        {QUANT_Q8_0, QUANT_Q8_0, 9, 3, 576, 32, 2, 1, .window = 0},
        {QUANT_F32, QUANT_Q8_0, 2, 1, 1, 64, 130, 0, .window = 0},
        {QUANT_F16, QUANT_F16, 4, 1, 64, 64, 70, 3, .window = 0},
        {QUANT_F32, QUANT_F16, 2, 1, 48, 40, 100, 61, .window = 0},
        {QUANT_F16, QUANT_F16, 6, 2, 64, 64, 150, 40, .window = 100, .softcap = 2.5f},
        {QUANT_F16, QUANT_F16, 3, 1, 64, 392, 30, 50, .window = 0},
        {QUANT_F16, QUANT_F16, 32, 1, 128, 128, 5, 126, .window = 0},
        {QUANT_F16, QUANT_Q8_0, 8, 1, 192, 96, 70, 61, .window = 64},
    };
    struct kernel_pool *pools[N_THREAD_COUNTS];
    struct sluice_error err;
    for (size_t i = 0; i < N_THREAD_COUNTS; i++)
        assert_int_equal(kernel_pool_create(thread_counts[i], &pools[i], &err), SLUICE_OK);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) check_shape(&shapes[i], pools);
    for (size_t i = 0; i < N_THREAD_COUNTS; i++) kernel_pool_destroy(pools[i]);
}

/* Few heads over many positions: blocks go to several workers and are merged by one, in rounds where they do not fit
 * the pool's scratch. */
static void test_few_heads(void **state)
{
    static const size_t lengths[] = {63, 64, 65, 127, 1023, 1025, 8191};
    static const struct shape kinds[] = {
        {QUANT_F16, QUANT_F16, 3, 1, 32, 32, 1, 0, .window = 0},
        {QUANT_Q8_0, QUANT_Q8_0, 8, 2, 32, 64, 1, 0, .sinks = true},
        {QUANT_F16, QUANT_F32, 5, 1, 20, 9, 4, 0, .window = 700, .softcap = 2.5f},
        {QUANT_F32, QUANT_F16, 8, 1, 8, 40, 3, 0, .window = 1024, .window_chunks = true, .sinks = true},
    };
    struct kernel_pool *pools[N_THREAD_COUNTS];
    struct sluice_error err;
    for (size_t i = 0; i < N_THREAD_COUNTS; i++)
        assert_int_equal(kernel_pool_create(thread_counts[i], &pools[i], &err), SLUICE_OK);
    for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++)
        for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
            struct shape s = kinds[i];
            if (lengths[l] > 2000 && i % 2) continue; /* long enough once each way */
            s.pos0 = lengths[l] - s.n_tokens;
            check_shape(&s, pools);
        }
    static const struct shape rounds = {QUANT_F16, QUANT_F16, 8, 1, 64, 512, 1, 2200, .window = 0};
    check_shape(&rounds, pools);
    for (size_t i = 0; i < N_THREAD_COUNTS; i++) kernel_pool_destroy(pools[i]);
}

/* A fault in a key reaches the queries that see it, and no others. */
static void test_nan_stays_visible(void **state)
{
    static const struct shape s = {QUANT_F16, QUANT_F16, 2, 1, 32, 32, 100, 0, .window = 0};
    uint64_t seed = 9;
    struct cache c;
    struct kernel_pool *pool;
    struct sluice_error err;
    assert_int_equal(kernel_pool_create(2, &pool, &err), SLUICE_OK);
    static float out[100 * 2 * 32];
    for (int values = 0; values < 2; values++) { /* queries before it share its block */
        cache_make(&c, &s, &seed);
        uint16_t nan_bits = 0x7e00;
        if (values)
            for (size_t e = 0; e < 32; e++) memcpy(c.v + 70 * c.v_bytes + 2 * e, &nan_bits, sizeof nan_bits);
        else
            memcpy(c.k + 70 * c.k_bytes + 6, &nan_bits, sizeof nan_bits);
        for (size_t level = 0; level < N_LEVELS; level++) {
            struct kernel_ctx k = {.table = level_table(levels[level]), .pool = pool};
            if (!k.table) continue;
            run(&k, &c, 0, 100, out);
            for (size_t i = 0; i < 100 * 2 * 32; i++) assert_true((out[i] != out[i]) == (i / 64 >= 70));
        }
        cache_free(&c);
    }
    kernel_pool_destroy(pool);
}

/* The functions for several queries on their own: all numbers of queries and positions, rows at odd addresses, and
 * nothing written beyond. */
struct many {
    uint32_t type;
    size_t d, stride;
    uint8_t *rows; /* 64 positions; ends with the memory */
    float *q;      /* [KERNEL_QUERIES_MAX][d] */
    struct quant_x x[KERNEL_QUERIES_MAX];
    int8_t xq[KERNEL_QUERIES_MAX][KERNEL_HEAD_MAX];
    float xd[KERNEL_QUERIES_MAX][KERNEL_HEAD_MAX / 32];
    int16_t xsums[KERNEL_QUERIES_MAX][KERNEL_HEAD_MAX / 16];
    float p[KERNEL_QUERIES_MAX][64]; /* the scalar scores */
};

#define SCALE 0.2f
#define KEPT 7.0f

static void many_make(struct many *m, uint32_t type, size_t d, uint64_t *seed)
{
    m->type = type;
    m->d = d;
    const size_t row = quant_row_bytes(quant_type(type), d);
    m->stride = row + 3;
    m->rows = must_alloc(63 * m->stride + row);
    m->q = must_alloc(KERNEL_QUERIES_MAX * d * sizeof *m->q);
    float x[KERNEL_HEAD_MAX];
    for (size_t j = 0; j < 64; j++) {
        for (size_t e = 0; e < d; e++) x[e] = random_float(seed) * 2;
        scalar_table()->store_kv(type, x, d, m->rows + j * m->stride);
    }
    for (size_t i = 0; i < KERNEL_QUERIES_MAX * d; i++) m->q[i] = random_float(seed);
    for (size_t i = 0; i < KERNEL_QUERIES_MAX; i++) {
        m->x[i] = (struct quant_x){.x = m->q + i * d, .q = m->xq[i], .d = m->xd[i], .sums = m->xsums[i]};
        if (type == QUANT_Q8_0) quant_activations(QUANT_FORM_32, m->x[i].x, d, m->xq[i], m->xd[i], m->xsums[i]);
        scalar_table()->attn_scores(type, m->x[i].x, &m->x[i], m->rows, m->stride, d, 64, SCALE, m->p[i]);
    }
}

struct results {
    float of[KERNEL_QUERIES_MAX][KERNEL_HEAD_MAX + 1];
};

static void results_keep(struct results *r)
{
    for (size_t i = 0; i < KERNEL_QUERIES_MAX; i++)
        for (size_t e = 0; e <= KERNEL_HEAD_MAX; e++) r->of[i][e] = KEPT;
}

static void check_many(const struct many *m, const struct kernel_table *t, size_t n_queries, size_t n)
{
    const size_t d = m->d, n_acc = KERNEL_QUERIES_MAX * (KERNEL_HEAD_MAX + 1);
    static float scores[KERNEL_QUERIES_MAX][64];
    static struct results want, got;
    float *acc[KERNEL_QUERIES_MAX], max[2][KERNEL_QUERIES_MAX], sum[2][KERNEL_QUERIES_MAX];
    struct kernel_join join[KERNEL_QUERIES_MAX];
    if (t->attn_scores_many) {
        for (size_t i = 0; i < KERNEL_QUERIES_MAX; i++)
            for (size_t j = 0; j < 64; j++) scores[i][j] = KEPT;
        t->attn_scores_many(m->type, m->x, n_queries, m->rows + (64 - n) * m->stride, m->stride, d, n, SCALE, scores);
        for (size_t i = 0; i < KERNEL_QUERIES_MAX; i++)
            for (size_t j = 0; j < 64; j++) {
                const float score = i < n_queries && j < n ? m->p[i][64 - n + j] : KEPT;
                expect_same(&scores[i][j], &score, 1, "attn_scores_many");
            }
    }
    results_keep(&got);
    results_keep(&want);
    for (size_t i = 0; i < n_queries; i++) {
        acc[i] = got.of[i];
        scalar_table()->attn_values(m->type, m->p[i], m->rows + (64 - n) * m->stride, m->stride, d, n, want.of[i]);
    }
    if (t->attn_values_many) {
        t->attn_values_many(m->type, m->p, n_queries, m->rows + (64 - n) * m->stride, m->stride, d, n, acc);
        expect_same(got.of[0], want.of[0], n_acc, "attn_values_many");
    }
    if (!t->attn_values_join) return;
    results_keep(&got);
    results_keep(&want);
    for (size_t i = 0; i < n_queries; i++) {
        float block[KERNEL_HEAD_MAX] = {0};
        max[0][i] = max[1][i] = 0.5f;
        sum[0][i] = sum[1][i] = 2.5f;
        join[i] = (struct kernel_join){.acc = got.of[i],
                                       .max = &max[1][i],
                                       .sum = &sum[1][i],
                                       .block_max = (float)i / 8 - 1,
                                       .block_sum = 1.5f,
                                       .first = i % 3 == n % 3};
        scalar_table()->attn_values(m->type, m->p[i], m->rows + (64 - n) * m->stride, m->stride, d, n, block);
        if (join[i].first) {
            memcpy(want.of[i], block, d * sizeof *block);
            max[0][i] = join[i].block_max;
            sum[0][i] = join[i].block_sum;
        } else {
            scalar_table()->attn_join(want.of[i], &max[0][i], &sum[0][i], block, join[i].block_max, join[i].block_sum,
                                      d);
        }
    }
    t->attn_values_join(m->type, m->p, n_queries, m->rows + (64 - n) * m->stride, m->stride, d, n, join);
    expect_same(got.of[0], want.of[0], n_acc, "attn_values_join");
    expect_same(max[1], max[0], n_queries, "attn_values_join: maxima");
    expect_same(sum[1], sum[0], n_queries, "attn_values_join: sums");
}

static void test_several_queries(void **state)
{
    static const uint32_t types[] = {QUANT_F32, QUANT_F16, QUANT_Q8_0};
    static const size_t sizes[] = {1, 7, 8, 15, 16, 17, 24, 33, 64, 71, 80, 96, 100, 128, 192, 256, 257, 512, 575, 576};
    static struct many m;
    const size_t step = getenv("SLUICE_TEST_COMPACT") ? 11 : 1;
    uint64_t seed = 77;
    for (size_t k = 0; k < sizeof types / sizeof types[0]; k++)
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            if (types[k] == QUANT_Q8_0 && sizes[s] % 32 != 0) continue;
            if (step > 1 && sizes[s] != 33 && sizes[s] != 128 && sizes[s] != 257 && sizes[s] != 576) continue;
            many_make(&m, types[k], sizes[s], &seed);
            for (size_t level = 0; level < N_LEVELS; level++) {
                const struct kernel_table *t = level_table(levels[level]);
                const size_t most = !t ? 0 : t->attn_queries ? t->attn_queries : 18;
                for (size_t n = 1; n <= most; n += step) check_many(&m, t, n, 1 + (n * 37 + s) % 64);
                for (size_t n = 1; n <= 64 && most; n += step) check_many(&m, t, 1 + (n * 11 + s) % most, n);
                if (most) check_many(&m, t, most, 64);
            }
            free(m.rows);
            free(m.q);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_few_heads),
        cmocka_unit_test(test_several_queries),
        cmocka_unit_test(test_nan_stays_visible),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
