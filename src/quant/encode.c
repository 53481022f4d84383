/* Encoders of Q4_0 and Q8_0, and what they share with those of Q4_K and Q6_K (encode_k.c).
 *
 * Each looks for the integers and scales with the least squared error. For given scales the best integers follow by
 * rounding, and for given integers the best scale is a quotient of sums, so a handful of starting scales is tried and
 * each improved by that quotient. Sums are in double: squares of any float fit. Scales are then rounded to what the
 * format stores, and the integers are chosen anew for the stored scales, which are what a reader will use.
 *
 * Finite input gives finite scales: magnitudes beyond 65504 times the largest integer saturate. A block with a NaN or
 * infinity gets a NaN scale and is thus visible. */
#include "quant/encode.h"
#include "base/assert.h"
#include "quant/formats.h"

#define F16_MAX 65504.0

static double square(double v) { return v * v; }

bool quant_all_finite(const float *x, size_t n)
{
    bool finite = true;
    for (size_t i = 0; i < n; i++) finite &= isfinite(x[i]) != 0;
    return finite;
}

/* The clamp comes first, so that the rounding constant may be added. */
int quant_round_clamped(double v, int lo, int hi)
{
    if (v < lo) v = lo;
    if (v > hi) v = hi;
    return (int)((v + 0x1.8p52) - 0x1.8p52);
}

uint16_t quant_half_of(double v, double *value)
{
    if (v > F16_MAX) v = F16_MAX;
    if (v < -F16_MAX) v = -F16_MAX;
    uint16_t h = quant_f32_to_f16((float)v);
    *value = quant_f16_to_f32(h);
    return h;
}

double quant_round_all(const float *x, int n, double d, int lo, int hi, int8_t *q)
{
    double error = 0.0, inverse = d == 0.0 ? 0.0 : 1.0 / d;
    for (int i = 0; i < n; i++) {
        q[i] = (int8_t)quant_round_clamped(x[i] * inverse, lo, hi);
        error += square(x[i] - d * q[i]);
    }
    return error;
}

/* ---- one scale, no minimum ---- */

#define SCALE_TRIES 9

/* -lo = hi + 1: there is one more negative integer, so the value of largest magnitude goes best to lo, which makes d
 * negative if that value is positive. The tries put it around lo (0.8 to either side) and around hi. */
double quant_search_scale(const float *x, int n, int lo, int hi)
{
    BASE_ASSERT(n <= QUANT_LEN_32, "the scratch of an encoder holds a sub-block");
    int8_t q[QUANT_LEN_32];
    double top = 0.0, best = 0.0, least = INFINITY;
    for (int i = 0; i < n; i++)
        if (fabsf(x[i]) > fabs(top)) top = x[i];
    if (top == 0.0) return 0.0;
    for (int side = 0; side < 2; side++)
        for (int t = 0; t < SCALE_TRIES; t++) {
            double d = top / ((side ? hi : lo) + 0.2 * (t - SCALE_TRIES / 2));
            for (int pass = 0; pass < 2; pass++) {
                double error = quant_round_all(x, n, d, lo, hi, q), xq = 0.0, qq = 0.0;
                if (error < least) {
                    least = error;
                    best = d;
                }
                for (int i = 0; i < n; i++) {
                    xq += (double)x[i] * q[i];
                    qq += (double)q[i] * q[i];
                }
                if (qq == 0.0) break;
                d = xq / qq; /* the best scale for these integers */
            }
        }
    return best;
}

void quant_encode_q4_0(const float *x, void *blocks, size_t n)
{
    BASE_ASSERT(n % QUANT_LEN_32 == 0, "Q1 a row is a whole number of blocks");
    uint8_t *p = blocks;
    for (size_t b = 0; b < n / QUANT_LEN_32; b++, x += QUANT_LEN_32, p += 18) {
        int8_t q[QUANT_LEN_32] = {0};
        uint16_t h = QUANT_F16_NAN;
        if (quant_all_finite(x, QUANT_LEN_32)) {
            double d;
            h = quant_half_of(quant_search_scale(x, QUANT_LEN_32, -8, 7), &d);
            quant_round_all(x, QUANT_LEN_32, d, -8, 7, q);
        }
        quant_store_u16(p, h);
        for (int i = 0; i < 16; i++) p[2 + i] = (uint8_t)((q[i] + 8) | (q[i + 16] + 8) << 4);
    }
}

/* Q8_0 is also a format of the KV cache, so it is plain and all float, for vector versions to repeat: d is the half
 * nearest to amax / 127 (saturated), q = x * (1 / d) rounded half to even and clamped to +-127; d = 0 gives q = 0. */
void quant_encode_q8_0(const float *x, void *blocks, size_t n)
{
    BASE_ASSERT(n % QUANT_LEN_32 == 0, "Q1 a row is a whole number of blocks");
    uint8_t *p = blocks;
    for (size_t b = 0; b < n / QUANT_LEN_32; b++, x += QUANT_LEN_32, p += 34) {
        memset(p + 2, 0, QUANT_LEN_32);
        if (!quant_all_finite(x, QUANT_LEN_32)) {
            quant_store_u16(p, QUANT_F16_NAN);
            continue;
        }
        float amax = 0.0f;
        for (int i = 0; i < QUANT_LEN_32; i++)
            if (fabsf(x[i]) > amax) amax = fabsf(x[i]);
        float d = amax / 127.0f;
        uint16_t h = quant_f32_to_f16(d < 65504.0f ? d : 65504.0f);
        quant_store_u16(p, h);
        if (h == 0) continue;
        float inverse = 1.0f / quant_f16_to_f32(h);
        for (int i = 0; i < QUANT_LEN_32; i++) {
            float v = x[i] * inverse;
            v = v > 127.0f ? 127.0f : v < -127.0f ? -127.0f : v;
            p[2 + i] = (uint8_t)(int8_t)((v + 0x1.8p+23f) - 0x1.8p+23f);
        }
    }
}
