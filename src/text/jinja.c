/* Rendering: the functions that every template knows, the variables, and one run. */
#include "text/jinja.h"

#include "text/jinja_call.h"
#include "text/jinja_scope.h"

#include <stdlib.h>
#include <string.h>

#define FUNCTION(name) static struct jinja_value name(struct jinja_run *r, const struct jinja_call *c)

/* ---- functions ---- */

FUNCTION(do_range)
{
    int64_t n[3] = {0, 0, 1};
    for (int i = 0; i < 3; i++)
        if (jinja_given(c->p[i]) && !jinja_want_int(r, c, c->p[i], &n[i])) return jinja_undefined();
    if (!jinja_given(c->p[1])) return jinja_range_new(r, 0, n[0], n[2]);
    return jinja_range_new(r, n[0], n[1], n[2]);
}

/* dict(mapping or pairs, name=value...), and namespace() likewise. */
static struct jinja_value make_dict(struct jinja_run *r, const struct jinja_call *c, enum jinja_kind kind)
{
    struct jinja_value out = jinja_dict_new(r, kind);
    if (c->args->n > 1) return jinja_fail(r, "%s() takes at most one argument without a name", c->name);
    if (c->args->n && jinja_is(c->args->at[0], JINJA_DICT)) {
        const struct jinja_dict *d = c->args->at[0].dict;
        for (size_t i = 0; i < d->n && !jinja_failed(r); i++) jinja_dict_set(r, out.dict, d->at[i].key, d->at[i].value);
    } else if (c->args->n) {
        struct jinja_items pairs = jinja_items_of(r, c->args->at[0]);
        for (size_t i = 0; i < pairs.n && !jinja_failed(r); i++) {
            struct jinja_items pair = jinja_items_of(r, pairs.at[i]);
            if (pair.n != 2) return jinja_fail(r, "%s() needs pairs, item %zu has %zu parts", c->name, i, pair.n);
            jinja_dict_set(r, out.dict, pair.at[0], pair.at[1]);
        }
    }
    for (size_t i = 0; i < c->args->n_named && !jinja_failed(r); i++)
        jinja_dict_set(r, out.dict, c->args->named[i].name, c->args->named[i].value);
    return out;
}

FUNCTION(do_dict) { return make_dict(r, c, JINJA_DICT); }
FUNCTION(do_namespace) { return make_dict(r, c, JINJA_NAMESPACE); }

FUNCTION(do_raise)
{
    struct jinja_value text = jinja_str(r, c->p[0]);
    if (jinja_failed(r)) return text;
    return jinja_fail(r, "%.*s", text.bytes < SLUICE_MESSAGE_BYTES_MAX ? (int)text.bytes : SLUICE_MESSAGE_BYTES_MAX,
                      text.text);
}

FUNCTION(do_strftime)
{
    if (!r->now) return jinja_fail(r, "the template asks for the time, and none was given");
    if (!jinja_want_str(r, c, c->p[0])) return jinja_undefined();
    return jinja_time_show(r, r->now, c->p[0]);
}

FUNCTION(do_cycler)
{
    if (c->args->n == 0) return jinja_fail(r, "cycler() needs items");
    struct jinja_value out = jinja_list_new(r, JINJA_CYCLER, c->args->n);
    for (size_t i = 0; i < c->args->n && !jinja_failed(r); i++) jinja_list_add(r, out, c->args->at[i]);
    return out;
}

FUNCTION(do_joiner)
{
    struct jinja_value out = jinja_list_new(r, JINJA_JOINER, 1);
    jinja_list_add(r, out, jinja_given(c->p[0]) ? c->p[0] : jinja_text(", ", 2));
    return out;
}

FUNCTION(do_lipsum) { return jinja_fail(r, "%s() is not supported", c->name); }

static const struct jinja_builtin functions[] = {
    {"range", "start ?stop ?step", do_range},
    {"dict", "...", do_dict},
    {"namespace", "...", do_namespace},
    {"raise_exception", "message", do_raise},
    {"strftime_now", "format", do_strftime},
    {"cycler", "...", do_cycler},
    {"joiner", "?sep", do_joiner},
    {"lipsum", "...", do_lipsum},
};

const struct jinja_builtin *jinja_function_find(struct jinja_value name)
{
    return jinja_row_find(functions, sizeof functions / sizeof *functions, name);
}

/* ---- variables ---- */

static bool is_plain_role(struct jinja_value v)
{
    if (!jinja_is(v, JINJA_STR)) return false;
    for (size_t i = 0; i < v.bytes; i++) {
        char c = v.text[i];
        bool plain = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_' || c == '-';
        if (!plain) return false;
    }
    return true;
}

/* Templates make marks of the roles of messages ("<|" + role + "|>"): they are not what was said. */
static void unmark_roles(struct jinja_run *r, struct jinja_value messages)
{
    for (size_t i = 0; jinja_is(messages, JINJA_LIST) && i < messages.list->n; i++) {
        struct jinja_value m = messages.list->at[i];
        const struct jinja_value *role = jinja_is(m, JINJA_DICT) ? jinja_dict_find_word(r, m.dict, "role") : NULL;
        if (role && is_plain_role(*role) && role->bytes)
            memset(jinja_arena_marks(&r->arena, role->text), 0, role->bytes);
    }
}

static struct jinja_value said_text(struct jinja_run *r, const char *text)
{
    size_t bytes = strlen(text);
    struct jinja_value v = jinja_copy_text(r, text, bytes);
    if (!jinja_failed(r)) memset(jinja_arena_marks(&r->arena, v.text), 1, bytes);
    return v;
}

static struct jinja_value make_messages(struct jinja_run *r, const struct text_message *m, size_t n)
{
    struct jinja_value list = jinja_list_new(r, JINJA_LIST, n);
    for (size_t i = 0; i < n && !jinja_failed(r); i++) {
        struct jinja_value one = jinja_dict_new(r, JINJA_DICT);
        jinja_dict_set(r, one.dict, jinja_text("role", 4), said_text(r, m[i].role));
        jinja_dict_set(r, one.dict, jinja_text("content", 7), said_text(r, m[i].text));
        jinja_list_add(r, list, one);
    }
    return list;
}

static void set_variables(struct jinja_run *r, const struct jinja_input *in)
{
    struct jinja_value all;
    uint32_t messages = jinja_name_find(r->t, jinja_text("messages", 8));
    if (in->json && jinja_json_read(r, in->json, in->json_bytes, &all)) {
        if (!jinja_is(all, JINJA_DICT)) {
            r->status = base_fail(r->err, SLUICE_ERR_USAGE, "give an object: {\"messages\": [...]}",
                                  "the variables are a %s in JSON, not an object", jinja_kind_name(all.kind));
            return;
        }
        for (uint32_t id = 0; id < r->t->n_names && !jinja_failed(r); id++) {
            const struct jinja_value *found = jinja_dict_find(r, all.dict, r->t->names[id].text);
            if (found) jinja_scope_set(r, r->scope, id, *found);
        }
    }
    if (in->messages && !jinja_failed(r))
        jinja_scope_set_used(r, r->scope, messages, make_messages(r, in->messages, in->n_messages));
    if (messages < r->t->n_names && !jinja_failed(r)) unmark_roles(r, jinja_scope_get(r, r->scope, messages));
    for (size_t i = 0; i < in->n_own && !jinja_failed(r); i++) {
        struct jinja_value text = jinja_copy_text(r, in->own[i].text, strlen(in->own[i].text));
        uint32_t id = jinja_name_find(r->t, jinja_text(in->own[i].name, strlen(in->own[i].name)));
        jinja_scope_set_used(r, r->scope, id, text);
    }
}

/* ---- a run ---- */

void jinja_limits_init(struct jinja_limits *l)
{
    *l = (struct jinja_limits){.steps_max = 50000000,
                               .depth_max = 1000,
                               .output_bytes_max = (size_t)64 << 20,
                               .memory_bytes_max = (size_t)256 << 20};
}

enum sluice_status jinja_render(const struct jinja_template *t, const struct jinja_input *in, struct text_rendered *out,
                                struct sluice_error *err)
{
    struct jinja_run r = {.t = t, .now = in->now, .err = err};
    if (in->limits)
        r.limits = *in->limits;
    else
        jinja_limits_init(&r.limits);
    jinja_arena_init(&r.arena, r.limits.memory_bytes_max);
    r.loop_id = jinja_name_find(t, jinja_text("loop", 4));
    r.caller_id = jinja_name_find(t, jinja_text("caller", 6));
    r.varargs_id = jinja_name_find(t, jinja_text("varargs", 7));
    r.kwargs_id = jinja_name_find(t, jinja_text("kwargs", 6));
    *out = (struct text_rendered){0};
    r.out.text = malloc(1); /* an empty rendering is an empty text, not NULL */
    if (!r.out.text) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "%s: no memory to render it", t->name);
    r.out.text[0] = '\0';
    r.out_room = 1;
    r.scope = jinja_scope_new(&r, NULL);
    if (r.scope) set_variables(&r, in);
    if (!jinja_failed(&r)) {
        /* What the template sets lies in front of the variables, as in a scope of its own. */
        struct jinja_scope *s = jinja_scope_new(&r, r.scope);
        r.scope = s;
        if (s) jinja_exec(&r, t->root);
    }
    jinja_arena_free(&r.arena);
    if (jinja_failed(&r))
        text_rendered_free(&r.out);
    else
        *out = r.out;
    return r.status;
}
