#include "engine/engine.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ENGINE_THREADS_MAX 256
#define ENGINE_CHUNK_MAX 4096

void sluice_options_init(struct sluice_options *o) { *o = (struct sluice_options){.struct_bytes = sizeof *o}; }

/* Replaces a caller's string by a copy that lives as long as the engine. */
static bool keep(sluice_engine *e, const char **s)
{
    if (!*s) return true;
    char *copy = strdup(*s);
    if (!copy) return false;
    e->strings[e->n_strings++] = copy;
    *s = copy;
    return true;
}

static enum sluice_status parse_kv_type(const char *text, uint32_t *out, struct sluice_error *err)
{
    static const struct {
        const char *name;
        uint32_t id;
    } types[] = {{"f16", QUANT_F16}, {"q8_0", QUANT_Q8_0}, {"f32", QUANT_F32}};
    *out = QUANT_F16;
    if (!text) return SLUICE_OK;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(text, types[i].name)) {
            *out = types[i].id;
            return SLUICE_OK;
        }
    return base_fail(err, SLUICE_ERR_USAGE, "the types are f16, q8_0 and f32", "unknown KV cache type '%.40s'", text);
}

static enum sluice_status parse_io(const char *text, struct engine_asks *a, struct sluice_error *err)
{
    static const char suffix[] = ":buffered";
    a->io = IO_AUTO;
    a->buffered = false;
    if (!text) return SLUICE_OK;
    size_t n = strlen(text), m = sizeof suffix - 1;
    if (n >= m && !strcmp(text + n - m, suffix)) {
        a->buffered = true;
        n -= m;
    }
    for (int b = IO_AUTO; b <= IO_SYNC; b++) {
        const char *name = io_backend_name((enum io_backend)b);
        if (strlen(name) == n && !memcmp(name, text, n)) {
            a->io = (enum io_backend)b;
            return SLUICE_OK;
        }
    }
    return base_fail(err, SLUICE_ERR_USAGE,
                     "the back ends are auto, uring, threads and sync, each with :buffered behind it or not",
                     "unknown read back end '%.40s'", text);
}

static enum sluice_status check_numbers(const struct sluice_options *o, struct sluice_error *err)
{
    if (o->threads > ENGINE_THREADS_MAX)
        return base_fail(err, SLUICE_ERR_USAGE, NULL, "%" PRIu32 " threads; at most %d are possible", o->threads,
                         ENGINE_THREADS_MAX);
    if (o->chunk > ENGINE_CHUNK_MAX)
        return base_fail(err, SLUICE_ERR_USAGE, NULL, "a prefill chunk of %" PRIu32 " tokens; at most %d are possible",
                         o->chunk, ENGINE_CHUNK_MAX);
    if (o->ctx > MODEL_CTX_MAX)
        return base_fail(err, SLUICE_ERR_USAGE, NULL, "a context of %" PRIu32 " tokens; at most %u are possible",
                         o->ctx, MODEL_CTX_MAX);
    if (o->sessions > ENGINE_SESSIONS_MAX && o->sessions != SLUICE_SESSIONS_AUTO)
        return base_fail(err, SLUICE_ERR_USAGE, NULL, "%" PRIu32 " sessions; at most %d are possible", o->sessions,
                         ENGINE_SESSIONS_MAX);
    if (!o->model_path || !*o->model_path)
        return base_fail(err, SLUICE_ERR_USAGE, "name a GGUF file", "no model file is given");
    return SLUICE_OK;
}

/* "lookahead,next": the names of sources, each once. What is certain stands behind those that are learned. */
static enum sluice_status parse_prefetch(const char *text, struct engine_asks *a, struct sluice_error *err)
{
    enum { CERTAIN = PREDICT_SOURCES, NAMES };
    static const char *const names[NAMES] = {"lookahead", "transitions", "next", "certain"};
    unsigned given = 0;
    a->sources = (1u << PREDICT_SOURCES) - 1;
    a->sources_auto = a->certain = true;
    if (!text || !strcmp(text, "auto")) return SLUICE_OK;
    a->sources = 0;
    a->sources_auto = a->certain = false;
    if (!strcmp(text, "off")) return SLUICE_OK;
    for (const char *at = text;;) {
        const size_t n = strcspn(at, ",");
        int s = 0;
        while (s < NAMES && (strlen(names[s]) != n || memcmp(names[s], at, n))) s++;
        if (s == NAMES || given >> s & 1)
            return base_fail(err, SLUICE_ERR_USAGE,
                             "auto, off, or some of certain, lookahead, transitions and next, joined by commas",
                             s == NAMES ? "unknown source of guesses '%.*s'" : "'%.*s' is named twice",
                             (int)(n < 40 ? n : 40), at);
        given |= 1u << s;
        if (s == CERTAIN)
            a->certain = true;
        else
            a->sources |= 1u << s;
        if (!at[n]) return SLUICE_OK;
        at += n + 1;
    }
}

static enum sluice_status parse_lock(const struct sluice_options *o, struct engine_asks *a, struct sluice_error *err)
{
    const char *text = o->lock;
    if (!text && o->lock_margin)
        return base_fail(err, SLUICE_ERR_USAGE, "give --lock as well", "--lock-margin without --lock has no effect");
    if (!text) return SLUICE_OK;
    a->lock_all = !strcmp(text, "all");
    a->lock_dense = a->lock_all || !strcmp(text, "dense");
    a->lock_experts = a->lock_all || !strcmp(text, "experts");
    if (!a->lock_dense && !a->lock_experts)
        return base_fail(err, SLUICE_ERR_USAGE, "dense, experts or all can be locked", "cannot lock '%.40s'", text);
    return SLUICE_OK;
}

/* A number of bytes; a percentage is of the machine's memory. */
static enum sluice_status parse_bytes(const char *text, const char *what, uint64_t *out, struct sluice_error *err)
{
    struct plan_size size;
    *out = 0;
    if (!text) return SLUICE_OK;
    enum sluice_status st = plan_parse_size(text, false, what, &size, err);
    if (st) return st;
    if (size.unit == PLAN_AUTO) return SLUICE_OK;
    struct os_memory m;
    os_memory(&m);
    *out = (uint64_t)(size.unit == PLAN_PERCENT ? (double)m.total_bytes * size.value / 100 : size.value);
    return SLUICE_OK;
}

static enum sluice_status parse_route(const char *text, struct engine_asks *a, struct sluice_error *err)
{
    a->route = ROUTE_AUTO;
    if (!text) return SLUICE_OK;
    for (int r = 0; r <= ROUTE_AUTO; r++)
        if (!strcmp(text, route_name((enum engine_route)r))) {
            a->route = (enum engine_route)r;
            return SLUICE_OK;
        }
    return base_fail(err, SLUICE_ERR_USAGE, "the routes are auto, token, selected and layers", "unknown route '%.40s'",
                     text);
}

static enum sluice_status parse_prefix(const struct sluice_options *o, struct engine_asks *a, struct sluice_error *err)
{
    const char *limit = o->prefix_limit ? o->prefix_limit : PREFIX_LIMIT_DEFAULT;
    if (o->prefix_dir && !o->prefix_memory)
        return base_fail(err, SLUICE_ERR_USAGE, "give --prefix-memory as well",
                         "prefixes are to be kept in %.300s, but no memory is set aside for them", o->prefix_dir);
    if (o->prefix_limit && !o->prefix_dir)
        return base_fail(err, SLUICE_ERR_USAGE, "give --kv-dir as well", "--kv-limit without --kv-dir has no effect");
    enum sluice_status st = plan_parse_size(o->prefix_memory, false, "--prefix-memory", &a->prefix_memory, err);
    return st ? st : parse_bytes(limit, "--kv-limit", &a->prefix_limit_bytes, err);
}

enum sluice_status engine_parse_options(const struct sluice_options *o, sluice_engine *e, struct sluice_error *err)
{
    sluice_options_init(&e->options);
    if (o->struct_bytes < offsetof(struct sluice_options, memory) || o->struct_bytes > 4096)
        return base_fail(err, SLUICE_ERR_USAGE, "begin with sluice_options_init", "sluice_options.struct_bytes is %zu",
                         o->struct_bytes);
    size_t known = o->struct_bytes < sizeof *o ? o->struct_bytes : sizeof *o;
    memcpy(&e->options, o, known);
    struct sluice_options *p = &e->options;
    if (!keep(e, &p->model_path) || !keep(e, &p->memory) || !keep(e, &p->experts) || !keep(e, &p->kv_type) ||
        !keep(e, &p->cpu) || !keep(e, &p->io) || !keep(e, &p->policy) || !keep(e, &p->trace_path) ||
        !keep(e, &p->usage_path) || !keep(e, &p->hotlist_path) || !keep(e, &p->pin) || !keep(e, &p->prefetch) ||
        !keep(e, &p->lock) || !keep(e, &p->lock_margin) || !keep(e, &p->simulate_used_memory) || !keep(e, &p->route) ||
        !keep(e, &p->pre) || !keep(e, &p->prefix_memory) || !keep(e, &p->prefix_dir) || !keep(e, &p->prefix_limit) ||
        !keep(e, &p->chat_template))
        return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for the options");
    struct engine_asks *a = &e->asks;
    enum sluice_status st = check_numbers(p, err);
    if (!st) st = plan_parse_size(p->memory, false, "--memory", &a->memory, err);
    if (!st) st = plan_parse_size(p->experts, true, "--experts", &a->experts, err);
    if (!st) st = parse_kv_type(p->kv_type, &a->kv_type, err);
    if (!st) st = parse_io(p->io, a, err);
    if (!st) st = parse_prefetch(p->prefetch, a, err);
    if (!st) st = parse_lock(p, a, err);
    if (!st) st = parse_route(p->route, a, err);
    if (!st) st = parse_bytes(p->lock_margin, "--lock-margin", &a->lock_margin_bytes, err);
    if (!st) st = parse_bytes(p->simulate_used_memory, "--simulate-used-memory", &a->simulated_used_bytes, err);
    if (!st) st = parse_prefix(p, a, err);
    if (!st && !policy_by_name(p->policy ? p->policy : "auto", &a->policy))
        st = base_fail(err, SLUICE_ERR_USAGE, "the policies are " POLICY_CHOICES, "unknown policy '%.40s'", p->policy);
    return st;
}
