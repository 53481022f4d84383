/* Private to x86/: Q4_K and Q5_K with few tokens. */
#ifndef KERNEL_X86_K_FEW_H
#define KERNEL_X86_K_FEW_H

#include "kernel/x86/avx2.h"

void kernel_avx2_q4_k_few(AVX2_PRODUCT_ARGS);
void kernel_avx2_q5_k_few(AVX2_PRODUCT_ARGS);

#endif
