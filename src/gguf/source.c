#include "gguf/source.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW_FIRST_BYTES ((size_t)256 << 10)
#define PATH_SHOWN_BYTES 240

const char *gguf_shown_path(const char *path)
{
    size_t n = strlen(path);
    return n > PATH_SHOWN_BYTES ? path + n - PATH_SHOWN_BYTES : path;
}

void gguf_shown_name(char out[GGUF_SHOWN_BYTES], const void *at, size_t bytes)
{
    const unsigned char *p = at;
    size_t n = bytes < GGUF_SHOWN_BYTES ? bytes : GGUF_SHOWN_BYTES - 1;
    for (size_t i = 0; i < n; i++) out[i] = p[i] >= 0x20 && p[i] < 0x7f ? (char)p[i] : '?';
    out[n] = 0;
    if (n < bytes) memcpy(out + n - 3, "...", 3);
}

static enum sluice_status fail_open(const struct gguf_source *s, int error, struct sluice_error *err)
{
    switch (error) {
    case ENOENT:
    case ENOTDIR: return base_fail(err, SLUICE_ERR_IO, "check the path", "%s: no such file", s->shown);
    case EACCES:
    case EPERM:
        return base_fail(err, SLUICE_ERR_IO, "give yourself read permission for it", "%s: may not be read: %s",
                         s->shown, strerror(error));
    default: return base_fail(err, SLUICE_ERR_IO, "check the path", "%s: cannot open: %s", s->shown, strerror(error));
    }
}

enum sluice_status gguf_source_open_if_there(struct gguf_source *s, const struct os_calls *os, const char *path,
                                             bool *missing, struct sluice_error *err)
{
    *s = (struct gguf_source){.os = os, .fd = -1, .shown = gguf_shown_path(path)};
    *missing = false;
    int fd = os->open_read(os->user, path, false);
    if (fd == -ENOENT) {
        *missing = true;
        return SLUICE_OK;
    }
    if (fd < 0) return fail_open(s, -fd, err);
    s->fd = fd;

    struct os_file_info info;
    int r = os->file_info(os->user, fd, &info);
    if (r < 0) {
        gguf_source_close(s);
        return base_fail(err, SLUICE_ERR_IO, "check the disk and the system's log", "%s: cannot tell its size: %s",
                         s->shown, strerror(-r));
    }
    if (!info.regular) {
        char byte;
        bool directory = os->pread(os->user, fd, &byte, 1, 0) == -EISDIR;
        gguf_source_close(s);
        return base_fail(err, SLUICE_ERR_IO,
                         directory ? "name the .gguf file inside it" : "name a .gguf file on a disk",
                         "%s: is %s, not a regular file", s->shown, directory ? "a directory" : "a pipe or device");
    }
    s->bytes = info.bytes;
    return SLUICE_OK;
}

enum sluice_status gguf_source_open(struct gguf_source *s, const struct os_calls *os, const char *path,
                                    struct sluice_error *err)
{
    bool missing;
    enum sluice_status status = gguf_source_open_if_there(s, os, path, &missing, err);
    return status == SLUICE_OK && missing ? fail_open(s, ENOENT, err) : status;
}

void gguf_source_open_memory(struct gguf_source *s, const void *data, size_t bytes, const char *name)
{
    *s = (struct gguf_source){.fd = -1, .memory = data, .bytes = bytes, .shown = gguf_shown_path(name)};
}

void gguf_source_close(struct gguf_source *s)
{
    if (s->fd >= 0) s->os->close(s->os->user, s->fd);
    s->fd = -1;
    free(s->window);
    s->window = NULL;
    s->have = s->at = 0;
}

enum sluice_status gguf_source_peek(struct gguf_source *s, uint64_t offset, void *out, size_t bytes,
                                    struct sluice_error *err)
{
    if (!s->os) {
        if (bytes) memcpy(out, s->memory + offset, bytes);
        return SLUICE_OK;
    }
    for (size_t done = 0; done < bytes;) {
        ssize_t r = s->os->pread(s->os->user, s->fd, (char *)out + done, bytes - done, offset + done);
        if (r == -EINTR) continue;
        if (r < 0)
            return base_fail(err, SLUICE_ERR_IO, "check the disk and the system's log",
                             "%s: read of %zu bytes at byte %" PRIu64 " failed: %s", s->shown, bytes - done,
                             offset + done, strerror((int)-r));
        if (r == 0)
            return base_fail(err, SLUICE_ERR_IO, "it changes while it is read; wait until its download has finished",
                             "%s: had %" PRIu64 " bytes when it was opened and now ends at byte %" PRIu64, s->shown,
                             s->bytes, offset + done);
        done += (size_t)r;
    }
    return SLUICE_OK;
}

/* ", in key 3 of 20 'general.name'" or "" */
static void where(const struct gguf_source *s, char *out, size_t out_bytes)
{
    if (!s->stage)
        out[0] = 0;
    else
        snprintf(out, out_bytes, ", in %s %" PRIu64 " of %" PRIu64 "%s%s%s", s->stage, s->item + 1, s->n_items,
                 s->name[0] ? " '" : "", s->name, s->name[0] ? "'" : "");
}

enum sluice_status gguf_source_need(struct gguf_source *s, uint64_t bytes, struct sluice_error *err)
{
    if (bytes <= s->have - s->at) return SLUICE_OK;
    char in[GGUF_SHOWN_BYTES + 64];
    if (bytes > s->bytes - s->at) {
        where(s, in, sizeof in);
        return base_fail(err, SLUICE_ERR_MODEL, "the file is cut off or damaged: download it again",
                         "%s: ends inside its header%s: %" PRIu64
                         " more bytes are needed at byte %zu, the file has %" PRIu64 " bytes",
                         s->shown, in, bytes, s->at, s->bytes);
    }
    if (bytes > GGUF_HEADER_BYTES_MAX - s->at) {
        where(s, in, sizeof in);
        return base_fail(err, SLUICE_ERR_MODEL, "the file is damaged: download it again",
                         "%s: its header is larger than the limit of %zu bytes%s", s->shown, GGUF_HEADER_BYTES_MAX, in);
    }
    size_t target = s->at + (size_t)bytes;
    if (target < 2 * s->have) target = 2 * s->have;
    if (target < WINDOW_FIRST_BYTES) target = WINDOW_FIRST_BYTES;
    if (target > GGUF_HEADER_BYTES_MAX) target = GGUF_HEADER_BYTES_MAX;
    if (target > s->bytes) target = (size_t)s->bytes;

    uint8_t *window = realloc(s->window, target);
    if (!window)
        return base_fail(err, SLUICE_ERR_MEMORY, GGUF_HINT_MEMORY, "%s: no memory for %zu bytes of its header",
                         s->shown, target);
    s->window = window;
    enum sluice_status status = gguf_source_peek(s, s->have, window + s->have, target - s->have, err);
    if (status == SLUICE_OK) s->have = target;
    return status;
}

uint8_t *gguf_source_keep(struct gguf_source *s, size_t bytes)
{
    uint8_t *kept = realloc(s->window, bytes ? bytes : 1);
    if (!kept) return NULL;
    s->window = NULL;
    s->have = s->at = 0;
    return kept;
}
