/* What the server does for a request, whatever API it came by. */
#ifndef SERVE_REQUEST_H
#define SERVE_REQUEST_H

#include "base/stop.h"
#include "serve/fault.h"
#include "sluice.h"

#include <jansson.h>
#include <stdbool.h>

#define REQUEST_STOPS_MAX 32
#define REQUEST_CHOICES_MAX 8
#define REQUEST_PROBS_MAX 20
#define REQUEST_TOOLS_MAX 256
#define REQUEST_ID_BYTES 48
#define REQUEST_NAME_BYTES 128

struct serve_request {
    char id[REQUEST_ID_BYTES];      /* "chatcmpl-..." */
    char model[REQUEST_NAME_BYTES]; /* as it was asked for */
    int64_t created_s;
    bool stream, usage_wanted, progress_wanted;
    uint32_t n_choices; /* answers to the prompt, one after another */
    bool answers;       /* an assistant's turn, with reasoning and calls; else the text goes on */
    int32_t *ids;       /* [n_ids] the prompt; to be freed with sluice_free */
    bool from_text;     /* ids were made from text: another spelling of it will do */
    size_t n_ids;
    json_t *vars;           /* what the template got, or NULL */
    char *prompt_end;       /* the last of its text, for what the template has opened; or NULL */
    uint64_t tokens_max;    /* UINT64_MAX: what the context leaves */
    uint64_t reasoning_max; /* tokens; UINT64_MAX: any number */
    struct sluice_sampling sampling;
    struct sluice_bias *bias; /* of sampling, where the request has its own; or NULL */
    bool probs_wanted;
    uint32_t n_probs; /* alternatives a token */
    char *stops[REQUEST_STOPS_MAX];
    size_t n_stops;
    char *turn_end;          /* the text that ends an answer in the model's chat format, or NULL */
    json_t *tools;           /* [{"name", "parameters"?, ...}]; or NULL */
    const char *call_prefix; /* of the ids of calls: "call_"; a constant */
    bool one_call;           /* parallel calls are not wanted */
    char *schema;            /* the answer is JSON of this schema; "" any object; NULL: free */
    const char *schema_from; /* the parameter that it came in; a constant */
    bool forced;             /* the answer is a call, from its first token on: */
    char *forced_call;       /* the arguments of this tool; NULL: {"name", "arguments"} of one of them */
    bool echo;               /* completions: the prompt's text comes first */
    bool prompt_probs;       /* with its probabilities: all of it is computed */
    char *prompt_text;       /* for echo */
    json_t *original;        /* what Responses repeats, or NULL */
};
void request_init(struct serve_request *r, const struct sluice_sampling *sampling, bool seeded);
void request_free(struct serve_request *r);
/* A fresh id: the prefix and 24 letters and digits that nobody can guess. */
void request_id(const char *prefix, char out[REQUEST_ID_BYTES]);

/* ---- reading parameters ---- */

enum field_use {
    FIELD_READ,    /* the reader of this API takes it */
    FIELD_IGNORED, /* changes nothing about the answer */
    FIELD_NEUTRAL, /* only with a value that changes nothing: null, false, 0, 1 (best_of), "", [] or {}; `why` else */
};
struct field {
    const char *name;
    enum field_use use;
    const char *why;
};
/* Every key must be in the table or among those that all APIs have. */
bool fields_check(const json_t *root, const struct field *fields, size_t n, struct fault *f);

/* NULL and absent: `out` stays as it is. A wrong type or value out of range: false, and f says so. */
bool read_bool(const json_t *root, const char *name, bool *out, struct fault *f);
bool read_number(const json_t *root, const char *name, double min, double max, double *out, struct fault *f);
bool read_integer(const json_t *root, const char *name, int64_t min, int64_t max, int64_t *out, struct fault *f);
bool read_text(const json_t *root, const char *name, const char **out, struct fault *f);

/* model, stream, temperature, top_p, top_k, min_p, repeat_penalty, repeat_last_n, presence_penalty, frequency_penalty,
 * seed. */
bool request_common(struct serve_request *r, const json_t *root, struct fault *f);
/* logit_bias: {"ID": number, ...} as OpenAI's clients send it, or [[ID, number], ...] as llama.cpp's. */
bool request_bias(struct serve_request *r, const json_t *root, uint32_t n_vocab, struct fault *f);
/* name: "stop" or "stop_sequences": a string or a list of them. */
bool request_stops(struct serve_request *r, const json_t *root, const char *name, struct fault *f);
/* max_tokens and its other names. */
bool request_tokens_max(struct serve_request *r, const json_t *root, const char *name, struct fault *f);
/* What else the template gets: chat_template_kwargs, reasoning_effort, enable_thinking. */
void request_template_vars(json_t *vars, const json_t *root);
/* n: how many answers. */
bool request_choices(struct serve_request *r, const json_t *root, struct fault *f);
bool request_check_choices(const struct serve_request *r, struct fault *f); /* once all is read */
struct clerk;
/* response_format and its like, by that name: {"type": "text" | "json_object" | "json_schema", ...}. */
bool request_format(struct clerk *c, struct serve_request *r, const json_t *format, const char *name, struct fault *f);
/* Whether it can be had with the tools that there are; once both are read. */
bool request_check_format(const struct clerk *c, const struct serve_request *r, struct fault *f);
/* kind: "auto", "none", "required", "function" (that of this name). After messages_tools. */
bool request_choose_tool(struct clerk *c, struct serve_request *r, json_t *vars, const char *kind, const char *name,
                         struct fault *f);
bool request_stream_options(struct serve_request *r, const json_t *root, struct fault *f);

#endif
