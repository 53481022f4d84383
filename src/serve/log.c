#include "serve/log.h"

#include "serve/api.h"
#include "serve/server.h"

#include <stdio.h>
#include <string.h>

/* What is asked again and again by those that watch the server. */
static bool is_watching(const struct exchange *x, int status)
{
    const bool at_once = x->endpoint->at_once || x->endpoint->kind == ENDPOINT_PAGE;
    const bool asks_first = !strcmp(x->method, "OPTIONS");
    return (at_once || asks_first) && (status < 400 || status == 503);
}

void log_request(const struct exchange *x, int status, bool whole)
{
    char work[200] = "";
    struct server *s = x->server;
    const struct outcome *o = &x->outcome;
    if (s->options.requests == SERVE_LOG_OFF) return;
    if (s->options.requests == SERVE_LOG_REQUESTS && is_watching(x, status)) return;
    if (x->ended && o->n_prompt) {
        const double seconds = (double)o->generate_ns / 1e9;
        int n = snprintf(work, sizeof work, ": prompt %zu tokens (%zu known before), answer %zu", o->n_prompt,
                         o->n_reused, o->n_generated);
        if (o->n_generated)
            n += snprintf(work + n, sizeof work - (size_t)n, ", first after %.0f ms",
                          (double)(o->queued_ns + o->prompt_ns) / 1e6);
        if (o->n_generated > 1 && seconds > 0) /* the first comes out of the prompt: of one there is no rate */
            snprintf(work + n, sizeof work - (size_t)n, ", %.2f tokens/s", (double)o->n_generated / seconds);
    }
    server_log(s, SLUICE_LOG_NOTE, "%s %s %d in %.2f s%s%s", x->method, x->path, status,
               (double)(server_now_ns() - x->begin_ns) / 1e9, work, whole ? "" : "; not taken to its end");
}
