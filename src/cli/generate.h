/* The loop from a prompt's tokens to streamed text, with every way in which it can end. */
#ifndef CLI_GENERATE_H
#define CLI_GENERATE_H

#include "base/stop.h"
#include "cli/open.h"

enum generate_end {
    GENERATE_MODEL,       /* the model ended its text */
    GENERATE_STOP,        /* a stop text */
    GENERATE_LENGTH,      /* -n */
    GENERATE_CONTEXT,     /* the context is full */
    GENERATE_INTERRUPTED, /* Ctrl-C */
    GENERATE_OUTPUT,      /* nobody reads standard output any more */
    GENERATE_FAILED,      /* err */
};

#define GENERATE_END_IDS_MAX 4

struct generator {
    struct open_model *model;
    sluice_session *session;
    sluice_grammar *grammar; /* of --schema, or NULL */
    struct report *report;
    uint64_t tokens_max; /* UINT64_MAX: no limit */
    const char *stops[STOP_STRINGS_MAX];
    size_t n_stops;
    int32_t end_ids[GENERATE_END_IDS_MAX]; /* besides the model's own */
    size_t n_end_ids;
    bool answers; /* the text is an answer, not the continuation of the prompt's own words */
    /* The tokens in the session, in order; kept equal to it. */
    int32_t *tokens;
    size_t n_tokens, tokens_room;
    /* The last answer's text, NUL-terminated. */
    char *text;
    size_t text_bytes, text_room;
    bool out_of_memory;
    uint64_t n_new, first_token_ns; /* of the last answer */
    uint64_t seed;
};

/* Opens a session with the sampling options of o; a random seed is chosen and said if none is given. */
enum sluice_status generate_begin(struct generator *g, struct open_model *m, struct report *r,
                                  const struct cli_options *o, struct sluice_error *err);
/* The text will be an answer: adds what ends one in the model's chat format. */
enum sluice_status generate_chat_stops(struct generator *g, struct sluice_error *err);
/* Makes the session hold the longest common prefix of what it has (or what was kept) and ids, evaluates the rest, and
 * writes the text that follows to standard output. The prompt does not fit: GENERATE_FAILED with SLUICE_CONTEXT_FULL,
 * and nothing of it is evaluated. */
enum generate_end generate_text(struct generator *g, const int32_t *ids, size_t n, struct sluice_error *err);
enum sluice_status generate_forget(struct generator *g, struct sluice_error *err); /* empties the session */
void generate_finish(struct generator *g);

#endif
