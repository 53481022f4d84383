#include "serve/buffer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool reserve(struct buffer *b, size_t more)
{
    if (b->failed) return false;
    if (b->n + more + 1 <= b->room) return true;
    size_t room = b->room ? b->room : 256;
    while (room < b->n + more + 1) room *= 2;
    char *grown = realloc(b->at, room);
    if (!grown) {
        b->failed = true;
        return false;
    }
    b->at = grown;
    b->room = room;
    return true;
}

void buffer_put(struct buffer *b, const char *text, size_t bytes)
{
    if (!reserve(b, bytes)) return;
    if (bytes) memcpy(b->at + b->n, text, bytes);
    b->n += bytes;
    b->at[b->n] = '\0';
}

void buffer_word(struct buffer *b, const char *word) { buffer_put(b, word, strlen(word)); }

void buffer_format(struct buffer *b, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    if (n < 0) b->failed = true;
    if (n >= 0 && reserve(b, (size_t)n)) {
        vsnprintf(b->at + b->n, (size_t)n + 1, format, again);
        b->n += (size_t)n;
    }
    va_end(again);
    va_end(args);
}

static int put_dumped(const char *text, size_t bytes, void *user)
{
    struct buffer *b = user;
    buffer_put(b, text, bytes);
    return b->failed ? -1 : 0;
}

/* Digits with which every number in it comes back as it is, at least `least`: with 17, which is always enough, 0.1
 * would be 0.10000000000000001. */
static unsigned digits_of(const json_t *value, unsigned least)
{
    char text[64];
    const char *key;
    json_t *inner;
    size_t i;
    json_array_foreach(value, i, inner) least = digits_of(inner, least);
    json_object_foreach((json_t *)value, key, inner) least = digits_of(inner, least);
    for (; json_is_real(value) && least < 17; least++) {
        snprintf(text, sizeof text, "%.*g", (int)least, json_real_value(value));
        if (strtod(text, NULL) == json_real_value(value)) break;
    }
    return least;
}

void buffer_json(struct buffer *b, json_t *value)
{
    const size_t how = JSON_COMPACT | JSON_ENCODE_ANY;
    if (!value || json_dump_callback(value, put_dumped, b, how | JSON_REAL_PRECISION(digits_of(value, 15))))
        b->failed = true;
    json_decref(value);
}

void buffer_cut(struct buffer *b, size_t bytes)
{
    b->n -= bytes;
    if (b->at) memmove(b->at, b->at + bytes, b->n + 1);
}

void buffer_free(struct buffer *b)
{
    free(b->at);
    *b = (struct buffer){.at = NULL};
}

char *buffer_dumped(const json_t *value, size_t flags)
{
    return json_dumps(value, flags | JSON_REAL_PRECISION(digits_of(value, 15)));
}

json_t *buffer_real(double value)
{
    char text[64];
    const float narrow = (float)value;
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)narrow);
        if (strtof(text, NULL) == narrow) break;
    }
    return json_real(strtod(text, NULL));
}

/* Length of the character at text, or 0 if there is none. */
static size_t character(const char *text, size_t left)
{
    const unsigned char *u = (const unsigned char *)text;
    if (u[0] < 0x80) return 1;
    const size_t n = u[0] >= 0xf0 && u[0] < 0xf5   ? 4
                     : u[0] >= 0xe0 && u[0] < 0xf0 ? 3
                     : u[0] >= 0xc2 && u[0] < 0xe0 ? 2
                                                   : 0;
    if (n == 0 || n > left) return 0;
    for (size_t i = 1; i < n; i++)
        if ((u[i] & 0xc0) != 0x80) return 0;
    if ((u[0] == 0xe0 && u[1] < 0xa0) || (u[0] == 0xed && u[1] > 0x9f)) return 0;
    if ((u[0] == 0xf0 && u[1] < 0x90) || (u[0] == 0xf4 && u[1] > 0x8f)) return 0;
    return n;
}

json_t *buffer_string(const char *text, size_t bytes)
{
    json_t *value = json_stringn(text ? text : "", bytes);
    if (value) return value;
    struct buffer b = {.at = NULL};
    for (size_t i = 0, n; i < bytes; i += n ? n : 1) {
        n = character(text + i, bytes - i);
        buffer_put(&b, n ? text + i : "\xef\xbf\xbd", n ? n : 3);
    }
    if (!b.failed) value = json_stringn(b.at, b.n);
    buffer_free(&b);
    return value;
}
