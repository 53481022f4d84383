/* One rendering under way: its memory, limits, output and the first thing that went wrong.
 *
 * Failure is sticky: whoever finds a fault calls jinja_fail, which keeps the first one, and returns undefined (or
 * false, or NULL). Everybody goes on with harmless values; loops stop when jinja_failed. So no function needs to pass
 * a status on, and none may follow a pointer that a constructor gave without looking at it. */
#ifndef TEXT_JINJA_RUN_H
#define TEXT_JINJA_RUN_H

#include "base/error.h"
#include "text/jinja.h"
#include "text/jinja_arena.h"
#include "text/jinja_value.h"

#define JINJA_RANGE_MAX 100000          /* items of a range(), as in Jinja's sandbox */
#define JINJA_TEXT_BYTES_MAX 0x7fffffff /* of one text */
#define JINJA_PARAMS_MAX 8              /* parameters of a builtin */

struct jinja_scope;

struct jinja_run {
    const struct jinja_template *t;
    struct jinja_limits limits;
    const struct jinja_time *now;
    struct jinja_arena arena;
    uint64_t steps;
    uint32_t depth;
    /* Of the names; n_names if the template does not use one. */
    uint32_t loop_id, caller_id, varargs_id, kwargs_id;
    uint32_t at;                 /* offset in the template of what is being evaluated */
    struct jinja_value captured; /* what a filter block works on */
    struct jinja_scope *scope;
    /* Output. A macro or a block that is captured writes behind what is there and takes it off again. */
    struct text_rendered out;
    size_t out_room, said_room;
    enum sluice_status status;
    struct sluice_error *err;
};

static inline bool jinja_failed(const struct jinja_run *r) { return r->status != SLUICE_OK; }
/* Returns undefined, for `return jinja_fail(...)`. */
struct jinja_value jinja_fail(struct jinja_run *r, const char *format, ...) BASE_PRINTF(2, 3);
void jinja_fail_memory(struct jinja_run *r); /* after the arena gave NULL */
/* Before something is made n times: fails at once where the memory's limit could not hold it. */
bool jinja_can_hold(struct jinja_run *r, int64_t n, size_t bytes);
void jinja_charge(struct jinja_run *r, uint64_t steps);
static inline void jinja_charge_bytes(struct jinja_run *r, size_t bytes) { jinja_charge(r, bytes / 64 + 1); }
/* Between every two calls that can nest. false: too deep (or failed already); then do not leave. */
bool jinja_enter(struct jinja_run *r);
static inline void jinja_leave(struct jinja_run *r) { r->depth--; }

void jinja_write(struct jinja_run *r, struct jinja_value text);          /* a STR to the output */
struct jinja_value jinja_take_written(struct jinja_run *r, size_t from); /* what was written since, as a STR */

/* A text under construction, in the arena. */
struct jinja_build {
    struct jinja_run *r;
    char *at;
    size_t n, room;
};
void jinja_put(struct jinja_build *b, const char *text, size_t bytes); /* with its marks */
void jinja_put_word(struct jinja_build *b, const char *word);
void jinja_put_char(struct jinja_build *b, uint32_t c);
void jinja_put_str(struct jinja_build *b, struct jinja_value text); /* a STR */
struct jinja_value jinja_built(struct jinja_build *b);
struct jinja_value jinja_slice_text(struct jinja_value text, size_t begin, size_t end); /* a piece of a STR, in bytes */
struct jinja_value jinja_copy_text(struct jinja_run *r, const char *text, size_t bytes);
struct jinja_value jinja_as_safe(struct jinja_value text, bool safe);
struct jinja_value jinja_escape(struct jinja_run *r, struct jinja_value text); /* for HTML; markup stays as it is */

/* Lists and dicts (jinja_list.c). Constructors give undefined when memory runs out. */
struct jinja_value jinja_list_new(struct jinja_run *r, enum jinja_kind kind, size_t room);
void jinja_list_add(struct jinja_run *r, struct jinja_value list, struct jinja_value item);
struct jinja_value jinja_pair(struct jinja_run *r, struct jinja_value a, struct jinja_value b); /* a tuple */
struct jinja_value jinja_dict_new(struct jinja_run *r, enum jinja_kind kind);
void jinja_dict_set(struct jinja_run *r, struct jinja_dict *d, struct jinja_value key, struct jinja_value value);
struct jinja_value *jinja_dict_find(struct jinja_run *r, const struct jinja_dict *d, struct jinja_value key);
struct jinja_value *jinja_dict_find_word(struct jinja_run *r, const struct jinja_dict *d, const char *word);
bool jinja_dict_remove(struct jinja_run *r, struct jinja_dict *d, struct jinja_value key, struct jinja_value *out);
/* The items of anything that can be gone through; fails otherwise. They stay readable whatever happens to the list. */
struct jinja_items {
    const struct jinja_value *at;
    size_t n;
};
struct jinja_items jinja_items_of(struct jinja_run *r, struct jinja_value v);
bool jinja_is_iterable(struct jinja_value v);
/* Number of items or characters; false if it has none. */
bool jinja_length(struct jinja_run *r, struct jinja_value v, size_t *n);
struct jinja_value jinja_range_new(struct jinja_run *r, int64_t start, int64_t stop, int64_t step);

/* Judging (jinja_compare.c). */
bool jinja_truth(struct jinja_value v);
bool jinja_equal(struct jinja_run *r, struct jinja_value a, struct jinja_value b);
int jinja_order(struct jinja_run *r, struct jinja_value a, struct jinja_value b, const char *sign); /* -1, 0, 1 */
bool jinja_contains(struct jinja_run *r, struct jinja_value all, struct jinja_value one);
bool jinja_hash(struct jinja_run *r, struct jinja_value v, uint64_t *hash); /* false: fails, not hashable */
/* Sorts in place, stably, by keys[i] (which are sorted along). */
void jinja_sort(struct jinja_run *r, struct jinja_value *items, struct jinja_value *keys, size_t n, bool reverse);

/* Showing (jinja_show.c). */
struct jinja_value jinja_str(struct jinja_run *r, struct jinja_value v); /* str(v), a STR */
void jinja_show(struct jinja_build *b, struct jinja_value v);            /* str(v) */
void jinja_show_repr(struct jinja_build *b, struct jinja_value v);       /* repr(v) */

/* Numbers (jinja_number.c): the same whatever the locale. */
#define JINJA_NUMBER_BYTES_MAX 400
size_t jinja_number_show(double d, char out[JINJA_NUMBER_BYTES_MAX]);      /* repr() of a float */
bool jinja_number_read_float(const char *text, size_t bytes, double *out); /* the whole text; decimal, inf, nan */
bool jinja_number_read_int(const char *text, size_t bytes, int base, int64_t *out);
/* As %.*f, %.*e or %.*g. */
size_t jinja_number_format(double d, char style, int digits, bool alternate, char out[JINJA_NUMBER_BYTES_MAX]);
double jinja_number_round(double d, int digits); /* to the nearest, ties to even, as Python's round() */

/* Fails: what `v` stands for is missing. */
struct jinja_value jinja_fail_missing(struct jinja_run *r, struct jinja_value v);
struct jinja_value jinja_missing_new(struct jinja_run *r, enum jinja_kind of, struct jinja_value name);
struct jinja_value jinja_missing_text(struct jinja_run *r, const char *text); /* text: a constant */

#endif
