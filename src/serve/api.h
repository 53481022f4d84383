/* The table of endpoints, and what their files give to it. */
#ifndef SERVE_API_H
#define SERVE_API_H

#include "serve/clerk.h"
#include "serve/exchange.h"

enum endpoint_kind {
    ENDPOINT_AT_ONCE,   /* answered by the HTTP thread, from what others have published */
    ENDPOINT_BY_CLERK,  /* text work: tokens, templates */
    ENDPOINT_GENERATES, /* needs the engine */
    ENDPOINT_PAGE,      /* a file of the page (page.h) */
};

struct endpoint {
    const char *method, *path;
    enum endpoint_kind kind;
    enum fault_style style;
    bool open;         /* without a key, whatever the Host header says */
    bool model_behind; /* the path goes on with a model's name, which must be the one that is served */
    /* AT_ONCE: fills the body, returns the HTTP status. type: in: JSON's; may be replaced by another constant. */
    int (*at_once)(struct server *s, struct buffer *out, const char **type);
    /* BY_CLERK: root is the request's JSON object. */
    bool (*by_clerk)(struct clerk *c, const json_t *root, struct buffer *out, struct fault *f);
    /* GENERATES: fills the request, ids included. */
    bool (*read)(struct clerk *c, const json_t *root, struct serve_request *r, struct fault *f);
    const struct writer *writer;
};

/* NULL: none. *path_known: there is one for another method. */
const struct endpoint *endpoint_find(const char *method, const char *path, bool *path_known);
const char *endpoint_methods(const char *path, char out[64]); /* "GET, POST" */

/* Where other servers have something that this one has elsewhere or not at all: "; here it is ...", or "". */
const char *endpoint_elsewhere(const char *path);

extern const struct writer writer_chat, writer_completions, writer_messages, writer_responses;
typedef bool endpoint_read(struct clerk *c, const json_t *root, struct serve_request *r, struct fault *f);
endpoint_read chat_read, completions_read, messages_read, responses_read;
typedef bool endpoint_clerk(struct clerk *c, const json_t *root, struct buffer *out, struct fault *f);
endpoint_clerk text_tokenize, text_detokenize, text_apply_template, messages_count;

int info_health(struct server *s, struct buffer *out, const char **type);
int info_models(struct server *s, struct buffer *out, const char **type);
int info_model(struct server *s, struct buffer *out, const char **type);
int info_props(struct server *s, struct buffer *out, const char **type);
int info_slots(struct server *s, struct buffer *out, const char **type);
int info_metrics(struct server *s, struct buffer *out, const char **type);
int info_experts(struct server *s, struct buffer *out, const char **type);
int info_stats(struct server *s, struct buffer *out, const char **type);

#endif
