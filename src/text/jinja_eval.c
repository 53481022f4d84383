/* Expressions. */
#include "text/jinja_call.h"
#include "text/jinja_scope.h"

static struct jinja_value eval_items(struct jinja_run *r, const struct jinja_node *n)
{
    struct jinja_value list = jinja_list_new(r, n->kind == NODE_TUPLE ? JINJA_TUPLE : JINJA_LIST, 0);
    for (const struct jinja_node *i = n->a; i && !jinja_failed(r); i = i->next)
        jinja_list_add(r, list, jinja_eval(r, i));
    return list;
}

static struct jinja_value eval_dict(struct jinja_run *r, const struct jinja_node *n)
{
    struct jinja_value dict = jinja_dict_new(r, JINJA_DICT);
    for (const struct jinja_node *i = n->a; i && !jinja_failed(r); i = i->next) {
        struct jinja_value key = jinja_eval(r, i->a), value = jinja_eval(r, i->b);
        r->at = i->at;
        jinja_dict_set(r, dict.dict, key, value);
    }
    return dict;
}

static struct jinja_value eval_concat(struct jinja_run *r, const struct jinja_node *n)
{
    struct jinja_value list = eval_items(r, n);
    if (jinja_failed(r)) return jinja_undefined();
    r->at = n->at;
    return jinja_concat(r, list.list->at, list.list->n);
}

static bool compare(struct jinja_run *r, enum jinja_comparison op, struct jinja_value a, struct jinja_value b)
{
    switch (op) {
    case COMPARE_EQ: return jinja_equal(r, a, b);
    case COMPARE_NE: return !jinja_equal(r, a, b);
    case COMPARE_IN: return jinja_contains(r, b, a);
    case COMPARE_NOT_IN: return !jinja_contains(r, b, a);
    case COMPARE_LT: return jinja_order(r, a, b, "<") == -1;
    case COMPARE_GT: return jinja_order(r, a, b, ">") == 1;
    case COMPARE_LE: {
        int order = jinja_order(r, a, b, "<=");
        return order == -1 || order == 0;
    }
    case COMPARE_GE: {
        int order = jinja_order(r, a, b, ">=");
        return order == 1 || order == 0;
    }
    }
    return false;
}

/* a < b < c: every operand once, until one comparison is false. */
static struct jinja_value eval_compare(struct jinja_run *r, const struct jinja_node *n)
{
    struct jinja_value left = jinja_eval(r, n->a);
    for (const struct jinja_node *i = n->b; i && !jinja_failed(r); i = i->next) {
        struct jinja_value right = jinja_eval(r, i->a);
        r->at = i->at;
        if (!compare(r, (enum jinja_comparison)i->op, left, right)) return jinja_bool(false);
        left = right;
    }
    return jinja_bool(true);
}

static struct jinja_value eval_cond(struct jinja_run *r, const struct jinja_node *n)
{
    if (jinja_truth(jinja_eval(r, n->a))) return jinja_eval(r, n->b);
    if (n->c) return jinja_eval(r, n->c);
    return jinja_missing_text(r, "the inline if-expression is false and has no else");
}

static struct jinja_value eval_slice(struct jinja_run *r, const struct jinja_node *n)
{
    struct jinja_value of = jinja_eval(r, n->a), absent = {.kind = JINJA_ABSENT};
    struct jinja_value start = n->b ? jinja_eval(r, n->b) : absent, stop = n->c ? jinja_eval(r, n->c) : absent;
    struct jinja_value step = n->d ? jinja_eval(r, n->d) : absent;
    r->at = n->at;
    return jinja_slice(r, of, start, stop, step);
}

/* ---- calls ---- */

struct gathered {
    struct jinja_value plain; /* a list */
    struct jinja_named *named;
    size_t n_named, room;
};

static void add_named(struct jinja_run *r, struct gathered *g, struct jinja_value name, struct jinja_value value)
{
    if (!jinja_is(name, JINJA_STR)) {
        jinja_fail(r, "the name of an argument must be a text");
        return;
    }
    if (g->n_named == g->room) {
        size_t room = g->room * 2 + 4;
        struct jinja_named *grown = jinja_arena_take(&r->arena, room, sizeof *grown);
        if (!grown) {
            jinja_fail_memory(r);
            return;
        }
        for (size_t i = 0; i < g->n_named; i++) grown[i] = g->named[i];
        g->named = grown;
        g->room = room;
    }
    for (size_t i = 0; i < g->n_named; i++)
        if (jinja_equal(r, g->named[i].name, name))
            jinja_fail(r, "the argument '%.*s' is given twice", name.bytes < 60 ? (int)name.bytes : 60, name.text);
    g->named[g->n_named++] = (struct jinja_named){name, value};
}

static void add_arg(struct jinja_run *r, struct gathered *g, const struct jinja_node *n)
{
    struct jinja_value v = jinja_eval(r, n->a);
    r->at = n->at;
    if (jinja_failed(r)) return;
    switch ((enum jinja_arg_kind)n->op) {
    case ARG_PLAIN: jinja_list_add(r, g->plain, v); return;
    case ARG_NAMED: add_named(r, g, n->value, v); return;
    case ARG_LIST: {
        struct jinja_items items = jinja_items_of(r, v);
        for (size_t i = 0; i < items.n && !jinja_failed(r); i++) jinja_list_add(r, g->plain, items.at[i]);
        return;
    }
    case ARG_DICT:
        if (!jinja_is(v, JINJA_DICT)) {
            jinja_fail(r, "the argument after ** must be a mapping, not %s", jinja_kind_name(v.kind));
            return;
        }
        for (size_t i = 0; i < v.dict->n && !jinja_failed(r); i++)
            add_named(r, g, v.dict->at[i].key, v.dict->at[i].value);
    }
}

/* false: failed. */
static bool eval_args(struct jinja_run *r, const struct jinja_node *first, struct jinja_args *out)
{
    *out = (struct jinja_args){0};
    if (!first) return true;
    struct gathered g = {.plain = jinja_list_new(r, JINJA_LIST, 0)};
    for (const struct jinja_node *n = first; n && !jinja_failed(r); n = n->next) add_arg(r, &g, n);
    if (jinja_failed(r)) return false;
    *out = (struct jinja_args){g.plain.list->at, g.plain.list->n, g.named, g.n_named};
    return true;
}

static struct jinja_value eval_call(struct jinja_run *r, const struct jinja_node *n)
{
    struct jinja_args args;
    struct jinja_value callee = jinja_eval(r, n->a);
    if (jinja_failed(r) || !eval_args(r, n->b, &args)) return jinja_undefined();
    r->at = n->at;
    struct jinja_value v = jinja_invoke(r, callee, &args);
    r->at = n->at;
    return v;
}

static struct jinja_value eval_filter(struct jinja_run *r, const struct jinja_node *n)
{
    struct jinja_args args;
    struct jinja_value input = jinja_eval(r, n->a);
    if (jinja_failed(r) || !eval_args(r, n->b, &args)) return jinja_undefined();
    r->at = n->at;
    if (!n->builtin)
        return jinja_fail(r, "unknown %s '%.*s'", n->kind == NODE_FILTER ? "filter" : "test",
                          n->value.bytes < 60 ? (int)n->value.bytes : 60, n->value.text);
    return jinja_run_builtin(r, n->builtin, input, &args);
}

/* ---- all ---- */

static struct jinja_value eval_operator(struct jinja_run *r, const struct jinja_node *n)
{
    struct jinja_value a = jinja_eval(r, n->a), b = n->b ? jinja_eval(r, n->b) : jinja_undefined();
    if (jinja_failed(r)) return jinja_undefined();
    r->at = n->at;
    return jinja_operate(r, n->kind, a, b);
}

static struct jinja_value eval_access(struct jinja_run *r, const struct jinja_node *n)
{
    struct jinja_value of = jinja_eval(r, n->a), key = n->b ? jinja_eval(r, n->b) : n->value;
    if (jinja_failed(r)) return jinja_undefined();
    r->at = n->at;
    return n->kind == NODE_ATTR ? jinja_get_attr(r, of, key) : jinja_get_item(r, of, key);
}

static struct jinja_value eval_node(struct jinja_run *r, const struct jinja_node *n)
{
    switch ((enum jinja_node_kind)n->kind) {
    case NODE_NAME: return jinja_scope_get(r, r->scope, n->id);
    case NODE_INPUT: return r->captured;
    case NODE_LIST:
    case NODE_TUPLE: return eval_items(r, n);
    case NODE_DICT: return eval_dict(r, n);
    case NODE_CONCAT: return eval_concat(r, n);
    case NODE_AND: {
        struct jinja_value a = jinja_eval(r, n->a);
        return jinja_truth(a) ? jinja_eval(r, n->b) : a;
    }
    case NODE_OR: {
        struct jinja_value a = jinja_eval(r, n->a);
        return jinja_truth(a) ? a : jinja_eval(r, n->b);
    }
    case NODE_NOT: return jinja_bool(!jinja_truth(jinja_eval(r, n->a)));
    case NODE_COMPARE: return eval_compare(r, n);
    case NODE_COND: return eval_cond(r, n);
    case NODE_ATTR:
    case NODE_ITEM: return eval_access(r, n);
    case NODE_SLICE: return eval_slice(r, n);
    case NODE_CALL: return eval_call(r, n);
    case NODE_FILTER:
    case NODE_TEST: return eval_filter(r, n);
    default: return eval_operator(r, n);
    }
}

struct jinja_value jinja_eval(struct jinja_run *r, const struct jinja_node *n)
{
    if (n->kind == NODE_CONST) return n->value;
    r->at = n->at;
    jinja_charge(r, 1);
    if (!jinja_enter(r)) return jinja_undefined();
    struct jinja_value v = eval_node(r, n);
    jinja_leave(r);
    return jinja_failed(r) ? jinja_undefined() : v;
}
