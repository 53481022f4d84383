#include "model/hyper.h"

#include "base/math.h"

#include <math.h>
#include <string.h>

#define N HYPER_STREAMS
#define MIXES (N * (N + 2)) /* of a token: input weights, output weights, matrix */

struct hyper_job {
    struct model_run *r;
    size_t n_tokens;
    const float *base, *scale;
    bool last; /* input weights alone */
    const float *y;
};

/* scratch.extra: streams [chunk][N][n_embd], normed [chunk][N * n_embd], mixes [chunk][MIXES]. */
uint32_t hyper_floats(const struct model_hparams *hp) { return 2 * N * hp->n_embd + MIXES; }

static float *streams_of(const struct model_run *r) { return r->scratch.extra; }

static float *normed_of(const struct model_run *r)
{
    return r->scratch.extra + (size_t)N * r->model->hp.n_embd * r->scratch.chunk;
}

static float *mixes_of(const struct model_run *r)
{
    return r->scratch.extra + (size_t)2 * N * r->model->hp.n_embd * r->scratch.chunk;
}

void hyper_begin(struct model_run *r, const struct model_step *s)
{
    const size_t n = r->model->hp.n_embd;
    for (size_t t = 0; t < s->n_tokens; t++)
        for (size_t i = 0; i < N; i++) memcpy(streams_of(r) + (t * N + i) * n, r->scratch.x + t * n, n * sizeof(float));
}

static float sigmoid(float x) { return 1.0f / (1.0f + math_exp(-x)); }

/* Sinkhorn's iterations on m[from][to]: rows and columns are divided by their sums in turn. */
static void balance(float m[N][N], uint32_t n, float eps)
{
    for (uint32_t step = 0; step < 2 * n - 1; step++)
        for (int i = 0; i < N; i++) {
            const bool columns = step % 2 == 0;
            float sum = 0;
            for (int j = 0; j < N; j++) sum += columns ? m[j][i] : m[i][j];
            sum += eps;
            for (int j = 0; j < N; j++) *(columns ? &m[j][i] : &m[i][j]) /= sum;
        }
}

/* A token's products to weights, in place. */
static void weigh(const struct hyper_job *job, float *mix)
{
    const struct hyper_kind *kind = &job->r->model->hp.hyper;
    for (int i = 0; i < N; i++) mix[i] = sigmoid(mix[i] * job->scale[0] + job->base[i]) + kind->eps;
    if (job->last) return;
    for (int i = N; i < 2 * N; i++) mix[i] = sigmoid(mix[i] * job->scale[1] + job->base[i]) * 2.0f;
    float m[N][N];
    for (int from = 0; from < N; from++) {
        float most = -INFINITY, sum = 0;
        for (int to = 0; to < N; to++) {
            const int at = 2 * N + from * N + to;
            m[from][to] = mix[at] * job->scale[2] + job->base[at];
            if (!(m[from][to] <= most)) most = m[from][to];
        }
        for (int to = 0; to < N; to++) sum += m[from][to] = math_exp(m[from][to] - most);
        for (int to = 0; to < N; to++) m[from][to] = m[from][to] / sum + kind->eps;
    }
    balance(m, kind->sinkhorn, kind->eps);
    memcpy(mix + 2 * N, m, sizeof m);
}

static void split_rows(void *arg, unsigned worker, unsigned n_workers)
{
    struct hyper_job *job = arg;
    const size_t n = job->r->model->hp.n_embd, n_mix = job->last ? N : MIXES;
    size_t begin, end;
    kernel_pool_range(worker, n_workers, job->n_tokens, 1, &begin, &end);
    for (size_t t = begin; t < end; t++) {
        float *mix = mixes_of(job->r) + t * n_mix, *x = job->r->scratch.x + t * n;
        const float *streams = streams_of(job->r) + t * N * n;
        weigh(job, mix);
        memset(x, 0, n * sizeof *x);
        for (size_t i = 0; i < N; i++) job->r->kernel.table->add_scaled(x, streams + i * n, mix[i], n);
    }
}

static void split(struct hyper_job *job, const struct model_tensor *fn)
{
    struct model_run *r = job->r;
    const struct kernel_weight w = model_weight(fn);
    const size_t n = (size_t)N * r->model->hp.n_embd;
    struct kernel_acts acts;
    kernel_rms_norm_rows(&r->kernel, streams_of(r), NULL, n, job->n_tokens, r->model->hp.norm_eps, normed_of(r));
    kernel_acts_place(&acts, normed_of(r), n, job->n_tokens, r->scratch.acts_mid);
    kernel_acts_fill(&r->kernel, &acts, w.type->form);
    kernel_matmul(&r->kernel, &w, NULL, &acts, mixes_of(r));
    kernel_pool_run(r->kernel.pool, split_rows, job);
}

void hyper_split(struct model_run *r, const struct model_step *s, uint32_t layer, enum hyper_block block)
{
    const struct model_layer *l = &r->model->layers[layer];
    struct hyper_job job = {.r = r,
                            .n_tokens = s->n_tokens,
                            .base = model_vector(&l->hyper_base[block]),
                            .scale = model_vector(&l->hyper_scale[block])};
    split(&job, &l->hyper_fn[block]);
}

void hyper_narrow(struct model_run *r, const struct model_step *rest)
{
    model_narrow_rows(rest, streams_of(r), (size_t)N * r->model->hp.n_embd);
}

void hyper_end(struct model_run *r, const struct model_step *s)
{
    const struct model *m = r->model;
    struct hyper_job job = {.r = r,
                            .n_tokens = s->n_tokens,
                            .base = model_vector(&m->hyper_base),
                            .scale = model_vector(&m->hyper_scale),
                            .last = true};
    split(&job, &m->hyper_fn);
}

static void join_rows(void *arg, unsigned worker, unsigned n_workers)
{
    struct hyper_job *job = arg;
    const size_t n = job->r->model->hp.n_embd;
    size_t begin, end;
    kernel_pool_range(worker, n_workers, job->n_tokens, 1, &begin, &end);
    for (size_t t = begin; t < end; t++) {
        const float *mix = mixes_of(job->r) + t * MIXES, *out = mix + N, *m = mix + 2 * N, *y = job->y + t * n;
        float *streams = streams_of(job->r) + t * N * n;
        for (size_t e = 0; e < n; e++) {
            float to[N];
            for (size_t i = 0; i < N; i++) {
                to[i] = y[e] * out[i];
                for (size_t from = 0; from < N; from++) to[i] = fmaf(streams[from * n + e], m[from * N + i], to[i]);
            }
            for (size_t i = 0; i < N; i++) streams[i * n + e] = to[i];
        }
    }
}

void hyper_join(struct model_run *r, const struct model_step *s, const float *y)
{
    struct hyper_job job = {.r = r, .n_tokens = s->n_tokens, .y = y};
    kernel_pool_run(r->kernel.pool, join_rows, &job);
}
