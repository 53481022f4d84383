/* LFM2-8B-A1B (LFM2 Technical Report, 2025): most layers are gated short convolutions, the others attention with normed
 * queries and keys; the first layers are dense; a sigmoid router whose choice a bias corrects, weights renormalised. */
#include "model/arch.h"
#include "model/attention.h"
#include "model/ffn.h"
#include "model/moe.h"
#include "model/shortconv.h"

static const struct bind_row model_rows[] = {
    BIND_MODEL_ROW("token_embd_norm.weight", output_norm, BIND_VECTOR, D_EMBD),
    {0},
};

static const struct bind_row rows[] = {
    BIND_COMMON_ROWS,
    BIND_QKV_EXTRA_ROWS,
    BIND_HEAD_NORM_ROWS(0),
    BIND_ROW("shortconv.conv.weight", conv, BIND_RECURRENT | BIND_VECTOR, D_CONV, D_EMBD),
    BIND_ROW("shortconv.in_proj.weight", conv_in, BIND_RECURRENT, D_EMBD, D_3EMBD),
    BIND_ROW("shortconv.out_proj.weight", conv_out, BIND_RECURRENT, D_EMBD, D_EMBD),
    BIND_PROBS_BIAS_ROW(0),
    BIND_DENSE_ROWS,
    {0},
};

static enum sluice_status finish(struct model_keys *k, struct model_hparams *hp)
{
    uint32_t n_lead = 0;
    hp->attention = (struct attention_kind){.qk_norm = QK_NORM_HEAD, .neox = true};
    keys_u32(k, "shortconv.l_cache", true, 1, 64, &hp->n_conv);
    keys_u32(k, "leading_dense_block_count", false, 0, hp->n_layer, &n_lead);
    keys_known(k, (const char *const[]){"attention.recurrent_layers"}, 1);
    if (k->status) return k->status;
    model_hparams_router(k, hp, ROUTER_SIGMOID);
    hp->moe.router.normalise = true;
    model_hparams_no_shared(hp);
    model_hparams_dense(hp, n_lead, 1);
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        struct model_layer_hparams *l = &hp->layer[i];
        if (l->n_head_kv) continue;
        l->no_kv = true;
        l->rope = MODEL_NO_ROPE;
        l->state_floats = shortconv_state_floats(hp);
        hp->extra_floats = 3 * hp->n_embd;
    }
    return k->status;
}

static enum sluice_status layer(struct model_run *r, const struct model_step *s, uint32_t l, struct sluice_error *err)
{
    if (!r->model->hp.layer[l].no_kv) return model_layer_plain(r, s, l, err);
    shortconv_block(r, s, l);
    return model_feed_forward(r, s, l, err);
}

const struct model_arch arch_lfm2moe = {.name = "lfm2moe",
                                        .rows = rows,
                                        .model_rows = model_rows,
                                        .own_output_norm = true,
                                        .finish = finish,
                                        .layer = layer};
