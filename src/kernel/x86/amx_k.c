/* Tile products of the K formats and IQ4_XS, without any work a sub-block: sub-scales are multiplied into the values
 * beforehand. A value q (without its offset) times a sub-scale s is p = q s, |p| <= 32 * 128 = 4096 (Q6_K; Q5_K 31 *
 * 63, IQ4_XS 127 * 32), which is split as p = l + 256 h with l = p mod 256, 0 .. 255, and h = floor(p / 256), -16
 * .. 16. Then
 *
 *     I = sum p x = sum l x + 256 sum h x
 *
 * in two tile products of full depth, one of unsigned and one of signed bytes with the signed activations. (Splitting
 * the scale in two halves of 3 bits comes to the same number of products, but not for Q6_K, whose scales have 8 bits.)
 * Each sum is exact modulo 2^32, 256 times the second and their sum likewise, and I itself fits (quant/README.md).
 * Activations are signed bytes of at most 127. */
#include "kernel/x86/amx.h"
#include "kernel/x86/avx512_formats256.h"

struct scratch {
    _Alignas(64) int8_t a[AMX_TILE][256];
    _Alignas(64) int32_t low[64][16], high[64][16]; /* four tiles each: row i, lane r: bytes 4i .. 4i + 3 of row r */
    _Alignas(64) int32_t c_low[2 * AMX_TOKENS][16], c_high[2 * AMX_TOKENS][16];
    __m512i pairs[8];
    __m512 acc[AMX_GROUPS][AMX_TILE];
};

/* 64 values of each row times their sub-scales, from 64 c. scales[r]: 16 words in the low half. */
AVX2_INLINE void unpack_values(const struct format *f, const struct avx512_rows *g, size_t at, int c,
                               const __m512i scales[AVX512_ROWS], struct scratch *s)
{
    /* the 8 words of quarter j get scale 4 c + j: 16 values are a quarter of bytes, and two half quarters of words */
    const __m512i which =
        _mm512_add_epi16(_mm512_set_epi64(0x0003000300030003, 0x0003000300030003, 0x0002000200020002,
                                          0x0002000200020002, 0x0001000100010001, 0x0001000100010001, 0, 0),
                         _mm512_set1_epi16((short)(4 * c)));
    const __m512i zero = _mm512_setzero_si512(), byte = _mm512_set1_epi16(255),
                  offset = _mm512_set1_epi16((short)f->offset);
    __m512i low[AVX512_ROWS], high[AVX512_ROWS], turned[16];
    for (int r = 0; r < AVX512_ROWS; r++) {
        __m512i v = f->values(g->p[r] + at, c), scale = _mm512_permutexvar_epi16(which, scales[r]);
        __m512i p0 = _mm512_mullo_epi16(_mm512_sub_epi16(_mm512_unpacklo_epi8(v, zero), offset), scale);
        __m512i p1 = _mm512_mullo_epi16(_mm512_sub_epi16(_mm512_unpackhi_epi8(v, zero), offset), scale);
        low[r] = _mm512_packus_epi16(_mm512_and_si512(p0, byte), _mm512_and_si512(p1, byte));
        high[r] = _mm512_packs_epi16(_mm512_srai_epi16(p0, 8), _mm512_srai_epi16(p1, 8));
    }
    avx512_transpose(low, turned);
    for (int i = 0; i < 16; i++) avx512_store(s->low[16 * c + i], turned[i]);
    avx512_transpose(high, turned);
    for (int i = 0; i < 16; i++) avx512_store(s->high[16 * c + i], turned[i]);
}

AVX2_INLINE void unpack(const struct format *f, const struct avx512_rows *g, size_t at, struct scratch *s)
{
    __m512i scales[AVX512_ROWS];
    for (int r = 0; r < AVX512_ROWS; r++)
        scales[r] = _mm512_castsi256_si512(_mm256_cvtepi8_epi16(f->scales(g->p[r] + at)));
    unpack_values(f, g, at, 0, scales, s);
    unpack_values(f, g, at, 1, scales, s);
    unpack_values(f, g, at, 2, scales, s);
    unpack_values(f, g, at, 3, scales, s);
    if (f->min_at) avx512_pairs(f->mins, g, at, s->pairs);
}

/* The sums of a group's block for 32 tokens: 4 tiles of results, so each tile of weights and tokens serves twice. */
AVX2_INLINE void multiply(struct scratch *s, size_t token)
{
    amx_stores_done(s);
    _tile_zero(AMX_C00);
    _tile_zero(AMX_C01);
    _tile_zero(AMX_C10);
    _tile_zero(AMX_C11);
    for (size_t c = 0; c < 4; c++) {
        _tile_loadd(AMX_A0, s->a[token] + 64 * c, 256);
        _tile_loadd(AMX_A1, s->a[token + AMX_TOKENS] + 64 * c, 256);
        _tile_loadd(AMX_B0, s->low[16 * c], 64);
        _tile_loadd(AMX_B1, s->high[16 * c], 64);
        _tile_dpbsud(AMX_C00, AMX_A0, AMX_B0);
        _tile_dpbssd(AMX_C01, AMX_A0, AMX_B1);
        _tile_dpbsud(AMX_C10, AMX_A1, AMX_B0);
        _tile_dpbssd(AMX_C11, AMX_A1, AMX_B1);
    }
    _tile_stored(AMX_C00, s->c_low, 64);
    _tile_stored(AMX_C01, s->c_high, 64);
    _tile_stored(AMX_C10, s->c_low[AMX_TOKENS], 64);
    _tile_stored(AMX_C11, s->c_high[AMX_TOKENS], 64);
}

AVX2_INLINE void group_block(const struct format *f, struct scratch *s, const struct avx512_rows *g, size_t k,
                             const struct amx_tokens *t, size_t b)
{
    size_t at = b * f->block_bytes;
    unpack(f, g, at, s);
    __m512 w_d = avx512_halves(g, at + f->d_at), w_m = _mm512_setzero_ps();
    if (f->min_at) w_m = avx512_negate(avx512_halves(g, at + f->min_at));
    for (size_t first = 0; first < t->n; first += 2 * AMX_TOKENS) {
        multiply(s, first);
        for (size_t i = first; i < first + 2 * AMX_TOKENS && i < t->n; i++) {
            const struct quant_x *x = &t->x[i];
            __m512i sum = _mm512_add_epi32(avx512_load(s->c_low[i - first]),
                                           _mm512_slli_epi32(avx512_load(s->c_high[i - first]), 8));
            __m512 d = _mm512_set1_ps(x->d[b]);
            __m512 acc = _mm512_fmadd_ps(_mm512_mul_ps(w_d, d), _mm512_cvtepi32_ps(sum), s->acc[k][i]);
            if (f->min_at)
                acc = _mm512_fmadd_ps(_mm512_mul_ps(w_m, d),
                                      _mm512_cvtepi32_ps(avx512_pair_sum(s->pairs, x->sums + 16 * b)), acc);
            s->acc[k][i] = acc;
        }
    }
}

AVX2_INLINE void product(const struct format *f, AVX2_PRODUCT_ARGS)
{
    size_t n_blocks = acts->n / 256, stride = n_blocks * f->block_bytes;
    struct scratch s;
    struct amx_tokens t;
    struct avx512_rows g[AMX_GROUPS];
    memset(s.a, 0, sizeof s.a); /* rows beyond the tokens: any values would do */
    amx_begin(16);
    for (size_t j = 0; j < n_tokens; j += AMX_TILE) {
        amx_tokens_at(&t, QUANT_FORM_256, acts, tokens, j, n_tokens, out, out_stride, out_rows);
        for (size_t r = 0; r < n_rows; r += AMX_GROUPS * AVX512_ROWS) {
            size_t n_groups = amx_groups_at(g, w, stride, r, n_rows);
            for (size_t k = 0; k < n_groups; k++)
                for (size_t i = 0; i < t.n; i++) s.acc[k][i] = _mm512_setzero_ps();
            for (size_t b = 0; b < n_blocks; b++) {
                for (size_t i = 0; i < t.n; i++) memcpy(s.a[i], t.x[i].q + 256 * b, 256);
                for (size_t k = 0; k < n_groups; k++) group_block(f, &s, &g[k], k, &t, b);
            }
            for (size_t k = 0; k < n_groups; k++)
                for (size_t i = 0; i < t.n; i++) avx512_store_rows(t.out[i] + r + 16 * k, g[k].n, s.acc[k][i]);
        }
    }
    amx_end();
}

#define PRODUCT(name, bytes, half_at, minimum_at, off, largest, pairs_32, scales_of, mins_of)   \
    void kernel_amx_##name(AVX2_PRODUCT_ARGS)                                                   \
    {                                                                                           \
        static const struct format f = {.block_bytes = bytes,                                   \
                                        .d_at = half_at,                                        \
                                        .min_at = minimum_at,                                   \
                                        .offset = off,                                          \
                                        .top = largest,                                         \
                                        .in_32 = pairs_32,                                      \
                                        .values = values_##name,                                \
                                        .scales = scales_of,                                    \
                                        .mins = mins_of};                                       \
        if (n_tokens < atomic_load_explicit(&kernel_amx_from_256, memory_order_relaxed))        \
            kernel_avx512_##name(w, n_rows, acts, tokens, n_tokens, out, out_stride, out_rows); \
        else                                                                                    \
            product(&f, w, n_rows, acts, tokens, n_tokens, out, out_stride, out_rows);          \
    }
FORMATS_256(PRODUCT)
