/* A split model. The input: a u16 (little-endian), the length of shard 1; shard 1; the rest is shard 2. They are read
 * through an os table that holds them in memory and gives at most 61 bytes a read. */
#include "fuzz.h"
#include "visit_gguf.h"

#include <errno.h>
#include <string.h>

#define SHARD_1 "m-00001-of-00002.gguf"
#define SHARD_2 "m-00002-of-00002.gguf"
#define READ_BYTES_MAX 61

struct shards {
    const uint8_t *at[2];
    size_t bytes[2];
    int n_open;
};

static int open_read(void *user, const char *path, bool direct)
{
    struct shards *x = user;
    int fd = strcmp(path, SHARD_1) == 0 ? 0 : strcmp(path, SHARD_2) == 0 ? 1 : -ENOENT;
    if (fd >= 0) x->n_open++;
    return fd;
}

static int close_file(void *user, int fd)
{
    struct shards *x = user;
    x->n_open--;
    return 0;
}

static ssize_t read_at(void *user, int fd, void *buf, size_t bytes, uint64_t offset)
{
    const struct shards *x = user;
    if (offset >= x->bytes[fd]) return 0;
    if (bytes > x->bytes[fd] - offset) bytes = x->bytes[fd] - offset;
    if (bytes > READ_BYTES_MAX) bytes = READ_BYTES_MAX;
    memcpy(buf, x->at[fd] + offset, bytes);
    return (ssize_t)bytes;
}

static int file_info(void *user, int fd, struct os_file_info *info)
{
    const struct shards *x = user;
    *info = (struct os_file_info){.bytes = x->bytes[fd], .regular = true};
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes < 2) return 0;
    size_t first = (size_t)(data[0] | data[1] << 8);
    if (first > bytes - 2) first = bytes - 2;
    struct shards x = {.at = {data + 2, data + 2 + first}, .bytes = {first, bytes - 2 - first}};
    struct os_calls os = {
        .user = &x, .open_read = open_read, .close = close_file, .pread = read_at, .file_info = file_info};
    struct gguf *g = NULL;
    struct sluice_error err = {0};
    enum sluice_status status = gguf_open(&os, SHARD_1, &g, &err);
    FUZZ_CHECK(x.n_open == 0);
    if (status != SLUICE_OK) {
        visit_gguf_error(status, &err, g);
        return 0;
    }
    visit_gguf(g);
    gguf_close(g);
    return 0;
}
