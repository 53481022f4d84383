/* The K formats: super-blocks of 256 values with integer sub-scales (Q2_K, Q3_K, Q6_K: 16 of 16 values; Q4_K, Q5_K: 8
 * of 32 values, unpacked here as 16). d and dmin are little-endian halves.
 *
 *   Q2_K  scales[16] (low nibble scale, high nibble minimum), qs[64], d, dmin
 *   Q3_K  hmask[32], qs[64], scales[12], d
 *   Q4_K  d, dmin, scales[12], qs[128]
 *   Q5_K  d, dmin, scales[12], qh[32], qs[128]
 *   Q6_K  ql[128], qh[64], scales[16] (signed), d
 *
 * Two-bit values: byte l of half h (32 bytes a half) holds values 128h + l, + 32, + 64, + 96 in its bit pairs from the
 * lowest. Q3_K's third bit of value 128h + 32s + l is bit 4h + s of hmask[l]; q = 3 bits - 4. Four-bit values: byte l
 * of quarter c (32 bytes) holds values 64c + l (low nibble) and 64c + 32 + l; Q5_K's fifth bit of value 32j + l is bit
 * j of qh[l]. Q6_K: half h of ql has 64 bytes, value 128h + 32s + l has the low (s < 2) or high nibble of byte
 * l + 32 (s % 2), and bit pair s of qh byte 32h + l on top; q = 6 bits - 32. */
#include "quant/formats.h"

/* Two-bit values of Q2_K and Q3_K, 0..3. */
static void unpack_two_bits(const uint8_t *qs, int8_t q[QUANT_LEN_K])
{
    for (int h = 0; h < 2; h++)
        for (int s = 0; s < 4; s++)
            for (int l = 0; l < 32; l++) q[128 * h + 32 * s + l] = (int8_t)(qs[32 * h + l] >> (2 * s) & 3);
}

/* Four-bit values of Q4_K and Q5_K, 0..15. */
static void unpack_four_bits(const uint8_t *qs, int8_t q[QUANT_LEN_K])
{
    for (int c = 0; c < 4; c++)
        for (int l = 0; l < 32; l++) {
            q[64 * c + l] = (int8_t)(qs[32 * c + l] & 0xf);
            q[64 * c + 32 + l] = (int8_t)(qs[32 * c + l] >> 4);
        }
}

/* The 12 bytes of Q4_K and Q5_K: 8 scales and 8 minima of 6 bits. The first four of each are the low 6 bits of bytes
 * 0..3 and 4..7; of the other four, the low 4 bits are the nibbles of bytes 8..11 and the top 2 bits lie above the
 * first four. */
static void unpack_six_bit_pairs(const uint8_t *s, struct quant_block_k *u)
{
    for (int j = 0; j < 8; j++) {
        int scale, min;
        if (j < 4) {
            scale = s[j] & 63;
            min = s[j + 4] & 63;
        } else {
            scale = (s[j + 4] & 0xf) | (s[j - 4] >> 6) << 4;
            min = s[j + 4] >> 4 | (s[j] >> 6) << 4;
        }
        u->scale[2 * j] = u->scale[2 * j + 1] = (int8_t)scale;
        u->min[2 * j] = u->min[2 * j + 1] = (uint8_t)min;
    }
}

static void unpack_q2_k(const uint8_t *p, struct quant_block_k *u)
{
    for (int j = 0; j < 16; j++) {
        u->scale[j] = (int8_t)(p[j] & 0xf);
        u->min[j] = p[j] >> 4;
    }
    unpack_two_bits(p + 16, u->q);
    u->d = quant_load_f16(p + 80);
    u->dmin = quant_load_f16(p + 82);
}

static void unpack_q3_k(const uint8_t *p, struct quant_block_k *u)
{
    const uint8_t *s = p + 96;
    unpack_two_bits(p + 32, u->q);
    for (int i = 0; i < QUANT_LEN_K; i++)
        if (!(p[i % 32] >> (i / 32) & 1)) u->q[i] = (int8_t)(u->q[i] - 4);
    /* Scale j: 4 low bits are a nibble of bytes 0..7 (j < 8 low, else high), 2 top bits lie in byte 8 + j % 4. */
    for (int j = 0; j < 16; j++) {
        int low = s[j % 8] >> (j < 8 ? 0 : 4) & 0xf;
        int top = s[8 + j % 4] >> (2 * (j / 4)) & 3;
        u->scale[j] = (int8_t)((low | top << 4) - 32);
        u->min[j] = 0;
    }
    u->d = quant_load_f16(p + 108);
    u->dmin = 0.0f;
}

static void unpack_q4_k(const uint8_t *p, struct quant_block_k *u)
{
    u->d = quant_load_f16(p);
    u->dmin = quant_load_f16(p + 2);
    unpack_six_bit_pairs(p + 4, u);
    unpack_four_bits(p + 16, u->q);
}

static void unpack_q5_k(const uint8_t *p, struct quant_block_k *u)
{
    u->d = quant_load_f16(p);
    u->dmin = quant_load_f16(p + 2);
    unpack_six_bit_pairs(p + 4, u);
    unpack_four_bits(p + 48, u->q);
    for (int i = 0; i < QUANT_LEN_K; i++)
        if (p[16 + i % 32] >> (i / 32) & 1) u->q[i] = (int8_t)(u->q[i] + 16);
}

static void unpack_q6_k(const uint8_t *p, struct quant_block_k *u)
{
    const uint8_t *ql = p, *qh = p + 128;
    for (int h = 0; h < 2; h++)
        for (int s = 0; s < 4; s++)
            for (int l = 0; l < 32; l++) {
                int low = ql[64 * h + 32 * (s % 2) + l] >> (s < 2 ? 0 : 4) & 0xf;
                int top = qh[32 * h + l] >> (2 * s) & 3;
                u->q[128 * h + 32 * s + l] = (int8_t)((low | top << 4) - 32);
            }
    memcpy(u->scale, p + 192, 16);
    memset(u->min, 0, sizeof u->min);
    u->d = quant_load_f16(p + 208);
    u->dmin = 0.0f;
}

void quant_decode_q2_k(const void *blocks, float *out, size_t n)
{
    quant_decode_blocks_k(blocks, out, n, 84, true, unpack_q2_k);
}

float quant_dot_q2_k(const void *row, const struct quant_x *x, size_t n)
{
    return quant_dot_blocks_k(row, x, n, 84, true, unpack_q2_k);
}

void quant_decode_q3_k(const void *blocks, float *out, size_t n)
{
    quant_decode_blocks_k(blocks, out, n, 110, false, unpack_q3_k);
}

float quant_dot_q3_k(const void *row, const struct quant_x *x, size_t n)
{
    return quant_dot_blocks_k(row, x, n, 110, false, unpack_q3_k);
}

void quant_decode_q4_k(const void *blocks, float *out, size_t n)
{
    quant_decode_blocks_k(blocks, out, n, 144, true, unpack_q4_k);
}

float quant_dot_q4_k(const void *row, const struct quant_x *x, size_t n)
{
    return quant_dot_blocks_k(row, x, n, 144, true, unpack_q4_k);
}

void quant_decode_q5_k(const void *blocks, float *out, size_t n)
{
    quant_decode_blocks_k(blocks, out, n, 176, true, unpack_q5_k);
}

float quant_dot_q5_k(const void *row, const struct quant_x *x, size_t n)
{
    return quant_dot_blocks_k(row, x, n, 176, true, unpack_q5_k);
}

void quant_decode_q6_k(const void *blocks, float *out, size_t n)
{
    quant_decode_blocks_k(blocks, out, n, 210, false, unpack_q6_k);
}

float quant_dot_q6_k(const void *row, const struct quant_x *x, size_t n)
{
    return quant_dot_blocks_k(row, x, n, 210, false, unpack_q6_k);
}
