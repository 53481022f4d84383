#include "attention.h"

#include "memory.h"

#include <cblas.h>
#include <string.h>

/* Where one head of one window lies: its rows are `stride` floats apart. */
struct head {
    size_t q, k; /* offsets of the first row in [N][H][HD] and in [N][KV][HD] */
    int q_stride, k_stride;
    float *probs; /* [n_window][n_window] */
};

static struct head head_at(const struct model *m, const struct layer_acts *a, int window, int h)
{
    const struct shape *s = &m->shape;
    size_t t = s->n_window, first = window * t, kv = h / (s->n_head / s->n_head_kv);
    return (struct head){
        .q = (first * s->n_head + h) * s->d_head,
        .k = (first * s->n_head_kv + kv) * s->d_head,
        .q_stride = s->n_head * s->d_head,
        .k_stride = s->n_head_kv * s->d_head,
        .probs = a->attn_probs + ((size_t)window * s->n_head + h) * t * t,
    };
}

void attention_rotate(const struct model *m, float *x, int n_heads, float direction)
{
    const struct shape *s = &m->shape;
    int n = (int)shape_tokens(s), half = s->d_head / 2;
#pragma omp parallel for
    for (int i = 0; i < n; i++) {
        const float *c = m->cos + (size_t)(i % s->n_window) * half, *sn = m->sin + (size_t)(i % s->n_window) * half;
        for (int h = 0; h < n_heads; h++) {
            float *p = x + ((size_t)i * n_heads + h) * s->d_head;
            for (int e = 0; e < half; e++) {
                float first = p[e], second = p[e + half], turn = sn[e] * direction;
                p[e] = first * c[e] - second * turn;
                p[e + half] = first * turn + second * c[e];
            }
        }
    }
}

/* Softmax of row i over positions 0..i; what comes later gets 0. */
static void causal_softmax(float *row, int i, int n)
{
    float top = -1e30f, sum = 0;
    for (int j = 0; j <= i; j++) top = row[j] > top ? row[j] : top;
    for (int j = 0; j <= i; j++) {
        row[j] = expf(row[j] - top);
        sum += row[j];
    }
    float scale = 1.0f / sum;
    for (int j = 0; j <= i; j++) row[j] *= scale;
    for (int j = i + 1; j < n; j++) row[j] = 0;
}

void attention_forward(const struct model *m, struct layer_acts *a)
{
    const struct shape *s = &m->shape;
    int t = s->n_window, hd = s->d_head;
    float scale = 1.0f / sqrtf((float)hd);
#pragma omp parallel for collapse(2)
    for (int b = 0; b < s->n_batch; b++)
        for (int h = 0; h < s->n_head; h++) {
            struct head at = head_at(m, a, b, h);
            cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, t, t, hd, scale, a->q_in + at.q, at.q_stride,
                        a->k_in + at.k, at.k_stride, 0, at.probs, t);
            for (int i = 0; i < t; i++) causal_softmax(at.probs + (size_t)i * t, i, t);
            cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, t, hd, t, 1, at.probs, t, a->v + at.k, at.k_stride,
                        0, a->heads + at.q, at.q_stride);
        }
}

/* Gradient of the scores from that of the probabilities, in place. */
static void causal_softmax_backward(float *row, const float *probs, int i, int n, float scale)
{
    float sum = 0;
    for (int j = 0; j <= i; j++) sum += row[j] * probs[j];
    for (int j = 0; j <= i; j++) row[j] = probs[j] * (row[j] - sum) * scale;
    for (int j = i + 1; j < n; j++) row[j] = 0;
}

static void head_backward(struct model *m, const struct layer_acts *a, struct head at, float *dscores)
{
    int t = m->shape.n_window, hd = m->shape.d_head;
    struct flow *f = &m->flow;
    float scale = 1.0f / sqrtf((float)hd);
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, t, hd, t, 1, at.probs, t, f->heads + at.q, at.q_stride, 1,
                f->v + at.k, at.k_stride);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, t, t, hd, 1, f->heads + at.q, at.q_stride, a->v + at.k,
                at.k_stride, 0, dscores, t);
    for (int i = 0; i < t; i++) causal_softmax_backward(dscores + (size_t)i * t, at.probs + (size_t)i * t, i, t, scale);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, t, hd, t, 1, dscores, t, a->k_in + at.k, at.k_stride, 0,
                f->q_in + at.q, at.q_stride);
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, t, hd, t, 1, dscores, t, a->q_in + at.q, at.q_stride, 1,
                f->k_in + at.k, at.k_stride);
}

void attention_backward(struct model *m, const struct layer_acts *a)
{
    const struct shape *s = &m->shape;
    size_t kv_bytes = shape_tokens(s) * s->n_head_kv * s->d_head * sizeof(float);
    int group = s->n_head / s->n_head_kv;
    memset(m->flow.k_in, 0, kv_bytes);
    memset(m->flow.v, 0, kv_bytes);
#pragma omp parallel
    {
        float *dscores = memory_floats((size_t)s->n_window * s->n_window);
        /* The heads of one group add to the same keys and values, so one thread takes them all. */
#pragma omp for collapse(2)
        for (int b = 0; b < s->n_batch; b++)
            for (int kv = 0; kv < s->n_head_kv; kv++)
                for (int h = kv * group; h < (kv + 1) * group; h++) head_backward(m, a, head_at(m, a, b, h), dscores);
        free(dscores);
    }
}
