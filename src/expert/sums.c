#include "expert/sums.h"

#include "base/cursor.h"
#include "base/hash.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define HEADER_BYTES 32u
#define GROUP_BYTES 24u
#define OFFSET_MAX ((uint64_t)1 << 62) /* no file is longer */

static const char magic[8] = {'S', 'L', 'U', 'I', 'C', 'S', 'U', 'M'};

static int by_place(const void *a, const void *b)
{
    const struct expert_sums_group *x = a, *y = b;
    if (x->file != y->file) return x->file < y->file ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Counts the sums; false: a group is empty or absurd, or two are not in order. Also for what comes from a file. */
static bool number_groups(struct expert_sums *s)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < s->n_groups; i++) {
        struct expert_sums_group *g = &s->groups[i];
        if (g->n == 0 || g->unit_bytes == 0 || g->offset > OFFSET_MAX || g->unit_bytes > OFFSET_MAX / g->n)
            return false;
        const struct expert_sums_group *before = i ? g - 1 : NULL;
        if (before && (before->file > g->file ||
                       (before->file == g->file && before->offset + before->n * before->unit_bytes > g->offset)))
            return false;
        g->first = n;
        n += g->n;
    }
    s->n_sums = n;
    return true;
}

static enum sluice_status no_memory(struct sluice_error *err)
{
    return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for the table of checksums");
}

enum sluice_status expert_sums_create(const struct expert_sums_group *groups, uint32_t n_groups, uint64_t fingerprint,
                                      struct expert_sums **out, struct sluice_error *err)
{
    *out = NULL;
    struct expert_sums *s = calloc(1, sizeof *s);
    if (!s) return no_memory(err);
    s->fingerprint = fingerprint;
    s->n_groups = n_groups;
    s->groups = calloc((size_t)n_groups + 1, sizeof *s->groups);
    if (!s->groups) {
        expert_sums_free(s);
        return no_memory(err);
    }
    if (n_groups) {
        memcpy(s->groups, groups, n_groups * sizeof *groups);
        qsort(s->groups, n_groups, sizeof *s->groups, by_place);
    }
    if (!number_groups(s)) {
        expert_sums_free(s);
        return base_fail(err, SLUICE_ERR_RUN, NULL, "two things to be checked share bytes, or one has none");
    }
    s->sums = calloc(s->n_sums + 1, sizeof *s->sums);
    if (!s->sums) {
        expert_sums_free(s);
        return no_memory(err);
    }
    *out = s;
    return SLUICE_OK;
}

void expert_sums_free(struct expert_sums *s)
{
    if (!s) return;
    free(s->groups);
    free(s->sums);
    free(s);
}

/* ---- to bytes ---- */

static uint8_t *put(uint8_t *p, uint64_t v, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++) *p++ = (uint8_t)(v >> 8 * i);
    return p;
}

enum sluice_status expert_sums_encode(const struct expert_sums *s, uint8_t **out, size_t *bytes,
                                      struct sluice_error *err)
{
    *bytes = HEADER_BYTES + (size_t)s->n_groups * GROUP_BYTES + (size_t)s->n_sums * 8 + 8;
    *out = malloc(*bytes);
    if (!*out) return no_memory(err);
    memcpy(*out, magic, sizeof magic);
    uint8_t *p = put(*out + sizeof magic, EXPERT_SUMS_VERSION, 4);
    p = put(p, s->n_groups, 4);
    p = put(p, s->fingerprint, 8);
    p = put(p, s->n_sums, 8);
    for (uint32_t i = 0; i < s->n_groups; i++) {
        p = put(p, s->groups[i].file, 4);
        p = put(p, s->groups[i].n, 4);
        p = put(p, s->groups[i].offset, 8);
        p = put(p, s->groups[i].unit_bytes, 8);
    }
    for (uint64_t i = 0; i < s->n_sums; i++) p = put(p, s->sums[i], 8);
    put(p, base_hash_of(*out, (size_t)(p - *out), 0), 8);
    return SLUICE_OK;
}

/* ---- from bytes ---- */

#define WRITE_AGAIN "write it again with 'sluice checksum', or remove it"

static enum sluice_status damaged(const char *path, const char *why, struct sluice_error *err)
{
    return base_fail(err, SLUICE_ERR_USAGE, WRITE_AGAIN, "%.300s: the file of checksums is damaged: %s", path, why);
}

/* Fills s from the whole file, whose own checksum is right. */
static enum sluice_status decode(struct expert_sums *s, const char *path, const uint8_t *data, size_t bytes,
                                 uint64_t fingerprint, struct sluice_error *err)
{
    struct base_cursor c;
    base_cursor_init(&c, data, bytes - 8);
    base_cursor_take(&c, sizeof magic + 4);
    s->n_groups = base_cursor_u32(&c);
    s->fingerprint = base_cursor_u64(&c);
    uint64_t n_sums = base_cursor_u64(&c);
    if (s->fingerprint != fingerprint)
        return base_fail(err, SLUICE_ERR_USAGE, WRITE_AGAIN,
                         "%.300s: these checksums belong to another model, or the model's header has changed (its "
                         "fingerprint is %016" PRIx64 ", theirs %016" PRIx64 ")",
                         path, fingerprint, s->fingerprint);
    size_t left = base_cursor_left(&c);
    if (s->n_groups > left / GROUP_BYTES || n_sums > left / 8 ||
        left != (size_t)s->n_groups * GROUP_BYTES + (size_t)n_sums * 8)
        return damaged(path, "its counts and its length disagree", err);
    s->groups = calloc((size_t)s->n_groups + 1, sizeof *s->groups);
    s->sums = calloc((size_t)n_sums + 1, sizeof *s->sums);
    if (!s->groups || !s->sums) return no_memory(err);
    for (uint32_t i = 0; i < s->n_groups; i++) {
        s->groups[i].file = base_cursor_u32(&c);
        s->groups[i].n = base_cursor_u32(&c);
        s->groups[i].offset = base_cursor_u64(&c);
        s->groups[i].unit_bytes = base_cursor_u64(&c);
    }
    if (!number_groups(s) || s->n_sums != n_sums) return damaged(path, "its groups make no sense", err);
    for (uint64_t i = 0; i < n_sums; i++) s->sums[i] = base_cursor_u64(&c);
    return SLUICE_OK;
}

static enum sluice_status check_whole(const char *path, const uint8_t *data, size_t bytes, struct sluice_error *err)
{
    struct base_cursor c;
    if (bytes < HEADER_BYTES + 8 || memcmp(data, magic, sizeof magic) != 0)
        return base_fail(err, SLUICE_ERR_USAGE, WRITE_AGAIN, "%.300s: is not a file of checksums", path);
    base_cursor_init(&c, data + sizeof magic, 4);
    uint32_t version = base_cursor_u32(&c);
    if (version != EXPERT_SUMS_VERSION)
        return base_fail(err, SLUICE_ERR_USAGE, WRITE_AGAIN,
                         "%.300s: checksums of version %" PRIu32 "; this Sluice reads version %u", path, version,
                         EXPERT_SUMS_VERSION);
    base_cursor_init(&c, data + bytes - 8, 8);
    if (base_cursor_u64(&c) != base_hash_of(data, bytes - 8, 0))
        return damaged(path, "its own checksum does not match", err);
    return SLUICE_OK;
}

static enum sluice_status read_whole(const struct os_calls *os, int fd, const char *path, uint8_t **data, size_t *bytes,
                                     struct sluice_error *err)
{
    struct os_file_info info;
    int rc = os->file_info(os->user, fd, &info);
    if (rc) return base_fail(err, SLUICE_ERR_IO, NULL, "%.300s: cannot be read: %s", path, strerror(-rc));
    if (!info.regular || info.bytes > EXPERT_SUMS_BYTES_MAX)
        return base_fail(err, SLUICE_ERR_USAGE, WRITE_AGAIN, "%.300s: is not a file of checksums", path);
    *bytes = (size_t)info.bytes;
    *data = malloc(*bytes + 1);
    if (!*data) return no_memory(err);
    for (size_t done = 0; done < *bytes;) {
        ssize_t n = os->pread(os->user, fd, *data + done, *bytes - done, done);
        if (n == -EINTR) continue;
        if (n <= 0)
            return base_fail(err, SLUICE_ERR_IO, NULL, "%.300s: cannot be read at byte %zu: %s", path, done,
                             n < 0 ? strerror((int)-n) : "the file ends there");
        done += (size_t)n;
    }
    return SLUICE_OK;
}

enum sluice_status expert_sums_read(const struct os_calls *os, const char *path, uint64_t fingerprint, bool optional,
                                    struct expert_sums **out, struct sluice_error *err)
{
    *out = NULL;
    int fd = os->open_read(os->user, path, false);
    if (fd == -ENOENT && optional) return SLUICE_OK;
    if (fd < 0)
        return base_fail(err, SLUICE_ERR_IO, fd == -ENOENT ? "write it with 'sluice checksum'" : NULL,
                         "%.300s: cannot be opened: %s", path, strerror(-fd));
    uint8_t *data = NULL;
    size_t bytes = 0;
    struct expert_sums *s = calloc(1, sizeof *s);
    enum sluice_status status = s ? read_whole(os, fd, path, &data, &bytes, err) : no_memory(err);
    os->close(os->user, fd);
    if (!status) status = check_whole(path, data, bytes, err);
    if (!status) status = decode(s, path, data, bytes, fingerprint, err);
    free(data);
    if (status)
        expert_sums_free(s);
    else
        *out = s;
    return status;
}

bool expert_sums_find(const struct expert_sums *s, uint32_t file, uint64_t offset, uint64_t bytes, uint64_t *sum)
{
    uint32_t low = 0, high = s->n_groups; /* the last group that does not begin behind the place is below high */
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct expert_sums_group *g = &s->groups[middle];
        if (g->file < file || (g->file == file && g->offset <= offset))
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0) return false;
    const struct expert_sums_group *g = &s->groups[low - 1];
    if (g->file != file || g->unit_bytes != bytes) return false;
    uint64_t unit = (offset - g->offset) / g->unit_bytes;
    if (unit >= g->n || g->offset + unit * g->unit_bytes != offset) return false;
    *sum = s->sums[g->first + unit];
    return true;
}
