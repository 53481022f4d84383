/* Hyper-parameters of a model, read from GGUF metadata (keys "ARCH.*") and checked. Names follow the keys. What may
 * differ from layer to layer stands in struct model_layer_hparams; architectures adjust it in their finish function. */
#ifndef MODEL_HPARAMS_H
#define MODEL_HPARAMS_H

#include "base/error.h"
#include "kernel/kernel.h"
#include "model/keys.h"

#include <stdbool.h>
#include <stdint.h>

#define MODEL_LAYERS_MAX 512
#define MODEL_EMBD_MAX 65536
#define MODEL_HEADS_MAX 1024
#define MODEL_HEAD_DIM_MAX 576
#define MODEL_FF_MAX (UINT32_MAX / 4)
#define MODEL_EXPERTS_MAX 1024
#define MODEL_TOPK_MAX 64
#define MODEL_CTX_MAX (1u << 24)
#define MODEL_ROPES 2
#define MODEL_NO_ROPE 255u

/* One set of rotation angles. angle_i = position * frequency_i; frequencies by model_rope_frequencies (rope.h). */
struct model_rope {
    uint32_t n_rot; /* rotated dimensions of a head */
    float base;     /* frequency_i = scale * base^(-2i / n_rot), divided by the factors where there are any */
    float scale;
    bool factors; /* rope_freqs, rope_factors_long and rope_factors_short apply */
    bool yarn;    /* frequencies are mixed by a ramp between beta_fast and beta_slow */
    float beta_fast, beta_slow;
    float ext_factor;
    uint32_t n_ctx_orig; /* what the model was trained for before the scaling */
    float magnitude;     /* cos and sin are multiplied with it */
};

enum router_gate {
    ROUTER_SOFTMAX,          /* over all experts */
    ROUTER_SIGMOID,          /* each for itself */
    ROUTER_SOFTMAX_SELECTED, /* over the chosen ones; chosen by logit */
    ROUTER_SQRT_SOFTPLUS,
};

struct router_kind {
    enum router_gate gate;
    bool by_logit;                    /* chosen by logit, whatever the gate makes of it */
    bool normalise;                   /* divide the chosen weights by their sum (clamped to at least 2^-14) */
    float scale;                      /* then multiply; 1: none */
    uint32_t n_groups, n_groups_used; /* over 1: only the best groups compete; a group counts its best two */
};

/* How a routed layer differs from the plain one. */
struct moe_kind {
    struct router_kind router;
    enum kernel_act act;
    float limit, shexp_limit; /* of the clamped activations */
    bool weights_first;       /* weights go on the experts' input, not their output */
};

enum attention_qk_norm {
    QK_NORM_NONE,
    QK_NORM_HEAD,  /* RMS of each head, if the file has the weights attn_q_norm and attn_k_norm */
    QK_NORM_ROW,   /* likewise of the whole row */
    QK_NORM_PLAIN, /* of each head, without weights */
};

struct attention_kind {
    enum attention_qk_norm qk_norm;
    bool norm_after_rope;
    bool norm_roped_only; /* only in layers that rotate */
    bool v_norm;          /* RMS of each value head, without weights */
    bool neox;            /* RoPE pairs (i, i + n_rot/2); else adjacent pairs */
    bool gated;    /* the q product gives [q | gate] for each head; the output is multiplied with sigmoid(gate) */
    float scale;   /* of scores; 0: 1 / sqrt(d_head_k) */
    float softcap; /* 0: none */
    /* Queries of layers without RoPE grow with the position: times 1 + t_scale * ln(floor((pos + 1) / t_floor) + 1). 0:
     * not. */
    float t_scale, t_floor;
};

/* Layers with a gated delta rule (deltanet.h). */
struct delta_kind {
    uint32_t n_head_k, n_head_v, d_head; /* keys and values are equally long */
    bool tiled;                          /* value head h has key head h % n_head_k; else h / (n_head_v / n_head_k) */
    bool by_channel;                     /* a decay for each channel of a key; else one for the head */
    bool sigmoid;                        /* of the output's gate; else SiLU */
};

/* Multi-head latent attention: keys and values of all heads come from one latent row a position. */
struct mla_kind {
    uint32_t q_lora; /* rank of the queries' own latent row; 0: none */
    uint32_t kv_lora;
    uint32_t d_k, d_v; /* of a head once expanded; the last ropes[0].n_rot of d_k rotate, and that part of a key is
                          shared by all heads */
    bool absorbed;     /* the cache keeps latent rows, heads are expanded on the queries' side */
};

/* Sparse attention (indexer.h): small heads choose the positions that the large ones look at. */
struct indexer_kind {
    uint32_t n_head, d_head; /* n_head 0: none */
    uint32_t top_k;
    float norm_eps; /* of the keys' layer norm */
    bool neox;      /* RoPE pairs; the first ropes[0].n_rot elements rotate */
};

/* Hyper-connections (hyper.h): the residual stream is n streams, mixed before and after each block. */
struct hyper_kind {
    uint32_t n; /* 0: one stream, as usual */
    uint32_t sinkhorn;
    float eps;
};

struct model_layer_hparams {
    uint32_t n_head, n_head_kv, d_head_k, d_head_v;
    uint32_t window;     /* 0: all positions are seen */
    bool window_chunks;  /* chunks instead of a sliding window */
    uint8_t rope;        /* index of ropes, or MODEL_NO_ROPE */
    uint32_t kv_k, kv_v; /* elements of a position in the KV cache; as the heads say unless the architecture set them */
    uint32_t kv_block;   /* a cache type's blocks must divide it; likewise */
    bool indexes;        /* has an indexer; sparse layers without take the choice of the last layer that has one */
    uint32_t compress;   /* so many positions become one row beside the window; 0: none */
    bool by_table;       /* the router is a table of token ids */
    bool no_kv;          /* nothing is cached by position (recurrent layers) */
    uint32_t state_floats;                      /* recurrent state */
    uint32_t n_ff;                              /* dense feed-forward */
    bool bare;                                  /* a dense layer without matrices */
    uint32_t n_expert, n_expert_used, n_ff_exp; /* n_expert 0: a dense layer */
    uint32_t n_ff_shexp;                        /* all shared experts together; 0: none */
};

struct model_hparams {
    char arch[32];
    uint32_t n_layer, n_embd, n_vocab, n_ctx_train;
    uint32_t n_layer_mtp;     /* blocks after the layers that predict further tokens; not used */
    uint32_t n_expert_shared; /* as the file says; sizes are in the layers */
    struct model_layer_hparams layer[MODEL_LAYERS_MAX];
    struct model_rope ropes[MODEL_ROPES];
    uint32_t n_ropes;
    struct attention_kind attention;
    struct mla_kind mla;
    struct indexer_kind indexer;
    struct hyper_kind hyper;
    uint32_t o_groups, o_lora; /* an output product in groups of heads, of low rank */
    struct moe_kind moe;
    enum kernel_act dense_act;
    float norm_eps;
    float embedding_scale, logit_scale; /* multiplied; 1: none */
    float logit_softcap;                /* 0: none */
    float residual_scale;               /* of each block's output; 1: none */
    /* of an architecture's own pieces */
    uint32_t extra_floats; /* scratch.extra, floats a token */
    uint32_t n_conv;       /* taps of short convolutions */
    struct delta_kind delta;
    /* the largest of all layers, by model_hparams_settle */
    uint32_t n_head, n_head_kv, n_rot;
    uint32_t n_ff, n_ff_exp, n_ff_shexp;
    uint32_t n_expert, n_expert_used;                   /* n_expert 0: a dense model */
    uint32_t q_floats, k_floats, v_floats, attn_floats; /* rows of a token */
    uint32_t acts_floats;  /* longest row, beside n_embd, that a product takes; an architecture may raise it */
    uint64_t state_floats; /* of all layers together */
    uint32_t window;
};

/* Reads what every supported architecture has. Refuses values out of range by key, value and limit, and rope scaling
 * types that are not supported. */
enum sluice_status model_hparams_read(struct model_keys *k, struct model_hparams *hp);
/* After the architecture's changes: checks the layers, fills in what follows from them. */
enum sluice_status model_hparams_settle(struct model_keys *k, struct model_hparams *hp);

/* For finish functions: layers below n_lead, and those where (layer + 1) % step != 0, are dense. */
void model_hparams_dense(struct model_hparams *hp, uint32_t n_lead, uint32_t step);
/* How the router's gate is called in the metadata: expert_gating_func (absent or 0: `gate`), expert_weights_norm and
 * the groups. */
void model_hparams_router(struct model_keys *k, struct model_hparams *hp, enum router_gate gate);
/* Sliding windows: attention.sliding_window, its pattern (a period, of which the last layer sees everything, or a list)
 * and the rotation of windowed layers, which is ropes[1] if it has a base of its own. */
struct model_window_defaults {
    bool required; /* the key must be there */
    uint32_t period;
};
void model_hparams_windows(struct model_keys *k, struct model_hparams *hp, const struct model_window_defaults *d);
/* `count` shared experts, each as large as a routed one. */
void model_hparams_shared(struct model_hparams *hp, uint32_t count);
/* The architecture has no shared experts, whatever sizes the metadata gives. */
void model_hparams_no_shared(struct model_hparams *hp);
/* Experts are as large as feed_forward_length says. */
void model_hparams_experts_as_dense(struct model_hparams *hp);
/* Experts of n_ff_exp and shared ones of n_ff_shexp in all routed layers, where the metadata left 0. */
void model_hparams_experts(struct model_hparams *hp, uint32_t n_ff_exp, uint32_t n_ff_shexp);

#endif
