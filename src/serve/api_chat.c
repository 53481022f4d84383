/* POST /v1/chat/completions. */
#include "serve/api.h"
#include "serve/messages.h"
#include "serve/server.h"

#include <stdlib.h>
#include <string.h>

/* ---- reading ---- */

static const struct field fields[] = {
    {"messages", FIELD_READ, NULL},
    {"max_tokens", FIELD_READ, NULL},
    {"max_completion_tokens", FIELD_READ, NULL},
    {"n_predict", FIELD_READ, NULL},
    {"stop", FIELD_READ, NULL},
    {"stream_options", FIELD_READ, NULL},
    {"return_progress", FIELD_READ, NULL},
    {"logprobs", FIELD_READ, NULL},
    {"top_logprobs", FIELD_READ, NULL},
    {"tools", FIELD_READ, NULL},
    {"tool_choice", FIELD_READ, NULL},
    {"parallel_tool_calls", FIELD_READ, NULL},
    {"response_format", FIELD_READ, NULL},
    {"chat_template_kwargs", FIELD_READ, NULL},
    {"reasoning_effort", FIELD_READ, NULL},
    {"enable_thinking", FIELD_READ, NULL},
    {"reasoning_format", FIELD_IGNORED, NULL},
    {"verbosity", FIELD_IGNORED, NULL},
    {"n", FIELD_READ, NULL},
    {"frequency_penalty", FIELD_READ, NULL},
    {"presence_penalty", FIELD_READ, NULL},
    {"logit_bias", FIELD_READ, NULL},
    {"functions", FIELD_NEUTRAL, "use tools"},
    {"function_call", FIELD_NEUTRAL, "use tool_choice"},
    {"modalities", FIELD_IGNORED, NULL},
    {"audio", FIELD_NEUTRAL, NULL},
    {"prediction", FIELD_IGNORED, NULL},
    {"web_search_options", FIELD_NEUTRAL, NULL},
};

static bool read_probs(struct serve_request *r, const json_t *root, struct fault *f)
{
    int64_t n = 0;
    if (!read_bool(root, "logprobs", &r->probs_wanted, f) ||
        !read_integer(root, "top_logprobs", 0, REQUEST_PROBS_MAX, &n, f))
        return false;
    if (n && !r->probs_wanted) return fault_set(f, 400, "top_logprobs", "'top_logprobs' needs 'logprobs': true");
    r->n_probs = (uint32_t)n;
    return true;
}

/* "auto", "none", "required", or {"type": "function", "function": {"name": ...}}. */
static bool read_tool_choice(struct clerk *c, struct serve_request *r, const json_t *root, json_t *vars,
                             struct fault *f)
{
    const json_t *choice = json_object_get(root, "tool_choice");
    if (!choice || json_is_null(choice)) return true;
    if (json_is_string(choice)) return request_choose_tool(c, r, vars, json_string_value(choice), NULL, f);
    const char *type = json_string_value(json_object_get(choice, "type"));
    if (!type || strcmp(type, "function") != 0)
        return fault_set(f, 400, "tool_choice", "'tool_choice' of type '%.40s' is not supported", type ? type : "?");
    return request_choose_tool(c, r, vars, "function",
                               json_string_value(json_object_get(json_object_get(choice, "function"), "name")), f);
}

bool chat_read(struct clerk *c, const json_t *root, struct serve_request *r, struct fault *f)
{
    bool parallel = true;
    if (!fields_check(root, fields, sizeof fields / sizeof *fields, f) || !request_common(r, root, f) ||
        !request_choices(r, root, f) || !request_bias(r, root, c->server->info.n_vocab, f))
        return false;
    if (!request_tokens_max(r, root, "n_predict", f) || !request_tokens_max(r, root, "max_tokens", f) ||
        !request_tokens_max(r, root, "max_completion_tokens", f) || !request_stops(r, root, "stop", f) ||
        !request_stream_options(r, root, f) || !read_bool(root, "return_progress", &r->progress_wanted, f) ||
        !read_bool(root, "parallel_tool_calls", &parallel, f) || !read_probs(r, root, f) ||
        !request_format(c, r, json_object_get(root, "response_format"), "response_format", f) ||
        !messages_tools(r, json_object_get(root, "tools"), f))
        return false;
    json_t *messages = messages_openai(json_object_get(root, "messages"), f);
    if (!messages) return false;
    json_t *vars = json_pack("{s:o}", "messages", messages);
    if (r->tools) json_object_set(vars, "tools", json_object_get(root, "tools"));
    request_template_vars(vars, root);
    request_id("chatcmpl-", r->id);
    r->one_call = !parallel;
    if (read_tool_choice(c, r, root, vars, f)) return messages_encode(c, vars, r, f);
    json_decref(vars);
    return false;
}

/* ---- writing ---- */

static const char *finish_reason(enum ending ending)
{
    return ending == ENDING_LENGTH ? "length" : ending == ENDING_CALLS ? "tool_calls" : "stop";
}

static json_t *head(const struct answer *a, const char *object, json_t *choices)
{
    const struct serve_request *r = a->request;
    return json_pack("{s:s, s:s, s:I, s:s, s:s, s:o}", "id", r->id, "object", object, "created",
                     (json_int_t)r->created_s, "model", r->model, "system_fingerprint", "sluice", "choices", choices);
}

static void send_delta(struct answer *a, json_t *delta, const char *finish)
{
    json_t *probs = a->probs ? json_pack("{s:o}", "content", a->probs) : json_null();
    a->probs = NULL;
    answer_message(a, NULL,
                   head(a, "chat.completion.chunk",
                        json_pack("[{s:i, s:o, s:o, s:s?}]", "index", (int)a->choice, "delta", delta, "logprobs", probs,
                                  "finish_reason", finish)));
}

static void chat_begin(struct answer *a)
{
    send_delta(a, json_pack("{s:s, s:s}", "role", "assistant", "content", ""), NULL);
}

static void chat_event(struct answer *a, const struct event *e)
{
    if (e->kind == EVENT_PROBS) {
        if (!a->probs) a->probs = json_array();
        json_array_append_new(a->probs, answer_probs_openai(e->probs));
        return;
    }
    if (!a->streamed) {
        answer_keep(a, e);
        return;
    }
    json_t *text = buffer_string(e->text.at, e->text.n), *data;
    switch (e->kind) {
    case EVENT_REASONING: send_delta(a, json_pack("{s:O}", "reasoning_content", text), NULL); break;
    case EVENT_TEXT: send_delta(a, json_pack("{s:O}", "content", text), NULL); break;
    case EVENT_CALL:
        send_delta(a,
                   json_pack("{s:[{s:i, s:s, s:s, s:{s:O, s:s}}]}", "tool_calls", "index", (int)e->call, "id", e->id,
                             "type", "function", "function", "name", text, "arguments", ""),
                   NULL);
        break;
    case EVENT_ARGUMENTS:
        send_delta(
            a, json_pack("{s:[{s:i, s:{s:O}}]}", "tool_calls", "index", (int)e->call, "function", "arguments", text),
            NULL);
        break;
    case EVENT_PROGRESS:
        data = head(a, "chat.completion.chunk", json_array());
        json_object_set_new(data, "prompt_progress", answer_progress(&e->progress));
        answer_message(a, NULL, data);
        break;
    case EVENT_ALIVE: buffer_word(&a->out, ANSWER_ALIVE); break;
    case EVENT_CALL_END:
    case EVENT_PROBS:
    case EVENT_BEGIN:
    case EVENT_CHOICE:
    case EVENT_END: break;
    }
    json_decref(text);
}

/* The last message of an answer. */
static json_t *finish(struct answer *a, const struct outcome *o)
{
    json_t *probs = a->probs ? json_pack("{s:o}", "content", a->probs) : json_null();
    a->probs = NULL;
    return head(a, "chat.completion.chunk",
                json_pack("[{s:i, s:{}, s:o, s:s}]", "index", (int)a->choice, "delta", "logprobs", probs,
                          "finish_reason", finish_reason(o->ending)));
}

static void chat_end(struct answer *a, const struct outcome *o)
{
    if (o->ending == ENDING_FAILED) {
        answer_fault_openai(a, &o->fault);
        return;
    }
    json_t *data = finish(a, o);
    json_object_set_new(data, "timings", answer_timings(o));
    answer_message(a, NULL, data);
    if (a->request->usage_wanted) {
        data = head(a, "chat.completion.chunk", json_array());
        json_object_set_new(data, "usage", answer_usage_openai(o));
        answer_message(a, NULL, data);
    }
    buffer_word(&a->out, "data: [DONE]\n\n");
}

static void chat_choice(struct answer *a, const struct outcome *o)
{
    if (a->streamed) {
        answer_message(a, NULL, finish(a, o));
        return;
    }
    json_t *message = json_pack("{s:s, s:o}", "role", "assistant", "content",
                                a->text.n || !a->n_calls ? buffer_string(a->text.at, a->text.n) : json_null());
    if (a->reasoning.n)
        json_object_set_new(message, "reasoning_content", buffer_string(a->reasoning.at, a->reasoning.n));
    if (a->n_calls) {
        json_t *calls = json_array();
        for (size_t i = 0; i < a->n_calls; i++) {
            const struct answer_call *c = &a->calls[i];
            json_array_append_new(calls, json_pack("{s:s, s:s, s:{s:o, s:o}}", "id", c->id, "type", "function",
                                                   "function", "name", buffer_string(c->name.at, c->name.n),
                                                   "arguments", buffer_string(c->arguments.at, c->arguments.n)));
        }
        json_object_set_new(message, "tool_calls", calls);
    }
    json_t *probs = json_null();
    if (a->request->probs_wanted) {
        probs = json_pack("{s:o}", "content", a->probs ? a->probs : json_array());
        a->probs = NULL;
    }
    answer_add_choice(a, json_pack("{s:i, s:o, s:o, s:s}", "index", (int)a->choice, "message", message, "logprobs",
                                   probs, "finish_reason", finish_reason(o->ending)));
}

static void chat_whole(struct answer *a, const struct outcome *o, struct buffer *out)
{
    chat_choice(a, o);
    json_t *root = head(a, "chat.completion", json_incref(a->choices));
    json_object_set_new(root, "usage", answer_usage_openai(o));
    json_object_set_new(root, "timings", answer_timings(o));
    buffer_json(out, root);
}

const struct writer writer_chat = {chat_begin, chat_event, chat_end, chat_whole, chat_choice};
