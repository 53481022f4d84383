/* Which prefixes are known, and what is held of them in memory: a tree of token runs with branches, exact to the token.
 *
 * An *item* is a run of at most PREFIX_RUN tokens, or a state at one position. It hangs below its parent at a position
 * of it, `from`, which lies behind the parent's first token and at most behind its last: runs are never cut in two, a
 * branch simply begins in the middle of one. So an item never changes, in memory or on a disk. What follows a position
 * is told apart by its first token; at most one item begins with each.
 *
 *     [ 0 .. 128 )--[ 128 .. 256 )--[ 256 .. 300 )
 *           \               \             state at 300
 *            [ 100 .. 180 )  state at 249
 *
 * Token ids are compared themselves; a hash only finds the place. What an item stands for (its payload: rows of a KV
 * cache, floats of a state) is opaque bytes in pages of one block of memory, or nowhere here (only on the disk).
 *
 * Who leaves: an item has a rank in each tier (memory, disk). It is the tier's clock when it was last touched plus its
 * weight; the clock is the rank of the last one that left. So what was used lately or often stays longer, and nothing
 * stays for ever because it was used once (GreedyDual with frequency: Cao and Irani, 1997; Cherkasova, 1998). The
 * weight grows with the logarithm of the uses, so that a long conversation of yesterday gives way after some turns of
 * today's. What it costs to compute an item again goes by its tokens, and so do its bytes: both leave the weight. The
 * least rank of those that may leave is on top of a heap: O(log n).
 *
 * Owned by one thread; nothing is allocated after prefix_tree_init. */
#ifndef ENGINE_PREFIX_TREE_H
#define ENGINE_PREFIX_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PREFIX_RUN 128u
#define PREFIX_NONE UINT32_MAX
#define PREFIX_ITEMS_MAX 65536u
#define PREFIX_ITEMS_MIN 8u

enum prefix_tier { PREFIX_MEMORY, PREFIX_DISK, PREFIX_TIERS };
enum prefix_file { PREFIX_FILE_NONE, PREFIX_FILE_DUE, PREFIX_FILE_WRITING, PREFIX_FILE_THERE };

struct prefix_item {
    uint64_t id;                                 /* never used twice */
    uint32_t parent, first_child, before, after; /* siblings */
    uint32_t next_in_bucket;
    uint32_t from, n;                     /* positions [from, from + n); n == 0: a state at `from` */
    uint32_t n_children, n_files_below;   /* children; those of them with a file, or one that is due */
    uint32_t pins;                        /* in use: does not leave */
    uint32_t uses;                        /* how often a session went on from it, or from what is below */
    uint32_t due_before, due_after;       /* in the order in which files are to be written */
    uint32_t page, n_pages;               /* first page of the payload; PREFIX_NONE: not in memory */
    uint8_t file;                         /* enum prefix_file */
    bool used;                            /* false: in the list of free ones */
    bool foreign;                         /* of other models or settings: takes room on the disk, is never found */
    uint64_t payload_bytes, payload_hash; /* hash: known once there is a file */
    uint64_t disk_bytes;
    double rank[PREFIX_TIERS];
    uint32_t heap_at[PREFIX_TIERS]; /* PREFIX_NONE: may not leave */
};

struct prefix_tree {
    uint32_t n_items_max, n_pages_max;
    uint32_t n_pages_limit; /* of these, [0, n_pages_limit) may be used now: memory may be short */
    size_t page_bytes;
    /* in the block */
    struct prefix_item *items;
    int32_t *tokens;   /* [n_items_max][PREFIX_RUN] */
    uint32_t *buckets; /* [n_buckets] children by (parent, from, first token) */
    uint32_t n_buckets;
    uint32_t *heap[PREFIX_TIERS], n_heap[PREFIX_TIERS];
    uint32_t *next_page; /* of the same payload, or free */
    uint8_t *pages;

    bool stateful;                              /* the model has states: rows below which none stands are no use */
    uint32_t free_item, n_items, n_fresh_items; /* fresh: were never in use; the others are in the list of free ones */
    uint32_t free_page, n_pages, n_fresh_pages; /* fresh: [n_fresh_pages, n_pages_limit), and none behind */
    uint32_t first_due, last_due;
    double clock[PREFIX_TIERS];
    uint64_t next_id;
};

/* How a block of `bytes` is divided. run_bytes, state_bytes: of a whole run's payload, and of a state's (0: the model
 * has none). disk_bytes: most that there will be on the disk, which needs items too. False: too small. */
struct prefix_sizes {
    uint64_t bytes, run_bytes, state_bytes, disk_bytes;
};
bool prefix_tree_fits(const struct prefix_sizes *s);
uint64_t prefix_tree_least_bytes(const struct prefix_sizes *s); /* `bytes` is not looked at */
void prefix_tree_init(struct prefix_tree *t, const struct prefix_sizes *s, void *block);

static inline struct prefix_item *prefix_at(const struct prefix_tree *t, uint32_t item) { return &t->items[item]; }
static inline int32_t *prefix_tokens(const struct prefix_tree *t, uint32_t item)
{
    return t->tokens + (size_t)item * PREFIX_RUN;
}
static inline bool prefix_in_memory(const struct prefix_item *i) { return i->page != PREFIX_NONE; }

/* The longest known beginning of ids[0, n). */
struct prefix_match {
    uint32_t run;   /* the item that holds its last token; PREFIX_NONE: nothing is known */
    size_t n;       /* tokens */
    uint32_t state; /* the last state on the way, or PREFIX_NONE; it stands at its `from` */
};
void prefix_tree_find(const struct prefix_tree *t, const int32_t *ids, size_t n, struct prefix_match *out);
/* A state at this position of a run, or PREFIX_NONE. */
uint32_t prefix_tree_state_at(const struct prefix_tree *t, uint32_t run, uint32_t position);

/* What goes on there with this token, or PREFIX_NONE. */
uint32_t prefix_tree_child(const struct prefix_tree *t, uint32_t parent, uint32_t from, int32_t first);
/* The last state of a run up to a position, or PREFIX_NONE. */
uint32_t prefix_tree_last_state(const struct prefix_tree *t, uint32_t run, size_t end);

/* A new item below `parent` (PREFIX_NONE: at the beginning) without payload. n 0: a state. PREFIX_NONE: no item is
 * free. It is pinned. Nothing may begin there with the same token yet. */
uint32_t prefix_tree_add(struct prefix_tree *t, uint32_t parent, uint32_t from, const int32_t *ids, uint32_t n);
/* An item of the disk, whose id and place are known: foreign ones are in no bucket. Not pinned. */
uint32_t prefix_tree_adopt(struct prefix_tree *t, uint64_t id, uint32_t parent, uint32_t from, const int32_t *ids,
                           uint32_t n, bool foreign);
/* It has no children, no pins, and is not being written. */
void prefix_tree_remove(struct prefix_tree *t, uint32_t item);
/* The first of the items below `item`, itself included, that has no children: for taking down all of them in turn. */
uint32_t prefix_tree_leaf_below(const struct prefix_tree *t, uint32_t item);

/* Room for a payload. False: not so many pages are free. */
bool prefix_tree_room(struct prefix_tree *t, uint32_t item, uint64_t bytes);
void prefix_tree_drop(struct prefix_tree *t, uint32_t item); /* the pages; there is a file, or the item goes next */
uint32_t prefix_tree_pages_of(const struct prefix_tree *t, uint64_t bytes);
uint64_t prefix_tree_memory_bytes(const struct prefix_tree *t); /* of pages in use */
/* From now on pages [0, n) alone are used: what lies behind moves in front of it, so that the end of the block can be
 * given back. At least as many as are in use; returns how many, which are more if something behind it is being written
 * or pinned and cannot move. */
uint32_t prefix_tree_limit(struct prefix_tree *t, uint32_t n);
/* Those that may leave memory and are on the disk too: the `max` of the least rank, in that order; how many. */
uint32_t prefix_tree_spare(const struct prefix_tree *t, uint32_t *out, uint32_t max);
uint64_t prefix_tree_spare_bytes(const struct prefix_tree *t); /* of pages of all of those */
/* Bytes [at, at + bytes) of the payload. */
void prefix_tree_put(struct prefix_tree *t, uint32_t item, uint64_t at, const void *data, size_t bytes);
void prefix_tree_get(const struct prefix_tree *t, uint32_t item, uint64_t at, void *data, size_t bytes);

/* The item is in use, or not any more. */
void prefix_tree_pin(struct prefix_tree *t, uint32_t item);
void prefix_tree_unpin(struct prefix_tree *t, uint32_t item);
void prefix_tree_set_file(struct prefix_tree *t, uint32_t item, enum prefix_file file);
/* It and everything above is part of a text that somebody works on. */
void prefix_tree_touch(struct prefix_tree *t, uint32_t item);
/* A session went on from it: it and everything above saved their computing once more. */
void prefix_tree_used(struct prefix_tree *t, uint32_t item);
void prefix_tree_rank(struct prefix_tree *t, uint32_t item, double rank); /* among those that were never used here */
/* A state that a later one of the same text stands for, unless it was used for others: leaves sooner. */
void prefix_tree_outdated(struct prefix_tree *t, uint32_t item);
/* Who leaves a tier next; PREFIX_NONE: nobody may. The clock is set to its rank. */
uint32_t prefix_tree_victim(struct prefix_tree *t, enum prefix_tier tier);

/* prefix_tree_check.c: asserts what must hold; walks over everything (tests). */
void prefix_tree_check(const struct prefix_tree *t);

#endif
