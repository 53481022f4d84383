#include "engine/prefix_disk.h"

#include "base/assert.h"
#include "base/hash.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES UINT64_C(4096) /* what a file is taken to be rounded to until the system has said */

uint64_t prefix_disk_memory_bytes(void)
{
    return sizeof(struct prefix_disk) + PREFIX_QUEUE * sizeof(struct prefix_job) + PREFIX_WRITER_STACK;
}

bool prefix_disk_path(const struct prefix_disk *d, const char *name, char out[PREFIX_PATH_MAX])
{
    return snprintf(out, PREFIX_PATH_MAX, "%s/%s", d->folder, name) < (int)PREFIX_PATH_MAX;
}

static void path_of(const struct prefix_disk *d, uint64_t id, const char *suffix, char out[PREFIX_PATH_MAX])
{
    char name[PREFIX_NAME_BYTES];
    prefix_file_name(id, suffix, name);
    prefix_disk_path(d, name, out);
}

/* ---- the thread: knows jobs, pages and tokens, not the tree ---- */

/* 0 or -errno. */
static int write_all(const struct prefix_disk *d, int fd, const void *data, size_t bytes)
{
    const uint8_t *at = data;
    while (bytes) {
        const ssize_t n = d->os->write(d->os->user, fd, at, bytes);
        if (n == -EINTR) continue;
        if (n <= 0) return n ? (int)n : -EIO;
        at += n;
        bytes -= (size_t)n;
    }
    return 0;
}

static size_t in_page(const struct prefix_tree *t, uint64_t left)
{
    return left < t->page_bytes ? (size_t)left : t->page_bytes;
}

static uint64_t hash_pages(const struct prefix_tree *t, uint32_t page, uint64_t bytes)
{
    struct base_hash h;
    base_hash_init(&h, 0);
    for (uint64_t left = bytes; left; left -= in_page(t, left), page = t->next_page[page])
        base_hash_add(&h, t->pages + page * t->page_bytes, in_page(t, left));
    return base_hash_value(&h);
}

static int write_file(const struct prefix_disk *d, struct prefix_job *j, int fd)
{
    const struct prefix_tree *t = d->tree;
    uint8_t header[PREFIX_HEADER_MAX];
    struct os_file_info info;
    j->header.payload_hash = hash_pages(t, j->page, j->header.payload_bytes);
    int rc = write_all(d, fd, header, prefix_header_put(&j->header, header));
    uint32_t page = j->page;
    for (uint64_t left = j->header.payload_bytes; left && !rc; left -= in_page(t, left), page = t->next_page[page])
        rc = write_all(d, fd, t->pages + page * t->page_bytes, in_page(t, left));
    if (!rc) rc = d->os->sync(d->os->user, fd);
    if (!rc) rc = d->os->file_info(d->os->user, fd, &info);
    if (!rc) j->disk_bytes = info.disk_bytes;
    (void)d->os->drop_cached(d->os->user, fd, 0, 0); /* it is in our own memory, or not wanted there */
    return rc;
}

static int write_job(const struct prefix_disk *d, struct prefix_job *j)
{
    const struct os_calls *os = d->os;
    char part[PREFIX_PATH_MAX], path[PREFIX_PATH_MAX];
    path_of(d, j->header.id, PREFIX_PART_SUFFIX, part);
    path_of(d, j->header.id, PREFIX_FILE_SUFFIX, path);
    int fd = os->create(os->user, part);
    if (fd == -EEXIST) { /* an attempt that failed, and could not be removed */
        (void)os->remove(os->user, part);
        fd = os->create(os->user, part);
    }
    if (fd < 0) return fd;
    int rc = write_file(d, j, fd);
    const int closed = os->close(os->user, fd);
    if (!rc) rc = closed;
    if (!rc) rc = os->rename(os->user, part, path);
    if (rc) {
        (void)os->remove(os->user, part);
        return rc;
    }
    (void)os->sync_folder(os->user, d->folder); /* not every file system can */
    return 0;
}

static int remove_job(const struct prefix_disk *d, uint64_t id)
{
    char path[PREFIX_PATH_MAX];
    path_of(d, id, PREFIX_FILE_SUFFIX, path);
    const int rc = d->os->remove(d->os->user, path);
    return rc == -ENOENT ? 0 : rc;
}

static void writer(void *arg)
{
    struct prefix_disk *d = arg;
    os_mutex_lock(d->mutex);
    for (;;) {
        const uint64_t n = atomic_load(&d->n_done);
        if (n == d->n_queued) {
            if (d->stop) break;
            os_cond_wait(d->changed, d->mutex);
            continue;
        }
        struct prefix_job *j = &d->jobs[n % PREFIX_QUEUE];
        const bool skip = d->skip && !j->removes;
        os_mutex_unlock(d->mutex);
        const int rc = skip ? -ECANCELED : j->removes ? remove_job(d, j->header.id) : write_job(d, j);
        os_mutex_lock(d->mutex);
        j->result = rc;
        if (rc && !j->removes) d->skip = true;
        atomic_store(&d->n_done, n + 1);
        os_cond_broadcast(d->changed);
    }
    os_mutex_unlock(d->mutex);
}

/* ---- the owner: what was done ---- */

static void tell(struct prefix_disk *d, int error)
{
    if (d->said == error) return;
    d->said = error;
    base_log(d->log, BASE_LOG_WARN, "prefixes are not written to %s: %s; going on without, and trying again later",
             d->folder, strerror(error));
}

static void reap_write(struct prefix_disk *d, const struct prefix_job *j)
{
    struct prefix_item *i = &d->tree->items[j->item];
    d->bytes -= j->asked;
    if (j->result) {
        if (j->result != -ECANCELED) tell(d, -j->result);
        d->retry_ns = d->os->now_ns(d->os->user) + PREFIX_RETRY_NS;
        prefix_tree_set_file(d->tree, j->item, PREFIX_FILE_DUE);
        return;
    }
    d->said = 0;
    d->retry_ns = 0;
    d->written_bytes += prefix_header_bytes(i->n) + i->payload_bytes;
    i->payload_hash = j->header.payload_hash;
    i->disk_bytes = j->disk_bytes > j->asked ? j->disk_bytes : j->asked;
    d->bytes += i->disk_bytes;
    prefix_tree_set_file(d->tree, j->item, PREFIX_FILE_THERE);
}

static void reap_remove(struct prefix_disk *d, const struct prefix_job *j)
{
    if (!j->result) return;
    d->bytes += j->asked; /* still there */
    tell(d, -j->result);
}

/* Writes that failed become due again, the last one first, so that they are in their old order. For that all of the
 * queue has to be through, which is soon: those behind the first are not tried. */
static void reap(struct prefix_disk *d)
{
    const uint64_t n_done = atomic_load(&d->n_done);
    uint64_t good = d->n_reaped;
    while (good < n_done && !d->jobs[good % PREFIX_QUEUE].result) good++;
    for (; d->n_reaped < good; d->n_reaped++) {
        const struct prefix_job *j = &d->jobs[d->n_reaped % PREFIX_QUEUE];
        if (!j->removes) reap_write(d, j);
    }
    if (good == n_done || n_done < d->n_queued) return;
    for (uint64_t n = n_done; n > good; n--) {
        const struct prefix_job *j = &d->jobs[(n - 1) % PREFIX_QUEUE];
        (j->removes ? reap_remove : reap_write)(d, j);
    }
    d->n_reaped = n_done;
    os_mutex_lock(d->mutex);
    d->skip = false;
    os_mutex_unlock(d->mutex);
}

/* ---- the owner: what is to be done ---- */

static uint32_t queue_room(const struct prefix_disk *d) { return PREFIX_QUEUE - (uint32_t)(d->n_queued - d->n_reaped); }

static void queue(struct prefix_disk *d, const struct prefix_job *j)
{
    os_mutex_lock(d->mutex);
    d->jobs[d->n_queued % PREFIX_QUEUE] = *j;
    d->n_queued++;
    os_cond_broadcast(d->changed);
    os_mutex_unlock(d->mutex);
}

uint32_t prefix_disk_evict(struct prefix_disk *d, bool now)
{
    const bool writes = d->lock >= 0;
    if (!now && writes && !queue_room(d)) return PREFIX_NONE;
    const uint32_t item = prefix_tree_victim(d->tree, PREFIX_DISK);
    if (item == PREFIX_NONE) return item;
    struct prefix_item *i = &d->tree->items[item];
    const struct prefix_job j = {.removes = true, .header.id = i->id, .asked = i->disk_bytes};
    d->bytes -= i->disk_bytes;
    if (writes && !now)
        queue(d, &j);
    else if (!writes || remove_job(d, i->id))
        d->bytes += i->disk_bytes; /* it is still there */
    prefix_tree_set_file(d->tree, item, PREFIX_FILE_NONE);
    if (!prefix_in_memory(i)) prefix_tree_remove(d->tree, item);
    return item;
}

/* The item stays in memory alone, and so does all below it. */
static void give_up(struct prefix_tree *t, uint32_t item)
{
    while (t->items[item].n_files_below) {
        uint32_t at = item;
        while (t->items[at].n_files_below) {
            at = t->items[at].first_child;
            while (t->items[at].file == PREFIX_FILE_NONE) at = t->items[at].after;
        }
        prefix_tree_set_file(t, at, PREFIX_FILE_NONE);
    }
    prefix_tree_set_file(t, item, PREFIX_FILE_NONE);
}

/* False: not now. */
static bool feed(struct prefix_disk *d)
{
    struct prefix_tree *t = d->tree;
    const uint32_t item = t->first_due;
    if (item == PREFIX_NONE || queue_room(d) < 2) return false;
    const struct prefix_item *i = &t->items[item];
    const uint64_t bytes = prefix_header_bytes(i->n) + i->payload_bytes,
                   asked = (bytes + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
    bool fits = asked <= d->limit_bytes;
    while (fits && d->bytes > d->limit_bytes - asked) {
        if (queue_room(d) < 2) return false;
        fits = prefix_disk_evict(d, false) != PREFIX_NONE;
    }
    if (!fits) {
        give_up(t, item);
        return true;
    }
    struct prefix_job j = {.item = item, .page = i->page, .asked = asked};
    j.header = (struct prefix_header){.owner = d->owner,
                                      .id = i->id,
                                      .parent = i->parent == PREFIX_NONE ? 0 : t->items[i->parent].id,
                                      .payload_bytes = i->payload_bytes,
                                      .from = i->from,
                                      .n = i->n};
    memcpy(j.header.ids, prefix_tokens(t, item), i->n * sizeof *j.header.ids);
    d->bytes += asked;
    prefix_tree_set_file(t, item, PREFIX_FILE_WRITING);
    queue(d, &j);
    return true;
}

bool prefix_disk_busy(const struct prefix_disk *d)
{
    return atomic_load(&d->n_done) != d->n_reaped || d->tree->first_due != PREFIX_NONE;
}

void prefix_disk_poll(struct prefix_disk *d)
{
    if (!prefix_disk_busy(d)) return;
    reap(d);
    if (d->retry_ns && d->os->now_ns(d->os->user) < d->retry_ns) return;
    if (d->n_reaped < d->n_queued && atomic_load(&d->n_done) != d->n_reaped) return; /* something has failed */
    while (feed(d)) continue;
}

/* Until all that is queued is done and known. */
static void wait_queue(struct prefix_disk *d)
{
    os_mutex_lock(d->mutex);
    while (atomic_load(&d->n_done) != d->n_queued) os_cond_wait(d->changed, d->mutex);
    os_mutex_unlock(d->mutex);
    reap(d);
}

bool prefix_disk_waits(const struct prefix_disk *d) { return d->n_reaped != d->n_queued; }

void prefix_disk_wait(struct prefix_disk *d, uint64_t ns)
{
    os_mutex_lock(d->mutex);
    if (atomic_load(&d->n_done) == d->n_reaped && d->n_reaped != d->n_queued)
        (void)os_cond_wait_ns(d->changed, d->mutex, ns);
    os_mutex_unlock(d->mutex);
}

void prefix_disk_drain(struct prefix_disk *d)
{
    if (!d->thread) return;
    do {
        prefix_disk_poll(d);
        wait_queue(d);
    } while (d->tree->first_due != PREFIX_NONE && !d->retry_ns);
}

void prefix_disk_forget(struct prefix_disk *d, uint32_t item)
{
    struct prefix_item *i = &d->tree->items[item];
    BASE_ASSERT(i->file != PREFIX_FILE_WRITING, "P4 what is in use does not leave");
    if (i->file == PREFIX_FILE_THERE && d->lock >= 0 && !remove_job(d, i->id)) d->bytes -= i->disk_bytes;
    prefix_tree_set_file(d->tree, item, PREFIX_FILE_NONE);
}

/* ---- reading ---- */

static bool pread_all(struct prefix_disk *d, int fd, void *buf, size_t bytes, uint64_t at, struct sluice_error *err)
{
    uint8_t *to = buf;
    while (bytes) {
        const ssize_t n = d->os->pread(d->os->user, fd, to, bytes, at);
        if (n == -EINTR) continue;
        if (n <= 0) {
            base_fail(err, SLUICE_ERR_IO, NULL, "it cannot be read at byte %" PRIu64 ": %s", at,
                      n ? strerror((int)-n) : "it ends there");
            return false;
        }
        to += n;
        at += (uint64_t)n;
        bytes -= (size_t)n;
        d->read_bytes += (uint64_t)n;
    }
    return true;
}

/* The header was read when the folder was opened; who knows what has happened since. */
static bool same_header(const struct prefix_tree *t, uint32_t item, const struct prefix_header *h)
{
    const struct prefix_item *i = &t->items[item];
    return h->id == i->id && h->from == i->from && h->n == i->n && h->payload_bytes == i->payload_bytes &&
           h->payload_hash == i->payload_hash && !memcmp(h->ids, prefix_tokens(t, item), i->n * sizeof *h->ids);
}

static bool load_from(struct prefix_disk *d, int fd, uint32_t item, struct sluice_error *err)
{
    struct prefix_tree *t = d->tree;
    const struct prefix_item *i = &t->items[item];
    struct prefix_header h;
    uint8_t header[PREFIX_HEADER_MAX];
    struct os_file_info info;
    const size_t header_bytes = prefix_header_bytes(i->n);
    const int rc = d->os->file_info(d->os->user, fd, &info);
    if (rc) return base_fail(err, SLUICE_ERR_IO, NULL, "it cannot be read: %s", strerror(-rc)), false;
    if (!pread_all(d, fd, header, header_bytes, 0, err)) return false;
    if (prefix_header_read(header, header_bytes, info.bytes, &h, err)) return false;
    if (!same_header(t, item, &h)) return base_fail(err, SLUICE_ERR_MODEL, NULL, "it is another one now"), false;
    uint64_t at = header_bytes;
    uint32_t page = i->page;
    for (uint64_t left = i->payload_bytes; left; page = t->next_page[page]) {
        const size_t n = in_page(t, left);
        if (!pread_all(d, fd, t->pages + page * t->page_bytes, n, at, err)) return false;
        at += n;
        left -= n;
    }
    (void)d->os->drop_cached(d->os->user, fd, 0, 0);
    if (hash_pages(t, i->page, i->payload_bytes) == i->payload_hash) return true;
    return base_fail(err, SLUICE_ERR_MODEL, NULL, "its checksum does not match"), false;
}

bool prefix_disk_load(struct prefix_disk *d, uint32_t item)
{
    char path[PREFIX_PATH_MAX];
    struct sluice_error err;
    path_of(d, d->tree->items[item].id, PREFIX_FILE_SUFFIX, path);
    const int fd = d->os->open_read(d->os->user, path, false);
    bool good = false;
    if (fd >= 0) {
        good = load_from(d, fd, item, &err);
        (void)d->os->close(d->os->user, fd);
    } else if (fd == -ENOENT && d->lock < 0) { /* whoever writes there has evicted it */
        base_log(d->log, BASE_LOG_DEBUG, "%s: a kept prefix that is gone", path);
        return false;
    } else {
        base_fail(&err, SLUICE_ERR_IO, NULL, "it cannot be opened: %s", strerror(-fd));
    }
    if (good) return true;
    d->refused++;
    base_log(d->log, BASE_LOG_WARN, "%s: a kept prefix is damaged: %s; it is %s, and computed again", path, err.message,
             d->lock >= 0 ? "removed" : "not used");
    return false;
}

/* ---- opening and closing ---- */

/* Those above it too: ~/.cache is not everywhere. */
static int make_folders(struct prefix_disk *d)
{
    char above[PREFIX_PATH_MAX];
    int rc = d->os->make_folder(d->os->user, d->folder);
    if (rc != -ENOENT) return rc;
    for (const char *end = strchr(d->folder + 1, '/'); end; end = strchr(end + 1, '/')) {
        snprintf(above, sizeof above, "%.*s", (int)(end - d->folder), d->folder);
        if ((rc = d->os->make_folder(d->os->user, above))) return rc;
    }
    return d->os->make_folder(d->os->user, d->folder);
}

static enum sluice_status open_folder(struct prefix_disk *d, struct sluice_error *err)
{
    char path[PREFIX_PATH_MAX];
    int rc = make_folders(d);
    if (rc)
        return base_fail(err, SLUICE_ERR_IO, "the folders above it must be writable, or exist",
                         "%.300s: the folder for kept prefixes cannot be made: %s", d->folder, strerror(-rc));
    prefix_disk_path(d, PREFIX_LOCK_NAME, path);
    d->lock = d->os->lock_file(d->os->user, path);
    if (d->lock == -EWOULDBLOCK)
        base_log(d->log, BASE_LOG_WARN, "%s: another process writes there; its prefixes are read, nothing is written",
                 d->folder);
    else if (d->lock < 0)
        base_log(d->log, BASE_LOG_WARN, "%s: cannot be locked (%s): prefixes are read, nothing is written", d->folder,
                 strerror(-d->lock));
    if (d->lock < 0) d->lock = -1;
    return SLUICE_OK;
}

static enum sluice_status start_writer(struct prefix_disk *d, struct sluice_error *err)
{
    if (d->lock < 0) return SLUICE_OK;
    d->jobs = calloc(PREFIX_QUEUE, sizeof *d->jobs);
    if (!d->jobs || os_mutex_create(&d->mutex) || os_cond_create(&d->changed))
        return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for writing prefixes");
    const int rc = os_thread_start(&d->thread, writer, d, "prefixes", PREFIX_WRITER_STACK);
    if (!rc) return SLUICE_OK;
    return base_fail(err, SLUICE_ERR_MEMORY, "is the number of threads limited (ulimit -u)?",
                     "no thread for writing prefixes: %s", strerror(-rc));
}

enum sluice_status prefix_disk_open(const struct prefix_disk_config *c, struct prefix_disk **out,
                                    struct sluice_error *err)
{
    *out = NULL;
    if (strlen(c->folder) >= PREFIX_FOLDER_MAX)
        return base_fail(err, SLUICE_ERR_USAGE, NULL,
                         "the path of the folder for kept prefixes has %zu bytes, at most "
                         "%u are possible",
                         strlen(c->folder), PREFIX_FOLDER_MAX - 1);
    struct prefix_disk *d = calloc(1, sizeof *d);
    if (!d) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for kept prefixes");
    d->os = c->os;
    d->log = c->log;
    d->tree = c->tree;
    d->owner = c->owner;
    d->payload_bytes = c->payload_bytes;
    d->user = c->user;
    d->limit_bytes = c->limit_bytes;
    d->lock = -1;
    snprintf(d->folder, sizeof d->folder, "%s", c->folder);
    enum sluice_status st = open_folder(d, err);
    if (!st) st = prefix_scan(d, err);
    if (!st) st = start_writer(d, err);
    if (st) {
        prefix_disk_close(d);
        return st;
    }
    *out = d;
    return SLUICE_OK;
}

void prefix_disk_close(struct prefix_disk *d)
{
    if (!d) return;
    if (d->thread) {
        wait_queue(d);
        d->retry_ns = 0; /* once more */
        prefix_disk_drain(d);
        os_mutex_lock(d->mutex);
        d->stop = true;
        os_cond_broadcast(d->changed);
        os_mutex_unlock(d->mutex);
        os_thread_join(d->thread);
    }
    if (d->changed) os_cond_destroy(d->changed);
    if (d->mutex) os_mutex_destroy(d->mutex);
    free(d->jobs);
    if (d->lock >= 0) (void)d->os->close(d->os->user, d->lock);
    free(d);
}
