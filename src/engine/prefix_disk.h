/* The items of a prefix tree as files of one folder (prefix_file.h), written by a thread of its own.
 *
 * Why a thread and not sluice_idle: a sync takes as long as the disk likes, and who computes tokens must not wait for
 * it. The owner queues writes and removals, the thread does them in that order; the pages of an item that is being
 * written stay as they are until it has said how it went. prefix_disk_poll is where the owner hears of it.
 *
 * The folder has one writer, who holds FOLDER/lock; others read. All files in it count towards the limit, those of
 * other models too. A file is removed before the one that takes its place is begun. */
#ifndef ENGINE_PREFIX_DISK_H
#define ENGINE_PREFIX_DISK_H

#include "base/log.h"
#include "engine/prefix_file.h"
#include "os/os.h"

#include <stdatomic.h>

#define PREFIX_QUEUE 256u
#define PREFIX_FOLDER_MAX 3840u
#define PREFIX_PATH_MAX (PREFIX_FOLDER_MAX + PREFIX_NAME_BYTES + 2)
#define PREFIX_WRITER_STACK ((size_t)256 << 10)
#define PREFIX_RETRY_NS ((uint64_t)60 * 1000000000u) /* after an error */
#define PREFIX_LOCK_NAME "lock"

struct prefix_job {
    bool removes;
    uint32_t item; /* of a write */
    struct prefix_header header;
    uint32_t page;       /* the first */
    uint64_t asked;      /* disk bytes that were set aside for it */
    int result;          /* 0 or -errno; -ECANCELED: one before has failed */
    uint64_t disk_bytes; /* as the system counts it */
};

struct prefix_disk {
    const struct os_calls *os;
    const struct base_log *log;
    struct prefix_tree *tree;
    struct prefix_owner owner;
    uint64_t (*payload_bytes)(void *user, uint32_t from, uint32_t n); /* what an item of ours has */
    void *user;
    char folder[PREFIX_FOLDER_MAX];
    uint64_t limit_bytes;
    int lock; /* or -1: read only */

    /* figures */
    uint64_t bytes; /* on the disk, or about to be */
    uint64_t written_bytes, read_bytes, refused;

    /* the queue: [n_reaped, n_done) are done, [n_done, n_queued) are not */
    struct prefix_job *jobs; /* [PREFIX_QUEUE] */
    struct os_thread *thread;
    struct os_mutex *mutex;
    struct os_cond *changed;
    uint64_t n_reaped, n_queued;
    atomic_uint_least64_t n_done;
    bool stop, skip;   /* under the mutex. skip: a write has failed, those behind it may hang below it */
    uint64_t retry_ns; /* no writes before; 0: at once */
    int said;          /* the error that was told */
};

struct prefix_disk_config {
    const struct os_calls *os;
    const struct base_log *log;
    struct prefix_tree *tree;
    struct prefix_owner owner;
    uint64_t (*payload_bytes)(void *user, uint32_t from, uint32_t n);
    void *user;
    const char *folder;
    uint64_t limit_bytes;
};
/* Reads the headers of all files into the tree; removes what is damaged or over the limit. SLUICE_ERR_IO: the folder
 * cannot be made or read. */
enum sluice_status prefix_disk_open(const struct prefix_disk_config *c, struct prefix_disk **out,
                                    struct sluice_error *err);
/* Writes what is due, if it can; NULL is allowed. */
void prefix_disk_close(struct prefix_disk *d);
uint64_t prefix_disk_memory_bytes(void);

/* Takes note of what was written, and queues what is due. Does not wait. */
void prefix_disk_poll(struct prefix_disk *d);
/* Something may be there to do for prefix_disk_poll. */
bool prefix_disk_busy(const struct prefix_disk *d);
/* Is something queued? Waits until one more of it is done, at most so long. */
bool prefix_disk_waits(const struct prefix_disk *d);
void prefix_disk_wait(struct prefix_disk *d, uint64_t ns);
/* Waits until nothing is queued, and nothing due that could be. */
void prefix_disk_drain(struct prefix_disk *d);
/* Fills the pages of an item (room has been made) from its file. False: damaged or gone, which was said. */
bool prefix_disk_load(struct prefix_disk *d, uint32_t item);
/* Removes the item's file now; only while nothing is queued. */
void prefix_disk_forget(struct prefix_disk *d, uint32_t item);

/* prefix_scan.c: for prefix_disk_open. */
enum sluice_status prefix_scan(struct prefix_disk *d, struct sluice_error *err);
bool prefix_disk_path(const struct prefix_disk *d, const char *name, char out[PREFIX_PATH_MAX]);
/* Removes the least worthy file: queued, or `now`, while nothing is queued. Returns its item, which is gone if it was
 * not in memory as well; PREFIX_NONE: none may go, or the queue is full. */
uint32_t prefix_disk_evict(struct prefix_disk *d, bool now);

#endif
