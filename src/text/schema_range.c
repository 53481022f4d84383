/* Whole numbers within bounds, digit by digit. */
#include "text/schema_parts.h"

#include "text/schema.h"

#include <stdio.h>
#include <string.h>

struct digits {
    struct automaton *a;
    uint32_t rule;
    uint32_t rest[SCHEMA_DIGITS_MAX + 1]; /* [k]: k digits, any, and then the end */
};

static bool all(const char *text, size_t n, char c)
{
    for (size_t i = 0; i < n; i++)
        if (text[i] != c) return false;
    return true;
}

/* From a state: n digits that are a number from `low` to `high`. */
static void between(const struct digits *d, uint32_t from, const char *low, const char *high, size_t n)
{
    static const char zeros[] = "000000000000000000", nines[] = "999999999999999999";
    char first = low[0], last = high[0];
    if (n == 1) {
        automaton_bytes(d->a, from, (uint8_t)first, (uint8_t)last, d->rest[0], 0);
        return;
    }
    if (first == last) {
        between(d, automaton_byte(d->a, from, first), low + 1, high + 1, n - 1);
        return;
    }
    if (!all(low + 1, n - 1, '0')) between(d, automaton_byte(d->a, from, first++), low + 1, nines, n - 1);
    if (!all(high + 1, n - 1, '9')) between(d, automaton_byte(d->a, from, last--), zeros, high + 1, n - 1);
    if (first <= last) automaton_bytes(d->a, from, (uint8_t)first, (uint8_t)last, d->rest[n - 1], 0);
}

/* Numbers from `least` to `most`, of as many digits as they have; 1 <= least. */
static void sizes(const struct digits *d, uint32_t from, int64_t least, int64_t most)
{
    char low[24], high[24];
    const size_t shortest = (size_t)snprintf(low, sizeof low, "%lld", (long long)least),
                 longest = (size_t)snprintf(high, sizeof high, "%lld", (long long)most);
    for (size_t n = shortest; n <= longest && least <= most; n++)
        between(d, from, n == shortest ? low : "100000000000000000", n == longest ? high : "999999999999999999", n);
}

uint32_t schema_integers(struct automaton *a, int64_t least, int64_t most)
{
    struct digits d = {.a = a, .rule = automaton_rule(a, 0, AUTOMATON_NO_MOST)};
    if (a->no_memory || a->too_large) return d.rule;
    const uint32_t start = a->rules[d.rule].start;
    for (size_t k = 0; k <= SCHEMA_DIGITS_MAX; k++) {
        d.rest[k] = automaton_state(a, d.rule);
        if (k) automaton_bytes(a, d.rest[k], '0', '9', d.rest[k - 1], 0);
    }
    automaton_accept(a, d.rest[0]);
    if (least <= 0 && most >= 0) automaton_bytes(a, start, '0', '0', d.rest[0], 0);
    if (most > 0) sizes(&d, start, least > 1 ? least : 1, most);
    if (least < 0) sizes(&d, automaton_byte(a, start, '-'), most < 0 ? -most : 1, -least);
    return d.rule;
}
