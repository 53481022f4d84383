/* A parsed template: one kind of node, whose fields mean what the list says. Nodes are never changed after parsing. */
#ifndef TEXT_JINJA_NODE_H
#define TEXT_JINJA_NODE_H

#include "text/jinja_value.h"

enum jinja_node_kind {
    /* Expressions */
    NODE_CONST,  /* value */
    NODE_NAME,   /* id */
    NODE_INPUT,  /* what a filter block or a set block captured */
    NODE_LIST,   /* a: items by next */
    NODE_TUPLE,  /* a: items by next */
    NODE_DICT,   /* a: keys by next; each key's value is its own `b` */
    NODE_ENTRY,  /* a: key, b: value */
    NODE_NEGATE, /* a */
    NODE_PLUS,   /* a */
    NODE_NOT,    /* a */
    NODE_ADD,    /* a, b; so are the next six */
    NODE_SUBTRACT,
    NODE_MULTIPLY,
    NODE_DIVIDE,
    NODE_FLOOR,
    NODE_MODULO,
    NODE_POWER,
    NODE_CONCAT,  /* a: operands by next */
    NODE_AND,     /* a, b */
    NODE_OR,      /* a, b */
    NODE_COMPARE, /* a; b: NODE_OPERANDs by next */
    NODE_OPERAND, /* op: enum jinja_comparison; a */
    NODE_COND,    /* a if b else c (may be NULL) */
    NODE_ATTR,    /* a.value */
    NODE_ITEM,    /* a[b] */
    NODE_SLICE,   /* a[b:c:d], each may be NULL but a */
    NODE_CALL,    /* a(b: NODE_ARGs by next) */
    NODE_ARG,     /* op: enum jinja_arg_kind; a; value: its name */
    NODE_FILTER,  /* a|value(b); builtin NULL: unknown */
    NODE_TEST,    /* a is value(b); builtin NULL: unknown */
    /* Statements */
    NODE_TEXT,      /* value */
    NODE_OUTPUT,    /* a */
    NODE_IF,        /* a: condition, b: body, c: else; op: 1 for elif, which is its if's else */
    NODE_FOR,       /* a: target, b: of what, c: body, d: else, e: condition or NULL */
    NODE_SET,       /* a: target, b: value */
    NODE_SET_BLOCK, /* a: target, b: NODE_INPUT or filters of it, c: body */
    NODE_MACRO,     /* id, value: name; a: NODE_PARAMs by next; c: body */
    NODE_PARAM,     /* id, value: name; a: default or NULL */
    NODE_CALLER,    /* a: NODE_CALL, b: NODE_MACRO */
    NODE_CAPTURE,   /* filter block; b: filters of NODE_INPUT, c: body */
    NODE_WITH,      /* a: NODE_SETs by next, c: body */
    NODE_BREAK,
    NODE_CONTINUE,
    NODE_TARGET_ATTR, /* id: of the namespace; value: attribute */
};

enum jinja_comparison {
    COMPARE_EQ,
    COMPARE_NE,
    COMPARE_LT,
    COMPARE_LE,
    COMPARE_GT,
    COMPARE_GE,
    COMPARE_IN,
    COMPARE_NOT_IN
};
enum jinja_arg_kind { ARG_PLAIN, ARG_NAMED, ARG_LIST, ARG_DICT };

struct jinja_node {
    uint8_t kind, op;
    uint32_t at; /* offset in the template */
    uint32_t id; /* of a name */
    struct jinja_node *a, *b, *c, *d, *e, *next;
    struct jinja_value value;
    const struct jinja_builtin *builtin;
};

#endif
