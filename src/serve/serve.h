/* `sluice serve`: an HTTP server around one engine. The room's only door for the program; README.md says how the
 * threads share the work. */
#ifndef SERVE_SERVE_H
#define SERVE_SERVE_H

#include "sluice.h"

/* Which requests get a line in the log when they are over. */
enum serve_log {
    SERVE_LOG_OFF,
    SERVE_LOG_REQUESTS, /* all but those that watch: health, figures, the page */
    SERVE_LOG_ALL,
};

struct serve_options {
    const struct sluice_options *engine; /* log, progress and user are the server's own; `log` below gets the lines */
    const char *host;                    /* a name or an address */
    uint16_t port;                       /* 0: any that is free */
    const char *name;                    /* the model's name in answers; NULL: the file's */
    const char *api_key_path;            /* keys, one a line; NULL: nobody needs one */
    bool insecure;                       /* other addresses than loopback without keys */
    const char *cors;                    /* the origin that pages may come from, or "*"; NULL: none */
    size_t body_bytes_max, header_bytes_max;
    uint32_t connections_max, queue_max;
    uint32_t idle_s;       /* a connection that has sent nothing of a request is closed after it */
    uint32_t receive_s;    /* a request must have arrived within, from its first byte on, and be read within */
    uint32_t stall_s;      /* a reader that takes nothing is given up after */
    uint32_t keep_alive_s; /* silence of a stream before a sign of life */
    uint32_t tokens_max;   /* of an answer if the request says nothing; 0: what the context leaves */
    struct sluice_sampling sampling; /* if the request says nothing */
    bool seeded;                     /* with this seed too; else each has one of its own */
    enum serve_log requests;

    /* Called from any of the server's threads, one at a time. */
    void (*log)(void *user, enum sluice_log_level level, const char *line);
    void (*listening)(void *user, const char *url);               /* requests are answered; the model loads */
    bool (*loading)(void *user, const struct sluice_progress *p); /* may be NULL */
    void (*ready)(void *user, const sluice_engine *e);            /* loaded; called by the thread that owns it */
    void *user;
};
/* What the engine's options should have as text_bytes: its row of the ledger is then for the server's text work too. */
static inline size_t serve_text_bytes(size_t body_bytes_max) { return body_bytes_max / 4; }
/* The options of the second engine that a server opens, before the one with the model: a vocabulary, for the thread
 * that turns requests into tokens. Whoever plans a server opens it too: the ledger measures the process. log, progress
 * and user are left to the caller. */
void serve_vocabulary_options(const struct sluice_options *engine, struct sluice_options *out);
/* Defaults; sampling as sluice_sampling_init. */
void serve_options_init(struct serve_options *o);

/* Serves until SIGTERM or SIGINT: the first one stops accepting and finishes what was accepted (SLUICE_OK), a second
 * one gives that up (SLUICE_CANCELLED). SIGHUP is a first one, unless it is ignored. Blocks these signals in the
 * calling thread, which becomes one of the server's. Errors: USAGE (address, keys), IO (the socket), and those of
 * sluice_engine_open. */
enum sluice_status serve_run(const struct serve_options *o, struct sluice_error *err);

#endif
