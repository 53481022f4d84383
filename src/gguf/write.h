/* Writes GGUF v3 files: metadata first, then the tensor directory, then data streamed tensor by tensor, so that a file
 * of any size needs memory for its directory only. Writes to PATH.part, which it locks, and renames on success; a
 * failure leaves nothing behind.
 *
 * The first failure sticks: every later call returns it and does nothing, and the calls that take an error report it.
 * So a caller may ignore the statuses of steps 1 and 2. Errors: SLUICE_ERR_USAGE for a wrong call (wrong order, a name
 * twice, too few bytes), SLUICE_ERR_MODEL for a shape or alignment that no reader would accept, SLUICE_ERR_IO,
 * SLUICE_ERR_MEMORY. The key general.alignment is obeyed when it is written. Strings are copied. */
#ifndef GGUF_WRITE_H
#define GGUF_WRITE_H

#include "gguf/gguf.h"

struct gguf_writer; /* opaque */

enum sluice_status gguf_writer_open(const char *path, struct gguf_writer **out, struct sluice_error *err);
/* The same, but what an earlier writer left in PATH.part is kept as far as it equals what is written now: those bytes
 * are read and compared instead of written. Nothing is trusted, so it does not matter what the part file holds. */
enum sluice_status gguf_writer_resume(const char *path, struct gguf_writer **out, struct sluice_error *err);
uint64_t gguf_writer_kept_bytes(const struct gguf_writer *w); /* found equal so far */
/* 1. metadata */
enum sluice_status gguf_write_u32(struct gguf_writer *w, const char *key, uint32_t v);
enum sluice_status gguf_write_f32(struct gguf_writer *w, const char *key, float v);
enum sluice_status gguf_write_bool(struct gguf_writer *w, const char *key, bool v);
enum sluice_status gguf_write_str(struct gguf_writer *w, const char *key, const char *v);
enum sluice_status gguf_write_strs(struct gguf_writer *w, const char *key, const struct gguf_str *v, uint64_t n);
enum sluice_status gguf_write_array(struct gguf_writer *w, const char *key, enum gguf_value_type item, const void *data,
                                    uint64_t n);
enum sluice_status gguf_write_value(struct gguf_writer *w, const struct gguf_value *v); /* a copy from a reader */
/* 2. directory, in the order in which data will be written */
enum sluice_status gguf_write_tensor(struct gguf_writer *w, const char *name, uint32_t type, uint32_t n_dims,
                                     const uint64_t *dims);
/* 3. data: bytes of the tensors one after the other, in pieces of any size; padding is the writer's affair */
enum sluice_status gguf_write_data(struct gguf_writer *w, const void *data, size_t bytes, struct sluice_error *err);
/* Checks that every tensor got all its bytes, syncs, renames. Frees the writer in every case. */
enum sluice_status gguf_writer_finish(struct gguf_writer *w, struct sluice_error *err);
void gguf_writer_abandon(struct gguf_writer *w); /* deletes the part file and frees */
/* Once every tensor got its bytes: they are on the disk, in PATH.part, where they can be checked before they get their
 * name from gguf_writer_finish. */
enum sluice_status gguf_writer_sync(struct gguf_writer *w, struct sluice_error *err);
void gguf_writer_leave(struct gguf_writer *w); /* frees, and leaves the part file to gguf_writer_resume */

#endif
