/* Values of one block for several queries together with AVX-512: they become floats once for all queries, and an
 * element of the result stays in its register while the positions go by. */
#include "kernel/x86/avx512_kv.h"

#include "base/assert.h"

#define WIDTH 64  /* elements of all positions that are floats at a time: a third of the first-level cache */
#define QUERIES 6 /* whose results stay in registers, four each */

struct values {
    _Alignas(64) float at[KERNEL_ATTENTION_BLOCK][WIDTH];
};

/* n_queries <= QUERIES and n_regs <= 4 are constants; `last`: the lanes of the last register that are elements. */
AVX2_INLINE void columns(const struct values *v, const float (*p)[64], size_t n_queries, size_t n_regs, __mmask16 last,
                         size_t n, float *const *acc, size_t e)
{
    __m512 a[QUERIES][4];
    for (size_t t = 0; t < n_queries; t++)
        for (size_t i = 0; i < n_regs; i++)
            a[t][i] = _mm512_maskz_loadu_ps(i + 1 < n_regs ? 0xffff : last, acc[t] + e + 16 * i);
    for (size_t j = 0; j < n; j++) {
        __m512 x[4];
        for (size_t i = 0; i < n_regs; i++) x[i] = _mm512_load_ps(v->at[j] + 16 * i);
        for (size_t t = 0; t < n_queries; t++) {
            const __m512 pj = _mm512_set1_ps(p[t][j]);
            for (size_t i = 0; i < n_regs; i++) a[t][i] = _mm512_fmadd_ps(pj, x[i], a[t][i]);
        }
    }
    for (size_t t = 0; t < n_queries; t++)
        for (size_t i = 0; i < n_regs; i++)
            _mm512_mask_storeu_ps(acc[t] + e + 16 * i, i + 1 < n_regs ? 0xffff : last, a[t][i]);
}

AVX2_INLINE void columns_of(const struct values *v, const float (*p)[64], size_t n_queries, size_t width, size_t n,
                            float *const *acc, size_t e)
{
    const __mmask16 last = avx512_first_lanes((width - 1) % 16 + 1);
    switch ((width + 15) / 16) {
    case 1: columns(v, p, n_queries, 1, last, n, acc, e); break;
    case 2: columns(v, p, n_queries, 2, last, n, acc, e); break;
    case 3: columns(v, p, n_queries, 3, last, n, acc, e); break;
    default: columns(v, p, n_queries, 4, last, n, acc, e); break;
    }
}

/* Not inlined: one copy for all formats. */
static __attribute__((noinline)) void columns_all(const struct values *v, const float (*p)[64], size_t n_queries,
                                                  size_t width, size_t n, float *const *acc, size_t e)
{
    size_t groups = (n_queries + QUERIES - 1) / QUERIES; /* as even as can be */
    for (size_t t = 0; groups > 0; groups--) {
        const size_t here = (n_queries - t + groups - 1) / groups;
        switch (here) {
        case 1: columns_of(v, p + t, 1, width, n, acc + t, e); break;
        case 2: columns_of(v, p + t, 2, width, n, acc + t, e); break;
        case 3: columns_of(v, p + t, 3, width, n, acc + t, e); break;
        case 4: columns_of(v, p + t, 4, width, n, acc + t, e); break;
        case 5: columns_of(v, p + t, 5, width, n, acc + t, e); break;
        default: columns_of(v, p + t, 6, width, n, acc + t, e); break;
        }
        t += here;
    }
}

AVX2_INLINE void values_many(const struct avx512_kv *f, const float (*p)[64], size_t n_queries, const uint8_t *v,
                             size_t stride, size_t d_head, size_t n, float *const *acc)
{
    struct values values;
    for (size_t e = 0; e < d_head; e += WIDTH) {
        const size_t width = d_head - e < WIDTH ? d_head - e : WIDTH;
        if (width == WIDTH)
            for (size_t j = 0; j < n; j++) {
                avx512_kv_prefetch(v + j * stride + e * f->bytes, stride, WIDTH * f->bytes);
                avx512_kv_floats(f, v + j * stride, e, WIDTH, values.at[j]);
            }
        else
            for (size_t j = 0; j < n; j++) avx512_kv_floats(f, v + j * stride, e, width, values.at[j]);
        columns_all(&values, p, n_queries, width, n, acc, e);
    }
}

void kernel_avx512_attn_values_many(uint32_t kv_type, const float (*p)[64], size_t n_queries, const void *v,
                                    size_t v_stride_bytes, size_t d_head, size_t n, float *const *acc)
{
    static const struct avx512_kv f32 = {4, avx512_kv_f32}, f16 = {2, avx512_kv_f16}, q8_0 = {0, avx512_kv_q8_0};
    switch (kv_type) {
    case QUANT_F32: values_many(&f32, p, n_queries, v, v_stride_bytes, d_head, n, acc); break;
    case QUANT_F16: values_many(&f16, p, n_queries, v, v_stride_bytes, d_head, n, acc); break;
    case QUANT_Q8_0: values_many(&q8_0, p, n_queries, v, v_stride_bytes, d_head, n, acc); break;
    default: BASE_ASSERT(false, "K5 keys and values are F32, F16 or Q8_0");
    }
}
