/* Activations to int8, block by block (README.md, "Activations"). */
#include "base/assert.h"
#include "base/bits.h"
#include "quant/formats.h"

/* Adding it to |v| < 2^22 rounds to an integer, half to even. */
#define ROUND 0x1.8p+23f

static void quantise_block(const float *x, size_t len, int8_t *q, float *d, int16_t *sums)
{
    /* The largest magnitude, compared as bits: a NaN or an infinity is then the largest of all. */
    uint32_t top = 0;
    for (size_t i = 0; i < len; i++) {
        uint32_t bits = base_bits_f32(x[i]) & 0x7fffffff;
        if (bits > top) top = bits;
    }
    float amax = base_f32_of_bits(top);
    float inverse = 127.0f / amax; /* +inf for zero and for amax below about 3.7e-37 */
    if (top >= 0x7f800000)
        *d = base_f32_of_bits(0x7fc00000);
    else
        *d = isinf(inverse) ? 0.0f : amax / 127.0f;
    if (top >= 0x7f800000 || isinf(inverse)) {
        memset(q, 0, len);
        memset(sums, 0, len / 16 * sizeof *sums);
        return;
    }
    for (size_t i = 0; i < len; i++) q[i] = (int8_t)((x[i] * inverse + ROUND) - ROUND);
    for (size_t j = 0; j < len / 16; j++) {
        int sum = 0;
        for (size_t i = 16 * j; i < 16 * j + 16; i++) sum += q[i];
        sums[j] = (int16_t)sum;
    }
}

void quant_activations(enum quant_form form, const float *x, size_t n, int8_t *q, float *d, int16_t *sums)
{
    if (form == QUANT_FORM_FLOAT) return;
    size_t len = quant_form_len(form);
    BASE_ASSERT(n % len == 0, "Q1 a row is a whole number of blocks");
    for (size_t b = 0; b < n / len; b++) quantise_block(x + b * len, len, q + b * len, d + b, sums + b * (len / 16));
}
