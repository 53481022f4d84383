/* Grouped-query attention in the order of a token's walk: norm, q k v, what happens to them on the way to the cache,
 * scores and values, output. */
#include "model/attention.h"

#include "base/math.h"
#include "model/norm.h"

#include <math.h>

struct qkv_job {
    struct model_run *r;
    const struct model_step *s;
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
    if (kind == QK_NORM_NONE || (kind != QK_NORM_PLAIN && !w)) return;
    if (kind == QK_NORM_ROW)
        t->rms_norm(x, w, n_head * d_head, eps, x);
    else
        for (size_t h = 0; h < n_head; h++) t->rms_norm(x + h * d_head, w, d_head, eps, x + h * d_head);
}

/* [q | gate] a head becomes all q, then all gates, which stay behind the q rows of the chunk. */
static void split_gate(const struct model_layer_hparams *lh, float *q, float *gate)
{
    const size_t d = lh->d_head_k;
    for (size_t h = 0; h < lh->n_head; h++)
        for (size_t i = 0; i < d; i++) gate[h * d + i] = q[(2 * h + 1) * d + i];
    for (size_t h = 1; h < lh->n_head; h++)
        for (size_t i = 0; i < d; i++) q[h * d + i] = q[2 * h * d + i];
}

/* What the product of one token's q, k and v still lacks: factors and biases. */
static void finish_product(const struct model_layer *l, float *q, size_t nq, float *k, size_t nk, float *v, size_t nv)
{
    if (l->qkv.name) {
        const float *scale = model_vector(&l->qkv_scale), *bias = model_vector(&l->qkv_bias);
        scale_and_bias(q, nq, scale, bias);
        scale_and_bias(k, nk, scale, bias ? bias + nq : NULL);
        scale_and_bias(v, nv, scale, bias ? bias + nq + nk : NULL);
        return;
    }
    scale_and_bias(q, nq, model_vector(&l->q_scale), model_vector(&l->q_bias));
    scale_and_bias(k, nk, model_vector(&l->k_scale), model_vector(&l->k_bias));
    if (v) scale_and_bias(v, nv, model_vector(&l->v_scale), model_vector(&l->v_bias));
}

/* Norms and rotation of one token's q and k. */
static void turn(const struct model_run *r, const struct model_layer *l, const struct model_layer_hparams *lh, size_t i,
                 size_t pos, float *q, float *k)
{
    const struct kernel_table *t = r->kernel.table;
    const struct model_hparams *hp = &r->model->hp;
    const struct attention_kind *kind = &hp->attention;
    const bool rotates = lh->rope != MODEL_NO_ROPE;
    const enum attention_qk_norm norm = kind->norm_roped_only && !rotates ? QK_NORM_NONE : kind->qk_norm;
    for (int pass = 0; pass < 2; pass++) {
        if ((pass == 1) == kind->norm_after_rope) {
            norm_qk(t, norm, q, model_vector(&l->q_norm), lh->n_head, lh->d_head_k, hp->norm_eps);
            norm_qk(t, norm, k, model_vector(&l->k_norm), lh->n_head_kv, lh->d_head_k, hp->norm_eps);
        } else if (rotates) {
            const size_t n_rot = hp->ropes[lh->rope].n_rot, half = n_rot / 2;
            const float *cos = r->scratch.cos[lh->rope] + i * half, *sin = r->scratch.sin[lh->rope] + i * half;
            t->rope(q, lh->n_head, lh->d_head_k, n_rot, cos, sin, kind->neox);
            t->rope(k, lh->n_head_kv, lh->d_head_k, n_rot, cos, sin, kind->neox);
        } else if (kind->t_scale != 0) {
            const float steps = floorf((float)(pos + 1) / kind->t_floor);
            t->scale(q, math_log(steps + 1.0f) * kind->t_scale + 1.0f, (size_t)lh->n_head * lh->d_head_k);
        }
    }
}

/* Each token's q, k and v on their way from the product to the cache. */
static void finish_qkv(void *arg, unsigned worker, unsigned n_workers)
{
    struct qkv_job *job = arg;
    struct model_run *r = job->r;
    const struct kernel_table *t = r->kernel.table;
    const struct model_hparams *hp = &r->model->hp;
    const struct model_layer_hparams *lh = &hp->layer[job->layer];
    const struct model_layer *l = &r->model->layers[job->layer];
    const size_t nq = (size_t)lh->n_head * lh->d_head_k, nk = (size_t)lh->n_head_kv * lh->d_head_k,
                 nv = (size_t)lh->n_head_kv * lh->d_head_v, stride = hp->attention.gated ? 2 * nq : nq;
    size_t begin, end;
    kernel_pool_range(worker, n_workers, job->s->n_tokens, 1, &begin, &end);
    for (size_t i = begin; i < end; i++) {
        float *q = r->scratch.q + i * stride, *k = r->scratch.k + i * nk, *v = r->scratch.v + i * nv;
        const struct model_span *span = model_span_of(job->s, i);
        const size_t pos = model_pos(span, i);
        const bool own_v = l->v.name || l->qkv.name;
        finish_product(l, q, stride, k, nk, own_v ? v : NULL, nv);
        for (size_t e = 0; !own_v && e < nv; e++) v[e] = k[e]; /* values are the keys as they came */
        if (hp->attention.gated) split_gate(lh, q, r->scratch.attn_gate + i * nq);
        turn(r, l, lh, i, pos, q, k);
        if (hp->attention.v_norm) norm_qk(t, QK_NORM_PLAIN, v, NULL, lh->n_head_kv, lh->d_head_v, hp->norm_eps);
        t->store_kv(span->kv->type, k, nk, model_kv_k(span->kv, job->layer, pos));
        t->store_kv(span->kv->type, v, nv, model_kv_v(span->kv, job->layer, pos));
    }
}

/* A gated q product leaves rows twice as long; the q of all tokens move together (the first is in place). */
static void close_rows(struct model_run *r, const struct model_step *s, size_t nq)
{
    for (size_t i = 1; i < s->n_tokens; i++)
        for (size_t e = 0; e < nq; e++) r->scratch.q[i * nq + e] = r->scratch.q[2 * i * nq + e];
}

/* attn *= sigmoid(gate) */
static void open_gate(void *arg, unsigned worker, unsigned n_workers)
{
    struct qkv_job *job = arg;
    const struct model_layer_hparams *lh = &job->r->model->hp.layer[job->layer];
    const size_t n = (size_t)lh->n_head * lh->d_head_v;
    size_t begin, end;
    kernel_pool_range(worker, n_workers, job->s->n_tokens, 1, &begin, &end);
    float *x = job->r->scratch.attn;
    const float *gate = job->r->scratch.attn_gate;
    for (size_t i = begin * n; i < end * n; i++) x[i] *= 1.0f / (1.0f + math_exp(-gate[i]));
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
        model_join(r, r->scratch.x + i * n, r->scratch.y + i * n, &l->attn_post_norm);
    }
}

void attention_join(struct model_run *r, const struct model_step *s, uint32_t layer)
{
    struct qkv_job job = {.r = r, .s = s, .layer = layer};
    kernel_pool_run_parts(r->kernel.pool, s->n_tokens, add_output, &job);
}

void attention_output(struct model_run *r, const struct model_step *s, uint32_t layer)
{
    const struct model_layer_hparams *lh = &r->model->hp.layer[layer];
    struct kernel_acts mid;
    const struct kernel_weight o = model_weight(&r->model->layers[layer].o);
    kernel_acts_place(&mid, r->scratch.attn, (size_t)lh->n_head * lh->d_head_v, s->n_tokens, r->scratch.acts_mid);
    kernel_acts_fill(&r->kernel, &mid, o.type->form);
    kernel_matmul(&r->kernel, &o, NULL, &mid, r->scratch.y);
    attention_join(r, s, layer);
}

/* q, k and v of norm(x); a file without v takes the keys for it. */
static void project(struct model_run *r, const struct model_step *s, uint32_t layer)
{
    const struct model_layer_hparams *lh = &r->model->hp.layer[layer];
    const struct model_layer *l = &r->model->layers[layer];
    struct model_scratch *sc = &r->scratch;
    model_norm(r, sc->x, &l->attn_norm, &l->attn_norm_bias, s->n_tokens, sc->h);
    struct kernel_acts acts;
    kernel_acts_place(&acts, sc->h, r->model->hp.n_embd, s->n_tokens, sc->acts_in);
    struct kernel_weight w[3];
    size_t n = 0;
    if (l->qkv.name) {
        const size_t rows[3] = {(size_t)lh->n_head * lh->d_head_k, (size_t)lh->n_head_kv * lh->d_head_k,
                                (size_t)lh->n_head_kv * lh->d_head_v};
        const struct kernel_weight all = model_weight(&l->qkv);
        const size_t row_bytes = quant_row_bytes(all.type, all.n_in);
        for (size_t at = 0; n < 3; at += rows[n++] * row_bytes)
            w[n] = (struct kernel_weight){all.type, (const uint8_t *)all.data + at, all.n_in, rows[n]};
    } else {
        w[n++] = model_weight(&l->q);
        w[n++] = model_weight(&l->k);
        if (l->v.name) w[n++] = model_weight(&l->v);
    }
    for (size_t i = 0; i < n; i++) kernel_acts_fill(&r->kernel, &acts, w[i].type->form);
    kernel_matmul_many(&r->kernel, w, NULL, n, &acts, (float *const[3]){sc->q, sc->k, sc->v});
}

/* The queries of one span look at the keys and values of their sequence. */
static void attend(struct model_run *r, const struct model_span *span, uint32_t layer)
{
    const struct model_hparams *hp = &r->model->hp;
    const struct model_layer_hparams *lh = &hp->layer[layer];
    const struct kernel_attention a = {.q = r->scratch.q + span->first * lh->n_head * lh->d_head_k,
                                       .k = model_kv_k(span->kv, layer, 0),
                                       .v = model_kv_v(span->kv, layer, 0),
                                       .ring = span->kv->layer[layer].k_ring,
                                       .k_type = span->kv->type,
                                       .v_type = span->kv->type,
                                       .n_head = lh->n_head,
                                       .n_head_kv = lh->n_head_kv,
                                       .d_head = lh->d_head_k,
                                       .d_head_v = lh->d_head_v,
                                       .n_tokens = span->n_tokens,
                                       .pos0 = span->pos0,
                                       .scale = hp->attention.scale != 0 ? hp->attention.scale
                                                                         : 1.0f / sqrtf((float)lh->d_head_k),
                                       .softcap = hp->attention.softcap,
                                       .sinks = model_vector(&r->model->layers[layer].sinks),
                                       .window = lh->window,
                                       .window_chunks = lh->window_chunks,
                                       .out = r->scratch.attn + span->first * lh->n_head * lh->d_head_v};
    kernel_attention_run(&r->kernel, &a);
}

/* model_narrow, and the queries and gates that it leaves moved together as well. */
static const struct model_step *narrow(struct model_run *r, const struct model_step *s, uint32_t layer)
{
    const struct model_layer_hparams *lh = &r->model->hp.layer[layer];
    const size_t nq = (size_t)lh->n_head * lh->d_head_k;
    const struct model_step *rest = model_narrow(r, s, layer);
    model_narrow_rows(rest, r->scratch.q, nq);
    if (r->model->hp.attention.gated) model_narrow_rows(rest, r->scratch.attn_gate, nq);
    return rest;
}

enum sluice_status attention_gqa(struct model_run *r, const struct model_step *s, uint32_t layer,
                                 struct sluice_error *err)
{
    (void)err;
    const struct model_hparams *hp = &r->model->hp;
    const struct model_layer_hparams *lh = &hp->layer[layer];
    struct qkv_job job = {.r = r, .s = s, .layer = layer};
    project(r, s, layer);
    kernel_pool_run_parts(r->kernel.pool, s->n_tokens, finish_qkv, &job);
    if (hp->attention.gated) close_rows(r, s, (size_t)lh->n_head * lh->d_head_k);

    if (r->cache) expert_pump(r->cache);
    job.s = narrow(r, s, layer);
    if (!job.s->n_tokens) return SLUICE_OK;
    for (size_t i = 0; i < job.s->n_spans; i++) attend(r, &job.s->spans[i], layer);
    if (r->cache) expert_pump(r->cache);
    if (hp->attention.gated) kernel_pool_run_parts(r->kernel.pool, job.s->n_tokens, open_gate, &job);
    attention_output(r, job.s, layer);
    return SLUICE_OK;
}
