/* The scheduler common to all ways of reading.
 *
 * A request waits in the queue of its priority and is cut into pieces as places become free: a place is one struct
 * io_piece, and there are as many as the driver takes. io_advance is the heart: it hands out what fits, collects what
 * is back, and looks for reads that are late. A piece that came back short, interrupted or refused for the moment keeps
 * its place and is handed out again; nothing of lower priority can get between its parts, and nothing new is needed to
 * remember it (no allocation after io_open).
 *
 * A driver may hold pieces that no read has begun for. Such a piece is given back to its request (put_back) when a
 * request of higher priority needs the place (I5), when its own request is taken back, raised or has failed. */
#include "io/room.h"

#include "base/assert.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define RETRIES_MAX 32u                  /* of one piece, without progress */
#define PAUSE_NS_MIN ((uint64_t)1000000) /* before the first retry after EAGAIN; doubles up to */
#define PAUSE_NS_MAX ((uint64_t)64000000)
#define UNFLUSHED_NS ((uint64_t)1000000) /* between attempts to pass reads on */
#define BATCH 64u
#define LOOKS_PER_LIMIT 30u /* the owner who waits looks at the clock at least so often within the limit */

static uint64_t now_ns(const struct io *io) { return io->os->now_ns(io->os->user); }

/* ---- lists of requests ---- */

static void list_push(struct io_list *list, struct io_request *r, bool front)
{
    r->prev_ = front ? NULL : list->last;
    r->next_ = front ? list->first : NULL;
    if (r->prev_) r->prev_->next_ = r;
    if (r->next_) r->next_->prev_ = r;
    if (!r->prev_) list->first = r;
    if (!r->next_) list->last = r;
}

static void list_remove(struct io_list *list, struct io_request *r)
{
    if (r->prev_) r->prev_->next_ = r->next_;
    if (r->next_) r->next_->prev_ = r->prev_;
    if (list->first == r) list->first = r->next_;
    if (list->last == r) list->last = r->prev_;
    r->next_ = r->prev_ = NULL;
}

/* ---- the life of a request ---- */

/* How far into the request there is something to read: what lies behind the end of the file is not asked for, unless
 * it is needed (then the read must find the file too short). */
static size_t request_end(const struct io *io, const struct io_request *r)
{
    const struct io_file *f = &io->files[r->file];
    uint64_t left = r->offset < f->info.bytes ? f->info.bytes - r->offset : 0;
    if (left < r->needed_bytes) left = r->needed_bytes;
    if (left >= r->bytes) return r->bytes;
    size_t end = io_round_up((size_t)left, f->align);
    return end < r->bytes ? end : r->bytes;
}

static void report(struct io *io, struct io_request *r, enum io_request_state state)
{
    r->state_ = (uint8_t)state;
    if (r == &io->staging_request) { /* io_read_now looks at it itself */
        if (state == REQUEST_STUCK_NEW) r->state_ = REQUEST_STUCK;
        if (state == REQUEST_RELEASED) r->state_ = REQUEST_IDLE;
        return;
    }
    list_push(&io->reports, r, false);
}

/* Called when a piece of r has gone or r has failed. */
static void settle(struct io *io, struct io_request *r)
{
    if (r->in_flight_ > 0) return;
    switch ((enum io_request_state)r->state_) {
    case REQUEST_RUNNING: report(io, r, REQUEST_FINISHED); break;
    case REQUEST_STUCK_NEW: r->state_ = REQUEST_FINISHED; break; /* let go before anybody heard of it */
    case REQUEST_STUCK: report(io, r, REQUEST_RELEASED); break;
    case REQUEST_WAITING:
    case REQUEST_IDLE:
    case REQUEST_FINISHED:
    case REQUEST_RELEASED: break;
    }
}

void io_enqueue(struct io *io, struct io_request *r)
{
    r->started_ = 0;
    r->in_flight_ = 0;
    r->error_ = 0;
    r->failed_at_ = r->offset;
    r->state_ = REQUEST_WAITING;
    if (request_end(io, r) > 0) {
        list_push(&io->waiting[r->priority], r, false);
        return;
    }
    r->state_ = REQUEST_RUNNING;
    r->next_ = r->prev_ = NULL;
    settle(io, r);
}

/* ---- places ---- */

static void busy_begin(struct io *io, uint64_t now)
{
    if (io->n_handed == 0) io->busy_since_ns = now;
}

static void busy_end(struct io *io)
{
    if (io->n_handed > 0 || io->busy_since_ns == 0) return;
    uint64_t now = now_ns(io);
    if (now > io->busy_since_ns) io->stats.busy_ns += now - io->busy_since_ns;
    io->busy_since_ns = 0;
}

/* The piece is not with the driver any more, whatever it was there. */
static void piece_leaves(struct io *io, struct io_piece *p)
{
    if (p->state == PIECE_HANDED) {
        io->n_handed--;
        io->handed_by[p->priority]--;
        busy_end(io);
    } else if (p->state == PIECE_STUCK) {
        io->n_stuck--;
    } else if (p->state == PIECE_PAUSED) {
        io->n_paused--;
    }
    p->state = PIECE_IDLE;
}

static void piece_free(struct io *io, struct io_piece *p)
{
    p->request = NULL;
    p->next = io->idle;
    io->idle = p;
}

/* The end of a piece that has left the driver: its request may be finished. */
static void piece_retire(struct io *io, struct io_piece *p)
{
    struct io_request *r = p->request;
    piece_free(io, p);
    r->in_flight_--;
    settle(io, r);
}

static bool is_fresh(const struct io_piece *p) { return p->done == 0 && p->retries == 0; }

/* Asks the driver to give back a piece that no read has begun for. */
static bool piece_recall(struct io *io, struct io_piece *p)
{
    if (p->state != PIECE_HANDED || !io->driver->recall || !io->driver->recall(io->driver, p)) return false;
    piece_leaves(io, p);
    return true;
}

/* A recalled piece that was the last handed out of its request: as if it had never been. */
static void put_back(struct io *io, struct io_piece *p)
{
    struct io_request *r = p->request;
    r->started_ = p->base;
    r->in_flight_--;
    piece_free(io, p);
    if (r->state_ == REQUEST_RUNNING && !r->error_) {
        r->state_ = REQUEST_WAITING;
        list_push(&io->waiting[r->priority], r, true);
    }
}

static bool can_put_back(const struct io_piece *p)
{
    return p->state == PIECE_HANDED && is_fresh(p) && p->base + p->length == p->request->started_;
}

/* ---- failures ---- */

/* Marks r as failed and drops what of it no read has begun for. The first failure is the one that is told. */
static void request_fail(struct io *io, struct io_request *r, int error, uint64_t at)
{
    if (!r->error_) {
        r->error_ = error;
        r->failed_at_ = at;
    }
    if (r->state_ == REQUEST_WAITING) {
        list_remove(&io->waiting[r->priority], r);
        r->state_ = REQUEST_RUNNING;
    }
    for (unsigned i = 0; i < io->driver->places && io->driver->recall; i++) {
        struct io_piece *p = &io->pieces[i];
        if (p->request != r || !piece_recall(io, p)) continue;
        r->in_flight_--;
        piece_free(io, p);
    }
}

static void fail_piece(struct io *io, struct io_piece *p, int error)
{
    struct io_request *r = p->request;
    request_fail(io, r, error, r->offset + p->base + p->done);
    piece_retire(io, p);
}

/* Every place that the kernel works on is stuck: what waits would wait for ever (I4). Its memory is free. */
static void fail_waiting(struct io *io)
{
    for (unsigned i = 0; i < IO_PRIORITIES; i++)
        while (io->waiting[i].first) {
            struct io_request *r = io->waiting[i].first;
            request_fail(io, r, IO_LATE, r->offset + r->started_);
            settle(io, r);
        }
    for (unsigned i = 0; i < io->driver->places; i++) {
        struct io_piece *p = &io->pieces[i];
        if (piece_recall(io, p)) fail_piece(io, p, IO_LATE);
    }
}

void io_drop_all(struct io *io)
{
    for (unsigned i = 0; i < IO_PRIORITIES; i++)
        while (io->waiting[i].first) {
            struct io_request *r = io->waiting[i].first;
            request_fail(io, r, IO_TAKEN_BACK, r->offset);
            settle(io, r);
        }
    for (unsigned i = 0; i < io->driver->places; i++) {
        struct io_piece *p = &io->pieces[i];
        if (!p->request) continue;
        bool paused = p->state == PIECE_PAUSED;
        struct io_request *r = p->request;
        request_fail(io, r, IO_TAKEN_BACK, r->offset);
        if (paused) {
            piece_leaves(io, p);
            piece_retire(io, p);
        } else {
            settle(io, r);
        }
    }
}

static void piece_hand(struct io *io, struct io_piece *p);

static void piece_is_late(struct io *io, struct io_piece *p)
{
    struct io_request *r = p->request;
    /* It only stood behind others: it begins anew, or fails with all that waits if nothing moves any more. */
    bool fresh = can_put_back(p);
    if (piece_recall(io, p)) {
        if (fresh)
            put_back(io, p);
        else
            piece_hand(io, p);
        return;
    }
    piece_leaves(io, p);
    p->state = PIECE_STUCK;
    io->n_stuck++;
    request_fail(io, r, IO_LATE, r->offset + p->base + p->done);
    if (r->state_ == REQUEST_RUNNING) report(io, r, REQUEST_STUCK_NEW);
}

static uint64_t look_ns(const struct io *io) { return io->config.wait_limit_ns / LOOKS_PER_LIMIT; }

/* Only time that somebody watched counts against a read. A process that was stopped (SIGSTOP, a suspended machine), or
 * whose owner computed for long, finds the clock far ahead: the worker threads have not run either, or run only now. So
 * between two looks no more counts than the wait that was asked for and one look. */
static void discount_unwatched(struct io *io, uint64_t now, uint64_t wait_ns)
{
    const uint64_t passed = now - io->seen_ns, most = wait_ns + look_ns(io);
    io->seen_ns = now;
    if (passed <= most) return;
    const uint64_t off = passed - most;
    for (unsigned i = 0; i < io->driver->places; i++) {
        struct io_piece *p = &io->pieces[i];
        if (p->state == PIECE_HANDED) p->started_ns = now - p->started_ns > off ? p->started_ns + off : now;
    }
    io->check_ns = now; /* all are looked at */
}

static void check_late(struct io *io, uint64_t now)
{
    if (now < io->check_ns) return;
    uint64_t next = UINT64_MAX;
    for (unsigned i = 0; i < io->driver->places; i++) {
        struct io_piece *p = &io->pieces[i];
        if (p->state != PIECE_HANDED) continue;
        uint64_t late_ns = p->started_ns + io->config.wait_limit_ns;
        if (late_ns <= now)
            piece_is_late(io, p);
        else if (late_ns < next)
            next = late_ns;
    }
    io->check_ns = next;
}

/* ---- handing out ---- */

static void piece_returned(struct io *io, struct io_piece *p);

static void piece_pause(struct io *io, struct io_piece *p, uint64_t now)
{
    unsigned doublings = p->retries < 8 ? p->retries : 8;
    uint64_t pause = PAUSE_NS_MIN << doublings;
    p->not_before_ns = now + (pause < PAUSE_NS_MAX ? pause : PAUSE_NS_MAX);
    p->state = PIECE_PAUSED;
    io->n_paused++;
}

/* Gives the rest of a piece, from p->at on, to the driver. */
static void piece_hand(struct io *io, struct io_piece *p)
{
    struct io_request *r = p->request;
    struct io_file *f = &io->files[r->file];
    uint64_t now = now_ns(io);
    p->file = r->file;
    p->fd = f->fd;
    p->direct = f->direct;
    p->priority = r->priority;
    p->dst = (uint8_t *)r->dst + p->base + p->at;
    p->bytes = p->length - p->at;
    p->offset = r->offset + p->base + p->at;
    p->started_ns = now;
    p->serial = ++io->serial;
    p->begun = false;
    busy_begin(io, now);
    if (io->n_handed == 0) io->seen_ns = now;
    p->state = PIECE_HANDED;
    io->n_handed++;
    io->handed_by[p->priority]++;
    if (now + io->config.wait_limit_ns < io->check_ns) io->check_ns = now + io->config.wait_limit_ns;
    int rc = io->driver->start(io->driver, p);
    if (rc == 0) {
        io->unflushed = io->driver->flush != NULL;
        return;
    }
    p->result = rc;
    piece_returned(io, p);
}

/* The piece to give up for a read of higher priority: of the lowest one, the latest that was handed over, so that what
 * is put back keeps its order. NULL: none that a read has not begun for, as far as is known here. */
static struct io_piece *find_victim(struct io *io, unsigned priority)
{
    for (unsigned low = IO_PRIORITIES - 1; low > priority; low--) {
        struct io_piece *victim = NULL;
        for (unsigned i = 0; i < io->driver->places && io->handed_by[low] > 0; i++) {
            struct io_piece *p = &io->pieces[i];
            if (p->priority != low || p->begun || !can_put_back(p)) continue;
            if (!victim || p->serial > victim->serial) victim = p;
        }
        if (victim) return victim;
    }
    return NULL;
}

/* Makes a place for a request of priority `priority`. False: all are taken by reads that go first. */
static bool take_place(struct io *io, enum io_priority priority)
{
    while (!io->idle) {
        struct io_piece *p = io->driver->recall ? find_victim(io, priority) : NULL;
        if (!p) return false;
        if (piece_recall(io, p))
            put_back(io, p);
        else
            p->begun = true;
    }
    return true;
}

static void request_start_next(struct io *io, struct io_request *r)
{
    size_t end = request_end(io, r);
    size_t piece_bytes = io_round_up(io->config.piece_bytes, io->files[r->file].align);
    struct io_piece *p = io->idle;
    io->idle = p->next;
    p->next = p->prev = NULL;
    p->request = r;
    p->base = r->started_;
    p->length = end - r->started_ < piece_bytes ? end - r->started_ : piece_bytes;
    p->done = p->at = 0;
    p->retries = 0;
    p->queued = false;
    r->started_ += p->length;
    r->in_flight_++;
    if (r->started_ == end) {
        list_remove(&io->waiting[r->priority], r);
        r->state_ = REQUEST_RUNNING;
    }
    piece_hand(io, p);
}

/* Hands out as much as there are places, the highest priority first. */
static void pump(struct io *io)
{
    if (io->n_stuck >= io->driver->servers) {
        fail_waiting(io);
    } else {
        for (unsigned i = 0; i < IO_PRIORITIES; i++)
            while (io->waiting[i].first) {
                if (i == IO_GUESS && io->handed_by[i] >= io->config.guess_depth) goto full;
                if (!take_place(io, (enum io_priority)i)) goto full;
                request_start_next(io, io->waiting[i].first);
            }
    }
full:
    if (io->unflushed) io->unflushed = !io->driver->flush(io->driver);
}

static void resume_paused(struct io *io, uint64_t now)
{
    for (unsigned i = 0; io->n_paused > 0 && i < io->driver->places; i++) {
        struct io_piece *p = &io->pieces[i];
        if (p->state != PIECE_PAUSED || p->not_before_ns > now) continue;
        piece_leaves(io, p);
        piece_hand(io, p);
    }
}

/* ---- coming back ---- */

/* A read failed. True: the piece was handed out again or pauses. */
static bool try_again(struct io *io, struct io_piece *p, int error)
{
    bool refused = error == EINVAL || error == EOPNOTSUPP;
    if (refused && p->direct) {
        int rc = io_file_make_buffered(io, p->file);
        if (rc < 0) return false;
        piece_hand(io, p);
        return true;
    }
    /* ECANCELED: io_uring cancels what a thread that has ended since submitted. */
    if (error != EINTR && error != EAGAIN && error != ECANCELED) return false;
    if (p->retries == RETRIES_MAX) return false;
    p->retries++;
    io->stats.retries++;
    if (error == EAGAIN)
        piece_pause(io, p, now_ns(io));
    else
        piece_hand(io, p);
    return true;
}

/* n bytes arrived, fewer than asked for. */
static void piece_short(struct io *io, struct io_piece *p, bool progress)
{
    struct io_request *r = p->request;
    struct io_file *f = &io->files[r->file];
    size_t needed = r->needed_bytes > p->base ? r->needed_bytes - p->base : 0;
    bool enough = p->done >= needed;
    uint64_t end = r->offset + p->base + p->done;
    bool at_end = p->result == 0 || end >= f->info.bytes;
    if (at_end || !progress) {
        if (enough) {
            piece_retire(io, p);
            return;
        }
        /* Direct reads resume at an aligned place: when the file was cut between two such places, the same short
         * read comes again and again, never a read of zero bytes. */
        if (at_end || io_file_was_cut(io, r->file, end)) {
            fail_piece(io, p, IO_ENDED);
            return;
        }
    }
    io->stats.short_reads++;
    p->retries = progress ? 0 : p->retries + 1;
    if (p->retries > RETRIES_MAX) {
        fail_piece(io, p, EIO);
        return;
    }
    p->at = p->done - p->done % f->align;
    piece_hand(io, p);
}

/* The driver gave the piece back, with a result. */
static void piece_returned(struct io *io, struct io_piece *p)
{
    struct io_request *r = p->request;
    ssize_t result = p->result;
    piece_leaves(io, p);
    io->stats.reads++;
    if (result > 0) io->stats.read_bytes += (uint64_t)result;
    if (r->error_) { /* its request has failed meanwhile */
        piece_retire(io, p);
        return;
    }
    if (result < 0) {
        if (!try_again(io, p, (int)-result)) fail_piece(io, p, (int)-result);
        return;
    }
    if ((size_t)result > p->bytes) {
        fail_piece(io, p, EIO);
        return;
    }
    size_t arrived = p->at + (size_t)result;
    bool progress = arrived > p->done;
    if (progress) p->done = arrived;
    if (p->done == p->length)
        piece_retire(io, p);
    else
        piece_short(io, p, progress);
}

uint64_t io_next_event_ns(const struct io *io)
{
    uint64_t now = now_ns(io);
    uint64_t at = io->n_handed > 0 ? io->check_ns : UINT64_MAX;
    for (unsigned i = 0; io->n_paused > 0 && i < io->driver->places; i++)
        if (io->pieces[i].state == PIECE_PAUSED && io->pieces[i].not_before_ns < at) at = io->pieces[i].not_before_ns;
    if (at == UINT64_MAX) return 0;
    uint64_t wait = at > now ? at - now : 0;
    if (wait > look_ns(io)) wait = look_ns(io);
    return io->unflushed && wait > UNFLUSHED_NS ? UNFLUSHED_NS : wait;
}

void io_advance(struct io *io, uint64_t wait_ns)
{
    struct io_driver *d = io->driver;
    if (io->n_paused > 0) resume_paused(io, now_ns(io));
    pump(io);
    /* A driver of worker threads or a ring is waited for; what the lazy one started is back already. */
    struct io_piece *back[BATCH];
    uint64_t wait_now_ns = wait_ns;
    while (io->n_handed + io->n_stuck > 0 || (wait_now_ns > 0 && io->n_paused > 0)) {
        unsigned n = d->reap(d, back, BATCH, wait_now_ns);
        for (unsigned i = 0; i < n; i++) piece_returned(io, back[i]);
        wait_now_ns = 0;
        if (n < BATCH) break;
    }
    if (io->n_handed > 0) {
        const uint64_t now = now_ns(io);
        discount_unwatched(io, now, wait_ns);
        check_late(io, now);
    }
    if (!d->lazy) pump(io);
}

/* ---- the owner's side ---- */

static bool is_valid(const struct io *io, const struct io_request *r)
{
    if (r->file >= io->n_files || (unsigned)r->priority >= IO_PRIORITIES) return false;
    uint32_t align = io->files[r->file].align;
    return r->dst && r->bytes > 0 && r->needed_bytes <= r->bytes && r->offset % align == 0 && r->bytes % align == 0 &&
           (uintptr_t)r->dst % align == 0 && r->offset <= INT64_MAX && r->bytes <= INT64_MAX - r->offset;
}

enum sluice_status io_submit(struct io *io, struct io_request *const *requests, size_t n, struct sluice_error *err)
{
    if (n > io->config.requests_max - io->n_outstanding)
        return base_fail(err, SLUICE_ERR_RUN, NULL,
                         "%zu reads at once, and %zu outstanding; the reader was opened for %zu", n, io->n_outstanding,
                         io->config.requests_max);
    for (size_t i = 0; i < n; i++) {
        const struct io_request *r = requests[i];
        if (is_valid(io, r)) continue;
        bool known = r->file < io->n_files;
        return base_fail(err, SLUICE_ERR_RUN, NULL,
                         "%s: a read of %zu bytes (%zu needed) at byte %" PRIu64 " does not keep the alignment of %u",
                         known ? io->files[r->file].path : "unknown file", r->bytes, r->needed_bytes, r->offset,
                         known ? io->files[r->file].align : 0);
    }
    io->n_outstanding += n;
    for (size_t i = 0; i < n; i++) io_enqueue(io, requests[i]);
    if (!io->driver->lazy) io_advance(io, 0);
    return SLUICE_OK;
}

/* Gives back to r what of it no read has begun for, from its end on. */
static void request_recall(struct io *io, struct io_request *r)
{
    bool found = r->in_flight_ > 0 && io->driver->recall;
    while (found) {
        found = false;
        for (unsigned i = 0; i < io->driver->places && !found; i++) {
            struct io_piece *p = &io->pieces[i];
            if (p->request != r || !can_put_back(p) || !piece_recall(io, p)) continue;
            put_back(io, p);
            found = true;
        }
    }
}

void io_raise(struct io *io, struct io_request *r, enum io_priority priority)
{
    if (r->error_ || priority >= r->priority) return;
    if (r->state_ != REQUEST_WAITING && r->state_ != REQUEST_RUNNING) return;
    request_recall(io, r);
    if (r->state_ == REQUEST_WAITING) list_remove(&io->waiting[r->priority], r);
    r->priority = priority;
    if (r->state_ == REQUEST_WAITING) list_push(&io->waiting[priority], r, false);
    if (!io->driver->lazy) pump(io);
}

void io_cancel(struct io *io, struct io_request *r)
{
    if (r->error_ || (r->state_ != REQUEST_WAITING && r->state_ != REQUEST_RUNNING)) return;
    request_recall(io, r);
    if (r->started_ == 0) {
        request_fail(io, r, IO_TAKEN_BACK, r->offset);
        settle(io, r);
    }
    if (!io->driver->lazy) pump(io);
}

static size_t take_reports(struct io *io, struct io_done *done, size_t max)
{
    size_t n = 0;
    while (n < max && io->reports.first) {
        struct io_request *r = io->reports.first;
        list_remove(&io->reports, r);
        struct io_done *d = &done[n++];
        *d = (struct io_done){.request = r, .status = SLUICE_OK};
        d->stuck = r->state_ == REQUEST_STUCK_NEW;
        d->released = r->state_ == REQUEST_RELEASED;
        if (r->error_ == IO_LATE) {
            d->status = SLUICE_ERR_TIMEOUT;
            d->error = ETIMEDOUT;
        } else if (r->error_ == IO_TAKEN_BACK) {
            d->status = SLUICE_CANCELLED;
            d->error = ECANCELED;
        } else if (r->error_) {
            d->status = SLUICE_ERR_IO;
            d->error = r->error_ == IO_ENDED ? 0 : r->error_;
        }
        if (!d->released) io->n_outstanding--;
        r->state_ = d->stuck ? REQUEST_STUCK : REQUEST_IDLE;
    }
    return n;
}

size_t io_poll(struct io *io, struct io_done *done, size_t max, bool wait)
{
    io_advance(io, 0);
    size_t n = take_reports(io, done, max);
    while (n == 0 && wait && max > 0 && io->n_outstanding > 0) {
        BASE_ASSERT(io->driver->lazy || io->n_handed + io->n_paused > 0, "I4 what is waited for is bound to end");
        io_advance(io, io_next_event_ns(io));
        n = take_reports(io, done, max);
    }
    return n;
}

size_t io_outstanding(const struct io *io) { return io->n_outstanding; }

void io_memory_add(struct io *io, void *at, size_t bytes)
{
    if (io->driver->memory_add) io->driver->memory_add(io->driver, at, bytes);
}

void io_memory_forget(struct io *io, void *at, size_t bytes)
{
    if (io->driver->memory_forget) io->driver->memory_forget(io->driver, at, bytes);
}

void io_stats(const struct io *io, struct io_stats *out)
{
    *out = io->stats;
    if (io->n_handed > 0) {
        uint64_t now = now_ns(io);
        if (now > io->busy_since_ns) out->busy_ns += now - io->busy_since_ns;
    }
    out->backend = io->driver->kind;
    out->registered_buffers = io->driver->registered_buffers;
    out->registered_files = io->driver->registered_files;
    out->direct = io->n_files > 0;
    for (uint32_t i = 0; i < io->n_files; i++) out->direct = out->direct && io->files[i].direct;
}
