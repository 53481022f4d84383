/* The files of a struct io: opening them directly or through the page cache, and telling what became of them. */
#include "io/room.h"

#include "base/assert.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool refuses_direct(int error) { return error == EINVAL || error == EOPNOTSUPP || error == ENOSYS; }

static void say_buffered(struct io *io, const char *path, int fd, const char *why)
{
    if (io->buffered_said) return;
    io->buffered_said = true;
    char name[32];
    os_filesystem_name(fd, name, sizeof name);
    base_log(&io->log, BASE_LOG_WARN,
             "%s: %s refuses direct reads (%s): reading through the page cache and dropping the pages behind each read",
             path, name, why);
}

/* Opens f->path; f->info tells what was opened. *reason: why not directly, or NULL. */
static int open_file(struct io *io, struct io_file *f, const char **reason)
{
    const struct os_calls *os = io->os;
    *reason = NULL;
    if (!io->config.buffered) {
        int fd = os->open_read(os->user, f->path, true);
        if (fd < 0 && !refuses_direct(-fd)) return fd;
        if (fd < 0) *reason = strerror(-fd);
        if (fd >= 0) {
            int rc = os->file_info(os->user, fd, &f->info);
            uint32_t align = f->info.direct_align;
            if (rc == 0 && align > 0 && align <= IO_ALIGN_MAX && (align & (align - 1)) == 0) {
                f->direct = true;
                f->align = align;
                f->fd = fd;
                return 0;
            }
            os->close(os->user, fd);
            if (rc < 0) return rc;
            *reason = "it names no alignment for them";
        }
    }
    f->direct = false;
    f->align = 1;
    f->fd = os->open_read(os->user, f->path, false);
    if (f->fd < 0) return f->fd;
    int rc = os->file_info(os->user, f->fd, &f->info);
    if (rc < 0) {
        os->close(os->user, f->fd);
        f->fd = -1;
    }
    return rc;
}

enum sluice_status io_file_add(struct io *io, const char *path, uint32_t *index, struct sluice_error *err)
{
    if (io->n_files == IO_FILES_MAX)
        return base_fail(err, SLUICE_ERR_RUN, NULL, "%s: more than %d files in one reader", path, IO_FILES_MAX);
    struct io_file *f = &io->files[io->n_files];
    *f = (struct io_file){.fd = -1, .fd_before = -1, .path = strdup(path)};
    if (!f->path) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "%s: no memory for the file's name", path);
    const char *reason;
    enum sluice_status status;
    int rc = open_file(io, f, &reason);
    if (rc < 0) {
        status = base_fail(err, SLUICE_ERR_IO, "check the path and the permission to read it",
                           "%s: cannot be opened: %s", path, strerror(-rc));
        goto fail;
    }
    if (!f->info.regular) {
        status = base_fail(err, SLUICE_ERR_IO, "name an ordinary file", "%s: is not an ordinary file", path);
        goto fail;
    }
    if (reason) say_buffered(io, path, f->fd, reason);
    io->fds[io->n_files] = f->fd;
    *index = io->n_files++;
    if (io->driver->files) io->driver->files(io->driver, io->fds, io->n_files);
    return SLUICE_OK;

fail:
    if (f->fd >= 0) io->os->close(io->os->user, f->fd);
    free(f->path);
    *f = (struct io_file){.fd = -1, .fd_before = -1};
    return status;
}

int io_file_make_buffered(struct io *io, uint32_t index)
{
    struct io_file *f = &io->files[index];
    if (!f->direct) return 0;
    const struct os_calls *os = io->os;
    int fd = os->open_read(os->user, f->path, false);
    if (fd < 0) return fd;
    struct os_file_info info;
    int rc = os->file_info(os->user, fd, &info);
    if (rc == 0 && (info.device != f->info.device || info.inode != f->info.inode)) rc = -ESTALE; /* another file now */
    if (rc < 0) {
        os->close(os->user, fd);
        return rc;
    }
    f->fd_before = f->fd; /* pieces may still be under way on it */
    f->fd = fd;
    f->direct = false;
    io->fds[index] = fd;
    say_buffered(io, f->path, fd, "at the first read: Invalid argument");
    if (io->driver->files) io->driver->files(io->driver, io->fds, io->n_files);
    return 0;
}

void io_files_close(struct io *io)
{
    for (uint32_t i = 0; i < io->n_files; i++) {
        struct io_file *f = &io->files[i];
        if (f->fd >= 0) io->os->close(io->os->user, f->fd);
        if (f->fd_before >= 0) io->os->close(io->os->user, f->fd_before);
        free(f->path);
    }
    io->n_files = 0;
}

bool io_file_was_cut(const struct io *io, uint32_t index, uint64_t end)
{
    struct os_file_info now;
    const struct io_file *f = &io->files[index];
    return io->os->file_info(io->os->user, f->fd, &now) == 0 && now.bytes <= end;
}

enum sluice_status io_check_files(const struct io *io, struct sluice_error *err)
{
    for (uint32_t i = 0; i < io->n_files; i++) {
        const struct io_file *f = &io->files[i];
        struct os_file_info now;
        int rc = io->os->file_info(io->os->user, f->fd, &now);
        if (rc < 0)
            return base_fail(err, SLUICE_ERR_IO, NULL, "%s: its state cannot be read: %s", f->path, strerror(-rc));
        if (now.bytes == f->info.bytes && now.mtime_ns == f->info.mtime_ns) continue;
        return base_fail(err, SLUICE_ERR_IO,
                         "do not write to a model that is in use; start again with the file as it should be",
                         "%s: the file was changed while it was being read (%" PRIu64 " bytes, before %" PRIu64 ")",
                         f->path, now.bytes, f->info.bytes);
    }
    return SLUICE_OK;
}

uint64_t io_file_bytes(const struct io *io, uint32_t index)
{
    BASE_ASSERT(index < io->n_files, "a file index comes from io_file_add");
    return io->files[index].info.bytes;
}

const char *io_file_path(const struct io *io, uint32_t index)
{
    BASE_ASSERT(index < io->n_files, "a file index comes from io_file_add");
    return io->files[index].path;
}

uint32_t io_file_align(const struct io *io, uint32_t index)
{
    BASE_ASSERT(index < io->n_files, "a file index comes from io_file_add");
    return io->files[index].align;
}

bool io_file_direct(const struct io *io, uint32_t index)
{
    BASE_ASSERT(index < io->n_files, "a file index comes from io_file_add");
    return io->files[index].direct;
}

/* What happened to the file since it was opened, as a half sentence: "" if nothing. Looks at the open file (cut,
 * written to) and at what its path names today (replaced, removed). */
static void describe_change(const struct io *io, const struct io_file *f, char *out, size_t out_bytes)
{
    const struct os_calls *os = io->os;
    struct os_file_info now;
    out[0] = 0;
    if (os->file_info(os->user, f->fd, &now) == 0) {
        if (now.bytes != f->info.bytes) {
            snprintf(out, out_bytes, "; it had %" PRIu64 " bytes when it was opened and has %" PRIu64 " now",
                     f->info.bytes, now.bytes);
            return;
        }
        if (now.mtime_ns != f->info.mtime_ns) {
            snprintf(out, out_bytes, "; it was written to after it was opened");
            return;
        }
    }
    int fd = os->open_read(os->user, f->path, false);
    if (fd < 0) {
        if (fd == -ENOENT) snprintf(out, out_bytes, "; it was removed after it was opened");
        return;
    }
    if (os->file_info(os->user, fd, &now) == 0 && (now.inode != f->info.inode || now.device != f->info.device))
        snprintf(out, out_bytes, "; another file was put in its place after it was opened");
    os->close(os->user, fd);
}

enum sluice_status io_explain(const struct io *io, const struct io_done *done, struct sluice_error *err)
{
    const struct io_request *r = done->request;
    if (done->status == SLUICE_OK) return SLUICE_OK;
    if (done->status == SLUICE_CANCELLED)
        return base_fail(err, SLUICE_CANCELLED, NULL, "a read was taken back before it began");
    const struct io_file *f = &io->files[r->file];
    char change[160];
    if (done->status == SLUICE_ERR_TIMEOUT) {
        double seconds = (double)io->config.wait_limit_ns / 1e9;
        return base_fail(
            err, SLUICE_ERR_TIMEOUT,
            "the disk or the network behind this file does not answer: look into the system log, then try again",
            "%s: a read of %zu bytes at byte %" PRIu64 " did not return within %.3g s%s", f->path, r->bytes,
            r->failed_at_, seconds, done->stuck ? "; the kernel still holds its memory" : "");
    }
    describe_change(io, f, change, sizeof change);
    if (done->error == 0)
        return base_fail(err, SLUICE_ERR_IO, "fetch the file again, and leave it alone while it is in use",
                         "%s: the file ended at byte %" PRIu64 ", needed %" PRIu64
                         ": truncated or changed while reading%s",
                         f->path, r->failed_at_, r->offset + r->needed_bytes, change);
    const char *hint =
        "look into the system log for this disk; if it reports errors there too, copy the file to another one";
    if (done->error == ESTALE || change[0]) hint = "leave the file alone while it is in use, and start again";
    return base_fail(err, SLUICE_ERR_IO, hint, "%s: reading %zu bytes at byte %" PRIu64 " failed: %s%s", f->path,
                     r->bytes, r->failed_at_, strerror(done->error), change);
}
