/* Double functions of base/math.h, for tables that are made once: plain and accurate rather than fast.
 *
 * log is computed as a pair hi + lo (about 2^-65 relative), because pow multiplies it by y before the exponential and
 * would otherwise lose up to ten bits. Series are Taylor's, long enough that their remainder is below 2^-58 of the
 * result; their coefficients are correctly rounded quotients. Two-term arithmetic as in math_turn.h. */
#include "base/bits.h"
#include "base/math.h"
#include "base/math_turn.h"

#include <math.h> /* fma and the constants NAN and INFINITY alone */

/* a + b exactly, for |a| >= |b| or a = 0 */
static struct math_pair sum_fast(double a, double b)
{
    double s = a + b;
    return (struct math_pair){s, b - (s - a)};
}

#define LN2_HI 0x1.62e42fefa38p-1 /* 42 bits: n * LN2_HI is exact for |n| < 2^11 */
#define LN2_LO 0x1.ef35793c7673p-45
#define LOG2E 0x1.71547652b82fep+0
#define SQRT2 0x1.6a09e667f3bcdp+0
#define TWO_THIRDS_HI 0x1.5555555555555p-1
#define TWO_THIRDS_LO 0x1.5555555555555p-55

/* log x for finite x > 0: x = 2^k m with m in (sqrt 1/2, sqrt 2], s = (m - 1) / (m + 1), log m = 2 artanh s
 * = s (2 + 2 z / 3 + 2 z^2 / 5 + ...), z = s^2 <= 0.0295. s, z and the z term are pairs. */
static struct math_pair log_pair(double x)
{
    int k = 0;
    if (x < 0x1p-1022) {
        x *= 0x1p54;
        k = -54;
    }
    uint64_t bits = base_bits_f64(x);
    k += (int)(bits >> 52) - 1023;
    double m = base_f64_of_bits((bits & 0xfffffffffffff) | (uint64_t)1023 << 52);
    if (m > SQRT2) {
        m *= 0.5;
        k++;
    }
    double f = m - 1.0; /* exact */
    struct math_pair g = sum_fast(m > 1.0 ? m : 1.0, m > 1.0 ? 1.0 : m);
    double s_hi = f / g.hi;
    double s_lo = (fma(-s_hi, g.hi, f) - s_hi * g.lo) / g.hi;
    struct math_pair z = math_product_exact(s_hi, s_hi);
    z.lo += 2.0 * s_hi * s_lo;
    double tail = 0.0;
    for (int i = 13; i >= 2; i--) tail = fma(tail, z.hi, 2.0 / (2 * i + 1));
    tail *= z.hi * z.hi;
    struct math_pair t = math_product_exact(z.hi, TWO_THIRDS_HI);
    t.lo += z.hi * TWO_THIRDS_LO + z.lo * TWO_THIRDS_HI;
    struct math_pair u = sum_fast(t.hi, tail);
    u.lo += t.lo;
    struct math_pair p = math_product_exact(s_hi, u.hi);
    p.lo += s_hi * u.lo + s_lo * u.hi;
    struct math_pair r = sum_fast(2.0 * s_hi, p.hi);
    r.lo += p.lo + 2.0 * s_lo;
    struct math_pair y = math_sum_exact(k * LN2_HI, r.hi);
    y.lo += r.lo + k * LN2_LO;
    return sum_fast(y.hi, y.lo);
}

/* e^(hi + lo) for hi without NaN, |lo| small: hi + lo = n ln 2 + r, |r| <= 0.3466, scaled in two steps as in math_exp.
 */
static double exp_pair(double hi, double lo)
{
    if (hi > 710.0 || hi < -746.0) {
        hi = hi > 0.0 ? 710.0 : -746.0; /* beyond the range: overflows or underflows below */
        lo = 0.0;
    }
    double t = fma(hi, LOG2E, MATH_MAGIC);
    double n = t - MATH_MAGIC;
    double a = fma(n, -LN2_HI, hi), b = n * LN2_LO;
    struct math_pair r = math_sum_exact(a, -b);
    r.lo += lo;
    double q = 0.0, factorial = 1307674368000.0; /* 15! */
    for (int i = 15; i >= 2; i--) {
        q = fma(q, r.hi, 1.0 / factorial);
        factorial /= i;
    }
    double square = r.hi * r.hi * q;
    double y = 1.0 + (r.hi + fma(r.lo, 1.0 + (r.hi + square), square)); /* e^(r.hi + r.lo) */
    int k = (int)n, k1 = (k + 2048) / 2 - 1024, k2 = k - k1;
    return y * base_f64_of_bits((uint64_t)(k1 + 1023) << 52) * base_f64_of_bits((uint64_t)(k2 + 1023) << 52);
}

double math_exp_d(double x) { return x != x ? x : exp_pair(x, 0.0); }

double math_log_d(double x)
{
    if (x != x || x == (double)INFINITY) return x;
    if (x < 0.0) return (double)NAN;
    if (x == 0.0) return -(double)INFINITY;
    return log_pair(x).hi;
}

double math_pow_d(double x, double y)
{
    if (x != x || y != y || x < 0.0) return (double)NAN;
    if (y == 0.0 || x == 1.0) return 1.0;
    if (x == 0.0) return y > 0.0 ? 0.0 : (double)INFINITY;
    if (x == (double)INFINITY) return y > 0.0 ? x : 0.0;
    struct math_pair l = log_pair(x);
    double hi = y * l.hi;
    return exp_pair(hi, fma(y, l.hi, -hi) + y * l.lo);
}

/* ---- sine and cosine ---- */

double math_sin_d(double x)
{
    if (!(x >= -MATH_ANGLE_MAX && x <= MATH_ANGLE_MAX)) return (double)NAN;
    if (x == 0.0) return x;
    uint64_t quadrant;
    const struct math_pair r = math_reduce_angle(x, &quadrant);
    const double y = quadrant & 1 ? math_cos_series(r) : math_sin_series(r);
    return quadrant & 2 ? -y : y;
}

double math_cos_d(double x)
{
    if (!(x >= -MATH_ANGLE_MAX && x <= MATH_ANGLE_MAX)) return (double)NAN;
    uint64_t quadrant;
    const struct math_pair r = math_reduce_angle(x, &quadrant);
    const double y = quadrant & 1 ? math_sin_series(r) : math_cos_series(r);
    return (quadrant + 1) & 2 ? -y : y;
}
