/* The ternary formats: values -1, 0, 1 times d.
 *
 *   TQ1_0  qs[48], qh[4], d: five values a byte, as digits in base 3. Byte l of the first 32 holds values l, l + 32,
 * ..., l + 128; byte l of the next 16 values 160 + l, + 16, ...; byte l of qh 240 + l, + 4, + 8, + 12. A byte is
 *          ceil(256 / 243 * number), so that a digit is what an 8-bit product by 3 carries out, the first value's first
 *   TQ2_0  qs[64], d: bit pairs in the order of Q2_K (k.c), minus 1; the pair 3 is a 2, which encoders do not write
 *
 * Both have no sub-scales: they are 1. */
#include "quant/encode.h"
#include "quant/formats.h"

/* Digit n (0 is the first value's) of a byte, minus 1. Any byte gives -1, 0 or 1. */
static int8_t digit(uint8_t byte, int n)
{
    static const uint8_t power[5] = {1, 3, 9, 27, 81};
    uint8_t rest = (uint8_t)(byte * power[n]);
    return (int8_t)((rest * 3 >> 8) - 1);
}

static void unpack_tq1_0(const uint8_t *p, struct quant_block_k *u)
{
    memset(u->scale, 1, sizeof u->scale);
    for (int i = 0; i < 160; i++) u->q[i] = digit(p[i % 32], i / 32);
    for (int i = 0; i < 80; i++) u->q[160 + i] = digit(p[32 + i % 16], i / 16);
    for (int i = 0; i < 16; i++) u->q[240 + i] = digit(p[48 + i % 4], i / 4);
    u->d = quant_load_f16(p + 52);
}

static void unpack_tq2_0(const uint8_t *p, struct quant_block_k *u)
{
    memset(u->scale, 1, sizeof u->scale);
    for (int i = 0; i < QUANT_LEN_K; i++) u->q[i] = (int8_t)((p[i / 128 * 32 + i % 32] >> (2 * (i / 32 % 4)) & 3) - 1);
    u->d = quant_load_f16(p + 64);
}

QUANT_FORMAT_K(tq1_0, 54, false)
QUANT_FORMAT_K(tq2_0, 66, false)

/* ---- encoders ---- */

/* Shell's sort, largest first. */
static void sort_descending(float *v, int n)
{
    static const int gaps[] = {57, 23, 10, 4, 1};
    for (int g = 0; g < 5; g++)
        for (int i = gaps[g]; i < n; i++) {
            float moved = v[i];
            int at = i;
            for (; at >= gaps[g] && v[at - gaps[g]] < moved; at -= gaps[g]) v[at] = v[at - gaps[g]];
            v[at] = moved;
        }
}

/* The scale with the least squared error. If k values are not zero they are the k largest, the best scale is their mean
 * and takes sum^2 / k off the error; so all k are tried. Returns the half; q are -1, 0, 1. */
static uint16_t fit(const float *x, int8_t *q)
{
    if (!quant_all_finite(x, QUANT_LEN_K)) {
        memset(q, 0, QUANT_LEN_K);
        return QUANT_F16_NAN;
    }
    float size[QUANT_LEN_K];
    for (int i = 0; i < QUANT_LEN_K; i++) size[i] = fabsf(x[i]);
    sort_descending(size, QUANT_LEN_K);
    double sum = 0.0, best = 0.0, mean = 0.0, d;
    for (int k = 1; k <= QUANT_LEN_K; k++) {
        sum += (double)size[k - 1];
        if (sum * sum / k <= best) continue;
        best = sum * sum / k;
        mean = sum / k;
    }
    uint16_t half = quant_half_of(mean, &d);
    quant_round_all(x, QUANT_LEN_K, d, -1, 1, q);
    return half;
}

void quant_encode_tq1_0(const float *x, void *blocks, size_t n)
{
    static const struct {
        int first, bytes, digits;
    } parts[] = {{0, 32, 5}, {160, 16, 5}, {240, 4, 4}};
    uint8_t *p = blocks;
    int8_t q[QUANT_LEN_K];
    for (size_t b = 0; b < n / QUANT_LEN_K; b++, x += QUANT_LEN_K) {
        uint16_t half = fit(x, q);
        for (int part = 0; part < 3; part++)
            for (int l = 0; l < parts[part].bytes; l++) {
                int number = 0;
                for (int k = 0; k < 5; k++)
                    number = 3 * number +
                             (k < parts[part].digits ? q[parts[part].first + k * parts[part].bytes + l] + 1 : 0);
                *p++ = (uint8_t)((number * 256 + 242) / 243);
            }
        quant_store_u16(p, half);
        p += 2;
    }
}

void quant_encode_tq2_0(const float *x, void *blocks, size_t n)
{
    uint8_t *p = blocks;
    int8_t q[QUANT_LEN_K];
    for (size_t b = 0; b < n / QUANT_LEN_K; b++, x += QUANT_LEN_K, p += 66) {
        uint16_t half = fit(x, q);
        memset(p, 0, 64);
        for (int i = 0; i < QUANT_LEN_K; i++) p[i / 128 * 32 + i % 32] |= (uint8_t)((q[i] + 1) << (2 * (i / 32 % 4)));
        quant_store_u16(p + 64, half);
    }
}
