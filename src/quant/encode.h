/* Inside the room: what the encoders share. How they search is told at the top of encode.c. */
#ifndef QUANT_ENCODE_H
#define QUANT_ENCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QUANT_F16_NAN 0x7e00

bool quant_all_finite(const float *x, size_t n);

/* v rounded half to even into lo..hi; v is not NaN. */
int quant_round_clamped(double v, int lo, int hi);

/* The half nearest to v, saturated at +-65504, and its value. */
uint16_t quant_half_of(double v, double *value);

/* q[i] = x[i] / d in lo..hi (d = 0: 0); returns the squared error. */
double quant_round_all(const float *x, int n, double d, int lo, int hi, int8_t *q);

/* The scale d with least squared error of x[i] - d q[i] for lo <= q <= hi, n <= 32. */
double quant_search_scale(const float *x, int n, int lo, int hi);

#endif
