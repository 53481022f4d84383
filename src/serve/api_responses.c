/* POST /v1/responses: how its requests are read. responses_write.c has the answers. */
#include "serve/api.h"
#include "serve/messages.h"
#include "serve/server.h"

#include <stdlib.h>
#include <string.h>

static const struct field fields[] = {
    {"input", FIELD_READ, NULL},
    {"instructions", FIELD_READ, NULL},
    {"max_output_tokens", FIELD_READ, NULL},
    {"tools", FIELD_READ, NULL},
    {"tool_choice", FIELD_READ, NULL},
    {"parallel_tool_calls", FIELD_READ, NULL},
    {"text", FIELD_READ, NULL},
    {"reasoning", FIELD_READ, NULL},
    {"top_logprobs", FIELD_READ, NULL},
    {"stop", FIELD_READ, NULL},
    {"chat_template_kwargs", FIELD_READ, NULL},
    {"include", FIELD_READ, NULL},
    {"stream_options", FIELD_IGNORED, NULL},
    {"client_metadata", FIELD_IGNORED, NULL},
    {"truncation", FIELD_READ, NULL},
    {"return_progress", FIELD_READ, NULL},
    {"previous_response_id", FIELD_NEUTRAL, "nothing is stored; send the whole conversation"},
    {"conversation", FIELD_NEUTRAL, "nothing is stored; send the whole conversation"},
    {"background", FIELD_NEUTRAL, NULL},
    {"prompt", FIELD_NEUTRAL, NULL},
    {"max_tool_calls", FIELD_NEUTRAL, NULL},
    {"presence_penalty", FIELD_NEUTRAL, "this API has none; chat/completions does"},
    {"frequency_penalty", FIELD_NEUTRAL, "this API has none; chat/completions does"},
    {"logit_bias", FIELD_NEUTRAL, "this API has none; chat/completions does"},
};

static const char *text_of(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

/* The messages so far; items of one assistant's turn are joined. */
struct conversation {
    json_t *messages;
    json_t *turn; /* the assistant's turn that is open: the last of messages; borrowed */
};

static json_t *open_turn(struct conversation *c)
{
    if (!c->turn) {
        c->turn = json_pack("{s:s, s:s}", "role", "assistant", "content", "");
        json_array_append_new(c->messages, c->turn);
    }
    return c->turn;
}

static void add_to(json_t *message, const char *key, const json_t *text)
{
    const json_t *old = json_object_get(message, key);
    struct buffer b = {.at = NULL};
    buffer_put(&b, json_string_value(old), json_string_length(old));
    buffer_put(&b, json_string_value(text), json_string_length(text));
    json_object_set_new(message, key, buffer_string(b.at, b.n));
    buffer_free(&b);
}

static bool take_message(struct conversation *c, const json_t *item, size_t i, struct fault *f)
{
    const char *role = text_of(item, "role");
    json_t *text;
    if (!role) return fault_set(f, 400, "input", "item %zu of 'input' has no role", i);
    if (!messages_text(json_object_get(item, "content"), "content", &text, f)) return false;
    if (!text) return fault_set(f, 400, "input", "item %zu of 'input' has no content", i);
    if (!strcmp(role, "assistant")) {
        add_to(open_turn(c), "content", text);
        json_decref(text);
        return true;
    }
    c->turn = NULL;
    json_array_append_new(c->messages, json_pack("{s:s, s:o}", "role", role, "content", text));
    return true;
}

static bool take_call(struct conversation *c, const json_t *item, size_t i, struct fault *f)
{
    const char *id = text_of(item, "call_id"), *name = text_of(item, "name"), *arguments = text_of(item, "arguments");
    if (!id || !name || !arguments)
        return fault_set(f, 400, "input", "item %zu of 'input' needs call_id, name and arguments", i);
    json_t *turn = open_turn(c), *calls = json_object_get(turn, "tool_calls");
    if (!calls) json_object_set_new(turn, "tool_calls", calls = json_array());
    json_array_append_new(calls, json_pack("{s:s, s:s, s:{s:s, s:s}}", "id", id, "type", "function", "function", "name",
                                           name, "arguments", arguments));
    return true;
}

static bool take_output(struct conversation *c, const json_t *item, size_t i, struct fault *f)
{
    json_t *text;
    if (!text_of(item, "call_id")) return fault_set(f, 400, "input", "item %zu of 'input' has no call_id", i);
    if (!messages_text(json_object_get(item, "output"), "output", &text, f)) return false;
    c->turn = NULL;
    json_array_append_new(c->messages, json_pack("{s:s, s:s, s:o}", "role", "tool", "tool_call_id",
                                                 text_of(item, "call_id"), "content", text ? text : json_string("")));
    return true;
}

/* What the client keeps of it: the text in `content`, or a summary. */
static void take_reasoning(struct conversation *c, const json_t *item)
{
    const json_t *parts = json_object_get(item, "content");
    if (!json_array_size(parts)) parts = json_object_get(item, "summary");
    json_t *turn = NULL;
    for (size_t k = 0; k < json_array_size(parts); k++) {
        const json_t *text = json_object_get(json_array_get(parts, k), "text");
        if (!json_is_string(text)) continue;
        if (!turn) {
            c->turn = NULL; /* reasoning begins a turn */
            turn = open_turn(c);
        }
        add_to(turn, "reasoning_content", text);
    }
}

static bool take_item(struct conversation *c, const json_t *item, size_t i, struct fault *f)
{
    const char *type = text_of(item, "type");
    if (!json_is_object(item)) return fault_set(f, 400, "input", "item %zu of 'input' is no object", i);
    if (!type || !strcmp(type, "message")) return take_message(c, item, i, f);
    if (!strcmp(type, "function_call")) return take_call(c, item, i, f);
    if (!strcmp(type, "function_call_output")) return take_output(c, item, i, f);
    if (strcmp(type, "reasoning") != 0)
        return fault_set(f, 400, "input", "item %zu of 'input' is of type '%.40s', which is not supported", i, type);
    take_reasoning(c, item);
    return true;
}

static json_t *read_input(const json_t *root, struct fault *f)
{
    const json_t *input = json_object_get(root, "input");
    const char *instructions = NULL;
    struct conversation c = {.messages = json_array()};
    bool good = read_text(root, "instructions", &instructions, f);
    if (good && instructions)
        json_array_append_new(c.messages, json_pack("{s:s, s:s}", "role", "system", "content", instructions));
    if (good && json_is_string(input))
        json_array_append_new(c.messages, json_pack("{s:s, s:O}", "role", "user", "content", input));
    else if (good && (!json_is_array(input) || !json_array_size(input)))
        good = fault_set(f, 400, "input", "'input' must be a string or a list of at least one item");
    for (size_t i = 0; good && i < json_array_size(input); i++) good = take_item(&c, json_array_get(input, i), i, f);
    if (good) return c.messages;
    json_decref(c.messages);
    return NULL;
}

static bool read_tools(struct clerk *c, struct serve_request *r, const json_t *root, json_t *vars, struct fault *f)
{
    const json_t *tools = json_object_get(root, "tools"), *choice = json_object_get(root, "tool_choice");
    json_t *list = json_array();
    bool good = true;
    if (tools && !json_is_null(tools) && !json_is_array(tools))
        good = fault_set(f, 400, "tools", "'tools' must be a list");
    for (size_t i = 0; good && i < json_array_size(tools); i++) {
        json_t *tool = json_array_get(tools, i);
        const char *type = text_of(tool, "type");
        if (!type || strcmp(type, "function") != 0 || !text_of(tool, "name")) {
            good = fault_set(f, 400, "tools", "tool %zu is of type '%.40s'; functions with a name alone are supported",
                             i, type ? type : "?");
            break;
        }
        json_t *function = json_copy(tool);
        json_object_del(function, "type");
        json_object_del(function, "strict");
        json_array_append_new(list, json_pack("{s:s, s:o}", "type", "function", "function", function));
    }
    if (good) good = messages_tools(r, list, f);
    if (good && json_array_size(list)) json_object_set(vars, "tools", list);
    json_decref(list);
    if (!good || !choice || json_is_null(choice)) return good;
    if (json_is_string(choice)) return request_choose_tool(c, r, vars, json_string_value(choice), NULL, f);
    const char *type = text_of(choice, "type");
    if (!type || strcmp(type, "function") != 0)
        return fault_set(f, 400, "tool_choice", "'tool_choice' of type '%.40s' is not supported", type ? type : "?");
    return request_choose_tool(c, r, vars, "function", text_of(choice, "name"), f);
}

/* What else of it would be included there never is; encrypted reasoning is asked for by clients that store nothing. */
static bool read_include(struct serve_request *r, const json_t *root, struct fault *f)
{
    const json_t *list = json_object_get(root, "include");
    if (list && !json_is_null(list) && !json_is_array(list))
        return fault_set(f, 400, "include", "'include' must be a list");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *what = json_string_value(json_array_get(list, i));
        if (!what) return fault_set(f, 400, "include", "element %zu of 'include' is no string", i);
        if (!strcmp(what, "message.output_text.logprobs")) r->probs_wanted = true;
    }
    return true;
}

static bool read_rest(struct clerk *c, struct serve_request *r, const json_t *root, struct fault *f)
{
    int64_t n = 0;
    bool parallel = true;
    const char *truncation = NULL;
    if (!request_tokens_max(r, root, "max_output_tokens", f) || !request_stops(r, root, "stop", f) ||
        !read_integer(root, "top_logprobs", 0, REQUEST_PROBS_MAX, &n, f) ||
        !read_bool(root, "parallel_tool_calls", &parallel, f) ||
        !read_bool(root, "return_progress", &r->progress_wanted, f) || !read_text(root, "truncation", &truncation, f) ||
        !request_format(c, r, json_object_get(json_object_get(root, "text"), "format"), "text.format", f))
        return false;
    if (truncation && strcmp(truncation, "disabled") != 0)
        return fault_set(f, 400, "truncation", "'truncation' must be \"disabled\": nothing is cut silently");
    r->n_probs = (uint32_t)n;
    r->probs_wanted = n > 0;
    if (!read_include(r, root, f)) return false;
    r->one_call = !parallel;
    return true;
}

bool responses_read(struct clerk *c, const json_t *root, struct serve_request *r, struct fault *f)
{
    if (!fields_check(root, fields, sizeof fields / sizeof *fields, f) || !request_common(r, root, f) ||
        !read_rest(c, r, root, f))
        return false;
    request_id("resp_", r->id);
    r->original = json_incref((json_t *)root);
    json_t *messages = read_input(root, f);
    if (!messages) return false;
    json_t *vars = json_pack("{s:o}", "messages", messages);
    const json_t *effort = json_object_get(json_object_get(root, "reasoning"), "effort");
    if (json_is_string(effort)) json_object_set(vars, "reasoning_effort", (json_t *)effort);
    request_template_vars(vars, root);
    if (read_tools(c, r, root, vars, f)) return messages_encode(c, vars, r, f);
    json_decref(vars);
    return false;
}
