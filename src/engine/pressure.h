/* Memory that gets short while the engine runs: the expert cache and the memory of kept prefixes shrink at once,
 * between layers and steps, and grow back slowly.
 *
 * Who gives: first prefixes what no prefix is in, which costs nothing; then prefixes what the disk has too, which costs
 * a read if it is wanted again; then both in proportion to what they still could give, as neither is worth more than
 * the other at every time: an expert that leaves is read again for the next token that chooses it, a prefix that leaves
 * is computed again if its text ever comes back. So each gives the coldest part of what it has. */
#ifndef ENGINE_PRESSURE_H
#define ENGINE_PRESSURE_H

#include "engine/prefix.h"
#include "sluice.h"

struct engine_pressure {
    uint64_t next_ns; /* not looked at before */
    uint64_t stall_ns, events, looked_ns;
    bool on;
    uint64_t changed_ns;                      /* when a limit was changed last */
    uint64_t limit_bytes, prefix_limit_bytes; /* of the cache and of prefixes, now */
    uint64_t shrinks, shrunk_bytes, grows;
    uint64_t granted_bytes, granted_ns, denied_ns; /* the cache may grow to; until; may not grow until */
    uint64_t owed_bytes;                           /* prefixes could not get down to it yet; 0: they could */
    bool at_floor;                                 /* said */
};

/* The decision, pure (a table in the tests). */
struct pressure_facts {
    uint64_t rows_bytes, slots_bytes, floor_bytes; /* of the plan; rows: of all of them */
    uint64_t prefix_bytes;                         /* of it: of kept prefixes */
    uint64_t allowed_bytes;                        /* what the process may use now */
    struct pressure_limits {
        uint64_t slots_bytes, prefix_bytes;
    } limits;                      /* now */
    struct prefix_need prefixes;   /* prefix.h */
    uint64_t calm_ns;              /* since a limit was changed last */
    uint64_t elapsed_ns, stall_ns; /* since the last look; of it, time stalled for memory */
    bool hit_limit;                /* the group's limit was hit since the last look */
};
/* The limits from now on: the cache's between the floor and slots_bytes, that of prefixes between their index and
 * prefix_bytes. */
struct pressure_limits pressure_decide(const struct pressure_facts *f);
uint64_t pressure_margin_bytes(uint64_t allowed_bytes);

void pressure_open(sluice_engine *e);
/* Between layers and steps; looks at most a few times a second. */
void pressure_relieve(sluice_engine *e);
/* Whether the cache may have so many bytes now (expert_cache_config): what was planned may not be there any more. */
bool pressure_may_grow(void *engine, uint64_t bytes);

#endif
