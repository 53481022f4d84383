/* Characters as Python's str has them: code points. A byte that is not part of valid UTF-8 counts as one character and
 * is kept as it is. */
#ifndef TEXT_JINJA_CHAR_H
#define TEXT_JINJA_CHAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JINJA_CHAR_STRAY 0xdc00u /* added to a stray byte: what Python calls surrogateescape */

/* The character at text[*at], *at < bytes; moves *at behind it. */
uint32_t jinja_char_next(const char *text, size_t bytes, size_t *at);
/* The character that ends at text[*at], *at > 0; moves *at to its beginning. */
uint32_t jinja_char_previous(const char *text, size_t *at);
size_t jinja_char_put(uint32_t c, char out[4]); /* bytes written */
size_t jinja_char_count(const char *text, size_t bytes);
/* Where character number n begins; bytes if there are not so many. */
size_t jinja_char_offset(const char *text, size_t bytes, size_t n);

bool jinja_char_is_space(uint32_t c);
bool jinja_char_is_printable(uint32_t c); /* what repr() leaves as it is */
bool jinja_char_is_alpha(uint32_t c);     /* beyond Latin, Greek and Cyrillic: a guess by block */
/* One to one, for Latin, Greek, Cyrillic, Armenian and full-width letters; others have no case here. */
uint32_t jinja_char_lower(uint32_t c);
uint32_t jinja_char_upper(uint32_t c);

#endif
