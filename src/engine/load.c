#include "engine/load.h"

#include <stdlib.h>
#include <string.h>

/* A run ends where the next tensor is further away than this: reading the gap would cost more than another request. */
#define LOAD_GAP_BYTES_MAX 4096
/* Largest single request: reading can begin when so much memory is there, and progress and cancelling have somewhere to
 * happen. */
#define LOAD_REQUEST_BYTES_MAX ((size_t)8 << 20)

/* Memory that one thread brings in at once, ahead of the reads; more while it is quick. */
#define LOAD_TOUCH_BYTES ((uint64_t)8 << 20)
#define LOAD_TOUCH_BYTES_QUICK ((uint64_t)64 << 20)
#define LOAD_TOUCH_NS_QUICK 20000000u

static uint64_t down(uint64_t v, uint64_t align) { return v / align * align; }
static uint64_t up(uint64_t v, uint64_t align) { return (v + align - 1) / align * align; }

enum sluice_status load_plan_make(const struct model *m, const struct io *io, struct load_plan *out,
                                  struct sluice_error *err)
{
    *out = (struct load_plan){0};
    out->runs = calloc(m->n_dense + m->dense_bytes / LOAD_REQUEST_BYTES_MAX + 1, sizeof *out->runs);
    if (!out->runs) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for a list of %zu tensors", m->n_dense);
    for (size_t i = 0; i < m->n_dense;) {
        const struct model_tensor *t = m->dense[i];
        const uint64_t align = io_file_align(io, t->file);
        struct load_run *r = &out->runs[out->n_runs++];
        *r = (struct load_run){.file = t->file, .first = i, .offset = down(t->offset, align), .at = out->block_bytes};
        uint64_t end = t->offset + t->bytes;
        for (i++; i < m->n_dense; i++) {
            const struct model_tensor *next = m->dense[i];
            if (next->file != r->file || next->offset > end + LOAD_GAP_BYTES_MAX) break;
            if (next->offset + next->bytes - r->offset > LOAD_REQUEST_BYTES_MAX) break;
            if (next->offset + next->bytes > end) end = next->offset + next->bytes;
        }
        r->n = i - r->first;
        r->needed_bytes = end - r->offset;
        r->bytes = up(end, align) - r->offset;
        out->read_bytes += r->bytes;
        out->block_bytes += up(r->bytes, 4096);
    }
    out->converted_at = out->block_bytes;
    out->block_bytes += m->converted_bytes;
    return SLUICE_OK;
}

void load_plan_free(struct load_plan *p)
{
    free(p->runs);
    *p = (struct load_plan){0};
}

/* Vectors are F32 in memory. `at` is where the next copy goes. */
static const void *as_floats(const struct model_tensor *t, uint8_t *block, uint64_t *at)
{
    size_t n = t->dims[0] * t->dims[1] * t->dims[2];
    float *copy = (float *)(block + *at);
    t->type->decode(t->data, copy, n);
    *at += up(n * sizeof *copy, 64);
    return copy;
}

static void point_tensors(struct model *m, const struct load_plan *p, uint8_t *block)
{
    uint64_t converted = p->converted_at;
    for (size_t i = 0; i < p->n_runs; i++) {
        const struct load_run *r = &p->runs[i];
        for (size_t j = r->first; j < r->first + r->n; j++) {
            struct model_tensor *t = m->dense[j];
            t->data = block + r->at + (t->offset - r->offset);
            if (t->is_vector && t->type->id != QUANT_F32) t->data = as_floats(t, block, &converted);
        }
    }
    if (m->output_tied) m->output = m->token_embd;
}

/* The kernel writes into the block until every read has ended. */
static void drain(struct io *io)
{
    struct io_done done[16];
    while (io_outstanding(io) && io_poll(io, done, 16, true)) {
    }
}

/* How far the block's memory has been brought in, by several threads: nothing is computed yet, and one is slower than a
 * disk. The block is read into once, so it is not registered with the kernel: that would touch all of it at once,
 * before the first read. */
struct touched {
    struct os_toucher *touchers[LOAD_TOUCHERS_MAX];
    uint64_t from[LOAD_TOUCHERS_MAX]; /* where the slice under way begins; UINT64_MAX: none */
    unsigned n;                       /* 0: memory comes as it is read into */
    const struct load_touch *how;
    uint8_t *block;
    uint64_t bytes, begun;
};

static void touch_open(struct touched *t, const struct load_touch *how, void *block, uint64_t bytes)
{
    *t = (struct touched){.block = block, .bytes = bytes, .how = how};
    for (; how->toucher && t->n < how->n && t->n < LOAD_TOUCHERS_MAX; t->n++) {
        t->touchers[t->n] = how->toucher;
        if (t->n > 0 && os_toucher_create(how->os, &t->touchers[t->n])) break;
        t->from[t->n] = UINT64_MAX;
    }
}

/* Waits for what is under way. */
static void touch_close(struct touched *t)
{
    for (unsigned i = 0; i < t->n; i++) {
        if (t->from[i] != UINT64_MAX) os_touch_wait(t->touchers[i]);
        if (i > 0) os_toucher_destroy(t->touchers[i]);
    }
}

static uint64_t slice_bytes(struct os_toucher *idle)
{
    const uint64_t ns = os_touch_estimate_ns(idle, LOAD_TOUCH_BYTES_QUICK);
    return ns && ns < LOAD_TOUCH_NS_QUICK ? LOAD_TOUCH_BYTES_QUICK : LOAD_TOUCH_BYTES;
}

/* Gives idle threads the next slices, and the first of them, when there are none left, what else it may do (`rest`);
 * memory up to what it returns is there. */
static uint64_t touch_on(struct touched *t)
{
    if (!t->n) return t->bytes;
    uint64_t there = t->bytes;
    for (unsigned i = 0; i < t->n; i++) {
        if (!os_touch_idle(t->touchers[i])) continue;
        const uint64_t left = t->bytes - t->begun, slice = slice_bytes(t->touchers[i]), n = left < slice ? left : slice;
        t->from[i] = n ? t->begun : UINT64_MAX;
        os_touch_begin(t->touchers[i], t->block + t->begun, (size_t)n);
        t->begun += n;
    }
    for (unsigned i = 0; i < t->n; i++)
        if (t->from[i] < there) there = t->from[i];
    if (t->from[0] == UINT64_MAX && t->how->rest) t->how->rest(t->how->user);
    return there;
}

/* For the slice that is first in the block. */
static void touch_wait(struct touched *t)
{
    unsigned first = 0;
    for (unsigned i = 1; i < t->n; i++)
        if (t->from[i] < t->from[first]) first = i;
    if (t->n) os_touch_wait(t->touchers[first]);
}

enum sluice_status load_dense(struct model *m, struct io *io, const struct load_touch *touch, const struct load_plan *p,
                              void *block, bool (*go_on)(void *user, uint64_t done, uint64_t total), void *user,
                              struct sluice_error *err)
{
    enum { WINDOW = 64 }; /* requests outstanding: more than the disk's queue takes */
    struct io_request requests[WINDOW];
    struct io_request *spare[WINDOW];
    size_t n_spare = WINDOW, next = 0, finished = 0;
    uint64_t read_bytes = 0;
    for (size_t i = 0; i < WINDOW; i++) spare[i] = &requests[i];
    struct touched touched;
    touch_open(&touched, touch, block, p->block_bytes);
    enum sluice_status st = SLUICE_OK;
    while (finished < p->n_runs) {
        const uint64_t there = touch_on(&touched);
        while (n_spare && next < p->n_runs && p->runs[next].at + p->runs[next].bytes <= there) {
            const struct load_run *r = &p->runs[next++];
            struct io_request *q = spare[--n_spare];
            *q = (struct io_request){.file = r->file,
                                     .priority = IO_DEMAND,
                                     .offset = r->offset,
                                     .bytes = r->bytes,
                                     .needed_bytes = r->needed_bytes,
                                     .dst = (uint8_t *)block + r->at,
                                     .tag = next - 1};
            if ((st = io_submit(io, &q, 1, err))) goto stop;
        }
        if (next == finished) { /* nothing is being read */
            touch_wait(&touched);
            continue;
        }
        struct io_done done[16];
        size_t n = io_poll(io, done, 16, true);
        for (size_t i = 0; i < n; i++) {
            if (done[i].status) {
                st = io_explain(io, &done[i], err);
                goto stop;
            }
            read_bytes += done[i].request->bytes;
            spare[n_spare++] = done[i].request;
            finished++;
        }
        if (go_on && !go_on(user, read_bytes, p->read_bytes)) {
            st = base_fail(err, SLUICE_CANCELLED, NULL, "stopped on request while loading");
            goto stop;
        }
    }
    touch_close(&touched);
    point_tensors(m, p, block);
    return SLUICE_OK;
stop:
    drain(io);
    touch_close(&touched);
    return st;
}

enum sluice_status load_verify(const struct model *m, const struct load_plan *p, const void *block,
                               struct expert_verify *verify, bool (*go_on)(void *user, uint64_t done, uint64_t total),
                               void *user, struct sluice_error *err)
{
    uint64_t done = 0;
    for (size_t i = 0; i < p->n_runs; i++) {
        const struct load_run *r = &p->runs[i];
        for (size_t j = r->first; j < r->first + r->n; j++) {
            const struct model_tensor *t = m->dense[j];
            /* Not t->data, which may be a converted copy. */
            const uint8_t *data = (const uint8_t *)block + r->at + (t->offset - r->offset);
            struct sluice_error why;
            enum sluice_status st = expert_verify_bytes(verify, t->file, t->offset, data, t->bytes, &why);
            if (st) return base_fail(err, st, why.hint, "tensor '%s': %s", t->name, why.message);
            done += t->bytes;
            if (go_on && !go_on(user, done, m->dense_bytes))
                return base_fail(err, SLUICE_CANCELLED, NULL, "stopped on request while loading");
        }
    }
    return SLUICE_OK;
}
