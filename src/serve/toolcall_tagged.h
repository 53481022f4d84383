/* Calls as tags: a tag with the tool's name, and in it one tag a parameter, whose content is the value. */
#ifndef SERVE_TOOLCALL_TAGGED_H
#define SERVE_TOOLCALL_TAGGED_H

#include "serve/toolcall_parser.h"

struct serve_tagged_style {
    const char *block_begin, *block_end; /* around all calls */
    const char *call_begin, *call_end; /* call_begin "": the name follows the block's mark, and call_end is block_end */
    const char *name_end;              /* behind the name; NULL: a blank, a parameter or the call's end, not taken */
    const char *parameter_begin, *key_end, *value_begin, *parameter_end; /* value_begin NULL: key_end is that too */
    bool attributes; /* behind key_end: string="true|false" and what else there is up to '>' */
    bool own_lines;  /* one line break behind value_begin and one before parameter_end are no part of the value */
};

/* The family's marks are { block_begin, call_begin } or { block_begin }. */
void serve_tagged_begin(struct serve_parser *p, bool block);
enum serve_step serve_tagged_step(struct serve_parser *p, const struct serve_tagged_style *style);

#endif
