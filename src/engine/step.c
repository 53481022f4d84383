/* One step of the engine: a chunk of tokens through the model, the wanted logits out. sluice_eval cuts a prompt of one
 * session into chunks; sluice_eval_together makes one step of the tokens of several. The walk of
 * a token is token -> step -> model/arch_* -> model/router -> expert_want -> io_submit; expert_take -> kernel ->
 * expert_give -> logits -> sample. */
#include "engine/engine.h"

#include <inttypes.h>
#include <string.h>

/* The tokens of one step, by session. */
struct step {
    sluice_engine *engine;
    const struct sluice_part *parts;
    size_t n_parts;
    const int32_t *ids; /* of all parts, [n_tokens] */
    size_t n_tokens;
    bool decode;                        /* one token for each session, sampled from its logits or as good as that */
    enum { KEEP_NONE, KEEP_LAST } keep; /* whether each session gets the logits of its last token */
    /* for sluice_eval alone: all logits of its chunk */
    sluice_logits_fn *each;
    void *user;
    size_t first; /* index, in the call, of the chunk's first token */
};

static bool take_row(void *user, size_t index, const float *logits)
{
    const struct step *step = user;
    const size_t n_vocab = step->engine->model->hp.n_vocab;
    size_t end = 0;
    for (size_t i = 0; i < step->n_parts && step->keep == KEEP_LAST; i++) {
        sluice_session *s = step->parts[i].session;
        end += step->parts[i].n;
        if (index != end - 1) continue;
        memcpy(s->logits, logits, n_vocab * sizeof *logits);
        s->has_logits = true;
    }
    return !step->each || step->each(step->user, step->first + index, logits, n_vocab);
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

static enum sluice_status run_step(const struct step *step, struct sluice_error *err)
{
    sluice_engine *e = step->engine;
    struct model_span spans[ENGINE_SESSIONS_MAX];
    size_t n = 0;
    for (size_t i = 0; i < step->n_parts; i++) {
        sluice_session *s = step->parts[i].session;
        spans[i] = (struct model_span){.kv = &s->kv, .first = n, .n_tokens = step->parts[i].n, .pos0 = s->n};
        n += step->parts[i].n;
    }
    const struct model_step forward = {.ids = step->ids,
                                       .n_tokens = step->n_tokens,
                                       .spans = spans,
                                       .n_spans = step->n_parts,
                                       .want = step->each                ? MODEL_LOGITS_ALL
                                               : step->keep == KEEP_LAST ? MODEL_LOGITS_LAST
                                                                         : MODEL_LOGITS_NONE,
                                       .logits = take_row,
                                       .user = (void *)step};
    e->run_tokens = step->n_tokens;
    if (e->trace) trace_step(e->trace, (uint32_t)step->n_tokens, step->decode);
    if (e->cache) {
        expert_step(e->cache, (uint32_t)step->n_tokens, step->decode);
        expert_ghosts_begin(e->sizes.ghosts, step->decode);
    }
    enum sluice_status st = model_forward(&e->run, &forward, err);
    if (e->cache && (!st || st == SLUICE_ERR_MODEL || st == SLUICE_ERR_IO)) {
        /* Before anything that was computed from it is handed on; and a file that was changed is the better reason. */
        const enum sluice_status changed = io_check_files(e->io, err);
        e->stats.files_changed = changed != SLUICE_OK;
        if (changed) st = changed;
    }
    if (st) return st;
    for (size_t i = 0; i < step->n_parts; i++) {
        sluice_session *s = step->parts[i].session;
        memmove(s->ids + s->n, step->parts[i].ids, step->parts[i].n * sizeof *s->ids);
        s->n += step->parts[i].n;
    }
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
        const size_t most = n - s->n < s->engine->plan.chunk ? n - s->n : s->engine->plan.chunk;
        const struct sluice_part part = {.session = s, .ids = s->ids + s->n, .n = most};
        const struct step step = {.engine = s->engine, .parts = &part, .n_parts = 1, .ids = part.ids, .n_tokens = most};
        st = run_step(&step, err);
    }
    s->n = n;
    return st;
}

/* What has to be settled before tokens are evaluated. */
static enum sluice_status begin(sluice_engine *e, const struct sluice_part *parts, size_t n_parts, bool decode,
                                struct sluice_error *err)
{
    bool fresh = e->cache != NULL;
    for (size_t i = 0; i < ENGINE_SESSIONS_MAX; i++) fresh = fresh && (!e->sessions[i] || e->sessions[i]->fresh);
    if (fresh) { /* a new prompt, and nobody else is in the middle of one */
        expert_prompt(e->cache);
        expert_ghosts_prompt(e->sizes.ghosts);
        if (e->predict) predict_prompt(e->predict);
    }
    if (!decode) known_turn(e);
    known_warm_end(e);
    prefix_poll(e);
    enum sluice_status st = SLUICE_OK;
    for (size_t i = 0; i < n_parts; i++) parts[i].session->fresh = parts[i].session->has_logits = false;
    for (size_t i = 0; i < n_parts && !st; i++) st = catch_up(parts[i].session, err);
    return st;
}

static void end(sluice_engine *e, size_t n_tokens, bool decode, uint64_t t0, enum sluice_status st)
{
    *(decode ? &e->stats.decode_ns : &e->stats.prefill_ns) += e->os->now_ns(e->os->user) - t0;
    *(decode ? &e->stats.tokens_decode : &e->stats.tokens_prefill) += n_tokens;
    if (st == SLUICE_CANCELLED) atomic_store(&e->cancelled, false);
}

/* A token behind another whose logits could be sampled. The last of a prompt of which all else was known is not: it is
 * the prompt's. */
static bool decodes(const struct sluice_part *p) { return p->n == 1 && p->session->has_logits; }

enum sluice_status sluice_eval(sluice_session *s, const int32_t *ids, size_t n, float *logits, sluice_logits_fn *each,
                               void *user, struct sluice_error *err)
{
    sluice_engine *e = s->engine;
    enum sluice_status st = check_ids(s, ids, n, err);
    if (st) return st;
    const struct sluice_part whole = {.session = s, .ids = ids, .n = n};
    const bool decode = decodes(&whole);
    const uint64_t t0 = e->os->now_ns(e->os->user);
    size_t done = 0;
    e->step_total = n;
    st = begin(e, &whole, 1, decode, err);
    while (done < n && !st) {
        struct route_choice route;
        const size_t most = n - done < e->plan.chunk ? n - done : e->plan.chunk,
                     chunk = routes_begin(e, (uint32_t)most, decode, true, &route);
        const struct sluice_part part = {.session = s, .ids = ids + done, .n = chunk};
        const struct step step = {.engine = e,
                                  .parts = &part,
                                  .n_parts = 1,
                                  .ids = part.ids,
                                  .n_tokens = chunk,
                                  .decode = decode,
                                  .keep = done + chunk == n ? KEEP_LAST : KEEP_NONE,
                                  .each = each,
                                  .user = user,
                                  .first = done};
        e->step_done = done;
        if ((st = run_step(&step, err))) break;
        done += chunk;
        routes_end(e, (uint32_t)chunk, decode, &route);
        pressure_relieve(e);
    }
    end(e, done, decode, t0, st);
    if (st) s->has_logits = false;
    if (!st && logits) memcpy(logits, s->logits, e->model->hp.n_vocab * sizeof *logits);
    return st;
}

static enum sluice_status check_parts(const sluice_engine *e, const struct sluice_part *parts, size_t n_parts,
                                      size_t *n_tokens, struct sluice_error *err)
{
    if (!n_parts) return base_fail(err, SLUICE_ERR_USAGE, NULL, "there is no session to evaluate");
    *n_tokens = 0;
    for (size_t i = 0; i < n_parts; i++) {
        if (parts[i].session->engine != e)
            return base_fail(err, SLUICE_ERR_USAGE, NULL, "part %zu of the step is a session of another engine", i);
        for (size_t j = 0; j < i; j++)
            if (parts[j].session == parts[i].session)
                return base_fail(err, SLUICE_ERR_USAGE, "give its tokens in one part",
                                 "parts %zu and %zu of the step are the same session", j, i);
        enum sluice_status st = check_ids(parts[i].session, parts[i].ids, parts[i].n, err);
        if (st) return st;
        *n_tokens += parts[i].n;
    }
    if (*n_tokens > e->plan.chunk)
        return base_fail(err, SLUICE_ERR_USAGE, "evaluate them in several calls, or open with a larger chunk",
                         "%zu tokens for one step, which has room for %" PRIu32, *n_tokens, e->plan.chunk);
    return SLUICE_OK;
}

enum sluice_status sluice_eval_together(sluice_engine *e, const struct sluice_part *parts, size_t n_parts,
                                        struct sluice_error *err)
{
    size_t n = 0;
    enum sluice_status st = check_parts(e, parts, n_parts, &n, err);
    if (st) return st;
    bool decode = true;
    size_t at = 0;
    for (size_t i = 0; i < n_parts; i++) {
        decode = decode && decodes(&parts[i]);
        memcpy(e->step_ids + at, parts[i].ids, parts[i].n * sizeof *e->step_ids);
        at += parts[i].n;
    }
    const uint64_t t0 = e->os->now_ns(e->os->user);
    struct route_choice route;
    e->step_done = 0;
    e->step_total = n;
    if (!(st = begin(e, parts, n_parts, decode, err))) {
        routes_begin(e, (uint32_t)n, decode, false, &route);
        const struct step step = {.engine = e,
                                  .parts = parts,
                                  .n_parts = n_parts,
                                  .ids = e->step_ids,
                                  .n_tokens = n,
                                  .decode = decode,
                                  .keep = KEEP_LAST};
        st = run_step(&step, err);
        if (!st) routes_end(e, (uint32_t)n, decode, &route);
        if (!st) pressure_relieve(e);
    }
    end(e, st ? 0 : n, decode, t0, st);
    for (size_t i = 0; i < n_parts; i++) {
        if (st)
            parts[i].session->has_logits = false;
        else if (parts[i].logits)
            memcpy(parts[i].logits, parts[i].session->logits, e->model->hp.n_vocab * sizeof *parts[i].logits);
    }
    return st;
}
