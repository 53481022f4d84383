#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

void base_log(const struct base_log *log, enum base_log_level level, const char *format, ...)
{
    if (!log || !log->line) return;
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    base_printable(text);
    log->line(log->user, level, text);
}
