/* A template's text cut into tokens, white space around tags already taken off. */
#ifndef TEXT_JINJA_LEX_H
#define TEXT_JINJA_LEX_H

#include "text/jinja_template.h"

enum jinja_token_kind {
    TOKEN_END,
    TOKEN_TEXT,       /* value: outside of tags */
    TOKEN_OUTPUT,     /* {{ */
    TOKEN_OUTPUT_END, /* }} */
    TOKEN_BLOCK,      /* {% */
    TOKEN_BLOCK_END,  /* %} */
    TOKEN_NAME,       /* value */
    TOKEN_STRING,     /* value: escapes resolved */
    TOKEN_NUMBER,     /* value: INT or FLOAT */
    TOKEN_SIGN,       /* sign */
};

/* Signs of one or two characters as one number. */
#define JINJA_SIGN(a, b) ((uint16_t)((a) | (b) << 8))

struct jinja_token {
    uint8_t kind;
    uint16_t sign;
    uint32_t at; /* offset in the template */
    struct jinja_value value;
};

struct jinja_tokens {
    struct jinja_token *at; /* ends with TOKEN_END; malloc'ed, the caller frees it */
    size_t n, room;
};

/* White space as chat templates expect it: the newline behind a block or comment tag is dropped (trim_blocks), and so
 * are blanks before one at the beginning of a line (lstrip_blocks); '-' in a tag takes all white space on its side, '+'
 * none. New texts go to t->arena. */
enum sluice_status jinja_lex(struct jinja_template *t, struct jinja_tokens *out, struct sluice_error *err);

#endif
