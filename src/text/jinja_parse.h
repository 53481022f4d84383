/* Tokens to nodes: statements in jinja_parse.c, expressions in jinja_parse_expr.c. Failure is sticky: after the first
 * one the parser sees nothing but the end, and what it returns is not used. */
#ifndef TEXT_JINJA_PARSE_H
#define TEXT_JINJA_PARSE_H

#include "text/jinja_lex.h"

struct jinja_parser {
    struct jinja_template *t;
    const struct jinja_token *token; /* the current one */
    uint32_t depth, loops;           /* loops: around the current statement, inside one macro */
    uint32_t *table;                 /* names by hash: id + 1 */
    size_t table_room, names_room;
    struct jinja_node broken; /* what is returned in place of a node that there is no memory for */
    struct jinja_token end;
    enum sluice_status status;
    struct sluice_error *err;
};

void jinja_parse_fail(struct jinja_parser *p, const struct jinja_token *at, const char *format, ...) BASE_PRINTF(3, 4);
/* "expected 'x', got 'y'" */
void jinja_parse_expected(struct jinja_parser *p, const char *what);
struct jinja_node *jinja_node_new(struct jinja_parser *p, enum jinja_node_kind kind, const struct jinja_token *at);
uint32_t jinja_parse_id(struct jinja_parser *p, struct jinja_value name);
bool jinja_parse_enter(struct jinja_parser *p); /* false: too deep */

bool jinja_at_sign(const struct jinja_parser *p, uint16_t sign);
bool jinja_at_word(const struct jinja_parser *p, const char *word);
bool jinja_skip_sign(struct jinja_parser *p, uint16_t sign); /* whether it was there */
bool jinja_skip_word(struct jinja_parser *p, const char *word);
void jinja_want_sign(struct jinja_parser *p, char sign);
void jinja_next_token(struct jinja_parser *p);

/* One expression; a tuple without brackets. `conditional`: with `x if y else z`. */
struct jinja_node *jinja_parse_expression(struct jinja_parser *p, bool conditional);
struct jinja_node *jinja_parse_tuple(struct jinja_parser *p, bool conditional);
/* "(a, b=1)": NODE_ARGs. */
struct jinja_node *jinja_parse_args(struct jinja_parser *p);
/* "|a|b(1)" applied to `input`; `begun`: the first '|' is left out. */
struct jinja_node *jinja_parse_filters(struct jinja_parser *p, struct jinja_node *input, bool begun);

#endif
