/* Threads, locks and the clock: pthreads with the choices made once. Workers take no signals (they belong to the
 * program's main thread), waits run on the monotonic clock. */
#include "os/linux/linux.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000u
#define WAIT_NS_MAX ((uint64_t)NS_PER_S * 86400 * 365) /* longer waits would overflow nothing, and mean for ever */

struct os_thread {
    pthread_t id;
};

/* What a new thread needs to begin. It is the thread's own and freed by it, so that os_thread_detach may free the
 * struct os_thread at any time. */
struct start {
    void (*main)(void *arg);
    void *arg;
    char name[16]; /* the kernel keeps 15 characters */
};

struct os_mutex {
    pthread_mutex_t mutex;
};

struct os_cond {
    pthread_cond_t cond;
};

uint64_t linux_now_ns(void *user)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static void *thread_main(void *user)
{
    struct start start = *(struct start *)user;
    free(user);
    pthread_setname_np(pthread_self(), start.name);
    start.main(start.arg);
    return NULL;
}

static int thread_create(pthread_t *id, struct start *start, size_t stack_bytes)
{
    pthread_attr_t attr;
    int rc = pthread_attr_init(&attr);
    if (rc) return -rc;
    if (stack_bytes) {
        long least = sysconf(_SC_THREAD_STACK_MIN);
        if (least > 0 && stack_bytes < (size_t)least) stack_bytes = (size_t)least;
        stack_bytes = (stack_bytes + os_page_bytes() - 1) & ~(os_page_bytes() - 1);
        rc = pthread_attr_setstacksize(&attr, stack_bytes);
    }
    sigset_t all, before;
    sigfillset(&all);
    if (rc == 0) {
        pthread_sigmask(SIG_SETMASK, &all, &before);
        rc = pthread_create(id, &attr, thread_main, start);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    pthread_attr_destroy(&attr);
    return -rc;
}

int os_thread_start(struct os_thread **out, void (*main)(void *arg), void *arg, const char *name, size_t stack_bytes)
{
    struct os_thread *t = malloc(sizeof *t);
    struct start *start = malloc(sizeof *start);
    int rc = -ENOMEM;
    if (!t || !start) goto fail;
    start->main = main;
    start->arg = arg;
    snprintf(start->name, sizeof start->name, "%s", name ? name : "sluice");
    rc = thread_create(&t->id, start, stack_bytes);
    if (rc) goto fail;
    *out = t;
    return 0;

fail:
    free(start);
    free(t);
    return rc;
}

void os_thread_join(struct os_thread *t)
{
    pthread_join(t->id, NULL);
    free(t);
}

void os_thread_detach(struct os_thread *t)
{
    pthread_detach(t->id);
    free(t);
}

int os_mutex_create(struct os_mutex **out)
{
    struct os_mutex *m = malloc(sizeof *m);
    if (!m) return -ENOMEM;
    int rc = pthread_mutex_init(&m->mutex, NULL);
    if (rc) {
        free(m);
        return -rc;
    }
    *out = m;
    return 0;
}

void os_mutex_destroy(struct os_mutex *m)
{
    if (!m) return;
    pthread_mutex_destroy(&m->mutex);
    free(m);
}

void os_mutex_lock(struct os_mutex *m) { pthread_mutex_lock(&m->mutex); }

void os_mutex_unlock(struct os_mutex *m) { pthread_mutex_unlock(&m->mutex); }

int os_cond_create(struct os_cond **out)
{
    struct os_cond *c = malloc(sizeof *c);
    if (!c) return -ENOMEM;
    pthread_condattr_t attr;
    int rc = pthread_condattr_init(&attr);
    if (rc == 0) {
        pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        rc = pthread_cond_init(&c->cond, &attr);
        pthread_condattr_destroy(&attr);
    }
    if (rc) {
        free(c);
        return -rc;
    }
    *out = c;
    return 0;
}

void os_cond_destroy(struct os_cond *c)
{
    if (!c) return;
    pthread_cond_destroy(&c->cond);
    free(c);
}

void os_cond_wait(struct os_cond *c, struct os_mutex *m) { pthread_cond_wait(&c->cond, &m->mutex); }

bool os_cond_wait_ns(struct os_cond *c, struct os_mutex *m, uint64_t ns)
{
    if (ns > WAIT_NS_MAX) ns = WAIT_NS_MAX;
    uint64_t until_ns = linux_now_ns(NULL) + ns;
    struct timespec until = {.tv_sec = (time_t)(until_ns / NS_PER_S), .tv_nsec = (long)(until_ns % NS_PER_S)};
    return pthread_cond_timedwait(&c->cond, &m->mutex, &until) != ETIMEDOUT;
}

void os_cond_signal(struct os_cond *c) { pthread_cond_signal(&c->cond); }

void os_cond_broadcast(struct os_cond *c) { pthread_cond_broadcast(&c->cond); }

void os_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield" ::: "memory");
#endif
}
