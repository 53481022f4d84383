/* gpt-oss: the whole answer is messages, <|start|>assistant<|channel|>CHANNEL<|message|>...<|end|>, of which the prompt
 * holds "<|start|>assistant" of the first. Channel analysis is reasoning; final and commentary are text; a recipient
 * ("to=functions.f", in the role or in the channel) makes it a call whose arguments are the message. */
#include "serve/toolcall_families.h"

#include <string.h>

enum { HEADER, REASONING, TEXT, CALL, ARGUMENTS, TAIL };

static const char *const marks[] = {"<|start|>", "<|channel|>", NULL};
static const char *const ends[] = {"<|end|>", "<|return|>", "<|call|>", "<|start|>", "<|channel|>", NULL};
static const char *const none[] = {NULL};
enum { ENDS_TAKEN = 3 }; /* of those, the ones that are part of the message */

static bool fits(const char *source, size_t bytes)
{
    return serve_holds(source, bytes, "<|channel|>") && serve_holds(source, bytes, "<|message|>") &&
           serve_holds(source, bytes, "functions");
}

static void begin(struct serve_parser *p, size_t mark) { p->state = HEADER; }

static enum serve_look at_start(const struct serve_parser *p, size_t at) { return serve_look(p, at, "to=functions."); }

bool serve_harmony_answers(const struct serve_parser *p) { return p->state == TEXT; }

/* Behind `what` in the header up to a blank, '<' or its end; "" if that is not there. */
static const char *part_of(const struct serve_parser *p, const char *what, size_t *bytes)
{
    const char *text = p->raw.at, *end = text + p->raw.bytes, *at = memmem(text, p->raw.bytes, what, strlen(what));
    *bytes = 0;
    if (!at) return "";
    at += strlen(what);
    while (at + *bytes < end && at[*bytes] != '<' && !serve_is_blank(at[*bytes])) ++*bytes;
    return at;
}

static enum serve_step to(struct serve_parser *p, int state)
{
    p->state = state;
    return SERVE_STEP_ON;
}

static enum serve_step abandon(struct serve_parser *p)
{
    serve_abandon(p);
    return SERVE_STEP_ON;
}

static bool is_header(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (text[i] < ' ' || text[i] > '~') return false;
    return true;
}

static enum serve_step header_step(struct serve_parser *p)
{
    static const char *const stops[] = {"<|message|>", "<|start|>", "<|end|>", NULL};
    static const char prefix[] = "functions.";
    size_t at, which, channel_bytes, name_bytes;
    const enum serve_look look = serve_find(p, 0, SERVE_HEAD_BYTES_MAX, stops, &at, &which);
    if (at > SERVE_HEAD_BYTES_MAX) return abandon(p);
    if (look != SERVE_LOOK_YES) return SERVE_STEP_MORE;
    if (which || !is_header(serve_here(p), at)) return abandon(p);
    serve_take(p, at);
    const char *name = part_of(p, "to=", &name_bytes), *channel = part_of(p, "<|channel|>", &channel_bytes);
    const bool analysis = channel_bytes == 8 && !memcmp(channel, "analysis", 8);
    if (name_bytes > sizeof prefix - 1 && !memcmp(name, prefix, sizeof prefix - 1)) {
        name += sizeof prefix - 1;
        name_bytes -= sizeof prefix - 1;
    }
    const bool call = p->n_tools && serve_name_fits(p, name, name_bytes), addressed = name_bytes;
    p->name.bytes = 0;
    if (call) serve_text_put(p, &p->name, name, name_bytes);
    serve_take(p, strlen(stops[0]));
    if (call) return to(p, CALL);
    if (addressed) return abandon(p); /* to somebody that is not there */
    serve_forget(p);
    p->blanks.bytes = 0;
    p->trim = analysis;
    return to(p, analysis && !p->no_reasoning ? REASONING : TEXT);
}

static enum serve_step body_step(struct serve_parser *p)
{
    const bool text = p->state == TEXT;
    size_t at, which;
    const enum serve_look look = serve_find(p, 0, SIZE_MAX, p->settled ? none : ends, &at, &which);
    serve_put(p, text ? SERVE_EVENT_TEXT : SERVE_EVENT_REASONING, serve_here(p), at);
    serve_drop(p, at);
    if (look != SERVE_LOOK_YES) {
        if (p->over && !text) p->blanks.bytes = 0;
        return SERVE_STEP_MORE;
    }
    if (which < ENDS_TAKEN) serve_drop(p, strlen(ends[which]));
    p->blanks.bytes = 0;
    p->gap = p->gap || text;
    p->trim = true;
    serve_done(p);
    return SERVE_STEP_ON;
}

static enum serve_step call_step(struct serve_parser *p)
{
    serve_take(p, serve_blanks(p, 0));
    if (!serve_left(p)) return SERVE_STEP_MORE;
    if (*serve_here(p) != '{') return abandon(p);
    serve_call(p, p->name.at, p->name.bytes, NULL, 0);
    p->json = (struct serve_json){0};
    return to(p, ARGUMENTS);
}

static enum serve_step arguments_step(struct serve_parser *p)
{
    if (!serve_left(p)) return SERVE_STEP_MORE;
    const enum serve_json_step step = serve_stream_json(p);
    if (step == SERVE_JSON_BAD) return abandon(p);
    if (step == SERVE_JSON_MORE) return SERVE_STEP_MORE;
    serve_call_ends(p, true);
    return to(p, TAIL);
}

static enum serve_step tail_step(struct serve_parser *p)
{
    for (size_t i = 0; i < ENDS_TAKEN; i++) {
        const enum serve_look look = serve_take_mark(p, ends[i]);
        if (look == SERVE_LOOK_MORE) return SERVE_STEP_MORE;
        if (look == SERVE_LOOK_YES) break;
    }
    serve_done(p);
    return SERVE_STEP_ON;
}

static enum serve_step step(struct serve_parser *p)
{
    switch (p->state) {
    case HEADER: return header_step(p);
    case CALL: return call_step(p);
    case ARGUMENTS: return arguments_step(p);
    case TAIL: return tail_step(p);
    default: return body_step(p);
    }
}

const struct serve_family serve_harmony = {.name = "harmony",
                                           .marks = marks,
                                           .fits = fits,
                                           .begin = begin,
                                           .step = step,
                                           .at_start = at_start,
                                           .marks_are_messages = true};
