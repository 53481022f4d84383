/* Result files: where one goes, and that it appears under its name only when it is complete. */
#include "cli/interrupt.h"
#include "cli/out.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINKS_MAX 40       /* as the kernel's own */
#define PART_NAMES_MAX 100 /* part files that a crash may have left before one has to look after them */
#define SHARDS_MAX 10000

static enum sluice_status failed(const char *path, const char *verb, int error, struct sluice_error *err)
{
    const char *hint = error == ENOSPC || error == EDQUOT ? "free some space, or choose another place"
                       : error == EFBIG                   ? "the limit of a file's size is reached (ulimit -f)"
                                                          : NULL;
    if (error == EINTR && interrupt_pending()) return base_fail(err, SLUICE_CANCELLED, NULL, "interrupted");
    return base_fail(err, SLUICE_ERR_IO, hint, "%.400s: cannot %s: %s", path, verb, strerror(error));
}

/* ---- where it goes ---- */

/* The path that the link at `path` names, malloc'ed; NULL: errno. */
static char *follow(const char *path)
{
    char to[PATH_MAX], *out = NULL;
    ssize_t n = readlink(path, to, sizeof to - 1);
    if (n < 0) return NULL;
    to[n] = '\0';
    const char *slash = strrchr(path, '/');
    if (to[0] == '/' || !slash) return strdup(to);
    if (asprintf(&out, "%.*s/%s", (int)(slash - path), path, to) < 0) {
        errno = ENOMEM;
        return NULL;
    }
    return out;
}

enum sluice_status out_resolve(const char *path, char **target, bool *regular, struct sluice_error *err)
{
    struct stat info;
    *regular = true;
    char *at = lstat(path, &info) == 0 && S_ISLNK(info.st_mode) ? realpath(path, NULL) : strdup(path);
    if (!at && errno == ENOENT) { /* a link to what is not there yet */
        at = strdup(path);
        for (unsigned i = 0; at && lstat(at, &info) == 0 && S_ISLNK(info.st_mode); i++) {
            char *next = i < LINKS_MAX ? follow(at) : NULL;
            if (i >= LINKS_MAX) errno = ELOOP;
            int error = errno;
            free(at);
            at = next;
            errno = error;
        }
    }
    if (!at) return failed(path, "follow the link", errno, err);
    if (stat(at, &info) == 0) *regular = S_ISREG(info.st_mode);
    *target = at;
    return SLUICE_OK;
}

/* "/dev/stdout": 1. Opening one of those names would begin at the start of a file that is only to be appended to. */
static int descriptor_of(const char *path)
{
    static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
    if (strcmp(path, "/dev/stdout") == 0) return STDOUT_FILENO;
    if (strcmp(path, "/dev/stderr") == 0) return STDERR_FILENO;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        size_t n = strlen(folders[i]);
        if (strncmp(path, folders[i], n) != 0) continue;
        const char *number = path + n;
        size_t digits = strspn(number, "0123456789");
        if (digits && digits < 6 && !number[digits]) return atoi(number);
    }
    return -1;
}

enum sluice_status out_check(const char *path, const char *what, struct sluice_error *err)
{
    struct stat info;
    if (path[0] == '\0') return base_fail(err, SLUICE_ERR_USAGE, NULL, "%s: the path is empty", what);
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode))
        return base_fail(err, SLUICE_ERR_USAGE, "name a file in it", "%s: %.300s is a directory", what, path);
    return SLUICE_OK;
}

/* Devices are left out: a terminal may well be read from and written to. */
static bool same_file(const char *path, const char *input)
{
    struct stat to, from;
    int failure = strcmp(input, "-") == 0 ? fstat(STDIN_FILENO, &from) : stat(input, &from);
    return failure == 0 && stat(path, &to) == 0 && S_ISREG(to.st_mode) && to.st_dev == from.st_dev &&
           to.st_ino == from.st_ino;
}

enum sluice_status out_check_input(const char *path, const char *what, const char *input, struct sluice_error *err)
{
    if (!input || !same_file(path, input)) return SLUICE_OK;
    base_fail(err, SLUICE_ERR_USAGE, NULL, "%s: %.300s is what is to be read", what, path);
    base_hint(err, "give %s another name", what);
    return SLUICE_ERR_USAGE;
}

/* "model-00001-of-00003.gguf": 3, and where its first number begins. */
static unsigned shards_of(const char *model, size_t *at)
{
    size_t n = strlen(model);
    if (n < 20 || strcmp(model + n - 5, ".gguf") != 0) return 0;
    const char *end = model + n - 20; /* "-00001-of-00003.gguf" */
    if (end[0] != '-' || memcmp(end + 6, "-of-", 4) != 0) return 0;
    for (unsigned i = 0; i < 5; i++)
        if (!isdigit((unsigned char)end[1 + i]) || !isdigit((unsigned char)end[10 + i])) return 0;
    *at = n - 19;
    return (unsigned)atoi(end + 10);
}

enum sluice_status out_check_model(const char *path, const char *what, const char *model, struct sluice_error *err)
{
    size_t at;
    unsigned n_shards = shards_of(model, &at);
    bool same = same_file(path, model);
    for (unsigned i = 1; i <= n_shards && i <= SHARDS_MAX && !same; i++) {
        char *shard;
        if (asprintf(&shard, "%.*s%05u%s", (int)at, model, i, model + at + 5) < 0)
            return base_fail(err, SLUICE_ERR_MEMORY, NULL, "out of memory");
        same = same_file(path, shard);
        free(shard);
    }
    if (!same) return SLUICE_OK;
    base_fail(err, SLUICE_ERR_USAGE, NULL, "%s: %.300s is the model itself", what, path);
    base_hint(err, "give %s another name", what);
    return SLUICE_ERR_USAGE;
}

/* ---- writing ---- */

/* Creates a part file that was not there before, and has it removed if a signal ends the program. */
static int create_part(struct out_file *f)
{
    int fd = -1;
    for (unsigned i = 0; i < PART_NAMES_MAX && fd < 0; i++) {
        if (i == 0 ? asprintf(&f->part, "%s.part", f->path) < 0 : asprintf(&f->part, "%s.part.%u", f->path, i) < 0) {
            f->part = NULL;
            errno = ENOMEM;
            return -1;
        }
        interrupt_hold(true); /* not between creating and registering */
        fd = open(f->part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        int error = errno;
        if (fd >= 0) f->removed_slot = interrupt_removes(f->part);
        interrupt_hold(false);
        errno = error;
        if (fd < 0 && error != EEXIST) break;
        if (fd < 0 && i + 1 < PART_NAMES_MAX) free(f->part);
    }
    struct stat before; /* what is replaced may be private */
    if (fd >= 0 && stat(f->path, &before) == 0) (void)!fchmod(fd, before.st_mode & 0777);
    return fd;
}

enum sluice_status out_file_open(struct out_file *f, const char *path, struct sluice_error *err)
{
    int fd, standard = descriptor_of(path);
    bool regular = true;
    memset(f, 0, sizeof *f);
    f->removed_slot = -1;
    enum sluice_status status = out_check(path, "output", err);
    if (!status && standard >= 0) {
        regular = false;
        f->path = strdup(path);
        if (!f->path) status = base_fail(err, SLUICE_ERR_MEMORY, NULL, "out of memory");
    } else if (!status) {
        status = out_resolve(path, &f->path, &regular, err);
    }
    if (status) return status;
    if (standard >= 0) {
        out_flush();
        fd = fcntl(standard, F_DUPFD_CLOEXEC, 3);
    } else if (!regular) {
        fd = open(f->path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
    } else {
        fd = create_part(f);
    }
    if (fd >= 0) f->stream = fdopen(fd, "wb");
    if (f->stream) return SLUICE_OK;
    status = failed(f->part ? f->part : f->path, regular ? "create" : "open", errno, err);
    if (fd >= 0) {
        close(fd);
        if (f->part) unlink(f->part);
    }
    out_file_drop(f);
    return status;
}

enum sluice_status out_file_write(struct out_file *f, const void *data, size_t bytes, struct sluice_error *err)
{
    errno = 0;
    if (fwrite(data, 1, bytes, f->stream) == bytes) return SLUICE_OK;
    return failed(f->part ? f->part : f->path, "write", errno ? errno : EIO, err);
}

static void forget(struct out_file *f)
{
    interrupt_keeps(f->removed_slot);
    free(f->part);
    free(f->path);
    f->removed_slot = -1;
    f->part = f->path = NULL;
}

enum sluice_status out_file_keep(struct out_file *f, struct sluice_error *err)
{
    int error = 0;
    errno = 0;
    if (fflush(f->stream) != 0) error = errno ? errno : EIO;
    /* A file system that cannot sync says EINVAL or EROFS; a pipe or device is not asked. */
    if (!error && f->part && fsync(fileno(f->stream)) != 0 && errno != EINVAL && errno != EROFS) error = errno;
    if (fclose(f->stream) != 0 && !error) error = errno ? errno : EIO;
    f->stream = NULL;
    if (!error && f->part && rename(f->part, f->path) != 0) error = errno;
    if (!error) {
        forget(f);
        return SLUICE_OK;
    }
    enum sluice_status status = failed(f->part ? f->part : f->path, "finish", error, err);
    if (f->part) unlink(f->part);
    forget(f);
    return status;
}

void out_file_drop(struct out_file *f)
{
    bool opened = f->stream != NULL;
    if (opened) fclose(f->stream);
    if (f->part && opened) unlink(f->part);
    f->stream = NULL;
    if (f->path) forget(f);
}
