#include "serve/toolcall_kinds.h"

#include "serve/toolcall_parser.h"

#include <stdlib.h>
#include <string.h>

#define REFERENCES_MAX 16u /* followed one after another, and alternatives inside one another */

static uint32_t kind_of_name(const char *name)
{
    static const char *const names[] = {"string", "integer", "number", "boolean", "null", "object", "array"};
    for (unsigned i = 0; name && i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i])) return i == 2 ? SERVE_KIND_NUMBER | SERVE_KIND_INTEGER : 1u << i;
    return 0;
}

static uint32_t kind_of_value(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_STRING: return SERVE_KIND_STRING;
    case JSON_INTEGER: return SERVE_KIND_INTEGER;
    case JSON_REAL: return SERVE_KIND_NUMBER;
    case JSON_TRUE:
    case JSON_FALSE: return SERVE_KIND_BOOLEAN;
    case JSON_NULL: return SERVE_KIND_NULL;
    case JSON_OBJECT: return SERVE_KIND_OBJECT;
    default: return SERVE_KIND_ARRAY;
    }
}

/* "#/$defs/name" and "#/definitions/name". */
static const json_t *target(const json_t *root, const char *reference)
{
    static const char *const places[] = {"$defs", "definitions"};
    for (unsigned i = 0; i < 2; i++) {
        const size_t n = strlen(places[i]);
        if (!strncmp(reference, "#/", 2) && !strncmp(reference + 2, places[i], n) && reference[2 + n] == '/')
            return json_object_get(json_object_get(root, places[i]), reference + 3 + n);
    }
    return NULL;
}

static uint32_t kinds_of(const json_t *root, const json_t *schema, unsigned depth)
{
    static const char *const choices[] = {"anyOf", "oneOf", "enum"};
    uint32_t kinds = 0;
    size_t i;
    const json_t *item;
    if (!json_is_object(schema) || depth == REFERENCES_MAX) return SERVE_KIND_ANY;
    const char *reference = json_string_value(json_object_get(schema, "$ref"));
    if (reference) return kinds_of(root, target(root, reference), depth + 1);
    const json_t *type = json_object_get(schema, "type"), *same = json_object_get(schema, "const");
    if (json_is_string(type)) return kind_of_name(json_string_value(type));
    if (json_is_array(type)) {
        json_array_foreach(type, i, item) kinds |= kind_of_name(json_string_value(item));
        return kinds ? kinds : SERVE_KIND_ANY;
    }
    if (same) return kind_of_value(same);
    for (unsigned c = 0; c < 3; c++) {
        const json_t *list = json_object_get(schema, choices[c]);
        if (!json_is_array(list)) continue;
        json_array_foreach(list, i, item) kinds |= c == 2 ? kind_of_value(item) : kinds_of(root, item, depth + 1);
        if (kinds) return kinds;
    }
    return SERVE_KIND_ANY;
}

uint32_t serve_kinds(const json_t *parameters, const char *key)
{
    const json_t *schema = json_object_get(json_object_get(parameters, "properties"), key);
    const uint32_t kinds = kinds_of(parameters, schema, 0);
    return kinds ? kinds : SERVE_KIND_ANY;
}

static char *as_string(const char *text, size_t bytes)
{
    char *out = bytes < SIZE_MAX / 8 ? malloc(bytes * 6 + 3) : NULL;
    if (!out) return NULL;
    char *at = out;
    *at++ = '"';
    for (size_t i = 0; i < bytes; i++) {
        char escape[6];
        const size_t n = serve_json_escape((unsigned char)text[i], escape);
        memcpy(at, escape, n);
        at += n;
    }
    *at++ = '"';
    *at = '\0';
    return out;
}

char *serve_value_of(const char *text, size_t bytes, uint32_t kinds)
{
    static const struct {
        const char *python, *json;
        uint32_t kind;
    } words[] = {{"True", "true", SERVE_KIND_BOOLEAN},
                 {"False", "false", SERVE_KIND_BOOLEAN},
                 {"None", "null", SERVE_KIND_NULL}};
    const char *begin = text, *end = text + bytes;
    while (begin < end && serve_is_blank(*begin)) begin++;
    while (end > begin && serve_is_blank(end[-1])) end--;
    const size_t n = (size_t)(end - begin);
    for (unsigned i = 0; i < 3; i++)
        if (kinds != SERVE_KIND_ANY && kinds & words[i].kind && n == strlen(words[i].python) &&
            !memcmp(begin, words[i].python, n))
            return strdup(words[i].json);
    json_error_t why;
    json_t *value = json_loadb(begin, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &why);
    const bool fits = value && !json_is_string(value) && kinds & kind_of_value(value);
    json_decref(value);
    return fits ? strndup(begin, n) : as_string(text, bytes);
}
