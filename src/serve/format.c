/* What an answer may be: response_format, tool_choice. */
#include "serve/clerk.h"
#include "serve/server.h"

#include <string.h>

void request_template_vars(json_t *vars, const json_t *root)
{
    static const char *const names[] = {"reasoning_effort", "enable_thinking"};
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get(root, "chat_template_kwargs"), key,
                        value) if (strcmp(key, "messages") != 0 && strcmp(key, "tools") != 0)
        json_object_set(vars, key, value);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if ((value = json_object_get(root, names[i])) && !json_is_null(value)) json_object_set(vars, names[i], value);
}

bool request_format(struct clerk *c, struct serve_request *r, const json_t *format, struct fault *f)
{
    const char *type = json_string_value(json_object_get(format, "type"));
    if (!format || json_is_null(format) || (type && !strcmp(type, "text"))) return true;
    return fault_set(f, 400, "response_format", "a format of type '%.40s' is not supported", type ? type : "?");
}

bool request_choose_tool(struct clerk *c, struct serve_request *r, json_t *vars, const char *kind, const char *name,
                         struct fault *f)
{
    if (!strcmp(kind, "auto")) return true;
    if (!strcmp(kind, "none")) {
        json_object_del(vars, "tools");
        json_decref(r->tools);
        r->tools = NULL;
        return true;
    }
    return fault_set(f, 400, "tool_choice", "a tool_choice of '%.40s' is not supported", kind);
}
