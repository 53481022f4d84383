#include "model.h"

#include "memory.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define ROPE_BASE 10000.0
#define HEADER_INTS 9

static float *take(float **at, size_t n)
{
    float *here = *at;
    *at += n;
    return here;
}

/* Lays the weights out one after the other, in the file's order. all: room for weights_count() floats. */
static void weights_place(struct weights *w, const struct shape *s, float *all)
{
    size_t d = s->d_model, q = (size_t)s->n_head * s->d_head, kv = (size_t)s->n_head_kv * s->d_head;
    size_t expert = (size_t)s->n_expert * s->d_ff * d;
    float *at = all;
    w->all = all;
    w->embedding = take(&at, s->n_vocab * d);
    for (int l = 0; l < s->n_layers; l++) {
        struct layer_weights *p = &w->layer[l];
        p->norm_attn = take(&at, d);
        p->q = take(&at, q * d);
        p->k = take(&at, kv * d);
        p->v = take(&at, kv * d);
        p->norm_q = take(&at, s->d_head);
        p->norm_k = take(&at, s->d_head);
        p->out = take(&at, d * q);
        p->norm_ffn = take(&at, d);
        p->router = take(&at, s->n_expert * d);
        p->gate = take(&at, expert);
        p->up = take(&at, expert);
        p->down = take(&at, expert);
    }
    w->norm_final = take(&at, d);
    w->n = at - all;
}

static size_t weights_count(const struct shape *s)
{
    size_t d = s->d_model, q = (size_t)s->n_head * s->d_head, kv = (size_t)s->n_head_kv * s->d_head;
    size_t layer = 2 * d + 2 * q * d + 2 * kv * d + 2 * (size_t)s->d_head + s->n_expert * d +
                   3 * (size_t)s->n_expert * s->d_ff * d;
    return s->n_vocab * d + s->n_layers * layer + d;
}

static void create_layer(struct layer_acts *a, const struct shape *s)
{
    size_t n = shape_tokens(s), d = s->d_model, q = (size_t)s->n_head * s->d_head;
    size_t kv = (size_t)s->n_head_kv * s->d_head, slots = n * s->n_used, ff = s->d_ff;
    a->x = memory_floats(n * d);
    a->attn_in = memory_floats(n * d);
    a->attn_in_inverse = memory_floats(n);
    a->q = memory_floats(n * q);
    a->k = memory_floats(n * kv);
    a->v = memory_floats(n * kv);
    a->q_in = memory_floats(n * q);
    a->k_in = memory_floats(n * kv);
    a->q_inverse = memory_floats(n * s->n_head);
    a->k_inverse = memory_floats(n * s->n_head_kv);
    a->attn_probs = memory_floats(n * s->n_head * s->n_window);
    a->heads = memory_floats(n * q);
    a->x_mid = memory_floats(n * d);
    a->ffn_in = memory_floats(n * d);
    a->ffn_in_inverse = memory_floats(n);
    a->router_probs = memory_floats(n * s->n_expert);
    a->mix = memory_floats(slots);
    a->chosen = memory_ints(slots);
    a->slot = memory_ints(slots);
    a->slot_token = memory_ints(slots);
    a->n_slots = memory_ints(s->n_expert);
    a->first_slot = memory_ints(s->n_expert + 1);
    a->expert_in = memory_floats(slots * d);
    a->gate = memory_floats(slots * ff);
    a->up = memory_floats(slots * ff);
    a->hidden = memory_floats(slots * ff);
    a->expert_out = memory_floats(slots * d);
}

static void create_flow(struct flow *f, const struct shape *s)
{
    size_t n = shape_tokens(s), d = s->d_model, q = (size_t)s->n_head * s->d_head;
    size_t kv = (size_t)s->n_head_kv * s->d_head, slots = n * s->n_used, ff = s->d_ff;
    f->x = memory_floats(n * d);
    f->normed = memory_floats(n * d);
    f->q = memory_floats(n * q);
    f->k = memory_floats(n * kv);
    f->v = memory_floats(n * kv);
    f->q_in = memory_floats(n * q);
    f->k_in = memory_floats(n * kv);
    f->heads = memory_floats(n * q);
    f->expert_in = memory_floats(slots * d);
    f->gate = memory_floats(slots * ff);
    f->up = memory_floats(slots * ff);
    f->hidden = memory_floats(slots * ff);
    f->expert_out = memory_floats(slots * d);
    f->mix = memory_floats(slots);
    f->router = memory_floats(n * s->n_expert);
}

struct model *model_create(const struct shape *s)
{
    if (s->n_layers > SHAPE_LAYERS_MAX || s->n_expert > SHAPE_EXPERTS_MAX || s->n_used > SHAPE_USED_MAX ||
        s->n_used > s->n_expert || s->n_head % s->n_head_kv) {
        fprintf(stderr, "train: a shape of %d layers, %d experts, %d used, %d heads over %d is beyond shape.h\n",
                s->n_layers, s->n_expert, s->n_used, s->n_head, s->n_head_kv);
        return NULL;
    }
    struct model *m = memory_zeroed(1, sizeof *m);
    size_t n = shape_tokens(s), half = s->d_head / 2, n_weights = weights_count(s);
    m->shape = *s;
    weights_place(&m->w, s, memory_floats(n_weights));
    weights_place(&m->g, s, memory_floats(n_weights));
    assert(m->w.n == n_weights);
    m->decays = memory_zeroed(n_weights, 1);
    for (int l = 0; l < s->n_layers; l++) create_layer(&m->layer[l], s);
    create_flow(&m->flow, s);
    m->x_final = memory_floats(n * s->d_model);
    m->final_in = memory_floats(n * s->d_model);
    m->final_inverse = memory_floats(n);
    m->logits = memory_floats(n * s->n_vocab);
    m->cos = memory_floats(s->n_window * half);
    m->sin = memory_floats(s->n_window * half);
    for (int t = 0; t < s->n_window; t++)
        for (size_t i = 0; i < half; i++) {
            double angle = t / pow(ROPE_BASE, 2.0 * (double)i / s->d_head);
            m->cos[t * half + i] = (float)cos(angle);
            m->sin[t * half + i] = (float)sin(angle);
        }
    return m;
}

static void destroy_layer(struct layer_acts *a)
{
    float *floats[] = {a->x,
                       a->attn_in,
                       a->attn_in_inverse,
                       a->q,
                       a->k,
                       a->v,
                       a->q_in,
                       a->k_in,
                       a->q_inverse,
                       a->k_inverse,
                       a->attn_probs,
                       a->heads,
                       a->x_mid,
                       a->ffn_in,
                       a->ffn_in_inverse,
                       a->router_probs,
                       a->mix,
                       a->expert_in,
                       a->gate,
                       a->up,
                       a->hidden,
                       a->expert_out};
    int *ints[] = {a->chosen, a->slot, a->slot_token, a->n_slots, a->first_slot};
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++) free(floats[i]);
    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++) free(ints[i]);
}

void model_destroy(struct model *m)
{
    if (!m) return;
    struct flow *f = &m->flow;
    float *floats[] = {
        m->w.all,  m->g.all, m->x_final, m->final_in,  m->final_inverse, m->logits, m->cos,   m->sin,  f->x,
        f->normed, f->q,     f->k,       f->v,         f->q_in,          f->k_in,   f->heads, f->gate, f->up,
        f->hidden, f->mix,   f->router,  f->expert_in, f->expert_out};
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++) free(floats[i]);
    for (int l = 0; l < m->shape.n_layers; l++) destroy_layer(&m->layer[l]);
    free(m->decays);
    free(m);
}

static void init_matrix(struct model *m, struct random *random, float *w, size_t n, float deviation)
{
    for (size_t i = 0; i < n; i++) w[i] = random_gauss(random) * deviation;
    memset(m->decays + (w - m->w.all), 1, n);
}

void model_init(struct model *m, struct random *random)
{
    const struct shape *s = &m->shape;
    size_t d = s->d_model, q = (size_t)s->n_head * s->d_head, kv = (size_t)s->n_head_kv * s->d_head;
    size_t expert = (size_t)s->n_expert * s->d_ff * d;
    float in = 1.0f / sqrtf((float)d);
    float residual = 1.0f / sqrtf(2.0f * s->n_layers);      /* what is added to x shrinks with the depth */
    for (size_t i = 0; i < m->w.n; i++) m->w.all[i] = 1.0f; /* norms stay so */
    init_matrix(m, random, m->w.embedding, s->n_vocab * d, 0.04f);
    for (int l = 0; l < s->n_layers; l++) {
        struct layer_weights *p = &m->w.layer[l];
        init_matrix(m, random, p->q, q * d, in);
        init_matrix(m, random, p->k, kv * d, in);
        init_matrix(m, random, p->v, kv * d, in);
        init_matrix(m, random, p->out, d * q, residual / sqrtf((float)q));
        init_matrix(m, random, p->router, s->n_expert * d, in);
        init_matrix(m, random, p->gate, expert, in);
        init_matrix(m, random, p->up, expert, in);
        init_matrix(m, random, p->down, expert, residual * 1.5f / sqrtf((float)s->d_ff));
    }
}

static void header_of(const struct shape *s, int header[HEADER_INTS])
{
    int h[HEADER_INTS] = {s->n_layers, s->d_model, s->n_head, s->n_head_kv, s->d_head,
                          s->n_expert, s->n_used,  s->d_ff,   s->n_vocab};
    memcpy(header, h, sizeof h);
}

bool model_save(const struct model *m, const char *path)
{
    int header[HEADER_INTS];
    header_of(&m->shape, header);
    FILE *f = fopen(path, "wb");
    if (!f) return false;
    bool good = fwrite(header, sizeof header, 1, f) == 1 && fwrite(m->w.all, sizeof(float), m->w.n, f) == m->w.n;
    return fclose(f) == 0 && good;
}

bool model_load(struct model *m, const char *path)
{
    int header[HEADER_INTS], found[HEADER_INTS];
    header_of(&m->shape, header);
    FILE *f = fopen(path, "rb");
    if (!f) return false;
    bool good = fread(found, sizeof found, 1, f) == 1 && !memcmp(header, found, sizeof header) &&
                fread(m->w.all, sizeof(float), m->w.n, f) == m->w.n;
    fclose(f);
    return good;
}
