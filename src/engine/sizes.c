#include "engine/sizes.h"

#include "engine/engine.h"

#define LAYERS_FOLLOWED 24u /* the error stays below a point of hit rate (tests/expert/test_ghosts.c) */
#define TOKENS_LEAST 16u    /* decoded tokens before anything is said */
#define GOOD_ENOUGH 0.95    /* of the best speed: more memory is not useful */

uint64_t sizes_memory_bytes(const sluice_engine *e)
{
    return expert_ghosts_memory_bytes(e->catalog, EXPERT_GHOSTS_MAX, LAYERS_FOLLOWED);
}

/* What is not the cache. A budget that is larger than all that is needed is not used up: it says nothing here. */
static uint64_t rest_bytes(const struct plan *p) { return plan_rows_bytes(p) - p->slots_bytes; }

enum sluice_status sizes_open(sluice_engine *e, struct sluice_error *err)
{
    static const uint32_t quarters[] = {2, 3, 5, 6, 8, 12, 16};
    const struct plan *p = &e->plan;
    const uint64_t rest = rest_bytes(p), all = rest + p->slots_bytes;
    /* Where most of that is not the cache, quarters of it are too coarse: of the cache, then. */
    const bool fine = all / 4 * 3 < rest + p->slots_floor_bytes;
    struct expert_ghost_config ghosts[EXPERT_GHOSTS_MAX];
    uint32_t n = 0;
    ghosts[n++] = (struct expert_ghost_config){.slots_bytes = p->slots_bytes};
    if (e->known.pin_keep)
        ghosts[n++] = (struct expert_ghost_config){.slots_bytes = p->slots_bytes, .kept = e->known.pin_keep};
    bool full = p->slots_bytes >= p->slots_needed_bytes;
    for (size_t i = 0; i < sizeof quarters / sizeof *quarters; i++) {
        const uint64_t budget = all / 4 * quarters[i];
        uint64_t slots = fine ? p->slots_bytes / 4 * quarters[i] : budget > rest ? budget - rest : 0;
        if (slots < p->slots_floor_bytes || (quarters[i] > 4 && full)) continue;
        if (slots >= p->slots_needed_bytes) {
            slots = p->slots_needed_bytes;
            full = true;
        }
        ghosts[n++] = (struct expert_ghost_config){.slots_bytes = slots};
    }
    if (!full) ghosts[n++] = (struct expert_ghost_config){.slots_bytes = p->slots_needed_bytes};
    e->sizes.n = n;
    return expert_ghosts_create(e->catalog, e->asks.policy, ghosts, n, LAYERS_FOLLOWED, &e->sizes.ghosts, err);
}

void sizes_close(sluice_engine *e) { expert_ghosts_destroy(e->sizes.ghosts); }

/* Time a token: computing stays the same, waiting goes with the bytes that miss. */
static double token_ns(const sluice_engine *e, const struct expert_ghost_result *now,
                       const struct expert_ghost_result *other)
{
    const double tokens = (double)e->stats.tokens_decode, wait = (double)e->sizes.decode_wait_ns / tokens,
                 compute = (double)e->stats.decode_ns / tokens - wait;
    if (now->miss_bytes) return compute + wait * (double)other->miss_bytes / (double)now->miss_bytes;
    const double speed = e->routes.facts.read_bytes_ns; /* nothing missed: what the disk gives */
    const double all = (double)expert_catalog_token_bytes(e->catalog),
                 share = (double)other->miss_bytes / (double)(other->miss_bytes + other->hit_bytes);
    return compute + (speed > 0 ? all * share / speed : 0);
}

void sizes_fill(const sluice_engine *e, struct sluice_stats *out)
{
    if (!e->sizes.ghosts || e->stats.tokens_decode < TOKENS_LEAST) return;
    const uint64_t rest = rest_bytes(&e->plan);
    struct expert_ghost_result now, r;
    expert_ghosts_result(e->sizes.ghosts, SIZES_PLAIN, &now);
    if (now.hits + now.misses == 0) return;
    double best = 0;
    for (uint32_t i = 0; i < e->sizes.n && out->n_sizes < SLUICE_SIZES_MAX; i++) {
        if (i == SIZES_PINNED && e->known.pin_keep) continue;
        expert_ghosts_result(e->sizes.ghosts, i, &r);
        const double rate = 1e9 / token_ns(e, &now, &r);
        size_t at = out->n_sizes++;
        while (at > 0 && out->sizes[at - 1].slots_bytes > r.slots_bytes) { /* ascending */
            out->sizes[at] = out->sizes[at - 1];
            at--;
        }
        out->sizes[at].slots_bytes = r.slots_bytes;
        out->sizes[at].memory_bytes = r.slots_bytes + rest;
        out->sizes[at].hit_rate = (double)r.hits / (double)(r.hits + r.misses);
        out->sizes[at].tokens_per_second = rate;
        if (rate > best) best = rate;
    }
    for (size_t i = out->n_sizes; i-- > 0;)
        if (out->sizes[i].tokens_per_second >= GOOD_ENOUGH * best)
            out->useful_memory_bytes = out->sizes[i].memory_bytes;
}
