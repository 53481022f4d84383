#include "engine/known.h"

#include "engine/engine.h"
#include "expert/hotlist.h"
#include "expert/replace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SAVE_EVERY_NS ((uint64_t)60 * 1000000000u)
#define PREPARE_POLL_NS 500000   /* between two looks at memory that is coming: a small part of what a touch takes */
#define SAVE_WAIT_MS 200u        /* for another process, between turns */
#define SAVE_WAIT_CLOSE_MS 2000u /* and at the end */
/* The warm-up loads what a first prompt would want with even odds: reading others costs more than it saves. The prompt
 * is as long as what coding agents send (median, FIELD.md). */
#define WARM_PROMPT_TOKENS 249.0
#define PIN_SHARE 4u         /* automatic pins: at most one slot in so many */
#define PIN_LEARNED 256.0    /* tokens of heat before any are chosen */
#define PIN_TRIAL_TOKENS 32u /* decoded tokens that judge a choice */
#define PIN_GAIN 0.99        /* a choice pays if it reads less than this share of what no pins would read */

/* Probability a token at which a prompt of WARM_PROMPT_TOKENS wants an expert with even odds: 1 - (1 - p)^n = 1/2. */
static double least_probability(void) { return 0.6931471805599453 / WARM_PROMPT_TOKENS; }

static uint64_t now_ns(const sluice_engine *e) { return e->os->now_ns(e->os->user); }

uint64_t known_memory_bytes(const sluice_engine *e)
{
    const uint64_t n = expert_catalog_n_experts(e->catalog);
    return expert_usage_memory_bytes(e->catalog) + n * (2 * sizeof(uint32_t) + sizeof(uint8_t));
}

static char *beside(const sluice_engine *e, const char *suffix)
{
    char *path = NULL;
    return asprintf(&path, "%s%s", e->options.model_path, suffix) < 0 ? NULL : path;
}

/* ---- the usage file ---- */

static enum sluice_status open_usage(sluice_engine *e, struct sluice_error *err)
{
    struct engine_known *k = &e->known;
    const bool asked = e->options.usage_path != NULL;
    enum sluice_status st = expert_usage_create(e->catalog, gguf_fingerprint(e->gguf), &k->usage, err);
    if (st || e->options.no_usage) return st;
    k->usage_path = asked ? strdup(e->options.usage_path) : beside(e, EXPERT_USAGE_SUFFIX);
    if (!k->usage_path) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for a path");
    struct sluice_error why;
    st = expert_usage_load(k->usage, e->os, k->usage_path, &why);
    if (!st) return SLUICE_OK;
    if (asked) {
        if (err) *err = why;
        return st;
    }
    base_log(&e->log, BASE_LOG_WARN, "%s (%s); going on without it", why.message, why.hint);
    free(k->usage_path);
    k->usage_path = NULL;
    return SLUICE_OK;
}

static void save_usage(sluice_engine *e, uint32_t wait_ms)
{
    struct engine_known *k = &e->known;
    struct sluice_error why;
    if (!k->usage || !k->usage_path || !expert_usage_changed(k->usage)) return;
    k->saved_ns = now_ns(e);
    if (!expert_usage_save(k->usage, e->os, k->usage_path, wait_ms, &why) || k->save_failed) return;
    k->save_failed = true;
    base_log(&e->log, e->options.usage_path ? BASE_LOG_WARN : BASE_LOG_NOTE, "what was learned is not kept: %s (%s)",
             why.message, why.hint);
}

static bool save_due(const sluice_engine *e)
{
    return e->known.usage && e->known.usage_path && expert_usage_changed(e->known.usage) &&
           now_ns(e) - e->known.saved_ns >= SAVE_EVERY_NS;
}

/* ---- the warm-up ---- */

static void add_warm(struct engine_known *k, const uint32_t *keys, uint32_t n, uint32_t most)
{
    for (uint32_t i = 0; i < n && k->n_warm < most; i++) k->warm[k->n_warm++] = keys[i];
}

static enum sluice_status read_hotlist(sluice_engine *e, const char *path, bool optional, struct expert_hotlist *out,
                                       struct sluice_error *err)
{
    return expert_hotlist_read(e->os, path, e->catalog, gguf_fingerprint(e->gguf), optional, out, err);
}

/* The hotlist that was named, else the one beside the model, else what was learned. */
static enum sluice_status open_warm(sluice_engine *e, struct sluice_error *err)
{
    struct engine_known *k = &e->known;
    const uint32_t most = e->options.warm_experts ? e->options.warm_experts : KNOWN_WARM_DEFAULT;
    const bool asked = e->options.hotlist_path != NULL;
    if (e->options.cold) return SLUICE_OK;
    char *path = asked ? strdup(e->options.hotlist_path) : beside(e, EXPERT_HOTLIST_SUFFIX);
    if (!path) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for a path");
    struct expert_hotlist list = {0};
    struct sluice_error why;
    enum sluice_status st = read_hotlist(e, path, !asked, &list, &why);
    if (st && asked) {
        if (err) *err = why;
    } else if (st) {
        base_log(&e->log, BASE_LOG_WARN, "%s (%s); going on without it", why.message, why.hint);
        st = SLUICE_OK;
    }
    uint32_t n = 0; /* in order of heat: the first that a prompt would hardly want ends the list; 0 is not known */
    while (n < list.n && (list.probabilities[n] == 0 || list.probabilities[n] >= least_probability())) n++;
    add_warm(k, list.keys, n, most);
    const char *from = path;
    if (!st && list.n == 0) {
        const uint32_t all = expert_catalog_n_experts(e->catalog), room = most > k->n_warm ? most - k->n_warm : 0;
        k->n_warm += expert_usage_hottest(k->usage, least_probability(), k->warm + k->n_warm, room < all ? room : all);
        from = k->usage_path ? k->usage_path : "nothing";
    }
    if (!st && k->n_warm)
        base_log(&e->log, BASE_LOG_DEBUG, "warm-up: up to %" PRIu32 " experts, from %s", k->n_warm, from);
    expert_hotlist_free(&list);
    free(path);
    return st;
}

void known_warm_end(sluice_engine *e)
{
    if (e->known.warm_ended || !e->cache) return;
    e->known.warm_ended = true;
    expert_guesses_drop(e->cache);
}

/* Starts what the disk can take; false: nothing is left to start. */
static bool warm_some(sluice_engine *e)
{
    struct engine_known *k = &e->known;
    while (!k->warm_ended && k->next_warm < k->n_warm) {
        if (!expert_warm(e->cache, k->warm[k->next_warm])) return true;
        k->next_warm++;
    }
    return false;
}

bool sluice_idle(sluice_engine *e, uint32_t max_ms)
{
    const uint64_t end = now_ns(e) + (uint64_t)max_ms * 1000000;
    prefix_poll(e);
    pressure_relieve(e);
    if (!max_ms) return false;
    if (engine_blocks_touch(e, end)) return true;
    if (!e->cache) return prefix_idle(e, end);
    if (save_due(e)) save_usage(e, SAVE_WAIT_MS);
    for (;;) {
        const bool brings = expert_cache_prepare(e->cache);
        bool more = warm_some(e);
        uint64_t now = now_ns(e);
        uint32_t left = expert_warm_wait(e->cache, now < end ? end - now : 0);
        if (more && left == 0) more = warm_some(e);
        if (more && !brings && expert_warm_wait(e->cache, 0) == 0) { /* there is no unused memory any more */
            e->known.warm_ended = true;
            more = false;
        }
        const bool reads = expert_warm_wait(e->cache, 0) > 0;
        if (!reads && !more && !brings) return prefix_idle(e, end);
        if (now_ns(e) >= end) return true;
        if (!reads) nanosleep(&(struct timespec){.tv_nsec = PREPARE_POLL_NS}, NULL);
    }
}

/* ---- pins ---- */

static enum sluice_status pin_file(sluice_engine *e, struct sluice_error *err)
{
    struct engine_known *k = &e->known;
    struct expert_hotlist list = {0};
    enum sluice_status st = read_hotlist(e, e->options.pin, false, &list, err);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < list.n && !st; i++) {
        uint32_t layer, expert;
        expert_catalog_unkey(e->catalog, list.keys[i], &layer, &expert);
        bytes += expert_catalog_class(e->catalog, expert_catalog_class_of(e->catalog, layer))->slot_bytes;
    }
    const uint64_t room = e->plan.slots_bytes - e->plan.slots_floor_bytes;
    if (!st && bytes > room) {
        char a[24], b[24], c[24];
        st = base_fail(
            err, SLUICE_ERR_MEMORY, "give a larger cache, or a shorter list: its first lines are the hottest",
            "%s names %" PRIu32 " experts, %s; a cache of %s has room for %s of pins", e->options.pin, list.n,
            plan_format_bytes(bytes, a), plan_format_bytes(e->plan.slots_bytes, b), plan_format_bytes(room, c));
    }
    if (!st) {
        memcpy(k->pins, list.keys, list.n * sizeof *k->pins);
        k->n_pins = list.n;
        k->pinned = true;
        expert_pin(e->cache, k->pins, k->n_pins);
        if (!e->options.cold) add_warm(k, k->pins, k->n_pins, UINT32_MAX); /* asked for by name: not capped */
    }
    expert_hotlist_free(&list);
    return st;
}

/* Chooses the hottest anew and puts them on trial: the coming turn's accesses judge them, which they were not chosen
 * by. */
static void pin_try(sluice_engine *e)
{
    struct engine_known *k = &e->known;
    struct expert_ghost_result plain, pins;
    if (expert_usage_tokens(k->usage) < PIN_LEARNED) return;
    k->n_pins = expert_usage_hottest(k->usage, least_probability(), k->pins, k->pins_max);
    memset(k->pin_keep, 0, expert_catalog_n_experts(e->catalog));
    for (uint32_t i = 0; i < k->n_pins; i++) k->pin_keep[k->pins[i]] = 1;
    expert_ghosts_kept(e->sizes.ghosts, SIZES_PINNED);
    expert_ghosts_result(e->sizes.ghosts, SIZES_PLAIN, &plain);
    expert_ghosts_result(e->sizes.ghosts, SIZES_PINNED, &pins);
    k->tried_tokens = e->stats.tokens_decode;
    k->tried_plain_bytes = plain.miss_bytes;
    k->tried_pinned_bytes = pins.miss_bytes;
}

static void pin_reconsider(sluice_engine *e)
{
    struct engine_known *k = &e->known;
    if (k->n_pins == 0) {
        pin_try(e);
        return;
    }
    if (e->stats.tokens_decode - k->tried_tokens < PIN_TRIAL_TOKENS) return;
    struct expert_ghost_result plain, pins;
    expert_ghosts_result(e->sizes.ghosts, SIZES_PLAIN, &plain);
    expert_ghosts_result(e->sizes.ghosts, SIZES_PINNED, &pins);
    const uint64_t without = plain.miss_bytes - k->tried_plain_bytes, with = pins.miss_bytes - k->tried_pinned_bytes;
    const bool pays = (double)with < PIN_GAIN * (double)without;
    if (pays != k->pinned)
        base_log(&e->log, BASE_LOG_NOTE,
                 pays ? "pins: %" PRIu32 " experts stay from now on (they would have saved %.1f %% of the reads)"
                      : "pins: %" PRIu32 " experts may leave again: keeping them does not pay (%.1f %%)",
                 k->n_pins, without ? 100 * ((double)without - (double)with) / (double)without : 0.0);
    k->pinned = pays;
    expert_pin(e->cache, k->pins, pays ? k->n_pins : 0);
    pin_try(e); /* what follows judges the next choice */
}

static enum sluice_status open_pins(sluice_engine *e, struct sluice_error *err)
{
    struct engine_known *k = &e->known;
    if (!e->options.pin) return SLUICE_OK;
    k->pin_auto = !strcmp(e->options.pin, "auto");
    if (!k->pin_auto) return pin_file(e, err);
    const struct expert_class *common = expert_catalog_class(e->catalog, expert_catalog_common_class(e->catalog));
    k->pins_max = (uint32_t)(e->plan.slots_bytes / common->slot_bytes / PIN_SHARE);
    if (k->pins_max > expert_catalog_n_experts(e->catalog)) k->pins_max = expert_catalog_n_experts(e->catalog);
    pin_try(e);
    return SLUICE_OK;
}

/* ---- beginning, turns, end ---- */

static enum sluice_status refuse_dense(const sluice_engine *e, struct sluice_error *err)
{
    const struct sluice_options *o = &e->options;
    const char *what = o->pin                                      ? "--pin"
                       : o->hotlist_path                           ? "--hotlist"
                       : o->usage_path                             ? "--usage"
                       : o->prefetch                               ? "--prefetch"
                       : e->asks.lock_experts && !e->asks.lock_all ? "--lock experts"
                                                                   : NULL;
    if (!what) return SLUICE_OK;
    return base_fail(err, SLUICE_ERR_USAGE, "leave it out", "%s was given, but the model has no experts to stream",
                     what);
}

enum sluice_status known_open(sluice_engine *e, struct sluice_error *err)
{
    struct engine_known *k = &e->known;
    const struct sluice_options *o = &e->options;
    if (!e->catalog) return refuse_dense(e, err);
    if (o->usage_path && o->no_usage)
        return base_fail(err, SLUICE_ERR_USAGE, "give one of them", "--usage and --no-usage contradict each other");
    if (o->cold && (o->hotlist_path || o->warm_experts))
        return base_fail(err, SLUICE_ERR_USAGE, "give one of them", "--cold and %s contradict each other",
                         o->hotlist_path ? "--hotlist" : "--warm-experts");
    const size_t n = expert_catalog_n_experts(e->catalog);
    k->saved_ns = now_ns(e);
    k->warm = calloc(2 * n + 1, sizeof *k->warm); /* pins, then the list */
    k->pins = calloc(n + 1, sizeof *k->pins);
    if (!k->warm || !k->pins) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for lists of experts");
    enum sluice_status st = open_usage(e, err);
    if (!st) st = open_pins(e, err);
    if (!st) st = open_warm(e, err);
    if (!st) warm_some(e);
    return st;
}

void known_turn(sluice_engine *e)
{
    if (!e->cache) return;
    known_warm_end(e);
    if (save_due(e)) save_usage(e, SAVE_WAIT_MS);
    if (e->known.pin_auto) pin_reconsider(e);
}

void known_close(sluice_engine *e)
{
    struct engine_known *k = &e->known;
    save_usage(e, SAVE_WAIT_CLOSE_MS);
    expert_usage_free(k->usage);
    free(k->usage_path);
    free(k->warm);
    free(k->pins);
    free(k->pin_keep);
}

/* ---- what was learned, for others ---- */

size_t sluice_hottest(const sluice_engine *e, struct sluice_heat *out, size_t max)
{
    const uint32_t n_experts = e->catalog ? expert_catalog_n_experts(e->catalog) : 0;
    if (!e->known.usage || !n_experts) return 0;
    uint32_t *keys = malloc(n_experts * sizeof *keys);
    if (!keys) return 0;
    uint32_t n = expert_usage_hottest(e->known.usage, 1e-9, keys, n_experts);
    for (uint32_t i = 0; i < n && i < max; i++) {
        expert_catalog_unkey(e->catalog, keys[i], &out[i].layer, &out[i].expert);
        out[i].probability = expert_usage_probability(e->known.usage, keys[i]);
    }
    free(keys);
    return n;
}

/* The list as a text of *bytes, malloc'ed; NULL: no memory. */
static char *hotlist_text(const sluice_engine *e, size_t max, size_t *bytes)
{
    const uint32_t n_experts = expert_catalog_n_experts(e->catalog);
    uint32_t *keys = calloc((size_t)n_experts + 1, sizeof *keys);
    float *probabilities = calloc((size_t)n_experts + 1, sizeof *probabilities);
    char *text = NULL;
    FILE *f = keys && probabilities ? open_memstream(&text, bytes) : NULL;
    if (f) {
        uint32_t n =
            expert_usage_hottest(e->known.usage, 1e-9, keys, max && max < n_experts ? (uint32_t)max : n_experts);
        for (uint32_t i = 0; i < n; i++) probabilities[i] = (float)expert_usage_probability(e->known.usage, keys[i]);
        bool good = expert_hotlist_write(f, e->catalog, gguf_fingerprint(e->gguf), keys, probabilities, n);
        if (fclose(f) || !good) {
            free(text);
            text = NULL;
        }
    }
    free(keys);
    free(probabilities);
    return text;
}

enum sluice_status sluice_hotlist_write(const sluice_engine *e, const char *path, size_t max, struct sluice_error *err)
{
    if (!e->known.usage)
        return base_fail(err, SLUICE_ERR_USAGE, "a hotlist is for models with routed experts, and needs its weights",
                         "there is nothing to write to %s", path);
    size_t bytes = 0;
    char *text = hotlist_text(e, max, &bytes);
    if (!text) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for a hotlist");
    enum sluice_status st = replace_write_alone(path, "name a place that can be written to", text, bytes, err);
    free(text);
    return st;
}
