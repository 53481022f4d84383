/* Float functions of base/math.h.
 *
 * math_exp, step by step; a vector version repeats these operations lane by lane and nothing else (names as in the
 * code; every float operation is rounded to nearest even, fmaf is one rounding, integers are 32-bit and wrap):
 *
 *   1. x = 89 < x ? 89 : x;  x = -104.5 > x ? -104.5 : x;        (NaN passes; AVX2: min_ps(hi, x), max_ps(lo, x))
 *   2. t = fmaf(x, LOG2E, MAGIC);  n = t - MAGIC;                (n = x / ln 2 rounded to an integer, as a float)
 *      k = bits(t) - bits(MAGIC);                                (the same integer, -151 <= k <= 128)
 *   3. r = fmaf(n, -LN2_HI, x);  r = fmaf(n, -LN2_LO, r);        (|r| <= 0.3466; n * LN2_HI is exact)
 *   4. q = C6;  q = fmaf(q, r, C5);  q = fmaf(q, r, C4);  q = fmaf(q, r, C3);  q = fmaf(q, r, C2);
 *   5. s = r * r;  p = fmaf(q, s, r);  y = 1 + p;                (e^r; relative error of the polynomial < 2^-27.9)
 *   6. k1 = ((k + 256) >> 1) - 128 (logical shift);  k2 = k - k1;
 *      a = float with bits (k1 + 127) << 23;  b = float with bits (k2 + 127) << 23;
 *   7. result = (y * a) * b;                                     (y * a is exact, so there is one rounding, also for
 *                                                                 subnormal results; b overflows to +inf by itself)
 *
 * For NaN, k is arbitrary, but n, r and y are NaN and so is the product: no lane needs a branch. */
#include "base/math.h"

#include "base/bits.h"

#include <math.h> /* fmaf alone, which IEEE 754 fixes to the bit */

#define EXP_HI 89.0f   /* e^89 > FLT_MAX */
#define EXP_LO -104.5f /* e^-104.5 < half the smallest subnormal */
#define LOG2E 0x1.715476p+0f
#define MAGIC 0x1.8p+23f    /* adding it rounds to an integer, which then stands in the low bits */
#define LN2_HI 0x1.62e4p-1f /* 14 bits, so that n * LN2_HI is exact */
#define LN2_LO 0x1.7f7d1cp-20f
/* (e^r - 1 - r) / r^2 on |r| <= ln 2 / 2: minimax for the relative error of e^r (Remez), rounded to float */
#define C2 0x1.fffffcp-2f
#define C3 0x1.555492p-3f
#define C4 0x1.5558f2p-5f
#define C5 0x1.1239e2p-7f
#define C6 0x1.6a2434p-10f

float math_exp(float x)
{
    x = EXP_HI < x ? EXP_HI : x;
    x = EXP_LO > x ? EXP_LO : x;
    float t = fmaf(x, LOG2E, MAGIC);
    float n = t - MAGIC;
    uint32_t k = base_bits_f32(t) - base_bits_f32(MAGIC);
    float r = fmaf(n, -LN2_HI, x);
    r = fmaf(n, -LN2_LO, r);
    float q = C6;
    q = fmaf(q, r, C5);
    q = fmaf(q, r, C4);
    q = fmaf(q, r, C3);
    q = fmaf(q, r, C2);
    float s = r * r;
    float p = fmaf(q, s, r);
    float y = 1.0f + p;
    uint32_t k1 = ((k + 256u) >> 1) - 128u;
    uint32_t k2 = k - k1;
    return y * base_f32_of_bits((k1 + 127u) << 23) * base_f32_of_bits((k2 + 127u) << 23);
}

/* (tanh x / x - 1) / x^2 in x^2 on |x| <= 0.64: minimax for the relative error of tanh (Remez, 2^-32), rounded to float
 */
#define T0 -0x1.555554p-2f
#define T1 0x1.11103ep-3f
#define T2 -0x1.b9e65ep-5f
#define T3 0x1.633044p-6f
#define T4 -0x1.0a2d8p-7f
#define T5 0x1.12501ap-9f

/* Small |x|: the polynomial. Else 1 - 2 / (e^(2|x|) + 1), where the subtraction loses at most a bit; from about 9 on
 * that is 1 by itself. Odd: the sign is put back at the end. */
float math_tanh(float x)
{
    if (x != x) return x;
    uint32_t sign = base_bits_f32(x) & 0x80000000;
    float a = base_f32_of_bits(base_bits_f32(x) & 0x7fffffff), y;
    if (a < 0.625f) {
        float s = a * a;
        float p = T5;
        p = fmaf(p, s, T4);
        p = fmaf(p, s, T3);
        p = fmaf(p, s, T2);
        p = fmaf(p, s, T1);
        p = fmaf(p, s, T0);
        y = fmaf(a * s, p, a);
    } else {
        y = 1.0f - 2.0f / (math_exp(a + a) + 1.0f);
    }
    return base_f32_of_bits(base_bits_f32(y) | sign);
}

/* The double logarithm, rounded: nearly always the correctly rounded float. */
float math_log(float x) { return (float)math_log_d((double)x); }
