/* Numbers to text and back. The C library's own conversions are exact, but write and expect the decimal point of the
 * locale; so digits are taken without a point ("12345e-3"), which every locale reads. */
#include "text/jinja_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS_MAX 17 /* enough to tell any two doubles apart */

/* The locale's decimal point, of whatever length, becomes '.'. Returns the length. */
static size_t fix_point(char *out)
{
    size_t to = 0;
    bool point = false;
    for (size_t i = 0; out[i]; i++) {
        bool plain = (out[i] >= '0' && out[i] <= '9') || strchr("+-eE", out[i]);
        if (plain) {
            out[to++] = out[i];
        } else if (!point) {
            out[to++] = '.';
            point = true;
        }
    }
    out[to] = '\0';
    return to;
}

/* Significant digits of a finite d > 0: as few as bring back d. Its value is 0.DIGITS times ten to the *point. */
static size_t shortest_digits(double d, char digits[DIGITS_MAX + 1], int *point)
{
    for (int n = 1;; n++) {
        char text[64];
        snprintf(text, sizeof text, "%.*e", n - 1, d);
        const char *e = strchr(text, 'e');
        int exponent = atoi(e + 1);
        size_t m = 0;
        for (const char *p = text; p < e && m < DIGITS_MAX; p++)
            if (*p >= '0' && *p <= '9') digits[m++] = *p;
        digits[m] = '\0';
        char again[64];
        snprintf(again, sizeof again, "%se%d", digits, exponent - (int)m + 1);
        if (n < DIGITS_MAX && strtod(again, NULL) != d) continue;
        while (m > 1 && digits[m - 1] == '0') m--;
        *point = exponent + 1;
        return m;
    }
}

static size_t show_special(double d, char *out)
{
    const char *word = isnan(d) ? "nan" : d < 0 ? "-inf" : "inf";
    strcpy(out, word);
    return strlen(word);
}

size_t jinja_number_show(double d, char out[JINJA_NUMBER_BYTES_MAX])
{
    if (!isfinite(d)) return show_special(d, out);
    char digits[DIGITS_MAX + 1] = "0", *p = out;
    int point = 1;
    size_t n = d == 0 ? 1 : shortest_digits(fabs(d), digits, &point);
    if (signbit(d)) *p++ = '-';
    if (point > 16 || point < -3) {
        *p++ = digits[0];
        if (n > 1) *p++ = '.';
        memcpy(p, digits + 1, n - 1);
        p += n - 1;
        return (size_t)(p - out) + (size_t)sprintf(p, "e%c%02d", point > 0 ? '+' : '-', abs(point - 1));
    }
    if (point <= 0) *p++ = '0';
    for (int i = 0; i < point; i++) *p++ = i < (int)n ? digits[i] : '0';
    *p++ = '.';
    for (int i = point; i < 0; i++) *p++ = '0';
    for (int i = point > 0 ? point : 0; i < (int)n; i++) *p++ = digits[i];
    if (point >= (int)n) *p++ = '0';
    *p = '\0';
    return (size_t)(p - out);
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool read_word(const char *text, size_t bytes, double *out)
{
    char word[16];
    if (bytes == 0 || bytes >= sizeof word) return false;
    for (size_t i = 0; i < bytes; i++) word[i] = (char)(text[i] >= 'A' && text[i] <= 'Z' ? text[i] + 32 : text[i]);
    word[bytes] = '\0';
    if (strcmp(word, "inf") == 0 || strcmp(word, "infinity") == 0)
        *out = INFINITY;
    else if (strcmp(word, "nan") == 0)
        *out = NAN;
    else
        return false;
    return true;
}

/* [digits][.digits][e[+-]digits] with single underscores between digits; beyond 800 digits none can change the
 * result more than by one unit in the last place. */
#define READ_DIGITS_MAX 800

struct reading {
    const char *text;
    size_t bytes, at, n;
    long exponent;
    bool any;
    char digits[READ_DIGITS_MAX + 32];
};

static void read_digits(struct reading *in, bool fraction)
{
    while (in->at < in->bytes) {
        char c = in->text[in->at];
        bool joins = c == '_' && in->at > 0 && is_digit(in->text[in->at - 1]) && in->at + 1 < in->bytes &&
                     is_digit(in->text[in->at + 1]);
        if (!is_digit(c) && !joins) return;
        in->at++;
        if (joins) continue;
        in->any = true;
        if (in->n == 0 && c == '0') {
            if (fraction) in->exponent--;
        } else if (in->n < READ_DIGITS_MAX) {
            in->digits[in->n++] = c;
            if (fraction) in->exponent--;
        } else if (!fraction) {
            in->exponent++;
        }
    }
}

static bool read_exponent(struct reading *in)
{
    if (in->at == in->bytes || (in->text[in->at] | 32) != 'e') return true;
    in->at++;
    bool minus = in->at < in->bytes && in->text[in->at] == '-';
    if (in->at < in->bytes && (minus || in->text[in->at] == '+')) in->at++;
    long e = 0;
    size_t begin = in->at;
    for (; in->at < in->bytes && is_digit(in->text[in->at]); in->at++)
        if (e < 1000000) e = e * 10 + (in->text[in->at] - '0');
    in->exponent += minus ? -e : e;
    return in->at > begin;
}

bool jinja_number_read_float(const char *text, size_t bytes, double *out)
{
    bool minus = bytes > 0 && text[0] == '-';
    if (bytes > 0 && (minus || text[0] == '+')) {
        text++;
        bytes--;
    }
    if (!read_word(text, bytes, out)) {
        struct reading in = {.text = text, .bytes = bytes};
        read_digits(&in, false);
        if (in.at < bytes && text[in.at] == '.') {
            in.at++;
            read_digits(&in, true);
        }
        if (!in.any || !read_exponent(&in) || in.at != bytes) return false;
        if (in.n == 0) in.digits[in.n++] = '0';
        sprintf(in.digits + in.n, "e%ld", in.exponent);
        *out = strtod(in.digits, NULL);
    }
    if (minus) *out = -*out;
    return true;
}

bool jinja_number_read_int(const char *text, size_t bytes, int base, int64_t *out)
{
    size_t at = 0;
    bool minus = bytes > 0 && text[0] == '-';
    if (bytes > 0 && (minus || text[0] == '+')) at++;
    if (bytes - at > 2 && text[at] == '0') { /* a prefix that names the base */
        char p = (char)(text[at + 1] | 32);
        if ((base == 16 && p == 'x') || (base == 8 && p == 'o') || (base == 2 && p == 'b')) at += 2;
    }
    uint64_t value = 0;
    bool digit_before = false;
    for (; at < bytes; at++) {
        char c = text[at];
        if (c == '_' && digit_before) {
            digit_before = false;
            continue;
        }
        int d = is_digit(c) ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'z' ? (c | 32) - 'a' + 10 : 99;
        if (d >= base || __builtin_mul_overflow(value, (uint64_t)base, &value) ||
            __builtin_add_overflow(value, (uint64_t)d, &value) || value > (uint64_t)INT64_MAX + minus)
            return false;
        digit_before = true;
    }
    *out = minus ? (int64_t)(0 - value) : (int64_t)value;
    return digit_before;
}

size_t jinja_number_format(double d, char style, int digits, bool alternate, char out[JINJA_NUMBER_BYTES_MAX])
{
    if (!isfinite(d)) return show_special(d, out);
    if (digits > 60) digits = 60;
    switch (style | 32) {
    case 'e': snprintf(out, JINJA_NUMBER_BYTES_MAX, "%.*e", digits, d); break;
    case 'g': snprintf(out, JINJA_NUMBER_BYTES_MAX, alternate ? "%#.*g" : "%.*g", digits, d); break;
    default: snprintf(out, JINJA_NUMBER_BYTES_MAX, "%.*f", digits, d); break; /* at most 309 + 1 + 60 characters */
    }
    return fix_point(out);
}

double jinja_number_round(double d, int digits)
{
    if (!isfinite(d) || digits > 60) return d;
    char text[JINJA_NUMBER_BYTES_MAX];
    if (digits >= 0) {
        size_t n = jinja_number_format(d, 'f', digits, false, text);
        jinja_number_read_float(text, n, &d);
        return d;
    }
    if (digits < -308) return 0 * d;
    double unit = 1;
    for (int i = digits; i < 0; i++) unit *= 10;
    double q = d / unit, low = floor(q);
    double rest = q - low;
    if (rest > 0.5 || (rest == 0.5 && fmod(low, 2) != 0)) low += 1;
    return low * unit;
}
