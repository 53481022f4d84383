/* Private to x86/: int8 tiles. Needs AMX-TILE, AMX-INT8 and AVX512-VBMI (which every such processor has) beside what
 * avx512.h needs, and a process that may use tile registers (os_cpu has asked).
 *
 * A product sets up the tile registers of its thread when it begins and gives them up when it ends (amx_begin,
 * amx_end): every worker that computes a product does so for itself, nothing has to be set up when a thread starts, and
 * between products the system has no tiles to save at a switch.
 *
 * Tiles here: A holds 16 weight rows, each 4 n values (or a byte of their products with sub-scales) in order, so that
 * weights need no turning. B holds n rows of 16 lanes, lane t of row i being activations 4i .. 4i + 3 of token t,
 * turned once for AMX_GROUPS groups of rows. C += A B is then 16 weight rows by 16 tokens. The sums are exact modulo
 * 2^32; nothing saturates. */
#ifndef KERNEL_X86_AMX_H
#define KERNEL_X86_AMX_H

#include "kernel/x86/avx512.h"

#include <stdatomic.h>

void kernel_amx_q4_0(AVX2_PRODUCT_ARGS);
void kernel_amx_q4_1(AVX2_PRODUCT_ARGS);
void kernel_amx_q5_0(AVX2_PRODUCT_ARGS);
void kernel_amx_q5_1(AVX2_PRODUCT_ARGS);
void kernel_amx_q8_0(AVX2_PRODUCT_ARGS);
void kernel_amx_iq4_nl(AVX2_PRODUCT_ARGS);
void kernel_amx_mxfp4(AVX2_PRODUCT_ARGS);
void kernel_amx_q2_k(AVX2_PRODUCT_ARGS);
void kernel_amx_q3_k(AVX2_PRODUCT_ARGS);
void kernel_amx_q4_k(AVX2_PRODUCT_ARGS);
void kernel_amx_q5_k(AVX2_PRODUCT_ARGS);
void kernel_amx_q6_k(AVX2_PRODUCT_ARGS);
void kernel_amx_iq4_xs(AVX2_PRODUCT_ARGS);

/* From how many tokens on a product goes over tiles; fewer go over AVX-512. Set by kernel_amx_tune. */
extern atomic_size_t kernel_amx_from_32, kernel_amx_from_256;
void kernel_amx_tune(void);

#define AMX_TOKENS 16
#define AMX_TILE 64 /* tokens together; several row groups share their activations */
#define AMX_TILES (AMX_TILE / AMX_TOKENS)
#define AMX_GROUPS 24 /* of 16 rows, for which tokens are turned once */

struct amx_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

/* Tile numbers. They have to be literals in the intrinsics, so these are macros. */
#define AMX_A0 0
#define AMX_A1 1
#define AMX_B0 2
#define AMX_B1 3
#define AMX_C00 4
#define AMX_C01 5
#define AMX_C10 6
#define AMX_C11 7

/* Tiles for products of 4 * b_rows values. */
AVX2_INLINE void amx_begin(uint8_t b_rows)
{
    struct amx_config c = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        bool a = i == AMX_A0 || i == AMX_A1, b = i == AMX_B0 || i == AMX_B1;
        c.rows[i] = b ? b_rows : 16;
        c.row_bytes[i] = a ? 4 * b_rows : 64;
    }
    __asm__ volatile("" : : "r"(&c) : "memory"); /* gcc 12 does not know that the instruction reads it */
    _tile_loadconfig(&c);
}

AVX2_INLINE void amx_end(void) { _tile_release(); }

/* gcc 12 does not know either that a tile's load reads memory. To be placed between the last store and the loads, and
 * between loads and stores to the same place. */
AVX2_INLINE void amx_stores_done(const void *p) { __asm__ volatile("" : : "r"(p) : "memory"); }

/* The first AMX_TILE tokens from `first`: where their results go, and their rows; the last one stands in for those that
 * a tile lacks. */
struct amx_tokens {
    size_t n;
    struct quant_x x[AMX_TILE];
    float *out[AMX_TILE];
};

AVX2_INLINE void amx_tokens_at(struct amx_tokens *t, enum quant_form form, const struct kernel_acts *acts,
                               const uint32_t *tokens, size_t first, size_t n_tokens, float *out, size_t out_stride,
                               const uint32_t *out_rows)
{
    t->n = n_tokens - first < AMX_TILE ? n_tokens - first : AMX_TILE;
    for (size_t i = 0; i < t->n; i++) {
        size_t j = first + i;
        t->x[i] = avx2_row_of(acts, form, quant_form_len(form), tokens ? tokens[j] : j);
        t->out[i] = out + (out_rows ? out_rows[j] : j) * out_stride;
    }
    for (size_t i = t->n; i % AMX_TOKENS != 0; i++) t->x[i] = t->x[t->n - 1];
}

/* The next groups of rows from row `first`: as many as AMX_GROUPS allows, but evenly. */
AVX2_INLINE size_t amx_groups_at(struct avx512_rows g[AMX_GROUPS], const void *w, size_t stride, size_t first,
                                 size_t n_rows)
{
    const size_t left = (n_rows - first + AVX512_ROWS - 1) / AVX512_ROWS, calls = (left + AMX_GROUPS - 1) / AMX_GROUPS,
                 most = (left + calls - 1) / calls;
    size_t n = 0;
    for (; n < most && first + n * AVX512_ROWS < n_rows; n++)
        g[n] = avx512_rows_at(w, stride, first + n * AVX512_ROWS, n_rows);
    return n;
}

/* 16 values of 16 tokens as four rows of B: quarters come from memory to where they belong, which leaves 4 x 4 lanes to
 * be turned. */
AVX2_INLINE void amx_turn_16(const struct quant_x *x, size_t at, int32_t to[4][16])
{
    __m512i rows[4], turned[4];
    for (int i = 0; i < 4; i++) {
        __m512i v = _mm512_castsi128_si512(avx2_load_half(x[i].q + at));
        v = _mm512_inserti32x4(v, avx2_load_half(x[i + 4].q + at), 1);
        v = _mm512_inserti32x4(v, avx2_load_half(x[i + 8].q + at), 2);
        rows[i] = _mm512_inserti32x4(v, avx2_load_half(x[i + 12].q + at), 3);
    }
    avx512_turn_quarters(rows, turned);
    for (int i = 0; i < 4; i++) avx512_store(to[i], turned[i]);
}

/* The scales of block b of 16 tokens. */
AVX2_INLINE __m512 amx_token_scales(const struct quant_x *x, size_t b)
{
    _Alignas(64) float d[AMX_TOKENS];
    for (int i = 0; i < AMX_TOKENS; i++) d[i] = x[i].d[b];
    return _mm512_load_ps(d);
}

/* Results of a group and n tokens to where they belong. */
AVX2_INLINE void amx_store(const struct avx512_rows *g, const __m512 acc[16], float *const *out, size_t n,
                           size_t first_row)
{
    __m512i rows[16], turned[16];
    for (int i = 0; i < 16; i++) rows[i] = _mm512_castps_si512(acc[i]);
    avx512_transpose(rows, turned);
    for (size_t i = 0; i < n; i++) avx512_store_rows(out[i] + first_row, g->n, _mm512_castsi512_ps(turned[i]));
}

/* Where the weights are that are wanted behind rows up to `row`. */
AVX2_INLINE uintptr_t amx_next_weights(const void *w, size_t stride, size_t row, size_t n_rows,
                                       const struct kernel_acts *acts)
{
    const bool last = row >= n_rows && acts->next_weights;
    return last ? (uintptr_t)acts->next_weights : (uintptr_t)w + row * stride;
}

/* Fetches the n bytes at `at`, which the next rows in memory will want, to where they do not push out what is being
 * worked on. Returns what follows them. In order, so that the processor's own fetching follows; where nothing is mapped
 * it does nothing. */
AVX2_INLINE uintptr_t amx_fetch(uintptr_t at, size_t n)
{
    const uintptr_t end = at + n;
    for (uintptr_t line = (at + 63) & ~(uintptr_t)63; line < end; line += 64)
        _mm_prefetch((const char *)line, _MM_HINT_T1);
    return end;
}

#endif
