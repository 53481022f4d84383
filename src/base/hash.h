/* XXH64, a fast 64-bit checksum (not a cryptographic one: it finds damage, not malice). Written from the public
 * specification (xxHash, doc/xxhash_spec.md, "XXH64 algorithm description"). The value depends on the bytes and the
 * seed alone, not on how they were cut into pieces or on the machine. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define BASE_HASH_STRIPE 32

struct base_hash {
    uint64_t lane[4];
    uint64_t seed, bytes; /* bytes: of all so far */
    uint8_t rest[BASE_HASH_STRIPE];
    size_t n_rest; /* bytes that do not fill a stripe yet */
};

void base_hash_init(struct base_hash *h, uint64_t seed);
void base_hash_add(struct base_hash *h, const void *data, size_t bytes);
uint64_t base_hash_value(const struct base_hash *h); /* of what was added so far; more may follow */
uint64_t base_hash_of(const void *data, size_t bytes, uint64_t seed);

#endif
