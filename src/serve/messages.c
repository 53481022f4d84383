#include "serve/messages.h"

#include "serve/server.h"

#include <stdlib.h>
#include <string.h>

bool messages_text(const json_t *content, const char *where, json_t **out, struct fault *f)
{
    *out = NULL;
    if (!content || json_is_null(content)) return true;
    if (json_is_string(content)) {
        *out = json_incref((json_t *)content);
        return true;
    }
    if (!json_is_array(content)) return fault_set(f, 400, where, "'%s' must be a string or a list of parts", where);
    struct buffer b = {.at = NULL};
    for (size_t i = 0; i < json_array_size(content); i++) {
        const json_t *part = json_array_get(content, i), *text = json_object_get(part, "text");
        const char *type = json_string_value(json_object_get(part, "type"));
        if (json_is_string(part)) text = part;
        if (!json_is_string(text)) {
            buffer_free(&b);
            return fault_set(f, 400, where, "part %zu of '%s' is of type '%.40s'; this model reads text alone", i,
                             where, type ? type : "?");
        }
        buffer_put(&b, json_string_value(text), json_string_length(text));
    }
    *out = json_stringn(b.at ? b.at : "", b.n);
    buffer_free(&b);
    return *out || fault_set(f, 500, NULL, "out of memory");
}

static bool check_calls(const json_t *calls, size_t i, struct fault *f)
{
    if (!json_is_array(calls)) return fault_set(f, 400, "messages", "'tool_calls' of message %zu must be a list", i);
    for (size_t k = 0; k < json_array_size(calls); k++) {
        const json_t *function = json_object_get(json_array_get(calls, k), "function");
        const json_t *arguments = json_object_get(function, "arguments");
        if (!json_is_string(json_object_get(function, "name")) ||
            (!json_is_string(arguments) && !json_is_object(arguments)))
            return fault_set(f, 400, "messages", "call %zu of message %zu needs a function with a name and arguments",
                             k, i);
    }
    return true;
}

static json_t *message_openai(const json_t *m, size_t i, struct fault *f)
{
    const char *role = json_string_value(json_object_get(m, "role"));
    json_t *text = NULL;
    const json_t *calls = json_object_get(m, "tool_calls");
    if (!json_is_object(m) || !role) {
        fault_set(f, 400, "messages", "message %zu is no object with a role", i);
        return NULL;
    }
    if (!strcmp(role, "function")) role = "tool";
    if (json_is_null(calls) || (json_is_array(calls) && !json_array_size(calls))) calls = NULL;
    if (calls && !check_calls(calls, i, f)) return NULL;
    if (!messages_text(json_object_get(m, "content"), "content", &text, f)) return NULL;
    if (!text && strcmp(role, "assistant") != 0) {
        fault_set(f, 400, "messages", "message %zu has no content", i);
        return NULL;
    }
    json_t *out = json_copy((json_t *)m);
    json_object_set_new(out, "role", json_string(role));
    json_object_set_new(out, "content", text ? text : json_string(""));
    json_object_del(out, "tool_calls");
    if (calls) json_object_set_new(out, "tool_calls", json_deep_copy(calls));
    const json_t *reasoning = json_object_get(m, "reasoning");
    if (json_is_string(reasoning) && !json_object_get(m, "reasoning_content"))
        json_object_set(out, "reasoning_content", (json_t *)reasoning);
    return out;
}

json_t *messages_openai(const json_t *messages, struct fault *f)
{
    if (!json_is_array(messages) || !json_array_size(messages)) {
        fault_set(f, 400, "messages", "'messages' must be a list of at least one message");
        return NULL;
    }
    json_t *out = json_array();
    for (size_t i = 0; i < json_array_size(messages); i++) {
        json_t *m = message_openai(json_array_get(messages, i), i, f);
        if (!m || json_array_append_new(out, m)) {
            json_decref(out);
            return NULL;
        }
    }
    return out;
}

bool messages_tools(struct serve_request *r, const json_t *tools, struct fault *f)
{
    if (!tools || json_is_null(tools)) return true;
    if (!json_is_array(tools)) return fault_set(f, 400, "tools", "'tools' must be a list");
    if (json_array_size(tools) > REQUEST_TOOLS_MAX)
        return fault_set(f, 400, "tools", "more than %d tools", REQUEST_TOOLS_MAX);
    if (!json_array_size(tools)) return true;
    r->tools = json_array();
    for (size_t i = 0; i < json_array_size(tools); i++) {
        json_t *tool = json_array_get(tools, i), *function = json_object_get(tool, "function");
        const char *type = json_string_value(json_object_get(tool, "type"));
        if (!type || strcmp(type, "function") != 0)
            return fault_set(f, 400, "tools", "tool %zu is of type '%.40s'; functions alone are supported", i,
                             type ? type : "?");
        if (!json_is_string(json_object_get(function, "name")))
            return fault_set(f, 400, "tools", "tool %zu has no function with a name", i);
        json_array_append(r->tools, function);
    }
    return true;
}

/* Arguments of calls in the messages: as objects, or as the texts that they came as. */
static void turn_arguments(json_t *messages, bool objects)
{
    size_t i, k;
    json_t *m, *call;
    json_array_foreach(messages, i, m) json_array_foreach(json_object_get(m, "tool_calls"), k, call)
    {
        json_t *function = json_object_get(call, "function"), *arguments = json_object_get(function, "arguments");
        if (objects && json_is_string(arguments)) {
            json_t *object =
                json_loadb(json_string_value(arguments), json_string_length(arguments), JSON_ALLOW_NUL, NULL);
            if (json_is_object(object))
                json_object_set_new(function, "arguments", object);
            else
                json_decref(object);
        } else if (!objects && json_is_object(arguments)) {
            char *text = buffer_dumped(arguments, 0);
            if (text) json_object_set_new(function, "arguments", json_string(text));
            free(text);
        }
    }
}

bool messages_encode(struct clerk *c, json_t *vars, struct serve_request *r, struct fault *f)
{
    const char *template = sluice_chat_template(c->engine);
    json_t *messages = json_object_get(vars, "messages");
    if (!json_object_get(vars, "add_generation_prompt"))
        json_object_set_new(vars, "add_generation_prompt", json_true());
    /* A template that knows only the older roles. */
    size_t i;
    json_t *m;
    json_array_foreach(messages, i, m)
    {
        const char *role = json_string_value(json_object_get(m, "role"));
        if (role && !strcmp(role, "developer") && template && !strstr(template, "developer"))
            json_object_set_new(m, "role", json_string("system"));
    }
    const bool texts = template && strstr(template, "arguments is string");
    turn_arguments(messages, !texts);
    bool good = clerk_encode_chat(c, vars, r, f);
    if (!good && f->status == 400) { /* one that puts texts together, or wants objects after all */
        struct fault second;
        turn_arguments(messages, texts);
        good = clerk_encode_chat(c, vars, r, &second);
    }
    r->vars = vars;
    return good;
}
