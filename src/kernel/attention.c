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

#define QUERIES_MAX KERNEL_QUERIES_MAX    /* of one key head that go through the cache together */
#define VALUES_MAX (12 * KERNEL_HEAD_MAX) /* floats of their values: with wide heads they are fewer */
#define BLOCK KERNEL_ATTENTION_BLOCK

struct attention_job {
    const struct kernel_table *table;
    const struct kernel_attention *a;
    size_t group;           /* query heads a key head */
    size_t queries_an_item; /* at most QUERIES_MAX */
    size_t items_a_head, n_items;
    size_t k_row_bytes, v_row_bytes; /* one head of one position */
    atomic_size_t next;
    struct split *split; /* split_run alone */
};

/* What a query has found so far; acc [d_head_v] and sum are relative to max. */
struct sums {
    float max, sum;
    float *acc;
};

struct query {
    const float *q;
    float *out;
    size_t begin, n_positions; /* it sees positions begin .. n_positions - 1 */
    float sink;                /* of its head */
    struct quant_x x;
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

/* Adds n positions' values, times p, to those of n queries. */
static void queries_values(const struct attention_job *j, const float (*p)[BLOCK], size_t n_queries, const char *v,
                           size_t v_stride, size_t n, float *const *values)
{
    const struct kernel_attention *a = j->a;
    const struct kernel_table *t = j->table;
    if (t->attn_values_many)
        t->attn_values_many(a->v_type, p, n_queries, v, v_stride, a->d_head_v, n, values);
    else
        for (size_t i = 0; i < n_queries; i++) t->attn_values(a->v_type, p[i], v, v_stride, a->d_head_v, n, values[i]);
}

/* The values of a block's rows from position `begin` on; they lie together. */
static const char *block_values(const struct attention_job *j, size_t head_kv, size_t begin, size_t stride)
{
    const size_t row = j->a->ring ? begin % j->a->ring : begin;
    return (const char *)j->a->v + row * stride + head_kv * j->v_row_bytes;
}

/* Positions of one block for n queries that see it from `begin` on, each up to its own of ends[n_queries], which
 * ascend: p, their maxima and sums. Scores beyond a query's own end are computed with those of the others and left
 * alone. */
static void queries_scores(const struct attention_job *j, const struct query *y, size_t n_queries, size_t head_kv,
                           size_t begin, const size_t *ends, float (*p)[BLOCK], float *max, float *sum)
{
    const struct kernel_attention *a = j->a;
    const struct kernel_table *t = j->table;
    const size_t n = ends[n_queries - 1] - begin, k_stride = j->k_row_bytes * a->n_head_kv;
    const size_t row = a->ring ? begin % a->ring : begin; /* a block's rows lie together */
    const char *k = (const char *)a->k + row * k_stride + head_kv * j->k_row_bytes;
    struct quant_x x[QUERIES_MAX] = {{0}};

    for (size_t i = 0; i < n_queries; i++) x[i] = y[i].x;
    if (t->attn_scores_many)
        t->attn_scores_many(a->k_type, x, n_queries, k, k_stride, a->d_head, n, a->scale, p);
    else
        for (size_t i = 0; i < n_queries; i++)
            t->attn_scores(a->k_type, x[i].x, &x[i], k, k_stride, a->d_head, n, a->scale, p[i]);
    for (size_t i = 0; i < n_queries && a->softcap != 0; i++) soft_cap(p[i], ends[i] - begin, a->softcap);
    if (ends[0] - begin == BLOCK && t->exp_sum_many)
        t->exp_sum_many(p, n_queries, sum, max);
    else
        for (size_t i = 0; i < n_queries; i++) sum[i] = t->exp_sum(p[i], ends[i] - begin, &max[i]);
}

/* The same, and their values, which beyond the first end are added to the sums of those that see them alone. */
static void queries_block(const struct attention_job *j, const struct query *y, size_t n_queries, size_t head_kv,
                          size_t begin, const size_t *ends, float *const *values, float *max, float *sum)
{
    const struct kernel_attention *a = j->a;
    const size_t n_all = ends[0] - begin, v_stride = j->v_row_bytes * a->n_head_kv; /* seen by all */
    const char *v = block_values(j, head_kv, begin, v_stride);
    _Alignas(64) float p[QUERIES_MAX][BLOCK];
    queries_scores(j, y, n_queries, head_kv, begin, ends, p, max, sum);
    for (size_t i = 0; i < n_queries; i++) memset(values[i], 0, a->d_head_v * sizeof(float));
    queries_values(j, (const float(*)[BLOCK])p, n_queries, v, v_stride, n_all, values);
    for (size_t i = 0, same; i < n_queries; i += same) {
        for (same = 1; i + same < n_queries && ends[i + same] == ends[i];) same++;
        if (ends[i] - begin > n_all)
            queries_values(j, (const float(*)[BLOCK])(const void *)&p[i][n_all], same, v + n_all * v_stride, v_stride,
                           ends[i] - begin - n_all, values + i);
    }
}

/* A block that all of the queries see up to the same end, joined to what they have found so far. */
static void queries_join(const struct attention_job *j, const struct query *y, struct sums *to, size_t n_queries,
                         size_t head_kv, size_t begin, const size_t *ends)
{
    const size_t v_stride = j->v_row_bytes * j->a->n_head_kv;
    _Alignas(64) float p[QUERIES_MAX][BLOCK];
    float max[QUERIES_MAX], sum[QUERIES_MAX];
    struct kernel_join join[QUERIES_MAX];
    queries_scores(j, y, n_queries, head_kv, begin, ends, p, max, sum);
    for (size_t i = 0; i < n_queries; i++)
        join[i] = (struct kernel_join){.acc = to[i].acc,
                                       .max = &to[i].max,
                                       .sum = &to[i].sum,
                                       .block_max = max[i],
                                       .block_sum = sum[i],
                                       .first = begin == y[i].begin};
    j->table->attn_values_join(j->a->v_type, (const float(*)[BLOCK])p, n_queries,
                               block_values(j, head_kv, begin, v_stride), v_stride, j->a->d_head_v, ends[0] - begin,
                               join);
}

/* The part of the block at `first` that a query sees. */
static void seen_of_block(const struct query *y, size_t first, size_t *begin, size_t *end)
{
    *begin = first < y->begin ? y->begin : first;
    *end = y->n_positions - first < BLOCK ? y->n_positions : first + BLOCK;
}

/* How many of the n queries, from the first one on, see the block at `first` from the same position on; 0: it sees
 * nothing of it. ends: [n], ascending. */
static size_t see_together(const struct query *y, size_t n, size_t first, size_t *begin, size_t *ends)
{
    if (first >= y->n_positions || first + BLOCK <= y->begin) return 0;
    size_t together = 1, b;
    seen_of_block(y, first, begin, ends);
    for (; together < n && first < y[together].n_positions && first + BLOCK > y[together].begin; together++) {
        seen_of_block(&y[together], first, &b, &ends[together]);
        if (b != *begin || ends[together] < ends[together - 1]) break;
    }
    return together;
}

/* Floats from a query's values to the next one's. */
static size_t values_row(size_t d_head_v) { return (d_head_v + 7) / 8 * 8; }

/* The block at `first`: neighbours that see it from the same position on go together. */
static void block_all(const struct attention_job *j, const struct query *y, struct sums *to, size_t n, size_t head_kv,
                      size_t first)
{
    _Alignas(32) float block[VALUES_MAX];
    const size_t row = values_row(j->a->d_head_v);
    float max[QUERIES_MAX], sum[QUERIES_MAX], *values[QUERIES_MAX];
    for (size_t i = 0, together; i < n; i += together ? together : 1) {
        size_t begin, ends[QUERIES_MAX];
        together = see_together(y + i, n - i, first, &begin, ends);
        if (together && ends[together - 1] == ends[0] && j->table->attn_values_join) {
            queries_join(j, y + i, to + i, together, head_kv, begin, ends);
            continue;
        }
        for (size_t t = i; t < i + together; t++) values[t] = begin == y[t].begin ? to[t].acc : block + t * row;
        if (together) queries_block(j, y + i, together, head_kv, begin, ends, values + i, max + i, sum + i);
        for (size_t t = i; t < i + together; t++) {
            if (begin == y[t].begin) {
                to[t].max = max[t];
                to[t].sum = sum[t];
            } else {
                j->table->attn_join(to[t].acc, &to[t].max, &to[t].sum, block + t * row, max[t], sum[t], j->a->d_head_v);
            }
        }
    }
}

/* out = acc / sum; a sink is one more score in the sum, with no value. */
static void query_end(const struct attention_job *j, const struct query *y, struct sums *to)
{
    const struct kernel_attention *a = j->a;
    if (a->sinks) {
        float both = y->sink > to->max ? y->sink : to->max;
        float part = math_exp(to->max - both);
        to->sum = fmaf(to->sum, part, math_exp(y->sink - both));
        j->table->scale(to->acc, part, a->d_head_v);
    }
    for (size_t e = 0; e < a->d_head_v; e++) y->out[e] = to->acc[e] / to->sum;
}

/* ---- whole items: a worker takes some queries over all of their blocks ---- */

static size_t item_size(const struct attention_job *j, size_t item)
{
    size_t rest = j->a->n_tokens * j->group - item % j->items_a_head * j->queries_an_item;
    return rest < j->queries_an_item ? rest : j->queries_an_item;
}

static void item_query(const struct attention_job *j, size_t item, size_t query, struct query *y)
{
    query_begin(j, y, item / j->items_a_head, item % j->items_a_head * j->queries_an_item + query);
}

static void attention_item(const struct attention_job *j, size_t item)
{
    struct query queries[QUERIES_MAX];
    struct sums sums[QUERIES_MAX];
    size_t head_kv = item / j->items_a_head, n = item_size(j, item);
    BASE_ASSERT(n > 0 && n <= QUERIES_MAX, "an item has queries");
    for (size_t i = 0; i < n; i++) {
        item_query(j, item, i, &queries[i]);
        sums[i].acc = queries[i].out;
    }
    size_t n_positions = queries[n - 1].n_positions; /* later queries begin and end no earlier */
    for (size_t first = queries[0].begin / BLOCK * BLOCK; first < n_positions; first += BLOCK)
        block_all(j, queries, sums, n, head_kv, first);
    for (size_t i = 0; i < n; i++) query_end(j, &queries[i], &sums[i]);
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

/* ---- few items and many workers: blocks are shared out as well ----
 *
 * In rounds of as many blocks as the pool's scratch has room for. A worker takes one block of one item at a time and
 * leaves its sums in the scratch; whoever computes an item's last block of a round merges all of them in ascending
 * order (K4) into the item's last place, where they wait for the next round. */

#define SPLIT_ITEMS_MAX 1024
#define HEAD_FLOATS 8 /* before the values of a place; they stay aligned */

struct split {
    float *scratch;
    size_t place_floats, blocks_a_round, n_blocks; /* n_blocks: of this round */
    size_t first_block, end_block;                 /* of this round */
    bool last;
    atomic_uint left[SPLIT_ITEMS_MAX]; /* blocks of the round that are not computed, by item */
};

struct place {
    float max, sum, seen, first; /* seen: the query sees something of the block; first: it is its first one */
};

static float *place_of(const struct attention_job *j, size_t item, size_t block, size_t query, struct place **head)
{
    const struct split *s = j->split;
    const size_t index = (item * (s->blocks_a_round + 1) + block) * j->queries_an_item + query;
    float *at = s->scratch + index * s->place_floats;
    *head = (struct place *)(void *)at;
    return at + HEAD_FLOATS;
}

static void split_block(const struct attention_job *j, size_t item, size_t block)
{
    struct query y[QUERIES_MAX];
    float max[QUERIES_MAX], sum[QUERIES_MAX], *values[QUERIES_MAX];
    struct place *heads[QUERIES_MAX];
    const size_t head_kv = item / j->items_a_head, n = item_size(j, item),
                 first = (j->split->first_block + block) * BLOCK;
    for (size_t i = 0; i < n; i++) {
        item_query(j, item, i, &y[i]);
        values[i] = place_of(j, item, block, i, &heads[i]);
        heads[i]->seen = 0;
    }
    for (size_t i = 0, together; i < n; i += together ? together : 1) {
        size_t begin, ends[QUERIES_MAX];
        together = see_together(y + i, n - i, first, &begin, ends);
        if (together) queries_block(j, y + i, together, head_kv, begin, ends, values + i, max + i, sum + i);
        for (size_t t = i; t < i + together; t++)
            *heads[t] = (struct place){.max = max[t], .sum = sum[t], .seen = 1, .first = begin == y[t].begin};
    }
}

static void split_merge(const struct attention_job *j, size_t item)
{
    const struct split *s = j->split;
    const size_t d = j->a->d_head_v, n = item_size(j, item);
    for (size_t i = 0; i < n; i++) {
        struct place *all, *head;
        struct sums to = {.acc = place_of(j, item, s->blocks_a_round, i, &all)};
        to.max = all->max;
        to.sum = all->sum;
        for (size_t b = 0; b < s->n_blocks; b++) {
            const float *block = place_of(j, item, b, i, &head);
            if (head->seen == 0) continue;
            if (head->first != 0) {
                to.max = head->max;
                to.sum = head->sum;
                memcpy(to.acc, block, d * sizeof *block);
            } else {
                j->table->attn_join(to.acc, &to.max, &to.sum, block, head->max, head->sum, d);
            }
        }
        all->max = to.max;
        all->sum = to.sum;
        if (!s->last) continue;
        struct query y;
        item_query(j, item, i, &y);
        query_end(j, &y, &to);
    }
}

static void split_run(void *arg, unsigned worker, unsigned n_workers)
{
    struct attention_job *j = arg;
    const size_t n = j->n_items * j->split->n_blocks;
    (void)worker;
    (void)n_workers;
    for (size_t i; (i = atomic_fetch_add_explicit(&j->next, 1, memory_order_relaxed)) < n;) {
        const size_t item = i % j->n_items;
        split_block(j, item, i / j->n_items);
        if (atomic_fetch_sub_explicit(&j->split->left[item], 1, memory_order_acq_rel) == 1) split_merge(j, item);
    }
}

static void split_rounds(struct attention_job *j, struct kernel_pool *pool)
{
    struct split *s = j->split;
    for (; s->first_block < s->end_block; s->first_block += s->n_blocks) {
        const size_t rest = s->end_block - s->first_block;
        s->last = rest <= s->blocks_a_round;
        s->n_blocks = s->last ? rest : s->blocks_a_round;
        for (size_t i = 0; i < j->n_items; i++)
            atomic_store_explicit(&s->left[i], (unsigned)s->n_blocks, memory_order_relaxed);
        atomic_store_explicit(&j->next, 0, memory_order_relaxed);
        kernel_pool_run_parts(pool, j->n_items * s->n_blocks, split_run, j);
    }
}

/* Whether the pool's scratch has room for enough blocks at once to keep every worker busy. */
static bool split_plan(struct attention_job *j, struct split *s, struct kernel_pool *pool)
{
    size_t bytes;
    s->scratch = kernel_pool_scratch(pool, &bytes);
    s->place_floats = HEAD_FLOATS + values_row(j->a->d_head_v);
    s->first_block = first_seen(j->a, j->a->pos0) / BLOCK;
    s->end_block = (j->a->pos0 + j->a->n_tokens + BLOCK - 1) / BLOCK;
    const size_t n_blocks = s->end_block - s->first_block,
                 places = bytes / (j->n_items * j->queries_an_item * s->place_floats * sizeof(float));
    if (j->n_items > SPLIT_ITEMS_MAX || places < 2) return false;
    s->blocks_a_round = places - 1 < n_blocks ? places - 1 : n_blocks;
    j->split = s;
    return s->blocks_a_round * j->n_items >= 2 * (size_t)kernel_pool_threads(pool);
}

static size_t kv_row_bytes(uint32_t kv_type, size_t d_head)
{
    BASE_ASSERT(kv_type == QUANT_F32 || kv_type == QUANT_F16 || kv_type == QUANT_Q8_0,
                "K5 keys and values are F32, F16 or Q8_0");
    BASE_ASSERT(d_head > 0 && d_head <= KERNEL_HEAD_MAX, "K5 heads have at most 576 elements");
    return quant_row_bytes(quant_type(kv_type), d_head); /* asserts multiples of 32 for Q8_0 */
}

/* Whole items would leave workers idle. */
static bool uneven(size_t n_items, size_t n_workers)
{
    return n_items < 2 * n_workers || (n_items < 4 * n_workers && n_items % n_workers != 0);
}

static void share_out(struct attention_job *j, size_t queries_an_item, size_t n_queries)
{
    j->items_a_head = (n_queries + queries_an_item - 1) / queries_an_item;
    j->queries_an_item = (n_queries + j->items_a_head - 1) / j->items_a_head; /* as even as can be */
    j->items_a_head = (n_queries + j->queries_an_item - 1) / j->queries_an_item;
    j->n_items = j->items_a_head * j->a->n_head_kv;
}

void kernel_attention_run(const struct kernel_ctx *k, const struct kernel_attention *a)
{
    if (a->n_tokens == 0 || a->n_head == 0) return;
    BASE_ASSERT(a->ring % BLOCK == 0, "K5 a ring has whole blocks");
    BASE_ASSERT(a->n_head_kv > 0 && a->n_head % a->n_head_kv == 0, "K5 each key head serves as many query heads");
    struct attention_job j = {.table = k->table,
                              .a = a,
                              .group = a->n_head / a->n_head_kv,
                              .k_row_bytes = kv_row_bytes(a->k_type, a->d_head),
                              .v_row_bytes = kv_row_bytes(a->v_type, a->d_head_v)};
    const size_t n_queries = a->n_tokens * j.group, n_workers = kernel_pool_threads(k->pool);
    struct split split;
    const size_t fit = VALUES_MAX / values_row(a->d_head_v);
    const size_t best = k->table->attn_queries ? k->table->attn_queries : 18;
    share_out(&j, fit < best ? fit : best, n_queries);
    atomic_init(&j.next, 0);
    if (n_workers > 1 && uneven(j.n_items, n_workers) && split_plan(&j, &split, k->pool)) {
        split_rounds(&j, k->pool);
        return;
    }
    /* As many queries together as still leave every worker two items. */
    while (j.queries_an_item > 1 && j.n_items < 2 * n_workers) share_out(&j, j.queries_an_item / 2, n_queries);
    atomic_store_explicit(&j.next, 0, memory_order_relaxed);
    kernel_pool_run(k->pool, attention_run, &j);
}
