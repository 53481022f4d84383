/* Throughput of the products, a line a format and batch, beside what the machine can do, measured in the same run: the
 * memory's bandwidth, and multiply-adds on registers alone (peak.h; levels without such a loop have no ratio).
 *
 *   bench_kernel [--level NAME] [--threads N] [--type NAME|none] [--mib N]
 *
 * One-token products stream weights that do not fit the caches, so their GB/s should come near the bandwidth; batches
 * are bound by arithmetic, so look at their multiply-adds a second. Attention follows: one token over long caches, few
 * and many heads; some tokens of a prompt (--type none: attention alone). */
#include "kernel/kernel.h"
#include "peak.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_IN 2048
#define ROWS_MIN 256 /* and room for so many of floats at least */
#define BEST_OF 9
#define BEST_OF_S 0.2 /* or of as many as go into so many seconds: short ones are easily disturbed */

struct options {
    const char *level, *type; /* type: or "none", attention alone */
    unsigned threads;
    size_t bytes;
};

static double now(void) { return (double)os_system()->now_ns(os_system()->user) * 1e-9; }

static void *must(void *p)
{
    if (p) return p;
    fputs("out of memory\n", stderr);
    exit(4);
}

/* ---- bandwidth: every worker adds up its share of a large array ---- */

struct read_job {
    const uint64_t *data;
    size_t n;
    uint64_t sums[KERNEL_THREADS_MAX * 8];
};

static void read_run(void *arg, unsigned worker, unsigned n_workers)
{
    struct read_job *j = arg;
    size_t begin, end;
    kernel_pool_range(worker, n_workers, j->n, 64, &begin, &end);
    uint64_t s[8] = {0};
    for (size_t i = begin; i + 8 <= end; i += 8)
        for (size_t l = 0; l < 8; l++) s[l] += j->data[i + l];
    for (size_t l = 0; l < 8; l++) j->sums[worker * 8] += s[l];
}

static double bandwidth(struct kernel_pool *pool, const void *data, size_t bytes)
{
    static struct read_job j;
    j.data = data;
    j.n = bytes / sizeof *j.data;
    double best = 1e9;
    for (int i = 0; i < BEST_OF; i++) {
        double t = now();
        kernel_pool_run(pool, read_run, &j);
        t = now() - t;
        if (t < best) best = t;
    }
    return (double)bytes / best;
}

/* ---- other limits ---- */

struct peak_job {
    struct kernel_pool *pool;
    double (*of)(const char *level);
    const char *level;
    double rates[KERNEL_THREADS_MAX];
};

static void peak_run(void *arg, unsigned worker, unsigned n_workers)
{
    struct peak_job *j = arg;
    (void)n_workers;
    kernel_pool_barrier(j->pool); /* or one thread might do the parts of two */
    j->rates[worker] = j->of(j->level);
}

/* All threads at once: they may share a core, or its clock. */
static double peak(struct kernel_pool *pool, const struct kernel_table *table, double (*of)(const char *level))
{
    static struct peak_job j;
    j.pool = pool;
    j.of = of;
    j.level = table->name;
    kernel_pool_run(pool, peak_run, &j);
    double sum = 0;
    for (unsigned i = 0; i < kernel_pool_threads(pool); i++) sum += j.rates[i];
    return sum;
}

static void nothing(void *arg, unsigned worker, unsigned n_workers)
{
    (void)arg;
    (void)worker;
    (void)n_workers;
}

/* From the call to the return of a job that does nothing: the median. */
static double start_time(struct kernel_pool *pool)
{
    enum { N = 1001 };
    static double times[N];
    for (int i = 0; i < N; i++) {
        double t = now();
        kernel_pool_run(pool, nothing, NULL);
        t = now() - t;
        int at = i;
        for (; at > 0 && times[at - 1] > t; at--) times[at] = times[at - 1];
        times[at] = t;
    }
    return times[N / 2];
}

/* ---- products ---- */

/* Bytes that are small numbers as halves and as scales, so that no type meets NaN or subnormals all the time. */
static void fill_small(uint8_t *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) data[i] = (uint8_t)(0x2c + i * 2654435761u % 7);
}

/* Formats with grids get all bytes, so that the whole of a grid is in use, but for a sane scale: their half stands
 * first, IQ1_M's in the top nibbles of its last four words. */
static void fill_for(const struct quant_type *type, uint8_t *data, size_t bytes)
{
    uint32_t state = 1;
    if (strncmp(type->name, "IQ", 2) != 0) return;
    for (size_t i = 0; i < bytes; i++) {
        state = state * 1664525u + 1013904223u;
        data[i] = (uint8_t)(state >> 24);
    }
    for (uint8_t *p = data; p + type->block_bytes <= data + bytes; p += type->block_bytes) {
        if (type->id != QUANT_IQ1_M) p[0] = p[1] = 0x2c;
        for (int w = 0; w < 4 && type->id == QUANT_IQ1_M; w++)
            p[49 + 2 * w] = (uint8_t)((p[49 + 2 * w] & 0xf) | (w % 2 ? 0x20 : 0xc0));
    }
}

/* Of all threads together: bytes, and multiply-adds of bytes and of floats, a second. */
struct limits {
    double memory, bytes, floats;
};

static void print_share(double value, double limit)
{
    if (limit > 0) printf(" (%3.0f %% of what registers allow)", 100 * value / limit);
    putchar('\n');
}

static void bench_type(const struct kernel_ctx *k, const struct options *o, const struct quant_type *type, void *data,
                       const struct limits *limits)
{
    static const size_t batches[] = {1, 2, 4, 8, 16, 32, 64, 512};
    struct kernel_weight w = {.type = type, .data = data, .n_in = N_IN};
    for (size_t b = 0; b < sizeof batches / sizeof batches[0]; b++) {
        size_t n = batches[b], bytes = n == 1 ? o->bytes : o->bytes / (4 * n);
        w.n_out = bytes / quant_row_bytes(type, N_IN) / 8 * 8;
        if (w.n_out < ROWS_MIN) w.n_out = ROWS_MIN;
        float *x = must(malloc(n * N_IN * sizeof *x)), *out = must(malloc(n * w.n_out * sizeof *out));
        for (size_t i = 0; i < n * N_IN; i++) x[i] = (float)(int)(i * 2654435761u % 2001) * 1e-3f - 1.0f;
        void *forms = must(aligned_alloc(64, kernel_acts_bytes(N_IN, n)));
        struct kernel_acts acts;
        kernel_acts_place(&acts, x, N_IN, n, forms);
        kernel_acts_fill(k, &acts, type->form);
        kernel_matmul(k, &w, NULL, &acts, out);
        double best = 1e9, begun = now();
        for (int i = 0; i < BEST_OF || now() - begun < BEST_OF_S; i++) {
            double t = now();
            kernel_matmul(k, &w, NULL, &acts, out);
            t = now() - t;
            if (t < best) best = t;
        }
        double weight_bytes = (double)(quant_row_bytes(type, N_IN) * w.n_out);
        double macs = (double)n * N_IN * (double)w.n_out / best;
        printf("%-7s %4zu tokens %6zu rows %9.1f GB/s (%3.0f %% of memory) %9.1f GMAC/s", type->name, n, w.n_out,
               weight_bytes / best * 1e-9, 100 * weight_bytes / best / limits->memory, macs * 1e-9);
        print_share(macs, type->form == QUANT_FORM_FLOAT ? limits->floats : limits->bytes);
        free(x);
        free(out);
        free(forms);
    }
}

struct heads {
    size_t n_head, n_head_kv, d, n_tokens, n_positions;
};

static void bench_attention(const struct kernel_ctx *k, uint32_t type, const struct heads *h, const void *data,
                            size_t bytes)
{
    const size_t row = quant_row_bytes(quant_type(type), h->d) * h->n_head_kv, n = h->n_tokens * h->n_head * h->d;
    if (h->n_positions * row > bytes) return;
    float *q = must(calloc(n, sizeof *q)), *out = must(malloc(n * sizeof *out));
    struct kernel_attention a = {.q = q,
                                 .k = data,
                                 .v = data,
                                 .k_type = type,
                                 .v_type = type,
                                 .n_head = h->n_head,
                                 .n_head_kv = h->n_head_kv,
                                 .d_head = h->d,
                                 .d_head_v = h->d,
                                 .n_tokens = h->n_tokens,
                                 .pos0 = h->n_positions - h->n_tokens,
                                 .scale = 0.1f,
                                 .out = out};
    double best = 1e9;
    for (int r = 0; r < 3 * BEST_OF; r++) {
        double t = now();
        kernel_attention_run(k, &a);
        t = now() - t;
        if (t < best) best = t;
    }
    printf("attention %-5s %3zu tokens over %6zu positions, %2zu query and %zu key heads of %zu: %9.3f ms, %6.1f "
           "GMAC/s\n",
           quant_type(type)->name, h->n_tokens, h->n_positions, h->n_head, h->n_head_kv, h->d, best * 1e3,
           2.0 * (double)n * (double)h->n_positions / best * 1e-9);
    free(q);
    free(out);
}

static void bench_attentions(const struct kernel_ctx *k, const void *data, size_t bytes)
{
    static const uint32_t types[] = {QUANT_F32, QUANT_F16, QUANT_Q8_0};
    static const struct heads heads[] = {{32, 4, 128, 1, 32768}, {32, 4, 128, 1, 1024}, {8, 1, 128, 1, 32768},
                                         {16, 2, 128, 1, 8192},  {5, 1, 128, 1, 8192},  {32, 4, 128, 64, 4096}};
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
        for (size_t h = 0; h < sizeof heads / sizeof heads[0]; h++)
            bench_attention(k, types[t], &heads[h], data, bytes);
}

static int usage(void)
{
    fputs("usage: bench_kernel [--level NAME] [--threads N] [--type NAME|none] [--mib N]\n", stderr);
    return 2;
}

int main(int argc, char **argv)
{
    struct os_cpu cpu;
    os_cpu(&cpu);
    struct options o = {.threads = cpu.n_threads, .bytes = (size_t)256 << 20};
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 == argc) return usage();
        if (strcmp(argv[i], "--level") == 0)
            o.level = argv[i + 1];
        else if (strcmp(argv[i], "--type") == 0)
            o.type = argv[i + 1];
        else if (strcmp(argv[i], "--threads") == 0)
            o.threads = (unsigned)strtoul(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--mib") == 0)
            o.bytes = (size_t)strtoul(argv[i + 1], NULL, 10) << 20;
        else
            return usage();
    }
    struct kernel_ctx k;
    struct sluice_error err;
    if (o.bytes < ROWS_MIN * N_IN * sizeof(float) ||
        (o.type && strcmp(o.type, "none") != 0 && !quant_type_by_name(o.type)))
        return usage();
    if (kernel_select(&cpu, o.level, &k.table, &err) != SLUICE_OK ||
        kernel_pool_create(o.threads, &k.pool, &err) != SLUICE_OK) {
        fprintf(stderr, "%s (%s)\n", err.message, err.hint);
        return 2;
    }
    uint8_t *data = must(aligned_alloc(4096, o.bytes));
    fill_small(data, o.bytes);
    const struct limits limits = {.memory = bandwidth(k.pool, data, o.bytes),
                                  .bytes = peak(k.pool, k.table, bench_peak_bytes),
                                  .floats = peak(k.pool, k.table, bench_peak_floats)};
    printf("%s kernels, %u threads, %s; reading memory: %.1f GB/s; on registers: %.1f GMAC/s of bytes, %.1f of floats; "
           "starting a job on all threads: %.2f us\n",
           k.table->name, o.threads, cpu.name, limits.memory * 1e-9, limits.bytes * 1e-9, limits.floats * 1e-9,
           start_time(k.pool) * 1e6);
    for (uint32_t id = 0; id < QUANT_IDS; id++)
        if (quant_type(id) && (!o.type || quant_type(id) == quant_type_by_name(o.type))) {
            fill_for(quant_type(id), data, o.bytes);
            bench_type(&k, &o, quant_type(id), data, &limits);
        }
    fill_small(data, o.bytes);
    bench_attentions(&k, data, o.bytes);
    free(data);
    kernel_pool_destroy(k.pool);
    return 0;
}
