#include "moe.h"

#include "matmul.h"

#include <cblas.h>
#include <string.h>

/* row: the router's logits of one token; becomes the softmax over all experts (for the balancing loss). */
static void choose(float *row, int *chosen, float *mix, int n_expert, int n_used)
{
    float logit[SHAPE_USED_MAX], sum = 0, top = -1e30f;
    for (int k = 0; k < n_used; k++) {
        int best = -1;
        for (int e = 0; e < n_expert; e++) {
            bool taken = false;
            for (int j = 0; j < k; j++) taken |= chosen[j] == e;
            if (!taken && (best < 0 || row[e] > row[best])) best = e;
        }
        chosen[k] = best;
        logit[k] = row[best];
    }
    for (int k = 0; k < n_used; k++) sum += logit[k] = expf(logit[k] - row[chosen[0]]);
    for (int k = 0; k < n_used; k++) mix[k] = logit[k] / sum;
    for (int e = 0; e < n_expert; e++) top = row[e] > top ? row[e] : top;
    sum = 0;
    for (int e = 0; e < n_expert; e++) sum += row[e] = expf(row[e] - top);
    for (int e = 0; e < n_expert; e++) row[e] /= sum;
}

/* Sorts the N * K choices by expert. */
static void sort_slots(struct layer_acts *a, int n_choices, int n_expert, int n_used)
{
    int next[SHAPE_EXPERTS_MAX];
    memset(a->n_slots, 0, n_expert * sizeof(int));
    for (int i = 0; i < n_choices; i++) a->n_slots[a->chosen[i]]++;
    a->first_slot[0] = 0;
    for (int e = 0; e < n_expert; e++) a->first_slot[e + 1] = a->first_slot[e] + a->n_slots[e];
    memcpy(next, a->first_slot, n_expert * sizeof(int));
    for (int i = 0; i < n_choices; i++) {
        int slot = next[a->chosen[i]]++;
        a->slot[i] = slot;
        a->slot_token[slot] = i / n_used;
    }
}

/* out[n][n_out] = x[n][n_in] w^T, on this thread alone. */
static void product(const float *x, const float *w, float *out, int n, int n_out, int n_in)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n, n_out, n_in, 1, x, n_in, w, n_in, 0, out, n_out);
}

static void expert_forward(const struct shape *s, struct layer_acts *a, const struct layer_weights *w, int e)
{
    int n = a->n_slots[e], d = s->d_model, ff = s->d_ff;
    size_t at = a->first_slot[e], weight = (size_t)e * ff * d;
    float *gate = a->gate + at * ff, *up = a->up + at * ff, *hidden = a->hidden + at * ff;
    product(a->expert_in + at * d, w->gate + weight, gate, n, ff, d);
    product(a->expert_in + at * d, w->up + weight, up, n, ff, d);
    for (size_t i = 0; i < (size_t)n * ff; i++) hidden[i] = gate[i] / (1.0f + expf(-gate[i])) * up[i];
    product(hidden, w->down + weight, a->expert_out + at * d, n, d, ff);
}

void moe_forward(const struct model *m, struct layer_acts *a, const struct layer_weights *w, float *out)
{
    const struct shape *s = &m->shape;
    int n = (int)shape_tokens(s), d = s->d_model, k_used = s->n_used;
    matmul_forward(a->ffn_in, w->router, a->router_probs, n, s->n_expert, d, 0);
#pragma omp parallel for
    for (int i = 0; i < n; i++)
        choose(a->router_probs + (size_t)i * s->n_expert, a->chosen + i * k_used, a->mix + i * k_used, s->n_expert,
               k_used);
    sort_slots(a, n * k_used, s->n_expert, k_used);
#pragma omp parallel for
    for (int slot = 0; slot < n * k_used; slot++)
        memcpy(a->expert_in + (size_t)slot * d, a->ffn_in + (size_t)a->slot_token[slot] * d, d * sizeof(float));
#pragma omp parallel for schedule(dynamic, 1)
    for (int e = 0; e < s->n_expert; e++)
        if (a->n_slots[e]) expert_forward(s, a, w, e);
#pragma omp parallel for
    for (int i = 0; i < n; i++)
        for (int k = 0; k < k_used; k++) {
            float mix = a->mix[i * k_used + k], *x = out + (size_t)i * d;
            const float *y = a->expert_out + (size_t)a->slot[i * k_used + k] * d;
            for (int j = 0; j < d; j++) x[j] += mix * y[j];
        }
}

static void expert_backward(const struct shape *s, const struct layer_acts *a, const struct layer_weights *w,
                            const struct layer_weights *g, const struct flow *f, int e)
{
    int n = a->n_slots[e], d = s->d_model, ff = s->d_ff;
    size_t at = a->first_slot[e], weight = (size_t)e * ff * d;
    const float *gate = a->gate + at * ff, *up = a->up + at * ff, *hidden = a->hidden + at * ff;
    const float *in = a->expert_in + at * d, *dout = f->expert_out + at * d;
    float *dhidden = f->hidden + at * ff, *dgate = f->gate + at * ff, *dup = f->up + at * ff,
          *din = f->expert_in + at * d;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, ff, d, 1, dout, d, w->down + weight, ff, 0, dhidden, ff);
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, d, ff, n, 1, dout, d, hidden, ff, 1, g->down + weight, ff);
    for (size_t i = 0; i < (size_t)n * ff; i++) {
        float sigmoid = 1.0f / (1.0f + expf(-gate[i]));
        dgate[i] = dhidden[i] * up[i] * sigmoid * (1.0f + gate[i] * (1.0f - sigmoid));
        dup[i] = dhidden[i] * gate[i] * sigmoid;
    }
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, ff, d, n, 1, dgate, ff, in, d, 1, g->gate + weight, d);
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, ff, d, n, 1, dup, ff, in, d, 1, g->up + weight, d);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, d, ff, 1, dgate, ff, w->gate + weight, d, 0, din, d);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, d, ff, 1, dup, ff, w->up + weight, d, 1, din, d);
}

/* Gradient of one token's router logits: through the softmax over all (balancing) and the one over the chosen. */
static void router_backward(const struct shape *s, const struct layer_acts *a, const struct flow *f,
                            const float *dprobs, int i)
{
    const float *probs = a->router_probs + (size_t)i * s->n_expert, *mix = a->mix + i * s->n_used;
    const float *dmix = f->mix + i * s->n_used;
    float *dlogits = f->router + (size_t)i * s->n_expert, sum = 0;
    for (int e = 0; e < s->n_expert; e++) sum += probs[e] * dprobs[e];
    for (int e = 0; e < s->n_expert; e++) dlogits[e] = probs[e] * (dprobs[e] - sum);
    sum = 0;
    for (int k = 0; k < s->n_used; k++) sum += mix[k] * dmix[k];
    for (int k = 0; k < s->n_used; k++) dlogits[a->chosen[i * s->n_used + k]] += mix[k] * (dmix[k] - sum);
}

/* dout of each token -> gradient of its experts' outputs and of their mixing weights. */
static void mix_backward(const struct shape *s, const struct layer_acts *a, const struct flow *f, const float *dout,
                         int i)
{
    int d = s->d_model;
    for (int k = 0; k < s->n_used; k++) {
        size_t slot = a->slot[i * s->n_used + k];
        const float *dx = dout + (size_t)i * d, *y = a->expert_out + slot * d;
        float *dy = f->expert_out + slot * d, mix = a->mix[i * s->n_used + k], along = 0;
        for (int j = 0; j < d; j++) {
            along += dx[j] * y[j];
            dy[j] = mix * dx[j];
        }
        f->mix[i * s->n_used + k] = along;
    }
}

void moe_backward(struct model *m, const struct layer_acts *a, const struct layer_weights *w,
                  const struct layer_weights *g, const float *dout, float *dx, float balance)
{
    const struct shape *s = &m->shape;
    const struct flow *f = &m->flow;
    int n = (int)shape_tokens(s), d = s->d_model;
    float dprobs[SHAPE_EXPERTS_MAX]; /* of the balancing loss; the same for every token */
#pragma omp parallel for
    for (int i = 0; i < n; i++) mix_backward(s, a, f, dout, i);
#pragma omp parallel for schedule(dynamic, 1)
    for (int e = 0; e < s->n_expert; e++)
        if (a->n_slots[e]) expert_backward(s, a, w, g, f, e);
    for (int e = 0; e < s->n_expert; e++)
        dprobs[e] = balance * s->n_expert * a->n_slots[e] / (float)(n * s->n_used) / n;
#pragma omp parallel for
    for (int i = 0; i < n; i++) {
        router_backward(s, a, f, dprobs, i);
        float *dxi = dx + (size_t)i * d;
        memset(dxi, 0, d * sizeof(float));
        for (int k = 0; k < s->n_used; k++) {
            const float *din = f->expert_in + (size_t)a->slot[i * s->n_used + k] * d;
            for (int j = 0; j < d; j++) dxi[j] += din[j];
        }
    }
    matmul_weight(f->router, a->ffn_in, g->router, n, s->n_expert, d);
    matmul_input(f->router, w->router, dx, n, s->n_expert, d, 1);
}
