/* Connections as such: how long one may be without a request, how long a request may take to arrive however slowly it
 * comes, and which one makes room for the next when there are too many; and those whose client has gone.
 * (libmicrohttpd's own timeout counts silence alone: a byte a second holds it off for ever.) All under the server's
 * lock. */
#ifndef SERVE_LINK_H
#define SERVE_LINK_H

#include <stdbool.h>
#include <stdint.h>

struct server;

/* Connections beyond --max-connections that are accepted all the same, to be told so. */
#define LINK_SPARE 32

struct link {
    struct link *next, *previous;
    int fd;
    bool begun;        /* of a request, something is there */
    bool whole;        /* of a request, everything is there: no time passes for it here */
    bool spare;        /* beyond the limit */
    bool left;         /* its client has: seen at the last look, for the first time */
    bool ended;        /* shut down; the HTTP thread closes it */
    int status;        /* of the answer to its request; 0: none yet. The HTTP thread's */
    uint64_t received; /* bytes, when it had no request */
    uint64_t since_ns; /* it has had none, or its request has been on its way */
};

/* Takes the lock each. A new connection, which may end an idle one; NULL: no memory, and no limit holds for it. */
struct link *link_open(struct server *s, int fd);
void link_close(struct server *s, struct link *l); /* before its descriptor is closed */
void link_begin(struct server *s, struct link *l); /* a head is there */
void link_whole(struct server *s, struct link *l); /* a request is there */
void link_rest(struct server *s, struct link *l);  /* its answer is sent: it has no request */
/* Whether there is no room for its request: it is one too many, and there still are too many. */
bool link_too_many(struct server *s, const struct link *l);
/* Ends those whose time is over or whose client has gone; looks once in a while, however often it is called. */
void link_tick(struct server *s);

#endif
