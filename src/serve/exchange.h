/* One request and its answer, on its way through the threads (README.md): the HTTP thread receives it and writes its
 * answer, the clerk reads it, the engine's thread works on it and puts events into its queue, the warden watches over
 * it. What several threads touch is under the server's lock. */
#ifndef SERVE_EXCHANGE_H
#define SERVE_EXCHANGE_H

#include "serve/answer.h"
#include "serve/buffer.h"
#include "serve/fault.h"
#include "serve/request.h"

#include <stdatomic.h>

struct MHD_Connection;
struct endpoint;
struct server;

/* A reader that is so far behind makes its job wait. */
#define EVENTS_BYTES_MAX ((size_t)128 << 10)

enum event_kind {
    EVENT_REASONING,
    EVENT_TEXT,
    EVENT_CALL, /* text: the tool's name; id: the model's own id, or "" */
    EVENT_ARGUMENTS,
    EVENT_CALL_END,
    EVENT_PROBS,    /* of one token */
    EVENT_PROGRESS, /* of the prompt */
    EVENT_BEGIN,    /* a session works on it: `progress` says what of the prompt was known */
    EVENT_ALIVE,    /* nothing has happened for a while */
    EVENT_CHOICE,   /* one of several answers is over, for the reason in `outcome`; the next one begins */
    EVENT_END,
};

struct event {
    struct event *next;
    enum event_kind kind;
    struct buffer text;
    size_t call;
    char id[64];
    struct token_probs *probs;
    struct progress progress;
    struct outcome outcome;
};

enum exchange_state {
    EXCHANGE_RECEIVING, /* the HTTP thread's alone */
    EXCHANGE_WAITING,   /* with the clerk, queued, or at work; the connection rests until there is something to write */
    EXCHANGE_STREAMING, /* the answer's beginning has been written */
    EXCHANGE_REPLY,     /* `reply` is complete */
};

struct exchange {
    struct server *server;
    const struct endpoint *endpoint;
    uint64_t number;

    /* The HTTP thread's, until the clerk has it. */
    struct buffer body;
    size_t received;     /* bytes of the body, thrown away ones too */
    size_t body_charged; /* of the server's body_bytes */
    uint64_t begin_ns;
    int fd;
    bool refused; /* `fault` says why */
    struct fault fault;

    /* Under the server's lock. */
    struct exchange *next, *previous;  /* the server's list of those that are alive */
    struct MHD_Connection *connection; /* NULL: completed */
    enum exchange_state state;
    bool resting;   /* the connection is suspended */
    bool gone;      /* nobody wants the answer any more */
    bool generates; /* a job is queued or at work */
    struct event *first_event, *last_event;
    size_t event_bytes;
    uint64_t last_event_ns;
    int reply_status;
    const char *reply_type; /* a constant */
    unsigned reply_retry_s; /* Retry-After, or 0 */
    struct buffer reply;

    atomic_uint references;

    /* The clerk's, then the engine thread's, which only reads; the HTTP thread reads it while it writes. */
    struct serve_request request;
    bool has_request;
    /* The HTTP thread's. */
    struct answer answer;
    char method[12], path[120]; /* cut where they are longer */
    bool ended;                 /* `outcome` is that of the job */
    struct outcome outcome;
};

/* One reference for the caller. NULL: no memory. */
struct exchange *exchange_create(struct server *s, const struct endpoint *endpoint, struct MHD_Connection *connection);
void exchange_hold(struct exchange *x);
void exchange_release(struct exchange *x);

/* Server's lock held: the connection goes on. */
void exchange_wake(struct exchange *x);
/* Takes the lock. The reply is complete; takes `body` over. */
void exchange_reply(struct exchange *x, int status, const char *type, struct buffer *body);
/* Takes the lock. A stream's headers can be sent. */
void exchange_begin(struct exchange *x);
void exchange_fault(struct exchange *x, const struct fault *f);
/* Takes the lock. NULL: no memory, or nobody listens. The event belongs to the queue at once. */
void exchange_push(struct exchange *x, struct event *event);
/* More text of this kind, joined with the last event where that is the same. */
void exchange_text(struct exchange *x, enum event_kind kind, size_t call, const char *text, size_t bytes);
struct event *exchange_take(struct exchange *x); /* lock held; the first event, or NULL. By the HTTP thread */
void event_free(struct event *event);
/* Takes the lock. Waits, for so long at most, until a stream's events are written. */
void exchange_written(struct exchange *x, uint64_t most_ns);
bool exchange_gone(struct exchange *x);
bool exchange_full(struct exchange *x); /* a stream whose reader is behind */

#endif
