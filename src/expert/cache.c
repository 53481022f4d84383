/* Want, take, give. What is on its way is cache_read.c's, what is known beforehand cache_guess.c's, what memory there
 * is and who leaves arena.c's and policy.c's. */
#include "expert/cache_private.h"

#include "base/assert.h"
#include "expert/trace.h"

#include <stdlib.h>

/* Starts reads for the misses in order while slots last. wait: also for memory that is still being touched. */
static void start_reads(struct expert_cache *c, bool wait)
{
    struct want *w = &c->want;
    uint32_t n = 0;
    while (w->next_miss < w->n_misses && !w->status && c->idle != NONE) {
        uint32_t slot = arena_acquire(&c->arena, w->class_index, wait && n == 0);
        if (slot == NONE) break;
        uint32_t i = w->misses[w->next_miss++];
        w->items[i].slot = slot;
        w->items[i].state = ITEM_COMING;
        n += cache_read_begin(c, w->layer, w->items[i].expert, slot, i, IO_DEMAND, c->batch + n);
    }
    if (n == 0) return;
    struct sluice_error err = {0}; /* a kilobyte: only where something may fail */
    enum sluice_status status = cache_submit(c, n, &err);
    if (status) cache_want_fails(c, status, &err);
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
        cache_guess_true(c, slot);
        c->stats.misses++;
        r->item = i;
        item->state = ITEM_COMING;
        if ((r->arrived & r->first) == r->first) cache_item_here(c, i);
    } else {
        c->stats.hits++;
        item->hit = true;
        cache_guess_true(c, slot);
        arena_pin(&c->arena, slot, i);
        cache_item_here(c, i);
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
    cache_poll(c, false); /* what an aborted want left behind */
    if (!arena_at_floor(&c->arena, w->class_index)) {
        w->active = false;
        return too_few_slots(c, err);
    }
    cache_guess_judge(c, layer, ids, n);
    for (uint32_t i = 0; i < n; i++) want_one(c, i, ids[i]); /* hits are pinned before anything is evicted */
    cache_guess_expire(c, layer);
    start_reads(c, false);
    cache_guess_start(c);
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
        start_reads(c, c->n_reading == 0);
        if (w->status) continue;
        if (c->n_reading == 0) {
            const struct arena_class *k = &c->arena.classes[w->class_index];
            BASE_ASSERT(c->n_stuck > 0 && (k->n_slots - k->n_stuck < k->floor || c->idle == NONE),
                        "E4 a want cannot deadlock (views are given back before all slots are taken)");
            return too_few_slots(c, err);
        }
        cache_poll(c, true);
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

bool expert_ready(const struct expert_cache *c, uint32_t *expert)
{
    const struct want *w = &c->want;
    if (!w->active || w->status || w->ready_first == w->ready_end) return false;
    const struct item *item = &w->items[w->ready[w->ready_first]];
    *expert = item->expert;
    return c->arena.slots[item->slot].state != SLOT_READING;
}

bool expert_all_here(const struct expert_cache *c)
{
    const struct want *w = &c->want;
    return w->active && !w->status && w->ready_end == w->n;
}

enum sluice_status expert_finish(struct expert_cache *c, struct expert_view *view, struct sluice_error *err)
{
    const struct item *item = view_item(c, view);
    while (item->state == ITEM_TAKEN && c->arena.slots[view->slot_].state == SLOT_READING) cache_poll(c, true);
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
        start_reads(c, false);
    cache_guess_start(c);
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
            if (r->failed) cache_read_settle(c, r);
        }
    }
}

void expert_pump(struct expert_cache *c)
{
    cache_poll(c, false);
    if (c->want.active) start_reads(c, false);
    cache_guess_start(c);
}

/* ---- policy's inputs ---- */

void expert_cache_trace(struct expert_cache *c, struct trace_writer *trace) { c->trace = trace; }

void expert_selected(struct expert_cache *c, uint32_t layer, const uint32_t *ids, const float *weights, uint32_t n,
                     uint32_t ahead)
{
    policy_route(c->arena.policy, layer, ids, weights, n, ahead);
    if (c->decode)
        for (uint32_t i = 0; i < n; i++) c->decoded[expert_catalog_key(c->catalog, layer, ids[i])] = c->n_decoded + 1;
    if (c->trace) trace_route(c->trace, layer, ids, weights, n, ahead);
}

void expert_tick(struct expert_cache *c, uint32_t n)
{
    policy_tick(c->arena.policy, n);
    if (c->decode) c->n_decoded += n;
    if (c->trace) trace_step_end(c->trace);
}

void expert_prompt(struct expert_cache *c)
{
    policy_prompt(c->arena.policy);
    if (c->trace) trace_prompt(c->trace);
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
           CACHE_READS_MAX * (sizeof(struct read) + EXPERT_PARTS_MAX * sizeof(struct io_request *)) +
           CACHE_GUESSES_MAX * sizeof(struct guess) + expert_catalog_n_layers(catalog) +
           ((size_t)expert_catalog_n_experts(catalog) + 1) * (sizeof(uint8_t) + sizeof(uint32_t)) +
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
    c->reads = calloc(CACHE_READS_MAX, sizeof *c->reads);
    c->batch = calloc(CACHE_READS_MAX * EXPERT_PARTS_MAX, sizeof(struct io_request *));
    c->want.items = calloc(n, sizeof *c->want.items);
    c->want.misses = calloc(n, sizeof *c->want.misses);
    c->want.ready = calloc(n, sizeof *c->want.ready);
    c->guesses = calloc(CACHE_GUESSES_MAX, sizeof *c->guesses);
    c->named = calloc((size_t)expert_catalog_n_experts(c->catalog) + 1, sizeof *c->named);
    c->named_layers = calloc((size_t)expert_catalog_n_layers(c->catalog) + 1, sizeof *c->named_layers);
    c->decoded = calloc((size_t)expert_catalog_n_experts(c->catalog) + 1, sizeof *c->decoded);
    if (!c->reads || !c->batch || !c->want.items || !c->want.misses || !c->want.ready || !c->guesses || !c->named ||
        !c->named_layers || !c->decoded) {
        base_fail(err, status, NULL, "no memory for the expert cache");
        goto fail;
    }
    for (uint32_t i = CACHE_READS_MAX; i-- > 0;) cache_read_idle(c, &c->reads[i]);
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
    for (uint32_t i = 0; c->n_reading > 0 && i < CACHE_READS_MAX; i++)
        for (uint32_t p = 0; p < EXPERT_PARTS_MAX; p++)
            if (c->reads[i].asked >> p & 1) io_cancel(c->io, &c->reads[i].request[p]);
    while (c->n_reading > 0) cache_poll(c, true);
    bool leak = c->n_stuck > 0; /* the kernel may still write, and io still holds the requests */
    if (leak)
        base_log(c->arena.config.log, BASE_LOG_WARN,
                 "expert cache: %u reads have not returned; their memory is left to the system", c->n_stuck);
    arena_destroy(&c->arena, leak);
    if (!leak) free(c->reads);
    free(c->batch);
    free(c->decoded);
    free(c->named_layers);
    free(c->named);
    free(c->guesses);
    free(c->want.items);
    free(c->want.misses);
    free(c->want.ready);
    free(c);
}

/* ---- facts ---- */

void expert_cache_stats(const struct expert_cache *c, struct expert_stats *out)
{
    const struct arena *a = &c->arena;
    *out = c->stats;
    out->evictions = a->evictions;
    out->recarved = a->recarved;
    out->committed_bytes = a->committed_bytes;
    out->held_bytes = a->held_bytes;
    out->resident = a->n_resident;
    out->reading = c->n_reading;
    out->limit_bytes = a->limit_bytes;
    cache_guess_stats(c, out);
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

bool expert_known(const struct expert_cache *c, uint32_t layer, uint32_t expert)
{
    return c->arena.slot_of[expert_catalog_key(c->catalog, layer, expert)] != NONE;
}

bool expert_pinned(const struct expert_cache *c, uint32_t layer, uint32_t expert)
{
    return expert_resident(c, layer, expert) &&
           (c->arena.keep[expert_catalog_key(c->catalog, layer, expert)] & ARENA_PINNED) != 0;
}

uint64_t expert_cache_misses(const struct expert_cache *c) { return c->stats.misses; }
