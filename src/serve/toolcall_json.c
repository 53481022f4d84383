#include "serve/toolcall_json.h"

#include <string.h>

enum {
    VALUE,
    FIRST_ITEM, /* of an array, or its end */
    FIRST_KEY,  /* of an object, or its end */
    KEY,
    KEY_TEXT,
    KEY_ESCAPE,
    COLON,
    TEXT,
    ESCAPE,
    LITERAL,
    MINUS,
    ZERO,
    DIGITS,
    POINT,
    FRACTION,
    EXPONENT,
    EXPONENT_SIGN,
    EXPONENT_DIGITS,
    AFTER, /* a value inside another */
    END,
};

static bool is_blank(unsigned char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
static bool is_digit(unsigned char c) { return c >= '0' && c <= '9'; }

static enum serve_json_step go(struct serve_json *j, uint8_t state)
{
    j->state = state;
    return SERVE_JSON_MORE;
}

static bool in_array(const struct serve_json *j)
{
    const unsigned at = j->nest - 1u;
    return j->arrays[at / 8] >> at % 8 & 1;
}

static enum serve_json_step open(struct serve_json *j, bool array)
{
    if (j->nest == SERVE_JSON_NEST_MAX) return SERVE_JSON_BAD;
    const uint8_t bit = (uint8_t)(1u << j->nest % 8);
    if (array)
        j->arrays[j->nest / 8] |= bit;
    else
        j->arrays[j->nest / 8] &= (uint8_t)~bit;
    j->nest++;
    return go(j, array ? FIRST_ITEM : FIRST_KEY);
}

static enum serve_json_step value_ends(struct serve_json *j)
{
    j->state = j->nest ? AFTER : END;
    return j->nest ? SERVE_JSON_MORE : SERVE_JSON_WHOLE;
}

static enum serve_json_step close(struct serve_json *j)
{
    j->nest--;
    return value_ends(j);
}

static enum serve_json_step value(struct serve_json *j, unsigned char c)
{
    if (is_blank(c)) return SERVE_JSON_MORE;
    if (c == '{' || c == '[') return open(j, c == '[');
    if (c == '"') return go(j, TEXT);
    if (c == '-') return go(j, MINUS);
    if (is_digit(c)) return go(j, c == '0' ? ZERO : DIGITS);
    j->literal = c == 't' ? "rue" : c == 'f' ? "alse" : c == 'n' ? "ull" : NULL;
    return j->literal ? go(j, LITERAL) : SERVE_JSON_BAD;
}

static enum serve_json_step after(struct serve_json *j, unsigned char c)
{
    if (is_blank(c)) return SERVE_JSON_MORE;
    if (c == ',') return go(j, in_array(j) ? VALUE : KEY);
    return c == (in_array(j) ? ']' : '}') ? close(j) : SERVE_JSON_BAD;
}

static enum serve_json_step text(struct serve_json *j, unsigned char c, bool key)
{
    if (c == '\\') return go(j, key ? KEY_ESCAPE : ESCAPE);
    if (c != '"') return SERVE_JSON_MORE;
    return key ? go(j, COLON) : value_ends(j);
}

static enum serve_json_step escape(struct serve_json *j, unsigned char c, bool key)
{
    if (j->unicode) {
        if (!is_digit(c) && !((c | 32) >= 'a' && (c | 32) <= 'f')) return SERVE_JSON_BAD;
        if (--j->unicode) return SERVE_JSON_MORE;
    } else if (c == 'u') {
        j->unicode = 4;
        return SERVE_JSON_MORE;
    } else if (!c || !strchr("\"\\/bfnrt", c))
        return SERVE_JSON_BAD;
    return go(j, key ? KEY_TEXT : TEXT);
}

/* A byte that no number goes on with: it belongs to what is around. */
static enum serve_json_step number_ends(struct serve_json *j, unsigned char c)
{
    if (value_ends(j) == SERVE_JSON_WHOLE) return SERVE_JSON_PAST;
    return after(j, c);
}

static enum serve_json_step number(struct serve_json *j, unsigned char c)
{
    const bool digit = is_digit(c);
    switch (j->state) {
    case MINUS: return digit ? go(j, c == '0' ? ZERO : DIGITS) : SERVE_JSON_BAD;
    case POINT: return digit ? go(j, FRACTION) : SERVE_JSON_BAD;
    case EXPONENT:
        if (c == '+' || c == '-') return go(j, EXPONENT_SIGN);
        return digit ? go(j, EXPONENT_DIGITS) : SERVE_JSON_BAD;
    case EXPONENT_SIGN: return digit ? go(j, EXPONENT_DIGITS) : SERVE_JSON_BAD;
    default: break;
    }
    if (digit && j->state != ZERO) return SERVE_JSON_MORE;
    if (c == '.' && (j->state == ZERO || j->state == DIGITS)) return go(j, POINT);
    if ((c | 32) == 'e' && j->state != EXPONENT_DIGITS) return go(j, EXPONENT);
    return digit ? SERVE_JSON_BAD : number_ends(j, c);
}

enum serve_json_step serve_json_step(struct serve_json *j, unsigned char c)
{
    switch (j->state) {
    case VALUE: return value(j, c);
    case FIRST_ITEM: return c == ']' ? close(j) : value(j, c);
    case FIRST_KEY:
        if (c == '}') return close(j);
        /* fall through */
    case KEY: return is_blank(c) ? SERVE_JSON_MORE : c == '"' ? go(j, KEY_TEXT) : SERVE_JSON_BAD;
    case KEY_TEXT: return text(j, c, true);
    case KEY_ESCAPE: return escape(j, c, true);
    case COLON: return is_blank(c) ? SERVE_JSON_MORE : c == ':' ? go(j, VALUE) : SERVE_JSON_BAD;
    case TEXT: return text(j, c, false);
    case ESCAPE: return escape(j, c, false);
    case LITERAL:
        if (c != (unsigned char)*j->literal) return SERVE_JSON_BAD;
        return *++j->literal ? SERVE_JSON_MORE : value_ends(j);
    case AFTER: return after(j, c);
    case END: return is_blank(c) ? SERVE_JSON_PAST : SERVE_JSON_BAD;
    default: return number(j, c);
    }
}

bool serve_json_in_string(const struct serve_json *j) { return j->state == TEXT || j->state == KEY_TEXT; }

bool serve_json_may_end(const struct serve_json *j)
{
    return !j->nest && (j->state == END || j->state == ZERO || j->state == DIGITS || j->state == FRACTION ||
                        j->state == EXPONENT_DIGITS);
}

size_t serve_json_escape(unsigned char c, char out[6])
{
    static const char plain[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    static const char hex[] = "0123456789abcdef";
    for (size_t i = 0; plain[i]; i += 2)
        if (c == (unsigned char)plain[i]) {
            out[0] = '\\';
            out[1] = plain[i + 1];
            return 2;
        }
    if (c >= 0x20) {
        out[0] = (char)c;
        return 1;
    }
    memcpy(out, "\\u00", 4);
    out[4] = hex[c >> 4];
    out[5] = hex[c & 15];
    return 6;
}
