#include "cli/input.h"

#include "cli/interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum sluice_status read_all(int fd, const char *name, char **out, size_t *bytes, struct sluice_error *err)
{
    size_t room = 64 << 10, n = 0;
    char *data = malloc(room + 1);
    if (!data) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "%.300s: out of memory", name);
    for (;;) {
        if (n == room) {
            char *more = room < INPUT_BYTES_MAX ? realloc(data, room * 2 + 1) : NULL;
            if (!more) {
                free(data);
                return base_fail(err, SLUICE_ERR_MEMORY, "a prompt is much smaller than this",
                                 "%.300s: more than %zu bytes of text", name, room);
            }
            data = more;
            room *= 2;
        }
        ssize_t got = read(fd, data + n, room - n);
        if (got == 0) break;
        if (got > 0) {
            n += (size_t)got;
        } else if (errno != EINTR) {
            int error = errno;
            free(data);
            return base_fail(err, SLUICE_ERR_IO, NULL, "%.300s: cannot read: %s", name, strerror(error));
        }
        if (interrupt_pending()) {
            free(data);
            return base_fail(err, SLUICE_CANCELLED, NULL, "interrupted");
        }
    }
    data[n] = '\0';
    *out = data;
    *bytes = n;
    return SLUICE_OK;
}

enum sluice_status input_read(const char *path, char **out, size_t *bytes, struct sluice_error *err)
{
    if (!path || strcmp(path, "-") == 0) return read_all(STDIN_FILENO, "standard input", out, bytes, err);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return base_fail(err, SLUICE_ERR_IO, errno == ENOENT ? "check the path" : NULL, "%.300s: cannot open: %s", path,
                         strerror(errno));
    enum sluice_status status = read_all(fd, path, out, bytes, err);
    close(fd);
    return status;
}

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

enum sluice_status input_ids(const char *text, size_t bytes, const char *what, int32_t **out, size_t *n,
                             struct sluice_error *err)
{
    int32_t *ids = malloc((bytes / 2 + 1) * sizeof *ids);
    if (!ids) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "%.300s: out of memory", what);
    size_t count = 0, i = 0;
    while (i < bytes) {
        if (is_space(text[i])) {
            i++;
            continue;
        }
        size_t end = i;
        uint64_t id = 0;
        bool good = true;
        for (; end < bytes && !is_space(text[end]); end++) {
            good = good && text[end] >= '0' && text[end] <= '9' && end - i < 10;
            if (good) id = id * 10 + (uint64_t)(text[end] - '0');
        }
        if (!good || id > INT32_MAX) {
            free(ids);
            return base_fail(err, SLUICE_ERR_USAGE, "the file holds numbers, separated by white space",
                             "%.300s: '%.*s' (number %zu) is not a token id", what, (int)(end - i > 40 ? 40 : end - i),
                             text + i, count + 1);
        }
        ids[count++] = (int32_t)id;
        i = end;
    }
    if (count == 0) {
        free(ids);
        return base_fail(err, SLUICE_ERR_USAGE, NULL, "%.300s: holds no token ids", what);
    }
    *out = ids;
    *n = count;
    return SLUICE_OK;
}
