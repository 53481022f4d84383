/* A model's answer, as it streams, taken apart: reasoning, text, and calls of tools with their arguments as JSON.
 *
 * Families of models write calls in different ways (the table in toolcall.c); which one is seen from the chat
 * template's source. The events do not depend on how the answer was cut into pieces: the texts of neighbouring events
 * of one kind, joined, are the same for every cutting. What is not a call, however much it looks like one, comes back
 * as text; but for blanks beside the marks and the marks themselves nothing is dropped. src/serve/README.md says what
 * is held back when. */
#ifndef SERVE_TOOLCALL_H
#define SERVE_TOOLCALL_H

#include "sluice.h"

#include <jansson.h>

/* Calls of one answer; what would be more of them is text. */
#define SERVE_CALLS_MAX 256

/* How a family of models writes. Constants; there is always one: "plain" knows reasoning alone. */
struct serve_family;
/* By the Jinja source of a chat template (NULL: plain). */
const struct serve_family *serve_family_detect(const char *chat_template, size_t bytes);
/* By name ("hermes"), for an override; NULL: there is none. */
const struct serve_family *serve_family_find(const char *name);
const char *serve_family_name(const struct serve_family *f);
bool serve_family_calls(const struct serve_family *f); /* it has a way to write calls: all but plain */
const struct serve_family *serve_family_at(size_t i);  /* all of them, in order; NULL behind the last */

enum serve_event_kind {
    SERVE_EVENT_REASONING, /* more of the reasoning */
    SERVE_EVENT_TEXT,      /* more of the answer */
    SERVE_EVENT_CALL,      /* a call begins: `text` is the tool's name */
    SERVE_EVENT_ARGUMENTS, /* more of its arguments: JSON text, all together one object */
    SERVE_EVENT_CALL_END,
};

struct serve_event {
    enum serve_event_kind kind;
    const char *text; /* UTF-8 as the model wrote it, NUL-terminated; lives until the function returns */
    size_t bytes;     /* 0 in CALL_END alone */
    size_t call;      /* of the last three kinds: the call's index in this answer, from 0 */
    const char *id;   /* CALL: the id that the model itself gave to the call (Kimi K2, Mistral), or NULL */
    bool whole;       /* CALL_END: the arguments are a complete JSON object. False: the answer ended in the middle of
                       * them, or they went wrong there, and what follows comes as text. Never false with `hold_calls` */
};
typedef void serve_event_fn(void *user, const struct serve_event *event);

struct serve_tool {
    const char *name;
    const json_t *parameters; /* JSON Schema of the arguments, or NULL: says which of them are strings */
};
/* The texts with one of which an answer's calls begin: marks, and the heads of calls that have none. A list of strings,
 * the caller's; empty in a family whose messages say what they are. NULL: no memory. */
json_t *serve_family_openers(const struct serve_family *f, const struct serve_tool *tools, size_t n_tools);

struct serve_parser_options {
    const struct serve_family *family; /* NULL: plain */
    const struct serve_tool *tools;    /* [n_tools]; copied, but for `parameters`, which must outlive the parser */
    size_t n_tools;                    /* 0: no calls are looked for; their marks are text */
    bool no_reasoning;                 /* reasoning is not looked for; its marks are text */
    bool hold_calls;                   /* a call is given out once it is whole, and as text if it never is. For answers
                                        * that are not streamed */
    const char *chat_template;         /* Jinja source; says how reasoning is marked. NULL: <think> </think> */
    size_t chat_template_bytes;
    const char
        *prompt; /* the rendered prompt, or its last few hundred bytes: whether it opened the reasoning. NULL: no */
    size_t prompt_bytes;
    serve_event_fn *event;
    void *user;
};

struct serve_parser;
/* SLUICE_ERR_MEMORY is the only error. */
enum sluice_status serve_parser_create(const struct serve_parser_options *o, struct serve_parser **out,
                                       struct sluice_error *err);
/* One more piece, cut anywhere (sluice_decode gives whole characters; other bytes are passed on as they are). Decode
 * with special = true, for the marks may be control tokens, and do not feed the token that ended the answer. After
 * SLUICE_ERR_MEMORY the parser can only be destroyed. */
enum sluice_status serve_parser_feed(struct serve_parser *p, const char *text, size_t bytes, struct sluice_error *err);
/* The answer is over: everything held back is given out. */
enum sluice_status serve_parser_end(struct serve_parser *p, struct sluice_error *err);
size_t serve_parser_calls(const struct serve_parser *p); /* begun so far: not 0 means finish_reason "tool_calls" */
bool serve_parser_reasons(const struct serve_parser *p); /* reasoning is open now (a constrained answer begins after) */
/* A call's mark has ended the reasoning, in a family where it may: the answer begins inside of that call. */
bool serve_parser_calls_from_thought(const struct serve_parser *p);
/* The answer is a document: its rest is text, whatever marks stand in it. A call that seemed to begin is none. */
void serve_parser_settle(struct serve_parser *p);
const char *serve_parser_thought_end(const struct serve_parser *p); /* the mark that ends reasoning, or NULL */
/* The mark with which the answer may still open reasoning; NULL: it may not, or the template knows no such mark. */
const char *serve_parser_thought_begin(const struct serve_parser *p);
void serve_parser_destroy(struct serve_parser *p); /* NULL is allowed */

#endif
