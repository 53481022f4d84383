/* The non-linear four-bit formats: a nibble is an index into 16 fixed values.
 *
 *   IQ4_NL  d, 16 bytes as Q4_0
 *   IQ4_XS  d, scales_h (16 bits), scales_l[4], qs[128]; 8 sub-blocks of 32 values, 16 bytes each; sub-scale j has its
 *           low 4 bits in nibble j of scales_l, its top 2 bits in bit pair j of scales_h, and is worth 6 bits - 32 */
#include "quant/formats.h"

/* ggml's table kvalues_iq4nl (ggml-common.h, MIT). */
static const int8_t iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

static void unpack_indices(const uint8_t *qs, int8_t *q)
{
    for (int i = 0; i < 16; i++) {
        q[i] = iq4_values[qs[i] & 0xf];
        q[i + 16] = iq4_values[qs[i] >> 4];
    }
}

static void unpack_iq4_nl(const uint8_t *p, struct quant_block_32 *u)
{
    u->d = quant_load_f16(p);
    unpack_indices(p + 2, u->q);
}

static void unpack_iq4_xs(const uint8_t *p, struct quant_block_k *u)
{
    uint16_t high = quant_load_u16(p + 2);
    u->d = quant_load_f16(p);
    u->dmin = 0.0f;
    for (int j = 0; j < 8; j++) {
        int low = p[4 + j / 2] >> (4 * (j % 2)) & 0xf;
        int top = high >> (2 * j) & 3;
        u->scale[2 * j] = u->scale[2 * j + 1] = (int8_t)((low | top << 4) - 32);
        u->min[2 * j] = u->min[2 * j + 1] = 0;
        unpack_indices(p + 8 + 16 * j, u->q + 32 * j);
    }
}

void quant_decode_iq4_nl(const void *blocks, float *out, size_t n)
{
    quant_decode_blocks_32(blocks, out, n, 18, false, unpack_iq4_nl);
}

float quant_dot_iq4_nl(const void *row, const struct quant_x *x, size_t n)
{
    return quant_dot_blocks_32(row, x, n, 18, false, unpack_iq4_nl);
}

void quant_decode_iq4_xs(const void *blocks, float *out, size_t n)
{
    quant_decode_blocks_k(blocks, out, n, 136, false, unpack_iq4_xs);
}

float quant_dot_iq4_xs(const void *row, const struct quant_x *x, size_t n)
{
    return quant_dot_blocks_k(row, x, n, 136, false, unpack_iq4_xs);
}
