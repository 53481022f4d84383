/* Reads by worker threads that each wait in the kernel for one piece.
 *
 * Pieces that no worker has begun stand in a lane per priority; a free worker takes the first of the highest lane, so
 * a worker has its next piece without waiting for the owner. What stands in a lane can be taken back, which is how a
 * demand read overtakes guesses that were handed over before it.
 *
 * One mutex guards lanes, the list of finished pieces and the counters. A worker copies what it needs out of its piece
 * before it reads: when the owner gives up on stuck reads (abandon), the pieces are gone by the time the read returns,
 * and the last worker out frees the rest. */
#include "io/backend.h"

#include <errno.h>
#include <stdlib.h>

#define STACK_BYTES (256u * 1024)

struct lane {
    struct io_piece *first, *last;
};

struct threads_driver {
    struct io_driver driver; /* first */
    const struct os_calls *os;
    struct os_mutex *mutex;
    struct os_cond *work; /* a piece stands in a lane, or closing */
    struct os_cond *back; /* a piece is finished */
    /* under the mutex */
    struct lane lanes[IO_PRIORITIES];
    struct lane finished;
    bool closing, abandoned;
    unsigned n_alive; /* workers that have not left */
    unsigned n_waiting;
    /* the owner's */
    unsigned n_threads;
    struct os_thread *threads[];
};

static void lane_push(struct lane *l, struct io_piece *p, bool front)
{
    p->prev = front ? NULL : l->last;
    p->next = front ? l->first : NULL;
    if (p->prev) p->prev->next = p;
    if (p->next) p->next->prev = p;
    if (!p->prev) l->first = p;
    if (!p->next) l->last = p;
}

static void lane_remove(struct lane *l, struct io_piece *p)
{
    if (p->prev) p->prev->next = p->next;
    if (p->next) p->next->prev = p->prev;
    if (l->first == p) l->first = p->next;
    if (l->last == p) l->last = p->prev;
    p->next = p->prev = NULL;
}

static struct io_piece *lane_take(struct threads_driver *t)
{
    for (unsigned i = 0; i < IO_PRIORITIES; i++) {
        struct io_piece *p = t->lanes[i].first;
        if (!p) continue;
        lane_remove(&t->lanes[i], p);
        p->queued = false;
        return p;
    }
    return NULL;
}

static void driver_free(struct threads_driver *t)
{
    os_cond_destroy(t->back);
    os_cond_destroy(t->work);
    os_mutex_destroy(t->mutex);
    free(t);
}

static void worker_main(void *arg)
{
    struct threads_driver *t = arg;
    os_mutex_lock(t->mutex);
    for (;;) {
        struct io_piece *p = t->closing ? NULL : lane_take(t);
        if (!p) {
            if (t->closing) break;
            t->n_waiting++;
            os_cond_wait(t->work, t->mutex);
            t->n_waiting--;
            continue;
        }
        int fd = p->fd;
        bool direct = p->direct;
        void *dst = p->dst;
        size_t bytes = p->bytes;
        uint64_t offset = p->offset;
        os_mutex_unlock(t->mutex);
        ssize_t n = io_read_once(t->os, fd, direct, dst, bytes, offset);
        os_mutex_lock(t->mutex);
        if (t->abandoned) break;
        p->result = n;
        lane_push(&t->finished, p, false);
        os_cond_signal(t->back);
    }
    bool last = --t->n_alive == 0 && t->abandoned;
    os_mutex_unlock(t->mutex);
    if (last) driver_free(t);
}

static int threads_start(struct io_driver *d, struct io_piece *piece)
{
    struct threads_driver *t = (struct threads_driver *)d;
    os_mutex_lock(t->mutex);
    piece->queued = true;
    /* The rest of a read that has begun goes before reads that have not. */
    lane_push(&t->lanes[piece->priority], piece, piece->done > 0 || piece->retries > 0);
    if (t->n_waiting) os_cond_signal(t->work);
    os_mutex_unlock(t->mutex);
    return 0;
}

static unsigned threads_reap(struct io_driver *d, struct io_piece **pieces, unsigned max, uint64_t wait_ns)
{
    struct threads_driver *t = (struct threads_driver *)d;
    unsigned n = 0;
    os_mutex_lock(t->mutex);
    if (!t->finished.first && wait_ns > 0) os_cond_wait_ns(t->back, t->mutex, wait_ns);
    while (n < max && t->finished.first) {
        pieces[n] = t->finished.first;
        lane_remove(&t->finished, pieces[n]);
        n++;
    }
    os_mutex_unlock(t->mutex);
    return n;
}

static bool threads_recall(struct io_driver *d, struct io_piece *piece)
{
    struct threads_driver *t = (struct threads_driver *)d;
    os_mutex_lock(t->mutex);
    bool queued = piece->queued;
    if (queued) {
        lane_remove(&t->lanes[piece->priority], piece);
        piece->queued = false;
    }
    os_mutex_unlock(t->mutex);
    return queued;
}

static void threads_close(struct io_driver *d, bool abandon)
{
    struct threads_driver *t = (struct threads_driver *)d;
    unsigned n = t->n_threads;
    os_mutex_lock(t->mutex);
    t->closing = true;
    t->abandoned = abandon;
    os_cond_broadcast(t->work);
    /* From here on an abandoned driver may be freed by its last worker; the handles are needed before that. */
    if (abandon) {
        for (unsigned i = 0; i < n; i++) os_thread_detach(t->threads[i]);
        bool none_left = t->n_alive == 0;
        os_mutex_unlock(t->mutex);
        if (none_left) driver_free(t);
        return;
    }
    os_mutex_unlock(t->mutex);
    for (unsigned i = 0; i < n; i++) os_thread_join(t->threads[i]);
    driver_free(t);
}

int io_driver_threads(const struct io_config *config, struct io_driver **out)
{
    unsigned n = config->threads < config->depth ? config->threads : config->depth;
    struct threads_driver *t = calloc(1, sizeof *t + n * sizeof t->threads[0]);
    if (!t) return -ENOMEM;
    t->driver = (struct io_driver){
        .kind = IO_THREADS,
        .places = config->depth,
        .start = threads_start,
        .reap = threads_reap,
        .recall = threads_recall,
        .close = threads_close,
    };
    t->os = config->os;
    int rc = os_mutex_create(&t->mutex);
    if (rc == 0) rc = os_cond_create(&t->work);
    if (rc == 0) rc = os_cond_create(&t->back);
    if (rc) {
        driver_free(t);
        return rc;
    }
    while (t->n_threads < n) {
        os_mutex_lock(t->mutex);
        t->n_alive++;
        os_mutex_unlock(t->mutex);
        rc = os_thread_start(&t->threads[t->n_threads], worker_main, t, "sluice-read", STACK_BYTES);
        if (rc) {
            os_mutex_lock(t->mutex);
            t->n_alive--;
            os_mutex_unlock(t->mutex);
            break;
        }
        t->n_threads++;
    }
    if (t->n_threads == 0) {
        driver_free(t);
        return rc;
    }
    t->driver.servers = t->n_threads;
    *out = &t->driver;
    return 0;
}
