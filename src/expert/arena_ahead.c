/* Memory that comes before it is needed: committed, and touched by a thread of its own.
 *
 * The first touch of memory is not free, and in a virtual machine whose host has to find the page as well it can be
 * slower than a disk; there what the guest has just given back, or was given at its start, is still at hand and what
 * it has not used for seconds is not. So the arena's memory is brought in while nobody computes (a model that is being
 * loaded, a server without a request), and later the next frame while the present one is read into.
 *
 * A frame that is being touched stays in the list of empty ones and may be taken: touching it meanwhile is allowed.
 * Only its memory is not given back until that has ended (arena_set_bytes). */
#include "expert/arena_private.h"

#include "os/toucher.h"

/* What is touched at once: a little, or as much as takes no time to speak of where memory is there for the asking. */
#define RANGE_BYTES ((uint64_t)32 << 20)
#define RANGE_BYTES_QUICK ((uint64_t)128 << 20)
#define RANGE_NS_QUICK 25000000u

bool arena_is_coming(const struct arena *a, uint32_t chunk)
{
    return chunk >= a->coming && chunk - a->coming < a->n_coming && !os_touch_idle(a->config.toucher);
}

bool arena_settle(struct arena *a)
{
    if (a->n_coming == 0) return true;
    if (!os_touch_idle(a->config.toucher)) return false;
    const uint32_t first = a->coming, n = a->n_coming;
    a->n_coming = 0;
    for (uint32_t i = first; i < first + n; i++) arena_trim(a, i); /* taken meanwhile by smaller experts */
    return true;
}

bool arena_coming_unused(const struct arena *a)
{
    for (uint32_t i = a->coming; i < a->coming + a->n_coming; i++) {
        const struct arena_chunk *h = &a->chunks[i];
        if (h->n_slots && h->bytes > arena_chunk_bytes(a, h)) return true;
    }
    return false;
}

/* Commits the empty frame, or as much of it as whole slots of any class are under the limit. */
static bool commit(struct arena *a, uint32_t frame)
{
    uint64_t largest = 0, bytes = a->limit_bytes - a->committed_bytes;
    for (uint32_t i = 0; i < a->n_classes; i++)
        if (a->classes[i].shape->slot_bytes > largest) largest = a->classes[i].shape->slot_bytes;
    if (bytes > a->frame_bytes) bytes = a->frame_bytes;
    bytes -= bytes % largest;
    /* With several sizes chunks give back what they do not fill; what is left of that is for whoever needs it. */
    if (a->n_classes > 1 && bytes < a->frame_bytes / 2) return false;
    const struct expert_cache_config *c = &a->config;
    if (bytes == 0 || (c->may_grow && !c->may_grow(c->user, a->committed_bytes + bytes))) return false;
    return arena_set_bytes(a, frame, bytes) == 0; /* refused: whoever needs it says so */
}

bool arena_comes_quickly(const struct arena *a)
{
    if (!a->config.toucher || !os_touch_idle(a->config.toucher)) return false;
    const uint64_t ns = os_touch_estimate_ns(a->config.toucher, RANGE_BYTES_QUICK);
    return ns && ns < RANGE_NS_QUICK;
}

bool arena_prepare(struct arena *a)
{
    if (!a->config.toucher || a->n_classes == 0) return false;
    if (!arena_settle(a)) return true;
    uint32_t frame = a->empty, n = 0;
    while (frame != ARENA_NONE && a->chunks[frame].bytes) frame = a->chunks[frame].next_empty;
    if (frame == ARENA_NONE) return false;
    const uint64_t most = arena_comes_quickly(a) ? RANGE_BYTES_QUICK : RANGE_BYTES;
    uint64_t bytes = 0;
    while ((n == 0 || bytes + a->frame_bytes <= most) && commit(a, frame + n)) {
        bytes += a->chunks[frame + n].bytes;
        const uint32_t next = a->chunks[frame + n].next_empty;
        n++;
        /* Only whole neighbours are one range. */
        if (bytes < n * a->frame_bytes || next != frame + n || a->chunks[next].bytes) break;
    }
    if (n == 0) return false;
    a->coming = frame;
    a->n_coming = n;
    os_touch_begin(a->config.toucher, arena_frame_memory(a, frame), (size_t)bytes);
    return true;
}
