/* Reads through io_uring: one ring, owned by the owner of the struct io.
 *
 * Memory that the caller announces is registered with the kernel, so that a read need not look up and pin its pages
 * each time. Registered memory counts as locked (RLIMIT_MEMLOCK); the first refusal ends registering, with one line,
 * and reads go on without. */
#include "io/backend.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUFFERS_MAX 4096u
#define BUFFERS_FEW 1024u                  /* what kernels before 5.13 allow */
#define BUFFER_BYTES_MAX ((size_t)1 << 30) /* of one registered buffer; the kernel's limit */
#define BATCH 64u

struct region {
    uint8_t *at;
    size_t bytes;
    unsigned index; /* in the ring's table */
};

struct uring_driver {
    struct io_driver driver; /* first */
    const struct os_calls *os;
    const struct base_log *log;
    struct os_uring *ring;
    bool registering; /* the table exists and nothing was refused yet */
    bool failure_said;
    unsigned buffers_max, n_regions, n_free;
    struct region regions[BUFFERS_MAX]; /* [n_regions], by address, disjoint */
    uint16_t free_index[BUFFERS_MAX];   /* [n_free] places of the ring's table */
};

/* The first region that ends behind `at`. */
static unsigned region_find(const struct uring_driver *u, const uint8_t *at)
{
    unsigned low = 0, high = u->n_regions;
    while (low < high) {
        unsigned mid = low + (high - low) / 2;
        if (u->regions[mid].at + u->regions[mid].bytes <= at)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static int buffer_for(const struct uring_driver *u, const uint8_t *at, size_t bytes)
{
    unsigned i = region_find(u, at);
    if (i == u->n_regions) return -1;
    const struct region *r = &u->regions[i];
    return r->at <= at && at + bytes <= r->at + r->bytes ? (int)r->index : -1;
}

static bool uring_flush(struct io_driver *d)
{
    struct uring_driver *u = (struct uring_driver *)d;
    int rc = u->os->uring_submit(u->os->user, u->ring);
    if (rc >= 0) return true;
    bool passing = rc == -EAGAIN || rc == -EBUSY || rc == -EINTR;
    if (!passing && !u->failure_said) {
        u->failure_said = true;
        base_log(u->log, BASE_LOG_WARN, "io_uring: the kernel does not take reads: %s", strerror(-rc));
    }
    return false;
}

static int uring_start(struct io_driver *d, struct io_piece *p)
{
    struct uring_driver *u = (struct uring_driver *)d;
    unsigned file = u->driver.registered_files ? p->file : (unsigned)p->fd;
    int buffer = buffer_for(u, p->dst, p->bytes);
    uint64_t tag = (uint64_t)(uintptr_t)p;
    int rc = u->os->uring_read(u->os->user, u->ring, file, p->dst, p->bytes, p->offset, buffer, tag);
    if (rc == -EAGAIN && uring_flush(d))
        rc = u->os->uring_read(u->os->user, u->ring, file, p->dst, p->bytes, p->offset, buffer, tag);
    return rc;
}

static unsigned uring_reap(struct io_driver *d, struct io_piece **pieces, unsigned max, uint64_t wait_ns)
{
    struct uring_driver *u = (struct uring_driver *)d;
    struct os_uring_done done[BATCH];
    int n = u->os->uring_reap(u->os->user, u->ring, done, max < BATCH ? max : BATCH, wait_ns);
    for (int i = 0; i < n; i++) {
        struct io_piece *p = (struct io_piece *)(uintptr_t)done[i].tag;
        p->result = done[i].result;
        if (p->result > 0 && !p->direct) u->os->drop_cached(u->os->user, p->fd, p->offset, (uint64_t)p->result);
        pieces[i] = p;
    }
    return n > 0 ? (unsigned)n : 0;
}

static void uring_files(struct io_driver *d, const int *fds, unsigned n)
{
    struct uring_driver *u = (struct uring_driver *)d;
    u->driver.registered_files = u->os->uring_files(u->os->user, u->ring, fds, n) == 0;
}

static void refuse(struct uring_driver *u, int error, size_t bytes)
{
    u->registering = false;
    if (error == ENOMEM || error == EPERM) {
        struct os_memory m;
        os_memory(&m);
        char limit[48] = "without limit";
        if (m.memlock_bytes != UINT64_MAX) snprintf(limit, sizeof limit, "%" PRIu64 " KiB", m.memlock_bytes / 1024);
        base_log(
            u->log, BASE_LOG_WARN,
            "io_uring: no leave to register %zu KiB of read buffers (%s; RLIMIT_MEMLOCK is %s%s): plain reads from "
            "here on, which cost some processor time; 'ulimit -l' or LimitMEMLOCK= raises the limit",
            bytes / 1024, strerror(error), limit, m.can_ipc_lock ? "" : ", no CAP_IPC_LOCK");
        return;
    }
    base_log(u->log, BASE_LOG_NOTE,
             "io_uring: read buffers are not registered (%s): plain reads, which cost some "
             "processor time",
             strerror(error));
}

static bool add_one(struct uring_driver *u, uint8_t *at, size_t bytes)
{
    unsigned i = region_find(u, at);
    bool overlaps = i < u->n_regions && u->regions[i].at < at + bytes;
    if (overlaps) return true; /* known already; reads that no single region holds go unregistered */
    if (u->n_free == 0) {
        refuse(u, ENOBUFS, bytes);
        return false;
    }
    unsigned index = u->free_index[u->n_free - 1];
    int rc = u->os->uring_buffer_set(u->os->user, u->ring, index, at, bytes);
    if (rc < 0) {
        refuse(u, -rc, bytes);
        return false;
    }
    u->n_free--;
    memmove(&u->regions[i + 1], &u->regions[i], (u->n_regions - i) * sizeof u->regions[0]);
    u->regions[i] = (struct region){.at = at, .bytes = bytes, .index = index};
    u->n_regions++;
    u->driver.registered_buffers = true;
    return true;
}

static void uring_memory_add(struct io_driver *d, void *at, size_t bytes)
{
    struct uring_driver *u = (struct uring_driver *)d;
    uint8_t *from = at;
    while (bytes > 0 && u->registering) {
        size_t part = bytes < BUFFER_BYTES_MAX ? bytes : BUFFER_BYTES_MAX;
        if (!add_one(u, from, part)) return;
        from += part;
        bytes -= part;
    }
}

static void uring_memory_forget(struct io_driver *d, void *at, size_t bytes)
{
    struct uring_driver *u = (struct uring_driver *)d;
    const uint8_t *from = at;
    unsigned i = region_find(u, from), n = 0;
    while (i + n < u->n_regions && u->regions[i + n].at < from + bytes) {
        unsigned index = u->regions[i + n].index;
        int rc = u->os->uring_buffer_set(u->os->user, u->ring, index, NULL, 0);
        if (rc < 0)
            base_log(u->log, BASE_LOG_WARN, "io_uring: a read buffer could not be unregistered: %s", strerror(-rc));
        else
            u->free_index[u->n_free++] = (uint16_t)index;
        n++;
    }
    memmove(&u->regions[i], &u->regions[i + n], (u->n_regions - i - n) * sizeof u->regions[0]);
    u->n_regions -= n;
    u->driver.registered_buffers = u->n_regions > 0;
}

static void uring_close(struct io_driver *d, bool abandon)
{
    struct uring_driver *u = (struct uring_driver *)d;
    /* A ring that goes away while reads are in flight would take the watch off memory that the disk still writes. */
    if (!abandon) u->os->uring_close(u->os->user, u->ring);
    free(u);
}

static void buffers_open(struct uring_driver *u)
{
    u->buffers_max = BUFFERS_MAX;
    int rc = u->os->uring_buffers(u->os->user, u->ring, u->buffers_max);
    if (rc == -EINVAL) {
        u->buffers_max = BUFFERS_FEW;
        rc = u->os->uring_buffers(u->os->user, u->ring, u->buffers_max);
    }
    if (rc < 0) {
        refuse(u, -rc, 0);
        return;
    }
    u->registering = true;
    while (u->n_free < u->buffers_max) {
        u->free_index[u->n_free] = (uint16_t)(u->buffers_max - 1 - u->n_free);
        u->n_free++;
    }
}

int io_driver_uring(const struct io_config *config, struct io_driver **out)
{
    struct uring_driver *u = calloc(1, sizeof *u);
    if (!u) return -ENOMEM;
    u->os = config->os;
    u->log = config->log;
    int rc = u->os->uring_open(u->os->user, config->depth, &u->ring);
    if (rc < 0) {
        free(u);
        return rc;
    }
    u->driver = (struct io_driver){
        .kind = IO_URING,
        .places = config->depth,
        .servers = config->depth,
        .start = uring_start,
        .flush = uring_flush,
        .reap = uring_reap,
        .files = uring_files,
        .memory_add = uring_memory_add,
        .memory_forget = uring_memory_forget,
        .close = uring_close,
    };
    buffers_open(u);
    *out = &u->driver;
    return 0;
}
