/* The formats of blocks of 32 with one scale: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0. Floats are little-endian halves.
 *
 *   Q4_0  d, 16 bytes: low nibbles are values 0..15, high ones 16..31; q = nibble - 8
 *   Q4_1  d, m, 16 bytes; q = nibble
 *   Q5_0  d, 32 fifth bits (bit i for value i), 16 bytes; q = 5 bits - 16
 *   Q5_1  d, m, 32 fifth bits, 16 bytes; q = 5 bits
 *   Q8_0  d, 32 signed bytes */
#include "quant/formats.h"

static void unpack_nibbles(const uint8_t *qs, int offset, int8_t q[QUANT_LEN_32])
{
    for (int i = 0; i < 16; i++) {
        q[i] = (int8_t)((qs[i] & 0xf) - offset);
        q[i + 16] = (int8_t)((qs[i] >> 4) - offset);
    }
}

static void unpack_five_bits(const uint8_t *high, const uint8_t *qs, int offset, int8_t q[QUANT_LEN_32])
{
    unpack_nibbles(qs, offset, q);
    for (int i = 0; i < QUANT_LEN_32; i++)
        if (high[i / 8] >> (i % 8) & 1) q[i] = (int8_t)(q[i] + 16);
}

static void unpack_q4_0(const uint8_t *p, struct quant_block_32 *u)
{
    u->d = quant_load_f16(p);
    unpack_nibbles(p + 2, 8, u->q);
}

static void unpack_q4_1(const uint8_t *p, struct quant_block_32 *u)
{
    u->d = quant_load_f16(p);
    u->m = quant_load_f16(p + 2);
    unpack_nibbles(p + 4, 0, u->q);
}

static void unpack_q5_0(const uint8_t *p, struct quant_block_32 *u)
{
    u->d = quant_load_f16(p);
    unpack_five_bits(p + 2, p + 6, 16, u->q);
}

static void unpack_q5_1(const uint8_t *p, struct quant_block_32 *u)
{
    u->d = quant_load_f16(p);
    u->m = quant_load_f16(p + 2);
    unpack_five_bits(p + 4, p + 8, 0, u->q);
}

static void unpack_q8_0(const uint8_t *p, struct quant_block_32 *u)
{
    u->d = quant_load_f16(p);
    memcpy(u->q, p + 2, QUANT_LEN_32);
}

void quant_decode_q4_0(const void *blocks, float *out, size_t n)
{
    quant_decode_blocks_32(blocks, out, n, 18, false, unpack_q4_0);
}

float quant_dot_q4_0(const void *row, const struct quant_x *x, size_t n)
{
    return quant_dot_blocks_32(row, x, n, 18, false, unpack_q4_0);
}

void quant_decode_q4_1(const void *blocks, float *out, size_t n)
{
    quant_decode_blocks_32(blocks, out, n, 20, true, unpack_q4_1);
}

float quant_dot_q4_1(const void *row, const struct quant_x *x, size_t n)
{
    return quant_dot_blocks_32(row, x, n, 20, true, unpack_q4_1);
}

void quant_decode_q5_0(const void *blocks, float *out, size_t n)
{
    quant_decode_blocks_32(blocks, out, n, 22, false, unpack_q5_0);
}

float quant_dot_q5_0(const void *row, const struct quant_x *x, size_t n)
{
    return quant_dot_blocks_32(row, x, n, 22, false, unpack_q5_0);
}

void quant_decode_q5_1(const void *blocks, float *out, size_t n)
{
    quant_decode_blocks_32(blocks, out, n, 24, true, unpack_q5_1);
}

float quant_dot_q5_1(const void *row, const struct quant_x *x, size_t n)
{
    return quant_dot_blocks_32(row, x, n, 24, true, unpack_q5_1);
}

void quant_decode_q8_0(const void *blocks, float *out, size_t n)
{
    quant_decode_blocks_32(blocks, out, n, 34, false, unpack_q8_0);
}

float quant_dot_q8_0(const void *row, const struct quant_x *x, size_t n)
{
    return quant_dot_blocks_32(row, x, n, 34, false, unpack_q8_0);
}
