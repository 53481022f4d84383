/* Products of the formats with blocks of 256 values, written once for all of them; a file of formats includes this,
 * describes each by a struct format and instantiates its product with PRODUCT.
 *
 * All have 16 integer sub-scales, one a 16 values (where the file has one a 32, it stands twice), or none. Few tokens:
 * a row's values go through the registers 32 at a time; sums across registers are taken once a block for 8 rows
 * together. Many tokens: 8 rows are unpacked once a block and turned so that a lane holds a row's 4 (signed: 2)
 * successive values.
 *
 * Values come in one of three kinds:
 *   unsigned, 1 << offset_log2 too large or with a minimum; `steps` pairs of a maddubs are added in 16 bits
 *   signed (steps 0): 16-bit products where many tokens share them
 *   magnitudes with bits of sign (sign_bits): few tokens move the signs to the activations, which are never -128; many
 *   tokens use sums of 1 << offset_log2 and the signed value, and are then unsigned
 * Each file of formats proves that none of its 16-bit steps saturates, whatever bytes a model file holds. */
#ifndef KERNEL_X86_BLOCK256_H
#define KERNEL_X86_BLOCK256_H

#include "kernel/x86/avx2.h"

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
    void (*prepare)(const uint8_t *p, struct prepared *u);                /* NULL: nothing */
    __m256i (*values)(const uint8_t *p, const struct prepared *u, int c); /* 32 values from 32 c */
    __m128i (*scales)(const uint8_t *p);                                  /* 16 signed bytes; NULL: all are 1 */
    __m128i (*mins)(const uint8_t *p);                                    /* 16 bytes, at most 63 */
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

/* ---- many tokens ---- */

struct unpacked {
    __m256i q[128];    /* lane r: values 4i .. 4i + 3 of row r; signed: words 2i and 2i + 1, scaled */
    __m256i scale[16]; /* lane r: sub-scale i of row r, twice */
    __m256i pairs[8];  /* lane r: minima (or sub-scales, to correct the offset) 2i and 2i + 1 of row r */
    __m256 d, dmin;
};

/* 16 bytes of each row as words, two a lane. */
AVX2_INLINE void turn_pairs(__m128i (*bytes)(const uint8_t *), const struct avx2_rows *g, size_t at, __m256i out[8])
{
    __m256i rows[AVX2_ROWS];
    for (int r = 0; r < AVX2_ROWS; r++) rows[r] = _mm256_cvtepi8_epi16(bytes(g->p[r] + at));
    avx2_transpose(rows, out);
}

AVX2_INLINE void unpack_unsigned(const struct format *f, const struct avx2_rows *g, size_t at,
                                 const struct prepared u[AVX2_ROWS], int c, __m256i *q)
{
    __m256i rows[AVX2_ROWS];
    for (int r = 0; r < AVX2_ROWS; r++) {
        rows[r] = f->values(g->p[r] + at, &u[r], c);
        if (f->sign_bits)
            rows[r] = _mm256_add_epi8(_mm256_sign_epi8(rows[r], spread_signs(u[r].signs + c)),
                                      _mm256_set1_epi8((char)(1 << f->offset_log2)));
    }
    avx2_transpose(rows, q + 8 * c);
}

AVX2_INLINE void unpack_signed(const struct format *f, const struct avx2_rows *g, size_t at, int c,
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

AVX2_INLINE void unpack(const struct format *f, const struct avx2_rows *g, size_t at, struct unpacked *u)
{
    u->d = row_scales(f, g, at);
    if (f->min_at) u->dmin = _mm256_xor_ps(avx2_halves(g, at + f->min_at), _mm256_set1_ps(-0.0f));
    if (f->steps == 0) {
        _Alignas(16) int8_t scales[AVX2_ROWS][16];
        for (int r = 0; r < AVX2_ROWS; r++) _mm_store_si128((__m128i *)scales[r], f->scales(g->p[r] + at));
        unpack_signed(f, g, at, 0, scales, u->q);
        unpack_signed(f, g, at, 1, scales, u->q);
        unpack_signed(f, g, at, 2, scales, u->q);
        unpack_signed(f, g, at, 3, scales, u->q);
        unpack_signed(f, g, at, 4, scales, u->q);
        unpack_signed(f, g, at, 5, scales, u->q);
        unpack_signed(f, g, at, 6, scales, u->q);
        unpack_signed(f, g, at, 7, scales, u->q);
        return;
    }
    struct prepared rows[AVX2_ROWS];
    prepare_rows(f, g, at, rows);
    unpack_unsigned(f, g, at, rows, 0, u->q);
    unpack_unsigned(f, g, at, rows, 1, u->q);
    unpack_unsigned(f, g, at, rows, 2, u->q);
    unpack_unsigned(f, g, at, rows, 3, u->q);
    unpack_unsigned(f, g, at, rows, 4, u->q);
    unpack_unsigned(f, g, at, rows, 5, u->q);
    unpack_unsigned(f, g, at, rows, 6, u->q);
    unpack_unsigned(f, g, at, rows, 7, u->q);
    if (!f->scales) {
        for (int i = 0; i < 8; i++) u->pairs[i] = _mm256_set1_epi16(1);
        return;
    }
    const __m256i first =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 0, 1, 4, 5, 4, 5, 8, 9, 8, 9, 12, 13, 12, 13));
    const __m256i second = _mm256_add_epi8(first, _mm256_set1_epi8(2));
    __m256i scales[8];
    turn_pairs(f->scales, g, at, scales);
    for (int i = 0; i < 8; i++) {
        u->scale[2 * i] = _mm256_shuffle_epi8(scales[i], first);
        u->scale[2 * i + 1] = _mm256_shuffle_epi8(scales[i], second);
        if (f->offset_log2 >= 0) u->pairs[i] = scales[i];
    }
    if (f->min_at) turn_pairs(f->mins, g, at, u->pairs);
}

/* The block's integer sums of AVX2_STEP tokens; x at the block. */
AVX2_INLINE void sums_unsigned(const struct format *f, const struct unpacked *u, const int8_t *const q[AVX2_STEP],
                               __m256i sum[AVX2_STEP])
{
    for (int t = 0; t < AVX2_STEP; t++) sum[t] = _mm256_setzero_si256();
    for (int i = 0; i < 64; i += f->steps) {
        __m256i pairs[AVX2_STEP];
        for (int t = 0; t < AVX2_STEP; t++) pairs[t] = _mm256_maddubs_epi16(u->q[i], avx2_spread(q[t] + 4 * i));
        for (int k = i + 1; k < i + f->steps; k++)
            for (int t = 0; t < AVX2_STEP; t++)
                pairs[t] = _mm256_add_epi16(pairs[t], _mm256_maddubs_epi16(u->q[k], avx2_spread(q[t] + 4 * k)));
        for (int t = 0; t < AVX2_STEP; t++)
            sum[t] = _mm256_add_epi32(sum[t],
                                      _mm256_madd_epi16(pairs[t], f->scales ? u->scale[i / 4] : _mm256_set1_epi16(1)));
    }
}

AVX2_INLINE void sums_signed(const struct unpacked *u, const int8_t *const q[AVX2_STEP], __m256i sum[AVX2_STEP])
{
    _Alignas(32) int16_t words[AVX2_STEP][256];
    for (int t = 0; t < AVX2_STEP; t++) {
        for (int i = 0; i < 256; i += 16)
            _mm256_store_si256((__m256i *)(words[t] + i), _mm256_cvtepi8_epi16(avx2_load_half(q[t] + i)));
        sum[t] = _mm256_setzero_si256();
    }
    for (int i = 0; i < 128; i++)
        for (int t = 0; t < AVX2_STEP; t++)
            sum[t] = _mm256_add_epi32(sum[t], _mm256_madd_epi16(u->q[i], avx2_spread(words[t] + 2 * i)));
}

/* Sum of the minima (or sub-scales) times the activations' sums of 16. */
AVX2_INLINE __m256i sums_pairs(const struct unpacked *u, const int16_t *sums)
{
    __m256i sum = _mm256_setzero_si256();
    for (int i = 0; i < 8; i++) sum = _mm256_add_epi32(sum, _mm256_madd_epi16(u->pairs[i], avx2_spread(sums + 2 * i)));
    return sum;
}

AVX2_INLINE void dot_tile(const struct format *f, const struct avx2_rows *g, const struct avx2_tokens *t,
                          size_t n_blocks, __m256 acc[AVX2_TILE])
{
    struct unpacked u;
    for (size_t i = 0; i < t->n; i++) acc[i] = _mm256_setzero_ps();
    for (size_t i = t->n; i % AVX2_STEP != 0; i++) acc[i] = _mm256_setzero_ps();
    for (size_t b = 0; b < n_blocks; b++) {
        unpack(f, g, b * f->block_bytes, &u);
        for (size_t i = 0; i < t->n; i += AVX2_STEP) {
            __m256i sum[AVX2_STEP];
            const struct quant_x *x = t->x + i;
            const int8_t *q[AVX2_STEP] = {x[0].q + 256 * b, x[1].q + 256 * b, x[2].q + 256 * b, x[3].q + 256 * b};
            if (f->steps)
                sums_unsigned(f, &u, q, sum);
            else
                sums_signed(&u, q, sum);
            for (int k = 0; k < AVX2_STEP; k++) {
                __m256 d = _mm256_set1_ps(x[k].d[b]), a = acc[i + (size_t)k];
                if (f->offset_log2 >= 0)
                    sum[k] =
                        _mm256_sub_epi32(sum[k], _mm256_slli_epi32(sums_pairs(&u, x[k].sums + 16 * b), f->offset_log2));
                a = _mm256_fmadd_ps(_mm256_mul_ps(u.d, d), _mm256_cvtepi32_ps(sum[k]), a);
                if (f->min_at)
                    a = _mm256_fmadd_ps(_mm256_mul_ps(u.dmin, d),
                                        _mm256_cvtepi32_ps(sums_pairs(&u, x[k].sums + 16 * b)), a);
                acc[i + (size_t)k] = a;
            }
        }
    }
}

AVX2_INLINE void product(const struct format *f, AVX2_PRODUCT_ARGS)
{
    size_t n_blocks = acts->n / 256, stride = n_blocks * f->block_bytes;
    if (n_tokens <= (size_t)f->few) {
        for (size_t r = 0; r < n_rows; r += AVX2_ROWS) {
            struct avx2_rows g = avx2_rows_at(w, stride, r, n_rows);
            for (size_t j = 0; j < n_tokens; j++) {
                struct quant_x x = avx2_row_of(acts, QUANT_FORM_256, 256, tokens ? tokens[j] : j);
                avx2_store_rows(out + (out_rows ? out_rows[j] : j) * out_stride + r, g.n,
                                dot_group(f, &g, &x, n_blocks, AVX2_ROWS * stride));
            }
        }
        return;
    }
    struct avx2_tokens t;
    __m256 acc[AVX2_TILE];
    for (size_t j = 0; j < n_tokens; j += AVX2_TILE) {
        avx2_tokens_at(&t, QUANT_FORM_256, 256, acts, tokens, j, n_tokens, out, out_stride, out_rows);
        for (size_t r = 0; r < n_rows; r += AVX2_ROWS) {
            struct avx2_rows g = avx2_rows_at(w, stride, r, n_rows);
            dot_tile(f, &g, &t, n_blocks, acc);
            for (size_t i = 0; i < t.n; i++) avx2_store_rows(t.out[i] + r, g.n, acc[i]);
        }
    }
}

#define PRODUCT(name, ...)                                                         \
    void kernel_avx2_##name(AVX2_PRODUCT_ARGS)                                     \
    {                                                                              \
        static const struct format f = {.values = values_##name, __VA_ARGS__};     \
        product(&f, w, n_rows, acts, tokens, n_tokens, out, out_stride, out_rows); \
    }

#endif
