/* Matrix products over the pool. Rows are cut into chunks of about equal bytes, in multiples of 8 rows. Each worker has
 * chunks that follow each other, so that what a kernel prefetches behind one is what the same core wants next, and
 * takes those of the others when it has done its own: a worker that the system holds up does not hold up the others. A
 * row's result depends on neither the chunk nor the worker (K1). */
#include "kernel/kernel.h"

#include "base/assert.h"

#include <stdatomic.h>
#include <string.h>

#define ROWS 8             /* the grain of a split */
#define CHUNKS_A_WORKER 8  /* chunks are about this many times smaller than a worker's share */
#define TOKENS_A_TILE 64   /* so that the tile's activations and the chunk's weights stay in the second-level cache */
#define CHUNK_BYTES 131072 /* of weights, for the same reason */
#define WEIGHTS_MAX 8      /* in one dispatch */
#define DIRECT_ELEMENTS 16384 /* below this, waking the workers costs more than they save */

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

/* One product and where its results go. */
struct target {
    const struct kernel_weight *w;
    size_t row_bytes;
    float *out; /* [.][n_out] */
    const float *bias;
};

/* How many of a worker's chunks are taken. */
struct counter {
    _Alignas(64) atomic_size_t taken;
};

struct matmul_job {
    const struct kernel_table *table;
    const struct kernel_acts *acts;
    const uint32_t *tokens;   /* NULL: all in order */
    const uint32_t *out_rows; /* NULL: in order */
    size_t n_tokens;
    struct target targets[WEIGHTS_MAX];
    size_t n_targets;
    size_t cost; /* bytes of all weights */
    /* experts only */
    const struct kernel_glu *glu; /* how gate and up are joined */

    struct counter *counters; /* one a worker */
    size_t n_chunks;
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

/* The chunk's rows of target t: groups of 8 rows that start, in bytes, inside the chunk's part of all bytes. */
static void chunk_rows(const struct matmul_job *j, size_t chunk, size_t t, size_t *begin, size_t *end)
{
    size_t base = 0;
    for (size_t i = 0; i < t; i++) base += j->targets[i].row_bytes * j->targets[i].w->n_out;
    size_t group_bytes = ROWS * j->targets[t].row_bytes, n_out = j->targets[t].w->n_out;
    size_t edges[2];
    for (size_t e = 0; e < 2; e++) {
        size_t at = (size_t)((uint64_t)j->cost * (chunk + e) / j->n_chunks);
        size_t row = at > base ? (at - base + group_bytes - 1) / group_bytes * ROWS : 0;
        edges[e] = row < n_out ? row : n_out;
    }
    *begin = edges[0];
    *end = edges[1];
}

static void product_rows(const struct matmul_job *j, const struct target *t, size_t begin, size_t end)
{
    const struct kernel_acts *all = j->acts;
    for (size_t t0 = 0; t0 < j->n_tokens; t0 += TOKENS_A_TILE) {
        size_t n = j->n_tokens - t0 < TOKENS_A_TILE ? j->n_tokens - t0 : TOKENS_A_TILE;
        struct kernel_acts part = *all;
        float *out = t->out + begin;
        if (!j->tokens && t0) {
            part.x += t0 * all->n;
            for (enum quant_form f = QUANT_FORM_32; f < QUANT_FORMS; f++) {
                if (!all->q[f]) continue;
                part.q[f] += t0 * all->n;
                part.d[f] += t0 * (all->n / quant_form_len(f));
                part.sums[f] += t0 * (all->n / 16);
            }
        }
        if (!j->out_rows) out += t0 * t->w->n_out;
        j->table->product[t->w->type->id]((const char *)t->w->data + begin * t->row_bytes, end - begin, &part,
                                          j->tokens ? j->tokens + t0 : NULL, n, out, t->w->n_out,
                                          j->out_rows ? j->out_rows + t0 : NULL);
    }
    if (!t->bias) return;
    for (size_t i = 0; i < j->n_tokens; i++) {
        size_t row = j->out_rows ? j->out_rows[i] : i;
        j->table->add(t->out + row * t->w->n_out + begin, t->bias + begin, end - begin);
    }
}

static void matmul_run(void *arg, unsigned worker, unsigned n_workers)
{
    const struct matmul_job *j = arg;
    unsigned passed = 0;
    for (size_t chunk; take_chunk(j, worker, n_workers, &passed, &chunk);)
        for (size_t t = 0; t < j->n_targets; t++) {
            size_t begin, end;
            chunk_rows(j, chunk, t, &begin, &end);
            if (begin < end) product_rows(j, &j->targets[t], begin, end);
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

/* Gate and up of the same rows by the same worker, which then joins them. */
static void gate_up_run(void *arg, unsigned worker, unsigned n_workers)
{
    const struct matmul_job *j = arg;
    unsigned passed = 0;
    size_t n_ff = j->targets[0].w->n_out;
    for (size_t chunk; take_chunk(j, worker, n_workers, &passed, &chunk);) {
        size_t begin, end;
        kernel_pool_range((unsigned)chunk, (unsigned)j->n_chunks, n_ff, ROWS, &begin, &end);
        if (begin == end) continue;
        product_rows(j, &j->targets[0], begin, end);
        product_rows(j, &j->targets[1], begin, end);
        for (size_t i = 0; i < j->n_tokens; i++) {
            float *gate = j->targets[0].out + i * n_ff + begin, *up = j->targets[1].out + i * n_ff + begin;
            join(j->table, j->glu, i, begin, end - begin, gate, up);
        }
    }
}

static void add_target(struct matmul_job *j, const struct kernel_weight *w, const float *bias, float *out)
{
    BASE_ASSERT(w->n_in == j->acts->n, "K2 a weight's rows are as long as the activations'");
    struct target *t = &j->targets[j->n_targets++];
    *t = (struct target){.w = w, .row_bytes = quant_row_bytes(w->type, w->n_in), .out = out, .bias = bias};
    j->cost += t->row_bytes * w->n_out;
}

static void run(const struct kernel_ctx *k, struct matmul_job *j,
                void (*job)(void *arg, unsigned worker, unsigned n_workers))
{
    size_t most = 0;
    for (size_t t = 0; t < j->n_targets; t++) {
        const struct kernel_weight *w = j->targets[t].w;
        BASE_ASSERT(has_form(j->acts, w->type->form), "K2 the form is filled before the product");
        most += (w->n_out + ROWS - 1) / ROWS;
    }
    unsigned n_workers = kernel_pool_threads(k->pool);
    j->n_chunks = n_workers == 1 ? 1 : (size_t)n_workers * CHUNKS_A_WORKER;
    if (j->n_tokens > TOKENS_A_TILE && j->n_chunks < j->cost / CHUNK_BYTES) j->n_chunks = j->cost / CHUNK_BYTES;
    if (j->n_chunks > most) j->n_chunks = most;
    if (j->n_chunks == 0 || j->n_tokens == 0) return;
    struct counter counters[KERNEL_THREADS_MAX];
    for (unsigned i = 0; i < n_workers; i++) atomic_init(&counters[i].taken, 0);
    j->table = k->table;
    j->counters = counters;
    kernel_pool_run_parts(k->pool, j->n_chunks, job, j);
}

void kernel_matmul(const struct kernel_ctx *k, const struct kernel_weight *w, const float *bias,
                   const struct kernel_acts *acts, float *out)
{
    kernel_matmul_many(k, w, &bias, 1, acts, &out);
}

void kernel_matmul_many(const struct kernel_ctx *k, const struct kernel_weight *w, const float *const *bias,
                        size_t n_weights, const struct kernel_acts *acts, float *const *out)
{
    while (n_weights > 0) {
        struct matmul_job j = {.acts = acts, .n_tokens = acts->n_tokens};
        size_t n = n_weights < WEIGHTS_MAX ? n_weights : WEIGHTS_MAX;
        for (size_t i = 0; i < n; i++) add_target(&j, &w[i], bias ? bias[i] : NULL, out[i]);
        run(k, &j, matmul_run);
        w += n;
        out += n;
        bias = bias ? bias + n : NULL;
        n_weights -= n;
    }
}

void kernel_expert_gate_up(const struct kernel_ctx *k, const struct kernel_weight *gate, const struct kernel_weight *up,
                           float gate_scale, float up_scale, const struct kernel_acts *acts, const uint32_t *tokens,
                           size_t n, float *hidden, float *scratch_up)
{
    const struct kernel_glu glu = {.act = KERNEL_SILU, .gate_scale = gate_scale, .up_scale = up_scale};
    kernel_expert_glu(k, gate, up, &glu, acts, tokens, n, hidden, scratch_up);
}

void kernel_expert_glu(const struct kernel_ctx *k, const struct kernel_weight *gate, const struct kernel_weight *up,
                       const struct kernel_glu *glu, const struct kernel_acts *acts, const uint32_t *tokens, size_t n,
                       float *hidden, float *scratch_up)
{
    BASE_ASSERT(gate->n_out == up->n_out, "K2 gate and up have the same shape");
    struct matmul_job j = {.acts = acts, .tokens = tokens, .n_tokens = n, .glu = glu};
    add_target(&j, gate, NULL, hidden);
    add_target(&j, up, NULL, scratch_up);
    run(k, &j, gate_up_run);
}

void kernel_expert_down(const struct kernel_ctx *k, const struct kernel_weight *down, struct kernel_acts *hidden,
                        float *out, const uint32_t *out_rows)
{
    struct matmul_job j = {.acts = hidden, .out_rows = out_rows, .n_tokens = hidden->n_tokens};
    kernel_acts_fill(k, hidden, down->type->form);
    add_target(&j, down, NULL, out);
    run(k, &j, matmul_run);
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
