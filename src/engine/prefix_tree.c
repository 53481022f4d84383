#include "engine/prefix_tree.h"

#include "base/assert.h"
#include "base/hash.h"

#include <string.h>

#define PAGE_BYTES_MIN ((size_t)1 << 10)
#define PAGE_BYTES_MAX ((size_t)256 << 10)
#define PAGES_A_RUN 32u
#define INDEX_SHARE 8u /* of the block at most */
#define ITEMS_A_RUN 4u /* a run of this part of its length is taken for the common one */
#define WEIGHT_OUTDATED 0.1
#define STATE_TOKEN (-1) /* in place of a first token */
#define ALIGN 64u

/* ---- how the block is divided ---- */

struct division {
    uint64_t n_items, n_buckets, n_pages, page_bytes;
    uint64_t tokens_at, buckets_at, heap_at[PREFIX_TIERS], next_page_at, pages_at;
};

static uint64_t align(uint64_t at) { return (at + ALIGN - 1) / ALIGN * ALIGN; }

static uint64_t pages(uint64_t bytes, uint64_t page_bytes) { return (bytes + page_bytes - 1) / page_bytes; }

static uint64_t item_bytes(void)
{
    return sizeof(struct prefix_item) + PREFIX_RUN * sizeof(int32_t) + (PREFIX_TIERS + 2) * sizeof(uint32_t);
}

/* Pages for two payloads of the largest kind: one that comes while another is in use. */
static uint64_t least_pages(const struct prefix_sizes *s, uint64_t page_bytes)
{
    return 2 * pages(s->run_bytes > s->state_bytes ? s->run_bytes : s->state_bytes, page_bytes);
}

static void divide(const struct prefix_sizes *s, struct division *d)
{
    uint64_t page = PAGE_BYTES_MIN, most;
    while (page < PAGE_BYTES_MAX && page * PAGES_A_RUN < s->run_bytes) page *= 2;
    d->page_bytes = page;
    d->n_items = s->bytes / INDEX_SHARE / item_bytes();
    most = (s->bytes + s->disk_bytes) / (s->run_bytes / ITEMS_A_RUN + 1) + PREFIX_ITEMS_MIN;
    if (d->n_items > most) d->n_items = most;
    if (d->n_items > PREFIX_ITEMS_MAX) d->n_items = PREFIX_ITEMS_MAX;
    if (d->n_items < PREFIX_ITEMS_MIN) d->n_items = PREFIX_ITEMS_MIN;
    d->n_buckets = 1;
    while (d->n_buckets < d->n_items) d->n_buckets *= 2;
    d->tokens_at = align(d->n_items * sizeof(struct prefix_item));
    d->buckets_at = align(d->tokens_at + d->n_items * PREFIX_RUN * sizeof(int32_t));
    uint64_t at = align(d->buckets_at + d->n_buckets * sizeof(uint32_t));
    for (int t = 0; t < PREFIX_TIERS; t++) {
        d->heap_at[t] = at;
        at = align(at + d->n_items * sizeof(uint32_t));
    }
    d->next_page_at = at;
    const uint64_t left = s->bytes > at + 2 * ALIGN ? s->bytes - at - 2 * ALIGN : 0;
    d->n_pages = left / (page + sizeof(uint32_t));
    if (d->n_pages > PREFIX_NONE - 1) d->n_pages = PREFIX_NONE - 1;
    d->pages_at = align(at + d->n_pages * sizeof(uint32_t));
}

bool prefix_tree_fits(const struct prefix_sizes *s)
{
    struct division d;
    divide(s, &d);
    return d.n_pages >= least_pages(s, d.page_bytes);
}

uint64_t prefix_tree_least_bytes(const struct prefix_sizes *s)
{
    struct prefix_sizes least = *s;
    least.bytes = 1;
    while (!prefix_tree_fits(&least)) least.bytes += least.bytes / 16 + 1;
    return least.bytes;
}

void prefix_tree_init(struct prefix_tree *t, const struct prefix_sizes *s, void *block)
{
    struct division d;
    uint8_t *at = block;
    divide(s, &d);
    BASE_ASSERT(d.n_pages >= least_pages(s, d.page_bytes), "P1 the block holds what it must");
    *t = (struct prefix_tree){.n_items_max = (uint32_t)d.n_items,
                              .n_pages_max = (uint32_t)d.n_pages,
                              .n_pages_limit = (uint32_t)d.n_pages,
                              .page_bytes = d.page_bytes,
                              .items = block,
                              .tokens = (int32_t *)(at + d.tokens_at),
                              .buckets = (uint32_t *)(at + d.buckets_at),
                              .n_buckets = (uint32_t)d.n_buckets,
                              .next_page = (uint32_t *)(at + d.next_page_at),
                              .pages = at + d.pages_at,
                              .stateful = s->state_bytes > 0,
                              .free_item = PREFIX_NONE,
                              .free_page = PREFIX_NONE,
                              .first_due = PREFIX_NONE,
                              .last_due = PREFIX_NONE,
                              .next_id = 1};
    for (int i = 0; i < PREFIX_TIERS; i++) t->heap[i] = (uint32_t *)(at + d.heap_at[i]);
    memset(t->buckets, 0xff, d.n_buckets * sizeof *t->buckets);
}

/* ---- the heaps ---- */

/* a leaves before b. Of one text the end leaves first. */
static bool sooner(const struct prefix_tree *t, enum prefix_tier tier, uint32_t a, uint32_t b)
{
    const struct prefix_item *x = &t->items[a], *y = &t->items[b];
    if (x->rank[tier] != y->rank[tier]) return x->rank[tier] < y->rank[tier];
    return x->from != y->from ? x->from > y->from : x->id < y->id;
}

static void heap_set(struct prefix_tree *t, enum prefix_tier tier, uint32_t at, uint32_t item)
{
    t->heap[tier][at] = item;
    t->items[item].heap_at[tier] = at;
}

static void sift(struct prefix_tree *t, enum prefix_tier tier, uint32_t at)
{
    uint32_t *heap = t->heap[tier];
    const uint32_t n = t->n_heap[tier], item = heap[at];
    while (at && sooner(t, tier, item, heap[(at - 1) / 2])) {
        heap_set(t, tier, at, heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= n) break;
        if (child + 1 < n && sooner(t, tier, heap[child + 1], heap[child])) child++;
        if (!sooner(t, tier, heap[child], item)) break;
        heap_set(t, tier, at, heap[child]);
        at = child;
    }
    heap_set(t, tier, at, item);
}

static bool may_leave(const struct prefix_item *i, enum prefix_tier tier)
{
    if (i->pins) return false;
    if (tier == PREFIX_MEMORY)
        return prefix_in_memory(i) && i->file != PREFIX_FILE_WRITING &&
               (i->file == PREFIX_FILE_THERE || !i->n_children);
    return i->file == PREFIX_FILE_THERE && !i->n_files_below && (prefix_in_memory(i) || !i->n_children);
}

/* After anything that may_leave looks at has changed, or a rank. */
static void reconsider(struct prefix_tree *t, uint32_t item)
{
    struct prefix_item *i = &t->items[item];
    for (enum prefix_tier tier = 0; tier < PREFIX_TIERS; tier++) {
        const bool may = may_leave(i, tier), is = i->heap_at[tier] != PREFIX_NONE;
        if (may && !is) {
            heap_set(t, tier, t->n_heap[tier], item);
            t->n_heap[tier]++;
            sift(t, tier, i->heap_at[tier]);
        } else if (may) {
            sift(t, tier, i->heap_at[tier]);
        } else if (is) {
            const uint32_t at = i->heap_at[tier], last = t->heap[tier][--t->n_heap[tier]];
            i->heap_at[tier] = PREFIX_NONE;
            if (last == item) continue;
            heap_set(t, tier, at, last);
            sift(t, tier, at);
        }
    }
}

static void rate(struct prefix_tree *t, uint32_t item, double weight)
{
    for (int tier = 0; tier < PREFIX_TIERS; tier++) t->items[item].rank[tier] = t->clock[tier] + weight;
    reconsider(t, item);
}

void prefix_tree_rank(struct prefix_tree *t, uint32_t item, double rank)
{
    for (int tier = 0; tier < PREFIX_TIERS; tier++) t->items[item].rank[tier] = rank;
    reconsider(t, item);
}

uint32_t prefix_tree_victim(struct prefix_tree *t, enum prefix_tier tier)
{
    if (!t->n_heap[tier]) return PREFIX_NONE;
    const uint32_t item = t->heap[tier][0];
    if (t->items[item].rank[tier] > t->clock[tier]) t->clock[tier] = t->items[item].rank[tier];
    return item;
}

/* 1, and 1 more each time that the number of uses has doubled: with 1, 3, 7, ... uses. */
static double worth(const struct prefix_item *i)
{
    double w = 1;
    for (uint32_t uses = i->uses; uses > 0; uses = (uses - 1) / 2) w += 1;
    return w;
}

void prefix_tree_touch(struct prefix_tree *t, uint32_t item)
{
    for (; item != PREFIX_NONE; item = t->items[item].parent) rate(t, item, worth(&t->items[item]));
}

void prefix_tree_used(struct prefix_tree *t, uint32_t item)
{
    for (uint32_t i = item; i != PREFIX_NONE; i = t->items[i].parent) t->items[i].uses += t->items[i].uses < UINT32_MAX;
    prefix_tree_touch(t, item);
}

void prefix_tree_outdated(struct prefix_tree *t, uint32_t item)
{
    if (t->items[item].uses <= 1) rate(t, item, WEIGHT_OUTDATED);
}

/* ---- finding ---- */

static uint32_t *bucket_of(const struct prefix_tree *t, uint32_t parent, uint32_t from, int32_t first)
{
    const uint32_t key[3] = {parent, from, (uint32_t)first};
    return &t->buckets[base_hash_of(key, sizeof key, 0) & (t->n_buckets - 1)];
}

static int32_t first_of(const struct prefix_tree *t, uint32_t item)
{
    return t->items[item].n ? *prefix_tokens(t, item) : STATE_TOKEN;
}

uint32_t prefix_tree_child(const struct prefix_tree *t, uint32_t parent, uint32_t from, int32_t first)
{
    uint32_t item = *bucket_of(t, parent, from, first);
    while (item != PREFIX_NONE &&
           (t->items[item].parent != parent || t->items[item].from != from || first_of(t, item) != first))
        item = t->items[item].next_in_bucket;
    return item;
}

uint32_t prefix_tree_state_at(const struct prefix_tree *t, uint32_t run, uint32_t position)
{
    return prefix_tree_child(t, run, position, STATE_TOKEN);
}

uint32_t prefix_tree_last_state(const struct prefix_tree *t, uint32_t run, size_t end)
{
    uint32_t best = PREFIX_NONE;
    for (uint32_t c = t->items[run].first_child; c != PREFIX_NONE && !t->items[c].n; c = t->items[c].after)
        if (t->items[c].from <= end && !t->items[c].foreign &&
            (best == PREFIX_NONE || t->items[c].from > t->items[best].from))
            best = c;
    return best;
}

void prefix_tree_find(const struct prefix_tree *t, const int32_t *ids, size_t n, struct prefix_match *out)
{
    *out = (struct prefix_match){.run = PREFIX_NONE, .state = PREFIX_NONE};
    while (out->n < n && out->n < UINT32_MAX) {
        const uint32_t run = prefix_tree_child(t, out->run, (uint32_t)out->n, ids[out->n]);
        if (run == PREFIX_NONE) return;
        const struct prefix_item *i = &t->items[run];
        const int32_t *tokens = prefix_tokens(t, run);
        size_t same = 0;
        while (same < i->n && out->n + same < n && tokens[same] == ids[out->n + same]) same++;
        out->run = run;
        out->n += same;
        const uint32_t state = prefix_tree_last_state(t, run, out->n);
        if (state != PREFIX_NONE) out->state = state;
    }
}

/* ---- items ---- */

static uint32_t *children_of(struct prefix_tree *t, uint32_t parent)
{
    return parent == PREFIX_NONE ? NULL : &t->items[parent].first_child;
}

/* States come before runs among the children of an item: prefix_tree_last_state ends at the first run. Those at the
 * beginning of all are in no list. */
static void link_child(struct prefix_tree *t, uint32_t item)
{
    struct prefix_item *i = &t->items[item];
    uint32_t *first = children_of(t, i->parent), before = PREFIX_NONE;
    i->before = i->after = PREFIX_NONE;
    if (!first) return;
    uint32_t after = *first;
    while (i->n && after != PREFIX_NONE && !t->items[after].n) {
        before = after;
        after = t->items[after].after;
    }
    i->before = before;
    i->after = after;
    *(before == PREFIX_NONE ? first : &t->items[before].after) = item;
    if (after != PREFIX_NONE) t->items[after].before = item;
    t->items[i->parent].n_children++;
    reconsider(t, i->parent);
}

static void unlink_child(struct prefix_tree *t, uint32_t item)
{
    const struct prefix_item *i = &t->items[item];
    uint32_t *first = children_of(t, i->parent);
    if (!first) return;
    *(i->before == PREFIX_NONE ? first : &t->items[i->before].after) = i->after;
    if (i->after != PREFIX_NONE) t->items[i->after].before = i->before;
    t->items[i->parent].n_children--;
    if (t->stateful && !t->items[i->parent].n_children)
        rate(t, i->parent, 0); /* rows that no state ends are no use */
    else
        reconsider(t, i->parent);
}

static uint32_t new_item(struct prefix_tree *t)
{
    uint32_t item = t->free_item;
    if (item != PREFIX_NONE)
        t->free_item = t->items[item].next_in_bucket;
    else if (t->n_fresh_items < t->n_items_max)
        item = t->n_fresh_items++;
    else
        return PREFIX_NONE;
    t->n_items++;
    return item;
}

uint32_t prefix_tree_adopt(struct prefix_tree *t, uint64_t id, uint32_t parent, uint32_t from, const int32_t *ids,
                           uint32_t n, bool foreign)
{
    BASE_ASSERT(n <= PREFIX_RUN, "P2 a run has at most so many tokens");
    BASE_ASSERT(parent == PREFIX_NONE ? from == 0 && n
                                      : from > t->items[parent].from && t->items[parent].n &&
                                            from <= t->items[parent].from + t->items[parent].n,
                "P2 an item begins in its parent");
    const uint32_t item = new_item(t);
    if (item == PREFIX_NONE) return item;
    t->items[item] = (struct prefix_item){.id = id,
                                          .parent = parent,
                                          .first_child = PREFIX_NONE,
                                          .next_in_bucket = PREFIX_NONE,
                                          .from = from,
                                          .n = n,
                                          .due_before = PREFIX_NONE,
                                          .due_after = PREFIX_NONE,
                                          .page = PREFIX_NONE,
                                          .used = true,
                                          .foreign = foreign,
                                          .heap_at = {PREFIX_NONE, PREFIX_NONE}};
    if (n) memcpy(prefix_tokens(t, item), ids, n * sizeof *ids);
    if (id >= t->next_id) t->next_id = id + 1;
    if (!foreign) {
        BASE_ASSERT(prefix_tree_child(t, parent, from, first_of(t, item)) == PREFIX_NONE,
                    "P3 one item begins with a token");
        uint32_t *bucket = bucket_of(t, parent, from, first_of(t, item));
        t->items[item].next_in_bucket = *bucket;
        *bucket = item;
    }
    link_child(t, item);
    rate(t, item, 1.0);
    return item;
}

uint32_t prefix_tree_add(struct prefix_tree *t, uint32_t parent, uint32_t from, const int32_t *ids, uint32_t n)
{
    const uint32_t item = prefix_tree_adopt(t, t->next_id, parent, from, ids, n, false);
    if (item != PREFIX_NONE) prefix_tree_pin(t, item);
    return item;
}

void prefix_tree_remove(struct prefix_tree *t, uint32_t item)
{
    struct prefix_item *i = &t->items[item];
    BASE_ASSERT(!i->n_children && !i->pins && i->file != PREFIX_FILE_WRITING, "P4 what is in use does not leave");
    prefix_tree_set_file(t, item, PREFIX_FILE_NONE);
    prefix_tree_drop(t, item);
    if (!i->foreign) {
        uint32_t *at = bucket_of(t, i->parent, i->from, first_of(t, item));
        while (*at != item) at = &t->items[*at].next_in_bucket;
        *at = i->next_in_bucket;
    }
    unlink_child(t, item);
    i->used = false;
    i->next_in_bucket = t->free_item;
    t->free_item = item;
    t->n_items--;
}

uint32_t prefix_tree_leaf_below(const struct prefix_tree *t, uint32_t item)
{
    while (t->items[item].first_child != PREFIX_NONE) item = t->items[item].first_child;
    return item;
}

void prefix_tree_pin(struct prefix_tree *t, uint32_t item)
{
    t->items[item].pins++;
    reconsider(t, item);
}

void prefix_tree_unpin(struct prefix_tree *t, uint32_t item)
{
    BASE_ASSERT(t->items[item].pins, "P4 an unpin follows a pin");
    t->items[item].pins--;
    reconsider(t, item);
}

/* ---- files ---- */

static void due_unlink(struct prefix_tree *t, uint32_t item)
{
    struct prefix_item *i = &t->items[item];
    *(i->due_before == PREFIX_NONE ? &t->first_due : &t->items[i->due_before].due_after) = i->due_after;
    *(i->due_after == PREFIX_NONE ? &t->last_due : &t->items[i->due_after].due_before) = i->due_before;
    i->due_before = i->due_after = PREFIX_NONE;
}

static void due_append(struct prefix_tree *t, uint32_t item)
{
    struct prefix_item *i = &t->items[item];
    i->due_before = t->last_due;
    i->due_after = PREFIX_NONE;
    *(t->last_due == PREFIX_NONE ? &t->first_due : &t->items[t->last_due].due_after) = item;
    t->last_due = item;
}

/* It was to be written, and is again: it comes before those that were due behind it (and may hang below it). */
static void due_first(struct prefix_tree *t, uint32_t item)
{
    struct prefix_item *i = &t->items[item];
    i->due_before = PREFIX_NONE;
    i->due_after = t->first_due;
    *(t->first_due == PREFIX_NONE ? &t->last_due : &t->items[t->first_due].due_before) = item;
    t->first_due = item;
}

void prefix_tree_set_file(struct prefix_tree *t, uint32_t item, enum prefix_file file)
{
    struct prefix_item *i = &t->items[item];
    const enum prefix_file was = i->file;
    if (was == file) return;
    BASE_ASSERT(file == PREFIX_FILE_NONE || i->parent == PREFIX_NONE || t->items[i->parent].file != PREFIX_FILE_NONE,
                "P5 an item with a file hangs below one with a file");
    BASE_ASSERT(file != PREFIX_FILE_NONE || !i->n_files_below, "P5 an item with a file hangs below one with a file");
    if (was == PREFIX_FILE_DUE) due_unlink(t, item);
    if (file == PREFIX_FILE_DUE && was == PREFIX_FILE_WRITING) due_first(t, item);
    if (file == PREFIX_FILE_DUE && was == PREFIX_FILE_NONE) due_append(t, item);
    i->file = (uint8_t)file;
    if (i->parent != PREFIX_NONE && (was == PREFIX_FILE_NONE) != (file == PREFIX_FILE_NONE)) {
        t->items[i->parent].n_files_below += file == PREFIX_FILE_NONE ? -1u : 1u;
        reconsider(t, i->parent);
    }
    reconsider(t, item);
}

/* ---- payloads ---- */

uint32_t prefix_tree_pages_of(const struct prefix_tree *t, uint64_t bytes)
{
    const uint64_t n = pages(bytes, t->page_bytes);
    return n < PREFIX_NONE ? (uint32_t)n : PREFIX_NONE;
}

uint64_t prefix_tree_memory_bytes(const struct prefix_tree *t) { return (uint64_t)t->n_pages * t->page_bytes; }

/* A free page; there is one. */
static uint32_t take_page(struct prefix_tree *t)
{
    const uint32_t page = t->free_page;
    if (page == PREFIX_NONE) return t->n_fresh_pages++;
    t->free_page = t->next_page[page];
    return page;
}

bool prefix_tree_room(struct prefix_tree *t, uint32_t item, uint64_t bytes)
{
    struct prefix_item *i = &t->items[item];
    const uint32_t n = prefix_tree_pages_of(t, bytes);
    BASE_ASSERT(!prefix_in_memory(i) && bytes, "P6 a payload has one place");
    if (n > t->n_pages_limit - t->n_pages) return false;
    uint32_t *at = &i->page;
    for (uint32_t k = 0; k < n; k++) {
        *at = take_page(t);
        at = &t->next_page[*at];
    }
    *at = PREFIX_NONE;
    i->n_pages = n;
    i->payload_bytes = bytes;
    t->n_pages += n;
    reconsider(t, item);
    return true;
}

void prefix_tree_drop(struct prefix_tree *t, uint32_t item)
{
    struct prefix_item *i = &t->items[item];
    while (i->page != PREFIX_NONE) {
        const uint32_t page = i->page;
        i->page = t->next_page[page];
        t->next_page[page] = t->free_page;
        t->free_page = page;
        t->n_pages--;
    }
    i->n_pages = 0;
    reconsider(t, item);
}

/* ---- less memory ---- */

/* Its pages are where somebody looks at them: the thread that writes, or who pinned it. */
static bool is_fixed(const struct prefix_item *i) { return i->pins || i->file == PREFIX_FILE_WRITING; }

/* Not before n: where the last page of those that cannot move ends. */
static uint32_t end_of_fixed(const struct prefix_tree *t, uint32_t n)
{
    for (uint32_t item = 0; item < t->n_fresh_items; item++) {
        const struct prefix_item *i = &t->items[item];
        if (!i->used || !is_fixed(i)) continue;
        for (uint32_t page = i->page; page != PREFIX_NONE; page = t->next_page[page])
            if (page >= n) n = page + 1;
    }
    return n;
}

/* Pages from n on are neither free nor fresh any more. */
static void forget_free(struct prefix_tree *t, uint32_t n)
{
    uint32_t *at = &t->free_page;
    while (*at != PREFIX_NONE) {
        if (*at < n)
            at = &t->next_page[*at];
        else
            *at = t->next_page[*at];
    }
    if (t->n_fresh_pages > n) t->n_fresh_pages = n;
}

static void move_in_front(struct prefix_tree *t, uint32_t item, uint32_t n)
{
    for (uint32_t *at = &t->items[item].page; *at != PREFIX_NONE; at = &t->next_page[*at]) {
        if (*at < n) continue;
        const uint32_t from = *at, to = take_page(t);
        memcpy(t->pages + to * t->page_bytes, t->pages + from * t->page_bytes, t->page_bytes);
        t->next_page[to] = t->next_page[from];
        *at = to;
    }
}

uint32_t prefix_tree_limit(struct prefix_tree *t, uint32_t n)
{
    if (n > t->n_pages_max) n = t->n_pages_max;
    if (n < t->n_pages) n = t->n_pages;
    if (n < t->n_pages_limit) {
        n = end_of_fixed(t, n);
        forget_free(t, n);
        for (uint32_t item = 0; item < t->n_fresh_items; item++)
            if (t->items[item].used) move_in_front(t, item, n);
    }
    return t->n_pages_limit = n;
}

uint32_t prefix_tree_spare(const struct prefix_tree *t, uint32_t *out, uint32_t max)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < t->n_heap[PREFIX_MEMORY]; k++) {
        const uint32_t item = t->heap[PREFIX_MEMORY][k];
        if (t->items[item].file != PREFIX_FILE_THERE) continue;
        uint32_t at = n;
        while (at > 0 && sooner(t, PREFIX_MEMORY, item, out[at - 1])) at--;
        if (at == max) continue;
        if (n < max) n++;
        memmove(out + at + 1, out + at, (n - at - 1) * sizeof *out);
        out[at] = item;
    }
    return n;
}

uint64_t prefix_tree_spare_bytes(const struct prefix_tree *t)
{
    uint64_t n = 0;
    for (uint32_t k = 0; k < t->n_heap[PREFIX_MEMORY]; k++) {
        const struct prefix_item *i = &t->items[t->heap[PREFIX_MEMORY][k]];
        if (i->file == PREFIX_FILE_THERE) n += i->n_pages;
    }
    return n * t->page_bytes;
}

/* The page that holds byte `at`, whose place in it comes back in `at`. */
static uint32_t page_at(const struct prefix_tree *t, uint32_t item, uint64_t *at)
{
    uint32_t page = t->items[item].page;
    for (; *at >= t->page_bytes; *at -= t->page_bytes) page = t->next_page[page];
    return page;
}

void prefix_tree_put(struct prefix_tree *t, uint32_t item, uint64_t at, const void *data, size_t bytes)
{
    const uint8_t *from = data;
    BASE_ASSERT(at + bytes <= t->items[item].payload_bytes, "P6 bytes lie in the payload");
    if (!bytes) return;
    for (uint32_t page = page_at(t, item, &at);; page = t->next_page[page], at = 0) {
        const size_t n = bytes < t->page_bytes - at ? bytes : t->page_bytes - at;
        memcpy(t->pages + page * t->page_bytes + at, from, n);
        from += n;
        if (!(bytes -= n)) return;
    }
}

void prefix_tree_get(const struct prefix_tree *t, uint32_t item, uint64_t at, void *data, size_t bytes)
{
    uint8_t *to = data;
    BASE_ASSERT(at + bytes <= t->items[item].payload_bytes, "P6 bytes lie in the payload");
    if (!bytes) return;
    for (uint32_t page = page_at(t, item, &at);; page = t->next_page[page], at = 0) {
        const size_t n = bytes < t->page_bytes - at ? bytes : t->page_bytes - at;
        memcpy(to, t->pages + page * t->page_bytes + at, n);
        to += n;
        if (!(bytes -= n)) return;
    }
}
