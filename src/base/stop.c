#include "base/stop.h"

#include "base/assert.h"

#include <string.h>

void stop_init(struct stop_filter *f, stop_sink_fn *sink, void *user)
{
    memset(f, 0, sizeof *f);
    f->sink = sink;
    f->user = user;
}

enum sluice_status stop_add(struct stop_filter *f, const char *text, struct sluice_error *err)
{
    size_t bytes = strlen(text);
    if (bytes == 0) return SLUICE_OK;
    if (bytes > STOP_BYTES_MAX)
        return base_fail(err, SLUICE_ERR_USAGE, NULL, "a stop text of %zu bytes; at most %d are allowed", bytes,
                         STOP_BYTES_MAX);
    if (f->n_stops == STOP_STRINGS_MAX)
        return base_fail(err, SLUICE_ERR_USAGE, NULL, "more than %d stop texts", STOP_STRINGS_MAX);
    f->stops[f->n_stops++] = text;
    return SLUICE_OK;
}

static void pass_on(struct stop_filter *f, size_t bytes)
{
    if (bytes) f->sink(f->user, f->held, bytes);
    f->held_bytes -= bytes;
    memmove(f->held, f->held + bytes, f->held_bytes);
}

/* Whether a stop string, or (at the end of what is held) the begin of one, stands at `at`. */
static bool stands_at(const struct stop_filter *f, size_t at, bool *complete, size_t *index)
{
    size_t left = f->held_bytes - at;
    bool part = false;
    for (size_t i = 0; i < f->n_stops; i++) {
        size_t bytes = strlen(f->stops[i]);
        if (memcmp(f->held + at, f->stops[i], bytes < left ? bytes : left) != 0) continue;
        if (bytes <= left) {
            *complete = true;
            *index = i;
            return true;
        }
        part = true;
    }
    return part;
}

bool stop_push(struct stop_filter *f, const char *text, size_t bytes)
{
    BASE_ASSERT(bytes <= STOP_PUSH_BYTES_MAX, "a push fits beside what is held (S1)");
    if (f->hit) return true;
    memcpy(f->held + f->held_bytes, text, bytes);
    f->held_bytes += bytes;
    size_t hold_from = f->held_bytes;
    for (size_t at = 0; at < f->held_bytes; at++) {
        bool complete = false;
        if (!stands_at(f, at, &complete, &f->hit_index)) continue;
        if (complete) {
            pass_on(f, at);
            f->held_bytes = 0;
            f->hit = true;
            return true;
        }
        /* A longer one may be in the making here while a shorter one further on is complete already. */
        if (hold_from == f->held_bytes) hold_from = at;
    }
    pass_on(f, hold_from);
    return false;
}

void stop_end(struct stop_filter *f)
{
    if (!f->hit) pass_on(f, f->held_bytes);
}
