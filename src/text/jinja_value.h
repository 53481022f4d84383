/* Values of a template: Python's, as far as templates see them. A value is passed around by copy; texts, lists and
 * dicts live in the rendering's arena and are shared. */
#ifndef TEXT_JINJA_VALUE_H
#define TEXT_JINJA_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum jinja_kind {
    JINJA_ABSENT, /* an argument that was not given; never seen by a template */
    JINJA_UNDEFINED,
    JINJA_NONE,
    JINJA_BOOL,
    JINJA_INT,
    JINJA_FLOAT,
    JINJA_STR,
    JINJA_LIST,
    JINJA_TUPLE,
    JINJA_DICT,
    JINJA_RANGE,
    JINJA_VIEW, /* what keys(), values() and items() give: has a length, but no items by index */
    JINJA_ITER, /* what map, select, ... give: can be gone through once, has no length and is always true */
    JINJA_NAMESPACE,
    JINJA_LOOP,
    JINJA_MACRO,
    JINJA_BUILTIN, /* a function */
    JINJA_METHOD,  /* a function of one value */
    JINJA_CYCLER,
    JINJA_JOINER,
};

struct jinja_value {
    uint8_t kind;   /* enum jinja_kind */
    bool safe;      /* STR: markup, which escapes what is added to it */
    uint32_t bytes; /* STR */
    union {
        bool truth;
        int64_t whole;
        double real;
        const char *text;                    /* STR: not terminated */
        struct jinja_list *list;             /* LIST, TUPLE, VIEW, ITER, CYCLER, JOINER */
        struct jinja_dict *dict;             /* DICT, NAMESPACE */
        const struct jinja_missing *missing; /* UNDEFINED; NULL: nothing is known about it */
        const struct jinja_range *range;
        struct jinja_loop *loop;
        const struct jinja_macro *macro;
        const struct jinja_builtin *builtin;
        const struct jinja_method *method;
    };
};

struct jinja_list {
    struct jinja_value *at;
    size_t n, room;
    size_t next;      /* ITER: how many were taken; CYCLER: the current one; JOINER: whether it was called */
    const char *name; /* VIEW: "dict_items"; TUPLE: "group" if its items are .grouper and .list */
};

struct jinja_entry {
    struct jinja_value key, value;
    uint64_t hash;
};

/* Entries in the order of insertion, and a table of their numbers + 1 once there are more than a few. */
struct jinja_dict {
    struct jinja_entry *at;
    size_t n, room;
    uint32_t *table;
    size_t table_room; /* a power of two, or 0 */
};

/* Why there is nothing. */
struct jinja_missing {
    const char *text; /* a whole sentence, or NULL, then: */
    uint8_t of;       /* kind of the value that was asked, JINJA_ABSENT for a variable */
    struct jinja_value name;
};

struct jinja_range {
    int64_t start, stop, step;
    size_t n;
};

/* What goes through items: the loop variable of a template. */
struct jinja_loop {
    const struct jinja_value *at;
    size_t n, index;
    uint32_t depth;
    struct jinja_value last_changed; /* of loop.changed(); ABSENT at first */
};

static inline struct jinja_value jinja_undefined(void) { return (struct jinja_value){.kind = JINJA_UNDEFINED}; }
static inline struct jinja_value jinja_none(void) { return (struct jinja_value){.kind = JINJA_NONE}; }
static inline struct jinja_value jinja_bool(bool b) { return (struct jinja_value){.kind = JINJA_BOOL, .truth = b}; }
static inline struct jinja_value jinja_int(int64_t i) { return (struct jinja_value){.kind = JINJA_INT, .whole = i}; }
static inline struct jinja_value jinja_float(double d) { return (struct jinja_value){.kind = JINJA_FLOAT, .real = d}; }
/* text: lives as long as the value. */
static inline struct jinja_value jinja_text(const char *text, size_t bytes)
{
    return (struct jinja_value){.kind = JINJA_STR, .bytes = (uint32_t)bytes, .text = text};
}
static inline bool jinja_is(struct jinja_value v, enum jinja_kind kind) { return v.kind == kind; }
/* INT or BOOL, which Python counts among them. */
static inline bool jinja_is_whole(struct jinja_value v) { return v.kind == JINJA_INT || v.kind == JINJA_BOOL; }
static inline bool jinja_is_number(struct jinja_value v) { return jinja_is_whole(v) || v.kind == JINJA_FLOAT; }
static inline int64_t jinja_whole(struct jinja_value v) { return v.kind == JINJA_BOOL ? v.truth : v.whole; }
static inline double jinja_real(struct jinja_value v)
{
    return v.kind == JINJA_FLOAT ? v.real : (double)jinja_whole(v);
}
static inline bool jinja_is_list(struct jinja_value v) { return v.kind == JINJA_LIST || v.kind == JINJA_TUPLE; }

const char *jinja_kind_name(enum jinja_kind kind);          /* as Python's messages have it: "str", "dict" */
bool jinja_text_is(struct jinja_value v, const char *word); /* a STR with these bytes */

#endif
