#include "model/ffn.h"

#include "base/math.h"
#include "model/norm.h"

struct ffn_job {
    struct model_run *r;
    const struct model_layer *l;
    size_t n_tokens, n_ff;
    bool shared, join;
    enum kernel_act act;
    float limit;
    float *y;
};

static void finish_row(float *x, size_t n, const float *bias, const float *scale)
{
    if (bias)
        for (size_t i = 0; i < n; i++) x[i] += bias[i];
    if (scale)
        for (size_t i = 0; i < n; i++) x[i] *= *scale;
}

static void activate(void *arg, unsigned worker, unsigned n_workers)
{
    struct ffn_job *job = arg;
    const struct model_scratch *sc = &job->r->scratch;
    size_t begin, end;
    kernel_pool_range(worker, n_workers, job->n_tokens, 1, &begin, &end);
    for (size_t t = begin; t < end; t++) {
        float *gate = sc->gate + t * job->n_ff, *up = sc->up + t * job->n_ff;
        if (job->shared) {
            finish_row(gate, job->n_ff, NULL, model_vector(&job->l->shexp_gate_scale));
            finish_row(up, job->n_ff, NULL, model_vector(&job->l->shexp_up_scale));
        } else {
            finish_row(gate, job->n_ff, model_vector(&job->l->gate_bias), model_vector(&job->l->gate_scale));
            finish_row(up, job->n_ff, model_vector(&job->l->up_bias), model_vector(&job->l->up_scale));
        }
        job->r->kernel.table->act_mul(job->act, job->limit, gate, up, job->n_ff, gate);
    }
}

/* gate, up, activation, down: y[n_tokens][n_embd]. */
static void gated(struct ffn_job *job, struct kernel_acts *acts, const struct model_tensor *gate,
                  const struct model_tensor *up, const struct model_tensor *down)
{
    const struct kernel_ctx *k = &job->r->kernel;
    struct model_scratch *sc = &job->r->scratch;
    const struct kernel_weight in[2] = {model_weight(gate), model_weight(up)}, out = model_weight(down);
    kernel_acts_fill(k, acts, in[0].type->form);
    kernel_acts_fill(k, acts, in[1].type->form);
    job->n_ff = in[0].n_out;
    kernel_matmul_many(k, in, (const float *const[2]){NULL, NULL}, 2, acts, (float *const[2]){sc->gate, sc->up});
    kernel_pool_run(k->pool, activate, job);
    struct kernel_acts hidden;
    kernel_acts_place(&hidden, sc->gate, job->n_ff, job->n_tokens, sc->acts_mid);
    kernel_acts_fill(k, &hidden, out.type->form);
    kernel_matmul(k, &out, NULL, &hidden, job->y);
}

/* The end of a dense block for each token: bias and factor, and into the residual stream if it goes there. */
static void finish_rows(void *arg, unsigned worker, unsigned n_workers)
{
    struct ffn_job *job = arg;
    const size_t n = job->r->model->hp.n_embd;
    size_t begin, end;
    kernel_pool_range(worker, n_workers, job->n_tokens, 1, &begin, &end);
    for (size_t t = begin; t < end; t++) {
        finish_row(job->y + t * n, n, model_vector(&job->l->down_bias), model_vector(&job->l->down_scale));
        if (job->join) model_join(job->r, job->r->scratch.x + t * n, job->y + t * n, &job->l->ffn_post_norm);
    }
}

static void dense(struct model_run *r, const struct model_step *s, uint32_t layer, bool join, float *y)
{
    const struct model_hparams *hp = &r->model->hp;
    const struct model_layer *l = &r->model->layers[layer];
    struct model_scratch *sc = &r->scratch;
    model_norm(r, sc->x, &l->ffn_norm, &l->ffn_norm_bias, s->n_tokens, sc->h);
    struct kernel_acts acts;
    kernel_acts_place(&acts, sc->h, hp->n_embd, s->n_tokens, sc->acts_in);
    struct ffn_job job = {.r = r, .l = l, .n_tokens = s->n_tokens, .act = hp->dense_act, .join = join, .y = y};
    gated(&job, &acts, &l->gate, &l->up, &l->down);
    kernel_pool_run(r->kernel.pool, finish_rows, &job);
}

void ffn_dense(struct model_run *r, const struct model_step *s, uint32_t layer, float *y)
{
    dense(r, s, layer, false, y);
}

enum sluice_status ffn_block(struct model_run *r, const struct model_step *s, uint32_t layer, struct sluice_error *err)
{
    (void)err;
    dense(r, s, layer, true, r->scratch.y);
    return SLUICE_OK;
}

void ffn_shared(struct model_run *r, const struct model_step *s, uint32_t layer, struct kernel_acts *acts, float *y)
{
    const struct model_layer *l = &r->model->layers[layer];
    const size_t n = r->model->hp.n_embd;
    const struct moe_kind *moe = &r->model->hp.moe;
    struct ffn_job job = {
        .r = r, .l = l, .n_tokens = s->n_tokens, .shared = true, .act = moe->act, .limit = moe->shexp_limit, .y = y};
    gated(&job, acts, &l->shexp_gate, &l->shexp_up, &l->shexp_down);
    const float *gate = model_vector(&l->shexp_gate_inp), *scale = model_vector(&l->shexp_down_scale);
    if (scale) r->kernel.table->scale(y, *scale, s->n_tokens * n);
    if (!gate) return;
    for (size_t t = 0; t < s->n_tokens; t++) {
        float open = 1.0f / (1.0f + math_exp(-r->kernel.table->dot_f32(gate, r->scratch.h + t * n, n)));
        for (size_t i = 0; i < n; i++) y[t * n + i] *= open;
    }
}
