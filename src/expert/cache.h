/* The expert cache: slots of a fixed arena that hold whole experts, filled by reads, freed by eviction. DESIGN.md
 * section 4; the states and invariants E1-E7 are in README.md here.
 *
 * Vocabulary: want (announce the experts of a layer), take (receive the next one that is ready, pinned), give (unpin).
 * One thread at a time uses the cache. The walk of one layer:
 *
 *     expert_want(c, layer, ids, n, err);                  hits are pinned, reads for the others begin
 *     for (i = 0; i < n; i++) {
 *         expert_take(c, &view, err);                      resident ones first, then in order of arrival; waits if it
 * must
 *         ... gate and up: view.part[0], view.part[1] ...
 *         expert_finish(c, &view, err);                    waits for the remaining parts (down)
 *         ... down: view.part[2] ...
 *         expert_give(c, &view);
 *     }
 *
 * n may exceed what the cache holds: reads go out as slots become free (waves); a caller who holds views therefore
 * takes another only below top-k of them or where expert_ready says so. Each wanted expert is read at most once a want.
 * A failed take or finish repeats its error until expert_abort. After an error or a cancel, expert_abort ends the
 * layer: pinned views are released, reads in flight finish into their slots or are set aside. */
#ifndef EXPERT_CACHE_H
#define EXPERT_CACHE_H

#include "base/log.h"
#include "expert/catalog.h"
#include "expert/policy.h"
#include "io/io.h"

struct expert_cache;  /* opaque */
struct expert_verify; /* expert/verify.h */
struct trace_writer;

/* Who says that an expert will be wanted. */
enum expert_source {
    EXPERT_CERTAIN,     /* the router is a table of token ids */
    EXPERT_LOOKAHEAD,   /* the next layer's router on this layer's state */
    EXPERT_TRANSITIONS, /* learned: what follows in the next layer */
    EXPERT_NEXT,        /* learned: what follows at the next token */
    EXPERT_LAYERS,      /* a prompt takes all experts of the layer */
    EXPERT_WARM,        /* hotlist, usage, pins */
    EXPERT_SOURCES,
};
const char *expert_source_name(enum expert_source source); /* "certain", "lookahead", ... */

struct expert_cache_config {
    const struct os_calls *os;
    const struct base_log *log;
    struct io *io;                        /* the catalog's file indices are this io's */
    const struct expert_catalog *catalog; /* outlives the cache */
    enum policy_kind policy;
    uint64_t
        slots_bytes; /* the hard limit of the arena (address space reserved at once, memory committed chunk by chunk) */
    struct expert_verify *verify; /* NULL, or checks each part that arrives; outlives the cache */
    struct os_locker *locker;     /* NULL, or locks what is committed; outlives the cache */
    /* NULL, or asked before the arena grows above its floor: may it have so many bytes in all? False: not now, what is
     * there is used. */
    bool (*may_grow)(void *user, uint64_t bytes);
    void *user; /* of may_grow */
    /* NULL, or brings memory in before it is read into; outlives the cache. While experts
     * are read it is used from chunks of touch_bytes_min on (0: 4 MiB: below, waking it costs more than it saves). */
    struct os_toucher *toucher;
    uint64_t touch_bytes_min;
    /* Memory comes in small pages: it is registered with io, so that the kernel need not look up each of them for each
     * read. Of huge ones there are few, and it compares those of a new chunk with all that are registered. */
    bool small_pages;
};

struct expert_view {
    uint32_t layer, expert;
    const uint8_t *part[EXPERT_PARTS_MAX]; /* first byte of each part; any alignment */
    uint32_t slot_;
    bool was_hit;
};

/* The smallest slots_bytes that works: per size class the top-k of its largest layer plus one (E4). */
uint64_t expert_cache_floor_bytes(const struct expert_catalog *catalog);
/* The slots_bytes at which every expert has a slot; more is never used. */
uint64_t expert_cache_full_bytes(const struct expert_catalog *catalog);
/* Memory besides the slots: policy, slots' states, requests. */
size_t expert_cache_memory_bytes(const struct expert_catalog *catalog, uint64_t slots_bytes);

/* Below the floor: SLUICE_ERR_MEMORY with the smallest slots_bytes that would do. */
enum sluice_status expert_cache_create(const struct expert_cache_config *config, struct expert_cache **out,
                                       struct sluice_error *err);
void expert_cache_destroy(struct expert_cache *c);
/* What the policy is told from now on is recorded too; NULL: not. The trace outlives its use here. */
void expert_cache_trace(struct expert_cache *c, struct trace_writer *trace);

enum sluice_status expert_want(struct expert_cache *c, uint32_t layer, const uint32_t *ids /* [n], distinct */,
                               uint32_t n, struct sluice_error *err);
enum sluice_status expert_take(struct expert_cache *c, struct expert_view *view, struct sluice_error *err);
/* Whether the next take would return at once with an expert that is there as a whole; then *expert names it. */
bool expert_ready(const struct expert_cache *c, uint32_t *expert);
/* Whether none of the wanted experts waits for a slot or for its first parts: no take will wait. */
bool expert_all_here(const struct expert_cache *c);
enum sluice_status expert_finish(struct expert_cache *c, struct expert_view *view, struct sluice_error *err);
void expert_give(struct expert_cache *c, const struct expert_view *view);
void expert_abort(struct expert_cache *c);
/* Moves finished reads along without waiting; called between pieces of computing so that the disk's queue stays full.
 */
void expert_pump(struct expert_cache *c);

/* Brings in memory that experts will need, up to the limit, in the background and a little at a time; for when nobody
 * computes. True: there is more to do, call again (at once is too often: a call begins what takes some 10 ms). Does
 * not poll: it may be called while somebody else reads through this io before the first want. */
bool expert_cache_prepare(struct expert_cache *c);

/* ---- what is known beforehand ---- */

/* Names experts of a layer that has not been wanted yet in this step, or (if it has) of the next step. Those that are
 * not there are read while no demanded read is under way, a few at a time; `sure` ones at once, behind the demanded
 * ones. They go into slots that are set aside for guesses. A guess is given up once its layer has been wanted without
 * it; it becomes a demanded read when it comes true. What does not fit into the queue of guesses is not read. ids need
 * not be distinct between calls. */
void expert_guess(struct expert_cache *c, enum expert_source source, bool sure, uint32_t layer, const uint32_t *ids,
                  uint32_t n);
/* Reads an expert into memory that nobody uses yet (never by eviction); false: there is none, or too much is on its
 * way, or its layer is being wanted. Already there, or on its way: true. */
bool expert_warm(struct expert_cache *c, uint32_t key);
/* Waits until the warm-up reads under way have ended, at most about wait_ns, however long a read takes (but with the
 * sync back end, where the caller reads); the number of those left. */
uint32_t expert_warm_wait(struct expert_cache *c, uint64_t wait_ns);
/* Gives up what guesses and warm-up have asked for and no read has begun for. */
void expert_guesses_drop(struct expert_cache *c);
/* These experts stay once they are there (in place of those named before), as far as the floor allows. */
void expert_pin(struct expert_cache *c, const uint32_t *keys, uint32_t n);

/* A step begins. A large prefill is kept from pushing out what decode works with: the experts that decode steps chose
 * lately stay, up to half of the slots, until the next decode step. */
void expert_step(struct expert_cache *c, uint32_t n_tokens, bool decode);

/* While no layer is wanted: the limit of the arena becomes `bytes` (at least the floor, at most slots_bytes of the
 * configuration). Returns the bytes that went back to the system. */
uint64_t expert_set_limit(struct expert_cache *c, uint64_t bytes);

/* Policy's inputs. selected: the router's choice for one token (also those that were resident); ahead: the token's
 * position in the running step (policy_route). tick: n tokens have passed, called once at a step's end. */
void expert_selected(struct expert_cache *c, uint32_t layer, const uint32_t *ids, const float *weights, uint32_t n,
                     uint32_t ahead);
void expert_tick(struct expert_cache *c, uint32_t n);
void expert_prompt(struct expert_cache *c);

struct expert_source_stats {
    /* named; of them, wanted; wanted in layers for which something was named. EXPERT_WARM has the first alone. */
    uint64_t named, came_true, chosen;
    uint64_t reads;                /* begun */
    uint64_t useful, late, wasted; /* there when wanted; under way when wanted; for nothing */
    uint64_t useful_bytes, wasted_bytes;
};

struct expert_stats {
    uint64_t hits, misses;        /* by expert_want */
    uint64_t read_bytes;          /* real expert bytes asked for */
    uint64_t evictions, recarved; /* slots emptied; chunks that changed class */
    uint64_t wait_ns;             /* time that take and finish stood still */
    uint64_t committed_bytes;     /* memory of the arena now: of chunks, and what was prepared */
    uint64_t held_bytes;          /* sum over non-free slots of their real slot size (E6) */
    uint32_t resident, slots;     /* experts held ready; slots carved */
    uint32_t reading;             /* experts on their way */
    uint32_t quarantined;         /* slots whose read never returned */
    uint64_t limit_bytes;         /* of the arena, now */
    uint32_t pinned, kept_decode; /* residents that stay by expert_pin; experts kept by the last large prefill */
    uint64_t pinned_bytes;
    struct expert_source_stats sources[EXPERT_SOURCES];
};
void expert_cache_stats(const struct expert_cache *c, struct expert_stats *out);
/* The counts by source alone (cheap: once a step). */
void expert_cache_sources(const struct expert_cache *c, struct expert_source_stats out[EXPERT_SOURCES]);
uint64_t expert_cache_misses(const struct expert_cache *c);
bool expert_resident(const struct expert_cache *c, uint32_t layer, uint32_t expert);
/* There, or on its way. */
bool expert_known(const struct expert_cache *c, uint32_t layer, uint32_t expert);
/* There, and stays by expert_pin. */
bool expert_pinned(const struct expert_cache *c, uint32_t layer, uint32_t expert);

/* Walks every structure and asserts the invariants (tests; O(slots)). */
void expert_cache_check(const struct expert_cache *c);

#endif
