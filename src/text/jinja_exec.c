/* Statements and scopes. */
#include "text/jinja_call.h"
#include "text/jinja_scope.h"

#include <string.h>

/* ---- scopes ---- */

struct jinja_scope *jinja_scope_new(struct jinja_run *r, struct jinja_scope *parent)
{
    struct jinja_scope *s = jinja_arena_take(&r->arena, 1, sizeof *s);
    if (s)
        s->parent = parent;
    else
        jinja_fail_memory(r);
    return s;
}

void jinja_scope_set(struct jinja_run *r, struct jinja_scope *s, uint32_t id, struct jinja_value value)
{
    if (jinja_failed(r)) return;
    for (size_t i = 0; i < s->n; i++)
        if (s->at[i].id == id) {
            s->at[i].value = value;
            return;
        }
    jinja_charge(r, s->n / 8 + 1);
    if (s->n == s->room) {
        size_t room = s->room * 2 + 4;
        struct jinja_variable *grown = jinja_arena_take(&r->arena, room, sizeof *grown);
        if (!grown) {
            jinja_fail_memory(r);
            return;
        }
        if (s->n) memcpy(grown, s->at, s->n * sizeof *grown);
        s->at = grown;
        s->room = room;
    }
    s->at[s->n++] = (struct jinja_variable){id, value};
}

struct jinja_value jinja_scope_get(struct jinja_run *r, const struct jinja_scope *s, uint32_t id)
{
    for (; s; s = s->parent) {
        for (size_t i = 0; i < s->n; i++)
            if (s->at[i].id == id) return s->at[i].value;
        jinja_charge(r, s->n / 8 + 1);
    }
    const struct jinja_name *name = &r->t->names[id];
    if (name->builtin) return (struct jinja_value){.kind = JINJA_BUILTIN, .builtin = name->builtin};
    return jinja_missing_new(r, JINJA_ABSENT, name->text);
}

void jinja_scope_keep(struct jinja_scope *s)
{
    for (; s && !s->kept; s = s->parent) s->kept = true;
}

void jinja_scope_set_used(struct jinja_run *r, struct jinja_scope *s, uint32_t id, struct jinja_value value)
{
    if (id < r->t->n_names) jinja_scope_set(r, s, id, value);
}

/* Runs a body in a scope of its own. */
static enum jinja_flow exec_inside(struct jinja_run *r, struct jinja_scope *s, const struct jinja_node *body)
{
    struct jinja_scope *outer = r->scope;
    if (!s) return FLOW_BREAK;
    r->scope = s;
    enum jinja_flow flow = jinja_exec(r, body);
    r->scope = outer;
    return flow;
}

/* ---- assigning ---- */

static void assign_attr(struct jinja_run *r, const struct jinja_node *target, struct jinja_value value)
{
    struct jinja_value ns = jinja_scope_get(r, r->scope, target->id);
    r->at = target->at;
    if (jinja_is(ns, JINJA_UNDEFINED))
        jinja_fail_missing(r, ns);
    else if (jinja_is(ns, JINJA_NAMESPACE))
        jinja_dict_set(r, ns.dict, target->value, value);
    else
        jinja_fail(r, "cannot assign an attribute of a %s, only of a namespace", jinja_kind_name(ns.kind));
}

static void assign(struct jinja_run *r, struct jinja_scope *s, const struct jinja_node *target,
                   struct jinja_value value)
{
    if (target->kind == NODE_NAME) {
        jinja_scope_set(r, s, target->id, value);
        return;
    }
    if (target->kind == NODE_TARGET_ATTR) {
        assign_attr(r, target, value);
        return;
    }
    if (!jinja_enter(r)) return;
    r->at = target->at;
    size_t n = 0;
    for (const struct jinja_node *t = target->a; t; t = t->next) n++;
    struct jinja_items items = jinja_items_of(r, value);
    if (!jinja_failed(r) && items.n != n) jinja_fail(r, "cannot assign %zu values to %zu names", items.n, n);
    const struct jinja_node *t = target->a;
    for (size_t i = 0; i < n && !jinja_failed(r); i++, t = t->next) assign(r, s, t, items.at[i]);
    jinja_leave(r);
}

/* ---- blocks that are captured ---- */

/* What a body writes, after the filters in n->b. */
static struct jinja_value capture(struct jinja_run *r, const struct jinja_node *n)
{
    size_t from = r->out.bytes;
    struct jinja_value outer = r->captured;
    exec_inside(r, jinja_scope_new(r, r->scope), n->c);
    r->captured = jinja_take_written(r, from);
    struct jinja_value v = n->b && !jinja_failed(r) ? jinja_eval(r, n->b) : r->captured;
    r->captured = outer;
    return v;
}

static void write_value(struct jinja_run *r, struct jinja_value v)
{
    if (!jinja_failed(r)) v = jinja_str(r, v);
    if (!jinja_failed(r)) jinja_write(r, v);
}

/* ---- loops ---- */

/* The items that the loop's condition admits; each is judged in a scope that holds the loop's names. */
static struct jinja_items admitted(struct jinja_run *r, const struct jinja_node *n, struct jinja_items all)
{
    struct jinja_value list = jinja_list_new(r, JINJA_LIST, 0);
    struct jinja_scope *outer = r->scope, *s = jinja_scope_new(r, outer);
    for (size_t i = 0; i < all.n && !jinja_failed(r); i++) {
        s->n = 0;
        assign(r, s, n->a, all.at[i]);
        r->scope = s;
        if (jinja_truth(jinja_eval(r, n->e))) jinja_list_add(r, list, all.at[i]);
        r->scope = outer;
    }
    if (jinja_failed(r)) return (struct jinja_items){0};
    return (struct jinja_items){list.list->at, list.list->n};
}

static void exec_items(struct jinja_run *r, const struct jinja_node *n, struct jinja_items items)
{
    struct jinja_loop *loop = jinja_arena_take(&r->arena, 1, sizeof *loop);
    if (!loop) {
        jinja_fail_memory(r);
        return;
    }
    *loop = (struct jinja_loop){.at = items.at, .n = items.n, .depth = 1};
    struct jinja_value handle = {.kind = JINJA_LOOP, .loop = loop};
    struct jinja_scope *s = NULL;
    for (size_t i = 0; i < items.n && !jinja_failed(r); i++) {
        jinja_charge(r, 1);
        loop->index = i;
        if (!s || s->kept) s = jinja_scope_new(r, r->scope);
        if (!s) return;
        s->n = 0;
        jinja_scope_set_used(r, s, r->loop_id, handle);
        assign(r, s, n->a, items.at[i]);
        if (exec_inside(r, s, n->c) == FLOW_BREAK) return;
    }
}

static void exec_for(struct jinja_run *r, const struct jinja_node *n)
{
    struct jinja_value of = jinja_eval(r, n->b);
    r->at = n->at;
    struct jinja_items items = jinja_items_of(r, of);
    if (n->e) items = admitted(r, n, items);
    if (jinja_failed(r)) return;
    if (items.n)
        exec_items(r, n, items);
    else if (n->d)
        exec_inside(r, jinja_scope_new(r, r->scope), n->d);
}

/* ---- the rest ---- */

static struct jinja_value make_macro(struct jinja_run *r, const struct jinja_node *n)
{
    struct jinja_macro *m = jinja_arena_take(&r->arena, 1, sizeof *m);
    if (!m) {
        jinja_fail_memory(r);
        return jinja_undefined();
    }
    *m = (struct jinja_macro){.name = n->value, .params = n->a, .body = n->c, .scope = r->scope};
    jinja_scope_keep(r->scope);
    return (struct jinja_value){.kind = JINJA_MACRO, .macro = m};
}

/* The call's own arguments, and the block as `caller`: evaluated as a call with one more argument. */
static void exec_caller(struct jinja_run *r, const struct jinja_node *n)
{
    struct jinja_node call = *n->a, arg = {.kind = NODE_ARG, .op = ARG_NAMED, .at = n->at, .value = n->b->value};
    struct jinja_node handle = {.kind = NODE_CONST, .at = n->at, .value = make_macro(r, n->b)};
    arg.a = &handle;
    /* in front: its name is given, so an order of names and plain arguments is kept by the evaluation itself */
    arg.next = call.b;
    call.b = &arg;
    write_value(r, jinja_eval(r, &call));
}

/* The values are those outside of the block, whatever their order. */
static enum jinja_flow exec_with(struct jinja_run *r, const struct jinja_node *n)
{
    struct jinja_scope *s = jinja_scope_new(r, r->scope);
    for (const struct jinja_node *set = n->a; set && !jinja_failed(r); set = set->next)
        assign(r, s, set->a, jinja_eval(r, set->b));
    return exec_inside(r, s, n->c);
}

static enum jinja_flow exec_if(struct jinja_run *r, const struct jinja_node *n)
{
    while (!jinja_truth(jinja_eval(r, n->a))) {
        if (!n->c || n->c->kind != NODE_IF || n->c->op == 0) return jinja_exec(r, n->c); /* else, or nothing */
        n = n->c;                                                                        /* elif */
    }
    return jinja_failed(r) ? FLOW_BREAK : jinja_exec(r, n->b);
}

static enum jinja_flow exec_one(struct jinja_run *r, const struct jinja_node *n)
{
    switch ((enum jinja_node_kind)n->kind) {
    case NODE_TEXT: jinja_write(r, n->value); return FLOW_ON;
    case NODE_OUTPUT: write_value(r, jinja_eval(r, n->a)); return FLOW_ON;
    case NODE_IF: return exec_if(r, n);
    case NODE_FOR: exec_for(r, n); return FLOW_ON;
    case NODE_SET: assign(r, r->scope, n->a, jinja_eval(r, n->b)); return FLOW_ON;
    case NODE_SET_BLOCK: assign(r, r->scope, n->a, capture(r, n)); return FLOW_ON;
    case NODE_MACRO: jinja_scope_set(r, r->scope, n->id, make_macro(r, n)); return FLOW_ON;
    case NODE_CALLER: exec_caller(r, n); return FLOW_ON;
    case NODE_CAPTURE: write_value(r, capture(r, n)); return FLOW_ON;
    case NODE_WITH: return exec_with(r, n);
    case NODE_BREAK: return FLOW_BREAK;
    case NODE_CONTINUE: return FLOW_CONTINUE;
    default: return FLOW_ON;
    }
}

enum jinja_flow jinja_exec(struct jinja_run *r, const struct jinja_node *body)
{
    enum jinja_flow flow = FLOW_ON;
    if (!jinja_enter(r)) return FLOW_BREAK;
    for (const struct jinja_node *n = body; n && flow == FLOW_ON && !jinja_failed(r); n = n->next) {
        r->at = n->at;
        jinja_charge(r, 1);
        flow = exec_one(r, n);
    }
    jinja_leave(r);
    return jinja_failed(r) ? FLOW_BREAK : flow;
}
