/* What a job says of its work, and what an API's writer keeps while it turns that into an answer. */
#ifndef SERVE_ANSWER_H
#define SERVE_ANSWER_H

#include "serve/buffer.h"
#include "serve/fault.h"
#include "serve/request.h"

/* Probabilities of a token that was taken, and of the most likely ones at its place. */
struct token_prob {
    int32_t id;
    float logprob;
    char *text; /* its bytes */
    size_t bytes;
};
struct token_probs {
    struct token_prob taken;
    bool reasons; /* the token belongs to the reasoning, or to the marks around the answer */
    bool prompt;  /* it belongs to the prompt; the first one's logprob is NAN */
    size_t n;
    struct token_prob top[]; /* [n] most likely first */
};

struct progress {
    size_t done, total, reused;
    uint64_t elapsed_ns, left_ns; /* left_ns UINT64_MAX: not known yet */
};

enum ending {
    ENDING_MODEL,  /* the model ended its answer */
    ENDING_STOP,   /* a stop text */
    ENDING_LENGTH, /* tokens_max, or the context */
    ENDING_CALLS,  /* the model called tools */
    ENDING_FAILED, /* `fault` */
};

struct outcome {
    enum ending ending;
    char *stop; /* the stop text, for ENDING_STOP; belongs to the request */
    struct fault fault;
    size_t n_prompt, n_reused, n_generated, n_reasoning;
    uint64_t queued_ns, prompt_ns, generate_ns;
};

struct event;
struct exchange;
struct answer;

/* How an API writes. Called by the HTTP thread alone; what is to be sent is put into a->out. */
struct writer {
    void (*begin)(struct answer *a); /* of a stream; may be NULL */
    void (*event)(struct answer *a, const struct event *e);
    void (*end)(struct answer *a, const struct outcome *o);                       /* of a stream */
    void (*whole)(struct answer *a, const struct outcome *o, struct buffer *out); /* an answer that is not streamed */
    void (*choice)(struct answer *a, const struct outcome *o); /* one of several is over; NULL: the API has one alone */
};

struct answer_call {
    char id[64];
    struct buffer name, arguments;
    bool over;
};

#define ANSWER_CALLS_MAX 256

struct answer {
    const struct serve_request *request;
    const struct writer *writer;
    bool streamed, begun, over, aborted;
    size_t n_reused;   /* of the prompt, known before; 0 until a session works on it */
    struct buffer out; /* to be sent */

    /* What there was so far. Streams keep it only where their API repeats it at the end. */
    struct buffer reasoning, text;
    struct answer_call *calls; /* [n_calls] */
    size_t n_calls;
    json_t *probs;      /* in the API's own form; of what was not sent yet, if streamed */
    json_t *item_probs; /* Responses: of the text of the item that is open */
    /* For the writers: which block or item is open, how many there were, the number of the last message. */
    int open;
    size_t index;
    uint64_t sequence;
    char item_id[REQUEST_ID_BYTES];
    json_t *items;
    size_t choice;   /* which of several answers it is at */
    json_t *choices; /* those that are over, if not streamed; or NULL */
};

void answer_begin(struct answer *a, const struct serve_request *r, const struct writer *w);
void answer_free(struct answer *a);
/* Keeps what an event holds (text, reasoning, calls). */
void answer_keep(struct answer *a, const struct event *e);
/* One event of the queue, in order. */
void answer_event(struct answer *a, const struct event *e);

/* An answer that is over, of one that is not streamed; takes it over. */
void answer_add_choice(struct answer *a, json_t *choice);
/* Pieces that several APIs share. */
#define ANSWER_ALIVE ": still at work\n\n" /* a comment of a stream */
json_t *answer_timings(const struct outcome *o);
json_t *answer_progress(const struct progress *p);
json_t *answer_probs_openai(const struct token_probs *p); /* one element of logprobs.content */
json_t *answer_usage_openai(const struct outcome *o);
void answer_fault_openai(struct answer *a, const struct fault *f); /* a message of a stream */
/* data: JSON, one line. event: NULL, or the message's name. */
void answer_message(struct answer *a, const char *event, json_t *data);

#endif
