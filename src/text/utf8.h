/* UTF-8 as the Unicode standard defines it (table 3-7): no surrogates, nothing above U+10FFFF, no overlong forms. */
#ifndef TEXT_UTF8_H
#define TEXT_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Length of the valid character at the beginning of text[0, bytes), or 0 if there is none. */
size_t text_utf8_length(const char *text, size_t bytes);
/* The valid prefix of text, in bytes. */
size_t text_utf8_valid_bytes(const char *text, size_t bytes);
/* Whether text[0, bytes), 1 to 3 bytes, begins a valid character without finishing it. */
bool text_utf8_is_unfinished(const char *text, size_t bytes);
/* Code point of the valid character at text. */
uint32_t text_utf8_code_point(const char *text);
/* Writes c (below U+0800) and returns the number of bytes, 1 or 2. */
size_t text_utf8_put_short(uint32_t c, char *out);

#endif
