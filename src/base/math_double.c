/* Double functions of base/math.h, for tables that are made once: plain and accurate rather than fast.
 *
 * log is computed as a pair hi + lo (about 2^-65 relative), because pow multiplies it by y before the exponential and
 * would otherwise lose up to ten bits. Series are Taylor's, long enough that their remainder is below 2^-58 of the
 * result; their coefficients are correctly rounded quotients. Two-term arithmetic follows Dekker and Knuth. */
#include "base/bits.h"
#include "base/math.h"

#include <math.h> /* fma and the constants NAN and INFINITY alone */

struct pair {
    double hi, lo; /* the value is hi + lo, |lo| <= half a unit of hi */
};

/* a + b exactly, for |a| >= |b| or a = 0 */
static struct pair sum_fast(double a, double b)
{
    double s = a + b;
    return (struct pair){s, b - (s - a)};
}

/* a + b exactly */
static struct pair sum_exact(double a, double b)
{
    double s = a + b, t = s - a;
    return (struct pair){s, (a - (s - t)) + (b - t)};
}

/* a * b exactly (unless it underflows) */
static struct pair product_exact(double a, double b)
{
    double p = a * b;
    return (struct pair){p, fma(a, b, -p)};
}

#define LN2_HI 0x1.62e42fefa38p-1 /* 42 bits: n * LN2_HI is exact for |n| < 2^11 */
#define LN2_LO 0x1.ef35793c7673p-45
#define LOG2E 0x1.71547652b82fep+0
#define MAGIC 0x1.8p+52
#define SQRT2 0x1.6a09e667f3bcdp+0
#define TWO_THIRDS_HI 0x1.5555555555555p-1
#define TWO_THIRDS_LO 0x1.5555555555555p-55

/* log x for finite x > 0: x = 2^k m with m in (sqrt 1/2, sqrt 2], s = (m - 1) / (m + 1), log m = 2 artanh s
 * = s (2 + 2 z / 3 + 2 z^2 / 5 + ...), z = s^2 <= 0.0295. s, z and the z term are pairs. */
static struct pair log_pair(double x)
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
    struct pair g = sum_fast(m > 1.0 ? m : 1.0, m > 1.0 ? 1.0 : m);
    double s_hi = f / g.hi;
    double s_lo = (fma(-s_hi, g.hi, f) - s_hi * g.lo) / g.hi;
    struct pair z = product_exact(s_hi, s_hi);
    z.lo += 2.0 * s_hi * s_lo;
    double tail = 0.0;
    for (int i = 13; i >= 2; i--) tail = fma(tail, z.hi, 2.0 / (2 * i + 1));
    tail *= z.hi * z.hi;
    struct pair t = product_exact(z.hi, TWO_THIRDS_HI);
    t.lo += z.hi * TWO_THIRDS_LO + z.lo * TWO_THIRDS_HI;
    struct pair u = sum_fast(t.hi, tail);
    u.lo += t.lo;
    struct pair p = product_exact(s_hi, u.hi);
    p.lo += s_hi * u.lo + s_lo * u.hi;
    struct pair r = sum_fast(2.0 * s_hi, p.hi);
    r.lo += p.lo + 2.0 * s_lo;
    struct pair y = sum_exact(k * LN2_HI, r.hi);
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
    double t = fma(hi, LOG2E, MAGIC);
    double n = t - MAGIC;
    double a = fma(n, -LN2_HI, hi), b = n * LN2_LO;
    struct pair r = sum_exact(a, -b);
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
    struct pair l = log_pair(x);
    double hi = y * l.hi;
    return exp_pair(hi, fma(y, l.hi, -hi) + y * l.lo);
}

/* ---- sine and cosine ---- */

/* pi / 2 in three parts: 33, 53 and 53 bits. n * PIO2_1 is then so short that x - n * PIO2_1 is exact for |n| < 2^30.
 */
#define PIO2_1 0x1.921fb544p+0
#define PIO2_2 0x1.0b4611a626331p-34
#define PIO2_3 0x1.1701b839a252p-88
#define TWO_OVER_PI 0x1.45f306dc9c883p-1
#define ANGLE_MAX 0x1p30

/* x = n pi / 2 + (hi + lo), |hi| <= pi / 4 (and a little); returns n mod 4. */
static unsigned reduce_angle(double x, struct pair *r)
{
    double n = fma(x, TWO_OVER_PI, MAGIC) - MAGIC;
    double a = fma(-n, PIO2_1, x); /* exact */
    struct pair p = product_exact(n, PIO2_2);
    struct pair d = sum_exact(a, -p.hi);
    *r = sum_exact(d.hi, fma(-n, PIO2_3, d.lo - p.lo));
    return (unsigned)((long long)n & 3);
}

/* sin(hi + lo) = hi + (hi^3 S(z) + lo cos hi), z = hi^2 */
static double sin_series(struct pair r)
{
    double z = r.hi * r.hi, s = 0.0;
    double factorial = 355687428096000.0; /* 17! */
    for (int i = 17; i >= 3; i -= 2) {
        double c = 1.0 / factorial;
        s = fma(s, z, i % 4 == 1 ? c : -c);
        factorial /= i * (i - 1);
    }
    return r.hi + fma(r.hi * z, s, r.lo * (1.0 - 0.5 * z));
}

/* cos(hi + lo) = 1 - z / 2 + (z^2 C(z) - hi lo); what 1 - z / 2 rounds off is put back */
static double cos_series(struct pair r)
{
    double z = r.hi * r.hi, c = 0.0;
    double factorial = 6402373705728000.0; /* 18! */
    for (int i = 18; i >= 4; i -= 2) {
        double f = 1.0 / factorial;
        c = fma(c, z, i % 4 == 0 ? f : -f);
        factorial /= i * (i - 1);
    }
    double half = 0.5 * z, w = 1.0 - half;
    return w + (((1.0 - w) - half) + fma(z * z, c, -(r.hi * r.lo)));
}

double math_sin_d(double x)
{
    if (!(x >= -ANGLE_MAX && x <= ANGLE_MAX)) return (double)NAN;
    if (x == 0.0) return x;
    struct pair r;
    unsigned quadrant = reduce_angle(x, &r);
    double y = quadrant & 1 ? cos_series(r) : sin_series(r);
    return quadrant & 2 ? -y : y;
}

double math_cos_d(double x)
{
    if (!(x >= -ANGLE_MAX && x <= ANGLE_MAX)) return (double)NAN;
    struct pair r;
    unsigned quadrant = reduce_angle(x, &r);
    double y = quadrant & 1 ? sin_series(r) : cos_series(r);
    return quadrant == 1 || quadrant == 2 ? -y : y;
}
