/* What an answer may be: response_format, tool_choice. */
#include "serve/clerk.h"
#include "serve/server.h"
#include "serve/toolcall.h"

#include <stdio.h>
#include <stdlib.h>
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

static const char tools_name[] = "tools"; /* schema_from of a call that is asked for */

/* The schema's own faults are found by the engine's thread, before a stream begins. */
static bool set_schema(struct serve_request *r, const json_t *schema, const char *from, struct fault *f)
{
    free(r->schema);
    r->schema_from = from;
    r->schema = buffer_dumped(schema, JSON_COMPACT | JSON_ENCODE_ANY); /* true and false are schemas too */
    return r->schema || fault_set(f, 500, NULL, "out of memory");
}

bool request_format(struct clerk *c, struct serve_request *r, const json_t *format, const char *name, struct fault *f)
{
    const char *type = json_string_value(json_object_get(format, "type"));
    if (!format || json_is_null(format) || (type && !strcmp(type, "text"))) return true;
    if (type && !strcmp(type, "json_object")) { /* llama.cpp's clients put a schema beside it */
        const json_t *schema = json_object_get(format, "schema");
        if (schema) return set_schema(r, schema, name, f);
        free(r->schema);
        r->schema_from = name;
        r->schema = strdup("");
        return r->schema || fault_set(f, 500, NULL, "out of memory");
    }
    if (!type || strcmp(type, "json_schema") != 0)
        return fault_set(f, 400, name, "a format of type '%.40s' is not known; text, json_object and json_schema are",
                         type ? type : "?");
    const json_t *schema = json_object_get(format, "schema");
    if (!schema) schema = json_object_get(json_object_get(format, "json_schema"), "schema");
    if (!json_is_object(schema) && !json_is_boolean(schema))
        return fault_set(f, 400, name, "a format of type 'json_schema' needs a schema");
    return set_schema(r, schema, name, f);
}

static json_t *parameters_of(const json_t *tool)
{
    json_t *schema = json_object_get(tool, "parameters");
    return json_is_object(schema) && json_object_size(schema) ? json_incref(schema)
                                                              : json_pack("{s:s}", "type", "object");
}

static bool force_call(struct serve_request *r, const json_t *tool, struct fault *f)
{
    json_t *schema = parameters_of(tool);
    const bool good = set_schema(r, schema, tools_name, f);
    json_decref(schema);
    r->forced = true;
    r->forced_call = strdup(json_string_value(json_object_get(tool, "name")));
    return good && (r->forced_call || fault_set(f, 500, NULL, "out of memory"));
}

/* A schema's references to its own root, which now lies at `place` of a larger one. What enum and const hold are values
 * and no schemas; names: the keys are names that somebody has given. Requests nest 64 deep at most. */
static void move_references(json_t *schema, const char *place, bool names)
{
    const char *key;
    json_t *value;
    size_t i;
    json_array_foreach(schema, i, value) move_references(value, place, false);
    json_object_foreach(schema, key, value)
    {
        const char *to = names || strcmp(key, "$ref") != 0 ? NULL : json_string_value(value);
        const bool are_names = !strcmp(key, "properties") || !strcmp(key, "$defs") || !strcmp(key, "definitions");
        if (to && to[0] == '#')
            json_object_set_new(schema, key, json_sprintf("%s%s", place, to + 1));
        else if (names || (strcmp(key, "enum") != 0 && strcmp(key, "const") != 0))
            move_references(value, place, !names && are_names);
    }
}

static json_t *moved_parameters(const json_t *tool, size_t i)
{
    char place[64];
    json_t *parameters = parameters_of(tool), *copy = json_deep_copy(parameters);
    json_decref(parameters);
    snprintf(place, sizeof place, "#/anyOf/%zu/properties/arguments", i);
    move_references(copy, place, false);
    return copy;
}

/* One of several: {"name": ..., "arguments": ...}. */
static bool force_any(struct serve_request *r, struct fault *f)
{
    json_t *any = json_array();
    for (size_t i = 0; i < json_array_size(r->tools); i++) {
        const json_t *tool = json_array_get(r->tools, i);
        json_array_append_new(any, json_pack("{s:s, s:{s:{s:O}, s:o}, s:[s, s], s:b}", "type", "object", "properties",
                                             "name", "const", json_object_get(tool, "name"), "arguments",
                                             moved_parameters(tool, i), "required", "name", "arguments",
                                             "additionalProperties", 0));
    }
    json_t *schema = json_pack("{s:o}", "anyOf", any);
    const bool good = set_schema(r, schema, tools_name, f);
    json_decref(schema);
    r->forced = true;
    return good;
}

static bool refuse_both(struct fault *f)
{
    return fault_set(f, 400, "tool_choice", "a call and a format of the answer cannot both be asked for");
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
    const bool any = !strcmp(kind, "required");
    if (!any && strcmp(kind, "function") != 0)
        return fault_set(f, 400, "tool_choice", "a tool_choice of '%.40s' is not known", kind);
    if (!json_array_size(r->tools))
        return fault_set(f, 400, "tool_choice", "'tool_choice' asks for a call, and there are no tools");
    if (r->schema) return refuse_both(f);
    if (any && json_array_size(r->tools) > 1) return force_any(r, f);
    for (size_t i = 0; i < json_array_size(r->tools); i++) {
        const json_t *tool = json_array_get(r->tools, i);
        if (any || (name && !strcmp(name, json_string_value(json_object_get(tool, "name")))))
            return force_call(r, tool, f);
    }
    return fault_set(f, 400, "tool_choice", "'tool_choice' names no tool: '%.60s'", name ? name : "?");
}

bool request_check_format(const struct clerk *c, const struct serve_request *r, struct fault *f)
{
    if (!r->schema || !r->tools) return true;
    if (r->forced && strcmp(r->schema_from, tools_name) != 0) return refuse_both(f);
    if (r->forced || serve_family_calls(c->server->family)) return true;
    return fault_set(f, 400, r->schema_from,
                     "tools and a format of the answer together need a model whose way to write calls is known, and "
                     "this one's chat template is of no such family; \"tool_choice\": \"none\" leaves the tools out");
}
