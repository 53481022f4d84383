/* One rule a schema. A reference takes the rule of what it points to, which may be one that is being made: so recursion
 * costs nothing. Properties come in the schema's order; those that are not required may be skipped. */
#include "text/schema.h"

#include "text/schema_json.h"
#include "text/schema_parts.h"

#include <stdlib.h>
#include <string.h>

enum kinds {
    KIND_STRING = 1,
    KIND_INTEGER = 2,
    KIND_NUMBER = 4,
    KIND_BOOLEAN = 8,
    KIND_NULL = 16,
    KIND_OBJECT = 32,
    KIND_ARRAY = 64,
};

struct build {
    struct automaton *a;
    struct schema_tree t;
    uint32_t *rules; /* [values] or SCHEMA_NONE */
    struct sluice_error *err;
    enum sluice_status status; /* the first failure stays */
    unsigned depth;
};

static uint32_t compile(struct build *b, uint32_t schema);

static const struct schema_value *at(const struct build *b, uint32_t value) { return &b->t.values[value]; }

static uint32_t member(const struct build *b, uint32_t schema, const char *key)
{
    return schema_member(&b->t, schema, key, strlen(key));
}

static void refuse(struct build *b, uint32_t where, const char *what)
{
    char place[200];
    if (b->status) return;
    schema_place(&b->t, where, place, sizeof place);
    b->status = base_fail(b->err, SLUICE_ERR_USAGE, NULL, "schema, %s: %s", place, what);
}

static bool is_one_of(const struct schema_value *v, const char *const *names)
{
    for (size_t i = 0; names[i]; i++)
        if (v->key_bytes == strlen(names[i]) && !memcmp(v->key, names[i], v->key_bytes)) return true;
    return false;
}

static const char *const keywords[] = {"type",
                                       "properties",
                                       "required",
                                       "additionalProperties",
                                       "items",
                                       "minItems",
                                       "maxItems",
                                       "minLength",
                                       "maxLength",
                                       "minimum",
                                       "maximum",
                                       "exclusiveMinimum",
                                       "exclusiveMaximum",
                                       NULL},
                         *const alone[] = {"enum", "const", "anyOf", "$ref", NULL};

/* beside: one of `alone`, or NULL. */
static void refuse_keyword(struct build *b, uint32_t where, const struct schema_value *keyword, const char *beside)
{
    const int bytes = (int)(keyword->key_bytes < 60 ? keyword->key_bytes : 60);
    const bool known = is_one_of(keyword, keywords) || is_one_of(keyword, alone);
    char place[200];
    if (b->status) return;
    schema_place(&b->t, where, place, sizeof place);
    if (known && beside)
        b->status =
            base_fail(b->err, SLUICE_ERR_USAGE, NULL, "schema, %s: the keyword '%.*s' is not supported beside '%s'",
                      place, bytes, keyword->key, beside);
    else if (known)
        b->status =
            base_fail(b->err, SLUICE_ERR_USAGE, "give the type integer, or leave the bounds out",
                      "schema, %s: the keyword '%.*s' is supported of whole numbers alone", place, bytes, keyword->key);
    else
        b->status = base_fail(b->err, SLUICE_ERR_USAGE,
                              "known: type, properties, required, additionalProperties, items, enum, const, minItems, "
                              "maxItems, minLength, maxLength, minimum, maximum, exclusiveMinimum, exclusiveMaximum, "
                              "anyOf, $ref within the schema",
                              "schema, %s: the keyword '%.*s' is not supported", place, bytes, keyword->key);
}

/* Every keyword must be one of `known` (or say nothing about documents). */
static void check_keywords(struct build *b, uint32_t schema, const char *const *known, const char *beside)
{
    static const char *const silent[] = {"title",    "description", "default", "examples",    "$schema",
                                         "$id",      "$comment",    "$defs",   "definitions", "deprecated",
                                         "readOnly", "writeOnly",   NULL};
    for (uint32_t i = at(b, schema)->first; i != SCHEMA_NONE && !b->status; i = at(b, i)->next)
        if (!is_one_of(at(b, i), known) && !is_one_of(at(b, i), silent)) refuse_keyword(b, schema, at(b, i), beside);
}

/* A keyword that is a whole number, or `otherwise`. */
static uint32_t bound(struct build *b, uint32_t schema, const char *key, uint32_t otherwise)
{
    const uint32_t value = member(b, schema, key);
    if (value == SCHEMA_NONE) return otherwise;
    const struct schema_value *v = at(b, value);
    uint64_t n = 0;
    bool good = v->kind == SCHEMA_NUMBER && v->bytes <= 10;
    for (size_t i = 0; i < v->bytes && good; i++) {
        good = v->text[i] >= '0' && v->text[i] <= '9';
        n = n * 10 + (uint64_t)(v->text[i] - '0');
    }
    if (!good || n > INT32_MAX) {
        refuse(b, value, "must be a whole number from 0 to 2147483647");
        return otherwise;
    }
    return (uint32_t)n;
}

/* The same of a keyword that may be negative; numbers beyond what an answer can have are cut to that. */
static int64_t limit(struct build *b, uint32_t value)
{
    const struct schema_value *v = at(b, value);
    const bool negative = v->bytes && v->text[0] == '-';
    int64_t n = 0;
    bool good = v->kind == SCHEMA_NUMBER;
    for (size_t i = negative; i < v->bytes && good; i++) {
        good = v->text[i] >= '0' && v->text[i] <= '9';
        n = n > SCHEMA_WHOLE_MAX / 10 ? SCHEMA_WHOLE_MAX : n * 10 + (v->text[i] - '0');
    }
    if (!good) refuse(b, value, "must be a whole number");
    return negative ? -n : n;
}

/* ---- types ---- */

static unsigned kind_of(const struct schema_value *v)
{
    static const char *const names[] = {"string", "integer", "number", "boolean", "null", "object", "array"};
    for (unsigned i = 0; i < 7; i++)
        if (schema_is(v, names[i])) return 1u << i;
    return 0;
}

static unsigned kinds_of(struct build *b, uint32_t schema)
{
    static const struct {
        const char *key;
        unsigned kind;
    } signs[] = {{"properties", KIND_OBJECT}, {"required", KIND_OBJECT},         {"additionalProperties", KIND_OBJECT},
                 {"items", KIND_ARRAY},       {"minItems", KIND_ARRAY},          {"maxItems", KIND_ARRAY},
                 {"minLength", KIND_STRING},  {"maxLength", KIND_STRING},        {"minimum", KIND_NUMBER},
                 {"maximum", KIND_NUMBER},    {"exclusiveMinimum", KIND_NUMBER}, {"exclusiveMaximum", KIND_NUMBER}};
    const uint32_t type = member(b, schema, "type");
    unsigned kinds = 0;
    if (type == SCHEMA_NONE) {
        for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
            if (member(b, schema, signs[i].key) != SCHEMA_NONE) kinds |= signs[i].kind;
        return kinds ? kinds : 127;
    }
    if (at(b, type)->kind != SCHEMA_ARRAY) kinds = kind_of(at(b, type));
    for (uint32_t i = at(b, type)->kind == SCHEMA_ARRAY ? at(b, type)->first : SCHEMA_NONE; i != SCHEMA_NONE;
         i = at(b, i)->next) {
        if (!kind_of(at(b, i))) refuse(b, i, "no type of JSON Schema");
        kinds |= kind_of(at(b, i));
    }
    if (!kinds) refuse(b, type, "no type of JSON Schema");
    return kinds;
}

static bool is_integer(const struct schema_value *v)
{
    for (size_t i = 0; i < v->bytes; i++)
        if (strchr(".eE", v->text[i])) return false;
    return true;
}

static bool fits_kinds(const struct schema_value *v, unsigned kinds)
{
    switch (v->kind) {
    case SCHEMA_NULL: return kinds & KIND_NULL;
    case SCHEMA_FALSE:
    case SCHEMA_TRUE: return kinds & KIND_BOOLEAN;
    case SCHEMA_NUMBER: return kinds & KIND_NUMBER || (kinds & KIND_INTEGER && is_integer(v));
    case SCHEMA_STRING: return kinds & KIND_STRING;
    case SCHEMA_ARRAY: return kinds & KIND_ARRAY;
    default: return kinds & KIND_OBJECT;
    }
}

/* ---- strings and arrays ---- */

static uint32_t string_rule(struct build *b, uint32_t schema)
{
    const uint32_t least = bound(b, schema, "minLength", 0), most = bound(b, schema, "maxLength", AUTOMATON_NO_MOST);
    if (least > most) refuse(b, schema, "minLength is above maxLength");
    if (!least && most == AUTOMATON_NO_MOST) return PART_STRING;
    const uint32_t rule = automaton_rule(b->a, least, most);
    const uint32_t in = automaton_byte(b->a, b->a->rules[rule].start, '"'), end = automaton_state(b->a, rule);
    schema_characters(b->a, rule, in, in, EDGE_BELOW | EDGE_COUNT, false);
    automaton_bytes(b->a, in, '"', '"', end, EDGE_LEAST);
    automaton_accept(b->a, end);
    return rule;
}

/* A member that is a schema; SCHEMA_NONE: none is there, or false. */
static uint32_t rule_of_member(struct build *b, uint32_t schema, const char *key, bool *closed)
{
    const uint32_t value = member(b, schema, key);
    *closed = value != SCHEMA_NONE && at(b, value)->kind == SCHEMA_FALSE;
    return value == SCHEMA_NONE || *closed ? SCHEMA_NONE : compile(b, value);
}

static uint32_t array_rule(struct build *b, uint32_t schema)
{
    const uint32_t least = bound(b, schema, "minItems", 0);
    uint32_t most = bound(b, schema, "maxItems", AUTOMATON_NO_MOST);
    bool none;
    if (least > most) refuse(b, schema, "minItems is above maxItems");
    uint32_t item = rule_of_member(b, schema, "items", &none);
    if (item == SCHEMA_NONE) item = PART_VALUE;
    if (none) most = 0;
    if (none && least) refuse(b, schema, "items is false and minItems is not 0");
    if (b->status) return 0;
    struct automaton *a = b->a;
    const uint32_t rule = automaton_rule(a, least, most), first = schema_mark(a, a->rules[rule].start, '['),
                   value = automaton_state(a, rule), end = automaton_state(a, rule);
    automaton_accept(a, end);
    if (!least) automaton_bytes(a, first, ']', ']', end, 0);
    if (!most) return rule;
    automaton_call(a, first, item, value, EDGE_COUNT);
    const uint32_t behind = schema_space(a, value), comma = automaton_state(a, rule);
    automaton_bytes(a, behind, ']', ']', end, EDGE_LEAST);
    automaton_bytes(a, behind, ',', ',', comma, EDGE_BELOW);
    automaton_call(a, schema_space(a, comma), item, value, EDGE_COUNT);
    return rule;
}

/* ---- objects ---- */

struct property {
    const char *name;
    size_t bytes;
    uint32_t rule;
    bool required;
};

struct object {
    struct property *list, *names; /* names: with those that cannot be there, and so are no other property's name */
    uint32_t n, n_names;
    uint32_t others; /* rule of additional properties, or SCHEMA_NONE */
};

static struct property *find_property(const struct object *o, const struct schema_value *name)
{
    for (uint32_t i = 0; i < o->n; i++)
        if (o->list[i].bytes == name->bytes && !memcmp(o->list[i].name, name->text, name->bytes)) return &o->list[i];
    return NULL;
}

static void read_properties(struct build *b, uint32_t schema, struct object *o)
{
    const uint32_t properties = member(b, schema, "properties");
    if (properties == SCHEMA_NONE) return;
    if (at(b, properties)->kind != SCHEMA_OBJECT) {
        refuse(b, properties, "must be an object");
        return;
    }
    for (uint32_t i = at(b, properties)->first; i != SCHEMA_NONE && !b->status; i = at(b, i)->next) {
        const struct schema_value *v = at(b, i);
        if (schema_member(&b->t, properties, v->key, v->key_bytes) != i) continue; /* written twice: the last counts */
        struct property p = {.name = v->key, .bytes = v->key_bytes, .rule = SCHEMA_NONE};
        if (v->kind != SCHEMA_FALSE) p.rule = compile(b, i);
        o->list[o->n++] = p;
    }
}

static void read_required(struct build *b, uint32_t schema, struct object *o)
{
    const uint32_t required = member(b, schema, "required");
    if (required == SCHEMA_NONE) return;
    if (at(b, required)->kind != SCHEMA_ARRAY) {
        refuse(b, required, "must be a list of names");
        return;
    }
    for (uint32_t i = at(b, required)->first; i != SCHEMA_NONE && !b->status; i = at(b, i)->next) {
        const struct schema_value *name = at(b, i);
        if (name->kind != SCHEMA_STRING) {
            refuse(b, i, "must be a name");
            return;
        }
        struct property *p = find_property(o, name);
        if (!p) {
            p = &o->list[o->n++];
            *p = (struct property){.name = name->text, .bytes = name->bytes, .rule = o->others};
        }
        p->required = true;
        if (p->rule == SCHEMA_NONE) refuse(b, i, "is required and cannot be there");
    }
}

static uint32_t members(const struct build *b, uint32_t schema, const char *key)
{
    const uint32_t value = member(b, schema, key);
    return value == SCHEMA_NONE ? 0 : at(b, value)->n;
}

static enum sluice_status read_object(struct build *b, uint32_t schema, struct object *o)
{
    bool closed;
    const uint32_t others = rule_of_member(b, schema, "additionalProperties", &closed),
                   n = members(b, schema, "properties") + members(b, schema, "required");
    if (n > SCHEMA_PROPERTIES_MAX) refuse(b, schema, "an object with too many properties");
    if (b->status) return b->status;
    o->list = calloc(n ? n : 1, sizeof *o->list);
    o->names = calloc(n ? n : 1, sizeof *o->names);
    if (!o->list || !o->names) return b->status = base_fail(b->err, SLUICE_ERR_MEMORY, NULL, "no memory for a schema");
    const bool named = members(b, schema, "properties");
    o->others = closed ? SCHEMA_NONE : others != SCHEMA_NONE ? others : PART_VALUE;
    read_properties(b, schema, o);
    read_required(b, schema, o);
    if (others == SCHEMA_NONE && named) o->others = SCHEMA_NONE; /* nothing is said: what is listed */
    if (b->status) return b->status;
    memcpy(o->names, o->list, o->n * sizeof *o->list);
    o->n_names = o->n;
    o->n = 0;
    for (uint32_t i = 0; i < o->n_names; i++) {
        if (o->names[i].bytes * 6 > SCHEMA_NAME_BYTES_MAX) refuse(b, schema, "a property's name is too long");
        if (o->names[i].rule != SCHEMA_NONE) o->list[o->n++] = o->names[i];
    }
    return b->status;
}

/* ---- keys of other properties ---- */

/* The names of an object's properties as they stand in documents, sorted. */
struct name {
    char text[SCHEMA_NAME_BYTES_MAX];
    size_t bytes;
};

struct others {
    struct automaton *a;
    const struct name *names;
    uint32_t over; /* where a key is over, its last quote read */
};

static uint32_t edge_of(const struct automaton *a, uint32_t state, unsigned byte)
{
    for (uint32_t e = a->states[state].edges; e != SCHEMA_NONE; e = a->edges[e].next)
        if (a->edges[e].low <= byte && byte <= a->edges[e].high) return a->edges[e].to;
    return SCHEMA_NONE;
}

/* Keys that are none of the names: names [first, end) agree in their first `depth` bytes, which led to `from`, and
 * would have led to `same` among states for any key. A byte that no name has here goes on there. */
static void other_keys(const struct others *o, uint32_t first, uint32_t end, size_t depth, uint32_t from, uint32_t same)
{
    struct automaton *a = o->a;
    bool taken[256] = {false}, is_name = false;
    for (uint32_t i = first, j; i < end && !a->too_large && !a->no_memory; i = j) {
        j = i + 1;
        if (o->names[i].bytes == depth) {
            is_name = true;
            continue;
        }
        const uint8_t byte = (uint8_t)o->names[i].text[depth];
        while (j < end && o->names[j].bytes > depth && (uint8_t)o->names[j].text[depth] == byte) j++;
        const uint32_t next = edge_of(a, same, byte);
        if (next == SCHEMA_NONE) continue; /* no other key begins like that */
        taken[byte] = true;
        other_keys(o, i, j, depth + 1, automaton_byte(a, from, (char)byte), next);
    }
    if (a->too_large || a->no_memory) return;
    if (is_name) taken['"'] = true;
    for (unsigned low = 0, high; low < 256; low = high + 1) {
        const uint32_t to = taken[low] ? SCHEMA_NONE : edge_of(a, same, low);
        high = low;
        while (to != SCHEMA_NONE && high < 255 && !taken[high + 1] && edge_of(a, same, high + 1) == to) high++;
        if (to != SCHEMA_NONE) automaton_bytes(a, from, (uint8_t)low, (uint8_t)high, to, 0);
    }
}

static int order_of_names(const void *x, const void *y)
{
    const struct name *a = x, *b = y;
    const size_t n = a->bytes < b->bytes ? a->bytes : b->bytes;
    const int order = memcmp(a->text, b->text, n);
    return order ? order : (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

/* From `from`, before the first quote, to a state behind the last one. `reserved`: names that may not be taken. */
static uint32_t other_key(struct build *b, const struct object *o, uint32_t from)
{
    struct automaton *a = b->a;
    const uint32_t rule = a->states[from].rule, any = automaton_state(a, rule), over = automaton_state(a, rule);
    struct name *names = calloc(o->n_names ? o->n_names : 1, sizeof *names);
    if (!names) {
        a->no_memory = true;
        return over;
    }
    for (uint32_t i = 0; i < o->n_names; i++)
        names[i].bytes = schema_escape(o->names[i].name, o->names[i].bytes, names[i].text);
    qsort(names, o->n_names, sizeof *names, order_of_names);
    schema_characters(a, rule, any, any, 0, true);
    automaton_bytes(a, any, '"', '"', over, 0);
    const struct others others = {.a = a, .names = names, .over = over};
    other_keys(&others, 0, o->n_names, 0, automaton_byte(a, from, '"'), any);
    free(names);
    return over;
}

/* ---- objects, their automaton ---- */

/* From a state behind a key to one behind its value and white space. */
static uint32_t value_of(struct automaton *a, uint32_t from, uint32_t rule)
{
    const uint32_t value = automaton_state(a, a->states[from].rule);
    automaton_call(a, schema_mark(a, schema_space(a, from), ':'), rule, value, 0);
    return schema_space(a, value);
}

/* keys[i]: before the key of property i or of a later one, something is still to come; keys[n]: of another property.
 * Behind a property: the end if all that follow may be left out, or a comma and a later one. */
static void join(struct build *b, const struct object *o, uint32_t *keys, uint32_t first, uint32_t end)
{
    struct automaton *a = b->a;
    char word[SCHEMA_NAME_BYTES_MAX + 2];
    const bool open = o->others != SCHEMA_NONE;
    uint32_t optional_from = o->n; /* all from here on may be left out */
    while (optional_from > 0 && !o->list[optional_from - 1].required) optional_from--;
    if (!optional_from) automaton_bytes(a, first, '}', '}', end, 0);
    if (o->n || open) automaton_empty(a, first, keys[0], 0);
    for (uint32_t i = 0; i < o->n && !a->too_large && !a->no_memory; i++) {
        const struct property *p = &o->list[i];
        word[0] = '"';
        const size_t n = 1 + schema_escape(p->name, p->bytes, word + 1);
        word[n] = '"';
        const uint32_t behind = value_of(a, automaton_word(a, keys[i], word, n + 1), p->rule);
        if (i + 1 >= optional_from) automaton_bytes(a, behind, '}', '}', end, 0);
        if (i + 1 < o->n || open) automaton_empty(a, schema_mark(a, behind, ','), keys[i + 1], 0);
        if (!p->required && (i + 1 < o->n || open)) automaton_empty(a, keys[i], keys[i + 1], 0);
    }
    if (!open || a->too_large || a->no_memory) return;
    const uint32_t behind = value_of(a, other_key(b, o, keys[o->n]), o->others);
    automaton_bytes(a, behind, '}', '}', end, 0);
    automaton_empty(a, schema_mark(a, behind, ','), keys[o->n], 0);
}

static uint32_t object_rule(struct build *b, uint32_t schema)
{
    struct object o = {.others = SCHEMA_NONE};
    uint32_t rule = PART_OBJECT;
    if (read_object(b, schema, &o)) {
        free(o.list);
        free(o.names);
        return rule;
    }
    if (o.n || o.n_names || o.others != PART_VALUE) {
        struct automaton *a = b->a;
        rule = automaton_rule(a, 0, AUTOMATON_NO_MOST);
        const uint32_t first = schema_mark(a, a->rules[rule].start, '{'), end = automaton_state(a, rule);
        uint32_t *keys = malloc((o.n + 1) * sizeof *keys);
        if (keys) {
            for (uint32_t i = 0; i <= o.n; i++) keys[i] = automaton_state(a, rule);
            automaton_accept(a, end);
            join(b, &o, keys, first, end);
        } else
            a->no_memory = true;
        free(keys);
    }
    free(o.list);
    free(o.names);
    return rule;
}

/* ---- schemas ---- */

/* Bounds are those of whole numbers alone. */
static uint32_t number_rule(struct build *b, uint32_t schema, unsigned kinds)
{
    static const char *const limits[] = {"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"};
    int64_t least = -SCHEMA_WHOLE_MAX, most = SCHEMA_WHOLE_MAX;
    bool bounded = false;
    for (size_t i = 0; i < sizeof limits / sizeof *limits && !b->status; i++) {
        const uint32_t value = member(b, schema, limits[i]);
        if (value == SCHEMA_NONE) continue;
        if (kinds & KIND_NUMBER) refuse_keyword(b, schema, at(b, value), NULL);
        const int64_t n = limit(b, value);
        bounded = true;
        if (i < 2 && n + (i == 1) > least) least = n + (i == 1);
        if (i >= 2 && n - (i == 3) < most) most = n - (i == 3);
    }
    if (b->status || !bounded) return kinds & KIND_NUMBER ? PART_NUMBER : PART_INTEGER;
    if (least > most) refuse(b, schema, "no number is within these bounds");
    return schema_integers(b->a, least, most > SCHEMA_WHOLE_MAX ? SCHEMA_WHOLE_MAX : most);
}

static void choose(struct build *b, uint32_t schema, uint32_t start, uint32_t end)
{
    const unsigned kinds = kinds_of(b, schema);
    struct automaton *a = b->a;
    if (b->status) return;
    if (kinds & KIND_BOOLEAN) {
        automaton_accept(a, automaton_word(a, start, "true", 4));
        automaton_accept(a, automaton_word(a, start, "false", 5));
    }
    if (kinds & KIND_NULL) automaton_accept(a, automaton_word(a, start, "null", 4));
    if (kinds & (KIND_NUMBER | KIND_INTEGER)) automaton_call(a, start, number_rule(b, schema, kinds), end, 0);
    if (kinds & KIND_STRING) automaton_call(a, start, string_rule(b, schema), end, 0);
    if (kinds & KIND_ARRAY) automaton_call(a, start, array_rule(b, schema), end, 0);
    if (kinds & KIND_OBJECT) automaton_call(a, start, object_rule(b, schema), end, 0);
}

static void choose_listed(struct build *b, uint32_t schema, uint32_t list, bool one, uint32_t start)
{
    static const char *const known[] = {"type", "enum", "const", NULL};
    check_keywords(b, schema, known, one ? "const" : "enum");
    const unsigned kinds = kinds_of(b, schema);
    if (!one && at(b, list)->kind != SCHEMA_ARRAY) refuse(b, list, "must be a list of values");
    for (uint32_t i = one ? list : at(b, list)->first; i != SCHEMA_NONE && !b->status;
         i = one ? SCHEMA_NONE : at(b, i)->next)
        if (fits_kinds(at(b, i), kinds)) automaton_accept(b->a, schema_literal(b->a, start, &b->t, i));
}

static void choose_any_of(struct build *b, uint32_t schema, uint32_t list, uint32_t start, uint32_t end)
{
    static const char *const known[] = {"anyOf", NULL};
    check_keywords(b, schema, known, known[0]);
    if (at(b, list)->kind != SCHEMA_ARRAY) refuse(b, list, "must be a list of schemas");
    for (uint32_t i = at(b, list)->first; i != SCHEMA_NONE && !b->status; i = at(b, i)->next)
        if (at(b, i)->kind != SCHEMA_FALSE) automaton_call(b->a, start, compile(b, i), end, 0);
}

/* One step of a JSON pointer: up to the next '/', with ~0, ~1 and %XX read. */
static size_t pointer_step(const char *text, size_t bytes, char *out, size_t *used)
{
    size_t n = 0, i = 0;
    for (; i < bytes && text[i] != '/'; i++) {
        char c = text[i];
        if (c == '~' && i + 1 < bytes) c = text[++i] == '1' ? '/' : '~';
        if (c == '%' && i + 2 < bytes) {
            const char hex[3] = {text[i + 1], text[i + 2], '\0'};
            char *end;
            const unsigned long value = strtoul(hex, &end, 16);
            if (*end == '\0') {
                c = (char)value;
                i += 2;
            }
        }
        out[n++] = c;
    }
    *used = i;
    return n;
}

static uint32_t resolve(struct build *b, uint32_t reference)
{
    const struct schema_value *v = at(b, reference);
    uint32_t target = 0;
    size_t i = 1;
    if (v->kind != SCHEMA_STRING || !v->bytes || v->text[0] != '#' || (v->bytes > 1 && v->text[1] != '/')) {
        refuse(b, reference, "only references within the schema are supported (\"#/...\")");
        return SCHEMA_NONE;
    }
    char *step = malloc(v->bytes + 1);
    if (!step) {
        b->a->no_memory = true;
        return SCHEMA_NONE;
    }
    while (i < v->bytes && target != SCHEMA_NONE) {
        size_t used;
        const size_t n = pointer_step(v->text + i + 1, v->bytes - i - 1, step, &used);
        step[n] = '\0';
        i += used + 1;
        if (at(b, target)->kind == SCHEMA_ARRAY) {
            char *end;
            unsigned long index = strtoul(step, &end, 10);
            uint32_t item = *end || !n ? SCHEMA_NONE : at(b, target)->first;
            while (item != SCHEMA_NONE && index-- > 0) item = at(b, item)->next;
            target = item;
        } else
            target = schema_member(&b->t, target, step, n);
    }
    free(step);
    if (target == SCHEMA_NONE) refuse(b, reference, "refers to nothing");
    return target;
}

static void choose_reference(struct build *b, uint32_t schema, uint32_t reference, uint32_t start, uint32_t end)
{
    static const char *const known[] = {"$ref", NULL};
    check_keywords(b, schema, known, known[0]);
    if (b->status) return;
    const uint32_t target = resolve(b, reference);
    if (target != SCHEMA_NONE && !b->status) automaton_call(b->a, start, compile(b, target), end, 0);
}

static void compile_object(struct build *b, uint32_t schema, uint32_t start, uint32_t end)
{
    uint32_t value;
    if ((value = member(b, schema, "$ref")) != SCHEMA_NONE)
        choose_reference(b, schema, value, start, end);
    else if ((value = member(b, schema, "anyOf")) != SCHEMA_NONE)
        choose_any_of(b, schema, value, start, end);
    else if ((value = member(b, schema, "const")) != SCHEMA_NONE)
        choose_listed(b, schema, value, true, start);
    else if ((value = member(b, schema, "enum")) != SCHEMA_NONE)
        choose_listed(b, schema, value, false, start);
    else {
        check_keywords(b, schema, keywords, NULL);
        choose(b, schema, start, end);
    }
}

static uint32_t compile(struct build *b, uint32_t schema)
{
    const enum schema_kind kind = at(b, schema)->kind;
    if (b->status || b->a->no_memory || b->a->too_large) return 0;
    if (b->rules[schema] != SCHEMA_NONE) return b->rules[schema];
    if (kind == SCHEMA_TRUE) return PART_VALUE;
    if (kind != SCHEMA_OBJECT && kind != SCHEMA_FALSE) {
        refuse(b, schema, "a schema is an object, true or false");
        return 0;
    }
    if (kind == SCHEMA_OBJECT && !at(b, schema)->n) return PART_VALUE;
    if (++b->depth > 2 * SCHEMA_DEPTH_MAX) refuse(b, schema, "references lead too deep");
    const uint32_t rule = automaton_rule(b->a, 0, AUTOMATON_NO_MOST), end = automaton_state(b->a, rule);
    b->rules[schema] = rule;
    if (!b->a->no_memory && !b->a->too_large && !b->status && kind == SCHEMA_OBJECT) {
        automaton_accept(b->a, end);
        compile_object(b, schema, b->a->rules[rule].start, end);
    }
    b->depth--;
    return rule; /* of false: nothing fits */
}

enum sluice_status schema_compile(const char *json, size_t bytes, struct automaton *out, uint32_t *root,
                                  struct sluice_error *err)
{
    struct build b = {.a = out, .err = err};
    *out = (struct automaton){0};
    schema_parts(out);
    *root = automaton_rule(out, 0, AUTOMATON_NO_MOST);
    uint32_t rule = PART_OBJECT;
    if (json && !(b.status = schema_read(json, bytes, &b.t, err))) {
        b.rules = malloc(b.t.n * sizeof *b.rules);
        if (b.rules) {
            memset(b.rules, 0xff, b.t.n * sizeof *b.rules);
            rule = compile(&b, 0);
        } else
            out->no_memory = true;
    }
    free(b.rules);
    schema_free(&b.t);
    if (!b.status && out->n_rules > *root) {
        const uint32_t end = automaton_state(out, *root);
        automaton_accept(out, end);
        automaton_call(out, schema_space(out, out->rules[*root].start), rule, end, 0);
    }
    if (!b.status) b.status = automaton_finish(out, *root, err);
    if (b.status) automaton_free(out);
    return b.status;
}
