/* Methods of lists, dicts and loops. */
#include "text/jinja_call.h"
#include "text/jinja_words.h"

#include <string.h>

#define METHOD(name) static struct jinja_value name(struct jinja_run *r, const struct jinja_call *c)

/* ---- dicts ---- */

static struct jinja_value view(struct jinja_run *r, const struct jinja_dict *d, const char *name)
{
    struct jinja_value out = jinja_list_new(r, JINJA_VIEW, d->n);
    if (jinja_failed(r)) return out;
    out.list->name = name;
    for (size_t i = 0; i < d->n && !jinja_failed(r); i++) {
        const struct jinja_entry *e = &d->at[i];
        bool keys = strcmp(name, "dict_keys") == 0, values = strcmp(name, "dict_values") == 0;
        jinja_list_add(r, out, keys ? e->key : values ? e->value : jinja_pair(r, e->key, e->value));
    }
    return out;
}

METHOD(do_items) { return view(r, c->self.dict, "dict_items"); }
METHOD(do_keys) { return view(r, c->self.dict, "dict_keys"); }
METHOD(do_values) { return view(r, c->self.dict, "dict_values"); }

METHOD(do_get)
{
    const struct jinja_value *found = jinja_dict_find(r, c->self.dict, c->p[0]);
    if (found) return *found;
    return jinja_given(c->p[1]) ? c->p[1] : jinja_none();
}

METHOD(do_dict_pop)
{
    struct jinja_value out;
    if (jinja_dict_remove(r, c->self.dict, c->p[0], &out)) return out;
    return jinja_given(c->p[1]) ? c->p[1] : jinja_fail(r, "pop() finds no such key");
}

METHOD(do_setdefault)
{
    const struct jinja_value *found = jinja_dict_find(r, c->self.dict, c->p[0]);
    if (found) return *found;
    struct jinja_value v = jinja_given(c->p[1]) ? c->p[1] : jinja_none();
    jinja_dict_set(r, c->self.dict, c->p[0], v);
    return v;
}

METHOD(do_update)
{
    for (size_t i = 0; i < c->args->n && !jinja_failed(r); i++) {
        struct jinja_value other = c->args->at[i];
        if (!jinja_is(other, JINJA_DICT))
            return jinja_fail(r, "update() needs a dict, not %s", jinja_kind_name(other.kind));
        size_t n = other.dict->n; /* it may be the same dict */
        for (size_t k = 0; k < n && !jinja_failed(r); k++)
            jinja_dict_set(r, c->self.dict, other.dict->at[k].key, other.dict->at[k].value);
    }
    for (size_t i = 0; i < c->args->n_named; i++)
        jinja_dict_set(r, c->self.dict, c->args->named[i].name, c->args->named[i].value);
    return jinja_none();
}

METHOD(do_dict_copy)
{
    struct jinja_value out = jinja_dict_new(r, JINJA_DICT);
    for (size_t i = 0; i < c->self.dict->n && !jinja_failed(r); i++)
        jinja_dict_set(r, out.dict, c->self.dict->at[i].key, c->self.dict->at[i].value);
    return out;
}

static const struct jinja_builtin dict_methods[] = {
    {"items", "", do_items},
    {"keys", "", do_keys},
    {"values", "", do_values},
    {"get", "key ?default", do_get},
    {"pop", "key ?default", do_dict_pop},
    {"setdefault", "key ?default", do_setdefault},
    {"update", "...", do_update},
    {"copy", "", do_dict_copy},
};

/* ---- lists ---- */

METHOD(do_append)
{
    jinja_list_add(r, c->self, c->p[0]);
    return jinja_none();
}

METHOD(do_extend)
{
    struct jinja_items items = jinja_items_of(r, c->p[0]);
    for (size_t i = 0; i < items.n && !jinja_failed(r); i++) jinja_list_add(r, c->self, items.at[i]);
    return jinja_none();
}

METHOD(do_insert)
{
    int64_t at;
    struct jinja_list *l = c->self.list;
    if (!jinja_want_int(r, c, c->p[0], &at)) return jinja_undefined();
    jinja_list_add(r, c->self, c->p[1]);
    if (jinja_failed(r)) return jinja_undefined();
    int64_t n = (int64_t)l->n - 1;
    if (at < 0) at = at < -n ? 0 : at + n;
    if (at > n) at = n;
    jinja_charge(r, (uint64_t)(n - at) / 4);
    memmove(l->at + at + 1, l->at + at, (size_t)(n - at) * sizeof *l->at);
    l->at[at] = c->p[1];
    return jinja_none();
}

static void take_out(struct jinja_run *r, struct jinja_list *l, size_t at)
{
    jinja_charge(r, (l->n - at) / 4);
    memmove(l->at + at, l->at + at + 1, (l->n - at - 1) * sizeof *l->at);
    l->n--;
}

METHOD(do_list_pop)
{
    struct jinja_list *l = c->self.list;
    int64_t at = -1, n = (int64_t)l->n;
    if (jinja_given(c->p[0]) && !jinja_want_int(r, c, c->p[0], &at)) return jinja_undefined();
    if (at < 0) at += n;
    if (at < 0 || at >= n) return jinja_fail(r, "pop() from a list of %zu items has no such item", l->n);
    struct jinja_value v = l->at[at];
    take_out(r, l, (size_t)at);
    return v;
}

/* Number of the first item that equals v, or n. */
static size_t position(struct jinja_run *r, const struct jinja_list *l, struct jinja_value v)
{
    size_t i = 0;
    while (i < l->n && !jinja_failed(r) && !jinja_equal(r, l->at[i], v)) i++;
    return i;
}

METHOD(do_remove)
{
    size_t i = position(r, c->self.list, c->p[0]);
    if (i >= c->self.list->n) return jinja_fail(r, "remove() finds no such item");
    if (!jinja_failed(r)) take_out(r, c->self.list, i);
    return jinja_none();
}

METHOD(do_index)
{
    size_t i = position(r, c->self.list, c->p[0]);
    return i < c->self.list->n ? jinja_int((int64_t)i) : jinja_fail(r, "index() finds no such item");
}

METHOD(do_count)
{
    int64_t n = 0;
    for (size_t i = 0; i < c->self.list->n && !jinja_failed(r); i++) n += jinja_equal(r, c->self.list->at[i], c->p[0]);
    return jinja_int(n);
}

METHOD(do_reverse)
{
    struct jinja_list *l = c->self.list;
    jinja_charge(r, l->n / 4);
    for (size_t i = 0; i < l->n / 2; i++) {
        struct jinja_value v = l->at[i];
        l->at[i] = l->at[l->n - 1 - i];
        l->at[l->n - 1 - i] = v;
    }
    return jinja_none();
}

METHOD(do_clear)
{
    (void)r;
    c->self.list->n = 0;
    return jinja_none();
}

METHOD(do_list_copy)
{
    struct jinja_value out = jinja_list_new(r, JINJA_LIST, c->self.list->n);
    for (size_t i = 0; i < c->self.list->n && !jinja_failed(r); i++) jinja_list_add(r, out, c->self.list->at[i]);
    return out;
}

static const struct jinja_builtin list_methods[] = {
    {"append", "object", do_append}, {"extend", "iterable", do_extend}, {"insert", "index object", do_insert},
    {"pop", "?index", do_list_pop},  {"remove", "value", do_remove},    {"index", "value", do_index},
    {"count", "value", do_count},    {"reverse", "", do_reverse},       {"clear", "", do_clear},
    {"copy", "", do_list_copy},
};
static const struct jinja_builtin tuple_methods[] = {{"index", "value", do_index}, {"count", "value", do_count}};

/* ---- loops, cyclers ---- */

METHOD(do_cycle)
{
    if (c->args->n == 0) return jinja_fail(r, "cycle() needs items");
    return c->args->at[c->self.loop->index % c->args->n];
}

METHOD(do_changed)
{
    struct jinja_value now = jinja_list_new(r, JINJA_TUPLE, c->args->n);
    for (size_t i = 0; i < c->args->n && !jinja_failed(r); i++) jinja_list_add(r, now, c->args->at[i]);
    struct jinja_value before = c->self.loop->last_changed;
    if (jinja_failed(r) || (jinja_given(before) && jinja_equal(r, before, now))) return jinja_bool(false);
    c->self.loop->last_changed = now;
    return jinja_bool(true);
}

static const struct jinja_builtin loop_methods[] = {{"cycle", "...", do_cycle}, {"changed", "...", do_changed}};

METHOD(do_next)
{
    (void)r;
    struct jinja_list *l = c->self.list;
    struct jinja_value v = l->at[l->next];
    l->next = (l->next + 1) % l->n;
    return v;
}

METHOD(do_reset)
{
    (void)r;
    c->self.list->next = 0;
    return jinja_none();
}

static const struct jinja_builtin cycler_methods[] = {{"next", "", do_next}, {"reset", "", do_reset}};

#define FIND(rows) jinja_row_find(rows, sizeof rows / sizeof *rows, name)

const struct jinja_builtin *jinja_method_find(enum jinja_kind kind, struct jinja_value name)
{
    switch (kind) {
    case JINJA_STR: return jinja_text_method_find(name);
    case JINJA_DICT: return FIND(dict_methods);
    case JINJA_LIST: return FIND(list_methods);
    case JINJA_TUPLE: return FIND(tuple_methods);
    case JINJA_LOOP: return FIND(loop_methods);
    case JINJA_CYCLER: return FIND(cycler_methods);
    default: return NULL;
    }
}
