/* A parsed template's inside. */
#ifndef TEXT_JINJA_TEMPLATE_H
#define TEXT_JINJA_TEMPLATE_H

#include "text/jinja.h"
#include "text/jinja_arena.h"
#include "text/jinja_node.h"

#define JINJA_NAME_BYTES_MAX 200

/* A variable's name, once for each; its number is the id that nodes have. */
struct jinja_name {
    struct jinja_value text;
    const struct jinja_builtin *builtin; /* the function that it names if nothing else does, or NULL */
};

struct jinja_template {
    char name[JINJA_NAME_BYTES_MAX + 1];
    char *source; /* with \n at the ends of lines, without the last one */
    size_t bytes;
    struct jinja_name *names;
    size_t n_names;
    struct jinja_node *root; /* statements by next */
    struct jinja_arena arena;
};

struct jinja_place {
    size_t line, column; /* from 1; columns count characters */
};
struct jinja_place jinja_place(const struct jinja_template *t, size_t at);
/* Id of a name, or n_names if the template does not use it. */
uint32_t jinja_name_find(const struct jinja_template *t, struct jinja_value name);

#endif
