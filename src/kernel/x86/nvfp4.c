/* Products of NVFP4: 16 values a scale, four such blocks together in the file; the layout is explained in
 * quant/nvfp4.c. The ways are those of block32.c.
 *
 * Saturation. The doubled E2M1 values are 12 too large, at most 24: a pair of maddubs is at most 2 * 24 * 127 = 6096,
 * four of them (many tokens) 24384, whatever the bytes of the file. */
#include "kernel/x86/avx2.h"

#define LEN 64
#define SUB 16
#define SUBS 4
#define BYTES 36
#define OFFSET 12
#define FEW 1 /* tokens that go one after the other; measured */

/* Values of sub-blocks 2 h and 2 h + 1, 16 in each half of the register. */
AVX2_INLINE __m256i values(const uint8_t *block, int h)
{
    const __m256i table =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    const __m128i nibble = _mm_set1_epi8(15);
    __m128i v = avx2_load_half(block + SUBS + 16 * h);
    __m128i low = _mm_and_si128(v, nibble), high = _mm_and_si128(_mm_srli_epi16(v, 4), nibble);
    return _mm256_shuffle_epi8(table, _mm256_set_m128i(_mm_unpackhi_epi64(low, high), _mm_unpacklo_epi64(low, high)));
}

/* The four scale bytes of each row. */
AVX2_INLINE __m256i scale_bytes(const struct avx2_rows *g, size_t at)
{
    return _mm256_setr_epi32(avx2_load_i32(g->p[0] + at), avx2_load_i32(g->p[1] + at), avx2_load_i32(g->p[2] + at),
                             avx2_load_i32(g->p[3] + at), avx2_load_i32(g->p[4] + at), avx2_load_i32(g->p[5] + at),
                             avx2_load_i32(g->p[6] + at), avx2_load_i32(g->p[7] + at));
}

/* Seven bits as exponent and top of the mantissa of a float, times 2^119: exact, also where the exponent is 0. The byte
 * 0x7f is 0. */
AVX2_INLINE __m256 scales(__m256i bytes, int s)
{
    __m256i byte = _mm256_and_si256(_mm256_srli_epi32(bytes, 8 * s), _mm256_set1_epi32(0xff));
    __m256i is_nan = _mm256_cmpeq_epi32(byte, _mm256_set1_epi32(0x7f));
    __m256i bits = _mm256_slli_epi32(_mm256_and_si256(byte, _mm256_set1_epi32(0x7f)), 20);
    return _mm256_mul_ps(_mm256_castsi256_ps(_mm256_andnot_si256(is_nan, bits)), _mm256_set1_ps(0x1p119f));
}

/* One sub-block's sums (with the offset) and scales into the chain; b counts sub-blocks. */
AVX2_INLINE __m256 chain(__m256 acc, __m256 d, __m256i sum, const struct quant_x *x, size_t b)
{
    sum = _mm256_sub_epi32(sum, _mm256_set1_epi32(OFFSET * x->sums[b]));
    return _mm256_fmadd_ps(_mm256_mul_ps(d, _mm256_set1_ps(x->d[b])), _mm256_cvtepi32_ps(sum), acc);
}

/* ---- few tokens ---- */

AVX2_INLINE __m256 dot_group(const struct avx2_rows *g, const struct quant_x *x, size_t n_blocks, size_t ahead)
{
    const __m256i ones = _mm256_set1_epi16(1);
    __m256 acc = _mm256_setzero_ps();
    for (size_t b = 0; b < n_blocks; b++) {
        size_t at = b * BYTES;
        __m256i bytes = scale_bytes(g, at);
        for (int r = 0; r < AVX2_ROWS; r++) avx2_prefetch(g->p[r] + at, ahead);
        for (int h = 0; h < 2; h++) {
            __m256i xv = avx2_load(x->q + LEN * b + 32 * (size_t)h), s[AVX2_ROWS];
            for (int r = 0; r < AVX2_ROWS; r++)
                s[r] = _mm256_madd_epi16(_mm256_maddubs_epi16(values(g->p[r] + at, h), xv), ones);
            /* the low half's four lanes are of the first sub-block, the high half's of the second */
            __m256i first = _mm256_hadd_epi32(_mm256_hadd_epi32(s[0], s[1]), _mm256_hadd_epi32(s[2], s[3]));
            __m256i last = _mm256_hadd_epi32(_mm256_hadd_epi32(s[4], s[5]), _mm256_hadd_epi32(s[6], s[7]));
            size_t sub = SUBS * b + 2 * (size_t)h;
            acc = chain(acc, scales(bytes, 2 * h), _mm256_permute2x128_si256(first, last, 0x20), x, sub);
            acc = chain(acc, scales(bytes, 2 * h + 1), _mm256_permute2x128_si256(first, last, 0x31), x, sub + 1);
        }
    }
    return acc;
}

/* ---- many tokens ---- */

struct unpacked {
    __m256i q[LEN / 4]; /* lane r: values 4i .. 4i + 3 of row r */
    __m256 d[SUBS];
};

AVX2_INLINE void unpack(const struct avx2_rows *g, size_t at, struct unpacked *u)
{
    __m256i rows[AVX2_ROWS], bytes = scale_bytes(g, at);
    for (int h = 0; h < 2; h++) {
        for (int r = 0; r < AVX2_ROWS; r++) rows[r] = values(g->p[r] + at, h);
        avx2_transpose(rows, u->q + 8 * h);
    }
    for (int s = 0; s < SUBS; s++) u->d[s] = scales(bytes, s);
}

AVX2_INLINE void dot_tile(const struct avx2_rows *g, const struct avx2_tokens *t, size_t n_blocks,
                          __m256 acc[AVX2_TILE])
{
    const __m256i ones = _mm256_set1_epi16(1);
    struct unpacked u;
    for (size_t i = 0; i < (t->n + AVX2_STEP - 1) / AVX2_STEP * AVX2_STEP; i++) acc[i] = _mm256_setzero_ps();
    for (size_t b = 0; b < n_blocks; b++) {
        unpack(g, b * BYTES, &u);
        for (size_t i = 0; i < t->n; i += AVX2_STEP)
            for (size_t s = 0; s < SUBS; s++)
                for (size_t k = i; k < i + AVX2_STEP; k++) {
                    const int8_t *q = t->x[k].q + LEN * b + SUB * s;
                    __m256i pairs = _mm256_maddubs_epi16(u.q[4 * s], avx2_spread(q));
                    for (size_t j = 1; j < 4; j++)
                        pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(u.q[4 * s + j], avx2_spread(q + 4 * j)));
                    acc[k] = chain(acc[k], u.d[s], _mm256_madd_epi16(pairs, ones), &t->x[k], SUBS * b + s);
                }
    }
}

void kernel_avx2_nvfp4(AVX2_PRODUCT_ARGS)
{
    size_t n_blocks = acts->n / LEN, stride = n_blocks * BYTES;
    if (n_tokens <= FEW) {
        for (size_t r = 0; r < n_rows; r += AVX2_ROWS) {
            struct avx2_rows g = avx2_rows_at(w, stride, r, n_rows);
            for (size_t j = 0; j < n_tokens; j++) {
                struct quant_x x = avx2_row_of(acts, QUANT_FORM_16, SUB, tokens ? tokens[j] : j);
                avx2_store_rows(out + (out_rows ? out_rows[j] : j) * out_stride + r, g.n,
                                dot_group(&g, &x, n_blocks, AVX2_ROWS * stride));
            }
        }
        return;
    }
    struct avx2_tokens t;
    __m256 acc[AVX2_TILE];
    for (size_t j = 0; j < n_tokens; j += AVX2_TILE) {
        avx2_tokens_at(&t, QUANT_FORM_16, SUB, acts, tokens, j, n_tokens, out, out_stride, out_rows);
        for (size_t r = 0; r < n_rows; r += AVX2_ROWS) {
            struct avx2_rows g = avx2_rows_at(w, stride, r, n_rows);
            dot_tile(&g, &t, n_blocks, acc);
            for (size_t i = 0; i < t.n; i++) avx2_store_rows(t.out[i] + r, g.n, acc[i]);
        }
    }
}
