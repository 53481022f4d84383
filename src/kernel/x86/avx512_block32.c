/* AVX-512 products of the formats with blocks of 32.
 *
 * Few tokens: two rows stand in a register, dpbusd sums their products with the activations, 8 registers are summed
 * across together. Many tokens: 16 rows are unpacked once a block and turned so that a lane holds a row's 4 successive
 * values; 8 dpbusd with a spread of 4 activations then give 16 results.
 *
 * Offset o: sum (u - o) x = sum u x - o sum x, both exact (avx512.h). Few tokens take o times the activations' own
 * dpbusd from each lane, many tokens begin the sum with -o sum x. The bound for a block of 32: 32 * 255 * 127 < 2^21.
 */
#include "kernel/x86/avx512_formats32.h"

#include "base/assert.h"

/* ---- few tokens ---- */

/* One activation row against the 16 rows of a group. */
AVX2_INLINE __m512 dot_group(const struct format *f, const struct avx512_rows *g, const struct quant_x *x,
                             size_t n_blocks, size_t ahead)
{
    __m512 acc = _mm512_setzero_ps();
    for (size_t b = 0; b < n_blocks; b++) {
        size_t at = b * f->block_bytes;
        __m512i xv = _mm512_broadcast_i64x4(avx2_load(x->q + 32 * b)), s[AVX512_ROWS / 2];
        __m512i begin = _mm512_setzero_si512();
        if (f->offset)
            begin = _mm512_sub_epi32(begin, _mm512_dpbusd_epi32(begin, _mm512_set1_epi8((char)(uint8_t)f->offset), xv));
        for (size_t i = 0; i < AVX512_ROWS / 2; i++) {
            const uint8_t *low = g->p[avx512_half_row(i)] + at, *high = g->p[avx512_half_row(i) + 4] + at;
            s[i] = _mm512_dpbusd_epi32(begin, f->values(low, high), xv);
            avx2_prefetch(low, ahead);
            avx2_prefetch(high, ahead);
        }
        __m512 d = _mm512_mul_ps(f->scales(g, at), _mm512_set1_ps(x->d[b]));
        acc = _mm512_fmadd_ps(d, _mm512_cvtepi32_ps(avx512_sum_halves(s)), acc);
        if (f->min_at) {
            __m512 m = _mm512_mul_ps(avx512_halves(g, at + f->min_at), _mm512_set1_ps(x->d[b]));
            acc = _mm512_fmadd_ps(m, _mm512_set1_ps((float)(x->sums[2 * b] + x->sums[2 * b + 1])), acc);
        }
    }
    return acc;
}

/* ---- many tokens ---- */

struct unpacked {
    __m512i q[8]; /* lane r: values 4i .. 4i + 3 of row r */
    __m512 d, m;
};

AVX2_INLINE void unpack(const struct format *f, const struct avx512_rows *g, size_t at, struct unpacked *u)
{
    __m512i rows[AVX512_ROWS / 2];
    for (int r = 0; r < AVX512_ROWS / 2; r++) rows[r] = f->values(g->p[r] + at, g->p[r + 8] + at);
    avx512_transpose_halves(rows, u->q);
    u->d = f->scales(g, at);
    if (f->min_at) u->m = avx512_halves(g, at + f->min_at);
}

AVX2_INLINE void dot_tile(const struct format *f, const struct avx512_rows *g, const struct avx512_tokens *t,
                          size_t n_blocks, __m512 acc[AVX512_TILE])
{
    struct unpacked u;
    for (size_t i = 0; i < t->n; i += AVX512_STEP)
        for (size_t k = 0; k < AVX512_STEP; k++) acc[i + k] = _mm512_setzero_ps();
    for (size_t b = 0; b < n_blocks; b++) {
        unpack(f, g, b * f->block_bytes, &u);
        for (size_t i = 0; i < t->n; i += AVX512_STEP) {
            const struct quant_x *x = t->x + i;
            __m512i sum[AVX512_STEP];
            int sums[AVX512_STEP];
            for (int k = 0; k < AVX512_STEP; k++) {
                sums[k] = x[k].sums[2 * b] + x[k].sums[2 * b + 1];
                sum[k] = _mm512_set1_epi32(-f->offset * sums[k]);
            }
            for (size_t v = 0; v < 8; v++)
                for (int k = 0; k < AVX512_STEP; k++)
                    sum[k] = _mm512_dpbusd_epi32(sum[k], u.q[v], avx512_spread(x[k].q + 32 * b + 4 * v));
            for (int k = 0; k < AVX512_STEP; k++) {
                __m512 d = _mm512_set1_ps(x[k].d[b]), a = acc[i + (size_t)k];
                a = _mm512_fmadd_ps(_mm512_mul_ps(u.d, d), _mm512_cvtepi32_ps(sum[k]), a);
                if (f->min_at) a = _mm512_fmadd_ps(_mm512_mul_ps(u.m, d), _mm512_set1_ps((float)sums[k]), a);
                acc[i + (size_t)k] = a;
            }
        }
    }
}

AVX2_INLINE void product(const struct format *f, AVX2_PRODUCT_ARGS)
{
    size_t n_blocks = acts->n / 32, stride = n_blocks * f->block_bytes;
    if (n_tokens <= AVX512_FEW) {
        for (size_t r = 0; r < n_rows; r += AVX512_ROWS) {
            struct avx512_rows g = avx512_rows_at(w, stride, r, n_rows);
            for (size_t j = 0; j < n_tokens; j++) {
                struct quant_x x = avx2_row_of(acts, QUANT_FORM_32, 32, tokens ? tokens[j] : j);
                avx512_store_rows(out + (out_rows ? out_rows[j] : j) * out_stride + r, g.n,
                                  dot_group(f, &g, &x, n_blocks, AVX512_ROWS * stride));
            }
        }
        return;
    }
    struct avx512_tokens t;
    __m512 acc[AVX512_TILE];
    for (size_t j = 0; j < n_tokens; j += AVX512_TILE) {
        avx512_tokens_at(&t, QUANT_FORM_32, acts, tokens, j, n_tokens, out, out_stride, out_rows);
        for (size_t r = 0; r < n_rows; r += AVX512_ROWS) {
            struct avx512_rows g = avx512_rows_at(w, stride, r, n_rows);
            dot_tile(f, &g, &t, n_blocks, acc);
            for (size_t i = 0; i < t.n; i++) avx512_store_rows(t.out[i] + r, g.n, acc[i]);
        }
    }
}

#define PRODUCT(name, bytes, scale_of, min, off)                                                              \
    void kernel_avx512_##name(AVX2_PRODUCT_ARGS)                                                              \
    {                                                                                                         \
        static const struct format f = {                                                                      \
            .block_bytes = bytes, .values = values_##name, .scales = scale_of, .min_at = min, .offset = off}; \
        product(&f, w, n_rows, acts, tokens, n_tokens, out, out_stride, out_rows);                            \
    }
FORMATS_32(PRODUCT)

void kernel_avx512_rows_q8_0(const void *w, size_t stride, size_t n_rows, const struct quant_x *x, size_t n, float *out)
{
    static const struct format f = {.block_bytes = 34, .values = values_q8_0, .scales = scales_half, .offset = 128};
    for (size_t r = 0; r < n_rows; r += AVX512_ROWS) {
        struct avx512_rows g = avx512_rows_at(w, stride, r, n_rows);
        avx512_store_rows(out + r, g.n, dot_group(&f, &g, x, n / 32, AVX512_ROWS * stride));
    }
}

void kernel_avx512_rows_many_q8_0(const void *w, size_t stride, size_t n_rows, const struct quant_x *x, size_t n_x,
                                  size_t n, float (*out)[64])
{
    static const struct format f = {.block_bytes = 34, .values = values_q8_0, .scales = scales_half, .offset = 128};
    struct avx512_tokens t = {.n = n_x};
    __m512 acc[AVX512_TILE];
    BASE_ASSERT(n_x > 0 && n_x <= AVX512_TILE, "K4 some queries");
    for (size_t i = 0; i < n_x || i % AVX512_STEP != 0; i++) t.x[i] = x[i < n_x ? i : n_x - 1];
    for (size_t r = 0; r < n_rows; r += AVX512_ROWS) {
        struct avx512_rows g = avx512_rows_at(w, stride, r, n_rows);
        for (size_t i = 0; i < AVX512_ROWS; i++)
            for (size_t line = 0; line < n / 32 * 34; line += 64) avx2_prefetch(g.p[i], AVX512_ROWS * stride + line);
        dot_tile(&f, &g, &t, n / 32, acc);
        for (size_t i = 0; i < n_x; i++) avx512_store_rows(out[i] + r, g.n, acc[i]);
    }
}
