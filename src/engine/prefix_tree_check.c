/* The invariants of prefix_tree.h that a state can show. */
#include "base/assert.h"
#include "engine/prefix_tree.h"

static void check_children(const struct prefix_tree *t, uint32_t item)
{
    uint32_t n = 0, n_files = 0, before = PREFIX_NONE;
    bool runs = false;
    for (uint32_t c = t->items[item].first_child; c != PREFIX_NONE; c = t->items[c].after) {
        const struct prefix_item *i = &t->items[c];
        BASE_ASSERT(i->used && i->parent == item && i->before == before, "P2 a child knows its parent and siblings");
        BASE_ASSERT(i->n || !runs, "P2 states come before runs");
        runs = runs || i->n;
        n++;
        n_files += i->file != PREFIX_FILE_NONE;
        before = c;
    }
    BASE_ASSERT(n == t->items[item].n_children && n_files == t->items[item].n_files_below, "P2 children are counted");
}

static void check_place(const struct prefix_tree *t, uint32_t item)
{
    const struct prefix_item *i = &t->items[item];
    if (i->parent == PREFIX_NONE) {
        BASE_ASSERT(i->from == 0 && i->n, "P2 what has no parent begins at the beginning");
        return;
    }
    const struct prefix_item *p = &t->items[i->parent];
    BASE_ASSERT(p->used && p->n && i->from > p->from && i->from <= p->from + p->n, "P2 an item begins in its parent");
    BASE_ASSERT(!i->n || i->from == p->from + p->n ||
                    *prefix_tokens(t, item) != prefix_tokens(t, i->parent)[i->from - p->from],
                "P3 one item begins with a token");
    BASE_ASSERT(i->file == PREFIX_FILE_NONE || p->file != PREFIX_FILE_NONE,
                "P5 an item with a file hangs below one with a file");
    BASE_ASSERT(i->foreign == p->foreign, "P3 foreign items hang below foreign ones");
}

static void check_payload(const struct prefix_tree *t, uint32_t item, uint32_t *n_pages)
{
    const struct prefix_item *i = &t->items[item];
    uint32_t n = 0;
    for (uint32_t page = i->page; page != PREFIX_NONE && n <= i->n_pages; page = t->next_page[page]) {
        BASE_ASSERT(page < t->n_fresh_pages, "P7 no page behind the limit is used");
        n++;
    }
    BASE_ASSERT(n == i->n_pages, "P6 a payload's pages are counted");
    BASE_ASSERT(!n || n == prefix_tree_pages_of(t, i->payload_bytes), "P6 a payload is all there or not at all");
    *n_pages += n;
    BASE_ASSERT(n || i->file == PREFIX_FILE_THERE || i->pins, "P5 an item is somewhere, or on its way");
}

static void check_free(const struct prefix_tree *t)
{
    uint32_t n = 0;
    for (uint32_t page = t->free_page; page != PREFIX_NONE && n <= t->n_pages_max; page = t->next_page[page]) {
        BASE_ASSERT(page < t->n_fresh_pages, "P7 no page behind the limit is used");
        n++;
    }
    BASE_ASSERT(n + t->n_pages == t->n_fresh_pages, "P1 a page is in use, free or fresh");
    BASE_ASSERT(t->n_fresh_pages <= t->n_pages_limit && t->n_pages_limit <= t->n_pages_max,
                "P7 no page behind the limit is used");
}

static void check_heap(const struct prefix_tree *t, enum prefix_tier tier)
{
    for (uint32_t at = 0; at < t->n_heap[tier]; at++) {
        const struct prefix_item *i = &t->items[t->heap[tier][at]];
        BASE_ASSERT(i->used && i->heap_at[tier] == at, "P4 who may leave is in the heap");
        BASE_ASSERT(!i->pins, "P4 what is in use does not leave");
        BASE_ASSERT(!at || t->items[t->heap[tier][(at - 1) / 2]].rank[tier] <= i->rank[tier], "P4 least rank on top");
    }
}

void prefix_tree_check(const struct prefix_tree *t)
{
    uint32_t n = 0, n_pages = 0, n_due = 0, n_may[PREFIX_TIERS] = {0};
    for (uint32_t item = 0; item < t->n_fresh_items; item++) {
        const struct prefix_item *i = &t->items[item];
        if (!i->used) continue;
        n++;
        n_due += i->file == PREFIX_FILE_DUE;
        for (int tier = 0; tier < PREFIX_TIERS; tier++) n_may[tier] += i->heap_at[tier] != PREFIX_NONE;
        check_children(t, item);
        check_place(t, item);
        check_payload(t, item, &n_pages);
    }
    BASE_ASSERT(n == t->n_items && n_pages == t->n_pages, "P1 items and pages are counted");
    check_free(t);
    for (enum prefix_tier tier = 0; tier < PREFIX_TIERS; tier++) {
        BASE_ASSERT(n_may[tier] == t->n_heap[tier], "P4 who may leave is in the heap");
        check_heap(t, tier);
    }
    for (uint32_t item = t->first_due; item != PREFIX_NONE; item = t->items[item].due_after) n_due--;
    BASE_ASSERT(n_due == 0, "P5 what is due is in the list");
}
