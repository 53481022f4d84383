/* A request at work: the engine thread's part of an exchange. Tokens become text, text becomes events. */
#ifndef SERVE_JOB_H
#define SERVE_JOB_H

#include "serve/exchange.h"
#include "serve/toolcall.h"

enum job_state {
    JOB_QUEUED,  /* for a session; or it has one, and the next of several answers begins */
    JOB_PREFILL, /* its prompt is being read */
    JOB_DECODE,  /* `next` is the token to be evaluated */
    JOB_OVER,    /* END was pushed */
};

#define JOB_CLOSING_MAX 32

struct job {
    struct job *next; /* in the queue */
    struct exchange *x;
    sluice_engine *engine;
    sluice_session *session;
    enum job_state state;
    size_t n_done;   /* of the prompt, evaluated */
    size_t n_reused; /* of them, known before */
    int32_t next_id;
    int32_t closing[JOB_CLOSING_MAX]; /* [n_closing] the mark that ends reasoning, once there was enough of it */
    size_t n_closing, n_closed;       /* n_closed: of them taken */
    float *logits;                    /* [n_vocab] if probabilities are wanted; else NULL */
    size_t n_vocab;

    struct sluice_decoder decoder;
    struct stop_filter stops;
    struct serve_parser *parser; /* of an assistant's turn; else NULL */
    sluice_grammar *grammar;     /* what the answer may be; NULL: anything */
    const char *refused;         /* the parameter that the request failed for, or NULL; a constant */
    struct serve_parser *any;    /* of a call that was asked for, if it is one of several tools; else NULL */
    bool forced_begun;
    bool thinks;        /* it has opened its reasoning itself, as one way to begin an answer */
    bool parser_failed; /* memory ran out */
    bool progress_over; /* the end of the prompt was told */
    bool calls_over;    /* the one call that was wanted is there */
    struct outcome outcome;
    uint64_t submitted_ns, begin_ns, first_ns, progress_ns;
    uint32_t choice;                     /* which of several answers */
    size_t choice_tokens, choice_thinks; /* of n_generated and n_reasoning, those of the answers before it */
};

/* Takes a reference of x. NULL: no memory. */
struct job *job_create(struct exchange *x);
void job_free(struct job *j);
/* It gets a session. SLUICE_ERR_*: cannot be begun, `err` says why. */
enum sluice_status job_begin(struct job *j, sluice_engine *e, sluice_session *s, size_t n_vocab, size_t n_reused,
                             struct sluice_error *err);
/* The session holds n_reused tokens of the prompt again, for the next of several answers. */
enum sluice_status job_again(struct job *j, size_t n_reused, struct sluice_error *err);
/* The logits of the last token are there: takes the next token. JOB_OVER if that ended the
 * answer, JOB_QUEUED if another one is wanted. */
void job_token(struct job *j, size_t room);
/* Of each token of the prompt, where its probabilities are wanted (user: the job, index: behind n_done). */
bool job_prompt_logits(void *user, size_t index, const float *logits, size_t n_vocab);
/* Pushes END; of an answer that is not the last one CHOICE. */
void job_end(struct job *j, enum ending ending);
void job_fail(struct job *j, const struct sluice_error *err);
void job_progress(struct job *j, size_t done); /* of the prompt; tells the client if it wants to know */

#endif
