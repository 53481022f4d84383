/* Lock, write beside, sync, rename. Waiting for the lock is asking again: flock has no time limit, and a signal that
 * ends a blocking one would be somebody else's. */
#include "expert/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define POLL_NS UINT64_C(5000000)
#define FILE_MODE 0666 /* less what the umask takes */
#define PART_FLAGS (O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC)
#define PART_NAMES_MAX 100 /* what crashes may have left before one has to look after them */

static enum sluice_status failed(const char *path, const char *suffix, const char *verb, int error, const char *hint,
                                 struct sluice_error *err)
{
    base_fail(err, SLUICE_ERR_IO, hint, "%.300s%s: cannot be %s: %s", path, suffix, verb, strerror(error));
    if (error == ENOSPC || error == EDQUOT) base_hint(err, "free some space, or %s", hint);
    if (error == EFBIG) base_hint(err, "the limit of a file's size is reached (ulimit -f); %s", hint);
    return SLUICE_ERR_IO;
}

static bool join(char out[PATH_MAX], const char *path, const char *suffix)
{
    return snprintf(out, PATH_MAX, "%s%s", path, suffix) < PATH_MAX;
}

enum sluice_status replace_check(const char *path, const char *hint, bool *exists, struct sluice_error *err)
{
    struct stat info;
    *exists = false;
    if (lstat(path, &info) != 0) return errno == ENOENT ? SLUICE_OK : failed(path, "", "read", errno, hint, err);
    *exists = true;
    if (S_ISREG(info.st_mode)) return SLUICE_OK;
    const char *what = S_ISLNK(info.st_mode)    ? "a symbolic link"
                       : S_ISDIR(info.st_mode)  ? "a directory"
                       : S_ISFIFO(info.st_mode) ? "a pipe"
                                                : "a device or a socket";
    return base_fail(err, SLUICE_ERR_USAGE, hint, "%.300s: is %s, not an ordinary file", path, what);
}

/* ---- the lock ---- */

/* One attempt. *fd: the locked file, or -1 if another holds it. 0, or an errno. */
static int try_lock(const char *path, int *fd)
{
    struct stat ours, named;
    *fd = -1;
    /* Never a wait for a pipe's other end, never a terminal, never through a link. Some network file systems lock only
     * what may be written to. */
    int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, FILE_MODE);
    if (lock < 0) return errno;
    int error = 0;
    if (fstat(lock, &ours) != 0)
        error = errno;
    else if (!S_ISREG(ours.st_mode))
        error = EINVAL;
    else if (flock(lock, LOCK_EX | LOCK_NB) != 0)
        error = errno;
    /* Somebody may have removed the file meanwhile: then others lock another one of that name. */
    else if (lstat(path, &named) == 0 && named.st_dev == ours.st_dev && named.st_ino == ours.st_ino)
        *fd = lock;
    if (*fd < 0) close(lock);
    return error == EWOULDBLOCK || error == EINTR ? 0 : error;
}

enum sluice_status replace_lock(const struct os_calls *os, const char *path, const char *hint, uint32_t wait_ms,
                                int *lock, struct sluice_error *err)
{
    char name[PATH_MAX];
    const uint64_t wait_ns = (uint64_t)wait_ms * 1000000, begin = os->now_ns(os->user);
    if (!join(name, path, REPLACE_LOCK_SUFFIX))
        return failed(path, REPLACE_LOCK_SUFFIX, "locked", ENAMETOOLONG, hint, err);
    for (;;) {
        int error = try_lock(name, lock);
        if (error) return failed(path, REPLACE_LOCK_SUFFIX, "locked", error, hint, err);
        if (*lock >= 0) return SLUICE_OK;
        uint64_t waited = os->now_ns(os->user) - begin;
        if (waited >= wait_ns)
            return base_fail(err, SLUICE_ERR_IO, hint,
                             "%.300s: another process has locked it (%.300s" REPLACE_LOCK_SUFFIX
                             ") for more than %u ms",
                             path, path, (unsigned)wait_ms);
        uint64_t pause = wait_ns - waited < POLL_NS ? wait_ns - waited : POLL_NS;
        nanosleep(&(struct timespec){.tv_nsec = (long)pause}, NULL);
    }
}

void replace_unlock(int lock) { close(lock); }

/* ---- writing ---- */

/* 0, or an errno. */
static int write_all(int fd, const char *data, size_t bytes)
{
    while (bytes) {
        ssize_t n = write(fd, data, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return n < 0 ? errno : EIO;
        data += n;
        bytes -= (size_t)n;
    }
    /* A file system that cannot sync says EINVAL or EROFS; so does a pipe or a device. */
    return fsync(fd) == 0 || errno == EINVAL || errno == EROFS ? 0 : errno;
}

/* Makes the renamed entry durable, where the file system can. */
static void sync_folder(const char *path)
{
    char folder[PATH_MAX] = ".";
    const char *slash = strrchr(path, '/');
    if (slash) snprintf(folder, sizeof folder, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    (void)!fsync(fd);
    close(fd);
}

/* From the open part file on; closes it. */
static enum sluice_status finish(int fd, const char *part, const char *path, const char *hint, const void *data,
                                 size_t bytes, struct sluice_error *err)
{
    struct stat before;
    if (stat(path, &before) == 0) (void)!fchmod(fd, before.st_mode & 0777); /* it may be private */
    int error = write_all(fd, data, bytes);
    if (close(fd) != 0 && !error) error = errno;
    if (!error && rename(part, path) != 0) error = errno;
    if (!error) {
        sync_folder(path);
        return SLUICE_OK;
    }
    unlink(part);
    return failed(path, "", "written", error, hint, err);
}

/* A rename would go past the write protection. */
static bool is_protected(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0 && access(path, W_OK) != 0;
}

enum sluice_status replace_write(const char *path, const char *hint, const void *data, size_t bytes,
                                 struct sluice_error *err)
{
    char part[PATH_MAX];
    const char *const suffix = REPLACE_PART_SUFFIX;
    if (!join(part, path, suffix)) return failed(path, suffix, "created", ENAMETOOLONG, hint, err);
    if (is_protected(path)) return failed(path, "", "replaced", errno, hint, err);
    /* Whoever wrote it held the lock that we hold: it is dead. */
    if (unlink(part) != 0 && errno != ENOENT) return failed(path, suffix, "removed", errno, hint, err);
    int fd = open(part, PART_FLAGS, FILE_MODE);
    if (fd < 0) return failed(path, suffix, "created", errno, hint, err);
    return finish(fd, part, path, hint, data, bytes, err);
}

static enum sluice_status write_straight(const char *path, const char *hint, const void *data, size_t bytes,
                                         struct sluice_error *err)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) return failed(path, "", "opened", errno, hint, err);
    int error = write_all(fd, data, bytes);
    if (close(fd) != 0 && !error) error = errno;
    return error ? failed(path, "", "written", error, hint, err) : SLUICE_OK;
}

enum sluice_status replace_write_alone(const char *path, const char *hint, const void *data, size_t bytes,
                                       struct sluice_error *err)
{
    char at[PATH_MAX], part[PATH_MAX], suffix[sizeof REPLACE_PART_SUFFIX + 8];
    struct stat info;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) return write_straight(path, hint, data, bytes, err);
    if (lstat(path, &info) == 0 && S_ISLNK(info.st_mode)) {
        if (!realpath(path, at)) return failed(path, "", "followed", errno, hint, err);
        path = at;
    }
    if (is_protected(path)) return failed(path, "", "replaced", errno, hint, err);
    int fd = -1;
    for (unsigned i = 0; i < PART_NAMES_MAX && fd < 0; i++) {
        snprintf(suffix, sizeof suffix, "%s.%u", REPLACE_PART_SUFFIX, i);
        if (!join(part, path, suffix)) return failed(path, suffix, "created", ENAMETOOLONG, hint, err);
        fd = open(part, PART_FLAGS, FILE_MODE);
        if (fd < 0 && errno != EEXIST) break;
    }
    if (fd < 0) return failed(path, suffix, "created", errno, hint, err);
    return finish(fd, part, path, hint, data, bytes, err);
}
