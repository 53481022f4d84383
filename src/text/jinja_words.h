/* What string methods and filters share. All take and give STRs; what they give keeps the input's marks. */
#ifndef TEXT_JINJA_WORDS_H
#define TEXT_JINJA_WORDS_H

#include "text/jinja_run.h"

enum jinja_case { CASE_LOWER, CASE_UPPER, CASE_CAPITALIZE, CASE_TITLE, CASE_SWAP };
struct jinja_value jinja_recase(struct jinja_run *r, struct jinja_value text, enum jinja_case to);
/* chars: STR; ABSENT or NONE: white space. */
struct jinja_value jinja_strip(struct jinja_run *r, struct jinja_value text, struct jinja_value chars, bool left,
                               bool right);
/* count < 0: all. */
struct jinja_value jinja_replace(struct jinja_run *r, struct jinja_value text, struct jinja_value from,
                                 struct jinja_value to, int64_t count);
struct jinja_value jinja_split_lines(struct jinja_run *r, struct jinja_value text, bool keep_ends); /* a list */
struct jinja_value jinja_pad(struct jinja_run *r, struct jinja_value text, int64_t width, uint32_t fill, char align);

/* Tables of methods, by who has them. */
const struct jinja_builtin *jinja_text_method_find(struct jinja_value name);

#endif
