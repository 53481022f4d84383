/* One row an architecture: which tensors it has and how a layer is computed. */
#ifndef MODEL_ARCH_H
#define MODEL_ARCH_H

#include "model/forward.h"
#include "model/model.h"

#include <stddef.h>

/* Sizes that a tensor's shape is written in. */
enum bind_dim {
    D_NONE,
    D_ONE,
    D_EMBD,
    D_Q,
    D_K,
    D_V,
    D_ATTN,
    D_HEAD,
    D_FF,
    D_FF_EXP,
    D_FF_SHEXP,
    D_EXPERT,
    D_VOCAB,
    D_ROT2
};

enum bind_flags {
    BIND_OPTIONAL = 1,
    BIND_VECTOR = 2, /* wanted as F32; 16-bit floats are converted */
    BIND_MOE = 4,    /* only in layers with routed experts */
    BIND_DENSE = 8,  /* only in layers without */
};

struct bind_row {
    const char *suffix; /* of "blk.N." */
    uint16_t at;        /* offset in struct model_layer */
    uint8_t dims[3];    /* enum bind_dim */
    uint8_t flags;
};

struct model_arch {
    const char *name;            /* general.architecture */
    const struct bind_row *rows; /* ends with a NULL suffix */
    bool moe_optional;           /* may have no experts */
    /* Fills in sizes that the metadata leaves to the architecture and checks further conditions. May be NULL. */
    enum sluice_status (*finish)(struct model_hparams *hp, struct sluice_error *err);
    enum sluice_status (*layer)(struct model_run *r, const struct model_step *s, uint32_t layer,
                                struct sluice_error *err);
};

/* NULL if unknown; model_arch_list gives the names for messages ("qwen3moe, olmoe, ..."). */
const struct model_arch *model_arch_find(const char *name, size_t bytes);
const char *model_arch_list(void);

/* Rows that several architectures share, for use inside a table. */
#define BIND_AT(field) (uint16_t) offsetof(struct model_layer, field)
#define BIND_COMMON_ROWS                                                                                              \
    {"attn_norm.weight", BIND_AT(attn_norm), {D_EMBD}, BIND_VECTOR}, {"attn_q.weight", BIND_AT(q), {D_EMBD, D_Q}, 0}, \
        {"attn_k.weight", BIND_AT(k), {D_EMBD, D_K}, 0}, {"attn_v.weight", BIND_AT(v), {D_EMBD, D_V}, 0},             \
        {"attn_output.weight", BIND_AT(o), {D_ATTN, D_EMBD}, 0},                                                      \
        {"attn_output.scale", BIND_AT(o_scale), {D_ONE}, BIND_VECTOR | BIND_OPTIONAL},                                \
        {"ffn_norm.weight", BIND_AT(ffn_norm), {D_EMBD}, BIND_VECTOR},                                                \
    {                                                                                                                 \
        "ffn_gate_inp.weight", BIND_AT(router), {D_EMBD, D_EXPERT}, BIND_MOE                                          \
    }
/* Optional biases and factors of q, k and v. */
#define BIND_QKV_EXTRA_ROWS                                                       \
    {"attn_q.bias", BIND_AT(q_bias), {D_Q}, BIND_VECTOR | BIND_OPTIONAL},         \
        {"attn_k.bias", BIND_AT(k_bias), {D_K}, BIND_VECTOR | BIND_OPTIONAL},     \
        {"attn_v.bias", BIND_AT(v_bias), {D_V}, BIND_VECTOR | BIND_OPTIONAL},     \
        {"attn_q.scale", BIND_AT(q_scale), {D_ONE}, BIND_VECTOR | BIND_OPTIONAL}, \
        {"attn_k.scale", BIND_AT(k_scale), {D_ONE}, BIND_VECTOR | BIND_OPTIONAL}, \
    {                                                                             \
        "attn_v.scale", BIND_AT(v_scale), {D_ONE}, BIND_VECTOR | BIND_OPTIONAL    \
    }
/* The per-expert factors; architectures that do not name them ignore them, as their reference does. */
#define BIND_EXPERT_SCALE_ROWS                                                                                     \
    {"ffn_gate_exps.scale", BIND_AT(exps_scale[MODEL_GATE]), {D_EXPERT}, BIND_VECTOR | BIND_OPTIONAL | BIND_MOE},  \
        {"ffn_up_exps.scale", BIND_AT(exps_scale[MODEL_UP]), {D_EXPERT}, BIND_VECTOR | BIND_OPTIONAL | BIND_MOE},  \
    {                                                                                                              \
        "ffn_down_exps.scale", BIND_AT(exps_scale[MODEL_DOWN]), {D_EXPERT}, BIND_VECTOR | BIND_OPTIONAL | BIND_MOE \
    }

extern const struct model_arch arch_qwen3moe, arch_olmoe, arch_qwen2moe, arch_llama;

#endif
