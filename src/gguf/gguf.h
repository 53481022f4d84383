/* GGUF v2 and v3: metadata and the tensor directory of one model, possibly split over several files. Reads no weights.
 * Format: the public GGUF specification (ggml/docs/gguf.md); facts restated in src/gguf/README.md.
 *
 * Everything in a file is untrusted: all counts, lengths, offsets and names are checked against the file's size before
 * they are used, and each refusal names the file, the key or tensor and the number. A struct gguf is immutable after
 * gguf_open and may be read by several threads. Strings inside it are not NUL-terminated in the file: struct gguf_str
 * carries a length. All pointers live as long as the struct gguf. */
#ifndef GGUF_GGUF_H
#define GGUF_GGUF_H

#include "base/error.h"
#include "os/os.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gguf_value_type {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
};

#define GGUF_DIMS_MAX 4
#define GGUF_NAME_BYTES_MAX 127 /* of a tensor name, as in ggml; longer is refused */

struct gguf; /* opaque */

struct gguf_str {
    const char *at;
    size_t bytes;
};

struct gguf_value {
    struct gguf_str key;
    enum gguf_value_type type;
    enum gguf_value_type item_type; /* of an array; else equal to type */
    uint64_t n;                     /* items of an array; 1 otherwise */
    const void *data;               /* raw little-endian items, unaligned; strings: each behind a u64 length */
    const void *index_;             /* arrays of strings: private table of offsets */
};

struct gguf_tensor {
    const char *name; /* NUL-terminated */
    uint32_t type;    /* ggml type id; quant_type(id) may not know it */
    uint32_t n_dims;
    uint64_t dims[GGUF_DIMS_MAX]; /* ne0 (contiguous) first; unused ones are 1 */
    uint32_t shard;               /* index of the file that holds it */
    uint64_t offset;              /* absolute byte offset in that file */
    uint64_t bytes;
};

struct gguf_shard {
    const char *path;
    uint64_t bytes;        /* size of the file */
    uint64_t header_bytes; /* where the tensor data begins */
};

/* Opens the model at path (for a split model: shard 1, "...-00001-of-0000N.gguf"; the other shards are found beside
 * it). Metadata bytes alone are read. Errors: SLUICE_ERR_IO (cannot open or read), SLUICE_ERR_MODEL (everything about
 * the content). */
enum sluice_status gguf_open(const struct os_calls *os, const char *path, struct gguf **out, struct sluice_error *err);
/* The same over one file in memory (fuzzing, tests). The bytes are copied as needed. */
enum sluice_status gguf_open_memory(const void *data, size_t bytes, const char *name, struct gguf **out,
                                    struct sluice_error *err);
void gguf_close(struct gguf *g);

/* For a look at a file that gguf_open would refuse: goes on as far as it can and tells of each fault. Tensors of types
 * whose layout is not known have 0 bytes here, which is no fault; nothing else that gguf_open promises of tensors
 * holds. Fails for what cannot be gone on from: no GGUF at all, a header that is damaged or cut off. */
enum gguf_fault {
    GGUF_FAULT_CUT,    /* tensors reach beyond the end of a file */
    GGUF_FAULT_SHARD,  /* a shard is missing, damaged or not this model's */
    GGUF_FAULT_LAYOUT, /* tensors that lie wrongly, occur twice, or leave much of the file over */
    GGUF_FAULT_LATER,  /* this is another shard than the first, which has what is to be known of the model */
};
typedef void gguf_fault_fn(void *user, enum gguf_fault kind, const struct sluice_error *fault);
enum sluice_status gguf_open_lenient(const struct os_calls *os, const char *path, gguf_fault_fn *fault, void *user,
                                     struct gguf **out, struct sluice_error *err);

uint32_t gguf_version(const struct gguf *g);
uint64_t gguf_alignment(const struct gguf *g);
size_t gguf_n_shards(const struct gguf *g);
const struct gguf_shard *gguf_shard(const struct gguf *g, size_t i);
size_t gguf_n_values(const struct gguf *g); /* of shard 1 */
const struct gguf_value *gguf_value(const struct gguf *g, size_t i);
size_t gguf_n_tensors(const struct gguf *g); /* of all shards, in file order */
const struct gguf_tensor *gguf_tensor(const struct gguf *g, size_t i);
const struct gguf_tensor *gguf_find_tensor(const struct gguf *g, const char *name); /* NULL if absent; O(1) */
const struct gguf_value *gguf_find(const struct gguf *g, const char *key);          /* NULL if absent; O(1) */
size_t gguf_memory_bytes(const struct gguf *g);                                     /* what this struct holds */
/* Stands for this model in files that lie beside it: a hash of metadata, directory and file sizes (not of weights, not
 * of paths). Reads nothing. */
uint64_t gguf_fingerprint(const struct gguf *g);

/* Typed items. i < value->n. Integers of any width convert if the value fits; a bool counts as an integer. */
bool gguf_item_u64(const struct gguf_value *v, uint64_t i, uint64_t *out);
bool gguf_item_i64(const struct gguf_value *v, uint64_t i, int64_t *out);
bool gguf_item_f64(const struct gguf_value *v, uint64_t i, double *out); /* from floats and integers */
bool gguf_item_bool(const struct gguf_value *v, uint64_t i, bool *out);
bool gguf_item_str(const struct gguf_value *v, uint64_t i, struct gguf_str *out);

/* Scalars by key. `required`: absence is an error that names the key. A key of the wrong type is always an error. An
 * absent optional leaves *out as it was. */
enum sluice_status gguf_get_u32(const struct gguf *g, const char *key, bool required, uint32_t *out,
                                struct sluice_error *err);
enum sluice_status gguf_get_f32(const struct gguf *g, const char *key, bool required, float *out,
                                struct sluice_error *err);
enum sluice_status gguf_get_bool(const struct gguf *g, const char *key, bool required, bool *out,
                                 struct sluice_error *err);
enum sluice_status gguf_get_str(const struct gguf *g, const char *key, bool required, struct gguf_str *out,
                                struct sluice_error *err);

/* What kind of file it is, and in words ("a LoRA adapter"). Architectures that are not known count as language models.
 */
enum gguf_kind {
    GGUF_LANGUAGE_MODEL,
    GGUF_VOCABULARY, /* of one, without weights */
    GGUF_PROJECTOR,
    GGUF_ADAPTER,
    GGUF_IMATRIX,
    GGUF_CONTROL_VECTOR,
    GGUF_EMBEDDING_MODEL,
    GGUF_SPEECH_MODEL,
    GGUF_IMAGE_MODEL,
    GGUF_NO_MODEL, /* no architecture */
};
enum gguf_kind gguf_kind(const struct gguf *g);
const char *gguf_kind_text(enum gguf_kind kind);
/* SLUICE_OK if the file is a language model with tensors; `vocab_only` waives the tensors. The error says what the file
 * is instead. */
enum sluice_status gguf_check_language_model(const struct gguf *g, bool vocab_only, struct sluice_error *err);

const char *gguf_value_type_name(enum gguf_value_type type);

#endif
