#include "model/attention.h"

#include "base/math.h"

#include <math.h>

void attention_angles(struct model_run *r, const struct model_step *s)
{
    const struct model_hparams *hp = &r->model->hp;
    struct model_scratch *sc = &r->scratch;
    const size_t half = hp->n_rot / 2;
    const float *divisors = model_vector(&r->model->rope_freqs);
    for (size_t i = 0; i < half; i++) {
        sc->freq[i] = hp->rope_scale * math_pow_d(hp->rope_base, -2.0 * (double)i / hp->n_rot);
        if (divisors) sc->freq[i] /= divisors[i];
    }
    for (size_t t = 0; t < s->n_tokens; t++)
        for (size_t i = 0; i < half; i++) {
            double angle = (double)(s->pos0 + t) * sc->freq[i];
            sc->cos[t * half + i] = (float)math_cos_d(angle);
            sc->sin[t * half + i] = (float)math_sin_d(angle);
        }
}

struct qkv_job {
    struct model_run *r;
    const struct model_step *s;
    const struct attention_kind *kind;
    uint32_t layer;
};

static void scale_and_bias(float *x, size_t n, const float *scale, const float *bias)
{
    if (scale)
        for (size_t i = 0; i < n; i++) x[i] *= *scale;
    if (bias)
        for (size_t i = 0; i < n; i++) x[i] += bias[i];
}

static void norm_qk(const struct kernel_table *t, enum attention_qk_norm kind, float *x, const float *w, size_t n_head,
                    size_t d_head, float eps)
{
    if (kind == QK_NORM_ROW) t->rms_norm(x, w, n_head * d_head, eps, x);
    if (kind == QK_NORM_HEAD)
        for (size_t h = 0; h < n_head; h++) t->rms_norm(x + h * d_head, w, d_head, eps, x + h * d_head);
}

/* Each token's q, k and v on their way from the product to the cache: factor, bias, norm, rotation, store. */
static void finish_qkv(void *arg, unsigned worker, unsigned n_workers)
{
    struct qkv_job *job = arg;
    struct model_run *r = job->r;
    const struct kernel_table *t = r->kernel.table;
    const struct model_hparams *hp = &r->model->hp;
    const struct model_layer *l = &r->model->layers[job->layer];
    const struct model_kv *kv = job->s->kv;
    const size_t nq = (size_t)hp->n_head * hp->d_head_k, nk = (size_t)hp->n_head_kv * hp->d_head_k,
                 half = hp->n_rot / 2;
    const size_t nv = (size_t)hp->n_head_kv * hp->d_head_v;
    size_t begin, end;
    kernel_pool_range(worker, n_workers, job->s->n_tokens, 1, &begin, &end);
    for (size_t i = begin; i < end; i++) {
        float *q = r->scratch.q + i * nq, *k = r->scratch.k + i * nk, *v = r->scratch.v + i * nv;
        const float *cos = r->scratch.cos + i * half, *sin = r->scratch.sin + i * half;
        scale_and_bias(q, nq, model_vector(&l->q_scale), model_vector(&l->q_bias));
        scale_and_bias(k, nk, model_vector(&l->k_scale), model_vector(&l->k_bias));
        scale_and_bias(v, nv, model_vector(&l->v_scale), model_vector(&l->v_bias));
        norm_qk(t, job->kind->qk_norm, q, model_vector(&l->q_norm), hp->n_head, hp->d_head_k, hp->norm_eps);
        norm_qk(t, job->kind->qk_norm, k, model_vector(&l->k_norm), hp->n_head_kv, hp->d_head_k, hp->norm_eps);
        t->rope(q, hp->n_head, hp->d_head_k, hp->n_rot, cos, sin, job->kind->neox);
        t->rope(k, hp->n_head_kv, hp->d_head_k, hp->n_rot, cos, sin, job->kind->neox);
        t->store_kv(kv->type, k, nk, model_kv_k(kv, job->layer, job->s->pos0 + i));
        t->store_kv(kv->type, v, nv, model_kv_v(kv, job->layer, job->s->pos0 + i));
    }
}

static void add_output(void *arg, unsigned worker, unsigned n_workers)
{
    struct qkv_job *job = arg;
    struct model_run *r = job->r;
    const struct model_layer *l = &r->model->layers[job->layer];
    const size_t n = r->model->hp.n_embd;
    size_t begin, end;
    kernel_pool_range(worker, n_workers, job->s->n_tokens, 1, &begin, &end);
    for (size_t i = begin; i < end; i++) {
        scale_and_bias(r->scratch.y + i * n, n, model_vector(&l->o_scale), model_vector(&l->o_bias));
        r->kernel.table->add(r->scratch.x + i * n, r->scratch.y + i * n, n);
    }
}

enum sluice_status attention_gqa(struct model_run *r, const struct model_step *s, uint32_t layer,
                                 const struct attention_kind *kind, struct sluice_error *err)
{
    (void)err;
    const struct model_hparams *hp = &r->model->hp;
    const struct model_layer *l = &r->model->layers[layer];
    struct model_scratch *sc = &r->scratch;
    const struct kernel_ctx *k = &r->kernel;
    const size_t n = s->n_tokens;

    kernel_rms_norm_rows(k, sc->x, model_vector(&l->attn_norm), hp->n_embd, n, hp->norm_eps, sc->h);
    struct kernel_acts acts;
    kernel_acts_place(&acts, sc->h, hp->n_embd, n, sc->acts_in);
    const struct kernel_weight qkv[3] = {model_weight(&l->q), model_weight(&l->k), model_weight(&l->v)};
    for (int i = 0; i < 3; i++) kernel_acts_fill(k, &acts, qkv[i].type->form);
    const float *const no_bias[3] = {NULL, NULL, NULL};
    kernel_matmul_many(k, qkv, no_bias, 3, &acts, (float *const[3]){sc->q, sc->k, sc->v});

    struct qkv_job job = {.r = r, .s = s, .kind = kind, .layer = layer};
    kernel_pool_run(k->pool, finish_qkv, &job);

    const struct kernel_attention a = {.q = sc->q,
                                       .k = model_kv_k(s->kv, layer, 0),
                                       .v = model_kv_v(s->kv, layer, 0),
                                       .k_type = s->kv->type,
                                       .v_type = s->kv->type,
                                       .n_head = hp->n_head,
                                       .n_head_kv = hp->n_head_kv,
                                       .d_head = hp->d_head_k,
                                       .d_head_v = hp->d_head_v,
                                       .n_tokens = n,
                                       .pos0 = s->pos0,
                                       .scale = 1.0f / sqrtf((float)hp->d_head_k),
                                       .out = sc->attn};
    if (r->cache) expert_pump(r->cache);
    kernel_attention_run(k, &a);
    if (r->cache) expert_pump(r->cache);

    struct kernel_acts mid;
    const struct kernel_weight o = model_weight(&l->o);
    kernel_acts_place(&mid, sc->attn, (size_t)hp->n_head * hp->d_head_v, n, sc->acts_mid);
    kernel_acts_fill(k, &mid, o.type->form);
    kernel_matmul(k, &o, NULL, &mid, sc->y);
    kernel_pool_run(k->pool, add_output, &job);
    return SLUICE_OK;
}
