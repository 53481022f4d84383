/* The file of learned heat: read strictly, merged under a lock, replaced as a whole.
 *
 * Merging: runs that overlap are put one behind the other in the order of their saves. A save first lets what the file
 * holds decay by the tokens that this run has seen since its own last save, then adds what this run has counted since
 * then, which has decayed by this run's later tokens already. Others' tokens that are in the file by now count as
 * earlier and do not make this run's heat older. So each selection is in the file once, and the decayed number of
 * tokens is that of one long run.
 *
 * The file's length follows from the model, so its bytes have a place of their own that is made with the heat; no
 * length that a file claims is ever believed. */
#include "expert/usage_private.h"

#include "base/bits.h"
#include "base/cursor.h"
#include "base/hash.h"
#include "expert/replace.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define HEADER_BYTES 32u
#define TOKENS_AT 24u
/* A sum over all time is at most half life / ln 2 = 94,549; heat a little more after steps that were given up. */
#define LARGEST 1e6f

#define ELSEWHERE "give another place with --usage PATH, or --no-usage"
#define REMOVE_IT "remove it, or " ELSEWHERE

static const char magic[8] = {'S', 'L', 'U', 'I', 'C', 'U', 'S', 'E'};

static size_t heat_at(const struct expert_catalog *catalog)
{
    return HEADER_BYTES + (size_t)expert_catalog_n_layers(catalog) * 4;
}

size_t usage_image_bytes(const struct expert_catalog *catalog)
{
    return heat_at(catalog) + (size_t)expert_catalog_n_experts(catalog) * 4 + 8;
}

/* ---- to bytes and back, in u->image ---- */

static uint8_t *put(uint8_t *p, uint64_t v, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++) *p++ = (uint8_t)(v >> 8 * i);
    return p;
}

/* The tokens of the image, and a cursor at its first heat. */
static double read_tokens(const struct expert_usage *u, struct base_cursor *heat)
{
    base_cursor_init(heat, u->image + TOKENS_AT, u->image_bytes - TOKENS_AT - 8);
    double tokens = base_cursor_f64(heat);
    base_cursor_take(heat, heat_at(u->catalog) - HEADER_BYTES);
    return tokens;
}

static double at_most(double v) { return v < LARGEST ? v : LARGEST; }

/* Turns the image of what the file holds (there false: nothing) into that of the file to be. */
static void merge(struct expert_usage *u, bool there)
{
    struct base_cursor c;
    const double decay = there ? usage_decay(u->since) : 0.0;
    if (!there) memset(u->image, 0, u->image_bytes);
    double tokens = read_tokens(u, &c) * decay + u->added_tokens / u->weight;

    memcpy(u->image, magic, sizeof magic);
    uint8_t *p = put(u->image + sizeof magic, EXPERT_USAGE_VERSION, 4);
    const uint32_t n_layers = expert_catalog_n_layers(u->catalog);
    p = put(p, n_layers, 4);
    p = put(p, u->fingerprint, 8);
    p = put(p, base_bits_f64(at_most(tokens)), 8);
    for (uint32_t i = 0; i < n_layers; i++) p = put(p, expert_catalog_layer(u->catalog, i)->n_expert, 4);
    for (uint32_t i = 0; i < u->n_experts; i++) { /* each is read before it is written over */
        double heat = base_cursor_f32(&c) * decay + u->added[i] / u->weight;
        p = put(p, base_bits_f32((float)at_most(heat)), 4);
    }
    put(p, base_hash_of(u->image, u->image_bytes - 8, 0), 8);
}

/* The image is what the file holds. */
static void adopt(struct expert_usage *u)
{
    struct base_cursor c;
    u->known_tokens = read_tokens(u, &c) * u->weight;
    for (uint32_t i = 0; i < u->n_experts; i++) u->known[i] = base_cursor_f32(&c) * u->weight;
}

/* ---- strict reading ---- */

static enum sluice_status damaged(const char *path, const char *why, struct sluice_error *err)
{
    return base_fail(err, SLUICE_ERR_USAGE, REMOVE_IT, "%.300s: the usage file is damaged: %s", path, why);
}

static enum sluice_status check_numbers(const struct expert_usage *u, const char *path, struct sluice_error *err)
{
    struct base_cursor c;
    double tokens = read_tokens(u, &c);
    if (!(tokens >= 0 && tokens <= LARGEST)) return damaged(path, "its number of tokens is out of range", err);
    for (uint32_t i = 0; i < u->n_experts; i++) {
        float heat = base_cursor_f32(&c);
        if (heat >= 0 && heat <= LARGEST) continue;
        uint32_t layer, expert;
        expert_catalog_unkey(u->catalog, i, &layer, &expert);
        return base_fail(err, SLUICE_ERR_USAGE, REMOVE_IT,
                         "%.300s: the usage file is damaged: the heat of layer %u, expert %u is out of range", path,
                         (unsigned)layer, (unsigned)expert);
    }
    return SLUICE_OK;
}

/* have: bytes of the file that are in the image. */
static enum sluice_status check(const struct expert_usage *u, const char *path, size_t have, uint64_t file_bytes,
                                struct sluice_error *err)
{
    struct base_cursor c;
    if (have < sizeof magic || memcmp(u->image, magic, sizeof magic) != 0)
        return base_fail(err, SLUICE_ERR_USAGE, REMOVE_IT, "%.300s: is not a usage file", path);
    base_cursor_init(&c, u->image + sizeof magic, have - sizeof magic);
    uint32_t version = base_cursor_u32(&c), n_layers = base_cursor_u32(&c);
    uint64_t fingerprint = base_cursor_u64(&c);
    base_cursor_f64(&c); /* looked at when the checksum is known to be right */
    if (c.failed) return damaged(path, "it is cut short", err);
    if (version != EXPERT_USAGE_VERSION)
        return base_fail(err, SLUICE_ERR_USAGE, REMOVE_IT,
                         "%.300s: a usage file of version %" PRIu32 "; this Sluice reads version %u", path, version,
                         EXPERT_USAGE_VERSION);
    const bool whole = file_bytes == u->image_bytes && have == u->image_bytes;
    struct base_cursor end;
    base_cursor_init(&end, u->image + u->image_bytes - 8, 8);
    if (whole && base_cursor_u64(&end) != base_hash_of(u->image, u->image_bytes - 8, 0))
        return damaged(path, "its checksum does not match", err);
    if (fingerprint != u->fingerprint)
        return base_fail(err, SLUICE_ERR_USAGE, REMOVE_IT,
                         "%.300s: this usage file belongs to another model, or the model's header has changed (its "
                         "fingerprint is %016" PRIx64 ", the file's %016" PRIx64 ")",
                         path, u->fingerprint, fingerprint);
    if (!whole)
        return base_fail(err, SLUICE_ERR_USAGE, REMOVE_IT,
                         "%.300s: the usage file is damaged: it has %" PRIu64 " bytes, this model's has %zu", path,
                         file_bytes, u->image_bytes);
    bool same = n_layers == expert_catalog_n_layers(u->catalog);
    for (uint32_t i = 0; same && i < n_layers; i++)
        same = base_cursor_u32(&c) == expert_catalog_layer(u->catalog, i)->n_expert;
    if (!same) return damaged(path, "its layers are not the model's", err);
    return check_numbers(u, path, err);
}

static enum sluice_status read_bytes(struct expert_usage *u, const struct os_calls *os, int fd, const char *path,
                                     struct sluice_error *err)
{
    struct os_file_info info;
    int rc = os->file_info(os->user, fd, &info);
    if (rc) return base_fail(err, SLUICE_ERR_IO, ELSEWHERE, "%.300s: cannot be read: %s", path, strerror(-rc));
    if (!info.regular) return base_fail(err, SLUICE_ERR_USAGE, ELSEWHERE, "%.300s: is not a usage file", path);
    const size_t bytes = info.bytes < u->image_bytes ? (size_t)info.bytes : u->image_bytes;
    for (size_t done = 0; done < bytes;) {
        ssize_t n = os->pread(os->user, fd, u->image + done, bytes - done, done);
        if (n == -EINTR) continue;
        if (n <= 0)
            return base_fail(err, SLUICE_ERR_IO, ELSEWHERE, "%.300s: cannot be read at byte %zu: %s", path, done,
                             n < 0 ? strerror((int)-n) : "the file ends there");
        done += (size_t)n;
    }
    return check(u, path, bytes, info.bytes, err);
}

/* Into the image, which is as good as what u holds if the status is OK and there is a file. */
static enum sluice_status read_image(struct expert_usage *u, const struct os_calls *os, const char *path, bool *there,
                                     struct sluice_error *err)
{
    enum sluice_status status = replace_check(path, ELSEWHERE, there, err);
    if (status || !*there) return status;
    int fd = os->open_read(os->user, path, false);
    *there = fd != -ENOENT;
    if (!*there) return SLUICE_OK;
    if (fd < 0) return base_fail(err, SLUICE_ERR_IO, ELSEWHERE, "%.300s: cannot be opened: %s", path, strerror(-fd));
    status = read_bytes(u, os, fd, path, err);
    os->close(os->user, fd);
    return status;
}

enum sluice_status expert_usage_load(struct expert_usage *u, const struct os_calls *os, const char *path,
                                     struct sluice_error *err)
{
    bool there;
    enum sluice_status status = read_image(u, os, path, &there, err);
    if (status) return status;
    if (!there) memset(u->image, 0, u->image_bytes);
    adopt(u);
    return SLUICE_OK;
}

/* ---- saving ---- */

enum sluice_status expert_usage_save(struct expert_usage *u, const struct os_calls *os, const char *path,
                                     uint32_t wait_ms, struct sluice_error *err)
{
    bool there;
    int lock;
    if (!u->changed) return SLUICE_OK;
    enum sluice_status status = replace_check(path, ELSEWHERE, &there, err); /* before a lock file is left beside it */
    if (!status) status = replace_lock(os, path, ELSEWHERE, wait_ms, &lock, err);
    if (status) return status;
    status = read_image(u, os, path, &there, err);
    if (!status) {
        merge(u, there);
        status = replace_write(path, ELSEWHERE, u->image, u->image_bytes, err);
    }
    replace_unlock(lock);
    if (status) return status;
    u->age = u->since = 0;
    u->weight = 1.0;
    u->added_tokens = 0;
    memset(u->added, 0, u->n_experts * sizeof *u->added);
    u->changed = false;
    adopt(u);
    return SLUICE_OK;
}
