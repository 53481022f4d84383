/* MXFP4 (OCP Microscaling Formats 1.0): an exponent byte e and 32 E2M1 values, nibbles in the order of Q4_0.
 *
 * E2M1 has halves (0.5, 1.5), so the integers here are twice the values and the scale is 2^(e - 128) instead of
 * 2^(e - 127). e = 0 and 1 give subnormal scales. OCP calls e = 255 NaN; ggml reads it as 2^127 after halving, and so
 * do we, because the files are ggml's. */
#include "base/bits.h"
#include "quant/formats.h"

static const int8_t mxfp4_doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

static void unpack_mxfp4(const uint8_t *p, struct quant_block_32 *u)
{
    uint32_t bits = p[0] < 2 ? 0x00200000u << p[0] : (uint32_t)(p[0] - 1) << 23;
    u->d = base_f32_of_bits(bits);
    for (int i = 0; i < 16; i++) {
        u->q[i] = mxfp4_doubled[p[1 + i] & 0xf];
        u->q[i + 16] = mxfp4_doubled[p[1 + i] >> 4];
    }
}

void quant_decode_mxfp4(const void *blocks, float *out, size_t n)
{
    quant_decode_blocks_32(blocks, out, n, 17, false, unpack_mxfp4);
}

float quant_dot_mxfp4(const void *row, const struct quant_x *x, size_t n)
{
    return quant_dot_blocks_32(row, x, n, 17, false, unpack_mxfp4);
}
