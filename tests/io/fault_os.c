#include "fault_os.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SLICE_NS ((uint64_t)2000000)

static bool is_direct(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && (flags & O_DIRECT);
}

/* Counts one read and finds the rule that it falls under. False: none. */
static bool begin_read(struct fault_os *f, int fd, const void *dst, size_t bytes, uint64_t offset,
                       struct fault_rule *out)
{
    bool found = false;
    bool direct = is_direct(fd);
    os_mutex_lock(f->mutex);
    if (f->n_reads < FAULT_READS_MAX)
        f->reads[f->n_reads] = (struct fault_read){.offset = offset, .bytes = bytes, .dst = dst};
    f->n_reads++;
    for (unsigned i = 0; i < f->n_rules; i++) {
        struct fault_rule *rule = &f->rules[i];
        if (rule->direct_only && !direct) continue;
        unsigned nth = rule->nth ? rule->nth : 1, count = rule->count ? rule->count : 1;
        rule->seen_++;
        if (rule->seen_ < nth || rule->seen_ - nth >= count || found) continue;
        *out = *rule;
        found = true;
    }
    /* Before another read is counted: what is counted later finds the file as it is now. */
    if (found && out->kind == FAULT_CUT && truncate(out->path, (off_t)out->bytes)) found = false;
    os_mutex_unlock(f->mutex);
    return found;
}

static ssize_t read_flipped(struct fault_os *f, const struct fault_rule *rule, int fd, void *buf, size_t bytes,
                            uint64_t offset)
{
    ssize_t n = f->real->pread(f->real->user, fd, buf, bytes, offset);
    if (n > 0) ((uint8_t *)buf)[rule->bytes < (size_t)n ? rule->bytes : (size_t)n - 1] ^= 1;
    return n;
}

static int fault_open_read(void *user, const char *path, bool direct)
{
    struct fault_os *f = user;
    if (f->open_error) return -f->open_error;
    if (direct && f->open_direct_error) return -f->open_direct_error;
    int fd = f->real->open_read(f->real->user, path, direct);
    if (fd >= 0) {
        os_mutex_lock(f->mutex);
        f->n_open++;
        os_mutex_unlock(f->mutex);
    }
    return fd;
}

static int fault_close(void *user, int fd)
{
    struct fault_os *f = user;
    os_mutex_lock(f->mutex);
    f->n_open--;
    os_mutex_unlock(f->mutex);
    return f->real->close(f->real->user, fd);
}

static ssize_t fault_pread(void *user, int fd, void *buf, size_t bytes, uint64_t offset)
{
    struct fault_os *f = user;
    struct fault_rule rule = {0};
    if (begin_read(f, fd, buf, bytes, offset, &rule)) {
        if (rule.kind == FAULT_ERROR) return -rule.error;
        if (rule.kind == FAULT_FLIP) return read_flipped(f, &rule, fd, buf, bytes, offset);
        if (rule.kind == FAULT_SHORT && rule.bytes < bytes) {
            /* A direct read must ask for whole blocks; only the answer is short. */
            ssize_t n = f->real->pread(f->real->user, fd, buf, bytes, offset);
            return n > (ssize_t)rule.bytes ? (ssize_t)rule.bytes : n;
        }
        if (rule.kind == FAULT_HANG) {
            os_mutex_lock(f->mutex);
            f->n_hung++;
            os_cond_broadcast(f->changed);
            while (!f->released) os_cond_wait(f->changed, f->mutex);
            os_mutex_unlock(f->mutex);
            /* Counted until it is through: fault_os_destroy waits for reads that nobody else waits for any more. */
            ssize_t n = f->real->pread(f->real->user, fd, buf, bytes, offset);
            os_mutex_lock(f->mutex);
            f->n_hung--;
            os_cond_broadcast(f->changed);
            os_mutex_unlock(f->mutex);
            return n;
        }
    }
    return f->real->pread(f->real->user, fd, buf, bytes, offset);
}

static int fault_file_info(void *user, int fd, struct os_file_info *info)
{
    struct fault_os *f = user;
    if (f->info_error) return -f->info_error;
    int rc = f->real->file_info(f->real->user, fd, info);
    if (rc == 0 && f->direct_align) info->direct_align = f->direct_align;
    return rc;
}

static int fault_drop_cached(void *user, int fd, uint64_t offset, uint64_t bytes)
{
    struct fault_os *f = user;
    __atomic_add_fetch(&f->n_dropped, 1, __ATOMIC_RELAXED);
    return f->real->drop_cached(f->real->user, fd, offset, bytes);
}

/* ---- files that are written ---- */

static int error_of(const int *error) { return __atomic_load_n(error, __ATOMIC_RELAXED); }
static unsigned count(unsigned *n) { return __atomic_fetch_add(n, 1, __ATOMIC_RELAXED); }

static int fault_create(void *user, const char *path)
{
    struct fault_os *f = user;
    count(&f->n_created);
    if (error_of(&f->create_error)) return -error_of(&f->create_error);
    int fd = f->real->create(f->real->user, path);
    os_mutex_lock(f->mutex);
    f->n_open += fd >= 0;
    os_mutex_unlock(f->mutex);
    return fd;
}

static ssize_t fault_write(void *user, int fd, const void *data, size_t bytes)
{
    struct fault_os *f = user;
    const unsigned n = count(&f->n_writes);
    if (error_of(&f->write_error) && n >= __atomic_load_n(&f->writes_good, __ATOMIC_RELAXED))
        return -error_of(&f->write_error);
    return f->real->write(f->real->user, fd, data, bytes);
}

static int fault_sync(void *user, int fd)
{
    struct fault_os *f = user;
    count(&f->n_synced);
    return error_of(&f->sync_error) ? -error_of(&f->sync_error) : f->real->sync(f->real->user, fd);
}

static int fault_rename(void *user, const char *from, const char *to)
{
    struct fault_os *f = user;
    count(&f->n_renamed);
    return error_of(&f->rename_error) ? -error_of(&f->rename_error) : f->real->rename(f->real->user, from, to);
}

static int fault_remove(void *user, const char *path)
{
    struct fault_os *f = user;
    count(&f->n_removed);
    return error_of(&f->remove_error) ? -error_of(&f->remove_error) : f->real->remove(f->real->user, path);
}

static int fault_lock_file(void *user, const char *path)
{
    struct fault_os *f = user;
    int fd = f->real->lock_file(f->real->user, path);
    os_mutex_lock(f->mutex);
    f->n_open += fd >= 0;
    os_mutex_unlock(f->mutex);
    return fd;
}

static int fault_make_folder(void *user, const char *path)
{
    struct fault_os *f = user;
    return f->real->make_folder(f->real->user, path);
}

static int fault_sync_folder(void *user, const char *path)
{
    struct fault_os *f = user;
    return f->real->sync_folder(f->real->user, path);
}

static int fault_list_folder(void *user, const char *path, bool (*each)(void *arg, const char *name), void *arg)
{
    struct fault_os *f = user;
    return f->real->list_folder(f->real->user, path, each, arg);
}

/* ---- memory ---- */

static int fault_populate(void *user, void *at, size_t bytes)
{
    struct fault_os *f = user;
    __atomic_add_fetch(&f->n_populated, 1, __ATOMIC_RELAXED); /* from a thread of its own */
    if (f->populate_ms) nanosleep(&(struct timespec){.tv_nsec = (long)f->populate_ms * 1000000}, NULL);
    if (f->populate_error) return -f->populate_error;
    return f->real->populate(f->real->user, at, bytes);
}

static void *fault_reserve(void *user, size_t bytes)
{
    struct fault_os *f = user;
    return f->reserve_error ? NULL : f->real->reserve(f->real->user, bytes);
}

static int fault_commit(void *user, void *at, size_t bytes)
{
    struct fault_os *f = user;
    os_mutex_lock(f->mutex);
    bool fails = f->commit_error && f->n_commits >= f->commits_good;
    f->n_commits++;
    os_mutex_unlock(f->mutex);
    return fails ? -f->commit_error : f->real->commit(f->real->user, at, bytes);
}

static int fault_decommit(void *user, void *at, size_t bytes)
{
    struct fault_os *f = user;
    os_mutex_lock(f->mutex);
    f->n_decommits++;
    os_mutex_unlock(f->mutex);
    return f->real->decommit(f->real->user, at, bytes);
}

static int fault_release_memory(void *user, void *at, size_t bytes)
{
    struct fault_os *f = user;
    return f->real->release(f->real->user, at, bytes);
}

static int fault_lock(void *user, const void *at, size_t bytes)
{
    struct fault_os *f = user;
    __atomic_add_fetch(&f->n_locks, 1, __ATOMIC_RELAXED);
    return f->lock_error ? -f->lock_error : f->real->lock(f->real->user, at, bytes);
}

static int fault_unlock(void *user, const void *at, size_t bytes)
{
    struct fault_os *f = user;
    return f->real->unlock(f->real->user, at, bytes);
}

static void fault_memory(void *user, struct os_memory *out)
{
    struct fault_os *f = user;
    if (f->memory)
        *out = *f->memory;
    else
        f->real->memory(f->real->user, out);
}

static void fault_pressure(void *user, struct os_pressure *out)
{
    struct fault_os *f = user;
    if (f->pressure)
        *out = *f->pressure;
    else
        f->real->pressure(f->real->user, out);
}

static uint64_t fault_now_ns(void *user)
{
    struct fault_os *f = user;
    return f->real->now_ns(f->real->user) + __atomic_load_n(&f->ahead_ns, __ATOMIC_RELAXED);
}

void fault_skip_time(struct fault_os *f, uint64_t ns) { __atomic_add_fetch(&f->ahead_ns, ns, __ATOMIC_RELAXED); }

/* ---- io_uring ---- */

static int fault_uring_open(void *user, unsigned entries, struct os_uring **ring)
{
    struct fault_os *f = user;
    return f->uring_open_error ? -f->uring_open_error : f->real->uring_open(f->real->user, entries, ring);
}

static void fault_uring_close(void *user, struct os_uring *ring)
{
    struct fault_os *f = user;
    f->real->uring_close(f->real->user, ring);
}

static int fault_uring_files(void *user, struct os_uring *ring, const int *fds, unsigned n)
{
    struct fault_os *f = user;
    for (unsigned i = 0; i < n && i < 1024; i++) f->fds[i] = fds[i];
    if (f->uring_files_error) return -f->uring_files_error;
    int rc = f->real->uring_files(f->real->user, ring, fds, n);
    f->files_registered = rc == 0;
    return rc;
}

static int fault_uring_buffers(void *user, struct os_uring *ring, unsigned n_max)
{
    struct fault_os *f = user;
    return f->uring_buffers_error ? -f->uring_buffers_error : f->real->uring_buffers(f->real->user, ring, n_max);
}

static int fault_uring_buffer_set(void *user, struct os_uring *ring, unsigned index, void *at, size_t bytes)
{
    struct fault_os *f = user;
    if (at) f->n_buffers_set++;
    if (f->uring_buffer_set_error && at) return -f->uring_buffer_set_error;
    return f->real->uring_buffer_set(f->real->user, ring, index, at, bytes);
}

static int fault_uring_read(void *user, struct os_uring *ring, unsigned file, void *buf, size_t bytes, uint64_t offset,
                            int buffer, uint64_t tag)
{
    struct fault_os *f = user;
    struct fault_rule rule = {0};
    if (buffer >= 0) f->n_registered_reads++;
    int fd = f->files_registered ? f->fds[file] : (int)file;
    if (begin_read(f, fd, buf, bytes, offset, &rule)) {
        struct fault_held h = {ring, file, buf, bytes, offset, buffer, tag, 0};
        if (rule.kind == FAULT_ERROR) {
            if (f->n_ready == FAULT_HELD_MAX) return -EAGAIN;
            h.result = -rule.error;
            f->ready[f->n_ready++] = h;
            return 0;
        }
        if (rule.kind == FAULT_HANG) {
            os_mutex_lock(f->mutex);
            bool room = f->n_held < FAULT_HELD_MAX;
            if (room) f->held[f->n_held++] = h;
            os_cond_broadcast(f->changed);
            os_mutex_unlock(f->mutex);
            return room ? 0 : -EAGAIN;
        }
        if (rule.kind == FAULT_FLIP) {
            if (f->n_ready == FAULT_HELD_MAX) return -EAGAIN;
            h.result = (int32_t)read_flipped(f, &rule, fd, buf, bytes, offset);
            f->ready[f->n_ready++] = h;
            return 0;
        }
        if (rule.kind == FAULT_SHORT && rule.bytes < bytes) {
            if (f->n_ready == FAULT_HELD_MAX) return -EAGAIN;
            ssize_t n = f->real->pread(f->real->user, fd, buf, bytes, offset);
            h.result = (int32_t)(n > (ssize_t)rule.bytes ? (ssize_t)rule.bytes : n);
            f->ready[f->n_ready++] = h;
            return 0;
        }
    }
    return f->real->uring_read(f->real->user, ring, file, buf, bytes, offset, buffer, tag);
}

static int fault_uring_submit(void *user, struct os_uring *ring)
{
    struct fault_os *f = user;
    if (f->uring_submit_errors > 0) {
        f->uring_submit_errors--;
        return -f->uring_submit_error;
    }
    return f->real->uring_submit(f->real->user, ring);
}

/* Held reads that were released go to the real ring. */
static void pass_on_held(struct fault_os *f, struct os_uring *ring)
{
    os_mutex_lock(f->mutex);
    unsigned kept = 0, passed = 0;
    for (unsigned i = 0; i < f->n_held; i++) {
        struct fault_held h = f->held[i];
        bool gone = f->released && h.ring == ring &&
                    f->real->uring_read(f->real->user, ring, h.file, h.buf, h.bytes, h.offset, h.buffer, h.tag) == 0;
        if (gone)
            passed++;
        else
            f->held[kept++] = h;
    }
    f->n_held = kept;
    os_mutex_unlock(f->mutex);
    if (passed) f->real->uring_submit(f->real->user, ring);
}

static unsigned take_ready(struct fault_os *f, struct os_uring *ring, struct os_uring_done *done, unsigned max)
{
    unsigned n = 0, kept = 0;
    for (unsigned i = 0; i < f->n_ready; i++) {
        struct fault_held h = f->ready[i];
        if (n < max && h.ring == ring)
            done[n++] = (struct os_uring_done){.tag = h.tag, .result = h.result};
        else
            f->ready[kept++] = h;
    }
    f->n_ready = kept;
    return n;
}

static int fault_uring_reap(void *user, struct os_uring *ring, struct os_uring_done *done, unsigned max,
                            uint64_t wait_ns)
{
    struct fault_os *f = user;
    uint64_t until = fault_now_ns(f) + wait_ns;
    if (until < wait_ns) until = UINT64_MAX;
    for (;;) {
        unsigned n = take_ready(f, ring, done, max);
        if (n > 0) return (int)n;
        pass_on_held(f, ring);
        uint64_t now = fault_now_ns(f);
        uint64_t left = until > now ? until - now : 0;
        int rc = f->real->uring_reap(f->real->user, ring, done, max, left < SLICE_NS ? left : SLICE_NS);
        if (rc != 0 || left == 0) return rc;
    }
}

/* ---- the table ---- */

void fault_os_init(struct fault_os *f)
{
    memset(f, 0, sizeof *f);
    f->real = os_system();
    if (os_mutex_create(&f->mutex) || os_cond_create(&f->changed)) _exit(1);
    f->calls = (struct os_calls){
        .user = f,
        .open_read = fault_open_read,
        .close = fault_close,
        .pread = fault_pread,
        .file_info = fault_file_info,
        .drop_cached = fault_drop_cached,
        .create = fault_create,
        .write = fault_write,
        .sync = fault_sync,
        .rename = fault_rename,
        .remove = fault_remove,
        .lock_file = fault_lock_file,
        .make_folder = fault_make_folder,
        .sync_folder = fault_sync_folder,
        .list_folder = fault_list_folder,
        .reserve = fault_reserve,
        .commit = fault_commit,
        .populate = fault_populate,
        .decommit = fault_decommit,
        .release = fault_release_memory,
        .lock = fault_lock,
        .unlock = fault_unlock,
        .memory = fault_memory,
        .pressure = fault_pressure,
        .now_ns = fault_now_ns,
        .uring_open = fault_uring_open,
        .uring_close = fault_uring_close,
        .uring_files = fault_uring_files,
        .uring_buffers = fault_uring_buffers,
        .uring_buffer_set = fault_uring_buffer_set,
        .uring_read = fault_uring_read,
        .uring_submit = fault_uring_submit,
        .uring_reap = fault_uring_reap,
    };
}

void fault_os_destroy(struct fault_os *f)
{
    fault_release(f);
    os_mutex_lock(f->mutex);
    while (f->n_hung > 0) os_cond_wait(f->changed, f->mutex);
    os_mutex_unlock(f->mutex);
    os_cond_destroy(f->changed);
    os_mutex_destroy(f->mutex);
}

void fault_add(struct fault_os *f, struct fault_rule rule)
{
    os_mutex_lock(f->mutex);
    rule.seen_ = 0;
    if (f->n_rules < FAULT_RULES_MAX) f->rules[f->n_rules++] = rule;
    os_mutex_unlock(f->mutex);
}

void fault_clear(struct fault_os *f)
{
    os_mutex_lock(f->mutex);
    f->n_rules = 0;
    os_mutex_unlock(f->mutex);
}

void fault_release(struct fault_os *f)
{
    os_mutex_lock(f->mutex);
    f->released = true;
    os_cond_broadcast(f->changed);
    os_mutex_unlock(f->mutex);
}

void fault_hang_again(struct fault_os *f)
{
    os_mutex_lock(f->mutex);
    f->released = false;
    os_mutex_unlock(f->mutex);
}

unsigned fault_hung(struct fault_os *f)
{
    os_mutex_lock(f->mutex);
    unsigned n = f->n_hung + f->n_held;
    os_mutex_unlock(f->mutex);
    return n;
}

unsigned fault_reads(struct fault_os *f)
{
    os_mutex_lock(f->mutex);
    unsigned n = f->n_reads;
    os_mutex_unlock(f->mutex);
    return n;
}

void fault_wait_hung(struct fault_os *f, unsigned n)
{
    os_mutex_lock(f->mutex);
    while (f->n_hung + f->n_held < n) os_cond_wait(f->changed, f->mutex);
    os_mutex_unlock(f->mutex);
}

bool fault_uring_works(void)
{
    const struct os_calls *os = os_system();
    struct os_uring *ring;
    if (os->uring_open(os->user, 4, &ring) < 0) return false;
    os->uring_close(os->user, ring);
    return true;
}
