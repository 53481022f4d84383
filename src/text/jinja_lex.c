/* The lexer: text until the next tag, then tokens until the tag's end. */
#include "text/jinja_lex.h"

#include "base/error.h"
#include "text/jinja_char.h"
#include "text/jinja_run.h"
#include "text/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lexer {
    struct jinja_template *t;
    const char *text;
    size_t bytes, at;
    struct jinja_tokens *out;
    bool line_start; /* what was read last ended a line */
    char open[JINJA_NEST_MAX];
    size_t n_open; /* brackets */
    enum sluice_status status;
    struct sluice_error *err;
};

static void fail_at(struct lexer *l, size_t at, const char *what)
{
    if (l->status != SLUICE_OK) return;
    struct jinja_place p = jinja_place(l->t, at);
    l->status =
        base_fail(l->err, SLUICE_ERR_MODEL, NULL, "%s, line %zu, column %zu: %s", l->t->name, p.line, p.column, what);
}

static void fail_memory(struct lexer *l)
{
    if (l->status != SLUICE_OK) return;
    l->status = base_fail(l->err, SLUICE_ERR_MEMORY, NULL, "%s: no memory for its %zu bytes", l->t->name, l->bytes);
}

static struct jinja_token *add(struct lexer *l, enum jinja_token_kind kind, size_t at)
{
    struct jinja_tokens *o = l->out;
    if (o->n == o->room) {
        size_t room = o->room * 2 + 64;
        struct jinja_token *grown = realloc(o->at, room * sizeof *grown);
        if (!grown) {
            fail_memory(l);
            return NULL;
        }
        o->at = grown;
        o->room = room;
    }
    struct jinja_token *token = &o->at[o->n++];
    *token = (struct jinja_token){.kind = (uint8_t)kind, .at = (uint32_t)at};
    return token;
}

static void add_text(struct lexer *l, size_t begin, size_t end)
{
    if (begin == end) return;
    struct jinja_token *token = add(l, TOKEN_TEXT, begin);
    if (token) token->value = jinja_text(l->text + begin, end - begin);
}

static bool is_at(const struct lexer *l, size_t at, const char *word)
{
    size_t n = strlen(word);
    return l->bytes - at >= n && memcmp(l->text + at, word, n) == 0;
}

static size_t skip_space(const struct lexer *l, size_t at)
{
    while (at < l->bytes) {
        size_t next = at;
        if (!jinja_char_is_space(jinja_char_next(l->text, l->bytes, &next))) break;
        at = next;
    }
    return at;
}

/* Where the text [begin, end) before a tag ends for good. */
static size_t strip_before(const struct lexer *l, size_t begin, size_t end, char sign, bool strips_line)
{
    size_t at = end;
    if (sign == '-') {
        while (at > begin) {
            size_t before = at - begin;
            if (!jinja_char_is_space(jinja_char_previous(l->text + begin, &before))) break;
            at = begin + before;
        }
        return at;
    }
    if (sign == '+' || !strips_line) return end;
    while (at > begin && l->text[at - 1] != '\n') {
        size_t before = at - begin;
        if (!jinja_char_is_space(jinja_char_previous(l->text + begin, &before))) return end;
        at = begin + before;
    }
    return at > begin || l->line_start ? at : end;
}

/* Behind the end of a tag. `trims`: a newline that follows is dropped. */
static void end_tag(struct lexer *l, size_t at, char sign, bool trims)
{
    size_t begin = at;
    if (sign == '-')
        at = skip_space(l, at);
    else if (sign != '+' && trims && at < l->bytes && l->text[at] == '\n')
        at++;
    l->line_start = at > begin && l->text[at - 1] == '\n';
    l->at = at;
}

static void lex_comment(struct lexer *l, size_t tag)
{
    size_t begin = l->at;
    for (size_t at = begin; at + 2 <= l->bytes; at++) {
        if (!is_at(l, at, "#}")) continue;
        char sign = at > begin && (l->text[at - 1] == '-' || l->text[at - 1] == '+') ? l->text[at - 1] : 0;
        end_tag(l, at + 2, sign, true);
        return;
    }
    fail_at(l, tag, "this comment has no end (#})");
}

/* {% raw %}: at is behind it. */
static void lex_raw(struct lexer *l, size_t tag)
{
    size_t begin = l->at;
    for (size_t at = begin; at + 2 <= l->bytes; at++) {
        if (!is_at(l, at, "{%")) continue;
        char sign = at + 2 < l->bytes && (l->text[at + 2] == '-' || l->text[at + 2] == '+') ? l->text[at + 2] : 0;
        size_t word = skip_space(l, at + 2 + (sign != 0));
        if (!is_at(l, word, "endraw")) continue;
        size_t end = skip_space(l, word + 6);
        char end_sign = end < l->bytes && (l->text[end] == '-' || l->text[end] == '+') ? l->text[end] : 0;
        if (!is_at(l, end + (end_sign != 0), "%}")) continue;
        add_text(l, begin, strip_before(l, begin, at, sign, true));
        end_tag(l, end + (end_sign != 0) + 2, end_sign, true);
        return;
    }
    fail_at(l, tag, "this raw block has no end ({% endraw %})");
}

static bool begins_raw(struct lexer *l, size_t at)
{
    size_t word = skip_space(l, at);
    if (!is_at(l, word, "raw")) return false;
    size_t end = skip_space(l, word + 3);
    char sign = end < l->bytes && l->text[end] == '-' ? '-' : 0;
    if (!is_at(l, end + (sign != 0), "%}")) return false;
    end_tag(l, end + (sign != 0) + 2, sign, false);
    return true;
}

/* ---- inside of tags ---- */

static bool is_name_byte(char c, bool first)
{
    unsigned char u = (unsigned char)c;
    if ((u | 32) >= 'a' && (u | 32) <= 'z') return u < 0x80;
    return c == '_' || u >= 0x80 || (!first && u >= '0' && u <= '9');
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* An escape at text[*at], which is behind the backslash. Writes at most as many bytes as it reads. */
static size_t read_escape(struct lexer *l, size_t *at, size_t end, char *out)
{
    static const char plain[] = "\\\\''\"\"a\ab\bf\fn\nr\rt\tv\v";
    char c = l->text[*at];
    for (size_t i = 0; plain[i]; i += 2)
        if (c == plain[i]) {
            *at += 1;
            *out = plain[i + 1];
            return 1;
        }
    if (c == '\n') {
        *at += 1;
        return 0;
    }
    uint32_t code = 0;
    if (c >= '0' && c <= '7') {
        for (int i = 0; i < 3 && *at < end && l->text[*at] >= '0' && l->text[*at] <= '7'; i++)
            code = code * 8 + (uint32_t)(l->text[(*at)++] - '0');
        return jinja_char_put(code, out);
    }
    int digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits == 0) {
        if (c == 'N') fail_at(l, *at, "characters by name (\\N{...}) are not supported");
        *out = '\\';
        return 1;
    }
    *at += 1;
    for (int i = 0; i < digits; i++, *at += 1) {
        int d = *at < end ? hex_digit(l->text[*at]) : -1;
        if (d < 0) {
            fail_at(l, *at, "this escape needs more hexadecimal digits");
            return 0;
        }
        code = code << 4 | (uint32_t)d;
    }
    if (code >= 0xd800 && code < 0xe000) code = 0xfffd;
    return jinja_char_put(code, out);
}

static void lex_string(struct lexer *l)
{
    char quote = l->text[l->at];
    size_t begin = l->at + 1, end = begin;
    bool escapes = false;
    while (end < l->bytes && l->text[end] != quote) {
        escapes = escapes || l->text[end] == '\\';
        end += l->text[end] == '\\' ? 2 : 1;
    }
    if (end >= l->bytes) {
        fail_at(l, l->at, "this text has no end");
        return;
    }
    struct jinja_token *token = add(l, TOKEN_STRING, l->at);
    if (!token) return;
    l->at = end + 1;
    token->value = jinja_text(l->text + begin, end - begin);
    if (!escapes) return;
    char *out = jinja_arena_text(&l->t->arena, end - begin);
    if (!out) {
        fail_memory(l);
        return;
    }
    size_t n = 0;
    for (size_t at = begin; at < end && l->status == SLUICE_OK;) {
        if (l->text[at] != '\\') {
            out[n++] = l->text[at++];
            continue;
        }
        at++;
        n += read_escape(l, &at, end, out + n);
    }
    token->value = jinja_text(out, n);
}

static size_t digits_end(const struct lexer *l, size_t at)
{
    while (at < l->bytes &&
           ((l->text[at] >= '0' && l->text[at] <= '9') ||
            (l->text[at] == '_' && at + 1 < l->bytes && l->text[at + 1] >= '0' && l->text[at + 1] <= '9')))
        at++;
    return at;
}

static void lex_number(struct lexer *l)
{
    size_t begin = l->at, end = digits_end(l, begin);
    bool real = false;
    struct jinja_value v = jinja_int(0);
    int base = 10;
    char p = end < l->bytes ? (char)(l->text[end] | 32) : 0;
    if (end == begin + 1 && l->text[begin] == '0' && (p == 'x' || p == 'o' || p == 'b')) {
        base = p == 'x' ? 16 : p == 'o' ? 8 : 2;
        end++;
        while (end < l->bytes && (hex_digit(l->text[end]) >= 0 || l->text[end] == '_')) end++;
    } else if (begin == 0 || l->text[begin - 1] != '.') { /* behind a point it is an index: x.0.1 */
        if (end + 1 < l->bytes && l->text[end] == '.' && l->text[end + 1] >= '0' && l->text[end + 1] <= '9') {
            end = digits_end(l, end + 1);
            real = true;
        }
        size_t e = end;
        if (e < l->bytes && (l->text[e] | 32) == 'e') {
            e++;
            if (e < l->bytes && (l->text[e] == '+' || l->text[e] == '-')) e++;
            size_t e_end = e < l->bytes && l->text[e] != '_' ? digits_end(l, e) : e;
            if (e_end > e) {
                end = e_end;
                real = true;
            }
        }
    }
    if (real) {
        double d = 0;
        jinja_number_read_float(l->text + begin, end - begin, &d);
        v = jinja_float(d);
    } else {
        int64_t i;
        if (!jinja_number_read_int(l->text + begin, end - begin, base, &i)) {
            fail_at(l, begin, "this is no number that fits in 64 bits");
            return;
        }
        v = jinja_int(i);
    }
    struct jinja_token *token = add(l, TOKEN_NUMBER, begin);
    if (token) token->value = v;
    l->at = end;
}

static void lex_name(struct lexer *l)
{
    size_t begin = l->at, end = begin;
    while (end < l->bytes && is_name_byte(l->text[end], false)) end++;
    struct jinja_token *token = add(l, TOKEN_NAME, begin);
    if (token) token->value = jinja_text(l->text + begin, end - begin);
    l->at = end;
}

static void lex_bracket(struct lexer *l, char c)
{
    static const char pairs[] = "()[]{}";
    const char *p = strchr(pairs, c);
    if (!p) return;
    if ((p - pairs) % 2 == 0) {
        if (l->n_open == JINJA_NEST_MAX) {
            fail_at(l, l->at, "brackets nest too deep");
            return;
        }
        l->open[l->n_open++] = p[1];
    } else if (l->n_open == 0 || l->open[--l->n_open] != c) {
        char what[64];
        snprintf(what, sizeof what, "unexpected '%c'", c);
        fail_at(l, l->at, what);
    }
}

static void lex_sign(struct lexer *l)
{
    static const char doubles[] = "//**==!=>=<=", singles[] = "+-/*%~[](){}><=.:|,";
    char c = l->text[l->at], d = l->at + 1 < l->bytes ? l->text[l->at + 1] : 0;
    uint16_t sign = 0;
    for (size_t i = 0; doubles[i]; i += 2)
        if (c == doubles[i] && d == doubles[i + 1]) sign = JINJA_SIGN((unsigned char)c, (unsigned char)d);
    if (!sign && c && strchr(singles, c)) sign = (uint16_t)(unsigned char)c;
    if (!sign) {
        char what[64];
        size_t n = text_utf8_length(l->text + l->at, l->bytes - l->at);
        if (n == 0) n = 1;
        snprintf(what, sizeof what, "unexpected '%.*s'", (int)n, l->text + l->at);
        fail_at(l, l->at, what);
        return;
    }
    lex_bracket(l, c);
    struct jinja_token *token = add(l, TOKEN_SIGN, l->at);
    if (token) token->sign = sign;
    l->at += sign > 0xff ? 2 : 1;
}

/* Whether the tag ends here; then goes behind it. Braces that are open keep "}}" from ending it. */
static bool lex_end(struct lexer *l, const char *end, enum jinja_token_kind kind)
{
    if (l->n_open) return false;
    size_t at = l->at;
    char sign = at < l->bytes && (l->text[at] == '-' || l->text[at] == '+') ? l->text[at] : 0;
    if (sign == '+' && kind == TOKEN_OUTPUT_END) return false;
    if (!is_at(l, at + (sign != 0), end)) return false;
    add(l, kind, at);
    end_tag(l, at + (sign != 0) + 2, sign, kind == TOKEN_BLOCK_END);
    return true;
}

static void lex_tag(struct lexer *l, size_t tag, bool output)
{
    const char *end = output ? "}}" : "%}";
    add(l, output ? TOKEN_OUTPUT : TOKEN_BLOCK, tag);
    l->n_open = 0;
    while (l->status == SLUICE_OK) {
        l->at = skip_space(l, l->at);
        if (l->at >= l->bytes) {
            fail_at(l, tag, output ? "this tag has no end (}})" : "this tag has no end (%})");
            return;
        }
        if (lex_end(l, end, output ? TOKEN_OUTPUT_END : TOKEN_BLOCK_END)) return;
        char c = l->text[l->at];
        if (c == '\'' || c == '"')
            lex_string(l);
        else if (c >= '0' && c <= '9')
            lex_number(l);
        else if (is_name_byte(c, true))
            lex_name(l);
        else
            lex_sign(l);
    }
}

enum sluice_status jinja_lex(struct jinja_template *t, struct jinja_tokens *out, struct sluice_error *err)
{
    struct lexer l = {.t = t, .text = t->source, .bytes = t->bytes, .out = out, .line_start = true, .err = err};
    size_t begin = 0;
    while (l.status == SLUICE_OK) {
        const char *brace = l.at < l.bytes ? memchr(l.text + l.at, '{', l.bytes - l.at) : NULL;
        size_t tag = brace ? (size_t)(brace - l.text) : l.bytes;
        char kind = tag + 1 < l.bytes ? l.text[tag + 1] : 0;
        if (tag == l.bytes) {
            add_text(&l, begin, l.bytes);
            break;
        }
        if (kind != '{' && kind != '%' && kind != '#') {
            l.at = tag + 1;
            continue;
        }
        char sign = tag + 2 < l.bytes && (l.text[tag + 2] == '-' || l.text[tag + 2] == '+') ? l.text[tag + 2] : 0;
        add_text(&l, begin, strip_before(&l, begin, tag, sign, kind != '{'));
        l.at = tag + 2 + (sign != 0);
        l.line_start = false;
        if (kind == '#')
            lex_comment(&l, tag);
        else if (kind == '%' && begins_raw(&l, l.at))
            lex_raw(&l, tag);
        else
            lex_tag(&l, tag, kind == '{');
        begin = l.at;
    }
    add(&l, TOKEN_END, t->bytes);
    return l.status;
}
