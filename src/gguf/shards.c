/* Split models: PREFIX-00001-of-0000N.gguf and its siblings. Shard 1 has the metadata; every shard has `split.no` (from
 * 0), `split.count` and a directory of its own tensors. Names and metadata must agree, because a shard that was renamed
 * or copied over another holds other tensors than its name promises. */
#include "gguf/private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SUFFIX_BYTES 20 /* "-00001-of-00003.gguf" */

/* PREFIX-%05d-of-%05d.gguf taken apart; false: no such name. */
static bool split_name(const char *path, size_t *prefix_bytes, uint32_t *no, uint32_t *count)
{
    size_t n = strlen(path);
    if (n < SUFFIX_BYTES) return false;
    const char *p = path + n - SUFFIX_BYTES;
    if (p[0] != '-' || memcmp(p + 6, "-of-", 4) != 0 || memcmp(p + 15, ".gguf", 5) != 0) return false;
    uint32_t a = 0, b = 0;
    for (int i = 0; i < 5; i++) {
        if (p[1 + i] < '0' || p[1 + i] > '9' || p[10 + i] < '0' || p[10 + i] > '9') return false;
        a = a * 10 + (uint32_t)(p[1 + i] - '0');
        b = b * 10 + (uint32_t)(p[10 + i] - '0');
    }
    *prefix_bytes = n - SUFFIX_BYTES;
    *no = a;
    *count = b;
    return true;
}

/* Makes path, which begins with the prefix and has SUFFIX_BYTES + 1 bytes behind it, the name of shard `no` (from 1).
 */
static void name_shard(char *path, size_t prefix_bytes, uint32_t no, uint32_t count)
{
    /* five digits each: both are at most GGUF_SHARDS_MAX */
    snprintf(path + prefix_bytes, SUFFIX_BYTES + 1, "-%05u-of-%05u.gguf", no % 100000u, count % 100000u);
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The opened file's own claims: is it shard 1, and does its name say so? */
static enum sluice_status check_first(const struct gguf_file *f, uint32_t no, uint32_t count, struct sluice_error *err)
{
    size_t prefix_bytes = 0;
    uint32_t name_no = 0, name_count = 0;
    bool named = split_name(f->path, &prefix_bytes, &name_no, &name_count);
    enum sluice_status status = SLUICE_ERR_MODEL;
    if (no != 0) {
        if (no >= count)
            return base_fail(err, status, "the file is damaged: download it again",
                             "%s: is shard %" PRIu64 " of only %" PRIu32 " by its metadata", f->shown, (uint64_t)no + 1,
                             count);
        base_fail(err, status, "open the model through its first shard",
                  "%s: is shard %" PRIu32 " of %" PRIu32 "; a split model is opened through shard 1", f->shown, no + 1,
                  count);
        if (named && name_no == no + 1 && name_count == count) {
            const char *base = last_part(f->path);
            size_t base_bytes = prefix_bytes - (size_t)(base - f->path);
            base_hint(err, "open %.*s-00001-of-%05" PRIu32 ".gguf instead", (int)(base_bytes < 240 ? base_bytes : 240),
                      base, count);
        }
        return status;
    }
    if (!named)
        return base_fail(err, status, "give every shard its original name: NAME-00001-of-0000N.gguf",
                         "%s: is shard 1 of %" PRIu32 " by its metadata, but has been renamed: its name must end in "
                         "-00001-of-%05" PRIu32 ".gguf",
                         f->shown, count, count);
    if (name_count != count)
        return base_fail(err, status, "shards of different models are mixed: download all of them again",
                         "%s: its name says %" PRIu32 " shards, its metadata (split.count) %" PRIu32, f->shown,
                         name_count, count);
    if (name_no != 1)
        return base_fail(err, status, "give every shard its original name",
                         "%s: is shard 1 of %" PRIu32 " by its metadata, but its name says shard %" PRIu32, f->shown,
                         count, name_no);
    return SLUICE_OK;
}

/* A sibling's claims. */
static enum sluice_status check_sibling(const struct gguf_file *f, uint32_t i, uint32_t count, struct sluice_error *err)
{
    uint32_t no = 0, n = 0;
    enum sluice_status status = gguf_file_u32(f, GGUF_KEY_SPLIT_COUNT, true, &n, err);
    if (status == SLUICE_OK) status = gguf_file_u32(f, GGUF_KEY_SPLIT_NO, true, &no, err);
    if (status != SLUICE_OK) return status;
    if (n != count)
        return base_fail(err, SLUICE_ERR_MODEL, "shards of different models are mixed: download all of them again",
                         "%s: belongs to a model of %" PRIu32 " shards (split.count), shard 1 says %" PRIu32, f->shown,
                         n, count);
    if (no != i)
        return base_fail(err, SLUICE_ERR_MODEL, "it was renamed or is a copy of another shard: download it again",
                         "%s: is shard %" PRIu64 " by its metadata (split.no %" PRIu32
                         "), but its name says shard %" PRIu32,
                         f->shown, (uint64_t)no + 1, no, i + 1);
    return SLUICE_OK;
}

/* Names the first missing shard and counts the others, so that one look tells what to download. */
static enum sluice_status fail_missing(const struct os_calls *os, char *path, size_t prefix_bytes, uint32_t first,
                                       uint32_t count, struct sluice_error *err)
{
    uint32_t n_missing = 1;
    char numbers[96];
    int at = snprintf(numbers, sizeof numbers, "%" PRIu32, first + 1);
    for (uint32_t i = first + 1; i < count; i++) {
        name_shard(path, prefix_bytes, i + 1, count);
        int fd = os->open_read(os->user, path, false);
        if (fd >= 0) {
            os->close(os->user, fd);
            continue;
        }
        n_missing++;
        if (at + 16 < (int)sizeof numbers)
            at += snprintf(numbers + at, sizeof numbers - (size_t)at, ", %" PRIu32, i + 1);
        else if (numbers[at - 1] != '.')
            at += snprintf(numbers + at, sizeof numbers - (size_t)at, ", ...");
    }
    name_shard(path, prefix_bytes, first + 1, count);
    base_fail(err, SLUICE_ERR_MODEL, NULL,
              "%s: shard %" PRIu32 " of %" PRIu32 " is missing (%" PRIu32 " missing in all: %s)", gguf_shown_path(path),
              first + 1, count, n_missing, numbers);
    base_hint(err, "download %.200s into the folder of the first shard", last_part(gguf_shown_path(path)));
    return SLUICE_ERR_MODEL;
}

static enum sluice_status open_sibling(struct gguf *g, const struct os_calls *os, const struct gguf_lenience *lenient,
                                       char *path, size_t prefix_bytes, uint32_t i, uint32_t count,
                                       struct sluice_error *err)
{
    struct gguf_source s;
    bool missing;
    name_shard(path, prefix_bytes, i + 1, count);
    enum sluice_status status = gguf_source_open_if_there(&s, os, path, &missing, err);
    if (status != SLUICE_OK) return status;
    if (missing) return fail_missing(os, path, prefix_bytes, i, count, err);
    struct gguf_file **file = &g->files[g->n_files]; /* files[i], unless a shard before could not be opened */
    s.lenient = lenient;
    status = gguf_file_read(&s, path, file, err);
    gguf_source_close(&s);
    if (status != SLUICE_OK) return status;
    g->n_files++;
    status = check_sibling(*file, i, count, err);
    gguf_file_drop_values(*file);
    return status;
}

static enum sluice_status check_total(const struct gguf *g, struct sluice_error *err)
{
    const struct gguf_file *first = g->files[0];
    uint64_t n = 0;
    for (size_t i = 0; i < g->n_files; i++) n += g->files[i]->n_rows;
    if (!gguf_file_find(first, GGUF_KEY_SPLIT_TENSORS)) return SLUICE_OK;
    uint32_t announced = 0;
    enum sluice_status status = gguf_file_u32(first, GGUF_KEY_SPLIT_TENSORS, true, &announced, err);
    if (status == SLUICE_OK && n != announced)
        return base_fail(err, SLUICE_ERR_MODEL, "shards of different models are mixed: download all of them again",
                         "%s: announces %" PRIu32 " tensors (split.tensors.count), its %zu shards hold %" PRIu64,
                         first->shown, announced, g->n_files, n);
    return status;
}

/* Whether the first file is the first of a split model, whose shards are to be opened: *count is above 1. *later: it is
 * one, but another than the first. */
static enum sluice_status check_split(struct gguf *g, const struct os_calls *os, uint32_t *shards,
                                      size_t *prefix_bytes_out, bool *later, struct sluice_error *err)
{
    const struct gguf_file *first = g->files[0];
    uint32_t count = 0, no = 0, name_no = 0, name_count = 0;
    size_t prefix_bytes = 0;
    enum sluice_status status = gguf_file_u32(first, GGUF_KEY_SPLIT_COUNT, false, &count, err);
    if (status == SLUICE_OK) status = gguf_file_u32(first, GGUF_KEY_SPLIT_NO, count > 1, &no, err);
    if (status != SLUICE_OK) return status;
    if (count <= 1) {
        if (split_name(first->path, &prefix_bytes, &name_no, &name_count) && name_count > 1)
            return base_fail(err, SLUICE_ERR_MODEL, "if it is a whole model, give it a name without '-of-'",
                             "%s: its name says shard %" PRIu32 " of %" PRIu32
                             ", its metadata says that the model is not split",
                             first->shown, name_no, name_count);
        return SLUICE_OK;
    }
    if (count > GGUF_SHARDS_MAX)
        return base_fail(err, SLUICE_ERR_MODEL, "the file is damaged: download it again",
                         "%s: announces %" PRIu32 " shards (split.count); the limit is %d", first->shown, count,
                         GGUF_SHARDS_MAX);
    if (!os)
        return base_fail(err, SLUICE_ERR_MODEL, "open the model by its path",
                         "%s: is shard %" PRIu64 " of %" PRIu32 "; a split model cannot be opened from memory",
                         first->shown, (uint64_t)no + 1, count);
    status = check_first(first, no, count, err);
    if (status != SLUICE_OK) {
        *later = no != 0;
        return status;
    }
    split_name(first->path, prefix_bytes_out, &name_no, &name_count);
    *shards = count;
    return SLUICE_OK;
}

/* A shard could not be opened, which is no reason to stop. One missing shard stands for all. */
static bool go_on(const struct gguf_lenience *lenient, const struct os_calls *os, const char *path, bool *told_missing,
                  const struct sluice_error *why)
{
    int fd = lenient ? os->open_read(os->user, path, false) : -1;
    if (fd >= 0) os->close(os->user, fd);
    if (lenient && fd < 0 && *told_missing) return true;
    *told_missing |= fd < 0;
    return gguf_tolerate(lenient, GGUF_FAULT_SHARD, why);
}

enum sluice_status gguf_open_shards(struct gguf *g, const struct os_calls *os, const struct gguf_lenience *lenient,
                                    struct sluice_error *err)
{
    const struct gguf_file *first = g->files[0];
    struct sluice_error why, *told = lenient ? &why : err;
    uint32_t count = 1;
    size_t prefix_bytes = 0;
    bool told_missing = false, later = false;
    enum sluice_status status = check_split(g, os, &count, &prefix_bytes, &later, told);
    if (status != SLUICE_OK)
        return gguf_tolerate(lenient, later ? GGUF_FAULT_LATER : GGUF_FAULT_SHARD, &why) ? SLUICE_OK : status;
    if (count <= 1) return SLUICE_OK;

    char *path = malloc(prefix_bytes + SUFFIX_BYTES + 1);
    struct gguf_file **files = realloc(g->files, count * sizeof *files);
    if (files) g->files = files;
    if (!path || !files) {
        free(path);
        return base_fail(err, SLUICE_ERR_MEMORY, GGUF_HINT_MEMORY, "%s: no memory for its shards", first->shown);
    }
    memcpy(path, first->path, prefix_bytes);
    for (uint32_t i = 1; i < count && status == SLUICE_OK; i++) {
        status = open_sibling(g, os, lenient, path, prefix_bytes, i, count, told);
        name_shard(path, prefix_bytes, i + 1, count);
        if (status != SLUICE_OK && go_on(lenient, os, path, &told_missing, &why)) status = SLUICE_OK;
    }
    free(path);
    if (status != SLUICE_OK || g->n_files < count) return status;
    status = check_total(g, told);
    return status != SLUICE_OK && gguf_tolerate(lenient, GGUF_FAULT_SHARD, &why) ? SLUICE_OK : status;
}
