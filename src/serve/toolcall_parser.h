/* The inside of a parser, and what the families' parts share: looking at what is still to be read, taking it, giving
 * events. See README.md for the states. */
#ifndef SERVE_TOOLCALL_PARSER_H
#define SERVE_TOOLCALL_PARSER_H

#include "serve/toolcall.h"
#include "serve/toolcall_json.h"

#define SERVE_NAME_BYTES_MAX 256u /* of a tool, a parameter, an id; longer ones are no calls */
#define SERVE_HEAD_BYTES_MAX 768u /* what stands around a name */
#define SERVE_GAP_BYTES_MAX 256u  /* blanks behind an end mark that are looked through to see whether it is one */

struct serve_text {
    char *at;
    size_t bytes, room;
};

enum serve_step {
    SERVE_STEP_MORE, /* nothing can be decided before more of the answer is there, or it is over */
    SERVE_STEP_ON,   /* something was taken or decided */
};

enum serve_look { SERVE_LOOK_NO, SERVE_LOOK_YES, SERVE_LOOK_MORE };

struct serve_family {
    const char *name;
    const char *const *marks; /* texts that begin a block of calls, none of which begins another; NULL-terminated */
    /* Whether a chat template is of this family. */
    bool (*fits)(const char *source, size_t bytes);
    void (*begin)(struct serve_parser *p, size_t mark); /* a mark was taken (it is in `raw`) */
    enum serve_step (*step)(struct serve_parser *p);    /* inside a block; ends it by serve_done or serve_abandon */
    /* May be NULL. Whether a block begins here without a mark, `at` bytes on (behind blanks), where the answer begins.
     */
    enum serve_look (*at_start)(const struct serve_parser *p, size_t at);
    /* May be NULL. Adds the heads of calls that begin without a mark to a list of strings. False: no memory. */
    bool (*heads)(json_t *list, const struct serve_tool *tools, size_t n_tools);
    bool marks_end_reasoning; /* a mark inside of reasoning ends it */
    bool marks_are_messages;  /* blocks are not calls alone: they are looked for without tools as well */
    const void *style;        /* for parts that several families share */
};

enum serve_mode { SERVE_MODE_START, SERVE_MODE_REASONING, SERVE_MODE_TEXT, SERVE_MODE_BLOCK };

struct serve_parser {
    const struct serve_family *family;
    struct serve_tool *tools;
    size_t n_tools;
    char *names; /* theirs */
    bool no_reasoning, hold;
    const char *think_begin, *think_end; /* NULL: none */
    bool think_known;                    /* the template has them */
    serve_event_fn *event;
    void *user;

    struct serve_text in; /* [at, whole) is to be read; behind it an unfinished character */
    size_t at, whole;
    bool over, no_memory;

    enum serve_mode mode;
    bool trim;                /* blanks are dropped until something else comes */
    bool gap;                 /* an empty line goes before the next text */
    bool reasoning_begins;    /* nothing of it was seen yet */
    bool reasoning_cut;       /* by a mark of calls */
    bool settled;             /* only text comes */
    struct serve_text blanks; /* behind the last text given out */
    struct serve_text raw;    /* taken, but not in an event yet: becomes text if this is no call after all */
    struct serve_text out;

    /* the call */
    size_t n_calls;
    bool calling, arguments_whole;
    struct serve_text name, id, arguments; /* arguments: with `hold` */
    size_t told;                           /* bytes of `raw` that those hold */

    /* the family's part */
    int state, part; /* part: of several ways to write */
    struct serve_json json;
    struct serve_text word, early; /* a key or value that is being collected; arguments that came before the name */
    unsigned nest, key;
    bool list, checked, first, escaped;
    uint32_t kinds;
    size_t seen; /* bytes from `at` on that were looked through already */
};

/* ---- texts ---- */
void serve_text_put(struct serve_parser *p, struct serve_text *t, const char *text, size_t bytes);
const char *serve_text_string(struct serve_parser *p, struct serve_text *t); /* terminated; "" without memory */

/* ---- what is to be read ---- */
static inline size_t serve_left(const struct serve_parser *p) { return p->whole - p->at; }
static inline const char *serve_here(const struct serve_parser *p) { return p->in.at + p->at; }
bool serve_is_blank(char c);
size_t serve_blanks(const struct serve_parser *p, size_t at); /* their number, `at` bytes on */
/* Whether `mark` stands `at` bytes on. MORE: what is there begins it. */
enum serve_look serve_look(const struct serve_parser *p, size_t at, const char *mark);
/* The first of the marks (NULL-terminated) at or behind `from`, at most at `most`. YES: *at, *which; MORE: one may
 * begin at *at; NO: *at is the end, or most + 1. */
enum serve_look serve_find(const struct serve_parser *p, size_t from, size_t most, const char *const *marks, size_t *at,
                           size_t *which);
void serve_take(struct serve_parser *p, size_t bytes); /* into raw */
void serve_drop(struct serve_parser *p, size_t bytes); /* it is in an event, or a mark of reasoning or of a message */
/* Takes blanks, then `mark` if it is there. */
enum serve_look serve_take_mark(struct serve_parser *p, const char *mark);

/* ---- giving ---- */
/* Text of the answer or of the reasoning: blanks at its end are held. */
void serve_put(struct serve_parser *p, enum serve_event_kind kind, const char *text, size_t bytes);
/* Whether a call of this name may begin here: it may be a tool's, and there are not too many calls yet. */
bool serve_name_fits(const struct serve_parser *p, const char *name, size_t bytes);
bool serve_tool_is_known(const struct serve_parser *p, const char *name);
const json_t *serve_tool_parameters(const struct serve_parser *p, const char *name); /* or NULL */
/* A call begins; `raw` is in an event with that. */
void serve_call(struct serve_parser *p, const char *name, size_t bytes, const char *id, size_t id_bytes);
void serve_arguments(struct serve_parser *p, const char *text, size_t bytes);
/* Takes JSON from here on and gives it out as arguments. PAST does not occur: it is an object. */
enum serve_json_step serve_stream_json(struct serve_parser *p);
void serve_call_ends(struct serve_parser *p, bool whole);
void serve_forget(struct serve_parser *p); /* what `raw` holds were marks and blanks */
void serve_done(struct serve_parser *p);   /* the block is over, and likewise */
/* This is no call, or none any more: `raw` is text. */
void serve_abandon(struct serve_parser *p);

/* Whether text[0, bytes) holds the string; for serve_family.fits. */
bool serve_holds(const char *text, size_t bytes, const char *what);

#endif
