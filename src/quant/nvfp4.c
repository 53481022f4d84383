/* NVFP4: 64 values in 36 bytes, four scale bytes and then 8 bytes of nibbles for each 16 values. Byte l of those holds
 * values l (low nibble) and l + 8. In the file four blocks of 16 stand together because of alignment alone: every 16
 * values have their own float scale, so a block of the numeric contract, and of the activations, is 16 values.
 *
 * A nibble is an E2M1 value, doubled here as in MXFP4. A scale byte is an unsigned E4M3 (bit 7 is not looked at),
 * halved here: (1 + m / 8) * 2^(e - 8), or m * 2^-10 where e is 0. ggml reads 0x7f, the format's NaN, as 0, and 0xff as
 * 240; so do we, because the files are ggml's. */
#include "base/bits.h"
#include "quant/formats.h"

#define LEN 64
#define SUB 16
#define BYTES 36

static const int8_t doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* The seven bits as exponent and top of the mantissa of a float are the value times 2^-119, exactly, e = 0 included. */
static float scale_of(uint8_t byte)
{
    if (byte == 0x7f) return 0.0f;
    return base_f32_of_bits((uint32_t)(byte & 0x7f) << 20) * 0x1p119f;
}

static void unpack(const uint8_t *nibbles, int8_t q[SUB])
{
    for (int i = 0; i < 8; i++) {
        q[i] = doubled[nibbles[i] & 0xf];
        q[i + 8] = doubled[nibbles[i] >> 4];
    }
}

void quant_decode_nvfp4(const void *blocks, float *out, size_t n)
{
    const uint8_t *p = blocks;
    int8_t q[SUB];
    for (size_t i = 0; i < n / LEN; i++, p += BYTES)
        for (int s = 0; s < 4; s++, out += SUB) {
            float d = scale_of(p[s]);
            unpack(p + 4 + 8 * s, q);
            for (int k = 0; k < SUB; k++) out[k] = (float)q[k] * d;
        }
}

/* |I| <= 16 * 12 * 128 < 2^15. */
float quant_dot_nvfp4(const void *row, const struct quant_x *x, size_t n)
{
    const uint8_t *p = row;
    int8_t w[SUB];
    float acc = 0.0f;
    for (size_t i = 0; i < n / LEN; i++, p += BYTES)
        for (size_t s = 0; s < 4; s++) {
            const int8_t *q = x->q + i * LEN + s * SUB;
            int32_t sum = 0;
            unpack(p + 4 + 8 * s, w);
            for (int k = 0; k < SUB; k++) sum += w[k] * q[k];
            acc = fmaf(scale_of(p[s]) * x->d[4 * i + s], (float)sum, acc);
        }
    return acc;
}
