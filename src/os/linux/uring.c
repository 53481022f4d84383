/* io_uring through liburing, for kernels from 5.10 on.
 *
 * Set-up flags: only COOP_TASKRUN with TASKRUN_FLAG (5.19), which spares the owner an interrupt for each completion and
 * lets a look at the ring fetch what is ready. SINGLE_ISSUER and DEFER_TASKRUN are left out on purpose: they tie the
 * ring to the thread that made it, and an engine may be opened in one thread and used in another.
 *
 * Reads through the page cache are handed to the kernel's workers (IOSQE_ASYNC): otherwise a read that is cached would
 * be copied inside the submit call, by the thread that has computing to do. */
#include "os/linux/linux.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <poll.h>
#include <stdlib.h>

#define RING_ENTRIES_MAX 4096u
#define FILES_MIN 64u
#define FILES_MAX 4096u
#define NS_PER_S 1000000000u

struct os_uring {
    struct io_uring ring;
    unsigned files_max; /* size of the registered table; 0: none, then a read names its descriptor */
    unsigned n_files;
    int fds[FILES_MAX]; /* [n_files], -1 behind them */
    bool buffered[FILES_MAX];
    unsigned buffers_max;
};

static bool reads_known(struct io_uring *ring)
{
    struct io_uring_probe *probe = io_uring_get_probe_ring(ring);
    if (!probe) return false;
    bool known =
        io_uring_opcode_supported(probe, IORING_OP_READ) && io_uring_opcode_supported(probe, IORING_OP_READ_FIXED);
    io_uring_free_probe(probe);
    return known;
}

int linux_uring_open(void *user, unsigned entries, struct os_uring **out)
{
    if (entries == 0 || entries > RING_ENTRIES_MAX) return -EINVAL;
    struct os_uring *r = calloc(1, sizeof *r);
    if (!r) return -ENOMEM;
    int rc = -EINVAL;
#ifdef IORING_SETUP_COOP_TASKRUN
    rc = io_uring_queue_init(entries, &r->ring, IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG);
#endif
    if (rc == -EINVAL) rc = io_uring_queue_init(entries, &r->ring, 0);
    if (rc) {
        free(r);
        return rc;
    }
    if (!reads_known(&r->ring)) {
        linux_uring_close(user, r);
        return -ENOSYS;
    }
    *out = r;
    return 0;
}

void linux_uring_close(void *user, struct os_uring *r)
{
    if (!r) return;
    io_uring_queue_exit(&r->ring);
    free(r);
}

/* A read through the page cache? Unknown counts as yes: that is slower, never wrong. */
static bool is_buffered(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    return flags < 0 || !(flags & O_DIRECT);
}

static int files_grow(struct os_uring *r, unsigned n)
{
    unsigned size = FILES_MIN;
    while (size < n) size *= 2;
    if (r->files_max) {
        r->files_max = 0;
        int rc = io_uring_unregister_files(&r->ring);
        if (rc) return rc;
    }
    int rc = io_uring_register_files(&r->ring, r->fds, size);
    if (rc == -EMFILE && size > n) { /* the table may not be larger than RLIMIT_NOFILE */
        size = n;
        rc = io_uring_register_files(&r->ring, r->fds, size);
    }
    if (rc) return rc;
    r->files_max = size;
    return 0;
}

int linux_uring_files(void *user, struct os_uring *r, const int *fds, unsigned n)
{
    if (n > FILES_MAX) return -EINVAL;
    unsigned first = n, last = 0; /* what differs from the table as it is */
    for (unsigned i = 0; i < n; i++) {
        if (i < r->n_files && r->fds[i] == fds[i]) continue;
        if (first == n) first = i;
        last = i;
    }
    unsigned n_before = r->n_files;
    for (unsigned i = 0; i < n; i++) {
        r->fds[i] = fds[i];
        r->buffered[i] = is_buffered(fds[i]);
    }
    for (unsigned i = n; i < FILES_MAX && (i < n_before || n_before == 0); i++) r->fds[i] = -1;
    r->n_files = n;
    if (n > r->files_max) return files_grow(r, n);
    if (n_before > n) { /* places given up */
        first = first < n ? first : n;
        last = n_before - 1;
    } else if (first == n) {
        return 0;
    }
    int rc = io_uring_register_files_update(&r->ring, first, r->fds + first, last - first + 1);
    return rc < 0 ? rc : 0;
}

int linux_uring_buffers(void *user, struct os_uring *r, unsigned n_max)
{
    if (r->buffers_max) return -EBUSY;
    int rc = io_uring_register_buffers_sparse(&r->ring, n_max);
    if (rc == -EINVAL) { /* 5.13 to 5.18: a table of empty entries says the same */
        struct iovec *none = calloc(n_max, sizeof *none);
        if (!none) return -ENOMEM;
        rc = io_uring_register_buffers_tags(&r->ring, none, NULL, n_max);
        free(none);
    }
    if (rc) return rc;
    r->buffers_max = n_max;
    return 0;
}

int linux_uring_buffer_set(void *user, struct os_uring *r, unsigned index, void *at, size_t bytes)
{
    if (index >= r->buffers_max) return -EINVAL;
    struct iovec buffer = {.iov_base = at, .iov_len = at ? bytes : 0};
    __u64 tag = 0;
    int rc = io_uring_register_buffers_update_tag(&r->ring, index, &buffer, &tag, 1);
    return rc < 0 ? rc : 0;
}

int linux_uring_read(void *user, struct os_uring *r, unsigned file, void *buf, size_t bytes, uint64_t offset,
                     int buffer, uint64_t tag)
{
    if (bytes > INT32_MAX || (r->files_max && file >= r->n_files)) return -EINVAL;
    if (buffer >= 0 && (unsigned)buffer >= r->buffers_max) return -EINVAL;
    struct io_uring_sqe *sqe = io_uring_get_sqe(&r->ring);
    if (!sqe) return -EAGAIN;
    if (buffer >= 0)
        io_uring_prep_read_fixed(sqe, (int)file, buf, (unsigned)bytes, offset, buffer);
    else
        io_uring_prep_read(sqe, (int)file, buf, (unsigned)bytes, offset);
    unsigned flags = r->files_max ? IOSQE_FIXED_FILE : 0;
    if (r->files_max ? r->buffered[file] : is_buffered((int)file)) flags |= IOSQE_ASYNC;
    io_uring_sqe_set_flags(sqe, flags);
    sqe->user_data = tag;
    return 0;
}

int linux_uring_submit(void *user, struct os_uring *r)
{
    int n = 0;
    /* Before 5.18 the kernel stops at a read that it refuses at once (the refusal comes as a completion): go on. */
    while (io_uring_sq_ready(&r->ring) > 0) {
        int rc = io_uring_submit(&r->ring);
        if (rc <= 0) return n > 0 ? n : rc;
        n += rc;
    }
    return n;
}

static int wait_for_one(struct os_uring *r, uint64_t wait_ns)
{
    if (wait_ns / NS_PER_S > INT32_MAX) wait_ns = (uint64_t)INT32_MAX * NS_PER_S;
    if (r->ring.features & IORING_FEAT_EXT_ARG) {
        struct __kernel_timespec wait = {.tv_sec = (long long)(wait_ns / NS_PER_S),
                                         .tv_nsec = (long long)(wait_ns % NS_PER_S)};
        struct io_uring_cqe *cqe = NULL;
        int rc = io_uring_wait_cqe_timeout(&r->ring, &cqe, &wait);
        return rc == -ETIME || rc == -EINTR || rc == -EAGAIN ? 0 : rc;
    }
    /* Before 5.11 liburing would spend a queue entry on a timeout; the ring's descriptor can be waited for as well. */
    struct pollfd fd = {.fd = r->ring.ring_fd, .events = POLLIN};
    struct timespec wait = {.tv_sec = (time_t)(wait_ns / NS_PER_S), .tv_nsec = (long)(wait_ns % NS_PER_S)};
    return ppoll(&fd, 1, &wait, NULL) < 0 && errno != EINTR ? -errno : 0;
}

int linux_uring_reap(void *user, struct os_uring *r, struct os_uring_done *done, unsigned max, uint64_t wait_ns)
{
    struct io_uring_cqe *cqes[64];
    if (max > 64) max = 64;
    if (max == 0) return 0;
    unsigned n = io_uring_peek_batch_cqe(&r->ring, cqes, max);
    if (n == 0 && wait_ns > 0) {
        int rc = wait_for_one(r, wait_ns);
        if (rc < 0) return rc;
        n = io_uring_peek_batch_cqe(&r->ring, cqes, max);
    }
    for (unsigned i = 0; i < n; i++)
        done[i] = (struct os_uring_done){.tag = cqes[i]->user_data, .result = cqes[i]->res};
    io_uring_cq_advance(&r->ring, n);
    return (int)n;
}
