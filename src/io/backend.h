/* What a way of reading (io_uring, worker threads, plain calls) does for the scheduler in io.c.
 *
 * The scheduler cuts requests into pieces; a driver takes a piece, has the kernel read it once, and gives it back with
 * the result. Everything that is common lives above: priorities, short reads, retries, the wait limit, reports. A
 * driver keeps the order of priorities among the pieces that it holds and has not begun. */
#ifndef IO_BACKEND_H
#define IO_BACKEND_H

#include "io/io.h"

/* io_request.error_ of failures that no errno names. */
enum { IO_ENDED = -1, IO_LATE = -2, IO_TAKEN_BACK = -3 };

enum io_piece_state {
    PIECE_IDLE,   /* nobody's */
    PIECE_HANDED, /* the driver has it */
    PIECE_PAUSED, /* keeps its place until not_before_ns, then is handed over again (EAGAIN) */
    PIECE_STUCK,  /* the driver has had it for longer than the limit */
};

struct io_piece {
    /* what to read; the driver only looks */
    uint32_t file;
    int fd;
    bool direct; /* otherwise through the page cache, which the driver drops behind the read */
    enum io_priority priority;
    uint8_t *dst;
    size_t bytes;
    uint64_t offset;
    /* the driver's answer: bytes or -errno */
    ssize_t result;
    /* the driver's while it has the piece */
    struct io_piece *next, *prev;
    bool queued;
    /* the scheduler's */
    enum io_piece_state state;
    struct io_request *request;
    size_t base, length; /* its part of the request */
    size_t done;         /* bytes that arrived from base on */
    size_t at;           /* where the present attempt begins; below done only to keep the alignment */
    unsigned retries;
    bool begun;      /* the driver would not give it back: a read has begun */
    uint64_t serial; /* grows with each time a piece is handed over */
    uint64_t started_ns, not_before_ns;
};

struct io_driver {
    enum io_backend kind;
    unsigned places;  /* pieces that it takes at once */
    unsigned servers; /* of which the kernel works on this many; when all are stuck nothing moves */
    bool lazy;        /* start() reads at once: the scheduler calls it from io_poll only */
    bool registered_files, registered_buffers;

    /* 0: the driver has the piece. -errno: it has not (-EAGAIN: later). */
    int (*start)(struct io_driver *d, struct io_piece *piece);
    /* Passes on what was started; false: something is left and the call must be repeated. NULL: nothing to do. */
    bool (*flush)(struct io_driver *d);
    /* Up to max pieces that are back; waits at most wait_ns for the first. */
    unsigned (*reap)(struct io_driver *d, struct io_piece **pieces, unsigned max, uint64_t wait_ns);
    /* Takes back a piece that no read has begun for; false: too late. NULL: always too late. */
    bool (*recall)(struct io_driver *d, struct io_piece *piece);
    /* The descriptors of all files, after one was added or changed. NULL: not wanted. */
    void (*files)(struct io_driver *d, const int *fds, unsigned n);
    void (*memory_add)(struct io_driver *d, void *at, size_t bytes); /* NULL: not wanted */
    void (*memory_forget)(struct io_driver *d, void *at, size_t bytes);
    /* abandon: reads are still stuck. The driver then leaves behind what they need and touches no piece again. */
    void (*close)(struct io_driver *d, bool abandon);
};

/* 0 or -errno. The configuration has its defaults filled in; it and its log outlive the driver. */
int io_driver_sync(const struct io_config *config, struct io_driver **out);
int io_driver_threads(const struct io_config *config, struct io_driver **out);
int io_driver_uring(const struct io_config *config, struct io_driver **out);

/* One read as sync and threads do it. */
ssize_t io_read_once(const struct os_calls *os, int fd, bool direct, void *dst, size_t bytes, uint64_t offset);

#endif
