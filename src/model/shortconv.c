#include "model/shortconv.h"

#include "model/attention.h"
#include "model/norm.h"

#include <math.h>
#include <string.h>

struct shortconv_job {
    struct model_run *r;
    const struct model_step *s;
    uint32_t layer;
};

uint32_t shortconv_state_floats(const struct model_hparams *hp) { return (hp->n_conv - 1) * hp->n_embd; }

/* Channels [begin, end) through all tokens of a span. State: [n_conv - 1][n_embd], the oldest input first. */
static void convolve_span(const struct shortconv_job *job, const struct model_span *span, size_t begin, size_t end)
{
    const struct model_hparams *hp = &job->r->model->hp;
    const size_t n = hp->n_embd, taps = hp->n_conv;
    const float *filters = model_vector(&job->r->model->layers[job->layer].conv); /* [n_embd][taps] */
    float *state = model_state_of(&span->kv->state, job->layer);
    for (size_t t = span->first; t < span->first + span->n_tokens; t++) {
        const float *b = job->r->scratch.extra + t * 3 * n, *c = b + n, *v = c + n;
        float *out = job->r->scratch.attn + t * n;
        for (size_t i = begin; i < end; i++) {
            const float *filter = filters + i * taps, in = b[i] * v[i];
            float sum = 0;
            for (size_t j = 0; j + 1 < taps; j++) sum = fmaf(state[j * n + i], filter[j], sum);
            sum = fmaf(in, filter[taps - 1], sum);
            out[i] = c[i] * sum;
            for (size_t j = 0; j + 2 < taps; j++) state[j * n + i] = state[(j + 1) * n + i];
            if (taps > 1) state[(taps - 2) * n + i] = in;
        }
    }
}

static void convolve(void *arg, unsigned worker, unsigned n_workers)
{
    struct shortconv_job *job = arg;
    size_t begin, end;
    kernel_pool_range(worker, n_workers, job->r->model->hp.n_embd, 16, &begin, &end);
    for (size_t i = 0; i < job->s->n_spans; i++) convolve_span(job, &job->s->spans[i], begin, end);
}

void shortconv_block(struct model_run *r, const struct model_step *s, uint32_t layer)
{
    const struct model_layer *l = &r->model->layers[layer];
    struct model_scratch *sc = &r->scratch;
    const struct kernel_weight in = model_weight(&l->conv_in), out = model_weight(&l->conv_out);
    const size_t n_embd = r->model->hp.n_embd;
    struct kernel_acts acts;
    model_norm(r, sc->x, &l->attn_norm, &l->attn_norm_bias, s->n_tokens, sc->h);
    kernel_acts_place(&acts, sc->h, n_embd, s->n_tokens, sc->acts_in);
    kernel_acts_fill(&r->kernel, &acts, in.type->form);
    kernel_matmul(&r->kernel, &in, NULL, &acts, sc->extra);
    struct shortconv_job job = {.r = r, .s = s, .layer = layer};
    kernel_pool_run(r->kernel.pool, convolve, &job);
    struct kernel_acts mid;
    kernel_acts_place(&mid, sc->attn, n_embd, s->n_tokens, sc->acts_in);
    kernel_acts_fill(&r->kernel, &mid, out.type->form);
    kernel_matmul(&r->kernel, &out, NULL, &mid, sc->y);
    attention_join(r, s, layer);
}
