/* IQ3_XXS, IQ3_S: four values are a point of a grid (iq_tables.h), with a bit of sign each. Point k of a block (0..63)
 * holds values 4k .. 4k + 3.
 *
 *   IQ3_XXS  d, 64 index bytes, for each 32 values a word of signs and scale as in IQ2_XXS
 *   IQ3_S    d, 64 low bytes of indices, qh[8] (bit j of byte c: the top of point 8c + j's index), 32 bytes of signs,
 *            scales[4] (a nibble for each 32 values, low one first)
 *
 * A value is d * (scale + 1/2) / 2 * magnitude in IQ3_XXS: here d / 4 times 2 * scale + 1 and magnitude. In IQ3_S it is
 * d * (2 * scale + 1) * magnitude. */
#include "quant/formats.h"
#include "quant/iq_tables.h"

static void unpack_iq3_xxs(const uint8_t *p, struct quant_block_k *u)
{
    u->d = quant_load_f16(p) * 0.25f;
    for (int j = 0; j < 8; j++) {
        uint32_t word = quant_load_u32(p + 66 + 4 * j);
        u->scale[2 * j] = u->scale[2 * j + 1] = (int8_t)(2 * (word >> 28) + 1);
        for (int l = 0; l < 4; l++) {
            const uint8_t *index = p + 2 + 8 * j + 2 * l;
            unsigned signs = quant_eight_signs(word >> (7 * l) & 127);
            quant_unpack_signed(quant_iq3xxs_grid[index[0]], 4, signs, u->q + 32 * j + 8 * l);
            quant_unpack_signed(quant_iq3xxs_grid[index[1]], 4, signs >> 4, u->q + 32 * j + 8 * l + 4);
        }
    }
}

static void unpack_iq3_s(const uint8_t *p, struct quant_block_k *u)
{
    u->d = quant_load_f16(p);
    for (int j = 0; j < 16; j++) u->scale[j] = (int8_t)(2 * (p[106 + j / 4] >> (4 * (j / 2 % 2)) & 0xf) + 1);
    for (int k = 0; k < 64; k++) {
        unsigned top = p[66 + k / 8] >> (k % 8) & 1;
        quant_unpack_signed(quant_iq3s_grid[p[2 + k] | top << 8], 4, p[74 + k / 2] >> (4 * (k % 2)), u->q + 4 * k);
    }
}

QUANT_FORMAT_K(iq3_xxs, 98, false)
QUANT_FORMAT_K(iq3_s, 110, false)
