/* Reads on their way: from a slot and an expert to bytes that are there, or to a failure that is told once. */
#include "expert/cache_private.h"

#include "base/assert.h"
#include "expert/verify.h"

#include <inttypes.h>

#define DONE_MAX 64 /* completions fetched at once */

/* ---- items ---- */

void cache_item_here(struct expert_cache *c, uint32_t i)
{
    struct want *w = &c->want;
    BASE_ASSERT(w->ready_end < w->n, "an expert becomes ready once a want");
    w->items[i].state = ITEM_HERE;
    w->ready[w->ready_end++] = i;
}

void cache_want_fails(struct expert_cache *c, enum sluice_status status, const struct sluice_error *err)
{
    if (c->want.status) return;
    c->want.status = status;
    c->want.error = *err;
}

/* ---- reads ---- */

static struct io_request *read_request(struct expert_cache *c, struct read *r, uint32_t part, enum io_priority priority)
{
    struct io_request *q = &r->request[part];
    struct expert_extent x = expert_catalog_extent(c->catalog, r->layer, r->expert, part);
    uint32_t align = expert_catalog_align(c->catalog), head = (uint32_t)(x.offset % align);
    uint32_t class_index = expert_catalog_class_of(c->catalog, r->layer);
    uint64_t index = (uint64_t)(r - c->reads) * EXPERT_PARTS_MAX + part;
    *q = (struct io_request){.file = x.file,
                             .priority = priority,
                             .offset = x.offset - head,
                             .bytes = ((size_t)head + x.bytes + align - 1) / align * align,
                             .needed_bytes = (size_t)head + x.bytes,
                             .dst = arena_memory(&c->arena, r->slot) +
                                    expert_catalog_class(c->catalog, class_index)->part_at[part],
                             .tag = (uint64_t)r->ticket << 32 | index};
    c->stats.read_bytes += x.bytes;
    return q;
}

uint32_t cache_read_begin(struct expert_cache *c, uint32_t layer, uint32_t expert, uint32_t slot, uint32_t item,
                          enum io_priority priority, struct io_request **batch)
{
    const struct expert_layer *l = expert_catalog_layer(c->catalog, layer);
    struct read *r = &c->reads[c->idle];
    uint32_t index = c->idle;
    c->idle = r->next;
    c->n_idle--;
    r->slot = slot;
    r->layer = layer;
    r->expert = expert;
    r->item = item;
    r->ticket = ++c->ticket;
    r->first = (uint8_t)((1u << l->n_parts_first) - 1);
    r->asked = (uint8_t)((1u << l->n_parts) - 1);
    r->arrived = r->stuck = 0;
    r->guess = r->failed = false;
    arena_begin(&c->arena, slot, expert_catalog_key(c->catalog, layer, expert), index);
    c->n_reading++;
    for (uint32_t p = 0; p < l->n_parts; p++) batch[p] = read_request(c, r, p, priority);
    return l->n_parts;
}

void cache_read_idle(struct expert_cache *c, struct read *r)
{
    r->next = c->idle;
    c->idle = (uint32_t)(r - c->reads);
    c->n_idle++;
}

/* All parts are there: the slot is READY, or PINNED if somebody waits for it. */
static void read_done(struct expert_cache *c, struct read *r)
{
    arena_arrive(&c->arena, r->slot);
    if (r->item != NONE) arena_pin(&c->arena, r->slot, r->item);
    cache_read_idle(c, r);
}

void cache_read_settle(struct expert_cache *c, struct read *r)
{
    if (r->asked || r->stuck || r->item != NONE) return;
    if (r->guess && !r->arrived) cache_guess_undone(c, r);
    arena_fail(&c->arena, r->slot);
    cache_read_idle(c, r);
}

/* The read will not succeed: the key is free to be read again, the parts that have not begun are taken back. A view
 * that was taken keeps its memory (until expert_abort). */
static void read_fail(struct expert_cache *c, struct read *r)
{
    struct want *w = &c->want;
    r->failed = true;
    arena_disown(&c->arena, r->slot);
    for (uint32_t p = 0; p < EXPERT_PARTS_MAX; p++)
        if (r->asked >> p & 1) io_cancel(c->io, &r->request[p]);
    if (r->item == NONE) return;
    bool taken = w->items[r->item].state == ITEM_TAKEN;
    w->items[r->item].state = ITEM_FAILED;
    if (!taken) r->item = NONE;
}

/* What became of a part: io's own words, or those of the check of what it read. */
static enum sluice_status part_status(struct expert_cache *c, const struct read *r, uint32_t part,
                                      const struct io_done *done, struct sluice_error *why)
{
    if (done->status) return io_explain(c->io, done, why);
    struct expert_verify *verify = c->arena.config.verify;
    if (!verify || r->failed) return SLUICE_OK;
    struct expert_extent x = expert_catalog_extent(c->catalog, r->layer, r->expert, part);
    const uint8_t *data = (const uint8_t *)done->request->dst + x.offset % expert_catalog_align(c->catalog);
    return expert_verify_bytes(verify, x.file, x.offset, data, x.bytes, why);
}

/* "layer 3, expert 17, part 3 of 3 (down): ...", in front of why it failed. If nobody waits for the expert any more, a
 * line is all that is left to say: it is read again when it is wanted. */
static void explain(struct expert_cache *c, const struct read *r, uint32_t part, const struct sluice_error *why)
{
    static const char *const name[] = {" (gate)", " (up)", " (down)"};
    struct sluice_error err;
    uint32_t n_parts = expert_catalog_layer(c->catalog, r->layer)->n_parts;
    base_fail(&err, why->status, why->hint, "layer %u, expert %u, part %u of %u%s: %s", r->layer, r->expert, part + 1,
              n_parts, n_parts == 3 ? name[part] : "", why->message);
    if (r->item != NONE)
        cache_want_fails(c, err.status, &err);
    else
        base_log(c->arena.config.log, BASE_LOG_WARN, "%s", err.message);
}

/* io owes no more reports of it. */
static void read_ends(struct expert_cache *c, struct read *r)
{
    c->n_reading--;
    if (r->guess) c->n_guessing--;
}

/* One report of io. */
static void read_report(struct expert_cache *c, const struct io_done *done)
{
    uint64_t index = (uint32_t)done->request->tag;
    BASE_ASSERT(index < CACHE_READS_MAX * EXPERT_PARTS_MAX, "E2 io reports what the cache asked for");
    struct read *r = &c->reads[index / EXPERT_PARTS_MAX];
    uint32_t part = (uint32_t)(index % EXPERT_PARTS_MAX);
    uint8_t bit = (uint8_t)(1u << part);
    BASE_ASSERT(done->request == &r->request[part] && done->request->tag >> 32 == r->ticket,
                "E2 a report belongs to the read that asked");
    if (done->released) {
        BASE_ASSERT(r->stuck & bit, "E2 only what was stuck is released");
        r->stuck &= (uint8_t)~bit;
        if (!r->stuck) {
            c->n_stuck--;
            arena_release(&c->arena, r->slot);
        }
        cache_read_settle(c, r);
        return;
    }
    BASE_ASSERT(r->asked & bit, "E2 a part is reported once");
    r->asked &= (uint8_t)~bit;
    if (r->asked == 0) read_ends(c, r);
    struct sluice_error why;
    why.status = SLUICE_OK; /* the rest, a kilobyte, is written where something failed */
    if (part_status(c, r, part, done, &why) == SLUICE_OK) {
        r->arrived |= bit;
    } else if (!r->failed) {
        if (why.status != SLUICE_CANCELLED) explain(c, r, part, &why);
        read_fail(c, r);
    }
    if (why.status == SLUICE_CANCELLED)
        c->stats.read_bytes -= expert_catalog_extent(c->catalog, r->layer, r->expert, part).bytes;
    if (done->stuck) {
        if (!r->stuck) {
            c->n_stuck++;
            arena_stick(&c->arena, r->slot);
        }
        r->stuck |= bit;
        c->stuck_file = done->request->file;
    }
    if (r->failed) {
        cache_read_settle(c, r);
        return;
    }
    if (r->item != NONE && c->want.items[r->item].state == ITEM_COMING && (r->arrived & r->first) == r->first)
        cache_item_here(c, r->item);
    if (r->asked == 0) read_done(c, r);
}

void cache_poll(struct expert_cache *c, bool wait)
{
    struct io_done done[DONE_MAX];
    size_t n;
    BASE_ASSERT(!wait || c->n_reading > 0, "only what is on its way is waited for");
    uint64_t begin = wait ? c->os->now_ns(c->os->user) : 0;
    do {
        n = io_poll(c->io, done, DONE_MAX, wait);
        BASE_ASSERT(!wait || n > 0, "io reports what it owes");
        for (size_t i = 0; i < n; i++) read_report(c, &done[i]);
        if (wait) c->stats.wait_ns += c->os->now_ns(c->os->user) - begin;
        wait = false;
    } while (n == DONE_MAX);
}

/* io has refused the batch as a whole: nothing was queued. */
static void undo_batch(struct expert_cache *c, struct io_request **batch, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct read *r = &c->reads[(uint32_t)batch[i]->tag / EXPERT_PARTS_MAX];
        if (batch[i] != &r->request[0]) continue;
        r->asked = 0;
        read_ends(c, r);
        read_fail(c, r);
        cache_read_settle(c, r);
    }
}

enum sluice_status cache_submit(struct expert_cache *c, uint32_t n, struct sluice_error *err)
{
    if (n == 0) return SLUICE_OK;
    enum sluice_status status = io_submit(c->io, c->batch, n, err);
    if (status) undo_batch(c, c->batch, n);
    return status;
}
