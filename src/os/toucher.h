/* Brings committed memory in before it is needed, in a thread of its own, so that nobody stands still for it.
 *
 * The first touch of memory is not free, least of all in a virtual machine whose host has to find the page as well: it
 * can be slower than a disk.
 *
 * One thread owns a toucher. A range is the toucher's from os_touch_begin until os_touch_wait has returned; touching it
 * meanwhile is allowed and merely pointless. */
#ifndef OS_TOUCHER_H
#define OS_TOUCHER_H

#include "os/os.h"

struct os_toucher; /* opaque */

/* 0 or -errno (no thread, no memory). The thread sleeps when there is nothing to do. */
int os_toucher_create(const struct os_calls *os, struct os_toucher **out);
void os_toucher_destroy(struct os_toucher *t); /* waits for what is under way; NULL is allowed */

/* One range at a time: waits for the one before. */
void os_touch_begin(struct os_toucher *t, void *at, size_t bytes);
/* Whether os_touch_wait would return at once. */
bool os_touch_idle(struct os_toucher *t);
/* The last range is resident, or could not be made so (then it is touched as it is used). */
void os_touch_wait(struct os_toucher *t);
/* What touching so many bytes would take, at the pace of the last range; 0: that could not be done, or there was none.
 * Waits. */
uint64_t os_touch_estimate_ns(struct os_toucher *t, size_t bytes);

struct os_touch_figures {
    uint64_t bytes, ns; /* brought in, and how long that took */
};
void os_touch_figures(struct os_toucher *t, struct os_touch_figures *out); /* waits */

#endif
