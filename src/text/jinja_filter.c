/* Filters of one value, and the table of all of them; those that go through items are in jinja_filter_list.c. */
#include "text/jinja_filter.h"

#include "text/jinja_char.h"
#include "text/jinja_words.h"

#include <math.h>
#include <string.h>

#define FILTER(name) static struct jinja_value name(struct jinja_run *r, const struct jinja_call *c)

static struct jinja_value or_word(struct jinja_value v, const char *word)
{
    return jinja_given(v) ? v : jinja_text(word, strlen(word));
}

bool jinja_flag(struct jinja_value v, bool absent) { return jinja_given(v) ? jinja_truth(v) : absent; }

bool jinja_optional_int(struct jinja_run *r, const struct jinja_call *c, struct jinja_value v, int64_t absent,
                        int64_t *out)
{
    *out = absent;
    return !jinja_given(v) || jinja_is(v, JINJA_NONE) || jinja_want_int(r, c, v, out);
}

/* ---- texts ---- */

/* The input as a text; a failed one is empty. */
static struct jinja_value soft(struct jinja_run *r, const struct jinja_call *c)
{
    struct jinja_value v = jinja_str(r, c->self);
    return jinja_is(v, JINJA_STR) ? v : jinja_text("", 0);
}

FILTER(do_upper) { return jinja_recase(r, soft(r, c), CASE_UPPER); }
FILTER(do_lower) { return jinja_recase(r, soft(r, c), CASE_LOWER); }
FILTER(do_capitalize) { return jinja_recase(r, soft(r, c), CASE_CAPITALIZE); }
FILTER(do_string) { return soft(r, c); }
FILTER(do_escape) { return jinja_escape(r, soft(r, c)); }
FILTER(do_safe) { return jinja_as_safe(soft(r, c), true); }

/* Words begin after blanks, '-' and opening brackets only: "it's" becomes "It's". */
FILTER(do_title)
{
    struct jinja_value text = soft(r, c);
    struct jinja_build b = {.r = r};
    for (size_t at = 0, begin = 0; at < text.bytes && !jinja_failed(r); begin = at) {
        for (bool gap = false; at < text.bytes;) { /* a word, and the gap behind it */
            size_t next = at;
            uint32_t ch = jinja_char_next(text.text, text.bytes, &next);
            bool is_gap = jinja_char_is_space(ch) || (ch < 0x80 && strchr("-({[<", (int)ch) && ch);
            if (gap && !is_gap) break;
            gap = is_gap;
            at = next;
        }
        jinja_put_str(&b, jinja_recase(r, jinja_slice_text(text, begin, at), CASE_CAPITALIZE));
    }
    return jinja_as_safe(jinja_built(&b), text.safe);
}

FILTER(do_trim)
{
    struct jinja_value chars = c->p[0];
    if (jinja_given(chars) && !jinja_is(chars, JINJA_NONE) && !jinja_want_str(r, c, chars)) return jinja_undefined();
    return jinja_strip(r, soft(r, c), chars, true, true);
}

FILTER(do_replace)
{
    int64_t count;
    struct jinja_value from = jinja_str(r, c->p[0]), to = jinja_str(r, c->p[1]);
    if (!jinja_optional_int(r, c, c->p[2], -1, &count) || jinja_failed(r)) return jinja_undefined();
    return jinja_as_safe(jinja_replace(r, soft(r, c), from, to, count), false);
}

FILTER(do_center)
{
    int64_t width;
    if (!jinja_optional_int(r, c, c->p[0], 80, &width)) return jinja_undefined();
    return jinja_pad(r, soft(r, c), width, ' ', '^');
}

/* All lines but the first (or with it), but not empty ones (or them too), after `width` blanks or a text. */
FILTER(do_indent)
{
    struct jinja_value text = c->self, by = c->p[0];
    if (!jinja_want_str(r, c, text)) return jinja_undefined();
    bool first = jinja_flag(c->p[1], false), blank = jinja_flag(c->p[2], false);
    if (!jinja_is(by, JINJA_STR)) {
        int64_t width;
        if (!jinja_optional_int(r, c, by, 4, &width)) return jinja_undefined();
        by = jinja_pad(r, jinja_text("", 0), width, ' ', '<');
    }
    struct jinja_build whole = {.r = r}; /* one newline more, so that one at the end opens a line */
    jinja_put_str(&whole, text);
    jinja_put_word(&whole, "\n");
    struct jinja_value lines = jinja_split_lines(r, jinja_built(&whole), false);
    if (jinja_failed(r)) return jinja_undefined();
    struct jinja_build b = {.r = r};
    for (size_t i = 0; i < lines.list->n && !jinja_failed(r); i++) {
        struct jinja_value line = lines.list->at[i];
        if (i) jinja_put_word(&b, "\n");
        if (i ? blank || line.bytes : first) jinja_put_str(&b, by);
        jinja_put_str(&b, line);
    }
    return jinja_as_safe(jinja_built(&b), text.safe);
}

FILTER(do_truncate)
{
    int64_t length, leeway;
    struct jinja_value text = soft(r, c), end = or_word(c->p[2], "..."), none = {.kind = JINJA_ABSENT};
    if (!jinja_optional_int(r, c, c->p[0], 255, &length) || !jinja_optional_int(r, c, c->p[3], 5, &leeway) ||
        !jinja_want_str(r, c, end))
        return jinja_undefined();
    size_t items;
    if (!jinja_length(r, c->self, &items))
        return jinja_fail(r, "truncate() needs a text, not %s", jinja_kind_name(c->self.kind));
    if ((int64_t)items <= length) return c->self; /* lists too */
    if (!jinja_want_str(r, c, c->self)) return jinja_undefined();
    int64_t n = (int64_t)jinja_char_count(text.text, text.bytes),
            n_end = (int64_t)jinja_char_count(end.text, end.bytes);
    if (length < n_end || leeway < 0) return jinja_fail(r, "truncate() needs a length of at least that of its end");
    if (n <= length || n - length <= leeway) return text;
    struct jinja_value head = jinja_slice(r, text, none, jinja_int(length - n_end), none);
    if (jinja_failed(r)) return jinja_undefined();
    size_t cut = head.bytes; /* at the last blank, so that no word is cut in two */
    while (!jinja_flag(c->p[1], false) && cut > 0 && head.text[cut - 1] != ' ') cut--;
    if (cut > 0) head = jinja_slice_text(head, 0, jinja_flag(c->p[1], false) ? cut : cut - 1);
    struct jinja_build b = {.r = r};
    jinja_put_str(&b, head);
    jinja_put_str(&b, end);
    return jinja_built(&b);
}

FILTER(do_wordcount)
{
    struct jinja_value text = soft(r, c);
    int64_t n = 0;
    bool inside = false;
    jinja_charge_bytes(r, text.bytes);
    for (size_t at = 0; at < text.bytes;) {
        uint32_t ch = jinja_char_next(text.text, text.bytes, &at);
        bool word = jinja_char_is_alpha(ch) || (ch >= '0' && ch <= '9') || ch == '_';
        n += word && !inside;
        inside = word;
    }
    return jinja_int(n);
}

/* "%s and %s"|format(a, b) */
FILTER(do_format)
{
    struct jinja_value args = jinja_list_new(r, JINJA_TUPLE, c->args->n), named = jinja_dict_new(r, JINJA_DICT);
    if (c->args->n && c->args->n_named) return jinja_fail(r, "format() takes arguments with names or without");
    for (size_t i = 0; i < c->args->n && !jinja_failed(r); i++) jinja_list_add(r, args, c->args->at[i]);
    for (size_t i = 0; i < c->args->n_named && !jinja_failed(r); i++)
        jinja_dict_set(r, named.dict, c->args->named[i].name, c->args->named[i].value);
    if (jinja_failed(r)) return jinja_undefined();
    return jinja_percent(r, soft(r, c), c->args->n_named ? named : args);
}

/* ---- numbers ---- */

static struct jinja_value trimmed(struct jinja_run *r, struct jinja_value text)
{
    struct jinja_value none = {.kind = JINJA_ABSENT};
    jinja_charge_bytes(r, text.bytes);
    return jinja_strip(r, text, none, true, true);
}

static bool fits(double d) { return d >= -0x1p63 && d < 0x1p63; }

/* Infinite ones have none. */
static struct jinja_value whole_of(struct jinja_run *r, double d, struct jinja_value absent)
{
    if (!isfinite(d)) return absent;
    return fits(d) ? jinja_int((int64_t)d) : jinja_fail(r, "int() gives a number that does not fit in 64 bits");
}

FILTER(do_int)
{
    struct jinja_value v = c->self, absent = jinja_given(c->p[0]) ? c->p[0] : jinja_int(0);
    int64_t base, i;
    double d;
    if (!jinja_optional_int(r, c, c->p[1], 10, &base)) return jinja_undefined();
    if (jinja_is(v, JINJA_UNDEFINED)) return jinja_fail_missing(r, v);
    if (jinja_is_whole(v)) return jinja_int(jinja_whole(v));
    if (jinja_is(v, JINJA_FLOAT)) return whole_of(r, v.real, absent);
    if (!jinja_is(v, JINJA_STR) || base < 2 || base > 36) return absent;
    v = trimmed(r, v);
    if (jinja_number_read_int(v.text, v.bytes, (int)base, &i)) return jinja_int(i);
    return jinja_number_read_float(v.text, v.bytes, &d) ? whole_of(r, d, absent) : absent;
}

FILTER(do_float)
{
    struct jinja_value v = c->self;
    double d;
    if (jinja_is(v, JINJA_UNDEFINED)) return jinja_fail_missing(r, v);
    if (jinja_is_number(v)) return jinja_float(jinja_real(v));
    if (jinja_is(v, JINJA_STR)) {
        v = trimmed(r, v);
        if (jinja_number_read_float(v.text, v.bytes, &d)) return jinja_float(d);
    }
    return jinja_given(c->p[0]) ? c->p[0] : jinja_float(0);
}

FILTER(do_abs)
{
    struct jinja_value v = c->self;
    if (jinja_is(v, JINJA_UNDEFINED)) return jinja_fail_missing(r, v);
    if (jinja_is(v, JINJA_FLOAT)) return jinja_float(fabs(v.real));
    if (!jinja_is_whole(v) || jinja_whole(v) == INT64_MIN)
        return jinja_fail(r, "abs() needs a number, not %s", jinja_kind_name(v.kind));
    return jinja_int(jinja_whole(v) < 0 ? -jinja_whole(v) : jinja_whole(v));
}

/* 10 to the n, |n| <= 308. */
static double ten_to(int64_t n)
{
    double d = 1;
    for (int64_t i = n < 0 ? -n : n; i > 0; i--) d *= 10;
    return n < 0 ? 1 / d : d;
}

FILTER(do_round)
{
    struct jinja_value v = c->self, method = or_word(c->p[1], "common");
    int64_t digits;
    if (!jinja_optional_int(r, c, c->p[0], 0, &digits)) return jinja_undefined();
    if (jinja_is(v, JINJA_UNDEFINED)) return jinja_fail_missing(r, v);
    if (!jinja_is_number(v)) return jinja_fail(r, "round() needs a number, not %s", jinja_kind_name(v.kind));
    if (digits < -308 || digits > 308) return jinja_fail(r, "round() to %lld digits", (long long)digits);
    bool up = jinja_text_is(method, "ceil");
    if (jinja_text_is(method, "common")) {
        if (jinja_is(v, JINJA_FLOAT)) return jinja_float(jinja_number_round(v.real, (int)digits));
        if (digits >= 0) return jinja_int(jinja_whole(v));
        double d = jinja_number_round((double)jinja_whole(v), (int)digits);
        return fits(d) ? jinja_int((int64_t)d) : jinja_fail(r, "round() gives a number that does not fit in 64 bits");
    }
    if (!up && !jinja_text_is(method, "floor")) return jinja_fail(r, "round() knows 'common', 'ceil' and 'floor'");
    double unit = ten_to(digits), scaled = jinja_real(v) * unit;
    return jinja_float((up ? ceil(scaled) : floor(scaled)) / unit);
}

/* ---- anything ---- */

FILTER(do_default)
{
    bool judged = jinja_flag(c->p[1], false);
    bool absent = jinja_is(c->self, JINJA_UNDEFINED) || (judged && !jinja_truth(c->self));
    (void)r;
    return absent ? or_word(c->p[0], "") : c->self;
}

FILTER(do_length)
{
    size_t n;
    if (!jinja_length(r, c->self, &n))
        return jinja_fail(r, "object of type '%s' has no length", jinja_kind_name(c->self.kind));
    return jinja_int((int64_t)n);
}

FILTER(do_attr)
{
    if (!jinja_want_str(r, c, c->p[0])) return jinja_undefined();
    if (jinja_is(c->self, JINJA_DICT) && !jinja_method_find(JINJA_DICT, c->p[0]))
        return jinja_missing_new(r, JINJA_DICT, c->p[0]); /* attributes proper, no items */
    return jinja_get_attr(r, c->self, c->p[0]);
}

FILTER(do_items)
{
    if (jinja_is(c->self, JINJA_UNDEFINED)) return jinja_list_new(r, JINJA_ITER, 0);
    if (!jinja_is(c->self, JINJA_DICT))
        return jinja_fail(r, "items() needs a mapping, not %s", jinja_kind_name(c->self.kind));
    struct jinja_value out = jinja_list_new(r, JINJA_ITER, c->self.dict->n);
    for (size_t i = 0; i < c->self.dict->n && !jinja_failed(r); i++)
        jinja_list_add(r, out, jinja_pair(r, c->self.dict->at[i].key, c->self.dict->at[i].value));
    return out;
}

/* ", " and ": ", or as `separators` says; with an indent there is no blank before the end of a line. */
FILTER(do_tojson)
{
    struct jinja_json_style style = {.ascii = jinja_flag(c->p[1], false), .sort_keys = jinja_flag(c->p[3], false)};
    struct jinja_value indent = c->p[0], separators = c->p[2];
    if (jinja_is(indent, JINJA_STR)) {
        style.indent = indent;
    } else if (jinja_given(indent) && !jinja_is(indent, JINJA_NONE)) {
        int64_t width;
        if (!jinja_want_int(r, c, indent, &width)) return jinja_undefined();
        style.indent = jinja_pad(r, jinja_text("", 0), width, ' ', '<');
    }
    style.item_separator = jinja_given(style.indent) ? jinja_text(",", 1) : jinja_text(", ", 2);
    style.separator = jinja_text(": ", 2);
    if (jinja_given(separators) && !jinja_is(separators, JINJA_NONE)) {
        struct jinja_items two = jinja_items_of(r, separators);
        if (two.n != 2) return jinja_fail(r, "tojson() needs two separators, got %zu", two.n);
        if (!jinja_want_str(r, c, two.at[0]) || !jinja_want_str(r, c, two.at[1])) return jinja_undefined();
        style.item_separator = two.at[0];
        style.separator = two.at[1];
    }
    struct jinja_build b = {.r = r};
    jinja_json_write(&b, c->self, &style);
    return jinja_built(&b);
}

static const struct jinja_builtin filters[] = {
    {"abs", "", do_abs},
    {"attr", "name", do_attr},
    {"batch", "linecount ?fill_with", jinja_do_batch},
    {"capitalize", "", do_capitalize},
    {"center", "?width", do_center},
    {"count", "", do_length},
    {"d", "?default_value ?boolean", do_default},
    {"default", "?default_value ?boolean", do_default},
    {"dictsort", "?case_sensitive ?by ?reverse", jinja_do_dictsort},
    {"e", "", do_escape},
    {"escape", "", do_escape},
    {"first", "", jinja_do_first},
    {"float", "?default", do_float},
    {"format", "...", do_format},
    {"groupby", "attribute ?default ?case_sensitive", jinja_do_groupby},
    {"indent", "?width ?first ?blank", do_indent},
    {"int", "?default ?base", do_int},
    {"items", "", do_items},
    {"join", "?d ?attribute", jinja_do_join},
    {"last", "", jinja_do_last},
    {"length", "", do_length},
    {"list", "", jinja_do_list},
    {"lower", "", do_lower},
    {"map", "...", jinja_do_map},
    {"max", "?case_sensitive ?attribute", jinja_do_max},
    {"min", "?case_sensitive ?attribute", jinja_do_min},
    {"reject", "...", jinja_do_reject},
    {"rejectattr", "...", jinja_do_rejectattr},
    {"replace", "old new ?count", do_replace},
    {"reverse", "", jinja_do_reverse},
    {"round", "?precision ?method", do_round},
    {"safe", "", do_safe},
    {"select", "...", jinja_do_select},
    {"selectattr", "...", jinja_do_selectattr},
    {"slice", "slices ?fill_with", jinja_do_slice},
    {"sort", "?reverse ?case_sensitive ?attribute", jinja_do_sort},
    {"string", "", do_string},
    {"sum", "?attribute ?start", jinja_do_sum},
    {"title", "", do_title},
    {"tojson", "?indent ?ensure_ascii ?separators ?sort_keys", do_tojson},
    {"trim", "?chars", do_trim},
    {"truncate", "?length ?killwords ?end ?leeway", do_truncate},
    {"unique", "?case_sensitive ?attribute", jinja_do_unique},
    {"upper", "", do_upper},
    {"wordcount", "", do_wordcount},
};

const struct jinja_builtin *jinja_filter_find(struct jinja_value name)
{
    return jinja_row_find(filters, sizeof filters / sizeof *filters, name);
}
