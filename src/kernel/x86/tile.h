/* Private to x86/: products of many tokens, for all formats with int8 activations in blocks of 32 or 256.
 *
 * Work goes in slabs: 256 successive values (fewer at the end of a row), for which 64 tokens' activations are copied
 * together once for 128 rows. 16 rows at a time are unpacked once for all tokens, turned so that a lane holds a row's
 * successive values; activations are spread over the lanes, three tokens at a time, and everything that is added up in
 * between stays in registers. No sum across lanes is left. */
#ifndef KERNEL_X86_TILE_H
#define KERNEL_X86_TILE_H

#include "kernel/x86/avx2.h"

#define TILE_LEN 256

/* How the integers of a sub-block come about; n is the number of values whose products are added in 16 bits. */
enum tile_kind {
    TILE_UNSIGNED_32, /* unsigned weights and signed activations, n = 32 */
    TILE_UNSIGNED_16, /* n = 16 */
    TILE_SIGNED_32,   /* signed weights and activations that are 128 too large; the weights' sum corrects it */
    TILE_SIGNED_16,
    TILE_SIGNED_8,
    TILE_SIGNED_4,
    TILE_WORDS /* both as words, products of words added in 32 bits */
};

/* 8 rows of a slab. */
struct tile_slab {
    __m256i q[TILE_LEN / 2]; /* lane r: values 4i .. 4i + 3 of row r; TILE_WORDS: words 2i and 2i + 1 */
    __m256i scale[16];       /* blocks of 256: lane r: sub-scale i of row r, twice (not with TILE_WORDS) */
    __m256i mins[8];         /* blocks of 256: lane r: minima 2i and 2i + 1 of row r, of 16 or 32 values each */
    __m256 d[8], m[8];       /* lane r: block i's factors of row r */
    __m256i correction[8];   /* TILE_SIGNED: what the activations' 128 added to block i of row r */
};

struct tile_format {
    size_t block_len, block_bytes; /* 32 or 256 values */
    enum tile_kind kind;
    bool has_scales, has_min, mins_of_32; /* the first and the last: blocks of 256 alone */
    /* 8 rows from block `at`, which is a multiple of 8 where blocks have 32 values; n_blocks: 1 or up to 8 of those.
     * Fills what the kind and the flags name, but for the correction. */
    void (*unpack)(const struct avx2_rows *g, size_t block, size_t n_blocks, struct tile_slab *u);
};

void kernel_avx2_tile(const struct tile_format *f, AVX2_PRODUCT_ARGS);

#endif
