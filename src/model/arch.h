/* One row an architecture: which tensors it has and how a layer is computed. */
#ifndef MODEL_ARCH_H
#define MODEL_ARCH_H

#include "model/forward.h"
#include "model/model.h"

#include <stddef.h>

/* Sizes that a tensor's shape is written in; those of the tensor's own layer. */
enum bind_dim {
    D_NONE,
    D_ONE,
    D_EMBD,
    D_Q, /* n_head * d_head_k, twice that where the attention is gated */
    D_K,
    D_V,
    D_QKV, /* all three */
    D_ATTN,
    D_HEAD,
    D_HEADS,
    D_FF,
    D_FF_EXP,
    D_FF_SHEXP,
    D_EXPERT,
    D_VOCAB,
    D_ROT2,
    D_CONV,  /* taps */
    D_3EMBD, /* 3 * n_embd */
    D_ARCH   /* and above: struct model_arch.dim says */
};

enum bind_flags {
    BIND_OPTIONAL = 1,
    BIND_VECTOR = 2,     /* wanted as F32; 16-bit floats are converted */
    BIND_MOE = 4,        /* only in layers with routed experts */
    BIND_DENSE = 8,      /* only in layers without */
    BIND_RECURRENT = 16, /* only in layers without keys and values */
    BIND_ATTENTION = 32, /* only in layers with them */
    BIND_SHARED = 64,    /* only in layers with shared experts */
    BIND_IDS = 128,      /* a table of int32 */
    BIND_FLAT = 256,     /* may be a matrix whose last dimension is the last two together */
};

struct bind_row {
    const char *suffix; /* of "blk.N."; in model_rows the whole name */
    uint32_t at;        /* offset in struct model_layer; in model_rows in struct model */
    uint8_t dims[3];    /* enum bind_dim */
    uint16_t flags;
};

struct model_arch {
    const char *name;                  /* general.architecture */
    const struct bind_row *rows;       /* of a layer; ends with a NULL suffix */
    const struct bind_row *model_rows; /* beyond the common ones, or NULL */
    bool moe_optional;                 /* may have no experts */
    bool own_output_norm;              /* model_rows name another tensor than output_norm.weight */
    /* Reads the keys of its own, fills in sizes that the metadata leaves to the architecture and checks further
     * conditions; what it changes in hp is settled afterwards. */
    enum sluice_status (*finish)(struct model_keys *k, struct model_hparams *hp);
    /* Whether a row of the table applies to the layer, beyond its flags; NULL: always. */
    bool (*applies)(const struct model_hparams *hp, uint32_t layer, const struct bind_row *row);
    uint64_t (*dim)(const struct model_hparams *hp, uint32_t layer, uint8_t d); /* NULL: no sizes of its own */
    enum sluice_status (*layer)(struct model_run *r, const struct model_step *s, uint32_t layer,
                                struct sluice_error *err);
};

/* NULL if unknown; model_arch_list gives the names for messages ("qwen3moe, olmoe, ..."). */
const struct model_arch *model_arch_find(const char *name, size_t bytes);
const char *model_arch_list(void);
/* Attention, then the feed-forward that the layer has. */
enum sluice_status model_layer_plain(struct model_run *r, const struct model_step *s, uint32_t layer,
                                     struct sluice_error *err);

/* The feed-forward that the layer has, for what is left of the step behind its keys and values. */
enum sluice_status model_feed_forward(struct model_run *r, const struct model_step *s, uint32_t layer,
                                      struct sluice_error *err);

/* Rows that several architectures share, for use inside a table. */
#define BIND_AT(field) (uint32_t) offsetof(struct model_layer, field)
#define BIND_MODEL_AT(field) (uint32_t) offsetof(struct model, field)
#define BIND_ROW(suffix, field, flags, ...)          \
    {                                                \
        suffix, BIND_AT(field), {__VA_ARGS__}, flags \
    }
#define BIND_MODEL_ROW(name, field, flags, ...)          \
    {                                                    \
        name, BIND_MODEL_AT(field), {__VA_ARGS__}, flags \
    }
/* q, k, v, output and the factors that they may have. */
#define BIND_ATTENTION_ROWS                                                \
    BIND_ROW("attn_norm.weight", attn_norm, BIND_VECTOR, D_EMBD),          \
        BIND_ROW("attn_q.weight", q, BIND_ATTENTION, D_EMBD, D_Q),         \
        BIND_ROW("attn_k.weight", k, BIND_ATTENTION, D_EMBD, D_K),         \
        BIND_ROW("attn_v.weight", v, BIND_ATTENTION, D_EMBD, D_V),         \
        BIND_ROW("attn_output.weight", o, BIND_ATTENTION, D_ATTN, D_EMBD), \
        BIND_ROW("attn_output.scale", o_scale, BIND_ATTENTION | BIND_VECTOR | BIND_OPTIONAL, D_ONE)
/* The same with q, k and v in one matrix. */
#define BIND_QKV_ROWS                                                                               \
    BIND_ROW("attn_norm.weight", attn_norm, BIND_VECTOR, D_EMBD),                                   \
        BIND_ROW("attn_qkv.weight", qkv, BIND_ATTENTION, D_EMBD, D_QKV),                            \
        BIND_ROW("attn_qkv.bias", qkv_bias, BIND_ATTENTION | BIND_VECTOR | BIND_OPTIONAL, D_QKV),   \
        BIND_ROW("attn_qkv.scale", qkv_scale, BIND_ATTENTION | BIND_VECTOR | BIND_OPTIONAL, D_ONE), \
        BIND_ROW("attn_output.weight", o, BIND_ATTENTION, D_ATTN, D_EMBD),                          \
        BIND_ROW("attn_output.scale", o_scale, BIND_ATTENTION | BIND_VECTOR | BIND_OPTIONAL, D_ONE)
#define BIND_ROUTER_ROW BIND_ROW("ffn_gate_inp.weight", router, BIND_MOE, D_EMBD, D_EXPERT)
#define BIND_COMMON_ROWS \
    BIND_ATTENTION_ROWS, BIND_ROW("ffn_norm.weight", ffn_norm, BIND_VECTOR, D_EMBD), BIND_ROUTER_ROW
/* Optional factors of q, k and v; and with biases too. */
#define BIND_QKV_SCALE_ROWS                                                                     \
    BIND_ROW("attn_q.scale", q_scale, BIND_ATTENTION | BIND_VECTOR | BIND_OPTIONAL, D_ONE),     \
        BIND_ROW("attn_k.scale", k_scale, BIND_ATTENTION | BIND_VECTOR | BIND_OPTIONAL, D_ONE), \
        BIND_ROW("attn_v.scale", v_scale, BIND_ATTENTION | BIND_VECTOR | BIND_OPTIONAL, D_ONE)
#define BIND_QKV_EXTRA_ROWS                                                                 \
    BIND_ROW("attn_q.bias", q_bias, BIND_ATTENTION | BIND_VECTOR | BIND_OPTIONAL, D_Q),     \
        BIND_ROW("attn_k.bias", k_bias, BIND_ATTENTION | BIND_VECTOR | BIND_OPTIONAL, D_K), \
        BIND_ROW("attn_v.bias", v_bias, BIND_ATTENTION | BIND_VECTOR | BIND_OPTIONAL, D_V), BIND_QKV_SCALE_ROWS
#define BIND_O_BIAS_ROW BIND_ROW("attn_output.bias", o_bias, BIND_ATTENTION | BIND_VECTOR | BIND_OPTIONAL, D_EMBD)
#define BIND_HEAD_NORM_ROWS(flags)                                                          \
    BIND_ROW("attn_q_norm.weight", q_norm, BIND_ATTENTION | BIND_VECTOR | (flags), D_HEAD), \
        BIND_ROW("attn_k_norm.weight", k_norm, BIND_ATTENTION | BIND_VECTOR | (flags), D_HEAD)
#define BIND_ROW_NORM_ROWS                                                     \
    BIND_ROW("attn_q_norm.weight", q_norm, BIND_ATTENTION | BIND_VECTOR, D_Q), \
        BIND_ROW("attn_k_norm.weight", k_norm, BIND_ATTENTION | BIND_VECTOR, D_K)
#define BIND_DENSE_ROWS                                          \
    BIND_ROW("ffn_gate.weight", gate, BIND_DENSE, D_EMBD, D_FF), \
        BIND_ROW("ffn_up.weight", up, BIND_DENSE, D_EMBD, D_FF), \
        BIND_ROW("ffn_down.weight", down, BIND_DENSE, D_FF, D_EMBD)
/* Optional biases and factors of dense layers. */
#define BIND_DENSE_EXTRA_ROWS                                                                    \
    BIND_ROW("ffn_gate.bias", gate_bias, BIND_DENSE | BIND_VECTOR | BIND_OPTIONAL, D_FF),        \
        BIND_ROW("ffn_up.bias", up_bias, BIND_DENSE | BIND_VECTOR | BIND_OPTIONAL, D_FF),        \
        BIND_ROW("ffn_down.bias", down_bias, BIND_DENSE | BIND_VECTOR | BIND_OPTIONAL, D_EMBD),  \
        BIND_ROW("ffn_gate.scale", gate_scale, BIND_DENSE | BIND_VECTOR | BIND_OPTIONAL, D_ONE), \
        BIND_ROW("ffn_up.scale", up_scale, BIND_DENSE | BIND_VECTOR | BIND_OPTIONAL, D_ONE),     \
        BIND_ROW("ffn_down.scale", down_scale, BIND_DENSE | BIND_VECTOR | BIND_OPTIONAL, D_ONE)
/* Factors alone. */
#define BIND_DENSE_SCALE_ROWS                                                                \
    BIND_ROW("ffn_gate.scale", gate_scale, BIND_DENSE | BIND_VECTOR | BIND_OPTIONAL, D_ONE), \
        BIND_ROW("ffn_up.scale", up_scale, BIND_DENSE | BIND_VECTOR | BIND_OPTIONAL, D_ONE), \
        BIND_ROW("ffn_down.scale", down_scale, BIND_DENSE | BIND_VECTOR | BIND_OPTIONAL, D_ONE)
#define BIND_PROBS_BIAS_ROW(flags) BIND_ROW("exp_probs_b.bias", probs_bias, BIND_MOE | BIND_VECTOR | (flags), D_EXPERT)
#define BIND_SHARED_ROWS                                                            \
    BIND_ROW("ffn_gate_shexp.weight", shexp_gate, BIND_SHARED, D_EMBD, D_FF_SHEXP), \
        BIND_ROW("ffn_up_shexp.weight", shexp_up, BIND_SHARED, D_EMBD, D_FF_SHEXP), \
        BIND_ROW("ffn_down_shexp.weight", shexp_down, BIND_SHARED, D_FF_SHEXP, D_EMBD)
/* Their optional factors, likewise. */
#define BIND_SHARED_SCALE_ROWS                                                                            \
    BIND_ROW("ffn_gate_shexp.scale", shexp_gate_scale, BIND_SHARED | BIND_VECTOR | BIND_OPTIONAL, D_ONE), \
        BIND_ROW("ffn_up_shexp.scale", shexp_up_scale, BIND_SHARED | BIND_VECTOR | BIND_OPTIONAL, D_ONE), \
        BIND_ROW("ffn_down_shexp.scale", shexp_down_scale, BIND_SHARED | BIND_VECTOR | BIND_OPTIONAL, D_ONE)
/* The per-expert factors; architectures that do not name them ignore them, as their reference does. */
#define BIND_EXPERT_SCALE_ROWS                                                                                 \
    BIND_ROW("ffn_gate_exps.scale", exps_scale[MODEL_GATE], BIND_VECTOR | BIND_OPTIONAL | BIND_MOE, D_EXPERT), \
        BIND_ROW("ffn_up_exps.scale", exps_scale[MODEL_UP], BIND_VECTOR | BIND_OPTIONAL | BIND_MOE, D_EXPERT), \
        BIND_ROW("ffn_down_exps.scale", exps_scale[MODEL_DOWN], BIND_VECTOR | BIND_OPTIONAL | BIND_MOE, D_EXPERT)

extern const struct model_arch arch_bailingmoe2, arch_deepseek2, arch_deepseek32, arch_deepseek4, arch_ernie4_5_moe,
    arch_gemma4, arch_glm4moe, arch_glm_dsa, arch_gpt_oss, arch_granitemoe, arch_hunyuan_moe, arch_kimi_linear,
    arch_lfm2moe, arch_llama, arch_llama4, arch_minimax_m2, arch_olmoe, arch_phimoe, arch_qwen2moe, arch_qwen35moe,
    arch_qwen3moe, arch_qwen3next;

#endif
