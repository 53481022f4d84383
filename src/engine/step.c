/* One call of sluice_eval: the prompt in chunks, each chunk through the model, the last token's logits out. The walk of
 * a token is token -> step -> model/arch_* -> model/router -> expert_want -> io_submit; expert_take -> kernel ->
 * expert_give -> logits -> sample. */
#include "engine/engine.h"

#include <inttypes.h>
#include <string.h>

struct rows {
    sluice_session *session;
    size_t first; /* index, in the call, of the chunk's first token */
    sluice_logits_fn *each;
    void *user;
    bool decode, last_chunk;
    size_t last; /* index in the chunk of its last token */
};

static bool take_row(void *user, size_t index, const float *logits)
{
    struct rows *r = user;
    const size_t n_vocab = r->session->engine->model->hp.n_vocab;
    if (r->last_chunk && index == r->last) {
        memcpy(r->session->logits, logits, n_vocab * sizeof *logits);
        r->session->has_logits = true;
    }
    return !r->each || r->each(r->user, r->first + index, logits, n_vocab);
}

static enum sluice_status check_ids(const sluice_session *s, const int32_t *ids, size_t n, struct sluice_error *err)
{
    const uint32_t n_vocab = s->engine->model->hp.n_vocab;
    if (!n) return base_fail(err, SLUICE_ERR_USAGE, NULL, "there are no tokens to evaluate");
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= n_vocab)
            return base_fail(err, SLUICE_ERR_USAGE, "token ids come from this model's own tokenizer",
                             "token %zu of the input is %" PRId32 "; the vocabulary has %" PRIu32 " entries", i, ids[i],
                             n_vocab);
    if (n > s->kv.ctx - s->n)
        return base_fail(err, SLUICE_CONTEXT_FULL, "give a larger --ctx, or a shorter prompt",
                         "the context has room for %" PRIu32 " tokens; %zu are in use and %zu more were given",
                         s->kv.ctx, s->n, n);
    return SLUICE_OK;
}

static enum sluice_status run_chunk(sluice_session *s, const int32_t *ids, size_t n, struct rows *rows,
                                    struct sluice_error *err)
{
    sluice_engine *e = s->engine;
    const struct model_step step = {.ids = ids,
                                    .n_tokens = n,
                                    .pos0 = s->n,
                                    .kv = &s->kv,
                                    .want = rows->each         ? MODEL_LOGITS_ALL
                                            : rows->last_chunk ? MODEL_LOGITS_LAST
                                                               : MODEL_LOGITS_NONE,
                                    .logits = take_row,
                                    .user = rows};
    e->run_tokens = n;
    if (e->trace) trace_step(e->trace, (uint32_t)n, rows->decode);
    if (e->cache) {
        expert_step(e->cache, (uint32_t)n, rows->decode);
        expert_ghosts_begin(e->sizes.ghosts, rows->decode);
    }
    enum sluice_status st = model_forward(&e->run, &step, err);
    if (!st && e->cache) st = io_check_files(e->io, err); /* before anything that was computed from it is handed on */
    if (st) return st;
    memmove(s->ids + s->n, ids, n * sizeof *ids);
    s->n += n;
    return SLUICE_OK;
}

/* Recurrent layers cannot forget: after a rewind (or a step that failed) the tokens since the last checkpoint are
 * computed again. */
static enum sluice_status catch_up(sluice_session *s, struct sluice_error *err)
{
    const size_t n = s->n;
    enum sluice_status st = SLUICE_OK;
    s->n = model_state_rewind(&s->kv.state, n);
    while (s->n < n && !st) {
        struct rows rows = {.session = s};
        const size_t most = n - s->n < s->engine->plan.chunk ? n - s->n : s->engine->plan.chunk;
        st = run_chunk(s, s->ids + s->n, most, &rows, err);
    }
    s->n = n;
    return st;
}

enum sluice_status sluice_eval(sluice_session *s, const int32_t *ids, size_t n, float *logits, sluice_logits_fn *each,
                               void *user, struct sluice_error *err)
{
    sluice_engine *e = s->engine;
    enum sluice_status st = check_ids(s, ids, n, err);
    if (st) return st;
    const bool decode = n == 1 && s->n > 0;
    if (s->fresh && e->cache) {
        expert_prompt(e->cache);
        expert_ghosts_prompt(e->sizes.ghosts);
        if (e->predict) predict_prompt(e->predict);
    }
    if (!decode) known_turn(e);
    known_warm_end(e);
    const uint64_t t0 = e->os->now_ns(e->os->user);
    size_t done = 0;
    s->fresh = s->has_logits = false;
    e->step_total = n;
    st = catch_up(s, err);
    while (done < n && !st) {
        struct route_choice route;
        const size_t most = n - done < e->plan.chunk ? n - done : e->plan.chunk,
                     chunk = routes_begin(e, (uint32_t)most, decode, &route);
        struct rows rows = {.session = s,
                            .first = done,
                            .each = each,
                            .user = user,
                            .decode = decode,
                            .last_chunk = done + chunk == n,
                            .last = chunk - 1};
        e->step_done = done;
        if ((st = run_chunk(s, ids + done, chunk, &rows, err))) break;
        done += chunk;
        routes_end(e, (uint32_t)chunk, decode, &route);
        pressure_relieve(e);
    }
    *(decode ? &e->stats.decode_ns : &e->stats.prefill_ns) += e->os->now_ns(e->os->user) - t0;
    *(decode ? &e->stats.tokens_decode : &e->stats.tokens_prefill) += done;
    if (st) s->has_logits = false;
    if (st == SLUICE_CANCELLED) atomic_store(&e->cancelled, false);
    if (!st && logits) memcpy(logits, s->logits, e->model->hp.n_vocab * sizeof *logits);
    return st;
}
