/* Tile products of the formats with blocks of 32: one tile product a block, of half the depth, 16 weight rows and 16
 * tokens.
 *
 * Weights go in as signed bytes, value - offset: -8 .. 7, -16 .. 15, -12 .. 12, 0 .. 31, -127 .. 113, and Q8_0's own
 * bytes, down to -128. So no correction is left, and a sum is at most 32 * 128 * 127 in magnitude. */
#include "kernel/x86/amx.h"
#include "kernel/x86/avx512_formats32.h"

/* A block of 16 tokens. */
struct turned {
    _Alignas(64) int32_t x[8][16]; /* row i, lane t: values 4 i .. 4 i + 3 of token t */
    __m512 d, sum;                 /* sum: of its values, where the format has a minimum */
};

struct scratch {
    _Alignas(64) int8_t w[16][32]; /* the next group's block */
    __m512 d, dmin;                /* lane r: of row r */
    struct turned t[AMX_TILES];
    _Alignas(64) int32_t sums[AMX_TILES][16][16];   /* [tile][row][token] */
    __m512 acc[AMX_GROUPS][AMX_TILES][AVX512_ROWS]; /* of each row, lane t */
};

AVX2_INLINE void unpack(const struct format *f, const struct avx512_rows *g, size_t at, struct scratch *s)
{
    const __m512i offset = _mm512_set1_epi8((char)(uint8_t)f->offset);
    for (int r = 0; r < AVX512_ROWS; r += 2)
        avx512_store(s->w[r], _mm512_sub_epi8(f->values(g->p[r] + at, g->p[r + 1] + at), offset));
    s->d = f->scales(g, at);
    if (f->min_at) s->dmin = avx512_halves(g, at + f->min_at);
}

AVX2_INLINE void turn(const struct format *f, const struct quant_x *x, size_t b, struct turned *to)
{
    amx_turn_16(x, 32 * b, to->x);
    amx_turn_16(x, 32 * b + 16, to->x + 4);
    to->d = amx_token_scales(x, b);
    if (!f->min_at) return;
    _Alignas(64) int32_t sums[AMX_TOKENS];
    for (int i = 0; i < AMX_TOKENS; i++) sums[i] = x[i].sums[2 * b] + x[i].sums[2 * b + 1];
    to->sum = _mm512_cvtepi32_ps(avx512_load(sums));
}

/* The group's block times all tiles of tokens; the next one is unpacked meanwhile. */
AVX2_INLINE void multiply(const struct format *f, struct scratch *s, size_t n_tiles, const struct avx512_rows *next,
                          size_t at)
{
    amx_stores_done(s);
    _tile_loadd(AMX_A0, s->w, 32);
    _tile_loadd(AMX_B0, s->t[0].x, 64);
    _tile_zero(AMX_C00);
    _tile_dpbssd(AMX_C00, AMX_A0, AMX_B0);
    if (n_tiles > 1) {
        _tile_loadd(AMX_B1, s->t[1].x, 64);
        _tile_zero(AMX_C01);
        _tile_dpbssd(AMX_C01, AMX_A0, AMX_B1);
    }
    if (n_tiles > 2) {
        _tile_loadd(AMX_B0, s->t[2].x, 64);
        _tile_zero(AMX_C10);
        _tile_dpbssd(AMX_C10, AMX_A0, AMX_B0);
    }
    if (n_tiles > 3) {
        _tile_loadd(AMX_B1, s->t[3].x, 64);
        _tile_zero(AMX_C11);
        _tile_dpbssd(AMX_C11, AMX_A0, AMX_B1);
    }
    if (next) {
        amx_stores_done(s);
        unpack(f, next, at, s);
    }
    _tile_stored(AMX_C00, s->sums[0], 64);
    if (n_tiles > 1) _tile_stored(AMX_C01, s->sums[1], 64);
    if (n_tiles > 2) _tile_stored(AMX_C10, s->sums[2], 64);
    if (n_tiles > 3) _tile_stored(AMX_C11, s->sums[3], 64);
}

/* The block's part of 16 rows; d and dmin are the rows'. */
AVX2_INLINE void add_block(const struct format *f, const struct scratch *s, __m512 d, __m512 dmin, size_t n_tiles,
                           __m512 acc[AMX_TILES][AVX512_ROWS])
{
    _Alignas(64) float w_d[AVX512_ROWS], w_m[AVX512_ROWS];
    _mm512_store_ps(w_d, d);
    _mm512_store_ps(w_m, dmin);
    for (size_t i = 0; i < n_tiles; i++) {
        const __m512 x_d = s->t[i].d, x_sum = s->t[i].sum;
        for (int r = 0; r < AVX512_ROWS; r++) {
            const __m512 sum = _mm512_cvtepi32_ps(avx512_load(s->sums[i][r]));
            __m512 a = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_set1_ps(w_d[r]), x_d), sum, acc[i][r]);
            if (f->min_at) a = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_set1_ps(w_m[r]), x_d), x_sum, a);
            acc[i][r] = a;
        }
    }
}

/* Up to AMX_GROUPS groups of rows times n tokens (x has whole tiles). */
AVX2_INLINE void groups_product(const struct format *f, struct scratch *s, const struct avx512_rows *g, size_t n_groups,
                                const struct quant_x *x, size_t n, size_t n_blocks, uintptr_t fetch)
{
    const size_t n_tiles = (n + AMX_TOKENS - 1) / AMX_TOKENS;
    for (size_t k = 0; k < n_groups; k++)
        for (size_t i = 0; i < n_tiles; i++)
            for (int r = 0; r < AVX512_ROWS; r++) s->acc[k][i][r] = _mm512_setzero_ps();
    s->dmin = _mm512_setzero_ps();
    unpack(f, &g[0], 0, s);
    for (size_t b = 0; b < n_blocks; b++) {
        for (size_t i = 0; i < n_tiles; i++) turn(f, x + AMX_TOKENS * i, b, &s->t[i]);
        for (size_t k = 0; k < n_groups; k++) {
            const bool last = k + 1 == n_groups, end = last && b + 1 == n_blocks;
            const __m512 d = s->d, dmin = s->dmin;
            multiply(f, s, n_tiles, end ? NULL : last ? g : g + k + 1, (b + last) * f->block_bytes);
            add_block(f, s, d, dmin, n_tiles, s->acc[k]);
            fetch = amx_fetch(fetch, AVX512_ROWS * f->block_bytes);
        }
    }
}

AVX2_INLINE void product(const struct format *f, AVX2_PRODUCT_ARGS)
{
    const size_t n_blocks = acts->n / 32, stride = n_blocks * f->block_bytes;
    struct scratch s;
    struct amx_tokens t;
    struct avx512_rows g[AMX_GROUPS];
    amx_begin(8);
    for (size_t j = 0; j < n_tokens; j += AMX_TILE) {
        amx_tokens_at(&t, QUANT_FORM_32, acts, tokens, j, n_tokens, out, out_stride, out_rows);
        for (size_t r = 0, n_groups; r < n_rows; r += n_groups * AVX512_ROWS) {
            n_groups = amx_groups_at(g, w, stride, r, n_rows);
            groups_product(f, &s, g, n_groups, t.x, t.n, n_blocks,
                           amx_next_weights(w, stride, r + n_groups * AVX512_ROWS, n_rows, acts));
            for (size_t k = 0; k < n_groups; k++)
                for (size_t i = 0; i < t.n; i += AMX_TOKENS)
                    amx_store(&g[k], s.acc[k][i / AMX_TOKENS], t.out + i, t.n - i < AMX_TOKENS ? t.n - i : AMX_TOKENS,
                              r + k * AVX512_ROWS);
        }
    }
    amx_end();
}

/* Few tokens leave before the frame is set up, which is large. */
#define PRODUCT(name, bytes, scale_of, min, off)                                                              \
    static __attribute__((noinline)) void tiles_##name(AVX2_PRODUCT_ARGS)                                     \
    {                                                                                                         \
        static const struct format f = {                                                                      \
            .block_bytes = bytes, .values = values_##name, .scales = scale_of, .min_at = min, .offset = off}; \
        product(&f, w, n_rows, acts, tokens, n_tokens, out, out_stride, out_rows);                            \
    }                                                                                                         \
    void kernel_amx_##name(AVX2_PRODUCT_ARGS)                                                                 \
    {                                                                                                         \
        if (n_tokens < atomic_load_explicit(&kernel_amx_from_32, memory_order_relaxed))                       \
            kernel_avx512_##name(w, n_rows, acts, tokens, n_tokens, out, out_stride, out_rows);               \
        else                                                                                                  \
            tiles_##name(w, n_rows, acts, tokens, n_tokens, out, out_stride, out_rows);                       \
    }
FORMATS_32(PRODUCT)
