/* Multi-head latent attention (DeepSeek-V2, 2024, section 2.1) in the order of a token's walk: norm, latent rows of
 * queries and of keys, norms and rotation, the cache, scores and values, output. */
#include "model/attention_mla.h"

#include "base/math.h"
#include "kernel/rows.h"
#include "model/attention.h"
#include "model/heads.h"
#include "model/indexer.h"
#include "model/norm.h"

#include <math.h>
#include <string.h>

/* Parts of scratch.extra, each [chunk][...]. */
struct room {
    float *q_latent; /* [q_lora] */
    float *kv_a;     /* [kv_lora + n_rot] */
    float *latent;   /* [kv_lora], expanded form only */
    float *kv_b;     /* [n_head][nope + d_v], expanded form only */
    uint32_t *begin, *end;
    /* of the indexer; ids and n_ids stay for the layers after that have none */
    float *index_q, *index_k, *index_weights, *tile, *best;
    uint32_t *ids, *n_ids;
};

struct mla_job {
    struct model_run *r;
    const struct model_step *s;
    uint32_t layer;
    struct room room;
};

/* The next part, `floats` a token, of the room at `at` (NULL: only counts). */
static void place(float **part, uint32_t floats, float *at, size_t chunk, uint32_t *sum)
{
    *part = at ? at + *sum * chunk : NULL;
    *sum += floats;
}

static void place_ids(uint32_t **part, uint32_t n, float *at, size_t chunk, uint32_t *sum)
{
    float *p;
    place(&p, n, at, chunk, sum);
    *part = (uint32_t *)(void *)p;
}

/* Lays the parts out; returns floats a token. */
static uint32_t lay_out(const struct model_hparams *hp, const struct model_layer_hparams *l, float *at, size_t chunk,
                        struct room *room)
{
    const struct mla_kind *m = &hp->mla;
    const struct indexer_kind *x = &hp->indexer;
    const uint32_t n_rot = hp->ropes[0].n_rot;
    uint32_t sum = 0;
    place(&room->q_latent, m->q_lora, at, chunk, &sum);
    place(&room->kv_a, m->kv_lora + n_rot, at, chunk, &sum);
    place_ids(&room->begin, 1, at, chunk, &sum);
    place_ids(&room->end, 1, at, chunk, &sum);
    if (!m->absorbed) {
        place(&room->latent, m->kv_lora, at, chunk, &sum);
        place(&room->kv_b, l->n_head * (m->d_k - n_rot + m->d_v), at, chunk, &sum);
    }
    if (x->n_head) {
        place(&room->index_q, x->n_head * x->d_head, at, chunk, &sum);
        place(&room->index_k, x->d_head, at, chunk, &sum);
        place(&room->index_weights, x->n_head, at, chunk, &sum);
        place(&room->tile, INDEXER_TILE, at, chunk, &sum);
        place(&room->best, x->top_k, at, chunk, &sum);
        place_ids(&room->ids, x->top_k, at, chunk, &sum);
        place_ids(&room->n_ids, 1, at, chunk, &sum);
    }
    return sum;
}

static void raise(uint32_t *most, uint64_t value)
{
    if (value > *most) *most = (uint32_t)value;
}

void mla_room(struct model_hparams *hp, const struct model_layer_hparams *l)
{
    struct room room;
    const struct mla_kind *m = &hp->mla;
    raise(&hp->extra_floats, lay_out(hp, l, NULL, 0, &room));
    raise(&hp->attn_floats, (uint64_t)l->n_head * m->d_k); /* queries wait there for their way into latent space */
    raise(&hp->q_floats, (uint64_t)l->n_head * m->d_v);    /* and the output there for the last product */
    raise(&hp->acts_floats, (uint64_t)l->n_head * m->d_v);
    raise(&hp->acts_floats, m->q_lora);
    raise(&hp->acts_floats, m->kv_lora);
}

/* Latent rows, and the queries of all heads to q [n_tokens][n_head][d_k]. */
static void project(struct mla_job *job, float *q)
{
    struct model_run *r = job->r;
    const struct model_layer *l = &r->model->layers[job->layer];
    struct model_scratch *sc = &r->scratch;
    const struct model_hparams *hp = &r->model->hp;
    const size_t n = job->s->n_tokens;
    struct kernel_acts acts;
    model_norm(r, sc->x, &l->attn_norm, &l->attn_norm_bias, n, sc->h);
    kernel_acts_place(&acts, sc->h, hp->n_embd, n, sc->acts_in);
    const struct model_tensor *in[4] = {&l->kv_a, hp->mla.q_lora ? &l->q_a : &l->q, &l->index_k, &l->index_weights};
    float *const to[4] = {job->room.kv_a, hp->mla.q_lora ? job->room.q_latent : q, job->room.index_k,
                          job->room.index_weights};
    struct kernel_weight w[4];
    const size_t n_in = hp->layer[job->layer].indexes ? 4 : 2;
    for (size_t i = 0; i < n_in; i++) {
        w[i] = model_weight(in[i]);
        kernel_acts_fill(&r->kernel, &acts, w[i].type->form);
    }
    kernel_matmul_many(&r->kernel, w, NULL, n_in, &acts, to);
    if (!hp->mla.q_lora) return;
    kernel_rms_norm_rows(&r->kernel, job->room.q_latent, model_vector(&l->q_a_norm), hp->mla.q_lora, n, hp->norm_eps,
                         job->room.q_latent);
    kernel_acts_place(&acts, job->room.q_latent, hp->mla.q_lora, n, sc->acts_mid);
    w[0] = model_weight(&l->q_b);
    w[1] = model_weight(&l->index_q);
    const size_t n_b = hp->layer[job->layer].indexes ? 2 : 1;
    for (size_t i = 0; i < n_b; i++) kernel_acts_fill(&r->kernel, &acts, w[i].type->form);
    kernel_matmul_many(&r->kernel, w, NULL, n_b, &acts, (float *const[2]){q, job->room.index_q});
}

/* Rotation of one token's queries (the last n_rot of each head) and of the shared part of its key; norm of its latent
 * row. */
static void turn(const struct mla_job *job, size_t i, float *q)
{
    const struct model_run *r = job->r;
    const struct kernel_table *t = r->kernel.table;
    const struct model_hparams *hp = &r->model->hp;
    const struct mla_kind *m = &hp->mla;
    const uint32_t n_head = hp->layer[job->layer].n_head;
    const size_t n_rot = hp->ropes[0].n_rot, half = n_rot / 2;
    const float *cos = r->scratch.cos[0] + i * half, *sin = r->scratch.sin[0] + i * half;
    float *row = job->room.kv_a + i * (m->kv_lora + n_rot);
    if (hp->layer[job->layer].rope != MODEL_NO_ROPE) {
        t->rope(q + m->d_k - n_rot, n_head, m->d_k, n_rot, cos, sin, false);
        t->rope(row + m->kv_lora, 1, n_rot, n_rot, cos, sin, false);
    }
    t->rms_norm(row, model_vector(&r->model->layers[job->layer].kv_a_norm), m->kv_lora, hp->norm_eps, row);
    if (hp->attention.t_scale == 0) return;
    const float steps = floorf((float)model_pos(model_span_of(job->s, i), i) / hp->attention.t_floor);
    t->scale(q, math_log(steps + 1.0f) * hp->attention.t_scale + 1.0f, (size_t)n_head * m->d_k);
}

/* One token's part in the indexer: rotation, the key's norm and its place in the cache, the scale of scores. */
static void turn_index(const struct mla_job *job, size_t i)
{
    const struct model_run *r = job->r;
    const struct kernel_table *t = r->kernel.table;
    const struct model_hparams *hp = &r->model->hp;
    const struct model_layer *l = &r->model->layers[job->layer];
    const struct indexer_kind *x = &hp->indexer;
    const size_t n_rot = hp->ropes[0].n_rot, half = n_rot / 2, d = x->d_head;
    const float *cos = r->scratch.cos[0] + i * half, *sin = r->scratch.sin[0] + i * half;
    float *k = job->room.index_k + i * d;
    t->rope(job->room.index_q + i * x->n_head * d, x->n_head, d, n_rot, cos, sin, x->neox);
    indexer_layer_norm(k, model_vector(&l->index_k_norm), model_vector(&l->index_k_norm_bias), d, x->norm_eps, k);
    t->rope(k, 1, d, n_rot, cos, sin, x->neox);
    const struct model_span *span = model_span_of(job->s, i);
    t->store_kv(span->kv->type, k, d, model_kv_v(span->kv, job->layer, model_pos(span, i)));
    t->scale(job->room.index_weights + i * x->n_head, 1.0f / sqrtf((float)(d * x->n_head)), x->n_head);
}

/* Which positions each token of a span looks at. */
static void choose(const struct mla_job *job, const struct model_span *span)
{
    const struct model_run *r = job->r;
    const struct indexer_kind *x = &r->model->hp.indexer;
    const struct model_kv *kv = span->kv;
    const size_t at = span->first;
    const struct indexer_choice c = {.q = job->room.index_q + at * x->n_head * x->d_head,
                                     .weights = job->room.index_weights + at * x->n_head,
                                     .k = model_kv_v(kv, job->layer, 0),
                                     .k_stride_bytes = kv->layer[job->layer].v_row_bytes,
                                     .type = kv->type,
                                     .n_head = x->n_head,
                                     .d_head = x->d_head,
                                     .n_tokens = span->n_tokens,
                                     .n_rows = job->room.end + at,
                                     .top_k = x->top_k,
                                     .tile = job->room.tile + at * INDEXER_TILE,
                                     .best = job->room.best + at * x->top_k,
                                     .ids = job->room.ids + at * x->top_k,
                                     .n_ids = job->room.n_ids + at};
    indexer_choose(&r->kernel, &c);
}

/* ---- latent rows in the cache ---- */

static void finish_absorbed(void *arg, unsigned worker, unsigned n_workers)
{
    struct mla_job *job = arg;
    struct model_run *r = job->r;
    const struct mla_kind *m = &r->model->hp.mla;
    const struct model_layer_hparams *lh = &r->model->hp.layer[job->layer];
    const size_t n_rot = r->model->hp.ropes[0].n_rot, d = lh->d_head_k;
    size_t begin, end;
    kernel_pool_range(worker, n_workers, job->s->n_tokens, 1, &begin, &end);
    for (size_t i = begin; i < end; i++) {
        const struct model_span *span = model_span_of(job->s, i);
        const size_t pos = model_pos(span, i);
        float *q = r->scratch.attn + i * lh->n_head * m->d_k;
        turn(job, i, q);
        for (size_t h = 0; h < lh->n_head; h++)
            memcpy(r->scratch.q + (i * lh->n_head + h) * d + m->kv_lora, q + (h + 1) * m->d_k - n_rot,
                   n_rot * sizeof *q);
        r->kernel.table->store_kv(span->kv->type, job->room.kv_a + i * d, d, model_kv_k(span->kv, job->layer, pos));
        job->room.begin[i] = 0;
        job->room.end[i] = (uint32_t)(pos + 1);
        if (lh->indexes) turn_index(job, i);
    }
}

/* The queries of one span look at the latent rows of their sequence; sums of those to scratch.attn. */
static void look_absorbed(struct mla_job *job, const struct model_span *span)
{
    struct model_run *r = job->r;
    const struct model_hparams *hp = &r->model->hp;
    const struct model_layer_hparams *lh = &hp->layer[job->layer];
    const size_t at = span->first, stride = span->kv->layer[job->layer].k_row_bytes;
    const void *rows = model_kv_k(span->kv, job->layer, 0);
    const struct kernel_rows_attention a = {
        .q = r->scratch.q + at * lh->n_head * lh->d_head_k,
        .sets = {{.k = rows,
                  .v = rows,
                  .k_stride_bytes = stride,
                  .v_stride_bytes = stride,
                  .begin = job->room.begin + at,
                  .end = job->room.end + at,
                  .ids = hp->indexer.n_head ? job->room.ids + at * hp->indexer.top_k : NULL,
                  .n_ids = hp->indexer.n_head ? job->room.n_ids + at : NULL,
                  .ids_stride = hp->indexer.top_k}},
        .n_sets = 1,
        .type = span->kv->type,
        .n_head = lh->n_head,
        .d_head = lh->d_head_k,
        .d_head_v = lh->d_head_v,
        .n_tokens = span->n_tokens,
        .scale = hp->attention.scale,
        .out = r->scratch.attn + at * lh->n_head * lh->d_head_v};
    kernel_rows_attention_run(&r->kernel, &a);
}

/* Output of all heads to scratch.q [n_tokens][n_head][d_v]. */
static void attend_absorbed(struct mla_job *job)
{
    struct model_run *r = job->r;
    struct model_scratch *sc = &r->scratch;
    const struct model_hparams *hp = &r->model->hp;
    const struct mla_kind *m = &hp->mla;
    const struct model_layer_hparams *lh = &hp->layer[job->layer];
    const struct model_layer *l = &r->model->layers[job->layer];
    const size_t n = job->s->n_tokens;
    project(job, sc->attn);
    kernel_pool_run(r->kernel.pool, finish_absorbed, job);
    const struct heads_product in = {.w = &l->k_b,
                                     .x = sc->attn,
                                     .x_token = (size_t)lh->n_head * m->d_k,
                                     .x_head = m->d_k,
                                     .out = sc->q,
                                     .out_token = (size_t)lh->n_head * lh->d_head_k,
                                     .out_head = lh->d_head_k,
                                     .n_tokens = n};
    heads_product_run(&r->kernel, &in);
    if (r->cache) expert_pump(r->cache);
    for (size_t i = 0; i < job->s->n_spans; i++) {
        if (lh->indexes) choose(job, &job->s->spans[i]);
        look_absorbed(job, &job->s->spans[i]);
    }
    if (r->cache) expert_pump(r->cache);
    const struct heads_product out = {.w = &l->v_b,
                                      .x = sc->attn,
                                      .x_token = (size_t)lh->n_head * m->kv_lora,
                                      .x_head = m->kv_lora,
                                      .out = sc->q,
                                      .out_token = (size_t)lh->n_head * m->d_v,
                                      .out_head = m->d_v,
                                      .n_tokens = n};
    heads_product_run(&r->kernel, &out);
}

/* ---- keys and values of each head in the cache ---- */

static void turn_expanded(void *arg, unsigned worker, unsigned n_workers)
{
    struct mla_job *job = arg;
    const struct model_hparams *hp = &job->r->model->hp;
    const size_t lora = hp->mla.kv_lora, row = lora + hp->ropes[0].n_rot;
    size_t begin, end;
    kernel_pool_range(worker, n_workers, job->s->n_tokens, 1, &begin, &end);
    for (size_t i = begin; i < end; i++) {
        turn(job, i, job->r->scratch.q + i * hp->layer[job->layer].n_head * hp->mla.d_k);
        memcpy(job->room.latent + i * lora, job->room.kv_a + i * row, lora * sizeof(float));
    }
}

static void store_expanded(void *arg, unsigned worker, unsigned n_workers)
{
    struct mla_job *job = arg;
    struct model_run *r = job->r;
    const struct model_hparams *hp = &r->model->hp;
    const struct mla_kind *m = &hp->mla;
    const size_t n_head = hp->layer[job->layer].n_head, n_rot = hp->ropes[0].n_rot, nope = m->d_k - n_rot;
    size_t begin, end;
    kernel_pool_range(worker, n_workers, job->s->n_tokens, 1, &begin, &end);
    for (size_t i = begin; i < end; i++) {
        float *k = r->scratch.k + i * n_head * m->d_k, *v = r->scratch.v + i * n_head * m->d_v;
        const float *turned = job->room.kv_a + i * (m->kv_lora + n_rot) + m->kv_lora;
        for (size_t h = 0; h < n_head; h++) {
            const float *from = job->room.kv_b + (i * n_head + h) * (nope + m->d_v);
            memcpy(k + h * m->d_k, from, nope * sizeof *k);
            memcpy(k + h * m->d_k + nope, turned, n_rot * sizeof *k);
            memcpy(v + h * m->d_v, from + nope, m->d_v * sizeof *v);
        }
        const struct model_span *span = model_span_of(job->s, i);
        const struct model_kv *kv = span->kv;
        r->kernel.table->store_kv(kv->type, k, n_head * m->d_k, model_kv_k(kv, job->layer, model_pos(span, i)));
        r->kernel.table->store_kv(kv->type, v, n_head * m->d_v, model_kv_v(kv, job->layer, model_pos(span, i)));
    }
}

static void look_expanded(struct mla_job *job, const struct model_span *span)
{
    const struct model_scratch *sc = &job->r->scratch;
    const struct model_layer_hparams *lh = &job->r->model->hp.layer[job->layer];
    const struct kernel_attention a = {.q = sc->q + span->first * lh->n_head * lh->d_head_k,
                                       .k = model_kv_k(span->kv, job->layer, 0),
                                       .v = model_kv_v(span->kv, job->layer, 0),
                                       .k_type = span->kv->type,
                                       .v_type = span->kv->type,
                                       .n_head = lh->n_head,
                                       .n_head_kv = lh->n_head,
                                       .d_head = lh->d_head_k,
                                       .d_head_v = lh->d_head_v,
                                       .n_tokens = span->n_tokens,
                                       .pos0 = span->pos0,
                                       .scale = job->r->model->hp.attention.scale,
                                       .out = sc->attn + span->first * lh->n_head * lh->d_head_v};
    kernel_attention_run(&job->r->kernel, &a);
}

static void attend_expanded(struct mla_job *job)
{
    struct model_run *r = job->r;
    struct model_scratch *sc = &r->scratch;
    const struct model_hparams *hp = &r->model->hp;
    const struct model_step *s = job->s;
    const struct kernel_weight kv_b = model_weight(&r->model->layers[job->layer].kv_b);
    project(job, sc->q);
    kernel_pool_run(r->kernel.pool, turn_expanded, job);
    struct kernel_acts acts;
    kernel_acts_place(&acts, job->room.latent, hp->mla.kv_lora, s->n_tokens, sc->acts_mid);
    kernel_acts_fill(&r->kernel, &acts, kv_b.type->form);
    kernel_matmul(&r->kernel, &kv_b, NULL, &acts, job->room.kv_b);
    kernel_pool_run(r->kernel.pool, store_expanded, job);
    if (r->cache) expert_pump(r->cache);
    for (size_t i = 0; i < s->n_spans; i++) look_expanded(job, &s->spans[i]);
    if (r->cache) expert_pump(r->cache);
}

enum sluice_status attention_mla(struct model_run *r, const struct model_step *s, uint32_t layer,
                                 struct sluice_error *err)
{
    (void)err;
    struct mla_job job = {.r = r, .s = s, .layer = layer, .room = {0}};
    struct model_scratch *sc = &r->scratch;
    const struct model_hparams *hp = &r->model->hp;
    const struct kernel_weight o = model_weight(&r->model->layers[layer].o);
    lay_out(hp, &hp->layer[layer], sc->extra, sc->chunk, &job.room);
    if (hp->mla.absorbed)
        attend_absorbed(&job);
    else
        attend_expanded(&job);
    struct kernel_acts acts;
    kernel_acts_place(&acts, hp->mla.absorbed ? sc->q : sc->attn, o.n_in, s->n_tokens, sc->acts_mid);
    kernel_acts_fill(&r->kernel, &acts, o.type->form);
    kernel_matmul(&r->kernel, &o, NULL, &acts, sc->y);
    attention_join(r, s, layer);
    return SLUICE_OK;
}
