/* Python's two ways to format: "%s" % args and "{}".format(args). Both come down to a value and how it is shown. */
#include "text/jinja_call.h"
#include "text/jinja_char.h"
#include "text/jinja_words.h"

#include <stdio.h>
#include <string.h>

#define WIDTH_MAX 10000

struct style {
    uint32_t fill;
    char align; /* '<', '>', '^', '=' (fill between sign and digits), or 0: by the type */
    char sign;  /* '+', ' ' or 0 */
    bool alternate, comma;
    int width, digits; /* digits: -1: not given */
    char type;         /* 0: not given */
};

static char lower(char c) { return (char)(c | 32); }

/* [sign][prefix]digits, filled up. */
static void put_number(struct jinja_build *b, const struct style *s, bool minus, const char *prefix, const char *digits,
                       size_t n)
{
    char head[8];
    size_t n_head = 0;
    if (minus || s->sign) head[n_head++] = minus ? '-' : s->sign;
    for (; *prefix; prefix++) head[n_head++] = *prefix;
    size_t whole = strspn(digits, "0123456789"), commas = s->comma && whole == n ? (n - 1) / 3 : 0;
    if (s->comma && whole < n && whole > 0) commas = (whole - 1) / 3;
    int missing = s->width - (int)(n_head + n + commas);
    if (missing < 0) missing = 0;
    int left = s->align == '<' || s->align == '=' ? 0 : s->align == '^' ? missing / 2 : missing;
    for (int i = 0; i < left; i++) jinja_put_char(b, s->fill);
    jinja_put(b, head, n_head);
    if (s->align == '=')
        for (int i = 0; i < missing; i++) jinja_put_char(b, s->fill);
    for (size_t i = 0; i < n; i++) {
        if (s->comma && i > 0 && i < whole && (whole - i) % 3 == 0) jinja_put(b, ",", 1);
        jinja_put(b, digits + i, 1);
    }
    if (s->align != '=')
        for (int i = left; i < missing; i++) jinja_put_char(b, s->fill);
}

static void put_whole(struct jinja_build *b, const struct style *s, int64_t i)
{
    char digits[80];
    size_t n = 0;
    uint64_t u = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    char type = lower(s->type);
    unsigned base = type == 'x' ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : 10;
    do {
        digits[sizeof digits - ++n] = (s->type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef")[u % base];
        u /= base;
    } while (u);
    while ((int)n < s->digits && n < sizeof digits - 1) digits[sizeof digits - ++n] = '0';
    const char *prefix = !s->alternate    ? ""
                         : s->type == 'x' ? "0x"
                         : s->type == 'X' ? "0X"
                         : type == 'o'    ? "0o"
                         : type == 'b'    ? "0b"
                                          : "";
    char text[81];
    memcpy(text, digits + sizeof digits - n, n);
    text[n] = '\0';
    put_number(b, s, i < 0, prefix, text, n);
}

static void put_float(struct jinja_build *b, const struct style *s, double d)
{
    char text[JINJA_NUMBER_BYTES_MAX + 1];
    size_t n = s->type         ? jinja_number_format(d, s->type == '%' ? 'f' : s->type, s->digits < 0 ? 6 : s->digits,
                                                     s->alternate, text)
               : s->digits < 0 ? jinja_number_show(d, text)
                               : jinja_number_format(d, 'g', s->digits ? s->digits : 1, false, text);
    for (size_t i = 0; i < n && s->type >= 'A' && s->type <= 'Z'; i++)
        if (text[i] >= 'a' && text[i] <= 'z') text[i] -= 32;
    if (s->type == '%') text[n++] = '%';
    text[n] = '\0';
    bool minus = text[0] == '-';
    put_number(b, s, minus, "", text + minus, n - minus);
}

static void put_text(struct jinja_build *b, const struct style *s, struct jinja_value text)
{
    if (!jinja_is(text, JINJA_STR)) return;
    if (s->digits >= 0) text = jinja_slice_text(text, 0, jinja_char_offset(text.text, text.bytes, (size_t)s->digits));
    char align = s->align == '^' ? '=' : s->align == '>' ? '>' : '<'; /* jinja_pad's own names */
    jinja_put_str(b, jinja_pad(b->r, text, s->width, s->fill, align));
}

static struct jinja_value shown(struct jinja_run *r, struct jinja_value v, char conversion)
{
    if (conversion != 'r' && conversion != 'a') return jinja_str(r, v);
    struct jinja_build b = {.r = r};
    jinja_show_repr(&b, v);
    return jinja_built(&b);
}

/* A number in decimal digits, up to WIDTH_MAX; false: larger. */
static bool read_number(struct jinja_value f, size_t *at, int *out)
{
    *out = 0;
    for (; *at < f.bytes && f.text[*at] >= '0' && f.text[*at] <= '9'; *at += 1) {
        *out = *out * 10 + (f.text[*at] - '0');
        if (*out > WIDTH_MAX) return false;
    }
    return true;
}

/* ---- % ---- */

struct arguments {
    struct jinja_value all;
    size_t next;
};

static struct jinja_value next_argument(struct jinja_run *r, struct arguments *a)
{
    bool tuple = jinja_is(a->all, JINJA_TUPLE);
    size_t n = tuple ? a->all.list->n : 1;
    if (a->next >= n) return jinja_fail(r, "not enough arguments for the format");
    a->next++;
    return tuple ? a->all.list->at[a->next - 1] : a->all;
}

static struct jinja_value keyed_argument(struct jinja_run *r, struct arguments *a, struct jinja_value f, size_t *at)
{
    const char *end = memchr(f.text + *at, ')', f.bytes - *at);
    if (!end) return jinja_fail(r, "a key in a format has no end");
    if (!jinja_is(a->all, JINJA_DICT)) return jinja_fail(r, "the format needs a mapping");
    struct jinja_value key = jinja_slice_text(f, *at, (size_t)(end - f.text));
    const struct jinja_value *found = jinja_dict_find(r, a->all.dict, key);
    *at += key.bytes + 1;
    a->next = 1; /* nothing is left over */
    return found ? *found : jinja_fail(r, "the mapping has no '%.*s'", key.bytes < 60 ? (int)key.bytes : 60, key.text);
}

static void put_percent(struct jinja_build *b, const struct style *s, struct jinja_value v)
{
    struct jinja_run *r = b->r;
    struct style own = *s;
    switch (lower(s->type)) {
    case 's':
    case 'r':
    case 'a': put_text(b, s, shown(r, v, s->type)); return;
    case 'c':
        if (jinja_is_whole(v)) {
            char out[4];
            v = jinja_copy_text(r, out, jinja_char_put((uint32_t)jinja_whole(v), out));
        }
        put_text(b, s, v);
        return;
    case 'd':
    case 'i':
    case 'u':
        own.type = 'd';
        if (jinja_is(v, JINJA_FLOAT) && v.real > -0x1p63 && v.real < 0x1p63) v = jinja_int((int64_t)v.real);
        /* fall through */
    case 'x':
    case 'o':
        if (jinja_is_whole(v))
            put_whole(b, &own, jinja_whole(v));
        else
            jinja_fail(r, "%%%c needs a number, not %s", s->type, jinja_kind_name(v.kind));
        return;
    case 'f':
    case 'e':
    case 'g':
        if (jinja_is_number(v))
            put_float(b, s, jinja_real(v));
        else
            jinja_fail(r, "%%%c needs a number, not %s", s->type, jinja_kind_name(v.kind));
        return;
    default: jinja_fail(r, "unknown format %%%c", s->type);
    }
}

/* What stands behind a '%'. */
static void percent_one(struct jinja_build *b, struct jinja_value f, size_t *at, struct arguments *args)
{
    struct jinja_run *r = b->r;
    struct style s = {.fill = ' ', .align = '>', .digits = -1};
    struct jinja_value v = {.kind = JINJA_ABSENT};
    bool zero = false;
    if (*at < f.bytes && f.text[*at] == '(') {
        *at += 1;
        v = keyed_argument(r, args, f, at);
    }
    for (; *at < f.bytes && f.text[*at] && strchr("-+ #0", f.text[*at]); *at += 1) {
        char c = f.text[*at];
        if (c == '-')
            s.align = '<';
        else if (c == '0')
            zero = true;
        else if (c == '#')
            s.alternate = true;
        else if (s.sign != '+')
            s.sign = c;
    }
    bool good = read_number(f, at, &s.width);
    if (good && *at < f.bytes && f.text[*at] == '.') {
        *at += 1;
        good = read_number(f, at, &s.digits);
    }
    while (*at < f.bytes && f.text[*at] && strchr("lhL", f.text[*at])) *at += 1;
    if (!good || *at >= f.bytes) {
        jinja_fail(r, good ? "a format ends in the middle" : "a format's width is too large");
        return;
    }
    s.type = f.text[(*at)++];
    if (s.type == '%') {
        jinja_put(b, "%", 1);
        return;
    }
    if (zero && s.align == '>' && strchr("diuxXofFeEgG", s.type)) {
        s.align = '=';
        s.fill = '0';
    }
    if (!jinja_given(v)) v = next_argument(r, args);
    if (!jinja_failed(r)) put_percent(b, &s, v);
}

struct jinja_value jinja_percent(struct jinja_run *r, struct jinja_value format, struct jinja_value args)
{
    struct jinja_build b = {.r = r};
    struct arguments a = {.all = args};
    for (size_t at = 0; at < format.bytes && !jinja_failed(r);) {
        const char *percent = memchr(format.text + at, '%', format.bytes - at);
        size_t end = percent ? (size_t)(percent - format.text) : format.bytes;
        jinja_charge(r, 1);
        jinja_put(&b, format.text + at, end - at);
        at = end + 1;
        if (percent) percent_one(&b, format, &at, &a);
    }
    bool keyed = jinja_is(args, JINJA_DICT) || jinja_is(args, JINJA_LIST) || jinja_is(args, JINJA_UNDEFINED);
    size_t n = jinja_is(args, JINJA_TUPLE) ? args.list->n : keyed ? 0 : 1;
    if (!jinja_failed(r) && a.next < n) return jinja_fail(r, "not all arguments are used by the format");
    return jinja_as_safe(jinja_built(&b), format.safe);
}

/* ---- {} ---- */

struct braces {
    struct jinja_build out;
    const struct jinja_args *args;
    struct jinja_value f;
    size_t at, next; /* next: the argument of the next "{}" */
};

/* [[fill]align][sign][#][0][width][,][.digits][type] */
static bool read_style(struct jinja_run *r, struct jinja_value f, struct style *s)
{
    *s = (struct style){.fill = ' ', .digits = -1};
    size_t at = 0, behind = 0;
    uint32_t first = f.bytes ? jinja_char_next(f.text, f.bytes, &behind) : 0;
    if (behind < f.bytes && strchr("<>^=", f.text[behind]) && f.text[behind]) {
        s->fill = first;
        s->align = f.text[behind];
        at = behind + 1;
    } else if (f.bytes && f.text[0] && strchr("<>^=", f.text[0])) {
        s->align = f.text[at++];
    }
    if (at < f.bytes && f.text[at] && strchr("+- ", f.text[at])) s->sign = f.text[at] == '-' ? 0 : f.text[at];
    at += at < f.bytes && f.text[at] && strchr("+- ", f.text[at]) != NULL;
    if (at < f.bytes && f.text[at] == '#') {
        s->alternate = true;
        at++;
    }
    if (at < f.bytes && f.text[at] == '0') {
        at++;
        if (!s->align) {
            s->align = '=';
            s->fill = '0';
        }
    }
    bool good = read_number(f, &at, &s->width);
    if (at < f.bytes && f.text[at] == ',') {
        s->comma = true;
        at++;
    }
    if (good && at < f.bytes && f.text[at] == '.') {
        at++;
        good = read_number(f, &at, &s->digits);
    }
    if (at < f.bytes) s->type = f.text[at++];
    if (good && at == f.bytes) return true;
    jinja_fail(r, "the format '%.*s' is not understood", f.bytes < 60 ? (int)f.bytes : 60, f.text);
    return false;
}

static void put_styled(struct jinja_build *b, struct jinja_value v, const struct style *asked)
{
    struct jinja_run *r = b->r;
    struct style s = *asked;
    if (jinja_is(v, JINJA_BOOL) && !s.type && !jinja_is_number(v)) s.type = 's';
    bool number = jinja_is_number(v) && !(jinja_is(v, JINJA_BOOL) && !s.type);
    if (!s.align) s.align = number ? '>' : '<';
    if (!number) {
        if (s.type && s.type != 's') jinja_fail(r, "unknown format '%c' for %s", s.type, jinja_kind_name(v.kind));
        if (s.align == '=') s.align = '<';
        put_text(b, &s, jinja_str(r, v));
        return;
    }
    if (jinja_is_whole(v) && (!s.type || strchr("dxXobn", s.type))) {
        if (s.digits >= 0)
            jinja_fail(r, "a whole number has no digits behind the point");
        else
            put_whole(b, &s, jinja_whole(v));
        return;
    }
    if (s.type && !strchr("fFeEgG%", s.type)) {
        jinja_fail(r, "unknown format '%c' for %s", s.type, jinja_kind_name(v.kind));
        return;
    }
    put_float(b, &s, jinja_real(v) * (s.type == '%' ? 100 : 1));
}

/* The value that "0", "name", "" and ".a[b]" behind it stand for. */
static struct jinja_value field_value(struct jinja_run *r, struct braces *b, struct jinja_value field)
{
    size_t end = 0;
    while (end < field.bytes && field.text[end] != '.' && field.text[end] != '[') end++;
    struct jinja_value name = jinja_slice_text(field, 0, end), v = {.kind = JINJA_ABSENT};
    int64_t i = 0;
    if (end == 0 || jinja_number_read_int(name.text, name.bytes, 10, &i)) {
        size_t at = end == 0 ? b->next++ : (size_t)i;
        if (at >= b->args->n) return jinja_fail(r, "the format has no argument number %zu", at);
        v = b->args->at[at];
    }
    for (size_t k = 0; !jinja_given(v) && k < b->args->n_named; k++)
        if (jinja_equal(r, b->args->named[k].name, name)) v = b->args->named[k].value;
    if (!jinja_given(v))
        return jinja_fail(r, "the format has no argument '%.*s'", name.bytes < 60 ? (int)name.bytes : 60, name.text);
    while (end < field.bytes && !jinja_failed(r)) {
        bool item = field.text[end] == '[';
        size_t begin = ++end;
        while (end < field.bytes && (item ? field.text[end] != ']' : field.text[end] != '.' && field.text[end] != '['))
            end++;
        struct jinja_value key = jinja_slice_text(field, begin, end);
        if (item && jinja_number_read_int(key.text, key.bytes, 10, &i)) key = jinja_int(i);
        v = item ? jinja_get_item(r, v, key) : jinja_get_attr(r, v, key);
        end += item && end < field.bytes;
        if (jinja_is(v, JINJA_UNDEFINED)) return jinja_fail_missing(r, v);
    }
    return v;
}

/* What stands behind a '{'. A style may name arguments itself, one level deep: "{:>{}}". */
static void brace_one(struct jinja_run *r, struct braces *b)
{
    size_t begin = b->at, depth = 1, end = begin;
    for (; end < b->f.bytes; end++) {
        if (b->f.text[end] == '{') depth++;
        if (b->f.text[end] == '}' && --depth == 0) break;
    }
    if (end == b->f.bytes) {
        jinja_fail(r, "a '{' in a format has no end");
        return;
    }
    b->at = end + 1;
    struct jinja_value inside = jinja_slice_text(b->f, begin, end);
    const char *colon = memchr(inside.text, ':', inside.bytes);
    struct jinja_value field = jinja_slice_text(inside, 0, colon ? (size_t)(colon - inside.text) : inside.bytes);
    struct jinja_value style = colon ? jinja_slice_text(inside, field.bytes + 1, inside.bytes) : jinja_text("", 0);
    char conversion = 0;
    if (field.bytes >= 2 && field.text[field.bytes - 2] == '!') {
        conversion = field.text[field.bytes - 1];
        field = jinja_slice_text(field, 0, field.bytes - 2);
    }
    struct jinja_value v = field_value(r, b, field);
    if (memchr(style.text, '{', style.bytes) && jinja_enter(r)) {
        struct braces nested = {.out = {.r = r}, .args = b->args, .f = style, .next = b->next};
        while (nested.at < style.bytes && !jinja_failed(r)) {
            char c = style.text[nested.at++];
            if (c == '{')
                brace_one(r, &nested);
            else
                jinja_put(&nested.out, &c, 1);
        }
        style = jinja_built(&nested.out);
        b->next = nested.next;
        jinja_leave(r);
    }
    struct style s;
    if (jinja_failed(r) || !read_style(r, style, &s)) return;
    put_styled(&b->out, conversion ? shown(r, v, conversion) : v, &s);
}

struct jinja_value jinja_braces(struct jinja_run *r, struct jinja_value format, const struct jinja_args *args)
{
    struct braces b = {.out = {.r = r}, .args = args, .f = format};
    size_t kept = 0;
    while (b.at < format.bytes && !jinja_failed(r)) {
        char c = format.text[b.at], d = b.at + 1 < format.bytes ? format.text[b.at + 1] : 0;
        if (c != '{' && c != '}') {
            b.at++;
            continue;
        }
        jinja_charge(r, 1);
        jinja_put(&b.out, format.text + kept, b.at - kept);
        if (c == d) { /* one of two stays */
            jinja_put(&b.out, format.text + b.at, 1);
            b.at += 2;
        } else if (c == '}') {
            jinja_fail(r, "a '}' in a format has no beginning");
        } else {
            b.at++;
            brace_one(r, &b);
        }
        kept = b.at;
    }
    if (!jinja_failed(r)) jinja_put(&b.out, format.text + kept, format.bytes - kept);
    return jinja_as_safe(jinja_built(&b.out), format.safe);
}
