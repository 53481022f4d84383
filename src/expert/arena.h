/* The slots' memory: one reservation, cut into frames; a frame holds one chunk of slots of one class, or nothing. For
 * the cache alone (cache.c).
 *
 * A chunk commits exactly its slots, which are whole pages, so any limit from the floor on can be used to within one
 * slot. An empty frame may have memory that was prepared, or that the system does not take back; both are counted (E6).
 * A frame is as long as a few of the largest slots; what a chunk does not fill of it is address space and costs
 * nothing. */
#ifndef EXPERT_ARENA_H
#define EXPERT_ARENA_H

#include "expert/cache.h"

#define ARENA_NONE UINT32_MAX
#define ARENA_FRAMES_MAX 8192u /* what io_uring can register is more */

enum slot_state {
    SLOT_FREE,    /* in its class's free list */
    SLOT_READING, /* its memory is io's (E2) */
    SLOT_READY,   /* holds an expert; in the policy's set */
    SLOT_PINNED,  /* holds an expert that the running want has not given back */
};

struct arena_slot {
    uint32_t key;        /* of the expert; in state FREE nothing */
    uint32_t owner;      /* READING: the read; PINNED: the item of the want */
    uint32_t prev, next; /* FREE: neighbours in the list; READY guesses: in the queue of guesses */
    uint8_t state;
    uint8_t source; /* of a guess: enum expert_source */
    bool guess;     /* READING, READY: nobody has wanted it yet; not in the policy's set */
    bool kept;      /* READY: stays whatever is wanted; not in the policy's set */
    bool disowned;  /* READING: the read has failed; the key may be read again elsewhere */
    bool stuck;     /* READING, disowned: the kernel does not give the memory back */
};

/* Why an expert stays (arena_keep). */
enum arena_reason { ARENA_PINNED = 1, ARENA_DECODE = 2 };

struct arena_chunk {
    uint32_t n_slots;     /* 0: the frame is empty */
    uint32_t class_index; /* of a chunk */
    uint32_t n_busy;      /* slots READING or PINNED */
    uint32_t n_kept;      /* of its slots */
    uint32_t next_empty;  /* of an empty frame */
    uint64_t bytes;       /* committed in the frame; an empty one may have some */
    size_t locked_bytes;  /* of them, from the first on */
    bool registered;      /* with io */
};

struct arena_class {
    const struct expert_class *shape;
    uint32_t fit;                     /* slots in a frame */
    uint32_t floor;                   /* slots that it never goes below */
    uint32_t n_slots;                 /* carved */
    uint32_t n_stuck;                 /* of them */
    uint32_t n_guess;                 /* of them: guesses, READING or READY */
    uint32_t n_kept;                  /* of them */
    uint32_t reserve;                 /* guesses that it may hold */
    uint32_t free;                    /* first of the list */
    uint32_t guess_first, guess_last; /* READY guesses, oldest first */
    uint32_t n_evicted;               /* since it last took a chunk of another class */
};

struct arena {
    struct expert_cache_config config;
    const struct expert_catalog *catalog;
    struct policy *policy;
    uint8_t *reserved, *base; /* base: the first aligned byte of the reservation */
    size_t reserved_bytes;
    uint64_t limit_bytes, committed_bytes, held_bytes; /* held: of slots that are not FREE */
    uint64_t carved_bytes;                             /* of committed ones: in frames that hold a chunk */
    uint64_t most_bytes;                               /* limit_bytes when nothing is short */
    uint64_t frame_bytes;
    uint32_t n_frames, n_classes;
    uint32_t n_per_frame; /* slot indices a frame; the class of the smallest slots uses them all */
    uint32_t empty;       /* first empty frame */
    uint32_t coming;      /* first of n_coming frames, one behind the other, whose memory is being touched */
    uint32_t n_coming;
    uint32_t n_resident; /* slots READY or PINNED */
    uint32_t n_kept;     /* of all classes */
    uint64_t evictions, recarved;
    uint64_t wasted[EXPERT_SOURCES], wasted_bytes[EXPERT_SOURCES]; /* guesses that left without having been wanted */
    bool refused;                                                  /* the system refused memory; said */
    bool keeps;                                                    /* the system refused to take memory back */
    struct arena_class classes[EXPERT_CLASSES_MAX];
    struct arena_chunk *chunks; /* [n_frames] */
    struct arena_slot *slots;   /* [n_frames][n_per_frame] */
    uint32_t *slot_of;          /* [n_experts]: the slot of a key, or ARENA_NONE */
    uint8_t *keep;              /* [n_experts]: enum arena_reason bits */
};

enum sluice_status arena_create(const struct expert_cache_config *config, struct arena *a, struct sluice_error *err);
/* leak: the kernel still writes to some slot; the reservation stays. */
void arena_destroy(struct arena *a, bool leak);
size_t arena_memory_bytes(const struct expert_catalog *catalog, uint64_t slots_bytes);

uint8_t *arena_memory(const struct arena *a, uint32_t slot);
struct arena_class *arena_class_of(struct arena *a, uint32_t slot);
/* A FREE slot of the class: from the free list, by growing, from a colder class, or by eviction; or ARENA_NONE. wait
 * false: ARENA_NONE also while the memory of the next chunk is still being touched; ask again then. */
uint32_t arena_acquire(struct arena *a, uint32_t class_index, bool wait);
/* The same for a guess: at most `reserve` of the class's slots are guesses; beyond, the oldest guess that nobody wanted
 * gives way. What demand brought leaves only to fill the reserve. */
uint32_t arena_acquire_guess(struct arena *a, uint32_t class_index);
/* The same for a warm-up: memory that nobody uses, nothing else. */
uint32_t arena_acquire_spare(struct arena *a, uint32_t class_index);
/* Slots that the class has and could have under the limit, if no other class grows. */
uint32_t arena_slots_possible(const struct arena *a, uint32_t class_index);
/* At most so many guesses in each class from now on, and at most one in `share` of its slots; what must stay free for
 * demand (E4) comes first. */
void arena_reserve(struct arena *a, uint32_t n, uint32_t share);
/* After reads got stuck: brings the class back to its floor if memory allows. */
bool arena_at_floor(struct arena *a, uint32_t class_index);

/* Brings in memory that no chunk has asked for yet, in the background: what the limit still allows, some frames at a
 * time. True: there is more to do, ask again. (arena_ahead.c) */
bool arena_prepare(struct arena *a);

/* The transitions, one function each. */
void arena_begin(struct arena *a, uint32_t slot, uint32_t key, uint32_t read); /* FREE -> READING */
void arena_guess(struct arena *a, uint32_t slot, uint8_t source); /* marks what has just begun as a guess */
void arena_promote(struct arena *a, uint32_t slot);               /* READING or READY: a guess that came true */
void arena_arrive(struct arena *a, uint32_t slot);                /* READING -> READY */
void arena_fail(struct arena *a, uint32_t slot);                  /* READING, disowned -> FREE */
void arena_pin(struct arena *a, uint32_t slot, uint32_t item);    /* READY -> PINNED */
void arena_unpin(struct arena *a, uint32_t slot);                 /* PINNED -> READY */
void arena_evict(struct arena *a, uint32_t slot);                 /* READY -> FREE */
/* Marks of a READING slot. */
void arena_disown(struct arena *a, uint32_t slot);
void arena_stick(struct arena *a, uint32_t slot);
void arena_release(struct arena *a, uint32_t slot);

/* Sets or clears a reason for which a key stays. It takes effect for residents at once, for others when they arrive,
 * and only as far as the class keeps its floor for others (E4). */
void arena_keep(struct arena *a, uint32_t key, enum arena_reason reason, bool on);

/* Between steps, nothing pinned: the limit becomes `bytes` (at least the floor, at most the configured one). A lower
 * one evicts the coldest experts, moves others out of chunks and returns those chunks' memory to the system; chunks
 * with a read under way stay. Returns the bytes that were returned. (arena_limit.c) */
uint64_t arena_set_limit(struct arena *a, uint64_t bytes);
/* The part of that which no expert is affected by: memory that holds nothing goes back. */
void arena_give_unused(struct arena *a, uint64_t bytes);

void arena_check(const struct arena *a);

#endif
