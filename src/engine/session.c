#include "engine/engine.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum sluice_status sluice_session_open(sluice_engine *e, sluice_session **out, struct sluice_error *err)
{
    *out = NULL;
    if (!e->run.model)
        return base_fail(err, SLUICE_ERR_USAGE, "open the engine without vocab_only and plan_only",
                         "no weights are loaded");
    uint32_t place = 0;
    while (place < e->options.sessions && e->sessions[place]) place++;
    if (place == e->options.sessions)
        return base_fail(err, SLUICE_ERR_USAGE, "close another session first, or open the engine for more",
                         "this engine's KV cache has room for %" PRIu32 " session%s, all of which are open",
                         e->options.sessions, e->options.sessions == 1 ? "" : "s");
    sluice_session *s = calloc(1, sizeof *s);
    if (!s) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for a session");
    const struct model_hparams *hp = &e->model->hp;
    uint8_t *at = (uint8_t *)e->step_ids + engine_step_ids_bytes(e) + place * engine_session_scratch_bytes(e);
    s->engine = e;
    s->place = place;
    s->logits = (float *)at;
    s->sample_scratch = at + ((size_t)hp->n_vocab * sizeof(float) + 63) / 64 * 64;
    s->ids = (int32_t *)(at + engine_session_fixed_bytes(hp) / 64 * 64);
    s->fresh = true;
    s->answer = SIZE_MAX;
    model_kv_place(hp, e->asks.kv_type, e->plan.ctx, e->plan.chunk,
                   (uint8_t *)e->kv.at + place * engine_session_kv_bytes(e), &s->kv);
    struct sluice_sampling p;
    sluice_sampling_init(&p);
    enum sluice_status st = sluice_session_sampling(s, &p, err);
    if (st) {
        free(s);
        return st;
    }
    e->sessions[place] = s;
    *out = s;
    return SLUICE_OK;
}

void sluice_session_close(sluice_session *s)
{
    if (!s) return;
    prefix_leave(s);
    s->engine->sessions[s->place] = NULL;
    free(s->bias);
    free(s);
}

size_t sluice_session_tokens(const sluice_session *s) { return s->n; }

const int32_t *sluice_session_ids(const sluice_session *s) { return s->ids; }

enum sluice_status sluice_session_rewind(sluice_session *s, size_t n, struct sluice_error *err)
{
    if (n > s->n)
        return base_fail(err, SLUICE_ERR_USAGE, NULL, "cannot rewind to %zu tokens: the session has %zu", n, s->n);
    if (n < s->n) s->has_logits = false;
    if (n < s->answer) s->answer = SIZE_MAX;
    s->n = n;
    if (s->keep_to > n) prefix_forget(s);
    if (!n) s->fresh = true;
    return SLUICE_OK;
}

size_t sluice_session_common(const sluice_session *s, const int32_t *ids, size_t n)
{
    size_t same = 0;
    while (same < n && same < s->n && s->ids[same] == ids[same]) same++;
    return same;
}

void sluice_sampling_init(struct sluice_sampling *p)
{
    *p = (struct sluice_sampling){.struct_bytes = sizeof *p,
                                  .temperature = 0.8f,
                                  .top_p = 0.95f,
                                  .min_p = 0.05f,
                                  .repeat_penalty = 1.0f,
                                  .top_k = 40,
                                  .repeat_last = 64};
}

/* A copy that the session will own; *out NULL: there are none. */
static enum sluice_status copy_bias(const sluice_session *s, const struct sluice_sampling *p, struct sample_bias **out,
                                    struct sluice_error *err)
{
    const uint32_t n_vocab = s->engine->model->hp.n_vocab;
    *out = NULL;
    if (!p->n_bias) return SLUICE_OK;
    if (p->n_bias > SLUICE_BIAS_MAX)
        return base_fail(err, SLUICE_ERR_USAGE, NULL, "%zu logit biases are given, at most %d are allowed", p->n_bias,
                         SLUICE_BIAS_MAX);
    if (!p->bias) return base_fail(err, SLUICE_ERR_USAGE, NULL, "n_bias is %zu and bias is NULL", p->n_bias);
    for (size_t i = 0; i < p->n_bias; i++)
        if (p->bias[i].id < 0 || (uint32_t)p->bias[i].id >= n_vocab)
            return base_fail(err, SLUICE_ERR_USAGE, "'sluice tokenize' shows the ids of a text",
                             "a logit bias names token %" PRId32 "; the model has 0 to %" PRIu32, p->bias[i].id,
                             n_vocab - 1);
    *out = malloc(p->n_bias * sizeof **out);
    if (!*out) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for %zu logit biases", p->n_bias);
    for (size_t i = 0; i < p->n_bias; i++) (*out)[i] = (struct sample_bias){p->bias[i].id, p->bias[i].by};
    return SLUICE_OK;
}

void sluice_session_answer(sluice_session *s) { s->answer = s->n; }

enum sluice_status sluice_session_sampling(sluice_session *s, const struct sluice_sampling *p, struct sluice_error *err)
{
    struct sluice_sampling all;
    sluice_sampling_init(&all);
    if (p->struct_bytes < sizeof p->struct_bytes || p->struct_bytes > 4096)
        return base_fail(err, SLUICE_ERR_USAGE, "begin with sluice_sampling_init",
                         "sluice_sampling.struct_bytes is %zu", p->struct_bytes);
    memcpy(&all, p, p->struct_bytes < sizeof all ? p->struct_bytes : sizeof all);
    struct sample_bias *bias;
    enum sluice_status st = copy_bias(s, &all, &bias, err);
    if (st) return st;
    const struct sample_params params = {.temperature = all.temperature,
                                         .top_k = all.top_k,
                                         .top_p = all.top_p,
                                         .min_p = all.min_p,
                                         .repeat_penalty = all.repeat_penalty,
                                         .repeat_last = all.repeat_last,
                                         .presence_penalty = all.presence_penalty,
                                         .frequency_penalty = all.frequency_penalty,
                                         .bias = bias,
                                         .n_bias = bias ? all.n_bias : 0,
                                         .seed = all.seed};
    st = sample_check(&params, err);
    if (st) {
        free(bias);
        return st;
    }
    free(s->bias);
    s->bias = bias;
    s->sampling = params;
    sample_init(&s->random, params.seed);
    return SLUICE_OK;
}

enum sluice_status sluice_sample(sluice_session *s, int32_t *id, struct sluice_error *err)
{
    if (!s->has_logits)
        return base_fail(err, SLUICE_ERR_USAGE, "call sluice_eval first", "there are no logits to sample from");
    *id = (int32_t)sample_token(&s->sampling, &s->random, s->logits, s->engine->model->hp.n_vocab, s->ids, s->n,
                                s->answer, s->sample_scratch);
    return SLUICE_OK;
}
