/* Variables, by the number of their name. A scope sees what lies around it; what is set stays inside of it. */
#ifndef TEXT_JINJA_SCOPE_H
#define TEXT_JINJA_SCOPE_H

#include "text/jinja_run.h"
#include "text/jinja_template.h"

struct jinja_variable {
    uint32_t id;
    struct jinja_value value;
};

struct jinja_scope {
    struct jinja_scope *parent;
    struct jinja_variable *at;
    size_t n, room;
    bool kept; /* a macro was defined inside and may look here later: the scope cannot be used again */
};

struct jinja_scope *jinja_scope_new(struct jinja_run *r, struct jinja_scope *parent); /* NULL: failed */
void jinja_scope_set(struct jinja_run *r, struct jinja_scope *s, uint32_t id, struct jinja_value value);
/* Undefined if no scope around has it and no function is called so. */
struct jinja_value jinja_scope_get(struct jinja_run *r, const struct jinja_scope *s, uint32_t id);
void jinja_scope_keep(struct jinja_scope *s); /* and those around it */
/* The same, unless the template does not use the name at all (id is n_names). */
void jinja_scope_set_used(struct jinja_run *r, struct jinja_scope *s, uint32_t id, struct jinja_value value);

/* Evaluation (jinja_eval.c) and execution (jinja_exec.c), in r->scope. */
enum jinja_flow { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE };
struct jinja_value jinja_eval(struct jinja_run *r, const struct jinja_node *n);
enum jinja_flow jinja_exec(struct jinja_run *r, const struct jinja_node *body);

#endif
