/* What is known beforehand: guesses, warm-up, and what stays.
 *
 * Guesses wait in a ring, in the order in which they were named. One begins only while nothing that was demanded is
 * under way, so it cannot be in front of a demanded read; a few pieces at a time (io gives guesses a small share of the
 * disk's queue), so the next demanded read does not find the queue full either. Reads that are certain to be wanted, or
 * nearly so, go out at once and stand behind the demanded ones in io's queues.
 *
 * A guess is over when its layer has been wanted: what has not begun is taken back; what has arrived stays among the
 * guesses, comes true late if somebody wants it after all, and makes room for the next guess. */
#include "expert/cache_private.h"

#include "base/assert.h"

#include <string.h>
#include <time.h>

#define GUESS_READS_MAX 8      /* nobody's reads under way at once, up to which a guess that is not sure begins */
#define WARM_POLL_NS 200000u   /* between two looks at the reads of a warm-up */
#define WARM_READS_MAX 48      /* enough to fill the disk's queue */
#define PREFILL_LARGE 32       /* tokens of a step from which decode's experts are protected */
#define DECODE_WINDOW 256u     /* tokens that decode's working set goes back */
#define DECODE_SHARE 2u        /* it keeps at most one slot in so many */
#define RESERVE_SHARE 8u       /* guesses have at most one slot in so many in decode */
#define RESERVE_SHARE_LARGE 4u /* and in a large prefill */

const char *expert_source_name(enum expert_source source)
{
    static const char *const names[] = {"certain", "lookahead", "transitions", "next", "layers", "warm"};
    return source < EXPERT_SOURCES ? names[source] : "?";
}

/* ---- naming ---- */

void expert_guess(struct expert_cache *c, enum expert_source source, bool sure, uint32_t layer, const uint32_t *ids,
                  uint32_t n)
{
    const uint8_t bit = (uint8_t)(1u << source);
    const uint64_t step = layer >= c->layer_next ? c->step : c->step + 1;
    if (n == 0) return;
    c->named_layers[layer] |= bit;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t key = expert_catalog_key(c->catalog, layer, ids[i]);
        if (c->named[key] & bit) continue;
        c->named[key] |= bit;
        c->stats.sources[source].named++;
        if (c->arena.slot_of[key] != NONE || c->n_guesses == CACHE_GUESSES_MAX) continue;
        c->guesses[(c->guess_first + c->n_guesses++) % CACHE_GUESSES_MAX] =
            (struct guess){.key = key, .layer = layer, .step = step, .source = (uint8_t)source, .sure = sure};
    }
    cache_guess_start(c);
}

static void pop(struct expert_cache *c)
{
    c->guess_first = (c->guess_first + 1) % CACHE_GUESSES_MAX;
    c->n_guesses--;
}

static bool demanded(const struct expert_cache *c)
{
    return c->n_reading > c->n_guessing || (c->want.active && c->want.next_miss < c->want.n_misses);
}

/* Whether the first guess may begin now. */
static bool may_begin(const struct expert_cache *c, const struct guess *g)
{
    if (c->n_idle <= CACHE_READS_KEPT) return false;
    if (g->sure) return !c->want.active || c->want.next_miss == c->want.n_misses;
    return !demanded(c) && c->n_guessing < GUESS_READS_MAX;
}

void cache_guess_start(struct expert_cache *c)
{
    uint32_t n = 0;
    while (c->n_guesses > 0) {
        const struct guess g = c->guesses[c->guess_first];
        const bool over = g.step < c->step || (g.step == c->step && g.layer < c->layer_next);
        if (over || c->arena.slot_of[g.key] != NONE) {
            pop(c);
            continue;
        }
        if (!may_begin(c, &g)) break;
        uint32_t layer, expert, slot;
        expert_catalog_unkey(c->catalog, g.key, &layer, &expert);
        slot = arena_acquire_guess(&c->arena, expert_catalog_class_of(c->catalog, layer));
        if (slot == NONE && g.sure) break; /* its turn comes when others have come true */
        pop(c);
        if (slot == NONE) continue;
        n += cache_read_begin(c, layer, expert, slot, NONE, g.sure ? IO_CERTAIN : IO_GUESS, c->batch + n);
        struct read *r = &c->reads[c->arena.slots[slot].owner];
        r->guess = true;
        r->source = g.source;
        c->n_guessing++;
        c->stats.sources[g.source].reads++;
        arena_guess(&c->arena, slot, g.source);
    }
    cache_submit(c, n, NULL); /* refused: nothing was read, and nobody waits for it */
}

/* ---- coming true, and being over ---- */

/* The expert in `slot` is wanted: by whom it was read, if by none that wanted it, is judged. */
void cache_guess_true(struct expert_cache *c, uint32_t slot)
{
    struct arena_slot *s = &c->arena.slots[slot];
    const bool reading = s->state == SLOT_READING;
    struct read *r = reading ? &c->reads[s->owner] : NULL;
    uint8_t source;
    if (s->guess) {
        source = s->source;
    } else if (c->named[s->key] >> EXPERT_WARM & 1) {
        source = EXPERT_WARM;
    } else {
        return;
    }
    c->named[s->key] &= (uint8_t) ~(1u << EXPERT_WARM);
    struct expert_source_stats *stats = &c->stats.sources[source];
    if (reading)
        stats->late++;
    else
        stats->useful++;
    if (!reading) stats->useful_bytes += arena_class_of(&c->arena, slot)->shape->expert_bytes;
    if (s->guess) arena_promote(&c->arena, slot);
    if (!r || !r->guess) return;
    r->guess = false;
    if (r->asked) c->n_guessing--;
    for (uint32_t p = 0; p < EXPERT_PARTS_MAX; p++)
        if (r->asked >> p & 1) io_raise(c->io, &r->request[p], IO_DEMAND);
}

void cache_guess_judge(struct expert_cache *c, uint32_t layer, const uint32_t *ids, uint32_t n)
{
    const uint8_t named = c->named_layers[layer], warm = 1u << EXPERT_WARM;
    c->layer_next = layer + 1;
    if (!named) return;
    uint8_t *of = c->named + expert_catalog_key(c->catalog, layer, 0);
    for (uint32_t s = 0; s < EXPERT_WARM; s++) {
        if (!(named >> s & 1)) continue;
        c->stats.sources[s].chosen += n;
        for (uint32_t i = 0; i < n; i++) c->stats.sources[s].came_true += of[ids[i]] >> s & 1;
    }
    for (uint32_t e = 0; e < expert_catalog_layer(c->catalog, layer)->n_expert; e++) of[e] &= warm;
    c->named_layers[layer] = 0;
}

static void take_back(struct expert_cache *c, struct read *r)
{
    for (uint32_t p = 0; p < EXPERT_PARTS_MAX; p++)
        if (r->asked >> p & 1) io_cancel(c->io, &r->request[p]);
}

void cache_guess_expire(struct expert_cache *c, uint32_t layer)
{
    for (uint32_t i = 0; c->n_guessing > 0 && i < CACHE_READS_MAX; i++) {
        struct read *r = &c->reads[i];
        if (r->asked && r->guess && r->source != EXPERT_WARM && r->layer == layer) take_back(c, r);
    }
}

void cache_guess_undone(struct expert_cache *c, const struct read *r)
{
    struct arena *a = &c->arena;
    if (r->source != EXPERT_WARM && !a->slots[r->slot].guess) return; /* it hung, and counts as wasted */
    c->stats.sources[r->source].reads--;
    if (r->source == EXPERT_WARM) c->named[a->slots[r->slot].key] &= (uint8_t) ~(1u << EXPERT_WARM);
    if (!a->slots[r->slot].guess) return;
    a->wasted[r->source]--; /* arena_fail counts it next */
    a->wasted_bytes[r->source] -= arena_class_of(a, r->slot)->shape->expert_bytes;
}

void expert_guesses_drop(struct expert_cache *c)
{
    c->n_guesses = 0;
    for (uint32_t i = 0; c->n_guessing > 0 && i < CACHE_READS_MAX; i++)
        if (c->reads[i].asked && c->reads[i].guess) take_back(c, &c->reads[i]);
    cache_poll(c, false);
}

/* ---- warm-up ---- */

bool expert_warm(struct expert_cache *c, uint32_t key)
{
    uint32_t layer, expert;
    if (c->arena.slot_of[key] != NONE) return true;
    if (c->n_idle <= CACHE_READS_KEPT || c->n_guessing >= WARM_READS_MAX) return false;
    expert_catalog_unkey(c->catalog, key, &layer, &expert);
    if (c->want.active && c->want.layer == layer) return false; /* it may be about to be read already */
    uint32_t slot = arena_acquire_spare(&c->arena, expert_catalog_class_of(c->catalog, layer));
    if (slot == NONE) return false;
    uint32_t n = cache_read_begin(c, layer, expert, slot, NONE, IO_WARM, c->batch);
    struct read *r = &c->reads[c->arena.slots[slot].owner];
    r->guess = true;
    r->source = EXPERT_WARM;
    c->n_guessing++;
    c->named[key] |= 1u << EXPERT_WARM;
    c->stats.sources[EXPERT_WARM].reads++;
    c->stats.sources[EXPERT_WARM].named++;
    return cache_submit(c, n, NULL) == SLUICE_OK;
}

/* Asks again and again: io_poll's own wait lasts as long as one read does, which on a busy disk is seconds, and
 * somebody may be typing. */
uint32_t expert_warm_wait(struct expert_cache *c, uint64_t wait_ns)
{
    const uint64_t begin = c->os->now_ns(c->os->user);
    cache_poll(c, false);
    while (c->n_guessing > 0) {
        const uint32_t before = c->n_guessing;
        const uint64_t waited = c->os->now_ns(c->os->user) - begin;
        if (waited >= wait_ns) break;
        const uint64_t pause = wait_ns - waited < WARM_POLL_NS ? wait_ns - waited : WARM_POLL_NS;
        cache_poll(c, false);
        if (c->n_guessing == before) nanosleep(&(struct timespec){.tv_nsec = (long)pause}, NULL);
    }
    return c->n_guessing;
}

/* ---- what stays ---- */

void expert_pin(struct expert_cache *c, const uint32_t *keys, uint32_t n)
{
    struct arena *a = &c->arena;
    for (uint32_t k = 0; c->n_pinned > 0 && k < expert_catalog_n_experts(c->catalog); k++)
        if (a->keep[k] & ARENA_PINNED) arena_keep(a, k, ARENA_PINNED, false);
    for (uint32_t i = 0; i < n; i++) arena_keep(a, keys[i], ARENA_PINNED, true);
    c->n_pinned = n;
}

static void protect_end(struct expert_cache *c)
{
    for (uint32_t k = 0; c->protects && k < expert_catalog_n_experts(c->catalog); k++)
        if (c->arena.keep[k] & ARENA_DECODE) arena_keep(&c->arena, k, ARENA_DECODE, false);
    c->protects = false;
}

/* Tokens of decode since a resident expert was last chosen; DECODE_WINDOW: longer ago, or not by decode. */
static uint32_t decode_age(const struct expert_cache *c, uint32_t slot)
{
    const struct arena_slot *s = &c->arena.slots[slot];
    if (s->state != SLOT_READY || s->guess || !c->decoded[s->key]) return DECODE_WINDOW;
    uint64_t age = c->n_decoded + 1 - c->decoded[s->key];
    return age < DECODE_WINDOW ? (uint32_t)age : DECODE_WINDOW;
}

/* Keeps the experts of one class that decode chose last, the latest first, up to its share of the slots. */
static void protect_class(struct expert_cache *c, uint32_t class_index)
{
    struct arena *a = &c->arena;
    const uint32_t most = arena_slots_possible(a, class_index) / DECODE_SHARE;
    uint32_t n_of_age[DECODE_WINDOW + 1] = {0}, n = 0, oldest = 0;
    for (uint32_t f = 0; f < a->n_frames; f++)
        for (uint32_t i = 0; a->chunks[f].class_index == class_index && i < a->chunks[f].n_slots; i++)
            n_of_age[decode_age(c, f * a->n_per_frame + i)]++;
    while (oldest < DECODE_WINDOW && n + n_of_age[oldest] <= most) n += n_of_age[oldest++];
    for (uint32_t f = 0; f < a->n_frames; f++)
        for (uint32_t i = 0; a->chunks[f].class_index == class_index && i < a->chunks[f].n_slots; i++) {
            uint32_t slot = f * a->n_per_frame + i;
            if (decode_age(c, slot) < oldest) arena_keep(a, a->slots[slot].key, ARENA_DECODE, true);
        }
    c->stats.kept_decode += n;
}

void expert_step(struct expert_cache *c, uint32_t n_tokens, bool decode)
{
    struct arena *a = &c->arena;
    const bool large = n_tokens >= PREFILL_LARGE;
    c->step++;
    c->layer_next = 0;
    c->decode = decode;
    uint32_t k = 0, n = 0;
    for (uint32_t i = 0; i < a->n_classes; i++)
        if (a->classes[i].shape->k_max > k) k = a->classes[i].shape->k_max;
    for (uint32_t i = 0; large && i < expert_catalog_n_layers(c->catalog); i++)
        if (expert_catalog_layer(c->catalog, i)->n_expert > n) n = expert_catalog_layer(c->catalog, i)->n_expert;
    arena_reserve(a, large ? n : 2 * k, large ? RESERVE_SHARE_LARGE : RESERVE_SHARE);
    if (decode && c->protects) protect_end(c);
    if (!large || decode || c->protects || c->n_decoded == 0) return;
    c->protects = true;
    c->stats.kept_decode = 0;
    for (uint32_t i = 0; i < a->n_classes; i++) protect_class(c, i);
}

/* ---- memory ---- */

bool expert_cache_prepare(struct expert_cache *c) { return arena_prepare(&c->arena); }

uint64_t expert_set_limit(struct expert_cache *c, uint64_t bytes)
{
    struct arena *a = &c->arena;
    BASE_ASSERT(!c->want.active, "the limit changes between layers");
    const uint64_t before = a->committed_bytes;
    arena_give_unused(a, bytes);
    const uint64_t unused = before - a->committed_bytes;
    if (bytes >= a->committed_bytes) {
        arena_set_limit(a, bytes);
        return unused;
    }
    expert_guesses_drop(c);
    while (c->n_reading > 0) cache_poll(c, true); /* short: what is in flight */
    uint64_t returned = unused + arena_set_limit(a, bytes);
    if (a->committed_bytes <= bytes || a->n_kept == 0) return returned;
    protect_end(c);
    if (c->n_pinned) {
        base_log(a->config.log, BASE_LOG_WARN, "expert cache: memory is short; pinned experts may leave");
        expert_pin(c, NULL, 0);
    }
    return returned + arena_set_limit(a, bytes);
}

/* ---- figures ---- */

void expert_cache_sources(const struct expert_cache *c, struct expert_source_stats out[EXPERT_SOURCES])
{
    const struct arena *a = &c->arena;
    memcpy(out, c->stats.sources, sizeof c->stats.sources);
    for (uint32_t s = 0; s < EXPERT_SOURCES; s++) {
        struct expert_source_stats *x = &out[s];
        x->wasted = a->wasted[s];
        x->wasted_bytes = a->wasted_bytes[s];
        if (s == EXPERT_WARM) x->wasted = x->reads - x->useful - x->late; /* so far */
    }
}

void cache_guess_stats(const struct expert_cache *c, struct expert_stats *out)
{
    const struct arena *a = &c->arena;
    expert_cache_sources(c, out->sources);
    for (uint32_t k = 0; c->n_pinned > 0 && k < expert_catalog_n_experts(c->catalog); k++) {
        uint32_t slot = a->slot_of[k], layer, expert;
        if (!(a->keep[k] & ARENA_PINNED) || slot == NONE || a->slots[slot].state == SLOT_READING) continue;
        expert_catalog_unkey(c->catalog, k, &layer, &expert);
        out->pinned++;
        out->pinned_bytes += expert_catalog_class(c->catalog, expert_catalog_class_of(c->catalog, layer))->slot_bytes;
    }
}
