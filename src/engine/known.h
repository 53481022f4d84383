/* What is known beforehand: the usage file, the list of experts to load before they are asked for, and pins. */
#ifndef ENGINE_KNOWN_H
#define ENGINE_KNOWN_H

#include "expert/usage.h"
#include "sluice.h"

#define KNOWN_WARM_DEFAULT 4096u

struct engine_known {
    struct expert_usage *usage; /* of this run, and of the file if there is one; NULL: a dense model */
    char *usage_path;           /* NULL: neither read nor written */
    uint64_t saved_ns;          /* when it was written last, or the engine opened */
    bool save_failed;           /* said */

    uint32_t *warm; /* keys to load before they are asked for, hottest first */
    uint32_t n_warm, next_warm;
    bool warm_ended;

    /* pins */
    uint32_t *pins; /* [n_pins] */
    uint32_t n_pins, pins_max;
    uint8_t *pin_keep; /* [n_experts] those that are tried in the ghost; NULL: not --pin auto */
    bool pin_auto, pinned;
    uint64_t tried_tokens, tried_plain_bytes, tried_pinned_bytes; /* when the trial began: decoded, ghosts */
};

/* Opens what the options name; after the cache and before the first step. Explicit files that are wrong are errors,
 * those beside the model a warning. */
enum sluice_status known_open(sluice_engine *e, struct sluice_error *err);
void known_close(sluice_engine *e); /* writes the usage file if there is something new */
uint64_t known_memory_bytes(const sluice_engine *e);
/* A prompt begins after an answer: writes the usage file if that is due, reconsiders automatic pins, ends the warm-up.
 */
void known_turn(sluice_engine *e);
void known_warm_end(sluice_engine *e);

#endif
