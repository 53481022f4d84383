/* JSON, checked a byte at a time. */
#ifndef SERVE_TOOLCALL_JSON_H
#define SERVE_TOOLCALL_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SERVE_JSON_NEST_MAX 200 /* objects and arrays inside one another */

/* All zero: before a value. */
struct serve_json {
    uint8_t state, unicode; /* unicode: digits of \u that are still to come */
    uint16_t nest;
    const char *literal;                           /* what is still to come of true, false, null */
    uint8_t arrays[(SERVE_JSON_NEST_MAX + 7) / 8]; /* a bit a level: an array */
};

enum serve_json_step {
    SERVE_JSON_MORE,
    SERVE_JSON_WHOLE, /* the value ends with this byte */
    SERVE_JSON_PAST,  /* it ended before this byte (a number alone shows its end so late) */
    SERVE_JSON_BAD,   /* no JSON, or nested too deep */
};
/* Control characters inside strings, which JSON forbids and models write, are let through: escape them. */
enum serve_json_step serve_json_step(struct serve_json *j, unsigned char c);
bool serve_json_in_string(const struct serve_json *j);
/* A number may be whole at the end of the text. */
bool serve_json_may_end(const struct serve_json *j);

/* Writes c as it stands in a JSON string; returns the number of bytes, at most 6. */
size_t serve_json_escape(unsigned char c, char out[6]);

#endif
