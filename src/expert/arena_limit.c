/* Giving memory back while the engine runs.
 *
 * Memory returns to the system a chunk at a time, because a chunk is what is committed and registered with the kernel
 * as a whole. But experts leave by coldness, wherever they are: the coldest of a class are evicted until the experts of
 * one of its chunks fit into the slots that became free elsewhere, they are moved there, and the chunk goes. So what a
 * shrink costs is copying a chunk's experts once, and never a warm expert in place of a colder one of its class. */
#include "expert/arena_private.h"

#include "base/assert.h"

/* An idle chunk of the class whose loss leaves the class its floor: the one with the fewest experts to move. */
static uint32_t chunk_to_give(const struct arena *a, uint32_t class_index)
{
    const struct arena_class *class = &a->classes[class_index];
    uint32_t best = ARENA_NONE, best_ready = UINT32_MAX;
    for (uint32_t i = 0; i < a->n_frames; i++) {
        const struct arena_chunk *h = &a->chunks[i];
        if (h->n_slots == 0 || h->class_index != class_index || h->n_busy) continue;
        if (arena_open(class) < class->floor + h->n_slots) continue;
        uint32_t n_ready = 0;
        for (uint32_t s = 0; s < h->n_slots; s++) n_ready += a->slots[i * a->n_per_frame + s].state == SLOT_READY;
        if (n_ready >= best_ready) continue;
        best = i;
        best_ready = n_ready;
    }
    return best;
}

/* The class whose coldest expert is the coldest of all, among those that can give a chunk. A class with free slots only
 * comes first. */
static uint32_t class_to_shrink(const struct arena *a, uint32_t *chunk)
{
    uint32_t best = ARENA_NONE, best_victim = POLICY_NONE;
    for (uint32_t i = 0; i < a->n_classes; i++) {
        uint32_t here = chunk_to_give(a, i);
        if (here == ARENA_NONE) continue;
        uint32_t victim = policy_victim(a->policy, i);
        bool first = best == ARENA_NONE || victim == POLICY_NONE;
        if (!first && (best_victim == POLICY_NONE || policy_compare(a->policy, victim, best_victim) > 0)) continue;
        best = i;
        best_victim = victim;
        *chunk = here;
    }
    return best;
}

static bool in_chunk(const struct arena *a, uint32_t slot, uint32_t chunk) { return arena_chunk_of(a, slot) == chunk; }

/* A FREE slot of the class outside of the chunk. */
static uint32_t free_elsewhere(const struct arena *a, uint32_t class_index, uint32_t chunk)
{
    uint32_t slot = a->classes[class_index].free;
    while (slot != ARENA_NONE && in_chunk(a, slot, chunk)) slot = a->slots[slot].next;
    return slot;
}

/* Empties the chunk: its guesses leave, its experts move, and for each that finds no place the coldest one leaves. */
static bool empty_chunk(struct arena *a, uint32_t class_index, uint32_t chunk)
{
    const uint32_t first = chunk * a->n_per_frame, end = first + a->chunks[chunk].n_slots;
    for (uint32_t slot = first; slot < end; slot++) {
        if (a->slots[slot].state == SLOT_READY && a->slots[slot].guess) arena_evict(a, slot);
        while (a->slots[slot].state == SLOT_READY) {
            uint32_t to = free_elsewhere(a, class_index, chunk);
            if (to != ARENA_NONE)
                arena_move(a, slot, to);
            else if (!arena_evict_one(a, class_index)) /* perhaps this one */
                return false;
        }
    }
    return true;
}

void arena_give_unused(struct arena *a, uint64_t bytes)
{
    for (uint32_t i = a->n_frames; a->committed_bytes > bytes && i-- > 0;)
        if (a->chunks[i].n_slots == 0 && a->chunks[i].bytes) arena_set_bytes(a, i, 0);
}

uint64_t arena_set_limit(struct arena *a, uint64_t bytes)
{
    const uint64_t floor = expert_cache_floor_bytes(a->catalog), before = a->committed_bytes;
    if (bytes < floor) bytes = floor;
    if (bytes > a->most_bytes) bytes = a->most_bytes;
    uint32_t chunk = ARENA_NONE;
    arena_give_unused(a, bytes);
    while (a->committed_bytes > bytes) {
        uint32_t class_index = class_to_shrink(a, &chunk);
        if (class_index == ARENA_NONE || !empty_chunk(a, class_index, chunk)) break;
        arena_retire(a, chunk);
        if (arena_set_bytes(a, chunk, 0) < 0) break;
    }
    a->limit_bytes = a->committed_bytes > bytes ? a->committed_bytes : bytes;
    if (a->limit_bytes > before) a->refused = false; /* what the system refused once it may give now */
    return before > a->committed_bytes ? before - a->committed_bytes : 0;
}
