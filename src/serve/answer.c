#include "serve/answer.h"

#include "serve/exchange.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void answer_begin(struct answer *a, const struct serve_request *r, const struct writer *w)
{
    a->request = r;
    a->writer = w;
    a->streamed = r->stream;
    a->open = -1;
}

/* What belongs to one of several answers. */
static void forget(struct answer *a)
{
    for (size_t i = 0; i < a->n_calls; i++) {
        buffer_free(&a->calls[i].name);
        buffer_free(&a->calls[i].arguments);
    }
    free(a->calls);
    a->calls = NULL;
    a->n_calls = 0;
    json_decref(a->probs);
    a->probs = NULL;
    buffer_free(&a->reasoning);
    buffer_free(&a->text);
}

void answer_free(struct answer *a)
{
    forget(a);
    json_decref(a->item_probs);
    json_decref(a->items);
    json_decref(a->choices);
    buffer_free(&a->out);
    memset(a, 0, sizeof *a);
}

static struct answer_call *call_at(struct answer *a, size_t i)
{
    if (i < a->n_calls) return &a->calls[i];
    if (i >= ANSWER_CALLS_MAX) return NULL;
    struct answer_call *more = realloc(a->calls, (i + 1) * sizeof *more);
    if (!more) {
        a->text.failed = true;
        return NULL;
    }
    memset(more + a->n_calls, 0, (i + 1 - a->n_calls) * sizeof *more);
    a->calls = more;
    a->n_calls = i + 1;
    return &a->calls[i];
}

void answer_keep(struct answer *a, const struct event *e)
{
    struct answer_call *c = NULL;
    if (e->kind == EVENT_CALL || e->kind == EVENT_ARGUMENTS || e->kind == EVENT_CALL_END) c = call_at(a, e->call);
    switch (e->kind) {
    case EVENT_REASONING: buffer_put(&a->reasoning, e->text.at, e->text.n); break;
    case EVENT_TEXT: buffer_put(&a->text, e->text.at, e->text.n); break;
    case EVENT_CALL:
        if (!c) break;
        buffer_put(&c->name, e->text.at, e->text.n);
        snprintf(c->id, sizeof c->id, "%s", e->id);
        break;
    case EVENT_ARGUMENTS:
        if (c) buffer_put(&c->arguments, e->text.at, e->text.n);
        break;
    case EVENT_CALL_END:
        if (c) c->over = true;
        break;
    case EVENT_PROBS:
    case EVENT_PROGRESS:
    case EVENT_BEGIN:
    case EVENT_ALIVE:
    case EVENT_CHOICE:
    case EVENT_END: break;
    }
}

static void next_choice(struct answer *a, const struct outcome *o)
{
    const bool failed = a->text.failed || a->reasoning.failed;
    a->writer->choice(a, o);
    forget(a);
    a->text.failed = failed;
    a->index = 0;
    a->sequence = 0;
    a->choice++;
    if (a->streamed && a->writer->begin) a->writer->begin(a);
}

void answer_event(struct answer *a, const struct event *e)
{
    if (a->over) return;
    if (e->kind == EVENT_ALIVE && !a->begun) { /* still in the queue: what an answer begins with is not known yet */
        if (a->streamed) buffer_word(&a->out, ANSWER_ALIVE);
        return;
    }
    if (e->kind == EVENT_BEGIN) a->n_reused = e->progress.reused;
    if (a->streamed && !a->begun && a->writer->begin) a->writer->begin(a);
    a->begun = true;
    if (e->kind == EVENT_BEGIN) return;
    if (e->kind == EVENT_CHOICE) {
        next_choice(a, &e->outcome);
        return;
    }
    if (e->kind != EVENT_END) {
        a->writer->event(a, e);
        return;
    }
    a->over = true;
    if (a->streamed) a->writer->end(a, &e->outcome);
}

void answer_add_choice(struct answer *a, json_t *choice)
{
    if (!a->choices) a->choices = json_array();
    json_array_append_new(a->choices, choice);
}

/* ---- what several APIs share ---- */

static double rate(size_t n, uint64_t ns) { return ns ? (double)n * 1e9 / (double)ns : 0; }

json_t *answer_timings(const struct outcome *o)
{
    const size_t n = o->n_prompt - o->n_reused;
    return json_pack("{s:I, s:I, s:o, s:o, s:o, s:I, s:o, s:o, s:o, s:o}", "cache_n", (json_int_t)o->n_reused,
                     "prompt_n", (json_int_t)n, "prompt_ms", buffer_real((double)o->prompt_ns / 1e6),
                     "prompt_per_token_ms", buffer_real(n ? (double)o->prompt_ns / 1e6 / (double)n : 0.0),
                     "prompt_per_second", buffer_real(rate(n, o->prompt_ns)), "predicted_n", (json_int_t)o->n_generated,
                     "predicted_ms", buffer_real((double)o->generate_ns / 1e6), "predicted_per_token_ms",
                     buffer_real(o->n_generated ? (double)o->generate_ns / 1e6 / (double)o->n_generated : 0.0),
                     "predicted_per_second",
                     buffer_real(o->n_generated > 1 ? rate(o->n_generated, o->generate_ns) : 0.0), "queued_ms",
                     buffer_real((double)o->queued_ns / 1e6));
}

json_t *answer_progress(const struct progress *p)
{
    json_t *v = json_pack("{s:I, s:I, s:I, s:I}", "total", (json_int_t)p->total, "cache", (json_int_t)p->reused,
                          "processed", (json_int_t)p->done, "time_ms", (json_int_t)(p->elapsed_ns / 1000000));
    json_object_set_new(v, "time_left_ms",
                        p->left_ns == UINT64_MAX ? json_null() : json_integer((json_int_t)(p->left_ns / 1000000)));
    return v;
}

static json_t *one_prob(const struct token_prob *p)
{
    json_t *bytes = json_array();
    for (size_t i = 0; i < p->bytes; i++) json_array_append_new(bytes, json_integer((unsigned char)p->text[i]));
    return json_pack("{s:o, s:o, s:o}", "token", buffer_string(p->text, p->bytes), "logprob",
                     buffer_real((double)p->logprob), "bytes", bytes);
}

json_t *answer_probs_openai(const struct token_probs *p)
{
    json_t *v = one_prob(&p->taken), *top = json_array();
    for (size_t i = 0; i < p->n; i++) json_array_append_new(top, one_prob(&p->top[i]));
    json_object_set_new(v, "top_logprobs", top);
    return v;
}

json_t *answer_usage_openai(const struct outcome *o)
{
    return json_pack("{s:I, s:I, s:I, s:{s:I}, s:{s:I}}", "prompt_tokens", (json_int_t)o->n_prompt, "completion_tokens",
                     (json_int_t)o->n_generated, "total_tokens", (json_int_t)(o->n_prompt + o->n_generated),
                     "prompt_tokens_details", "cached_tokens", (json_int_t)o->n_reused, "completion_tokens_details",
                     "reasoning_tokens", (json_int_t)o->n_reasoning);
}

void answer_fault_openai(struct answer *a, const struct fault *f)
{
    struct buffer b = {.at = NULL};
    fault_write(f, FAULT_OPENAI, &b);
    buffer_format(&a->out, "data: %s\n\n", b.at ? b.at : "{}");
    buffer_free(&b);
}

void answer_message(struct answer *a, const char *event, json_t *data)
{
    if (event) buffer_format(&a->out, "event: %s\n", event);
    buffer_word(&a->out, "data: ");
    buffer_json(&a->out, data);
    buffer_word(&a->out, "\n\n");
}
