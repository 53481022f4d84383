#include "probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define AT_ONCE_MAX 8u
#define TOGETHER 4u /* experts whose pieces fit into the queue */
#define LONE_REPEATS 3u
#define FULL_EXPERTS 64u
#define BUSY_NS 1000000u /* between two lone reads the processors work, as they do between two layers */

struct probe {
    const sluice_engine *e;
    struct io *io;
    uint8_t *memory;
    size_t slot_bytes;
    uint64_t random;
    struct io_request requests[AT_ONCE_MAX * EXPERT_PARTS_MAX];
};

static void die(const struct sluice_error *err)
{
    fprintf(stderr, "stream: measuring the disk: %s (%s)\n", err->message, err->hint);
    exit(1);
}

static uint64_t now(void) { return os_system()->now_ns(NULL); }

struct probe *probe_open(const sluice_engine *e, bool small_pages, uint64_t seed)
{
    struct sluice_error err;
    struct probe *p = calloc(1, sizeof *p);
    const struct io_config config = {.os = e->os, .log = &e->log, .backend = e->asks.io, .buffered = e->asks.buffered};
    if (!p) {
        perror("stream");
        exit(1);
    }
    p->e = e;
    p->random = seed * 2 + 1;
    if (io_open(&config, &p->io, &err)) die(&err);
    for (size_t i = 0; i < gguf_n_shards(e->gguf); i++) {
        uint32_t index;
        if (io_file_add(p->io, gguf_shard(e->gguf, i)->path, &index, &err)) die(&err);
    }
    for (uint32_t i = 0; i < expert_catalog_n_classes(e->catalog); i++)
        if (expert_catalog_class(e->catalog, i)->slot_bytes > p->slot_bytes)
            p->slot_bytes = expert_catalog_class(e->catalog, i)->slot_bytes;
    p->memory = aligned_alloc((size_t)2 << 20, ((p->slot_bytes * AT_ONCE_MAX >> 21) + 1) << 21);
    if (!p->memory) {
        perror("stream");
        exit(1);
    }
    madvise(p->memory, p->slot_bytes * AT_ONCE_MAX, small_pages ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
    memset(p->memory, 1, p->slot_bytes * AT_ONCE_MAX);
    return p;
}

void probe_close(struct probe *p)
{
    io_close(p->io);
    free(p->memory);
    free(p);
}

/* Asks for one expert, into the place `at`; returns its bytes, *parts: how many reports there will be. */
static uint64_t ask(struct probe *p, uint32_t at, uint32_t *parts)
{
    const struct expert_catalog *c = p->e->catalog;
    struct io_request *batch[EXPERT_PARTS_MAX];
    struct sluice_error err;
    uint32_t layer, expert;
    p->random = p->random * UINT64_C(6364136223846793005) + 1442695040888963407u;
    expert_catalog_unkey(c, (uint32_t)((p->random >> 33) % expert_catalog_n_experts(c)), &layer, &expert);
    const struct expert_class *class = expert_catalog_class(c, expert_catalog_class_of(c, layer));
    const uint32_t align = expert_catalog_align(c), n = expert_catalog_layer(c, layer)->n_parts;
    for (uint32_t part = 0; part < n; part++) {
        const struct expert_extent x = expert_catalog_extent(c, layer, expert, part);
        const uint32_t head = (uint32_t)(x.offset % align);
        batch[part] = &p->requests[at * EXPERT_PARTS_MAX + part];
        *batch[part] = (struct io_request){.file = x.file,
                                           .priority = IO_DEMAND,
                                           .offset = x.offset - head,
                                           .bytes = ((size_t)head + x.bytes + align - 1) / align * align,
                                           .needed_bytes = (size_t)head + x.bytes,
                                           .dst = p->memory + at * p->slot_bytes + class->part_at[part],
                                           .tag = at};
    }
    *parts = n;
    if (io_submit(p->io, batch, n, &err)) die(&err);
    return class->expert_bytes;
}

/* Waits for a part or more. left[at]: parts of each place that are still to come. */
static void wait_for(struct probe *p, uint32_t *left)
{
    struct io_done done[16];
    struct sluice_error err;
    const size_t n = io_poll(p->io, done, 16, true);
    for (size_t i = 0; i < n; i++) {
        if (done[i].status) {
            io_explain(p->io, &done[i], &err);
            die(&err);
        }
        left[done[i].request->tag]--;
    }
}

/* n experts at once, from an idle disk. */
static double lone_ns(struct probe *p, uint32_t n, double *bytes, double *first_ns)
{
    uint32_t left[AT_ONCE_MAX] = {0};
    const uint64_t busy = now() + BUSY_NS;
    while (now() < busy) {
    }
    const uint64_t t0 = now();
    for (uint32_t i = 0; i < n; i++) *bytes += (double)ask(p, i, &left[i]);
    wait_for(p, left);
    *first_ns = (double)(now() - t0);
    for (uint32_t i = 0; i < n; i++)
        while (left[i]) wait_for(p, left);
    return (double)(now() - t0);
}

/* Bytes a nanosecond with the queue as full as it gets. */
static double full(struct probe *p)
{
    uint32_t left[AT_ONCE_MAX] = {0}, begun = 0, busy = 1;
    double bytes = 0;
    const uint64_t t0 = now();
    while (busy) {
        busy = 0;
        for (uint32_t i = 0; i < AT_ONCE_MAX; i++) {
            if (!left[i] && begun < FULL_EXPERTS) {
                bytes += (double)ask(p, i, &left[i]);
                begun++;
            }
            busy += left[i] > 0;
        }
        if (busy) wait_for(p, left);
    }
    return bytes / (double)(now() - t0);
}

struct probe_figures probe_now(struct probe *p)
{
    static const uint32_t at_once[] = {1, 2, 4, AT_ONCE_MAX};
    enum { N = sizeof at_once / sizeof *at_once };
    struct probe_figures f = {.full = full(p)};
    double x[N] = {0}, y[N] = {0}, sx = 0, sy = 0, sxx = 0, sxy = 0;
    for (uint32_t k = 0; k < LONE_REPEATS; k++)
        for (uint32_t i = 0; i < N; i++) {
            double first_ns;
            const double ns = lone_ns(p, at_once[i], &x[i], &first_ns);
            y[i] += ns / LONE_REPEATS;
            if (at_once[i] == TOGETHER) f.together += first_ns / ns / LONE_REPEATS;
        }
    for (uint32_t i = 0; i < N; i++) { /* a line by least squares */
        x[i] /= LONE_REPEATS;
        sx += x[i];
        sy += y[i];
        sxx += x[i] * x[i];
        sxy += x[i] * y[i];
    }
    f.byte_ns = (N * sxy - sx * sy) / (N * sxx - sx * sx);
    f.lone_ns = (sy - f.byte_ns * sx) / N;
    if (f.byte_ns <= 0) { /* a disk that was somewhere else meanwhile */
        f.byte_ns = 1 / f.full;
        f.lone_ns = 0;
    }
    if (f.lone_ns < 0) {
        f.lone_ns = 0;
        f.byte_ns = sxy / sxx;
    }
    return f;
}

struct probe_figures probe_between(struct probe_figures a, struct probe_figures b)
{
    return (struct probe_figures){.full = (a.full + b.full) / 2,
                                  .lone_ns = (a.lone_ns + b.lone_ns) / 2,
                                  .byte_ns = (a.byte_ns + b.byte_ns) / 2,
                                  .together = (a.together + b.together) / 2};
}

double probe_read_ns(const struct probe_figures *f, double bytes)
{
    return bytes > 0 ? f->lone_ns + bytes * f->byte_ns : 0;
}
