/* Private to x86/: Q4_K and Q5_K with few tokens, and unpacked for many. */
#ifndef KERNEL_X86_K45_H
#define KERNEL_X86_K45_H

#include "kernel/x86/tile.h"

void kernel_avx2_q4_k_few(AVX2_PRODUCT_ARGS);
void kernel_avx2_q5_k_few(AVX2_PRODUCT_ARGS);
/* tile_format's unpack */
void kernel_avx2_unpack_q4_k(const struct avx2_rows *g, size_t block, size_t n_blocks, struct tile_slab *u);
void kernel_avx2_unpack_q5_k(const struct avx2_rows *g, size_t block, size_t n_blocks, struct tile_slab *u);

#endif
