#include "text/jinja_words.h"

#include "text/jinja_char.h"

#include <string.h>

static uint32_t recase_char(uint32_t c, enum jinja_case to, bool word_begins, bool text_begins)
{
    uint32_t upper = jinja_char_upper(c), lower = jinja_char_lower(c);
    switch (to) {
    case CASE_LOWER: return lower;
    case CASE_UPPER: return upper;
    case CASE_CAPITALIZE: return text_begins ? upper : lower;
    case CASE_TITLE: return word_begins ? upper : lower;
    case CASE_SWAP: return upper != c ? upper : lower;
    }
    return c;
}

/* Characters are copied with their own marks, so a change of case goes one by one. */
struct jinja_value jinja_recase(struct jinja_run *r, struct jinja_value text, enum jinja_case to)
{
    struct jinja_build b = {.r = r};
    bool letter_before = false;
    size_t kept = 0; /* unchanged characters from here are not copied yet */
    jinja_charge_bytes(r, text.bytes);
    for (size_t at = 0; at < text.bytes && !jinja_failed(r);) {
        size_t begin = at;
        uint32_t c = jinja_char_next(text.text, text.bytes, &at);
        uint32_t new = recase_char(c, to, !letter_before, begin == 0);
        letter_before = jinja_char_lower(c) != c || jinja_char_upper(c) != c || jinja_char_is_alpha(c);
        bool sharp_s = c == 0xdf && (to == CASE_UPPER || to == CASE_SWAP);
        if (new == c && !sharp_s) continue;
        jinja_put(&b, text.text + kept, begin - kept);
        kept = at;
        char out[4] = "SS";
        size_t n = sharp_s ? 2 : jinja_char_put(new, out);
        if (n != at - begin) { /* rare: another length */
            const char *mark = jinja_arena_marks(&r->arena, text.text + begin);
            jinja_put(&b, out, n);
            if (mark && *mark && !jinja_failed(r)) memset(jinja_arena_marks(&r->arena, b.at + b.n - n), 1, n);
            continue;
        }
        jinja_put(&b, text.text + begin, n);
        if (!jinja_failed(r)) memcpy(b.at + b.n - n, out, n);
    }
    if (kept == 0) return text;
    jinja_put(&b, text.text + kept, text.bytes - kept);
    return jinja_as_safe(jinja_built(&b), text.safe);
}

static bool is_stripped(uint32_t c, struct jinja_value chars)
{
    if (!jinja_is(chars, JINJA_STR)) return jinja_char_is_space(c);
    for (size_t at = 0; at < chars.bytes;)
        if (jinja_char_next(chars.text, chars.bytes, &at) == c) return true;
    return false;
}

struct jinja_value jinja_strip(struct jinja_run *r, struct jinja_value text, struct jinja_value chars, bool left,
                               bool right)
{
    size_t begin = 0, end = text.bytes, cost = jinja_is(chars, JINJA_STR) ? chars.bytes / 16 + 1 : 1;
    while (left && begin < end && !jinja_failed(r)) {
        size_t next = begin;
        if (!is_stripped(jinja_char_next(text.text, end, &next), chars)) break;
        begin = next;
        jinja_charge(r, cost);
    }
    while (right && end > begin && !jinja_failed(r)) {
        size_t next = end - begin;
        if (!is_stripped(jinja_char_previous(text.text + begin, &next), chars)) break;
        end = begin + next;
        jinja_charge(r, cost);
    }
    return jinja_slice_text(text, begin, end);
}

struct jinja_value jinja_replace(struct jinja_run *r, struct jinja_value text, struct jinja_value from,
                                 struct jinja_value to, int64_t count)
{
    struct jinja_build b = {.r = r};
    size_t at = 0, kept = 0;
    jinja_charge_bytes(r, text.bytes);
    while (count != 0 && !jinja_failed(r)) {
        size_t begin;
        if (from.bytes == 0) { /* between all characters */
            if (at > text.bytes) break;
            begin = at;
        } else {
            const char *found = memmem(text.text + at, text.bytes - at, from.text, from.bytes);
            if (!found) break;
            begin = (size_t)(found - text.text);
        }
        jinja_charge(r, 1);
        jinja_put(&b, text.text + kept, begin - kept);
        jinja_put_str(&b, to);
        kept = begin + from.bytes;
        at = kept;
        if (from.bytes == 0) {
            if (at == text.bytes)
                at++;
            else
                jinja_char_next(text.text, text.bytes, &at);
        }
        if (count > 0) count--;
    }
    if (!b.at && kept == 0) return text;
    jinja_put(&b, text.text + kept, text.bytes - kept);
    return jinja_built(&b);
}

static bool ends_line(uint32_t c)
{
    return (c >= '\n' && c <= '\r') || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

struct jinja_value jinja_split_lines(struct jinja_run *r, struct jinja_value text, bool keep_ends)
{
    struct jinja_value out = jinja_list_new(r, JINJA_LIST, 0);
    size_t begin = 0;
    jinja_charge_bytes(r, text.bytes);
    for (size_t at = 0; at < text.bytes && !jinja_failed(r);) {
        size_t end = at;
        uint32_t c = jinja_char_next(text.text, text.bytes, &at);
        if (!ends_line(c)) continue;
        if (c == '\r' && at < text.bytes && text.text[at] == '\n') at++;
        jinja_list_add(r, out, jinja_slice_text(text, begin, keep_ends ? at : end));
        begin = at;
    }
    if (begin < text.bytes) jinja_list_add(r, out, jinja_slice_text(text, begin, text.bytes));
    return out;
}

static void put_fill(struct jinja_build *b, int64_t n, uint32_t fill)
{
    if (!jinja_can_hold(b->r, n, 1)) return;
    for (int64_t i = 0; i < n && !jinja_failed(b->r); i++) {
        jinja_charge(b->r, 1);
        jinja_put_char(b, fill);
    }
}

struct jinja_value jinja_pad(struct jinja_run *r, struct jinja_value text, int64_t width, uint32_t fill, char align)
{
    int64_t n = (int64_t)jinja_char_count(text.text, text.bytes);
    jinja_charge_bytes(r, text.bytes);
    if (n >= width) return text;
    int64_t missing = width - n, left = align == '<' ? 0 : align == '>' ? missing : missing / 2;
    if (align == '^' && missing % 2 && width % 2) left++; /* str.center(): the odd one goes left if the width is odd */
    if (align == '=') left = missing / 2;                 /* a format's '^': always right */
    struct jinja_build b = {.r = r};
    put_fill(&b, left, fill);
    jinja_put_str(&b, text);
    put_fill(&b, missing - left, fill);
    return jinja_built(&b);
}
