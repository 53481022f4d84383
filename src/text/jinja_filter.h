/* Filters that go through items, for the table in jinja_filter.c, and what both files share. */
#ifndef TEXT_JINJA_FILTER_H
#define TEXT_JINJA_FILTER_H

#include "text/jinja_call.h"

jinja_function jinja_do_batch, jinja_do_dictsort, jinja_do_first, jinja_do_groupby, jinja_do_join, jinja_do_last,
    jinja_do_list, jinja_do_map, jinja_do_max, jinja_do_min, jinja_do_reject, jinja_do_rejectattr, jinja_do_reverse,
    jinja_do_select, jinja_do_selectattr, jinja_do_slice, jinja_do_sort, jinja_do_sum, jinja_do_unique;

bool jinja_flag(struct jinja_value v, bool absent); /* an optional boolean */
/* An optional whole number; NONE is none. false: failed. */
bool jinja_optional_int(struct jinja_run *r, const struct jinja_call *c, struct jinja_value v, int64_t absent,
                        int64_t *out);

#endif
