#include "serve/chunk.h"

#include <stdbool.h>

#define TELLING 16 /* tokens of a chunk that says something about larger ones */

void chunk_measured(struct chunk_cost *c, size_t n, uint64_t ns, uint64_t wait_ns, uint64_t busy_ns)
{
    if (n < TELLING) return;
    const double computing = ns > wait_ns ? (double)(ns - wait_ns) : 0, token = computing / (double)n,
                 reading = (double)(busy_ns < ns ? busy_ns : ns);
    const bool first = c->token_ns <= 0;
    c->token_ns = first ? token : (c->token_ns + token) / 2;
    c->read_ns = first ? reading : (c->read_ns + reading) / 2;
}

size_t chunk_choose(const struct chunk_cost *c)
{
    const double left = (double)CHUNK_WAIT_NS - c->read_ns, computing = left > c->read_ns ? left : c->read_ns;
    if (c->token_ns <= 0) return CHUNK_MIN * 2;
    const double n = computing / c->token_ns;
    return n <= CHUNK_MIN ? CHUNK_MIN : n >= CHUNK_MAX ? CHUNK_MAX : (size_t)n;
}
