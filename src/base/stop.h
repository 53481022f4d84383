/* Stop strings in streamed text. What could still become a stop string is held back, so that not a byte of one is ever
 * passed on. Invariant S1: after a push, the held bytes are a proper prefix of some stop string, and the longest suffix
 * of the text that is one. */
#ifndef BASE_STOP_H
#define BASE_STOP_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

#define STOP_STRINGS_MAX 66 /* the user's and the chat format's */
#define STOP_BYTES_MAX 256
#define STOP_PUSH_BYTES_MAX 1024

typedef void stop_sink_fn(void *user, const char *text, size_t bytes);

struct stop_filter {
    const char *stops[STOP_STRINGS_MAX];
    size_t n_stops;
    char held[STOP_BYTES_MAX + STOP_PUSH_BYTES_MAX];
    size_t held_bytes;
    bool hit;
    size_t hit_index; /* which of them */
    stop_sink_fn *sink;
    void *user;
};

void stop_init(struct stop_filter *f, stop_sink_fn *sink, void *user);
/* The string must outlive the filter. Empty ones are ignored; too long or too many: SLUICE_ERR_USAGE. */
enum sluice_status stop_add(struct stop_filter *f, const char *text, struct sluice_error *err);
/* bytes <= STOP_PUSH_BYTES_MAX. True: a stop string is complete; the text before it has been passed on, and no more
 * will be. */
bool stop_push(struct stop_filter *f, const char *text, size_t bytes);
void stop_end(struct stop_filter *f); /* passes on what is held */

#endif
