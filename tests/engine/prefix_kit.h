/* What the tests of the prefix store share: a store over invented rows, so that what comes back can be checked. */
#ifndef TESTS_ENGINE_PREFIX_KIT_H
#define TESTS_ENGINE_PREFIX_KIT_H

#include "engine/prefix_store.h"

#define KIT_TOKEN_BYTES 200u
#define KIT_STATE_BYTES 700u

struct kit {
    struct prefix_store store;
    struct prefix_owner owner;
    void *block;
    bool stateful;
};

/* folder NULL: memory alone. */
enum sluice_status kit_open(struct kit *k, const struct os_calls *os, uint64_t bytes, bool stateful, const char *folder,
                            uint64_t limit_bytes, struct sluice_error *err);
void kit_close(struct kit *k);
/* Keeps ids[0, n), and a state at its end; returns how many tokens are there. */
size_t kit_keep(struct kit *k, const int32_t *ids, size_t n);
/* Loads the longest beginning and checks every byte of it; returns its length. */
size_t kit_reuse(struct kit *k, const int32_t *ids, size_t n);
/* Deterministic ids for a text: `seed` tells texts apart. */
void kit_text(int32_t *ids, size_t n, uint64_t seed);

/* Lines of the log that were said, and the last of them. */
extern unsigned kit_warnings;
extern char kit_line[512];

#endif
