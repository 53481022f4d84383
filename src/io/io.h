/* Prioritised reads of files into memory that the caller owns.
 *
 * A caller registers files once, then submits requests; the room splits each into pieces of a fixed size, keeps the
 * disk's queue full from the highest priority down, resumes short reads, retries EINTR and EAGAIN, and reports each
 * finished request once, when the owner polls. Nothing is ever called back.
 *
 * Invariants (README.md): I1 a submitted request and its memory belong to the room until io_poll has reported it. I2 a
 * request is reported exactly once. I3 a request is reported OK only if every needed byte was read. I4 no wait is
 * longer than the limit; a read that the kernel does not return is reported once as SLUICE_ERR_TIMEOUT with `stuck`
 * set, and its memory must be left alone until io_poll reports it a second time with `released` set (the only exception
 * to I2). I5 a read of a lower priority never starts while one of a higher priority waits for a place.
 *
 * One thread owns a struct io; the worker threads of the `threads` back end see only their piece. */
#ifndef IO_IO_H
#define IO_IO_H

#include "base/error.h"
#include "base/log.h"
#include "os/os.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum io_priority { IO_DEMAND, IO_CERTAIN, IO_GUESS, IO_WARM, IO_PRIORITIES };
enum io_backend { IO_AUTO, IO_URING, IO_THREADS, IO_SYNC };

#define IO_FILES_MAX 1024

struct io_config {
    const struct os_calls *os;
    const struct base_log *log; /* the back end chosen and why; refusals of direct I/O, of locked memory */
    enum io_backend backend;    /* IO_AUTO: uring, else threads. An explicit one that cannot be had is an error */
    bool buffered;              /* true: do not try direct I/O (tests, --io ...:buffered) */
    unsigned depth;             /* reads in flight; 0: 32 */
    unsigned guess_depth;       /* of priority IO_GUESS, so that a demanded read finds the disk nearly idle; 0: 4 */
    unsigned threads;           /* of the `threads` back end; 0: 32 */
    size_t piece_bytes;         /* 0: 512 KiB; rounded up to the alignment */
    size_t requests_max;        /* requests outstanding at once; 0: 4096 */
    uint64_t wait_limit_ns;     /* a read that takes longer is stuck; 0: 30 s */
};

struct io; /* opaque */

enum sluice_status io_open(const struct io_config *config, struct io **out, struct sluice_error *err);
/* Waits for what is in flight (up to the limit) and frees everything. NULL is allowed. Memory of a read that is still
 * stuck stays in the kernel's hands: io_close then leaks the ring on purpose and says so through the log. */
void io_close(struct io *io);

/* Opens a file for reading, direct if possible (EINVAL at open or at the first read: buffered, with a line that names
 * the file system). *index counts from 0. */
enum sluice_status io_file_add(struct io *io, const char *path, uint32_t *index, struct sluice_error *err);
/* SLUICE_ERR_IO naming the first file that was written to, cut or lengthened since it was added (its size or
 * modification time is another): what has been read of it may not belong together. One system call a file. */
enum sluice_status io_check_files(const struct io *io, struct sluice_error *err);
uint64_t io_file_bytes(const struct io *io, uint32_t index);
const char *io_file_path(const struct io *io, uint32_t index);
/* Alignment that requests on this file must have (1: buffered; else a power of two, 512 or 4096 mostly). It never grows
 * after io_file_add: a file that turns out to refuse direct reads is served buffered and keeps its number here. */
uint32_t io_file_align(const struct io *io, uint32_t index);
bool io_file_direct(const struct io *io, uint32_t index);

/* Memory that reads will go to, so that the back end can register it with the kernel. `at` and `bytes` are
 * page-aligned. Failure to register is no error (said once through the log). Must be forgotten before the memory is
 * returned. */
void io_memory_add(struct io *io, void *at, size_t bytes);
void io_memory_forget(struct io *io, void *at, size_t bytes);

struct io_request {
    /* in */
    uint32_t file;
    enum io_priority priority;
    uint64_t offset;     /* multiple of io_file_align */
    size_t bytes;        /* multiple of io_file_align; may reach past the end of the file */
    size_t needed_bytes; /* the read is good if at least this many bytes arrived from `offset`; <= bytes */
    void *dst;           /* aligned to io_file_align; `bytes` long */
    uint64_t tag;        /* the caller's */
    /* kept by the room while the request is its own */
    struct io_request *next_, *prev_;
    size_t started_;     /* bytes handed out in pieces */
    unsigned in_flight_; /* pieces */
    int error_;          /* first errno of a piece, a negative mark of the room's own (backend.h), or 0 */
    uint64_t failed_at_; /* file offset of that failure */
    uint8_t state_;
};

struct io_done {
    struct io_request *request;
    enum sluice_status status; /* SLUICE_OK, SLUICE_ERR_IO, SLUICE_ERR_TIMEOUT, SLUICE_CANCELLED */
    int error;                 /* errno, 0 if the file ended too early (then status is SLUICE_ERR_IO) */
    bool stuck;                /* the kernel still holds the memory */
    bool released;             /* second report: the kernel has let go of a stuck request */
};

/* Queues requests; what fits starts at once. Ownership of each request passes to the room (I1). Never blocks (except
 * the sync back end, which reads here or in io_poll). */
enum sluice_status io_submit(struct io *io, struct io_request *const *requests, size_t n, struct sluice_error *err);
/* Raises a queued request to a higher priority (a guess that came true). */
void io_raise(struct io *io, struct io_request *request, enum io_priority priority);
/* Takes back a request none of whose pieces has started: it is reported by io_poll as SLUICE_CANCELLED. Others run on.
 * The same for requests whose reads wait for a worker thread. */
void io_cancel(struct io *io, struct io_request *request);
/* Up to max finished requests. wait: blocks until at least one is there (or the wait limit makes one stuck); returns 0
 * only if nothing is outstanding or wait is false. With the sync back end a call without wait reads one piece. */
size_t io_poll(struct io *io, struct io_done *done, size_t max, bool wait);
/* Requests that have not been reported. One that was reported as stuck is not outstanding any more: nobody should wait
 * for it; its second report comes from any later io_poll. */
size_t io_outstanding(const struct io *io);

/* Writes the sentence for a failed request: the file, the offset, the reason, the way out. Returns done->status. */
enum sluice_status io_explain(const struct io *io, const struct io_done *done, struct sluice_error *err);

struct io_stats {
    uint64_t read_bytes, reads; /* finished pieces */
    uint64_t busy_ns;           /* time during which at least one read was in flight */
    uint64_t retries, short_reads;
    enum io_backend backend;
    bool direct, registered_buffers, registered_files;
};
void io_stats(const struct io *io, struct io_stats *out);
const char *io_backend_name(enum io_backend backend); /* "auto", "uring", "threads", "sync" */

/* Reads [offset, offset+bytes) of one file synchronously into dst, whatever the alignment (a bounce buffer of the
 * room's staging size is used), for metadata and small tensors. */
enum sluice_status io_read_now(struct io *io, uint32_t file, uint64_t offset, void *dst, size_t bytes,
                               struct sluice_error *err);

#endif
