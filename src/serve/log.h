/* A line for each request when it is over: what was asked for and how it went, nothing of what was said. */
#ifndef SERVE_LOG_H
#define SERVE_LOG_H

#include "serve/exchange.h"

/* status 0: no answer was begun. whole: it was sent to its end. By the HTTP thread. */
void log_request(const struct exchange *x, int status, bool whole);

#endif
