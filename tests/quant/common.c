#include "common.h"

#include "base/bits.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t rng_next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

float rng_float(uint64_t *state) { return (float)(int32_t)(rng_next(state) >> 40) * 0x1p-23f - 1.0f; }

void load_golden(const char *name, const char *suffix, void *out, size_t bytes)
{
    const char *source = getenv("SLUICE_SOURCE");
    assert_non_null(source);
    char path[4096];
    snprintf(path, sizeof path, "%s/tests/golden/values/%s%s", source, name, suffix);
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("cannot open %s", path);
    size_t got = fread(out, 1, bytes, f);
    int more = fgetc(f);
    fclose(f);
    if (got != bytes || more != EOF) fail_msg("%s: %zu bytes expected", path, bytes);
}

const struct field fields[] = {
    {QUANT_F32, -1, -1, 0, 1},         {QUANT_F16, -1, -1, 0, 1},        {QUANT_BF16, -1, -1, 0, 1},
    {QUANT_Q4_0, 0, -1, 0, 1},         {QUANT_Q4_1, 0, 2, 1, 1},         {QUANT_Q5_0, 0, -1, 0, 1},
    {QUANT_Q5_1, 0, 2, 1, 1},          {QUANT_Q8_0, 0, -1, 0, 1},        {QUANT_Q2_K, 80, 82, -1, 1},
    {QUANT_Q3_K, 108, -1, 0, 1},       {QUANT_Q4_K, 0, 2, -1, 1},        {QUANT_Q5_K, 0, 2, -1, 1},
    {QUANT_Q6_K, 208, -1, 0, 1},       {QUANT_IQ4_NL, 0, -1, 0, 1},      {QUANT_IQ4_XS, 0, -1, 0, 1},
    {QUANT_MXFP4, 0, -1, 0, 1},        {QUANT_IQ1_S, 0, -1, 0, 0.125f},  {QUANT_IQ1_M, 48, -1, 0, 0.125f},
    {QUANT_IQ2_XXS, 0, -1, 0, 0.125f}, {QUANT_IQ2_XS, 0, -1, 0, 0.125f}, {QUANT_IQ2_S, 0, -1, 0, 0.125f},
    {QUANT_IQ3_XXS, 0, -1, 0, 0.25f},  {QUANT_IQ3_S, 0, -1, 0, 1},       {QUANT_TQ1_0, 52, -1, 0, 1},
    {QUANT_TQ2_0, 64, -1, 0, 1},       {QUANT_NVFP4, 0, -1, 0, 1},
};
const size_t n_fields = sizeof fields / sizeof fields[0];

static void put_half(uint8_t *p, float v)
{
    uint16_t h = quant_f32_to_f16(v);
    p[0] = (uint8_t)(h & 0xff);
    p[1] = (uint8_t)(h >> 8);
}

static float get_half(const uint8_t *p) { return quant_f16_to_f32((uint16_t)(p[0] | p[1] << 8)); }

/* IQ1_M: a nibble in the top of each of four words. */
static void put_spread_half(uint8_t *p, float v)
{
    uint16_t h = quant_f32_to_f16(v);
    for (int i = 0; i < 4; i++) p[2 * i + 1] = (uint8_t)((p[2 * i + 1] & 0xf) | (h >> (4 * i) & 0xf) << 4);
}

static float get_spread_half(const uint8_t *p)
{
    return quant_f16_to_f32((uint16_t)(p[1] >> 4 | (p[3] & 0xf0) | (p[5] & 0xf0) << 4 | (p[7] & 0xf0) << 8));
}

void set_scales(const struct field *f, uint8_t *block, float d, float min)
{
    switch (f->id) {
    case QUANT_MXFP4: block[f->d] = (uint8_t)((base_bits_f32(d) >> 23) + 1); break; /* the scale is 2^(e - 128) */
    case QUANT_NVFP4: memset(block, d == 0.0f ? 0 : (int)(base_bits_f32(d) >> 20) - (119 << 3), 4); break;
    case QUANT_IQ1_M: put_spread_half(block + f->d, d / f->unit); break;
    default: put_half(block + f->d, d / f->unit);
    }
    if (f->min >= 0) put_half(block + f->min, min);
}

float get_d(const struct field *f, const uint8_t *block, size_t sub)
{
    switch (f->id) {
    case QUANT_MXFP4: return base_f32_of_bits((uint32_t)(block[f->d] - 1) << 23);
    case QUANT_NVFP4: return ldexpf((float)(block[sub] % 8 + 8), block[sub] / 8 - 11); /* normal ones, no bit 7 */
    case QUANT_IQ1_M: return get_spread_half(block + f->d) * f->unit;
    default: return get_half(block + f->d) * f->unit;
    }
}

float get_min(const struct field *f, const uint8_t *block) { return f->min < 0 ? 0.0f : get_half(block + f->min); }

void random_blocks(const struct quant_type *t, const struct field *f, size_t n, void *out, uint64_t *state)
{
    uint8_t *p = out;
    size_t bytes = quant_row_bytes(t, n);
    if (t->form == QUANT_FORM_FLOAT) {
        for (size_t i = 0; i < n; i++) {
            float v = rng_float(state);
            t->encode(&v, p + i * t->block_bytes, 1);
        }
        return;
    }
    for (size_t i = 0; i < bytes; i++) p[i] = (uint8_t)(rng_next(state) >> 56);
    for (size_t b = 0; b < n / t->block_len; b++) {
        float d = rng_float(state) * 0.05f, min = rng_float(state) * 0.05f;
        if (f->id == QUANT_MXFP4) d = base_f32_of_bits((uint32_t)(110 + (rng_next(state) >> 61)) << 23);
        if (f->id == QUANT_NVFP4)
            for (size_t i = 0; i < 4; i++) p[b * t->block_bytes + i] = (uint8_t)(0x30 | (rng_next(state) >> 60));
        else
            set_scales(f, p + b * t->block_bytes, d, min);
    }
}
