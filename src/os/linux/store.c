#include "os/linux/linux.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MODE 0600 /* what people said to a model is theirs alone */
#define FOLDER_MODE 0700
#define WRITE_BYTES_MAX ((size_t)0x7ffff000) /* MAX_RW_COUNT */

int linux_create(void *user, const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, FILE_MODE);
    return fd < 0 ? -errno : fd;
}

ssize_t linux_write(void *user, int fd, const void *data, size_t bytes)
{
    ssize_t n = write(fd, data, bytes < WRITE_BYTES_MAX ? bytes : WRITE_BYTES_MAX);
    return n < 0 ? -errno : n;
}

int linux_sync(void *user, int fd)
{
    if (fsync(fd) == 0) return 0;
    return errno == EINVAL || errno == EROFS ? 0 : -errno; /* a file system that cannot */
}

int linux_rename(void *user, const char *from, const char *to) { return rename(from, to) ? -errno : 0; }

int linux_remove(void *user, const char *path) { return unlink(path) ? -errno : 0; }

int linux_lock_file(void *user, const char *path)
{
    struct stat ours, named;
    /* Never a wait for a pipe's other end. Some network file systems lock only what may be written to. */
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, FILE_MODE);
    if (fd < 0) return -errno;
    int error = 0;
    if (fstat(fd, &ours))
        error = errno;
    else if (!S_ISREG(ours.st_mode))
        error = EINVAL;
    else if (flock(fd, LOCK_EX | LOCK_NB))
        error = errno;
    /* Somebody may have removed the file meanwhile: then others lock another one of that name. */
    else if (lstat(path, &named) || named.st_dev != ours.st_dev || named.st_ino != ours.st_ino)
        error = EWOULDBLOCK;
    if (!error) return fd;
    close(fd);
    return -error;
}

int linux_make_folder(void *user, const char *path)
{
    struct stat info;
    if (mkdir(path, FOLDER_MODE) == 0) return 0;
    if (errno != EEXIST) return -errno;
    if (stat(path, &info)) return -errno;
    return S_ISDIR(info.st_mode) ? 0 : -ENOTDIR;
}

int linux_sync_folder(void *user, const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return -errno;
    int rc = linux_sync(user, fd);
    close(fd);
    return rc;
}

int linux_list_folder(void *user, const char *path, bool (*each)(void *arg, const char *name), void *arg)
{
    DIR *folder = opendir(path);
    if (!folder) return -errno;
    errno = 0;
    for (struct dirent *entry; (entry = readdir(folder)); errno = 0) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        if (!each(arg, entry->d_name)) break;
    }
    const int error = errno;
    closedir(folder);
    return -error;
}
