#include "os/toucher.h"

#include "base/assert.h"

#include <errno.h>
#include <stdlib.h>

#define STEP_BYTES ((size_t)16 << 20)
#define STACK_BYTES ((size_t)64 << 10)

struct os_toucher {
    const struct os_calls *os;
    struct os_thread *thread;
    struct os_mutex *mutex;
    struct os_cond *changed;
    /* under the mutex */
    void *at;
    size_t bytes; /* 0: nothing to do */
    bool quit;
    /* the owner's, and while there is something to do the thread's */
    double ns_byte; /* of the last range; 0: it could not be touched, or there was none */
    struct os_touch_figures figures;
};

static void touch(struct os_toucher *t)
{
    const uint64_t t0 = t->os->now_ns(t->os->user);
    bool there = true;
    /* The kernel holds the process's map while it populates: others get at it between two steps. */
    for (size_t at = 0; there && at < t->bytes; at += STEP_BYTES) {
        const size_t left = t->bytes - at;
        there = t->os->populate(t->os->user, (uint8_t *)t->at + at, left < STEP_BYTES ? left : STEP_BYTES) == 0;
    }
    const uint64_t ns = t->os->now_ns(t->os->user) - t0;
    t->ns_byte = there ? (double)ns / (double)t->bytes : 0; /* else it will be touched as it is used */
    if (!there) return;
    t->figures.bytes += t->bytes;
    t->figures.ns += ns;
}

static void work(void *arg)
{
    struct os_toucher *t = arg;
    os_mutex_lock(t->mutex);
    for (;;) {
        while (!t->bytes && !t->quit) os_cond_wait(t->changed, t->mutex);
        if (!t->bytes) break;
        os_mutex_unlock(t->mutex);
        touch(t);
        os_mutex_lock(t->mutex);
        t->bytes = 0;
        os_cond_broadcast(t->changed);
    }
    os_mutex_unlock(t->mutex);
}

int os_toucher_create(const struct os_calls *os, struct os_toucher **out)
{
    struct os_toucher *t = calloc(1, sizeof *t);
    *out = NULL;
    if (!t) return -ENOMEM;
    t->os = os;
    int rc = os_mutex_create(&t->mutex);
    if (!rc) rc = os_cond_create(&t->changed);
    if (!rc) rc = os_thread_start(&t->thread, work, t, "sluice-touch", STACK_BYTES);
    if (rc) {
        os_toucher_destroy(t);
        return rc;
    }
    *out = t;
    return 0;
}

void os_toucher_destroy(struct os_toucher *t)
{
    if (!t) return;
    if (t->thread) {
        os_mutex_lock(t->mutex);
        t->quit = true;
        os_cond_broadcast(t->changed);
        os_mutex_unlock(t->mutex);
        os_thread_join(t->thread);
    }
    if (t->changed) os_cond_destroy(t->changed);
    if (t->mutex) os_mutex_destroy(t->mutex);
    free(t);
}

void os_touch_wait(struct os_toucher *t)
{
    os_mutex_lock(t->mutex);
    while (t->bytes) os_cond_wait(t->changed, t->mutex);
    os_mutex_unlock(t->mutex);
}

bool os_touch_idle(struct os_toucher *t)
{
    os_mutex_lock(t->mutex);
    const bool idle = !t->bytes;
    os_mutex_unlock(t->mutex);
    return idle;
}

void os_touch_begin(struct os_toucher *t, void *at, size_t bytes)
{
    if (!bytes) return;
    os_touch_wait(t);
    os_mutex_lock(t->mutex);
    BASE_ASSERT(!t->bytes, "one range at a time");
    t->at = at;
    t->bytes = bytes;
    os_cond_broadcast(t->changed);
    os_mutex_unlock(t->mutex);
}

uint64_t os_touch_estimate_ns(struct os_toucher *t, size_t bytes)
{
    os_touch_wait(t);
    return (uint64_t)(t->ns_byte * (double)bytes);
}

void os_touch_figures(struct os_toucher *t, struct os_touch_figures *out)
{
    os_touch_wait(t);
    *out = t->figures;
}
