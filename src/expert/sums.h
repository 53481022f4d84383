/* Checksums of a model's bytes, kept in a file beside it (MODEL.sluice-sums): one for each part of each expert and one
 * for each dense tensor. Knows extents and no names; whoever makes it decides what a unit is.
 *
 * The file, little-endian:
 *
 *     "SLUICSUM", u32 version (1), u32 n_groups, u64 fingerprint of the model, u64 n_sums,
 *     n_groups times: u32 file, u32 n, u64 offset, u64 unit_bytes     n units, one behind the other
 *     n_sums times: u64 XXH64 (seed 0) of a unit                      in the order of the groups
 *     u64 XXH64 (seed 0) of everything before
 *
 * Groups ascend by (file, offset) and do not overlap. A damaged file, one of another version and one of another model
 * are refused. */
#ifndef EXPERT_SUMS_H
#define EXPERT_SUMS_H

#include "base/error.h"
#include "os/os.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPERT_SUMS_SUFFIX ".sluice-sums"
#define EXPERT_SUMS_VERSION 1u
#define EXPERT_SUMS_BYTES_MAX ((uint64_t)256 << 20) /* of the file */

struct expert_sums_group {
    uint32_t file, n;
    uint64_t offset, unit_bytes;
    uint64_t first; /* its first sum; filled in by the room */
};

struct expert_sums {
    uint64_t fingerprint;
    uint32_t n_groups;
    uint64_t n_sums;
    struct expert_sums_group *groups;
    uint64_t *sums; /* [n_sums] */
};

/* Room for the sums of these groups (copied; sorted here), all 0. Groups that are empty or overlap: SLUICE_ERR_RUN. */
enum sluice_status expert_sums_create(const struct expert_sums_group *groups, uint32_t n_groups, uint64_t fingerprint,
                                      struct expert_sums **out, struct sluice_error *err);
void expert_sums_free(struct expert_sums *s);

/* The bytes of the file; *out is malloc'ed. */
enum sluice_status expert_sums_encode(const struct expert_sums *s, uint8_t **out, size_t *bytes,
                                      struct sluice_error *err);
/* optional: a file that does not exist gives SLUICE_OK and *out NULL. Not readable: SLUICE_ERR_IO. Damaged, of another
 * version or of another model: SLUICE_ERR_USAGE (the model itself may be good). */
enum sluice_status expert_sums_read(const struct os_calls *os, const char *path, uint64_t fingerprint, bool optional,
                                    struct expert_sums **out, struct sluice_error *err);

/* The sum of exactly these bytes; false: the file has none. */
bool expert_sums_find(const struct expert_sums *s, uint32_t file, uint64_t offset, uint64_t bytes, uint64_t *sum);

#endif
