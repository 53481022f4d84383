/* Long work asks in between whether it is to go on. */
#ifndef TEXT_WATCH_H
#define TEXT_WATCH_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* False gives the work up. goes_on may be NULL. */
struct text_watch {
    bool (*goes_on)(void *user);
    void *user;
};

/* The steps of one work: words, pairs that are looked at. */
struct text_steps {
    const struct text_watch *watch;
    size_t n;
};

#define TEXT_WATCH_STEPS 4096 /* between two looks */

static inline enum sluice_status text_step(struct text_steps *s, struct sluice_error *err)
{
    if (++s->n % TEXT_WATCH_STEPS || !s->watch->goes_on || s->watch->goes_on(s->watch->user)) return SLUICE_OK;
    return base_fail(err, SLUICE_CANCELLED, NULL, "cutting the text into tokens is given up");
}

#endif
