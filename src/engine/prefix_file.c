#include "engine/prefix_file.h"

#include "base/cursor.h"
#include "base/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FIXED_BYTES 80u /* before the tokens */
#define POSITION_MAX ((uint32_t)1 << 30)
#define PAYLOAD_MAX ((uint64_t)1 << 40)

static const char magic[8] = {'S', 'L', 'U', 'I', 'C', 'E', 'K', 'V'};

static uint8_t *put(uint8_t *p, uint64_t v, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++) *p++ = (uint8_t)(v >> 8 * i);
    return p;
}

size_t prefix_header_put(const struct prefix_header *h, uint8_t *out)
{
    uint8_t *p = out + sizeof magic;
    memcpy(out, magic, sizeof magic);
    p = put(p, PREFIX_FILE_VERSION, 4);
    p = put(p, h->owner.kv_type, 4);
    p = put(p, h->owner.fingerprint, 8);
    p = put(p, h->owner.shape, 8);
    p = put(p, h->id, 8);
    p = put(p, h->parent, 8);
    p = put(p, h->from, 4);
    p = put(p, h->n, 4);
    p = put(p, h->payload_bytes, 8);
    p = put(p, h->payload_hash, 8);
    p = put(p, 0, FIXED_BYTES - (unsigned)(p - out));
    for (uint32_t i = 0; i < h->n; i++) p = put(p, (uint32_t)h->ids[i], 4);
    p = put(p, base_hash_of(out, (size_t)(p - out), 0), 8);
    return (size_t)(p - out);
}

static enum sluice_status damaged(const char *why, struct sluice_error *err)
{
    return base_fail(err, SLUICE_ERR_MODEL, NULL, "%s", why);
}

enum sluice_status prefix_header_read(const uint8_t *data, size_t have, uint64_t file_bytes, struct prefix_header *out,
                                      struct sluice_error *err)
{
    struct base_cursor c, end;
    if (have < FIXED_BYTES) return damaged("it is cut short", err);
    if (memcmp(data, magic, sizeof magic) != 0) return damaged("it does not begin like a kept prefix", err);
    base_cursor_init(&c, data + sizeof magic, have - sizeof magic);
    const uint32_t version = base_cursor_u32(&c);
    if (version != PREFIX_FILE_VERSION)
        return base_fail(err, SLUICE_ERR_USAGE, NULL, "it is of version %" PRIu32 "; this Sluice reads version %u",
                         version, PREFIX_FILE_VERSION);
    out->owner.kv_type = base_cursor_u32(&c);
    out->owner.fingerprint = base_cursor_u64(&c);
    out->owner.shape = base_cursor_u64(&c);
    out->id = base_cursor_u64(&c);
    out->parent = base_cursor_u64(&c);
    out->from = base_cursor_u32(&c);
    out->n = base_cursor_u32(&c);
    out->payload_bytes = base_cursor_u64(&c);
    out->payload_hash = base_cursor_u64(&c);
    if (out->n > PREFIX_RUN) return damaged("its number of tokens is out of range", err);
    const size_t bytes = prefix_header_bytes(out->n);
    if (have < bytes) return damaged("it is cut short", err);
    base_cursor_init(&end, data + bytes - 8, 8);
    if (base_cursor_u64(&end) != base_hash_of(data, bytes - 8, 0))
        return damaged("the checksum of its header does not match", err);
    base_cursor_init(&c, data + FIXED_BYTES, bytes - FIXED_BYTES);
    for (uint32_t i = 0; i < out->n; i++) out->ids[i] = (int32_t)base_cursor_u32(&c);
    /* What follows a right checksum was written so; a writer that was wrong is not believed either. */
    if (out->from > POSITION_MAX || !out->id || out->id > PREFIX_ID_MAX || out->payload_bytes > PAYLOAD_MAX ||
        !out->payload_bytes || (out->parent ? !out->from : out->from || !out->n))
        return damaged("its numbers contradict each other", err);
    for (uint32_t i = 0; i < out->n; i++)
        if (out->ids[i] < 0) return damaged("one of its tokens is out of range", err);
    if (file_bytes != bytes + out->payload_bytes) return damaged("its length is not what its header says", err);
    return SLUICE_OK;
}

void prefix_file_name(uint64_t id, const char *suffix, char out[PREFIX_NAME_BYTES])
{
    snprintf(out, PREFIX_NAME_BYTES, "%016" PRIx64 "%s", id, suffix);
}

uint64_t prefix_file_id(const char *name, const char *suffix)
{
    uint64_t id = 0;
    char again[PREFIX_NAME_BYTES];
    for (int i = 0; i < 16; i++) {
        const char c = name[i];
        const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (digit < 0) return 0;
        id = id << 4 | (uint64_t)digit;
    }
    prefix_file_name(id, suffix, again);
    return id > PREFIX_ID_MAX || strcmp(name, again) ? 0 : id;
}
