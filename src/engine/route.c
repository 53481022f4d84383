/* The cost of a chunk of n tokens. Reading takes (experts that are missing) * (their bytes) / (the disk's speed),
 * computing takes n * (a token's time in chunks of that size).
 *
 * - selected: what the chunk's tokens chose is read; the next layer's experts are read ahead, so the two overlap but
 * for a part (OVERLAP_LOST of the shorter one).
 * - layers: everything that is missing is read in order, at the speed of long reads, all of it beside the computing.
 * - token: each token computes alone and overlaps little; what one token has read the next ones find.
 *
 * Every number is an average over this run, newer ones with more weight. What was never measured is not guessed: such
 * a route is not chosen, and "selected" is what happens until something is known. */
#include "engine/route.h"

#include "engine/engine.h"

#include <inttypes.h>

#define OVERLAP_LOST 0.25
#define NEW_WEIGHT 0.3        /* of the latest measurement */
#define TOKEN_ROUTE_MAX 32u   /* longer prompts have more in common than a token alone can use */
#define BUSY_NS_MIN 2000000.0 /* shorter reads say nothing of the disk */

const char *route_name(enum engine_route route)
{
    static const char *const names[] = {"token", "selected", "layers", "auto"};
    return names[route];
}

unsigned route_size(uint32_t n_tokens)
{
    unsigned size = 0;
    while (size + 1 < ROUTE_SIZES && (UINT32_C(1) << size) < n_tokens) size++;
    return size;
}

double route_union(const struct route_facts *f, uint32_t n_tokens)
{
    if (!f->n_expert) return 0;
    double out = 1, base = 1 - (double)f->n_used / f->n_expert; /* out: a token more does not choose a given expert */
    for (uint32_t n = n_tokens; n; n >>= 1, base *= base)
        if (n & 1) out *= base;
    const double distinct = f->n_expert * (1 - out) * (f->crowd > 0 ? f->crowd : 1);
    return distinct < f->n_used ? f->n_used : distinct > f->n_expert ? f->n_expert : distinct;
}

/* A token's time in chunks of about this size: as measured, or of the nearest size that was. 0: none was. */
static double compute_of(const struct route_facts *f, unsigned size)
{
    for (unsigned d = 0; d < ROUTE_SIZES; d++) {
        if (size >= d && f->compute_ns[size - d] > 0) return f->compute_ns[size - d];
        if (size + d < ROUTE_SIZES && f->compute_ns[size + d] > 0) return f->compute_ns[size + d];
    }
    return 0;
}

static double overlapped(double a, double b, double lost) { return a > b ? a + lost * b : b + lost * a; }

void route_choose(const struct route_facts *f, enum engine_route asked, uint32_t n_tokens, struct route_choice *out)
{
    *out = (struct route_choice){.route = asked == ROUTE_AUTO ? ROUTE_SELECTED : asked, .ns = {-1, -1, -1}};
    const double compute = compute_of(f, route_size(n_tokens)) * n_tokens;
    if (!(f->read_bytes_ns > 0) || !(compute > 0)) return;
    const double read = f->n_layers * route_union(f, n_tokens) * f->missing * f->expert_bytes / f->read_bytes_ns;
    out->ns[ROUTE_SELECTED] = overlapped(read, compute, OVERLAP_LOST);
    if (f->whole_bytes_ns > 0) {
        const double whole = (double)f->n_layers * f->n_expert * f->missing * f->expert_bytes / f->whole_bytes_ns;
        out->ns[ROUTE_LAYERS] = overlapped(whole, compute, 0);
    }
    if (f->compute_ns[0] > 0 && n_tokens <= TOKEN_ROUTE_MAX) out->ns[ROUTE_TOKEN] = read + n_tokens * f->compute_ns[0];
    if (asked != ROUTE_AUTO) return;
    for (int r = 0; r < ROUTES; r++)
        if (out->ns[r] >= 0 && out->ns[r] < out->ns[out->route]) out->route = (enum engine_route)r;
}

/* ---- in a run ---- */

static void learn(double *value, double seen) { *value = *value > 0 ? *value + NEW_WEIGHT * (seen - *value) : seen; }

void routes_open(sluice_engine *e)
{
    struct route_facts *f = &e->routes.facts;
    if (!e->catalog) return;
    for (uint32_t i = 0; i < expert_catalog_n_layers(e->catalog); i++) {
        const struct expert_layer *l = expert_catalog_layer(e->catalog, i);
        f->n_layers += l->n_expert > 0;
        if (l->n_expert > f->n_expert) f->n_expert = l->n_expert;
        if (l->n_used > f->n_used) f->n_used = l->n_used;
    }
    f->expert_bytes = (double)expert_catalog_total_bytes(e->catalog) / (double)expert_catalog_n_experts(e->catalog);
    f->missing = 1;
    f->crowd = 1;
    if (e->stats.load_ns) f->whole_bytes_ns = (double)e->stats.load_bytes / (double)e->stats.load_ns;
    f->read_bytes_ns = f->whole_bytes_ns; /* until experts have been read */
}

static void tell_foresight(sluice_engine *e, enum engine_route route)
{
    struct model_foresight *f = e->run.foresight;
    const struct route_facts *facts = &e->routes.facts;
    if (!f) return;
    f->route = route == ROUTE_LAYERS         ? FORESIGHT_LAYERS
               : e->asks.route == ROUTE_AUTO ? FORESIGHT_BY_COST
                                             : FORESIGHT_SELECTED;
    if (facts->whole_bytes_ns > 0) f->whole_cost = facts->read_bytes_ns / facts->whole_bytes_ns;
    if (facts->read_bytes_ns > 0) f->expert_read_ns = (uint64_t)(facts->expert_bytes / facts->read_bytes_ns);
}

uint32_t routes_begin(sluice_engine *e, uint32_t n_tokens, bool decode, bool divisible, struct route_choice *choice)
{
    struct engine_routes *r = &e->routes;
    *choice = (struct route_choice){.route = ROUTE_SELECTED, .ns = {-1, -1, -1}};
    if (!e->cache) return n_tokens;
    if (!decode) route_choose(&r->facts, e->asks.route, n_tokens, choice);
    if (choice->route == ROUTE_TOKEN && !divisible) choice->route = ROUTE_SELECTED;
    tell_foresight(e, choice->route);
    struct expert_stats x;
    struct io_stats io;
    expert_cache_stats(e->cache, &x);
    io_stats(e->io, &io);
    r->began_ns = e->os->now_ns(e->os->user);
    r->wait_ns = x.wait_ns;
    r->read_bytes = x.read_bytes;
    r->wants = x.hits + x.misses;
    r->busy_ns = io.busy_ns;
    r->io_bytes = io.read_bytes;
    return choice->route == ROUTE_TOKEN ? 1 : n_tokens;
}

void routes_end(sluice_engine *e, uint32_t n_tokens, bool decode, const struct route_choice *choice)
{
    struct engine_routes *r = &e->routes;
    struct route_facts *f = &r->facts;
    if (!e->cache) return;
    struct expert_stats x;
    struct io_stats io;
    expert_cache_stats(e->cache, &x);
    io_stats(e->io, &io);
    const uint64_t ns = e->os->now_ns(e->os->user) - r->began_ns, wait = x.wait_ns - r->wait_ns;
    const uint64_t wants = x.hits + x.misses - r->wants;
    /* Reads ahead that were asked for before and withdrawn since are taken back: there may be less than there was. */
    const uint64_t read_bytes = x.read_bytes > r->read_bytes ? x.read_bytes - r->read_bytes : 0;
    if (decode) e->sizes.decode_wait_ns += wait;
    learn(&f->compute_ns[route_size(n_tokens)], (double)(ns > wait ? ns - wait : 0) / n_tokens);
    const double busy = (double)(io.busy_ns - r->busy_ns);
    if (busy > BUSY_NS_MIN) learn(&f->read_bytes_ns, (double)(io.read_bytes - r->io_bytes) / busy);
    if (wants && !decode) { /* by bytes: what was read ahead was not missed any more */
        const double missing = (double)read_bytes / ((double)wants * f->expert_bytes);
        learn(&f->missing, missing < 1 ? missing : 1);
    }
    if (wants && n_tokens > 1) {
        struct route_facts alone = *f;
        alone.crowd = 1;
        learn(&f->crowd, (double)wants / f->n_layers / route_union(&alone, n_tokens));
    }
    if (decode) return;
    r->of[choice->route].steps++;
    r->of[choice->route].tokens += n_tokens;
    r->of[choice->route].ns += ns;
    r->of[choice->route].read_bytes += read_bytes;
    double predicted = choice->ns[choice->route];
    if (predicted >= 0) r->of[choice->route].predicted_ns += (uint64_t)predicted;
    const struct model_foresight *s = e->run.foresight;
    if (s) {
        r->of[ROUTE_LAYERS].layers += s->layers_whole - r->layers_whole;
        r->of[ROUTE_SELECTED].layers += s->layers_selected - r->layers_selected;
        r->layers_whole = s->layers_whole;
        r->layers_selected = s->layers_selected;
    }
    base_log(&e->log, BASE_LOG_DEBUG,
             "prompt chunk of %" PRIu32
             " tokens: route %s, predicted %.2f s, took %.2f s (waited %.2f s, read %.1f MB)",
             n_tokens, route_name(choice->route), predicted < 0 ? 0 : predicted / 1e9, (double)ns / 1e9,
             (double)wait / 1e9, (double)read_bytes / 1e6);
}
