/* Four lanes take eight bytes each of a stripe of 32; at the end they are merged, the bytes that fill no stripe are
 * mixed in by eight, four and one, and the bits are spread over the word. Numbers are read little-endian. */
#include "base/hash.h"

#include <string.h>

#define P1 UINT64_C(0x9e3779b185ebca87)
#define P2 UINT64_C(0xc2b2ae3d27d4eb4f)
#define P3 UINT64_C(0x165667b19e3779f9)
#define P4 UINT64_C(0x85ebca77c2b2ae63)
#define P5 UINT64_C(0x27d4eb2f165667c5)

static uint64_t rotate(uint64_t v, unsigned n) { return v << n | v >> (64 - n); }

static uint64_t load(const uint8_t *p, unsigned bytes)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < bytes; i++) v |= (uint64_t)p[i] << 8 * i; /* compilers make one load of it */
    return v;
}

static uint64_t round_of(uint64_t lane, uint64_t input) { return rotate(lane + input * P2, 31) * P1; }

static void add_stripes(uint64_t lane[4], const uint8_t *p, size_t n)
{
    uint64_t a = lane[0], b = lane[1], c = lane[2], d = lane[3];
    for (; n > 0; n--, p += BASE_HASH_STRIPE) {
        a = round_of(a, load(p, 8));
        b = round_of(b, load(p + 8, 8));
        c = round_of(c, load(p + 16, 8));
        d = round_of(d, load(p + 24, 8));
    }
    lane[0] = a;
    lane[1] = b;
    lane[2] = c;
    lane[3] = d;
}

void base_hash_init(struct base_hash *h, uint64_t seed)
{
    *h = (struct base_hash){.lane = {seed + P1 + P2, seed + P2, seed, seed - P1}, .seed = seed};
}

void base_hash_add(struct base_hash *h, const void *data, size_t bytes)
{
    const uint8_t *p = data;
    if (bytes == 0) return;
    h->bytes += bytes;
    if (h->n_rest) {
        size_t n = BASE_HASH_STRIPE - h->n_rest < bytes ? BASE_HASH_STRIPE - h->n_rest : bytes;
        memcpy(h->rest + h->n_rest, p, n);
        h->n_rest += n;
        p += n;
        bytes -= n;
        if (h->n_rest < BASE_HASH_STRIPE) return;
        add_stripes(h->lane, h->rest, 1);
        h->n_rest = 0;
    }
    size_t n = bytes / BASE_HASH_STRIPE;
    add_stripes(h->lane, p, n);
    h->n_rest = bytes % BASE_HASH_STRIPE;
    if (h->n_rest) memcpy(h->rest, p + n * BASE_HASH_STRIPE, h->n_rest);
}

uint64_t base_hash_value(const struct base_hash *h)
{
    const uint8_t *p = h->rest;
    size_t left = h->n_rest;
    uint64_t v = h->seed + P5;
    if (h->bytes >= BASE_HASH_STRIPE) {
        v = rotate(h->lane[0], 1) + rotate(h->lane[1], 7) + rotate(h->lane[2], 12) + rotate(h->lane[3], 18);
        for (unsigned i = 0; i < 4; i++) v = (v ^ round_of(0, h->lane[i])) * P1 + P4;
    }
    v += h->bytes;
    for (; left >= 8; left -= 8, p += 8) v = rotate(v ^ round_of(0, load(p, 8)), 27) * P1 + P4;
    if (left >= 4) {
        v = rotate(v ^ load(p, 4) * P1, 23) * P2 + P3;
        left -= 4;
        p += 4;
    }
    for (; left > 0; left--, p++) v = rotate(v ^ *p * P5, 11) * P1;
    v = (v ^ v >> 33) * P2;
    v = (v ^ v >> 29) * P3;
    return v ^ v >> 32;
}

uint64_t base_hash_of(const void *data, size_t bytes, uint64_t seed)
{
    struct base_hash h;
    base_hash_init(&h, seed);
    base_hash_add(&h, data, bytes);
    return base_hash_value(&h);
}
