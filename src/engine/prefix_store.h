/* A tree of prefixes with its memory and its folder, without knowing what a payload is: items come in, are loaded when
 * they are wanted, and others leave for them. */
#ifndef ENGINE_PREFIX_STORE_H
#define ENGINE_PREFIX_STORE_H

#include "engine/prefix_disk.h"

struct prefix_store {
    struct prefix_tree tree;
    struct prefix_disk *disk; /* or NULL */
    uint64_t n_added;         /* items, with all of their payload */
};

enum prefix_loaded { PREFIX_HERE, PREFIX_NO_ROOM, PREFIX_LOST };

/* A new item with room for its payload, pinned; PREFIX_NONE: what is in use leaves no room. The parent is pinned by the
 * caller. */
uint32_t prefix_store_add(struct prefix_store *s, uint32_t parent, uint32_t from, const int32_t *ids, uint32_t n,
                          uint64_t payload_bytes);
/* Its payload is complete: it may be written. It stays pinned. */
void prefix_store_added(struct prefix_store *s, uint32_t item);
/* Brings a pinned item's payload into memory. PREFIX_LOST: it was damaged or is gone; unpin it and let go of it with
 * prefix_store_lose. */
enum prefix_loaded prefix_store_load(struct prefix_store *s, uint32_t item);
/* The item and all below it are no use any more. Nothing of it may be pinned. Waits for files that are being written.
 */
void prefix_store_lose(struct prefix_store *s, uint32_t item);
/* A run that may still grow: nothing hangs below it, no file holds it, nobody uses it. It is taken back; what it held
 * is kept again as part of a longer one. */
bool prefix_store_take_back(struct prefix_store *s, uint32_t run, size_t end);
void prefix_store_poll(struct prefix_store *s);
/* From now on so many pages are used (prefix_tree_limit). For less memory, those leave first that are on the disk too,
 * then whoever has the least rank; what is in use stays. Returns how many it is, perhaps more. */
uint32_t prefix_store_limit(struct prefix_store *s, uint32_t n_pages);

#endif
