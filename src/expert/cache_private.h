/* The inside of a cache, for cache.c (want, take, give), cache_read.c (reads on their way), cache_guess.c (what is
 * known beforehand) and cache_check.c.
 *
 * An item is one expert of the running want. A read is one expert on its way: one request to io for each part, so that
 * gate and up can be used while down still arrives. Reads outlive a want that is given up: they finish into their
 * slots. A read that failed belongs to no expert any more (its slot is disowned) and waits only until io has let go of
 * all of its memory, and until the view of it, if one was taken, is given up. */
#ifndef EXPERT_CACHE_PRIVATE_H
#define EXPERT_CACHE_PRIVATE_H

#include "expert/arena.h"
#include "expert/cache.h"

#define CACHE_READS_MAX 256 /* experts on their way at once */
#define CACHE_READS_KEPT 64 /* of them, kept free of guesses */
#define CACHE_GUESSES_MAX 2048
#define NONE ARENA_NONE

enum item_state {
    ITEM_WAITING, /* a miss without a slot yet */
    ITEM_COMING,  /* being read; its first parts are not there */
    ITEM_HERE,    /* can be taken */
    ITEM_TAKEN,
    ITEM_GIVEN,
    ITEM_FAILED,
};

struct item {
    uint32_t expert, slot;
    uint8_t state;
    bool hit;
};

struct read {
    struct io_request request[EXPERT_PARTS_MAX];
    uint32_t slot, layer, expert;
    uint32_t item;   /* of the running want, or NONE */
    uint32_t ticket; /* generation, against reports of an earlier use */
    uint32_t next;   /* in the list of idle reads */
    uint8_t first;   /* bit mask of parts: needed before the expert can be started */
    uint8_t asked;   /* not yet reported by io */
    uint8_t arrived;
    uint8_t stuck;  /* reported, but the memory is still the kernel's */
    uint8_t source; /* of a guess or warm-up; enum expert_source */
    bool guess;     /* nobody has wanted it yet: a guess or warm-up */
    bool failed;
};

/* A guess that no read has begun for. */
struct guess {
    uint32_t key, layer;
    uint64_t step; /* in which the layer will be wanted */
    uint8_t source;
    bool sure;
};

struct want {
    bool active;
    uint32_t layer, class_index;
    uint32_t n, n_taken, n_given;
    uint32_t n_misses, next_miss; /* misses[next_miss..] have no slot yet */
    uint32_t ready_first, ready_end;
    struct item *items;        /* [n] */
    uint32_t *misses;          /* [n_misses] items, in the want's order */
    uint32_t *ready;           /* [ready_end] items, in the order in which they became ready */
    enum sluice_status status; /* of the first failure */
    struct sluice_error error;
};

struct expert_cache {
    struct arena arena;
    const struct os_calls *os;
    struct io *io;
    const struct expert_catalog *catalog;
    struct trace_writer *trace; /* NULL: nothing is recorded */
    struct want want;
    struct read *reads; /* [CACHE_READS_MAX] */
    uint32_t idle;      /* first idle read */
    uint32_t n_idle;
    uint32_t n_reading;  /* reads of which io still owes a report; a stuck one is reported */
    uint32_t n_guessing; /* of them, those that nobody has wanted */
    uint32_t n_stuck;    /* reads whose memory the kernel does not give back */
    uint32_t stuck_file;
    uint32_t ticket;
    struct io_request **batch; /* [CACHE_READS_MAX * EXPERT_PARTS_MAX] */
    struct expert_stats stats; /* counters; the rest is filled in when asked */

    /* what is known beforehand */
    uint64_t step;         /* steps begun */
    uint32_t layer_next;   /* layers below it have been wanted in this step */
    struct guess *guesses; /* ring [CACHE_GUESSES_MAX] */
    uint32_t guess_first, n_guesses;
    uint8_t *named;        /* [n_experts] bit s: source s has named the expert */
    uint8_t *named_layers; /* [n_layers] bit s: source s has named experts there */
    bool protects;         /* what decode uses is kept from a prefill */
    bool decode;           /* the running step is decode */
    uint64_t n_decoded;    /* decode tokens so far */
    uint32_t *decoded;     /* [n_experts] n_decoded + 1 when a decode step last chose it; 0: never */
    uint32_t n_pinned;
};

/* cache_read.c */
void cache_read_idle(struct expert_cache *c, struct read *r);
/* An idle read and a FREE slot become a read of one expert; puts its requests into batch and returns how many. */
uint32_t cache_read_begin(struct expert_cache *c, uint32_t layer, uint32_t expert, uint32_t slot, uint32_t item,
                          enum io_priority priority, struct io_request **batch);
/* Starts what is in c->batch. */
enum sluice_status cache_submit(struct expert_cache *c, uint32_t n, struct sluice_error *err);
/* The slot of a failed read is FREE again once io has let go of it and nobody looks at it. */
void cache_read_settle(struct expert_cache *c, struct read *r);
/* Takes in what io has finished; wait: at least one report, which must be owed. */
void cache_poll(struct expert_cache *c, bool wait);
/* An expert of the running want can be taken. */
void cache_item_here(struct expert_cache *c, uint32_t i);
/* The first failure of the running want is the one that is told. */
void cache_want_fails(struct expert_cache *c, enum sluice_status status, const struct sluice_error *err);

/* cache_guess.c */
/* Somebody wants an expert that a guess or warm-up is reading, or has read. */
void cache_guess_true(struct expert_cache *c, uint32_t slot);
/* The layer is wanted: who was right, and what is to be given up. */
void cache_guess_judge(struct expert_cache *c, uint32_t layer, const uint32_t *ids, uint32_t n);
/* After its experts have been found: guesses at the layer that nobody wanted are taken back if they can be. */
void cache_guess_expire(struct expert_cache *c, uint32_t layer);
/* Starts guesses while nothing demanded is under way. */
void cache_guess_start(struct expert_cache *c);
void cache_guess_stats(const struct expert_cache *c, struct expert_stats *out);
/* A read that nobody wanted has been taken back before it began. */
void cache_guess_undone(struct expert_cache *c, const struct read *r);

#endif
