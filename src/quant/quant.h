/* Block formats of quantised weights: one table row a type, with scalar encode, decode and dot product. The numeric
 * contract of README.md is fixed here; vector kernels (room kernel) must agree with these functions to the bit.
 *
 * Layouts: the public ggml block formats (ids and sizes as in GGUF). */
#ifndef QUANT_QUANT_H
#define QUANT_QUANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum quant_id {
    QUANT_F32 = 0,
    QUANT_F16 = 1,
    QUANT_Q4_0 = 2,
    QUANT_Q4_1 = 3,
    QUANT_Q5_0 = 6,
    QUANT_Q5_1 = 7,
    QUANT_Q8_0 = 8,
    QUANT_Q2_K = 10,
    QUANT_Q3_K = 11,
    QUANT_Q4_K = 12,
    QUANT_Q5_K = 13,
    QUANT_Q6_K = 14,
    QUANT_IQ2_XXS = 16,
    QUANT_IQ2_XS = 17,
    QUANT_IQ3_XXS = 18,
    QUANT_IQ1_S = 19,
    QUANT_IQ4_NL = 20,
    QUANT_IQ3_S = 21,
    QUANT_IQ2_S = 22,
    QUANT_IQ4_XS = 23,
    QUANT_IQ1_M = 29,
    QUANT_BF16 = 30,
    QUANT_TQ1_0 = 34,
    QUANT_TQ2_0 = 35,
    QUANT_MXFP4 = 39,
    QUANT_NVFP4 = 40,
    QUANT_IDS = 64, /* size of tables indexed by id */
};

/* What a weight type is multiplied with. */
enum quant_form {
    QUANT_FORM_FLOAT, /* float activations, 16 lanes */
    QUANT_FORM_32,    /* int8 in blocks of 32 */
    QUANT_FORM_256,   /* int8 in blocks of 256 */
    QUANT_FORM_16,    /* int8 in blocks of 16 (NVFP4) */
    QUANT_FORMS,
};

/* Values that share a scale of the activations: a block of the numeric contract. */
static inline size_t quant_form_len(enum quant_form form)
{
    return form == QUANT_FORM_256 ? 256 : form == QUANT_FORM_32 ? 32 : form == QUANT_FORM_16 ? 16 : 1;
}

/* One activation row in a form. n elements; n is a multiple of the form's block. */
struct quant_x {
    const float *x;      /* the floats; QUANT_FORM_FLOAT needs nothing else */
    const int8_t *q;     /* [n] */
    const float *d;      /* [n / block] scale of each block */
    const int16_t *sums; /* [n / 16] sum of each 16 q (all forms) */
};

struct quant_type {
    uint32_t id;
    const char *name; /* "Q4_K" */
    uint32_t block_len;
    uint32_t block_bytes;
    enum quant_form form;
    void (*decode)(const void *blocks, float *out, size_t n);
    void (*encode)(const float *x, void *blocks, size_t n);           /* NULL: Sluice does not write this format */
    float (*dot)(const void *row, const struct quant_x *x, size_t n); /* the scalar reference: one output element */
};

/* NULL for types that Sluice cannot compute with. */
const struct quant_type *quant_type(uint32_t id);
const struct quant_type *quant_type_by_name(const char *name); /* case-insensitive; NULL if unknown */
/* For every type id that GGUF files are known to use (also those of forks): its name, or NULL. */
const char *quant_type_name(uint32_t id);
/* Block shape of every type whose layout is known, computable or not; false: unknown. */
bool quant_type_shape(uint32_t id, uint32_t *block_len, uint32_t *block_bytes);
/* Bytes of a row of n elements (n must be a multiple of block_len). */
size_t quant_row_bytes(const struct quant_type *t, size_t n);

/* The contract's quantisation of activations (README.md): block by block d = amax / 127, q = round-half-even(x * (127 /
 * amax)), sums of each 16. A block with a NaN or infinity gets d = NaN and q = 0, so that the fault reaches the logits
 * and is reported there. */
void quant_activations(enum quant_form form, const float *x, size_t n, int8_t *q, float *d, int16_t *sums);

float quant_f16_to_f32(uint16_t h);
uint16_t quant_f32_to_f16(float f); /* round half to even, subnormals kept */
float quant_bf16_to_f32(uint16_t h);
uint16_t quant_f32_to_bf16(float f);

/* The contract's float dot product: 16 lanes, lane i sums elements i, i + 16, ... by fma, then lanes are added as a
 * fixed tree (i with i + 8, then + 4, + 2, + 1). */
float quant_dot_f32(const float *a, const float *b, size_t n);

#endif
