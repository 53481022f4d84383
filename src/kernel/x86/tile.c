/* See tile.h. The integer steps cannot saturate: each format's file shows it for its values and its kind. */
#include "kernel/x86/tile.h"

#define TOKENS AVX2_TILE /* that share unpacked weights */
#define GROUPS 16        /* of 8 rows, that share packed activations */
#define STEP 3           /* tokens at a time: with 16 rows, as many sums as there are registers for */

/* A slab of the activations of a tile of tokens. */
struct tile_acts {
    _Alignas(64) int8_t q[2 * TOKENS][TILE_LEN]; /* TILE_WORDS: a token has two rows; else the second half is unused */
    float d[TOKENS][8];                          /* of each block */
    union {
        int16_t pairs[TOKENS][16]; /* blocks of 256: sums of 16 or 32 values */
        float each[TOKENS][8];     /* blocks of 32: the sum of each */
    } sums;
};

AVX2_INLINE bool is_unsigned(enum tile_kind kind) { return kind == TILE_UNSIGNED_32 || kind == TILE_UNSIGNED_16; }

/* Registers of 4 values a row whose products are added in 16 bits. */
AVX2_INLINE int steps_of(enum tile_kind kind)
{
    switch (kind) {
    case TILE_UNSIGNED_32:
    case TILE_SIGNED_32: return 8;
    case TILE_UNSIGNED_16:
    case TILE_SIGNED_16: return 4;
    case TILE_SIGNED_8: return 2;
    case TILE_SIGNED_4:
    case TILE_WORDS: break;
    }
    return 1;
}

/* ---- sums of products: two groups of rows, n <= STEP tokens ---- */

AVX2_INLINE __m256i products(enum tile_kind kind, __m256i w, __m256i x)
{
    return is_unsigned(kind) ? _mm256_maddubs_epi16(w, x) : _mm256_maddubs_epi16(x, w);
}

/* Words of sums of the values from 4 i of the slab. */
AVX2_INLINE void sum_pairs(enum tile_kind kind, const __m256i *a, const __m256i *b, const int8_t (*x)[TILE_LEN], int n,
                           int i, __m256i pairs[2][STEP])
{
    for (int t = 0; t < n; t++) {
        __m256i xv = avx2_spread(x[t] + 4 * i);
        pairs[0][t] = products(kind, a[i], xv);
        pairs[1][t] = products(kind, b[i], xv);
    }
    for (int k = i + 1; k < i + steps_of(kind); k++)
        for (int t = 0; t < n; t++) {
            __m256i xv = avx2_spread(x[t] + 4 * k);
            pairs[0][t] = _mm256_add_epi16(pairs[0][t], products(kind, a[k], xv));
            AVX2_KEEP(pairs[0][t]);
            pairs[1][t] = _mm256_add_epi16(pairs[1][t], products(kind, b[k], xv));
            AVX2_KEEP(pairs[1][t]);
        }
}

AVX2_INLINE void add_to(__m256i *sum, __m256i v)
{
    *sum = _mm256_add_epi32(*sum, v);
    AVX2_KEEP(*sum);
}

/* Sums of words from word i to word `end`. */
AVX2_INLINE void sum_words(const __m256i *a, const __m256i *b, const int8_t (*x)[TILE_LEN], int n, int i, int end,
                           __m256i sum[2][STEP])
{
    for (; i < end; i++)
        for (int t = 0; t < n; t++) {
            __m256i xv = avx2_spread(x[2 * t] + 4 * i);
            add_to(&sum[0][t], _mm256_madd_epi16(a[i], xv));
            add_to(&sum[1][t], _mm256_madd_epi16(b[i], xv));
        }
}

AVX2_INLINE void clear(__m256i sum[2][STEP], int n)
{
    for (int t = 0; t < n; t++) sum[0][t] = sum[1][t] = _mm256_setzero_si256();
}

/* Integers of a block of 32, its number i in the slab. */
AVX2_INLINE void sums_32(enum tile_kind kind, const struct tile_slab *const u[2], const int8_t (*x)[TILE_LEN], int n,
                         int i, __m256i sum[2][STEP])
{
    clear(sum, n);
    if (kind == TILE_WORDS) {
        sum_words(u[0]->q, u[1]->q, x, n, 16 * i, 16 * i + 16, sum);
        return;
    }
    for (int k = 0; k < 8; k += steps_of(kind)) {
        __m256i pairs[2][STEP];
        sum_pairs(kind, u[0]->q, u[1]->q, x, n, 8 * i + k, pairs);
        for (int g = 0; g < 2; g++)
            for (int t = 0; t < n; t++) add_to(&sum[g][t], _mm256_madd_epi16(pairs[g][t], _mm256_set1_epi16(1)));
    }
    if (is_unsigned(kind)) return;
    for (int g = 0; g < 2; g++)
        for (int t = 0; t < n; t++) sum[g][t] = _mm256_sub_epi32(sum[g][t], u[g]->correction[i]);
}

/* Integers of a block of 256. */
AVX2_INLINE void sums_256(enum tile_kind kind, bool scales, const struct tile_slab *const u[2],
                          const int8_t (*x)[TILE_LEN], int n, __m256i sum[2][STEP])
{
    clear(sum, n);
    if (kind == TILE_WORDS) {
        for (int i = 0; i < TILE_LEN / 2; i += 8) sum_words(u[0]->q, u[1]->q, x, n, i, i + 8, sum);
        return;
    }
    for (int i = 0; i < TILE_LEN / 4; i += steps_of(kind)) {
        __m256i pairs[2][STEP];
        sum_pairs(kind, u[0]->q, u[1]->q, x, n, i, pairs);
        for (int g = 0; g < 2; g++)
            for (int t = 0; t < n; t++)
                add_to(&sum[g][t], _mm256_madd_epi16(pairs[g][t], scales ? u[g]->scale[i / 4] : _mm256_set1_epi16(1)));
    }
    if (is_unsigned(kind)) return;
    for (int g = 0; g < 2; g++)
        for (int t = 0; t < n; t++) sum[g][t] = _mm256_sub_epi32(sum[g][t], u[g]->correction[0]);
}

/* ---- n tokens of a slab; acc: [token][2 groups]; fresh: whatever stands there counts as 0 ---- */

AVX2_INLINE __m256 before(bool fresh, const __m256 *acc) { return fresh ? _mm256_setzero_ps() : *acc; }

AVX2_INLINE void slab_32(enum tile_kind kind, bool min, const struct tile_slab *const u[2], const struct tile_acts *x,
                         size_t first, int n, size_t n_blocks, bool fresh, __m256 (*acc)[2])
{
    const int8_t(*q)[TILE_LEN] = x->q + (kind == TILE_WORDS ? 2 * first : first);
    for (size_t i = 0; i < n_blocks; i++) {
        __m256i sum[2][STEP];
        sums_32(kind, u, q, n, (int)i, sum);
        for (int t = 0; t < n; t++) {
            __m256 d = _mm256_set1_ps(x->d[first + (size_t)t][i]);
            __m256 s = _mm256_set1_ps(min ? x->sums.each[first + (size_t)t][i] : 0.0f);
            for (int g = 0; g < 2; g++) {
                __m256 a = before(fresh && i == 0, &acc[first + (size_t)t][g]);
                a = _mm256_fmadd_ps(_mm256_mul_ps(u[g]->d[i], d), _mm256_cvtepi32_ps(sum[g][t]), a);
                if (min) a = _mm256_fmadd_ps(_mm256_mul_ps(u[g]->m[i], d), s, a);
                acc[first + (size_t)t][g] = a;
            }
        }
    }
}

/* n_mins: pairs of minima; 0: the format has none. */
AVX2_INLINE void slab_256(enum tile_kind kind, bool scales, int n_mins, const struct tile_slab *const u[2],
                          const struct tile_acts *x, size_t first, int n, bool fresh, __m256 (*acc)[2])
{
    __m256i sum[2][STEP];
    sums_256(kind, scales, u, x->q + (kind == TILE_WORDS ? 2 * first : first), n, sum);
    for (int t = 0; t < n; t++) {
        __m256 d = _mm256_set1_ps(x->d[first + (size_t)t][0]);
        const int16_t *sums = x->sums.pairs[first + (size_t)t];
        for (int g = 0; g < 2; g++) {
            __m256 a = before(fresh, &acc[first + (size_t)t][g]);
            a = _mm256_fmadd_ps(_mm256_mul_ps(u[g]->d[0], d), _mm256_cvtepi32_ps(sum[g][t]), a);
            if (n_mins) {
                __m256i s = _mm256_madd_epi16(u[g]->mins[0], avx2_spread(sums));
                for (int i = 1; i < n_mins; i++)
                    s = _mm256_add_epi32(s, _mm256_madd_epi16(u[g]->mins[i], avx2_spread(sums + 2 * i)));
                a = _mm256_fmadd_ps(_mm256_mul_ps(u[g]->m[0], d), _mm256_cvtepi32_ps(s), a);
            }
            acc[first + (size_t)t][g] = a;
        }
    }
}

typedef void slab_run(const struct tile_slab *const u[2], const struct tile_acts *x, size_t n, size_t n_blocks,
                      bool fresh, __m256 (*acc)[2]);

/* A last token alone would load as much as two. */
#define SLAB_RUN(name, slab, ...)                                                                                     \
    static void name(const struct tile_slab *const u[2], const struct tile_acts *x, size_t n, size_t n_blocks,        \
                     bool fresh, __m256(*acc)[2])                                                                     \
    {                                                                                                                 \
        size_t t = 0;                                                                                                 \
        for (; n - t >= 5 || n - t == 3; t += 3) slab(__VA_ARGS__, u, x, t, 3, SLAB_LAST(slab, n_blocks) fresh, acc); \
        for (; n - t >= 2; t += 2) slab(__VA_ARGS__, u, x, t, 2, SLAB_LAST(slab, n_blocks) fresh, acc);               \
        if (t < n) slab(__VA_ARGS__, u, x, t, 1, SLAB_LAST(slab, n_blocks) fresh, acc);                               \
    }
#define SLAB_LAST(slab, n_blocks) SLAB_LAST_##slab(n_blocks)
#define SLAB_LAST_slab_32(n_blocks) n_blocks,
#define SLAB_LAST_slab_256(n_blocks)

SLAB_RUN(run_32_u32_min, slab_32, TILE_UNSIGNED_32, true)
SLAB_RUN(run_32_u16_min, slab_32, TILE_UNSIGNED_16, true)
SLAB_RUN(run_32_s32, slab_32, TILE_SIGNED_32, false)
SLAB_RUN(run_32_s16, slab_32, TILE_SIGNED_16, false)
SLAB_RUN(run_32_words, slab_32, TILE_WORDS, false)
SLAB_RUN(run_256_u32_min, slab_256, TILE_UNSIGNED_32, true, 4)
SLAB_RUN(run_256_u16_min, slab_256, TILE_UNSIGNED_16, true, 4)
SLAB_RUN(run_256_u16_mins, slab_256, TILE_UNSIGNED_16, true, 8)
SLAB_RUN(run_256_s32_flat, slab_256, TILE_SIGNED_32, false, 0)
SLAB_RUN(run_256_s16, slab_256, TILE_SIGNED_16, true, 0)
SLAB_RUN(run_256_s8, slab_256, TILE_SIGNED_8, true, 0)
SLAB_RUN(run_256_s4, slab_256, TILE_SIGNED_4, true, 0)
SLAB_RUN(run_256_words, slab_256, TILE_WORDS, true, 0)

static slab_run *run_of(const struct tile_format *f)
{
    bool small = f->block_len == 32;
    switch (f->kind) {
    case TILE_UNSIGNED_32: return small ? run_32_u32_min : run_256_u32_min;
    case TILE_UNSIGNED_16: return small ? run_32_u16_min : f->mins_of_32 ? run_256_u16_min : run_256_u16_mins;
    case TILE_SIGNED_32: return small ? run_32_s32 : run_256_s32_flat;
    case TILE_SIGNED_16: return small ? run_32_s16 : run_256_s16;
    case TILE_SIGNED_8: return run_256_s8;
    case TILE_SIGNED_4: return run_256_s4;
    case TILE_WORDS: break;
    }
    return small ? run_32_words : run_256_words;
}

/* ---- packing ---- */

static void pack_values(enum tile_kind kind, const int8_t *q, size_t len, int8_t *to)
{
    const __m256i top = _mm256_set1_epi8(-128);
    for (size_t i = 0; i < len; i += 32) {
        __m256i v = avx2_load(q + i);
        if (kind == TILE_WORDS) {
            _mm256_store_si256((__m256i *)(to + 2 * i), _mm256_cvtepi8_epi16(_mm256_castsi256_si128(v)));
            _mm256_store_si256((__m256i *)(to + 2 * i + 32), _mm256_cvtepi8_epi16(_mm256_extracti128_si256(v, 1)));
        } else {
            _mm256_store_si256((__m256i *)(to + i), is_unsigned(kind) ? v : _mm256_xor_si256(v, top));
        }
    }
}

/* Blocks [block, block + n_blocks) of the tile's tokens. */
static void pack(const struct tile_format *f, const struct avx2_tokens *t, size_t block, size_t n_blocks,
                 struct tile_acts *x)
{
    size_t len = f->block_len * n_blocks, at = f->block_len * block;
    for (size_t j = 0; j < t->n; j++) {
        const struct quant_x *from = &t->x[j];
        pack_values(f->kind, from->q + at, len, x->q[f->kind == TILE_WORDS ? 2 * j : j]);
        memcpy(x->d[j], from->d + block, n_blocks * sizeof(float));
        if (!f->has_min) continue;
        const int16_t *sums = from->sums + at / 16;
        if (f->block_len == 32)
            for (size_t i = 0; i < n_blocks; i++) x->sums.each[j][i] = (float)(sums[2 * i] + sums[2 * i + 1]);
        else if (f->mins_of_32)
            _mm_storeu_si128((__m128i *)(void *)x->sums.pairs[j],
                             _mm_hadd_epi16(avx2_load_half(sums), avx2_load_half(sums + 8)));
        else
            memcpy(x->sums.pairs[j], sums, 16 * sizeof *sums);
    }
}

/* Activations are 128 too large, so that each value of the weights counts 128 times too often. */
static void correct(const struct tile_format *f, size_t n_blocks, struct tile_slab *u)
{
    const __m256i ones = _mm256_set1_epi8(1);
    const size_t subs = f->block_len / 16;
    for (size_t b = 0; b < n_blocks; b++) {
        __m256i sum = _mm256_setzero_si256();
        for (size_t i = b * subs; i < (b + 1) * subs; i++) {
            const __m256i *q = u->q + 4 * i;
            __m256i v = _mm256_add_epi16(_mm256_maddubs_epi16(ones, q[0]), _mm256_maddubs_epi16(ones, q[1]));
            v = _mm256_add_epi16(v, _mm256_maddubs_epi16(ones, q[2]));
            v = _mm256_add_epi16(v, _mm256_maddubs_epi16(ones, q[3]));
            sum = _mm256_add_epi32(sum, _mm256_madd_epi16(v, f->has_scales ? u->scale[i] : _mm256_set1_epi16(1)));
        }
        u->correction[b] = _mm256_slli_epi32(sum, 7);
    }
}

/* Up to GROUPS groups of rows over all slabs. x: of a row that is one slab, packed already. */
static void tile_rows(const struct tile_format *f, slab_run *run, const struct avx2_rows *g, size_t n_groups,
                      const struct avx2_tokens *t, size_t n_all, struct tile_acts *x, __m256 (*acc)[TOKENS][2])
{
    struct tile_slab u[2];
    const size_t blocks_a_slab = TILE_LEN / f->block_len, slab_bytes = blocks_a_slab * f->block_bytes;
    for (size_t b = 0; b < n_all; b += blocks_a_slab) {
        size_t n_blocks = n_all - b < blocks_a_slab ? n_all - b : blocks_a_slab;
        if (n_all > blocks_a_slab) pack(f, t, b, n_blocks, x);
        for (size_t p = 0; p < n_groups; p += 2) {
            const size_t n = n_groups - p < 2 ? 1 : 2;
            for (size_t i = 0; i < n; i++) {
                f->unpack(&g[p + i], b, n_blocks, &u[i]);
                if (f->kind != TILE_WORDS && !is_unsigned(f->kind)) correct(f, n_blocks, &u[i]);
                for (int r = 0; r < AVX2_ROWS; r++)
                    for (size_t line = 0; line < slab_bytes; line += 64)
                        avx2_prefetch(g[p + i].p[r] + b * f->block_bytes, slab_bytes + line);
            }
            run((const struct tile_slab *const[2]){&u[0], &u[n - 1]}, x, t->n, n_blocks, b == 0, acc[p / 2]);
        }
    }
}

void kernel_avx2_tile(const struct tile_format *f, AVX2_PRODUCT_ARGS)
{
    const enum quant_form form = f->block_len == 32 ? QUANT_FORM_32 : QUANT_FORM_256;
    const size_t n_blocks = acts->n / f->block_len, stride = n_blocks * f->block_bytes;
    struct avx2_tokens t;
    struct avx2_rows g[GROUPS];
    struct tile_acts x;
    __m256 acc[GROUPS / 2][TOKENS][2];
    for (size_t j = 0; j < n_tokens; j += TOKENS) {
        avx2_tokens_at(&t, form, f->block_len, acts, tokens, j, n_tokens - j < TOKENS ? n_tokens : j + TOKENS, out,
                       out_stride, out_rows);
        if (acts->n <= TILE_LEN) pack(f, &t, 0, n_blocks, &x);
        for (size_t r = 0; r < n_rows; r += GROUPS * AVX2_ROWS) {
            size_t n_groups = 0;
            for (; n_groups < GROUPS && r + n_groups * AVX2_ROWS < n_rows; n_groups++)
                g[n_groups] = avx2_rows_at(w, stride, r + n_groups * AVX2_ROWS, n_rows);
            tile_rows(f, run_of(f), g, n_groups, &t, n_blocks, &x, acc);
            for (size_t i = 0; i < t.n; i++)
                for (size_t k = 0; k < n_groups; k++)
                    avx2_store_rows(t.out[i] + r + k * AVX2_ROWS, g[k].n, acc[k / 2][i][k % 2]);
        }
    }
}
