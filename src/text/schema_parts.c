#include "text/schema_parts.h"

#include "text/schema.h"

#include <stdlib.h>
#include <string.h>

/* `n` hexadecimal digits from a state to `to`. */
static void hex(struct automaton *a, uint32_t rule, uint32_t from, uint32_t to, unsigned n)
{
    while (n-- > 0) {
        const uint32_t next = n ? automaton_state(a, rule) : to;
        automaton_bytes(a, from, '0', '9', next, 0);
        automaton_bytes(a, from, 'a', 'f', next, 0);
        automaton_bytes(a, from, 'A', 'F', next, 0);
        from = next;
    }
}

/* Behind \u: a unit that is no half of a pair, or both halves. */
static void unicode(struct automaton *a, uint32_t rule, uint32_t from, uint32_t to)
{
    const uint32_t three = automaton_state(a, rule), d = automaton_state(a, rule), two = automaton_state(a, rule),
                   high = automaton_state(a, rule), end = automaton_state(a, rule);
    automaton_bytes(a, from, '0', '9', three, 0);
    automaton_bytes(a, from, 'a', 'c', three, 0);
    automaton_bytes(a, from, 'A', 'C', three, 0);
    automaton_bytes(a, from, 'e', 'f', three, 0);
    automaton_bytes(a, from, 'E', 'F', three, 0);
    automaton_bytes(a, from, 'd', 'd', d, 0);
    automaton_bytes(a, from, 'D', 'D', d, 0);
    hex(a, rule, three, to, 3);
    automaton_bytes(a, d, '0', '7', two, 0);
    hex(a, rule, two, to, 2);
    automaton_bytes(a, d, '8', '9', high, 0);
    automaton_bytes(a, d, 'a', 'b', high, 0);
    automaton_bytes(a, d, 'A', 'B', high, 0);
    hex(a, rule, high, end, 2);
    uint32_t low = automaton_byte(a, automaton_byte(a, end, '\\'), 'u');
    const uint32_t low_d = automaton_state(a, rule), low_two = automaton_state(a, rule);
    automaton_bytes(a, low, 'd', 'd', low_d, 0);
    automaton_bytes(a, low, 'D', 'D', low_d, 0);
    automaton_bytes(a, low_d, 'c', 'f', low_two, 0);
    automaton_bytes(a, low_d, 'C', 'F', low_two, 0);
    hex(a, rule, low_two, to, 2);
}

void schema_characters(struct automaton *a, uint32_t rule, uint32_t from, uint32_t to, unsigned flags, bool shortest)
{
    static const char escapes[] = "\"\\bfnrt/";
    automaton_bytes(a, from, 0x20, 0x21, to, flags);
    automaton_bytes(a, from, 0x23, 0x5b, to, flags);
    automaton_bytes(a, from, 0x5d, 0x7f, to, flags);
    /* UTF-8, table 3-7 of the Unicode standard. */
    static const struct {
        uint8_t low, high, second_low, second_high, more;
    } rows[] = {{0xe0, 0xe0, 0xa0, 0xbf, 1}, {0xe1, 0xec, 0x80, 0xbf, 1}, {0xed, 0xed, 0x80, 0x9f, 1},
                {0xee, 0xef, 0x80, 0xbf, 1}, {0xf0, 0xf0, 0x90, 0xbf, 2}, {0xf1, 0xf3, 0x80, 0xbf, 2},
                {0xf4, 0xf4, 0x80, 0x8f, 2}};
    const uint32_t last = automaton_state(a, rule), before = automaton_state(a, rule);
    automaton_bytes(a, last, 0x80, 0xbf, to, 0);
    automaton_bytes(a, before, 0x80, 0xbf, last, 0);
    automaton_bytes(a, from, 0xc2, 0xdf, last, flags);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const uint32_t second = automaton_state(a, rule);
        automaton_bytes(a, from, rows[i].low, rows[i].high, second, flags);
        automaton_bytes(a, second, rows[i].second_low, rows[i].second_high, rows[i].more == 1 ? last : before, 0);
    }
    const uint32_t escape = automaton_state(a, rule);
    automaton_bytes(a, from, '\\', '\\', escape, flags);
    for (size_t i = 0; i < sizeof escapes - 1 - shortest; i++)
        automaton_bytes(a, escape, (uint8_t)escapes[i], (uint8_t)escapes[i], to, 0);
    if (!shortest) unicode(a, rule, automaton_byte(a, escape, 'u'), to);
}

uint32_t schema_space(struct automaton *a, uint32_t from)
{
    if (!a->n_states) return 0;
    const uint32_t to = automaton_state(a, a->states[from].rule);
    automaton_call(a, from, PART_SPACE, to, 0);
    return to;
}

uint32_t schema_mark(struct automaton *a, uint32_t from, char byte)
{
    return schema_space(a, automaton_byte(a, from, byte));
}

static void space(struct automaton *a)
{
    const uint32_t rule = automaton_rule(a, 0, SCHEMA_BLANKS_MAX), start = a->rules[rule].start,
                   end = automaton_state(a, rule), line = automaton_state(a, rule), again = automaton_state(a, rule);
    automaton_accept(a, start);
    automaton_accept(a, end);
    automaton_accept(a, line);
    automaton_accept(a, again);
    automaton_bytes(a, start, ' ', ' ', end, 0);
    automaton_bytes(a, start, '\n', '\n', line, 0);
    automaton_bytes(a, line, '\n', '\n', again, 0);
    const uint32_t lines[] = {line, again};
    for (int i = 0; i < 2; i++) {
        automaton_bytes(a, lines[i], ' ', ' ', again, EDGE_BELOW | EDGE_COUNT);
        automaton_bytes(a, lines[i], '\t', '\t', again, EDGE_BELOW | EDGE_COUNT);
    }
}

/* From `from`: digits, counted, the first one already counted by the way here. Returns the state behind each of them.
 */
static void digits(struct automaton *a, uint32_t at) { automaton_bytes(a, at, '0', '9', at, EDGE_BELOW | EDGE_COUNT); }

static void number(struct automaton *a, bool integer)
{
    const uint32_t rule = automaton_rule(a, 0, SCHEMA_DIGITS_MAX), start = a->rules[rule].start,
                   minus = automaton_byte(a, start, '-'), zero = automaton_state(a, rule),
                   whole = automaton_state(a, rule);
    const uint32_t begins[] = {start, minus};
    for (int i = 0; i < 2; i++) {
        automaton_bytes(a, begins[i], '0', '0', zero, 0);
        automaton_bytes(a, begins[i], '1', '9', whole, EDGE_COUNT);
    }
    digits(a, whole);
    automaton_accept(a, zero);
    automaton_accept(a, whole);
    if (integer) return;
    const uint32_t point = automaton_state(a, rule), fraction = automaton_state(a, rule),
                   exponent = automaton_state(a, rule), sign = automaton_state(a, rule),
                   first = automaton_state(a, rule), second = automaton_state(a, rule);
    const uint32_t wholes[] = {zero, whole, fraction};
    for (int i = 0; i < 3; i++) {
        if (i < 2) automaton_bytes(a, wholes[i], '.', '.', point, EDGE_RESET);
        automaton_bytes(a, wholes[i], 'e', 'e', exponent, 0);
        automaton_bytes(a, wholes[i], 'E', 'E', exponent, 0);
    }
    automaton_bytes(a, point, '0', '9', fraction, EDGE_COUNT);
    digits(a, fraction);
    automaton_accept(a, fraction);
    automaton_bytes(a, exponent, '+', '+', sign, 0);
    automaton_bytes(a, exponent, '-', '-', sign, 0);
    automaton_bytes(a, exponent, '0', '9', first, 0);
    automaton_bytes(a, sign, '0', '9', first, 0);
    automaton_bytes(a, first, '0', '9', second, 0); /* two digits: no reader's numbers overflow */
    automaton_accept(a, first);
    automaton_accept(a, second);
}

static void string(struct automaton *a)
{
    const uint32_t rule = automaton_rule(a, 0, AUTOMATON_NO_MOST), in = automaton_byte(a, a->rules[rule].start, '"');
    schema_characters(a, rule, in, in, 0, false);
    automaton_accept(a, automaton_byte(a, in, '"'));
}

static void any_value(struct automaton *a)
{
    static const char *const words[] = {"true", "false", "null"};
    static const uint8_t parts[] = {PART_OBJECT, PART_ARRAY, PART_STRING, PART_NUMBER};
    const uint32_t rule = automaton_rule(a, 0, AUTOMATON_NO_MOST), start = a->rules[rule].start,
                   end = automaton_state(a, rule);
    automaton_accept(a, end);
    for (int i = 0; i < 3; i++) automaton_accept(a, automaton_word(a, start, words[i], strlen(words[i])));
    for (int i = 0; i < 4; i++) automaton_call(a, start, parts[i], end, 0);
}

static void any_object(struct automaton *a)
{
    const uint32_t rule = automaton_rule(a, 0, AUTOMATON_NO_MOST), first = schema_mark(a, a->rules[rule].start, '{'),
                   key = automaton_state(a, rule), colon = automaton_state(a, rule), value = automaton_state(a, rule),
                   end = automaton_state(a, rule);
    automaton_accept(a, end);
    automaton_bytes(a, first, '}', '}', end, 0);
    automaton_call(a, first, PART_STRING, key, 0);
    automaton_empty(a, schema_space(a, key), colon, 0);
    automaton_call(a, schema_mark(a, colon, ':'), PART_VALUE, value, 0);
    const uint32_t behind = schema_space(a, value);
    automaton_bytes(a, behind, '}', '}', end, 0);
    automaton_call(a, schema_mark(a, behind, ','), PART_STRING, key, 0);
}

static void any_array(struct automaton *a)
{
    const uint32_t rule = automaton_rule(a, 0, AUTOMATON_NO_MOST), first = schema_mark(a, a->rules[rule].start, '['),
                   value = automaton_state(a, rule), end = automaton_state(a, rule);
    automaton_accept(a, end);
    automaton_bytes(a, first, ']', ']', end, 0);
    automaton_call(a, first, PART_VALUE, value, 0);
    const uint32_t behind = schema_space(a, value);
    automaton_bytes(a, behind, ']', ']', end, 0);
    automaton_call(a, schema_mark(a, behind, ','), PART_VALUE, value, 0);
}

void schema_parts(struct automaton *a)
{
    /* In the order of enum schema_part; rules may call those that follow, for ids are known. */
    space(a);
    string(a);
    number(a, true);
    number(a, false);
    any_value(a);
    any_object(a);
    any_array(a);
}

size_t schema_escape(const char *text, size_t bytes, char *out)
{
    static const char plain[] = "\"\"\\\\\bb\ff\nn\rr\tt", digits16[] = "0123456789abcdef";
    size_t n = 0;
    for (size_t i = 0; i < bytes; i++) {
        const unsigned char c = (unsigned char)text[i];
        size_t at = 0;
        while (plain[at] && (unsigned char)plain[at] != c) at += 2;
        if (plain[at] && c) {
            out[n++] = '\\';
            out[n++] = plain[at + 1];
        } else if (c < 0x20) {
            memcpy(out + n, "\\u00", 4);
            out[n + 4] = digits16[c >> 4];
            out[n + 5] = digits16[c & 15];
            n += 6;
        } else
            out[n++] = (char)c;
    }
    return n;
}

static uint32_t text_literal(struct automaton *a, uint32_t from, const char *text, size_t bytes)
{
    char *out = malloc(bytes * 6 + 2);
    if (!out) {
        a->no_memory = true;
        return from;
    }
    out[0] = '"';
    const size_t n = schema_escape(text, bytes, out + 1);
    out[n + 1] = '"';
    from = automaton_word(a, from, out, n + 2);
    free(out);
    return from;
}

uint32_t schema_literal(struct automaton *a, uint32_t from, const struct schema_tree *t, uint32_t value)
{
    static const char *const words[] = {"null", "false", "true"};
    const struct schema_value *v = &t->values[value];
    switch (v->kind) {
    case SCHEMA_NULL:
    case SCHEMA_FALSE:
    case SCHEMA_TRUE: return automaton_word(a, from, words[v->kind], strlen(words[v->kind]));
    case SCHEMA_NUMBER: return automaton_word(a, from, v->text, v->bytes);
    case SCHEMA_STRING: return text_literal(a, from, v->text, v->bytes);
    default: break;
    }
    const bool object = v->kind == SCHEMA_OBJECT;
    from = schema_mark(a, from, object ? '{' : '[');
    for (uint32_t i = v->first; i != SCHEMA_NONE; i = t->values[i].next) {
        if (i != v->first) from = schema_mark(a, from, ',');
        if (object) {
            from = schema_space(a, text_literal(a, from, t->values[i].key, t->values[i].key_bytes));
            from = schema_mark(a, from, ':');
        }
        from = schema_space(a, schema_literal(a, from, t, i));
    }
    return automaton_byte(a, from, object ? '}' : ']');
}
