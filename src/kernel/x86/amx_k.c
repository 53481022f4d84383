/* Tile products of the K formats and IQ4_XS, without any work a sub-block: sub-scales are multiplied into the values
 * beforehand. A value q (without its offset) times a sub-scale s is p = q s. Where p does not fit a byte it is split in
 * two planes of bytes, so that I = sum p x takes two tile products of full depth:
 *
 * - BYTES: p = l + 256 h with l = p mod 256, 0 .. 255, and h = floor(p / 256), signed. |p| <= 32 * 128 = 4096 (Q6_K;
 *   IQ4_XS 127 * 32), so h is -16 .. 16. I = sum l x + 256 sum h x.
 * - HALVES: the scale is split instead, s = s0 + 8 s1 with 3 bits each: q s0 and q s1 are at most 31 * 7 = 217 (Q4_K
 *   105) and unsigned. Two successive values, the bytes of a word, are multiplied at once, for the lower product does
 *   not reach the upper byte. I = sum q s0 x + 8 sum q s1 x.
 * - WHOLE: p is a byte (Q2_K: 3 * 15); one product, two values at once.
 *
 * Each sum is exact modulo 2^32, so are its multiple and their sum, and I itself fits (quant/README.md). Activations
 * are signed bytes of at most 127.
 *
 * What follows a block's products is done for a row and 16 tokens at a time.
 *
 * While the tiles multiply one group's block, the vectors unpack the next: its rows stand between the tile instructions
 * of the present one (struct ahead), because the processor looks no further ahead. Measured on a Sapphire Rapids class
 * processor: loads, additions, shifts and shuffles go on beside tile products, vector multiplications of 512 bits (fma
 * among them) at half their rate; adding up a block's results between tile instructions as well gained nothing
 * (docs/BENCHMARKS.md, "Computing alone, AVX-512 and AMX"). */
#include "kernel/x86/amx.h"
#include "kernel/x86/avx512_formats256.h"

#define CHUNKS 4 /* of 64 values, a tile's depth */
#define FOUR 4   /* rows are unpacked together, a header in each quarter of a register */

enum planes_way { BYTES, HALVES, WHOLE };

/* A block of 16 weight rows, unpacked. */
struct planes {
    _Alignas(64) int8_t low[CHUNKS][16][64], high[CHUNKS][16][64];
    _Alignas(64) int32_t mins[16 * 8];  /* pairs of words, 8 a row, HALVES 4 (of 32 values each), without gaps */
    uint32_t halves[16];                /* d, and above it dmin */
    _Alignas(64) float d[16], dmin[16]; /* of those */
};

/* A block of 16 tokens. */
struct turned {
    _Alignas(64) int32_t x[64][16]; /* four tiles: row i, lane t: values 4 i .. 4 i + 3 of token t */
    __m512i sums[8];                /* lane t: a pair of words, sums that belong to pairs of minima */
    __m512 d;
};

struct scratch {
    struct planes planes[2]; /* of the group in the tiles and of the next one */
    struct turned t[AMX_TILES];
    _Alignas(64) int32_t low[2][16][16], high[2][16][16]; /* sums of a pair of token tiles: [tile][row][token] */
    __m512 acc[AMX_GROUPS][AMX_TILES][16];                /* of each row, lane t */
};

/* ---- weights ---- */

/* 64 values of a row times their sub-scales, one a word. */
AVX2_INLINE void unpack_bytes(const struct format *f, __m512i v, __m512i scale, int8_t *low, int8_t *high)
{
    const __m512i even = _mm512_set1_epi16(255), offset = _mm512_set1_epi16((short)f->offset);
    __m512i v0 = _mm512_and_si512(v, even), v1 = _mm512_srli_epi16(v, 8);
    if (f->offset) {
        v0 = _mm512_sub_epi16(v0, offset);
        v1 = _mm512_sub_epi16(v1, offset);
    }
    const __m512i p0 = _mm512_mullo_epi16(v0, scale), p1 = _mm512_mullo_epi16(v1, scale);
    avx512_store(low, _mm512_or_si512(_mm512_and_si512(p0, even), _mm512_slli_epi16(p1, 8)));
    avx512_store(high, _mm512_or_si512(_mm512_srli_epi16(p0, 8), _mm512_andnot_si512(even, p1)));
}

AVX2_INLINE void unpack_chunk(const struct format *f, enum planes_way way, const uint8_t *p, size_t r, int c,
                              __m512i scales, struct planes *to)
{
    /* words 8 j .. 8 j + 7 of a chunk belong to its sub-block j */
    const __m512i which =
        _mm512_add_epi16(_mm512_set_epi64(0x0003000300030003, 0x0003000300030003, 0x0002000200020002,
                                          0x0002000200020002, 0x0001000100010001, 0x0001000100010001, 0, 0),
                         _mm512_set1_epi16((short)(4 * c)));
    const __m512i scale = _mm512_permutexvar_epi16(which, scales), v = f->values(p, c);
    if (way == WHOLE)
        avx512_store(to->low[c][r], _mm512_mullo_epi16(v, scale));
    else
        unpack_bytes(f, v, scale, to->low[c][r], to->high[c][r]);
}

AVX2_INLINE void unpack_row(const struct format *f, enum planes_way way, const uint8_t *p, size_t r, struct planes *to)
{
    const __m512i scales = _mm512_castsi256_si512(_mm256_cvtepi8_epi16(f->scales(p)));
    unpack_chunk(f, way, p, r, 0, scales, to);
    unpack_chunk(f, way, p, r, 1, scales, to);
    unpack_chunk(f, way, p, r, 2, scales, to);
    unpack_chunk(f, way, p, r, 3, scales, to);
    to->halves[r] = (uint16_t)avx2_load_i16(p + f->d_at);
    if (!f->min_at) return;
    to->halves[r] |= (uint32_t)avx2_load_i16(p + f->min_at) << 16;
    _mm256_store_si256((__m256i *)(void *)(to->mins + 8 * r), _mm256_cvtepi8_epi16(f->mins(p)));
}

#define TIMES_32(v) v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v
#define CHUNK_SCALES(at)                 \
    {                                    \
        TIMES_32(at), TIMES_32((at) + 1) \
    }
#define ROW_SCALES(at)                                                                           \
    {                                                                                            \
        CHUNK_SCALES(at), CHUNK_SCALES((at) + 2), CHUNK_SCALES((at) + 4), CHUNK_SCALES((at) + 6) \
    }

/* Where the two scales of chunk c of row i stand, of four rows with 16 bytes each. In memory: compilers make it of
 * shuffles otherwise, of which there are enough. */
static const _Alignas(64) int8_t scale_places[FOUR][CHUNKS][64] = {ROW_SCALES(0), ROW_SCALES(16), ROW_SCALES(32),
                                                                   ROW_SCALES(48)};

/* A row's 64 values times both halves of the scales. */
AVX2_INLINE void unpack_halves(const struct format *f, const uint8_t *p, size_t r, int c, const int8_t which[64],
                               __m512i scales_0, __m512i scales_1, struct planes *to)
{
    const __mmask64 even = 0x5555555555555555;
    const __m512i v = f->values(p, c), at = avx512_load(which);
    avx512_store(to->low[c][r], _mm512_mullo_epi16(v, _mm512_maskz_permutexvar_epi8(even, at, scales_0)));
    avx512_store(to->high[c][r], _mm512_mullo_epi16(v, _mm512_maskz_permutexvar_epi8(even, at, scales_1)));
}

/* Rows r .. r + 3 of Q4_K or Q5_K, whose blocks begin with the same 16 bytes: d, dmin, 8 scales and 8 minima of 6 bits
 * (quant/k.c). */
AVX2_INLINE void unpack_four(const struct format *f, const uint8_t *const p[FOUR], size_t r, struct planes *to)
{
    __m512i head = _mm512_castsi128_si512(avx2_load_half(p[0]));
    head = _mm512_inserti32x4(head, avx2_load_half(p[1]), 1);
    head = _mm512_inserti32x4(head, avx2_load_half(p[2]), 2);
    head = _mm512_inserti32x4(head, avx2_load_half(p[3]), 3);
    /* in each quarter: scales 0..3, 4..7, minima 0..3, 4..7, without the two bits above and with them alone */
    const __m512i below =
                      _mm512_broadcast_i32x4(_mm_setr_epi8(4, 5, 6, 7, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15)),
                  above =
                      _mm512_broadcast_i32x4(_mm_setr_epi8(-1, -1, -1, -1, 4, 5, 6, 7, -1, -1, -1, -1, 8, 9, 10, 11));
    const __m512i by = _mm512_broadcast_i32x4(_mm_setr_epi32(0, 0, 0, 4)),
                  mask = _mm512_broadcast_i32x4(_mm_setr_epi32(0x3f3f3f3f, 0x0f0f0f0f, 0x3f3f3f3f, 0x0f0f0f0f));
    __m512i six = _mm512_and_si512(_mm512_srlv_epi32(_mm512_shuffle_epi8(head, below), by), mask);
    __m512i two = _mm512_srli_epi16(_mm512_shuffle_epi8(head, above), 2);
    six = _mm512_or_si512(six, _mm512_and_si512(two, _mm512_set1_epi8(0x30)));
    const __m512i three = _mm512_set1_epi8(7), scales_0 = _mm512_and_si512(six, three),
                  scales_1 = _mm512_and_si512(_mm512_srli_epi16(six, 3), three);
    for (int i = 0; i < FOUR; i++) {
        unpack_halves(f, p[i], r + (size_t)i, 0, scale_places[i][0], scales_0, scales_1, to);
        unpack_halves(f, p[i], r + (size_t)i, 1, scale_places[i][1], scales_0, scales_1, to);
        unpack_halves(f, p[i], r + (size_t)i, 2, scale_places[i][2], scales_0, scales_1, to);
        unpack_halves(f, p[i], r + (size_t)i, 3, scale_places[i][3], scales_0, scales_1, to);
    }
    const __m512i words =
        _mm512_broadcast_i32x4(_mm_setr_epi8(8, -1, 9, -1, 10, -1, 11, -1, 12, -1, 13, -1, 14, -1, 15, -1));
    const __m512i mins = _mm512_shuffle_epi8(six, words);
    avx512_store(to->mins + 4 * r, mins);
    _mm_storeu_si128((__m128i *)(void *)(to->halves + r),
                     _mm512_castsi512_si128(_mm512_permutexvar_epi32(
                         _mm512_set_epi32(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 12, 8, 4, 0), head)));
}

/* What unpacks a group's block, four rows at a time. */
struct ahead {
    const struct avx512_rows *g; /* NULL: nothing to be unpacked */
    size_t at;                   /* offset of the block */
    uintptr_t fetch;             /* of the rows behind these: fetched in order, so much as is unpacked */
    struct planes *to;
    size_t row;
};

AVX2_INLINE void unpack_rows(const struct format *f, enum planes_way way, struct ahead *a)
{
    if (!a->g) return;
    const uint8_t *p[FOUR];
    for (size_t i = 0; i < FOUR; i++) p[i] = a->g->p[a->row + i] + a->at;
    a->fetch = amx_fetch(a->fetch, FOUR * f->block_bytes);
    if (way == HALVES)
        unpack_four(f, p, a->row, a->to);
    else
        for (size_t i = 0; i < FOUR; i++) unpack_row(f, way, p[i], a->row + i, a->to);
    a->row += FOUR;
}

/* The last step, behind all rows. */
AVX2_INLINE void unpack_factors(const struct format *f, struct planes *p)
{
    const __m512i halves = avx512_load(p->halves),
                  even = _mm512_set_epi32(0, 0, 0, 0, 0, 0, 0, 0, 0x1e001c, 0x1a0018, 0x160014, 0x120010, 0xe000c,
                                          0xa0008, 0x60004, 0x20000),
                  odd = _mm512_add_epi16(even, _mm512_set1_epi16(1));
    _mm512_store_ps(p->d, _mm512_cvtph_ps(_mm512_castsi512_si256(_mm512_permutexvar_epi16(even, halves))));
    if (f->min_at)
        _mm512_store_ps(p->dmin,
                        avx512_negate(_mm512_cvtph_ps(_mm512_castsi512_si256(_mm512_permutexvar_epi16(odd, halves)))));
}

/* ---- tokens ---- */

/* Sums of 16 values, pairs of words, to sums of 32. */
AVX2_INLINE void sums_of_32(__m512i sums[8])
{
    const __m512i one = _mm512_set1_epi16(1), zero = _mm512_setzero_si512();
    for (int i = 0; i < 4; i++) {
        __m512i a = _mm512_dpwssd_epi32(zero, sums[2 * i], one), b = _mm512_dpwssd_epi32(zero, sums[2 * i + 1], one);
        sums[i] = _mm512_or_si512(_mm512_and_si512(a, _mm512_set1_epi32(0xffff)), _mm512_slli_epi32(b, 16));
    }
}

/* Block b of 16 tokens. */
AVX2_INLINE void turn(const struct format *f, enum planes_way way, const struct quant_x *x, size_t b, struct turned *to)
{
    for (size_t at = 0; at < 16; at++) amx_turn_16(x, 256 * b + 16 * at, to->x + 4 * at);
    to->d = amx_token_scales(x, b);
    if (!f->min_at) return;
    __m512i rows[8];
    for (int i = 0; i < 8; i++) rows[i] = avx512_join(avx2_load(x[i].sums + 16 * b), avx2_load(x[i + 8].sums + 16 * b));
    avx512_transpose_halves(rows, to->sums);
    if (way == HALVES) sums_of_32(to->sums);
}

/* ---- products ---- */

/* A plane of the group's block, row by row of four tiles, times a tile of tokens. */
#define DOT(way, c0, c1, b)              \
    do {                                 \
        _tile_dpbusd(c0, AMX_A0, b);     \
        if ((way) == HALVES)             \
            _tile_dpbusd(c1, AMX_A1, b); \
        else if ((way) == BYTES)         \
            _tile_dpbssd(c1, AMX_A1, b); \
    } while (0)

/* A block of a group times one or two tiles of tokens. Meanwhile rows of the next one are unpacked: four of them at
 * each `every`th chunk. */
AVX2_INLINE void multiply(const struct format *f, enum planes_way way, struct scratch *s, const struct planes *w,
                          const struct turned *t, bool two, struct ahead *next, int every)
{
    amx_stores_done(s);
    _tile_zero(AMX_C00);
    _tile_zero(AMX_C01);
    _tile_zero(AMX_C10);
    _tile_zero(AMX_C11);
    for (int c = 0; c < CHUNKS; c++) {
        _tile_loadd(AMX_A0, w->low[c], 64);
        if (way != WHOLE) _tile_loadd(AMX_A1, w->high[c], 64);
        _tile_loadd(AMX_B0, t[0].x[16 * c], 64);
        DOT(way, AMX_C00, AMX_C01, AMX_B0);
        if (two) {
            _tile_loadd(AMX_B1, t[1].x[16 * c], 64);
            DOT(way, AMX_C10, AMX_C11, AMX_B1);
        }
        if (c % every == 0) unpack_rows(f, way, next);
    }
    _tile_stored(AMX_C00, s->low[0], 64);
    if (way != WHOLE) _tile_stored(AMX_C01, s->high[0], 64);
    if (!two) return;
    _tile_stored(AMX_C10, s->low[1], 64);
    if (way != WHOLE) _tile_stored(AMX_C11, s->high[1], 64);
}

/* I of a row's block and 16 tokens. */
AVX2_INLINE __m512i sum_of(enum planes_way way, const int32_t low[16], const int32_t high[16])
{
    if (way == WHOLE) return avx512_load(low);
    const __m512i h = avx512_load(high);
    return _mm512_add_epi32(avx512_load(low), way == HALVES ? _mm512_slli_epi32(h, 3) : _mm512_slli_epi32(h, 8));
}

/* The block's part of 16 rows and one or two tiles of tokens, which share what a row's factors and minima are. */
AVX2_INLINE void add_block(const struct format *f, enum planes_way way, const struct scratch *s, const struct planes *w,
                           const struct turned *t, size_t n_tiles, __m512 acc[][16])
{
    const int n_pairs = way == HALVES ? 4 : 8;
    __m512 d[2];
    __m512i sums[2][8];
    for (size_t i = 0; i < n_tiles; i++) {
        d[i] = t[i].d;
        for (int k = 0; k < n_pairs && f->min_at; k++) sums[i][k] = t[i].sums[k];
    }
    for (int r = 0; r < 16; r++) {
        const __m512 w_d = _mm512_set1_ps(w->d[r]);
        __m512 a[2];
        for (size_t i = 0; i < n_tiles; i++) {
            const __m512 sum = _mm512_cvtepi32_ps(sum_of(way, s->low[i][r], s->high[i][r]));
            a[i] = _mm512_fmadd_ps(_mm512_mul_ps(w_d, d[i]), sum, acc[i][r]);
        }
        if (f->min_at) {
            const __m512 w_m = _mm512_set1_ps(w->dmin[r]);
            __m512i minima[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
            for (int k = 0; k < n_pairs; k++) {
                const __m512i pair = _mm512_set1_epi32(w->mins[n_pairs * r + k]);
                for (size_t i = 0; i < n_tiles; i++) minima[i] = _mm512_dpwssd_epi32(minima[i], sums[i][k], pair);
            }
            for (size_t i = 0; i < n_tiles; i++)
                a[i] = _mm512_fmadd_ps(_mm512_mul_ps(w_m, d[i]), _mm512_cvtepi32_ps(minima[i]), a[i]);
        }
        for (size_t i = 0; i < n_tiles; i++) acc[i][r] = a[i];
    }
}

/* Up to AMX_GROUPS groups of rows times n tokens (x has whole tiles). */
AVX2_INLINE void groups_product(const struct format *f, enum planes_way way, struct scratch *s,
                                const struct avx512_rows *g, size_t n_groups, const struct quant_x *x, size_t n,
                                size_t n_blocks, uintptr_t fetch)
{
    const size_t n_tiles = (n + AMX_TOKENS - 1) / AMX_TOKENS;
    const int every = n_tiles > 2 ? 2 : 1; /* with two pairs of tiles, each unpacks half of the rows */
    for (size_t k = 0; k < n_groups; k++)
        for (size_t i = 0; i < n_tiles; i++)
            for (int r = 0; r < 16; r++) s->acc[k][i][r] = _mm512_setzero_ps();
    struct ahead next = {.g = g, .to = &s->planes[0], .fetch = fetch};
    for (int i = 0; i < AVX512_ROWS / FOUR; i++) unpack_rows(f, way, &next);
    size_t turn_of = 0;
    for (size_t b = 0; b < n_blocks; b++) {
        for (size_t i = 0; i < n_tiles; i++) turn(f, way, x + AMX_TOKENS * i, b, &s->t[i]);
        for (size_t k = 0; k < n_groups; k++) {
            struct planes *const now = &s->planes[turn_of];
            unpack_factors(f, now);
            turn_of = !turn_of;
            const bool last = k + 1 == n_groups;
            next = (struct ahead){.g = last ? (b + 1 < n_blocks ? g : NULL) : g + k + 1,
                                  .at = (b + last) * f->block_bytes,
                                  .fetch = next.fetch,
                                  .to = &s->planes[turn_of]};
            for (size_t i = 0; i < n_tiles; i += 2) {
                const bool two = i + 1 < n_tiles;
                multiply(f, way, s, now, &s->t[i], two, &next, every);
                if (two)
                    add_block(f, way, s, now, &s->t[i], 2, &s->acc[k][i]);
                else
                    add_block(f, way, s, now, &s->t[i], 1, &s->acc[k][i]);
            }
        }
    }
}

AVX2_INLINE void product(const struct format *f, enum planes_way way, AVX2_PRODUCT_ARGS)
{
    const size_t n_blocks = acts->n / 256, stride = n_blocks * f->block_bytes;
    struct scratch s;
    struct amx_tokens t;
    struct avx512_rows g[AMX_GROUPS];
    amx_begin(16);
    for (size_t j = 0; j < n_tokens; j += AMX_TILE) {
        amx_tokens_at(&t, QUANT_FORM_256, acts, tokens, j, n_tokens, out, out_stride, out_rows);
        for (size_t r = 0, n_groups; r < n_rows; r += n_groups * AVX512_ROWS) {
            n_groups = amx_groups_at(g, w, stride, r, n_rows);
            groups_product(f, way, &s, g, n_groups, t.x, t.n, n_blocks,
                           amx_next_weights(w, stride, r + n_groups * AVX512_ROWS, n_rows, acts));
            for (size_t k = 0; k < n_groups; k++)
                for (size_t i = 0; i < t.n; i += AMX_TOKENS)
                    amx_store(&g[k], s.acc[k][i / AMX_TOKENS], t.out + i, t.n - i < AMX_TOKENS ? t.n - i : AMX_TOKENS,
                              r + k * AVX512_ROWS);
        }
    }
    amx_end();
}

#define WAY_q2_k WHOLE
#define WAY_q3_k BYTES
#define WAY_q4_k HALVES
#define WAY_q5_k HALVES
#define WAY_q6_k BYTES
#define WAY_iq4_xs BYTES

/* Few tokens leave before the frame is set up, which is large. */
#define PRODUCT(name, bytes, half_at, minimum_at, off, largest, pairs_32, scales_of, mins_of)   \
    static __attribute__((noinline)) void tiles_##name(AVX2_PRODUCT_ARGS)                       \
    {                                                                                           \
        static const struct format f = {.block_bytes = bytes,                                   \
                                        .d_at = half_at,                                        \
                                        .min_at = minimum_at,                                   \
                                        .offset = off,                                          \
                                        .values = values_##name,                                \
                                        .scales = scales_of,                                    \
                                        .mins = mins_of};                                       \
        product(&f, WAY_##name, w, n_rows, acts, tokens, n_tokens, out, out_stride, out_rows);  \
    }                                                                                           \
    void kernel_amx_##name(AVX2_PRODUCT_ARGS)                                                   \
    {                                                                                           \
        if (n_tokens < atomic_load_explicit(&kernel_amx_from_256, memory_order_relaxed))        \
            kernel_avx512_##name(w, n_rows, acts, tokens, n_tokens, out, out_stride, out_rows); \
        else                                                                                    \
            tiles_##name(w, n_rows, acts, tokens, n_tokens, out, out_stride, out_rows);         \
    }
FORMATS_256(PRODUCT)
