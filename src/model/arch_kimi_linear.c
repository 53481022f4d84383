/* Kimi-Linear (2025): three of four layers are Kimi Delta Attention, a delta rule whose content fades at a rate of its
 * own in each channel; the others are latent attention without rotation. The first layers are dense; a sigmoid router
 * whose choice a bias corrects, weights renormalised; shared experts as one. */
#include "model/deltanet.h"
#include "model/mla.h"

static const struct bind_row rows[] = {
    BIND_MLA_ROWS,
    BIND_ROW("attn_q.weight", q, BIND_RECURRENT, D_EMBD, D_DELTA_KEY),
    BIND_ROW("attn_k.weight", k, BIND_RECURRENT, D_EMBD, D_DELTA_KEY),
    BIND_ROW("attn_v.weight", v, BIND_RECURRENT, D_EMBD, D_DELTA_VALUE),
    BIND_ROW("attn_output.weight", o, BIND_RECURRENT, D_DELTA_VALUE, D_EMBD),
    BIND_ROW("ssm_conv1d_q.weight", delta_conv_q, BIND_RECURRENT | BIND_VECTOR, D_CONV, D_ONE, D_DELTA_KEY),
    BIND_ROW("ssm_conv1d_k.weight", delta_conv_k, BIND_RECURRENT | BIND_VECTOR, D_CONV, D_ONE, D_DELTA_KEY),
    BIND_ROW("ssm_conv1d_v.weight", delta_conv_v, BIND_RECURRENT | BIND_VECTOR, D_CONV, D_ONE, D_DELTA_VALUE),
    BIND_ROW("ssm_f_a.weight", delta_f_a, BIND_RECURRENT, D_EMBD, D_DELTA_HEAD),
    BIND_ROW("ssm_f_b.weight", delta_f_b, BIND_RECURRENT, D_DELTA_HEAD, D_DELTA_KEY),
    BIND_ROW("ssm_g_a.weight", delta_g_a, BIND_RECURRENT, D_EMBD, D_DELTA_HEAD),
    BIND_ROW("ssm_g_b.weight", delta_g_b, BIND_RECURRENT, D_DELTA_HEAD, D_DELTA_VALUE),
    BIND_ROW("ssm_beta.weight", delta_beta, BIND_RECURRENT, D_EMBD, D_DELTA_HEADS),
    BIND_ROW("ssm_a", delta_a, BIND_RECURRENT | BIND_VECTOR, D_ONE, D_DELTA_HEADS),
    BIND_ROW("ssm_dt.bias", delta_dt, BIND_RECURRENT | BIND_VECTOR, D_DELTA_KEY),
    BIND_ROW("ssm_norm.weight", delta_norm, BIND_RECURRENT | BIND_VECTOR, D_DELTA_HEAD),
    BIND_ROW("ffn_norm.weight", ffn_norm, BIND_VECTOR, D_EMBD),
    BIND_ROUTER_ROW,
    BIND_PROBS_BIAS_ROW(0),
    BIND_SHARED_ROWS,
    BIND_DENSE_ROWS,
    {0},
};

static enum sluice_status finish(struct model_keys *k, struct model_hparams *hp)
{
    struct delta_kind *d = &hp->delta;
    keys_u32(k, "ssm.conv_kernel", true, 1, DELTANET_TAPS_MAX, &hp->n_conv);
    keys_u32(k, "kda.head_dim", true, 2, DELTANET_HEAD_MAX, &d->d_head);
    keys_known(k, (const char *const[]){"attention.recurrent_layers"}, 1);
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        struct model_layer_hparams *l = &hp->layer[i];
        l->no_kv = !l->n_head_kv;
        l->rope = MODEL_NO_ROPE;
        if (l->n_head > d->n_head_v) d->n_head_k = d->n_head_v = l->n_head;
    }
    d->by_channel = d->sigmoid = true;
    mla_read(k, hp, true);
    model_hparams_router(k, hp, ROUTER_SIGMOID);
    hp->moe.router.normalise = true;
    if (!k->status) deltanet_settle(hp, 2 * d->d_head);
    return k->status;
}

/* Rows of latent attention are for the layers that have keys and values. */
static bool applies(const struct model_hparams *hp, uint32_t layer, const struct bind_row *row)
{
    bool latent = row->at == BIND_AT(o_scale);
    for (int i = 0; i < 3; i++) latent = latent || (row->dims[i] >= D_MLA_Q && row->dims[i] < D_MLA_LAST);
    if (latent && hp->layer[layer].no_kv) return false;
    return !latent || mla_applies(hp, layer, row);
}

static uint64_t dim(const struct model_hparams *hp, uint32_t layer, uint8_t d)
{
    return d < D_MLA_LAST ? mla_dim(hp, layer, d) : deltanet_dim(hp, layer, d);
}

static enum sluice_status layer(struct model_run *r, const struct model_step *s, uint32_t l, struct sluice_error *err)
{
    return r->model->hp.layer[l].no_kv ? deltanet_layer(r, s, l, err) : mla_layer(r, s, l, err);
}

const struct model_arch arch_kimi_linear = {
    .name = "kimi-linear", .rows = rows, .finish = finish, .applies = applies, .dim = dim, .layer = layer};
