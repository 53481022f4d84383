/* What an engine says of itself: versions, model, ledger, statistics. */
#include "base/error.h"
#include "engine/engine.h"

#include <string.h>

#define TEXT_OF(x) #x
#define VERSION_TEXT(a, b, c) TEXT_OF(a) "." TEXT_OF(b) "." TEXT_OF(c)

const char *sluice_version(void)
{
    return VERSION_TEXT(SLUICE_VERSION_MAJOR, SLUICE_VERSION_MINOR, SLUICE_VERSION_PATCH);
}
int sluice_exit_code(enum sluice_status status) { return base_exit_code(status); }
const char *sluice_status_name(enum sluice_status status) { return base_status_name(status); }

static const char *kv_type_name(uint32_t type)
{
    return type == QUANT_F16 ? "f16" : type == QUANT_Q8_0 ? "q8_0" : "f32";
}

static void fill_model_info(const sluice_engine *e, struct sluice_model_info *out)
{
    *out = (struct sluice_model_info){.architecture = e->architecture,
                                      .name = e->name,
                                      .path = e->options.model_path,
                                      .chat_format = e->chat_template ? "template" : text_chat_name(e->chat),
                                      .chat_format_exact = e->chat_template || e->chat_exact,
                                      .n_vocab = (uint32_t)text_n_vocab(e->tokenizer)};
    for (size_t i = 0; i < gguf_n_shards(e->gguf); i++) out->file_bytes += gguf_shard(e->gguf, i)->bytes;
    if (!e->model) return;
    const struct model_hparams *hp = &e->model->hp;
    out->dense_bytes = e->model->dense_bytes;
    if (e->catalog) {
        out->expert_bytes = expert_catalog_total_bytes(e->catalog);
        out->expert_bytes_per_token = expert_catalog_token_bytes(e->catalog);
    }
    out->n_layers = hp->n_layer;
    out->n_embd = hp->n_embd;
    out->n_vocab = hp->n_vocab;
    out->n_ctx_train = hp->n_ctx_train;
    out->n_expert = hp->n_expert;
    out->n_expert_used = hp->n_expert_used;
    out->ctx = e->plan.ctx;
    out->chunk = e->plan.chunk;
    out->threads = e->options.threads;
    out->cpu = e->table->name;
    struct io_stats io;
    io_stats(e->io, &io);
    out->io = io_backend_name(io.backend);
    out->policy = e->catalog ? policy_name(e->asks.policy) : "none";
    out->kv_type = kv_type_name(e->asks.kv_type);
    out->sessions = e->options.sessions;
}

static void fill_ledger(const sluice_engine *e, struct sluice_ledger *out)
{
    *out = (struct sluice_ledger){.budget_bytes = e->plan.budget_bytes,
                                  .machine_limit_bytes = e->machine_limit_bytes,
                                  .machine_limit_why = e->machine_limit_why,
                                  .n_rows = e->plan.n_rows,
                                  .slots_bytes = e->plan.slots_bytes,
                                  .slots_all_bytes = e->plan.slots_needed_bytes,
                                  .slots_floor_bytes = e->plan.slots_floor_bytes};
    for (size_t i = 0; i < e->plan.n_rows && i < SLUICE_LEDGER_ROWS_MAX; i++) {
        out->rows[i].name = e->plan.rows[i].name;
        out->rows[i].bytes = e->plan.rows[i].bytes;
    }
    if (!e->catalog || !out->slots_all_bytes) return;
    double held = (double)out->slots_bytes / (double)out->slots_all_bytes;
    out->expected_bytes_per_token = held >= 1 ? 0 : (1 - held) * (double)expert_catalog_token_bytes(e->catalog);
}

static bool source_on(const sluice_engine *e, enum expert_source source)
{
    switch (source) {
    case EXPERT_LOOKAHEAD: return e->predict && predict_on(e->predict, PREDICT_LOOKAHEAD);
    case EXPERT_TRANSITIONS: return e->predict && predict_on(e->predict, PREDICT_TRANSITIONS);
    case EXPERT_NEXT: return e->predict && predict_on(e->predict, PREDICT_NEXT);
    case EXPERT_LAYERS: return e->asks.route == ROUTE_AUTO || e->asks.route == ROUTE_LAYERS;
    case EXPERT_WARM: return !e->known.warm_ended && e->known.next_warm < e->known.n_warm;
    case EXPERT_CERTAIN: return e->asks.certain;
    case EXPERT_SOURCES: break;
    }
    return false;
}

static void fill_cache_stats(const sluice_engine *e, const struct expert_stats *x, struct sluice_stats *out)
{
    _Static_assert(EXPERT_SOURCES <= SLUICE_PREFETCH_MAX && ROUTES <= SLUICE_ROUTES_MAX, "all have room");
    for (int s = 0; s < EXPERT_SOURCES; s++) {
        const struct expert_source_stats *from = &x->sources[s];
        out->prefetch[s].name = expert_source_name((enum expert_source)s);
        out->prefetch[s].on = source_on(e, (enum expert_source)s);
        out->prefetch[s].named = from->named;
        out->prefetch[s].came_true = from->came_true;
        out->prefetch[s].chosen = from->chosen;
        out->prefetch[s].reads = from->reads;
        out->prefetch[s].useful = from->useful;
        out->prefetch[s].late = from->late;
        out->prefetch[s].wasted = from->wasted;
        out->prefetch[s].useful_bytes = from->useful_bytes;
        out->prefetch[s].wasted_bytes = from->wasted_bytes;
    }
    out->slots_bytes = x->committed_bytes;
    out->warm_left = e->known.warm_ended ? 0 : e->known.n_warm - e->known.next_warm + x->reading;
    out->slots_limit_bytes = x->limit_bytes;
    out->shrinks = e->pressure.shrinks;
    out->shrunk_bytes = e->pressure.shrunk_bytes;
    out->grows = e->pressure.grows;
    out->pinned = x->pinned;
    out->pinned_bytes = x->pinned_bytes;
    out->kept_decode = x->kept_decode;
    for (int r = 0; r < ROUTES; r++) {
        out->routes[r].name = route_name((enum engine_route)r);
        out->routes[r].steps = e->routes.of[r].steps;
        out->routes[r].tokens = e->routes.of[r].tokens;
        out->routes[r].layers = e->routes.of[r].layers;
        out->routes[r].predicted_ns = e->routes.of[r].predicted_ns;
        out->routes[r].ns = e->routes.of[r].ns;
        out->routes[r].read_bytes = e->routes.of[r].read_bytes;
    }
}

static void fill_prefix_stats(const sluice_engine *e, struct sluice_stats *out)
{
    const struct engine_prefix *p = &e->prefix;
    out->prefix_tokens = p->tokens;
    if (!p->on) return;
    out->prefix_nodes = p->store.tree.n_items;
    out->prefix_memory_bytes = prefix_tree_memory_bytes(&p->store.tree);
    out->prefix_memory_limit = p->limit_bytes;
    out->prefix_returned_bytes = p->returned_bytes;
    const struct prefix_disk *d = p->store.disk;
    if (!d) return;
    out->prefix_disk_bytes = d->bytes;
    out->prefix_disk_limit = d->limit_bytes;
    out->prefix_written_bytes = d->written_bytes;
    out->prefix_read_bytes = d->read_bytes;
    out->prefix_refused = d->refused;
}

static void fill_stats(const sluice_engine *e, struct sluice_stats *out)
{
    *out = e->stats;
    fill_prefix_stats(e, out);
    if (e->io) {
        struct io_stats io;
        io_stats(e->io, &io);
        out->disk_busy_ns = io.busy_ns;
    }
    if (e->cache) {
        struct expert_stats x;
        expert_cache_stats(e->cache, &x);
        out->hits = x.hits;
        out->misses = x.misses;
        out->evictions = x.evictions;
        out->read_bytes = x.read_bytes;
        out->wait_ns = x.wait_ns;
        out->experts_resident = x.resident;
        out->experts_slots = x.slots;
        fill_cache_stats(e, &x, out);
        sizes_fill(e, out);
    }
    if (e->options.lock) {
        out->lock_wanted_bytes = e->locker.wanted_bytes;
        out->locked_bytes = e->locker.locked_bytes;
        out->lock_skipped_bytes = e->locker.skipped_bytes;
        out->lock_failed_bytes = e->locker.failed_bytes;
    }
    os_resident(&out->resident_bytes, &out->resident_peak_bytes);
}

size_t sluice_experts_of(const sluice_engine *e, uint32_t layer, struct sluice_place *out, size_t max)
{
    if (!e->catalog || layer >= expert_catalog_n_layers(e->catalog)) return 0;
    const uint32_t n = expert_catalog_layer(e->catalog, layer)->n_expert;
    for (uint32_t x = 0; out && x < n && x < max; x++) {
        const bool here = e->cache && expert_resident(e->cache, layer, x);
        out[x].tier = here                                           ? SLUICE_TIER_CACHE
                      : e->cache && expert_known(e->cache, layer, x) ? SLUICE_TIER_LOADING
                                                                     : SLUICE_TIER_DISK;
        if (here && expert_pinned(e->cache, layer, x)) out[x].tier = SLUICE_TIER_PINNED;
        out[x].heat = e->known.usage
                          ? (float)expert_usage_probability(e->known.usage, expert_catalog_key(e->catalog, layer, x))
                          : 0;
    }
    return n;
}

/* A caller that was compiled against another version of the header gets the fields that both know; the rest of its
 * struct is zero. */
static void give(void *out, size_t out_bytes, const void *all, size_t all_bytes)
{
    memset(out, 0, out_bytes);
    memcpy(out, all, out_bytes < all_bytes ? out_bytes : all_bytes);
}

void sluice_model_info_sized(const sluice_engine *e, struct sluice_model_info *out, size_t bytes)
{
    struct sluice_model_info all;
    fill_model_info(e, &all);
    give(out, bytes, &all, sizeof all);
}

void sluice_ledger_sized(const sluice_engine *e, struct sluice_ledger *out, size_t bytes)
{
    struct sluice_ledger all;
    fill_ledger(e, &all);
    give(out, bytes, &all, sizeof all);
}

void sluice_stats_sized(const sluice_engine *e, struct sluice_stats *out, size_t bytes)
{
    struct sluice_stats all;
    fill_stats(e, &all);
    give(out, bytes, &all, sizeof all);
}
