/* Walks the arena and asserts what README.md numbers. */
#include "expert/arena_private.h"

#include "base/assert.h"

/* What one chunk contributes to its class and to the whole. */
struct tally {
    uint64_t committed, carved, held;
    uint32_t n_resident, n_slots[EXPERT_CLASSES_MAX], n_free[EXPERT_CLASSES_MAX], n_ready[EXPERT_CLASSES_MAX],
        n_stuck[EXPERT_CLASSES_MAX], n_guess[EXPERT_CLASSES_MAX], n_kept[EXPERT_CLASSES_MAX], n_owned;
};

static void check_chunk(const struct arena *a, uint32_t chunk, struct tally *t)
{
    const struct arena_chunk *h = &a->chunks[chunk];
    uint32_t class_index = h->class_index, n_busy = 0, n_kept = 0;
    const struct arena_class *class = &a->classes[class_index];
    BASE_ASSERT(h->n_slots <= class->fit, "a chunk fits its frame");
    BASE_ASSERT(h->bytes >= arena_chunk_bytes(a, h) && h->bytes <= a->frame_bytes, "E6 a chunk's slots are committed");
    t->n_slots[class_index] += h->n_slots;
    for (uint32_t i = 0; i < h->n_slots; i++) {
        uint32_t slot = chunk * a->n_per_frame + i;
        const struct arena_slot *s = &a->slots[slot];
        n_busy += s->state == SLOT_READING || s->state == SLOT_PINNED;
        t->n_ready[class_index] += s->state == SLOT_READY && !s->guess && !s->kept;
        t->n_guess[class_index] += s->guess;
        t->n_kept[class_index] += s->kept;
        n_kept += s->kept;
        BASE_ASSERT(!s->guess || s->state == SLOT_READING || s->state == SLOT_READY, "a guess is not wanted yet");
        BASE_ASSERT(!s->kept || (s->state == SLOT_READY && !s->guess && a->keep[s->key]), "what stays has a reason");
        t->n_free[class_index] += s->state == SLOT_FREE;
        t->n_stuck[class_index] += s->state == SLOT_READING && s->stuck;
        t->n_resident += s->state == SLOT_READY || s->state == SLOT_PINNED;
        if (s->state == SLOT_FREE) continue;
        t->held += class->shape->slot_bytes;
        if (s->state == SLOT_READING && s->disowned) continue;
        t->n_owned++;
        BASE_ASSERT(a->slot_of[s->key] == slot, "E3 at most one slot holds an expert");
        uint32_t layer, expert;
        expert_catalog_unkey(a->catalog, s->key, &layer, &expert);
        BASE_ASSERT(expert_catalog_class_of(a->catalog, layer) == class_index, "an expert is in a slot of its size");
    }
    BASE_ASSERT(n_busy == h->n_busy && n_kept == h->n_kept, "a chunk knows its busy slots and those that stay");
}

void arena_check(const struct arena *a)
{
    policy_check(a->policy);
    struct tally t = {0};
    uint32_t n_mapped = 0, n_empty = 0, n_used = 0;
    for (uint32_t i = 0; i < a->n_frames; i++) {
        t.committed += a->chunks[i].bytes;
        if (a->chunks[i].n_slots == 0) continue;
        BASE_ASSERT(a->keeps || i - a->coming < a->n_coming ||
                        a->chunks[i].bytes == arena_chunk_bytes(a, &a->chunks[i]),
                    "E6 a chunk's slots are committed and no more, unless the system did not take memory back");
        t.carved += a->chunks[i].bytes;
        n_used++;
        check_chunk(a, i, &t);
    }
    for (uint32_t i = a->empty; i != ARENA_NONE; i = a->chunks[i].next_empty) n_empty++;
    for (uint32_t i = 0; i < expert_catalog_n_experts(a->catalog); i++) n_mapped += a->slot_of[i] != ARENA_NONE;
    BASE_ASSERT(n_used + n_empty == a->n_frames, "a frame holds a chunk or is in the list of empty ones");
    BASE_ASSERT(n_mapped == t.n_owned, "E3 at most one slot holds an expert");
    BASE_ASSERT(t.committed == a->committed_bytes && t.committed <= a->limit_bytes,
                "E6 bytes accounted are bytes committed, and under the limit");
    BASE_ASSERT(t.carved == a->carved_bytes, "bytes of chunks are counted");
    BASE_ASSERT(t.held == a->held_bytes && t.held <= t.committed, "E6 bytes held are the sum of the slots' sizes");
    BASE_ASSERT(t.n_resident == a->n_resident, "residents are counted");
    for (uint32_t i = 0; i < a->n_classes; i++) {
        const struct arena_class *class = &a->classes[i];
        uint32_t n_listed = 0, victim = policy_victim(a->policy, i);
        for (uint32_t s = class->free; s != ARENA_NONE; s = a->slots[s].next, n_listed++)
            BASE_ASSERT(a->slots[s].state == SLOT_FREE && a->chunks[arena_chunk_of(a, s)].class_index == i,
                        "a free list holds the free slots of its class");
        BASE_ASSERT(n_listed == t.n_free[i], "free lists hold all free slots");
        BASE_ASSERT(t.n_slots[i] == class->n_slots && t.n_stuck[i] == class->n_stuck, "a class knows its slots");
        uint32_t n_queued = 0;
        for (uint32_t s = class->guess_first; s != ARENA_NONE; s = a->slots[s].next, n_queued++)
            BASE_ASSERT(a->slots[s].state == SLOT_READY && a->slots[s].guess, "the queue holds READY guesses");
        BASE_ASSERT(t.n_guess[i] == class->n_guess && t.n_kept[i] == class->n_kept && n_queued <= class->n_guess,
                    "a class knows its guesses and those that stay");
        BASE_ASSERT(class->n_slots >= class->floor, "E4 a class never goes below its floor");
        BASE_ASSERT(arena_open(class) >= class->floor || class->n_stuck > 0,
                    "E4 guesses and what stays leave a class its floor");
        BASE_ASSERT((victim == POLICY_NONE) == (t.n_ready[i] == 0), "all READY slots are in the policy's set");
        BASE_ASSERT(victim == POLICY_NONE || a->slots[a->slot_of[victim]].state == SLOT_READY,
                    "E1 a pinned slot is never a victim");
    }
}
