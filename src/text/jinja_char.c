#include "text/jinja_char.h"

#include "text/utf8.h"

uint32_t jinja_char_next(const char *text, size_t bytes, size_t *at)
{
    unsigned char first = (unsigned char)text[*at];
    if (first < 0x80) {
        *at += 1;
        return first;
    }
    size_t n = text_utf8_length(text + *at, bytes - *at);
    uint32_t c = n ? text_utf8_code_point(text + *at) : JINJA_CHAR_STRAY + first;
    *at += n ? n : 1;
    return c;
}

uint32_t jinja_char_previous(const char *text, size_t *at)
{
    for (size_t n = 1; n <= 4 && n <= *at; n++) {
        const char *begin = text + *at - n;
        if (text_utf8_length(begin, n) != n) continue;
        *at -= n;
        return text_utf8_code_point(begin);
    }
    *at -= 1;
    return JINJA_CHAR_STRAY + (unsigned char)text[*at];
}

size_t jinja_char_put(uint32_t c, char out[4])
{
    if (c < 0x800) return text_utf8_put_short(c, out);
    if (c >= JINJA_CHAR_STRAY + 0x80 && c < JINJA_CHAR_STRAY + 0x100) {
        out[0] = (char)(c - JINJA_CHAR_STRAY);
        return 1;
    }
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) c = 0xfffd;
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

size_t jinja_char_count(const char *text, size_t bytes)
{
    size_t n = 0;
    for (size_t at = 0; at < bytes; n++) jinja_char_next(text, bytes, &at);
    return n;
}

size_t jinja_char_offset(const char *text, size_t bytes, size_t n)
{
    size_t at = 0;
    while (n-- > 0 && at < bytes) jinja_char_next(text, bytes, &at);
    return at;
}

bool jinja_char_is_space(uint32_t c)
{
    if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f);
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
           c == 0x202f || c == 0x205f || c == 0x3000;
}

bool jinja_char_is_printable(uint32_t c)
{
    static const struct {
        uint32_t first, last;
    } hidden[] = {/* controls, separators, formats, surrogates, private use */
                  {0, 0x1f},          {0x7f, 0xa0},     {0xad, 0xad},       {0x600, 0x605},     {0x61c, 0x61c},
                  {0x6dd, 0x6dd},     {0x70f, 0x70f},   {0x180e, 0x180e},   {0x1680, 0x1680},   {0x2000, 0x200f},
                  {0x2028, 0x202f},   {0x205f, 0x206f}, {0x3000, 0x3000},   {0xd800, 0xf8ff},   {0xfeff, 0xfeff},
                  {0xfff0, 0xfffb},   {0xfffe, 0xffff}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe00ff},
                  {0xe01f0, 0x10ffff}};
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++)
        if (c >= hidden[i].first && c <= hidden[i].last) return false;
    return true;
}

bool jinja_char_is_alpha(uint32_t c)
{
    if (c < 0x80) return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (c < 0xc0) return c == 0xaa || c == 0xb5 || c == 0xba;
    if (c == 0xd7 || c == 0xf7) return false;
    if (c >= 0x2000 && c < 0x2c00) return c == 0x2071 || c == 0x207f || (c >= 0x2090 && c <= 0x209c);
    if (c >= 0x3000 && c < 0x3041) return c == 0x3005 || c == 0x3006 || (c >= 0x3031 && c <= 0x3035);
    if (c >= 0xd800 && c < 0xf900) return false;
    if (c >= 0xfe00 && c < 0xfe70) return false;
    if (c >= 0xff00 && c < 0xff21) return false;
    return c < 0x1f000 || (c >= 0x20000 && c < 0xe0000);
}

/* Blocks in which a capital and its small letter stand side by side: those where the capital is even, those where it is
 * odd. */
static bool is_paired(uint32_t c, bool *even)
{
    *even = true;
    if ((c >= 0x100 && c <= 0x137 && c != 0x130 && c != 0x131) || (c >= 0x14a && c <= 0x177) ||
        (c >= 0x460 && c <= 0x481) || (c >= 0x48a && c <= 0x4bf) || (c >= 0x4d0 && c <= 0x52f) ||
        (c >= 0x1e00 && c <= 0x1e95) || (c >= 0x1ea0 && c <= 0x1eff))
        return true;
    *even = false;
    return (c >= 0x139 && c <= 0x148) || (c >= 0x179 && c <= 0x17e) || (c >= 0x4c1 && c <= 0x4ce);
}

struct shift {
    uint32_t first, last; /* capitals */
    int32_t by;           /* to the small letter */
};

static const struct shift shifts[] = {
    {'A', 'Z', 32},     {0xc0, 0xd6, 32},   {0xd8, 0xde, 32},     {0x178, 0x178, -121},
    {0x386, 0x386, 38}, {0x388, 0x38a, 37}, {0x38c, 0x38c, 64},   {0x38e, 0x38f, 63},
    {0x391, 0x3a1, 32}, {0x3a3, 0x3ab, 32}, {0x400, 0x40f, 80},   {0x410, 0x42f, 32},
    {0x4c0, 0x4c0, 15}, {0x531, 0x556, 48}, {0xff21, 0xff3a, 32}, {0x1e9e, 0x1e9e, -7615}};

uint32_t jinja_char_lower(uint32_t c)
{
    for (size_t i = 0; i < sizeof shifts / sizeof *shifts; i++)
        if (c >= shifts[i].first && c <= shifts[i].last) return (uint32_t)((int32_t)c + shifts[i].by);
    bool even;
    return is_paired(c, &even) && (c % 2 == 0) == even ? c + 1 : c;
}

uint32_t jinja_char_upper(uint32_t c)
{
    if (c == 0xb5) return 0x39c;
    if (c == 0x131) return 'I';
    if (c == 0x17f) return 'S';
    if (c == 0x3c2) return 0x3a3;
    for (size_t i = 0; i + 1 < sizeof shifts / sizeof *shifts; i++) { /* the last one is ss, which has no one capital */
        uint32_t capital = (uint32_t)((int32_t)c - shifts[i].by);
        if (capital >= shifts[i].first && capital <= shifts[i].last) return capital;
    }
    bool even;
    return is_paired(c, &even) && (c % 2 == 0) != even ? c - 1 : c;
}
