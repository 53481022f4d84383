/* Memory that gets short while the engine runs: the cache shrinks at once, between steps, and grows back slowly. */
#ifndef ENGINE_PRESSURE_H
#define ENGINE_PRESSURE_H

#include "sluice.h"

struct engine_pressure {
    uint64_t next_ns; /* not looked at before */
    uint64_t stall_ns, events, looked_ns;
    uint64_t changed_ns;  /* when the limit was changed last */
    uint64_t limit_bytes; /* of the cache, now */
    uint64_t shrinks, shrunk_bytes, grows;
    uint64_t granted_bytes, granted_ns, denied_ns; /* the cache may grow to; until; may not grow until */
    bool at_floor;                                 /* said */
};

/* The decision, pure (a table in the tests). */
struct pressure_facts {
    uint64_t budget_bytes, slots_bytes, floor_bytes; /* of the plan */
    uint64_t allowed_bytes;                          /* what the process may use now */
    uint64_t limit_bytes;                            /* of the cache, now */
    uint64_t calm_ns;                                /* since the limit was changed last */
    uint64_t elapsed_ns, stall_ns;                   /* since the last look; of it, time stalled for memory */
    bool hit_limit;                                  /* the group's limit was hit since the last look */
};
/* The cache's limit from now on: between the floor and slots_bytes. */
uint64_t pressure_limit(const struct pressure_facts *f);
uint64_t pressure_margin_bytes(uint64_t allowed_bytes);

void pressure_open(sluice_engine *e);
/* Between layers and steps; looks at most a few times a second. */
void pressure_relieve(sluice_engine *e);
/* Whether the cache may have so many bytes now (expert_cache_config): what was planned may not be there any more. */
bool pressure_may_grow(void *engine, uint64_t bytes);

#endif
