/* A qwen3moe-shaped language model with everything that training it needs: weights, gradients, activations.
 *
 *   x -> [norm, q k v, norm of each head of q and k, RoPE, causal attention, out] + x
 *     -> [norm, softmax over the K best of E experts, SwiGLU experts, weighted sum] + x       (n_layers times)
 *     -> norm -> logits by the embedding (tied)
 *
 * A file of weights: nine int32 (n_layers d_model n_head n_head_kv d_head n_expert n_used d_ff n_vocab), then float32
 * in the order in which weights_place() lays them out. */
#ifndef TRAIN_MODEL_H
#define TRAIN_MODEL_H

#include "random.h"
#include "shape.h"

#include <stdbool.h>
#include <stdint.h>

struct layer_weights {
    float *norm_attn;        /* [D] */
    float *q, *k, *v;        /* [H * HD][D], [KV * HD][D], [KV * HD][D] */
    float *norm_q, *norm_k;  /* [HD] */
    float *out;              /* [D][H * HD] */
    float *norm_ffn;         /* [D] */
    float *router;           /* [E][D] */
    float *gate, *up, *down; /* [E][FF][D], [E][FF][D], [E][D][FF] */
};

struct weights {
    float *all; /* [n]; the others point into it */
    size_t n;
    float *embedding; /* [V][D] */
    struct layer_weights layer[SHAPE_LAYERS_MAX];
    float *norm_final; /* [D] */
};

/* What the forward pass of one layer leaves behind for the backward pass. */
struct layer_acts {
    float *x;                         /* [N][D] input */
    float *attn_in, *attn_in_inverse; /* [N][D], [N] after norm_attn */
    float *q, *k, *v;                 /* [N][H][HD], [N][KV][HD], [N][KV][HD] */
    float *q_in, *k_in;               /* the same after norm and RoPE */
    float *q_inverse, *k_inverse;     /* [N][H], [N][KV] */
    float *attn_probs;                /* [n_batch][H][n_window][n_window] */
    float *heads;                     /* [N][H][HD] */
    float *x_mid;                     /* [N][D] after attention */
    float *ffn_in, *ffn_in_inverse;   /* [N][D], [N] after norm_ffn */
    float *router_probs, *mix;        /* [N][E] softmax over all; [N][K] softmax over the chosen */
    int *chosen;                      /* [N][K] expert ids */
    /* Tokens sorted by expert: slot s, of N * K, holds one (token, expert) pair. */
    int *slot, *slot_token;    /* [N][K] slot of a choice; [N * K] token of a slot */
    int *n_slots, *first_slot; /* [E], [E + 1] */
    float *expert_in;          /* [N * K][D] */
    float *gate, *up, *hidden; /* [N * K][FF] */
    float *expert_out;         /* [N * K][D] */
};

/* Gradients of activations; each is used for one layer at a time. */
struct flow {
    float *x, *normed;                      /* [N][D] */
    float *q, *k, *v, *q_in, *k_in, *heads; /* as in layer_acts */
    float *expert_in, *gate, *up, *hidden, *expert_out;
    float *mix, *router; /* [N][K], [N][E] */
};

struct model {
    struct shape shape;
    struct weights w, g; /* weights and their gradients */
    uint8_t *decays;     /* [n] 1: weight decay applies (matrices, not norms) */
    struct layer_acts layer[SHAPE_LAYERS_MAX];
    float *x_final, *final_in, *final_inverse; /* [N][D], [N][D], [N] */
    float *logits;                             /* [N][V]; after model_forward: their gradient */
    float *cos, *sin;                          /* [n_window][HD / 2] */
    struct flow flow;
};

/* NULL and a message if the shape is beyond the limits of shape.h. */
struct model *model_create(const struct shape *shape);
void model_destroy(struct model *m);
void model_init(struct model *m, struct random *random);
/* Mean cross entropy of the N next tokens; leaves its gradient in m->logits. */
float model_forward(struct model *m, const int *tokens, const int *next);
/* Gradients of all weights, set anew. balance: weight of the load-balancing loss of each layer. */
void model_backward(struct model *m, const int *tokens, float balance);
bool model_save(const struct model *m, const char *path);
bool model_load(struct model *m, const char *path); /* false: not there, or of another shape */

#endif
