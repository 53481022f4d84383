#include "prefix_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

unsigned kit_warnings;
char kit_line[512];

static void take_line(void *user, enum base_log_level level, const char *text)
{
    (void)user;
    if (level == BASE_LOG_DEBUG) return;
    if (level == BASE_LOG_WARN) kit_warnings++;
    snprintf(kit_line, sizeof kit_line, "%s", text);
}

static const struct base_log kit_log = {.line = take_line};

static void die(const char *what)
{
    fprintf(stderr, "prefix kit: %s\n", what);
    abort();
}

static uint64_t payload_bytes(void *user, uint32_t from, uint32_t n)
{
    (void)user, (void)from;
    return n ? (uint64_t)n * KIT_TOKEN_BYTES : KIT_STATE_BYTES;
}

enum sluice_status kit_open(struct kit *k, const struct os_calls *os, uint64_t bytes, bool stateful, const char *folder,
                            uint64_t limit_bytes, struct sluice_error *err)
{
    const struct prefix_sizes s = {.bytes = bytes,
                                   .run_bytes = PREFIX_RUN * KIT_TOKEN_BYTES,
                                   .state_bytes = stateful ? KIT_STATE_BYTES : 0,
                                   .disk_bytes = folder ? limit_bytes : 0};
    if (!k->owner.fingerprint) k->owner = (struct prefix_owner){.fingerprint = 11, .shape = 22, .kv_type = 1};
    k->stateful = stateful;
    k->store.disk = NULL;
    k->block = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (!k->block || !prefix_tree_fits(&s)) die("memory");
    prefix_tree_init(&k->store.tree, &s, k->block);
    if (!folder) return SLUICE_OK;
    const struct prefix_disk_config c = {.os = os,
                                         .log = &kit_log,
                                         .tree = &k->store.tree,
                                         .owner = k->owner,
                                         .payload_bytes = payload_bytes,
                                         .folder = folder,
                                         .limit_bytes = limit_bytes};
    enum sluice_status st = prefix_disk_open(&c, &k->store.disk, err);
    if (st) free(k->block);
    return st;
}

void kit_close(struct kit *k)
{
    prefix_disk_close(k->store.disk);
    prefix_tree_check(&k->store.tree);
    free(k->block);
}

void kit_text(int32_t *ids, size_t n, uint64_t seed)
{
    uint64_t x = seed * 2654435761u + 1;
    for (size_t i = 0; i < n; i++) {
        x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        ids[i] = (int32_t)(x >> 40);
    }
}

/* What a token (or a state) stands for depends on everything before it, as in a KV cache. */
static void running(const int32_t *ids, size_t n, uint64_t *out)
{
    uint64_t h = 7;
    for (size_t i = 0; i < n; i++) out[i] = h = (h ^ (uint64_t)(uint32_t)ids[i]) * UINT64_C(1099511628211) + 1;
}

static void fill(uint8_t *to, size_t bytes, uint64_t h)
{
    for (size_t i = 0; i < bytes; i++) to[i] = (uint8_t)(h >> (i % 8 * 8)) ^ (uint8_t)i;
}

static void put_item(struct kit *k, uint32_t item, const uint64_t *rows)
{
    const struct prefix_item *i = prefix_at(&k->store.tree, item);
    uint8_t data[KIT_STATE_BYTES];
    for (uint32_t t = 0; t < i->n; t++) {
        fill(data, KIT_TOKEN_BYTES, rows[i->from + t]);
        prefix_tree_put(&k->store.tree, item, (uint64_t)t * KIT_TOKEN_BYTES, data, KIT_TOKEN_BYTES);
    }
    if (i->n) return;
    fill(data, KIT_STATE_BYTES, rows[i->from - 1]);
    prefix_tree_put(&k->store.tree, item, 0, data, KIT_STATE_BYTES);
}

static void check_item(struct kit *k, uint32_t item, const uint64_t *rows, size_t to)
{
    const struct prefix_item *i = prefix_at(&k->store.tree, item);
    uint8_t data[KIT_STATE_BYTES], want[KIT_STATE_BYTES];
    for (size_t t = i->from; t < to && i->n; t++) {
        fill(want, KIT_TOKEN_BYTES, rows[t]);
        prefix_tree_get(&k->store.tree, item, (t - i->from) * KIT_TOKEN_BYTES, data, KIT_TOKEN_BYTES);
        if (memcmp(data, want, KIT_TOKEN_BYTES)) die("wrong rows");
    }
    if (i->n) return;
    fill(want, KIT_STATE_BYTES, rows[i->from - 1]);
    prefix_tree_get(&k->store.tree, item, 0, data, KIT_STATE_BYTES);
    if (memcmp(data, want, KIT_STATE_BYTES)) die("wrong state");
}

size_t kit_keep(struct kit *k, const int32_t *ids, size_t n)
{
    struct prefix_store *s = &k->store;
    uint64_t *rows = malloc((n + 1) * sizeof *rows);
    struct prefix_match m;
    running(ids, n, rows);
    prefix_store_poll(s);
    prefix_tree_find(&s->tree, ids, n, &m);
    prefix_tree_touch(&s->tree, m.run);
    if (m.run != PREFIX_NONE) prefix_tree_pin(&s->tree, m.run);
    while (m.n < n) {
        const uint32_t most = n - m.n < PREFIX_RUN ? (uint32_t)(n - m.n) : PREFIX_RUN;
        const uint32_t item =
            prefix_store_add(s, m.run, (uint32_t)m.n, ids + m.n, most, (uint64_t)most * KIT_TOKEN_BYTES);
        if (item == PREFIX_NONE) break;
        put_item(k, item, rows);
        prefix_store_added(s, item);
        if (m.run != PREFIX_NONE) prefix_tree_unpin(&s->tree, m.run);
        m.run = item;
        m.n += most;
    }
    if (k->stateful && m.n && prefix_tree_state_at(&s->tree, m.run, (uint32_t)m.n) == PREFIX_NONE) {
        const uint32_t item = prefix_store_add(s, m.run, (uint32_t)m.n, NULL, 0, KIT_STATE_BYTES);
        if (item != PREFIX_NONE) {
            put_item(k, item, rows);
            prefix_store_added(s, item);
            prefix_tree_unpin(&s->tree, item);
        }
    }
    if (m.run != PREFIX_NONE) prefix_tree_unpin(&s->tree, m.run);
    prefix_store_poll(s);
    free(rows);
    return m.n;
}

/* An item of the path that ends in `end`, which is pinned. */
static enum prefix_loaded load_and_check(struct kit *k, uint32_t item, const uint64_t *rows, size_t to)
{
    struct prefix_store *s = &k->store;
    prefix_tree_pin(&s->tree, item);
    const enum prefix_loaded loaded = prefix_store_load(s, item);
    if (loaded == PREFIX_HERE) check_item(k, item, rows, to);
    prefix_tree_unpin(&s->tree, item);
    return loaded;
}

size_t kit_reuse(struct kit *k, const int32_t *ids, size_t n)
{
    struct prefix_store *s = &k->store;
    uint64_t *rows = malloc((n + 1) * sizeof *rows);
    running(ids, n, rows);
    prefix_store_poll(s);
    for (;;) {
        struct prefix_match m;
        enum prefix_loaded loaded = PREFIX_HERE;
        prefix_tree_find(&s->tree, ids, n, &m);
        uint32_t end = m.run, item = m.run;
        if (k->stateful) {
            end = item = m.state;
            m.n = end == PREFIX_NONE ? 0 : prefix_at(&s->tree, end)->from;
        }
        size_t to = m.n;
        if (end != PREFIX_NONE) prefix_tree_pin(&s->tree, end);
        for (; item != PREFIX_NONE; item = prefix_at(&s->tree, item)->parent) {
            if ((loaded = load_and_check(k, item, rows, to)) != PREFIX_HERE) break;
            to = prefix_at(&s->tree, item)->from;
        }
        if (end != PREFIX_NONE) prefix_tree_unpin(&s->tree, end);
        if (loaded == PREFIX_LOST) {
            prefix_store_lose(s, item);
            continue;
        }
        if (end != PREFIX_NONE) prefix_tree_touch(&s->tree, end);
        free(rows);
        return loaded == PREFIX_HERE ? m.n : 0;
    }
}
