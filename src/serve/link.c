#include "serve/link.h"

#include "serve/server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define LOOK_EVERY_NS ((uint64_t)500 * 1000000)
/* In the kernel's struct tcp_info, whose beginning does not change; the C library's own lacks this field. */
#define TCP_INFO_RECEIVED_AT 128

/* Bytes that a connection has received in its life; 0 if the system does not say. */
static uint64_t received(int fd)
{
    unsigned char info[256];
    socklen_t n = sizeof info;
    uint64_t bytes = 0;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &n) || n < TCP_INFO_RECEIVED_AT + sizeof bytes) return 0;
    memcpy(&bytes, info + TCP_INFO_RECEIVED_AT, sizeof bytes);
    return bytes;
}

/* Whether something of a request has come. */
static bool has_begun(struct link *l, uint64_t now)
{
    if (l->begun || received(l->fd) <= l->received) return l->begun;
    l->begun = true;
    l->since_ns = now;
    return true;
}

/* Whether its client has sent its last byte and all of them have been read. (libmicrohttpd does not see an end that
 * comes together with data.) */
static bool has_left(const struct link *l)
{
    char byte;
    return recv(l->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

static void end(struct link *l)
{
    l->ended = true;
    shutdown(l->fd, SHUT_RDWR); /* the HTTP thread sees it and closes it */
}

/* The one that has been without a request for longest; if there is none, `begun` too. */
static struct link *oldest(const struct server *s, const struct link *but, bool begun)
{
    struct link *found = NULL;
    for (struct link *l = s->links; l; l = l->next)
        if (l != but && !l->whole && !l->ended && (begun || !l->begun) && (!found || l->since_ns < found->since_ns))
            found = l;
    return found;
}

/* Connections too many: those without a request go. When half of the spare places are taken, also those whose request
 * has been arriving for long. */
static void make_room(struct server *s, struct link *l)
{
    const size_t most = s->options.connections_max;
    const uint64_t now = server_now_ns();
    size_t open = 0;
    for (const struct link *i = s->n_links > most ? s->links : NULL; i; i = i->next) open += !i->ended;
    while (open > most) {
        struct link *other = oldest(s, l, false);
        if (other && has_begun(other, now)) continue; /* it has not been read yet */
        if (!other && open > most + LINK_SPARE / 2) other = oldest(s, l, true);
        if (!other) break;
        end(other);
        open--;
        atomic_fetch_add(&s->metrics.displaced, 1);
    }
    l->spare = open > most;
}

struct link *link_open(struct server *s, int fd)
{
    struct link *l = calloc(1, sizeof *l);
    if (!l) return NULL;
    l->fd = fd;
    l->since_ns = server_now_ns();
    pthread_mutex_lock(&s->lock);
    l->next = s->links;
    if (l->next) l->next->previous = l;
    s->links = l;
    s->n_links++;
    make_room(s, l);
    pthread_mutex_unlock(&s->lock);
    return l;
}

void link_close(struct server *s, struct link *l)
{
    if (!l) return;
    pthread_mutex_lock(&s->lock);
    if (l->next) l->next->previous = l->previous;
    *(l->previous ? &l->previous->next : &s->links) = l->next;
    s->n_links--;
    pthread_mutex_unlock(&s->lock);
    free(l);
}

void link_begin(struct server *s, struct link *l)
{
    if (!l) return;
    pthread_mutex_lock(&s->lock);
    if (!l->begun) l->since_ns = server_now_ns();
    l->begun = true;
    pthread_mutex_unlock(&s->lock);
}

void link_whole(struct server *s, struct link *l)
{
    if (!l || l->whole) return; /* the HTTP thread alone writes it */
    pthread_mutex_lock(&s->lock);
    l->whole = true;
    pthread_mutex_unlock(&s->lock);
}

void link_rest(struct server *s, struct link *l)
{
    if (!l) return;
    const uint64_t bytes = received(l->fd);
    pthread_mutex_lock(&s->lock);
    l->begun = l->whole = l->left = false;
    l->received = bytes;
    l->since_ns = server_now_ns();
    pthread_mutex_unlock(&s->lock);
}

bool link_too_many(struct server *s, const struct link *l)
{
    if (!l || !l->spare) return false;
    pthread_mutex_lock(&s->lock);
    const bool many = s->n_links > s->options.connections_max;
    pthread_mutex_unlock(&s->lock);
    return many;
}

void link_tick(struct server *s)
{
    const uint64_t now = server_now_ns(), second = 1000000000;
    if (now - s->links_looked_ns < LOOK_EVERY_NS) return;
    s->links_looked_ns = now;
    pthread_mutex_lock(&s->lock);
    for (struct link *l = s->links; l; l = l->next) {
        if (l->whole || l->ended) continue;
        /* Twice: what has been read may be the rest of a request, which the HTTP thread is about to hand on. */
        const bool left = has_left(l);
        if (left && l->left) end(l);
        l->left = left;
        if (l->ended) continue;
        const uint64_t most = (has_begun(l, now) ? s->options.receive_s : s->options.idle_s) * second;
        if (now < l->since_ns || now - l->since_ns < most) continue;
        end(l);
        atomic_fetch_add(&s->metrics.timed_out, 1);
    }
    pthread_mutex_unlock(&s->lock);
}
