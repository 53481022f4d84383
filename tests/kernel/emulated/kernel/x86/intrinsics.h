/* Stands before the header of the same name in src: AVX-512 through SIMDe, what SIMDe 0.7 lacks as two halves of AVX2,
 * and tiles by tiles.h. The kernels' sources are compiled against it as they are. */
#ifndef KERNEL_X86_INTRINSICS_H
#define KERNEL_X86_INTRINSICS_H

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>

#include "tiles.h"

#include <math.h>

/* ---- lacking in SIMDe ---- */

static inline __m256i emulated_low(__m512i v) { return _mm512_castsi512_si256(v); }
static inline __m256i emulated_high(__m512i v) { return _mm512_extracti64x4_epi64(v, 1); }
static inline __m512i emulated_join(__m256i low, __m256i high)
{
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}
static inline __m512 emulated_join_ps(__m256 low, __m256 high)
{
    return _mm512_castsi512_ps(emulated_join(_mm256_castps_si256(low), _mm256_castps_si256(high)));
}

static inline __m512i emulated_cvtepi8_epi32(__m128i v)
{
    return emulated_join(_mm256_cvtepi8_epi32(v), _mm256_cvtepi8_epi32(_mm_srli_si128(v, 8)));
}
static inline __m512i emulated_cvtepi16_epi32(__m256i v)
{
    return emulated_join(_mm256_cvtepi16_epi32(_mm256_castsi256_si128(v)),
                         _mm256_cvtepi16_epi32(_mm256_extracti128_si256(v, 1)));
}
static inline __m512i emulated_cvtepu16_epi32(__m256i v)
{
    return emulated_join(_mm256_cvtepu16_epi32(_mm256_castsi256_si128(v)),
                         _mm256_cvtepu16_epi32(_mm256_extracti128_si256(v, 1)));
}
static inline __m512 emulated_cvtph_ps(__m256i v)
{
    return emulated_join_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(v)),
                            _mm256_cvtph_ps(_mm256_extracti128_si256(v, 1)));
}
static inline __m512 emulated_cvtepi32_ps(__m512i v)
{
    return emulated_join_ps(_mm256_cvtepi32_ps(emulated_low(v)), _mm256_cvtepi32_ps(emulated_high(v)));
}
static inline void emulated_mask_storeu_ps(void *at, unsigned mask, __m512 v)
{
    float lanes[16];
    _mm512_storeu_ps(lanes, v);
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1) ((float *)at)[i] = lanes[i];
}
static inline __m512 emulated_maskz_loadu_ps(unsigned mask, const void *at)
{
    float lanes[16] = {0};
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1) lanes[i] = ((const float *)at)[i];
    return _mm512_loadu_ps(lanes);
}
static inline __m512 emulated_scalef_ps(__m512 v, __m512 n)
{
    float lanes[16], exponents[16];
    _mm512_storeu_ps(lanes, v);
    _mm512_storeu_ps(exponents, n);
    for (int i = 0; i < 16; i++)
        lanes[i] = exponents[i] != exponents[i] ? exponents[i] : ldexpf(lanes[i], (int)exponents[i]);
    return _mm512_loadu_ps(lanes);
}

#define _mm512_cvtepi8_epi32(v) emulated_cvtepi8_epi32(v)
#define _mm512_cvtepi16_epi32(v) emulated_cvtepi16_epi32(v)
#define _mm512_cvtepu16_epi32(v) emulated_cvtepu16_epi32(v)
#define _mm512_cvtph_ps(v) emulated_cvtph_ps(v)
#define _mm512_cvtepi32_ps(v) emulated_cvtepi32_ps(v)
#define _mm512_shuffle_f32x4(a, b, of) \
    _mm512_castsi512_ps(_mm512_shuffle_i32x4(_mm512_castps_si512(a), _mm512_castps_si512(b), of))
#define _mm512_maskz_loadu_ps(mask, at) emulated_maskz_loadu_ps(mask, at)
#undef _mm512_scalef_ps /* that of SIMDe rounds twice */
#define _mm512_scalef_ps(v, n) emulated_scalef_ps(v, n)
#define _mm512_mask_storeu_ps(at, mask, v) emulated_mask_storeu_ps(at, mask, v)

#endif
