/* A table of system calls that fails on demand, around the real one. Tests of any room may use it:
 *
 *     struct fault_os f;
 *     fault_os_init(&f);
 *     fault_add(&f, (struct fault_rule){.kind = FAULT_ERROR, .nth = 3, .error = EIO});
 *     ... .os = &f.calls ...
 *     fault_os_destroy(&f);
 *
 * Reads are counted from 1 in the order in which they begin, those through pread and those through io_uring alike. */
#ifndef TESTS_IO_FAULT_OS_H
#define TESTS_IO_FAULT_OS_H

#include "os/os.h"

enum fault_kind {
    FAULT_SHORT, /* reads at most `bytes` */
    FAULT_ERROR, /* fails with `error`, reads nothing */
    FAULT_HANG,  /* does not return until fault_release, then reads */
    FAULT_CUT,   /* first cuts the file at `path` to `bytes`, then reads */
    FAULT_FLIP,  /* reads, and turns over the lowest bit of byte `bytes` (or of the last, if fewer arrived) */
};

struct fault_rule {
    enum fault_kind kind;
    unsigned nth;     /* the first read it applies to, from 1; 0 counts as 1 */
    unsigned count;   /* to how many reads from there; 0 counts as 1; FAULT_ALWAYS */
    bool direct_only; /* only reads of files opened for direct reads are counted by this rule */
    int error;
    size_t bytes;
    const char *path; /* outlives the table */
    unsigned seen_;
};
#define FAULT_ALWAYS 0xffffffffu

#define FAULT_RULES_MAX 8
#define FAULT_READS_MAX 8192
#define FAULT_HELD_MAX 256

struct fault_read {
    uint64_t offset;
    size_t bytes;
    const void *dst;
};

struct fault_held { /* an io_uring read that hangs, or its completion that waits to be reaped */
    struct os_uring *ring;
    unsigned file;
    void *buf;
    size_t bytes;
    uint64_t offset;
    int buffer;
    uint64_t tag;
    int32_t result;
};

struct fault_os {
    struct os_calls calls; /* hand out its address */
    const struct os_calls *real;
    struct os_mutex *mutex;
    struct os_cond *changed;

    /* positive errnos; 0: the call works. Set them before the call, from the owner's thread. */
    int open_error, open_direct_error, info_error;
    int reserve_error, commit_error, lock_error, populate_error;
    uint32_t populate_ms; /* that bringing memory in takes longer */
    /* Of files that are written: the call fails once so many of its kind have worked. From any thread. */
    int create_error, write_error, sync_error, rename_error, remove_error;
    unsigned writes_good;
    unsigned commits_good; /* so many commits work before commit_error applies */
    int uring_open_error, uring_files_error, uring_buffers_error, uring_buffer_set_error;
    int uring_submit_error; /* for the next `uring_submit_errors` submits */
    unsigned uring_submit_errors;
    const struct os_memory *memory; /* what these say in place of the real ones; NULL: the real ones */
    const struct os_pressure *pressure;
    uint64_t ahead_ns;     /* by how much its clock is ahead: see fault_skip_time */
    uint32_t direct_align; /* in place of the real one; 0: the real one */

    /* counters; read them when nothing is in flight */
    unsigned n_populated;
    unsigned n_created, n_writes, n_synced, n_renamed, n_removed;
    unsigned n_locks; /* asked for, from any thread */
    unsigned n_commits, n_decommits, n_dropped, n_buffers_set, n_registered_reads, n_open;

    struct fault_rule rules[FAULT_RULES_MAX];
    unsigned n_rules;
    struct fault_read reads[FAULT_READS_MAX]; /* in the order in which they began */
    unsigned n_reads;
    bool released;
    unsigned n_hung; /* pread calls that hang */
    struct fault_held held[FAULT_HELD_MAX], ready[FAULT_HELD_MAX];
    unsigned n_held, n_ready;
    int fds[1024]; /* of the ring */
    bool files_registered;
};

void fault_os_init(struct fault_os *f);
/* Releases what hangs. Nobody may use the table any more. */
void fault_os_destroy(struct fault_os *f);
void fault_add(struct fault_os *f, struct fault_rule rule);
/* Forgets all rules; reads that hang stay. */
void fault_clear(struct fault_os *f);
/* Reads that hang go on, and no later one hangs until fault_hang_again. */
void fault_release(struct fault_os *f);
void fault_hang_again(struct fault_os *f);
unsigned fault_hung(struct fault_os *f); /* reads that hang now */
unsigned fault_reads(struct fault_os *f);
/* Waits until n reads hang. */
void fault_wait_hung(struct fault_os *f, unsigned n);

/* Moves the clock of the table on, so that what hangs is late at once and nothing else has to be fast. A wait that has
 * begun does not notice. */
void fault_skip_time(struct fault_os *f, uint64_t ns);

/* Can this machine do io_uring at all? Containers often forbid it. */
bool fault_uring_works(void);

#endif
