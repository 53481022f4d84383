/* Sizes as people write and read them. */
#include "base/assert.h"
#include "expert/plan.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define DIGITS_MAX 18 /* fit in a uint64_t */
#define BYTES_MAX 9.0e18
#define UNITLESS_MIN 65536 /* nobody means so few bytes: a unit was forgotten */

static const struct {
    const char *suffix; /* any case */
    double bytes;
} units[] = {
    {"B", 1},     {"K", 1024.0},          {"KiB", 1024.0},
    {"KB", 1e3},  {"M", 1048576.0},       {"MiB", 1048576.0},
    {"MB", 1e6},  {"G", 1073741824.0},    {"GiB", 1073741824.0},
    {"GB", 1e9},  {"T", 1099511627776.0}, {"TiB", 1099511627776.0},
    {"TB", 1e12},
};

static enum sluice_status reject(const char *what, const char *text, bool count, const char *why,
                                 struct sluice_error *err)
{
    return base_fail(err, SLUICE_ERR_USAGE,
                     count ? "sizes are written 8G, 1.5GiB, 500MB, 40%, a number of experts, or auto"
                           : "sizes are written 8G, 1.5GiB, 500MB, 50% or auto",
                     "%s: '%.64s' %s", what, text, why);
}

/* Decimal digits with at most one point; no sign, no exponent, whatever the locale. Returns what follows, or NULL. */
static const char *parse_number(const char *text, double *value, bool *whole)
{
    uint64_t digits = 0, scale = 1;
    int n = 0;
    bool point = false;
    for (; (*text >= '0' && *text <= '9') || (*text == '.' && !point); text++) {
        if (*text == '.') {
            point = true;
            continue;
        }
        if (++n > DIGITS_MAX) return NULL;
        digits = digits * 10 + (uint64_t)(*text - '0');
        if (point) scale *= 10;
    }
    if (n == 0) return NULL;
    *value = (double)digits / (double)scale;
    *whole = !point;
    return text;
}

enum sluice_status plan_parse_size(const char *text, bool count, const char *what, struct plan_size *out,
                                   struct sluice_error *err)
{
    *out = (struct plan_size){PLAN_AUTO, 0};
    if (!text || strcmp(text, "auto") == 0) return SLUICE_OK;
    double value = 0;
    bool whole = false;
    const char *rest = parse_number(text, &value, &whole);
    if (!rest) return reject(what, text, count, "is not a size", err);
    if (value <= 0) return reject(what, text, count, "is nothing", err);

    if (strcmp(rest, "%") == 0) {
        if (value > 100) return reject(what, text, count, "is more than 100 %", err);
        *out = (struct plan_size){PLAN_PERCENT, value};
        return SLUICE_OK;
    }
    if (*rest == 0 && count) {
        if (!whole) return reject(what, text, count, "is not a whole number of experts", err);
        if (value > UINT32_MAX) return reject(what, text, count, "is too many", err);
        *out = (struct plan_size){PLAN_COUNT, value};
        return SLUICE_OK;
    }
    double unit = *rest == 0 ? 1 : 0;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcasecmp(rest, units[i].suffix) == 0) unit = units[i].bytes;
    if (unit == 0) return reject(what, text, count, "is not a size", err);
    if (value * unit > BYTES_MAX) return reject(what, text, count, "is too large", err);
    if (*rest == 0 && value < UNITLESS_MIN) {
        base_fail(err, SLUICE_ERR_USAGE, NULL, "%s: '%.64s' is too little", what, text);
        base_hint(err, "a number without a unit is bytes: %.10gM or %.10gG?", value, value);
        return SLUICE_ERR_USAGE;
    }
    if (value * unit < 1) return reject(what, text, count, "is less than a byte", err);
    *out = (struct plan_size){PLAN_BYTES, value * unit};
    return SLUICE_OK;
}

const char *plan_format_bytes(uint64_t bytes, char out[24])
{
    static const char *const name[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    size_t i = 0;
    while (value >= 1024 && i + 1 < sizeof name / sizeof *name) {
        value /= 1024;
        i++;
    }
    if (i == 0)
        snprintf(out, 24, "%u bytes", (unsigned)bytes);
    else
        snprintf(out, 24, "%.2f %s", value, name[i]);
    return out;
}
