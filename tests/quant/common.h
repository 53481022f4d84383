/* What the tests of this room share: seeded numbers, golden files, and where each format keeps its scales. */
#ifndef TESTS_QUANT_COMMON_H
#define TESTS_QUANT_COMMON_H

#include "quant/quant.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* splitmix64: the same sequence everywhere */
uint64_t rng_next(uint64_t *state);
float rng_float(uint64_t *state); /* uniform in [-1, 1) */

/* A file of tests/golden/values: exactly `bytes` long, or the test fails. */
void load_golden(const char *name, const char *suffix, void *out, size_t bytes);

struct field {
    uint32_t id;
    int d;   /* offset of the half d; -1: none (floats); MXFP4, NVFP4: of the scale bytes; IQ1_M: of its four words */
    int min; /* offset of the half that multiplies the minima; -1: none */
    float min_sign;
    float unit; /* the contract's scale is d times this */
};

extern const struct field fields[];
extern const size_t n_fields; /* all 26 types */

/* Random bytes with finite scales of ordinary size. */
void random_blocks(const struct quant_type *t, const struct field *f, size_t n, void *out, uint64_t *state);
/* Overwrites the contract's scale (and min, if the format has one) of one block, NVFP4: all four. Only 0 and powers of
 * two are exact for MXFP4 and NVFP4; 0 is not available in MXFP4. */
void set_scales(const struct field *f, uint8_t *block, float d, float min);
/* The contract's scale, NVFP4: of sub-block `sub`. */
float get_d(const struct field *f, const uint8_t *block, size_t sub);
float get_min(const struct field *f, const uint8_t *block);

#endif
