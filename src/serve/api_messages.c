/* POST /v1/messages and /v1/messages/count_tokens, as Anthropic's clients speak. */
#include "serve/api.h"
#include "serve/messages.h"
#include "serve/server.h"

#include <stdlib.h>
#include <string.h>

/* ---- reading ---- */

static const struct field fields[] = {
    {"messages", FIELD_READ, NULL},
    {"system", FIELD_READ, NULL},
    {"max_tokens", FIELD_READ, NULL},
    {"stop_sequences", FIELD_READ, NULL},
    {"tools", FIELD_READ, NULL},
    {"tool_choice", FIELD_READ, NULL},
    {"thinking", FIELD_READ, NULL},
    {"output_format", FIELD_READ, NULL},
    {"output_config", FIELD_READ, NULL},
    {"chat_template_kwargs", FIELD_READ, NULL},
    {"thread", FIELD_READ, NULL},
    {"context_management", FIELD_IGNORED, NULL},
    {"betas", FIELD_IGNORED, NULL},
    {"inference_geo", FIELD_IGNORED, NULL},
    {"return_progress", FIELD_READ, NULL},
    {"container", FIELD_NEUTRAL, NULL},
    {"mcp_servers", FIELD_NEUTRAL, NULL},
    {"presence_penalty", FIELD_NEUTRAL, "this API has none; chat/completions does"},
    {"frequency_penalty", FIELD_NEUTRAL, "this API has none; chat/completions does"},
    {"logit_bias", FIELD_NEUTRAL, "this API has none; chat/completions does"},
};

/* What one message's blocks become. */
struct turn {
    json_t *out; /* the list of all messages */
    struct buffer text, reasoning;
    json_t *calls; /* or NULL */
    bool any;
};

static const char *text_of(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

/* What was gathered so far becomes a message. */
static void end_turn(struct turn *t, const char *role)
{
    if (t->any || t->calls) {
        json_t *m = json_pack("{s:s, s:o}", "role", role, "content", buffer_string(t->text.at, t->text.n));
        if (t->reasoning.n) json_object_set_new(m, "reasoning_content", buffer_string(t->reasoning.at, t->reasoning.n));
        if (t->calls) json_object_set_new(m, "tool_calls", t->calls);
        json_array_append_new(t->out, m);
    }
    buffer_free(&t->text);
    buffer_free(&t->reasoning);
    t->calls = NULL;
    t->any = false;
}

static bool take_result(struct turn *t, const json_t *block, const char *role, struct fault *f)
{
    json_t *text;
    bool failed = false;
    if (!text_of(block, "tool_use_id")) return fault_set(f, 400, "messages", "a tool_result has no tool_use_id");
    if (!read_bool(block, "is_error", &failed, f)) return false;
    if (!messages_text(json_object_get(block, "content"), "content", &text, f)) return false;
    if (failed) { /* templates know no such field: the model reads it */
        struct buffer b = {.at = NULL};
        buffer_word(&b, "Error: ");
        buffer_put(&b, json_string_value(text), json_string_length(text));
        json_decref(text);
        text = buffer_string(b.at, b.n);
        buffer_free(&b);
    }
    end_turn(t, role);
    json_array_append_new(t->out, json_pack("{s:s, s:s, s:o}", "role", "tool", "tool_call_id",
                                            text_of(block, "tool_use_id"), "content", text ? text : json_string("")));
    return true;
}

static bool take_block(struct turn *t, const json_t *block, const char *role, struct fault *f)
{
    const char *type = text_of(block, "type");
    if (!type) return fault_set(f, 400, "messages", "a block of content has no type");
    if (!strcmp(type, "text")) {
        const json_t *text = json_object_get(block, "text");
        if (!json_is_string(text)) return fault_set(f, 400, "messages", "a text block has no text");
        buffer_put(&t->text, json_string_value(text), json_string_length(text));
        t->any = true;
    } else if (!strcmp(type, "thinking")) {
        const json_t *text = json_object_get(block, "thinking");
        buffer_put(&t->reasoning, json_string_value(text), json_string_length(text));
        t->any = true;
    } else if (!strcmp(type, "tool_use")) {
        const char *id = text_of(block, "id"), *name = text_of(block, "name");
        json_t *input = json_object_get(block, "input");
        if (!name || !json_is_object(input))
            return fault_set(f, 400, "messages", "a tool_use needs a name and an input");
        if (!t->calls) t->calls = json_array();
        json_array_append_new(t->calls, json_pack("{s:s, s:s, s:{s:s, s:O}}", "id", id ? id : "", "type", "function",
                                                  "function", "name", name, "arguments", input));
    } else if (!strcmp(type, "tool_result")) {
        return take_result(t, block, role, f);
    } else if (strcmp(type, "redacted_thinking") != 0) {
        return fault_set(f, 400, "messages", "content of type '%.40s' is not supported: this model reads text alone",
                         type);
    }
    return true;
}

static json_t *read_messages(const json_t *root, struct fault *f)
{
    const json_t *messages = json_object_get(root, "messages");
    struct turn t = {.out = json_array()};
    json_t *system = NULL;
    bool good = messages_text(json_object_get(root, "system"), "system", &system, f);
    if (good && system) json_array_append_new(t.out, json_pack("{s:s, s:o}", "role", "system", "content", system));
    if (good && (!json_is_array(messages) || !json_array_size(messages)))
        good = fault_set(f, 400, "messages", "'messages' must be a list of at least one message");
    for (size_t i = 0; good && i < json_array_size(messages); i++) {
        const json_t *m = json_array_get(messages, i), *content = json_object_get(m, "content");
        const char *role = text_of(m, "role");
        if (!role || (strcmp(role, "user") && strcmp(role, "assistant") && strcmp(role, "system"))) {
            good = fault_set(f, 400, "messages", "message %zu: the role must be user or assistant", i);
        } else if (json_is_string(content)) {
            buffer_put(&t.text, json_string_value(content), json_string_length(content));
            t.any = true;
        } else if (json_is_array(content)) {
            for (size_t k = 0; good && k < json_array_size(content); k++)
                good = take_block(&t, json_array_get(content, k), role, f);
        } else {
            good = fault_set(f, 400, "messages", "message %zu has no content", i);
        }
        if (good) end_turn(&t, role);
    }
    buffer_free(&t.text);
    buffer_free(&t.reasoning);
    json_decref(t.calls);
    if (good) return t.out;
    json_decref(t.out);
    return NULL;
}

/* Tools as the templates know them. */
static bool read_tools(struct serve_request *r, const json_t *root, json_t *vars, struct fault *f)
{
    const json_t *tools = json_object_get(root, "tools");
    if (!tools || json_is_null(tools)) return true;
    if (!json_is_array(tools)) return fault_set(f, 400, "tools", "'tools' must be a list");
    json_t *list = json_array();
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *tool = json_array_get(tools, i);
        const char *name = text_of(tool, "name"), *type = text_of(tool, "type");
        json_t *schema = json_object_get(tool, "input_schema");
        if ((type && strcmp(type, "custom") != 0) || !name || !json_is_object(schema)) {
            json_decref(list);
            return fault_set(f, 400, "tools", "tool %zu ('%.60s') is none with a name and an input_schema", i,
                             name   ? name
                             : type ? type
                                    : "?");
        }
        const char *what = text_of(tool, "description");
        json_array_append_new(list, json_pack("{s:s, s:{s:s, s:s, s:O}}", "type", "function", "function", "name", name,
                                              "description", what ? what : "", "parameters", schema));
    }
    const bool good = messages_tools(r, list, f);
    if (good && json_array_size(list)) json_object_set(vars, "tools", list);
    json_decref(list);
    return good;
}

static bool read_tool_choice(struct clerk *c, struct serve_request *r, const json_t *root, json_t *vars,
                             struct fault *f)
{
    const json_t *choice = json_object_get(root, "tool_choice");
    const char *type = text_of(choice, "type");
    bool one = false;
    if (!choice || json_is_null(choice)) return true;
    if (!type) return fault_set(f, 400, "tool_choice", "'tool_choice' has no type");
    if (!read_bool(choice, "disable_parallel_tool_use", &one, f)) return false;
    r->one_call = r->one_call || one;
    if (!strcmp(type, "auto")) return true;
    if (!strcmp(type, "none")) return request_choose_tool(c, r, vars, "none", NULL, f);
    if (!strcmp(type, "any")) return request_choose_tool(c, r, vars, "required", NULL, f);
    if (!strcmp(type, "tool")) return request_choose_tool(c, r, vars, "function", text_of(choice, "name"), f);
    return fault_set(f, 400, "tool_choice", "'tool_choice' of type '%.40s' is not known", type);
}

static bool read_thinking(struct serve_request *r, const json_t *root, json_t *vars, struct fault *f)
{
    const json_t *thinking = json_object_get(root, "thinking");
    const char *type = text_of(thinking, "type");
    if (!thinking || json_is_null(thinking)) return true;
    if (!type) return fault_set(f, 400, "thinking", "'thinking' has no type");
    const bool on = strcmp(type, "disabled") != 0;
    json_object_set_new(vars, "enable_thinking", json_boolean(on));
    json_object_set_new(vars, "thinking", json_boolean(on));
    int64_t budget = INT64_MAX;
    if (!read_integer(thinking, "budget_tokens", 1, INT64_MAX, &budget, f)) return false;
    if (on && budget < INT64_MAX) r->reasoning_max = (uint64_t)budget;
    return true;
}

/* Conversations are not stored. The client's helpers understand this code and send the whole of it instead. */
static bool check_thread(const json_t *root, struct fault *f)
{
    const json_t *thread = json_object_get(root, "thread");
    if (!thread || json_is_null(thread)) return true;
    fault_set(f, 400, "thread", "'thread' is not supported: nothing is stored; send the whole conversation");
    f->code = "thread_unsupported_request";
    f->unsupported = true;
    return false;
}

bool messages_read(struct clerk *c, const json_t *root, struct serve_request *r, struct fault *f)
{
    if (!fields_check(root, fields, sizeof fields / sizeof *fields, f) || !request_common(r, root, f)) return false;
    const json_t *format = json_object_get(root, "output_format");
    if (!format) format = json_object_get(json_object_get(root, "output_config"), "format");
    if (!check_thread(root, f) || !request_tokens_max(r, root, "max_tokens", f) ||
        !request_stops(r, root, "stop_sequences", f) || !read_bool(root, "return_progress", &r->progress_wanted, f))
        return false;
    request_id("msg_", r->id);
    r->call_prefix = "toolu_";
    json_t *messages = read_messages(root, f);
    if (!messages) return false;
    /* An answer that was begun by the client goes on. */
    const size_t n = json_array_size(messages);
    const json_t *last = json_array_get(messages, n - 1);
    json_t *prefill = NULL;
    if (n > 1 && !strcmp(text_of(last, "role"), "assistant") && !json_object_get(last, "tool_calls")) {
        prefill = json_incref(json_object_get(last, "content"));
        json_array_remove(messages, n - 1);
    }
    json_t *vars = json_pack("{s:o}", "messages", messages);
    bool good = read_tools(r, root, vars, f) && read_tool_choice(c, r, root, vars, f) &&
                read_thinking(r, root, vars, f) && request_format(c, r, format, "output_config.format", f);
    request_template_vars(vars, root);
    if (good)
        good = messages_encode(c, vars, r, f);
    else
        json_decref(vars);
    if (good && prefill) good = clerk_append_text(c, json_string_value(prefill), json_string_length(prefill), r, f);
    json_decref(prefill);
    return good;
}

bool messages_count(struct clerk *c, const json_t *root, struct buffer *out, struct fault *f)
{
    struct serve_request r;
    request_init(&r, &c->server->options.sampling, c->server->options.seeded);
    const bool good = messages_read(c, root, &r, f);
    if (good) buffer_json(out, json_pack("{s:I}", "input_tokens", (json_int_t)r.n_ids));
    request_free(&r);
    return good;
}

/* ---- writing ---- */

static json_t *usage(const struct outcome *o)
{
    return json_pack("{s:I, s:I, s:I, s:I}", "input_tokens", (json_int_t)(o->n_prompt - o->n_reused),
                     "cache_creation_input_tokens", (json_int_t)0, "cache_read_input_tokens", (json_int_t)o->n_reused,
                     "output_tokens", (json_int_t)o->n_generated);
}

static const char *stop_reason(enum ending ending)
{
    switch (ending) {
    case ENDING_STOP: return "stop_sequence";
    case ENDING_LENGTH: return "max_tokens";
    case ENDING_CALLS: return "tool_use";
    default: return "end_turn";
    }
}

static json_t *message(const struct answer *a, json_t *content, const char *reason, const char *stop, json_t *used)
{
    const struct serve_request *r = a->request;
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:s?, s:s?, s:o}", "id", r->id, "type", "message", "role", "assistant",
                     "model", r->model, "content", content, "stop_reason", reason, "stop_sequence", stop, "usage",
                     used);
}

static void begin(struct answer *a)
{
    const struct outcome none = {.n_prompt = a->request->n_ids, .n_reused = a->n_reused};
    answer_message(a, "message_start",
                   json_pack("{s:s, s:o}", "type", "message_start", "message",
                             message(a, json_array(), NULL, NULL, usage(&none))));
    answer_message(a, "ping", json_pack("{s:s}", "type", "ping"));
}

static void close_block(struct answer *a)
{
    if (a->open < 0) return;
    answer_message(a, "content_block_stop",
                   json_pack("{s:s, s:i}", "type", "content_block_stop", "index", (int)a->index++));
    a->open = -1;
}

static void open_block(struct answer *a, enum event_kind kind, json_t *block)
{
    close_block(a);
    a->open = kind;
    answer_message(
        a, "content_block_start",
        json_pack("{s:s, s:i, s:o}", "type", "content_block_start", "index", (int)a->index, "content_block", block));
}

static void send_delta(struct answer *a, const char *type, const char *key, const struct event *e)
{
    answer_message(a, "content_block_delta",
                   json_pack("{s:s, s:i, s:{s:s, s:o}}", "type", "content_block_delta", "index", (int)a->index, "delta",
                             "type", type, key, buffer_string(e->text.at, e->text.n)));
}

static void event(struct answer *a, const struct event *e)
{
    if (!a->streamed) {
        answer_keep(a, e);
        return;
    }
    switch (e->kind) {
    case EVENT_REASONING:
        if (a->open != EVENT_REASONING)
            open_block(a, EVENT_REASONING,
                       json_pack("{s:s, s:s, s:s}", "type", "thinking", "thinking", "", "signature", ""));
        send_delta(a, "thinking_delta", "thinking", e);
        break;
    case EVENT_TEXT:
        if (a->open != EVENT_TEXT) open_block(a, EVENT_TEXT, json_pack("{s:s, s:s}", "type", "text", "text", ""));
        send_delta(a, "text_delta", "text", e);
        break;
    case EVENT_CALL:
        open_block(a, EVENT_CALL,
                   json_pack("{s:s, s:s, s:o, s:{}}", "type", "tool_use", "id", e->id, "name",
                             buffer_string(e->text.at, e->text.n), "input"));
        break;
    case EVENT_ARGUMENTS: send_delta(a, "input_json_delta", "partial_json", e); break;
    case EVENT_CALL_END: close_block(a); break;
    case EVENT_ALIVE: answer_message(a, "ping", json_pack("{s:s}", "type", "ping")); break;
    case EVENT_PROGRESS: /* inside of a message that clients pass over */
        answer_message(a, "ping",
                       json_pack("{s:s, s:o}", "type", "ping", "prompt_progress", answer_progress(&e->progress)));
        break;
    case EVENT_PROBS:
    case EVENT_BEGIN:
    case EVENT_CHOICE:
    case EVENT_END: break;
    }
}

static void end(struct answer *a, const struct outcome *o)
{
    if (o->ending == ENDING_FAILED) {
        struct buffer b = {.at = NULL};
        fault_write(&o->fault, FAULT_ANTHROPIC, &b);
        buffer_format(&a->out, "event: error\ndata: %s\n\n", b.at ? b.at : "{}");
        buffer_free(&b);
        return;
    }
    close_block(a);
    answer_message(a, "message_delta",
                   json_pack("{s:s, s:{s:s, s:s?}, s:o, s:o}", "type", "message_delta", "delta", "stop_reason",
                             stop_reason(o->ending), "stop_sequence", o->stop, "usage", usage(o), "timings",
                             answer_timings(o)));
    answer_message(a, "message_stop", json_pack("{s:s}", "type", "message_stop"));
}

static void whole(struct answer *a, const struct outcome *o, struct buffer *out)
{
    json_t *content = json_array();
    if (a->reasoning.n)
        json_array_append_new(content, json_pack("{s:s, s:o, s:s}", "type", "thinking", "thinking",
                                                 buffer_string(a->reasoning.at, a->reasoning.n), "signature", ""));
    if (a->text.n)
        json_array_append_new(content,
                              json_pack("{s:s, s:o}", "type", "text", "text", buffer_string(a->text.at, a->text.n)));
    for (size_t i = 0; i < a->n_calls; i++) {
        const struct answer_call *c = &a->calls[i];
        json_t *input = json_loadb(c->arguments.at ? c->arguments.at : "{}", c->arguments.at ? c->arguments.n : 2,
                                   JSON_ALLOW_NUL, NULL);
        json_array_append_new(content,
                              json_pack("{s:s, s:s, s:o, s:o}", "type", "tool_use", "id", c->id, "name",
                                        buffer_string(c->name.at, c->name.n), "input", input ? input : json_object()));
    }
    json_t *root = message(a, content, stop_reason(o->ending), o->stop, usage(o));
    json_object_set_new(root, "timings", answer_timings(o));
    buffer_json(out, root);
}

const struct writer writer_messages = {begin, event, end, whole, NULL};
