/* Calls as JSON objects: {"name": "f", "arguments": {...}}, the keys in any order, one or an array of them. */
#ifndef SERVE_TOOLCALL_OBJECT_H
#define SERVE_TOOLCALL_OBJECT_H

#include "serve/toolcall_parser.h"

struct serve_object_style {
    const char *end;       /* the mark behind the object or array; may be missing. NULL: there is none */
    const char *separator; /* between objects outside of an array; NULL: there are none */
    bool array;            /* one may stand in place of an object */
};

/* At the beginning of the objects. `checked`: only names of known tools, only with arguments. */
void serve_object_begin(struct serve_parser *p, bool checked);
enum serve_step serve_object_step(struct serve_parser *p, const struct serve_object_style *style);

#endif
