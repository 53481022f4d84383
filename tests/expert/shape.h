/* Made-up models for the tests of this room. */
#ifndef TESTS_EXPERT_SHAPE_H
#define TESTS_EXPERT_SHAPE_H

#include "expert/catalog.h"

#include <stdint.h>

/* A small generator of numbers, so that a failing run can be repeated (SplitMix64, Steele et al. 2014). */
struct shape_random {
    uint64_t state;
};
static inline uint64_t shape_next(struct shape_random *r)
{
    uint64_t z = (r->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
static inline uint32_t shape_below(struct shape_random *r, uint32_t n) { return (uint32_t)(shape_next(r) % n); }

/* A layer of n_expert experts of three parts, one tensor a part, from *offset on; moves *offset past it. */
static inline struct expert_layer shape_layer(uint32_t n_expert, uint32_t n_used, uint32_t gate, uint32_t up,
                                              uint32_t down, uint32_t file, uint64_t *offset)
{
    struct expert_layer l = {.n_expert = n_expert, .n_used = n_used, .n_parts = 3, .n_parts_first = 2};
    const uint32_t bytes[3] = {gate, up, down};
    for (uint32_t p = 0; p < 3; p++) {
        l.part[p].file = file;
        l.part[p].offset = *offset;
        l.part[p].stride_bytes = bytes[p];
        l.part[p].bytes = bytes[p];
        *offset += (uint64_t)bytes[p] * n_expert;
        *offset = (*offset + 31) / 32 * 32;
    }
    return l;
}

#endif
