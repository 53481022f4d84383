/* The time that a template is told: reading it, and strftime's directives in English, whatever the locale. */
#include "text/jinja_call.h"

#include <stdio.h>
#include <string.h>

static const char *const days[] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
static const char *const months[] = {"January", "February", "March",     "April",   "May",      "June",
                                     "July",    "August",   "September", "October", "November", "December"};

static bool is_leap(int year) { return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0); }

static int days_of(int year, int month)
{
    static const int8_t lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return lengths[month - 1] + (month == 2 && is_leap(year));
}

bool jinja_time_read(const char *iso, struct jinja_time *out)
{
    struct jinja_time t = {0};
    int n = 0;
    char between = 0;
    int fields = sscanf(iso, "%4d-%2d-%2d%n%c", &t.year, &t.month, &t.day, &n, &between);
    if (fields < 3 || n != 10) return false;
    if (fields == 4) {
        int m = 0;
        const char *clock = iso + 11;
        if ((between != 'T' && between != ' ') || strspn(clock, "0123456789:") != strlen(clock)) return false;
        int got = sscanf(clock, "%2d:%2d%n:%2d%n", &t.hour, &t.minute, &m, &t.second, &m);
        if (got < 2 || clock[m] || (m != 5 && m != 8)) return false;
    }
    if (t.year < 1 || t.month < 1 || t.month > 12 || t.day < 1 || t.day > days_of(t.year, t.month)) return false;
    if (t.hour < 0 || t.hour > 23 || t.minute < 0 || t.minute > 59 || t.second < 0 || t.second > 60) return false;
    *out = t;
    return true;
}

static int day_of_year(const struct jinja_time *t)
{
    int n = t->day;
    for (int m = 1; m < t->month; m++) n += days_of(t->year, m);
    return n;
}

/* 0: Sunday. The proleptic Gregorian calendar; 1 January of year 1 was a Monday. */
static int day_of_week(const struct jinja_time *t)
{
    int y = t->year - 1;
    return (y * 365 + y / 4 - y / 100 + y / 400 + day_of_year(t)) % 7;
}

/* ISO 8601: the week that holds the year's first Thursday is number 1. */
static int iso_week(const struct jinja_time *t, int *year)
{
    int weekday = (day_of_week(t) + 6) % 7, week = (day_of_year(t) - 1 - weekday + 10) / 7;
    *year = t->year;
    if (week < 1) {
        *year -= 1;
        struct jinja_time last = {.year = *year, .month = 12, .day = 31};
        return iso_week(&last, year);
    }
    if (week == 53) {
        struct jinja_time next = {.year = t->year + 1, .month = 1, .day = 1};
        int first = (day_of_week(&next) + 6) % 7;
        if (first <= 3) {
            *year += 1;
            return 1;
        }
    }
    return week;
}

struct number {
    char directive;
    int width;
    char fill;
    int value;
};

/* false: no such directive. `plain`: without filling up ("%-d"). */
static bool put_number(struct jinja_build *b, const struct jinja_time *t, char directive, bool plain)
{
    int hour12 = t->hour % 12 ? t->hour % 12 : 12, weekday = day_of_week(t), year, week = iso_week(t, &year);
    const struct number rows[] = {{'Y', 4, '0', t->year},
                                  {'y', 2, '0', t->year % 100},
                                  {'C', 2, '0', t->year / 100},
                                  {'m', 2, '0', t->month},
                                  {'d', 2, '0', t->day},
                                  {'e', 2, ' ', t->day},
                                  {'H', 2, '0', t->hour},
                                  {'k', 2, ' ', t->hour},
                                  {'I', 2, '0', hour12},
                                  {'l', 2, ' ', hour12},
                                  {'M', 2, '0', t->minute},
                                  {'S', 2, '0', t->second},
                                  {'f', 6, '0', 0},
                                  {'j', 3, '0', day_of_year(t)},
                                  {'w', 1, '0', weekday},
                                  {'u', 1, '0', weekday ? weekday : 7},
                                  {'U', 2, '0', (day_of_year(t) + 6 - weekday) / 7},
                                  {'W', 2, '0', (day_of_year(t) + 6 - (weekday + 6) % 7) / 7},
                                  {'V', 2, '0', week},
                                  {'G', 4, '0', year}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].directive != directive) continue;
        char text[32];
        int width = plain ? 1 : rows[i].width;
        if (rows[i].fill == '0')
            sprintf(text, "%0*d", width, rows[i].value);
        else
            sprintf(text, "%*d", width, rows[i].value);
        jinja_put_word(b, text);
        return true;
    }
    return false;
}

static void put_format(struct jinja_build *b, const struct jinja_time *t, const char *format, size_t bytes);

static void put_words(struct jinja_build *b, const char *word, size_t n_max)
{
    size_t n = strlen(word);
    jinja_put(b, word, n < n_max ? n : n_max);
}

static void put_directive(struct jinja_build *b, const struct jinja_time *t, char directive, bool plain)
{
    const char *longer = NULL;
    switch (directive) {
    case 'A': put_words(b, days[day_of_week(t)], 9); return;
    case 'a': put_words(b, days[day_of_week(t)], 3); return;
    case 'B': put_words(b, months[t->month - 1], 9); return;
    case 'b':
    case 'h': put_words(b, months[t->month - 1], 3); return;
    case 'p': jinja_put_word(b, t->hour < 12 ? "AM" : "PM"); return;
    case 'P': jinja_put_word(b, t->hour < 12 ? "am" : "pm"); return;
    case 'Z':
    case 'z': return; /* a time without a zone */
    case 'n': jinja_put(b, "\n", 1); return;
    case 't': jinja_put(b, "\t", 1); return;
    case '%': jinja_put(b, "%", 1); return;
    case 'F': longer = "%Y-%m-%d"; break;
    case 'T': longer = "%H:%M:%S"; break;
    case 'R': longer = "%H:%M"; break;
    case 'r': longer = "%I:%M:%S %p"; break;
    case 'D':
    case 'x': longer = "%m/%d/%y"; break;
    case 'X': longer = "%H:%M:%S"; break;
    case 'c': longer = "%a %b %e %H:%M:%S %Y"; break;
    }
    if (longer) {
        put_format(b, t, longer, strlen(longer));
        return;
    }
    if (!put_number(b, t, directive, plain)) jinja_fail(b->r, "strftime_now() does not know %%%c", directive);
}

static void put_format(struct jinja_build *b, const struct jinja_time *t, const char *format, size_t bytes)
{
    for (size_t at = 0; at < bytes && !jinja_failed(b->r);) {
        const char *percent = memchr(format + at, '%', bytes - at);
        size_t end = percent ? (size_t)(percent - format) : bytes;
        jinja_put(b, format + at, end - at);
        if (!percent) return;
        at = end + 1;
        bool plain = at < bytes && format[at] == '-';
        at += plain;
        jinja_charge(b->r, 1);
        if (at >= bytes)
            jinja_put(b, "%", 1);
        else
            put_directive(b, t, format[at++], plain);
    }
}

struct jinja_value jinja_time_show(struct jinja_run *r, const struct jinja_time *t, struct jinja_value format)
{
    struct jinja_build b = {.r = r};
    put_format(&b, t, format.text, format.bytes);
    return jinja_built(&b);
}
