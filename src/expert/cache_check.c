/* Walks a cache and asserts what README.md numbers. */
#include "expert/cache_private.h"

#include "base/assert.h"

static void check_reads(const struct expert_cache *c)
{
    uint32_t n_idle = 0, n_reading = 0, n_guessing = 0, n_stuck = 0, n_used = 0, n_slots_reading = 0;
    for (uint32_t i = c->idle; i != NONE; i = c->reads[i].next, n_idle++)
        BASE_ASSERT(n_idle < CACHE_READS_MAX, "the list of idle reads ends");
    for (uint32_t f = 0; f < c->arena.n_frames; f++)
        for (uint32_t i = 0; i < c->arena.chunks[f].n_slots; i++) {
            const struct arena_slot *s = &c->arena.slots[f * c->arena.n_per_frame + i];
            if (s->state != SLOT_READING) continue;
            const struct read *r = &c->reads[s->owner];
            n_slots_reading++;
            n_used++;
            n_reading += r->asked != 0;
            n_guessing += r->asked != 0 && r->guess;
            BASE_ASSERT(!r->guess || r->item == NONE, "what is wanted is no guess");
            n_stuck += r->stuck != 0;
            BASE_ASSERT(r->slot == f * c->arena.n_per_frame + i, "E2 a READING slot belongs to one read");
            BASE_ASSERT(r->asked || r->failed, "E2 a slot is READING only while parts are on their way");
            BASE_ASSERT(s->disowned == r->failed && s->stuck == (r->stuck != 0), "a slot knows how its read fares");
        }
    BASE_ASSERT(n_idle + n_used == CACHE_READS_MAX, "E2 a read has a slot or is idle");
    BASE_ASSERT(n_idle == c->n_idle && n_guessing == c->n_guessing, "idle reads and guesses are counted");
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
