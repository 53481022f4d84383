/* The server's inside: what its threads share. */
#ifndef SERVE_SERVER_H
#define SERVE_SERVER_H

#include "serve/exchange.h"
#include "serve/metrics.h"
#include "serve/serve.h"

#include <pthread.h>

struct MHD_Daemon;
struct MHD_Response;
struct serve_family;
struct clerk;
struct link;
struct scheduler;

#define SERVE_KEYS_MAX 64
#define SERVE_KEY_BYTES_MAX 512

enum server_phase {
    SERVER_LOADING,
    SERVER_READY,
    SERVER_DRAINING, /* nothing new is accepted */
    SERVER_STOPPING, /* what runs is given up */
    SERVER_FAILED,   /* the model could not be loaded */
};

struct server {
    struct serve_options options;
    char url[300];
    bool loopback; /* bound to it: the Host header must name it too */
    uint16_t port;
    char (*keys)[SERVE_KEY_BYTES_MAX]; /* [n_keys] zero-padded */
    size_t n_keys;
    int64_t started_s;

    pthread_mutex_t lock;       /* of what follows, and of the shared parts of exchanges */
    pthread_cond_t written;     /* a stream rests: all of its events are on their way; or it is over */
    struct exchange *exchanges; /* alive */
    size_t n_exchanges, n_generating;
    struct link *links; /* connections */
    size_t n_links;
    uint64_t n_numbers;
    size_t body_bytes;       /* of all that are being received or read */
    int epoll_fd, signal_fd; /* connections that wait, so that their end is seen; signals */

    uint64_t links_looked_ns; /* the warden's */

    pthread_mutex_t log_lock; /* also of: */
    unsigned announced;       /* of ANNOUNCE_ALL */
    atomic_int phase;         /* enum server_phase */
    atomic_ullong loaded, to_load;
    struct sluice_error load_error; /* once phase is SERVER_FAILED */

    struct sluice_model_info info; /* of the vocabulary; all of it once phase is SERVER_READY */
    char model_name[REQUEST_NAME_BYTES];
    const struct serve_family *family; /* how the model writes calls */
    struct metrics metrics;
    struct MHD_Daemon *daemon;
    bool short_slices; /* the HTTP thread's own: it has asked for them */
    struct clerk *clerk;
    struct scheduler *scheduler;
};

void server_log(struct server *s, enum sluice_log_level level, const char *format, ...) BASE_PRINTF(3, 4);
uint64_t server_now_ns(void);             /* monotonic */
void server_cond_init(pthread_cond_t *c); /* whose times are those */
static inline enum server_phase server_phase(struct server *s) { return (enum server_phase)atomic_load(&s->phase); }

/* The address is told once: when requests are answered, and the model has got its memory and begins to load. Until then
 * both can fail, and nobody should have begun to wait. Called for each when it holds, as often as one likes. */
enum { ANNOUNCE_ANSWERS = 1, ANNOUNCE_LOADS = 2, ANNOUNCE_ALL = 3 };
void server_announce(struct server *s, unsigned what);

/* listen.c */
enum sluice_status listen_open(struct server *s, int *fd, struct sluice_error *err);
enum sluice_status listen_keys(struct server *s, struct sluice_error *err);
bool listen_is_loopback(const char *address); /* 127.0.0.1 and its like: numbers alone, no name that begins so */
/* Whether the text is one of the keys; takes the same time for any text. */
bool listen_key_good(const struct server *s, const char *text);
/* As many connections as asked for need as many descriptors. */
enum sluice_status listen_descriptors(struct server *s, struct sluice_error *err);

/* http.c */
enum sluice_status http_start(struct server *s, int listen_fd, struct sluice_error *err);
void http_quiesce(struct server *s); /* no new connections */
void http_stop(struct server *s);    /* after every exchange has its END or its reply */

/* warden.c: the calling thread, until the server is to end. */
enum sluice_status warden_run(struct server *s, struct sluice_error *err);
enum sluice_status warden_open(struct server *s, struct sluice_error *err); /* before any thread is started */
void warden_watch(struct server *s, struct exchange *x);                    /* lock held */
void warden_unwatch(struct server *s, struct exchange *x);                  /* lock held */

#endif
