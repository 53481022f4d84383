/* The project's own elementary functions: the same bits on every machine, compiler and instruction set.
 *
 * libm's exp, log, sin, ... differ between C libraries and versions, and logits must not (numeric contract). These use
 * only IEEE float and double operations and fma in a fixed order, so that a vector version can repeat them lane by
 * lane. Errors are at most 2 units in the last place over the ranges that models use. NaN in gives NaN out. */
#ifndef BASE_MATH_H
#define BASE_MATH_H

/* Float functions; a vector kernel repeats math_exp's operations exactly (its steps are documented in math.c). */
float math_exp(float x); /* overflows to +inf, underflows gradually to 0 */
float math_tanh(float x);
float math_log(float x); /* x < 0: NaN; 0: -inf */

/* Double functions for tables (RoPE angles, YaRN). sin and cos give NaN for |x| > 2^30 (their reduction ends there). */
double math_sin_d(double x);
double math_cos_d(double x);
double math_log_d(double x);
double math_exp_d(double x);
double math_pow_d(double x, double y); /* x < 0: NaN, also for whole y */

#endif
