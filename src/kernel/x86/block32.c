/* Products of the formats with blocks of 32: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, IQ4_NL, MXFP4.
 *
 * Few tokens: the 32 values of a row stand in one register, their products with the activations are summed across the
 * register, 8 rows together. Many tokens: tile.h.
 *
 * Saturation. Few tokens: unsigned values of at most 31, a pair of maddubs is at most 2 * 127 * 31 = 7874 and widened
 * at once. Many tokens add `steps` pairs in 16 bits. Q4_1: values of at most 15, 8 * 3810 = 30480; Q5_1: 31, 4 * 7874 =
 * 31496. Without their offset, with activations of at most 255: Q4_0: magnitudes of at most 8, 8 * 2 * 8 * 255 = 32640;
 * Q5_0: 16, 4 * 8160 = 32640; MXFP4: 12, 4 * 6120 = 24480. All below 32768, whatever the bytes of the file. Q8_0 and
 * IQ4_NL: magnitudes times signed values for few tokens, pairs of at most 2 * 128 * 127 widened at once; 16-bit
 * products for many. */
#include "kernel/x86/tile.h"

struct format {
    size_t block_bytes;
    __m256i (*values)(const uint8_t *block); /* 32 bytes in order */
    __m256 (*scales)(const struct avx2_rows *g, size_t at);
    size_t min_at; /* offset of the minimum, 0: none */
    int offset;    /* unsigned values are this much too large */
    int steps;     /* see above; 0: values are signed */
    /* formats with nothing but nibbles: where they stand, what 32 of them mean */
    size_t nibbles;
    __m256i (*of_nibbles)(__m256i nibbles);
};

/* ---- formats ---- */

/* Low nibbles, then high nibbles. */
AVX2_INLINE __m256i nibbles(const uint8_t *p)
{
    __m128i v = avx2_load_half(p);
    return _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(v, 4), v), _mm256_set1_epi8(15));
}

/* 16 where bit i of the four bytes is set, for value i. */
AVX2_INLINE __m256i fifth_bits(const uint8_t *p)
{
    const __m256i byte_of = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bit_of = _mm256_set1_epi64x((long long)0x8040201008040201);
    __m256i bytes = _mm256_shuffle_epi8(avx2_spread(p), byte_of);
    return _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit_of), bit_of), _mm256_set1_epi8(16));
}

AVX2_INLINE __m256 scales_half(const struct avx2_rows *g, size_t at) { return avx2_halves(g, at); }

AVX2_INLINE __m256i values_q4_0(const uint8_t *p) { return nibbles(p + 2); }
AVX2_INLINE __m256i values_q4_1(const uint8_t *p) { return nibbles(p + 4); }
AVX2_INLINE __m256i values_q5_0(const uint8_t *p) { return _mm256_or_si256(nibbles(p + 6), fifth_bits(p + 2)); }
AVX2_INLINE __m256i values_q5_1(const uint8_t *p) { return _mm256_or_si256(nibbles(p + 8), fifth_bits(p + 4)); }
AVX2_INLINE __m256i values_q8_0(const uint8_t *p) { return avx2_load(p + 2); }

AVX2_INLINE __m256i themselves(__m256i v) { return v; }

AVX2_INLINE __m256i of_iq4_nl(__m256i v)
{
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_setr_epi8(-127, -104, -83, -65, -49, -35, -22, -10, 1,
                                                                         13, 25, 38, 53, 69, 89, 113)),
                               v);
}

/* The doubled E2M1 values plus 12. */
AVX2_INLINE __m256i of_mxfp4(__m256i v)
{
    return _mm256_shuffle_epi8(
        _mm256_broadcastsi128_si256(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0)), v);
}

AVX2_INLINE __m256i values_iq4_nl(const uint8_t *p) { return of_iq4_nl(nibbles(p + 2)); }
AVX2_INLINE __m256i values_mxfp4(const uint8_t *p) { return of_mxfp4(nibbles(p + 1)); }

/* 2^(e - 128): for e = 0 and 1 subnormal, else (e - 1) in the exponent field. */
AVX2_INLINE __m256 scales_mxfp4(const struct avx2_rows *g, size_t at)
{
    __m256i e = _mm256_setr_epi32(g->p[0][at], g->p[1][at], g->p[2][at], g->p[3][at], g->p[4][at], g->p[5][at],
                                  g->p[6][at], g->p[7][at]);
    __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    __m256i small = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
    __m256i is_small = _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e);
    return _mm256_castsi256_ps(_mm256_blendv_epi8(normal, small, is_small));
}

/* ---- few tokens ---- */

/* Integers of a block of 8 rows whose values are nibbles: rows r and r + 4 stand in the halves of a register, so that
 * the sums of 8 rows come out in order without crossing halves. */
AVX2_INLINE __m256i sums_nibbles(const struct format *f, const struct avx2_rows *g, size_t at, const int8_t *x)
{
    const __m256i ones = _mm256_set1_epi16(1), nibble = _mm256_set1_epi8(15);
    const __m256i xl = _mm256_broadcastsi128_si256(avx2_load_half(x)),
                  xh = _mm256_broadcastsi128_si256(avx2_load_half(x + 16));
    const __m256i al = _mm256_abs_epi8(xl), ah = _mm256_abs_epi8(xh);
    __m256i s[4];
    for (int i = 0; i < 4; i++) {
        __m256i both =
            _mm256_set_m128i(avx2_load_half(g->p[i + 4] + at + f->nibbles), avx2_load_half(g->p[i] + at + f->nibbles));
        __m256i low = f->of_nibbles(_mm256_and_si256(both, nibble)),
                high = f->of_nibbles(_mm256_and_si256(_mm256_srli_epi16(both, 4), nibble));
        if (f->steps) {
            s[i] = _mm256_add_epi16(_mm256_maddubs_epi16(low, xl), _mm256_maddubs_epi16(high, xh));
        } else {
            __m256i l = _mm256_madd_epi16(_mm256_maddubs_epi16(al, _mm256_sign_epi8(low, xl)), ones);
            s[i] = _mm256_add_epi32(l, _mm256_madd_epi16(_mm256_maddubs_epi16(ah, _mm256_sign_epi8(high, xh)), ones));
        }
    }
    if (!f->steps) return avx2_fold_4(avx2_fold_2(s[0], s[1]), avx2_fold_2(s[2], s[3]));
    __m256i a = _mm256_add_epi16(_mm256_unpacklo_epi32(s[0], s[1]), _mm256_unpackhi_epi32(s[0], s[1]));
    __m256i b = _mm256_add_epi16(_mm256_unpacklo_epi32(s[2], s[3]), _mm256_unpackhi_epi32(s[2], s[3]));
    if (f->steps < 8) return avx2_fold_4(_mm256_madd_epi16(a, ones), _mm256_madd_epi16(b, ones));
    return _mm256_madd_epi16(_mm256_add_epi16(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b)), ones);
}

AVX2_INLINE __m256i sums_rows(const struct format *f, const struct avx2_rows *g, size_t at, const int8_t *x)
{
    __m256i xv = avx2_load(x), s[AVX2_ROWS];
    for (int r = 0; r < AVX2_ROWS; r++) {
        __m256i w = f->values(g->p[r] + at);
        __m256i pairs = f->steps ? _mm256_maddubs_epi16(w, xv) : avx2_pairs_signed(w, xv);
        s[r] = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
    }
    return avx2_sum_each(s);
}

/* One activation row against the 8 rows of a group. */
AVX2_INLINE __m256 dot_group(const struct format *f, const struct avx2_rows *g, const struct quant_x *x,
                             size_t n_blocks, size_t ahead)
{
    __m256 acc = _mm256_setzero_ps();
    for (size_t b = 0; b < n_blocks; b++) {
        size_t at = b * f->block_bytes;
        __m256i sum = f->nibbles ? sums_nibbles(f, g, at, x->q + 32 * b) : sums_rows(f, g, at, x->q + 32 * b);
        for (int r = 0; r < AVX2_ROWS; r++) avx2_prefetch(g->p[r] + at, ahead);
        if (f->offset)
            sum = _mm256_sub_epi32(sum, _mm256_set1_epi32(f->offset * (x->sums[2 * b] + x->sums[2 * b + 1])));
        __m256 d = _mm256_mul_ps(f->scales(g, at), _mm256_set1_ps(x->d[b]));
        acc = _mm256_fmadd_ps(d, _mm256_cvtepi32_ps(sum), acc);
        if (f->min_at) {
            __m256 m = _mm256_mul_ps(avx2_halves(g, at + f->min_at), _mm256_set1_ps(x->d[b]));
            acc = _mm256_fmadd_ps(m, _mm256_set1_ps((float)(x->sums[2 * b] + x->sums[2 * b + 1])), acc);
        }
    }
    return acc;
}

/* ---- many tokens: see tile.h ---- */

/* One block of 8 rows. */
AVX2_INLINE void unpack_block(const struct format *f, const struct avx2_rows *g, size_t at, size_t i,
                              struct tile_slab *u)
{
    __m256i rows[AVX2_ROWS], low[AVX2_ROWS], high[AVX2_ROWS];
    for (int r = 0; r < AVX2_ROWS; r++) {
        rows[r] = f->values(g->p[r] + at);
        if (f->offset) rows[r] = _mm256_sub_epi8(rows[r], _mm256_set1_epi8((char)f->offset));
    }
    if (f->steps) {
        avx2_transpose(rows, u->q + 8 * i);
    } else {
        for (int r = 0; r < AVX2_ROWS; r++) {
            low[r] = _mm256_cvtepi8_epi16(_mm256_castsi256_si128(rows[r]));
            high[r] = _mm256_cvtepi8_epi16(_mm256_extracti128_si256(rows[r], 1));
        }
        avx2_transpose(low, u->q + 16 * i);
        avx2_transpose(high, u->q + 16 * i + 8);
    }
    u->d[i] = f->scales(g, at);
    if (f->min_at) u->m[i] = avx2_halves(g, at + f->min_at);
}

AVX2_INLINE void product_few(const struct format *f, AVX2_PRODUCT_ARGS)
{
    size_t n_blocks = acts->n / 32, stride = n_blocks * f->block_bytes;
    for (size_t r = 0; r < n_rows; r += AVX2_ROWS) {
        struct avx2_rows g = avx2_rows_at(w, stride, r, n_rows);
        for (size_t j = 0; j < n_tokens; j++) {
            struct quant_x x = avx2_row_of(acts, QUANT_FORM_32, 32, tokens ? tokens[j] : j);
            avx2_store_rows(out + (out_rows ? out_rows[j] : j) * out_stride + r, g.n,
                            dot_group(f, &g, &x, n_blocks, AVX2_ROWS * stride));
        }
    }
}

#define TILE_KIND(f)                                                     \
    ((f).steps == 0   ? TILE_WORDS                                       \
     : (f).steps == 8 ? ((f).offset ? TILE_SIGNED_32 : TILE_UNSIGNED_32) \
                      : ((f).offset ? TILE_SIGNED_16 : TILE_UNSIGNED_16))

#define PRODUCT(name, bytes, scale_of, min, off, n_steps, n_few, ...)                                        \
    static const struct format format_##name = {.block_bytes = bytes,                                        \
                                                .values = values_##name,                                     \
                                                .scales = scale_of,                                          \
                                                .min_at = min,                                               \
                                                .offset = off,                                               \
                                                .steps = n_steps,                                            \
                                                __VA_ARGS__};                                                \
    static void unpack_##name(const struct avx2_rows *g, size_t block, size_t n_blocks, struct tile_slab *u) \
    {                                                                                                        \
        for (size_t i = 0; i < n_blocks; i++) unpack_block(&format_##name, g, (block + i) * (bytes), i, u);  \
    }                                                                                                        \
    void kernel_avx2_##name(AVX2_PRODUCT_ARGS)                                                               \
    {                                                                                                        \
        const struct format *f = &format_##name;                                                             \
        const struct tile_format tile = {.block_len = 32,                                                    \
                                         .block_bytes = bytes,                                               \
                                         .kind = TILE_KIND(*f),                                              \
                                         .has_min = f->min_at != 0,                                          \
                                         .unpack = unpack_##name};                                           \
        if (n_tokens <= (n_few))                                                                             \
            product_few(f, w, n_rows, acts, tokens, n_tokens, out, out_stride, out_rows);                    \
        else                                                                                                 \
            kernel_avx2_tile(&tile, w, n_rows, acts, tokens, n_tokens, out, out_stride, out_rows);           \
    }
PRODUCT(q4_0, 18, scales_half, 0, 8, 8, AVX2_FEW, .nibbles = 2, .of_nibbles = themselves)
PRODUCT(q4_1, 20, scales_half, 2, 0, 8, AVX2_FEW, .nibbles = 4, .of_nibbles = themselves)
PRODUCT(q5_0, 22, scales_half, 0, 16, 4, AVX2_FEW, .nibbles = 0)
PRODUCT(q5_1, 24, scales_half, 2, 0, 4, AVX2_FEW, .nibbles = 0)
PRODUCT(q8_0, 34, scales_half, 0, 0, 0, 8, .nibbles = 0)
PRODUCT(iq4_nl, 18, scales_half, 0, 0, 0, 4, .nibbles = 2, .of_nibbles = of_iq4_nl)
PRODUCT(mxfp4, 17, scales_mxfp4, 0, 12, 4, AVX2_FEW, .nibbles = 1, .of_nibbles = of_mxfp4)

void kernel_avx2_rows_q8_0(const void *w, size_t stride, size_t n_rows, const struct quant_x *x, size_t n, float *out)
{
    static const struct format f = {.block_bytes = 34, .values = values_q8_0, .scales = scales_half};
    for (size_t r = 0; r < n_rows; r += AVX2_ROWS) {
        struct avx2_rows g = avx2_rows_at(w, stride, r, n_rows);
        avx2_store_rows(out + r, g.n, dot_group(&f, &g, x, n / 32, AVX2_ROWS * stride));
    }
}
