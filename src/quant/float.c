/* F32, F16 and BF16: conversions by bits, so that they do not depend on the compiler's half-float support, and the
 * contract's float dot product. */
#include "base/bits.h"
#include "quant/formats.h"

float quant_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t exponent = (h >> 10) & 0x1f, mantissa = h & 0x3ff;
    if (exponent == 0x1f) /* infinity; a NaN is made quiet, as the hardware does */
        return base_f32_of_bits(sign | 0x7f800000 | mantissa << 13 | (mantissa ? 0x400000u : 0));
    if (exponent) return base_f32_of_bits(sign | (exponent + 112) << 23 | mantissa << 13);
    float f = (float)mantissa * 0x1p-24f; /* zero and subnormals: exact */
    return sign ? -f : f;
}

uint16_t quant_f32_to_f16(float f)
{
    uint32_t bits = base_bits_f32(f), a = bits & 0x7fffffff;
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    if (a > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (a >> 13 & 0x3ff));
    if (a >= 0x477ff000) return (uint16_t)(sign | 0x7c00); /* 65520 and above round to infinity */
    if (a < 0x38800000) {                                  /* below 2^-14: a multiple of 2^-24 */
        /* At 0.5 floats are 2^-24 apart, so this addition rounds half to even just there. */
        return (uint16_t)(sign | (base_bits_f32(base_f32_of_bits(a) + 0.5f) - 0x3f000000));
    }
    uint32_t half = a - (112u << 23);
    return (uint16_t)(sign | (half + 0xfff + (half >> 13 & 1)) >> 13);
}

float quant_bf16_to_f32(uint16_t h) { return base_f32_of_bits((uint32_t)h << 16); }

uint16_t quant_f32_to_bf16(float f)
{
    uint32_t bits = base_bits_f32(f);
    if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* ---- dot products: 16 lanes ---- */

#define LANES 16

static float lanes_sum(float lane[LANES])
{
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++) lane[i] = lane[i] + lane[i + half];
    return lane[0];
}

float quant_dot_f32(const float *a, const float *b, size_t n)
{
    float lane[LANES] = {0};
    for (size_t i = 0; i < n; i++) lane[i % LANES] = fmaf(a[i], b[i], lane[i % LANES]);
    return lanes_sum(lane);
}

float quant_dot_row_f32(const void *row, const struct quant_x *x, size_t n)
{
    const uint8_t *p = row;
    float lane[LANES] = {0};
    for (size_t i = 0; i < n; i++) {
        float w;
        memcpy(&w, p + 4 * i, sizeof w);
        lane[i % LANES] = fmaf(w, x->x[i], lane[i % LANES]);
    }
    return lanes_sum(lane);
}

float quant_dot_row_f16(const void *row, const struct quant_x *x, size_t n)
{
    const uint8_t *p = row;
    float lane[LANES] = {0};
    for (size_t i = 0; i < n; i++) lane[i % LANES] = fmaf(quant_load_f16(p + 2 * i), x->x[i], lane[i % LANES]);
    return lanes_sum(lane);
}

float quant_dot_row_bf16(const void *row, const struct quant_x *x, size_t n)
{
    const uint8_t *p = row;
    float lane[LANES] = {0};
    for (size_t i = 0; i < n; i++)
        lane[i % LANES] = fmaf(quant_bf16_to_f32(quant_load_u16(p + 2 * i)), x->x[i], lane[i % LANES]);
    return lanes_sum(lane);
}

/* ---- rows ---- */

void quant_decode_f32(const void *blocks, float *out, size_t n)
{
    if (n) memcpy(out, blocks, n * sizeof *out);
}

void quant_encode_f32(const float *x, void *blocks, size_t n)
{
    if (n) memcpy(blocks, x, n * sizeof *x);
}

void quant_decode_f16(const void *blocks, float *out, size_t n)
{
    const uint8_t *p = blocks;
    for (size_t i = 0; i < n; i++) out[i] = quant_load_f16(p + 2 * i);
}

void quant_encode_f16(const float *x, void *blocks, size_t n)
{
    uint8_t *p = blocks;
    for (size_t i = 0; i < n; i++) quant_store_u16(p + 2 * i, quant_f32_to_f16(x[i]));
}

void quant_decode_bf16(const void *blocks, float *out, size_t n)
{
    const uint8_t *p = blocks;
    for (size_t i = 0; i < n; i++) out[i] = quant_bf16_to_f32(quant_load_u16(p + 2 * i));
}

void quant_encode_bf16(const float *x, void *blocks, size_t n)
{
    uint8_t *p = blocks;
    for (size_t i = 0; i < n; i++) quant_store_u16(p + 2 * i, quant_f32_to_bf16(x[i]));
}
