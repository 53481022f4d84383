#include "model/attention_compressed.h"

#include "base/math.h"
#include "kernel/rows.h"
#include "model/heads.h"
#include "model/hyper.h"
#include "model/indexer.h"
#include "model/norm.h"
#include "model/rope.h"

#include <math.h>
#include <string.h>

/* A compressor: attention's rows, or the indexer's keys. */
struct compressor {
    const float *kv, *gate; /* products of the span's tokens [n_tokens][width] */
    const float *pos;       /* [ratio][width] added to the gate by place in the block */
    const float *norm;      /* [d] */
    size_t d, width, ratio, n_ring;
    float *ring;  /* state: [n_ring][kv, gate][width] by position % n_ring */
    float *out;   /* [n_tokens][d] rows of the blocks that end in this step, by their last token */
    uint8_t *row; /* of block 0 in the cache */
    size_t stride_bytes;
};

/* Parts of scratch.extra, each [chunk][...], behind those of hyper-connections. */
struct room {
    float *q_latent, *kv, *comp_kv, *comp_gate, *comp_out, *o_latent;
    float *index_q, *index_weights, *index_kv, *index_gate, *index_out, *tile, *best;
    uint32_t *begin, *end, *n_rows, *zero, *ids, *n_ids;
};

struct job {
    struct model_run *r;
    const struct model_step *s;
    uint32_t layer;
    struct room room;
    const struct model_span *span; /* from here on: whose tokens are compressed, chosen for and looked at */
    struct compressor comp[2];
    size_t n_comp;
};

static void *place(uint32_t floats, float *at, size_t chunk, uint32_t *sum)
{
    float *part = at ? at + *sum * chunk : NULL;
    *sum += floats;
    return part;
}

static uint32_t width_of(const struct model_layer_hparams *l, uint32_t d)
{
    return l->compress == COMPRESS_OVERLAP ? 2 * d : d;
}

static uint32_t lay_out(const struct model_hparams *hp, const struct model_layer_hparams *l, float *at, size_t chunk,
                        struct room *room)
{
    const struct indexer_kind *x = &hp->indexer;
    uint32_t sum = hyper_floats(hp);
    room->q_latent = place(hp->mla.q_lora, at, chunk, &sum);
    room->kv = place(l->d_head_k, at, chunk, &sum);
    room->o_latent = place(hp->o_groups * hp->o_lora, at, chunk, &sum);
    room->begin = place(1, at, chunk, &sum);
    room->end = place(1, at, chunk, &sum);
    if (!l->compress) return sum;
    room->n_rows = place(1, at, chunk, &sum);
    room->zero = place(1, at, chunk, &sum);
    room->comp_kv = place(width_of(l, l->d_head_k), at, chunk, &sum);
    room->comp_gate = place(width_of(l, l->d_head_k), at, chunk, &sum);
    room->comp_out = place(l->d_head_k, at, chunk, &sum);
    if (!l->indexes) return sum;
    room->index_q = place(x->n_head * x->d_head, at, chunk, &sum);
    room->index_weights = place(x->n_head, at, chunk, &sum);
    room->index_kv = place(width_of(l, x->d_head), at, chunk, &sum);
    room->index_gate = place(width_of(l, x->d_head), at, chunk, &sum);
    room->index_out = place(x->d_head, at, chunk, &sum);
    room->tile = place(INDEXER_TILE, at, chunk, &sum);
    room->best = place(x->top_k, at, chunk, &sum);
    room->ids = place(x->top_k, at, chunk, &sum);
    room->n_ids = place(1, at, chunk, &sum);
    return sum;
}

static void raise(uint32_t *most, uint64_t value)
{
    if (value > *most) *most = (uint32_t)value;
}

static uint32_t ring_rows(const struct model_layer_hparams *l)
{
    return l->compress == COMPRESS_OVERLAP ? 2 * l->compress : l->compress;
}

void compressed_room(struct model_hparams *hp, struct model_layer_hparams *l)
{
    struct room room;
    const uint32_t d = l->d_head_k, d_index = l->indexes ? hp->indexer.d_head : 0;
    l->kv_k = d;
    l->kv_v = 0;
    if (l->compress) { /* a position's share of compressed rows, in whole blocks of every cache type */
        l->kv_v = ((d + d_index + l->compress - 1) / l->compress + 31) / 32 * 32;
        l->state_floats = ring_rows(l) * 2 * (width_of(l, d) + (d_index ? width_of(l, d_index) : 0));
    }
    l->kv_block = d % 32 ? d : d_index % 32 ? d_index : 32;
    raise(&hp->extra_floats, lay_out(hp, l, NULL, 0, &room));
    raise(&hp->acts_floats, hp->mla.q_lora);
    raise(&hp->acts_floats, (uint64_t)hp->o_groups * hp->o_lora);
    raise(&hp->acts_floats, (uint64_t)HYPER_STREAMS * hp->n_embd);
}

/* ---- products ---- */

static void project(struct job *job)
{
    struct model_run *r = job->r;
    const struct model_hparams *hp = &r->model->hp;
    const struct model_layer_hparams *lh = &hp->layer[job->layer];
    const struct model_layer *l = &r->model->layers[job->layer];
    struct model_scratch *sc = &r->scratch;
    const struct room *m = &job->room;
    const size_t n = job->s->n_tokens;
    const struct model_tensor *in[] = {
        &l->q_a, &l->kv, &l->comp_kv, &l->comp_gate, &l->index_weights, &l->index_comp_kv, &l->index_comp_gate};
    float *const to[] = {m->q_latent, m->kv, m->comp_kv, m->comp_gate, m->index_weights, m->index_kv, m->index_gate};
    const size_t n_in = lh->indexes ? 7 : lh->compress ? 4 : 2, n_b = lh->indexes ? 2 : 1;
    struct kernel_weight w[7];
    struct kernel_acts acts;
    model_norm(r, sc->x, &l->attn_norm, &l->attn_norm_bias, n, sc->h);
    kernel_acts_place(&acts, sc->h, hp->n_embd, n, sc->acts_in);
    for (size_t i = 0; i < n_in; i++) {
        w[i] = model_weight(in[i]);
        kernel_acts_fill(&r->kernel, &acts, w[i].type->form);
    }
    kernel_matmul_many(&r->kernel, w, NULL, n_in, &acts, to);
    kernel_rms_norm_rows(&r->kernel, m->q_latent, model_vector(&l->q_a_norm), hp->mla.q_lora, n, hp->norm_eps,
                         m->q_latent);
    kernel_acts_place(&acts, m->q_latent, hp->mla.q_lora, n, sc->acts_mid);
    w[0] = model_weight(&l->q_b);
    w[1] = model_weight(&l->index_q);
    for (size_t i = 0; i < n_b; i++) kernel_acts_fill(&r->kernel, &acts, w[i].type->form);
    kernel_matmul_many(&r->kernel, w, NULL, n_b, &acts, (float *const[2]){sc->q, m->index_q});
}

/* Norms and rotation (of the last elements of each head), the window's rows, what each token sees. */
static void turn(void *arg, unsigned worker, unsigned n_workers)
{
    struct job *job = arg;
    struct model_run *r = job->r;
    const struct kernel_table *t = r->kernel.table;
    const struct model_hparams *hp = &r->model->hp;
    const struct model_layer_hparams *lh = &hp->layer[job->layer];
    const struct model_layer *l = &r->model->layers[job->layer];
    const struct indexer_kind *x = &hp->indexer;
    const size_t d = lh->d_head_k, n_rot = hp->ropes[lh->rope].n_rot, half = n_rot / 2;
    size_t begin, end;
    kernel_pool_range(worker, n_workers, job->s->n_tokens, 1, &begin, &end);
    for (size_t i = begin; i < end; i++) {
        const float *cos = r->scratch.cos[lh->rope] + i * half, *sin = r->scratch.sin[lh->rope] + i * half;
        const struct model_span *span = model_span_of(job->s, i);
        const size_t pos = model_pos(span, i);
        float *q = r->scratch.q + i * lh->n_head * d, *kv = job->room.kv + i * d;
        for (size_t h = 0; h < lh->n_head; h++) t->rms_norm(q + h * d, NULL, d, hp->norm_eps, q + h * d);
        t->rope(q + d - n_rot, lh->n_head, d, n_rot, cos, sin, false);
        t->rms_norm(kv, model_vector(&l->kv_a_norm), d, hp->norm_eps, kv);
        t->rope(kv + d - n_rot, 1, n_rot, n_rot, cos, sin, false);
        t->store_kv(span->kv->type, kv, d, model_kv_k(span->kv, job->layer, pos));
        job->room.begin[i] = pos + 1 > lh->window ? (uint32_t)(pos + 1 - lh->window) : 0;
        job->room.end[i] = (uint32_t)(pos + 1);
        if (!lh->compress) continue;
        job->room.n_rows[i] = (uint32_t)((pos + 1) / lh->compress);
        job->room.zero[i] = 0;
        if (!lh->indexes) continue;
        float *index_q = job->room.index_q + i * x->n_head * x->d_head;
        t->rope(index_q + x->d_head - n_rot, x->n_head, x->d_head, n_rot, cos, sin, false);
        t->scale(job->room.index_weights + i * x->n_head, 1.0f / sqrtf((float)(x->d_head * x->n_head)), x->n_head);
    }
}

/* ---- compression ---- */

/* Element e of the row of the block that ends at `last`: the softmax over its positions (with overlap those of the
 * block before too, which have channels of their own) weighs their elements. */
static float compress(const struct compressor *c, size_t last, size_t e)
{
    const bool overlap = c->width > c->d;
    const size_t first = last + 1 - c->ratio, n_before = overlap && first ? c->ratio : 0;
    float most = -INFINITY, sum = 0, acc = 0;
    for (int pass = 0; pass < 2; pass++)
        for (size_t p = first - n_before; p <= last; p++) {
            const float *row = c->ring + p % c->n_ring * 2 * c->width + (overlap && p >= first ? c->d : 0) + e;
            const float gate = row[c->width];
            if (pass == 0) {
                if (!(gate <= most)) most = gate;
                continue;
            }
            const float weight = math_exp(gate - most);
            sum += weight;
            acc = fmaf(weight, row[0], acc);
        }
    return acc / sum;
}

/* Token by token; each worker has its own channels. */
static void walk(void *arg, unsigned worker, unsigned n_workers)
{
    struct job *job = arg;
    for (size_t k = 0; k < job->n_comp; k++) {
        const struct compressor *c = &job->comp[k];
        size_t begin, end;
        kernel_pool_range(worker, n_workers, c->d, 16, &begin, &end);
        for (size_t i = 0; i < job->span->n_tokens; i++) {
            const size_t pos = job->span->pos0 + i;
            float *row = c->ring + pos % c->n_ring * 2 * c->width;
            for (size_t half = 0; half < c->width; half += c->d)
                for (size_t e = half + begin; e < half + end; e++) {
                    row[e] = c->kv[i * c->width + e];
                    row[c->width + e] = c->gate[i * c->width + e] + c->pos[pos % c->ratio * c->width + e];
                }
            if ((pos + 1) % c->ratio == 0)
                for (size_t e = begin; e < end; e++) c->out[i * c->d + e] = compress(c, pos, e);
        }
    }
}

/* Norm, rotation to the block's first position, and the cache. */
static void keep_rows(const struct job *job, const struct compressor *c)
{
    struct model_run *r = job->r;
    const struct model_hparams *hp = &r->model->hp;
    const struct model_rope *rope = &hp->ropes[hp->layer[job->layer].rope];
    const size_t half = rope->n_rot / 2;
    float cos[KERNEL_HEAD_MAX / 2], sin[KERNEL_HEAD_MAX / 2];
    for (size_t i = 0; i < job->span->n_tokens; i++) {
        const size_t last = job->span->pos0 + i, first = last + 1 - c->ratio;
        float *out = c->out + i * c->d;
        if ((last + 1) % c->ratio) continue;
        r->kernel.table->rms_norm(out, c->norm, c->d, hp->norm_eps, out);
        model_rope_angles_at(r->kernel.table, rope, r->scratch.freq, first, cos, sin);
        r->kernel.table->rope(out + c->d - 2 * half, 1, 2 * half, 2 * half, cos, sin, false);
        r->kernel.table->store_kv(job->span->kv->type, out, c->d, c->row + first / c->ratio * c->stride_bytes);
    }
}

/* The cache has a record for each block at its first position: attention's row, then the indexer's key. */
static void compress_span(struct job *job)
{
    struct model_run *r = job->r;
    const struct model_hparams *hp = &r->model->hp;
    const struct model_layer_hparams *lh = &hp->layer[job->layer];
    const struct model_layer *l = &r->model->layers[job->layer];
    struct model_kv *kv = job->span->kv;
    const struct room *m = &job->room;
    const size_t d = lh->d_head_k, d_index = hp->indexer.d_head, at = job->span->first;
    struct compressor *a = &job->comp[0], *b = &job->comp[1];
    *a = (struct compressor){.d = d, .width = width_of(lh, (uint32_t)d), .out = m->comp_out + at * d};
    a->kv = m->comp_kv + at * a->width;
    a->gate = m->comp_gate + at * a->width;
    a->pos = model_vector(&l->comp_pos);
    a->norm = model_vector(&l->comp_norm);
    a->ratio = lh->compress;
    a->n_ring = ring_rows(lh);
    a->ring = model_state_of(&kv->state, job->layer);
    a->row = model_kv_v(kv, job->layer, 0);
    a->stride_bytes = a->ratio * kv->layer[job->layer].v_row_bytes;
    job->n_comp = 1;
    if (lh->indexes) {
        *b = *a;
        b->width = width_of(lh, (uint32_t)d_index);
        b->kv = m->index_kv + at * b->width;
        b->gate = m->index_gate + at * b->width;
        b->out = m->index_out + at * d_index;
        b->pos = model_vector(&l->index_comp_pos);
        b->norm = model_vector(&l->index_comp_norm);
        b->d = d_index;
        b->ring = a->ring + a->n_ring * 2 * a->width;
        b->row = a->row + quant_row_bytes(quant_type(kv->type), d);
        job->n_comp = 2;
    }
    kernel_pool_run(r->kernel.pool, walk, job);
    model_rope_frequencies(&hp->ropes[lh->rope], NULL, r->scratch.freq);
    for (size_t i = 0; i < job->n_comp; i++) keep_rows(job, &job->comp[i]);
}

static void choose(const struct job *job)
{
    const struct indexer_kind *x = &job->r->model->hp.indexer;
    const struct room *m = &job->room;
    const size_t at = job->span->first;
    const struct indexer_choice c = {.q = m->index_q + at * x->n_head * x->d_head,
                                     .weights = m->index_weights + at * x->n_head,
                                     .k = job->comp[1].row,
                                     .k_stride_bytes = job->comp[1].stride_bytes,
                                     .type = job->span->kv->type,
                                     .n_head = x->n_head,
                                     .d_head = x->d_head,
                                     .n_tokens = job->span->n_tokens,
                                     .n_rows = m->n_rows + at,
                                     .top_k = x->top_k,
                                     .tile = m->tile + at * INDEXER_TILE,
                                     .best = m->best + at * x->top_k,
                                     .ids = m->ids + at * x->top_k,
                                     .n_ids = m->n_ids + at};
    indexer_choose(&job->r->kernel, &c);
}

/* ---- scores and values, output ---- */

static void attend(const struct job *job)
{
    struct model_run *r = job->r;
    const struct model_hparams *hp = &r->model->hp;
    const struct model_layer_hparams *lh = &hp->layer[job->layer];
    const struct model_kv *kv = job->span->kv;
    const struct room *m = &job->room;
    const void *raw = model_kv_k(kv, job->layer, 0);
    const size_t at = job->span->first, n_q = (size_t)lh->n_head * lh->d_head_k;
    const size_t stride = kv->layer[job->layer].k_row_bytes;
    struct kernel_rows_attention a = {.q = r->scratch.q + at * n_q,
                                      .sets = {{.k = raw,
                                                .v = raw,
                                                .k_stride_bytes = stride,
                                                .v_stride_bytes = stride,
                                                .ring = kv->layer[job->layer].k_ring,
                                                .begin = m->begin + at,
                                                .end = m->end + at}},
                                      .n_sets = 1,
                                      .type = kv->type,
                                      .n_head = lh->n_head,
                                      .d_head = lh->d_head_k,
                                      .d_head_v = lh->d_head_k,
                                      .n_tokens = job->span->n_tokens,
                                      .scale = 1.0f / sqrtf((float)lh->d_head_k),
                                      .sinks = model_vector(&r->model->layers[job->layer].sinks),
                                      .out = r->scratch.attn + at * n_q};
    if (lh->compress) {
        struct kernel_rows *rows = &a.sets[a.n_sets++];
        *rows = (struct kernel_rows){.k = job->comp[0].row, .v = job->comp[0].row};
        rows->k_stride_bytes = rows->v_stride_bytes = job->comp[0].stride_bytes;
        rows->begin = m->zero + at;
        rows->end = m->n_rows + at;
        rows->ids = lh->indexes ? m->ids + at * hp->indexer.top_k : NULL;
        rows->n_ids = lh->indexes ? m->n_ids + at : NULL;
        rows->ids_stride = hp->indexer.top_k;
    }
    kernel_rows_attention_run(&r->kernel, &a);
}

/* Values carry the rotation of their position; that of the query is taken back, so that distances remain. */
static void turn_back(void *arg, unsigned worker, unsigned n_workers)
{
    struct job *job = arg;
    struct model_run *r = job->r;
    const struct model_hparams *hp = &r->model->hp;
    const struct model_layer_hparams *lh = &hp->layer[job->layer];
    const size_t d = lh->d_head_k, n_rot = hp->ropes[lh->rope].n_rot, half = n_rot / 2;
    float back[KERNEL_HEAD_MAX / 2];
    size_t begin, end;
    kernel_pool_range(worker, n_workers, job->s->n_tokens, 1, &begin, &end);
    for (size_t i = begin; i < end; i++) {
        for (size_t e = 0; e < half; e++) back[e] = -r->scratch.sin[lh->rope][i * half + e];
        r->kernel.table->rope(r->scratch.attn + i * lh->n_head * d + d - n_rot, lh->n_head, d, n_rot,
                              r->scratch.cos[lh->rope] + i * half, back, false);
    }
}

void attention_compressed(struct model_run *r, const struct model_step *s, uint32_t layer)
{
    struct job job = {.r = r, .s = s, .layer = layer, .room = {0}, .comp = {{0}}};
    const struct model_hparams *hp = &r->model->hp;
    const struct model_layer_hparams *lh = &hp->layer[layer];
    const struct model_layer *l = &r->model->layers[layer];
    lay_out(hp, lh, r->scratch.extra, r->scratch.chunk, &job.room);
    project(&job);
    kernel_pool_run(r->kernel.pool, turn, &job);
    if (r->cache) expert_pump(r->cache);
    for (size_t i = 0; i < s->n_spans; i++) {
        job.span = &s->spans[i];
        if (lh->compress) compress_span(&job);
        if (lh->indexes) choose(&job);
        attend(&job);
    }
    if (r->cache) expert_pump(r->cache);
    kernel_pool_run(r->kernel.pool, turn_back, &job);
    const size_t group = (size_t)lh->n_head * lh->d_head_k / hp->o_groups;
    const struct heads_product p = {.w = &l->o_a,
                                    .x = r->scratch.attn,
                                    .x_token = group * hp->o_groups,
                                    .x_head = group,
                                    .out = job.room.o_latent,
                                    .out_token = (size_t)hp->o_groups * hp->o_lora,
                                    .out_head = hp->o_lora,
                                    .n_tokens = s->n_tokens};
    heads_product_run(&r->kernel, &p);
    const struct kernel_weight o_b = model_weight(&l->o_b);
    struct kernel_acts acts;
    kernel_acts_place(&acts, job.room.o_latent, o_b.n_in, s->n_tokens, r->scratch.acts_mid);
    kernel_acts_fill(&r->kernel, &acts, o_b.type->form);
    kernel_matmul(&r->kernel, &o_b, NULL, &acts, r->scratch.y);
}
