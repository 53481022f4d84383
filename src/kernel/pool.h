/* A pool of persistent compute threads. One thread owns it and runs jobs on it, one at a time, and takes part in them.
 * The others spin briefly between jobs and then sleep. */
#ifndef KERNEL_POOL_H
#define KERNEL_POOL_H

#include "base/error.h"

#include <stdatomic.h>
#include <stddef.h>

struct kernel_pool; /* opaque */

#define KERNEL_THREADS_MAX 256
#define KERNEL_SCRATCH_BYTES ((size_t)128 << 10) /* a thread */

enum sluice_status kernel_pool_create(unsigned n_threads, struct kernel_pool **out, struct sluice_error *err);
void kernel_pool_destroy(struct kernel_pool *p);
unsigned kernel_pool_threads(const struct kernel_pool *p);
/* Calls job(arg, worker, n_workers) once for every worker number below the number of threads and returns when all calls
 * have returned. Which thread makes which call is open: a thread that is late leaves its call to another. */
void kernel_pool_run(struct kernel_pool *p, void (*job)(void *arg, unsigned worker, unsigned n_workers), void *arg);
/* The same with at most n_parts calls, for work that cannot be cut smaller; one is made on the spot, none is fine. */
void kernel_pool_run_parts(struct kernel_pool *p, size_t n_parts,
                           void (*job)(void *arg, unsigned part, unsigned n_parts), void *arg);
/* Inside a job of kernel_pool_run: waits until every call has come here. All must do so equally often. */
void kernel_pool_barrier(struct kernel_pool *p);
/* One a thread, for the job that runs: how much of something each worker has taken. */
struct kernel_counter {
    _Alignas(64) atomic_size_t taken;
};
struct kernel_counter *kernel_pool_counters(struct kernel_pool *p);
/* Memory for the job that runs, KERNEL_SCRATCH_BYTES a thread, aligned to 64 bytes. */
void *kernel_pool_scratch(const struct kernel_pool *p, size_t *bytes);
/* Hands out [0, n) in contiguous ranges, one a worker, in multiples of `grain`. */
void kernel_pool_range(unsigned worker, unsigned n_workers, size_t n, size_t grain, size_t *begin, size_t *end);

#endif
