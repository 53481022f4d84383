/* Scores of one block for several queries together with AVX-512. Keys of F32 and F16 become floats once for all
 * queries.
 *
 * A few queries: the 16 lanes of a result are one register, 4 queries times 4 keys stay in 16 of them, and their trees
 * are folded together.
 *
 * Many: a lane is a query, so that no sum goes across a register, and keys are broadcast. The contract's 16 lanes of a
 * result are 16 registers then, of which two at a time (i and i + 8) are filled for several keys. */
#include "kernel/x86/avx512_fold.h"
#include "kernel/x86/avx512_kv.h"

#include "base/assert.h"

#define KEYS_MAX 8   /* that are floats at a time */
#define QUERIES_16 2 /* registers of 16 queries that go through the keys together */
#define TURNED 8192  /* floats of queries whose lanes are turned: with wide heads they are fewer */
#define FEW 10       /* up to so many queries beyond a multiple of 16 go by fours */

struct keys {
    _Alignas(64) float at[KEYS_MAX][KERNEL_HEAD_MAX];
};

AVX2_INLINE void keys_floats(const struct avx512_kv *f, const uint8_t *k, size_t stride, size_t n, size_t d,
                             struct keys *keys)
{
    for (size_t j = 0; j < n; j++, k += stride) {
        avx512_kv_prefetch(k, stride, d * f->bytes);
        avx512_kv_floats(f, k, 0, d, keys->at[j]);
    }
}

/* The first key for those that are not there. */
AVX2_INLINE void keys_stand_in(struct keys *keys, size_t n, size_t n_together, size_t d)
{
    for (; n < n_together; n++) memcpy(keys->at[n], keys->at[0], (d + 15) / 16 * 16 * sizeof(float));
}

/* ---- a few queries ---- */

/* Four keys and n_q <= 4 queries, a constant; of the scores n_keys are written. */
AVX2_INLINE void dots(const struct keys *keys, const struct quant_x *x, size_t n_q, size_t d, float scale,
                      float (*scores)[64], size_t at, size_t n_keys)
{
    __m512 s[4][4], k[4];
    for (int j = 0; j < 4; j++)
        for (size_t t = 0; t < 4; t++) s[j][t] = _mm512_setzero_ps();
    size_t e = 0;
    for (; e + 16 <= d; e += 16) {
        for (int j = 0; j < 4; j++) k[j] = _mm512_load_ps(keys->at[j] + e);
        for (size_t t = 0; t < n_q; t++) {
            const __m512 q = _mm512_loadu_ps(x[t].x + e);
            for (int j = 0; j < 4; j++) s[j][t] = _mm512_fmadd_ps(k[j], q, s[j][t]);
        }
    }
    if (e < d) { /* lanes beyond keep their bits: adding a product of zeros would turn -0 into 0 */
        const __mmask16 lanes = avx512_first_lanes(d - e);
        for (size_t t = 0; t < n_q; t++) {
            const __m512 q = _mm512_maskz_loadu_ps(lanes, x[t].x + e);
            for (int j = 0; j < 4; j++)
                s[j][t] =
                    _mm512_mask_mov_ps(s[j][t], lanes, _mm512_fmadd_ps(_mm512_load_ps(keys->at[j] + e), q, s[j][t]));
        }
    }
    _Alignas(64) float sums[4][4];
    _mm512_store_ps(sums[0], _mm512_mul_ps(avx512_sum_sixteen((const __m512(*)[4])s), _mm512_set1_ps(scale)));
    for (size_t t = 0; t < n_q; t++)
        if (n_keys == 4)
            _mm_storeu_ps(scores[t] + at, _mm_load_ps(sums[t]));
        else
            memcpy(scores[t] + at, sums[t], n_keys * sizeof(float));
}

static __attribute__((noinline)) void dots_all(const struct keys *keys, const struct quant_x *x, size_t n_queries,
                                               size_t d, float scale, float (*scores)[64], size_t at, size_t n_keys)
{
    size_t groups = (n_queries + 3) / 4; /* as even as can be: one query alone waits for its own sums */
    for (size_t t = 0, here; groups > 0; groups--, t += here) {
        here = (n_queries - t + groups - 1) / groups;
        switch (here) {
        case 1: dots(keys, x + t, 1, d, scale, scores + t, at, n_keys); break;
        case 2: dots(keys, x + t, 2, d, scale, scores + t, at, n_keys); break;
        case 3: dots(keys, x + t, 3, d, scale, scores + t, at, n_keys); break;
        default: dots(keys, x + t, 4, d, scale, scores + t, at, n_keys); break;
        }
    }
}

AVX2_INLINE void scores_few(const struct avx512_kv *f, const struct quant_x *x, size_t n_queries, const uint8_t *k,
                            size_t stride, size_t d, size_t n, float scale, float (*scores)[64])
{
    struct keys keys;
    for (size_t j = 0; j < n; j += 4) {
        const size_t here = n - j < 4 ? n - j : 4;
        keys_floats(f, k + j * stride, stride, here, d, &keys);
        keys_stand_in(&keys, here, 4, d);
        dots_all(&keys, x, n_queries, d, scale, scores, j, here);
    }
}

/* ---- many ---- */

/* Element e of query 16 v + t at [(e * n_v + v) * 16 + t]; query 0 stands in for those that are not there. */
static void queries_turn(const struct quant_x *x, size_t n_queries, size_t n_v, size_t d, float *turned)
{
    for (size_t v = 0; v < n_v; v++)
        for (size_t e = 0; e < d; e += 16) {
            const __mmask16 lanes = avx512_first_lanes(d - e);
            __m512i in[16], out[16];
            for (size_t t = 0; t < 16; t++) {
                const size_t query = 16 * v + t < n_queries ? 16 * v + t : 0;
                in[t] = _mm512_castps_si512(_mm512_maskz_loadu_ps(lanes, x[query].x + e));
            }
            avx512_transpose(in, out);
            for (size_t i = 0; i < 16 && e + i < d; i++) avx512_store(turned + ((e + i) * n_v + v) * 16, out[i]);
        }
}

/* Adds products of element e. */
AVX2_INLINE void step(const float *q, size_t n_v, const struct keys *keys, size_t n_k, size_t e, __m512 (*a)[KEYS_MAX])
{
    __m512 x[QUERIES_16];
    for (size_t v = 0; v < n_v; v++) x[v] = _mm512_load_ps(q + (e * n_v + v) * 16);
    for (size_t k = 0; k < n_k; k++) {
        const __m512 key = _mm512_set1_ps(keys->at[k][e]);
        for (size_t v = 0; v < n_v; v++) a[v][k] = _mm512_fmadd_ps(x[v], key, a[v][k]);
    }
}

/* Lanes i and i + 8 of the results of n_v registers of queries and n_k keys, both constants, added. */
AVX2_INLINE void lanes(const float *q, size_t n_v, const struct keys *keys, size_t n_k, size_t i, size_t d,
                       __m512 (*out)[KEYS_MAX])
{
    __m512 low[QUERIES_16][KEYS_MAX], high[QUERIES_16][KEYS_MAX];
    for (size_t v = 0; v < n_v; v++)
        for (size_t k = 0; k < n_k; k++) low[v][k] = high[v][k] = _mm512_setzero_ps();
    const size_t whole = d / 16 * 16;
    for (size_t e = i; e < whole; e += 16) {
        step(q, n_v, keys, n_k, e, low);
        step(q, n_v, keys, n_k, e + 8, high);
    }
    if (whole + i < d) step(q, n_v, keys, n_k, whole + i, low);
    if (whole + i + 8 < d) step(q, n_v, keys, n_k, whole + i + 8, high);
    for (size_t v = 0; v < n_v; v++)
        for (size_t k = 0; k < n_k; k++) out[v][k] = _mm512_add_ps(low[v][k], high[v][k]);
}

struct scores {
    _Alignas(64) float at[KERNEL_ATTENTION_BLOCK + KEYS_MAX][QUERIES_16 * 16];
};

AVX2_INLINE void columns(const float *q, size_t n_v, const struct keys *keys, size_t n_k, size_t d,
                         float (*to)[QUERIES_16 * 16])
{
    __m512 s[8][QUERIES_16][KEYS_MAX];
    for (size_t i = 0; i < 8; i++) lanes(q, n_v, keys, n_k, i, d, s[i]);
    for (size_t k = 0; k < n_k; k++)
        for (size_t v = 0; v < n_v; v++) {
            const __m512 even = _mm512_add_ps(_mm512_add_ps(s[0][v][k], s[4][v][k]),
                                              _mm512_add_ps(s[2][v][k], s[6][v][k])),
                         odd = _mm512_add_ps(_mm512_add_ps(s[1][v][k], s[5][v][k]),
                                             _mm512_add_ps(s[3][v][k], s[7][v][k]));
            _mm512_store_ps(to[k] + 16 * v, _mm512_add_ps(even, odd));
        }
}

static __attribute__((noinline)) void columns_1_8(const float *q, const struct keys *keys, size_t d,
                                                  float (*to)[QUERIES_16 * 16])
{
    columns(q, 1, keys, 8, d, to);
}
static __attribute__((noinline)) void columns_1_4(const float *q, const struct keys *keys, size_t d,
                                                  float (*to)[QUERIES_16 * 16])
{
    columns(q, 1, keys, 4, d, to);
}
static __attribute__((noinline)) void columns_2_6(const float *q, const struct keys *keys, size_t d,
                                                  float (*to)[QUERIES_16 * 16])
{
    columns(q, 2, keys, 6, d, to);
}
static __attribute__((noinline)) void columns_2_4(const float *q, const struct keys *keys, size_t d,
                                                  float (*to)[QUERIES_16 * 16])
{
    columns(q, 2, keys, 4, d, to);
}

static void scores_turn(const struct scores *s, size_t n_queries, size_t n, float scale, float (*scores)[64])
{
    for (size_t v = 0; v < n_queries; v += 16)
        for (size_t j = 0; j < n; j += 16) {
            __m512i in[16], out[16];
            for (size_t i = 0; i < 16; i++) in[i] = avx512_load(s->at[j + i < n ? j + i : j] + v);
            avx512_transpose(in, out);
            for (size_t t = 0; t < 16 && v + t < n_queries; t++)
                avx512_store_rows(scores[v + t] + j, n - j < 16 ? n - j : 16,
                                  _mm512_mul_ps(_mm512_castsi512_ps(out[t]), _mm512_set1_ps(scale)));
        }
}

AVX2_INLINE void scores_many(const struct avx512_kv *f, const struct quant_x *x, size_t n_queries, const uint8_t *k,
                             size_t stride, size_t d, size_t n, float scale, float (*scores)[64])
{
    _Alignas(64) float turned[TURNED];
    struct keys keys;
    struct scores s;
    const size_t n_v = n_queries > 16 ? 2 : 1, n_k = n_v == 2 ? 6 : 8;
    queries_turn(x, n_queries, n_v, d, turned);
    for (size_t j = 0, here; j < n; j += here) {
        here = n - j < n_k ? n - j : n_k;
        keys_floats(f, k + j * stride, stride, here, d, &keys);
        const size_t together = here <= 4 ? 4 : n_k;
        keys_stand_in(&keys, here, together, d);
        if (n_v == 2)
            (together == 4 ? columns_2_4 : columns_2_6)(turned, &keys, d, s.at + j);
        else
            (together == 4 ? columns_1_4 : columns_1_8)(turned, &keys, d, s.at + j);
    }
    scores_turn(&s, n_queries, n, scale, scores);
}

/* By 32 or 16, and what is left by fours. */
AVX2_INLINE void scores_all(const struct avx512_kv *f, const struct quant_x *x, size_t n_queries, const uint8_t *k,
                            size_t stride, size_t d, size_t n, float scale, float (*scores)[64])
{
    const size_t room = TURNED / 16 / d < QUERIES_16 ? TURNED / 16 / d : QUERIES_16;
    for (size_t t = 0, here; t < n_queries; t += here) {
        const size_t left = n_queries - t, whole = left / 16 + (left % 16 > FEW), n_v = whole < room ? whole : room;
        here = n_v == 0 || 16 * n_v > left ? left : 16 * n_v;
        if (n_v == 0)
            scores_few(f, x + t, here, k, stride, d, n, scale, scores + t);
        else
            scores_many(f, x + t, here, k, stride, d, n, scale, scores + t);
    }
}

/* A lane is a key, as in products. */
static void scores_q8_0(const struct quant_x *x, size_t n_queries, const uint8_t *k, size_t stride, size_t d, size_t n,
                        float scale, float (*scores)[64])
{
    if (n_queries > AVX512_FEW)
        kernel_avx512_rows_many_q8_0(k, stride, n, x, n_queries, d, scores);
    else
        for (size_t t = 0; t < n_queries; t++) kernel_avx512_rows_q8_0(k, stride, n, &x[t], d, scores[t]);
    for (size_t t = 0; t < n_queries; t++)
        for (size_t j = 0; j < n; j += 16) {
            const __mmask16 lanes = avx512_first_lanes(n - j);
            const __m512 s = _mm512_maskz_loadu_ps(lanes, scores[t] + j);
            _mm512_mask_storeu_ps(scores[t] + j, lanes, _mm512_mul_ps(s, _mm512_set1_ps(scale)));
        }
}

void kernel_avx512_attn_scores_many(uint32_t kv_type, const struct quant_x *x, size_t n_queries, const void *k,
                                    size_t k_stride_bytes, size_t d_head, size_t n, float scale, float (*scores)[64])
{
    static const struct avx512_kv f32 = {4, avx512_kv_f32}, f16 = {2, avx512_kv_f16};
    switch (kv_type) {
    case QUANT_F32: scores_all(&f32, x, n_queries, k, k_stride_bytes, d_head, n, scale, scores); break;
    case QUANT_F16: scores_all(&f16, x, n_queries, k, k_stride_bytes, d_head, n, scale, scores); break;
    case QUANT_Q8_0: scores_q8_0(x, n_queries, k, k_stride_bytes, d_head, n, scale, scores); break;
    default: BASE_ASSERT(false, "K5 keys and values are F32, F16 or Q8_0");
    }
}
