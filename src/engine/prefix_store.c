#include "engine/prefix_store.h"

#define SPARE 64u /* looked for at once */

/* Somebody leaves memory. False: nobody may. */
static bool leave_memory(struct prefix_store *s)
{
    struct prefix_tree *t = &s->tree;
    const uint32_t item = prefix_tree_victim(t, PREFIX_MEMORY);
    if (item == PREFIX_NONE) return false;
    if (t->items[item].file == PREFIX_FILE_THERE)
        prefix_tree_drop(t, item);
    else
        prefix_tree_remove(t, item);
    return true;
}

/* An item becomes free: one that is in memory alone, else one of the disk. */
static bool leave_items(struct prefix_store *s)
{
    struct prefix_tree *t = &s->tree;
    for (;;) {
        uint32_t item = prefix_tree_victim(t, PREFIX_MEMORY);
        if (item == PREFIX_NONE || t->items[item].file == PREFIX_FILE_THERE) {
            const uint32_t before = t->n_items;
            item = s->disk ? prefix_disk_evict(s->disk, false) : PREFIX_NONE;
            if (item == PREFIX_NONE) return false;
            if (t->n_items < before) return true;
            if (t->items[item].n_children) continue; /* what hangs below it is in memory alone now, and goes first */
        }
        prefix_tree_remove(t, item);
        return true;
    }
}

static bool make_room(struct prefix_store *s, uint32_t item, uint64_t bytes)
{
    if (prefix_tree_pages_of(&s->tree, bytes) > s->tree.n_pages_limit) return false;
    while (!prefix_tree_room(&s->tree, item, bytes))
        if (!leave_memory(s)) return false;
    return true;
}

/* Until n pages hold what is in memory, or nothing more of it is on the disk too. */
static void leave_spare(struct prefix_store *s, uint32_t n)
{
    struct prefix_tree *t = &s->tree;
    uint32_t spare[SPARE], n_spare;
    while (t->n_pages > n && (n_spare = prefix_tree_spare(t, spare, SPARE)))
        for (uint32_t k = 0; k < n_spare && t->n_pages > n; k++) prefix_tree_drop(t, spare[k]);
}

uint32_t prefix_store_limit(struct prefix_store *s, uint32_t n_pages)
{
    prefix_store_poll(s);
    leave_spare(s, n_pages);
    while (s->tree.n_pages > n_pages && leave_memory(s)) continue;
    return prefix_tree_limit(&s->tree, n_pages);
}

uint32_t prefix_store_add(struct prefix_store *s, uint32_t parent, uint32_t from, const int32_t *ids, uint32_t n,
                          uint64_t payload_bytes)
{
    uint32_t item;
    while ((item = prefix_tree_add(&s->tree, parent, from, ids, n)) == PREFIX_NONE)
        if (!leave_items(s)) return PREFIX_NONE;
    if (make_room(s, item, payload_bytes)) return item;
    prefix_tree_unpin(&s->tree, item);
    prefix_tree_remove(&s->tree, item);
    return PREFIX_NONE;
}

void prefix_store_added(struct prefix_store *s, uint32_t item)
{
    const struct prefix_tree *t = &s->tree;
    const uint32_t parent = t->items[item].parent;
    s->n_added++;
    if (!s->disk || s->disk->lock < 0) return;
    if (parent != PREFIX_NONE && t->items[parent].file == PREFIX_FILE_NONE) return;
    prefix_tree_set_file(&s->tree, item, PREFIX_FILE_DUE);
}

enum prefix_loaded prefix_store_load(struct prefix_store *s, uint32_t item)
{
    const struct prefix_item *i = &s->tree.items[item];
    if (prefix_in_memory(i)) return PREFIX_HERE;
    if (!make_room(s, item, i->payload_bytes)) return PREFIX_NO_ROOM;
    if (prefix_disk_load(s->disk, item)) return PREFIX_HERE;
    prefix_tree_drop(&s->tree, item);
    return PREFIX_LOST;
}

void prefix_store_lose(struct prefix_store *s, uint32_t item)
{
    if (s->disk) prefix_disk_drain(s->disk);
    for (;;) {
        const uint32_t leaf = prefix_tree_leaf_below(&s->tree, item);
        if (s->disk) prefix_disk_forget(s->disk, leaf);
        prefix_tree_remove(&s->tree, leaf);
        if (leaf == item) return;
    }
}

bool prefix_store_take_back(struct prefix_store *s, uint32_t run, size_t end)
{
    const struct prefix_item *i = &s->tree.items[run];
    if (i->n == PREFIX_RUN || i->from + i->n != end || i->n_children || i->pins ||
        (i->file != PREFIX_FILE_NONE && i->file != PREFIX_FILE_DUE))
        return false;
    prefix_tree_remove(&s->tree, run);
    return true;
}

void prefix_store_poll(struct prefix_store *s)
{
    if (s->disk) prefix_disk_poll(s->disk);
}
