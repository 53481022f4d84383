#include "engine/pressure.h"

#include "engine/engine.h"

#include <inttypes.h>
#include <stdio.h>

#define LOOK_EVERY_NS ((uint64_t)250 * 1000000u)
#define MARGIN_PART 32u /* of what is allowed: kept free once that is less than the plan's rows */
#define MARGIN_MIN ((uint64_t)2 << 20)
#define MARGIN_MAX ((uint64_t)512 << 20)
#define STALLED 10u    /* a tenth of the time stalled for memory is too much */
#define STEP_PART 16u  /* of what was planned: what a stall takes, and what calm gives back */
#define GRANT_PART 64u /* of it: what the cache may grow by before the machine is looked at again */
#define GRANT_MIN ((uint64_t)1 << 20)
#define DENIED_NS ((uint64_t)50 * 1000000u) /* before it may ask again */
#define CALM_NS ((uint64_t)5 * 1000000000u) /* before the cache grows by a step */

uint64_t pressure_margin_bytes(uint64_t allowed_bytes)
{
    const uint64_t margin = allowed_bytes / MARGIN_PART;
    return margin < MARGIN_MIN ? MARGIN_MIN : margin > MARGIN_MAX ? MARGIN_MAX : margin;
}

/* What is allowed less what is neither the cache nor prefixes. Others may have taken memory, or the group's limit was
 * lowered: the plan's rows do not fit any more then (a budget that they do not use up matters to nobody). The margin is
 * what lets a limit be lowered further: a group cannot be cut below what it uses. */
static uint64_t most_bytes(const struct pressure_facts *f)
{
    const uint64_t both = f->slots_bytes + f->prefix_bytes;
    if (f->allowed_bytes >= f->rows_bytes) return both;
    const uint64_t needed = f->rows_bytes - both + pressure_margin_bytes(f->allowed_bytes);
    return f->allowed_bytes > needed ? f->allowed_bytes - needed : 0;
}

static uint64_t least_of(uint64_t a, uint64_t b) { return a < b ? a : b; }
static uint64_t above(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

/* The order is told in pressure.h. */
static struct pressure_limits give(const struct pressure_facts *f, uint64_t bytes)
{
    struct pressure_limits l = f->limits;
    const uint64_t unused = least_of(bytes, above(l.prefix_bytes, f->prefixes.used_bytes));
    l.prefix_bytes -= unused;
    bytes -= unused;
    const uint64_t spare =
        least_of(bytes, least_of(f->prefixes.spare_bytes, above(l.prefix_bytes, f->prefixes.index_bytes)));
    l.prefix_bytes -= spare;
    bytes -= spare;
    const uint64_t slots = above(l.slots_bytes, f->floor_bytes),
                   prefixes = above(l.prefix_bytes, f->prefixes.index_bytes);
    if (bytes >= slots + prefixes) {
        l.slots_bytes -= slots;
        l.prefix_bytes -= prefixes;
    } else if (bytes) {
        const uint64_t part = (uint64_t)((double)bytes * (double)prefixes / (double)(slots + prefixes)),
                       of_prefixes = least_of(part, prefixes), of_slots = least_of(bytes - of_prefixes, slots);
        l.slots_bytes -= of_slots;
        l.prefix_bytes -= bytes - of_slots;
    }
    return l;
}

struct pressure_limits pressure_decide(const struct pressure_facts *f)
{
    const uint64_t slots_step = f->slots_bytes / STEP_PART, prefix_step = f->prefix_bytes / STEP_PART;
    const uint64_t most = most_bytes(f), now = f->limits.slots_bytes + f->limits.prefix_bytes;
    const bool stalled = f->elapsed_ns && f->stall_ns > f->elapsed_ns / STALLED;
    struct pressure_limits l = f->limits;
    if (now > most) return give(f, now - most);
    if (stalled && (f->hit_limit || f->allowed_bytes < f->rows_bytes + pressure_margin_bytes(f->rows_bytes))) {
        /* How much is missing nobody says: each gives a step. What prefixes have not used would bring nothing now. */
        const uint64_t used = least_of(l.prefix_bytes, f->prefixes.used_bytes);
        l.slots_bytes -= least_of(slots_step, above(l.slots_bytes, f->floor_bytes));
        l.prefix_bytes = used - least_of(prefix_step, above(used, f->prefixes.index_bytes));
        return l;
    }
    if (stalled || f->calm_ns < CALM_NS) return l;
    const uint64_t slots = least_of(f->slots_bytes - l.slots_bytes, slots_step ? slots_step : 1);
    l.slots_bytes += least_of(slots, most - now);
    const uint64_t prefixes = least_of(f->prefix_bytes - l.prefix_bytes, prefix_step ? prefix_step : 1);
    l.prefix_bytes += least_of(prefixes, above(most, l.slots_bytes + l.prefix_bytes));
    return l;
}

void pressure_open(sluice_engine *e)
{
    struct os_pressure now = {0};
    e->os->pressure(e->os->user, &now);
    e->pressure = (struct engine_pressure){.on = true,
                                           .limit_bytes = e->plan.slots_bytes,
                                           .prefix_limit_bytes = prefix_planned_bytes(e),
                                           .stall_ns = now.stall_ns,
                                           .events = now.events,
                                           .looked_ns = e->os->now_ns(e->os->user)};
}

static void tell(sluice_engine *e, const char *why, uint64_t allowed)
{
    char a[24], b[24], c[24], cache[80] = "", prefixes[80] = "";
    const uint64_t planned = prefix_planned_bytes(e);
    if (e->cache)
        snprintf(cache, sizeof cache, "the expert cache has %s of %s", plan_format_bytes(e->pressure.limit_bytes, b),
                 plan_format_bytes(e->plan.slots_bytes, c));
    if (planned)
        snprintf(prefixes, sizeof prefixes, "%skept prefixes have %s of %s", e->cache ? ", " : "",
                 plan_format_bytes(e->pressure.prefix_limit_bytes, b), plan_format_bytes(planned, c));
    base_log(&e->log, BASE_LOG_NOTE, "memory is short (%s: this process may use %s now): %s%s", why,
             plan_format_bytes(allowed, a), cache, prefixes);
    if (!e->cache || e->pressure.limit_bytes > e->plan.slots_floor_bytes || e->pressure.at_floor) return;
    e->pressure.at_floor = true;
    base_log(&e->log, BASE_LOG_WARN,
             "the expert cache is as small as it can be; if still more memory is taken away, the "
             "system may end this process");
}

/* Prefixes first. What they cannot give, as a file is being written of it, is theirs to give at the next look; a disk
 * that takes longer than that is not waited for: the cache gives it. True: one of them has less. */
static bool set_limits(sluice_engine *e, const struct pressure_limits *l)
{
    struct engine_pressure *p = &e->pressure;
    bool less = false, more = false;
    uint64_t slots = l->slots_bytes;
    if (l->prefix_bytes != p->prefix_limit_bytes) {
        const uint64_t was = p->prefix_limit_bytes;
        p->prefix_limit_bytes = prefix_set_limit(e, l->prefix_bytes);
        less = p->prefix_limit_bytes < was;
        more = p->prefix_limit_bytes > was;
        const uint64_t missing = l->prefix_bytes < was ? above(p->prefix_limit_bytes, l->prefix_bytes) : 0;
        if (p->owed_bytes) slots -= least_of(missing, above(slots, e->plan.slots_floor_bytes));
        p->owed_bytes = missing ? l->prefix_bytes : 0;
    }
    if (slots != p->limit_bytes) {
        const bool shrinks = slots < p->limit_bytes;
        p->limit_bytes = slots;
        const uint64_t returned = expert_set_limit(e->cache, slots);
        p->shrinks += shrinks;
        p->grows += !shrinks;
        if (shrinks) p->shrunk_bytes += returned;
        less = less || shrinks;
        more = more || !shrinks;
    }
    if (less || more) p->changed_ns = p->looked_ns;
    return less;
}

void pressure_relieve(sluice_engine *e)
{
    struct engine_pressure *p = &e->pressure;
    const uint64_t now = e->os->now_ns(e->os->user);
    if (!p->on || now < p->next_ns) return;
    p->next_ns = now + LOOK_EVERY_NS;
    uint64_t allowed;
    char why[300];
    if (engine_machine_limit(e, &allowed, NULL, why, NULL)) return; /* /proc is gone: nothing is known */
    struct os_pressure seen = {0};
    e->os->pressure(e->os->user, &seen);
    if (p->owed_bytes) p->prefix_limit_bytes = prefix_set_limit(e, p->owed_bytes);
    if (p->prefix_limit_bytes <= p->owed_bytes) p->owed_bytes = 0;
    struct pressure_facts facts = {.rows_bytes = plan_rows_bytes(&e->plan),
                                   .slots_bytes = e->plan.slots_bytes,
                                   .floor_bytes = e->plan.slots_floor_bytes,
                                   .prefix_bytes = prefix_planned_bytes(e),
                                   .allowed_bytes = allowed,
                                   .limits = {p->limit_bytes, p->prefix_limit_bytes},
                                   .calm_ns = now - p->changed_ns,
                                   .elapsed_ns = now - p->looked_ns,
                                   .stall_ns = seen.has_stall ? seen.stall_ns - p->stall_ns : 0,
                                   .hit_limit = seen.has_events && seen.events > p->events};
    prefix_need(e, &facts.prefixes);
    p->looked_ns = now;
    p->stall_ns = seen.stall_ns;
    p->events = seen.events;
    const struct pressure_limits limits = pressure_decide(&facts);
    if (set_limits(e, &limits)) tell(e, why, allowed);
}

bool pressure_may_grow(void *engine, uint64_t bytes)
{
    sluice_engine *e = engine;
    struct engine_pressure *p = &e->pressure;
    const uint64_t now = e->os->now_ns(e->os->user);
    if (now < p->denied_ns) return false;
    if (bytes <= p->granted_bytes && now < p->granted_ns) return true;
    struct pressure_facts facts = {.rows_bytes = plan_rows_bytes(&e->plan),
                                   .slots_bytes = e->plan.slots_bytes,
                                   .prefix_bytes = prefix_planned_bytes(e)};
    char why[300];
    if (engine_machine_limit(e, &facts.allowed_bytes, NULL, why, NULL)) return true; /* nothing is known */
    const uint64_t most = least_of(above(most_bytes(&facts), p->prefix_limit_bytes), e->plan.slots_bytes),
                   part = e->plan.slots_bytes / GRANT_PART;
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
