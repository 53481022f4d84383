#include "engine/pressure.h"

#include "engine/engine.h"

#include <inttypes.h>

#define LOOK_EVERY_NS ((uint64_t)250 * 1000000u)
#define MARGIN_PART 32u /* of what is allowed: kept free once that is less than the budget */
#define MARGIN_MIN ((uint64_t)2 << 20)
#define MARGIN_MAX ((uint64_t)512 << 20)
#define STALLED 10u    /* a tenth of the time stalled for memory is too much */
#define STEP_PART 16u  /* of the planned cache: what a stall takes, and what calm gives back */
#define GRANT_PART 64u /* of it: what the cache may grow by before the machine is looked at again */
#define GRANT_MIN ((uint64_t)1 << 20)
#define DENIED_NS ((uint64_t)50 * 1000000u) /* before it may ask again */
#define CALM_NS ((uint64_t)5 * 1000000000u) /* before the cache grows by a step */

uint64_t pressure_margin_bytes(uint64_t allowed_bytes)
{
    const uint64_t margin = allowed_bytes / MARGIN_PART;
    return margin < MARGIN_MIN ? MARGIN_MIN : margin > MARGIN_MAX ? MARGIN_MAX : margin;
}

/* What is allowed less what is not the cache. Others may have taken memory, or the group's limit was lowered: the
 * budget does not fit any more then. The margin is what lets a limit be lowered further: a group cannot be cut below
 * what it uses. */
static uint64_t most_bytes(const struct pressure_facts *f)
{
    if (f->allowed_bytes >= f->budget_bytes) return f->slots_bytes;
    const uint64_t needed = f->budget_bytes - f->slots_bytes + pressure_margin_bytes(f->allowed_bytes);
    return f->allowed_bytes > needed ? f->allowed_bytes - needed : 0;
}

uint64_t pressure_limit(const struct pressure_facts *f)
{
    const uint64_t step = f->slots_bytes / STEP_PART, most = most_bytes(f);
    uint64_t limit = f->limit_bytes;
    const bool stalled = f->elapsed_ns && f->stall_ns > f->elapsed_ns / STALLED;
    if (limit > most) {
        limit = most;
    } else if (stalled &&
               (f->hit_limit || f->allowed_bytes < f->budget_bytes + pressure_margin_bytes(f->budget_bytes))) {
        limit = limit > step ? limit - step : 0;
    } else if (limit < most && !stalled && f->calm_ns >= CALM_NS) {
        limit = most - limit > step ? limit + step : most;
    }
    return limit < f->floor_bytes ? f->floor_bytes : limit;
}

void pressure_open(sluice_engine *e)
{
    struct os_pressure now = {0};
    e->os->pressure(e->os->user, &now);
    e->pressure = (struct engine_pressure){.limit_bytes = e->plan.slots_bytes,
                                           .stall_ns = now.stall_ns,
                                           .events = now.events,
                                           .looked_ns = e->os->now_ns(e->os->user)};
}

static void tell(sluice_engine *e, const char *why, uint64_t allowed)
{
    char a[24], b[24], c[24];
    base_log(&e->log, BASE_LOG_NOTE, "memory is short (%s: this process may use %s now): the expert cache has %s of %s",
             why, plan_format_bytes(allowed, a), plan_format_bytes(e->pressure.limit_bytes, b),
             plan_format_bytes(e->plan.slots_bytes, c));
    if (e->pressure.limit_bytes > e->plan.slots_floor_bytes || e->pressure.at_floor) return;
    e->pressure.at_floor = true;
    base_log(&e->log, BASE_LOG_WARN,
             "the expert cache is as small as it can be; if still more memory is taken away, the "
             "system may end this process");
}

void pressure_relieve(sluice_engine *e)
{
    struct engine_pressure *p = &e->pressure;
    const uint64_t now = e->os->now_ns(e->os->user);
    if (!e->cache || now < p->next_ns) return;
    p->next_ns = now + LOOK_EVERY_NS;
    uint64_t allowed;
    char why[300];
    if (engine_machine_limit(e, &allowed, why, NULL)) return; /* /proc is gone: nothing is known */
    struct os_pressure seen = {0};
    e->os->pressure(e->os->user, &seen);
    const struct pressure_facts facts = {.budget_bytes = e->plan.budget_bytes,
                                         .slots_bytes = e->plan.slots_bytes,
                                         .floor_bytes = e->plan.slots_floor_bytes,
                                         .allowed_bytes = allowed,
                                         .limit_bytes = p->limit_bytes,
                                         .calm_ns = now - p->changed_ns,
                                         .elapsed_ns = now - p->looked_ns,
                                         .stall_ns = seen.has_stall ? seen.stall_ns - p->stall_ns : 0,
                                         .hit_limit = seen.has_events && seen.events > p->events};
    p->looked_ns = now;
    p->stall_ns = seen.stall_ns;
    p->events = seen.events;
    const uint64_t limit = pressure_limit(&facts);
    if (limit == p->limit_bytes) return;
    const bool less = limit < p->limit_bytes;
    p->limit_bytes = limit;
    p->changed_ns = now;
    const uint64_t returned = expert_set_limit(e->cache, limit);
    if (!less) {
        p->grows++;
        return;
    }
    p->shrinks++;
    p->shrunk_bytes += returned;
    tell(e, why, allowed);
}

bool pressure_may_grow(void *engine, uint64_t bytes)
{
    sluice_engine *e = engine;
    struct engine_pressure *p = &e->pressure;
    const uint64_t now = e->os->now_ns(e->os->user);
    if (now < p->denied_ns) return false;
    if (bytes <= p->granted_bytes && now < p->granted_ns) return true;
    struct pressure_facts facts = {.budget_bytes = e->plan.budget_bytes, .slots_bytes = e->plan.slots_bytes};
    char why[300];
    if (engine_machine_limit(e, &facts.allowed_bytes, why, NULL)) return true; /* nothing is known */
    const uint64_t most = most_bytes(&facts), part = e->plan.slots_bytes / GRANT_PART;
    if (bytes > most) {
        p->denied_ns = now + DENIED_NS;
        p->next_ns = 0; /* what is there already may be too much */
        return false;
    }
    p->granted_bytes = bytes + (part > GRANT_MIN ? part : GRANT_MIN);
    if (p->granted_bytes > most) p->granted_bytes = most;
    p->granted_ns = now + LOOK_EVERY_NS;
    return true;
}
