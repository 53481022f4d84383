/* One item of a prefix tree as a file. Little-endian:
 *
 *     "SLUICEKV", u32 version (1), u32 KV type, u64 fingerprint of the model, u64 shape (how rows and states are laid
 *     out), u64 id, u64 id of the parent (0: none), u32 from, u32 n (0: a state), u64 payload bytes, u64 XXH64 of the
 *     payload, u64 0, n times u32 token
 *     u64 XXH64 (seed 0) of everything before
 *     the payload
 *
 * Its name is the id in 16 hexadecimal digits and PREFIX_FILE_SUFFIX. The file is written under another name
 * (PREFIX_PART_SUFFIX), synced and renamed: under its own name it is complete. */
#ifndef ENGINE_PREFIX_FILE_H
#define ENGINE_PREFIX_FILE_H

#include "base/error.h"
#include "engine/prefix_tree.h"

#define PREFIX_FILE_VERSION 1u
#define PREFIX_FILE_SUFFIX ".sluice-kv"
#define PREFIX_PART_SUFFIX ".sluice-part"
#define PREFIX_NAME_BYTES 32
#define PREFIX_ID_MAX ((uint64_t)1 << 62) /* what has a larger one is not ours: ids never wrap */
#define PREFIX_HEADER_MAX (80u + PREFIX_RUN * 4 + 8)

/* Whose rows they are: all of it must be equal for a file to be used. */
struct prefix_owner {
    uint64_t fingerprint, shape;
    uint32_t kv_type;
};

struct prefix_header {
    struct prefix_owner owner;
    uint64_t id, parent, payload_bytes, payload_hash;
    uint32_t from, n;
    int32_t ids[PREFIX_RUN];
};

static inline uint64_t prefix_header_bytes(uint32_t n) { return 80 + (uint64_t)n * 4 + 8; }

/* out: room for PREFIX_HEADER_MAX. Returns the header's length. */
size_t prefix_header_put(const struct prefix_header *h, uint8_t *out);
/* The first `have` bytes (PREFIX_HEADER_MAX, or all of the file) of a file of file_bytes. SLUICE_ERR_USAGE: of a newer
 * version, to be left alone. SLUICE_ERR_MODEL: damaged; err says how, without a name. The header is complete if it is
 * OK. */
enum sluice_status prefix_header_read(const uint8_t *data, size_t have, uint64_t file_bytes, struct prefix_header *out,
                                      struct sluice_error *err);

void prefix_file_name(uint64_t id, const char *suffix, char out[PREFIX_NAME_BYTES]);
/* The id that a name with this suffix stands for; 0: it is no such name. */
uint64_t prefix_file_id(const char *name, const char *suffix);

#endif
