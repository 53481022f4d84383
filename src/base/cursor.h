/* A bounded reader over bytes that came from outside. Every read checks the remaining length; after the first failure
 * the cursor stays failed and all further reads return zero, so a parser may check once after a group of reads.
 * Little-endian (GGUF's order) on every host. */
#ifndef BASE_CURSOR_H
#define BASE_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct base_cursor {
    const uint8_t *data;
    size_t bytes; /* length of data */
    size_t at;    /* offset of the next byte; <= bytes */
    bool failed;  /* a read went past the end */
};

void base_cursor_init(struct base_cursor *c, const void *data, size_t bytes);
size_t base_cursor_left(const struct base_cursor *c);
uint8_t base_cursor_u8(struct base_cursor *c);
uint16_t base_cursor_u16(struct base_cursor *c);
uint32_t base_cursor_u32(struct base_cursor *c);
uint64_t base_cursor_u64(struct base_cursor *c);
float base_cursor_f32(struct base_cursor *c);
double base_cursor_f64(struct base_cursor *c);
/* A pointer to the next `bytes` bytes inside data, or NULL (and failed). */
const void *base_cursor_take(struct base_cursor *c, size_t bytes);

#endif
