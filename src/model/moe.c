/* The routed block in the order of a token's walk: norm, router, want, shared expert while reads are under way, then
 * each expert as it becomes ready, then the sum in a fixed order. Which expert comes first depends on the disk; the sum
 * does not (E5). */
#include "model/moe.h"

#include "model/ffn.h"
#include "model/foresight.h"

#include <string.h>

struct moe_job {
    struct model_run *r;
    const struct model_step *s;
    const struct model_layer *l;
    const struct router_kind *kind;
    bool shared;
};

static void route(void *arg, unsigned worker, unsigned n_workers)
{
    struct moe_job *job = arg;
    struct model_scratch *sc = &job->r->scratch;
    const struct model_hparams *hp = &job->r->model->hp;
    size_t begin, end;
    kernel_pool_range(worker, n_workers, job->s->n_tokens, 1, &begin, &end);
    for (size_t t = begin; t < end; t++)
        router_softmax_topk(job->r->kernel.table, job->kind, sc->router + t * hp->n_expert, hp->n_expert,
                            hp->n_expert_used, sc->ids + t * hp->n_expert_used, sc->weights + t * hp->n_expert_used);
}

/* Sorts the chunk's (token, choice) pairs by expert. Returns the number of distinct experts, listed in scratch.wanted.
 */
static uint32_t group_by_expert(struct model_scratch *sc, size_t n_tokens, uint32_t n_expert, uint32_t k)
{
    memset(sc->groups, 0, n_expert * sizeof *sc->groups);
    for (size_t i = 0; i < n_tokens * k; i++) sc->groups[sc->ids[i]].n++;
    uint32_t at = 0, n_wanted = 0;
    for (uint32_t e = 0; e < n_expert; e++) {
        struct model_group *g = &sc->groups[e];
        g->expert = e;
        g->begin = at;
        at += g->n;
        if (g->n) sc->wanted[n_wanted++] = e;
        g->n = 0;
    }
    for (size_t i = 0; i < n_tokens * k; i++) {
        struct model_group *g = &sc->groups[sc->ids[i]];
        sc->group_tokens[g->begin + g->n] = (uint32_t)(i / k);
        sc->group_rows[g->begin + g->n++] = (uint32_t)i;
    }
    return n_wanted;
}

static void combine(void *arg, unsigned worker, unsigned n_workers)
{
    struct moe_job *job = arg;
    struct model_scratch *sc = &job->r->scratch;
    const struct model_hparams *hp = &job->r->model->hp;
    const struct kernel_table *t = job->r->kernel.table;
    const float *down_scale = model_vector(&job->l->exps_scale[MODEL_DOWN]);
    const size_t n = hp->n_embd, k = hp->n_expert_used;
    size_t begin, end;
    kernel_pool_range(worker, n_workers, job->s->n_tokens, 1, &begin, &end);
    for (size_t i = begin; i < end; i++) {
        float *sum = sc->h + i * n; /* the block's input is no longer needed */
        memset(sum, 0, n * sizeof *sum);
        for (size_t j = i * k; j < (i + 1) * k; j++) {
            float w = down_scale ? sc->weights[j] * down_scale[sc->ids[j]] : sc->weights[j];
            t->add_scaled(sum, sc->expert_out + j * n, w, n);
        }
        if (job->shared) t->add(sum, sc->y + i * n, n);
        t->add(sc->x + i * n, sum, n);
    }
}

static struct kernel_weight part_weight(const struct model *m, const struct model_layer *l,
                                        const struct expert_view *view, int part)
{
    const bool down = part == MODEL_DOWN;
    return (struct kernel_weight){.type = l->exps_type[part],
                                  .data = view->part[part],
                                  .n_in = down ? m->hp.n_ff_exp : m->hp.n_embd,
                                  .n_out = down ? m->hp.n_embd : m->hp.n_ff_exp};
}

static float factor(const struct model_layer *l, int part, uint32_t expert)
{
    const float *f = model_vector(&l->exps_scale[part]);
    return f ? f[expert] : 1.0f;
}

static enum sluice_status run_expert(struct moe_job *job, const struct kernel_acts *acts, struct sluice_error *err)
{
    struct model_run *r = job->r;
    struct model_scratch *sc = &r->scratch;
    struct expert_view view;
    enum sluice_status st = expert_take(r->cache, &view, err);
    if (st) return st;
    const struct model_group *g = &sc->groups[view.expert];
    const struct kernel_weight gate = part_weight(r->model, job->l, &view, MODEL_GATE),
                               up = part_weight(r->model, job->l, &view, MODEL_UP);
    kernel_expert_gate_up(&r->kernel, &gate, &up, factor(job->l, MODEL_GATE, view.expert),
                          factor(job->l, MODEL_UP, view.expert), acts, sc->group_tokens + g->begin, g->n, sc->gate,
                          sc->up);
    if ((st = expert_finish(r->cache, &view, err))) return st;
    const struct kernel_weight down = part_weight(r->model, job->l, &view, MODEL_DOWN);
    struct kernel_acts hidden;
    kernel_acts_place(&hidden, sc->gate, r->model->hp.n_ff_exp, g->n, sc->acts_mid);
    kernel_expert_down(&r->kernel, &down, &hidden, sc->expert_out, sc->group_rows + g->begin);
    expert_give(r->cache, &view);
    return SLUICE_OK;
}

/* To all who go by what is chosen: policy and trace, what other caches would have held, learned heat. */
static void tell_choice(struct model_run *r, uint32_t layer, uint32_t token, const uint32_t *ids, const float *weights,
                        uint32_t n)
{
    expert_selected(r->cache, layer, ids, weights, n, token);
    if (r->ghosts) expert_ghosts_selected(r->ghosts, layer, ids, weights, n, token);
    if (r->usage) expert_usage_selected(r->usage, layer, ids, n);
}

enum sluice_status moe_block(struct model_run *r, const struct model_step *s, uint32_t layer,
                             const struct router_kind *kind, struct sluice_error *err)
{
    const struct model_hparams *hp = &r->model->hp;
    const struct model_layer *l = &r->model->layers[layer];
    struct model_scratch *sc = &r->scratch;
    const struct kernel_ctx *k = &r->kernel;
    const size_t n = s->n_tokens;

    kernel_rms_norm_rows(k, sc->x, model_vector(&l->ffn_norm), hp->n_embd, n, hp->norm_eps, sc->h);
    struct kernel_acts acts;
    const struct kernel_weight router = model_weight(&l->router);
    kernel_acts_place(&acts, sc->h, hp->n_embd, n, sc->acts_in);
    kernel_acts_fill(k, &acts, router.type->form);
    kernel_matmul(k, &router, NULL, &acts, sc->router);
    struct moe_job job = {.r = r, .s = s, .l = l, .kind = kind, .shared = l->shexp_up.name != NULL};
    kernel_pool_run(k->pool, route, &job);

    const uint32_t used = hp->n_expert_used, n_wanted = group_by_expert(sc, n, hp->n_expert, used);
    for (size_t t = 0; t < n; t++) tell_choice(r, layer, (uint32_t)t, sc->ids + t * used, sc->weights + t * used, used);
    if (r->ghosts) expert_ghosts_want(r->ghosts, layer, sc->wanted, n_wanted);
    foresight_learn(r, s, layer);
    enum sluice_status st = expert_want(r->cache, layer, sc->wanted, n_wanted, err);
    if (!st) {
        foresight_ahead(r, s, layer);
        kernel_acts_fill(k, &acts, l->exps_type[MODEL_GATE]->form);
        kernel_acts_fill(k, &acts, l->exps_type[MODEL_UP]->form);
        if (job.shared) ffn_shared(r, s, layer, &acts, sc->y);
    }
    for (uint32_t i = 0; i < n_wanted && !st; i++) st = run_expert(&job, &acts, err);
    if (st) {
        expert_abort(r->cache);
        return st;
    }
    kernel_pool_run(k->pool, combine, &job);
    return SLUICE_OK;
}
