#include "engine/prefix.h"

#include "base/hash.h"
#include "engine/engine.h"
#include "gguf/gguf.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define AUTO_SHARE 16u /* of the budget */
#define AUTO_BYTES_MAX ((uint64_t)1 << 30)
#define PRINT_PIECES 4u /* of a tensor */
#define PRINT_BYTES ((size_t)4 << 10)
#define OUTDATED_MAX 4 /* states before a new one that are looked at */

/* ---- opening ---- */

/* rings: windows have some. */
static struct prefix_sizes sizes_of(const sluice_engine *e, bool rings)
{
    const struct model_hparams *hp = &e->model->hp;
    const uint64_t run_bytes = model_kv_token_bytes(hp, e->asks.kv_type, rings) * PREFIX_RUN;
    return (struct prefix_sizes){.run_bytes = run_bytes ? run_bytes : 1,
                                 .state_bytes = model_kv_state_bytes(hp, e->asks.kv_type, rings),
                                 .disk_bytes = e->options.prefix_dir ? e->asks.prefix_limit_bytes : 0};
}

/* Before the plan is made it is not known whether windows have rings, only whether they may. */
static uint64_t least_bytes(const sluice_engine *e)
{
    const uint32_t ctx = e->options.ctx ? e->options.ctx : PLAN_CTX_AUTO_MAX, window = e->model->hp.window;
    const bool may = window && model_window_rows(window, 1) < ctx;
    const struct prefix_sizes without = sizes_of(e, false), with = sizes_of(e, may);
    const uint64_t a = prefix_tree_least_bytes(&without), b = prefix_tree_least_bytes(&with);
    return a > b ? a : b;
}

enum sluice_status prefix_plan(const sluice_engine *e, uint64_t *bytes, struct sluice_error *err)
{
    const struct plan_size *asked = &e->asks.prefix_memory;
    uint64_t size;
    *bytes = 0;
    if (!e->options.prefix_memory) return SLUICE_OK;
    const uint64_t least = least_bytes(e), limit = e->machine_limit_bytes;
    if (asked->unit == PLAN_AUTO) {
        const uint64_t budget = plan_budget(&e->asks.memory, limit, e->auto_percent);
        size = budget / AUTO_SHARE < AUTO_BYTES_MAX ? budget / AUTO_SHARE : AUTO_BYTES_MAX;
        if (size < least && e->options.prefix_dir) size = least;
        if (size < least) {
            char a[24], b[24];
            base_log(&e->log, BASE_LOG_NOTE,
                     "no memory is set aside for prefixes: %s would be, this model needs at least %s",
                     plan_format_bytes(size, a), plan_format_bytes(least, b));
            return SLUICE_OK;
        }
    } else {
        size = (uint64_t)(asked->unit == PLAN_PERCENT ? (double)limit * asked->value / 100 : asked->value);
        if (!size && !e->options.prefix_dir) return SLUICE_OK;
        if (size < least) {
            char a[24], b[24];
            base_fail(err, SLUICE_ERR_USAGE, NULL,
                      "--prefix-memory gives %s; this model and context need at least %s for any prefix",
                      plan_format_bytes(size, a), plan_format_bytes(least, b));
            base_hint(err, "the smallest that works is --prefix-memory %" PRIu64 "K", least / 1024 + 1);
            return SLUICE_ERR_USAGE;
        }
    }
    *bytes = engine_block_bytes(size);
    return SLUICE_OK;
}

/* A run may have added nothing that is kept by position (short ones, where windows have rings): a byte, then. */
static uint64_t run_bytes(const struct model_kv *kv, size_t begin, size_t end)
{
    const uint64_t bytes = model_kv_span_bytes(kv, begin, end);
    return bytes ? bytes : 1;
}

static uint64_t payload_bytes(void *user, uint32_t from, uint32_t n)
{
    const struct model_kv *kv = user;
    return n ? run_bytes(kv, from, (size_t)from + n) : model_state_bytes_at(&kv->state, from);
}

uint64_t prefix_planned_bytes(const sluice_engine *e)
{
    for (size_t i = 0; i < e->plan.n_rows; i++)
        if (!strcmp(e->plan.rows[i].name, PLAN_ROW_PREFIXES)) return e->plan.rows[i].bytes;
    return 0;
}

/* Two models can have the same header: tunings of one base, other quantisations. So a sample of every tensor that is in
 * memory counts too. */
static uint64_t fingerprint(const sluice_engine *e)
{
    const struct model *m = e->model;
    struct base_hash h;
    base_hash_init(&h, gguf_fingerprint(e->gguf));
    for (size_t i = 0; i < m->n_dense; i++) {
        const struct model_tensor *t = m->dense[i];
        const bool widened = t->is_vector && t->type != quant_type(QUANT_F32); /* from 16-bit floats */
        const uint64_t bytes = widened ? 2 * t->bytes : t->bytes;
        const size_t piece = bytes < PRINT_BYTES ? (size_t)bytes : PRINT_BYTES;
        for (uint64_t k = 0; k < PRINT_PIECES; k++)
            base_hash_add(&h, (const uint8_t *)t->data + (bytes - piece) / (PRINT_PIECES - 1) * k, piece);
    }
    return base_hash_value(&h);
}

enum sluice_status prefix_open(sluice_engine *e, struct sluice_error *err)
{
    struct engine_prefix *p = &e->prefix;
    const uint64_t bytes = prefix_planned_bytes(e);
    if (!bytes) return SLUICE_OK;
    struct engine_block block;
    enum sluice_status st = engine_block_open(e->os, bytes, "prefixes", &block, err);
    if (st) return st;
    p->block = block.at;
    p->block_bytes = p->limit_bytes = block.bytes;
    model_kv_place(&e->model->hp, e->asks.kv_type, e->plan.ctx, e->plan.chunk, e->kv.at,
                   &p->layout); /* no session is open yet */
    struct prefix_sizes s = sizes_of(e, p->layout.state.window.rows > 0);
    s.bytes = bytes;
    prefix_tree_init(&p->store.tree, &s, p->block);
    p->on = true;
    if (!e->options.prefix_dir) return SLUICE_OK;
    const struct prefix_disk_config c = {
        .os = e->os,
        .log = &e->log,
        .tree = &p->store.tree,
        .owner = {.fingerprint = fingerprint(e), .shape = model_kv_shape(&p->layout), .kv_type = e->asks.kv_type},
        .payload_bytes = payload_bytes,
        .user = &p->layout,
        .folder = e->options.prefix_dir,
        .limit_bytes = e->asks.prefix_limit_bytes};
    return prefix_disk_open(&c, &p->store.disk, err);
}

void prefix_close(sluice_engine *e)
{
    prefix_disk_close(e->prefix.store.disk);
    engine_block_close(e->os, &(struct engine_block){.at = e->prefix.block, .bytes = e->prefix.block_bytes});
}

/* ---- less memory ---- */

static uint64_t index_bytes(const struct engine_prefix *p)
{
    return (uint64_t)(p->store.tree.pages - (uint8_t *)p->block);
}

/* What the index and the first n pages of payloads take, in pages of the system. */
static uint64_t bytes_of(const struct engine_prefix *p, uint32_t n)
{
    const struct prefix_tree *t = &p->store.tree;
    return n == t->n_pages_max ? p->block_bytes : engine_block_bytes(index_bytes(p) + n * (uint64_t)t->page_bytes);
}

/* How many pages of payloads a part of the block has room for. */
static uint32_t pages_in(const struct engine_prefix *p, uint64_t bytes)
{
    const struct prefix_tree *t = &p->store.tree;
    if (bytes >= p->block_bytes) return t->n_pages_max;
    bytes -= bytes % os_page_bytes();
    const uint64_t n = bytes > index_bytes(p) ? (bytes - index_bytes(p)) / t->page_bytes : 0;
    return n < t->n_pages_max ? (uint32_t)n : t->n_pages_max - 1;
}

void prefix_need(const sluice_engine *e, struct prefix_need *out)
{
    const struct engine_prefix *p = &e->prefix;
    *out = (struct prefix_need){.index_bytes = 0};
    if (!p->on) return;
    out->index_bytes = bytes_of(p, 0);
    out->used_bytes = bytes_of(p, p->store.tree.n_pages);
    out->spare_bytes = prefix_tree_spare_bytes(&p->store.tree);
}

static void grow(sluice_engine *e, uint32_t n)
{
    struct engine_prefix *p = &e->prefix;
    const uint64_t bytes = bytes_of(p, n);
    if (bytes > p->limit_bytes &&
        e->os->commit(e->os->user, (uint8_t *)p->block + p->limit_bytes, bytes - p->limit_bytes))
        return; /* it is asked again */
    p->limit_bytes = bytes;
    prefix_tree_limit(&p->store.tree, n);
}

static void shrink(sluice_engine *e, uint32_t n)
{
    struct engine_prefix *p = &e->prefix;
    struct prefix_tree *t = &p->store.tree;
    const uint64_t was = p->limit_bytes, touched = bytes_of(p, t->n_fresh_pages);
    const uint32_t had = t->n_pages_limit;
    const uint64_t bytes = bytes_of(p, prefix_store_limit(&p->store, n));
    if (bytes >= was) return;
    uint8_t *end = (uint8_t *)p->block + bytes;
    if (!e->os->decommit(e->os->user, end, was - bytes)) {
        if (touched > bytes) p->returned_bytes += touched - bytes;
    } else if (!e->os->commit(e->os->user, end, was - bytes)) { /* it was not taken back, and can be used */
        prefix_tree_limit(t, had);
        return;
    }
    p->limit_bytes = bytes;
}

uint64_t prefix_set_limit(sluice_engine *e, uint64_t bytes)
{
    struct engine_prefix *p = &e->prefix;
    if (!p->on) return 0;
    const uint32_t n = pages_in(p, bytes);
    if (n > p->store.tree.n_pages_limit)
        grow(e, n);
    else if (n < p->store.tree.n_pages_limit)
        shrink(e, n);
    return p->limit_bytes;
}

/* ---- payloads ---- */

/* The piece of each part that the tokens [begin, end) of a run have, between the run's payload and the session's rows.
 */
static void copy_rows(sluice_session *s, uint32_t item, size_t begin, size_t end, bool out)
{
    struct prefix_tree *t = &s->engine->prefix.store.tree;
    const size_t from = t->items[item].from, to = from + t->items[item].n;
    uint64_t at = 0;
    if (!out && !model_kv_span_bytes(&s->kv, from, to)) prefix_tree_put(t, item, 0, "", 1);
    for (uint32_t part = 0; part < s->kv.n_layer * MODEL_KV_PARTS; part++) {
        const struct model_kv_span rows = model_kv_span(&s->kv, part, begin, end);
        const uint64_t skip = model_kv_span(&s->kv, part, from, begin).bytes;
        if (out)
            prefix_tree_get(t, item, at + skip, rows.at, rows.bytes);
        else
            prefix_tree_put(t, item, at + skip, rows.at, rows.bytes);
        at += model_kv_span(&s->kv, part, from, to).bytes;
    }
}

/* ---- taking ---- */

void prefix_look(const sluice_engine *e, const int32_t *ids, size_t n, struct prefix_offer *out)
{
    const struct prefix_tree *t = &e->prefix.store.tree;
    struct prefix_match m;
    *out = (struct prefix_offer){.item = PREFIX_NONE};
    if (!e->prefix.on) return;
    prefix_tree_find(t, ids, n, &m);
    out->item = t->stateful ? m.state : m.run;
    if (out->item != PREFIX_NONE) out->n = t->stateful ? t->items[m.state].from : m.n;
}

/* One item of the way to a session's tokens [0, n), of which `own` are there. */
static enum prefix_loaded take_item(sluice_session *s, uint32_t item, size_t own, size_t end)
{
    struct prefix_store *store = &s->engine->prefix.store;
    const struct prefix_item *i = &store->tree.items[item];
    prefix_tree_pin(&store->tree, item);
    const enum prefix_loaded loaded = prefix_store_load(store, item);
    if (loaded == PREFIX_HERE && i->n)
        copy_rows(s, item, i->from > own ? i->from : own, end, true);
    else if (loaded == PREFIX_HERE)
        prefix_tree_get(&store->tree, item, 0, model_state_take(&s->kv.state), i->payload_bytes);
    prefix_tree_unpin(&store->tree, item);
    return loaded;
}

bool prefix_take(sluice_session *s, const int32_t *ids, const struct prefix_offer *o, size_t own, bool *room)
{
    struct prefix_store *store = &s->engine->prefix.store;
    struct prefix_tree *t = &store->tree;
    uint32_t item = o->item;
    size_t end = o->n;
    enum prefix_loaded loaded = PREFIX_HERE;
    if (own > o->n) own = o->n;
    s->n = own; /* what lies behind is written over */
    s->has_logits = false;
    model_state_cut(&s->kv.state, own);
    prefix_tree_pin(t, o->item);
    while (item != PREFIX_NONE && (!t->items[item].n || end > own)) {
        if ((loaded = take_item(s, item, own, end)) != PREFIX_HERE) break;
        if (t->items[item].n) end = t->items[item].from;
        item = t->items[item].parent;
    }
    prefix_tree_unpin(t, o->item);
    *room = loaded != PREFIX_NO_ROOM;
    if (loaded == PREFIX_LOST) prefix_store_lose(store, item);
    if (loaded != PREFIX_HERE) return false;
    memcpy(s->ids + own, ids + own, (o->n - own) * sizeof *ids);
    s->n = o->n;
    if (t->stateful) model_state_taken(&s->kv.state, o->n);
    prefix_tree_used(t, o->item);
    return true;
}

/* ---- keeping ---- */

/* The rows of tokens [.., n): what is there already is shared. Copies about bytes_max at most. Returns how many tokens
 * are there then. */
static size_t keep_rows(sluice_session *s, size_t n, uint64_t bytes_max)
{
    struct prefix_store *store = &s->engine->prefix.store;
    struct prefix_tree *t = &store->tree;
    struct prefix_match m;
    prefix_tree_find(t, s->ids, n, &m);
    if (m.run != PREFIX_NONE && m.n < n) { /* a short end of a turn grows into a longer run */
        const uint32_t before = t->items[m.run].parent;
        const size_t from = t->items[m.run].from;
        if (prefix_store_take_back(store, m.run, m.n)) {
            m.run = before;
            m.n = from;
        }
    }
    prefix_tree_touch(t, m.run);
    if (m.run != PREFIX_NONE) prefix_tree_pin(t, m.run);
    for (uint64_t copied = 0; m.n < n && copied < bytes_max;) {
        const uint32_t most = n - m.n < PREFIX_RUN ? (uint32_t)(n - m.n) : PREFIX_RUN;
        const uint32_t item =
            prefix_store_add(store, m.run, (uint32_t)m.n, s->ids + m.n, most, run_bytes(&s->kv, m.n, m.n + most));
        if (item == PREFIX_NONE) break;
        copy_rows(s, item, m.n, m.n + most, false);
        copied += t->items[item].payload_bytes;
        prefix_store_added(store, item);
        if (m.run != PREFIX_NONE) prefix_tree_unpin(t, m.run);
        m.run = item;
        m.n += most;
    }
    if (m.run != PREFIX_NONE) prefix_tree_unpin(t, m.run);
    return m.n;
}

/* Those on the way to this one are of less use now. */
static void outdate_before(struct prefix_tree *t, uint32_t run, size_t end)
{
    for (int n = 0; run != PREFIX_NONE && n < OUTDATED_MAX; run = t->items[run].parent) {
        const uint32_t state = prefix_tree_last_state(t, run, end - 1);
        if (state == PREFIX_NONE) continue;
        prefix_tree_outdated(t, state);
        n++;
    }
}

struct put {
    struct prefix_tree *t;
    uint32_t item;
    uint64_t at;
};

static void put_piece(void *user, void *piece, size_t bytes)
{
    struct put *p = user;
    prefix_tree_put(p->t, p->item, p->at, piece, bytes);
    p->at += bytes;
}

/* The state after n tokens, which the session knows and whose rows are there. */
static bool keep_state(sluice_session *s, size_t n)
{
    struct prefix_store *store = &s->engine->prefix.store;
    struct prefix_tree *t = &store->tree;
    struct prefix_match m;
    prefix_tree_find(t, s->ids, n, &m);
    if (m.n < n) return false;
    if (prefix_tree_state_at(t, m.run, (uint32_t)n) != PREFIX_NONE) return true;
    const uint64_t bytes = model_state_bytes_at(&s->kv.state, n);
    prefix_tree_pin(t, m.run);
    const uint32_t item = prefix_store_add(store, m.run, (uint32_t)n, NULL, 0, bytes);
    if (item != PREFIX_NONE) {
        model_state_each(&s->kv.state, n, put_piece, &(struct put){t, item, 0});
        prefix_store_added(store, item);
        prefix_tree_unpin(t, item);
    }
    prefix_tree_unpin(t, m.run);
    return item != PREFIX_NONE;
}

/* A text that was kept goes on otherwise there. */
static bool is_branch(const struct prefix_tree *t, const struct prefix_match *m)
{
    if (m->run == PREFIX_NONE) return false;
    const struct prefix_item *i = &t->items[m->run];
    return m->n < (size_t)i->from + i->n || i->n_children;
}

/* Another one that leaves there too (a common system prompt) finds a state, if the session can still give it: windows
 * alone can be taken back some way. */
static void keep_branch(sluice_session *s, size_t n)
{
    struct prefix_tree *t = &s->engine->prefix.store.tree;
    struct prefix_match m;
    if (model_state_known(&s->kv.state, n) < n || !keep_state(s, n)) return;
    prefix_tree_find(t, s->ids, n, &m);
    const uint32_t state = prefix_tree_state_at(t, m.run, (uint32_t)n);
    if (state != PREFIX_NONE) t->items[state].uses += 2; /* of both: later ones of this text do not stand for it */
}

bool prefix_keep(sluice_session *s, size_t n, uint64_t bytes_max)
{
    struct prefix_tree *t = &s->engine->prefix.store.tree;
    struct prefix_match before;
    pressure_relieve(s->engine); /* before more of it is used */
    prefix_poll(s->engine);
    if (!t->stateful) return keep_rows(s, n, bytes_max) == n;
    /* Rows behind the last state are no use, nor is a state without rows. The one before the last is where a prompt has
     * ended, mostly: an answer that comes back as other tokens leaves there. */
    n = model_state_known(&s->kv.state, n);
    if (!n) return true;
    prefix_tree_find(t, s->ids, n, &before);
    const size_t last = before.state == PREFIX_NONE ? 0 : t->items[before.state].from;
    const size_t branch = before.n > last && before.n < n && is_branch(t, &before) ? before.n : 0;
    if (keep_rows(s, n, bytes_max) < n) return false;
    const size_t earlier = model_state_saved(&s->kv.state, n - 1);
    if (branch) keep_branch(s, branch);
    const bool both = earlier <= last || keep_state(s, earlier);
    if (!keep_state(s, n)) return false;
    prefix_tree_find(t, s->ids, n, &before);
    outdate_before(t, before.run, earlier ? earlier : n);
    return both;
}

/* ---- meanwhile ---- */

void prefix_poll(sluice_engine *e)
{
    if (e->prefix.on) prefix_store_poll(&e->prefix.store);
}

/* One more piece of what each session has left. *moved: something was kept. True: something is left. */
static bool go_on(sluice_engine *e, bool *moved)
{
    const uint64_t before = e->prefix.store.n_added;
    bool left = false;
    for (size_t i = 0; i < ENGINE_SESSIONS_MAX; i++) {
        sluice_session *s = e->sessions[i];
        if (!s || !s->keep_to) continue;
        if (prefix_keep(s, s->keep_to, PREFIX_KEEP_BYTES)) s->keep_to = 0;
        left = left || s->keep_to;
    }
    *moved = e->prefix.store.n_added != before;
    return left;
}

bool prefix_idle(sluice_engine *e, uint64_t end_ns)
{
    struct prefix_disk *d = e->prefix.store.disk;
    if (!e->prefix.on) return false;
    for (;;) {
        bool moved;
        prefix_poll(e);
        const bool left = go_on(e, &moved);
        prefix_poll(e);
        const uint64_t now = e->os->now_ns(e->os->user);
        const bool waits = d && prefix_disk_waits(d);
        if ((!left || !moved) && !waits) return false; /* what is left waits for room, or for an error to pass */
        if (now >= end_ns) return true;
        if (!left || !moved) prefix_disk_wait(d, end_ns - now);
    }
}

void prefix_forget(sluice_session *s)
{
    (void)prefix_keep(s, s->keep_to, UINT64_MAX);
    s->keep_to = 0;
}

void prefix_leave(sluice_session *s)
{
    struct prefix_disk *d = s->engine->prefix.store.disk;
    if (!s->keep_to) return;
    for (uint64_t before = UINT64_MAX;;) { /* writing makes room */
        if (prefix_keep(s, s->keep_to, UINT64_MAX) || !d || d->lock < 0) return;
        prefix_disk_drain(d);
        if (before == d->written_bytes) return;
        before = d->written_bytes;
    }
}
