/* Calls as a name and then a JSON object, with marks around them. */
#ifndef SERVE_TOOLCALL_NAMED_H
#define SERVE_TOOLCALL_NAMED_H

#include "serve/toolcall_parser.h"

/* Where the name and the id stand in what lies between the mark and the object's brace. */
struct serve_named_head {
    const char *name, *id; /* id NULL: none */
    size_t name_bytes, id_bytes;
};

struct serve_named_style {
    const char *section_begin, *section_end; /* around all calls; NULL: there are none */
    const char *call_begin, *call_end;       /* call_end may be missing; NULL: there is none */
    /* head[0, bytes): without blanks around it. False: that is no name. */
    bool (*read)(const char *head, size_t bytes, struct serve_named_head *out);
};

/* The family's marks are { section_begin, call_begin } or { call_begin }. */
void serve_named_begin(struct serve_parser *p, bool section);
enum serve_step serve_named_step(struct serve_parser *p, const struct serve_named_style *style);

#endif
