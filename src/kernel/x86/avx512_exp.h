/* Private to x86/: the steps of math_exp (base/math.c), 16 lanes at a time. */
#ifndef KERNEL_X86_AVX512_EXP_H
#define KERNEL_X86_AVX512_EXP_H

#include "kernel/x86/avx512.h"

AVX2_INLINE __m512 avx512_exp(__m512 x)
{
    const __m512 magic = _mm512_set1_ps(0x1.8p+23f);
    x = _mm512_min_ps(_mm512_set1_ps(89.0f), x); /* both give x if it is NaN */
    x = _mm512_max_ps(_mm512_set1_ps(-104.5f), x);
    const __m512 t = _mm512_fmadd_ps(x, _mm512_set1_ps(0x1.715476p+0f), magic), n = _mm512_sub_ps(t, magic);
    __m512 r = _mm512_fmadd_ps(n, _mm512_set1_ps(-0x1.62e4p-1f), x);
    r = _mm512_fmadd_ps(n, _mm512_set1_ps(-0x1.7f7d1cp-20f), r);
    __m512 q = _mm512_fmadd_ps(_mm512_set1_ps(0x1.6a2434p-10f), r, _mm512_set1_ps(0x1.1239e2p-7f));
    q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(0x1.5558f2p-5f));
    q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(0x1.555492p-3f));
    q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(0x1.fffffcp-2f));
    const __m512 y = _mm512_add_ps(_mm512_set1_ps(1.0f), _mm512_fmadd_ps(q, _mm512_mul_ps(r, r), r));
    return _mm512_scalef_ps(y, n); /* y * 2^n rounded once, as two exact halves of 2^n do */
}

#endif
