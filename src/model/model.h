/* A bound model: hyper-parameters, the dense tensors and the layers of routed experts. Built by model_bind from a GGUF;
 * immutable once its dense weights are loaded. */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "expert/catalog.h"
#include "gguf/gguf.h"
#include "model/hparams.h"
#include "model/tensor.h"

struct model_arch; /* model/arch.h */

/* Matrices of a routed expert. In the file they may be parts of their own, or gate and up one part. */
enum model_expert_matrix { MODEL_GATE, MODEL_UP, MODEL_DOWN, MODEL_EXPERT_MATRICES };

struct model_expert_place {
    const struct quant_type *type;
    uint8_t part;      /* of the expert's view */
    uint64_t at_bytes; /* in that part */
};

struct model_layer {
    /* attention */
    struct model_tensor attn_norm, attn_norm_bias, q, k, v, o;
    struct model_tensor qkv; /* in place of q, k and v: their rows one after the other */
    struct model_tensor q_bias, k_bias, v_bias, o_bias, qkv_bias;      /* optional */
    struct model_tensor q_scale, k_scale, v_scale, o_scale, qkv_scale; /* optional factors [1], before the bias */
    struct model_tensor q_norm, k_norm;
    struct model_tensor sinks; /* [n_head] */
    /* latent attention: q_a and q_b in place of q; kv_b, or k_b and v_b a head */
    struct model_tensor q_a, q_a_norm, q_b, kv_a, kv_a_norm, kv_b, k_b, v_b;
    /* indexer of sparse attention (indexer.h) */
    struct model_tensor index_q, index_k, index_k_norm, index_k_norm_bias, index_weights;
    /* compressed attention (attention_compressed.h): one row of keys that are values too, an output in two steps */
    struct model_tensor kv, o_a, o_b;
    struct model_tensor comp_kv, comp_gate, comp_pos, comp_norm;
    struct model_tensor index_comp_kv, index_comp_gate, index_comp_pos, index_comp_norm;
    /* hyper-connections (hyper.h), of the attention block and of the feed-forward block */
    struct model_tensor hyper_fn[2], hyper_base[2], hyper_scale[2];
    struct model_tensor table;          /* [n_used][n_vocab] of int32: the experts of a token */
    struct model_tensor attn_post_norm; /* of the block's output, before it is added */
    /* short convolution in place of attention */
    struct model_tensor conv, conv_in, conv_out;
    /* gated delta rule in place of attention (deltanet.h); it has q, k, v or qkv, conv and o too */
    struct model_tensor delta_in;                /* in place of qkv and z: q, k, v, z a key head */
    struct model_tensor delta_z;                 /* gate of the output */
    struct model_tensor delta_beta, delta_alpha; /* rate and decay of each head */
    struct model_tensor delta_ba;                /* in place of both: their rows a key head */
    struct model_tensor delta_f_a, delta_f_b;    /* decay of each channel, of low rank, in place of alpha */
    struct model_tensor delta_g_a, delta_g_b;    /* gate of the output, of low rank, in place of z */
    struct model_tensor delta_a, delta_dt;       /* of the decay: factor of each head, bias */
    struct model_tensor delta_norm;              /* of each head of the output */
    struct model_tensor delta_conv_q, delta_conv_k, delta_conv_v;           /* in place of conv */
    struct model_tensor delta_z_scale, delta_beta_scale, delta_alpha_scale; /* optional factors [1] */
    /* feed-forward: dense layers */
    struct model_tensor ffn_norm, ffn_norm_bias, gate, up, down;
    struct model_tensor gate_bias, up_bias, down_bias;
    struct model_tensor gate_scale, up_scale, down_scale; /* optional factors [1], applied after the bias */
    struct model_tensor ffn_post_norm;                    /* of the block's output, before it is added */
    /* feed-forward: routed experts */
    struct model_tensor router, router_bias; /* [n_embd][n_expert]; the bias joins the logits */
    struct model_tensor router_input_scale;  /* [n_embd] the router has its own input: RMS(x) * this / sqrt(n_embd) */
    struct model_tensor probs_bias;          /* [n_expert] for the choice alone */
    struct model_tensor moe_norm, moe_post_norm; /* of the experts alone, where a dense block runs beside them */
    struct model_tensor dense_post_norm;         /* of that dense block */
    struct model_tensor exps_scale[MODEL_EXPERT_MATRICES]; /* optional factors [n_expert] */
    struct model_tensor exps_bias[MODEL_EXPERT_MATRICES];  /* optional [n_expert][n_out] */
    struct model_expert_place exps[MODEL_EXPERT_MATRICES];
    struct model_tensor shexp_gate, shexp_up, shexp_down, shexp_gate_inp;   /* shared experts, optional */
    struct model_tensor shexp_gate_scale, shexp_up_scale, shexp_down_scale; /* optional factors [1] */
    struct model_tensor out_scale; /* [1] the residual stream is multiplied with it after the layer */
    bool is_moe;
};

/* What a file has and the architecture does not use. */
struct model_ignored {
    size_t n_tensors, n_keys;
    char tensors[200], keys[200]; /* the first few names */
    bool more_tensors, more_keys; /* than are named */
};

struct model {
    const char *path; /* of the file, of its first shard */
    const struct model_arch *arch;
    struct model_hparams hp;
    struct model_tensor token_embd, output_norm, output_norm_bias, output, output_bias, output_scale;
    struct model_tensor hyper_fn, hyper_base, hyper_scale; /* the end of hyper-connections */
    struct model_tensor rope_freqs, rope_long, rope_short; /* [n_rot / 2] optional divisors of the angles */
    bool output_tied;                                      /* output is token_embd */
    struct model_layer *layers;                            /* [n_layer] */
    struct expert_layer *experts;                          /* [n_layer], for expert_catalog_create */
    struct expert_extent *each;  /* storage of experts[].each for one-tensor-an-expert files, or NULL */
    struct model_tensor **dense; /* every tensor to load, in file order */
    size_t n_dense;
    uint64_t dense_bytes;     /* their bytes in the file */
    uint64_t converted_bytes; /* F32 copies of vectors that the file stores in 16 bits */
    size_t n_mtp;             /* tensors of the blocks for multi-token prediction, which are not used */
    struct model_ignored ignored;
};

/* Binds every tensor that the architecture needs, naming each that is missing, misshapen or of a type that Sluice
 * cannot compute with (the first is the error's subject, the count of further ones follows). g must outlive the model.
 */
enum sluice_status model_bind(const struct gguf *g, struct model **out, struct sluice_error *err);

/* What keeps a file from being bound, all of it: for a look at a file that model_bind refuses. */
enum model_fault {
    MODEL_FAULT_ARCH, /* not known */
    MODEL_FAULT_KEYS, /* metadata that is missing or out of range; after one of them tensors are not looked at */
    MODEL_FAULT_MISSING,
    MODEL_FAULT_SHAPE,
    MODEL_FAULT_TYPE, /* of a tensor: nothing computes with it */
    MODEL_FAULT_OTHER,
};
/* text: a clause ("tensor 'x' is missing"); name: of the tensor, or NULL. */
typedef void model_fault_fn(void *user, enum model_fault kind, const char *name, const char *text, const char *hint);
/* Nothing is told of a file that model_bind takes. SLUICE_ERR_MEMORY alone. */
enum sluice_status model_examine(const struct gguf *g, model_fault_fn *fault, void *user, struct sluice_error *err);
void model_free(struct model *m);

#endif
