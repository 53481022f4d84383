/* Values of one block for several queries together with AVX-512: they become floats once for all queries, and an
 * element of the result stays in its register while the positions go by. */
#include "kernel/x86/avx512_exp.h"
#include "kernel/x86/avx512_kv.h"

#include "base/assert.h"

#define WIDTH 64  /* elements of all positions that are floats at a time: a third of the first-level cache */
#define QUERIES 6 /* whose results stay in registers, four each */

/* How a block joins what a query has found so far: acc = fma(block, part, acc * keep), the first one acc = block. */
struct weights {
    float keep, part;
    bool first;
};

struct values {
    _Alignas(64) float at[KERNEL_ATTENTION_BLOCK][WIDTH];
};

AVX2_INLINE __m512 load_some(const float *p, __mmask16 lanes) { return _mm512_maskz_loadu_ps(lanes, p); }

/* n_queries <= QUERIES and n_regs <= 4 are constants; `last`: the lanes of the last register that are elements. Without
 * `join` the values are added to acc. */
AVX2_INLINE void columns(const struct values *v, const float (*p)[64], size_t n_queries, size_t n_regs, __mmask16 last,
                         size_t n, const struct weights *join, float *const *acc, size_t e)
{
    __m512 a[QUERIES][4];
    for (size_t t = 0; t < n_queries; t++)
        for (size_t i = 0; i < n_regs; i++)
            a[t][i] = join ? _mm512_setzero_ps() : load_some(acc[t] + e + 16 * i, i + 1 < n_regs ? 0xffff : last);
    for (size_t j = 0; j < n; j++) {
        __m512 x[4];
        for (size_t i = 0; i < n_regs; i++) x[i] = _mm512_load_ps(v->at[j] + 16 * i);
        for (size_t t = 0; t < n_queries; t++) {
            const __m512 pj = _mm512_set1_ps(p[t][j]);
            for (size_t i = 0; i < n_regs; i++) a[t][i] = _mm512_fmadd_ps(pj, x[i], a[t][i]);
        }
    }
    for (size_t t = 0; t < n_queries; t++) {
        if (join && !join[t].first) {
            const __m512 keep = _mm512_set1_ps(join[t].keep), part = _mm512_set1_ps(join[t].part);
            for (size_t i = 0; i < n_regs; i++) {
                const __m512 old = load_some(acc[t] + e + 16 * i, i + 1 < n_regs ? 0xffff : last);
                a[t][i] = _mm512_fmadd_ps(a[t][i], part, _mm512_mul_ps(old, keep));
            }
        }
        for (size_t i = 0; i < n_regs; i++)
            _mm512_mask_storeu_ps(acc[t] + e + 16 * i, i + 1 < n_regs ? 0xffff : last, a[t][i]);
    }
}

AVX2_INLINE void columns_of(const struct values *v, const float (*p)[64], size_t n_queries, size_t width, size_t n,
                            const struct weights *join, float *const *acc, size_t e)
{
    const __mmask16 last = avx512_first_lanes((width - 1) % 16 + 1);
    switch ((width + 15) / 16) {
    case 1: columns(v, p, n_queries, 1, last, n, join, acc, e); break;
    case 2: columns(v, p, n_queries, 2, last, n, join, acc, e); break;
    case 3: columns(v, p, n_queries, 3, last, n, join, acc, e); break;
    default: columns(v, p, n_queries, 4, last, n, join, acc, e); break;
    }
}

/* Not inlined: one copy for all formats. */
static __attribute__((noinline)) void columns_all(const struct values *v, const float (*p)[64], size_t n_queries,
                                                  size_t width, size_t n, const struct weights *join, float *const *acc,
                                                  size_t e)
{
    size_t groups = (n_queries + QUERIES - 1) / QUERIES; /* as even as can be */
    for (size_t t = 0; groups > 0; groups--) {
        const size_t here = (n_queries - t + groups - 1) / groups;
        const struct weights *to = join ? join + t : NULL;
        switch (here) {
        case 1: columns_of(v, p + t, 1, width, n, to, acc + t, e); break;
        case 2: columns_of(v, p + t, 2, width, n, to, acc + t, e); break;
        case 3: columns_of(v, p + t, 3, width, n, to, acc + t, e); break;
        case 4: columns_of(v, p + t, 4, width, n, to, acc + t, e); break;
        case 5: columns_of(v, p + t, 5, width, n, to, acc + t, e); break;
        default: columns_of(v, p + t, 6, width, n, to, acc + t, e); break;
        }
        t += here;
    }
}

AVX2_INLINE void values_many(const struct avx512_kv *f, const float (*p)[64], size_t n_queries, const uint8_t *v,
                             size_t stride, size_t d_head, size_t n, const struct weights *join, float *const *acc)
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
        columns_all(&values, p, n_queries, width, n, join, acc, e);
    }
}

static void values_of_type(uint32_t kv_type, const float (*p)[64], size_t n_queries, const void *v, size_t stride,
                           size_t d_head, size_t n, const struct weights *join, float *const *acc)
{
    static const struct avx512_kv f32 = {4, avx512_kv_f32}, f16 = {2, avx512_kv_f16}, q8_0 = {0, avx512_kv_q8_0};
    switch (kv_type) {
    case QUANT_F32: values_many(&f32, p, n_queries, v, stride, d_head, n, join, acc); break;
    case QUANT_F16: values_many(&f16, p, n_queries, v, stride, d_head, n, join, acc); break;
    case QUANT_Q8_0: values_many(&q8_0, p, n_queries, v, stride, d_head, n, join, acc); break;
    default: BASE_ASSERT(false, "K5 keys and values are F32, F16 or Q8_0");
    }
}

void kernel_avx512_attn_values_many(uint32_t kv_type, const float (*p)[64], size_t n_queries, const void *v,
                                    size_t v_stride_bytes, size_t d_head, size_t n, float *const *acc)
{
    values_of_type(kv_type, p, n_queries, v, v_stride_bytes, d_head, n, NULL, acc);
}

/* The contract's step 4 but for the values, for up to 16 queries, a lane each. */
static void join_sums(const struct kernel_join *join, size_t n, struct weights *out)
{
    float max[16] = {0}, sum[16] = {0}, block_max[16] = {0}, block_sum[16] = {0}, keep[16], part[16];
    for (size_t t = 0; t < n; t++) {
        block_max[t] = join[t].block_max;
        block_sum[t] = join[t].block_sum;
        max[t] = join[t].first ? block_max[t] : *join[t].max;
        sum[t] = join[t].first ? 0 : *join[t].sum;
    }
    const __m512 before = _mm512_loadu_ps(max), block = _mm512_loadu_ps(block_max);
    const __m512 both = _mm512_max_ps(block, before); /* `before` if one is NaN, as the comparison has it */
    const __m512 keeps = avx512_exp(_mm512_sub_ps(before, both)), parts = avx512_exp(_mm512_sub_ps(block, both));
    _mm512_storeu_ps(keep, keeps);
    _mm512_storeu_ps(part, parts);
    _mm512_storeu_ps(max, both);
    _mm512_storeu_ps(sum,
                     _mm512_fmadd_ps(_mm512_loadu_ps(block_sum), parts, _mm512_mul_ps(_mm512_loadu_ps(sum), keeps)));
    for (size_t t = 0; t < n; t++) {
        *join[t].max = join[t].first ? block_max[t] : max[t];
        *join[t].sum = join[t].first ? block_sum[t] : sum[t];
        out[t] = (struct weights){.keep = keep[t], .part = part[t], .first = join[t].first};
    }
}

void kernel_avx512_attn_values_join(uint32_t kv_type, const float (*p)[64], size_t n_queries, const void *v,
                                    size_t v_stride_bytes, size_t d_head, size_t n, const struct kernel_join *join)
{
    struct weights weights[KERNEL_QUERIES_MAX];
    float *acc[KERNEL_QUERIES_MAX];
    for (size_t t = 0; t < n_queries; t += 16)
        join_sums(join + t, n_queries - t < 16 ? n_queries - t : 16, weights + t);
    for (size_t t = 0; t < n_queries; t++) acc[t] = join[t].acc;
    values_of_type(kv_type, p, n_queries, v, v_stride_bytes, d_head, n, weights, acc);
}
