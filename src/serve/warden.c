/* The warden: the thread that called serve_run. It waits for signals, sees when a client that waits has gone
 * (libmicrohttpd does not look at connections that rest), sends signs of life, and ends the server. */
#include "serve/link.h"
#include "serve/scheduler.h"
#include "serve/server.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define TICK_MS 100
#define GONE_MAX 64 /* reports at once */
#define SIGNALS 0   /* the signals' mark among the numbers of exchanges, which begin at 1 */

enum sluice_status warden_open(struct server *s, struct sluice_error *err)
{
    sigset_t set;
    struct sigaction hup;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    if (sigaction(SIGHUP, NULL, &hup) || hup.sa_handler != SIG_IGN) sigaddset(&set, SIGHUP); /* nohup's choice stands */
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    const int signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    struct epoll_event e = {.events = EPOLLIN, .data.u64 = SIGNALS};
    s->signal_fd = signals;
    s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (signals >= 0 && s->epoll_fd >= 0 && epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, signals, &e) == 0) return SLUICE_OK;
    return base_fail(err, SLUICE_ERR_RUN, "are file descriptors left (ulimit -n)?", "cannot wait for signals: %s",
                     strerror(errno));
}

void warden_watch(struct server *s, struct exchange *x)
{
    struct epoll_event e = {.events = EPOLLRDHUP, .data.u64 = x->number};
    if (x->fd >= 0) epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, x->fd, &e);
}

void warden_unwatch(struct server *s, struct exchange *x)
{
    if (x->fd >= 0) epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, x->fd, NULL);
    x->fd = -1;
}

/* The connection's other end is closed. */
static void see_off(struct server *s, uint64_t number)
{
    pthread_mutex_lock(&s->lock);
    struct exchange *x = s->exchanges;
    while (x && x->number != number) x = x->next;
    if (x && x->connection) {
        x->gone = true;
        warden_unwatch(s, x);
        exchange_wake(x); /* so that the connection is closed */
    }
    pthread_mutex_unlock(&s->lock);
}

/* Lock held: a stream, begun or still to begin, of which nothing is on its way. */
static bool is_silent(const struct exchange *x)
{
    if (!x->connection || !x->generates || x->first_event) return false;
    return x->state == EXCHANGE_STREAMING || (x->state == EXCHANGE_WAITING && x->request.stream);
}

/* A stream that has been silent: proxies and clients give up on those. */
static void tick(struct server *s)
{
    const uint64_t now = server_now_ns(), silence = (uint64_t)s->options.keep_alive_s * 1000000000;
    for (;;) {
        pthread_mutex_lock(&s->lock);
        struct exchange *x = s->exchanges;
        while (x && !(silence && is_silent(x) && now > x->last_event_ns && now - x->last_event_ns >= silence))
            x = x->next;
        if (x) exchange_hold(x);
        pthread_mutex_unlock(&s->lock);
        if (!x) return;
        struct event *e = calloc(1, sizeof *e);
        if (e) e->kind = EVENT_ALIVE;
        exchange_push(x, e);
        exchange_begin(x); /* one whose schema waits to be looked at: what is wrong with it comes in the stream, then */
        exchange_release(x);
        if (!e) return;
    }
}

/* True: the server ends now. */
static bool take_signals(struct server *s, unsigned *n)
{
    struct signalfd_siginfo info;
    while (read(s->signal_fd, &info, sizeof info) == (ssize_t)sizeof info)
        if (info.ssi_signo != SIGHUP || !*n) (*n)++; /* a terminal that goes sends several, and asks for no haste */
    const enum server_phase phase = server_phase(s);
    if (*n && phase == SERVER_LOADING) {
        atomic_store(&s->phase, SERVER_STOPPING);
        return true;
    }
    if (*n && phase == SERVER_READY) {
        atomic_store(&s->phase, SERVER_DRAINING);
        http_quiesce(s);
        pthread_mutex_lock(&s->lock);
        const size_t left = s->n_generating;
        pthread_mutex_unlock(&s->lock);
        server_log(s, SLUICE_LOG_NOTE, "stopping: %zu requests are finished first; once more stops at once", left);
    }
    if (*n > 1) {
        atomic_store(&s->phase, SERVER_STOPPING);
        return true;
    }
    return false;
}

/* Whether everything that was accepted has been answered. */
static bool drained(struct server *s)
{
    pthread_mutex_lock(&s->lock);
    bool busy = s->n_generating > 0;
    for (struct exchange *x = s->exchanges; x && !busy; x = x->next)
        busy = x->connection && !x->gone && x->state != EXCHANGE_RECEIVING;
    pthread_mutex_unlock(&s->lock);
    return !busy && scheduler_at_rest(s->scheduler);
}

enum sluice_status warden_run(struct server *s, struct sluice_error *err)
{
    unsigned signals = 0;
    uint64_t drained_ns = 0;
    for (;;) {
        struct epoll_event events[GONE_MAX];
        const int n = epoll_wait(s->epoll_fd, events, GONE_MAX, TICK_MS);
        for (int i = 0; i < n; i++)
            if (events[i].data.u64 != SIGNALS) see_off(s, events[i].data.u64);
        tick(s);
        link_tick(s);
        if (take_signals(s, &signals)) break;
        const enum server_phase phase = server_phase(s);
        if (phase == SERVER_FAILED) {
            *err = s->load_error;
            return err->status;
        }
        if (phase != SERVER_DRAINING || !drained(s)) continue;
        if (!drained_ns) drained_ns = server_now_ns();
        break;
    }
    if (signals <= 1) return SLUICE_OK; /* all that was accepted is finished; while loading nothing was */
    return base_fail(err, SLUICE_CANCELLED, NULL, "interrupted");
}
