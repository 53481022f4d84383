/* Every system call that Sluice makes, behind one replaceable table.
 *
 * Rooms receive a `const struct os_calls *`; os_system() is the real one. Tests wrap it to inject short reads, EINTR,
 * EIO, ENOMEM, refused direct I/O, hung reads. Functions return 0 or a count on success and -errno on failure, as the
 * kernel does, and never set errno. All are safe to call from several threads at once. Linux-only calls live in
 * os/linux/. */
#ifndef OS_OS_H
#define OS_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct os_file_info {
    uint64_t bytes;
    uint64_t device, inode, mtime_ns; /* to notice a file that is replaced while it is read */
    /* Offset, length and memory alignment for direct reads, a power of two: what statx says, 4096 where it says nothing
     * (before Linux 6.1), 0 where it says that there are none. */
    uint32_t direct_align;
    bool regular;
    uint64_t disk_bytes; /* that it takes on the disk, in whole blocks */
};

struct os_memory;
struct os_pressure;
struct os_uring; /* one io_uring instance; see os_uring_* below */

struct os_uring_done {
    uint64_t tag;
    int32_t result; /* bytes read or -errno */
};

struct os_calls {
    void *user; /* first argument of every function */

    /* files */
    int (*open_read)(void *user, const char *path, bool direct); /* fd or -errno (EINVAL: no direct I/O here) */
    int (*close)(void *user, int fd);
    ssize_t (*pread)(void *user, int fd, void *buf, size_t bytes, uint64_t offset); /* one call; may be short */
    int (*file_info)(void *user, int fd, struct os_file_info *info);
    int (*drop_cached)(void *user, int fd, uint64_t offset, uint64_t bytes); /* POSIX_FADV_DONTNEED */

    /* files that are kept: written as a whole under another name, synced, renamed. Never through a symbolic link; what
     * is made is private to the user. */
    int (*create)(void *user, const char *path);                          /* a new file: fd; -EEXIST */
    ssize_t (*write)(void *user, int fd, const void *data, size_t bytes); /* behind what is there; may be short */
    int (*sync)(void *user, int fd);                                      /* is on the disk now */
    int (*rename)(void *user, const char *from, const char *to);          /* replaces `to` */
    int (*remove)(void *user, const char *path);                          /* a file */
    /* Made if need be: fd, locked until it is closed; -EWOULDBLOCK: another holds it. */
    int (*lock_file)(void *user, const char *path);
    int (*make_folder)(void *user, const char *path); /* 0 as well if there is one */
    int (*sync_folder)(void *user, const char *path); /* its entries are on the disk now */
    /* Calls each for every entry but "." and ".."; false ends it. */
    int (*list_folder)(void *user, const char *path, bool (*each)(void *arg, const char *name), void *arg);

    /* memory */
    void *(*reserve)(void *user,
                     size_t bytes); /* address space only (PROT_NONE, no swap reservation); NULL on failure */
    int (*commit)(void *user, void *at,
                  size_t bytes); /* page-aligned part of a reservation becomes readable and writable */
    /* Makes committed memory resident, with huge pages where the system has them. May take long; other calls may run
     * beside it. -EINVAL, -ENOSYS: not possible here. */
    int (*populate)(void *user, void *at, size_t bytes);
    int (*decommit)(void *user, void *at, size_t bytes);   /* its memory goes back to the system */
    int (*release)(void *user, void *at, size_t bytes);    /* the whole reservation ends */
    int (*lock)(void *user, const void *at, size_t bytes); /* mlock */
    int (*unlock)(void *user, const void *at, size_t bytes);
    void (*memory)(void *user, struct os_memory *out);     /* os_memory: how much there is now */
    void (*pressure)(void *user, struct os_pressure *out); /* os_pressure */

    /* time */
    uint64_t (*now_ns)(void *user); /* monotonic */

    /* io_uring. All calls for one ring come from the thread that owns it. */
    int (*uring_open)(void *user, unsigned entries, struct os_uring **ring); /* -ENOSYS, -EPERM where it is forbidden */
    void (*uring_close)(void *user, struct os_uring *ring);
    /* Registered files: index = position. Called again with a longer or changed list it replaces what differs. After a
     * failure reads name the descriptor in place of the index. */
    int (*uring_files)(void *user, struct os_uring *ring, const int *fds, unsigned n);
    int (*uring_buffers)(void *user, struct os_uring *ring, unsigned n_max); /* a sparse table of buffers */
    int (*uring_buffer_set)(void *user, struct os_uring *ring, unsigned index, void *at,
                            size_t bytes); /* at NULL: unregister */
    /* Queues one read. buffer: index of a registered buffer that contains [buf, buf+bytes), or -1. -EAGAIN: the queue
     * is full. */
    int (*uring_read)(void *user, struct os_uring *ring, unsigned file, void *buf, size_t bytes, uint64_t offset,
                      int buffer, uint64_t tag);
    int (*uring_submit)(void *user, struct os_uring *ring);
    /* Up to max completions; waits at most wait_ns (0: does not wait) for the first. Count or -errno (-ETIME counts as
     * 0). */
    int (*uring_reap)(void *user, struct os_uring *ring, struct os_uring_done *done, unsigned max, uint64_t wait_ns);
};

const struct os_calls *os_system(void);

/* ---- what the machine is and allows (not injected: plain facts) ---- */

struct os_memory {
    uint64_t total_bytes;        /* of the machine */
    uint64_t available_bytes;    /* MemAvailable */
    uint64_t own_bytes;          /* VmRSS of this process: not available, and its own to use again */
    uint64_t cgroup_limit_bytes; /* smallest limit on the way up the tree, v1 or v2; UINT64_MAX: none */
    uint64_t cgroup_used_bytes;  /* use of the cgroup that has that limit, page cache that can be dropped not counted */
    uint64_t memlock_bytes;      /* RLIMIT_MEMLOCK; UINT64_MAX: none */
    bool can_ipc_lock;           /* CAP_IPC_LOCK is effective */
    uint64_t cgroup_room_bytes;  /* least limit minus use of any level: a roomy group may sit in a full one */
    char cgroup_path[256];       /* where the limit was found, or "" */
};
void os_memory(struct os_memory *out);
/* root: a directory that stands for "/" when reading /proc and /sys (tests use a made-up tree); "" is the real one. */
void os_memory_at(const char *root, struct os_memory *out);

/* Two counters that only grow; what they grew by since the last look says whether memory is short. Cheap enough for
 * several looks a second. */
struct os_pressure {
    bool has_stall;
    uint64_t stall_ns; /* in which some task waited for memory (PSI, "some"): of this process's v2 group if it has the
                          file, else of the machine */
    bool has_events;
    uint64_t events; /* times that a limit was reached, over all levels up the tree (v2: high and max; v1: failcnt). The
                        kernel counts before it drops page cache, so cached reads alone can make it grow */
};
void os_pressure(struct os_pressure *out);
void os_pressure_at(const char *root, struct os_pressure *out); /* root: as for os_memory_at */

/* How much of what it may use, in per cent, a program takes that was not told: the machine's other programs need
 * memory, too; a control group's limit (0: none, or others leave less) is there for those in it, less what the kernel
 * takes of it for page tables, sockets and files. */
static inline unsigned os_auto_percent(uint64_t group_limit) { return group_limit >= (uint64_t)2 << 30 ? 90 : 80; }

void os_resident(uint64_t *bytes, uint64_t *peak_bytes); /* VmRSS of this process and VmHWM; 0: not known */
void os_resident_at(const char *root, uint64_t *bytes, uint64_t *peak_bytes); /* root: as for os_memory_at */
/* What the process holds, for a plan: its own pages, and all of its code whether it has come in yet or not, with a
 * third for constants. Which pages of files are resident differs from start to start: they come in windows around those
 * that are touched, code lies somewhere else each time, and more comes in at once when the page cache has not got it.
 * This does not differ, but for a few pages. Never less than is resident. */
uint64_t os_process_bytes(void);
uint64_t os_process_bytes_at(const char *root); /* root: as for os_memory_at */
size_t os_page_bytes(void);
/* Whether the system gives huge pages to those who ask for them (which every large reservation does). */
bool os_huge_pages(void);
bool os_huge_pages_at(const char *root); /* the same by the files under `root`; for tests */

struct os_cpu {
    bool avx2, fma, f16c, avx512f, avx512bw, avx512vl, avx512vnni, avx512vbmi, amx_int8, neon, dotprod, i8mm;
    unsigned n_threads; /* CPUs that this process may run on (affinity and cgroup quota respected), at least 1 */
    char name[64];      /* the model's name, or "unknown" */
};
void os_cpu(struct os_cpu *out);
/* CPUs that the cgroup's quota amounts to, rounded up; 0: no quota. root: as for os_memory_at. */
unsigned os_cpu_quota_at(const char *root);

/* Memory nodes with memory, as bits (those below 64); 0: the kernel does not say. root: as for os_memory_at. */
uint64_t os_numa_nodes_at(const char *root);
/* The range's pages will come from these nodes in turn, unless the process has a policy of its own (numactl): then it
 * stays. 0 or -errno (ENOSYS, EPERM: not possible here). Large reservations are spread by themselves. */
int os_numa_spread(void *at, size_t bytes, uint64_t nodes);

/* The name of the file system that holds an open file ("ext4", "xfs", "overlay", "0x...."). */
void os_filesystem_name(int fd, char *out, size_t out_bytes);

/* ---- threads: the few primitives that the pool and the reader threads need ---- */

struct os_thread;
struct os_mutex;
struct os_cond;
int os_thread_start(struct os_thread **out, void (*main)(void *arg), void *arg, const char *name, size_t stack_bytes);
void os_thread_join(struct os_thread *t);   /* frees it */
void os_thread_detach(struct os_thread *t); /* frees it and lets the thread run on, for one that may never return */
int os_mutex_create(struct os_mutex **out);
void os_mutex_destroy(struct os_mutex *m);
void os_mutex_lock(struct os_mutex *m);
void os_mutex_unlock(struct os_mutex *m);
int os_cond_create(struct os_cond **out); /* waits on the monotonic clock */
void os_cond_destroy(struct os_cond *c);
void os_cond_wait(struct os_cond *c, struct os_mutex *m);
bool os_cond_wait_ns(struct os_cond *c, struct os_mutex *m, uint64_t ns); /* false: timed out */
void os_cond_signal(struct os_cond *c);
void os_cond_broadcast(struct os_cond *c);
void os_cpu_relax(void); /* a spin loop's pause */

#endif
