/* Opening and closing: defaults, the choice of the back end, and leaving without losing memory that the kernel still
 * writes to. */
#include "io/room.h"

#include "base/assert.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_DEFAULT 32u
#define GUESS_DEPTH_DEFAULT 4 /* 2 MiB in flight: a few milliseconds of an NVMe disk */
#define DEPTH_MAX 1024u
#define THREADS_DEFAULT 32u /* one a read in flight: with fewer the disk sees a shorter queue */
#define THREADS_MAX 256u
#define PIECE_BYTES_DEFAULT ((size_t)512 * 1024)
#define PIECE_BYTES_MIN ((size_t)4096)
#define PIECE_BYTES_MAX ((size_t)256 << 20)
#define REQUESTS_DEFAULT ((size_t)4096)
#define WAIT_NS_DEFAULT ((uint64_t)30 * 1000000000u)
#define WAIT_NS_MAX ((uint64_t)86400 * 1000000000u)
#define STAGING_BYTES_MAX ((size_t)4 << 20)

const char *io_backend_name(enum io_backend backend)
{
    switch (backend) {
    case IO_AUTO: return "auto";
    case IO_URING: return "uring";
    case IO_THREADS: return "threads";
    case IO_SYNC: return "sync";
    }
    return "unknown";
}

static enum sluice_status fill_defaults(struct io_config *c, struct sluice_error *err)
{
    if (c->depth == 0) c->depth = DEPTH_DEFAULT;
    if (c->guess_depth == 0) c->guess_depth = GUESS_DEPTH_DEFAULT;
    if (c->threads == 0) c->threads = THREADS_DEFAULT;
    if (c->piece_bytes == 0) c->piece_bytes = PIECE_BYTES_DEFAULT;
    if (c->requests_max == 0) c->requests_max = REQUESTS_DEFAULT;
    if (c->wait_limit_ns == 0) c->wait_limit_ns = WAIT_NS_DEFAULT;
    if (c->depth > DEPTH_MAX)
        return base_fail(err, SLUICE_ERR_USAGE, NULL, "%u reads in flight are too many: at most %u", c->depth,
                         DEPTH_MAX);
    if (c->threads > THREADS_MAX)
        return base_fail(err, SLUICE_ERR_USAGE, NULL, "%u reader threads are too many: at most %u", c->threads,
                         THREADS_MAX);
    if (c->piece_bytes > PIECE_BYTES_MAX)
        return base_fail(err, SLUICE_ERR_USAGE, NULL, "pieces of %zu bytes are too large: at most %zu", c->piece_bytes,
                         PIECE_BYTES_MAX);
    c->piece_bytes = io_round_up(c->piece_bytes, PIECE_BYTES_MIN);
    if (c->wait_limit_ns > WAIT_NS_MAX) c->wait_limit_ns = WAIT_NS_MAX;
    return SLUICE_OK;
}

static const char *uring_reason(int error)
{
    switch (error) {
    case EPERM:
    case EACCES:
        return "it is forbidden here: by a container's seccomp profile or by the sysctl kernel.io_uring_disabled";
    case ENOSYS:
    case EINVAL: return "this kernel does not have what is needed of it";
    case ENOMEM: return "its queues do not fit into what may be locked (RLIMIT_MEMLOCK)";
    case EMFILE:
    case ENFILE: return "too many files are open";
    default: return "it cannot be set up";
    }
}

static enum sluice_status open_driver(struct io *io, struct sluice_error *err)
{
    struct io_config *c = &io->config;
    int rc = 0, uring_error = 0;
    if (c->backend == IO_AUTO || c->backend == IO_URING) {
        rc = io_driver_uring(c, &io->driver);
        uring_error = -rc;
    }
    if (c->backend == IO_THREADS || (c->backend == IO_AUTO && rc < 0)) rc = io_driver_threads(c, &io->driver);
    if (c->backend == IO_SYNC) rc = io_driver_sync(c, &io->driver);
    if (rc < 0 && c->backend == IO_URING)
        return base_fail(err, SLUICE_ERR_IO, "choose the back end 'threads' or 'auto'", "io_uring: %s (%s)",
                         uring_reason(-rc), strerror(-rc));
    if (rc < 0)
        return base_fail(err, SLUICE_ERR_IO, "fewer reader threads, or a higher limit of processes (ulimit -u)",
                         "reads by '%s' cannot be set up: %s", io_backend_name(c->backend), strerror(-rc));
    const struct io_driver *d = io->driver;
    size_t piece_kib = c->piece_bytes / 1024;
    const char *cached = c->buffered ? ", through the page cache as asked for" : "";
    if (d->kind == IO_URING)
        base_log(&io->log, BASE_LOG_NOTE, "reads: io_uring, %u in flight, pieces of %zu KiB%s", c->depth, piece_kib,
                 cached);
    else if (d->kind == IO_SYNC)
        base_log(&io->log, BASE_LOG_NOTE, "reads: one at a time in the calling thread, as asked for%s", cached);
    else if (c->backend == IO_THREADS)
        base_log(&io->log, BASE_LOG_NOTE, "reads: %u worker threads, pieces of %zu KiB%s", d->servers, piece_kib,
                 cached);
    else
        base_log(&io->log, BASE_LOG_WARN, "reads: %u worker threads, pieces of %zu KiB%s; not io_uring: %s (%s)",
                 d->servers, piece_kib, cached, uring_reason(uring_error), strerror(uring_error));
    return SLUICE_OK;
}

static bool open_staging(struct io *io)
{
    size_t bytes = io_round_up(io->config.piece_bytes * 8, IO_ALIGN_MAX);
    io->staging_bytes = bytes < STAGING_BYTES_MAX ? bytes : STAGING_BYTES_MAX;
    const struct os_calls *os = io->os;
    io->staging = os->reserve(os->user, io->staging_bytes);
    return io->staging && os->commit(os->user, io->staging, io->staging_bytes) == 0;
}

static void free_all(struct io *io)
{
    if (io->staging && io->staging_request.state_ != REQUEST_STUCK)
        io->os->release(io->os->user, io->staging, io->staging_bytes);
    io_files_close(io);
    free(io->pieces);
    free(io);
}

enum sluice_status io_open(const struct io_config *config, struct io **out, struct sluice_error *err)
{
    struct io *io = calloc(1, sizeof *io);
    if (!io) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for the reader");
    io->config = *config;
    io->os = config->os;
    if (config->log) io->log = *config->log;
    io->config.log = &io->log;
    io->check_ns = UINT64_MAX;
    enum sluice_status status = fill_defaults(&io->config, err);
    if (status != SLUICE_OK) goto fail;
    if (!open_staging(io)) {
        status = base_fail(err, SLUICE_ERR_MEMORY, "make room: other programs, or the limits of this one (ulimit -v)",
                           "no memory for %zu KiB of staging for reads", io->staging_bytes / 1024);
        goto fail;
    }
    status = open_driver(io, err);
    if (status != SLUICE_OK) goto fail;
    io->pieces = calloc(io->driver->places, sizeof io->pieces[0]);
    if (!io->pieces) {
        io->driver->close(io->driver, false);
        status = base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for the reader");
        goto fail;
    }
    for (unsigned i = io->driver->places; i-- > 0;) {
        io->pieces[i].next = io->idle;
        io->idle = &io->pieces[i];
    }
    *out = io;
    return SLUICE_OK;

fail:
    free_all(io);
    return status;
}

/* Says what has not come back, and keeps its files open: another file must not get their descriptors. */
static void leave_behind(struct io *io)
{
    const struct io_request *r = NULL;
    for (unsigned i = 0; i < io->driver->places; i++)
        if (io->pieces[i].state == PIECE_STUCK) r = io->pieces[i].request;
    BASE_ASSERT(r, "n_stuck counts the pieces that are stuck");
    base_log(&io->log, BASE_LOG_WARN,
             "%s: %u reads (one at byte %" PRIu64 ") have not returned: what they need stays behind, and their memory "
             "must not be used again",
             io->files[r->file].path, io->n_stuck, r->failed_at_);
    for (unsigned i = 0; i < io->driver->places; i++)
        if (io->pieces[i].state == PIECE_STUCK) {
            struct io_file *f = &io->files[io->pieces[i].file];
            f->fd = f->fd_before = -1;
        }
}

void io_close(struct io *io)
{
    if (!io) return;
    io_drop_all(io);
    /* What is in flight comes back or becomes stuck within the limit. */
    while (io->n_handed > 0) io_advance(io, io_next_event_ns(io));
    if (io->n_stuck > 0) leave_behind(io);
    io->driver->close(io->driver, io->n_stuck > 0);
    free_all(io);
}
