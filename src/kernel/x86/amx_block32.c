/* Tile products of the formats with blocks of 32: one tile product a block, 16 tokens and 16 weight rows.
 *
 * Weights go in as signed bytes, value - offset: -8 .. 7, -16 .. 15, -12 .. 12, 0 .. 31, -127 .. 113, and Q8_0's own
 * bytes, down to -128. So no correction is left, and a sum is at most 32 * 128 * 127 in magnitude. */
#include "kernel/x86/amx.h"
#include "kernel/x86/avx512_formats32.h"

struct scratch {
    _Alignas(64) int8_t a[AMX_TILE][32];
    _Alignas(64) int32_t b[8][16];
    _Alignas(64) int32_t c[AMX_TILE][16];
    __m512 acc[AMX_GROUPS][AMX_TILE];
};

AVX2_INLINE void unpack(const struct format *f, const struct avx512_rows *g, size_t at, int32_t b[8][16])
{
    const __m512i offset = _mm512_set1_epi8((char)(uint8_t)f->offset);
    __m512i rows[AVX512_ROWS / 2], turned[8];
    for (int r = 0; r < AVX512_ROWS / 2; r++)
        rows[r] = _mm512_sub_epi8(f->values(g->p[r] + at, g->p[r + 8] + at), offset);
    avx512_transpose_halves(rows, turned);
    for (int i = 0; i < 8; i++) avx512_store(b[i], turned[i]);
}

/* The integer sums of a group's block for n tokens. */
AVX2_INLINE void multiply(struct scratch *s, size_t n)
{
    amx_stores_done(s);
    _tile_loadd(AMX_B0, s->b, 64);
    for (size_t t = 0; t < n; t += 2 * AMX_TOKENS) { /* the second half may be of no use; there is room for it */
        _tile_loadd(AMX_A0, s->a[t], 32);
        _tile_loadd(AMX_A1, s->a[t + AMX_TOKENS], 32);
        _tile_zero(AMX_C00);
        _tile_zero(AMX_C10);
        _tile_dpbssd(AMX_C00, AMX_A0, AMX_B0);
        _tile_dpbssd(AMX_C10, AMX_A1, AMX_B0);
        _tile_stored(AMX_C00, s->c[t], 64);
        _tile_stored(AMX_C10, s->c[t + AMX_TOKENS], 64);
    }
}

AVX2_INLINE void block(const struct format *f, struct scratch *s, const struct avx512_rows *g, size_t n_groups,
                       const struct amx_tokens *t, size_t b)
{
    for (size_t i = 0; i < t->n; i++) _mm256_store_si256((__m256i *)(void *)s->a[i], avx2_load(t->x[i].q + 32 * b));
    for (size_t k = 0; k < n_groups; k++) {
        size_t at = b * f->block_bytes;
        unpack(f, &g[k], at, s->b);
        multiply(s, t->n);
        __m512 w_d = f->scales(&g[k], at), w_m = _mm512_setzero_ps();
        if (f->min_at) w_m = avx512_halves(&g[k], at + f->min_at);
        for (size_t i = 0; i < t->n; i++) {
            const struct quant_x *x = &t->x[i];
            __m512 d = _mm512_set1_ps(x->d[b]), acc = s->acc[k][i];
            acc = _mm512_fmadd_ps(_mm512_mul_ps(w_d, d), _mm512_cvtepi32_ps(avx512_load(s->c[i])), acc);
            if (f->min_at)
                acc = _mm512_fmadd_ps(_mm512_mul_ps(w_m, d),
                                      _mm512_set1_ps((float)(x->sums[2 * b] + x->sums[2 * b + 1])), acc);
            s->acc[k][i] = acc;
        }
    }
}

AVX2_INLINE void product(const struct format *f, AVX2_PRODUCT_ARGS)
{
    size_t n_blocks = acts->n / 32, stride = n_blocks * f->block_bytes;
    struct scratch s;
    struct amx_tokens t;
    struct avx512_rows g[AMX_GROUPS];
    memset(s.a, 0, sizeof s.a); /* rows beyond the tokens: any values would do */
    amx_begin(8);
    for (size_t j = 0; j < n_tokens; j += AMX_TILE) {
        amx_tokens_at(&t, QUANT_FORM_32, acts, tokens, j, n_tokens, out, out_stride, out_rows);
        for (size_t r = 0; r < n_rows; r += AMX_GROUPS * AVX512_ROWS) {
            size_t n_groups = amx_groups_at(g, w, stride, r, n_rows);
            for (size_t k = 0; k < n_groups; k++)
                for (size_t i = 0; i < t.n; i++) s.acc[k][i] = _mm512_setzero_ps();
            for (size_t b = 0; b < n_blocks; b++) block(f, &s, g, n_groups, &t, b);
            for (size_t k = 0; k < n_groups; k++)
                for (size_t i = 0; i < t.n; i++) avx512_store_rows(t.out[i] + r + 16 * k, g[k].n, s.acc[k][i]);
        }
    }
    amx_end();
}

#define PRODUCT(name, bytes, scale_of, min, off)                                                              \
    void kernel_amx_##name(AVX2_PRODUCT_ARGS)                                                                 \
    {                                                                                                         \
        static const struct format f = {                                                                      \
            .block_bytes = bytes, .values = values_##name, .scales = scale_of, .min_at = min, .offset = off}; \
        if (n_tokens < atomic_load_explicit(&kernel_amx_from_32, memory_order_relaxed))                       \
            kernel_avx512_##name(w, n_rows, acts, tokens, n_tokens, out, out_stride, out_rows);               \
        else                                                                                                  \
            product(&f, w, n_rows, acts, tokens, n_tokens, out, out_stride, out_rows);                        \
    }
FORMATS_32(PRODUCT)
