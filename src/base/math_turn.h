/* Sine and cosine step by step and without a branch, for base/math_double.c and for kernels that turn a loop over them
 * into vectors: both give the same bits.
 *
 * The series are Taylor's, to 17! and 18!; their coefficients are correctly rounded quotients. Two-term arithmetic
 * follows Dekker and Knuth. */
#ifndef BASE_MATH_TURN_H
#define BASE_MATH_TURN_H

#include <math.h> /* fma alone */
#include <stdint.h>
#include <string.h>

struct math_pair {
    double hi, lo; /* the value is hi + lo, |lo| <= half a unit of hi */
};

/* a + b exactly */
static inline struct math_pair math_sum_exact(double a, double b)
{
    double s = a + b, t = s - a;
    return (struct math_pair){s, (a - (s - t)) + (b - t)};
}

/* a * b exactly (unless it underflows) */
static inline struct math_pair math_product_exact(double a, double b)
{
    double p = a * b;
    return (struct math_pair){p, fma(a, b, -p)};
}

#define MATH_MAGIC 0x1.8p+52 /* a double near it holds an integer in its lowest bits */

/* pi / 2 in three parts: 33, 53 and 53 bits. n * PIO2_1 is then so short that x - n * PIO2_1 is exact for |n| < 2^30.
 */
#define MATH_PIO2_1 0x1.921fb544p+0
#define MATH_PIO2_2 0x1.0b4611a626331p-34
#define MATH_PIO2_3 0x1.1701b839a252p-88
#define MATH_TWO_OVER_PI 0x1.45f306dc9c883p-1
#define MATH_ANGLE_MAX 0x1p30

/* x = n pi / 2 + (hi + lo), |hi| <= pi / 4 (and a little). *n_bits: a number whose lowest two bits are those of n. */
static inline struct math_pair math_reduce_angle(double x, uint64_t *n_bits)
{
    const double t = fma(x, MATH_TWO_OVER_PI, MATH_MAGIC), n = t - MATH_MAGIC;
    const double a = fma(-n, MATH_PIO2_1, x); /* exact */
    const struct math_pair p = math_product_exact(n, MATH_PIO2_2), d = math_sum_exact(a, -p.hi);
    memcpy(n_bits, &t, sizeof t);
    return math_sum_exact(d.hi, fma(-n, MATH_PIO2_3, d.lo - p.lo));
}

/* sin(hi + lo) = hi + (hi^3 S(z) + lo cos hi), z = hi^2 */
static inline double math_sin_series(struct math_pair r)
{
    const double z = r.hi * r.hi;
    double s = 1.0 / 355687428096000.0; /* 17! */
    s = fma(s, z, -1.0 / 1307674368000.0);
    s = fma(s, z, 1.0 / 6227020800.0);
    s = fma(s, z, -1.0 / 39916800.0);
    s = fma(s, z, 1.0 / 362880.0);
    s = fma(s, z, -1.0 / 5040.0);
    s = fma(s, z, 1.0 / 120.0);
    s = fma(s, z, -1.0 / 6.0);
    return r.hi + fma(r.hi * z, s, r.lo * (1.0 - 0.5 * z));
}

/* cos(hi + lo) = 1 - z / 2 + (z^2 C(z) - hi lo); what 1 - z / 2 rounds off is put back */
static inline double math_cos_series(struct math_pair r)
{
    const double z = r.hi * r.hi;
    double c = -1.0 / 6402373705728000.0; /* 18! */
    c = fma(c, z, 1.0 / 20922789888000.0);
    c = fma(c, z, -1.0 / 87178291200.0);
    c = fma(c, z, 1.0 / 479001600.0);
    c = fma(c, z, -1.0 / 3628800.0);
    c = fma(c, z, 1.0 / 40320.0);
    c = fma(c, z, -1.0 / 720.0);
    c = fma(c, z, 1.0 / 24.0);
    const double half = 0.5 * z, w = 1.0 - half;
    return w + (((1.0 - w) - half) + fma(z * z, c, -(r.hi * r.lo)));
}

#endif
