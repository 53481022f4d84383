#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>

/* Length of the well-formed UTF-8 sequence at p that is not a control character, or 0. (Unicode, table 3-7.) */
static int printable_bytes(const unsigned char *p)
{
    if (p[0] < 0x80) return p[0] >= 0x20 && p[0] != 0x7f;
    int n = p[0] >= 0xc2 && p[0] < 0xe0 ? 2 : p[0] >= 0xe0 && p[0] < 0xf0 ? 3 : p[0] >= 0xf0 && p[0] < 0xf5 ? 4 : 0;
    for (int i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;                                        /* also where the text ends */
    if (p[0] == 0xc2 && p[1] < 0xa0) return 0;                                      /* C1 controls */
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xf0 && p[1] < 0x90)) return 0;   /* overlong */
    if ((p[0] == 0xed && p[1] >= 0xa0) || (p[0] == 0xf4 && p[1] >= 0x90)) return 0; /* surrogates; too large */
    return n;
}

void base_printable(char *text)
{
    unsigned char *p = (unsigned char *)text;
    while (*p) {
        int n = printable_bytes(p);
        if (n == 0) *p = '?';
        p += n ? n : 1;
    }
}

enum sluice_status base_fail(struct sluice_error *err, enum sluice_status status, const char *hint, const char *format,
                             ...)
{
    if (!err) return status;
    err->status = status;
    va_list args;
    va_start(args, format);
    vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    base_printable(err->message);
    snprintf(err->hint, sizeof err->hint, "%s", hint ? hint : "");
    base_printable(err->hint);
    return status;
}

void base_hint(struct sluice_error *err, const char *format, ...)
{
    if (!err) return;
    va_list args;
    va_start(args, format);
    vsnprintf(err->hint, sizeof err->hint, format, args);
    va_end(args);
    base_printable(err->hint);
}

int base_exit_code(enum sluice_status status)
{
    switch (status) {
    case SLUICE_OK:
    case SLUICE_CONTEXT_FULL: return 0;
    case SLUICE_ERR_RUN: return 1;
    case SLUICE_ERR_USAGE: return 2;
    case SLUICE_ERR_MODEL: return 3;
    case SLUICE_ERR_MEMORY:
    case SLUICE_ERR_HARDWARE: return 4;
    case SLUICE_ERR_IO:
    case SLUICE_ERR_TIMEOUT: return 5;
    case SLUICE_CANCELLED: return 130;
    }
    return 1;
}

const char *base_status_name(enum sluice_status status)
{
    switch (status) {
    case SLUICE_OK: return "ok";
    case SLUICE_ERR_RUN: return "run";
    case SLUICE_ERR_USAGE: return "usage";
    case SLUICE_ERR_MODEL: return "model";
    case SLUICE_ERR_MEMORY: return "memory";
    case SLUICE_ERR_HARDWARE: return "hardware";
    case SLUICE_ERR_IO: return "io";
    case SLUICE_ERR_TIMEOUT: return "timeout";
    case SLUICE_CANCELLED: return "cancelled";
    case SLUICE_CONTEXT_FULL: return "context_full";
    }
    return "unknown";
}
