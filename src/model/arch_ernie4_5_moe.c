/* ERNIE 4.5 (Technical Report, 2025): RoPE on adjacent pairs; the first layers are dense; a softmax router whose choice
 * a bias corrects, weights renormalised; shared experts as one.
 *
 * The metadata may ask for experts in every n-th layer only, while converters write them for all. What the reference
 * computes in a layer in between, whose dense matrices no file has, is x += silu(norm(x)); published models have n = 1.
 */
#include "model/arch.h"
#include "model/attention.h"
#include "model/norm.h"

static const struct bind_row rows[] = {
    BIND_COMMON_ROWS, BIND_QKV_EXTRA_ROWS, BIND_PROBS_BIAS_ROW(BIND_OPTIONAL), BIND_SHARED_ROWS, BIND_DENSE_ROWS, {0},
};

static enum sluice_status finish(struct model_keys *k, struct model_hparams *hp)
{
    uint32_t n_lead = 0, step = 1;
    keys_u32(k, "leading_dense_block_count", false, 0, hp->n_layer, &n_lead);
    keys_u32(k, "interleave_moe_layer_step", true, 1, hp->n_layer, &step);
    hp->moe.router.normalise = true;
    model_hparams_dense(hp, n_lead, step);
    for (uint32_t i = n_lead; i < hp->n_layer; i++) hp->layer[i].bare = !hp->layer[i].n_expert;
    return k->status;
}

static void bare_block(struct model_run *r, const struct model_step *s, uint32_t layer)
{
    const struct model_layer *l = &r->model->layers[layer];
    const struct kernel_table *t = r->kernel.table;
    const size_t n = r->model->hp.n_embd;
    struct model_scratch *sc = &r->scratch;
    model_norm(r, sc->x, &l->ffn_norm, &l->ffn_norm_bias, s->n_tokens, sc->h);
    for (size_t i = 0; i < n; i++) sc->y[i] = 1;
    for (size_t i = 0; i < s->n_tokens; i++) {
        t->silu_mul(sc->h + i * n, sc->y, n, sc->h + i * n);
        t->add(sc->x + i * n, sc->h + i * n, n);
    }
}

static enum sluice_status layer(struct model_run *r, const struct model_step *s, uint32_t l, struct sluice_error *err)
{
    if (!r->model->hp.layer[l].bare) return model_layer_plain(r, s, l, err);
    enum sluice_status st = attention_gqa(r, s, l, err);
    s = model_narrow(r, s, l);
    if (!st && s->n_tokens) bare_block(r, s, l);
    return st;
}

const struct model_arch arch_ernie4_5_moe = {.name = "ernie4_5-moe", .rows = rows, .finish = finish, .layer = layer};
