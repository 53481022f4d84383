/* Attributes, items and slices. */
#include "text/jinja_call.h"
#include "text/jinja_char.h"

#include <string.h>

static struct jinja_value bound(struct jinja_run *r, const struct jinja_builtin *b, struct jinja_value self)
{
    struct jinja_method *m = jinja_arena_take(&r->arena, 1, sizeof *m);
    if (!m) {
        jinja_fail_memory(r);
        return jinja_undefined();
    }
    *m = (struct jinja_method){b, self};
    return (struct jinja_value){.kind = JINJA_METHOD, .method = m};
}

static struct jinja_value loop_item(struct jinja_run *r, const struct jinja_loop *l, size_t i, const char *missing)
{
    return i < l->n ? l->at[i] : jinja_missing_text(r, missing);
}

/* false: it has no such attribute. */
static bool loop_attr(struct jinja_run *r, const struct jinja_loop *l, struct jinja_value name, struct jinja_value *out)
{
    static const struct {
        const char *word;
        int8_t sign, plus, of_n; /* sign * index + plus + of_n * n */
    } numbers[] = {
        {"index", 1, 1, 0}, {"index0", 1, 0, 0}, {"revindex", -1, 0, 1}, {"revindex0", -1, -1, 1}, {"length", 0, 0, 1}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (jinja_text_is(name, numbers[i].word)) {
            *out = jinja_int(numbers[i].sign * (int64_t)l->index + numbers[i].plus + numbers[i].of_n * (int64_t)l->n);
            return true;
        }
    if (jinja_text_is(name, "first"))
        *out = jinja_bool(l->index == 0);
    else if (jinja_text_is(name, "last"))
        *out = jinja_bool(l->index + 1 == l->n);
    else if (jinja_text_is(name, "previtem"))
        *out = loop_item(r, l, l->index - 1, "there is no previous item");
    else if (jinja_text_is(name, "nextitem"))
        *out = loop_item(r, l, l->index + 1, "there is no next item");
    else if (jinja_text_is(name, "depth"))
        *out = jinja_int(l->depth);
    else if (jinja_text_is(name, "depth0"))
        *out = jinja_int((int64_t)l->depth - 1);
    else
        return false;
    return true;
}

/* An attribute proper, as Python's getattr would find it; items of a dict are none. */
static bool find_attr(struct jinja_run *r, struct jinja_value v, struct jinja_value name, struct jinja_value *out)
{
    if (jinja_is(v, JINJA_NAMESPACE)) {
        const struct jinja_value *found = jinja_dict_find(r, v.dict, name);
        if (found) *out = *found;
        return found != NULL;
    }
    if (jinja_is(v, JINJA_LOOP) && loop_attr(r, v.loop, name, out)) return true;
    if (jinja_is(v, JINJA_TUPLE) && v.list->name && v.list->n == 2) { /* what groupby gives */
        int i = jinja_text_is(name, "grouper") ? 0 : jinja_text_is(name, "list") ? 1 : -1;
        if (i >= 0) *out = v.list->at[i];
        if (i >= 0) return true;
    }
    if (jinja_is(v, JINJA_CYCLER) && jinja_text_is(name, "current")) {
        *out = v.list->at[v.list->next];
        return true;
    }
    if (jinja_is(v, JINJA_MACRO) && jinja_text_is(name, "name")) {
        *out = v.macro->name;
        return true;
    }
    const struct jinja_builtin *b = jinja_method_find((enum jinja_kind)v.kind, name);
    if (b) *out = bound(r, b, v);
    return b != NULL;
}

static bool find_index(struct jinja_run *r, struct jinja_value v, int64_t i, struct jinja_value *out)
{
    size_t n;
    if (!jinja_length(r, v, &n)) return false;
    if (i < 0) i += (int64_t)n;
    if (i < 0 || (uint64_t)i >= n) return false;
    if (jinja_is(v, JINJA_RANGE)) {
        *out = jinja_int(v.range->start + i * v.range->step);
    } else if (jinja_is(v, JINJA_STR)) {
        size_t begin = jinja_char_offset(v.text, v.bytes, (size_t)i), end = begin;
        jinja_char_next(v.text, v.bytes, &end);
        *out = jinja_slice_text(v, begin, end);
    } else {
        *out = v.list->at[i];
    }
    return true;
}

static bool find_item(struct jinja_run *r, struct jinja_value v, struct jinja_value key, struct jinja_value *out)
{
    if (jinja_is(v, JINJA_DICT)) {
        if (jinja_is(key, JINJA_LIST) || jinja_is(key, JINJA_DICT)) return false; /* no key can be one */
        const struct jinja_value *found = jinja_dict_find(r, v.dict, key);
        if (found) *out = *found;
        return found != NULL;
    }
    bool indexed = jinja_is_list(v) || jinja_is(v, JINJA_STR) || jinja_is(v, JINJA_RANGE);
    return indexed && jinja_is_whole(key) && find_index(r, v, jinja_whole(key), out);
}

struct jinja_value jinja_get_attr(struct jinja_run *r, struct jinja_value v, struct jinja_value name)
{
    struct jinja_value out;
    if (jinja_is(v, JINJA_UNDEFINED)) return jinja_fail_missing(r, v);
    if (find_attr(r, v, name, &out) || find_item(r, v, name, &out)) return out;
    return jinja_failed(r) ? jinja_undefined() : jinja_missing_new(r, (enum jinja_kind)v.kind, name);
}

struct jinja_value jinja_get_item(struct jinja_run *r, struct jinja_value v, struct jinja_value key)
{
    struct jinja_value out;
    if (jinja_is(v, JINJA_UNDEFINED)) return jinja_fail_missing(r, v);
    if (find_item(r, v, key, &out)) return out;
    if (jinja_is(key, JINJA_STR) && find_attr(r, v, key, &out)) return out;
    return jinja_failed(r) ? jinja_undefined() : jinja_missing_new(r, (enum jinja_kind)v.kind, key);
}

struct jinja_value jinja_get_path(struct jinja_run *r, struct jinja_value v, struct jinja_value path)
{
    if (jinja_is_whole(path)) return jinja_get_item(r, v, path);
    if (!jinja_is(path, JINJA_STR)) return jinja_fail(r, "an attribute must be a text or a number");
    size_t at = 0;
    for (;;) {
        const char *dot = memchr(path.text + at, '.', path.bytes - at);
        size_t end = dot ? (size_t)(dot - path.text) : path.bytes;
        struct jinja_value key = jinja_slice_text(path, at, end);
        int64_t i;
        bool digits = end > at && path.text[at] >= '0' && path.text[at] <= '9';
        if (digits && jinja_number_read_int(key.text, key.bytes, 10, &i)) key = jinja_int(i);
        v = jinja_get_item(r, v, key);
        if (!dot || jinja_failed(r)) return v;
        at = end + 1;
    }
}

/* ---- slices ---- */

/* Where a slice's end points lie, as Python resolves them: bounded to the items, negative ones from the back. */
static bool slice_bound(struct jinja_run *r, struct jinja_value v, int64_t n, bool down, int64_t absent, int64_t *out)
{
    *out = absent;
    if (!jinja_given(v) || jinja_is(v, JINJA_NONE)) return true;
    if (jinja_is(v, JINJA_UNDEFINED)) jinja_fail_missing(r, v);
    if (!jinja_is_whole(v)) {
        jinja_fail(r, "a slice's bounds must be whole numbers, not %s", jinja_kind_name(v.kind));
        return false;
    }
    int64_t i = jinja_whole(v), low = down ? -1 : 0, high = down ? n - 1 : n;
    if (i < 0) i = i < -n ? low : i + n;
    *out = i < low ? low : i > high ? high : i;
    return true;
}

static struct jinja_value slice_items(struct jinja_run *r, struct jinja_value v, int64_t start, int64_t stop,
                                      int64_t step)
{
    struct jinja_items all = jinja_items_of(r, v);
    struct jinja_value out = jinja_list_new(r, jinja_is(v, JINJA_TUPLE) ? JINJA_TUPLE : JINJA_LIST, 0);
    for (int64_t i = start; (step > 0 ? i < stop : i > stop) && !jinja_failed(r);) {
        jinja_list_add(r, out, all.at[i]);
        if (__builtin_add_overflow(i, step, &i)) break;
    }
    return out;
}

static struct jinja_value slice_str(struct jinja_run *r, struct jinja_value v, int64_t start, int64_t stop,
                                    int64_t step)
{
    if (step == 1) {
        if (start >= stop) return jinja_slice_text(v, 0, 0);
        size_t begin = jinja_char_offset(v.text, v.bytes, (size_t)start);
        size_t length = jinja_char_offset(v.text + begin, v.bytes - begin, (size_t)(stop - start));
        return jinja_slice_text(v, begin, begin + length);
    }
    struct jinja_items all = jinja_items_of(r, v);
    struct jinja_build b = {.r = r};
    for (int64_t i = start; (step > 0 ? i < stop : i > stop) && !jinja_failed(r);) {
        jinja_charge(r, 1);
        jinja_put_str(&b, all.at[i]);
        if (__builtin_add_overflow(i, step, &i)) break;
    }
    return jinja_as_safe(jinja_built(&b), v.safe);
}

struct jinja_value jinja_slice(struct jinja_run *r, struct jinja_value v, struct jinja_value start,
                               struct jinja_value stop, struct jinja_value step)
{
    size_t n;
    int64_t by = 1, from, to;
    if (jinja_failed(r)) return jinja_undefined();
    if (jinja_is(v, JINJA_UNDEFINED)) return jinja_fail_missing(r, v);
    bool sliceable = jinja_is_list(v) || jinja_is(v, JINJA_STR) || jinja_is(v, JINJA_RANGE);
    if (!sliceable || !jinja_length(r, v, &n))
        return jinja_fail(r, "'%s' object cannot be sliced", jinja_kind_name(v.kind));
    if (jinja_given(step) && !jinja_is(step, JINJA_NONE)) {
        if (!jinja_is_whole(step)) return jinja_fail(r, "a slice's step must be a whole number");
        by = jinja_whole(step);
    }
    if (by == 0) return jinja_fail(r, "a slice's step is zero");
    int64_t count = (int64_t)n;
    if (!slice_bound(r, start, count, by < 0, by < 0 ? count - 1 : 0, &from) ||
        !slice_bound(r, stop, count, by < 0, by < 0 ? -1 : count, &to))
        return jinja_undefined();
    return jinja_is(v, JINJA_STR) ? slice_str(r, v, from, to, by) : slice_items(r, v, from, to, by);
}
