/* The inside of a struct io, for the sources of this room only. */
#ifndef IO_ROOM_H
#define IO_ROOM_H

#include "io/backend.h"

#define IO_ALIGN_MAX 65536u

enum io_request_state {
    REQUEST_IDLE,      /* the caller's */
    REQUEST_WAITING,   /* in a queue: not all of it is handed out */
    REQUEST_RUNNING,   /* all handed out, or failed and waiting for what is in flight */
    REQUEST_FINISHED,  /* in the list of reports */
    REQUEST_STUCK_NEW, /* in the list of reports: stuck */
    REQUEST_STUCK,     /* reported as stuck; in no list */
    REQUEST_RELEASED,  /* in the list of reports for the second time */
};

struct io_list {
    struct io_request *first, *last;
};

struct io_file {
    char *path;
    int fd;
    int fd_before; /* the direct descriptor of a file that turned out to refuse direct reads, or -1 */
    uint32_t align;
    bool direct;
    struct os_file_info info; /* when it was opened */
};

struct io {
    const struct os_calls *os;
    struct io_config config; /* defaults filled in */
    struct base_log log;
    struct io_driver *driver;

    struct io_file files[IO_FILES_MAX];
    int fds[IO_FILES_MAX]; /* of the same, as the driver wants them */
    uint32_t n_files;
    bool buffered_said;

    struct io_list waiting[IO_PRIORITIES];
    struct io_list reports;
    size_t n_outstanding;

    struct io_piece *pieces; /* [driver->places] */
    struct io_piece *idle;
    unsigned n_handed, n_paused, n_stuck;
    unsigned handed_by[IO_PRIORITIES];
    uint64_t serial;   /* of the last piece handed over */
    uint64_t check_ns; /* no piece is late before this */
    uint64_t seen_ns;  /* when the clock was last looked at while pieces were handed over */
    bool unflushed;    /* the driver could not pass everything on */

    uint8_t *staging; /* io_read_now */
    size_t staging_bytes;
    struct io_request staging_request;

    struct io_stats stats;
    uint64_t busy_since_ns; /* 0: nothing is in flight */
};

static inline size_t io_round_up(size_t bytes, size_t align) { return (bytes + align - 1) / align * align; }

/* io.c */
void io_advance(struct io *io, uint64_t wait_ns);
uint64_t io_next_event_ns(const struct io *io); /* how long io_advance may wait */
void io_enqueue(struct io *io, struct io_request *request);
/* Fails everything: nothing new is handed out, what is in flight is not resumed. */
void io_drop_all(struct io *io);

/* io_file.c */
/* A direct read was refused: from now on the file is read through the page cache. 0 or -errno. */
int io_file_make_buffered(struct io *io, uint32_t index);
void io_files_close(struct io *io);
/* True if the open file has been cut to `end` bytes or less since it was opened. */
bool io_file_was_cut(const struct io *io, uint32_t index, uint64_t end);

#endif
