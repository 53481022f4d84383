/* The bits of a float or double and back, without breaking aliasing rules. */
#ifndef BASE_BITS_H
#define BASE_BITS_H

#include <stdint.h>
#include <string.h>

static inline uint32_t base_bits_f32(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static inline float base_f32_of_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint64_t base_bits_f64(double f)
{
    uint64_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static inline double base_f64_of_bits(uint64_t bits)
{
    double f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

#endif
