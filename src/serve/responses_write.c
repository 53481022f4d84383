/* POST /v1/responses: how its answers are written: items, each with events for its beginning, its parts and its end. */
#include "serve/api.h"
#include "serve/server.h"

#include <stdlib.h>
#include <string.h>

/* ---- the response itself ---- */

static json_t *repeated(const struct answer *a, const char *name, json_t *otherwise)
{
    json_t *value = json_object_get(a->request->original, name);
    if (!value) return otherwise;
    json_decref(otherwise);
    return json_incref(value);
}

static json_t *usage(const struct outcome *o)
{
    return json_pack("{s:I, s:{s:I}, s:I, s:{s:I}, s:I}", "input_tokens", (json_int_t)o->n_prompt,
                     "input_tokens_details", "cached_tokens", (json_int_t)o->n_reused, "output_tokens",
                     (json_int_t)o->n_generated, "output_tokens_details", "reasoning_tokens",
                     (json_int_t)o->n_reasoning, "total_tokens", (json_int_t)(o->n_prompt + o->n_generated));
}

static const char *status_of(const struct outcome *o)
{
    if (!o) return "in_progress";
    return o->ending == ENDING_FAILED ? "failed" : o->ending == ENDING_LENGTH ? "incomplete" : "completed";
}

/* o: NULL while it is under way. */
static json_t *response(const struct answer *a, const struct outcome *o)
{
    const struct serve_request *r = a->request;
    json_t *root =
        json_pack("{s:s, s:s, s:I, s:s, s:s, s:n, s:n, s:o, s:n, s:b}", "id", r->id, "object", "response", "created_at",
                  (json_int_t)r->created_s, "status", status_of(o), "model", r->model, "error", "incomplete_details",
                  "output", a->items ? json_deep_copy(a->items) : json_array(), "previous_response_id", "store", 0);
    static const char *const names[] = {"instructions", "max_output_tokens", "user", "metadata"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        json_object_set_new(root, names[i], repeated(a, names[i], i == 3 ? json_object() : json_null()));
    json_object_set_new(root, "temperature", buffer_real((double)r->sampling.temperature));
    json_object_set_new(root, "top_p", buffer_real((double)r->sampling.top_p));
    json_object_set_new(root, "parallel_tool_calls", json_boolean(!r->one_call));
    json_object_set_new(root, "tool_choice", repeated(a, "tool_choice", json_string("auto")));
    json_object_set_new(root, "tools", repeated(a, "tools", json_array()));
    json_object_set_new(root, "truncation", json_string("disabled"));
    json_object_set_new(root, "reasoning", repeated(a, "reasoning", json_pack("{s:n, s:n}", "effort", "summary")));
    json_object_set_new(root, "text", repeated(a, "text", json_pack("{s:{s:s}}", "format", "type", "text")));
    json_object_set_new(root, "usage", o ? usage(o) : json_null());
    if (!o) return root;
    json_object_set_new(root, "timings", answer_timings(o));
    if (o->ending == ENDING_LENGTH)
        json_object_set_new(root, "incomplete_details", json_pack("{s:s}", "reason", "max_output_tokens"));
    if (o->ending == ENDING_FAILED)
        json_object_set_new(root, "error",
                            json_pack("{s:s, s:o}", "code", o->fault.code ? o->fault.code : "server_error", "message",
                                      buffer_string(o->fault.text, strlen(o->fault.text))));
    return root;
}

/* ---- items ---- */

/* The item that is open has its text in a->text (its own, not the answer's); it was announced with item_id. */
static json_t *text_part(const struct answer *a)
{
    json_t *probs = a->item_probs ? json_incref(a->item_probs) : json_array();
    return json_pack("{s:s, s:o, s:[], s:o}", "type", "output_text", "text", buffer_string(a->text.at, a->text.n),
                     "annotations", "logprobs", probs);
}

static json_t *item(const struct answer *a, const char *status)
{
    if (a->open == EVENT_REASONING) {
        json_t *content = json_array();
        if (a->text.n)
            json_array_append_new(content, json_pack("{s:s, s:o}", "type", "reasoning_text", "text",
                                                     buffer_string(a->text.at, a->text.n)));
        return json_pack("{s:s, s:s, s:[], s:o, s:s}", "id", a->item_id, "type", "reasoning", "summary", "content",
                         content, "status", status);
    }
    if (a->open == EVENT_TEXT) {
        json_t *content = json_array();
        if (strcmp(status, "in_progress") != 0) json_array_append_new(content, text_part(a));
        return json_pack("{s:s, s:s, s:s, s:s, s:o}", "id", a->item_id, "type", "message", "status", status, "role",
                         "assistant", "content", content);
    }
    const struct answer_call *c = &a->calls[a->n_calls - 1];
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o}", "id", a->item_id, "type", "function_call", "status", status,
                     "call_id", c->id, "name", buffer_string(c->name.at, c->name.n), "arguments",
                     buffer_string(c->arguments.at, c->arguments.n));
}

/* Sends a message with its number; the item's place and id are added if it is about one. */
static void tell(struct answer *a, const char *type, json_t *data, bool about_item)
{
    if (!a->streamed) {
        json_decref(data);
        return;
    }
    json_object_set_new(data, "type", json_string(type));
    json_object_set_new(data, "sequence_number", json_integer((json_int_t)a->sequence++));
    if (about_item) {
        json_object_set_new(data, "output_index", json_integer((json_int_t)a->index));
        json_object_set_new(data, "item_id", json_string(a->item_id));
    }
    answer_message(a, type, data);
}

static void tell_item(struct answer *a, const char *type, const char *status)
{
    tell(a, type, json_pack("{s:i, s:o}", "output_index", (int)a->index, "item", item(a, status)), false);
}

static void drop_probs(struct answer *a)
{
    json_decref(a->probs);
    a->probs = NULL;
}

static void close_item(struct answer *a, const char *status)
{
    if (a->open < 0) return;
    if (a->open == EVENT_TEXT) {
        json_t *probs = a->item_probs ? json_incref(a->item_probs) : json_array();
        tell(a, "response.output_text.done",
             json_pack("{s:i, s:o, s:o}", "content_index", 0, "text", buffer_string(a->text.at, a->text.n), "logprobs",
                       probs),
             true);
        tell(a, "response.content_part.done", json_pack("{s:i, s:o}", "content_index", 0, "part", text_part(a)), true);
    } else if (a->open == EVENT_REASONING) {
        tell(a, "response.reasoning_text.done",
             json_pack("{s:i, s:o}", "content_index", 0, "text", buffer_string(a->text.at, a->text.n)), true);
    } else {
        const struct answer_call *c = &a->calls[a->n_calls - 1];
        tell(a, "response.function_call_arguments.done",
             json_pack("{s:o, s:o}", "arguments", buffer_string(c->arguments.at, c->arguments.n), "name",
                       buffer_string(c->name.at, c->name.n)),
             true);
    }
    tell_item(a, "response.output_item.done", status);
    if (!a->items) a->items = json_array();
    json_array_append_new(a->items, item(a, status));
    json_decref(a->item_probs);
    a->item_probs = NULL;
    drop_probs(a); /* of marks behind the item's text */
    buffer_free(&a->text);
    a->index++;
    a->open = -1;
}

static void open_item(struct answer *a, enum event_kind kind)
{
    close_item(a, "completed");
    a->open = kind;
    request_id(kind == EVENT_REASONING ? "rs_" : kind == EVENT_TEXT ? "msg_" : "fc_", a->item_id);
    tell_item(a, "response.output_item.added", "in_progress");
    if (kind != EVENT_TEXT) return;
    tell(a, "response.content_part.added",
         json_pack("{s:i, s:{s:s, s:s, s:[], s:[]}}", "content_index", 0, "part", "type", "output_text", "text", "",
                   "annotations", "logprobs"),
         true);
}

static void begin(struct answer *a)
{
    tell(a, "response.created", json_pack("{s:o}", "response", response(a, NULL)), false);
    tell(a, "response.in_progress", json_pack("{s:o}", "response", response(a, NULL)), false);
}

/* The probabilities that came before this text. A blank before an item's text is not part of it. */
static json_t *take_probs(struct answer *a, const struct event *e)
{
    json_t *probs = a->probs ? a->probs : json_array();
    a->probs = NULL;
    const bool blank = e->text.n && strchr(" \t\r\n", e->text.at[0]);
    while (!a->text.n && !blank && json_array_size(probs)) {
        const char *token = json_string_value(json_object_get(json_array_get(probs, 0), "token"));
        if (token[strspn(token, " \t\r\n")]) break;
        json_array_remove(probs, 0);
    }
    if (!a->item_probs) a->item_probs = json_array();
    json_array_extend(a->item_probs, probs);
    return probs;
}

/* More of the text of the item that is open. */
static void take_text(struct answer *a, const struct event *e)
{
    const bool reasons = e->kind == EVENT_REASONING;
    if (reasons) drop_probs(a); /* of marks */
    if (a->open != (int)e->kind) {
        json_t *probs = a->probs; /* came before its text */
        a->probs = NULL;
        open_item(a, e->kind);
        a->probs = probs;
    }
    json_t *data = json_pack("{s:i, s:o}", "content_index", 0, "delta", buffer_string(e->text.at, e->text.n));
    if (!reasons) json_object_set_new(data, "logprobs", take_probs(a, e));
    buffer_put(&a->text, e->text.at, e->text.n);
    tell(a, reasons ? "response.reasoning_text.delta" : "response.output_text.delta", data, true);
}

static void event(struct answer *a, const struct event *e)
{
    switch (e->kind) {
    case EVENT_REASONING:
    case EVENT_TEXT: take_text(a, e); break;
    case EVENT_CALL:
        close_item(a, "completed");
        answer_keep(a, e);
        open_item(a, EVENT_CALL);
        break;
    case EVENT_ARGUMENTS:
        answer_keep(a, e);
        tell(a, "response.function_call_arguments.delta",
             json_pack("{s:o}", "delta", buffer_string(e->text.at, e->text.n)), true);
        break;
    case EVENT_CALL_END: close_item(a, "completed"); break;
    case EVENT_PROBS:
        if (e->probs->reasons) break;
        if (!a->probs) a->probs = json_array();
        json_array_append_new(a->probs, answer_probs_openai(e->probs));
        break;
    case EVENT_ALIVE: buffer_word(&a->out, ANSWER_ALIVE); break;
    case EVENT_PROGRESS: /* of a type of our own: clients pass over those that they do not know */
        tell(a, "response.prompt_progress", json_pack("{s:o}", "prompt_progress", answer_progress(&e->progress)),
             false);
        break;
    case EVENT_BEGIN:
    case EVENT_CHOICE:
    case EVENT_END: break;
    }
}

static void end(struct answer *a, const struct outcome *o)
{
    close_item(a, o->ending == ENDING_LENGTH || o->ending == ENDING_FAILED ? "incomplete" : "completed");
    tell(a,
         o->ending == ENDING_FAILED   ? "response.failed"
         : o->ending == ENDING_LENGTH ? "response.incomplete"
                                      : "response.completed",
         json_pack("{s:o}", "response", response(a, o)), false);
}

static void whole(struct answer *a, const struct outcome *o, struct buffer *out)
{
    close_item(a, o->ending == ENDING_LENGTH ? "incomplete" : "completed");
    buffer_json(out, response(a, o));
}

const struct writer writer_responses = {begin, event, end, whole, NULL};
