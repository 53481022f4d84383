#include "engine/engine.h"

#include <inttypes.h>

#define IDLE_TOUCH_MAX ((uint64_t)64 << 20)
#define IDLE_TOUCH_STEP ((uint64_t)2 << 20) /* a huge page: some milliseconds where the host has to find it */

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

bool engine_blocks_touch(sluice_engine *e, uint64_t end_ns)
{
    const struct engine_block blocks[2] = {e->scratch, e->kv};
    const uint64_t all = blocks[0].bytes + blocks[1].bytes;
    if (all > IDLE_TOUCH_MAX) return false;
    while (e->idle_touched_bytes < all && e->os->now_ns(e->os->user) < end_ns) {
        const bool second = e->idle_touched_bytes >= blocks[0].bytes;
        const struct engine_block *b = &blocks[second];
        const uint64_t at = e->idle_touched_bytes - (second ? blocks[0].bytes : 0), left = b->bytes - at,
                       n = left < IDLE_TOUCH_STEP ? left : IDLE_TOUCH_STEP;
        if (e->os->populate(e->os->user, (uint8_t *)b->at + at, (size_t)n)) {
            e->idle_touched_bytes = all; /* it will be touched as it is used */
            break;
        }
        e->idle_touched_bytes += n;
    }
    return e->idle_touched_bytes < all;
}
