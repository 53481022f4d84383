/* The compute kernels: one table of functions an instruction set, filled scalar first. Every variant gives the same
 * bits as the scalar one (numeric contract, src/quant/README.md and README.md here), so the choice changes speed alone.
 *
 * Table functions are single-threaded and pure; the product and attention functions below them split work over a pool.
 * Shapes are row-major, innermost last: w [n_out][n_in], x [n_tokens][n_in]. */
#ifndef KERNEL_KERNEL_H
#define KERNEL_KERNEL_H

#include "kernel/pool.h"
#include "os/os.h"
#include "quant/quant.h"

/* What joins a feed-forward's gate and up (g and u, with biases and factors already in them). */
enum kernel_act {
    KERNEL_SILU,       /* silu(g) * u, silu(g) = g / (1 + exp(-g)) */
    KERNEL_SILU_LIMIT, /* silu(min(g, limit)) * clamp(u, -limit, limit) */
    KERNEL_SILU_OAI,   /* g' = min(g, limit): g' / (1 + exp(-1.702 g')) * (clamp(u, -limit, limit) + 1) */
    KERNEL_GELU        /* g / (1 + exp(-2 c (g + 0.044715 g^3))) * u, c = sqrt(2 / pi): GELU in its tanh form */
};

enum kernel_level {
    KERNEL_SCALAR,
    KERNEL_AVX2,
    KERNEL_AVX512,
    KERNEL_AMX,
    KERNEL_NEON,
    KERNEL_DOTPROD,
    KERNEL_I8MM,
    KERNEL_LEVELS
};

/* Activations of n_tokens rows, with the quantised forms that products ask for. Buffers belong to the caller. */
struct kernel_acts {
    const float *x; /* [n_tokens][n] */
    size_t n, n_tokens;
    unsigned forms;             /* bit f: form f is filled below */
    int8_t *q[QUANT_FORMS];     /* [n_tokens][n] */
    float *d[QUANT_FORMS];      /* [n_tokens][n / block] */
    int16_t *sums[QUANT_FORMS]; /* [n_tokens][n / 16] */
    const void *next_weights;   /* of a product: weights that follow its own, which it may fetch meanwhile; NULL: those
                                   behind its rows */
};

#define KERNEL_QUERIES_MAX 32

/* What a query has found so far, and a block that joins it. */
struct kernel_join {
    float *acc, *max, *sum;
    float block_max, block_sum;
    bool first; /* nothing has been found so far: the block's take their places */
};

struct kernel_table {
    enum kernel_level level;
    const char *name;   /* "scalar", "avx2", "avx512", "amx", "neon", "dotprod", "i8mm" */
    void (*tune)(void); /* measures, once, what the level chooses by measurement; NULL: nothing */
    void (*quantize)(enum quant_form form, const float *x, size_t n, int8_t *q, float *d, int16_t *sums);
    /* About as many rows and bytes of weights as one call of a product of many tokens should have, so that what it
     * prepares of the tokens pays and all of it stays in the second-level cache; 0: as matmul.c chooses for AVX2. */
    size_t many_rows, many_bytes;
    /* out[j * out_stride + r] = row r of w . activation row (tokens ? tokens[j] : j), r < n_rows, j < n_tokens. Indexed
     * by type id; NULL for unknown types. out_rows: if not NULL, result j goes to row out_rows[j] of out instead of j.
     */
    void (*product[QUANT_IDS])(const void *w, size_t n_rows, const struct kernel_acts *acts, const uint32_t *tokens,
                               size_t n_tokens, float *out, size_t out_stride, const uint32_t *out_rows);
    float (*dot_f32)(const float *a, const float *b, size_t n); /* quant_dot_f32 */
    /* x * (1 / sqrt(dot(x, x) / n + eps)) * w; w NULL: no weights. In place allowed. */
    void (*rms_norm)(const float *x, const float *w, size_t n, float eps, float *out);
    void (*silu_mul)(const float *gate, const float *up, size_t n, float *out); /* gate / (1 + exp(-gate)) * up */
    void (*act_mul)(enum kernel_act act, float limit, const float *gate, const float *up, size_t n, float *out);
    void (*add)(float *acc, const float *x, size_t n);                 /* acc += x */
    void (*add_scaled)(float *acc, const float *x, float s, size_t n); /* acc = fma(x, s, acc) */
    void (*scale)(float *x, float s, size_t n);                        /* x *= s */
    float (*exp_sum)(float *x, size_t n, float *max); /* x = exp(x - *max); the sum, in 16 lanes like dot */
    void (*exp_sum_many)(float (*x)[64], size_t n_rows, float *sum, float *max); /* of whole rows; NULL: one by one */
    void (*softmax)(float *x, size_t n); /* exp_sum, then each divided by the sum */
    /* Rotates n_heads heads of one token in place. cos, sin: [n_rot / 2]. neox: pairs (i, i + n_rot/2), else (2i, 2i +
     * 1). */
    void (*rope)(float *x, size_t n_heads, size_t d_head, size_t n_rot, const float *cos, const float *sin, int neox);
    /* cos and sin of pos * freq[i], i < n: math_cos_d and math_sin_d, rounded (the sine of a zero is +0). */
    void (*angles)(double pos, const double *freq, size_t n, float *cos, float *sin);
    /* Attention pieces over one block of at most 64 positions for one query head (kernel_attention). kv_type: F32, F16
     * or Q8_0. */
    void (*attn_scores)(uint32_t kv_type, const float *q, const struct quant_x *qx, const void *k,
                        size_t k_stride_bytes, size_t d_head, size_t n, float scale, float *scores);
    void (*attn_values)(uint32_t kv_type, const float *p, const void *v, size_t v_stride_bytes, size_t d_head, size_t n,
                        float *acc);
    size_t attn_queries; /* as many together fill the registers best, at most KERNEL_QUERIES_MAX; 0: 18 */
    /* The same for several queries and the same positions (of scores a query may use fewer), at most
     * KERNEL_QUERIES_MAX; scores and p have rows of 64. NULL: one after the other. */
    void (*attn_scores_many)(uint32_t kv_type, const struct quant_x *x, size_t n_queries, const void *k,
                             size_t k_stride_bytes, size_t d_head, size_t n, float scale, float (*scores)[64]);
    void (*attn_values_many)(uint32_t kv_type, const float (*p)[64], size_t n_queries, const void *v,
                             size_t v_stride_bytes, size_t d_head, size_t n, float *const *acc);
    /* Values of one block from 0, joined at once: attn_values_many and attn_join without a place for the block's values
     * in between. join: [n_queries]. NULL: one after the other. */
    void (*attn_values_join)(uint32_t kv_type, const float (*p)[64], size_t n_queries, const void *v,
                             size_t v_stride_bytes, size_t d_head, size_t n, const struct kernel_join *join);
    void (*attn_merge)(float *acc, const float *block, float a, float b, size_t n); /* acc = fma(block, b, acc * a) */
    /* A block's sums join those of the blocks before it (README.md, "Attention", step 4). acc, block: [n]. */
    void (*attn_join)(float *acc, float *max, float *sum, const float *block, float block_max, float block_sum,
                      size_t n);
    void (*store_kv)(uint32_t kv_type, const float *x, size_t n, void *out); /* encodes one row into the cache */
};

/* The best level that the CPU has. level_name: NULL or "auto", or a level's name; one that this CPU lacks is
 * SLUICE_ERR_HARDWARE, an unknown one SLUICE_ERR_USAGE (the message lists the names). Before a level is handed out the
 * first time, a few milliseconds go into comparing its functions with the scalar ones (check.c). One that differs is
 * passed over by "auto" and is SLUICE_ERR_HARDWARE by name. */
enum sluice_status kernel_select(const struct os_cpu *cpu, const char *level_name, const struct kernel_table **out,
                                 struct sluice_error *err);
/* After "auto": SLUICE_OK if `chosen` is the best level of this CPU, or SLUICE_ERR_HARDWARE and a message for the user
 * that says which better one was passed over and why. */
enum sluice_status kernel_passed_over(const struct os_cpu *cpu, const struct kernel_table *chosen,
                                      struct sluice_error *err);

/* ---- threaded building blocks; each is one dispatch on the pool ---- */

struct kernel_ctx {
    const struct kernel_table *table;
    struct kernel_pool *pool;
};

/* Bytes that the quantised forms of [n_tokens][n] need, and their placement in memory at `mem` (64-aligned). n that is
 * not a multiple of 256 simply has no QUANT_FORM_256, likewise 32 and 16. */
size_t kernel_acts_bytes(size_t n, size_t n_tokens);
void kernel_acts_place(struct kernel_acts *a, const float *x, size_t n, size_t n_tokens, void *mem);
/* Fills a form (once; further calls return at once). */
void kernel_acts_fill(const struct kernel_ctx *k, struct kernel_acts *a, enum quant_form form);

struct kernel_weight {
    const struct quant_type *type;
    const void *data;
    size_t n_in, n_out;
};
/* out[j][n_out] = w x (+ bias [n_out] if not NULL) for all tokens of acts. The form must be filled. */
void kernel_matmul(const struct kernel_ctx *k, const struct kernel_weight *w, const float *bias,
                   const struct kernel_acts *acts, float *out);
/* Several weights over the same activations in one dispatch (q, k, v; gate and up). */
void kernel_matmul_many(const struct kernel_ctx *k, const struct kernel_weight *w, const float *const *bias,
                        size_t n_weights, const struct kernel_acts *acts, float *const *out);

/* Up to KERNEL_EXPERTS_MAX gated experts, each over a subset of a chunk's tokens, in one dispatch a step. Two steps, so
 * that gate and up can run before down has arrived. For one expert:
 * 1. hidden[j][n_ff] = act(gate_scale * (gate x)) * (up_scale * (up x)), j < n; tokens[j] picks the activation row.
 *    The scales are the file's optional per-expert factors; 1 where it has none (multiplying by 1 changes no bit).
 * 2. out[out_rows[j]][n_embd] = down hidden[j]. hidden acts are quantised inside.
 * Rows of hidden, scratch_up and the hidden acts: the first expert's n, then the second's, and so on. */
#define KERNEL_EXPERTS_MAX 32
struct kernel_glu {
    enum kernel_act act;
    float limit;                      /* of the clamped ones */
    float gate_scale, up_scale;       /* 1: none */
    const float *gate_bias, *up_bias; /* [n_ff], added after the factors; NULL: none */
    const float *row_weights;         /* [n]: gate and up of row j are multiplied with it first; NULL: none */
};
struct kernel_expert {
    struct kernel_weight gate, up, down;
    struct kernel_glu glu;
    const uint32_t *tokens;   /* [n] rows of the activations of step 1; NULL: all in order */
    const uint32_t *out_rows; /* [n] of step 2's output; NULL: as in hidden */
    size_t n;
};
void kernel_experts_glu(const struct kernel_ctx *k, const struct kernel_expert *experts, size_t n_experts,
                        const struct kernel_acts *acts, float *hidden, float *scratch_up);
void kernel_experts_down(const struct kernel_ctx *k, const struct kernel_expert *experts, size_t n_experts,
                         struct kernel_acts *hidden, float *out);

#define KERNEL_HEAD_MAX 576       /* largest d_head and d_head_v */
#define KERNEL_ATTENTION_BLOCK 64 /* positions that share a maximum and a sum */

/* Causal attention of n_tokens queries at positions pos0.. over a cache that already holds their own keys and values.
 * Blocks of 64 absolute positions, each with its own maximum and sum, merged in ascending order (README.md). k_type and
 * v_type are F32, F16 or Q8_0; Q8_0 needs heads that are multiples of 32 long, the others take any length. */
struct kernel_attention {
    const float *q; /* [n_tokens][n_head][d_head] */
    const void *k;  /* [pos][n_head_kv][d_head] rows of kv_type */
    const void *v;  /* [pos][n_head_kv][d_head_v] */
    size_t ring;    /* a multiple of 64: position p has row p % ring; 0: row p */
    uint32_t k_type, v_type;
    size_t n_head, n_head_kv, d_head, d_head_v, n_tokens, pos0;
    float scale;
    float softcap;      /* scores become softcap * tanh(score / softcap); 0: they stay */
    const float *sinks; /* [n_head] a score without a value that joins the softmax; NULL: none */
    size_t window;      /* a query sees the last `window` positions, its own included; 0: all */
    bool window_chunks; /* it sees those of its own chunk of `window` positions instead */
    float *out;         /* [n_tokens][n_head][d_head_v]; sums grow there, so it must not overlap q */
};
void kernel_attention_run(const struct kernel_ctx *k, const struct kernel_attention *a);

/* for each token: norm of x[t] into out[t]; ditto over heads ([n_tokens * n_head] rows of d_head) */
void kernel_rms_norm_rows(const struct kernel_ctx *k, const float *x, const float *w, size_t n, size_t n_rows,
                          float eps, float *out);

#endif
