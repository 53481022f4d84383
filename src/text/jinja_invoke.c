/* Calling builtins, methods and macros. */
#include "text/jinja_call.h"
#include "text/jinja_scope.h"

#include <string.h>

/* A STR as the two arguments of "%.*s". */
#define QUOTED(str) ((str).bytes < 60 ? (int)(str).bytes : 60), (str).text

const struct jinja_builtin *jinja_row_find(const struct jinja_builtin *rows, size_t n, struct jinja_value name)
{
    for (size_t i = 0; i < n; i++)
        if (jinja_text_is(name, rows[i].name)) return &rows[i];
    return NULL;
}

/* ---- builtins ---- */

/* Number of the parameter called `name` (NULL: how many there are), or -1. */
static int param_number(const char *params, const struct jinja_value *name)
{
    int i = 0;
    while (*params) {
        const char *begin = params + (*params == '?');
        const char *end = begin + strcspn(begin, " ");
        if (name && (size_t)(end - begin) == name->bytes && memcmp(begin, name->text, name->bytes) == 0) return i;
        params = *end ? end + 1 : end;
        i++;
    }
    return name ? -1 : i;
}

static void check_needed(struct jinja_run *r, const char *params, const struct jinja_call *c)
{
    for (int i = 0; *params; i++) {
        size_t n = strcspn(params, " ");
        if (*params != '?' && !jinja_given(c->p[i]))
            jinja_fail(r, "%s() needs the argument '%.*s'", c->name, (int)n, params);
        params += n + (params[n] == ' ');
    }
}

struct jinja_value jinja_run_builtin(struct jinja_run *r, const struct jinja_builtin *b, struct jinja_value self,
                                     const struct jinja_args *args)
{
    struct jinja_call c = {.name = b->name, .self = self, .args = args};
    jinja_charge(r, 1);
    if (strcmp(b->params, "...") != 0) {
        int n = param_number(b->params, NULL);
        if (args->n > (size_t)n)
            return jinja_fail(r, "%s() takes at most %d arguments, %zu are given", b->name, n, args->n);
        for (size_t i = 0; i < args->n; i++) c.p[i] = args->at[i];
        for (size_t i = 0; i < args->n_named; i++) {
            int at = param_number(b->params, &args->named[i].name);
            if (at < 0 || jinja_given(c.p[at]))
                return jinja_fail(r, "%s() %s the argument '%.*s'", b->name, at < 0 ? "does not know" : "got twice",
                                  QUOTED(args->named[i].name));
            c.p[at] = args->named[i].value;
        }
        check_needed(r, b->params, &c);
    }
    if (!jinja_enter(r)) return jinja_undefined();
    struct jinja_value v = b->run(r, &c);
    jinja_leave(r);
    return jinja_failed(r) ? jinja_undefined() : v;
}

static struct jinja_value run_named(struct jinja_run *r, const struct jinja_builtin *b, const char *what,
                                    struct jinja_value name, struct jinja_value input, const struct jinja_args *args)
{
    if (!jinja_is(name, JINJA_STR)) return jinja_fail(r, "the name of a %s must be a text", what);
    if (!b) return jinja_fail(r, "unknown %s '%.*s'", what, QUOTED(name));
    return jinja_run_builtin(r, b, input, args);
}

struct jinja_value jinja_filter(struct jinja_run *r, struct jinja_value name, struct jinja_value input,
                                const struct jinja_args *args)
{
    return run_named(r, jinja_filter_find(name), "filter", name, input, args);
}

bool jinja_test(struct jinja_run *r, struct jinja_value name, struct jinja_value input, const struct jinja_args *args)
{
    return jinja_truth(run_named(r, jinja_test_find(name), "test", name, input, args));
}

bool jinja_want_str(struct jinja_run *r, const struct jinja_call *c, struct jinja_value v)
{
    if (jinja_is(v, JINJA_STR)) return true;
    if (jinja_is(v, JINJA_UNDEFINED)) jinja_fail_missing(r, v);
    jinja_fail(r, "%s() needs a text here, not %s", c->name, jinja_kind_name(v.kind));
    return false;
}

bool jinja_want_int(struct jinja_run *r, const struct jinja_call *c, struct jinja_value v, int64_t *out)
{
    *out = 0;
    if (jinja_is_whole(v)) {
        *out = jinja_whole(v);
        return true;
    }
    if (jinja_is(v, JINJA_UNDEFINED)) jinja_fail_missing(r, v);
    jinja_fail(r, "%s() needs a whole number here, not %s", c->name, jinja_kind_name(v.kind));
    return false;
}

/* ---- macros ---- */

static const struct jinja_value *named_argument(const struct jinja_args *args, struct jinja_value name)
{
    for (size_t i = 0; i < args->n_named; i++)
        if (args->named[i].name.bytes == name.bytes && memcmp(args->named[i].name.text, name.text, name.bytes) == 0)
            return &args->named[i].value;
    return NULL;
}

static bool is_param(const struct jinja_macro *m, struct jinja_value name)
{
    for (const struct jinja_node *p = m->params; p; p = p->next)
        if (p->value.bytes == name.bytes && memcmp(p->value.text, name.text, name.bytes) == 0) return true;
    return false;
}

/* Arguments that no parameter takes: varargs, kwargs, caller. Given to a macro that does not use them, they are a
 * mistake. */
static void set_rest(struct jinja_run *r, const struct jinja_macro *m, const struct jinja_args *args, size_t n_params)
{
    struct jinja_value rest = jinja_list_new(r, JINJA_TUPLE, 0), named = jinja_dict_new(r, JINJA_DICT);
    for (size_t i = n_params; i < args->n; i++) jinja_list_add(r, rest, args->at[i]);
    for (size_t i = 0; i < args->n_named && !jinja_failed(r); i++) {
        struct jinja_value name = args->named[i].name;
        jinja_charge(r, n_params / 8 + 1);
        if (is_param(m, name)) continue;
        if (jinja_text_is(name, "caller"))
            jinja_scope_set_used(r, r->scope, r->caller_id, args->named[i].value);
        else
            jinja_dict_set(r, named.dict, name, args->named[i].value);
    }
    if (jinja_failed(r)) return;
    if (rest.list->n && r->varargs_id == r->t->n_names)
        jinja_fail(r, "the macro '%.*s' takes at most %zu arguments, %zu are given", QUOTED(m->name), n_params,
                   args->n);
    if (named.dict->n && r->kwargs_id == r->t->n_names)
        jinja_fail(r, "the macro '%.*s' has no parameter '%.*s'", QUOTED(m->name), QUOTED(named.dict->at[0].key));
    jinja_scope_set_used(r, r->scope, r->varargs_id, rest);
    jinja_scope_set_used(r, r->scope, r->kwargs_id, named);
}

/* Defaults are evaluated inside, where the parameters before them are set already. */
static void set_params(struct jinja_run *r, const struct jinja_macro *m, const struct jinja_args *args)
{
    size_t i = 0;
    for (const struct jinja_node *p = m->params; p && !jinja_failed(r); p = p->next, i++) {
        jinja_charge(r, args->n_named / 8 + 1);
        const struct jinja_value *named = named_argument(args, p->value);
        if (named && i < args->n) {
            jinja_fail(r, "the macro '%.*s' got '%.*s' twice", QUOTED(m->name), QUOTED(p->value));
            return;
        }
        struct jinja_value v = i < args->n ? args->at[i]
                               : named     ? *named
                               : p->a      ? jinja_eval(r, p->a)
                                           : jinja_missing_new(r, JINJA_ABSENT, p->value);
        jinja_scope_set(r, r->scope, p->id, v);
    }
    set_rest(r, m, args, i);
}

struct jinja_value jinja_run_macro(struct jinja_run *r, const struct jinja_macro *m, const struct jinja_args *args)
{
    struct jinja_scope *outer = r->scope, *s = jinja_scope_new(r, m->scope);
    if (!s || !jinja_enter(r)) return jinja_undefined();
    size_t from = r->out.bytes;
    r->scope = s;
    set_params(r, m, args);
    jinja_exec(r, m->body);
    r->scope = outer;
    jinja_leave(r);
    return jinja_take_written(r, from);
}

/* ---- anything ---- */

static struct jinja_value run_joiner(struct jinja_run *r, struct jinja_value v, const struct jinja_args *args)
{
    if (args->n || args->n_named) return jinja_fail(r, "a joiner is called without arguments");
    bool first = v.list->next == 0;
    v.list->next = 1;
    return first ? jinja_text("", 0) : v.list->at[0];
}

struct jinja_value jinja_invoke(struct jinja_run *r, struct jinja_value callee, const struct jinja_args *args)
{
    if (jinja_failed(r)) return jinja_undefined();
    switch ((enum jinja_kind)callee.kind) {
    case JINJA_MACRO: return jinja_run_macro(r, callee.macro, args);
    case JINJA_BUILTIN: return jinja_run_builtin(r, callee.builtin, jinja_undefined(), args);
    case JINJA_METHOD: return jinja_run_builtin(r, callee.method->builtin, callee.method->self, args);
    case JINJA_JOINER: return run_joiner(r, callee, args);
    case JINJA_UNDEFINED: return jinja_fail_missing(r, callee);
    case JINJA_LOOP: return jinja_fail(r, "recursive loops are not supported; use a macro");
    default: return jinja_fail(r, "a %s cannot be called", jinja_kind_name(callee.kind));
    }
}
