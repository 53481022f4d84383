/* Inside the room: one parsed file, and the steps from bytes to a struct gguf. Steps: sniff (is it GGUF at all),
 * header (metadata and directory, offsets only), layout (do the tensors lie where they can), then gguf.c joins shards.
 */
#ifndef GGUF_PRIVATE_H
#define GGUF_PRIVATE_H

#include "gguf/gguf.h"
#include "gguf/source.h"
#include "gguf/table.h"

#define GGUF_KEY_BYTES_MAX 65535
#define GGUF_VALUES_MAX (1u << 20)
#define GGUF_TENSORS_MAX (1u << 22)
#define GGUF_SHARDS_MAX 99999 /* five digits in the name */
#define GGUF_ALIGNMENT_DEFAULT 32
#define GGUF_ALIGNMENT_MIN 8
#define GGUF_ALIGNMENT_MAX (1u << 24)
#define GGUF_SURPLUS_BYTES_MAX (1u << 20) /* behind the last tensor */

#define GGUF_KEY_ALIGNMENT "general.alignment"
#define GGUF_KEY_SPLIT_NO "split.no"
#define GGUF_KEY_SPLIT_COUNT "split.count"
#define GGUF_KEY_SPLIT_TENSORS "split.tensors.count"

/* A value while its file is parsed (positions) and after (pointers). */
struct gguf_entry {
    struct gguf_value v;
    size_t key_at, data_at;
};

/* A directory entry: file positions while parsing; v is complete after gguf_file_layout. */
struct gguf_row {
    struct gguf_tensor t;
    size_t name_at, name_bytes;
};

struct gguf_file {
    char *path;
    const char *shown; /* within path */
    uint64_t bytes, header_bytes, alignment;
    uint32_t version;
    uint8_t *head; /* from byte 0 to the end of the metadata; entries point into it */
    size_t head_bytes;
    struct gguf_entry *entries;
    size_t n_entries, room_entries;
    struct gguf_table keys;
    struct gguf_row *rows;
    size_t n_rows, room_rows;
    char *names; /* the tensors' names, NUL-terminated, one after the other */
    size_t names_bytes;
};

uint16_t gguf_load_u16(const uint8_t *p);
uint32_t gguf_load_u32(const uint8_t *p);
uint64_t gguf_load_u64(const uint8_t *p);
/* Bytes of one item of a type with fixed size, 0 for strings, arrays and unknown types. */
size_t gguf_value_type_bytes(enum gguf_value_type type);

/* The first bytes of the file: OK if they open a GGUF that this room reads, else says what the file is. */
enum sluice_status gguf_sniff(struct gguf_source *s, uint32_t *version, struct sluice_error *err);

/* By its name a piece of one file ("model.gguf.part1of3", "model.gguf-split-a"), to be joined with others before use.
 */
bool gguf_is_raw_piece(const char *path);

/* Parses everything from the source (which stays open). *out is complete except for the tensors' `shard`; on failure
 * nothing is left. */
enum sluice_status gguf_file_read(struct gguf_source *s, const char *path, struct gguf_file **out,
                                  struct sluice_error *err);
void gguf_file_free(struct gguf_file *f); /* may be NULL */
/* Frees the metadata, which only shard 1's readers need. */
void gguf_file_drop_values(struct gguf_file *f);
size_t gguf_file_memory_bytes(const struct gguf_file *f);
const struct gguf_value *gguf_file_find(const struct gguf_file *f, const char *key);
enum sluice_status gguf_file_u32(const struct gguf_file *f, const char *key, bool required, uint32_t *out,
                                 struct sluice_error *err);

/* Checks shapes and offsets of f's rows against the file's size, makes offsets absolute. Rows hold relative offsets. */
enum sluice_status gguf_file_layout(struct gguf_file *f, struct gguf_source *s, struct sluice_error *err);
/* One tensor's type and dimensions; fills t->bytes. Also the writer's check. */
enum sluice_status gguf_tensor_measure(const char *shown, struct gguf_tensor *t, struct sluice_error *err);
enum sluice_status gguf_alignment_check(const char *shown, uint64_t alignment, struct sluice_error *err);

/* The immutable whole; its shards' files are files[0 .. n_files). */
struct gguf {
    struct gguf_file **files;
    struct gguf_shard *shards; /* [n_files] */
    size_t n_files;
    struct gguf_tensor *tensors;
    size_t n_tensors;
    struct gguf_table names;
};

/* The other shards of a split model whose shard 1 is g->files[0]; no-op for a model in one file. os NULL: in memory,
 * where a split model is refused. */
enum sluice_status gguf_open_shards(struct gguf *g, const struct os_calls *os, const struct gguf_lenience *lenient,
                                    struct sluice_error *err);

#endif
