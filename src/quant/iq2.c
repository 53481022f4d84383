/* IQ2_XXS, IQ2_XS, IQ2_S: eight values are a point of a grid (iq_tables.h), with a bit of sign each. Group g of a block
 * (0..31) holds values 8g .. 8g + 7.
 *
 *   IQ2_XXS  d, then for each 32 values four index bytes and a 32-bit word: four times seven sign bits, from the
 * lowest, and a scale in the top four bits IQ2_XS   d, 32 words (index in the low nine bits, seven sign bits above),
 * scales[8] (nibbles, low one first) IQ2_S    d, 32 low bytes of indices, 32 bytes of signs, qh[8] (bit pair l of byte
 * j: the top of group 4j + l's index), scales[8]
 *
 * Sign bit i set: value i is negative. Where seven bits are stored, the eighth makes their number even. A value is
 * d * (scale + 1/2) / 4 * magnitude: here d / 8 times the integers 2 * scale + 1 and magnitude. */
#include "quant/formats.h"
#include "quant/iq_tables.h"

void quant_unpack_signed(uint64_t point, int n, unsigned signs, int8_t *q)
{
    for (int i = 0; i < n; i++) {
        int magnitude = (int)(point >> (8 * i) & 0xff);
        q[i] = (int8_t)(signs >> i & 1 ? -magnitude : magnitude);
    }
}

unsigned quant_eight_signs(unsigned seven)
{
    unsigned parity = seven ^ seven >> 4;
    parity ^= parity >> 2;
    parity ^= parity >> 1;
    return seven | (parity & 1) << 7;
}

/* Nibble j of the scales belongs to values 16j .. 16j + 15. */
static void unpack_nibble_scales(const uint8_t *s, struct quant_block_k *u)
{
    for (int j = 0; j < 16; j++) u->scale[j] = (int8_t)(2 * (s[j / 2] >> (4 * (j % 2)) & 0xf) + 1);
}

static void unpack_iq2_xxs(const uint8_t *p, struct quant_block_k *u)
{
    u->d = quant_load_f16(p) * 0.125f;
    for (int j = 0; j < 8; j++) {
        const uint8_t *index = p + 2 + 8 * j;
        uint32_t word = quant_load_u32(index + 4);
        u->scale[2 * j] = u->scale[2 * j + 1] = (int8_t)(2 * (word >> 28) + 1);
        for (int l = 0; l < 4; l++)
            quant_unpack_signed(quant_iq2xxs_grid[index[l]], 8, quant_eight_signs(word >> (7 * l) & 127),
                                u->q + 32 * j + 8 * l);
    }
}

static void unpack_iq2_xs(const uint8_t *p, struct quant_block_k *u)
{
    u->d = quant_load_f16(p) * 0.125f;
    unpack_nibble_scales(p + 66, u);
    for (int g = 0; g < 32; g++) {
        unsigned word = quant_load_u16(p + 2 + 2 * g);
        quant_unpack_signed(quant_iq2xs_grid[word & 511], 8, quant_eight_signs(word >> 9), u->q + 8 * g);
    }
}

static void unpack_iq2_s(const uint8_t *p, struct quant_block_k *u)
{
    u->d = quant_load_f16(p) * 0.125f;
    unpack_nibble_scales(p + 74, u);
    for (int g = 0; g < 32; g++) {
        unsigned top = p[66 + g / 4] >> (2 * (g % 4)) & 3;
        quant_unpack_signed(quant_iq2s_grid[p[2 + g] | top << 8], 8, p[34 + g], u->q + 8 * g);
    }
}

QUANT_FORMAT_K(iq2_xxs, 66, false)
QUANT_FORMAT_K(iq2_xs, 74, false)
QUANT_FORMAT_K(iq2_s, 82, false)
