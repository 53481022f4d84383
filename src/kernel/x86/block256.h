/* Products of the formats with blocks of 256 values, written once for all of them; a file of formats includes this,
 * describes each by a struct format and instantiates its product with PRODUCT.
 *
 * All have 16 integer sub-scales, one a 16 values (where the file has one a 32, it stands twice), or none. Few tokens:
 * a row's values go through the registers 32 at a time; sums across registers are taken once a block for 8 rows
 * together. Many tokens: tile.h.
 *
 * Values come in one of three kinds:
 *   unsigned, 1 << offset_log2 too large or with a minimum; `steps` pairs of a maddubs are added in 16 bits. Many
 * tokens take the offset off and, if there was one, activations that are 128 too large signed (steps 0): 16-bit
 * products where many tokens share them magnitudes with bits of sign (sign_bits): few tokens move the signs to the
 * activations, which are never -128; many tokens have signed values. (offset_log2 then says only that they are no
 * unsigned ones) Each file of formats proves that none of its 16-bit steps saturates, whatever bytes a model file
 * holds. */
#ifndef KERNEL_X86_BLOCK256_H
#define KERNEL_X86_BLOCK256_H

#include "kernel/x86/tile.h"

/* What a format may work out of a row's block before its chunks of 32 values. */
struct prepared {
    _Alignas(32) uint16_t index[64]; /* into a grid */
    _Alignas(32) uint32_t signs[8];  /* 256 bits, set: negative */
    _Alignas(32) uint32_t extra[32];
};

struct format {
    size_t block_bytes;
    size_t d_at, min_at;                               /* min_at 0: no minimum */
    float d_factor;                                    /* 0: none; else d is the half times this, a power of two */
    __m256 (*d)(const struct avx2_rows *g, size_t at); /* instead of d_at and d_factor; NULL: those */
    int offset_log2;                                   /* unsigned values are 1 << this too large; -1: they are not */
    int steps;                                         /* see above; 0: values are signed */
    int few;                                           /* up to so many tokens go one after the other; measured */
    bool sign_bits;                                    /* values are magnitudes, signs are prepared */
    bool mins_of_32;                                   /* each minimum stands twice */
    void (*prepare)(const uint8_t *p, struct prepared *u);                /* NULL: nothing */
    __m256i (*values)(const uint8_t *p, const struct prepared *u, int c); /* 32 values from 32 c */
    __m128i (*scales)(const uint8_t *p);                                  /* 16 signed bytes; NULL: all are 1 */
    __m128i (*mins)(const uint8_t *p);                                    /* 16 bytes, at most 63 */
    /* ways of a format's own; NULL: none */
    void (*few_tokens)(AVX2_PRODUCT_ARGS);
    void (*unpack)(const struct avx2_rows *g, size_t block, size_t n_blocks, struct tile_slab *u); /* see tile_format */
};

/* ---- helpers for formats ---- */

/* Bit pair c % 4 of the 32 bytes of half c / 4. */
AVX2_INLINE __m256i bit_pairs(const uint8_t *p, int c)
{
    return _mm256_and_si256(_mm256_srli_epi16(avx2_load(p + 32 * (c / 4)), 2 * (c % 4)), _mm256_set1_epi8(3));
}

/* -1 or 1 for each of the 32 bits of the word. */
AVX2_INLINE __m256i spread_signs(const uint32_t *bits)
{
    const __m256i byte_of = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bit_of = _mm256_set1_epi64x((long long)0x8040201008040201);
    __m256i bytes = _mm256_shuffle_epi8(avx2_spread(bits), byte_of);
    return _mm256_or_si256(_mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit_of), bit_of), _mm256_set1_epi8(1));
}

/* ---- few tokens ---- */

/* 16 bytes as words, those of even index in the low half and those of odd index in the high half: sub-block 2 c and
 * 2 c + 1 then have their scale at the same place of the two halves, as their values have. */
AVX2_INLINE __m256i even_odd(__m128i bytes)
{
    return _mm256_cvtepi8_epi16(
        _mm_shuffle_epi8(bytes, _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15)));
}

AVX2_INLINE __m256i even_odd_words(__m256i words)
{
    __m256i v = _mm256_shuffle_epi8(
        words, _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15)));
    return _mm256_permute4x64_epi64(v, 0xd8);
}

/* All rows first, so that what is stored has settled when it is read in smaller pieces. The empty statement keeps the
 * compiler from taking those out of registers one by one instead, which is far slower. */
AVX2_INLINE void prepare_rows(const struct format *f, const struct avx2_rows *g, size_t at,
                              struct prepared u[AVX2_ROWS])
{
    if (!f->prepare) return;
    for (int r = 0; r < AVX2_ROWS; r++) f->prepare(g->p[r] + at, &u[r]);
    __asm__ volatile("" : : "r"(u) : "memory");
}

/* 32 values times activations, pairs of products added. */
AVX2_INLINE __m256i chunk_pairs(const struct format *f, const uint8_t *p, const struct prepared *u, int c, __m256i x)
{
    __m256i w = f->values(p, u, c);
    if (f->sign_bits) return _mm256_maddubs_epi16(w, _mm256_sign_epi8(x, spread_signs(u->signs + c)));
    return f->steps ? _mm256_maddubs_epi16(w, x) : avx2_pairs_signed(w, x);
}

/* The same times sub-scales. */
AVX2_INLINE __m256i chunk_sum(const struct format *f, const uint8_t *p, const struct prepared *u, int c, __m256i x,
                              __m256i scales)
{
    __m256i pick = _mm256_set1_epi16((short)(0x0100 + 0x0202 * c));
    return _mm256_madd_epi16(chunk_pairs(f, p, u, c, x), _mm256_shuffle_epi8(scales, pick));
}

/* Without sub-scales: the pairs of all 8 chunks are added in 16 bits. */
AVX2_INLINE __m256i row_sum_flat(const struct format *f, const uint8_t *p, const __m256i x[8], __m256i sums)
{
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i a = _mm256_add_epi16(chunk_pairs(f, p, NULL, 0, x[0]), chunk_pairs(f, p, NULL, 1, x[1]));
    __m256i b = _mm256_add_epi16(chunk_pairs(f, p, NULL, 2, x[2]), chunk_pairs(f, p, NULL, 3, x[3]));
    a = _mm256_add_epi16(a, chunk_pairs(f, p, NULL, 4, x[4]));
    b = _mm256_add_epi16(b, chunk_pairs(f, p, NULL, 5, x[5]));
    a = _mm256_add_epi16(a, chunk_pairs(f, p, NULL, 6, x[6]));
    b = _mm256_add_epi16(b, chunk_pairs(f, p, NULL, 7, x[7]));
    a = _mm256_madd_epi16(_mm256_add_epi16(a, b), ones);
    return _mm256_sub_epi32(a, _mm256_slli_epi32(_mm256_madd_epi16(sums, ones), f->offset_log2));
}

AVX2_INLINE __m256i row_sum(const struct format *f, const uint8_t *p, const struct prepared *u, const __m256i x[8],
                            __m256i sums)
{
    if (!f->scales) return row_sum_flat(f, p, x, sums);
    __m256i scales = even_odd(f->scales(p));
    __m256i a = _mm256_add_epi32(chunk_sum(f, p, u, 0, x[0], scales), chunk_sum(f, p, u, 1, x[1], scales));
    __m256i b = _mm256_add_epi32(chunk_sum(f, p, u, 2, x[2], scales), chunk_sum(f, p, u, 3, x[3], scales));
    a = _mm256_add_epi32(a, chunk_sum(f, p, u, 4, x[4], scales));
    b = _mm256_add_epi32(b, chunk_sum(f, p, u, 5, x[5], scales));
    a = _mm256_add_epi32(a, chunk_sum(f, p, u, 6, x[6], scales));
    b = _mm256_add_epi32(b, chunk_sum(f, p, u, 7, x[7], scales));
    a = _mm256_add_epi32(a, b);
    if (f->offset_log2 >= 0 && !f->sign_bits)
        a = _mm256_sub_epi32(a, _mm256_slli_epi32(_mm256_madd_epi16(scales, sums), f->offset_log2));
    return a;
}

AVX2_INLINE __m256 row_scales(const struct format *f, const struct avx2_rows *g, size_t at)
{
    if (f->d) return f->d(g, at);
    __m256 d = avx2_halves(g, at + f->d_at);
    return f->d_factor != 0.0f ? _mm256_mul_ps(d, _mm256_set1_ps(f->d_factor)) : d;
}

AVX2_INLINE __m256 dot_group(const struct format *f, const struct avx2_rows *g, const struct quant_x *x,
                             size_t n_blocks, size_t ahead)
{
    __m256 acc = _mm256_setzero_ps();
    for (size_t b = 0; b < n_blocks; b++) {
        size_t at = b * f->block_bytes;
        __m256i xv[8], s[AVX2_ROWS], m[AVX2_ROWS];
        for (int c = 0; c < 8; c++) xv[c] = avx2_load(x->q + 256 * b + 32 * c);
        __m256i sums = even_odd_words(avx2_load(x->sums + 16 * b));
        struct prepared u[AVX2_ROWS];
        prepare_rows(f, g, at, u);
        for (int r = 0; r < AVX2_ROWS; r++) {
            const uint8_t *p = g->p[r] + at;
            s[r] = row_sum(f, p, &u[r], xv, sums);
            if (f->min_at) m[r] = _mm256_madd_epi16(even_odd(f->mins(p)), sums);
            for (size_t line = 0; line < f->block_bytes; line += 64) avx2_prefetch(p + line, ahead);
        }
        __m256 xd = _mm256_set1_ps(x->d[b]);
        __m256 d = _mm256_mul_ps(row_scales(f, g, at), xd);
        acc = _mm256_fmadd_ps(d, _mm256_cvtepi32_ps(avx2_sum_each(s)), acc);
        if (f->min_at) {
            __m256 dmin = _mm256_xor_ps(avx2_halves(g, at + f->min_at), _mm256_set1_ps(-0.0f));
            acc = _mm256_fmadd_ps(_mm256_mul_ps(dmin, xd), _mm256_cvtepi32_ps(avx2_sum_each(m)), acc);
        }
    }
    return acc;
}

/* ---- many tokens: see tile.h ---- */

/* 16 bytes of each row as words, two a lane. */
AVX2_INLINE void turn_pairs(__m128i (*bytes)(const uint8_t *), const struct avx2_rows *g, size_t at, __m256i out[8])
{
    __m256i rows[AVX2_ROWS];
    for (int r = 0; r < AVX2_ROWS; r++) rows[r] = _mm256_cvtepi8_epi16(bytes(g->p[r] + at));
    avx2_transpose(rows, out);
}

/* The same, of each two bytes the first; the upper half of `out` is not wanted. */
AVX2_INLINE void turn_every_second(__m128i (*bytes)(const uint8_t *), const struct avx2_rows *g, size_t at,
                                   __m256i out[8])
{
    __m256i rows[AVX2_ROWS];
    for (int r = 0; r < AVX2_ROWS; r++)
        rows[r] = _mm256_castsi128_si256(_mm_and_si128(bytes(g->p[r] + at), _mm_set1_epi16(255)));
    avx2_transpose(rows, out);
}

AVX2_INLINE void unpack_bytes(const struct format *f, const struct avx2_rows *g, size_t at,
                              const struct prepared u[AVX2_ROWS], int c, __m256i *q)
{
    __m256i rows[AVX2_ROWS];
    for (int r = 0; r < AVX2_ROWS; r++) {
        rows[r] = f->values(g->p[r] + at, &u[r], c);
        if (f->sign_bits)
            rows[r] = _mm256_sign_epi8(rows[r], spread_signs(u[r].signs + c));
        else if (f->offset_log2 >= 0)
            rows[r] = _mm256_sub_epi8(rows[r], _mm256_set1_epi8((char)(1 << f->offset_log2)));
    }
    avx2_transpose(rows, q + 8 * c);
}

AVX2_INLINE void unpack_words(const struct format *f, const struct avx2_rows *g, size_t at, int c,
                              const int8_t scales[AVX2_ROWS][16], __m256i *q)
{
    __m256i low[AVX2_ROWS], high[AVX2_ROWS];
    for (int r = 0; r < AVX2_ROWS; r++) {
        __m256i v = f->values(g->p[r] + at, NULL, c);
        low[r] =
            _mm256_mullo_epi16(_mm256_cvtepi8_epi16(_mm256_castsi256_si128(v)), _mm256_set1_epi16(scales[r][2 * c]));
        high[r] = _mm256_mullo_epi16(_mm256_cvtepi8_epi16(_mm256_extracti128_si256(v, 1)),
                                     _mm256_set1_epi16(scales[r][2 * c + 1]));
    }
    avx2_transpose(low, q + 16 * c);
    avx2_transpose(high, q + 16 * c + 8);
}

AVX2_INLINE void unpack_all_words(const struct format *f, const struct avx2_rows *g, size_t at, struct tile_slab *u)
{
    _Alignas(16) int8_t scales[AVX2_ROWS][16];
    for (int r = 0; r < AVX2_ROWS; r++) _mm_store_si128((__m128i *)scales[r], f->scales(g->p[r] + at));
    unpack_words(f, g, at, 0, scales, u->q);
    unpack_words(f, g, at, 1, scales, u->q);
    unpack_words(f, g, at, 2, scales, u->q);
    unpack_words(f, g, at, 3, scales, u->q);
    unpack_words(f, g, at, 4, scales, u->q);
    unpack_words(f, g, at, 5, scales, u->q);
    unpack_words(f, g, at, 6, scales, u->q);
    unpack_words(f, g, at, 7, scales, u->q);
}

AVX2_INLINE void unpack_all_bytes(const struct format *f, const struct avx2_rows *g, size_t at, struct tile_slab *u)
{
    struct prepared rows[AVX2_ROWS];
    prepare_rows(f, g, at, rows);
    unpack_bytes(f, g, at, rows, 0, u->q);
    unpack_bytes(f, g, at, rows, 1, u->q);
    unpack_bytes(f, g, at, rows, 2, u->q);
    unpack_bytes(f, g, at, rows, 3, u->q);
    unpack_bytes(f, g, at, rows, 4, u->q);
    unpack_bytes(f, g, at, rows, 5, u->q);
    unpack_bytes(f, g, at, rows, 6, u->q);
    unpack_bytes(f, g, at, rows, 7, u->q);
}

AVX2_INLINE void unpack_scales(const struct format *f, const struct avx2_rows *g, size_t at, struct tile_slab *u)
{
    const __m256i first =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 0, 1, 4, 5, 4, 5, 8, 9, 8, 9, 12, 13, 12, 13));
    const __m256i second = _mm256_add_epi8(first, _mm256_set1_epi8(2));
    __m256i scales[8];
    turn_pairs(f->scales, g, at, scales);
    for (int i = 0; i < 8; i++) {
        u->scale[2 * i] = _mm256_shuffle_epi8(scales[i], first);
        u->scale[2 * i + 1] = _mm256_shuffle_epi8(scales[i], second);
    }
}

AVX2_INLINE void unpack(const struct format *f, const struct avx2_rows *g, size_t block, struct tile_slab *u)
{
    const size_t at = block * f->block_bytes;
    u->d[0] = row_scales(f, g, at);
    if (f->steps == 0) {
        unpack_all_words(f, g, at, u);
        return;
    }
    unpack_all_bytes(f, g, at, u);
    if (f->scales) unpack_scales(f, g, at, u);
    if (!f->min_at) return;
    u->m[0] = _mm256_xor_ps(avx2_halves(g, at + f->min_at), _mm256_set1_ps(-0.0f));
    if (f->mins_of_32)
        turn_every_second(f->mins, g, at, u->mins);
    else
        turn_pairs(f->mins, g, at, u->mins);
}

AVX2_INLINE void product_few(const struct format *f, AVX2_PRODUCT_ARGS)
{
    size_t n_blocks = acts->n / 256, stride = n_blocks * f->block_bytes;
    for (size_t r = 0; r < n_rows; r += AVX2_ROWS) {
        struct avx2_rows g = avx2_rows_at(w, stride, r, n_rows);
        for (size_t j = 0; j < n_tokens; j++) {
            struct quant_x x = avx2_row_of(acts, QUANT_FORM_256, 256, tokens ? tokens[j] : j);
            avx2_store_rows(out + (out_rows ? out_rows[j] : j) * out_stride + r, g.n,
                            dot_group(f, &g, &x, n_blocks, AVX2_ROWS * stride));
        }
    }
}

#define TILE_KIND(f)                                                                \
    ((f).steps == 0        ? TILE_WORDS                                             \
     : (f).offset_log2 < 0 ? ((f).steps == 8 ? TILE_UNSIGNED_32 : TILE_UNSIGNED_16) \
     : (f).steps == 8      ? TILE_SIGNED_32                                         \
     : (f).steps == 4      ? TILE_SIGNED_16                                         \
                           : ((f).steps == 2 ? TILE_SIGNED_8 : TILE_SIGNED_4))

#define PRODUCT(name, ...)                                                                                   \
    static const struct format format_##name = {.values = values_##name, __VA_ARGS__};                       \
    static void unpack_##name(const struct avx2_rows *g, size_t block, size_t n_blocks, struct tile_slab *u) \
    {                                                                                                        \
        unpack(&format_##name, g, block, u);                                                                 \
    }                                                                                                        \
    void kernel_avx2_##name(AVX2_PRODUCT_ARGS)                                                               \
    {                                                                                                        \
        const struct format *f = &format_##name;                                                             \
        const struct tile_format tile = {.block_len = 256,                                                   \
                                         .block_bytes = f->block_bytes,                                      \
                                         .kind = TILE_KIND(*f),                                              \
                                         .has_scales = f->scales != NULL,                                    \
                                         .has_min = f->min_at != 0,                                          \
                                         .mins_of_32 = f->mins_of_32,                                        \
                                         .unpack = f->unpack ? f->unpack : unpack_##name};                   \
        if (n_tokens <= (size_t)f->few && f->few_tokens)                                                     \
            f->few_tokens(w, n_rows, acts, tokens, n_tokens, out, out_stride, out_rows);                     \
        else if (n_tokens <= (size_t)f->few)                                                                 \
            product_few(f, w, n_rows, acts, tokens, n_tokens, out, out_stride, out_rows);                    \
        else                                                                                                 \
            kernel_avx2_tile(&tile, w, n_rows, acts, tokens, n_tokens, out, out_stride, out_rows);           \
    }

#endif
