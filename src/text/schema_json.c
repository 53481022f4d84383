#include "text/schema_json.h"

#include "text/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    const char *json;
    size_t bytes, at;
    struct schema_tree *tree;
    char *texts; /* where the next decoded text goes; what is decoded is never longer than what it stands for */
    struct sluice_error *err;
};

static enum sluice_status fail(const struct reader *r, const char *what)
{
    size_t line = 1, begin = 0;
    for (size_t i = 0; i < r->at && i < r->bytes; i++)
        if (r->json[i] == '\n') {
            line++;
            begin = i + 1;
        }
    return base_fail(r->err, SLUICE_ERR_USAGE, "a schema is a JSON object", "schema, line %zu, byte %zu: %s", line,
                     r->at - begin + 1, what);
}

static int peek(const struct reader *r) { return r->at < r->bytes ? (unsigned char)r->json[r->at] : -1; }

static void skip_blanks(struct reader *r)
{
    while (r->at < r->bytes && memchr(" \t\n\r", r->json[r->at], 4)) r->at++;
}

static bool read_unit(struct reader *r, uint32_t *out)
{
    *out = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        const int c = peek(r), d = c >= '0' && c <= '9'                 ? c - '0'
                                   : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                                        : -1;
        if (c < 0 || d < 0) return false;
        *out = *out << 4 | (uint32_t)d;
    }
    return true;
}

static void put_char(struct reader *r, uint32_t c)
{
    if (c < 0x80)
        *r->texts++ = (char)c;
    else if (c < 0x800)
        r->texts += text_utf8_put_short(c, r->texts);
    else {
        if (c >= 0x10000) {
            *r->texts++ = (char)(0xf0 | c >> 18);
            *r->texts++ = (char)(0x80 | (c >> 12 & 63));
        } else
            *r->texts++ = (char)(0xe0 | c >> 12);
        *r->texts++ = (char)(0x80 | (c >> 6 & 63));
        *r->texts++ = (char)(0x80 | (c & 63));
    }
}

static bool read_escape(struct reader *r)
{
    static const char plain[] = "\"\"\\\\//b\bf\fn\nr\rt\t";
    const int c = peek(r);
    uint32_t unit, low;
    if (c <= 0) return false;
    r->at++;
    for (size_t i = 0; plain[i]; i += 2)
        if (c == plain[i]) {
            *r->texts++ = plain[i + 1];
            return true;
        }
    if (c != 'u' || !read_unit(r, &unit)) return false;
    if (unit >= 0xdc00 && unit < 0xe000) return false;
    if (unit >= 0xd800 && unit < 0xdc00) {
        if (r->bytes - r->at < 6 || memcmp(r->json + r->at, "\\u", 2) != 0) return false;
        r->at += 2;
        if (!read_unit(r, &low) || low < 0xdc00 || low >= 0xe000) return false;
        unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
    }
    put_char(r, unit);
    return true;
}

static enum sluice_status read_text(struct reader *r, const char **text, size_t *bytes)
{
    *text = r->texts;
    r->at++;
    for (;;) {
        const int c = peek(r);
        if (c < 0x20) return fail(r, c < 0 ? "a text has no end" : "a control character in a text");
        if (c == '"') break;
        if (c == '\\') {
            r->at++;
            if (!read_escape(r)) return fail(r, "unknown escape in a text");
            continue;
        }
        const size_t n = text_utf8_length(r->json + r->at, r->bytes - r->at);
        if (!n) return fail(r, "bytes that are no UTF-8");
        memcpy(r->texts, r->json + r->at, n);
        r->texts += n;
        r->at += n;
    }
    r->at++;
    *bytes = (size_t)(r->texts - *text);
    return SLUICE_OK;
}

static size_t digits(struct reader *r)
{
    const size_t begin = r->at;
    while (peek(r) >= '0' && peek(r) <= '9') r->at++;
    return r->at - begin;
}

static enum sluice_status read_number(struct reader *r, struct schema_value *v)
{
    const size_t begin = r->at;
    if (peek(r) == '-') r->at++;
    const bool zero = peek(r) == '0';
    const size_t n = digits(r);
    if (!n || (zero && n > 1)) return fail(r, "no JSON value");
    if (peek(r) == '.') {
        r->at++;
        if (!digits(r)) return fail(r, "a number without digits behind its point");
    }
    if ((peek(r) | 32) == 'e') {
        r->at++;
        if (peek(r) == '+' || peek(r) == '-') r->at++;
        if (!digits(r)) return fail(r, "a number without an exponent");
    }
    v->bytes = r->at - begin;
    v->text = r->texts;
    memcpy(r->texts, r->json + begin, v->bytes);
    r->texts += v->bytes;
    return SLUICE_OK;
}

static enum sluice_status add(struct reader *r, uint32_t parent, uint32_t *out)
{
    struct schema_tree *t = r->tree;
    if (t->n == SCHEMA_VALUES_MAX) return fail(r, "too many values");
    if (t->n == t->room) {
        const uint32_t room = t->room ? t->room * 2 : 64;
        struct schema_value *more = realloc(t->values, room * sizeof *more);
        if (!more) return base_fail(r->err, SLUICE_ERR_MEMORY, NULL, "no memory for a schema");
        t->values = more;
        t->room = room;
    }
    *out = t->n++;
    t->values[*out] = (struct schema_value){.parent = parent, .first = SCHEMA_NONE, .next = SCHEMA_NONE};
    return SLUICE_OK;
}

static enum sluice_status read_value(struct reader *r, uint32_t at, unsigned depth);

static enum sluice_status read_children(struct reader *r, uint32_t at, unsigned depth)
{
    const bool object = r->tree->values[at].kind == SCHEMA_OBJECT;
    const int end = object ? '}' : ']';
    uint32_t last = SCHEMA_NONE;
    if (depth == SCHEMA_DEPTH_MAX) return fail(r, "nested too deep");
    r->at++;
    skip_blanks(r);
    if (peek(r) == end) {
        r->at++;
        return SLUICE_OK;
    }
    for (;;) {
        uint32_t child = 0;
        const char *key = NULL;
        size_t key_bytes = 0;
        enum sluice_status st;
        skip_blanks(r);
        if (object) {
            if (peek(r) != '"') return fail(r, "a key must be a text");
            if ((st = read_text(r, &key, &key_bytes))) return st;
            skip_blanks(r);
            if (peek(r) != ':') return fail(r, "':' is missing");
            r->at++;
        }
        if ((st = add(r, at, &child))) return st;
        r->tree->values[child].key = key;
        r->tree->values[child].key_bytes = key_bytes;
        if (last == SCHEMA_NONE)
            r->tree->values[at].first = child;
        else
            r->tree->values[last].next = child;
        last = child;
        r->tree->values[at].n++;
        if ((st = read_value(r, child, depth + 1))) return st;
        skip_blanks(r);
        const int c = peek(r);
        if (c != ',' && c != end) return fail(r, object ? "',' or '}' is missing" : "',' or ']' is missing");
        r->at++;
        if (c == end) return SLUICE_OK;
    }
}

static enum sluice_status read_value(struct reader *r, uint32_t at, unsigned depth)
{
    static const struct {
        const char *word;
        enum schema_kind kind;
    } words[] = {{"null", SCHEMA_NULL}, {"false", SCHEMA_FALSE}, {"true", SCHEMA_TRUE}};
    skip_blanks(r);
    struct schema_value *v = &r->tree->values[at];
    const int c = peek(r);
    if (c == '{' || c == '[') {
        v->kind = c == '{' ? SCHEMA_OBJECT : SCHEMA_ARRAY;
        return read_children(r, at, depth);
    }
    if (c == '"') {
        v->kind = SCHEMA_STRING;
        return read_text(r, &v->text, &v->bytes);
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const size_t n = strlen(words[i].word);
        if (r->bytes - r->at < n || memcmp(r->json + r->at, words[i].word, n) != 0) continue;
        v->kind = words[i].kind;
        r->at += n;
        return SLUICE_OK;
    }
    v->kind = SCHEMA_NUMBER;
    return read_number(r, v);
}

enum sluice_status schema_read(const char *json, size_t bytes, struct schema_tree *out, struct sluice_error *err)
{
    struct reader r = {.json = json, .bytes = bytes, .tree = out, .err = err};
    uint32_t root;
    *out = (struct schema_tree){0};
    if (bytes > SCHEMA_BYTES_MAX)
        return base_fail(err, SLUICE_ERR_USAGE, NULL, "a schema of %zu bytes; the most is %zu", bytes,
                         SCHEMA_BYTES_MAX);
    out->texts = r.texts = malloc(bytes + 1);
    if (!out->texts) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for a schema");
    enum sluice_status st = add(&r, SCHEMA_NONE, &root);
    if (!st) st = read_value(&r, root, 0);
    if (!st) {
        skip_blanks(&r);
        if (r.at < bytes) st = fail(&r, "something follows the value");
    }
    if (st) schema_free(out);
    return st;
}

void schema_free(struct schema_tree *t)
{
    free(t->values);
    free(t->texts);
    *t = (struct schema_tree){0};
}

uint32_t schema_member(const struct schema_tree *t, uint32_t object, const char *key, size_t key_bytes)
{
    uint32_t found = SCHEMA_NONE;
    if (t->values[object].kind != SCHEMA_OBJECT) return found;
    for (uint32_t i = t->values[object].first; i != SCHEMA_NONE; i = t->values[i].next)
        if (t->values[i].key_bytes == key_bytes && !memcmp(t->values[i].key, key, key_bytes)) found = i;
    return found;
}

bool schema_is(const struct schema_value *v, const char *text)
{
    return v->kind == SCHEMA_STRING && v->bytes == strlen(text) && !memcmp(v->text, text, v->bytes);
}

void schema_place(const struct schema_tree *t, uint32_t at, char *out, size_t out_bytes)
{
    uint32_t path[SCHEMA_DEPTH_MAX + 1];
    size_t n = 0, used;
    for (; t->values[at].parent != SCHEMA_NONE && n < SCHEMA_DEPTH_MAX; at = t->values[at].parent) path[n++] = at;
    used = (size_t)snprintf(out, out_bytes, "#");
    while (n-- > 0 && used < out_bytes) {
        const struct schema_value *v = &t->values[path[n]];
        uint32_t index = 0;
        if (v->key) {
            used += (size_t)snprintf(out + used, out_bytes - used, "/%.*s",
                                     (int)(v->key_bytes < 60 ? v->key_bytes : 60), v->key);
            continue;
        }
        for (uint32_t i = t->values[v->parent].first; i != path[n]; i = t->values[i].next) index++;
        used += (size_t)snprintf(out + used, out_bytes - used, "/%u", index);
    }
}
