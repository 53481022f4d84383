/* What the room's tests share: a seeded generator, comparison to the bit, and the levels that this machine can run. */
#ifndef TESTS_KERNEL_UTIL_H
#define TESTS_KERNEL_UTIL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/kernel.h"

static inline uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Roughly normal, without libm. */
static inline float random_float(uint64_t *state)
{
    float sum = 0;
    for (int i = 0; i < 4; i++) sum += (float)(next_random(state) >> 40) * 0x1p-24f - 0.5f;
    return sum * 1.7f;
}

static inline bool same_bits(float a, float b)
{
    uint32_t x, y;
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    return x == y || (a != a && b != b);
}

static inline void expect_same(const float *a, const float *b, size_t n, const char *what)
{
    for (size_t i = 0; i < n; i++)
        if (!same_bits(a[i], b[i]))
            fail_msg("%s: element %zu of %zu: %a, not %a", what, i, n, (double)a[i], (double)b[i]);
}

static inline void *must_alloc(size_t bytes)
{
    void *p = malloc(bytes ? bytes : 1);
    if (!p) abort();
    return p;
}

#ifdef __x86_64__
#include <stdatomic.h>
extern atomic_size_t kernel_amx_from_32, kernel_amx_from_256;
#endif

/* A table of this level, or NULL where the machine has none. Under emulation every machine has all. */
static inline const struct kernel_table *level_table(const char *name)
{
    static struct os_cpu cpu;
    if (!cpu.n_threads) os_cpu(&cpu);
#ifdef KERNEL_EMULATED
    cpu.avx512f = cpu.avx512bw = cpu.avx512vl = cpu.avx512vnni = cpu.avx512vbmi = cpu.amx_int8 = true;
#endif
    const struct kernel_table *t = NULL;
    struct sluice_error err;
    if (kernel_select(&cpu, name, &t, &err) != SLUICE_OK) {
#ifdef KERNEL_EMULATED
        fail_msg("%s", err.message);
#endif
        return NULL;
    }
#ifdef __x86_64__
    if (t->level == KERNEL_AMX) { /* tiles for any number of tokens, worth it or not */
        atomic_store(&kernel_amx_from_32, 1);
        atomic_store(&kernel_amx_from_256, 1);
    }
#endif
    return t;
}

/* Needs nothing of the CPU, so it does not ask for it (os_cpu reads files). */
static inline const struct kernel_table *scalar_table(void)
{
    const struct os_cpu none = {.n_threads = 1};
    const struct kernel_table *t = NULL;
    if (kernel_select(&none, "scalar", &t, NULL) != SLUICE_OK) abort();
    return t;
}

/* All levels, or under emulation those that have to be, and those whose functions others may use; NULL ends a list. */
#ifdef KERNEL_EMULATED
static const char *const levels[] = {"scalar", "avx512", "amx", NULL};
static const char *const lesser_levels[] = {"scalar", "avx2", "avx512", NULL};
#else
static const char *const lesser_levels[] = {"scalar", "avx2", "avx512", "neon", "dotprod", NULL};
static const char *const levels[] = {"scalar", "avx2", "avx512", "amx", "neon", "dotprod", "i8mm", NULL};
#endif
#define N_LEVELS (sizeof levels / sizeof levels[0] - 1)
/* Those to compare with the scalar one. */
static const char *const *const other_levels = levels + 1;

static const uint32_t all_types[] = {QUANT_F32,     QUANT_F16,    QUANT_BF16,   QUANT_Q4_0,    QUANT_Q4_1,  QUANT_Q5_0,
                                     QUANT_Q5_1,    QUANT_Q8_0,   QUANT_Q2_K,   QUANT_Q3_K,    QUANT_Q4_K,  QUANT_Q5_K,
                                     QUANT_Q6_K,    QUANT_IQ4_NL, QUANT_IQ4_XS, QUANT_MXFP4,   QUANT_IQ1_S, QUANT_IQ1_M,
                                     QUANT_IQ2_XXS, QUANT_IQ2_XS, QUANT_IQ2_S,  QUANT_IQ3_XXS, QUANT_IQ3_S, QUANT_TQ1_0,
                                     QUANT_TQ2_0,   QUANT_NVFP4};
#define N_ALL_TYPES (sizeof all_types / sizeof all_types[0])

/* Puts a sane scale (and minimum) into every block of random bytes. */
static inline void tame_scales(uint32_t type, uint8_t *w, size_t n_blocks, uint64_t *seed)
{
    static const struct {
        uint32_t type;
        int at[2];
    } places[] = {{QUANT_Q4_0, {0, -1}},  {QUANT_Q4_1, {0, 2}},     {QUANT_Q5_0, {0, -1}},    {QUANT_Q5_1, {0, 2}},
                  {QUANT_Q8_0, {0, -1}},  {QUANT_Q2_K, {80, 82}},   {QUANT_Q3_K, {108, -1}},  {QUANT_Q4_K, {0, 2}},
                  {QUANT_Q5_K, {0, 2}},   {QUANT_Q6_K, {208, -1}},  {QUANT_IQ4_NL, {0, -1}},  {QUANT_IQ4_XS, {0, -1}},
                  {QUANT_F16, {0, -1}},   {QUANT_IQ1_S, {0, -1}},   {QUANT_IQ2_XXS, {0, -1}}, {QUANT_IQ2_XS, {0, -1}},
                  {QUANT_IQ2_S, {0, -1}}, {QUANT_IQ3_XXS, {0, -1}}, {QUANT_IQ3_S, {0, -1}},   {QUANT_TQ1_0, {52, -1}},
                  {QUANT_TQ2_0, {64, -1}}};
    const struct quant_type *t = quant_type(type);
    for (size_t b = 0; b < n_blocks; b++, w += t->block_bytes) {
        for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
            if (places[i].type != type) continue;
            for (int k = 0; k < 2 && places[i].at[k] >= 0; k++) {
                uint16_t h = quant_f32_to_f16(random_float(seed) * 0.05f);
                memcpy(w + places[i].at[k], &h, sizeof h);
            }
        }
        if (type == QUANT_MXFP4) w[0] = (uint8_t)(118 + next_random(seed) % 8);
        if (type == QUANT_NVFP4)
            for (int i = 0; i < 4; i++) w[i] = (uint8_t)(0x28 | (next_random(seed) & 15));
        if (type == QUANT_IQ1_M) { /* the half lies in the top nibbles of four words */
            uint16_t h = quant_f32_to_f16(random_float(seed) * 0.05f);
            for (int i = 0; i < 4; i++) w[49 + 2 * i] = (uint8_t)((w[49 + 2 * i] & 15) | (h >> (4 * i) & 15) << 4);
        }
        if (type == QUANT_F32) {
            float f = random_float(seed);
            memcpy(w, &f, sizeof f);
        }
        if (type == QUANT_BF16) {
            uint16_t h = quant_f32_to_bf16(random_float(seed));
            memcpy(w, &h, sizeof h);
        }
    }
}

#endif
