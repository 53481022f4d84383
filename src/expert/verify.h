/* --verify: bytes that were read are compared with a second read of the same place, and with a stored checksum where
 * there is one. It costs time and changes nothing else. Two reads that differ are a fault of the disk, the cable or the
 * memory (SLUICE_ERR_IO); two that agree and do not match the checksum are a damaged file (SLUICE_ERR_MODEL). */
#ifndef EXPERT_VERIFY_H
#define EXPERT_VERIFY_H

#include "expert/catalog.h"
#include "expert/sums.h"
#include "io/io.h"

struct expert_verify; /* opaque; belongs to io's thread */

/* sums: NULL, or outlives it. */
enum sluice_status expert_verify_create(const struct os_calls *os, struct io *io, const struct expert_sums *sums,
                                        struct expert_verify **out, struct sluice_error *err);
void expert_verify_destroy(struct expert_verify *v);
/* What it takes, its own buffer and io's staging: a row of the ledger. */
size_t expert_verify_memory_bytes(void);

/* Every part of every expert must have a checksum, if there are any: a file of another split of the tensors would check
 * nothing and say nothing. SLUICE_ERR_USAGE names the first without. */
enum sluice_status expert_verify_covers(const struct expert_verify *v, const struct expert_catalog *catalog,
                                        struct sluice_error *err);
/* Are these the bytes of the file? Allocates nothing. A second read that fails is told as io tells it. */
enum sluice_status expert_verify_bytes(struct expert_verify *v, uint32_t file, uint64_t offset, const void *data,
                                       uint64_t bytes, struct sluice_error *err);

uint64_t expert_verify_done_bytes(const struct expert_verify *v); /* compared so far */

#endif
