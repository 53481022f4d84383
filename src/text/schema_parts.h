/* Automata that every schema is made of: white space, strings, numbers, any value. */
#ifndef TEXT_SCHEMA_PARTS_H
#define TEXT_SCHEMA_PARTS_H

#include "text/grammar_automaton.h"
#include "text/schema_json.h"

/* The rules that schema_parts makes, by their ids: the same in every automaton, and so are their states. */
enum schema_part {
    PART_SPACE,  /* "", one space, or one or two line breaks and blanks */
    PART_STRING, /* any */
    PART_INTEGER,
    PART_NUMBER,
    PART_VALUE, /* any */
    PART_OBJECT,
    PART_ARRAY,
    PART_COUNT,
};
void schema_parts(struct automaton *a);

/* Edges for one character of a string from `from` to `to`; `flags` go on the first byte's. `shortest`: of escapes only
 * two-byte ones, and no \/. */
void schema_characters(struct automaton *a, uint32_t rule, uint32_t from, uint32_t to, unsigned flags, bool shortest);
/* A rule: whole numbers from `least` to `most`, both of SCHEMA_DIGITS_MAX digits at most, without a needless zero or
 * sign. */
uint32_t schema_integers(struct automaton *a, int64_t least, int64_t most);
/* White space from a state to a fresh one; a byte with white space behind it. */
uint32_t schema_space(struct automaton *a, uint32_t from);
uint32_t schema_mark(struct automaton *a, uint32_t from, char byte);
/* A string's bytes as they stand between the quotes, escapes in their shortest form. out: 6 times the bytes. */
size_t schema_escape(const char *text, size_t bytes, char *out);
/* A path for a JSON value, exactly it, with white space as usual in objects and arrays; returns its end. */
uint32_t schema_literal(struct automaton *a, uint32_t from, const struct schema_tree *t, uint32_t value);

#endif
