/* Opening an engine, in the order of the ledger: file, tokenizer, model, plan, then memory and bytes. */
#include "engine/engine.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void forward_line(void *user, enum base_log_level level, const char *text)
{
    sluice_engine *e = user;
    if (e->options.log) e->options.log(e->options.user, (enum sluice_log_level)level, text);
}

static void copy_str(const struct gguf *g, const char *key, const char *fallback, char *out, size_t out_bytes)
{
    struct gguf_str s = {fallback, strlen(fallback)};
    if (gguf_get_str(g, key, false, &s, NULL)) s = (struct gguf_str){fallback, strlen(fallback)};
    snprintf(out, out_bytes, "%.*s", (int)(s.bytes < out_bytes ? s.bytes : out_bytes - 1), s.at);
    base_printable(out); /* it goes to terminals and into JSON */
}

static enum sluice_status open_text(sluice_engine *e, struct sluice_error *err)
{
    enum sluice_status st = gguf_open(e->os, e->options.model_path, &e->gguf, err);
    if (st) return st;
    if ((st = gguf_check_language_model(e->gguf, e->options.vocab_only, err))) return st;
    copy_str(e->gguf, "general.architecture", "", e->architecture, sizeof e->architecture);
    copy_str(e->gguf, "general.name", "", e->name, sizeof e->name);
    if ((st = text_tokenizer_create_as(e->gguf, e->options.pre, &e->log, &e->tokenizer, err))) return st;
    struct gguf_str template = {NULL, 0};
    if (gguf_get_str(e->gguf, "tokenizer.chat_template", false, &template, NULL)) template = (struct gguf_str){NULL, 0};
    if (e->options.chat_template)
        template = (struct gguf_str){e->options.chat_template, strlen(e->options.chat_template)};
    e->chat = text_chat_detect(template.at, template.bytes, &e->chat_exact);
    if (e->options.chat_template) return template_open_given(e, e->options.chat_template, err);
    return template_open(e, template.at, template.bytes, err);
}

static enum sluice_status open_files(sluice_engine *e, struct sluice_error *err)
{
    const struct io_config config = {.os = e->os,
                                     .log = &e->log,
                                     .backend = e->asks.io,
                                     .buffered = e->asks.buffered,
                                     .wait_limit_ns = (uint64_t)e->options.io_timeout_ms * 1000000};
    enum sluice_status st = io_open(&config, &e->io, err);
    for (size_t i = 0; i < gguf_n_shards(e->gguf) && !st; i++) {
        uint32_t index;
        st = io_file_add(e->io, gguf_shard(e->gguf, i)->path, &index, err);
        if (!st && io_file_bytes(e->io, index) != gguf_shard(e->gguf, i)->bytes)
            st = base_fail(err, SLUICE_ERR_IO, "start again", "%s: the file changed while it was being opened",
                           gguf_shard(e->gguf, i)->path);
    }
    return st;
}

/* The checksums, which take memory, are read before the plan is made; the memory of the second reads comes after it. */
static enum sluice_status open_sums(sluice_engine *e, struct sluice_error *err)
{
    char *path;
    if (!e->options.verify) return SLUICE_OK;
    if (asprintf(&path, "%s" EXPERT_SUMS_SUFFIX, e->options.model_path) < 0)
        return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for a path");
    enum sluice_status st = expert_sums_read(e->os, path, gguf_fingerprint(e->gguf), true, &e->sums, err);
    if (!st && e->sums)
        base_log(&e->log, BASE_LOG_NOTE, "verify: every weight is read twice and compared with the checksums of %s",
                 path);
    else if (!st)
        base_log(&e->log, BASE_LOG_NOTE,
                 "verify: every weight is read twice; there are no checksums beside the model ('sluice checksum' "
                 "writes them)");
    free(path);
    return st;
}

static uint32_t widest_align(const sluice_engine *e)
{
    uint32_t align = 1;
    for (size_t i = 0; i < gguf_n_shards(e->gguf); i++)
        if (io_file_align(e->io, (uint32_t)i) > align) align = io_file_align(e->io, (uint32_t)i);
    return align;
}

/* A file may hold more than its architecture uses: made for a newer version, or by another writer. */
static void warn_ignored(const sluice_engine *e)
{
    const struct model_ignored *x = &e->model->ignored;
    if (e->model->n_mtp)
        base_log(&e->log, BASE_LOG_DEBUG, "%zu tensors for predicting further tokens are not used", e->model->n_mtp);
    if (x->n_tensors)
        base_log(&e->log, BASE_LOG_WARN, "%zu tensors of the file are not used by architecture %s: %s%s", x->n_tensors,
                 e->architecture, x->tensors, x->more_tensors ? ", ..." : "");
    if (x->n_keys)
        base_log(&e->log, BASE_LOG_WARN, "%zu settings of the file are not used by architecture %s: %s%s", x->n_keys,
                 e->architecture, x->keys, x->more_keys ? ", ..." : "");
}

/* A better level of kernels that computes wrongly here. */
static void warn_passed_over(const sluice_engine *e)
{
    struct sluice_error why;
    if (e->options.cpu && strcmp(e->options.cpu, "auto") != 0) return;
    if (kernel_passed_over(&e->cpu, e->table, &why)) base_log(&e->log, BASE_LOG_WARN, "%s", why.message);
}

static bool has_tables(const struct model_hparams *hp)
{
    for (uint32_t i = 0; i < hp->n_layer; i++)
        if (hp->layer[i].by_table) return true;
    return false;
}

static enum sluice_status open_model(sluice_engine *e, struct sluice_error *err)
{
    os_cpu(&e->cpu);
    if (!e->options.threads) e->options.threads = e->cpu.n_threads;
    if (!e->options.sessions) e->options.sessions = 1;
    enum sluice_status st = kernel_select(&e->cpu, e->options.cpu, &e->table, err);
    if (st) return st;
    warn_passed_over(e);
    if ((st = model_bind(e->gguf, &e->model, err))) return st;
    warn_ignored(e);
    if (e->asks.certain && e->asks.sources_auto)
        e->asks.certain = has_tables(&e->model->hp);
    else if (e->asks.certain && !has_tables(&e->model->hp))
        return base_fail(err, SLUICE_ERR_USAGE, "leave it out of --prefetch",
                         "nothing is certain before a router of architecture %s has chosen", e->architecture);
    if ((st = open_files(e, err))) return st;
    if ((st = open_sums(e, err))) return st;
    if (e->model->hp.n_expert)
        st = expert_catalog_create(e->model->experts, e->model->hp.n_layer, widest_align(e), &e->catalog, err);
    if (!st) st = load_plan_make(e->model, e->io, &e->load, err);
    for (uint32_t i = 0; !st && e->catalog && i < expert_catalog_n_classes(e->catalog); i++) {
        const struct expert_class *c = expert_catalog_class(e->catalog, i);
        base_log(&e->log, BASE_LOG_DEBUG, "experts of size %u: %u, %.2f MiB each, %.2f MiB in a slot, top-%u", i + 1,
                 c->n_experts, (double)c->expert_bytes / (1 << 20), (double)c->slot_bytes / (1 << 20), c->k_max);
    }
    return st ? st : engine_plan(e, err);
}

static bool load_progress(void *user, uint64_t done, uint64_t total)
{
    sluice_engine *e = user;
    const struct sluice_progress p = {.phase = SLUICE_PHASE_LOAD, .done = done, .total = total};
    return !atomic_load(&e->cancelled) && (!e->options.progress || e->options.progress(e->options.user, &p));
}

static bool layer_progress(void *user, uint32_t layer)
{
    sluice_engine *e = user;
    pressure_relieve(e); /* a long chunk is too long to wait for */
    const uint64_t n_layer = e->model->hp.n_layer, n = e->run_tokens;
    const struct sluice_progress p = {
        .phase = SLUICE_PHASE_PREFILL, .done = e->step_done + n * layer / n_layer, .total = e->step_total};
    return !atomic_load(&e->cancelled) && (!e->options.progress || e->options.progress(e->options.user, &p));
}

static enum sluice_status open_verify(sluice_engine *e, struct sluice_error *err)
{
    if (!e->options.verify) return SLUICE_OK;
    enum sluice_status st = expert_verify_create(e->os, e->io, e->sums, &e->verify, err);
    return !st && e->catalog ? expert_verify_covers(e->verify, e->catalog, err) : st;
}

static enum sluice_status open_trace(sluice_engine *e, struct sluice_error *err)
{
    if (!e->catalog)
        return base_fail(err, SLUICE_ERR_USAGE, "leave --trace out", "the model has no routed experts to record");
    const uint32_t n = expert_catalog_n_layers(e->catalog);
    struct trace_layer *layers = calloc(n, sizeof *layers);
    if (!layers) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for a trace");
    for (uint32_t i = 0; i < n; i++) {
        const struct expert_layer *l = expert_catalog_layer(e->catalog, i);
        layers[i] = (struct trace_layer){.n_expert = l->n_expert, .n_used = l->n_used};
        if (l->n_expert)
            layers[i].expert_bytes =
                expert_catalog_class(e->catalog, expert_catalog_class_of(e->catalog, i))->expert_bytes;
    }
    enum sluice_status st = trace_create(e->options.trace_path, e->name, layers, n, &e->trace, err);
    free(layers);
    return st;
}

/* What was asked to stay in memory whatever the system wants. Experts follow as slots are made for them. */
static void lock_blocks(sluice_engine *e)
{
    const struct engine_asks *a = &e->asks;
    if (!e->options.lock) return;
    os_lock_begin(&e->locker, e->os, a->lock_margin_bytes);
    if (a->lock_dense) e->dense_locked = os_lock_range(&e->locker, e->dense.at, e->dense.bytes, true);
    if (a->lock_all) e->kv_locked = os_lock_range(&e->locker, e->kv.at, e->kv.bytes, false);
    if (a->lock_all) e->scratch_locked = os_lock_range(&e->locker, e->scratch.at, e->scratch.bytes, false);
    const struct os_locker *l = &e->locker;
    char locked[24], skipped[24], failed[24];
    if (a->lock_dense)
        base_log(&e->log, l->skipped_bytes ? BASE_LOG_WARN : BASE_LOG_NOTE,
                 "locked %s of memory, skipped %s (of that, refused by the system: %s)%s",
                 plan_format_bytes(l->locked_bytes, locked), plan_format_bytes(l->skipped_bytes, skipped),
                 plan_format_bytes(l->failed_bytes, failed),
                 l->failed_bytes ? "; ulimit -l or LimitMEMLOCK= allow more" : "");
    if (a->lock_experts && e->catalog)
        base_log(&e->log, BASE_LOG_NOTE, "experts are locked as they are loaded; the report says how much of them");
}

/* What is known, guessed and simulated, once everything else is in place. */
static enum sluice_status open_foresight(sluice_engine *e, struct sluice_error *err)
{
    struct model_foresight *f;
    if (!e->catalog) return known_open(e, err);
    enum sluice_status st = model_foresight_create(e->model, &f, err);
    if (st) return st;
    e->run.foresight = f;
    if (e->asks.sources && (st = predict_create(e->catalog, e->asks.sources, &e->predict, err))) return st;
    for (int s = 0; e->predict && s < PREDICT_SOURCES; s++)
        predict_allow(e->predict, (enum predict_source)s, e->asks.sources >> s & 1, e->asks.sources_auto);
    f->predict = e->predict;
    f->certain = e->asks.certain;
    if (e->options.pin && !strcmp(e->options.pin, "auto")) {
        e->known.pin_keep = calloc((size_t)expert_catalog_n_experts(e->catalog) + 1, 1);
        if (!e->known.pin_keep) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for pins");
    }
    if ((st = sizes_open(e, err))) return st;
    if ((st = known_open(e, err))) return st;
    e->run.usage = e->known.usage;
    e->run.ghosts = e->sizes.ghosts;
    return SLUICE_OK;
}

static enum sluice_status open_cache(sluice_engine *e, struct sluice_error *err)
{
    const struct expert_cache_config config = {.os = e->os,
                                               .log = &e->log,
                                               .io = e->io,
                                               .catalog = e->catalog,
                                               .policy = e->asks.policy,
                                               .slots_bytes = e->plan.slots_bytes,
                                               .verify = e->verify,
                                               .toucher = e->toucher,
                                               .small_pages = !os_huge_pages(),
                                               .locker = e->asks.lock_experts ? &e->locker : NULL,
                                               .may_grow = pressure_may_grow,
                                               .user = e};
    return expert_cache_create(&config, &e->cache, err);
}

static void prepare_experts(void *user)
{
    sluice_engine *e = user;
    if (e->cache) expert_cache_prepare(e->cache);
}

/* The dense weights; memory of the experts comes in meanwhile. */
static enum sluice_status open_dense(sluice_engine *e, struct sluice_error *err)
{
    const uint64_t t0 = e->os->now_ns(e->os->user);
    const struct load_touch touch = {
        .os = e->os, .toucher = e->toucher, .n = e->cpu.n_threads, .rest = prepare_experts, .user = e};
    /* Whoever waits hears that it begins: the first read may take long. */
    if (!load_progress(e, 0, e->load.read_bytes))
        return base_fail(err, SLUICE_CANCELLED, NULL, "stopped on request while loading");
    enum sluice_status st = load_dense(e->model, e->io, &touch, &e->load, e->dense.at, load_progress, e, err);
    if (!st && e->verify) st = load_verify(e->model, &e->load, e->dense.at, e->verify, load_progress, e, err);
    if (st) return st;
    e->stats.load_ns = e->os->now_ns(e->os->user) - t0;
    e->stats.load_bytes = e->load.read_bytes;
    base_log(&e->log, BASE_LOG_DEBUG, "dense weights: %zu tensors in %zu reads, %.1f MiB in %.0f ms", e->model->n_dense,
             e->load.n_runs, (double)e->load.read_bytes / (1 << 20), (double)e->stats.load_ns / 1e6);
    return io_check_files(e->io, err);
}

/* Memory is reserved and bytes are read here; everything before was arithmetic. */
static enum sluice_status open_memory(sluice_engine *e, struct sluice_error *err)
{
    const struct model_hparams *hp = &e->model->hp;
    const struct plan *p = &e->plan;
    enum sluice_status st;
    const uint64_t model_scratch = engine_block_bytes(model_scratch_bytes(hp, p->chunk));
    if ((st = engine_block_open(e->os, e->load.block_bytes, "dense weights", &e->dense, err))) return st;
    const uint32_t n_sessions = e->options.sessions;
    if ((st = engine_block_open(e->os, n_sessions * engine_session_kv_bytes(e), "the KV cache", &e->kv, err)))
        return st;
    st = engine_block_open(e->os,
                           model_scratch + engine_step_ids_bytes(e) + n_sessions * engine_session_scratch_bytes(e),
                           "scratch", &e->scratch, err);
    if (st) return st;
    e->step_ids = (int32_t *)((uint8_t *)e->scratch.at + model_scratch);
    if (os_toucher_create(e->os, &e->toucher))
        base_log(&e->log, BASE_LOG_NOTE, "no thread for touching memory ahead: it is touched as it is used");
    if ((st = open_verify(e, err))) return st;
    if (e->catalog || prefix_planned_bytes(e)) pressure_open(e);
    /* Before the dense weights, so that its memory comes in meanwhile; behind them where memory is locked, and what
     * cannot be is skipped: dense weights come first. */
    if (e->catalog && !e->options.lock && (st = open_cache(e, err))) return st;
    if ((st = open_dense(e, err))) return st;
    if (e->catalog || prefix_planned_bytes(e)) pressure_open(e); /* what loading did to memory is no sign */
    lock_blocks(e);
    if (e->catalog && !e->cache && (st = open_cache(e, err))) return st;
    if (e->options.trace_path && (st = open_trace(e, err))) return st;
    if (e->cache) expert_cache_trace(e->cache, e->trace);
    routes_open(e);
    if ((st = kernel_pool_create(e->options.threads, &e->pool, err))) return st;
    e->run = (struct model_run){.model = e->model,
                                .kernel = {.table = e->table, .pool = e->pool},
                                .cache = e->cache,
                                .rest = &e->rest,
                                .go_on = layer_progress,
                                .user = e};
    model_scratch_place(hp, p->chunk, e->scratch.at, &e->run.scratch);
    if ((st = prefix_open(e, err))) return st;
    return open_foresight(e, err);
}

enum sluice_status sluice_engine_open(const struct sluice_options *o, sluice_engine **out, struct sluice_error *err)
{
    return engine_open(os_system(), o, out, err);
}

enum sluice_status engine_open(const struct os_calls *os, const struct sluice_options *o, sluice_engine **out,
                               struct sluice_error *err)
{
    enum sluice_status st = engine_try(os, o, out, err);
    if (st) {
        sluice_engine_close(*out);
        *out = NULL;
    }
    return st;
}

enum sluice_status engine_try(const struct os_calls *os, const struct sluice_options *o, sluice_engine **out,
                              struct sluice_error *err)
{
    sluice_engine *e = *out = calloc(1, sizeof *e);
    if (!e) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for an engine");
    e->os = os;
    e->log = (struct base_log){.line = forward_line, .user = e};
    const uint64_t t0 = os->now_ns(os->user);
    enum sluice_status st = engine_parse_options(o, e, err);
    if (!st) st = open_text(e, err);
    if (!st && !e->options.vocab_only) st = open_model(e, err);
    if (st || e->options.vocab_only || e->options.plan_only) return st;
    if (!(st = open_memory(e, err)))
        base_log(&e->log, BASE_LOG_DEBUG, "ready in %.2f s: %.2f GB of dense weights at %.2f GB/s",
                 (double)(os->now_ns(os->user) - t0) / 1e9, (double)e->stats.load_bytes / 1e9,
                 (double)e->stats.load_bytes / (double)(e->stats.load_ns + 1));
    return st;
}

static void tell_touched(sluice_engine *e)
{
    struct os_touch_figures f;
    if (!e->toucher) return;
    os_touch_figures(e->toucher, &f);
    if (f.ns)
        base_log(&e->log, BASE_LOG_DEBUG, "memory brought in beforehand: %.1f MiB at %.2f GB/s",
                 (double)f.bytes / (1 << 20), (double)f.bytes / (double)f.ns);
}

void sluice_engine_close(sluice_engine *e)
{
    if (!e) return;
    tell_touched(e);
    prefix_close(e);
    kernel_pool_destroy(e->pool);
    if (e->catalog) known_close(e);
    sizes_close(e);
    model_foresight_destroy(e->run.foresight);
    predict_destroy(e->predict);
    expert_cache_destroy(e->cache);
    os_toucher_destroy(e->toucher);
    struct sluice_error err;
    if (trace_close(e->trace, &err)) base_log(&e->log, BASE_LOG_WARN, "%s (%s)", err.message, err.hint);
    expert_verify_destroy(e->verify);
    expert_sums_free(e->sums);
    io_close(e->io);
    engine_block_close(e->os, &e->scratch);
    engine_block_close(e->os, &e->kv);
    engine_block_close(e->os, &e->dense);
    load_plan_free(&e->load);
    expert_catalog_destroy(e->catalog);
    model_free(e->model);
    template_close(e);
    text_grammar_vocab_destroy(e->grammar_vocab);
    text_tokenizer_destroy(e->tokenizer);
    gguf_close(e->gguf);
    for (size_t i = 0; i < e->n_strings; i++) free(e->strings[i]);
    free(e);
}

void sluice_cancel(sluice_engine *e) { atomic_store(&e->cancelled, true); }
