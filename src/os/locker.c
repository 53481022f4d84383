#include "os/locker.h"

#include "base/assert.h"

#define MARGIN_BYTES_MIN ((uint64_t)1 << 30)
#define MARGIN_DIVISOR 20 /* 5 % */

static void check(const struct os_locker *l)
{
    BASE_ASSERT(l->locked_bytes + l->skipped_bytes == l->wanted_bytes, "O8 what is wanted is locked or skipped");
    BASE_ASSERT(l->failed_bytes <= l->skipped_bytes, "O8 what failed is skipped");
}

void os_lock_begin(struct os_locker *l, const struct os_calls *os, uint64_t margin_bytes)
{
    *l = (struct os_locker){.os = os, .margin_bytes = margin_bytes};
    if (margin_bytes) return;
    struct os_memory m;
    os->memory(os->user, &m);
    l->margin_bytes = m.total_bytes / MARGIN_DIVISOR;
    if (l->margin_bytes < MARGIN_BYTES_MIN) l->margin_bytes = MARGIN_BYTES_MIN;
}

/* Is the margin still free when the system has found so many more bytes? */
static bool leaves_margin(const struct os_locker *l, uint64_t add_bytes)
{
    struct os_memory m;
    l->os->memory(l->os->user, &m);
    uint64_t room = m.available_bytes < m.cgroup_room_bytes ? m.available_bytes : m.cgroup_room_bytes;
    return room >= add_bytes && room - add_bytes >= l->margin_bytes;
}

/* From byte `begin` of the range to where the next step ends: between two pages, so that no step shares one. */
static size_t step_bytes(const uint8_t *at, size_t begin, size_t bytes)
{
    if (bytes - begin <= OS_LOCK_STEP_BYTES) return bytes - begin;
    return OS_LOCK_STEP_BYTES - (uintptr_t)(at + begin) % os_page_bytes();
}

size_t os_lock_range(struct os_locker *l, const void *at, size_t bytes, bool resident)
{
    size_t locked = 0;
    while (locked < bytes) {
        size_t step = step_bytes(at, locked, bytes);
        if (!leaves_margin(l, resident ? 0 : step)) break;
        const uint8_t *from = (const uint8_t *)at + locked;
        int rc = l->os->lock(l->os->user, from, step);
        if (rc < 0) {
            /* Pages that could not be brought in: the kernel has marked the range as locked all the same. */
            l->os->unlock(l->os->user, from, step);
            l->refusal = -rc;
            l->failed_bytes += step;
            break;
        }
        locked += step;
    }
    l->wanted_bytes += bytes;
    l->locked_bytes += locked;
    l->skipped_bytes += bytes - locked;
    check(l);
    return locked;
}

void os_unlock_range(struct os_locker *l, const void *at, size_t bytes, size_t locked)
{
    BASE_ASSERT(locked <= bytes && locked <= l->locked_bytes && bytes - locked <= l->skipped_bytes,
                "O8 a range is unlocked as it was locked");
    if (locked) l->os->unlock(l->os->user, at, locked); /* fails only where nothing is mapped: nothing is locked then */
    l->wanted_bytes -= bytes;
    l->locked_bytes -= locked;
    l->skipped_bytes -= bytes - locked;
    /* Nobody remembers whether this range was refused or kept the margin: the failed ones go last. */
    if (l->failed_bytes > l->skipped_bytes) l->failed_bytes = l->skipped_bytes;
    check(l);
}
