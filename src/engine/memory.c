#include "engine/engine.h"

#include <inttypes.h>

uint64_t engine_block_bytes(uint64_t bytes)
{
    uint64_t page = os_page_bytes();
    return (bytes + page - 1) / page * page;
}

enum sluice_status engine_block_open(const struct os_calls *os, uint64_t bytes, const char *what,
                                     struct engine_block *out, struct sluice_error *err)
{
    *out = (struct engine_block){0};
    if (!bytes) return SLUICE_OK;
    bytes = engine_block_bytes(bytes);
    void *at = os->reserve(os->user, bytes);
    if (!at)
        return base_fail(err, SLUICE_ERR_MEMORY, "is the address space limited (ulimit -v)?",
                         "no address space for %" PRIu64 " bytes of %s", bytes, what);
    int rc = os->commit(os->user, at, bytes);
    if (rc) {
        os->release(os->user, at, bytes);
        return base_fail(err, SLUICE_ERR_MEMORY, "give a smaller --memory or --ctx",
                         "the system refuses %" PRIu64 " bytes of memory for %s (error %d)", bytes, what, -rc);
    }
    *out = (struct engine_block){.at = at, .bytes = bytes};
    return SLUICE_OK;
}

void engine_block_close(const struct os_calls *os, struct engine_block *b)
{
    if (b->at) os->release(os->user, b->at, b->bytes);
    *b = (struct engine_block){0};
}
