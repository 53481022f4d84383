/* Want, take, give; and the reads that fill slots. What memory there is and who leaves is arena.c's and policy.c's.
 *
 * An item is one expert of the running want. A read is one expert on its way: one request to io for each part, so that
 * gate and up can be used while down still arrives. Reads outlive a want that is given up: they finish into their
 * slots. A read that failed belongs to no expert any more (its slot is disowned) and waits only until io has let go of
 * all of its memory, and until the view of it, if one was taken, is given up. */
#include "expert/cache.h"

#include "base/assert.h"
#include "expert/arena.h"
#include "expert/trace.h"
#include "expert/verify.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define READS_MAX 256 /* experts on their way at once */
#define DONE_MAX 64   /* completions fetched at once */
#define NONE ARENA_NONE

enum item_state {
    ITEM_WAITING, /* a miss without a slot yet */
    ITEM_COMING,  /* being read; its first parts are not there */
    ITEM_HERE,    /* can be taken */
    ITEM_TAKEN,
    ITEM_GIVEN,
    ITEM_FAILED,
};

struct item {
    uint32_t expert, slot;
    uint8_t state;
    bool hit;
};

struct read {
    struct io_request request[EXPERT_PARTS_MAX];
    uint32_t slot, layer, expert;
    uint32_t item;   /* of the running want, or NONE */
    uint32_t ticket; /* generation, against reports of an earlier use */
    uint32_t next;   /* in the list of idle reads */
    uint8_t first;   /* bit mask of parts: needed before the expert can be started */
    uint8_t asked;   /* not yet reported by io */
    uint8_t arrived;
    uint8_t stuck; /* reported, but the memory is still the kernel's */
    bool failed;
};

struct want {
    bool active;
    uint32_t layer, class_index;
    uint32_t n, n_taken, n_given;
    uint32_t n_misses, next_miss; /* misses[next_miss..] have no slot yet */
    uint32_t ready_first, ready_end;
    struct item *items;        /* [n] */
    uint32_t *misses;          /* [n_misses] items, in the want's order */
    uint32_t *ready;           /* [ready_end] items, in the order in which they became ready */
    enum sluice_status status; /* of the first failure */
    struct sluice_error error;
};

struct expert_cache {
    struct arena arena;
    const struct os_calls *os;
    struct io *io;
    const struct expert_catalog *catalog;
    struct want want;
    struct read *reads; /* [READS_MAX] */
    uint32_t idle;      /* first idle read */
    uint32_t n_reading; /* reads of which io still owes a report; a stuck one is reported */
    uint32_t n_stuck;   /* reads whose memory the kernel does not give back */
    uint32_t stuck_file;
    uint32_t ticket;
    struct io_request **batch; /* [READS_MAX * EXPERT_PARTS_MAX] */
    struct expert_stats stats; /* counters; the rest is filled in when asked */
};

/* ---- items ---- */

static void item_is_here(struct expert_cache *c, uint32_t i)
{
    struct want *w = &c->want;
    BASE_ASSERT(w->ready_end < w->n, "an expert becomes ready once a want");
    w->items[i].state = ITEM_HERE;
    w->ready[w->ready_end++] = i;
}

/* The first failure is the one that is told. */
static void want_fails(struct expert_cache *c, enum sluice_status status, const struct sluice_error *err)
{
    if (c->want.status) return;
    c->want.status = status;
    c->want.error = *err;
}

/* ---- reads ---- */

static struct io_request *read_request(struct expert_cache *c, struct read *r, uint32_t part)
{
    struct io_request *q = &r->request[part];
    struct expert_extent x = expert_catalog_extent(c->catalog, r->layer, r->expert, part);
    uint32_t align = expert_catalog_align(c->catalog), head = (uint32_t)(x.offset % align);
    uint32_t class_index = expert_catalog_class_of(c->catalog, r->layer);
    uint64_t index = (uint64_t)(r - c->reads) * EXPERT_PARTS_MAX + part;
    *q = (struct io_request){.file = x.file,
                             .priority = IO_DEMAND,
                             .offset = x.offset - head,
                             .bytes = ((size_t)head + x.bytes + align - 1) / align * align,
                             .needed_bytes = (size_t)head + x.bytes,
                             .dst = arena_memory(&c->arena, r->slot) +
                                    expert_catalog_class(c->catalog, class_index)->part_at[part],
                             .tag = (uint64_t)r->ticket << 32 | index};
    c->stats.read_bytes += x.bytes;
    return q;
}

/* An idle read and a FREE slot become a read of one item; returns the number of requests put into batch. */
static uint32_t read_begin(struct expert_cache *c, uint32_t item, uint32_t slot, struct io_request **batch)
{
    struct want *w = &c->want;
    const struct expert_layer *l = expert_catalog_layer(c->catalog, w->layer);
    struct read *r = &c->reads[c->idle];
    uint32_t index = c->idle;
    c->idle = r->next;
    r->slot = slot;
    r->layer = w->layer;
    r->expert = w->items[item].expert;
    r->item = item;
    r->ticket = ++c->ticket;
    r->first = (uint8_t)((1u << l->n_parts_first) - 1);
    r->asked = (uint8_t)((1u << l->n_parts) - 1);
    r->arrived = r->stuck = 0;
    r->failed = false;
    arena_begin(&c->arena, slot, expert_catalog_key(c->catalog, r->layer, r->expert), index);
    w->items[item].slot = slot;
    w->items[item].state = ITEM_COMING;
    c->n_reading++;
    for (uint32_t p = 0; p < l->n_parts; p++) batch[p] = read_request(c, r, p);
    return l->n_parts;
}

static void read_idle(struct expert_cache *c, struct read *r)
{
    r->next = c->idle;
    c->idle = (uint32_t)(r - c->reads);
}

/* All parts are there: the slot is READY, or PINNED if somebody waits for it. */
static void read_done(struct expert_cache *c, struct read *r)
{
    arena_arrive(&c->arena, r->slot);
    if (r->item != NONE) arena_pin(&c->arena, r->slot, r->item);
    read_idle(c, r);
}

/* The slot of a failed read is FREE again once io has let go of it and nobody looks at it. */
static void read_settle(struct expert_cache *c, struct read *r)
{
    if (r->asked || r->stuck || r->item != NONE) return;
    arena_fail(&c->arena, r->slot);
    read_idle(c, r);
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
        want_fails(c, err.status, &err);
    else
        base_log(c->arena.config.log, BASE_LOG_WARN, "%s", err.message);
}

/* One report of io. */
static void read_report(struct expert_cache *c, const struct io_done *done)
{
    uint64_t index = (uint32_t)done->request->tag;
    BASE_ASSERT(index < READS_MAX * EXPERT_PARTS_MAX, "E2 io reports what the cache asked for");
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
        read_settle(c, r);
        return;
    }
    BASE_ASSERT(r->asked & bit, "E2 a part is reported once");
    r->asked &= (uint8_t)~bit;
    if (r->asked == 0) c->n_reading--;
    struct sluice_error why = {0};
    if (part_status(c, r, part, done, &why) == SLUICE_OK) {
        r->arrived |= bit;
    } else if (!r->failed) {
        if (why.status != SLUICE_CANCELLED) explain(c, r, part, &why);
        read_fail(c, r);
    }
    if (done->stuck) {
        if (!r->stuck) {
            c->n_stuck++;
            arena_stick(&c->arena, r->slot);
        }
        r->stuck |= bit;
        c->stuck_file = done->request->file;
    }
    if (r->failed) {
        read_settle(c, r);
        return;
    }
    if (r->item != NONE && c->want.items[r->item].state == ITEM_COMING && (r->arrived & r->first) == r->first)
        item_is_here(c, r->item);
    if (r->asked == 0) read_done(c, r);
}

/* Takes in what io has finished; wait: at least one report, which must be owed. */
static void poll(struct expert_cache *c, bool wait)
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
        c->n_reading--;
        read_fail(c, r);
        read_settle(c, r);
    }
}

/* Starts reads for the misses in order while slots last. */
static void start_reads(struct expert_cache *c)
{
    struct want *w = &c->want;
    uint32_t n = 0;
    while (w->next_miss < w->n_misses && !w->status && c->idle != NONE) {
        uint32_t slot = arena_acquire(&c->arena, w->class_index);
        if (slot == NONE) break;
        n += read_begin(c, w->misses[w->next_miss++], slot, c->batch + n);
    }
    if (n == 0) return;
    struct sluice_error err = {0};
    enum sluice_status status = io_submit(c->io, c->batch, n, &err);
    if (!status) return;
    want_fails(c, status, &err);
    undo_batch(c, c->batch, n);
}

/* ---- want, take, finish, give ---- */

static enum sluice_status too_few_slots(const struct expert_cache *c, struct sluice_error *err)
{
    const struct arena_class *k = &c->arena.classes[c->want.class_index];
    return base_fail(err, SLUICE_ERR_IO,
                     "the disk or the network behind this file does not answer: look into the system log, then start "
                     "again",
                     "%s: %u reads have not returned and keep their memory; %u of %u expert slots of this size are "
                     "left, at least %u are needed",
                     io_file_path(c->io, c->stuck_file), c->n_stuck, k->n_slots - k->n_stuck, k->n_slots, k->floor);
}

/* One wanted expert: resident, still on its way from a want that was given up, or a miss. */
static void want_one(struct expert_cache *c, uint32_t i, uint32_t expert)
{
    struct want *w = &c->want;
    uint32_t slot = c->arena.slot_of[expert_catalog_key(c->catalog, w->layer, expert)];
    struct item *item = &w->items[i];
    *item = (struct item){.expert = expert, .slot = slot};
    if (slot == NONE) {
        c->stats.misses++;
        item->state = ITEM_WAITING;
        w->misses[w->n_misses++] = i;
    } else if (c->arena.slots[slot].state == SLOT_READING) {
        struct read *r = &c->reads[c->arena.slots[slot].owner];
        BASE_ASSERT(r->item == NONE, "wanted experts are distinct");
        c->stats.misses++;
        r->item = i;
        item->state = ITEM_COMING;
        if ((r->arrived & r->first) == r->first) item_is_here(c, i);
    } else {
        c->stats.hits++;
        item->hit = true;
        arena_pin(&c->arena, slot, i);
        item_is_here(c, i);
    }
}

enum sluice_status expert_want(struct expert_cache *c, uint32_t layer, const uint32_t *ids, uint32_t n,
                               struct sluice_error *err)
{
    struct want *w = &c->want;
    BASE_ASSERT(!w->active, "a want begins when the one before was given back or aborted");
    BASE_ASSERT(n <= expert_catalog_layer(c->catalog, layer)->n_expert, "wanted experts are distinct");
    if (n == 0) return SLUICE_OK;
    *w = (struct want){.active = true,
                       .layer = layer,
                       .class_index = expert_catalog_class_of(c->catalog, layer),
                       .n = n,
                       .items = w->items,
                       .misses = w->misses,
                       .ready = w->ready};
    poll(c, false); /* what an aborted want left behind */
    if (!arena_at_floor(&c->arena, w->class_index)) {
        w->active = false;
        return too_few_slots(c, err);
    }
    for (uint32_t i = 0; i < n; i++) want_one(c, i, ids[i]); /* hits are pinned before anything is evicted */
    start_reads(c);
    return SLUICE_OK;
}

static void fill_view(const struct expert_cache *c, const struct item *item, struct expert_view *view)
{
    const struct want *w = &c->want;
    const struct expert_class *class = expert_catalog_class(c->catalog, w->class_index);
    const uint8_t *memory = arena_memory(&c->arena, item->slot);
    *view = (struct expert_view){.layer = w->layer, .expert = item->expert, .slot_ = item->slot, .was_hit = item->hit};
    for (uint32_t p = 0; p < class->n_parts; p++) {
        struct expert_extent x = expert_catalog_extent(c->catalog, w->layer, item->expert, p);
        view->part[p] = memory + class->part_at[p] + x.offset % expert_catalog_align(c->catalog);
    }
}

static enum sluice_status tell_failure(const struct want *w, struct sluice_error *err)
{
    if (err) *err = w->error;
    return w->status;
}

enum sluice_status expert_take(struct expert_cache *c, struct expert_view *view, struct sluice_error *err)
{
    struct want *w = &c->want;
    BASE_ASSERT(w->active && w->n_taken < w->n, "as many are taken as were wanted");
    for (;;) {
        if (w->status) return tell_failure(w, err);
        if (w->ready_first < w->ready_end) break;
        start_reads(c);
        if (w->status) continue;
        if (c->n_reading == 0) {
            const struct arena_class *k = &c->arena.classes[w->class_index];
            BASE_ASSERT(c->n_stuck > 0 && (k->n_slots - k->n_stuck < k->floor || c->idle == NONE),
                        "E4 a want cannot deadlock (views are given back before all slots are taken)");
            return too_few_slots(c, err);
        }
        poll(c, true);
    }
    struct item *item = &w->items[w->ready[w->ready_first++]];
    BASE_ASSERT(item->state == ITEM_HERE, "what is ready can be taken");
    item->state = ITEM_TAKEN;
    w->n_taken++;
    fill_view(c, item, view);
    return SLUICE_OK;
}

/* The item of a view that was taken and not given. */
static struct item *view_item(struct expert_cache *c, const struct expert_view *view)
{
    struct want *w = &c->want;
    BASE_ASSERT(w->active && view->layer == w->layer, "a view belongs to the running want");
    const struct arena_slot *s = &c->arena.slots[view->slot_];
    BASE_ASSERT(s->state == SLOT_PINNED || s->state == SLOT_READING, "a view is of a slot in use");
    uint32_t i = s->state == SLOT_PINNED ? s->owner : c->reads[s->owner].item;
    BASE_ASSERT(i < w->n && w->items[i].expert == view->expert && w->items[i].slot == view->slot_,
                "a view is used until it is given");
    return &w->items[i];
}

enum sluice_status expert_finish(struct expert_cache *c, struct expert_view *view, struct sluice_error *err)
{
    const struct item *item = view_item(c, view);
    while (item->state == ITEM_TAKEN && c->arena.slots[view->slot_].state == SLOT_READING) poll(c, true);
    return item->state == ITEM_TAKEN ? SLUICE_OK : tell_failure(&c->want, err);
}

void expert_give(struct expert_cache *c, const struct expert_view *view)
{
    struct want *w = &c->want;
    struct item *item = view_item(c, view);
    BASE_ASSERT(item->state == ITEM_TAKEN && c->arena.slots[view->slot_].state == SLOT_PINNED,
                "a view is given once, after expert_finish");
    item->state = ITEM_GIVEN;
    arena_unpin(&c->arena, view->slot_);
    if (++w->n_given == w->n)
        w->active = false;
    else
        start_reads(c);
}

void expert_abort(struct expert_cache *c)
{
    struct want *w = &c->want;
    if (!w->active) return;
    w->active = false;
    for (uint32_t i = 0; i < w->n; i++) {
        const struct item *item = &w->items[i];
        if (item->state == ITEM_WAITING || item->state == ITEM_GIVEN) continue;
        const struct arena_slot *s = &c->arena.slots[item->slot];
        if (s->state == SLOT_PINNED && s->owner == i) {
            arena_unpin(&c->arena, item->slot);
        } else if (s->state == SLOT_READING && c->reads[s->owner].item == i) {
            struct read *r = &c->reads[s->owner];
            r->item = NONE;
            if (r->failed) read_settle(c, r);
        }
    }
}

void expert_pump(struct expert_cache *c)
{
    poll(c, false);
    if (c->want.active) start_reads(c);
}

/* ---- policy's inputs ---- */

void expert_selected(struct expert_cache *c, uint32_t layer, const uint32_t *ids, const float *weights, uint32_t n,
                     uint32_t ahead)
{
    policy_route(c->arena.policy, layer, ids, weights, n, ahead);
    if (c->arena.config.trace) trace_route(c->arena.config.trace, layer, ids, weights, n, ahead);
}

void expert_tick(struct expert_cache *c, uint32_t n)
{
    policy_tick(c->arena.policy, n);
    if (c->arena.config.trace) trace_step_end(c->arena.config.trace);
}

void expert_prompt(struct expert_cache *c)
{
    policy_prompt(c->arena.policy);
    if (c->arena.config.trace) trace_prompt(c->arena.config.trace);
}

/* ---- beginning and end ---- */

static uint32_t largest_layer(const struct expert_catalog *catalog)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < expert_catalog_n_layers(catalog); i++) {
        uint32_t here = expert_catalog_layer(catalog, i)->n_expert;
        if (here > n) n = here;
    }
    return n;
}

size_t expert_cache_memory_bytes(const struct expert_catalog *catalog, uint64_t slots_bytes)
{
    return sizeof(struct expert_cache) + arena_memory_bytes(catalog, slots_bytes) +
           READS_MAX * (sizeof(struct read) + EXPERT_PARTS_MAX * sizeof(struct io_request *)) +
           ((size_t)largest_layer(catalog) + 1) * (sizeof(struct item) + 2 * sizeof(uint32_t));
}

enum sluice_status expert_cache_create(const struct expert_cache_config *config, struct expert_cache **out,
                                       struct sluice_error *err)
{
    *out = NULL;
    size_t n = (size_t)largest_layer(config->catalog) + 1;
    enum sluice_status status = SLUICE_ERR_MEMORY;
    struct expert_cache *c = calloc(1, sizeof *c);
    if (!c) return base_fail(err, status, NULL, "no memory for the expert cache");
    c->os = config->os;
    c->io = config->io;
    c->catalog = config->catalog;
    c->idle = NONE;
    c->reads = calloc(READS_MAX, sizeof *c->reads);
    c->batch = calloc(READS_MAX * EXPERT_PARTS_MAX, sizeof(struct io_request *));
    c->want.items = calloc(n, sizeof *c->want.items);
    c->want.misses = calloc(n, sizeof *c->want.misses);
    c->want.ready = calloc(n, sizeof *c->want.ready);
    if (!c->reads || !c->batch || !c->want.items || !c->want.misses || !c->want.ready) {
        base_fail(err, status, NULL, "no memory for the expert cache");
        goto fail;
    }
    for (uint32_t i = READS_MAX; i-- > 0;) read_idle(c, &c->reads[i]);
    status = arena_create(config, &c->arena, err);
    if (status) goto fail;
    *out = c;
    return SLUICE_OK;

fail:
    expert_cache_destroy(c);
    return status;
}

void expert_cache_destroy(struct expert_cache *c)
{
    if (!c) return;
    expert_abort(c);
    for (uint32_t i = 0; c->n_reading > 0 && i < READS_MAX; i++)
        for (uint32_t p = 0; p < EXPERT_PARTS_MAX; p++)
            if (c->reads[i].asked >> p & 1) io_cancel(c->io, &c->reads[i].request[p]);
    while (c->n_reading > 0) poll(c, true);
    bool leak = c->n_stuck > 0; /* the kernel may still write, and io still holds the requests */
    if (leak)
        base_log(c->arena.config.log, BASE_LOG_WARN,
                 "expert cache: %u reads have not returned; their memory is left to the system", c->n_stuck);
    arena_destroy(&c->arena, leak);
    if (!leak) free(c->reads);
    free(c->batch);
    free(c->want.items);
    free(c->want.misses);
    free(c->want.ready);
    free(c);
}

/* ---- facts and proof ---- */

void expert_cache_stats(const struct expert_cache *c, struct expert_stats *out)
{
    const struct arena *a = &c->arena;
    *out = c->stats;
    out->evictions = a->evictions;
    out->recarved = a->recarved;
    out->committed_bytes = a->committed_bytes;
    out->held_bytes = a->held_bytes;
    out->resident = a->n_resident;
    for (uint32_t i = 0; i < a->n_classes; i++) {
        out->slots += a->classes[i].n_slots;
        out->quarantined += a->classes[i].n_stuck;
    }
}

bool expert_resident(const struct expert_cache *c, uint32_t layer, uint32_t expert)
{
    uint32_t slot = c->arena.slot_of[expert_catalog_key(c->catalog, layer, expert)];
    return slot != NONE && c->arena.slots[slot].state != SLOT_READING;
}

static void check_reads(const struct expert_cache *c)
{
    uint32_t n_idle = 0, n_reading = 0, n_stuck = 0, n_used = 0, n_slots_reading = 0;
    for (uint32_t i = c->idle; i != NONE; i = c->reads[i].next, n_idle++)
        BASE_ASSERT(n_idle < READS_MAX, "the list of idle reads ends");
    for (uint32_t f = 0; f < c->arena.n_frames; f++)
        for (uint32_t i = 0; i < c->arena.chunks[f].n_slots; i++) {
            const struct arena_slot *s = &c->arena.slots[f * c->arena.n_per_frame + i];
            if (s->state != SLOT_READING) continue;
            const struct read *r = &c->reads[s->owner];
            n_slots_reading++;
            n_used++;
            n_reading += r->asked != 0;
            n_stuck += r->stuck != 0;
            BASE_ASSERT(r->slot == f * c->arena.n_per_frame + i, "E2 a READING slot belongs to one read");
            BASE_ASSERT(r->asked || r->failed, "E2 a slot is READING only while parts are on their way");
            BASE_ASSERT(s->disowned == r->failed && s->stuck == (r->stuck != 0), "a slot knows how its read fares");
        }
    BASE_ASSERT(n_idle + n_used == READS_MAX, "E2 a read has a slot or is idle");
    BASE_ASSERT(n_reading == c->n_reading && n_stuck == c->n_stuck, "reads are counted");
}

static void check_want(const struct expert_cache *c)
{
    const struct want *w = &c->want;
    uint32_t n_pinned = 0, n_held = 0, n_given = 0, n_taken = 0;
    for (uint32_t f = 0; f < c->arena.n_frames; f++)
        for (uint32_t i = 0; i < c->arena.chunks[f].n_slots; i++)
            n_pinned += c->arena.slots[f * c->arena.n_per_frame + i].state == SLOT_PINNED;
    for (uint32_t i = 0; w->active && i < w->n; i++) {
        const struct item *item = &w->items[i];
        n_given += item->state == ITEM_GIVEN;
        n_taken += item->state == ITEM_TAKEN || item->state == ITEM_GIVEN;
        if (item->state != ITEM_COMING && item->state != ITEM_HERE && item->state != ITEM_TAKEN) continue;
        const struct arena_slot *s = &c->arena.slots[item->slot];
        n_held += s->state == SLOT_PINNED;
        BASE_ASSERT(s->key == expert_catalog_key(c->catalog, w->layer, item->expert), "an item is in its slot");
        BASE_ASSERT(s->state == SLOT_PINNED ? s->owner == i : s->state == SLOT_READING && c->reads[s->owner].item == i,
                    "E1 a wanted expert is pinned, or on its way");
    }
    BASE_ASSERT(n_pinned == n_held, "E1 slots are pinned by the running want alone");
    BASE_ASSERT(!w->active || w->status || (n_given == w->n_given && n_taken == w->n_taken), "items are counted");
    BASE_ASSERT(w->next_miss <= w->n_misses && w->ready_first <= w->ready_end, "queues are in order");
}

void expert_cache_check(const struct expert_cache *c)
{
    arena_check(&c->arena);
    check_reads(c);
    check_want(c);
}
