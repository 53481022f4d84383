#include "base/cursor.h"

#include <string.h>

void base_cursor_init(struct base_cursor *c, const void *data, size_t bytes)
{
    *c = (struct base_cursor){.data = data, .bytes = bytes};
}

size_t base_cursor_left(const struct base_cursor *c) { return c->failed ? 0 : c->bytes - c->at; }

const void *base_cursor_take(struct base_cursor *c, size_t bytes)
{
    if (c->failed || bytes > c->bytes - c->at) {
        c->failed = true;
        return NULL;
    }
    const uint8_t *p = c->data + c->at;
    c->at += bytes;
    return p;
}

static uint64_t little(struct base_cursor *c, size_t bytes)
{
    const uint8_t *p = base_cursor_take(c, bytes);
    uint64_t v = 0;
    if (!p) return 0;
    for (size_t i = 0; i < bytes; i++) v |= (uint64_t)p[i] << (8 * i);
    return v;
}

uint8_t base_cursor_u8(struct base_cursor *c) { return (uint8_t)little(c, 1); }
uint16_t base_cursor_u16(struct base_cursor *c) { return (uint16_t)little(c, 2); }
uint32_t base_cursor_u32(struct base_cursor *c) { return (uint32_t)little(c, 4); }
uint64_t base_cursor_u64(struct base_cursor *c) { return little(c, 8); }

float base_cursor_f32(struct base_cursor *c)
{
    uint32_t bits = base_cursor_u32(c);
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

double base_cursor_f64(struct base_cursor *c)
{
    uint64_t bits = base_cursor_u64(c);
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}
