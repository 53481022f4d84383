#include "serve/job.h"

#include "serve/server.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROGRESS_EVERY_NS ((uint64_t)500 * 1000000)

_Static_assert(SERVE_CALLS_MAX <= ANSWER_CALLS_MAX, "no call of an answer is dropped");
_Static_assert(SLUICE_PIECE_BYTES_MAX <= STOP_PUSH_BYTES_MAX, "a token's text fits the stop filter");

struct job *job_create(struct exchange *x)
{
    struct job *j = calloc(1, sizeof *j);
    if (!j) return NULL;
    exchange_hold(x);
    j->x = x;
    j->submitted_ns = server_now_ns();
    return j;
}

/* What belongs to one of several answers. */
static void forget(struct job *j)
{
    serve_parser_destroy(j->parser);
    sluice_grammar_free(j->grammar);
    serve_parser_destroy(j->any);
    j->parser = j->any = NULL;
    j->grammar = NULL;
    j->forced_begun = j->thinks = j->calls_over = false;
    j->n_closing = j->n_closed = 0;
    j->choice_tokens = j->outcome.n_generated;
    j->choice_thinks = j->outcome.n_reasoning;
}

void job_free(struct job *j)
{
    if (!j) return;
    forget(j);
    free(j->logits);
    exchange_release(j->x);
    free(j);
}

static void begin_call(struct job *j, size_t call, const char *name, size_t bytes, const char *id)
{
    struct event *e = calloc(1, sizeof *e);
    if (!e) {
        j->parser_failed = true;
        return;
    }
    e->kind = EVENT_CALL;
    e->call = call;
    if (id)
        snprintf(e->id, sizeof e->id, "%s", id);
    else
        request_id(j->x->request.call_prefix, e->id);
    base_printable(e->id); /* the model's own may be cut within a character */
    buffer_put(&e->text, name, bytes);
    exchange_push(j->x, e);
}

/* Of a call that was asked for, of one of several tools. */
static void take_any(void *user, const struct serve_event *found)
{
    struct job *j = user;
    if (found->kind == SERVE_EVENT_CALL) {
        begin_call(j, 0, found->text, found->bytes, NULL);
        j->forced_begun = true;
    } else if (found->kind != SERVE_EVENT_CALL_END) {
        exchange_text(j->x, found->kind == SERVE_EVENT_ARGUMENTS ? EVENT_ARGUMENTS : EVENT_TEXT, 0, found->text,
                      found->bytes);
    }
}

/* The answer is the arguments of a tool that the client has chosen, or {"name", "arguments"} of one of several. */
static void take_forced(struct job *j, const char *text, size_t bytes)
{
    if (j->any) {
        if (!j->parser_failed && serve_parser_feed(j->any, text, bytes, NULL)) j->parser_failed = true;
        return;
    }
    const char *name = j->x->request.forced_call;
    if (!j->forced_begun) begin_call(j, 0, name, strlen(name), NULL);
    j->forced_begun = true;
    exchange_text(j->x, EVENT_ARGUMENTS, 0, text, bytes);
}

/* A call that the length has cut is one all the same, if its name is there. */
static void end_forced(struct job *j)
{
    if (j->any && !j->parser_failed && serve_parser_end(j->any, NULL)) j->parser_failed = true;
    if (j->forced_begun) exchange_text(j->x, EVENT_CALL_END, 0, "", 0);
}

/* What the parser has found in the answer. */
static void take_found(void *user, const struct serve_event *found)
{
    static const enum event_kind kinds[] = {[SERVE_EVENT_REASONING] = EVENT_REASONING,
                                            [SERVE_EVENT_TEXT] = EVENT_TEXT,
                                            [SERVE_EVENT_CALL] = EVENT_CALL,
                                            [SERVE_EVENT_ARGUMENTS] = EVENT_ARGUMENTS,
                                            [SERVE_EVENT_CALL_END] = EVENT_CALL_END};
    struct job *j = user;
    if (j->calls_over) return;
    if (found->kind == SERVE_EVENT_TEXT && j->x->request.forced) {
        take_forced(j, found->text, found->bytes);
        return;
    }
    if (found->kind == SERVE_EVENT_CALL) {
        begin_call(j, found->call, found->text, found->bytes, found->id);
        return;
    }
    exchange_text(j->x, kinds[found->kind], found->kind < SERVE_EVENT_CALL ? 0 : found->call, found->text,
                  found->bytes);
    j->calls_over = found->kind == SERVE_EVENT_CALL_END && j->x->request.one_call;
}

/* Text behind the stop texts. */
static void take_text(void *user, const char *text, size_t bytes)
{
    struct job *j = user;
    if (!j->parser)
        exchange_text(j->x, EVENT_TEXT, 0, text, bytes);
    else if (!j->parser_failed && serve_parser_feed(j->parser, text, bytes, NULL))
        j->parser_failed = true;
}

static void list_tools(const struct serve_request *r, struct serve_tool *tools)
{
    for (size_t i = 0; i < json_array_size(r->tools); i++) {
        const json_t *tool = json_array_get(r->tools, i);
        tools[i].name = json_string_value(json_object_get(tool, "name"));
        tools[i].parameters = json_object_get(tool, "parameters");
    }
}

/* For the answer; and for one of several calls, which was asked for: that has no marks, as with Llama 3. */
static enum sluice_status open_parsers(struct job *j, struct sluice_error *err)
{
    const struct serve_request *r = &j->x->request;
    const char *template = sluice_chat_template(j->engine);
    const size_t n = json_array_size(r->tools);
    struct serve_tool *tools = calloc(n + 1, sizeof *tools);
    if (!tools) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for %zu tools", n);
    list_tools(r, tools);
    const struct serve_parser_options o = {.family = j->x->server->family,
                                           .tools = tools,
                                           .n_tools = r->forced ? 0 : n,
                                           .hold_calls = !r->stream,
                                           .chat_template = template,
                                           .chat_template_bytes = template ? strlen(template) : 0,
                                           .prompt = r->prompt_end,
                                           .prompt_bytes = r->prompt_end ? strlen(r->prompt_end) : 0,
                                           .event = take_found,
                                           .user = j};
    const struct serve_parser_options any = {.family = serve_family_find("llama3"),
                                             .tools = tools,
                                             .n_tools = n,
                                             .no_reasoning = true,
                                             .event = take_any,
                                             .user = j};
    enum sluice_status st = serve_parser_create(&o, &j->parser, err);
    if (!st && r->forced && !r->forced_call) st = serve_parser_create(&any, &j->any, err);
    free(tools);
    return st;
}

/* Beside the document: calls, where there are tools that may be called, and reasoning that the model opens itself. */
static json_t *list_openers(struct job *j, const char *thought)
{
    const struct serve_request *r = &j->x->request;
    const size_t n = r->forced ? 0 : json_array_size(r->tools);
    struct serve_tool *tools = calloc(n + 1, sizeof *tools);
    if (!tools) return NULL;
    if (n) list_tools(r, tools);
    json_t *list = n ? serve_family_openers(j->x->server->family, tools, n) : json_array();
    free(tools);
    if (!list || !thought || !json_array_append_new(list, json_string(thought))) return list;
    json_decref(list);
    return NULL;
}

static enum sluice_status set_openers(struct job *j, const char *thought, struct sluice_error *err)
{
    json_t *list = list_openers(j, thought);
    const size_t n = json_array_size(list);
    const char **texts = calloc(n + 1, sizeof *texts);
    enum sluice_status st;
    for (size_t i = 0; texts && i < n; i++) texts[i] = json_string_value(json_array_get(list, i));
    if (!list || !texts)
        st = base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for the ways to begin an answer");
    else
        st = sluice_grammar_openers(j->grammar, texts, n, err);
    free(texts);
    json_decref(list);
    return st;
}

static enum sluice_status open_grammar(struct job *j, struct sluice_error *err)
{
    const struct serve_request *r = &j->x->request;
    enum sluice_status st =
        sluice_grammar_json(j->engine, r->schema[0] ? r->schema : NULL, strlen(r->schema), &j->grammar, err);
    if (st == SLUICE_ERR_USAGE) j->refused = r->schema_from;
    if (st) return st;
    st = set_openers(j, j->parser ? serve_parser_thought_begin(j->parser) : NULL, err);
    if (st == SLUICE_ERR_USAGE) j->refused = "tools";
    return st;
}

/* What an answer needs. Each of several has a seed of its own. */
static enum sluice_status open_answer(struct job *j, struct sluice_error *err)
{
    const struct serve_request *r = &j->x->request;
    struct sluice_sampling sampling = r->sampling;
    sampling.seed += j->choice;
    enum sluice_status st = sluice_session_sampling(j->session, &sampling, err);
    if (st) return st;
    sluice_decoder_init(&j->decoder, !r->answers);
    stop_init(&j->stops, take_text, j);
    for (size_t i = 0; i < r->n_stops && !st; i++) st = stop_add(&j->stops, r->stops[i], err);
    if (r->turn_end && !st) st = stop_add(&j->stops, r->turn_end, err);
    if (!st && r->answers) st = open_parsers(j, err);
    if (!st && r->schema) st = open_grammar(j, err);
    return st;
}

enum sluice_status job_again(struct job *j, size_t n_reused, struct sluice_error *err)
{
    forget(j);
    j->n_done = n_reused;
    enum sluice_status st = open_answer(j, err);
    if (!st) j->state = JOB_PREFILL;
    return st;
}

enum sluice_status job_begin(struct job *j, sluice_engine *e, sluice_session *s, size_t n_vocab, size_t n_reused,
                             struct sluice_error *err)
{
    const struct serve_request *r = &j->x->request;
    j->engine = e;
    j->session = s;
    j->n_vocab = n_vocab;
    j->begin_ns = server_now_ns();
    j->n_done = j->n_reused = n_reused;
    j->outcome.n_prompt = r->n_ids;
    j->outcome.n_reused = n_reused;
    j->outcome.queued_ns = j->begin_ns - j->submitted_ns;
    enum sluice_status st = open_answer(j, err);
    if (st) return st;
    if (r->probs_wanted && !(j->logits = malloc(n_vocab * sizeof *j->logits)))
        return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for probabilities");
    struct event *begin = calloc(1, sizeof *begin);
    if (!begin) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for an answer's beginning");
    begin->kind = EVENT_BEGIN;
    begin->progress.reused = n_reused;
    exchange_push(j->x, begin);
    j->state = JOB_PREFILL;
    if (r->stream) exchange_begin(j->x);
    return SLUICE_OK;
}

/* ---- probabilities ---- */

/* special: whether tokens of the format have a text. */
static struct token_prob prob_of(struct job *j, int32_t id, float logprob, bool special)
{
    char text[SLUICE_PIECE_BYTES_MAX];
    const size_t n = sluice_token_bytes(j->engine, id, special, text);
    struct token_prob p = {.id = id, .logprob = logprob, .text = malloc(n + 1)};
    if (!p.text) return p;
    memcpy(p.text, text, n);
    p.text[n] = '\0';
    p.bytes = n;
    return p;
}

/* The most likely tokens, and logprobs from logits by *all. */
static uint32_t most_likely(const float *logits, size_t n_vocab, uint32_t want, int32_t *best, float *all)
{
    float most = logits[0];
    for (size_t i = 1; i < n_vocab; i++)
        if (logits[i] > most) most = logits[i];
    double sum = 0;
    for (size_t i = 0; i < n_vocab; i++) sum += exp((double)logits[i] - most);
    *all = most + (float)log(sum);
    uint32_t n = 0;
    for (size_t i = 0; i < n_vocab && want; i++) { /* few enough for an insertion */
        if (n == want && logits[i] <= logits[best[n - 1]]) continue;
        uint32_t at = n < want ? n++ : n - 1;
        for (; at > 0 && logits[best[at - 1]] < logits[i]; at--) best[at] = best[at - 1];
        best[at] = (int32_t)i;
    }
    return n;
}

/* Of the model's own distribution, before sampling changes it. logits: NULL for the first token of all. */
static void push_probs(struct job *j, int32_t id, const float *logits, bool prompt)
{
    const uint32_t want = j->x->request.n_probs;
    struct event *e = calloc(1, sizeof *e);
    if (e) e->probs = calloc(1, sizeof *e->probs + want * sizeof e->probs->top[0]);
    if (!e || !e->probs) {
        event_free(e);
        return;
    }
    int32_t best[REQUEST_PROBS_MAX];
    float all = NAN;
    const uint32_t n = logits ? most_likely(logits, j->n_vocab, want, best, &all) : 0;
    e->kind = EVENT_PROBS;
    e->probs->taken = prob_of(j, id, logits ? logits[id] - all : NAN, !prompt);
    e->probs->prompt = prompt;
    e->probs->reasons = !prompt && j->parser && serve_parser_reasons(j->parser);
    e->probs->n = n;
    for (uint32_t i = 0; i < n; i++) e->probs->top[i] = prob_of(j, best[i], logits[best[i]] - all, true);
    exchange_push(j->x, e);
}

bool job_prompt_logits(void *user, size_t index, const float *logits, size_t n_vocab)
{
    struct job *j = user;
    const struct serve_request *r = &j->x->request;
    const size_t next = j->n_done + index + 1;
    if (next == 1) push_probs(j, r->ids[0], NULL, true);
    if (next < r->n_ids) push_probs(j, r->ids[next], logits, true);
    return true;
}

/* ---- the end ---- */

/* The next answer begins when the scheduler comes by. */
static void end_choice(struct job *j, enum ending ending)
{
    struct event *e = calloc(1, sizeof *e);
    if (!e) {
        struct sluice_error err;
        base_fail(&err, SLUICE_ERR_MEMORY, NULL, "no memory for the end of an answer");
        job_fail(j, &err);
        return;
    }
    e->kind = EVENT_CHOICE;
    e->outcome.ending = ending;
    exchange_push(j->x, e);
    j->choice++;
    j->state = JOB_QUEUED;
}

void job_end(struct job *j, enum ending ending)
{
    if (j->state == JOB_OVER) return;
    if (ending == ENDING_STOP && j->stops.hit_index >= j->x->request.n_stops) ending = ENDING_MODEL; /* turn_end */
    if (ending != ENDING_FAILED && j->choice + 1 < j->x->request.n_choices) {
        end_choice(j, ending);
        return;
    }
    j->state = JOB_OVER;
    const uint64_t now = server_now_ns();
    struct server *s = j->x->server;
    j->outcome.ending = ending;
    if (j->first_ns)
        j->outcome.generate_ns = now - j->first_ns;
    else if (j->begin_ns)
        j->outcome.prompt_ns = now - j->begin_ns;
    if (ending == ENDING_STOP) j->outcome.stop = j->x->request.stops[j->stops.hit_index];
    atomic_fetch_add(ending == ENDING_FAILED ? &s->metrics.jobs_failed : &s->metrics.jobs_finished, 1);
    metrics_observe(&s->metrics.duration, now - j->submitted_ns);
    struct event *e = calloc(1, sizeof *e);
    if (!e) { /* nothing can be said; the connection is ended */
        pthread_mutex_lock(&s->lock);
        j->x->gone = true;
        exchange_wake(j->x);
        pthread_mutex_unlock(&s->lock);
        return;
    }
    e->kind = EVENT_END;
    e->outcome = j->outcome;
    exchange_push(j->x, e);
    if (j->x->request.stream) exchange_begin(j->x); /* where it had not begun */
}

void job_fail(struct job *j, const struct sluice_error *err)
{
    struct fault *f = &j->outcome.fault;
    fault_from(f, err);
    if (j->refused) snprintf(f->param, sizeof f->param, "%s", j->refused);
    job_end(j, ENDING_FAILED);
}

static void end_text(struct job *j, enum ending ending)
{
    char piece[SLUICE_PIECE_BYTES_MAX];
    if (ending != ENDING_STOP) {
        if (stop_push(&j->stops, piece, sluice_decode(j->engine, &j->decoder, -1, true, piece)))
            ending = ENDING_STOP;
        else
            stop_end(&j->stops);
    }
    if (j->parser && !j->parser_failed && serve_parser_end(j->parser, NULL)) j->parser_failed = true;
    end_forced(j);
    if (j->parser_failed) {
        struct sluice_error err;
        base_fail(&err, SLUICE_ERR_MEMORY, NULL, "no memory for the answer");
        job_fail(j, &err);
        return;
    }
    if (j->parser && ending != ENDING_LENGTH && (serve_parser_calls(j->parser) || j->forced_begun))
        ending = ENDING_CALLS;
    job_end(j, ending);
}

/* Enough was thought: the mark that ends it comes next, where the model has one. */
static void close_thought(struct job *j)
{
    const char *end = j->parser ? serve_parser_thought_end(j->parser) : NULL;
    const struct sluice_encode_options how = {.special = true};
    struct sluice_error ignored; /* the model goes on, then */
    size_t n = 0;
    if (j->n_closing || !end || j->outcome.n_reasoning - j->choice_thinks < j->x->request.reasoning_max) return;
    if (strlen(end) + 8 > JOB_CLOSING_MAX || !serve_parser_reasons(j->parser)) return;
    if (sluice_encode(j->engine, end, strlen(end), &how, j->closing, JOB_CLOSING_MAX, &n, &ignored)) return;
    j->n_closing = n;
}

/* What a model thinks before it answers is free, and so is a call that begins in the middle of that. */
static enum sluice_status bound_token(struct job *j, int32_t *id, struct sluice_error *err)
{
    enum sluice_status st = SLUICE_OK;
    if (j->parser && serve_parser_reasons(j->parser)) {
        j->thinks = j->thinks || sluice_grammar_branch(j->grammar) == SLUICE_BRANCH_FREE;
        return sluice_sample(j->session, id, err);
    }
    if (j->parser && serve_parser_calls_from_thought(j->parser)) return sluice_sample(j->session, id, err);
    if (j->thinks) st = set_openers(j, NULL, err); /* that is over, and the answer begins here */
    j->thinks = false;
    if (!st) st = sluice_sample_constrained(j->session, j->grammar, id, err);
    if (!st && j->parser && sluice_grammar_branch(j->grammar) == SLUICE_BRANCH_DOCUMENT) serve_parser_settle(j->parser);
    return st;
}

/* The next token: the model's, or of the mark that ends its reasoning. */
static enum sluice_status next_token(struct job *j, int32_t *id, struct sluice_error *err)
{
    close_thought(j);
    if (j->n_closed < j->n_closing) {
        *id = j->closing[j->n_closed++];
        return SLUICE_OK;
    }
    return j->grammar ? bound_token(j, id, err) : sluice_sample(j->session, id, err);
}

void job_token(struct job *j, size_t room)
{
    const struct serve_request *r = &j->x->request;
    struct server *s = j->x->server;
    struct sluice_error err;
    char piece[SLUICE_PIECE_BYTES_MAX];
    int32_t id;
    if (r->tokens_max == 0) { /* the prompt's probabilities alone are wanted */
        end_text(j, ENDING_LENGTH);
        return;
    }
    if (j->state == JOB_PREFILL) sluice_session_answer(j->session);
    if (next_token(j, &id, &err)) {
        job_fail(j, &err);
        return;
    }
    if (!j->first_ns) {
        j->first_ns = server_now_ns();
        j->outcome.prompt_ns = j->first_ns - j->begin_ns;
        metrics_observe(&s->metrics.first_token, j->first_ns - j->submitted_ns);
    }
    j->state = JOB_DECODE;
    j->next_id = id;
    if (sluice_ends_generation(j->engine, id)) {
        end_text(j, ENDING_MODEL);
        return;
    }
    j->outcome.n_generated++;
    atomic_fetch_add(&s->metrics.generated_tokens, 1);
    if (j->logits) push_probs(j, id, j->logits, false);
    if (j->parser && serve_parser_reasons(j->parser)) j->outcome.n_reasoning++;
    if (stop_push(&j->stops, piece, sluice_decode(j->engine, &j->decoder, id, r->answers, piece)))
        end_text(j, ENDING_STOP);
    else if (j->calls_over)
        end_text(j, ENDING_CALLS);
    else if (j->outcome.n_generated - j->choice_tokens >= r->tokens_max || room == 0)
        end_text(j, ENDING_LENGTH);
}

void job_progress(struct job *j, size_t done)
{
    const uint64_t now = server_now_ns();
    const size_t total = j->x->request.n_ids;
    if (!j->x->request.progress_wanted || !j->x->request.stream || j->choice) return;
    if (now - j->progress_ns < PROGRESS_EVERY_NS && (done < total || j->progress_over)) return;
    struct event *e = calloc(1, sizeof *e);
    if (!e) return;
    j->progress_ns = now;
    j->progress_over = done >= total;
    const size_t computed = done > j->n_reused ? done - j->n_reused : 0, left = total - done;
    e->kind = EVENT_PROGRESS;
    e->progress = (struct progress){
        .done = done, .total = total, .reused = j->n_reused, .elapsed_ns = now - j->begin_ns, .left_ns = UINT64_MAX};
    if (computed) e->progress.left_ns = (uint64_t)((double)(now - j->begin_ns) / (double)computed * (double)left);
    exchange_push(j->x, e);
}
