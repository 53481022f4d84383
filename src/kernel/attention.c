/* Causal attention over the pool. The numbers of one query depend on its position, its own values and the cache alone:
 * blocks of 64 absolute positions, each with its own maximum and sum, merged in ascending order (README.md, "Attention"
 * and K4). Work is cut so that queries that share a key head also share each block of keys and values while it is in
 * the cache. */
#include "kernel/kernel.h"

#include "base/assert.h"
#include "base/math.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#define QUERIES_MAX KERNEL_QUERIES_MAX /* of one key head that go through the cache together */
#define BLOCK KERNEL_ATTENTION_BLOCK

struct attention_job {
    const struct kernel_table *table;
    const struct kernel_attention *a;
    size_t group;           /* query heads a key head */
    size_t queries_an_item; /* at most QUERIES_MAX */
    size_t items_a_head, n_items;
    size_t k_row_bytes, v_row_bytes; /* one head of one position */
    atomic_size_t next;
};

/* One query while it walks over the blocks. acc and sum are relative to max. */
struct query {
    const float *q;
    float *out;
    size_t begin, n_positions; /* it sees positions begin .. n_positions - 1 */
    float sink;                /* of its head */
    float max, sum;
    struct quant_x x;
    _Alignas(32) float acc[KERNEL_HEAD_MAX];
    _Alignas(32) int8_t xq[KERNEL_HEAD_MAX];
    float xd[KERNEL_HEAD_MAX / 32];
    int16_t xsums[KERNEL_HEAD_MAX / 16];
};

/* The first position that a query at `pos` sees. */
static size_t first_seen(const struct kernel_attention *a, size_t pos)
{
    if (!a->window) return 0;
    if (a->window_chunks) return pos / a->window * a->window;
    return pos + 1 > a->window ? pos + 1 - a->window : 0;
}

static void query_begin(const struct attention_job *j, struct query *y, size_t head_kv, size_t index)
{
    const struct kernel_attention *a = j->a;
    size_t token = index / j->group, head = head_kv * j->group + index % j->group;
    y->q = a->q + (token * a->n_head + head) * a->d_head;
    y->out = a->out + (token * a->n_head + head) * a->d_head_v;
    y->n_positions = a->pos0 + token + 1;
    y->begin = first_seen(a, a->pos0 + token);
    if (a->sinks) y->sink = a->sinks[head];
    y->x = (struct quant_x){.x = y->q};
    if (a->k_type == QUANT_Q8_0) {
        j->table->quantize(QUANT_FORM_32, y->q, a->d_head, y->xq, y->xd, y->xsums);
        y->x.q = y->xq;
        y->x.d = y->xd;
        y->x.sums = y->xsums;
    }
}

/* scores = cap * tanh(scores / cap) */
static void soft_cap(float *scores, size_t n, float cap)
{
    for (size_t i = 0; i < n; i++) scores[i] = cap * math_tanh(scores[i] / cap);
}

/* A query's scores of a block become weights, and its sum of values is merged into what it has. */
static void block_weights(const struct attention_job *j, float *p, size_t n, float *max, float *sum)
{
    if (j->a->softcap != 0) soft_cap(p, n, j->a->softcap);
    *sum = j->table->exp_sum(p, n, max);
}

static void block_merge(const struct attention_job *j, struct query *y, const float *block, float max, float sum)
{
    float both = max > y->max ? max : y->max;
    float old_part = math_exp(y->max - both), new_part = math_exp(max - both);
    y->sum = fmaf(sum, new_part, y->sum * old_part);
    j->table->attn_merge(y->acc, block, old_part, new_part, j->a->d_head_v);
    y->max = both;
}

/* Positions [begin, end) of one block for n queries that see all of them, and no others of the block. */
static void queries_block(const struct attention_job *j, struct query *y, size_t n_queries, size_t head_kv,
                          size_t begin, size_t end)
{
    const struct kernel_attention *a = j->a;
    const struct kernel_table *t = j->table;
    const size_t n = end - begin;
    const size_t k_stride = j->k_row_bytes * a->n_head_kv, v_stride = j->v_row_bytes * a->n_head_kv;
    const char *k = (const char *)a->k + begin * k_stride + head_kv * j->k_row_bytes;
    const char *v = (const char *)a->v + begin * v_stride + head_kv * j->v_row_bytes;
    _Alignas(32) float p[QUERIES_MAX][BLOCK], block[QUERIES_MAX][KERNEL_HEAD_MAX];
    float max[QUERIES_MAX], sum[QUERIES_MAX], *values[QUERIES_MAX];
    struct quant_x x[QUERIES_MAX];

    for (size_t i = 0; i < n_queries; i++) x[i] = y[i].x;
    if (t->attn_scores_many)
        t->attn_scores_many(a->k_type, x, n_queries, k, k_stride, a->d_head, n, a->scale, p);
    else
        for (size_t i = 0; i < n_queries; i++)
            t->attn_scores(a->k_type, x[i].x, &x[i], k, k_stride, a->d_head, n, a->scale, p[i]);
    for (size_t i = 0; i < n_queries; i++) {
        block_weights(j, p[i], n, &max[i], &sum[i]);
        values[i] = begin == y[i].begin ? y[i].acc : block[i];
        memset(values[i], 0, a->d_head_v * sizeof(float));
    }
    if (t->attn_values_many)
        t->attn_values_many(a->v_type, (const float(*)[BLOCK])p, n_queries, v, v_stride, a->d_head_v, n, values);
    else
        for (size_t i = 0; i < n_queries; i++) t->attn_values(a->v_type, p[i], v, v_stride, a->d_head_v, n, values[i]);
    for (size_t i = 0; i < n_queries; i++) {
        if (begin == y[i].begin) {
            y[i].max = max[i];
            y[i].sum = sum[i];
        } else {
            block_merge(j, &y[i], block[i], max[i], sum[i]);
        }
    }
}

/* The part of the block at `first` that a query sees. */
static void seen_of_block(const struct query *y, size_t first, size_t *begin, size_t *end)
{
    *begin = first < y->begin ? y->begin : first;
    *end = y->n_positions - first < BLOCK ? y->n_positions : first + BLOCK;
}

/* The block at `first`: neighbours that see the same of it go together. */
static void block_all(const struct attention_job *j, struct query *y, size_t n, size_t head_kv, size_t first)
{
    for (size_t i = 0, next; i < n; i = next) {
        next = i + 1;
        if (first >= y[i].n_positions || first + BLOCK <= y[i].begin) continue;
        size_t begin, end, b, e;
        seen_of_block(&y[i], first, &begin, &end);
        for (; next < n && first < y[next].n_positions && first + BLOCK > y[next].begin; next++) {
            seen_of_block(&y[next], first, &b, &e);
            if (b != begin || e != end) break;
        }
        queries_block(j, y + i, next - i, head_kv, begin, end);
    }
}

/* out = acc / sum; a sink is one more score in the sum, with no value. */
static void query_end(const struct attention_job *j, struct query *y)
{
    const struct kernel_attention *a = j->a;
    if (a->sinks) {
        float both = y->sink > y->max ? y->sink : y->max;
        float part = math_exp(y->max - both);
        y->sum = fmaf(y->sum, part, math_exp(y->sink - both));
        j->table->scale(y->acc, part, a->d_head_v);
    }
    for (size_t e = 0; e < a->d_head_v; e++) y->out[e] = y->acc[e] / y->sum;
}

static void attention_item(const struct attention_job *j, size_t item)
{
    struct query queries[QUERIES_MAX];
    size_t head_kv = item / j->items_a_head, n_all = j->a->n_tokens * j->group;
    size_t begin = item % j->items_a_head * j->queries_an_item, n = n_all - begin;
    if (n > j->queries_an_item) n = j->queries_an_item;

    for (size_t i = 0; i < n; i++) query_begin(j, &queries[i], head_kv, begin + i);
    size_t n_positions = queries[n - 1].n_positions; /* later queries begin and end no earlier */
    for (size_t first = queries[0].begin / BLOCK * BLOCK; first < n_positions; first += BLOCK)
        block_all(j, queries, n, head_kv, first);
    for (size_t i = 0; i < n; i++) query_end(j, &queries[i]);
}

/* From the last item to the first: late tokens see the most positions, and long work is best begun early. */
static void attention_run(void *arg, unsigned worker, unsigned n_workers)
{
    struct attention_job *j = arg;
    for (size_t i; (i = atomic_fetch_add_explicit(&j->next, 1, memory_order_relaxed)) < j->n_items;) {
        size_t head_kv = i % j->a->n_head_kv, slice = j->items_a_head - 1 - i / j->a->n_head_kv;
        attention_item(j, head_kv * j->items_a_head + slice);
    }
}

static size_t kv_row_bytes(uint32_t kv_type, size_t d_head)
{
    BASE_ASSERT(kv_type == QUANT_F32 || kv_type == QUANT_F16 || kv_type == QUANT_Q8_0,
                "K5 keys and values are F32, F16 or Q8_0");
    BASE_ASSERT(d_head > 0 && d_head <= KERNEL_HEAD_MAX, "K5 heads have at most 576 elements");
    return quant_row_bytes(quant_type(kv_type), d_head); /* asserts multiples of 32 for Q8_0 */
}

void kernel_attention_run(const struct kernel_ctx *k, const struct kernel_attention *a)
{
    if (a->n_tokens == 0 || a->n_head == 0) return;
    BASE_ASSERT(a->n_head_kv > 0 && a->n_head % a->n_head_kv == 0, "K5 each key head serves as many query heads");
    struct attention_job j = {.table = k->table,
                              .a = a,
                              .group = a->n_head / a->n_head_kv,
                              .k_row_bytes = kv_row_bytes(a->k_type, a->d_head),
                              .v_row_bytes = kv_row_bytes(a->v_type, a->d_head_v)};
    size_t n_queries = a->n_tokens * j.group, n_workers = kernel_pool_threads(k->pool);
    /* As many queries together as still leave every worker two items. */
    j.queries_an_item = QUERIES_MAX;
    while (j.queries_an_item > 1 &&
           (n_queries + j.queries_an_item - 1) / j.queries_an_item * a->n_head_kv < 2 * n_workers)
        j.queries_an_item /= 2;
    j.items_a_head = (n_queries + j.queries_an_item - 1) / j.queries_an_item;
    j.n_items = j.items_a_head * a->n_head_kv;
    atomic_init(&j.next, 0);
    kernel_pool_run(k->pool, attention_run, &j);
}
