/* Matrix products over the pool. Rows are cut into chunks of about equal bytes, in multiples of 8 rows. Each worker has
 * chunks that follow each other, so that what a kernel prefetches behind one is what the same core wants next, and
 * takes those of the others when it has done its own: a worker that the system holds up does not hold up the others. A
 * row's result depends on neither the chunk nor the worker (K1). */
#include "kernel/kernel.h"

#include "base/assert.h"

#include <stdatomic.h>
#include <string.h>

#define ROWS 8                /* the grain of a split */
#define CHUNKS_A_WORKER 8     /* chunks are about this many times smaller than a worker's share */
#define ROWS_A_CHUNK 128      /* with many tokens: a kernel prepares their activations once for so many rows */
#define ROWS_A_CHUNK_SHORT 64 /* where it keeps them prepared, because they are so short: */
#define ELEMENTS_SHORT 256
#define CHUNKS_A_WORKER_MANY 3 /* but not fewer than this */
#define TOKENS_FEW 4           /* those are not prepared */
#define TOKENS_UNPACK 8        /* unpacking a weight's rows costs as much as their products with so many tokens */
#define TOKENS_A_TILE 64   /* so that the tile's activations and the chunk's weights stay in the second-level cache */
#define CHUNK_BYTES 131072 /* of weights, for the same reason */
#define CHUNK_BYTES_FEW (2 * CHUNK_BYTES) /* with few tokens, where a chunk is read once */
#define TARGETS_MAX KERNEL_EXPERTS_MAX
#define DIRECT_ELEMENTS 16384 /* below this, waking the workers costs more than they save */

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }
static size_t align64(size_t bytes) { return (bytes + 63) & ~(size_t)63; }

static bool has_form(const struct kernel_acts *a, enum quant_form form)
{
    return form == QUANT_FORM_FLOAT || a->forms & 1u << form;
}

size_t kernel_acts_bytes(size_t n, size_t n_tokens)
{
    size_t bytes = 0, elements = n * n_tokens;
    for (enum quant_form f = QUANT_FORM_32; f < QUANT_FORMS; f++) {
        if (n % quant_form_len(f) != 0) continue;
        bytes += align64(elements) + align64(elements / quant_form_len(f) * sizeof(float)) +
                 align64(elements / 16 * sizeof(int16_t));
    }
    return bytes;
}

void kernel_acts_place(struct kernel_acts *a, const float *x, size_t n, size_t n_tokens, void *mem)
{
    *a = (struct kernel_acts){.x = x, .n = n, .n_tokens = n_tokens, .forms = 1u << QUANT_FORM_FLOAT};
    char *at = mem;
    size_t elements = n * n_tokens;
    for (enum quant_form f = QUANT_FORM_32; f < QUANT_FORMS; f++) {
        if (n % quant_form_len(f) != 0) continue;
        a->q[f] = (int8_t *)at;
        at += align64(elements);
        a->d[f] = (float *)(void *)at;
        at += align64(elements / quant_form_len(f) * sizeof(float));
        a->sums[f] = (int16_t *)(void *)at;
        at += align64(elements / 16 * sizeof(int16_t));
    }
}

/* Worker's share of quantising; rows follow each other without gaps, so all of them are one long row. */
static void fill_share(const struct kernel_table *table, struct kernel_acts *a, enum quant_form form, unsigned worker,
                       unsigned n_workers)
{
    size_t block = quant_form_len(form), begin, end;
    kernel_pool_range(worker, n_workers, a->n * a->n_tokens, block, &begin, &end);
    if (begin < end)
        table->quantize(form, a->x + begin, end - begin, a->q[form] + begin, a->d[form] + begin / block,
                        a->sums[form] + begin / 16);
}

struct fill_job {
    const struct kernel_table *table;
    struct kernel_acts *acts;
    enum quant_form form;
};

static void fill_run(void *arg, unsigned worker, unsigned n_workers)
{
    struct fill_job *j = arg;
    fill_share(j->table, j->acts, j->form, worker, n_workers);
}

void kernel_acts_fill(const struct kernel_ctx *k, struct kernel_acts *a, enum quant_form form)
{
    if (has_form(a, form)) return;
    BASE_ASSERT(a->q[form], "K2 a form needs rows that are multiples of its block");
    struct fill_job j = {.table = k->table, .acts = a, .form = form};
    if (a->n * a->n_tokens <= DIRECT_ELEMENTS)
        fill_run(&j, 0, 1);
    else
        kernel_pool_run(k->pool, fill_run, &j);
    a->forms |= 1u << form;
}

/* ---- products ---- */

/* A product and where its results go; with `up`, two of the same shape that are joined. */
struct target {
    const struct kernel_weight *w, *up; /* up: NULL: none */
    size_t row_bytes, row_cost;         /* of both; the cost grows with the tokens */
    const struct kernel_acts *acts;
    const uint32_t *tokens;   /* rows of acts; NULL: those from `first` on */
    const uint32_t *out_rows; /* NULL: in order */
    size_t first, n_tokens;
    float *out, *out_up; /* [.][n_out] */
    const float *bias;
    const struct kernel_glu *glu; /* how out and out_up are joined */
};

struct matmul_job {
    const struct kernel_table *table;
    struct target targets[TARGETS_MAX];
    size_t n_targets, n_tokens_max;
    size_t bytes, cost;              /* of all weights */
    struct kernel_counter *counters; /* chunks of each worker that are taken */
    size_t n_chunks, n_workers;
    bool tapers; /* the chunks do; then each worker has as many */
};

/* The worker's next chunk: of its own ones, then of those of the others; false: all are taken. *passed counts the
 * workers that have none left, from 0. */
static bool take_chunk(const struct matmul_job *j, unsigned worker, unsigned n_workers, unsigned *passed, size_t *chunk)
{
    for (; *passed < n_workers; ++*passed) {
        size_t begin, end;
        const unsigned whose = (worker + *passed) % n_workers;
        kernel_pool_range(whose, n_workers, j->n_chunks, 1, &begin, &end);
        *chunk = begin + atomic_fetch_add_explicit(&j->counters[whose].taken, 1, memory_order_relaxed);
        if (*chunk < end) return true;
    }
    return false;
}

/* Where chunk `edge` begins, in cost. With many tokens a worker's chunks, c of them, are as (c + 1) : c : ... : 2, so
 * that nobody waits long for the one who took the last. */
static size_t edge_cost(const struct matmul_job *j, size_t edge)
{
    if (!j->tapers) return (size_t)((uint64_t)j->cost * edge / j->n_chunks);
    const size_t c = j->n_chunks / j->n_workers, worker = edge / c, k = edge % c;
    const double share = (double)j->cost / (double)j->n_workers, before = (double)(k * (2 * c + 3 - k)) / 2,
                 all = (double)(c * (c + 3)) / 2;
    return (size_t)((uint64_t)j->cost * worker / j->n_workers) + (size_t)(share * before / all);
}

/* The rows of a target, whose first one lies at `base` in cost, that belong to a chunk from edges[0] to edges[1]:
 * groups of 8 rows that start, in cost, between them. */
static void chunk_rows(const struct target *t, size_t base, const size_t edges[2], size_t *begin, size_t *end)
{
    const size_t group_cost = ROWS * t->row_cost, n_out = t->w->n_out;
    size_t rows[2];
    for (size_t e = 0; e < 2; e++) {
        const size_t row = edges[e] > base ? (edges[e] - base + group_cost - 1) / group_cost * ROWS : 0;
        rows[e] = row < n_out ? row : n_out;
    }
    *begin = rows[0];
    *end = rows[1];
}

static const char *row_at(const struct kernel_weight *w, size_t row)
{
    return (const char *)w->data + row * quant_row_bytes(w->type, w->n_in);
}

/* next: what the worker wants behind these rows. */
static void product_rows(const struct matmul_job *j, const struct target *t, const struct kernel_weight *w, float *out,
                         size_t begin, size_t end, const void *next)
{
    for (size_t t0 = 0; t0 < t->n_tokens; t0 += TOKENS_A_TILE) {
        const size_t n = t->n_tokens - t0 < TOKENS_A_TILE ? t->n_tokens - t0 : TOKENS_A_TILE;
        struct kernel_acts part = *t->acts;
        part.next_weights = t0 + n < t->n_tokens ? row_at(w, begin) : next;
        const size_t skip = t->tokens ? 0 : t->first + t0;
        part.x += skip * part.n;
        for (enum quant_form f = QUANT_FORM_32; f < QUANT_FORMS && skip; f++) {
            if (!part.q[f]) continue;
            part.q[f] += skip * part.n;
            part.d[f] += skip * (part.n / quant_form_len(f));
            part.sums[f] += skip * (part.n / 16);
        }
        j->table->product[w->type->id](row_at(w, begin), end - begin, &part, t->tokens ? t->tokens + t0 : NULL, n,
                                       out + begin + (t->out_rows ? 0 : t0 * w->n_out), w->n_out,
                                       t->out_rows ? t->out_rows + t0 : NULL);
    }
}

/* Rows [begin, begin + n) of one token's gate and up. */
static void join(const struct kernel_table *t, const struct kernel_glu *glu, size_t token, size_t begin, size_t n,
                 float *gate, float *up)
{
    if (glu->row_weights) {
        t->scale(gate, glu->row_weights[token], n);
        t->scale(up, glu->row_weights[token], n);
    }
    if (glu->gate_scale != 1.0f) t->scale(gate, glu->gate_scale, n);
    if (glu->up_scale != 1.0f) t->scale(up, glu->up_scale, n);
    if (glu->gate_bias) t->add(gate, glu->gate_bias + begin, n);
    if (glu->up_bias) t->add(up, glu->up_bias + begin, n);
    t->act_mul(glu->act, glu->limit, gate, up, n, gate);
}

/* Rows of a target, gate and up of the same ones by the same worker; then come the rows behind them, or another target.
 */
static void target_rows(const struct matmul_job *j, const struct target *t, size_t begin, size_t end)
{
    const size_t n_out = t->w->n_out;
    const void *next = NULL;
    if (end < n_out)
        next = row_at(t->w, end);
    else if (t + 1 < j->targets + j->n_targets)
        next = t[1].w->data;
    product_rows(j, t, t->w, t->out, begin, end, t->up ? row_at(t->up, begin) : next);
    if (t->up) product_rows(j, t, t->up, t->out_up, begin, end, next);
    for (size_t i = 0; i < t->n_tokens && (t->up || t->bias); i++) {
        float *out = t->out + (t->out_rows ? t->out_rows[i] : i) * n_out + begin;
        if (t->bias) j->table->add(out, t->bias + begin, end - begin);
        if (t->up) join(j->table, t->glu, i, begin, end - begin, out, t->out_up + i * n_out + begin);
    }
}

static void matmul_run(void *arg, unsigned worker, unsigned n_workers)
{
    const struct matmul_job *j = arg;
    unsigned passed = 0;
    for (size_t chunk; take_chunk(j, worker, n_workers, &passed, &chunk);) {
        const size_t edges[2] = {edge_cost(j, chunk), edge_cost(j, chunk + 1)};
        for (size_t t = 0, base = 0, begin, end; t < j->n_targets && base < edges[1]; t++) {
            chunk_rows(&j->targets[t], base, edges, &begin, &end);
            if (begin < end) target_rows(j, &j->targets[t], begin, end);
            base += j->targets[t].row_cost * j->targets[t].w->n_out;
        }
    }
}

static void add_target(struct matmul_job *j, const struct target *target)
{
    BASE_ASSERT(j->n_targets < TARGETS_MAX, "K2 a dispatch has at most KERNEL_EXPERTS_MAX targets");
    struct target *t = &j->targets[j->n_targets++];
    *t = *target;
    const struct kernel_weight *const weights[2] = {t->w, t->up};
    for (int i = 0; i < 2 && weights[i]; i++) {
        const struct kernel_weight *w = weights[i];
        BASE_ASSERT(w->n_in == t->acts->n, "K2 a weight's rows are as long as the activations'");
        BASE_ASSERT(w->n_out == t->w->n_out, "K2 gate and up have the same shape");
        BASE_ASSERT(has_form(t->acts, w->type->form), "K2 the form is filled before the product");
        t->row_bytes += quant_row_bytes(w->type, w->n_in);
    }
    t->row_cost = t->row_bytes * (t->n_tokens + TOKENS_UNPACK);
    j->bytes += t->row_bytes * t->w->n_out;
    j->cost += t->row_cost * t->w->n_out;
    if (t->n_tokens > j->n_tokens_max) j->n_tokens_max = t->n_tokens;
}

static void run(const struct kernel_ctx *k, struct matmul_job *j)
{
    if (!j->n_targets) return;
    const unsigned n_workers = kernel_pool_threads(k->pool);
    const bool large = k->table->many_rows && j->n_tokens_max > TOKENS_FEW;
    const size_t chunk_bytes = large                             ? k->table->many_bytes
                               : j->n_tokens_max > TOKENS_A_TILE ? CHUNK_BYTES
                                                                 : CHUNK_BYTES_FEW;
    const size_t rows_a_chunk = large                                    ? k->table->many_rows
                                : j->targets[0].w->n_in > ELEMENTS_SHORT ? ROWS_A_CHUNK
                                                                         : ROWS_A_CHUNK_SHORT;
    size_t rows = 0;
    for (size_t t = 0; t < j->n_targets; t++) rows += (j->targets[t].w->n_out + ROWS - 1) / ROWS * ROWS;
    size_t fewest = (size_t)n_workers * CHUNKS_A_WORKER;
    if (j->n_tokens_max > TOKENS_FEW && fewest > rows / rows_a_chunk)
        fewest = larger(rows / rows_a_chunk, (size_t)n_workers * CHUNKS_A_WORKER_MANY);
    j->n_chunks = n_workers == 1 ? 1 : fewest;
    if ((n_workers > 1 || j->n_tokens_max > TOKENS_A_TILE) && j->n_chunks < j->bytes / chunk_bytes)
        j->n_chunks = j->bytes / chunk_bytes;
    if (j->n_tokens_max > TOKENS_FEW) j->n_chunks += (n_workers - j->n_chunks % n_workers) % n_workers;
    if (j->n_chunks > rows / ROWS) j->n_chunks = rows / ROWS;
    j->tapers = j->n_tokens_max > TOKENS_FEW && j->n_chunks % n_workers == 0;
    if (j->n_chunks == 0 || j->n_tokens_max == 0) return;
    j->table = k->table;
    j->counters = kernel_pool_counters(k->pool);
    for (unsigned i = 0; i < n_workers; i++) atomic_store_explicit(&j->counters[i].taken, 0, memory_order_relaxed);
    j->n_workers = n_workers;
    kernel_pool_run_parts(k->pool, j->n_chunks, matmul_run, j);
}

void kernel_matmul(const struct kernel_ctx *k, const struct kernel_weight *w, const float *bias,
                   const struct kernel_acts *acts, float *out)
{
    kernel_matmul_many(k, w, &bias, 1, acts, &out);
}

void kernel_matmul_many(const struct kernel_ctx *k, const struct kernel_weight *w, const float *const *bias,
                        size_t n_weights, const struct kernel_acts *acts, float *const *out)
{
    for (size_t i = 0; i < n_weights;) {
        struct matmul_job j = {.n_targets = 0};
        for (; i < n_weights && j.n_targets < TARGETS_MAX; i++)
            add_target(&j, &(struct target){.w = &w[i],
                                            .acts = acts,
                                            .n_tokens = acts->n_tokens,
                                            .out = out[i],
                                            .bias = bias ? bias[i] : NULL});
        run(k, &j);
    }
}

void kernel_experts_glu(const struct kernel_ctx *k, const struct kernel_expert *experts, size_t n_experts,
                        const struct kernel_acts *acts, float *hidden, float *scratch_up)
{
    struct matmul_job j = {.n_targets = 0};
    for (size_t i = 0, row = 0; i < n_experts; row += experts[i++].n) {
        const struct kernel_expert *e = &experts[i];
        add_target(&j, &(struct target){.w = &e->gate,
                                        .up = &e->up,
                                        .acts = acts,
                                        .tokens = e->tokens,
                                        .n_tokens = e->n,
                                        .out = hidden + row * e->gate.n_out,
                                        .out_up = scratch_up + row * e->gate.n_out,
                                        .glu = &e->glu});
    }
    run(k, &j);
}

void kernel_experts_down(const struct kernel_ctx *k, const struct kernel_expert *experts, size_t n_experts,
                         struct kernel_acts *hidden, float *out)
{
    struct matmul_job j = {.n_targets = 0};
    for (size_t i = 0, row = 0; i < n_experts; row += experts[i++].n) {
        const struct kernel_expert *e = &experts[i];
        kernel_acts_fill(k, hidden, e->down.type->form);
        add_target(&j, &(struct target){.w = &e->down,
                                        .acts = hidden,
                                        .first = row,
                                        .n_tokens = e->n,
                                        .out = out + (e->out_rows ? 0 : row * e->down.n_out),
                                        .out_rows = e->out_rows});
    }
    run(k, &j);
}

/* ---- rows of norms ---- */

struct norm_job {
    const struct kernel_table *table;
    const float *x, *w;
    size_t n, n_rows;
    float eps;
    float *out;
};

static void norm_run(void *arg, unsigned worker, unsigned n_workers)
{
    struct norm_job *j = arg;
    size_t begin, end;
    kernel_pool_range(worker, n_workers, j->n_rows, 1, &begin, &end);
    for (size_t r = begin; r < end; r++) j->table->rms_norm(j->x + r * j->n, j->w, j->n, j->eps, j->out + r * j->n);
}

void kernel_rms_norm_rows(const struct kernel_ctx *k, const float *x, const float *w, size_t n, size_t n_rows,
                          float eps, float *out)
{
    struct norm_job j = {.table = k->table, .x = x, .w = w, .n = n, .n_rows = n_rows, .eps = eps, .out = out};
    if (n * n_rows <= DIRECT_ELEMENTS)
        norm_run(&j, 0, 1);
    else
        kernel_pool_run(k->pool, norm_run, &j);
}
