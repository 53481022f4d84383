#include "text/utf8.h"

/* What the second byte may be after a lead byte; the length is 0 for bytes that begin no character. */
struct lead {
    unsigned length, second_min, second_max;
};

static struct lead lead_of(unsigned char b)
{
    if (b < 0x80) return (struct lead){1, 0, 0};
    if (b < 0xc2) return (struct lead){0, 0, 0};
    if (b < 0xe0) return (struct lead){2, 0x80, 0xbf};
    if (b == 0xe0) return (struct lead){3, 0xa0, 0xbf};
    if (b == 0xed) return (struct lead){3, 0x80, 0x9f};
    if (b < 0xf0) return (struct lead){3, 0x80, 0xbf};
    if (b == 0xf0) return (struct lead){4, 0x90, 0xbf};
    if (b < 0xf4) return (struct lead){4, 0x80, 0xbf};
    if (b == 0xf4) return (struct lead){4, 0x80, 0x8f};
    return (struct lead){0, 0, 0};
}

/* How many bytes of text fit the character that its first byte begins: at most its length; *length as lead_of. */
static size_t fitting(const char *text, size_t bytes, size_t *length)
{
    const unsigned char *b = (const unsigned char *)text;
    *length = 0;
    if (bytes == 0) return 0;
    struct lead l = lead_of(b[0]);
    *length = l.length;
    if (l.length < 2) return l.length;
    if (bytes < 2 || b[1] < l.second_min || b[1] > l.second_max) return 1;
    size_t n = 2;
    while (n < l.length && n < bytes && (b[n] & 0xc0) == 0x80) n++;
    return n;
}

size_t text_utf8_length(const char *text, size_t bytes)
{
    size_t length, fit = fitting(text, bytes, &length);
    return fit == length ? length : 0;
}

size_t text_utf8_valid_bytes(const char *text, size_t bytes)
{
    size_t at = 0;
    while (at < bytes) {
        size_t n = text_utf8_length(text + at, bytes - at);
        if (n == 0) break;
        at += n;
    }
    return at;
}

bool text_utf8_is_unfinished(const char *text, size_t bytes)
{
    size_t length, fit = fitting(text, bytes, &length);
    return bytes > 0 && fit == bytes && fit < length;
}

uint32_t text_utf8_code_point(const char *text)
{
    const unsigned char *b = (const unsigned char *)text;
    if (b[0] < 0x80) return b[0];
    if (b[0] < 0xe0) return (uint32_t)(b[0] & 0x1f) << 6 | (b[1] & 0x3f);
    if (b[0] < 0xf0) return (uint32_t)(b[0] & 0x0f) << 12 | (uint32_t)(b[1] & 0x3f) << 6 | (b[2] & 0x3f);
    return (uint32_t)(b[0] & 0x07) << 18 | (uint32_t)(b[1] & 0x3f) << 12 | (uint32_t)(b[2] & 0x3f) << 6 | (b[3] & 0x3f);
}

size_t text_utf8_put_short(uint32_t c, char *out)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    out[0] = (char)(0xc0 | c >> 6);
    out[1] = (char)(0x80 | (c & 0x3f));
    return 2;
}
