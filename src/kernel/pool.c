/* A generation counter starts jobs and a countdown of parts ends them. Parts are taken from one word that also holds
 * the job's generation: who comes too late finds another one there and leaves, so nobody waits for a thread that sleeps
 * or that the system holds up, unless it has a part in hand (P3). Whoever waits spins for a bounded while and then
 * sleeps on a condition; whoever changes what is waited for looks at the number of sleepers afterwards. Both sides use
 * sequentially consistent atomics, so either the sleeper sees the change or the changer sees the sleeper (P2). */
#include "kernel/pool.h"

#include "base/assert.h"
#include "os/os.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPINS_MAX 3000                /* pauses before sleeping: some tens of microseconds */
#define STACK_BYTES ((size_t)1 << 20) /* K3; half is for thread-local data, of which sanitizers keep much */

struct waiters {
    atomic_uint sleeping;
    struct os_cond *cond;
};

struct worker {
    struct kernel_pool *pool;
    struct os_thread *thread;
};

struct kernel_pool {
    unsigned n, n_started; /* workers with the owner; threads that run */
    unsigned spins;        /* 0 where there are more workers than CPUs */
    struct os_mutex *mutex;
    void *scratch; /* touched by the jobs that use it */

    /* the job; written by the owner while no part is in hand, read by those who have taken one */
    void (*job)(void *arg, unsigned worker, unsigned n_workers);
    void *arg;
    unsigned n_parts;
    atomic_bool stop; /* set before the last generation; who is late may see it before */

    /* each on its own cache line: the workers poll them */
    _Alignas(64) atomic_uint generation;
    struct waiters start;
    _Alignas(64) _Atomic uint64_t untaken; /* the generation, then the number of parts that nobody has taken */
    _Alignas(64) atomic_uint running;      /* parts that are not done */
    struct waiters finish;
    _Alignas(64) atomic_uint arrived, phase; /* barrier */
    struct waiters barrier;

    struct kernel_counter counters[KERNEL_THREADS_MAX];
    _Alignas(64) struct worker workers[KERNEL_THREADS_MAX];
};

/* Waits until *word differs from `old`; P2. */
static void wait_change(struct kernel_pool *p, atomic_uint *word, unsigned old, struct waiters *w)
{
    for (unsigned i = 0; i < p->spins; i++) {
        if (atomic_load_explicit(word, memory_order_acquire) != old) return;
        os_cpu_relax();
    }
    if (atomic_load(word) != old) return;
    os_mutex_lock(p->mutex);
    atomic_fetch_add(&w->sleeping, 1);
    while (atomic_load(word) == old) os_cond_wait(w->cond, p->mutex);
    atomic_fetch_sub(&w->sleeping, 1);
    os_mutex_unlock(p->mutex);
}

/* To be called after the word has changed. */
static void wake(struct kernel_pool *p, struct waiters *w)
{
    if (atomic_load(&w->sleeping) == 0) return;
    os_mutex_lock(p->mutex);
    os_cond_broadcast(w->cond);
    os_mutex_unlock(p->mutex);
}

/* Parts of the job of this generation, as long as there are any. */
static void take_parts(struct kernel_pool *p, unsigned generation)
{
    uint64_t word = atomic_load(&p->untaken);
    for (;;) {
        const unsigned left = (unsigned)word;
        if (word >> 32 != generation || left == 0) return;
        if (!atomic_compare_exchange_weak(&p->untaken, &word, word - 1)) continue;
        p->job(p->arg, p->n_parts - left, p->n_parts);
        if (atomic_fetch_sub(&p->running, 1) == 1) wake(p, &p->finish);
        word = atomic_load(&p->untaken);
    }
}

static void worker_main(void *arg)
{
    struct worker *me = arg;
    struct kernel_pool *p = me->pool;
    for (unsigned seen = 0;;) {
        wait_change(p, &p->generation, seen, &p->start);
        seen = atomic_load_explicit(&p->generation, memory_order_acquire);
        if (atomic_load(&p->stop)) return;
        take_parts(p, seen);
    }
}

static int create_primitives(struct kernel_pool *p)
{
    int rc = os_mutex_create(&p->mutex);
    if (!rc) rc = os_cond_create(&p->start.cond);
    if (!rc) rc = os_cond_create(&p->finish.cond);
    if (!rc) rc = os_cond_create(&p->barrier.cond);
    return rc;
}

enum sluice_status kernel_pool_create(unsigned n_threads, struct kernel_pool **out, struct sluice_error *err)
{
    *out = NULL;
    if (n_threads == 0 || n_threads > KERNEL_THREADS_MAX)
        return base_fail(err, SLUICE_ERR_USAGE, "give a number of threads in that range, or none for one a CPU",
                         "%u compute threads were asked for; 1 to %u are possible", n_threads, KERNEL_THREADS_MAX);
    struct kernel_pool *p = aligned_alloc(64, sizeof *p);
    if (!p)
        return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for a pool of %u compute threads (%zu bytes)",
                         n_threads, sizeof *p);
    memset(p, 0, sizeof *p);
    p->n = n_threads;
    p->scratch = n_threads > 1 ? aligned_alloc(64, n_threads * KERNEL_SCRATCH_BYTES) : NULL;
    if (n_threads > 1 && !p->scratch) {
        free(p);
        return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for the scratch of %u compute threads (%zu bytes)",
                         n_threads, n_threads * KERNEL_SCRATCH_BYTES);
    }
    struct os_cpu cpu;
    os_cpu(&cpu);
    p->spins = n_threads <= cpu.n_threads ? SPINS_MAX : 0;

    enum sluice_status status = SLUICE_OK;
    int rc = create_primitives(p);
    if (rc) {
        status = base_fail(err, SLUICE_ERR_MEMORY, NULL, "the locks of %u compute threads could not be made: %s",
                           n_threads, strerror(-rc));
        goto fail;
    }
    for (unsigned i = 1; i < n_threads; i++) {
        char name[16];
        snprintf(name, sizeof name, "sluice-%u", i);
        p->workers[i] = (struct worker){.pool = p};
        rc = os_thread_start(&p->workers[i].thread, worker_main, &p->workers[i], name, STACK_BYTES);
        if (rc) {
            status = base_fail(err, SLUICE_ERR_MEMORY, "use fewer threads, or raise the limit on processes (ulimit -u)",
                               "compute thread %u of %u could not be started: %s", i + 1, n_threads, strerror(-rc));
            goto fail;
        }
        p->n_started++;
    }
    *out = p;
    return SLUICE_OK;

fail:
    kernel_pool_destroy(p);
    return status;
}

void kernel_pool_destroy(struct kernel_pool *p)
{
    if (!p) return;
    if (p->n_started) {
        atomic_store(&p->stop, true);
        atomic_fetch_add(&p->generation, 1);
        wake(p, &p->start);
        for (unsigned i = 1; i <= p->n_started; i++) os_thread_join(p->workers[i].thread);
    }
    if (p->barrier.cond) os_cond_destroy(p->barrier.cond);
    if (p->finish.cond) os_cond_destroy(p->finish.cond);
    if (p->start.cond) os_cond_destroy(p->start.cond);
    if (p->mutex) os_mutex_destroy(p->mutex);
    free(p->scratch);
    free(p);
}

void *kernel_pool_scratch(const struct kernel_pool *p, size_t *bytes)
{
    *bytes = p->scratch ? p->n * KERNEL_SCRATCH_BYTES : 0;
    return p->scratch;
}

unsigned kernel_pool_threads(const struct kernel_pool *p) { return p->n; }

struct kernel_counter *kernel_pool_counters(struct kernel_pool *p) { return p->counters; }

void kernel_pool_run_parts(struct kernel_pool *p, size_t n_parts,
                           void (*job)(void *arg, unsigned part, unsigned n_parts), void *arg)
{
    const unsigned n = n_parts < p->n ? (unsigned)n_parts : p->n;
    if (n == 0) return;
    if (n == 1) {
        job(arg, 0, 1);
        return;
    }
    BASE_ASSERT(atomic_load_explicit(&p->running, memory_order_relaxed) == 0, "P1 one job at a time");
    const unsigned generation = atomic_load_explicit(&p->generation, memory_order_relaxed) + 1;
    p->job = job;
    p->arg = arg;
    p->n_parts = n;
    atomic_store_explicit(&p->running, n, memory_order_relaxed);
    atomic_store(&p->untaken, (uint64_t)generation << 32 | n);
    atomic_store(&p->generation, generation);
    wake(p, &p->start);
    take_parts(p, generation);
    for (unsigned left; (left = atomic_load_explicit(&p->running, memory_order_acquire)) != 0;)
        wait_change(p, &p->running, left, &p->finish);
}

void kernel_pool_run(struct kernel_pool *p, void (*job)(void *arg, unsigned worker, unsigned n_workers), void *arg)
{
    kernel_pool_run_parts(p, p->n, job, arg);
}

void kernel_pool_barrier(struct kernel_pool *p)
{
    if (p->n == 1) return;
    unsigned phase = atomic_load_explicit(&p->phase, memory_order_relaxed); /* cannot move before this worker arrives */
    if (atomic_fetch_add(&p->arrived, 1) + 1 == p->n) {
        atomic_store_explicit(&p->arrived, 0, memory_order_relaxed);
        atomic_fetch_add(&p->phase, 1);
        wake(p, &p->barrier);
    } else {
        wait_change(p, &p->phase, phase, &p->barrier);
    }
}

void kernel_pool_range(unsigned worker, unsigned n_workers, size_t n, size_t grain, size_t *begin, size_t *end)
{
    size_t grains = (n + grain - 1) / grain;
    size_t each = grains / n_workers, extra = grains % n_workers; /* the first `extra` workers take one more */
    size_t first = worker * each + (worker < extra ? worker : extra);
    size_t last = first + each + (worker < extra ? 1 : 0);
    *begin = first * grain < n ? first * grain : n;
    *end = last * grain < n ? last * grain : n;
}
