/* IQ1_S, IQ1_M: eight values -1, 0 or 1 are a point of a grid of 2048 (iq_tables.h); all eight are moved by + 1/8 or
 * - 1/8. Group g of a block (0..31) holds values 8g .. 8g + 7.
 *
 *   IQ1_S  d, 32 low bytes of indices, eight words: for each 32 values the top three bits of four indices (from the
 *          lowest), a scale in bits 12..14, and the sign of the shift in bit 15 (set: minus)
 *   IQ1_M  32 low bytes of indices, qh[16] (nibble g: the top three bits of group g's index, then the sign of its
 *          shift), four words: scales of three bits, four in the low twelve bits of a word, one a 16 values; the words'
 *          top nibbles, from the first one's as the lowest, are the half d
 *
 * A value is d * (2 * scale + 1) * (point +- 1/8): here d / 8 times 2 * scale + 1 and 8 * point +- 1. */
#include "quant/formats.h"
#include "quant/iq_tables.h"

static void unpack_point(unsigned index, bool minus, int8_t *q)
{
    uint32_t point = quant_iq1_grid[index];
    for (int i = 0; i < 8; i++) q[i] = (int8_t)(8 * ((int)(point >> (4 * i) & 0xf) - 1) + (minus ? -1 : 1));
}

static void unpack_iq1_s(const uint8_t *p, struct quant_block_k *u)
{
    u->d = quant_load_f16(p) * 0.125f;
    for (int j = 0; j < 8; j++) {
        unsigned word = quant_load_u16(p + 34 + 2 * j);
        u->scale[2 * j] = u->scale[2 * j + 1] = (int8_t)(2 * (word >> 12 & 7) + 1);
        for (int l = 0; l < 4; l++)
            unpack_point(p[2 + 4 * j + l] | (word >> (3 * l) & 7) << 8, word >> 15, u->q + 32 * j + 8 * l);
    }
}

static void unpack_iq1_m(const uint8_t *p, struct quant_block_k *u)
{
    unsigned d = 0;
    for (int w = 0; w < 4; w++) {
        unsigned word = quant_load_u16(p + 48 + 2 * w);
        d |= word >> 12 << (4 * w);
        for (int k = 0; k < 4; k++) u->scale[4 * w + k] = (int8_t)(2 * (word >> (3 * k) & 7) + 1);
    }
    u->d = quant_f16_to_f32((uint16_t)d) * 0.125f;
    for (int g = 0; g < 32; g++) {
        unsigned nibble = p[32 + g / 2] >> (4 * (g % 2));
        unpack_point(p[g] | (nibble & 7) << 8, nibble >> 3 & 1, u->q + 8 * g);
    }
}

QUANT_FORMAT_K(iq1_s, 50, false)
QUANT_FORMAT_K(iq1_m, 56, false)
