/* The one place from which the levels above AVX2 take their intrinsics. The tests put a header of the same name before
 * it that emulates them, so that the same sources run on processors without AVX-512 and without tiles. */
#ifndef KERNEL_X86_INTRINSICS_H
#define KERNEL_X86_INTRINSICS_H

#include <immintrin.h>

#endif
