/* The forward and the backward pass: the layers in order, and in reverse. */
#include "attention.h"
#include "matmul.h"
#include "model.h"
#include "moe.h"
#include "norm.h"

#include <string.h>

static void layer_forward(const struct model *m, int l, float *x_next)
{
    const struct shape *s = &m->shape;
    struct layer_acts a = m->layer[l];
    const struct layer_weights *w = &m->w.layer[l];
    int n = (int)shape_tokens(s), d = s->d_model, q = s->n_head * s->d_head, kv = s->n_head_kv * s->d_head;
    size_t x_bytes = (size_t)n * d * sizeof(float);
    norm_forward(a.x, w->norm_attn, a.attn_in, a.attn_in_inverse, n, d);
    matmul_forward(a.attn_in, w->q, a.q, n, q, d, 0);
    matmul_forward(a.attn_in, w->k, a.k, n, kv, d, 0);
    matmul_forward(a.attn_in, w->v, a.v, n, kv, d, 0);
    norm_forward(a.q, w->norm_q, a.q_in, a.q_inverse, n * s->n_head, s->d_head);
    norm_forward(a.k, w->norm_k, a.k_in, a.k_inverse, n * s->n_head_kv, s->d_head);
    attention_rotate(m, a.q_in, s->n_head, 1);
    attention_rotate(m, a.k_in, s->n_head_kv, 1);
    attention_forward(m, &a);
    memcpy(a.x_mid, a.x, x_bytes);
    matmul_forward(a.heads, w->out, a.x_mid, n, d, q, 1);
    norm_forward(a.x_mid, w->norm_ffn, a.ffn_in, a.ffn_in_inverse, n, d);
    memcpy(x_next, a.x_mid, x_bytes);
    moe_forward(m, &a, w, x_next);
}

/* Cross entropy of one row; the row becomes its gradient (of the mean over n). */
static float row_loss(float *row, int n_vocab, int next, int n)
{
    float top = -1e30f, sum = 0;
    for (int j = 0; j < n_vocab; j++) top = row[j] > top ? row[j] : top;
    float logit = row[next];
    for (int j = 0; j < n_vocab; j++) sum += row[j] = expf(row[j] - top);
    float scale = 1.0f / (sum * n);
    for (int j = 0; j < n_vocab; j++) row[j] *= scale;
    row[next] -= 1.0f / n;
    return logf(sum) + top - logit;
}

float model_forward(struct model *m, const int *tokens, const int *next)
{
    const struct shape *s = &m->shape;
    int n = (int)shape_tokens(s), d = s->d_model;
    double loss = 0;
    for (int i = 0; i < n; i++)
        memcpy(m->layer[0].x + (size_t)i * d, m->w.embedding + (size_t)tokens[i] * d, d * sizeof(float));
    for (int l = 0; l < s->n_layers; l++) layer_forward(m, l, l + 1 < s->n_layers ? m->layer[l + 1].x : m->x_final);
    norm_forward(m->x_final, m->w.norm_final, m->final_in, m->final_inverse, n, d);
    matmul_forward(m->final_in, m->w.embedding, m->logits, n, s->n_vocab, d, 0);
#pragma omp parallel for reduction(+ : loss)
    for (int i = 0; i < n; i++) loss += row_loss(m->logits + (size_t)i * s->n_vocab, s->n_vocab, next[i], n);
    return (float)(loss / n);
}

/* flow.x: gradient of the layer's output; becomes that of its input (the residual stream passes through). */
static void layer_backward(struct model *m, int l, float balance)
{
    const struct shape *s = &m->shape;
    const struct layer_acts *a = &m->layer[l];
    const struct layer_weights *w = &m->w.layer[l], *g = &m->g.layer[l];
    struct flow *f = &m->flow;
    int n = (int)shape_tokens(s), d = s->d_model, q = s->n_head * s->d_head, kv = s->n_head_kv * s->d_head;
    moe_backward(m, a, w, g, f->x, f->normed, balance);
    norm_backward(a->x_mid, w->norm_ffn, a->ffn_in_inverse, f->normed, f->x, g->norm_ffn, n, d, true);
    matmul_weight(f->x, a->heads, g->out, n, d, q);
    matmul_input(f->x, w->out, f->heads, n, d, q, 0);
    attention_backward(m, a);
    attention_rotate(m, f->q_in, s->n_head, -1);
    attention_rotate(m, f->k_in, s->n_head_kv, -1);
    norm_backward(a->q, w->norm_q, a->q_inverse, f->q_in, f->q, g->norm_q, n * s->n_head, s->d_head, false);
    norm_backward(a->k, w->norm_k, a->k_inverse, f->k_in, f->k, g->norm_k, n * s->n_head_kv, s->d_head, false);
    matmul_weight(f->q, a->attn_in, g->q, n, q, d);
    matmul_weight(f->k, a->attn_in, g->k, n, kv, d);
    matmul_weight(f->v, a->attn_in, g->v, n, kv, d);
    matmul_input(f->q, w->q, f->normed, n, q, d, 0);
    matmul_input(f->k, w->k, f->normed, n, kv, d, 1);
    matmul_input(f->v, w->v, f->normed, n, kv, d, 1);
    norm_backward(a->x, w->norm_attn, a->attn_in_inverse, f->normed, f->x, g->norm_attn, n, d, true);
}

void model_backward(struct model *m, const int *tokens, float balance)
{
    const struct shape *s = &m->shape;
    int n = (int)shape_tokens(s), d = s->d_model;
    struct flow *f = &m->flow;
    memset(m->g.all, 0, m->g.n * sizeof(float));
    matmul_weight(m->logits, m->final_in, m->g.embedding, n, s->n_vocab, d);
    matmul_input(m->logits, m->w.embedding, f->normed, n, s->n_vocab, d, 0);
    norm_backward(m->x_final, m->w.norm_final, m->final_inverse, f->normed, f->x, m->g.norm_final, n, d, false);
    for (int l = s->n_layers - 1; l >= 0; l--) layer_backward(m, l, balance);
    for (int i = 0; i < n; i++) { /* the embedding is used twice: as output above, as input here */
        float *g = m->g.embedding + (size_t)tokens[i] * d;
        for (int j = 0; j < d; j++) g[j] += f->x[(size_t)i * d + j];
    }
}
