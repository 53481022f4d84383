/* One query head over one block of cached keys and values with AVX-512. */
#include "kernel/x86/avx512_kv.h"

#include "base/assert.h"

#include <math.h>

void kernel_avx512_attn_scores(uint32_t kv_type, const float *q, const struct quant_x *qx, const void *k,
                               size_t k_stride_bytes, size_t d_head, size_t n, float scale, float *scores)
{
    switch (kv_type) {
    case QUANT_F32: kernel_avx512_rows_f32(k, k_stride_bytes, n, q, d_head, scores); break;
    case QUANT_F16: kernel_avx512_rows_f16(k, k_stride_bytes, n, q, d_head, scores); break;
    case QUANT_Q8_0: kernel_avx512_rows_q8_0(k, k_stride_bytes, n, qx, d_head, scores); break;
    default: BASE_ASSERT(false, "K5 keys and values are F32, F16 or Q8_0");
    }
    for (size_t i = 0; i < n; i++) scores[i] *= scale;
}

/* ---- values ---- */

/* How elements of a row are read. */
struct format {
    __m512 (*load)(const uint8_t *row, size_t e); /* 16 of them from e */
    float (*one)(const uint8_t *row, size_t e);   /* NULL: heads are whole blocks of 32 */
};

AVX2_INLINE float one_f32(const uint8_t *row, size_t e)
{
    float x;
    memcpy(&x, row + 4 * e, sizeof x);
    return x;
}
AVX2_INLINE float one_f16(const uint8_t *row, size_t e) { return _cvtsh_ss((uint16_t)avx2_load_i16(row + 2 * e)); }

/* n_regs registers of 16 elements, a constant, stay while the positions go by. */
AVX2_INLINE void columns(const struct format *f, size_t n_regs, const float *p, const uint8_t *v, size_t stride,
                         size_t e, size_t n, float *acc)
{
    __m512 a[4];
    for (size_t i = 0; i < n_regs; i++) a[i] = _mm512_loadu_ps(acc + e + 16 * i);
    for (size_t j = 0; j < n; j++) {
        __m512 pj = _mm512_set1_ps(p[j]);
        for (size_t i = 0; i < n_regs; i++) a[i] = _mm512_fmadd_ps(pj, f->load(v + j * stride, e + 16 * i), a[i]);
    }
    for (size_t i = 0; i < n_regs; i++) _mm512_storeu_ps(acc + e + 16 * i, a[i]);
}

AVX2_INLINE void values(const struct format *f, const float *p, const uint8_t *v, size_t stride, size_t d_head,
                        size_t n, float *acc)
{
    size_t e = 0;
    for (; e + 64 <= d_head; e += 64) columns(f, 4, p, v, stride, e, n, acc);
    for (; e + 16 <= d_head; e += 16) columns(f, 1, p, v, stride, e, n, acc);
    if (!f->one) return;
    for (; e < d_head; e++)
        for (size_t j = 0; j < n; j++) acc[e] = fmaf(p[j], f->one(v + j * stride, e), acc[e]);
}

void kernel_avx512_attn_values(uint32_t kv_type, const float *p, const void *v, size_t v_stride_bytes, size_t d_head,
                               size_t n, float *acc)
{
    static const struct format f32 = {avx512_kv_f32, one_f32}, f16 = {avx512_kv_f16, one_f16},
                               q8_0 = {avx512_kv_q8_0, NULL};
    switch (kv_type) {
    case QUANT_F32: values(&f32, p, v, v_stride_bytes, d_head, n, acc); break;
    case QUANT_F16: values(&f16, p, v, v_stride_bytes, d_head, n, acc); break;
    case QUANT_Q8_0: values(&q8_0, p, v, v_stride_bytes, d_head, n, acc); break;
    default: BASE_ASSERT(false, "K5 keys and values are F32, F16 or Q8_0");
    }
}
