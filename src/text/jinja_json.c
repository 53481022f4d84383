/* JSON: variables come in as it, and |tojson writes it as Python's json.dumps does. */
#include "text/jinja_call.h"
#include "text/jinja_char.h"
#include "text/jinja_scope.h"

#include <stdio.h>
#include <string.h>

/* ---- reading ---- */

struct reader {
    struct jinja_run *r;
    const char *text;
    size_t bytes, at;
};

/* Faults of the input are the caller's, not the template's. */
static struct jinja_value fail(struct reader *in, const char *what)
{
    if (jinja_failed(in->r)) return jinja_undefined();
    size_t line = 1, begin = 0;
    for (size_t i = 0; i < in->at && i < in->bytes; i++)
        if (in->text[i] == '\n') {
            line++;
            begin = i + 1;
        }
    in->r->status = base_fail(in->r->err, SLUICE_ERR_USAGE, NULL, "variables, line %zu, column %zu: %s", line,
                              jinja_char_count(in->text + begin, in->at - begin) + 1, what);
    return jinja_undefined();
}

static void skip_blanks(struct reader *in)
{
    while (in->at < in->bytes && in->text[in->at] && strchr(" \t\n\r", in->text[in->at])) in->at++;
}

static bool skip(struct reader *in, char c)
{
    skip_blanks(in);
    if (in->at >= in->bytes || in->text[in->at] != c) return false;
    in->at++;
    return true;
}

static bool read_unit(struct reader *in, uint32_t *out)
{
    *out = 0;
    for (int i = 0; i < 4; i++, in->at++) {
        char c = in->at < in->bytes ? in->text[in->at] : 0;
        int d = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
        if (d < 0) return false;
        *out = *out << 4 | (uint32_t)d;
    }
    return true;
}

/* Behind a backslash. A half of a surrogate pair alone becomes U+FFFD. */
static void read_escape(struct reader *in, struct jinja_build *b)
{
    static const char plain[] = "\"\"\\\\//b\bf\fn\nr\rt\t";
    char c = in->at < in->bytes ? in->text[in->at++] : 0;
    for (size_t i = 0; plain[i]; i += 2)
        if (c == plain[i]) {
            jinja_put(b, &plain[i + 1], 1);
            return;
        }
    uint32_t unit, low;
    if (c != 'u' || !read_unit(in, &unit)) {
        fail(in, "unknown escape in a text");
        return;
    }
    if (unit >= 0xd800 && unit < 0xdc00 && in->bytes - in->at >= 6 && memcmp(in->text + in->at, "\\u", 2) == 0) {
        size_t before = in->at;
        in->at += 2;
        if (read_unit(in, &low) && low >= 0xdc00 && low < 0xe000)
            unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
        else
            in->at = before;
    }
    jinja_put_char(b, unit >= 0xd800 && unit < 0xe000 ? 0xfffd : unit);
}

static struct jinja_value read_text(struct reader *in)
{
    struct jinja_build b = {.r = in->r};
    in->at++;
    while (!jinja_failed(in->r)) {
        size_t begin = in->at;
        while (in->at < in->bytes && in->text[in->at] != '"' && in->text[in->at] != '\\' &&
               (unsigned char)in->text[in->at] >= 0x20)
            in->at++;
        jinja_put(&b, in->text + begin, in->at - begin);
        if (in->at >= in->bytes) return fail(in, "a text has no end");
        char c = in->text[in->at];
        if ((unsigned char)c < 0x20) return fail(in, "a control character in a text");
        in->at++;
        if (c == '"') break;
        read_escape(in, &b);
    }
    if (jinja_failed(in->r)) return jinja_undefined();
    struct jinja_value v = jinja_built(&b);
    if (v.bytes) memset(jinja_arena_marks(&in->r->arena, v.text), 1, v.bytes);
    return v;
}

/* As JSON has them: no leading zeros, no '+', digits on both sides of the point. */
static bool is_number(const char *text, size_t n, bool *real)
{
    size_t at = n > 0 && text[0] == '-', digits;
    digits = strspn(text + at, "0123456789");
    *real = false;
    if (digits == 0 || (digits > 1 && text[at] == '0')) return false;
    at += digits;
    if (at < n && text[at] == '.') {
        *real = true;
        digits = strspn(text + at + 1, "0123456789");
        if (digits == 0) return false;
        at += 1 + digits;
    }
    if (at < n && (text[at] | 32) == 'e') {
        *real = true;
        at++;
        if (at < n && (text[at] == '+' || text[at] == '-')) at++;
        digits = strspn(text + at, "0123456789");
        if (digits == 0) return false;
        at += digits;
    }
    return at == n;
}

static struct jinja_value read_word(struct reader *in)
{
    size_t begin = in->at, n = 0;
    char word[512];
    while (in->at < in->bytes && n < sizeof word - 1) {
        char c = in->text[in->at];
        bool part = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '+' || c == '-' || c == '.';
        if (!part) break;
        word[n++] = c;
        in->at++;
    }
    word[n] = '\0';
    bool real;
    int64_t i;
    double d;
    if (strcmp(word, "true") == 0 || strcmp(word, "false") == 0) return jinja_bool(word[0] == 't');
    if (strcmp(word, "null") == 0) return jinja_none();
    bool infinite = strcmp(word, "NaN") == 0 || strcmp(word, "Infinity") == 0 || strcmp(word, "-Infinity") == 0;
    if (infinite || is_number(word, n, &real)) {
        if (!infinite && !real) {
            if (jinja_number_read_int(word, n, 10, &i)) return jinja_int(i);
            in->at = begin;
            return fail(in, "a whole number that does not fit in 64 bits");
        }
        if (jinja_number_read_float(word, n, &d)) return jinja_float(d);
    }
    in->at = begin;
    return fail(in, n ? "this is no value" : "expected a value");
}

static struct jinja_value read_value(struct reader *in);

static struct jinja_value read_list(struct reader *in)
{
    struct jinja_value list = jinja_list_new(in->r, JINJA_LIST, 0);
    in->at++;
    if (skip(in, ']')) return list;
    do jinja_list_add(in->r, list, read_value(in));
    while (!jinja_failed(in->r) && skip(in, ','));
    if (!skip(in, ']')) return fail(in, "expected ',' or ']'");
    return list;
}

static struct jinja_value read_object(struct reader *in)
{
    struct jinja_value dict = jinja_dict_new(in->r, JINJA_DICT);
    in->at++;
    if (skip(in, '}')) return dict;
    do {
        skip_blanks(in);
        if (in->at >= in->bytes || in->text[in->at] != '"') return fail(in, "expected a key in quotes");
        struct jinja_value key = read_text(in);
        if (!skip(in, ':')) return fail(in, "expected ':'");
        jinja_dict_set(in->r, dict.dict, key, read_value(in));
    } while (!jinja_failed(in->r) && skip(in, ','));
    if (!skip(in, '}')) return fail(in, "expected ',' or '}'");
    return dict;
}

static struct jinja_value read_value(struct reader *in)
{
    jinja_charge(in->r, 1);
    skip_blanks(in);
    if (in->at >= in->bytes) return fail(in, "expected a value");
    if (in->r->depth >= in->r->limits.depth_max) return fail(in, "lists and objects nest too deep");
    if (!jinja_enter(in->r)) return jinja_undefined();
    char c = in->text[in->at];
    struct jinja_value v = c == '"'   ? read_text(in)
                           : c == '[' ? read_list(in)
                           : c == '{' ? read_object(in)
                                      : read_word(in);
    jinja_leave(in->r);
    return jinja_failed(in->r) ? jinja_undefined() : v;
}

bool jinja_json_read(struct jinja_run *r, const char *text, size_t bytes, struct jinja_value *out)
{
    struct reader in = {.r = r, .text = text, .bytes = bytes};
    *out = read_value(&in);
    skip_blanks(&in);
    if (!jinja_failed(r) && in.at < bytes) fail(&in, "something follows the value");
    return !jinja_failed(r);
}

/* ---- writing ---- */

static void put_quoted(struct jinja_build *b, struct jinja_value text, bool ascii)
{
    static const char escapes[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    size_t begin = 0;
    jinja_put(b, "\"", 1);
    for (size_t at = 0; at < text.bytes && !jinja_failed(b->r);) {
        size_t before = at;
        uint32_t c = jinja_char_next(text.text, text.bytes, &at);
        char out[16] = "";
        for (size_t i = 0; c < 0x80 && escapes[i] && !out[0]; i += 2)
            if (c == (unsigned char)escapes[i]) sprintf(out, "\\%c", escapes[i + 1]);
        if (!out[0] && (c < 0x20 || (ascii && c >= 0x7f && c < 0x10000))) sprintf(out, "\\u%04x", c);
        if (!out[0] && ascii && c >= 0x10000)
            sprintf(out, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10), 0xdc00 + ((c - 0x10000) & 0x3ff));
        if (!out[0]) continue;
        jinja_put(b, text.text + begin, before - begin);
        jinja_put_word(b, out);
        begin = at;
    }
    jinja_put(b, text.text + begin, text.bytes - begin);
    jinja_put(b, "\"", 1);
}

static void put_line(struct jinja_build *b, const struct jinja_json_style *style, size_t level)
{
    if (!jinja_given(style->indent)) return;
    jinja_put(b, "\n", 1);
    for (size_t i = 0; i < level && !jinja_failed(b->r); i++) jinja_put_str(b, style->indent);
}

static void put_value(struct jinja_build *b, struct jinja_value v, const struct jinja_json_style *style, size_t level);

/* Keys are texts, or become such. */
static void put_key(struct jinja_build *b, struct jinja_value key, const struct jinja_json_style *style)
{
    if (jinja_is(key, JINJA_STR)) {
        put_quoted(b, key, style->ascii);
    } else if (jinja_is_number(key) || jinja_is(key, JINJA_NONE)) {
        jinja_put(b, "\"", 1);
        put_value(b, key, style, 0);
        jinja_put(b, "\"", 1);
    } else {
        jinja_fail(b->r, "a key of a JSON object cannot be a %s", jinja_kind_name(key.kind));
    }
}

static void put_object(struct jinja_build *b, const struct jinja_dict *d, const struct jinja_json_style *style,
                       size_t level)
{
    struct jinja_run *r = b->r;
    size_t n = d->n;
    struct jinja_value keys = jinja_list_new(r, JINJA_LIST, n), values = jinja_list_new(r, JINJA_LIST, n);
    for (size_t i = 0; i < n && !jinja_failed(r); i++) {
        jinja_list_add(r, keys, d->at[i].key);
        jinja_list_add(r, values, d->at[i].value);
    }
    if (jinja_failed(r)) return;
    if (style->sort_keys) jinja_sort(r, values.list->at, keys.list->at, n, false);
    jinja_put(b, "{", 1);
    for (size_t i = 0; i < n && !jinja_failed(r); i++) {
        if (i) jinja_put_str(b, style->item_separator);
        put_line(b, style, level + 1);
        put_key(b, keys.list->at[i], style);
        jinja_put_str(b, style->separator);
        put_value(b, values.list->at[i], style, level + 1);
    }
    if (n) put_line(b, style, level);
    jinja_put(b, "}", 1);
}

static void put_array(struct jinja_build *b, const struct jinja_list *l, const struct jinja_json_style *style,
                      size_t level)
{
    jinja_put(b, "[", 1);
    for (size_t i = 0; i < l->n && !jinja_failed(b->r); i++) {
        if (i) jinja_put_str(b, style->item_separator);
        put_line(b, style, level + 1);
        put_value(b, l->at[i], style, level + 1);
    }
    if (l->n) put_line(b, style, level);
    jinja_put(b, "]", 1);
}

static void put_float(struct jinja_build *b, double d)
{
    char text[JINJA_NUMBER_BYTES_MAX];
    if (d != d)
        jinja_put_word(b, "NaN");
    else if (d > 1.7976931348623157e308)
        jinja_put_word(b, "Infinity");
    else if (d < -1.7976931348623157e308)
        jinja_put_word(b, "-Infinity");
    else
        jinja_put(b, text, jinja_number_show(d, text));
}

static void put_value(struct jinja_build *b, struct jinja_value v, const struct jinja_json_style *style, size_t level)
{
    char text[32];
    jinja_charge(b->r, 1);
    if (!jinja_enter(b->r)) return;
    switch ((enum jinja_kind)v.kind) {
    case JINJA_NONE: jinja_put_word(b, "null"); break;
    case JINJA_BOOL: jinja_put_word(b, v.truth ? "true" : "false"); break;
    case JINJA_INT: jinja_put(b, text, (size_t)sprintf(text, "%lld", (long long)v.whole)); break;
    case JINJA_FLOAT: put_float(b, v.real); break;
    case JINJA_STR: put_quoted(b, v, style->ascii); break;
    case JINJA_LIST:
    case JINJA_TUPLE: put_array(b, v.list, style, level); break;
    case JINJA_DICT: put_object(b, v.dict, style, level); break;
    case JINJA_UNDEFINED: jinja_fail_missing(b->r, v); break;
    default: jinja_fail(b->r, "a %s cannot be written as JSON", jinja_kind_name(v.kind));
    }
    jinja_leave(b->r);
}

void jinja_json_write(struct jinja_build *b, struct jinja_value v, const struct jinja_json_style *style)
{
    put_value(b, v, style, 0);
}
