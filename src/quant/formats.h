/* Inside the room: the functions behind the rows of table.c, and the two generic shapes that most formats share.
 *
 * A format of blocks of 32 unpacks a block into 32 int8 values, a scale and (for some) a minimum; a K format into 256
 * int8 values, 16 integer sub-scales, 16 integer sub-minima and the two floats that multiply them. decode and dot are
 * then written once for each shape, which is where the numeric contract stands in code. */
#ifndef QUANT_FORMATS_H
#define QUANT_FORMATS_H

#include "quant/quant.h"

#include <math.h> /* fmaf alone */
#include <string.h>

#define QUANT_LEN_32 32
#define QUANT_LEN_K 256

/* value i = d * q[i] + m */
struct quant_block_32 {
    float d;
    float m;
    int8_t q[QUANT_LEN_32];
};

/* value i = d * scale[i / 16] * q[i] - dmin * min[i / 16] */
struct quant_block_k {
    float d;
    float dmin;
    int8_t scale[16];
    uint8_t min[16];
    int8_t q[QUANT_LEN_K];
};

static inline uint16_t quant_load_u16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }

static inline void quant_store_u16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)(v & 0xff);
    p[1] = (uint8_t)(v >> 8);
}

static inline uint32_t quant_load_u32(const uint8_t *p)
{
    return quant_load_u16(p) | (uint32_t)quant_load_u16(p + 2) << 16;
}

static inline float quant_load_f16(const uint8_t *p) { return quant_f16_to_f32(quant_load_u16(p)); }

static inline void quant_decode_blocks_32(const void *blocks, float *out, size_t n, size_t block_bytes, bool has_min,
                                          void (*unpack)(const uint8_t *, struct quant_block_32 *))
{
    const uint8_t *p = blocks;
    struct quant_block_32 u;
    for (size_t b = 0; b < n / QUANT_LEN_32; b++, p += block_bytes, out += QUANT_LEN_32) {
        unpack(p, &u);
        for (int i = 0; i < QUANT_LEN_32; i++) {
            out[i] = (float)u.q[i] * u.d;
            if (has_min) out[i] += u.m;
        }
    }
}

/* |I| <= 32 * 128 * 128 < 2^20 for every format of this shape. */
static inline float quant_dot_blocks_32(const void *row, const struct quant_x *x, size_t n, size_t block_bytes,
                                        bool has_min, void (*unpack)(const uint8_t *, struct quant_block_32 *))
{
    const uint8_t *p = row;
    struct quant_block_32 u;
    float acc = 0.0f;
    for (size_t b = 0; b < n / QUANT_LEN_32; b++, p += block_bytes) {
        unpack(p, &u);
        const int8_t *q = x->q + b * QUANT_LEN_32;
        int32_t sum = 0;
        for (int i = 0; i < QUANT_LEN_32; i++) sum += u.q[i] * q[i];
        acc = fmaf(u.d * x->d[b], (float)sum, acc);
        if (has_min) {
            int32_t s = x->sums[2 * b] + x->sums[2 * b + 1];
            acc = fmaf(u.m * x->d[b], (float)s, acc);
        }
    }
    return acc;
}

static inline void quant_decode_blocks_k(const void *blocks, float *out, size_t n, size_t block_bytes, bool has_min,
                                         void (*unpack)(const uint8_t *, struct quant_block_k *))
{
    const uint8_t *p = blocks;
    struct quant_block_k u = {0}; /* a format without minima leaves them alone */
    for (size_t b = 0; b < n / QUANT_LEN_K; b++, p += block_bytes, out += QUANT_LEN_K) {
        unpack(p, &u);
        for (int i = 0; i < QUANT_LEN_K; i++) {
            out[i] = u.d * (float)u.scale[i / 16] * (float)u.q[i];
            if (has_min) out[i] -= u.dmin * (float)u.min[i / 16];
        }
    }
}

/* Bounds for any bytes whatever, with |x.q| <= 128: |I| <= 256 * max|scale| * max|q| * 128, which is
 *   Q2_K 15 * 3 -> 1.5e6; Q3_K 32 * 4 -> 4.2e6; Q4_K 63 * 15 -> 3.1e7; Q5_K 63 * 31 -> 6.4e7; Q6_K 128 * 32 -> 1.35e8;
 *   IQ4_XS 32 * 127 -> 1.34e8; IQ1 15 * 9 -> 4.5e6; IQ2 31 * 43 -> 4.4e7; IQ3_XXS 31 * 62 -> 6.3e7; IQ3_S 31 * 15 ->
 *   1.6e7; TQ 2 -> 6.6e4: all below 2^31 = 2.1e9. The sum of minima: 256 * 63 * 128 -> 2.1e6. */
static inline float quant_dot_blocks_k(const void *row, const struct quant_x *x, size_t n, size_t block_bytes,
                                       bool has_min, void (*unpack)(const uint8_t *, struct quant_block_k *))
{
    const uint8_t *p = row;
    struct quant_block_k u = {0};
    float acc = 0.0f;
    for (size_t b = 0; b < n / QUANT_LEN_K; b++, p += block_bytes) {
        unpack(p, &u);
        const int8_t *q = x->q + b * QUANT_LEN_K;
        const int16_t *sums = x->sums + b * (QUANT_LEN_K / 16);
        int32_t total = 0, min_total = 0;
        for (int j = 0; j < 16; j++) {
            int32_t sum = 0;
            for (int i = 16 * j; i < 16 * j + 16; i++) sum += u.q[i] * q[i];
            total += u.scale[j] * sum;
            min_total += u.min[j] * sums[j];
        }
        acc = fmaf(u.d * x->d[b], (float)total, acc);
        if (has_min) acc = fmaf(-u.dmin * x->d[b], (float)min_total, acc);
    }
    return acc;
}

/* decode and dot of a format of this shape, by its unpack_NAME. */
#define QUANT_FORMAT_K(name, bytes, has_min)                                   \
    void quant_decode_##name(const void *blocks, float *out, size_t n)         \
    {                                                                          \
        quant_decode_blocks_k(blocks, out, n, bytes, has_min, unpack_##name);  \
    }                                                                          \
    float quant_dot_##name(const void *row, const struct quant_x *x, size_t n) \
    {                                                                          \
        return quant_dot_blocks_k(row, x, n, bytes, has_min, unpack_##name);   \
    }

/* float.c */
void quant_decode_f32(const void *blocks, float *out, size_t n);
void quant_encode_f32(const float *x, void *blocks, size_t n);
float quant_dot_row_f32(const void *row, const struct quant_x *x, size_t n);
void quant_decode_f16(const void *blocks, float *out, size_t n);
void quant_encode_f16(const float *x, void *blocks, size_t n);
float quant_dot_row_f16(const void *row, const struct quant_x *x, size_t n);
void quant_decode_bf16(const void *blocks, float *out, size_t n);
void quant_encode_bf16(const float *x, void *blocks, size_t n);
float quant_dot_row_bf16(const void *row, const struct quant_x *x, size_t n);

/* legacy.c */
void quant_decode_q4_0(const void *blocks, float *out, size_t n);
float quant_dot_q4_0(const void *row, const struct quant_x *x, size_t n);
void quant_decode_q4_1(const void *blocks, float *out, size_t n);
float quant_dot_q4_1(const void *row, const struct quant_x *x, size_t n);
void quant_decode_q5_0(const void *blocks, float *out, size_t n);
float quant_dot_q5_0(const void *row, const struct quant_x *x, size_t n);
void quant_decode_q5_1(const void *blocks, float *out, size_t n);
float quant_dot_q5_1(const void *row, const struct quant_x *x, size_t n);
void quant_decode_q8_0(const void *blocks, float *out, size_t n);
float quant_dot_q8_0(const void *row, const struct quant_x *x, size_t n);

/* k.c */
void quant_decode_q2_k(const void *blocks, float *out, size_t n);
float quant_dot_q2_k(const void *row, const struct quant_x *x, size_t n);
void quant_decode_q3_k(const void *blocks, float *out, size_t n);
float quant_dot_q3_k(const void *row, const struct quant_x *x, size_t n);
void quant_decode_q4_k(const void *blocks, float *out, size_t n);
float quant_dot_q4_k(const void *row, const struct quant_x *x, size_t n);
void quant_decode_q5_k(const void *blocks, float *out, size_t n);
float quant_dot_q5_k(const void *row, const struct quant_x *x, size_t n);
void quant_decode_q6_k(const void *blocks, float *out, size_t n);
float quant_dot_q6_k(const void *row, const struct quant_x *x, size_t n);

/* iq1.c */
void quant_decode_iq1_s(const void *blocks, float *out, size_t n);
float quant_dot_iq1_s(const void *row, const struct quant_x *x, size_t n);
void quant_decode_iq1_m(const void *blocks, float *out, size_t n);
float quant_dot_iq1_m(const void *row, const struct quant_x *x, size_t n);

/* iq2.c */
/* n magnitudes, a byte each from the lowest; bit i of signs: value i is negative. */
void quant_unpack_signed(uint64_t point, int n, unsigned signs, int8_t *q);
/* The eighth bit makes the number of set bits even. */
unsigned quant_eight_signs(unsigned seven);
void quant_decode_iq2_xxs(const void *blocks, float *out, size_t n);
float quant_dot_iq2_xxs(const void *row, const struct quant_x *x, size_t n);
void quant_decode_iq2_xs(const void *blocks, float *out, size_t n);
float quant_dot_iq2_xs(const void *row, const struct quant_x *x, size_t n);
void quant_decode_iq2_s(const void *blocks, float *out, size_t n);
float quant_dot_iq2_s(const void *row, const struct quant_x *x, size_t n);

/* iq3.c */
void quant_decode_iq3_xxs(const void *blocks, float *out, size_t n);
float quant_dot_iq3_xxs(const void *row, const struct quant_x *x, size_t n);
void quant_decode_iq3_s(const void *blocks, float *out, size_t n);
float quant_dot_iq3_s(const void *row, const struct quant_x *x, size_t n);

/* iq4.c */
void quant_decode_iq4_nl(const void *blocks, float *out, size_t n);
float quant_dot_iq4_nl(const void *row, const struct quant_x *x, size_t n);
void quant_decode_iq4_xs(const void *blocks, float *out, size_t n);
float quant_dot_iq4_xs(const void *row, const struct quant_x *x, size_t n);

/* mxfp4.c */
void quant_decode_mxfp4(const void *blocks, float *out, size_t n);
float quant_dot_mxfp4(const void *row, const struct quant_x *x, size_t n);

/* nvfp4.c */
void quant_decode_nvfp4(const void *blocks, float *out, size_t n);
float quant_dot_nvfp4(const void *row, const struct quant_x *x, size_t n);

/* tq.c */
void quant_decode_tq1_0(const void *blocks, float *out, size_t n);
float quant_dot_tq1_0(const void *row, const struct quant_x *x, size_t n);
void quant_decode_tq2_0(const void *blocks, float *out, size_t n);
float quant_dot_tq2_0(const void *row, const struct quant_x *x, size_t n);
void quant_encode_tq1_0(const float *x, void *blocks, size_t n);
void quant_encode_tq2_0(const float *x, void *blocks, size_t n);

/* encode.c, encode_k.c */
void quant_encode_q4_0(const float *x, void *blocks, size_t n);
void quant_encode_q8_0(const float *x, void *blocks, size_t n);
void quant_encode_q4_k(const float *x, void *blocks, size_t n);
void quant_encode_q6_k(const float *x, void *blocks, size_t n);

#endif
