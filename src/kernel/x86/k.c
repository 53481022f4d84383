/* Products of the formats with blocks of 256: Q2_K to Q6_K (unsigned values with an offset or a minimum) and IQ4_XS
 * (signed values from a table). The bit layouts are explained in quant/k.c and quant/iq4.c.
 *
 * All have 16 integer sub-scales, one a 16 values (where the file has one a 32, it stands twice). Few tokens: a row's
 * values go through the registers 32 at a time; sums across registers are taken once a block for 8 rows together. Many
 * tokens: 8 rows are unpacked once a block and turned so that a lane holds a row's 4 (IQ4_XS: 2) successive values.
 *
 * Saturation. Unsigned values u <= u_max: a pair of maddubs is at most 2 * 127 * u_max, and `steps` of them are added
 * in 16 bits before a sub-scale widens them. Q2_K: 3, 4 * 762; Q3_K: 7, 4 * 1778; Q4_K: 15, 8 * 3810 = 30480; Q5_K: 31,
 * 4 * 7874 = 31496; Q6_K: 63, 2 * 16002 = 32004: all below 32768 whatever the bytes of the file. IQ4_XS: pairs of at
 * most 2 * 127 * 127 (few); value * sub-scale, at most 127 * 32, fits 16 bits (many). Sums of a block fit 32 bits
 * (quant/formats.h), with the offset left in as well: Q6_K 256 * 63 * 127 * 128 = 2.6e8. */
#include "kernel/x86/avx2.h"

struct format {
    size_t block_bytes;
    size_t d_at, min_at;                        /* min_at 0: no minimum */
    int offset_log2;                            /* unsigned values are 1 << this too large; -1: they are not */
    int steps;                                  /* see above; 0: values are signed */
    __m256i (*values)(const uint8_t *p, int c); /* 32 values from 32 c */
    __m128i (*scales)(const uint8_t *p);        /* 16 signed bytes */
    __m128i (*mins)(const uint8_t *p);          /* 16 bytes, at most 63 */
};

/* ---- formats ---- */

/* Bit pair c % 4 of the 32 bytes of half c / 4. */
AVX2_INLINE __m256i bit_pairs(const uint8_t *p, int c)
{
    return _mm256_and_si256(_mm256_srli_epi16(avx2_load(p + 32 * (c / 4)), 2 * (c % 4)), _mm256_set1_epi8(3));
}

/* Low (c even) or high nibbles of the 32 bytes of quarter c / 2. */
AVX2_INLINE __m256i nibbles(const uint8_t *p, int c)
{
    __m256i v = avx2_load(p + 32 * (c / 2));
    return _mm256_and_si256(c % 2 ? _mm256_srli_epi16(v, 4) : v, _mm256_set1_epi8(15));
}

/* Bit c of the 32 bytes, moved to bit `to`. */
AVX2_INLINE __m256i one_bit(const uint8_t *p, int c, int to)
{
    __m256i v = avx2_load(p);
    v = c < to ? _mm256_slli_epi16(v, to - c) : _mm256_srli_epi16(v, c - to);
    return _mm256_and_si256(v, _mm256_set1_epi8((char)(1 << to)));
}

AVX2_INLINE __m256i values_q2_k(const uint8_t *p, int c) { return bit_pairs(p + 16, c); }
AVX2_INLINE __m256i values_q3_k(const uint8_t *p, int c)
{
    return _mm256_or_si256(bit_pairs(p + 32, c), one_bit(p, c, 2));
}
AVX2_INLINE __m256i values_q4_k(const uint8_t *p, int c) { return nibbles(p + 16, c); }
AVX2_INLINE __m256i values_q5_k(const uint8_t *p, int c)
{
    return _mm256_or_si256(nibbles(p + 48, c), one_bit(p + 16, c, 4));
}

/* c = 4 h + s: nibbles of bytes 64 h + 32 (s % 2), low for s < 2; top bits from pair s of bytes 32 h. */
AVX2_INLINE __m256i values_q6_k(const uint8_t *p, int c)
{
    int h = c / 4, s = c % 4;
    __m256i low = avx2_load(p + 64 * h + 32 * (s % 2)), top = avx2_load(p + 128 + 32 * h);
    if (s >= 2) low = _mm256_srli_epi16(low, 4);
    if (s < 2)
        top = _mm256_slli_epi16(top, 4 - 2 * s);
    else
        top = _mm256_srli_epi16(top, 2 * s - 4);
    return _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi8(15)), _mm256_and_si256(top, _mm256_set1_epi8(48)));
}

AVX2_INLINE __m256i values_iq4_xs(const uint8_t *p, int c)
{
    const __m256i table = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113));
    __m128i v = avx2_load_half(p + 8 + 16 * c);
    __m256i both = _mm256_set_m128i(_mm_srli_epi16(v, 4), v);
    return _mm256_shuffle_epi8(table, _mm256_and_si256(both, _mm256_set1_epi8(15)));
}

AVX2_INLINE __m128i scales_q2_k(const uint8_t *p) { return _mm_and_si128(avx2_load_half(p), _mm_set1_epi8(15)); }
AVX2_INLINE __m128i mins_q2_k(const uint8_t *p)
{
    return _mm_and_si128(_mm_srli_epi16(avx2_load_half(p), 4), _mm_set1_epi8(15));
}

/* 16 low nibbles in bytes 96..103 (low halves first), top bits in pairs of bytes 104..107. */
AVX2_INLINE __m128i scales_q3_k(const uint8_t *p)
{
    __m128i s = _mm_srli_si128(avx2_load_half(p + 94), 2); /* bytes 96..107, then d; the block ends with it */
    __m128i low = _mm_unpacklo_epi64(s, _mm_srli_epi16(s, 4));
    /* pair i of the four bytes belongs to scales 4i .. 4i + 3 and goes to bits 4 and 5 */
    __m128i t = _mm_shuffle_epi32(s, 0xaa);
    __m128i first = _mm_blend_epi16(_mm_slli_epi16(t, 4), _mm_slli_epi16(t, 2), 0x0c);
    __m128i top = _mm_blend_epi16(first, _mm_blend_epi16(t, _mm_srli_epi16(t, 2), 0xc0), 0xf0);
    __m128i six = _mm_or_si128(_mm_and_si128(low, _mm_set1_epi8(15)), _mm_and_si128(top, _mm_set1_epi8(48)));
    return _mm_sub_epi8(six, _mm_set1_epi8(32));
}

/* The 12 bytes at `at`: 8 scales and 8 minima of 6 bits. Each is wanted twice. */
AVX2_INLINE __m128i six_bits(const uint8_t *at, bool minima)
{
    uint32_t a = (uint32_t)avx2_load_i32(at + (minima ? 4 : 0)), c = (uint32_t)avx2_load_i32(at + 8);
    uint32_t first = a & 0x3f3f3f3f;
    uint32_t second = ((minima ? c >> 4 : c) & 0x0f0f0f0f) | (a >> 2 & 0x30303030);
    __m128i v = _mm_insert_epi32(_mm_cvtsi32_si128((int)first), (int)second, 1);
    return _mm_unpacklo_epi8(v, v);
}

AVX2_INLINE __m128i scales_q4_k(const uint8_t *p) { return six_bits(p + 4, false); }
AVX2_INLINE __m128i mins_q4_k(const uint8_t *p) { return six_bits(p + 4, true); }

AVX2_INLINE __m128i scales_q6_k(const uint8_t *p) { return avx2_load_half(p + 192); }

/* Low nibbles in the order of the nibbles of bytes 4..7, top bits in the pairs of bytes 2 and 3. */
AVX2_INLINE __m128i scales_iq4_xs(const uint8_t *p)
{
    __m128i low = _mm_cvtsi32_si128(avx2_load_i32(p + 4));
    low = _mm_and_si128(_mm_unpacklo_epi8(low, _mm_srli_epi16(low, 4)), _mm_set1_epi8(15));
    /* byte j gets the byte of pair j, multiplied so that the pair comes to bits 4 and 5 of a word, and masked */
    __m128i top = _mm_shuffle_epi8(_mm_cvtsi32_si128((uint16_t)avx2_load_i16(p + 2)),
                                   _mm_setr_epi8(0, -1, 0, -1, 0, -1, 0, -1, 1, -1, 1, -1, 1, -1, 1, -1));
    top = _mm_mullo_epi16(top, _mm_setr_epi16(64, 16, 4, 1, 64, 16, 4, 1));
    top = _mm_and_si128(_mm_srli_epi16(top, 2), _mm_set1_epi16(48));
    top = _mm_packus_epi16(top, top);
    __m128i v = _mm_sub_epi8(_mm_or_si128(low, top), _mm_set1_epi8(32));
    return _mm_unpacklo_epi8(v, v);
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

/* 32 values times activations times sub-scales. */
AVX2_INLINE __m256i chunk_sum(const struct format *f, const uint8_t *p, int c, __m256i x, __m256i scales)
{
    __m256i w = f->values(p, c);
    __m256i pairs = f->steps ? _mm256_maddubs_epi16(w, x) : avx2_pairs_signed(w, x);
    __m256i pick = _mm256_set1_epi16((short)(0x0100 + 0x0202 * c));
    return _mm256_madd_epi16(pairs, _mm256_shuffle_epi8(scales, pick));
}

AVX2_INLINE __m256i row_sum(const struct format *f, const uint8_t *p, const __m256i x[8], __m256i sums)
{
    __m256i scales = even_odd(f->scales(p));
    __m256i a = _mm256_add_epi32(chunk_sum(f, p, 0, x[0], scales), chunk_sum(f, p, 1, x[1], scales));
    __m256i b = _mm256_add_epi32(chunk_sum(f, p, 2, x[2], scales), chunk_sum(f, p, 3, x[3], scales));
    a = _mm256_add_epi32(a, chunk_sum(f, p, 4, x[4], scales));
    b = _mm256_add_epi32(b, chunk_sum(f, p, 5, x[5], scales));
    a = _mm256_add_epi32(a, chunk_sum(f, p, 6, x[6], scales));
    b = _mm256_add_epi32(b, chunk_sum(f, p, 7, x[7], scales));
    a = _mm256_add_epi32(a, b);
    if (f->offset_log2 >= 0)
        a = _mm256_sub_epi32(a, _mm256_slli_epi32(_mm256_madd_epi16(scales, sums), f->offset_log2));
    return a;
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
        for (int r = 0; r < AVX2_ROWS; r++) {
            const uint8_t *p = g->p[r] + at;
            s[r] = row_sum(f, p, xv, sums);
            if (f->min_at) m[r] = _mm256_madd_epi16(even_odd(f->mins(p)), sums);
            for (size_t line = 0; line < f->block_bytes; line += 64) avx2_prefetch(p + line, ahead);
        }
        __m256 xd = _mm256_set1_ps(x->d[b]);
        __m256 d = _mm256_mul_ps(avx2_halves(g, at + f->d_at), xd);
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

AVX2_INLINE void unpack_unsigned(const struct format *f, const struct avx2_rows *g, size_t at, int c, __m256i *q)
{
    __m256i rows[AVX2_ROWS];
    for (int r = 0; r < AVX2_ROWS; r++) rows[r] = f->values(g->p[r] + at, c);
    avx2_transpose(rows, q + 8 * c);
}

AVX2_INLINE void unpack_signed(const struct format *f, const struct avx2_rows *g, size_t at, int c,
                               const int8_t scales[AVX2_ROWS][16], __m256i *q)
{
    __m256i low[AVX2_ROWS], high[AVX2_ROWS];
    for (int r = 0; r < AVX2_ROWS; r++) {
        __m256i v = f->values(g->p[r] + at, c);
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
    u->d = avx2_halves(g, at + f->d_at);
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
    unpack_unsigned(f, g, at, 0, u->q);
    unpack_unsigned(f, g, at, 1, u->q);
    unpack_unsigned(f, g, at, 2, u->q);
    unpack_unsigned(f, g, at, 3, u->q);
    unpack_unsigned(f, g, at, 4, u->q);
    unpack_unsigned(f, g, at, 5, u->q);
    unpack_unsigned(f, g, at, 6, u->q);
    unpack_unsigned(f, g, at, 7, u->q);
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
            sum[t] = _mm256_add_epi32(sum[t], _mm256_madd_epi16(pairs[t], u->scale[i / 4]));
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
    if (n_tokens <= (f->steps ? AVX2_FEW_UNSIGNED : AVX2_FEW_SIGNED)) {
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
PRODUCT(q2_k, .block_bytes = 84, .d_at = 80, .min_at = 82, .offset_log2 = -1, .steps = 4, .scales = scales_q2_k,
        .mins = mins_q2_k)
PRODUCT(q3_k, .block_bytes = 110, .d_at = 108, .offset_log2 = 2, .steps = 4, .scales = scales_q3_k)
PRODUCT(q4_k, .block_bytes = 144, .d_at = 0, .min_at = 2, .offset_log2 = -1, .steps = 8, .scales = scales_q4_k,
        .mins = mins_q4_k)
PRODUCT(q5_k, .block_bytes = 176, .d_at = 0, .min_at = 2, .offset_log2 = -1, .steps = 4, .scales = scales_q4_k,
        .mins = mins_q4_k)
PRODUCT(q6_k, .block_bytes = 210, .d_at = 208, .offset_log2 = 5, .steps = 2, .scales = scales_q6_k)
PRODUCT(iq4_xs, .block_bytes = 136, .d_at = 0, .offset_log2 = -1, .steps = 0, .scales = scales_iq4_xs)
