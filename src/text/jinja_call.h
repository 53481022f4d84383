/* Everything that can be called: builtin functions, filters, tests and methods are rows of tables with one signature.
 */
#ifndef TEXT_JINJA_CALL_H
#define TEXT_JINJA_CALL_H

#include "text/jinja_run.h"

struct jinja_named {
    struct jinja_value name, value; /* name: a STR */
};

struct jinja_args {
    const struct jinja_value *at;
    size_t n;
    const struct jinja_named *named;
    size_t n_named;
};

/* What a builtin gets. p: its parameters in the order of its table row; ABSENT if not given. */
struct jinja_call {
    const char *name;
    struct jinja_value self; /* a filter's input, what a test judges, whose method it is; undefined for functions */
    struct jinja_value p[JINJA_PARAMS_MAX];
    const struct jinja_args *args;
};
typedef struct jinja_value jinja_function(struct jinja_run *r, const struct jinja_call *c);

/* params: "old new ?count": names, those that may be left out with '?'; "..." takes whatever is given (from args). */
struct jinja_builtin {
    const char *name, *params;
    jinja_function *run;
};

struct jinja_method {
    const struct jinja_builtin *builtin;
    struct jinja_value self;
};

struct jinja_macro {
    struct jinja_value name;
    const struct jinja_node *params, *body;
    struct jinja_scope *scope; /* where it was defined */
};

/* NULL if there is none. name: a STR. */
const struct jinja_builtin *jinja_filter_find(struct jinja_value name);
const struct jinja_builtin *jinja_test_find(struct jinja_value name);
const struct jinja_builtin *jinja_function_find(struct jinja_value name);
const struct jinja_builtin *jinja_method_find(enum jinja_kind kind, struct jinja_value name);
const struct jinja_builtin *jinja_row_find(const struct jinja_builtin *rows, size_t n, struct jinja_value name);

struct jinja_value jinja_run_builtin(struct jinja_run *r, const struct jinja_builtin *b, struct jinja_value self,
                                     const struct jinja_args *args);
/* Calls anything; fails if it cannot be called. */
struct jinja_value jinja_invoke(struct jinja_run *r, struct jinja_value callee, const struct jinja_args *args);
struct jinja_value jinja_run_macro(struct jinja_run *r, const struct jinja_macro *m, const struct jinja_args *args);
/* A filter or test by name with arguments, for map, select and the like. */
struct jinja_value jinja_filter(struct jinja_run *r, struct jinja_value name, struct jinja_value input,
                                const struct jinja_args *args);
bool jinja_test(struct jinja_run *r, struct jinja_value name, struct jinja_value input, const struct jinja_args *args);

/* value.name and value[key]: undefined if there is no such thing. */
struct jinja_value jinja_get_attr(struct jinja_run *r, struct jinja_value v, struct jinja_value name);
struct jinja_value jinja_get_item(struct jinja_run *r, struct jinja_value v, struct jinja_value key);
/* "a.b.0" looked up step by step, as the attribute arguments of filters are. path: STR or INT. */
struct jinja_value jinja_get_path(struct jinja_run *r, struct jinja_value v, struct jinja_value path);
struct jinja_value jinja_slice(struct jinja_run *r, struct jinja_value v, struct jinja_value start,
                               struct jinja_value stop, struct jinja_value step);

/* Arguments by kind; they fail if the value is something else. */
bool jinja_want_str(struct jinja_run *r, const struct jinja_call *c, struct jinja_value v);
bool jinja_want_int(struct jinja_run *r, const struct jinja_call *c, struct jinja_value v, int64_t *out);
static inline bool jinja_given(struct jinja_value v) { return v.kind != JINJA_ABSENT; }

/* Operators (jinja_operator.c). op: enum jinja_node_kind. */
struct jinja_value jinja_operate(struct jinja_run *r, int op, struct jinja_value a, struct jinja_value b);
struct jinja_value jinja_concat(struct jinja_run *r, const struct jinja_value *at, size_t n); /* a ~ b ~ ... */

/* "%s" % args and "{}".format(args) (jinja_format.c). */
struct jinja_value jinja_percent(struct jinja_run *r, struct jinja_value format, struct jinja_value args);
struct jinja_value jinja_braces(struct jinja_run *r, struct jinja_value format, const struct jinja_args *args);

/* JSON (jinja_json.c): text to values, marked as said; values to text. */
struct jinja_json_style {
    bool ascii, sort_keys;
    struct jinja_value indent;                    /* STR to indent one level with, or ABSENT: on one line */
    struct jinja_value item_separator, separator; /* STR */
};
bool jinja_json_read(struct jinja_run *r, const char *text, size_t bytes, struct jinja_value *out);
void jinja_json_write(struct jinja_build *b, struct jinja_value v, const struct jinja_json_style *style);

/* strftime (jinja_time.c). */
struct jinja_value jinja_time_show(struct jinja_run *r, const struct jinja_time *t, struct jinja_value format);

#endif
