/* Prefixes of sessions: their KV rows and recurrent states as payloads of a prefix_store. */
#ifndef ENGINE_PREFIX_H
#define ENGINE_PREFIX_H

#include "engine/prefix_store.h"
#include "model/kv.h"
#include "sluice.h"

#define PREFIX_LIMIT_DEFAULT "8G"
#define PREFIX_KEEP_BYTES ((uint64_t)4 << 20) /* at once: a request that comes waits for it */

struct engine_prefix {
    bool on;
    void *block; /* of prefix_memory */
    size_t block_bytes;
    size_t limit_bytes; /* of it, [0, limit_bytes) is committed: memory may be short */
    uint64_t returned_bytes;
    struct prefix_store store;
    struct model_kv layout; /* of any session; its memory is not used */
    uint64_t tokens;        /* that need not be computed, in all */
};

/* What of ids[0, n) a session could take from the tree. */
struct prefix_offer {
    uint32_t item; /* the last of the way */
    size_t n;      /* tokens; 0: nothing */
};

/* budget.c: the size of the ledger's row, 0: none. SLUICE_ERR_USAGE: too small, or a folder without memory. */
enum sluice_status prefix_plan(const sluice_engine *e, uint64_t *bytes, struct sluice_error *err);
/* The row that the plan has for them; 0: none. */
uint64_t prefix_planned_bytes(const sluice_engine *e);
enum sluice_status prefix_open(sluice_engine *e, struct sluice_error *err);
void prefix_close(sluice_engine *e);
/* Between steps: does not wait. */
void prefix_poll(sluice_engine *e);
/* Goes on with what is not kept or not written yet, at most until end_ns. True: there is more to do. */
bool prefix_idle(sluice_engine *e, uint64_t end_ns);

/* What memory that gets short can have: never less than the index, nothing of what is used, of that not what is on the
 * disk too, in this order of what it costs. All are bytes of the block. */
struct prefix_need {
    uint64_t index_bytes, used_bytes; /* index and all */
    uint64_t spare_bytes;             /* of used_bytes: on the disk too */
};
void prefix_need(const sluice_engine *e, struct prefix_need *out);
/* They may have so much of the block from now on; the rest goes back to the system. Returns what they have: more if
 * something in use is in the way, less if the system gives no more. */
uint64_t prefix_set_limit(sluice_engine *e, uint64_t bytes);

void prefix_look(const sluice_engine *e, const int32_t *ids, size_t n, struct prefix_offer *out);
/* Makes the session hold the offer. own: as many tokens of it are the session's already. False: it was damaged, and is
 * gone, or there was no room for loading it (*room); the session holds its own. */
bool prefix_take(sluice_session *s, const int32_t *ids, const struct prefix_offer *o, size_t own, bool *room);
/* What of the session's tokens [0, n) is not kept yet is kept now, about bytes_max of it. False: something is left, or
 * there was no room. */
bool prefix_keep(sluice_session *s, size_t n, uint64_t bytes_max);
/* The last chance for what prefix_keep has left: the session's tokens become others (does not wait), or it is closed.
 */
void prefix_forget(sluice_session *s);
void prefix_leave(sluice_session *s);

#endif
