/* What arena.c, arena_ahead.c and arena_limit.c share. */
#ifndef EXPERT_ARENA_PRIVATE_H
#define EXPERT_ARENA_PRIVATE_H

#include "expert/arena.h"

uint32_t arena_chunk_of(const struct arena *a, uint32_t slot);
/* Of its slots; what is registered with io. */
size_t arena_chunk_bytes(const struct arena *a, const struct arena_chunk *chunk);
/* Slots of a class that can hold experts. */
uint32_t arena_usable(const struct arena_class *class);
/* Of these, those that demand can have. */
uint32_t arena_open(const struct arena_class *class);
/* Evicts a chunk's experts; the frame is empty then and still has its memory. */
void arena_retire(struct arena *a, uint32_t chunk);
/* Commits or returns the end of a frame's memory. 0 or -errno; then nothing has changed. */
int arena_set_bytes(struct arena *a, uint32_t chunk, uint64_t bytes);
uint8_t *arena_frame_memory(const struct arena *a, uint32_t chunk);
/* Whether the frame's memory is being touched at this moment. */
bool arena_is_coming(const struct arena *a, uint32_t chunk);
/* Whether nothing is being touched any more; what was to wait for that is done then. */
bool arena_settle(struct arena *a);
/* Whether frames that were taken while they were being touched still have memory that their slots do not use: it goes
 * back when that has ended. */
bool arena_coming_unused(const struct arena *a);
/* Memory is there for the asking, as far as was seen last: then it is better taken now than later. */
bool arena_comes_quickly(const struct arena *a);
/* Returns what a chunk does not fill of its frame; if that cannot be, it stays counted. */
void arena_trim(struct arena *a, uint32_t chunk);
/* Moves a READY expert that is no guess to a FREE slot of its class. */
void arena_move(struct arena *a, uint32_t from, uint32_t to);
/* The class's coldest expert leaves, or its oldest guess if none else may; false: nothing may leave. */
bool arena_evict_one(struct arena *a, uint32_t class_index);

#endif
