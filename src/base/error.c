#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>

/* A message can quote bytes of an untrusted file; a terminal must not obey them. UTF-8 bytes pass. */
static void replace_control(char *text)
{
    for (unsigned char *p = (unsigned char *)text; *p; p++)
        if (*p < 0x20 || *p == 0x7f) *p = '?';
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
    replace_control(err->message);
    snprintf(err->hint, sizeof err->hint, "%s", hint ? hint : "");
    return status;
}

void base_hint(struct sluice_error *err, const char *format, ...)
{
    if (!err) return;
    va_list args;
    va_start(args, format);
    vsnprintf(err->hint, sizeof err->hint, format, args);
    va_end(args);
    replace_control(err->hint);
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
