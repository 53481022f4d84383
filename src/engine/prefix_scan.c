/* What is in the folder when it is opened: names, then the header of each file in the order of ids, which is the order
 * in which they were made. So parents come before their children, and a file whose parent is not there has lost it. */
#include "engine/prefix_disk.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FILES_MAX ((size_t)1 << 22)
#define LINES_MAX 5u /* about single files */

struct found {
    uint64_t id;
    uint32_t item; /* PREFIX_NONE: not in the tree */
};

struct scan {
    struct prefix_disk *disk;
    struct found *files;
    size_t n, room;
    bool failed;
    unsigned n_lines;
    size_t n_damaged, n_foreign;
    uint64_t foreign_bytes;
};

static bool take_name(void *arg, const char *name)
{
    struct scan *s = arg;
    struct prefix_disk *d = s->disk;
    char path[PREFIX_PATH_MAX];
    if (prefix_file_id(name, PREFIX_PART_SUFFIX) && d->lock >= 0) { /* what a crash has left: we hold the lock */
        if (prefix_disk_path(d, name, path)) (void)d->os->remove(d->os->user, path);
        return true;
    }
    const uint64_t id = prefix_file_id(name, PREFIX_FILE_SUFFIX);
    if (!id) return true;
    if (s->n == s->room) {
        s->room = s->room ? 2 * s->room : 256;
        struct found *more = s->room <= FILES_MAX ? realloc(s->files, s->room * sizeof *more) : NULL;
        if (!more) return !(s->failed = true);
        s->files = more;
    }
    s->files[s->n++] = (struct found){.id = id, .item = PREFIX_NONE};
    return true;
}

static int by_id(const void *a, const void *b)
{
    const uint64_t x = ((const struct found *)a)->id, y = ((const struct found *)b)->id;
    return x < y ? -1 : x > y;
}

static uint32_t item_of(const struct scan *s, size_t n, uint64_t id)
{
    const struct found key = {.id = id};
    const struct found *f = n ? bsearch(&key, s->files, n, sizeof key, by_id) : NULL;
    if (!f || f->item == PREFIX_NONE) return PREFIX_NONE;
    const struct prefix_item *i = &s->disk->tree->items[f->item];
    return i->used && i->id == id ? f->item : PREFIX_NONE; /* it may have had to leave meanwhile */
}

/* Not used, and said; `damaged`: removed, for it is ours. Otherwise it only takes room. */
static void refuse(struct scan *s, const char *path, uint64_t disk_bytes, bool damaged, const char *why)
{
    struct prefix_disk *d = s->disk;
    d->refused++;
    s->n_damaged++;
    const bool removed = damaged && d->lock >= 0 && !d->os->remove(d->os->user, path);
    if (!removed) d->bytes += disk_bytes;
    if (s->n_lines++ < LINES_MAX)
        base_log(d->log, BASE_LOG_WARN, "%s: a kept prefix is not used: %s%s", path, why,
                 removed ? "; it was removed" : "");
}

/* Of this folder's file, without its payload. */
static enum sluice_status read_header(struct prefix_disk *d, const char *path, struct os_file_info *info,
                                      struct prefix_header *h, struct sluice_error *err)
{
    uint8_t data[PREFIX_HEADER_MAX];
    size_t have = 0;
    int rc = d->os->open_read(d->os->user, path, false);
    *info = (struct os_file_info){0};
    if (rc < 0) return base_fail(err, SLUICE_ERR_IO, NULL, "it cannot be opened: %s", strerror(-rc));
    const int fd = rc;
    rc = d->os->file_info(d->os->user, fd, info);
    while (!rc && have < sizeof data) {
        const ssize_t n = d->os->pread(d->os->user, fd, data + have, sizeof data - have, have);
        if (n == -EINTR) continue;
        if (n < 0) rc = (int)n;
        if (n <= 0) break;
        have += (size_t)n;
    }
    (void)d->os->close(d->os->user, fd);
    if (rc) return base_fail(err, SLUICE_ERR_IO, NULL, "it cannot be read: %s", strerror(-rc));
    if (!info->regular) return base_fail(err, SLUICE_ERR_USAGE, NULL, "it is no ordinary file");
    return prefix_header_read(data, have, info->bytes, h, err);
}

static bool same_owner(const struct prefix_owner *a, const struct prefix_owner *b)
{
    return a->fingerprint == b->fingerprint && a->shape == b->shape && a->kv_type == b->kv_type;
}

/* NULL, or what is wrong with it. */
static const char *check_place(const struct scan *s, const struct found *f, const struct prefix_header *h, bool foreign,
                               uint32_t *parent)
{
    const struct prefix_disk *d = s->disk;
    const struct prefix_tree *t = d->tree;
    *parent = PREFIX_NONE;
    if (h->id != f->id) return "its name is that of another";
    if (h->parent) {
        *parent = item_of(s, (size_t)(f - s->files), h->parent);
        if (*parent == PREFIX_NONE) return "what it goes on from is not there";
        const struct prefix_item *p = &t->items[*parent];
        if (p->foreign != foreign || !p->n || h->from <= p->from || h->from > p->from + p->n)
            return "it does not go on from what it says";
    }
    if (foreign) return NULL;
    if (h->payload_bytes != d->payload_bytes(d->user, h->from, h->n)) return "its size is not this model's";
    if (!h->n) return prefix_tree_state_at(t, *parent, h->from) == PREFIX_NONE ? NULL : "it is there twice";
    if (prefix_tree_child(t, *parent, h->from, h->ids[0]) != PREFIX_NONE) return "it is there twice";
    return NULL;
}

/* The state before one on its way: of less use now. */
static void outdate_before(struct prefix_tree *t, uint32_t state)
{
    const uint32_t own = t->items[state].from;
    for (uint32_t run = t->items[state].parent; run != PREFIX_NONE; run = t->items[run].parent) {
        const uint32_t before = prefix_tree_last_state(t, run, own - 1);
        if (before == PREFIX_NONE) continue;
        prefix_tree_outdated(t, before);
        return;
    }
}

static void take_file(struct scan *s, struct found *f)
{
    struct prefix_disk *d = s->disk;
    struct prefix_tree *t = d->tree;
    struct prefix_header h;
    struct os_file_info info;
    struct sluice_error err;
    char name[PREFIX_NAME_BYTES], path[PREFIX_PATH_MAX];
    uint32_t parent = PREFIX_NONE;
    prefix_file_name(f->id, PREFIX_FILE_SUFFIX, name);
    if (f->id >= t->next_id) t->next_id = f->id + 1;
    if (!prefix_disk_path(d, name, path)) return;
    const enum sluice_status st = read_header(d, path, &info, &h, &err);
    if (st) {
        refuse(s, path, info.disk_bytes, st == SLUICE_ERR_MODEL, err.message);
        return;
    }
    const bool foreign = !same_owner(&h.owner, &d->owner);
    const char *why = check_place(s, f, &h, foreign, &parent);
    if (why) {
        refuse(s, path, info.disk_bytes, true, why);
        return;
    }
    if (parent != PREFIX_NONE) prefix_tree_pin(t, parent);
    do {
        f->item = prefix_tree_adopt(t, f->id, parent, h.from, h.ids, h.n, foreign);
    } while (f->item == PREFIX_NONE && d->lock >= 0 && prefix_disk_evict(d, true) != PREFIX_NONE);
    if (parent != PREFIX_NONE) prefix_tree_unpin(t, parent);
    d->bytes += info.disk_bytes;
    if (f->item == PREFIX_NONE) return;
    struct prefix_item *i = &t->items[f->item];
    i->payload_bytes = h.payload_bytes;
    i->payload_hash = h.payload_hash;
    i->disk_bytes = info.disk_bytes;
    s->n_foreign += foreign;
    if (foreign) s->foreign_bytes += info.disk_bytes;
    prefix_tree_set_file(t, f->item, PREFIX_FILE_THERE);
    prefix_tree_rank(t, f->item, (double)(f - s->files + 1) / (double)(s->n + 1)); /* the oldest leave first */
    if (!foreign && !h.n) outdate_before(t, f->item);
}

static void tell(const struct scan *s)
{
    const struct prefix_disk *d = s->disk;
    if (s->n_lines > LINES_MAX)
        base_log(d->log, BASE_LOG_WARN, "%s: %zu more kept prefixes are not used", d->folder,
                 (size_t)(s->n_lines - LINES_MAX));
    if (s->n_foreign)
        base_log(d->log, BASE_LOG_NOTE,
                 "%s: %zu kept prefixes (%.1f MiB) are of other models or KV types and are not used", d->folder,
                 s->n_foreign, (double)s->foreign_bytes / (1 << 20));
    base_log(d->log, BASE_LOG_DEBUG, "%s: %" PRIu32 " kept prefixes, %.1f MiB on the disk", d->folder, d->tree->n_items,
             (double)d->bytes / (1 << 20));
}

enum sluice_status prefix_scan(struct prefix_disk *d, struct sluice_error *err)
{
    struct scan s = {.disk = d};
    const int rc = d->os->list_folder(d->os->user, d->folder, take_name, &s);
    if (rc || s.failed) {
        free(s.files);
        if (rc)
            return base_fail(err, SLUICE_ERR_IO, "give another folder with --kv-dir",
                             "%.300s: the folder of kept prefixes cannot be read: %s", d->folder, strerror(-rc));
        return base_fail(err, SLUICE_ERR_MEMORY, "give another folder with --kv-dir", "%.300s: more than %zu files",
                         d->folder, s.n);
    }
    if (s.n) qsort(s.files, s.n, sizeof *s.files, by_id);
    for (size_t i = 0; i < s.n; i++) take_file(&s, &s.files[i]);
    free(s.files);
    d->refused += s.n_foreign;
    while (d->lock >= 0 && d->bytes > d->limit_bytes && prefix_disk_evict(d, true) != PREFIX_NONE) continue;
    tell(&s);
    return SLUICE_OK;
}
