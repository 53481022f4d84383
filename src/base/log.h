/* Lines for the user. The library never prints: whoever embeds it gives a function, and every room that has something
 * to say is handed this struct. A NULL function drops the lines. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/error.h"

enum base_log_level { BASE_LOG_NOTE, BASE_LOG_WARN, BASE_LOG_DEBUG };

struct base_log {
    void (*line)(void *user, enum base_log_level level, const char *text); /* text: one line, no newline */
    void *user;
};

void base_log(const struct base_log *log, enum base_log_level level, const char *format, ...) BASE_PRINTF(3, 4);

#endif
