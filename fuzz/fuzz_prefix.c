/* The header of a kept prefix: the input is the beginning of a file, behind a byte that says by how much the file is
 * longer; its highest bit: the checksum is put right first, so that what lies behind that check is reached. */
#include "fuzz.h"

#include "base/hash.h"
#include "engine/prefix_file.h"

#include <string.h>

#define N_AT 60u /* of the header: where its number of tokens stands */

static void put_hash(uint8_t *data, size_t bytes)
{
    if (bytes < N_AT + 4) return;
    const size_t n = data[N_AT] | (size_t)data[N_AT + 1] << 8, end = 80 + n * 4;
    if (end + 8 > bytes) return;
    const uint64_t hash = base_hash_of(data, end, 0);
    for (unsigned i = 0; i < 8; i++) data[end + i] = (uint8_t)(hash >> 8 * i);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct prefix_header h = {0};
    struct sluice_error err = {0};
    uint8_t again[PREFIX_HEADER_MAX];
    if (bytes < 2) return 0;
    const uint64_t longer = data[0] & 0x7f;
    const size_t have = bytes - 1 < PREFIX_HEADER_MAX ? bytes - 1 : PREFIX_HEADER_MAX;
    uint8_t *copy = malloc(have); /* exact: a sanitizer sees what is read behind it */
    if (!copy) return 0;
    memcpy(copy, data + 1, have);
    if (data[0] & 0x80) put_hash(copy, have);
    const enum sluice_status st = prefix_header_read(copy, have, bytes - 1 + longer, &h, &err);
    if (st) {
        FUZZ_CHECK((st == SLUICE_ERR_MODEL || st == SLUICE_ERR_USAGE) && err.message[0]);
    } else {
        FUZZ_CHECK(h.id && h.n <= PREFIX_RUN && h.payload_bytes);
        FUZZ_CHECK(prefix_header_bytes(h.n) + h.payload_bytes == bytes - 1 + longer);
        const size_t n = prefix_header_put(&h, again); /* what was read is what is written */
        FUZZ_CHECK(n == prefix_header_bytes(h.n) && n <= have);
        FUZZ_CHECK(!memcmp(again, copy, 72));
    }
    free(copy);
    return 0;
}
