/* The walk of attention.c for one key head and chosen rows: a block of 64 row numbers is a few runs of neighbouring
 * rows, whose scores stand one after the other; then maximum, sum and values as there. */
#include "kernel/rows.h"

#include "base/assert.h"
#include "base/math.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#define QUERIES_MAX 8 /* heads of a token that go through the rows together */
#define BLOCK KERNEL_ATTENTION_BLOCK

struct rows_job {
    const struct kernel_table *table;
    const struct kernel_rows_attention *a;
    size_t queries_an_item, items_a_token, n_items;
    atomic_size_t next;
};

/* One query while it walks over the blocks. acc and sum are relative to max. */
struct query {
    const float *q;
    bool begun;
    float max, sum;
    struct quant_x x;
    _Alignas(32) float acc[KERNEL_HEAD_MAX];
    _Alignas(32) int8_t xq[KERNEL_HEAD_MAX];
    float xd[KERNEL_HEAD_MAX / 32];
    int16_t xsums[KERNEL_HEAD_MAX / 16];
};

/* Neighbouring rows of one block. */
struct run {
    uint32_t first, n;
};

static void query_begin(const struct rows_job *j, struct query *y, size_t token, size_t head)
{
    const struct kernel_rows_attention *a = j->a;
    y->q = a->q + (token * a->n_head + head) * a->d_head;
    y->begun = false;
    y->x = (struct quant_x){.x = y->q};
    if (a->type != QUANT_Q8_0) return;
    j->table->quantize(QUANT_FORM_32, y->q, a->d_head, y->xq, y->xd, y->xsums);
    y->x.q = y->xq;
    y->x.d = y->xd;
    y->x.sums = y->xsums;
}

static void query_block(const struct rows_job *j, struct query *y, const struct kernel_rows *set,
                        const struct run *runs, size_t n_runs)
{
    const struct kernel_rows_attention *a = j->a;
    _Alignas(32) float p[BLOCK], block[KERNEL_HEAD_MAX];
    size_t n = 0;
    for (size_t i = 0; i < n_runs; n += runs[i++].n)
        j->table->attn_scores(a->type, y->q, &y->x, (const char *)set->k + runs[i].first * set->k_stride_bytes,
                              set->k_stride_bytes, a->d_head, runs[i].n, a->scale, p + n);
    float max, sum = j->table->exp_sum(p, n, &max);
    float *values = y->begun ? block : y->acc;
    memset(values, 0, a->d_head_v * sizeof *values);
    n = 0;
    for (size_t i = 0; i < n_runs; n += runs[i++].n)
        j->table->attn_values(a->type, p + n, (const char *)set->v + runs[i].first * set->v_stride_bytes,
                              set->v_stride_bytes, a->d_head_v, runs[i].n, values);
    if (!y->begun) {
        y->begun = true;
        y->max = max;
        y->sum = sum;
        return;
    }
    j->table->attn_join(y->acc, &y->max, &y->sum, block, max, sum, a->d_head_v);
}

static void query_end(const struct rows_job *j, struct query *y, size_t token, size_t head)
{
    const struct kernel_rows_attention *a = j->a;
    float *out = a->out + (token * a->n_head + head) * a->d_head_v;
    if (!y->begun) {
        memset(out, 0, a->d_head_v * sizeof *out);
        return;
    }
    if (a->sinks) {
        const float sink = a->sinks[head], both = sink > y->max ? sink : y->max;
        const float part = math_exp(y->max - both);
        y->sum = fmaf(y->sum, part, math_exp(sink - both));
        j->table->scale(y->acc, part, a->d_head_v);
    }
    for (size_t e = 0; e < a->d_head_v; e++) out[e] = y->acc[e] / y->sum;
}

/* The runs of the next block from *at on; moves *at behind it. Returns how many, 0 at the end. */
static size_t next_block(const struct kernel_rows *set, size_t token, size_t *at, struct run *runs)
{
    if (!set->ids) {
        const size_t end = set->end[token], stop = (*at / BLOCK + 1) * BLOCK;
        if (*at >= end) return 0;
        runs[0] = (struct run){.first = (uint32_t)(set->ring ? *at % set->ring : *at),
                               .n = (uint32_t)((stop < end ? stop : end) - *at)};
        *at += runs[0].n;
        return 1;
    }
    const uint32_t *ids = set->ids + token * set->ids_stride;
    const size_t n = set->n_ids[token];
    size_t n_runs = 0;
    if (*at >= n) return 0;
    for (const uint32_t block = ids[*at] / BLOCK; *at < n && ids[*at] / BLOCK == block; ++*at) {
        if (n_runs && ids[*at] == runs[n_runs - 1].first + runs[n_runs - 1].n)
            runs[n_runs - 1].n++;
        else
            runs[n_runs++] = (struct run){.first = ids[*at], .n = 1};
    }
    return n_runs;
}

static void rows_item(const struct rows_job *j, size_t item)
{
    struct query queries[QUERIES_MAX];
    struct run runs[BLOCK];
    const struct kernel_rows_attention *a = j->a;
    const size_t token = item / j->items_a_token, head0 = item % j->items_a_token * j->queries_an_item;
    size_t n = a->n_head - head0, n_runs;
    if (n > j->queries_an_item) n = j->queries_an_item;
    for (size_t i = 0; i < n; i++) query_begin(j, &queries[i], token, head0 + i);
    for (size_t s = 0; s < a->n_sets; s++) {
        const struct kernel_rows *set = &a->sets[s];
        size_t at = set->ids ? 0 : set->begin[token];
        while ((n_runs = next_block(set, token, &at, runs)))
            for (size_t i = 0; i < n; i++) query_block(j, &queries[i], set, runs, n_runs);
    }
    for (size_t i = 0; i < n; i++) query_end(j, &queries[i], token, head0 + i);
}

/* From the last item to the first, as in attention.c. */
static void rows_run(void *arg, unsigned worker, unsigned n_workers)
{
    (void)worker;
    (void)n_workers;
    struct rows_job *j = arg;
    for (size_t i; (i = atomic_fetch_add_explicit(&j->next, 1, memory_order_relaxed)) < j->n_items;)
        rows_item(j, j->n_items - 1 - i);
}

void kernel_rows_attention_run(const struct kernel_ctx *k, const struct kernel_rows_attention *a)
{
    if (a->n_tokens == 0 || a->n_head == 0) return;
    BASE_ASSERT(a->type == QUANT_F32 || a->type == QUANT_F16 || a->type == QUANT_Q8_0,
                "K5 keys and values are F32, F16 or Q8_0");
    BASE_ASSERT(a->d_head > 0 && a->d_head <= KERNEL_HEAD_MAX && a->d_head_v <= KERNEL_HEAD_MAX,
                "K5 heads have at most 576 elements");
    BASE_ASSERT(a->type != QUANT_Q8_0 || (a->d_head % 32 == 0 && a->d_head_v % 32 == 0),
                "K5 Q8_0 needs heads that are multiples of 32 long");
    BASE_ASSERT(a->n_sets <= KERNEL_ROW_SETS, "K5 at most two sets of rows");
    struct rows_job j = {.table = k->table, .a = a, .queries_an_item = QUERIES_MAX};
    const size_t n_workers = kernel_pool_threads(k->pool);
    while (j.queries_an_item > 1 &&
           a->n_tokens * ((a->n_head + j.queries_an_item - 1) / j.queries_an_item) < 2 * n_workers)
        j.queries_an_item /= 2;
    j.items_a_token = (a->n_head + j.queries_an_item - 1) / j.queries_an_item;
    j.n_items = j.items_a_token * a->n_tokens;
    atomic_init(&j.next, 0);
    kernel_pool_run(k->pool, rows_run, &j);
}
