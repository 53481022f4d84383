/* What the disk gives at this moment, for experts at random places, read as the cache reads them (the same back end,
 * pieces and depth) but beside it, so that no cache is disturbed. A disk is not the same from one second to the next:
 * whoever compares with it asks before and after. */
#ifndef STREAM_PROBE_H
#define STREAM_PROBE_H

#include "engine/engine.h"

struct probe; /* opaque */

struct probe_figures {
    double full;    /* bytes a nanosecond, with all of the queue */
    double lone_ns; /* so many experts, read at once from an idle disk, take lone_ns + bytes * byte_ns */
    double byte_ns;
    double together; /* of the time that four experts take at once, the part before the first report */
};

/* Ends the program if it cannot be had. */
struct probe *probe_open(const sluice_engine *e, bool small_pages, uint64_t seed);
void probe_close(struct probe *p);
struct probe_figures probe_now(struct probe *p);
/* Of the two that a moment lies between. */
struct probe_figures probe_between(struct probe_figures a, struct probe_figures b);
/* 0 bytes take no time. */
double probe_read_ns(const struct probe_figures *f, double bytes);

#endif
