/* A bound model: hyper-parameters, the dense tensors and the layers of routed experts. Built by model_bind from a GGUF;
 * immutable once its dense weights are loaded. */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "expert/catalog.h"
#include "gguf/gguf.h"
#include "model/hparams.h"
#include "model/tensor.h"

struct model_arch; /* model/arch.h */

/* Parts of a routed expert, in the order in which they are needed. */
enum model_expert_part { MODEL_GATE, MODEL_UP, MODEL_DOWN, MODEL_EXPERT_PARTS };

struct model_layer {
    /* attention */
    struct model_tensor attn_norm, q, k, v, o;
    struct model_tensor q_bias, k_bias, v_bias, o_bias;     /* optional */
    struct model_tensor q_scale, k_scale, v_scale, o_scale; /* optional factors [1], applied before the bias */
    struct model_tensor q_norm, k_norm;
    /* feed-forward: dense layers */
    struct model_tensor ffn_norm, gate, up, down;
    struct model_tensor gate_bias, up_bias, down_bias;
    struct model_tensor gate_scale, up_scale, down_scale; /* optional factors [1], applied after the bias */
    /* feed-forward: routed experts */
    struct model_tensor router;                         /* [n_embd][n_expert] */
    struct model_tensor exps_scale[MODEL_EXPERT_PARTS]; /* optional factors [n_expert] */
    const struct quant_type *exps_type[MODEL_EXPERT_PARTS];
    struct model_tensor shexp_gate, shexp_up, shexp_down, shexp_gate_inp; /* shared expert, optional */
    bool is_moe;
};

struct model {
    const struct model_arch *arch;
    struct model_hparams hp;
    struct model_tensor token_embd, output_norm, output, output_scale, rope_freqs;
    bool output_tied;             /* output is token_embd */
    struct model_layer *layers;   /* [n_layer] */
    struct expert_layer *experts; /* [n_layer], for expert_catalog_create */
    struct expert_extent *each;   /* storage of experts[].each for one-tensor-an-expert files, or NULL */
    struct model_tensor **dense;  /* every tensor to load, in file order */
    size_t n_dense;
    uint64_t dense_bytes;     /* their bytes in the file */
    uint64_t converted_bytes; /* F32 copies of vectors that the file stores in 16 bits */
    size_t n_ignored;         /* tensors of the file that the architecture does not use */
};

/* Binds every tensor that the architecture needs, naming each that is missing, misshapen or of a type that Sluice
 * cannot compute with (the first is the error's subject, the count of further ones follows). g must outlive the model.
 */
enum sluice_status model_bind(const struct gguf *g, struct model **out, struct sluice_error *err);
void model_free(struct model *m);

#endif
