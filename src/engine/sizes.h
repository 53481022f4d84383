/* What other sizes of the expert cache would have given, from ghost caches that run beside the real one. */
#ifndef ENGINE_SIZES_H
#define ENGINE_SIZES_H

#include "expert/ghost.h"
#include "sluice.h"

/* Ghost 0 is as large as the cache and has no pins; with --pin auto, ghost 1 is the same with the pins on trial; the
 * others are the other sizes. */
enum { SIZES_PLAIN, SIZES_PINNED };

struct engine_sizes {
    struct expert_ghosts *ghosts; /* NULL: a dense model */
    uint32_t n;                   /* ghosts */
    uint64_t decode_wait_ns;      /* of decode steps */
};

enum sluice_status sizes_open(sluice_engine *e, struct sluice_error *err);
void sizes_close(sluice_engine *e);
uint64_t sizes_memory_bytes(const sluice_engine *e);
void sizes_fill(const sluice_engine *e, struct sluice_stats *out);

#endif
