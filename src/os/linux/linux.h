/* The Linux back end of os.h, one source a subject. Each source offers its functions here; system.c puts them into the
 * table. */
#ifndef OS_LINUX_LINUX_H
#define OS_LINUX_LINUX_H

#include "os/os.h"

/* file.c */
int linux_open_read(void *user, const char *path, bool direct);
int linux_close(void *user, int fd);
ssize_t linux_pread(void *user, int fd, void *buf, size_t bytes, uint64_t offset);
int linux_file_info(void *user, int fd, struct os_file_info *info);
int linux_drop_cached(void *user, int fd, uint64_t offset, uint64_t bytes);

/* store.c */
int linux_create(void *user, const char *path);
ssize_t linux_write(void *user, int fd, const void *data, size_t bytes);
int linux_sync(void *user, int fd);
int linux_rename(void *user, const char *from, const char *to);
int linux_remove(void *user, const char *path);
int linux_lock_file(void *user, const char *path);
int linux_make_folder(void *user, const char *path);
int linux_sync_folder(void *user, const char *path);
int linux_list_folder(void *user, const char *path, bool (*each)(void *arg, const char *name), void *arg);

/* memory.c */
void *linux_reserve(void *user, size_t bytes);
int linux_commit(void *user, void *at, size_t bytes);
int linux_populate(void *user, void *at, size_t bytes);
int linux_decommit(void *user, void *at, size_t bytes);
int linux_release(void *user, void *at, size_t bytes);
int linux_lock(void *user, const void *at, size_t bytes);
int linux_unlock(void *user, const void *at, size_t bytes);

/* numa.c */
void linux_spread(void *at, size_t bytes);

/* limits.c, pressure.c */
void linux_memory(void *user, struct os_memory *out);
void linux_pressure(void *user, struct os_pressure *out);

/* thread.c */
uint64_t linux_now_ns(void *user);

/* uring.c */
int linux_uring_open(void *user, unsigned entries, struct os_uring **ring);
void linux_uring_close(void *user, struct os_uring *ring);
int linux_uring_files(void *user, struct os_uring *ring, const int *fds, unsigned n);
int linux_uring_buffers(void *user, struct os_uring *ring, unsigned n_max);
int linux_uring_buffer_set(void *user, struct os_uring *ring, unsigned index, void *at, size_t bytes);
int linux_uring_read(void *user, struct os_uring *ring, unsigned file, void *buf, size_t bytes, uint64_t offset,
                     int buffer, uint64_t tag);
int linux_uring_submit(void *user, struct os_uring *ring);
int linux_uring_reap(void *user, struct os_uring *ring, struct os_uring_done *done, unsigned max, uint64_t wait_ns);

/* cgroup.c: where this process stands in the control groups, as /proc/self tells it. */

#define LINUX_PATH_BYTES 1024

/* One hierarchy in which the process has a place: the folder of its own group and the folder of the mount's root.
 * Walking up from the one to the other visits every group whose limits apply and can be seen. */
struct linux_cgroup {
    bool v2;
    char mount[LINUX_PATH_BYTES]; /* with the root's prefix; no slash at the end */
    char group[LINUX_PATH_BYTES]; /* mount, or a folder below it */
};

#define LINUX_CGROUPS_MAX 2 /* a v1 hierarchy of the controller, and the unified one */

/* controller: "memory" or "cpu". Returns how many of out[LINUX_CGROUPS_MAX] were filled. */
unsigned linux_cgroups(const char *root, const char *controller, struct linux_cgroup *out);
/* Cuts the last component off c->group. False: it was the mount already. */
bool linux_cgroup_up(struct linux_cgroup *c);
/* The first number of folder/file; false if there is no such file or no number ("max"). */
bool linux_cgroup_number(const char *folder, const char *file, uint64_t *out);
/* The number behind `key` in a file of "key value" lines. */
bool linux_cgroup_stat(const char *folder, const char *file, const char *key, uint64_t *out);

/* cpu_x86.c, cpu_arm.c: fills the features and the name. */
void linux_cpu_features(struct os_cpu *out);

#endif
