/* Which kinds of values a parameter may have, as far as a tool's schema says so plainly. */
#ifndef SERVE_TOOLCALL_KINDS_H
#define SERVE_TOOLCALL_KINDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum serve_kind {
    SERVE_KIND_STRING = 1,
    SERVE_KIND_INTEGER = 2,
    SERVE_KIND_NUMBER = 4,
    SERVE_KIND_BOOLEAN = 8,
    SERVE_KIND_NULL = 16,
    SERVE_KIND_OBJECT = 32,
    SERVE_KIND_ARRAY = 64,
    SERVE_KIND_ANY = 127,
};
/* Bits of enum serve_kind for parameters.properties[key]; ANY where nothing is said. */
uint32_t serve_kinds(const json_t *parameters, const char *key);
/* What text, as a model wrote it between tags, is as JSON: the text itself if it is JSON of such a kind (True, False
 * and None for true, false and null as well), else a string. Free with free(); NULL: no memory. */
char *serve_value_of(const char *text, size_t bytes, uint32_t kinds);

#endif
