/* A second opinion on JSON Schema: whether a document fits, and random documents that do. Written from the
 * specification, for the keywords that src/text knows, over jansson. */
#ifndef TEST_GRAMMAR_CHECK_H
#define TEST_GRAMMAR_CHECK_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool check_fits(const json_t *root, const json_t *schema, const json_t *value);

uint32_t check_random(uint32_t below);

struct check_text {
    char *at;
    size_t n, room;
};
/* Appends a random document as answers may be written: properties in order, white space of every allowed kind. */
void check_invent(const json_t *root, const json_t *schema, struct check_text *out);

#endif
