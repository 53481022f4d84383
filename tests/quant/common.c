#include "common.h"

#include "base/bits.h"

#include <stdio.h>
#include <stdlib.h>

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
    {QUANT_F32, -1, -1, 0},   {QUANT_F16, -1, -1, 0},   {QUANT_BF16, -1, -1, 0},  {QUANT_Q4_0, 0, -1, 0},
    {QUANT_Q4_1, 0, 2, 1},    {QUANT_Q5_0, 0, -1, 0},   {QUANT_Q5_1, 0, 2, 1},    {QUANT_Q8_0, 0, -1, 0},
    {QUANT_Q2_K, 80, 82, -1}, {QUANT_Q3_K, 108, -1, 0}, {QUANT_Q4_K, 0, 2, -1},   {QUANT_Q5_K, 0, 2, -1},
    {QUANT_Q6_K, 208, -1, 0}, {QUANT_IQ4_NL, 0, -1, 0}, {QUANT_IQ4_XS, 0, -1, 0}, {QUANT_MXFP4, 0, -1, 0},
};
const size_t n_fields = sizeof fields / sizeof fields[0];

static void put_half(uint8_t *p, float v)
{
    uint16_t h = quant_f32_to_f16(v);
    p[0] = (uint8_t)(h & 0xff);
    p[1] = (uint8_t)(h >> 8);
}

static float get_half(const uint8_t *p) { return quant_f16_to_f32((uint16_t)(p[0] | p[1] << 8)); }

void set_scales(const struct field *f, uint8_t *block, float d, float min)
{
    if (f->id == QUANT_MXFP4)
        block[f->d] = (uint8_t)((base_bits_f32(d) >> 23) + 1); /* the scale is 2^(e - 128) */
    else
        put_half(block + f->d, d);
    if (f->min >= 0) put_half(block + f->min, min);
}

float get_d(const struct field *f, const uint8_t *block)
{
    if (f->id == QUANT_MXFP4) return base_f32_of_bits((uint32_t)(block[f->d] - 1) << 23);
    return get_half(block + f->d);
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
        set_scales(f, p + b * t->block_bytes, d, min);
    }
}
