/* How many tokens of a prompt are computed at once while others are being answered: they stand still for so long. What
 * a chunk cost says how large the next one should be. Answers do not depend on it. */
#ifndef SERVE_CHUNK_H
#define SERVE_CHUNK_H

#include <stddef.h>
#include <stdint.h>

/* A chunk of CHUNK_MIN tokens reads nearly all experts of a layer: smaller ones would cost as much reading each. */
#define CHUNK_MIN 32
#define CHUNK_MAX 256 /* while others are there */
#define CHUNK_WAIT_NS ((uint64_t)1500 * 1000000)

/* Of the last chunk that was large enough to tell. */
struct chunk_cost {
    double token_ns; /* computing one token; 0: not known yet */
    double read_ns;  /* reading for a whole chunk, however many tokens it has */
};

/* n tokens took ns, of which computing stood still for wait_ns; reads were under way for busy_ns. */
void chunk_measured(struct chunk_cost *c, size_t n, uint64_t ns, uint64_t wait_ns, uint64_t busy_ns);
/* As many as take about CHUNK_WAIT_NS. Where reading alone takes most of that or more, as many as compute for as long
 * as it reads: smaller ones would read the same for fewer tokens. */
size_t chunk_choose(const struct chunk_cost *c);

#endif
