/* Methods of texts. */
#include "text/jinja_call.h"
#include "text/jinja_char.h"
#include "text/jinja_words.h"

#include <string.h>

#define METHOD(name) static struct jinja_value name(struct jinja_run *r, const struct jinja_call *c)

/* An optional text: ABSENT and NONE are none. false: failed. */
static bool optional_str(struct jinja_run *r, const struct jinja_call *c, struct jinja_value v)
{
    return !jinja_given(v) || jinja_is(v, JINJA_NONE) || jinja_want_str(r, c, v);
}

static bool optional_int(struct jinja_run *r, const struct jinja_call *c, struct jinja_value v, int64_t absent,
                         int64_t *out)
{
    *out = absent;
    return !jinja_given(v) || jinja_is(v, JINJA_NONE) || jinja_want_int(r, c, v, out);
}

static struct jinja_value strip(struct jinja_run *r, const struct jinja_call *c, bool left, bool right)
{
    if (!optional_str(r, c, c->p[0])) return jinja_undefined();
    return jinja_strip(r, c->self, c->p[0], left, right);
}

METHOD(do_strip) { return strip(r, c, true, true); }
METHOD(do_lstrip) { return strip(r, c, true, false); }
METHOD(do_rstrip) { return strip(r, c, false, true); }
METHOD(do_upper) { return jinja_recase(r, c->self, CASE_UPPER); }
METHOD(do_lower) { return jinja_recase(r, c->self, CASE_LOWER); }
METHOD(do_title) { return jinja_recase(r, c->self, CASE_TITLE); }
METHOD(do_capitalize) { return jinja_recase(r, c->self, CASE_CAPITALIZE); }
METHOD(do_swapcase) { return jinja_recase(r, c->self, CASE_SWAP); }

/* ---- splitting ---- */

/* At white space: runs of it count as one, and there are no empty pieces. */
static struct jinja_value split_space(struct jinja_run *r, struct jinja_value text, int64_t times)
{
    struct jinja_value out = jinja_list_new(r, JINJA_LIST, 0), none = {.kind = JINJA_ABSENT};
    jinja_charge_bytes(r, text.bytes);
    for (text = jinja_strip(r, text, none, true, false); text.bytes && !jinja_failed(r);
         text = jinja_strip(r, text, none, true, false)) {
        size_t end = 0, next = 0;
        while (next < text.bytes && !jinja_char_is_space(jinja_char_next(text.text, text.bytes, &next))) end = next;
        if (times-- == 0) end = text.bytes;
        jinja_list_add(r, out, jinja_slice_text(text, 0, end));
        text = jinja_slice_text(text, end, text.bytes);
    }
    return out;
}

static struct jinja_value reversed(struct jinja_value list)
{
    for (size_t i = 0; list.kind == JINJA_LIST && i < list.list->n / 2; i++) {
        struct jinja_value *a = &list.list->at[i], *b = &list.list->at[list.list->n - 1 - i], t = *a;
        *a = *b;
        *b = t;
    }
    return list;
}

static struct jinja_value rsplit_space(struct jinja_run *r, struct jinja_value text, int64_t times)
{
    struct jinja_value out = jinja_list_new(r, JINJA_LIST, 0), none = {.kind = JINJA_ABSENT};
    jinja_charge_bytes(r, text.bytes);
    for (text = jinja_strip(r, text, none, false, true); text.bytes && !jinja_failed(r);
         text = jinja_strip(r, text, none, false, true)) {
        size_t begin = text.bytes, next = begin;
        while (next > 0 && !jinja_char_is_space(jinja_char_previous(text.text, &next))) begin = next;
        if (times-- == 0) {
            text = jinja_strip(r, text, none, false, true);
            begin = 0;
        }
        jinja_list_add(r, out, jinja_slice_text(text, begin, text.bytes));
        text = jinja_slice_text(text, 0, begin);
    }
    return reversed(out);
}

static const char *find_last(struct jinja_run *r, const char *text, size_t bytes, struct jinja_value word)
{
    for (size_t at = bytes >= word.bytes ? bytes - word.bytes + 1 : 0; at-- > 0;)
        if (text[at] == word.text[0]) { /* a long word can nearly match at every place */
            jinja_charge(r, word.bytes / 64 + 1);
            if (jinja_failed(r)) return NULL;
            if (memcmp(text + at, word.text, word.bytes) == 0) return text + at;
        }
    return NULL;
}

static struct jinja_value split_at(struct jinja_run *r, const struct jinja_call *c, bool last)
{
    int64_t times;
    if (!optional_str(r, c, c->p[0]) || !optional_int(r, c, c->p[1], -1, &times)) return jinja_undefined();
    struct jinja_value text = c->self, by = c->p[0], out;
    if (!jinja_is(by, JINJA_STR)) return last ? rsplit_space(r, text, times) : split_space(r, text, times);
    if (by.bytes == 0) return jinja_fail(r, "%s() got an empty separator", c->name);
    out = jinja_list_new(r, JINJA_LIST, 0);
    jinja_charge_bytes(r, text.bytes);
    while (times-- != 0 && !jinja_failed(r)) {
        const char *found =
            last ? find_last(r, text.text, text.bytes, by) : memmem(text.text, text.bytes, by.text, by.bytes);
        if (!found) break;
        size_t at = (size_t)(found - text.text);
        jinja_list_add(r, out,
                       last ? jinja_slice_text(text, at + by.bytes, text.bytes) : jinja_slice_text(text, 0, at));
        text = last ? jinja_slice_text(text, 0, at) : jinja_slice_text(text, at + by.bytes, text.bytes);
    }
    jinja_list_add(r, out, text);
    return last ? reversed(out) : out;
}

METHOD(do_split) { return split_at(r, c, false); }
METHOD(do_rsplit) { return split_at(r, c, true); }

METHOD(do_splitlines) { return jinja_split_lines(r, c->self, jinja_given(c->p[0]) && jinja_truth(c->p[0])); }

static struct jinja_value partition(struct jinja_run *r, const struct jinja_call *c, bool last)
{
    struct jinja_value text = c->self, by = c->p[0], out = jinja_list_new(r, JINJA_TUPLE, 3), empty = jinja_text("", 0);
    if (!jinja_want_str(r, c, by)) return jinja_undefined();
    if (by.bytes == 0) return jinja_fail(r, "%s() got an empty separator", c->name);
    const char *found =
        last ? find_last(r, text.text, text.bytes, by) : memmem(text.text, text.bytes, by.text, by.bytes);
    jinja_charge_bytes(r, text.bytes);
    size_t at = found ? (size_t)(found - text.text) : 0;
    jinja_list_add(r, out, found ? jinja_slice_text(text, 0, at) : last ? empty : text);
    jinja_list_add(r, out, found ? jinja_slice_text(text, at, at + by.bytes) : empty);
    jinja_list_add(r, out, found ? jinja_slice_text(text, at + by.bytes, text.bytes) : last ? text : empty);
    return out;
}

METHOD(do_partition) { return partition(r, c, false); }
METHOD(do_rpartition) { return partition(r, c, true); }

/* ---- searching ---- */

/* The piece of the text between two character numbers, as a slice [start:stop] has it; false: start is behind its end,
 * where nothing can be found, not even "". */
static bool window(struct jinja_run *r, const struct jinja_call *c, struct jinja_value start, struct jinja_value stop,
                   struct jinja_value *out)
{
    struct jinja_value absent = {.kind = JINJA_ABSENT};
    *out = c->self;
    if (!jinja_given(start) && !jinja_given(stop)) return true;
    jinja_charge_bytes(r, c->self.bytes);
    int64_t n = (int64_t)jinja_char_count(c->self.text, c->self.bytes), from, to;
    if (!optional_int(r, c, start, 0, &from) || !optional_int(r, c, stop, n, &to)) return false;
    if (to < 0) to = to < -n ? 0 : to + n;
    if (to > n) to = n;
    if (from < 0) from = from < -n ? 0 : from + n;
    if (from > to) return false;
    *out = jinja_slice(r, c->self, jinja_int(from), jinja_int(to), absent);
    return !jinja_failed(r);
}

static bool has_end(struct jinja_run *r, struct jinja_value text, struct jinja_value word, bool at_end)
{
    if (word.bytes > text.bytes) return false;
    jinja_charge_bytes(r, word.bytes);
    return memcmp(at_end ? text.text + text.bytes - word.bytes : text.text, word.text, word.bytes) == 0;
}

static struct jinja_value starts_or_ends(struct jinja_run *r, const struct jinja_call *c, bool at_end)
{
    struct jinja_value text, words = c->p[0];
    bool inside = window(r, c, c->p[1], c->p[2], &text), found = false;
    struct jinja_items items = {&words, 1};
    if (jinja_is(words, JINJA_TUPLE)) items = jinja_items_of(r, words);
    for (size_t i = 0; i < items.n && !found; i++) {
        if (!jinja_want_str(r, c, items.at[i])) return jinja_undefined();
        found = inside && has_end(r, text, items.at[i], at_end);
    }
    return jinja_bool(found);
}

METHOD(do_startswith) { return starts_or_ends(r, c, false); }
METHOD(do_endswith) { return starts_or_ends(r, c, true); }

static struct jinja_value find(struct jinja_run *r, const struct jinja_call *c, bool last, bool must)
{
    struct jinja_value text, word = c->p[0];
    if (!jinja_want_str(r, c, word)) return jinja_undefined();
    const char *found = NULL;
    jinja_charge_bytes(r, c->self.bytes);
    if (window(r, c, c->p[1], c->p[2], &text)) {
        if (word.bytes == 0)
            found = last ? text.text + text.bytes : text.text;
        else
            found =
                last ? find_last(r, text.text, text.bytes, word) : memmem(text.text, text.bytes, word.text, word.bytes);
    }
    if (!found && must) return jinja_fail(r, "%s() finds no such text", c->name);
    return jinja_int(found ? (int64_t)jinja_char_count(c->self.text, (size_t)(found - c->self.text)) : -1);
}

METHOD(do_find) { return find(r, c, false, false); }
METHOD(do_rfind) { return find(r, c, true, false); }
METHOD(do_index) { return find(r, c, false, true); }
METHOD(do_rindex) { return find(r, c, true, true); }

METHOD(do_count)
{
    struct jinja_value text, word = c->p[0];
    int64_t n = 0;
    if (!jinja_want_str(r, c, word)) return jinja_undefined();
    if (!window(r, c, c->p[1], c->p[2], &text)) return jinja_int(0);
    jinja_charge_bytes(r, text.bytes);
    if (word.bytes == 0) return jinja_int((int64_t)jinja_char_count(text.text, text.bytes) + 1);
    for (size_t at = 0;; n++) {
        const char *found = memmem(text.text + at, text.bytes - at, word.text, word.bytes);
        if (!found) return jinja_int(n);
        at = (size_t)(found - text.text) + word.bytes;
    }
}

/* ---- making others ---- */

METHOD(do_replace)
{
    int64_t count;
    if (!jinja_want_str(r, c, c->p[0]) || !jinja_want_str(r, c, c->p[1]) || !optional_int(r, c, c->p[2], -1, &count))
        return jinja_undefined();
    return jinja_replace(r, c->self, c->p[0], c->p[1], count);
}

METHOD(do_join)
{
    struct jinja_build b = {.r = r};
    struct jinja_items items = jinja_items_of(r, c->p[0]);
    for (size_t i = 0; i < items.n && !jinja_failed(r); i++) {
        if (!jinja_is(items.at[i], JINJA_STR))
            return jinja_fail(r, "join() needs texts, item %zu is %s", i, jinja_kind_name(items.at[i].kind));
        if (i) jinja_put_str(&b, c->self);
        jinja_charge(r, 1);
        jinja_put_str(&b, items.at[i]);
    }
    return jinja_built(&b);
}

METHOD(do_removeprefix)
{
    if (!jinja_want_str(r, c, c->p[0])) return jinja_undefined();
    return has_end(r, c->self, c->p[0], false) ? jinja_slice_text(c->self, c->p[0].bytes, c->self.bytes) : c->self;
}

METHOD(do_removesuffix)
{
    if (!jinja_want_str(r, c, c->p[0])) return jinja_undefined();
    return has_end(r, c->self, c->p[0], true) ? jinja_slice_text(c->self, 0, c->self.bytes - c->p[0].bytes) : c->self;
}

static struct jinja_value pad(struct jinja_run *r, const struct jinja_call *c, char align)
{
    int64_t width;
    uint32_t fill = ' ';
    if (!jinja_want_int(r, c, c->p[0], &width) || !optional_str(r, c, c->p[1])) return jinja_undefined();
    if (jinja_is(c->p[1], JINJA_STR)) {
        size_t at = 0;
        if (jinja_char_count(c->p[1].text, c->p[1].bytes) != 1)
            return jinja_fail(r, "%s() fills with one character", c->name);
        fill = jinja_char_next(c->p[1].text, c->p[1].bytes, &at);
    }
    return jinja_pad(r, c->self, width, fill, align);
}

METHOD(do_ljust) { return pad(r, c, '<'); }
METHOD(do_rjust) { return pad(r, c, '>'); }
METHOD(do_center) { return pad(r, c, '^'); }

METHOD(do_zfill)
{
    int64_t width;
    if (!jinja_want_int(r, c, c->p[0], &width)) return jinja_undefined();
    struct jinja_value v = c->self;
    size_t sign = v.bytes && (v.text[0] == '-' || v.text[0] == '+');
    struct jinja_build b = {.r = r};
    jinja_put(&b, v.text, sign);
    jinja_put_str(&b, jinja_pad(r, jinja_slice_text(v, sign, v.bytes), width - (int64_t)sign, '0', '>'));
    return jinja_built(&b);
}

METHOD(do_format) { return jinja_braces(r, c->self, c->args); }

/* ---- judging ---- */

static bool is_decimal(uint32_t ch) { return ch >= '0' && ch <= '9'; }
static bool is_alnum(uint32_t ch) { return is_decimal(ch) || jinja_char_is_alpha(ch); }

static struct jinja_value all_are(struct jinja_run *r, const struct jinja_call *c, bool (*is)(uint32_t ch))
{
    jinja_charge_bytes(r, c->self.bytes);
    for (size_t at = 0; at < c->self.bytes;)
        if (!is(jinja_char_next(c->self.text, c->self.bytes, &at))) return jinja_bool(false);
    return jinja_bool(c->self.bytes > 0);
}

METHOD(do_isdigit) { return all_are(r, c, is_decimal); }
METHOD(do_isalpha) { return all_are(r, c, jinja_char_is_alpha); }
METHOD(do_isalnum) { return all_are(r, c, is_alnum); }
METHOD(do_isspace) { return all_are(r, c, jinja_char_is_space); }

static struct jinja_value test(struct jinja_run *r, const struct jinja_call *c, const char *name)
{
    struct jinja_args none = {0};
    return jinja_bool(jinja_test(r, jinja_text(name, strlen(name)), c->self, &none));
}

METHOD(do_isupper) { return test(r, c, "upper"); }
METHOD(do_islower) { return test(r, c, "lower"); }

static const struct jinja_builtin methods[] = {
    {"strip", "?chars", do_strip},
    {"lstrip", "?chars", do_lstrip},
    {"rstrip", "?chars", do_rstrip},
    {"upper", "", do_upper},
    {"lower", "", do_lower},
    {"casefold", "", do_lower},
    {"title", "", do_title},
    {"capitalize", "", do_capitalize},
    {"swapcase", "", do_swapcase},
    {"split", "?sep ?maxsplit", do_split},
    {"rsplit", "?sep ?maxsplit", do_rsplit},
    {"splitlines", "?keepends", do_splitlines},
    {"partition", "sep", do_partition},
    {"rpartition", "sep", do_rpartition},
    {"startswith", "prefix ?start ?end", do_startswith},
    {"endswith", "suffix ?start ?end", do_endswith},
    {"find", "sub ?start ?end", do_find},
    {"rfind", "sub ?start ?end", do_rfind},
    {"index", "sub ?start ?end", do_index},
    {"rindex", "sub ?start ?end", do_rindex},
    {"count", "sub ?start ?end", do_count},
    {"replace", "old new ?count", do_replace},
    {"join", "iterable", do_join},
    {"removeprefix", "prefix", do_removeprefix},
    {"removesuffix", "suffix", do_removesuffix},
    {"ljust", "width ?fillchar", do_ljust},
    {"rjust", "width ?fillchar", do_rjust},
    {"center", "width ?fillchar", do_center},
    {"zfill", "width", do_zfill},
    {"format", "...", do_format},
    {"isdigit", "", do_isdigit},
    {"isdecimal", "", do_isdigit},
    {"isnumeric", "", do_isdigit},
    {"isalpha", "", do_isalpha},
    {"isalnum", "", do_isalnum},
    {"isspace", "", do_isspace},
    {"isupper", "", do_isupper},
    {"islower", "", do_islower},
};

const struct jinja_builtin *jinja_text_method_find(struct jinja_value name)
{
    return jinja_row_find(methods, sizeof methods / sizeof *methods, name);
}
