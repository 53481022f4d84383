#include "model/forward.h"

#include "base/assert.h"
#include "base/math.h"

#include "model/arch.h"
#include "model/foresight.h"
#include "model/norm.h"
#include "model/rope.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static void embed(struct model_run *r, const struct model_step *s)
{
    const struct model_tensor *e = &r->model->token_embd;
    const size_t n = r->model->hp.n_embd, row_bytes = quant_row_bytes(e->type, n);
    for (size_t t = 0; t < s->n_tokens; t++)
        e->type->decode((const uint8_t *)e->data + (size_t)s->ids[t] * row_bytes, r->scratch.x + t * n, n);
    if (r->model->hp.embedding_scale != 1)
        r->kernel.table->scale(r->scratch.x, r->model->hp.embedding_scale, s->n_tokens * n);
}

/* A NaN or infinity means damaged weights (or a model that overflows): the next token would be nonsense. */
static enum sluice_status check_finite(const struct model_run *r, const struct model_step *s, const float *logits,
                                       size_t n, size_t index, struct sluice_error *err)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(logits[i]))
            return base_fail(err, SLUICE_ERR_MODEL,
                             "the file's weights are damaged or overflow; compare its checksum with the publisher's",
                             "%s: the logits at position %zu are not finite (vocabulary entry %zu)", r->model->path,
                             model_pos(model_span_of(s, index), index), i);
    return SLUICE_OK;
}

/* What the product of one row of logits still lacks. */
static void finish_logits(const struct model_run *r, float *row)
{
    const struct model *m = r->model;
    const struct model_hparams *hp = &m->hp;
    const float *scale = model_vector(&m->output_scale), cap = hp->logit_softcap;
    if (scale) r->kernel.table->scale(row, *scale, hp->n_vocab);
    if (m->output_bias.name) r->kernel.table->add(row, model_vector(&m->output_bias), hp->n_vocab);
    if (hp->logit_scale != 1) r->kernel.table->scale(row, hp->logit_scale, hp->n_vocab);
    for (size_t i = 0; cap != 0 && i < hp->n_vocab; i++) row[i] = cap * math_tanh(row[i] / cap);
}

const struct model_step *model_narrow(struct model_run *r, const struct model_step *s, uint32_t layer)
{
    struct model_rest *rest = r->rest;
    if (!model_narrows(r, s, layer)) return s;
    if (rest->of == s) return &rest->step;
    const size_t n = s->want == MODEL_LOGITS_NONE ? 0 : s->n_spans;
    BASE_ASSERT(n <= MODEL_SPANS_MAX, "a step has at most 64 spans");
    for (size_t i = 0; i < n; i++) {
        const struct model_span *span = &s->spans[i];
        const size_t last = span->first + span->n_tokens - 1;
        rest->spans[i] =
            (struct model_span){.kv = span->kv, .first = i, .n_tokens = 1, .pos0 = span->pos0 + span->n_tokens - 1};
        rest->ids[i] = s->ids[last];
        rest->origin[i] = (uint32_t)last;
    }
    rest->step = *s;
    rest->step.ids = rest->ids;
    rest->step.n_tokens = rest->step.n_spans = n;
    rest->step.spans = rest->spans;
    rest->step.origin = rest->origin;
    rest->of = s;
    model_narrow_rows(&rest->step, r->scratch.x, r->model->hp.n_embd);
    return &rest->step;
}

/* Final norm and output product for the step's tokens rows[0, n), n <= MODEL_LOGITS_ROWS, ascending. */
static enum sluice_status logits_of(struct model_run *r, const struct model_step *s, const size_t *rows, size_t n,
                                    struct sluice_error *err)
{
    const struct model *m = r->model;
    struct model_scratch *sc = &r->scratch;
    const size_t n_embd = m->hp.n_embd, n_vocab = m->hp.n_vocab;
    const struct kernel_weight w = model_weight(&m->output);
    for (size_t i = 0; i < n; i++) memcpy(sc->h + i * n_embd, sc->x + rows[i] * n_embd, n_embd * sizeof *sc->h);
    model_norm(r, sc->h, &m->output_norm, &m->output_norm_bias, n, sc->h);
    struct kernel_acts acts;
    kernel_acts_place(&acts, sc->h, n_embd, n, sc->acts_in);
    kernel_acts_fill(&r->kernel, &acts, w.type->form);
    kernel_matmul(&r->kernel, &w, NULL, &acts, sc->logits);
    for (size_t i = 0; i < n; i++) {
        float *row = sc->logits + i * n_vocab;
        finish_logits(r, row);
        enum sluice_status st = check_finite(r, s, row, n_vocab, rows[i], err);
        if (st) return st;
        if (!s->logits(s->user, s->origin ? s->origin[rows[i]] : rows[i], row))
            return base_fail(err, SLUICE_CANCELLED, NULL, "stopped on request");
    }
    return SLUICE_OK;
}

/* The rows that the caller wants, MODEL_LOGITS_ROWS at a time. */
static enum sluice_status all_logits(struct model_run *r, const struct model_step *s, struct sluice_error *err)
{
    enum sluice_status st = SLUICE_OK;
    size_t rows[MODEL_LOGITS_ROWS], n = 0;
    for (size_t i = 0; i < s->n_spans; i++) {
        const size_t end = s->spans[i].first + s->spans[i].n_tokens;
        for (size_t t = s->want == MODEL_LOGITS_LAST ? end - 1 : s->spans[i].first; t < end; t++) {
            rows[n++] = t;
            if (n < MODEL_LOGITS_ROWS) continue;
            if ((st = logits_of(r, s, rows, n, err))) return st;
            n = 0;
        }
    }
    return n ? logits_of(r, s, rows, n, err) : SLUICE_OK;
}

enum sluice_status model_forward(struct model_run *r, const struct model_step *s, struct sluice_error *err)
{
    for (size_t i = 0; i < s->n_spans; i++) {
        struct model_state *state = &s->spans[i].kv->state;
        BASE_ASSERT(!state->bytes || (!(state->floats && state->broken) && state->at == s->spans[i].pos0),
                    "M7 the state stands at the span's first position");
        model_state_begin(state, s->spans[i].n_tokens);
    }
    if (r->rest) r->rest->of = NULL;
    embed(r, s);
    model_rope_angles(r, s);
    if (r->cache) foresight_begin(r, s);
    for (uint32_t layer = 0; layer < r->model->hp.n_layer; layer++) {
        if (r->go_on && !r->go_on(r->user, layer)) return base_fail(err, SLUICE_CANCELLED, NULL, "stopped on request");
        enum sluice_status st = r->model->arch->layer(r, s, layer, err);
        if (st) return st;
    }
    for (size_t i = 0; i < s->n_spans; i++)
        model_state_end(&s->spans[i].kv->state, s->spans[i].n_tokens,
                        s->spans[i].n_tokens > 1 && s->want != MODEL_LOGITS_NONE);
    if (r->cache) {
        expert_tick(r->cache, (uint32_t)s->n_tokens);
        if (r->ghosts) expert_ghosts_tick(r->ghosts, (uint32_t)s->n_tokens);
        if (r->usage) expert_usage_tick(r->usage, (uint32_t)s->n_tokens);
        foresight_end(r, s);
    }
    return s->want == MODEL_LOGITS_NONE ? SLUICE_OK : all_logits(r, r->rest && r->rest->of ? &r->rest->step : s, err);
}
