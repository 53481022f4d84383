/* A text that grows. Failure is sticky: when memory runs out, `failed` is set and what follows is dropped, so that a
 * writer looks once, at its end. */
#ifndef SERVE_BUFFER_H
#define SERVE_BUFFER_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct buffer {
    char *at; /* NUL-terminated once something was put in */
    size_t n, room;
    bool failed;
};

void buffer_put(struct buffer *b, const char *text, size_t bytes);
void buffer_word(struct buffer *b, const char *word);
void buffer_format(struct buffer *b, const char *format, ...) BASE_PRINTF(2, 3);
/* Takes the value; NULL: fails. Numbers have 15 digits at most, as 0.1 has, if that is enough for all of them. */
void buffer_json(struct buffer *b, json_t *value);
void buffer_cut(struct buffer *b, size_t bytes); /* drops the first bytes */
void buffer_free(struct buffer *b);

/* A JSON string of any bytes: what is not UTF-8 becomes U+FFFD. NULL: no memory. */
json_t *buffer_string(const char *text, size_t bytes);
/* json_dumps with buffer_json's numbers. */
char *buffer_dumped(const json_t *value, size_t flags);
/* A number as a float has it, by its shortest decimal: 0.8, not 0.80000001192092896. */
json_t *buffer_real(double value);

#endif
