/* Llama 4 (2025): three layers of four attend within chunks of 8192 positions and turn queries and keys, which are
 * normed afterwards (but not in the model of 128 experts); every fourth sees everything, turns nothing, and its queries
 * grow with the position. Every n-th layer has experts, whose input is multiplied with the sigmoid of the router's
 * logit, and a shared expert. */
#include "model/arch.h"

#define CHUNK 8192
#define PERIOD 4

static const struct bind_row rows[] = {
    BIND_COMMON_ROWS, BIND_QKV_EXTRA_ROWS, BIND_SHARED_ROWS, BIND_DENSE_ROWS, {0},
};

static enum sluice_status finish(struct model_keys *k, struct model_hparams *hp)
{
    uint32_t step = 1, window = CHUNK, period = PERIOD;
    keys_u32(k, "interleave_moe_layer_step", true, 1, hp->n_layer, &step);
    keys_u32(k, "attention.sliding_window", false, 0, MODEL_CTX_MAX, &window);
    keys_u32(k, "attention.sliding_window_pattern", false, 0, MODEL_LAYERS_MAX, &period);
    keys_f32(k, "attention.scale", false, &hp->attention.scale);
    keys_known(k, (const char *const[]){"attention.temperature_scale"}, 1);
    if (hp->n_expert != 128) hp->attention.qk_norm = QK_NORM_PLAIN;
    hp->attention.norm_after_rope = hp->attention.norm_roped_only = true;
    for (uint32_t i = 0; i < hp->n_layer && window; i++) {
        struct model_layer_hparams *l = &hp->layer[i];
        if (!period || i % period < period - 1) {
            l->window = CHUNK;
            l->window_chunks = true;
        }
        if ((i + 1) % PERIOD == 0) l->rope = MODEL_NO_ROPE;
    }
    hp->attention.t_scale = 0.1f;
    hp->attention.t_floor = CHUNK;
    hp->moe.router.gate = ROUTER_SIGMOID;
    hp->moe.router.by_logit = true;
    hp->moe.weights_first = true;
    model_hparams_shared(hp, 1);
    model_hparams_dense(hp, 0, step);
    return k->status;
}

const struct model_arch arch_llama4 = {.name = "llama4", .rows = rows, .finish = finish, .layer = model_layer_plain};
