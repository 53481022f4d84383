#include "grammar_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const json_t *follow(const json_t *root, const json_t *schema)
{
    const char *reference;
    while ((reference = json_string_value(json_object_get(schema, "$ref")))) {
        if (!strcmp(reference, "#"))
            schema = root;
        else if (!strncmp(reference, "#/$defs/", 8))
            schema = json_object_get(json_object_get(root, "$defs"), reference + 8);
        else
            abort();
    }
    return schema;
}

static bool is_type(const char *type, const json_t *v)
{
    if (!strcmp(type, "string")) return json_is_string(v);
    if (!strcmp(type, "integer")) return json_is_integer(v);
    if (!strcmp(type, "number")) return json_is_number(v);
    if (!strcmp(type, "boolean")) return json_is_boolean(v);
    if (!strcmp(type, "null")) return json_is_null(v);
    if (!strcmp(type, "array")) return json_is_array(v);
    return !strcmp(type, "object") && json_is_object(v);
}

static bool fits_type(const json_t *type, const json_t *v)
{
    size_t i;
    const json_t *t;
    if (!type) return true;
    if (json_is_string(type)) return is_type(json_string_value(type), v);
    json_array_foreach(type, i, t) if (is_type(json_string_value(t), v)) return true;
    return false;
}

static size_t characters(const json_t *v)
{
    size_t n = 0;
    for (size_t i = 0; i < json_string_length(v); i++) n += ((unsigned char)json_string_value(v)[i] & 0xc0) != 0x80;
    return n;
}

static bool within(const json_t *schema, const char *least, const char *most, size_t n)
{
    const json_t *low = json_object_get(schema, least), *high = json_object_get(schema, most);
    return (!low || (json_int_t)n >= json_integer_value(low)) && (!high || (json_int_t)n <= json_integer_value(high));
}

static bool fits_object(const json_t *root, const json_t *schema, const json_t *value)
{
    const json_t *properties = json_object_get(schema, "properties"),
                 *more = json_object_get(schema, "additionalProperties"), *name;
    const char *key;
    json_t *member;
    size_t i;
    json_array_foreach(json_object_get(schema, "required"), i,
                       name) if (!json_object_get(value, json_string_value(name))) return false;
    void *at;
    for (at = json_object_iter((json_t *)value); at; at = json_object_iter_next((json_t *)value, at)) {
        key = json_object_iter_key(at);
        member = json_object_iter_value(at);
        const json_t *own = json_object_get(properties, key);
        if (own ? !check_fits(root, own, member) : more && !check_fits(root, more, member)) return false;
    }
    return true;
}

bool check_fits(const json_t *root, const json_t *schema, const json_t *value)
{
    size_t i;
    const json_t *item;
    schema = follow(root, schema);
    if (json_is_boolean(schema)) return json_is_true(schema);
    const json_t *any = json_object_get(schema, "anyOf"), *list = json_object_get(schema, "enum"),
                 *same = json_object_get(schema, "const"), *items = json_object_get(schema, "items");
    if (!fits_type(json_object_get(schema, "type"), value)) return false;
    if (same && !json_equal(same, value)) return false;
    if (list) {
        bool found = false;
        json_array_foreach(list, i, item) found = found || json_equal(item, value);
        if (!found) return false;
    }
    if (any) {
        bool found = false;
        json_array_foreach(any, i, item) found = found || check_fits(root, item, value);
        if (!found) return false;
    }
    if (json_is_string(value) && !within(schema, "minLength", "maxLength", characters(value))) return false;
    if (json_is_array(value)) {
        if (!within(schema, "minItems", "maxItems", json_array_size(value))) return false;
        json_array_foreach(value, i, item) if (items && !check_fits(root, items, item)) return false;
    }
    return !json_is_object(value) || fits_object(root, schema, value);
}

/* ---- inventing ---- */

uint32_t check_random(uint32_t below)
{
    static uint64_t state = 7;
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return below ? (uint32_t)(state >> 33) % below : 0;
}

static void put(struct check_text *t, const char *text, size_t bytes)
{
    if (t->room - t->n <= bytes) {
        t->room = (t->n + bytes + 1) * 2;
        if (!(t->at = realloc(t->at, t->room))) abort();
    }
    memcpy(t->at + t->n, text, bytes);
    t->n += bytes;
    t->at[t->n] = '\0';
}

static void word(struct check_text *t, const char *text) { put(t, text, strlen(text)); }

static void space(struct check_text *t)
{
    switch (check_random(8)) {
    case 0:
    case 1:
    case 2: word(t, " "); break;
    case 3: word(t, "\n"); break;
    case 4: word(t, "\n\n"); break;
    case 5:
        word(t, check_random(2) ? "\n" : "\n\n");
        for (uint32_t n = check_random(33); n-- > 0;) word(t, check_random(4) ? " " : "\t");
        break;
    default: break;
    }
}

static void mark(struct check_text *t, const char *text)
{
    word(t, text);
    space(t);
}

/* One character, and never a quote or a backslash bare. */
static void character(struct check_text *t, bool key)
{
    static const char *const some[] = {"a",
                                       "Z",
                                       "0",
                                       " ",
                                       "/",
                                       "{",
                                       "}",
                                       ":",
                                       ",",
                                       "é",
                                       "߿",
                                       "€",
                                       "\xee\x80\x80",
                                       "日",
                                       "\xed\x9f\xbf",
                                       "😀",
                                       "\xf0\x90\x80\x80",
                                       "\xf4\x8f\xbf\xbf",
                                       "\x7f"};
    static const char *const escapes[] = {"\\\"",    "\\\\",    "\\n",    "\\t",     "\\r",
                                          "\\b",     "\\f",     "\\/",    "\\u0041", "\\uD83D\\ude00",
                                          "\\ud7ff", "\\uE000", "\\u00e9"};
    if (check_random(5))
        word(t, some[check_random(sizeof some / sizeof *some)]);
    else
        word(t, escapes[check_random(key ? 7 : sizeof escapes / sizeof *escapes)]);
}

static void text_of(struct check_text *t, size_t least, size_t most, bool key)
{
    size_t n = least;
    while (n < most && check_random(4)) n++;
    word(t, "\"");
    while (n-- > 0) character(t, key);
    word(t, "\"");
}

static void number(struct check_text *t, bool integer)
{
    static const char *const some[] = {"0", "-0", "7", "-42", "123456789012345678", "1000000"};
    static const char *const tails[] = {"", ".5", ".0", ".123456789012345678", "e5", "E+10", "e-7", ".25e99"};
    word(t, some[check_random(6)]);
    if (!integer) word(t, tails[check_random(8)]);
}

static unsigned nesting;

static void any_value(struct check_text *t);

static void any_object(struct check_text *t)
{
    mark(t, "{");
    for (uint32_t n = nesting > 12 ? 0 : check_random(3); n > 0; n--) {
        text_of(t, 0, 5, false);
        space(t);
        mark(t, ":");
        any_value(t);
        space(t);
        if (n > 1) mark(t, ",");
    }
    word(t, "}");
}

static void any_array(struct check_text *t)
{
    mark(t, "[");
    for (uint32_t n = nesting > 12 ? 0 : check_random(3); n > 0; n--) {
        any_value(t);
        space(t);
        if (n > 1) mark(t, ",");
    }
    word(t, "]");
}

static void any_value(struct check_text *t)
{
    nesting++;
    switch (check_random(nesting > 12 ? 4 : 6)) {
    case 0: word(t, "null"); break;
    case 1: word(t, check_random(2) ? "true" : "false"); break;
    case 2: number(t, false); break;
    case 3: text_of(t, 0, 8, false); break;
    case 4: any_object(t); break;
    default: any_array(t); break;
    }
    nesting--;
}

static void literal(struct check_text *t, const json_t *v)
{
    size_t i;
    const json_t *item;
    if (json_is_array(v)) {
        mark(t, "[");
        json_array_foreach(v, i, item)
        {
            if (i) mark(t, ",");
            literal(t, item);
            space(t);
        }
        word(t, "]");
    } else if (json_is_object(v)) {
        mark(t, "{");
        void *at = json_object_iter((json_t *)v);
        for (bool first = true; at; at = json_object_iter_next((json_t *)v, at), first = false) {
            if (!first) mark(t, ",");
            word(t, "\"");
            word(t, json_object_iter_key(at));
            word(t, "\"");
            space(t);
            mark(t, ":");
            literal(t, json_object_iter_value(at));
            space(t);
        }
        word(t, "}");
    } else {
        char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
        word(t, text);
        free(text);
    }
}

static bool is_required(const json_t *schema, const char *key)
{
    size_t i;
    const json_t *name;
    json_array_foreach(json_object_get(schema, "required"), i,
                       name) if (!strcmp(json_string_value(name), key)) return true;
    return false;
}

static void member(struct check_text *t, bool *first)
{
    if (!*first) mark(t, ",");
    *first = false;
}

static void object(const json_t *root, const json_t *schema, struct check_text *t)
{
    json_t *properties = json_object_get(schema, "properties");
    const json_t *more = json_object_get(schema, "additionalProperties"), *name;
    const bool open = more ? !json_is_false(more) : !json_object_size(properties);
    bool first = true;
    size_t i;
    mark(t, "{");
    for (void *at = json_object_iter(properties); at; at = json_object_iter_next(properties, at)) {
        const char *key = json_object_iter_key(at);
        const json_t *own = json_object_iter_value(at);
        if (json_is_false(own) || (!is_required(schema, key) && (nesting > 8 || check_random(2)))) continue;
        member(t, &first);
        json_t *shown = json_string(key);
        literal(t, shown);
        json_decref(shown);
        space(t);
        mark(t, ":");
        check_invent(root, own, t);
        space(t);
    }
    json_array_foreach(json_object_get(schema, "required"), i, name)
    {
        if (json_object_get(properties, json_string_value(name))) continue;
        member(t, &first);
        literal(t, name);
        space(t);
        mark(t, ":");
        if (more)
            check_invent(root, more, t);
        else
            any_value(t);
        space(t);
    }
    for (uint32_t n = open && nesting < 8 ? check_random(3) : 0; n > 0; n--) {
        struct check_text key = {0};
        text_of(&key, 0, 6, true);
        json_error_t why;
        json_t *shown = json_loads(key.at, JSON_DECODE_ANY, &why);
        if (!json_object_get(properties, json_string_value(shown)) && !is_required(schema, json_string_value(shown))) {
            member(t, &first);
            word(t, key.at);
            space(t);
            mark(t, ":");
            if (more && !json_is_true(more))
                check_invent(root, more, t);
            else
                any_value(t);
            space(t);
        }
        json_decref(shown);
        free(key.at);
    }
    word(t, "}");
}

static size_t length(const json_t *schema, const char *key, size_t otherwise)
{
    const json_t *v = json_object_get(schema, key);
    return v ? (size_t)json_integer_value(v) : otherwise;
}

static void array(const json_t *root, const json_t *schema, struct check_text *t)
{
    const size_t least = length(schema, "minItems", 0), most = length(schema, "maxItems", least + 5);
    const json_t *items = json_object_get(schema, "items");
    size_t n = json_is_false(items) ? 0 : least;
    while (!json_is_false(items) && n < most && nesting < 8 && check_random(3)) n++;
    mark(t, "[");
    for (size_t i = 0; i < n; i++) {
        if (i) mark(t, ",");
        if (items)
            check_invent(root, items, t);
        else
            any_value(t);
        space(t);
    }
    word(t, "]");
}

static const char *type_of(const json_t *schema)
{
    const json_t *type = json_object_get(schema, "type");
    if (json_is_array(type)) type = json_array_get(type, check_random((uint32_t)json_array_size(type)));
    if (type) return json_string_value(type);
    if (json_object_get(schema, "properties") || json_object_get(schema, "required") ||
        json_object_get(schema, "additionalProperties"))
        return "object";
    if (json_object_get(schema, "items") || json_object_get(schema, "minItems") || json_object_get(schema, "maxItems"))
        return "array";
    return json_object_get(schema, "minLength") || json_object_get(schema, "maxLength") ? "string" : "any";
}

static void invent_here(const json_t *root, const json_t *schema, struct check_text *t)
{
    const json_t *list = json_object_get(schema, "enum"), *same = json_object_get(schema, "const"),
                 *any = json_object_get(schema, "anyOf");
    if (any) {
        /* Deep inside the first alternative, which ends recursion in the tests' schemas. */
        check_invent(root, json_array_get(any, nesting > 8 ? 0 : check_random((uint32_t)json_array_size(any))), t);
        return;
    }
    if (same || list) {
        const json_t *type = json_object_get(schema, "type"), *v = same;
        while (!v || !fits_type(type, v)) v = json_array_get(list, check_random((uint32_t)json_array_size(list)));
        literal(t, v);
        return;
    }
    const char *type = type_of(schema);
    if (!strcmp(type, "any"))
        any_value(t);
    else if (!strcmp(type, "object"))
        object(root, schema, t);
    else if (!strcmp(type, "array"))
        array(root, schema, t);
    else if (!strcmp(type, "string"))
        text_of(t, length(schema, "minLength", 0), length(schema, "maxLength", length(schema, "minLength", 0) + 20),
                false);
    else if (!strcmp(type, "boolean"))
        word(t, check_random(2) ? "true" : "false");
    else if (!strcmp(type, "null"))
        word(t, "null");
    else
        number(t, !strcmp(type, "integer"));
}

void check_invent(const json_t *root, const json_t *schema, struct check_text *out)
{
    schema = follow(root, schema);
    nesting++;
    if (json_is_true(schema))
        any_value(out);
    else
        invent_here(root, schema, out);
    nesting--;
}
