/* A pool of persistent compute workers. One thread owns it and runs jobs on it, one at a time; the owner is worker 0.
 * Workers spin briefly between jobs and then sleep. */
#ifndef KERNEL_POOL_H
#define KERNEL_POOL_H

#include "base/error.h"

#include <stddef.h>

struct kernel_pool; /* opaque */

#define KERNEL_THREADS_MAX 256

enum sluice_status kernel_pool_create(unsigned n_threads, struct kernel_pool **out, struct sluice_error *err);
void kernel_pool_destroy(struct kernel_pool *p);
unsigned kernel_pool_threads(const struct kernel_pool *p);
/* Calls job(arg, worker, n_workers) on every worker and returns when all are done. */
void kernel_pool_run(struct kernel_pool *p, void (*job)(void *arg, unsigned worker, unsigned n_workers), void *arg);
/* Inside a job: waits until every worker has come here. All workers must call it equally often. */
void kernel_pool_barrier(struct kernel_pool *p);
/* Hands out [0, n) in contiguous ranges, one a worker, in multiples of `grain`. */
void kernel_pool_range(unsigned worker, unsigned n_workers, size_t n, size_t grain, size_t *begin, size_t *end);

#endif
