#include "expert/verify.h"

#include "base/hash.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW_BYTES ((size_t)512 << 10)        /* compared at once */
#define STAGING_SLACK_BYTES ((size_t)128 << 10) /* of io's staging: head and tail of an aligned read */

struct expert_verify {
    const struct os_calls *os;
    struct io *io;
    const struct expert_sums *sums;
    uint64_t done_bytes;
    uint8_t *window; /* [WINDOW_BYTES] */
};

enum sluice_status expert_verify_create(const struct os_calls *os, struct io *io, const struct expert_sums *sums,
                                        struct expert_verify **out, struct sluice_error *err)
{
    *out = NULL;
    struct expert_verify *v = calloc(1, sizeof *v);
    if (v) {
        *v = (struct expert_verify){.os = os, .io = io, .sums = sums, .window = os->reserve(os->user, WINDOW_BYTES)};
        if (v->window && os->commit(os->user, v->window, WINDOW_BYTES) == 0) {
            *out = v;
            return SLUICE_OK;
        }
    }
    expert_verify_destroy(v);
    return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for the second reads of --verify");
}

void expert_verify_destroy(struct expert_verify *v)
{
    if (!v) return;
    if (v->window) v->os->release(v->os->user, v->window, WINDOW_BYTES);
    free(v);
}

size_t expert_verify_memory_bytes(void) { return 2 * WINDOW_BYTES + STAGING_SLACK_BYTES; }

uint64_t expert_verify_done_bytes(const struct expert_verify *v) { return v->done_bytes; }

enum sluice_status expert_verify_covers(const struct expert_verify *v, const struct expert_catalog *catalog,
                                        struct sluice_error *err)
{
    uint64_t sum;
    if (!v->sums) return SLUICE_OK;
    for (uint32_t layer = 0; layer < expert_catalog_n_layers(catalog); layer++) {
        const struct expert_layer *l = expert_catalog_layer(catalog, layer);
        for (uint32_t e = 0; e < l->n_expert; e++)
            for (uint32_t p = 0; p < l->n_parts; p++) {
                struct expert_extent x = expert_catalog_extent(catalog, layer, e, p);
                if (!expert_sums_find(v->sums, x.file, x.offset, x.bytes, &sum))
                    return base_fail(err, SLUICE_ERR_USAGE, "write it again with 'sluice checksum', or remove it",
                                     "the file of checksums has none for layer %u, expert %u, part %u", layer, e,
                                     p + 1);
            }
    }
    return SLUICE_OK;
}

static enum sluice_status differ(struct expert_verify *v, uint32_t file, uint64_t at, uint8_t first, uint8_t second,
                                 struct sluice_error *err)
{
    return base_fail(err, SLUICE_ERR_IO,
                     "the disk, its cable or the machine's memory is at fault: look into the system log, test both",
                     "%.300s: two reads differ at byte %" PRIu64 ": 0x%02x, then 0x%02x", io_file_path(v->io, file), at,
                     first, second);
}

enum sluice_status expert_verify_bytes(struct expert_verify *v, uint32_t file, uint64_t offset, const void *data,
                                       uint64_t bytes, struct sluice_error *err)
{
    const uint8_t *had = data;
    uint64_t stored;
    bool has_sum = v->sums && expert_sums_find(v->sums, file, offset, bytes, &stored);
    struct base_hash h;
    base_hash_init(&h, 0);
    for (uint64_t at = 0; at < bytes;) {
        size_t n = bytes - at < WINDOW_BYTES ? (size_t)(bytes - at) : WINDOW_BYTES;
        enum sluice_status status = io_read_now(v->io, file, offset + at, v->window, n, err);
        if (status) return status;
        if (memcmp(had + at, v->window, n) != 0) {
            size_t i = 0;
            while (had[at + i] == v->window[i]) i++;
            return differ(v, file, offset + at + i, had[at + i], v->window[i], err);
        }
        if (has_sum) base_hash_add(&h, had + at, n);
        at += n;
    }
    v->done_bytes += bytes;
    if (has_sum && base_hash_value(&h) != stored)
        return base_fail(err, SLUICE_ERR_MODEL,
                         "the file is damaged: fetch it again ('sluice verify' lists everything that is damaged)",
                         "%.300s: the %" PRIu64 " bytes from byte %" PRIu64 " on have checksum %016" PRIx64
                         ", stored is %016" PRIx64,
                         io_file_path(v->io, file), bytes, offset, base_hash_value(&h), stored);
    return SLUICE_OK;
}
