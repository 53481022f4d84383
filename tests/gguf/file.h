/* GGUF files put together byte by byte, right or wrong, and what the reader says about them. */
#ifndef TEST_GGUF_FILE_H
#define TEST_GGUF_FILE_H

#include "gguf/gguf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct file {
    uint8_t *data;
    size_t bytes, room;
};

void file_raw(struct file *f, const void *data, size_t bytes);
void file_zeros(struct file *f, size_t bytes);
void file_u8(struct file *f, uint8_t v);
void file_u16(struct file *f, uint16_t v);
void file_u32(struct file *f, uint32_t v);
void file_u64(struct file *f, uint64_t v);
void file_str(struct file *f, const char *s); /* length and bytes */
void file_head(struct file *f, uint32_t version, uint64_t n_tensors, uint64_t n_values);
void file_key(struct file *f, const char *key, uint32_t type);
void file_key_array(struct file *f, const char *key, uint32_t item_type, uint64_t n);
void file_key_u32(struct file *f, const char *key, uint32_t v);
void file_key_u16(struct file *f, const char *key, uint16_t v);
void file_key_str(struct file *f, const char *key, const char *v);
void file_tensor(struct file *f, const char *name, uint32_t type, uint32_t n_dims, const uint64_t *dims,
                 uint64_t offset);
void file_tensor_1d(struct file *f, const char *name, uint32_t type, uint64_t ne0, uint64_t offset);
void file_pad(struct file *f, size_t alignment);
/* Sets the 8 bytes at `at`. */
void file_poke_u64(struct file *f, size_t at, uint64_t v);
void file_free(struct file *f);

/* A small good model: architecture "llama", tensors "a" (Q8_0, 64 elements, 68 bytes) and "b" (F32, 4 x 2). */
void file_model(struct file *f);
/* One shard: metadata of a split and n F32 tensors of 8 elements "PREFIX0", "PREFIX1", ... */
void file_shard(struct file *f, uint16_t no, uint16_t count, uint32_t n_all, unsigned n, const char *prefix);

struct gguf *file_open(const struct file *f);
/* Fails the test unless opening f fails with `status`, and message and hint together contain all the texts (NULL
 * ends them); the message always names the file, and there is always a hint. */
void file_refused(const struct file *f, enum sluice_status status, ...);
void error_says(const struct sluice_error *err, enum sluice_status status, ...);

/* A new folder that folder_remove deletes with everything in it. */
char *folder_make(void);
void folder_remove(char *folder);
/* folder/name; the result lives until the next call but seven. */
const char *folder_path(const char *folder, const char *name);
void file_save(const struct file *f, const char *path);
void file_load(struct file *f, const char *path);

#endif
