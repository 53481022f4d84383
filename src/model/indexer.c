#include "model/indexer.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#define BLOCK KERNEL_ATTENTION_BLOCK

struct choose_job {
    const struct kernel_table *table;
    const struct indexer_choice *c;
    size_t first; /* row of the tile */
    atomic_size_t next;
};

/* Whether (score a, row i) is a worse choice than (score b, row j). */
static bool worse(float a, uint32_t i, float b, uint32_t j)
{
    if (isnan(a)) return !isnan(b) || i > j;
    if (isnan(b)) return false;
    return a < b || (a == b && i > j);
}

/* ---- scores of a tile ---- */

static void score_block(const struct choose_job *j, size_t token, size_t row, size_t n, float *out)
{
    const struct indexer_choice *c = j->c;
    _Alignas(32) float s[BLOCK];
    _Alignas(32) int8_t xq[KERNEL_HEAD_MAX];
    float xd[KERNEL_HEAD_MAX / 32];
    int16_t xsums[KERNEL_HEAD_MAX / 16];
    memset(out, 0, n * sizeof *out);
    for (size_t h = 0; h < c->n_head; h++) {
        const float *q = c->q + (token * c->n_head + h) * c->d_head, w = c->weights[token * c->n_head + h];
        struct quant_x x = {.x = q};
        if (c->type == QUANT_Q8_0) {
            j->table->quantize(QUANT_FORM_32, q, c->d_head, xq, xd, xsums);
            x = (struct quant_x){.x = q, .q = xq, .d = xd, .sums = xsums};
        }
        j->table->attn_scores(c->type, q, &x, (const char *)c->k + row * c->k_stride_bytes, c->k_stride_bytes,
                              c->d_head, n, 1.0f, s);
        for (size_t i = 0; i < n; i++) out[i] = fmaf(s[i] < 0 ? 0 : s[i], w, out[i]);
    }
}

/* Whether the token has more rows than it may choose. */
static bool chooses(const struct indexer_choice *c, size_t token) { return c->n_rows[token] > c->top_k; }

static void score_tile(void *arg, unsigned worker, unsigned n_workers)
{
    (void)worker;
    (void)n_workers;
    struct choose_job *j = arg;
    const struct indexer_choice *c = j->c;
    const size_t blocks = INDEXER_TILE / BLOCK;
    for (size_t i; (i = atomic_fetch_add_explicit(&j->next, 1, memory_order_relaxed)) < c->n_tokens * blocks;) {
        const size_t token = i / blocks, at = i % blocks * BLOCK, row = j->first + at, n_rows = c->n_rows[token];
        if (!chooses(c, token) || row >= n_rows) continue;
        score_block(j, token, row, n_rows - row < BLOCK ? n_rows - row : BLOCK, c->tile + token * INDEXER_TILE + at);
    }
}

/* ---- the best so far: a heap with the worst of them on top ---- */

static void sink(float *scores, uint32_t *ids, uint32_t n, uint32_t at, float score, uint32_t id)
{
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= n) break;
        if (child + 1 < n && worse(scores[child + 1], ids[child + 1], scores[child], ids[child])) child++;
        if (!worse(scores[child], ids[child], score, id)) break;
        scores[at] = scores[child];
        ids[at] = ids[child];
        at = child;
    }
    scores[at] = score;
    ids[at] = id;
}

static void rise(float *scores, uint32_t *ids, uint32_t at, float score, uint32_t id)
{
    while (at && worse(score, id, scores[(at - 1) / 2], ids[(at - 1) / 2])) {
        scores[at] = scores[(at - 1) / 2];
        ids[at] = ids[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    scores[at] = score;
    ids[at] = id;
}

static void pick(void *arg, unsigned worker, unsigned n_workers)
{
    struct choose_job *j = arg;
    const struct indexer_choice *c = j->c;
    size_t begin, end;
    kernel_pool_range(worker, n_workers, c->n_tokens, 1, &begin, &end);
    for (size_t t = begin; t < end; t++) {
        if (!chooses(c, t)) continue;
        float *best = c->best + t * c->top_k;
        uint32_t *ids = c->ids + t * c->top_k, n = c->n_ids[t];
        for (size_t i = 0; i < INDEXER_TILE && j->first + i < c->n_rows[t]; i++) {
            const float score = c->tile[t * INDEXER_TILE + i];
            const uint32_t row = (uint32_t)(j->first + i);
            if (n < c->top_k)
                rise(best, ids, n++, score, row);
            else if (worse(best[0], ids[0], score, row))
                sink(best, ids, n, 0, score, row);
        }
        c->n_ids[t] = n;
    }
}

/* ---- the result in ascending order (heap sort) ---- */

static void sink_id(uint32_t *ids, uint32_t n, uint32_t at)
{
    const uint32_t id = ids[at];
    for (uint32_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && ids[child + 1] > ids[child]) child++;
        if (ids[child] < id) break;
        ids[at] = ids[child];
        ids[child] = id;
    }
}

static void order(void *arg, unsigned worker, unsigned n_workers)
{
    struct choose_job *j = arg;
    const struct indexer_choice *c = j->c;
    size_t begin, end;
    kernel_pool_range(worker, n_workers, c->n_tokens, 1, &begin, &end);
    for (size_t t = begin; t < end; t++) {
        uint32_t *ids = c->ids + t * c->top_k, n = c->n_ids[t];
        if (!chooses(c, t)) {
            n = c->n_ids[t] = c->n_rows[t];
            for (uint32_t i = 0; i < n; i++) ids[i] = i;
            continue;
        }
        for (uint32_t i = n / 2; i-- > 0;) sink_id(ids, n, i);
        while (n > 1) {
            const uint32_t last = ids[--n];
            ids[n] = ids[0];
            ids[0] = last;
            sink_id(ids, n, 0);
        }
    }
}

void indexer_choose(const struct kernel_ctx *k, const struct indexer_choice *c)
{
    struct choose_job j = {.table = k->table, .c = c};
    size_t n_rows = 0;
    for (size_t t = 0; t < c->n_tokens; t++) {
        c->n_ids[t] = 0;
        if (chooses(c, t) && c->n_rows[t] > n_rows) n_rows = c->n_rows[t];
    }
    for (j.first = 0; j.first < n_rows; j.first += INDEXER_TILE) {
        atomic_init(&j.next, 0);
        kernel_pool_run(k->pool, score_tile, &j);
        kernel_pool_run(k->pool, pick, &j);
    }
    kernel_pool_run(k->pool, order, &j);
}

void indexer_layer_norm(const float *x, const float *w, const float *b, size_t n, float eps, float *out)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) sum += x[i];
    const double mean = sum / (double)n;
    for (size_t i = 0; i < n; i++) squares += (x[i] - mean) * (x[i] - mean);
    const double scale = 1.0 / sqrt(squares / (double)n + eps);
    for (size_t i = 0; i < n; i++) {
        const float y = (float)((x[i] - mean) * scale) * w[i];
        out[i] = b ? y + b[i] : y;
    }
}
