/* Chunks and slots.
 *
 * Frames: a frame is `m` of the largest slots long; m is the least with which the frames are few enough, or more in a
 * large cache. Any full chunk
 * fills more than half of its frame (a slot that is longer than half fills it alone; else what is left over is shorter
 * than a slot, so less than half), and only chunks that were cut short by a limit, or whose frame was prepared under
 * one, are smaller. So 2 * limit / frame +
 * one a class are enough to reach the limit; if frames run out nevertheless, a class evicts instead of growing.
 *
 * Changing class: if a class has no free slot and the limit is reached, and another class's coldest expert is colder
 * than its own coldest, the chunk around that expert changes hands: its experts are evicted, and its frame, with what
 * memory it has, goes to the asking class. Not if a slot of the chunk is busy, if the other class would fall below its
 * floor, or if most of the chunk's experts are warmer than the own victim (then evicting that one costs less). Classes
 * in balance would pass chunks to and fro with every layer, so a class evicts a few of its own in between. All of this
 * is O(classes) and O(slots of one chunk), both small, and what a victim costs the policy (policy_rated.c). */
#include "expert/arena_private.h"

#include "base/assert.h"
#include "os/locker.h"
#include "os/toucher.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define TOUCH_BYTES_MIN ((uint64_t)4 << 20)
#define RETIRE_MAX 4     /* chunks that one acquire may take from colder classes */
#define EVICT_BETWEEN 4u /* own experts that a class evicts before it takes another chunk */

#define FRAME_BYTES_GOOD ((uint64_t)32 << 20)
#define FRAMES_FEW 32 /* there are at least so many then, so that classes can share the cache */

struct geometry {
    uint64_t limit_bytes, frame_bytes;
    uint32_t n_frames, n_per_frame;
};

static uint32_t floor_slots(const struct expert_class *class)
{
    return class->n_experts > class->k_max ? class->k_max + 1 : class->n_experts;
}

uint64_t expert_cache_floor_bytes(const struct expert_catalog *catalog)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < expert_catalog_n_classes(catalog); i++) {
        const struct expert_class *class = expert_catalog_class(catalog, i);
        bytes += (uint64_t) class->slot_bytes * floor_slots(class);
    }
    return bytes;
}

uint64_t expert_cache_full_bytes(const struct expert_catalog *catalog)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < expert_catalog_n_classes(catalog); i++) {
        const struct expert_class *class = expert_catalog_class(catalog, i);
        bytes += (uint64_t) class->slot_bytes * class->n_experts;
    }
    return bytes;
}

static struct geometry lay_out(const struct expert_catalog *catalog, uint64_t slots_bytes)
{
    struct geometry g = {0};
    uint32_t n = expert_catalog_n_classes(catalog), largest = 0, smallest = UINT32_MAX;
    if (n == 0) return g;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t bytes = expert_catalog_class(catalog, i)->slot_bytes;
        if (bytes > largest) largest = bytes;
        if (bytes < smallest) smallest = bytes;
    }
    uint64_t full = expert_cache_full_bytes(catalog);
    g.limit_bytes = slots_bytes < full ? slots_bytes : full;
    uint64_t m = 2 * g.limit_bytes / largest / (ARENA_FRAMES_MAX - n - 1) + 1;
    /* A cache of gigabytes grows in larger steps: huge pages fit into them, and the kernel registers fewer. */
    if (g.limit_bytes >= FRAMES_FEW * FRAME_BYTES_GOOD && m < FRAME_BYTES_GOOD / largest)
        m = FRAME_BYTES_GOOD / largest;
    g.frame_bytes = m * largest;
    g.n_frames = (uint32_t)(2 * g.limit_bytes / g.frame_bytes) + n + 1;
    g.n_per_frame = (uint32_t)(g.frame_bytes / smallest);
    return g;
}

size_t arena_memory_bytes(const struct expert_catalog *catalog, uint64_t slots_bytes)
{
    struct geometry g = lay_out(catalog, slots_bytes);
    return g.n_frames * (sizeof(struct arena_chunk) + g.n_per_frame * sizeof(struct arena_slot)) +
           expert_catalog_n_experts(catalog) * (sizeof(uint32_t) + sizeof(uint8_t)) +
           policy_memory_bytes(expert_catalog_policy_shape(catalog));
}

/* ---- where a slot is ---- */

uint32_t arena_chunk_of(const struct arena *a, uint32_t slot) { return slot / a->n_per_frame; }

uint8_t *arena_frame_memory(const struct arena *a, uint32_t chunk) { return a->base + chunk * a->frame_bytes; }

size_t arena_chunk_bytes(const struct arena *a, const struct arena_chunk *chunk)
{
    return (size_t)chunk->n_slots * a->classes[chunk->class_index].shape->slot_bytes;
}

struct arena_class *arena_class_of(struct arena *a, uint32_t slot)
{
    return &a->classes[a->chunks[arena_chunk_of(a, slot)].class_index];
}

uint8_t *arena_memory(const struct arena *a, uint32_t slot)
{
    uint32_t chunk = arena_chunk_of(a, slot);
    uint64_t slot_bytes = a->classes[a->chunks[chunk].class_index].shape->slot_bytes;
    return arena_frame_memory(a, chunk) + slot % a->n_per_frame * slot_bytes;
}

/* ---- free lists ---- */

static void list_push(struct arena *a, uint32_t slot)
{
    struct arena_class *class = arena_class_of(a, slot);
    struct arena_slot *s = &a->slots[slot];
    s->prev = ARENA_NONE;
    s->next = class->free;
    if (s->next != ARENA_NONE) a->slots[s->next].prev = slot;
    class->free = slot;
}

static void list_remove(struct arena *a, uint32_t slot)
{
    struct arena_class *class = arena_class_of(a, slot);
    struct arena_slot *s = &a->slots[slot];
    if (s->prev == ARENA_NONE) {
        BASE_ASSERT(class->free == slot, "the first free slot heads its class's list");
        class->free = s->next;
    } else {
        a->slots[s->prev].next = s->next;
    }
    if (s->next != ARENA_NONE) a->slots[s->next].prev = s->prev;
}

/* ---- who may leave ---- */

uint32_t arena_usable(const struct arena_class *class) { return class->n_slots - class->n_stuck; }

/* Slots that demand can have: those of guesses and those that stay are not among them (E4). */
uint32_t arena_open(const struct arena_class *class) { return arena_usable(class) - class->n_guess - class->n_kept; }

static void queue_push(struct arena *a, uint32_t slot)
{
    struct arena_class *class = arena_class_of(a, slot);
    struct arena_slot *s = &a->slots[slot];
    s->prev = class->guess_last;
    s->next = ARENA_NONE;
    if (s->prev == ARENA_NONE)
        class->guess_first = slot;
    else
        a->slots[s->prev].next = slot;
    class->guess_last = slot;
}

static void queue_remove(struct arena *a, uint32_t slot)
{
    struct arena_class *class = arena_class_of(a, slot);
    struct arena_slot *s = &a->slots[slot];
    if (s->prev == ARENA_NONE)
        class->guess_first = s->next;
    else
        a->slots[s->prev].next = s->next;
    if (s->next == ARENA_NONE)
        class->guess_last = s->prev;
    else
        a->slots[s->next].prev = s->prev;
}

/* A READY slot becomes a guess in the queue, one that stays, or one that the policy may choose. */
static void settle(struct arena *a, uint32_t slot)
{
    struct arena_slot *s = &a->slots[slot];
    struct arena_class *class = arena_class_of(a, slot);
    if (s->guess) {
        queue_push(a, slot);
    } else if (a->keep[s->key] && arena_open(class) > class->floor) {
        s->kept = true;
        class->n_kept++;
        a->n_kept++;
        a->chunks[arena_chunk_of(a, slot)].n_kept++;
    } else {
        policy_insert(a->policy, a->chunks[arena_chunk_of(a, slot)].class_index, s->key);
    }
}

static void unsettle(struct arena *a, uint32_t slot)
{
    struct arena_slot *s = &a->slots[slot];
    if (s->guess) {
        queue_remove(a, slot);
    } else if (s->kept) {
        s->kept = false;
        arena_class_of(a, slot)->n_kept--;
        a->n_kept--;
        a->chunks[arena_chunk_of(a, slot)].n_kept--;
    } else {
        policy_remove(a->policy, a->chunks[arena_chunk_of(a, slot)].class_index, s->key);
    }
}

/* Memory that got stuck is memory that demand has not got any more: where the floor is in danger, what stays may leave
 * (E4). */
static void loosen(struct arena *a, uint32_t class_index)
{
    const struct arena_class *class = &a->classes[class_index];
    for (uint32_t f = 0; f < a->n_frames; f++)
        for (uint32_t i = 0; a->chunks[f].class_index == class_index && i < a->chunks[f].n_slots; i++) {
            const uint32_t slot = f * a->n_per_frame + i;
            if (class->n_kept == 0 || arena_open(class) >= class->floor) return;
            if (!a->slots[slot].kept) continue;
            unsettle(a, slot);
            settle(a, slot); /* among those that the policy may choose: there is no room for one that stays */
        }
}

void arena_keep(struct arena *a, uint32_t key, enum arena_reason reason, bool on)
{
    const uint8_t before = a->keep[key], after = (uint8_t)(on ? before | reason : before & ~reason);
    a->keep[key] = after;
    const uint32_t slot = a->slot_of[key];
    if (slot == ARENA_NONE || a->slots[slot].state != SLOT_READY || a->slots[slot].guess) return;
    if (a->slots[slot].kept == (after != 0)) return;
    unsettle(a, slot);
    settle(a, slot);
}

/* ---- transitions ---- */

static void hold(struct arena *a, uint32_t slot, int direction)
{
    uint64_t bytes = arena_class_of(a, slot)->shape->slot_bytes;
    a->held_bytes = direction > 0 ? a->held_bytes + bytes : a->held_bytes - bytes;
    BASE_ASSERT(a->held_bytes <= a->committed_bytes, "E6 bytes held are bytes committed");
}

void arena_begin(struct arena *a, uint32_t slot, uint32_t key, uint32_t read)
{
    struct arena_slot *s = &a->slots[slot];
    BASE_ASSERT(s->state == SLOT_FREE, "FREE -> READING");
    BASE_ASSERT(a->slot_of[key] == ARENA_NONE, "E3 at most one slot holds an expert");
    list_remove(a, slot);
    *s = (struct arena_slot){.key = key, .owner = read, .state = SLOT_READING};
    a->slot_of[key] = slot;
    a->chunks[arena_chunk_of(a, slot)].n_busy++;
    hold(a, slot, 1);
}

void arena_arrive(struct arena *a, uint32_t slot)
{
    struct arena_slot *s = &a->slots[slot];
    BASE_ASSERT(s->state == SLOT_READING && !s->disowned, "READING -> READY");
    BASE_ASSERT(a->slot_of[s->key] == slot, "E3 at most one slot holds an expert");
    s->state = SLOT_READY;
    a->chunks[arena_chunk_of(a, slot)].n_busy--;
    a->n_resident++;
    settle(a, slot);
}

void arena_guess(struct arena *a, uint32_t slot, uint8_t source)
{
    struct arena_slot *s = &a->slots[slot];
    BASE_ASSERT(s->state == SLOT_READING && !s->guess, "a guess is marked when it begins");
    s->guess = true;
    s->source = source;
    arena_class_of(a, slot)->n_guess++;
}

void arena_promote(struct arena *a, uint32_t slot)
{
    struct arena_slot *s = &a->slots[slot];
    BASE_ASSERT(s->guess && (s->state == SLOT_READING || s->state == SLOT_READY), "a guess comes true once");
    if (s->state == SLOT_READY) unsettle(a, slot);
    s->guess = false;
    arena_class_of(a, slot)->n_guess--;
    if (s->state == SLOT_READY) settle(a, slot);
}

/* A guess that leaves was for nothing. */
static void forget_guess(struct arena *a, uint32_t slot)
{
    struct arena_slot *s = &a->slots[slot];
    if (!s->guess) return;
    s->guess = false;
    arena_class_of(a, slot)->n_guess--;
    a->wasted[s->source]++;
    a->wasted_bytes[s->source] += arena_class_of(a, slot)->shape->expert_bytes;
}

void arena_fail(struct arena *a, uint32_t slot)
{
    struct arena_slot *s = &a->slots[slot];
    BASE_ASSERT(s->state == SLOT_READING && s->disowned, "READING -> FREE only after the failure was seen");
    BASE_ASSERT(!s->stuck, "E2 memory that the kernel holds is io's");
    forget_guess(a, slot);
    s->state = SLOT_FREE;
    a->chunks[arena_chunk_of(a, slot)].n_busy--;
    hold(a, slot, -1);
    list_push(a, slot);
}

void arena_pin(struct arena *a, uint32_t slot, uint32_t item)
{
    struct arena_slot *s = &a->slots[slot];
    BASE_ASSERT(s->state == SLOT_READY && !s->guess, "READY -> PINNED; wanted experts are distinct");
    unsettle(a, slot); /* E1 */
    s->state = SLOT_PINNED;
    s->owner = item;
    a->chunks[arena_chunk_of(a, slot)].n_busy++;
}

void arena_unpin(struct arena *a, uint32_t slot)
{
    struct arena_slot *s = &a->slots[slot];
    BASE_ASSERT(s->state == SLOT_PINNED, "PINNED -> READY");
    s->state = SLOT_READY;
    a->chunks[arena_chunk_of(a, slot)].n_busy--;
    settle(a, slot);
}

void arena_evict(struct arena *a, uint32_t slot)
{
    struct arena_slot *s = &a->slots[slot];
    BASE_ASSERT(s->state == SLOT_READY, "E1 a pinned slot is never a victim, nor is one that io holds (E2)");
    BASE_ASSERT(a->slot_of[s->key] == slot, "E3 at most one slot holds an expert");
    unsettle(a, slot);
    forget_guess(a, slot);
    a->slot_of[s->key] = ARENA_NONE;
    s->state = SLOT_FREE;
    a->n_resident--;
    a->evictions++;
    hold(a, slot, -1);
    list_push(a, slot);
}

void arena_disown(struct arena *a, uint32_t slot)
{
    struct arena_slot *s = &a->slots[slot];
    BASE_ASSERT(s->state == SLOT_READING && !s->disowned, "a read fails once");
    s->disowned = true;
    a->slot_of[s->key] = ARENA_NONE;
}

void arena_stick(struct arena *a, uint32_t slot)
{
    struct arena_slot *s = &a->slots[slot];
    BASE_ASSERT(s->state == SLOT_READING && s->disowned && !s->stuck, "E2 only io's memory gets stuck");
    forget_guess(a, slot);
    s->stuck = true;
    arena_class_of(a, slot)->n_stuck++;
    loosen(a, a->chunks[arena_chunk_of(a, slot)].class_index);
}

void arena_release(struct arena *a, uint32_t slot)
{
    struct arena_slot *s = &a->slots[slot];
    BASE_ASSERT(s->state == SLOT_READING && s->stuck, "only stuck memory is released");
    s->stuck = false;
    arena_class_of(a, slot)->n_stuck--;
}

/* ---- chunks ---- */

/* Makes the committed chunk's slots FREE ones of its class. Pushed in reverse, so that the first is used first. */
static void carve(struct arena *a, uint32_t chunk)
{
    struct arena_chunk *h = &a->chunks[chunk];
    if (h->registered) io_memory_add(a->config.io, arena_frame_memory(a, chunk), arena_chunk_bytes(a, h));
    if (a->config.locker)
        h->locked_bytes = os_lock_range(a->config.locker, arena_frame_memory(a, chunk), arena_chunk_bytes(a, h), false);
    a->classes[h->class_index].n_slots += h->n_slots;
    for (uint32_t i = h->n_slots; i-- > 0;) {
        uint32_t slot = chunk * a->n_per_frame + i;
        a->slots[slot] = (struct arena_slot){.state = SLOT_FREE};
        list_push(a, slot);
    }
}

static void say_refused(struct arena *a, size_t bytes, int error)
{
    if (a->refused) return;
    a->refused = true;
    base_log(a->config.log, BASE_LOG_WARN,
             "expert cache: the system refused %zu more bytes (%s); going on with %" PRIu64 " of %" PRIu64 " bytes",
             bytes, strerror(error), a->committed_bytes, a->limit_bytes);
}

int arena_set_bytes(struct arena *a, uint32_t chunk, uint64_t bytes)
{
    const struct os_calls *os = a->config.os;
    uint64_t have = a->chunks[chunk].bytes;
    int error = 0;
    if (bytes < have && arena_is_coming(a, chunk)) os_touch_wait(a->config.toucher);
    if (bytes > have) error = os->commit(os->user, arena_frame_memory(a, chunk) + have, (size_t)(bytes - have));
    if (bytes < have) error = os->decommit(os->user, arena_frame_memory(a, chunk) + bytes, (size_t)(have - bytes));
    if (error < 0) {
        a->keeps = a->keeps || bytes < have;
        return error;
    }
    a->chunks[chunk].bytes = bytes;
    a->committed_bytes = a->committed_bytes - have + bytes;
    BASE_ASSERT(a->committed_bytes <= a->limit_bytes, "E6 the arena stays under its limit");
    return 0;
}

void arena_trim(struct arena *a, uint32_t chunk)
{
    struct arena_chunk *h = &a->chunks[chunk];
    const uint64_t bytes = arena_chunk_bytes(a, h), before = h->bytes;
    if (h->n_slots == 0 || before <= bytes) return;
    arena_set_bytes(a, chunk, bytes);
    a->carved_bytes -= before - h->bytes;
}

/* prepared: the memory has been touched. */
static void make_chunk(struct arena *a, uint32_t frame, uint32_t class_index, uint32_t n, bool prepared)
{
    struct arena_chunk *h = &a->chunks[frame];
    h->n_slots = n;
    h->class_index = class_index;
    h->n_busy = 0;
    h->registered = a->config.small_pages && prepared; /* registering touches all of it */
    a->carved_bytes += h->bytes;
    if (!arena_is_coming(a, frame)) arena_trim(a, frame);
    carve(a, frame);
}

/* Whoever watches the machine's memory may be against it, but for what the class cannot work without. */
static bool may_grow(const struct arena *a, const struct arena_class *class, uint64_t bytes)
{
    const struct expert_cache_config *c = &a->config;
    return !c->may_grow || arena_open(class) < class->floor || c->may_grow(c->user, a->committed_bytes + bytes);
}

/* The first empty frame that has memory already, else the first one; out of the list. ARENA_NONE: there is none. */
static uint32_t take_empty(struct arena *a)
{
    uint32_t *link = &a->empty, frame;
    const bool spare = a->committed_bytes > a->carved_bytes;
    for (uint32_t *at = link; spare && *at != ARENA_NONE; at = &a->chunks[*at].next_empty) {
        if (!a->chunks[*at].bytes) continue;
        link = at;
        break;
    }
    frame = *link;
    if (frame != ARENA_NONE) *link = a->chunks[frame].next_empty;
    return frame;
}

static void put_empty(struct arena *a, uint32_t frame)
{
    a->chunks[frame].next_empty = a->empty;
    a->empty = frame;
}

/* Slots that the frame may have under the limit. */
static uint64_t room_for(const struct arena *a, const struct arena_chunk *frame, uint32_t slot_bytes)
{
    return (a->limit_bytes - a->committed_bytes + frame->bytes) / slot_bytes;
}

/* One more chunk for the class, of at most n_max slots. False: the limit, no frame, or refused by the system, which is
 * then not asked for more. */
static bool grow_once(struct arena *a, uint32_t class_index, uint32_t n_max)
{
    struct arena_class *class = &a->classes[class_index];
    if (arena_usable(class) >= class->shape->n_experts) return false;
    const uint32_t chunk = take_empty(a), slot_bytes = class->shape->slot_bytes;
    uint32_t n = class->fit < n_max ? class->fit : n_max;
    if (chunk == ARENA_NONE) return false;
    struct arena_chunk *h = &a->chunks[chunk];
    if (n > class->shape->n_experts - arena_usable(class)) n = class->shape->n_experts - arena_usable(class);
    if (room_for(a, h, slot_bytes) < n && arena_coming_unused(a)) {
        os_touch_wait(a->config.toucher);
        arena_settle(a);
    }
    const bool prepared = h->bytes && !arena_is_coming(a, chunk);
    const uint64_t room = room_for(a, h, slot_bytes);
    if (n > room) n = (uint32_t)room;
    uint64_t bytes = (uint64_t)n * slot_bytes;
    if (bytes > h->bytes && !may_grow(a, class, bytes - h->bytes)) {
        n = (uint32_t)(h->bytes / slot_bytes);
        bytes = (uint64_t)n * slot_bytes;
    }
    int error = bytes > h->bytes ? arena_set_bytes(a, chunk, bytes) : 0;
    if (error < 0) {
        say_refused(a, (size_t)(bytes - h->bytes), -error);
        a->limit_bytes = a->committed_bytes;
        n = (uint32_t)(h->bytes / slot_bytes);
    }
    if (n == 0) {
        put_empty(a, chunk);
        return false;
    }
    make_chunk(a, chunk, class_index, n, prepared);
    return true;
}

static bool grow(struct arena *a, uint32_t class_index, uint32_t n_max)
{
    if (!grow_once(a, class_index, n_max)) return false;
    const uint64_t least = a->config.touch_bytes_min ? a->config.touch_bytes_min : TOUCH_BYTES_MIN;
    if (n_max < UINT32_MAX || a->frame_bytes < least) return true;
    if (a->committed_bytes == a->carved_bytes || arena_comes_quickly(a)) arena_prepare(a);
    return true;
}

void arena_retire(struct arena *a, uint32_t chunk)
{
    struct arena_chunk *h = &a->chunks[chunk];
    struct arena_class *class = &a->classes[h->class_index];
    BASE_ASSERT(h->n_busy == 0 && h->n_kept == 0, "E1, E2 a chunk with a pinned, kept or reading slot stays");
    for (uint32_t i = 0; i < h->n_slots; i++) {
        uint32_t slot = chunk * a->n_per_frame + i;
        if (a->slots[slot].state == SLOT_READY) arena_evict(a, slot);
        list_remove(a, slot);
    }
    class->n_slots -= h->n_slots;
    BASE_ASSERT(arena_open(class) >= class->floor, "E4 a class never goes below its floor");
    if (h->registered) io_memory_forget(a->config.io, arena_frame_memory(a, chunk), arena_chunk_bytes(a, h));
    h->registered = false;
    if (a->config.locker)
        os_unlock_range(a->config.locker, arena_frame_memory(a, chunk), arena_chunk_bytes(a, h), h->locked_bytes);
    h->locked_bytes = 0;
    a->carved_bytes -= h->bytes;
    h->n_slots = 0;
    put_empty(a, chunk);
    a->recarved++;
}

/* ---- room for one more expert ---- */

/* At least half of the chunk is free or colder than `key`. */
static bool mostly_colder(const struct arena *a, uint32_t chunk, uint32_t key)
{
    const struct arena_chunk *h = &a->chunks[chunk];
    uint32_t n = 0;
    for (uint32_t i = 0; i < h->n_slots; i++) {
        const struct arena_slot *s = &a->slots[chunk * a->n_per_frame + i];
        n += s->state == SLOT_FREE || policy_compare(a->policy, s->key, key) < 0;
    }
    return 2 * n >= h->n_slots;
}

/* The chunk that another class should give up for this one, or ARENA_NONE. A class without a victim of its own is busy
 * with a long want and gets its slots back as they are given; only if it must (it is below its floor) does it take what
 * is not colder. */
static uint32_t colder_chunk(const struct arena *a, uint32_t class_index, bool must)
{
    uint32_t own = policy_victim(a->policy, class_index), best = POLICY_NONE, best_chunk = ARENA_NONE;
    if (own == POLICY_NONE && !must) return ARENA_NONE;
    if (must) own = POLICY_NONE;
    for (uint32_t i = 0; i < a->n_classes; i++) {
        uint32_t other = i == class_index ? POLICY_NONE : policy_victim(a->policy, i);
        if (other == POLICY_NONE) continue;
        if (own != POLICY_NONE && policy_compare(a->policy, other, own) > 0) continue;
        if (best != POLICY_NONE && policy_compare(a->policy, other, best) > 0) continue;
        uint32_t chunk = arena_chunk_of(a, a->slot_of[other]);
        const struct arena_chunk *h = &a->chunks[chunk];
        if (h->n_busy || h->n_kept || arena_open(&a->classes[i]) < a->classes[i].floor + h->n_slots) continue;
        if (own != POLICY_NONE && !mostly_colder(a, chunk, own)) continue;
        best = other;
        best_chunk = chunk;
    }
    return best_chunk;
}

/* Grows the class, with memory of colder classes if it must be. */
static bool make_room(struct arena *a, uint32_t class_index, bool must)
{
    struct arena_class *class = &a->classes[class_index];
    if (grow(a, class_index, UINT32_MAX)) return true;
    if (arena_usable(class) >= class->shape->n_experts) return false;
    if (!must && class->n_evicted < EVICT_BETWEEN) return false;
    for (int i = 0; i < RETIRE_MAX; i++) {
        uint32_t chunk = colder_chunk(a, class_index, must);
        if (chunk == ARENA_NONE) return false;
        arena_retire(a, chunk);
        class->n_evicted = 0;
        if (grow(a, class_index, UINT32_MAX)) return true;
        arena_set_bytes(a, chunk, 0); /* too small alone: makes room under the limit */
    }
    return false;
}

bool arena_evict_one(struct arena *a, uint32_t class_index)
{
    uint32_t victim = policy_victim(a->policy, class_index), slot = a->classes[class_index].guess_first;
    if (victim != POLICY_NONE) slot = a->slot_of[victim];
    if (slot == ARENA_NONE) return false;
    arena_evict(a, slot);
    return true;
}

/* The class would grow, and what it would grow into is not there yet. */
static bool comes_soon(struct arena *a, uint32_t class_index)
{
    const struct arena_class *class = &a->classes[class_index];
    uint32_t frame = a->empty;
    if (arena_settle(a) || arena_usable(class) >= class->shape->n_experts) return false;
    while (frame != ARENA_NONE && !a->chunks[frame].bytes) frame = a->chunks[frame].next_empty;
    return frame != ARENA_NONE && arena_is_coming(a, frame);
}

uint32_t arena_acquire(struct arena *a, uint32_t class_index, bool wait)
{
    struct arena_class *class = &a->classes[class_index];
    if (class->free != ARENA_NONE) return class->free;
    if (!wait && comes_soon(a, class_index)) return ARENA_NONE;
    if (class->n_guess > class->reserve && class->guess_first != ARENA_NONE) {
        arena_evict(a, class->guess_first); /* the reserve has become smaller */
    } else if (!make_room(a, class_index, false)) {
        if (!arena_evict_one(a, class_index)) return ARENA_NONE;
        class->n_evicted++;
    }
    return class->free;
}

uint32_t arena_acquire_guess(struct arena *a, uint32_t class_index)
{
    struct arena_class *class = &a->classes[class_index];
    if (class->n_guess >= class->reserve) {
        if (class->guess_first == ARENA_NONE || class->n_guess > class->reserve) return ARENA_NONE;
        arena_evict(a, class->guess_first);
        return class->free;
    }
    if (class->free == ARENA_NONE && comes_soon(a, class_index)) return ARENA_NONE;
    if (arena_open(class) <= class->floor && !grow(a, class_index, UINT32_MAX)) return ARENA_NONE;
    if (arena_open(class) <= class->floor) return ARENA_NONE;
    if (class->free == ARENA_NONE && !grow(a, class_index, UINT32_MAX)) {
        uint32_t victim = policy_victim(a->policy, class_index);
        if (victim == POLICY_NONE) return ARENA_NONE;
        arena_evict(a, a->slot_of[victim]);
    }
    return class->free;
}

uint32_t arena_acquire_spare(struct arena *a, uint32_t class_index)
{
    struct arena_class *class = &a->classes[class_index];
    if (class->free == ARENA_NONE && (comes_soon(a, class_index) || !grow(a, class_index, UINT32_MAX)))
        return ARENA_NONE;
    return class->free;
}

uint32_t arena_slots_possible(const struct arena *a, uint32_t class_index)
{
    const struct arena_class *class = &a->classes[class_index];
    uint64_t room = a->limit_bytes > a->carved_bytes ? a->limit_bytes - a->carved_bytes : 0;
    uint64_t n = class->n_slots + room / class->shape->slot_bytes;
    return n < class->shape->n_experts ? (uint32_t)n : class->shape->n_experts;
}

void arena_reserve(struct arena *a, uint32_t n, uint32_t share)
{
    for (uint32_t i = 0; i < a->n_classes; i++) {
        struct arena_class *class = &a->classes[i];
        uint32_t most = arena_slots_possible(a, i) / share;
        class->reserve = n < most ? n : most;
    }
}

void arena_move(struct arena *a, uint32_t from, uint32_t to)
{
    struct arena_slot *s = &a->slots[from], *t = &a->slots[to];
    BASE_ASSERT(s->state == SLOT_READY && !s->guess && t->state == SLOT_FREE, "a READY expert moves to a FREE slot");
    BASE_ASSERT(arena_class_of(a, from) == arena_class_of(a, to), "an expert is in a slot of its size");
    list_remove(a, to);
    memcpy(arena_memory(a, to), arena_memory(a, from), arena_class_of(a, from)->shape->slot_bytes);
    *t = *s;
    a->slot_of[s->key] = to;
    if (s->kept) {
        a->chunks[arena_chunk_of(a, from)].n_kept--;
        a->chunks[arena_chunk_of(a, to)].n_kept++;
    }
    *s = (struct arena_slot){.state = SLOT_FREE};
    list_push(a, from);
}

bool arena_at_floor(struct arena *a, uint32_t class_index)
{
    struct arena_class *class = &a->classes[class_index];
    while (arena_open(class) < class->floor) {
        if (class->guess_first != ARENA_NONE) {
            arena_evict(a, class->guess_first);
            continue;
        }
        if (!make_room(a, class_index, true)) return false;
    }
    return true;
}

/* ---- beginning and end ---- */

static enum sluice_status reserve(struct arena *a, struct sluice_error *err)
{
    uint32_t align = expert_catalog_align(a->catalog), page = (uint32_t)os_page_bytes();
    uint64_t spare = align > page ? align : 0; /* the system aligns to pages alone */
    uint64_t bytes = a->n_frames * a->frame_bytes + spare;
    if (bytes <= SIZE_MAX / 2) a->reserved = a->config.os->reserve(a->config.os->user, (size_t)bytes);
    if (!a->reserved)
        return base_fail(err, SLUICE_ERR_MEMORY, "lift the limit on address space (ulimit -v)",
                         "no address space for an expert cache of %" PRIu64 " bytes", bytes);
    a->reserved_bytes = (size_t)bytes;
    a->base = a->reserved + (spare ? align - (uintptr_t)a->reserved % align : 0);
    return SLUICE_OK;
}

static enum sluice_status commit_floor(struct arena *a, struct sluice_error *err)
{
    for (uint32_t i = 0; i < a->n_classes; i++) {
        struct arena_class *class = &a->classes[i];
        while (class->n_slots < class->floor)
            if (!grow(a, i, class->floor - class->n_slots))
                return base_fail(err, SLUICE_ERR_MEMORY, "free some memory",
                                 "the system gave the expert cache %" PRIu64 " bytes; at least %" PRIu64 " are needed",
                                 a->committed_bytes, expert_cache_floor_bytes(a->catalog));
    }
    return SLUICE_OK;
}

enum sluice_status arena_create(const struct expert_cache_config *config, struct arena *a, struct sluice_error *err)
{
    const struct expert_catalog *catalog = config->catalog;
    struct geometry g = lay_out(catalog, config->slots_bytes);
    uint64_t floor = expert_cache_floor_bytes(catalog);
    *a = (struct arena){.config = *config, .catalog = catalog, .empty = ARENA_NONE};
    if (config->slots_bytes < floor)
        return base_fail(err, SLUICE_ERR_MEMORY, "give the expert cache more memory",
                         "an expert cache of %" PRIu64 " bytes was asked for; this model needs at least %" PRIu64,
                         config->slots_bytes, floor);
    a->limit_bytes = a->most_bytes = g.limit_bytes;
    a->frame_bytes = g.frame_bytes;
    a->n_frames = g.n_frames;
    a->n_per_frame = g.n_per_frame;
    a->n_classes = expert_catalog_n_classes(catalog);
    BASE_ASSERT(a->n_frames <= ARENA_FRAMES_MAX, "frames are few enough to be registered");

    uint32_t n_experts = expert_catalog_n_experts(catalog);
    enum sluice_status status = policy_create(config->policy, expert_catalog_policy_shape(catalog), &a->policy, err);
    if (status) return status;
    a->chunks = calloc((size_t)a->n_frames + 1, sizeof *a->chunks);
    a->slots = calloc((size_t)a->n_frames * a->n_per_frame + 1, sizeof *a->slots);
    a->slot_of = malloc(((size_t)n_experts + 1) * sizeof *a->slot_of);
    a->keep = calloc((size_t)n_experts + 1, sizeof *a->keep);
    if (!a->chunks || !a->slots || !a->slot_of || !a->keep)
        return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for the states of %u experts", n_experts);
    for (uint32_t i = 0; i < n_experts; i++) a->slot_of[i] = ARENA_NONE;
    for (uint32_t i = a->n_frames; i-- > 0;) {
        a->chunks[i].next_empty = a->empty;
        a->empty = i;
    }
    for (uint32_t i = 0; i < a->n_classes; i++) {
        const struct expert_class *shape = expert_catalog_class(catalog, i);
        a->classes[i] = (struct arena_class){.shape = shape,
                                             .fit = (uint32_t)(a->frame_bytes / shape->slot_bytes),
                                             .floor = floor_slots(shape),
                                             .free = ARENA_NONE,
                                             .guess_first = ARENA_NONE,
                                             .guess_last = ARENA_NONE};
    }
    if (a->n_classes == 0) return SLUICE_OK; /* a dense model */
    status = reserve(a, err);
    return status ? status : commit_floor(a, err);
}

void arena_destroy(struct arena *a, bool leak)
{
    if (a->n_coming) os_touch_wait(a->config.toucher);
    for (uint32_t i = 0; a->reserved && !leak && i < a->n_frames; i++) {
        if (!a->chunks[i].n_slots) continue;
        if (a->chunks[i].registered)
            io_memory_forget(a->config.io, arena_frame_memory(a, i), arena_chunk_bytes(a, &a->chunks[i]));
        if (a->config.locker)
            os_unlock_range(a->config.locker, arena_frame_memory(a, i), arena_chunk_bytes(a, &a->chunks[i]),
                            a->chunks[i].locked_bytes);
    }
    if (a->reserved && !leak) a->config.os->release(a->config.os->user, a->reserved, a->reserved_bytes);
    free(a->keep);
    free(a->slot_of);
    free(a->slots);
    free(a->chunks);
    policy_destroy(a->policy);
}
