/* Reads in the calling thread, one at a time: for tests, for looking for faults, and for systems without threads to
 * spare. The wait limit cannot hold here: the thread that would watch the clock is the one in the kernel. */
#include "io/backend.h"

#include <errno.h>
#include <stdlib.h>

struct sync_driver {
    struct io_driver driver; /* first */
    const struct os_calls *os;
    struct io_piece *back;  /* the piece that was read, until it is reaped */
    struct os_mutex *mutex; /* only to sleep with */
    struct os_cond *never;
};

ssize_t io_read_once(const struct os_calls *os, int fd, bool direct, void *dst, size_t bytes, uint64_t offset)
{
    ssize_t n = os->pread(os->user, fd, dst, bytes, offset);
    /* What was read is in our memory now; a second copy in the page cache is memory that no ledger counts. */
    if (n > 0 && !direct) os->drop_cached(os->user, fd, offset, (uint64_t)n);
    return n;
}

static int sync_start(struct io_driver *d, struct io_piece *piece)
{
    struct sync_driver *s = (struct sync_driver *)d;
    if (s->back) return -EAGAIN;
    piece->result = io_read_once(s->os, piece->fd, piece->direct, piece->dst, piece->bytes, piece->offset);
    s->back = piece;
    return 0;
}

static unsigned sync_reap(struct io_driver *d, struct io_piece **pieces, unsigned max, uint64_t wait_ns)
{
    struct sync_driver *s = (struct sync_driver *)d;
    if (max == 0) return 0;
    if (!s->back) { /* a read was refused for the moment: let the moment pass */
        if (wait_ns == 0) return 0;
        os_mutex_lock(s->mutex);
        os_cond_wait_ns(s->never, s->mutex, wait_ns);
        os_mutex_unlock(s->mutex);
        return 0;
    }
    pieces[0] = s->back;
    s->back = NULL;
    return 1;
}

static void sync_close(struct io_driver *d, bool abandon)
{
    struct sync_driver *s = (struct sync_driver *)d;
    os_cond_destroy(s->never);
    os_mutex_destroy(s->mutex);
    free(s);
}

int io_driver_sync(const struct io_config *config, struct io_driver **out)
{
    struct sync_driver *s = calloc(1, sizeof *s);
    if (!s) return -ENOMEM;
    s->driver = (struct io_driver){
        .kind = IO_SYNC,
        .places = 1,
        .servers = 1,
        .lazy = true,
        .start = sync_start,
        .reap = sync_reap,
        .close = sync_close,
    };
    s->os = config->os;
    int rc = os_mutex_create(&s->mutex);
    if (rc == 0) rc = os_cond_create(&s->never);
    if (rc) {
        sync_close(&s->driver, false);
        return rc;
    }
    *out = &s->driver;
    return 0;
}
