/* The routed block in the order of a token's walk: norm, router, want, shared expert while reads are under way, then
 * each expert as it becomes ready (small ones together), then the sum in a fixed order. Which expert comes first
 * depends on the disk; the sum does not (E5). */
#include "model/moe.h"

#include "model/ffn.h"
#include "model/foresight.h"
#include "model/norm.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

/* Bytes of weights times rows, of a batch of experts while others are still to be read: whoever reads has waited long
 * enough then. A quarter of a millisecond with tiles, about a whole one without. */
#define WORK_TOGETHER ((uint64_t)64 << 20)
#define TOKENS_TOLD_ALONE 32 /* with fewer, telling of their choices costs less than waking the workers */

struct moe_job {
    struct model_run *r;
    const struct model_step *s;
    const struct model_layer *l;
    const struct model_layer_hparams *lh;
    const struct moe_kind *kind;
    bool join;
};

static void route(void *arg, unsigned worker, unsigned n_workers)
{
    struct moe_job *job = arg;
    struct model_scratch *sc = &job->r->scratch;
    const uint32_t n_expert = job->lh->n_expert, k = job->lh->n_expert_used;
    size_t begin, end;
    kernel_pool_range(worker, n_workers, job->s->n_tokens, 1, &begin, &end);
    for (size_t t = begin; t < end; t++)
        router_choose(job->r->kernel.table, &job->kind->router, sc->router + t * n_expert,
                      model_vector(&job->l->probs_bias), n_expert, k, sc->ids + t * k, sc->weights + t * k);
}

/* An input of the router's own: RMS(x) * scale / sqrt(n_embd). */
static void own_input(const struct model_run *r, const struct model_layer *l, const float *x, size_t n, float *h)
{
    const size_t n_embd = r->model->hp.n_embd;
    const float *scale = model_vector(&l->router_input_scale), root = 1.0f / sqrtf((float)n_embd);
    kernel_rms_norm_rows(&r->kernel, x, NULL, n_embd, n, r->model->hp.norm_eps, h);
    for (size_t t = 0; t < n; t++)
        for (size_t i = 0; i < n_embd; i++) h[t * n_embd + i] = h[t * n_embd + i] * root * scale[i];
}

void moe_router_logits(struct model_run *r, uint32_t layer, const float *x, size_t n, float *h, void *acts_memory,
                       struct kernel_acts *acts, float *out)
{
    const struct model_layer *l = &r->model->layers[layer];
    const struct kernel_weight router = model_weight(&l->router);
    if (l->router_input_scale.name)
        own_input(r, l, x, n, h);
    else
        model_norm(r, x, &l->ffn_norm, &l->ffn_norm_bias, n, h);
    kernel_acts_place(acts, h, r->model->hp.n_embd, n, acts_memory);
    kernel_acts_fill(&r->kernel, acts, router.type->form);
    kernel_matmul(&r->kernel, &router, model_vector(&l->router_bias), acts, out);
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
    const struct kernel_table *t = job->r->kernel.table;
    const float *down_scale = model_vector(&job->l->exps_scale[MODEL_DOWN]),
                *down_bias = model_vector(&job->l->exps_bias[MODEL_DOWN]);
    const size_t n = job->r->model->hp.n_embd, k = job->lh->n_expert_used;
    size_t begin, end;
    kernel_pool_range(worker, n_workers, job->s->n_tokens, 1, &begin, &end);
    for (size_t i = begin; i < end; i++) {
        float *sum = sc->h + i * n; /* the block's input is no longer needed */
        memset(sum, 0, n * sizeof *sum);
        for (size_t j = i * k; j < (i + 1) * k; j++) {
            float w = job->kind->weights_first ? 1 : sc->weights[j];
            if (down_scale) w *= down_scale[sc->ids[j]];
            if (down_bias) t->add(sc->expert_out + j * n, down_bias + sc->ids[j] * n, n);
            t->add_scaled(sum, sc->expert_out + j * n, w, n);
        }
        if (job->lh->n_ff_shexp) t->add(sum, sc->y + i * n, n);
        if (job->join) model_join(job->r, sc->x + i * n, sum, &job->l->ffn_post_norm);
    }
}

static struct kernel_weight matrix_weight(const struct moe_job *job, const struct expert_view *view, int matrix)
{
    const bool down = matrix == MODEL_DOWN;
    const struct model_expert_place *place = &job->l->exps[matrix];
    const uint32_t n_embd = job->r->model->hp.n_embd, n_ff = job->lh->n_ff_exp;
    return (struct kernel_weight){.type = place->type,
                                  .data = view->part[place->part] + place->at_bytes,
                                  .n_in = down ? n_ff : n_embd,
                                  .n_out = down ? n_embd : n_ff};
}

static float factor(const struct model_layer *l, int matrix, uint32_t expert)
{
    /* one tensor of gate and up has one factor, which goes by the name of up */
    if (matrix == MODEL_GATE && l->exps[MODEL_GATE].part == l->exps[MODEL_UP].part) matrix = MODEL_UP;
    const float *f = model_vector(&l->exps_scale[matrix]);
    return f ? f[expert] : 1.0f;
}

static const float *bias(const struct moe_job *job, int matrix, uint32_t expert)
{
    const float *b = model_vector(&job->l->exps_bias[matrix]);
    return b ? b + (size_t)expert * job->lh->n_ff_exp : NULL;
}

/* What there is to compute with an expert; `row`: of the batch's first. */
static void describe(const struct moe_job *job, const struct expert_view *view, uint32_t row, struct kernel_expert *e)
{
    struct model_scratch *sc = &job->r->scratch;
    const struct model_group *g = &sc->groups[view->expert];
    *e = (struct kernel_expert){.gate = matrix_weight(job, view, MODEL_GATE),
                                .up = matrix_weight(job, view, MODEL_UP),
                                .down = matrix_weight(job, view, MODEL_DOWN),
                                .glu = {.act = job->kind->act,
                                        .limit = job->kind->limit,
                                        .gate_scale = factor(job->l, MODEL_GATE, view->expert),
                                        .up_scale = factor(job->l, MODEL_UP, view->expert),
                                        .gate_bias = bias(job, MODEL_GATE, view->expert),
                                        .up_bias = bias(job, MODEL_UP, view->expert)},
                                .tokens = sc->group_tokens + g->begin,
                                .out_rows = sc->group_rows + g->begin,
                                .n = g->n};
    if (!job->kind->weights_first) return;
    for (uint32_t i = 0; i < g->n; i++) sc->row_weights[row + i] = sc->weights[sc->group_rows[g->begin + i]];
    e->glu.row_weights = sc->row_weights + row;
}

static uint64_t bytes_of(const struct kernel_expert *e)
{
    return 2 * quant_row_bytes(e->gate.type, e->gate.n_in) * e->gate.n_out +
           quant_row_bytes(e->down.type, e->down.n_in) * e->down.n_out;
}

/* The next expert and, while they are there as a whole, those that follow: together they need two dispatches instead of
 * two each, at whose ends workers wait for one another. Where others are still to be read, only as many as have little
 * work. Returns in *n how many they were. */
static enum sluice_status run_experts(struct moe_job *job, const struct kernel_acts *acts, uint32_t n_left, uint32_t *n,
                                      struct sluice_error *err)
{
    struct model_run *r = job->r;
    struct model_scratch *sc = &r->scratch;
    struct expert_view views[KERNEL_EXPERTS_MAX];
    struct kernel_expert experts[KERNEL_EXPERTS_MAX];
    enum sluice_status st;
    uint64_t work = 0;
    uint32_t rows = 0, next;
    *n = 0;
    do {
        if ((st = expert_take(r->cache, &views[*n], err))) return st;
        describe(job, &views[*n], rows, &experts[*n]);
        work += experts[*n].n * bytes_of(&experts[*n]);
        rows += (uint32_t)experts[(*n)++].n;
    } while (*n < n_left && *n < KERNEL_EXPERTS_MAX && (work < WORK_TOGETHER || expert_all_here(r->cache)) &&
             expert_ready(r->cache, &next) && rows + sc->groups[next].n <= sc->chunk);
    kernel_experts_glu(&r->kernel, experts, *n, acts, sc->gate, sc->up);
    for (uint32_t i = 0; i < *n; i++)
        if ((st = expert_finish(r->cache, &views[i], err))) return st;
    struct kernel_acts hidden;
    kernel_acts_place(&hidden, sc->gate, job->lh->n_ff_exp, rows, sc->acts_mid);
    kernel_experts_down(&r->kernel, experts, *n, &hidden, sc->expert_out);
    for (uint32_t i = 0; i < *n; i++) expert_give(r->cache, &views[i]);
    return SLUICE_OK;
}

/* All who go by what is chosen; none of them knows of the others, so each may be told by another worker. */
enum listener {
    POLICY,   /* and the trace */
    GHOSTS,   /* what other caches would have held */
    LEARNERS, /* heat, and what comes next */
    GROUPS,
    LISTENERS
};

struct choice_job {
    struct model_run *r;
    const struct model_step *s;
    uint32_t layer, n_used, n_expert;
    uint32_t n_wanted;
    atomic_uint next;
};

static void tell(struct choice_job *j, enum listener who)
{
    struct model_run *r = j->r;
    const struct model_scratch *sc = &r->scratch;
    const size_t n = j->s->n_tokens, used = j->n_used;
    if (who == GROUPS) {
        j->n_wanted = group_by_expert(&r->scratch, n, j->n_expert, j->n_used);
        return;
    }
    if (who == LEARNERS) foresight_learn(r, j->s, j->layer);
    for (size_t t = 0; t < n; t++) {
        const uint32_t *ids = sc->ids + t * used, token = j->s->origin ? j->s->origin[t] : (uint32_t)t;
        const float *weights = sc->weights + t * used;
        if (who == POLICY) expert_selected(r->cache, j->layer, ids, weights, j->n_used, token);
        if (who == GHOSTS && r->ghosts) expert_ghosts_selected(r->ghosts, j->layer, ids, weights, j->n_used, token);
        if (who == LEARNERS && r->usage) expert_usage_selected(r->usage, j->layer, ids, j->n_used);
    }
}

static void tell_run(void *arg, unsigned worker, unsigned n_workers)
{
    struct choice_job *j = arg;
    for (unsigned i; (i = atomic_fetch_add_explicit(&j->next, 1, memory_order_relaxed)) < LISTENERS;)
        tell(j, (enum listener)i);
}

/* Returns the number of distinct experts. */
static uint32_t tell_choices(struct model_run *r, const struct model_step *s, uint32_t layer)
{
    const struct model_layer_hparams *lh = &r->model->hp.layer[layer];
    struct choice_job j = {.r = r, .s = s, .layer = layer, .n_used = lh->n_expert_used, .n_expert = lh->n_expert};
    atomic_init(&j.next, 0);
    if (s->n_tokens < TOKENS_TOLD_ALONE)
        tell_run(&j, 0, 1);
    else
        kernel_pool_run_parts(r->kernel.pool, LISTENERS, tell_run, &j);
    return j.n_wanted;
}

enum sluice_status moe_chosen(struct model_run *r, const struct model_step *s, uint32_t layer, struct kernel_acts *acts,
                              bool join, struct sluice_error *err)
{
    const struct model_hparams *hp = &r->model->hp;
    const struct model_layer *l = &r->model->layers[layer];
    struct model_scratch *sc = &r->scratch;
    const struct kernel_ctx *k = &r->kernel;
    struct moe_job job = {.r = r, .s = s, .l = l, .lh = &hp->layer[layer], .kind = &hp->moe, .join = join};
    const uint32_t n_wanted = tell_choices(r, s, layer);
    if (r->ghosts) expert_ghosts_want(r->ghosts, layer, sc->wanted, n_wanted);
    enum sluice_status st = expert_want(r->cache, layer, sc->wanted, n_wanted, err);
    if (!st) {
        foresight_ahead(r, s, layer);
        kernel_acts_fill(k, acts, l->exps[MODEL_GATE].type->form);
        kernel_acts_fill(k, acts, l->exps[MODEL_UP].type->form);
        if (job.lh->n_ff_shexp) ffn_shared(r, s, layer, acts, sc->y);
    }
    for (uint32_t i = 0, n_run; i < n_wanted && !st; i += n_run)
        st = run_experts(&job, acts, n_wanted - i, &n_run, err);
    if (st) {
        expert_abort(r->cache);
        return st;
    }
    kernel_pool_run_parts(k->pool, s->n_tokens, combine, &job);
    return SLUICE_OK;
}

static enum sluice_status routed(struct model_run *r, const struct model_step *s, uint32_t layer, bool join,
                                 struct sluice_error *err)
{
    const struct model_hparams *hp = &r->model->hp;
    const struct model_layer *l = &r->model->layers[layer];
    struct model_scratch *sc = &r->scratch;
    struct moe_job job = {.r = r, .s = s, .l = l, .lh = &hp->layer[layer], .kind = &hp->moe};
    struct kernel_acts acts;
    moe_router_logits(r, layer, sc->x, s->n_tokens, sc->h, sc->acts_in, &acts, sc->router);
    kernel_pool_run_parts(r->kernel.pool, s->n_tokens, route, &job);
    if (l->moe_norm.name || l->router_input_scale.name) { /* the experts' input is another than the router's */
        const struct model_tensor *norm = l->moe_norm.name ? &l->moe_norm : &l->ffn_norm;
        model_norm(r, sc->x, norm, &l->ffn_norm_bias, s->n_tokens, sc->h);
        kernel_acts_place(&acts, sc->h, hp->n_embd, s->n_tokens, sc->acts_in);
    }
    return moe_chosen(r, s, layer, &acts, join, err);
}

enum sluice_status moe_block(struct model_run *r, const struct model_step *s, uint32_t layer, struct sluice_error *err)
{
    return routed(r, s, layer, true, err);
}

enum sluice_status moe_sums(struct model_run *r, const struct model_step *s, uint32_t layer, struct sluice_error *err)
{
    return routed(r, s, layer, false, err);
}
