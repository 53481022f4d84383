/* A model's tensors in file order, read in blocks of which several are on their way at once, so that a disk is kept
 * busy; each block is summed up when all before it have been. Blocks begin on the alignment of direct reads and stop
 * where a run of neighbouring tensors does. */
#include "cli/checksum.h"
#include "cli/interrupt.h"

#include "base/hash.h"
#include "io/io.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES ((size_t)2 << 20)
#define BLOCKS 8                          /* on their way at once: 16 MiB in all */
#define GAP_BYTES_MAX ((uint64_t)1 << 20) /* a longer stretch that belongs to no tensor is not read */

/* ---- what is summed up ---- */

/* "blk.N.rest": N and rest. */
static bool layer_of(const char *name, uint32_t *layer, const char **rest)
{
    char *end;
    if (strncmp(name, "blk.", 4) != 0 || name[4] < '0' || name[4] > '9') return false;
    unsigned long n = strtoul(name + 4, &end, 10);
    if (*end != '.' || n > UINT32_MAX) return false;
    *layer = (uint32_t)n;
    *rest = end + 1;
    return true;
}

/* "blk.N.ffn_up_exps.weight" holds all experts of a layer; old files have one tensor each, "blk.N.ffn_up.E.weight". */
static void look_at_name(struct checksum_tensor *t)
{
    static const char *const parts[][2] = {
        {"gate_up", "gate and up"}, {"gate", "gate"}, {"up", "up"}, {"down", "down"}};
    const char *rest;
    if (!layer_of(t->tensor->name, &t->layer, &rest) || strncmp(rest, "ffn_", 4) != 0) return;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        size_t n = strlen(parts[i][0]);
        if (strncmp(rest + 4, parts[i][0], n) != 0) continue;
        const char *after = rest + 4 + n;
        char *end;
        if (strcmp(after, "_exps.weight") == 0 && t->tensor->dims[2] > 1 && t->tensor->dims[2] <= UINT32_MAX &&
            t->tensor->bytes % t->tensor->dims[2] == 0) {
            t->experts = true;
        } else if (after[0] == '.' && after[1] >= '0' && after[1] <= '9') {
            t->expert = (uint32_t)strtoul(after + 1, &end, 10);
            t->experts = strcmp(end, ".weight") == 0;
        }
        t->part = parts[i][1];
        return;
    }
}

static int by_place(const void *a, const void *b)
{
    const struct gguf_tensor *x = ((const struct checksum_tensor *)a)->tensor;
    const struct gguf_tensor *y = ((const struct checksum_tensor *)b)->tensor;
    if (x->shard != y->shard) return x->shard < y->shard ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Experts as people count them: (layer, expert), whatever the number of parts. One part of each layer is counted. */
static bool counts(const struct checksum_tensor *t) { return t->experts && strcmp(t->part, "down") == 0; }

enum sluice_status checksum_plan_make(const struct gguf *g, struct checksum_plan *out, struct sluice_error *err)
{
    uint32_t n = (uint32_t)gguf_n_tensors(g);
    *out = (struct checksum_plan){.tensors = calloc((size_t)n + 1, sizeof *out->tensors)};
    struct expert_sums_group *groups = calloc((size_t)n + 1, sizeof *groups);
    enum sluice_status status = SLUICE_OK;
    if (!out->tensors || !groups) status = base_fail(err, SLUICE_ERR_MEMORY, NULL, "out of memory");
    for (uint32_t i = 0; i < n && !status; i++) {
        out->tensors[i].tensor = gguf_tensor(g, i);
        look_at_name(&out->tensors[i]);
    }
    if (!status) qsort(out->tensors, n, sizeof *out->tensors, by_place);
    for (uint32_t i = 0; i < n && !status; i++) {
        const struct checksum_tensor *t = &out->tensors[i];
        uint32_t units = t->experts && t->tensor->dims[2] > 1 ? (uint32_t)t->tensor->dims[2] : 1;
        groups[i] = (struct expert_sums_group){
            .file = t->tensor->shard, .n = units, .offset = t->tensor->offset, .unit_bytes = t->tensor->bytes / units};
        out->total_bytes += t->tensor->bytes;
        if (counts(t)) out->n_experts += units;
        if (!t->experts) out->n_dense++;
    }
    if (!status) status = expert_sums_create(groups, n, gguf_fingerprint(g), &out->sums, err);
    free(groups);
    if (status) checksum_plan_free(out);
    return status;
}

void checksum_plan_free(struct checksum_plan *p)
{
    free(p->tensors);
    expert_sums_free(p->sums);
    *p = (struct checksum_plan){0};
}

/* ---- reading ---- */

struct block {
    struct io_request request;
    uint64_t begin, end; /* the bytes of the file in it that count */
    bool done;
};

struct scan {
    struct io *io;
    const struct expert_sums *sums;
    struct block blocks[BLOCKS];
    uint64_t n_started, n_summed; /* blocks; a block's place is its number modulo BLOCKS */
    uint8_t *memory;              /* [BLOCKS][BLOCK_BYTES] */
    bool stuck;                   /* the kernel still holds memory */
    /* where the next block begins */
    uint32_t next_group;
    uint64_t next_offset; /* 0: at the group's begin */
    /* the unit that is being summed up */
    uint32_t group;
    uint64_t unit, unit_done;
    struct base_hash hash;
    struct report *report;
    const char *verb;
    uint64_t done_bytes, total_bytes, begin_ns, shown_ns;
};

static uint64_t group_end(const struct expert_sums_group *g) { return g->offset + g->n * g->unit_bytes; }

/* The next block; false: all have been started. */
static bool start_block(struct scan *s, enum sluice_status *status, struct sluice_error *err)
{
    const struct expert_sums_group *groups = s->sums->groups;
    if (s->next_group == s->sums->n_groups) return false;
    const struct expert_sums_group *g = &groups[s->next_group];
    size_t place = (size_t)(s->n_started % BLOCKS);
    struct block *b = &s->blocks[place];
    uint64_t align = io_file_align(s->io, g->file);
    b->begin = s->next_offset ? s->next_offset : g->offset;
    uint64_t from = b->begin / align * align, limit = from + BLOCK_BYTES;
    b->end = b->begin;
    while (s->next_group < s->sums->n_groups) {
        const struct expert_sums_group *here = &groups[s->next_group];
        if (here->file != g->file || here->offset >= limit || here->offset > b->end + GAP_BYTES_MAX) break;
        if (group_end(here) > limit) {
            b->end = limit;
            s->next_offset = limit;
            break;
        }
        b->end = group_end(here);
        s->next_offset = 0;
        s->next_group++;
    }
    b->done = false;
    b->request = (struct io_request){.file = g->file,
                                     .priority = IO_DEMAND,
                                     .offset = from,
                                     .bytes = (size_t)((b->end - from + align - 1) / align * align),
                                     .needed_bytes = (size_t)(b->end - from),
                                     .dst = s->memory + place * BLOCK_BYTES,
                                     .tag = place};
    struct io_request *q = &b->request;
    *status = io_submit(s->io, &q, 1, err);
    if (!*status) s->n_started++;
    return !*status;
}

/* Adds a block's bytes to the sums of the units in it. */
static void sum_up(struct scan *s, const struct block *b)
{
    const uint8_t *data = b->request.dst;
    while (s->group < s->sums->n_groups) {
        const struct expert_sums_group *g = &s->sums->groups[s->group];
        uint64_t at = g->offset + s->unit * g->unit_bytes + s->unit_done;
        if (g->file != b->request.file || at < b->begin || at >= b->end) return;
        uint64_t n = g->unit_bytes - s->unit_done;
        if (n > b->end - at) n = b->end - at;
        if (s->unit_done == 0) base_hash_init(&s->hash, 0);
        base_hash_add(&s->hash, data + (at - b->request.offset), (size_t)n);
        s->unit_done += n;
        s->done_bytes += n;
        if (s->unit_done < g->unit_bytes) return;
        s->sums->sums[g->first + s->unit] = base_hash_value(&s->hash);
        s->unit_done = 0;
        if (++s->unit < g->n) continue;
        s->unit = 0;
        s->group++;
    }
}

static void show(struct scan *s)
{
    uint64_t now = report_now_ns();
    if (!s->report->terminal || s->report->quiet || now - s->shown_ns < 100000000u) return;
    s->shown_ns = now;
    double ns = (double)(now - s->begin_ns), done = (double)s->done_bytes, total = (double)s->total_bytes;
    char rate[24];
    fprintf(stderr, "\r%s %3.0f %%  %s/s  %.0f s left\033[K", s->verb, report_percent(done, total),
            report_bytes(ns > 0 ? done * 1e9 / ns : 0, rate), done > 0 ? ns * (total - done) / done / 1e9 : 0);
    fflush(stderr);
    s->report->progress_shown = true;
}

static enum sluice_status collect(struct scan *s, struct sluice_error *err)
{
    struct io_done done[BLOCKS];
    size_t n = io_poll(s->io, done, BLOCKS, true);
    enum sluice_status status = SLUICE_OK;
    for (size_t i = 0; i < n; i++) {
        s->stuck = s->stuck || done[i].stuck;
        s->blocks[done[i].request->tag].done = done[i].status == SLUICE_OK;
        if (done[i].status && !status) status = io_explain(s->io, &done[i], err);
    }
    return status;
}

static enum sluice_status scan_all(struct scan *s, struct sluice_error *err)
{
    enum sluice_status status = SLUICE_OK;
    for (;;) {
        if (interrupt_pending()) return base_fail(err, SLUICE_CANCELLED, NULL, "interrupted");
        while (s->n_started - s->n_summed < BLOCKS && start_block(s, &status, err)) {
        }
        if (status) return status;
        if (s->n_summed == s->n_started) return SLUICE_OK;
        const struct block *head = &s->blocks[s->n_summed % BLOCKS];
        while (!head->done)
            if ((status = collect(s, err))) return status;
        sum_up(s, head);
        s->n_summed++;
        show(s);
    }
}

static void drop_line(void *user, enum base_log_level level, const char *text)
{
    if (level == BASE_LOG_WARN) report_warn(user, "%s", text);
}

enum sluice_status checksum_read(const struct os_calls *os, const struct gguf *g, const struct checksum_plan *p,
                                 struct report *r, const char *verb, struct sluice_error *err)
{
    struct base_log log = {drop_line, r};
    struct io_config config = {.os = os, .log = &log};
    struct scan s = {
        .sums = p->sums, .report = r, .verb = verb, .total_bytes = p->total_bytes, .begin_ns = report_now_ns()};
    enum sluice_status status = io_open(&config, &s.io, err);
    if (status) return status;
    for (size_t i = 0; i < gguf_n_shards(g) && !status; i++) {
        uint32_t index;
        status = io_file_add(s.io, gguf_shard(g, i)->path, &index, err);
    }
    /* 2 MiB suit every alignment of direct reads; a block has room for what lies before its first byte. */
    if (!status && !(s.memory = aligned_alloc(BLOCK_BYTES, BLOCKS * BLOCK_BYTES)))
        status = base_fail(err, SLUICE_ERR_MEMORY, NULL, "out of memory for %zu bytes of blocks", BLOCKS * BLOCK_BYTES);
    if (!status) status = scan_all(&s, err);
    report_clear(r);
    io_close(s.io); /* waits for what is still on its way */
    if (!s.stuck) free(s.memory);
    return status;
}
