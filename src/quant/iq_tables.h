/* The grids of the IQ formats: an index of a file stands for a point, eight (IQ3: four) values at once. The values are
 * those of ggml-common.h (ggml, MIT). Kernels read the same tables.
 *
 *   IQ2  a byte a value, the first one lowest: magnitudes 8, 25, 43 (eighths of the real ones); signs are in the block
 *   IQ3  a byte a value: IQ3_XXS 4, 12, 20, 28, 36, 44, 52, 62; IQ3_S odd numbers up to 15; signs are in the block
 *   IQ1  a nibble a value, the first one lowest: 0, 1, 2 for -1, 0, 1 */
#ifndef QUANT_IQ_TABLES_H
#define QUANT_IQ_TABLES_H

#include <stdint.h>

extern const uint64_t quant_iq2xxs_grid[256];
extern const uint64_t quant_iq2xs_grid[512];
extern const uint64_t quant_iq2s_grid[1024];
extern const uint32_t quant_iq3xxs_grid[256];
extern const uint32_t quant_iq3s_grid[512];
extern const uint32_t quant_iq1_grid[2048]; /* of both IQ1_S and IQ1_M */

#endif
