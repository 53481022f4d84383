/* Filters that go through items. */
#include "text/jinja_char.h"
#include "text/jinja_filter.h"
#include "text/jinja_node.h"
#include "text/jinja_words.h"

#include <string.h>

/* What an item is judged by: itself or an attribute of it, texts without regard to case unless asked. */
static struct jinja_value key_of(struct jinja_run *r, struct jinja_value item, struct jinja_value attribute,
                                 bool case_sensitive)
{
    if (jinja_given(attribute) && !jinja_is(attribute, JINJA_NONE)) item = jinja_get_path(r, item, attribute);
    if (!case_sensitive && jinja_is(item, JINJA_STR)) return jinja_recase(r, item, CASE_LOWER);
    return item;
}

static struct jinja_value copy(struct jinja_run *r, struct jinja_items items, enum jinja_kind kind)
{
    struct jinja_value out = jinja_list_new(r, kind, items.n);
    for (size_t i = 0; i < items.n && !jinja_failed(r); i++) jinja_list_add(r, out, items.at[i]);
    return out;
}

struct jinja_value jinja_do_list(struct jinja_run *r, const struct jinja_call *c)
{
    return copy(r, jinja_items_of(r, c->self), JINJA_LIST);
}

struct jinja_value jinja_do_first(struct jinja_run *r, const struct jinja_call *c)
{
    if (jinja_is(c->self, JINJA_ITER) && c->self.list->next < c->self.list->n)
        return c->self.list->at[c->self.list->next++]; /* takes one, leaves the others */
    struct jinja_items items = jinja_items_of(r, c->self);
    return items.n ? items.at[0] : jinja_missing_text(r, "there is no first item, the sequence is empty");
}

struct jinja_value jinja_do_last(struct jinja_run *r, const struct jinja_call *c)
{
    if (jinja_is(c->self, JINJA_ITER)) return jinja_fail(r, "last() needs a list; make one of it with |list");
    struct jinja_items items = jinja_items_of(r, c->self);
    return items.n ? items.at[items.n - 1] : jinja_missing_text(r, "there is no last item, the sequence is empty");
}

struct jinja_value jinja_do_reverse(struct jinja_run *r, const struct jinja_call *c)
{
    if (jinja_is(c->self, JINJA_STR)) {
        struct jinja_value absent = {.kind = JINJA_ABSENT};
        return jinja_slice(r, c->self, absent, absent, jinja_int(-1));
    }
    struct jinja_items items = jinja_items_of(r, c->self);
    struct jinja_value out = jinja_list_new(r, JINJA_ITER, items.n);
    for (size_t i = items.n; i-- > 0 && !jinja_failed(r);) jinja_list_add(r, out, items.at[i]);
    return out;
}

struct jinja_value jinja_do_join(struct jinja_run *r, const struct jinja_call *c)
{
    struct jinja_value by = jinja_given(c->p[0]) ? jinja_str(r, c->p[0]) : jinja_text("", 0);
    struct jinja_items items = jinja_items_of(r, c->self);
    struct jinja_build b = {.r = r};
    for (size_t i = 0; i < items.n && !jinja_failed(r); i++) {
        struct jinja_value item = key_of(r, items.at[i], c->p[1], true);
        jinja_charge(r, 1);
        if (i) jinja_put_str(&b, by);
        jinja_show(&b, item);
    }
    return jinja_built(&b);
}

struct jinja_value jinja_do_sum(struct jinja_run *r, const struct jinja_call *c)
{
    struct jinja_value sum = jinja_given(c->p[1]) ? c->p[1] : jinja_int(0);
    struct jinja_items items = jinja_items_of(r, c->self);
    for (size_t i = 0; i < items.n && !jinja_failed(r); i++)
        sum = jinja_operate(r, NODE_ADD, sum, key_of(r, items.at[i], c->p[0], true));
    return sum;
}

static struct jinja_value extreme(struct jinja_run *r, const struct jinja_call *c, int order)
{
    struct jinja_items items = jinja_items_of(r, c->self);
    bool case_sensitive = jinja_flag(c->p[0], false);
    if (items.n == 0) return jinja_missing_text(r, "there is no such item, the sequence is empty");
    struct jinja_value best = items.at[0], key = key_of(r, best, c->p[1], case_sensitive);
    for (size_t i = 1; i < items.n && !jinja_failed(r); i++) {
        struct jinja_value other = key_of(r, items.at[i], c->p[1], case_sensitive);
        if (jinja_order(r, other, key, order < 0 ? "<" : ">") != order) continue;
        best = items.at[i];
        key = other;
    }
    return best;
}

struct jinja_value jinja_do_min(struct jinja_run *r, const struct jinja_call *c) { return extreme(r, c, -1); }
struct jinja_value jinja_do_max(struct jinja_run *r, const struct jinja_call *c) { return extreme(r, c, 1); }

/* ---- choosing ---- */

/* None and other false things count as empty here. */
static struct jinja_items items_if_any(struct jinja_run *r, struct jinja_value v)
{
    return jinja_truth(v) ? jinja_items_of(r, v) : (struct jinja_items){0};
}

/* The arguments after the first `skip`. */
static struct jinja_args rest_of(const struct jinja_args *args, size_t skip)
{
    struct jinja_args rest = *args;
    size_t n = skip < args->n ? skip : args->n;
    if (n) rest.at += n;
    rest.n -= n;
    return rest;
}

/* select(test, arguments...) and selectattr(attribute, test, arguments...); without a test, truth decides. */
static struct jinja_value choose(struct jinja_run *r, const struct jinja_call *c, bool by_attribute, bool wanted)
{
    size_t test_at = by_attribute ? 1 : 0;
    if (by_attribute && c->args->n == 0) return jinja_fail(r, "%s() needs the name of an attribute", c->name);
    struct jinja_args rest = rest_of(c->args, test_at + 1);
    struct jinja_items items = items_if_any(r, c->self);
    struct jinja_value out = jinja_list_new(r, JINJA_ITER, 0);
    for (size_t i = 0; i < items.n && !jinja_failed(r); i++) {
        struct jinja_value v = by_attribute ? jinja_get_path(r, items.at[i], c->args->at[0]) : items.at[i];
        jinja_charge(r, 1);
        bool good = test_at < c->args->n ? jinja_test(r, c->args->at[test_at], v, &rest) : jinja_truth(v);
        if (good == wanted) jinja_list_add(r, out, items.at[i]);
    }
    return out;
}

struct jinja_value jinja_do_select(struct jinja_run *r, const struct jinja_call *c)
{
    return choose(r, c, false, true);
}
struct jinja_value jinja_do_reject(struct jinja_run *r, const struct jinja_call *c)
{
    return choose(r, c, false, false);
}
struct jinja_value jinja_do_selectattr(struct jinja_run *r, const struct jinja_call *c)
{
    return choose(r, c, true, true);
}
struct jinja_value jinja_do_rejectattr(struct jinja_run *r, const struct jinja_call *c)
{
    return choose(r, c, true, false);
}

static struct jinja_value map_attribute(struct jinja_run *r, const struct jinja_call *c)
{
    struct jinja_value attribute = {.kind = JINJA_ABSENT}, absent = attribute;
    for (size_t i = 0; i < c->args->n_named; i++) {
        if (jinja_text_is(c->args->named[i].name, "attribute"))
            attribute = c->args->named[i].value;
        else if (jinja_text_is(c->args->named[i].name, "default"))
            absent = c->args->named[i].value;
        else
            return jinja_fail(r, "map() knows the arguments 'attribute' and 'default'");
    }
    if (!jinja_given(attribute)) return jinja_fail(r, "map() needs a filter or an attribute");
    struct jinja_items items = items_if_any(r, c->self);
    struct jinja_value out = jinja_list_new(r, JINJA_ITER, items.n);
    for (size_t i = 0; i < items.n && !jinja_failed(r); i++) {
        struct jinja_value v = jinja_get_path(r, items.at[i], attribute);
        jinja_list_add(r, out, jinja_is(v, JINJA_UNDEFINED) && jinja_given(absent) ? absent : v);
    }
    return out;
}

struct jinja_value jinja_do_map(struct jinja_run *r, const struct jinja_call *c)
{
    if (c->args->n == 0) return map_attribute(r, c);
    struct jinja_args rest = rest_of(c->args, 1);
    struct jinja_items items = items_if_any(r, c->self);
    struct jinja_value out = jinja_list_new(r, JINJA_ITER, items.n);
    for (size_t i = 0; i < items.n && !jinja_failed(r); i++)
        jinja_list_add(r, out, jinja_filter(r, c->args->at[0], items.at[i], &rest));
    return out;
}

struct jinja_value jinja_do_unique(struct jinja_run *r, const struct jinja_call *c)
{
    struct jinja_items items = jinja_items_of(r, c->self);
    struct jinja_value seen = jinja_dict_new(r, JINJA_DICT), out = jinja_list_new(r, JINJA_ITER, 0);
    for (size_t i = 0; i < items.n && !jinja_failed(r); i++) {
        struct jinja_value key = key_of(r, items.at[i], c->p[1], jinja_flag(c->p[0], false));
        if (jinja_dict_find(r, seen.dict, key)) continue;
        jinja_dict_set(r, seen.dict, key, jinja_none());
        jinja_list_add(r, out, items.at[i]);
    }
    return out;
}

/* ---- order and groups ---- */

/* attributes: one, or several joined by commas. A list to compare: in lists, what is equal needs no order. */
static struct jinja_value sort_key(struct jinja_run *r, struct jinja_value item, struct jinja_value attributes,
                                   bool case_sensitive)
{
    struct jinja_value keys = jinja_list_new(r, JINJA_LIST, 1);
    if (!jinja_is(attributes, JINJA_STR)) {
        jinja_list_add(r, keys, key_of(r, item, attributes, case_sensitive));
        return keys;
    }
    for (size_t at = 0; at <= attributes.bytes && !jinja_failed(r);) {
        const char *comma = memchr(attributes.text + at, ',', attributes.bytes - at);
        size_t end = comma ? (size_t)(comma - attributes.text) : attributes.bytes;
        jinja_list_add(r, keys, key_of(r, item, jinja_slice_text(attributes, at, end), case_sensitive));
        at = end + 1;
    }
    return keys;
}

struct jinja_value jinja_do_sort(struct jinja_run *r, const struct jinja_call *c)
{
    struct jinja_value out = copy(r, jinja_items_of(r, c->self), JINJA_LIST), keys = jinja_list_new(r, JINJA_LIST, 0);
    for (size_t i = 0; !jinja_failed(r) && i < out.list->n; i++)
        jinja_list_add(r, keys, sort_key(r, out.list->at[i], c->p[2], jinja_flag(c->p[1], false)));
    if (!jinja_failed(r)) jinja_sort(r, out.list->at, keys.list->at, out.list->n, jinja_flag(c->p[0], false));
    return out;
}

struct jinja_value jinja_do_dictsort(struct jinja_run *r, const struct jinja_call *c)
{
    struct jinja_value v = c->self, by = c->p[1];
    bool by_value = jinja_given(by) && jinja_text_is(by, "value"), case_sensitive = jinja_flag(c->p[0], false);
    if (jinja_is(v, JINJA_UNDEFINED)) return jinja_fail_missing(r, v);
    if (!jinja_is(v, JINJA_DICT)) return jinja_fail(r, "dictsort() needs a mapping, not %s", jinja_kind_name(v.kind));
    if (jinja_given(by) && !by_value && !jinja_text_is(by, "key"))
        return jinja_fail(r, "dictsort() sorts by 'key' or 'value'");
    struct jinja_value pairs = jinja_list_new(r, JINJA_LIST, v.dict->n),
                       keys = jinja_list_new(r, JINJA_LIST, v.dict->n);
    for (size_t i = 0; i < v.dict->n && !jinja_failed(r); i++) {
        struct jinja_value pair = jinja_pair(r, v.dict->at[i].key, v.dict->at[i].value);
        jinja_list_add(r, pairs, pair);
        jinja_list_add(r, keys, key_of(r, pair, jinja_int(by_value), case_sensitive));
    }
    if (!jinja_failed(r)) jinja_sort(r, pairs.list->at, keys.list->at, pairs.list->n, jinja_flag(c->p[2], false));
    return pairs;
}

static struct jinja_value group_key(struct jinja_run *r, const struct jinja_call *c, struct jinja_value item)
{
    struct jinja_value key = jinja_get_path(r, item, c->p[0]);
    return jinja_is(key, JINJA_UNDEFINED) && jinja_given(c->p[1]) ? c->p[1] : key;
}

/* Pairs of what the items have in common and a list of them; case only tells apart what is shown. */
struct jinja_value jinja_do_groupby(struct jinja_run *r, const struct jinja_call *c)
{
    struct jinja_value out = jinja_list_new(r, JINJA_LIST, 0), keys = jinja_list_new(r, JINJA_LIST, 0);
    struct jinja_value list = copy(r, jinja_items_of(r, c->self), JINJA_LIST), group = jinja_undefined(), none = {0};
    bool case_sensitive = jinja_flag(c->p[2], false);
    for (size_t i = 0; !jinja_failed(r) && i < list.list->n; i++)
        jinja_list_add(r, keys, key_of(r, group_key(r, c, list.list->at[i]), none, case_sensitive));
    if (jinja_failed(r)) return jinja_undefined();
    jinja_sort(r, list.list->at, keys.list->at, list.list->n, false);
    for (size_t i = 0; i < list.list->n && !jinja_failed(r); i++) {
        struct jinja_value item = list.list->at[i];
        if (i == 0 || !jinja_equal(r, keys.list->at[i], keys.list->at[i - 1])) {
            group = jinja_list_new(r, JINJA_LIST, 0);
            struct jinja_value pair = jinja_pair(r, group_key(r, c, item), group);
            if (!jinja_failed(r)) pair.list->name = "group";
            jinja_list_add(r, out, pair);
        }
        jinja_list_add(r, group, item);
    }
    return out;
}

/* Lists of `linecount` items each; the last is filled up if there is something to fill it with. */
struct jinja_value jinja_do_batch(struct jinja_run *r, const struct jinja_call *c)
{
    int64_t n;
    struct jinja_value out = jinja_list_new(r, JINJA_ITER, 0), line = jinja_undefined();
    if (!jinja_want_int(r, c, c->p[0], &n)) return jinja_undefined();
    if (n < 1) return jinja_fail(r, "batch() needs a length of at least 1");
    struct jinja_items items = jinja_items_of(r, c->self);
    for (size_t i = 0; i < items.n && !jinja_failed(r); i++) {
        if (i % (uint64_t)n == 0) {
            line = jinja_list_new(r, JINJA_LIST, 0);
            jinja_list_add(r, out, line);
        }
        jinja_list_add(r, line, items.at[i]);
    }
    bool fills = jinja_given(c->p[1]) && !jinja_is(c->p[1], JINJA_NONE) && items.n > 0;
    while (fills && !jinja_failed(r) && line.list->n < (uint64_t)n) jinja_list_add(r, line, c->p[1]);
    return out;
}

/* So many lists, the first ones one longer if it does not come out even. */
struct jinja_value jinja_do_slice(struct jinja_run *r, const struct jinja_call *c)
{
    int64_t n;
    if (!jinja_want_int(r, c, c->p[0], &n)) return jinja_undefined();
    if (n < 1) return jinja_fail(r, "slice() needs a number of at least 1");
    struct jinja_items items = jinja_items_of(r, c->self);
    struct jinja_value out = jinja_list_new(r, JINJA_ITER, 0);
    size_t each = items.n / (uint64_t)n, longer = items.n % (uint64_t)n, at = 0;
    bool fills = jinja_given(c->p[1]) && !jinja_is(c->p[1], JINJA_NONE);
    for (uint64_t i = 0; i < (uint64_t)n && !jinja_failed(r); i++) {
        size_t length = each + (i < longer);
        struct jinja_value line = copy(r, (struct jinja_items){length ? items.at + at : NULL, length}, JINJA_LIST);
        if (fills && i >= longer) jinja_list_add(r, line, c->p[1]);
        jinja_list_add(r, out, line);
        at += length;
    }
    return out;
}
