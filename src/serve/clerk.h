/* The thread that reads requests: JSON, templates, tokens. It owns an engine that has the vocabulary alone, so that
 * text work never waits for the other engine's computing, nor the HTTP thread for text work. */
#ifndef SERVE_CLERK_H
#define SERVE_CLERK_H

#include "serve/exchange.h"

#include <pthread.h>

struct clerk {
    struct server *server;
    sluice_engine *engine; /* the vocabulary */
    uint32_t n_ctx;        /* of a session */
    struct exchange *work; /* whose request is being read, or NULL */
    uint64_t work_end_ns;  /* until when */
    pthread_t thread;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    struct clerk_item *first, *last;
    bool stop;
};

/* Opens the vocabulary. */
enum sluice_status clerk_open(struct server *s, struct clerk **out, struct sluice_error *err);
enum sluice_status clerk_start(struct clerk *c, struct sluice_error *err);
/* The body is complete; takes a reference of its own. */
bool clerk_take(struct clerk *c, struct exchange *x);
void clerk_stop(struct clerk *c);

struct endpoint;
/* One request: its body becomes a request (an endpoint that generates) or the answer itself. False: f says why. The
 * request is to be freed in any case. */
bool clerk_read(struct clerk *c, const struct endpoint *e, const struct buffer *body, struct serve_request *r,
                struct buffer *out, struct fault *f);
/* For the APIs. The prompt's ids, by the chat template; vars: see sluice_chat_encode_json, owned by the caller. */
bool clerk_encode_chat(struct clerk *c, const json_t *vars, struct serve_request *r, struct fault *f);
bool clerk_encode_text(struct clerk *c, const char *text, size_t bytes, struct serve_request *r, struct fault *f);
/* Behind what is there: plain text, without special tokens. */
bool clerk_append_text(struct clerk *c, const char *text, size_t bytes, struct serve_request *r, struct fault *f);
/* Whether a text of so many bytes could fit. */
bool clerk_check_text(const struct clerk *c, size_t bytes, struct fault *f);
/* Whether a prompt of so many tokens leaves room for an answer. */
bool clerk_check_length(struct clerk *c, const struct serve_request *r, struct fault *f);

#endif
