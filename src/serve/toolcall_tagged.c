/* A value that the schema says is a string is given out as it comes; others are collected, for only the whole shows
 * what they are. A value may hold its own end mark (a program about such marks does): it ends where something that may
 * follow a parameter follows the mark. */
#include "serve/toolcall_tagged.h"

#include "serve/toolcall_kinds.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK, NAME, PARAMETERS, KEY, ATTRIBUTES, VALUE_BEGINS, VALUE, AFTER };

void serve_tagged_begin(struct serve_parser *p, bool block)
{
    p->state = block ? BLOCK : NAME;
    p->first = block;
}

static enum serve_step to(struct serve_parser *p, int state)
{
    p->state = state;
    p->seen = 0;
    return SERVE_STEP_ON;
}

static enum serve_step abandon(struct serve_parser *p)
{
    serve_abandon(p);
    return SERVE_STEP_ON;
}

/* Before a call. */
static enum serve_step block(struct serve_parser *p, const struct serve_tagged_style *s)
{
    if (!*s->call_begin) {
        const bool named = p->first;
        if (!named) serve_done(p);
        return named ? to(p, NAME) : SERVE_STEP_ON;
    }
    const enum serve_look call = serve_take_mark(p, s->call_begin);
    if (call == SERVE_LOOK_YES) return to(p, NAME);
    if (!serve_left(p) && !p->over) return SERVE_STEP_MORE;
    const enum serve_look end = serve_look(p, 0, s->block_end);
    if (call == SERVE_LOOK_MORE || end == SERVE_LOOK_MORE) return SERVE_STEP_MORE;
    if (p->first) return abandon(p);
    if (end == SERVE_LOOK_YES) serve_take(p, strlen(s->block_end));
    serve_done(p);
    return SERVE_STEP_ON;
}

static enum serve_step name(struct serve_parser *p, const struct serve_tagged_style *s)
{
    const char *const ends[] = {s->name_end ? s->name_end : s->parameter_begin, s->call_end, s->name_end ? NULL : "\n",
                                NULL};
    size_t at, which, begin = serve_blanks(p, 0);
    if (s->name_end) begin = 0;
    const enum serve_look look = serve_find(p, begin, begin + SERVE_NAME_BYTES_MAX, ends, &at, &which);
    if (at > SERVE_NAME_BYTES_MAX + begin || begin > SERVE_HEAD_BYTES_MAX) return abandon(p);
    if (look != SERVE_LOOK_YES) return SERVE_STEP_MORE;
    size_t end = at;
    while (end > begin && !s->name_end && serve_is_blank(serve_here(p)[end - 1])) end--;
    if ((s->name_end && which) || !serve_name_fits(p, serve_here(p) + begin, end - begin)) return abandon(p);
    char text[SERVE_NAME_BYTES_MAX];
    memcpy(text, serve_here(p) + begin, end - begin);
    serve_take(p, s->name_end ? at + strlen(s->name_end) : at);
    serve_call(p, text, end - begin, NULL, 0);
    serve_text_string(p, &p->name);
    p->first = true; /* parameter */
    return to(p, PARAMETERS);
}

static enum serve_step call_ends(struct serve_parser *p)
{
    serve_arguments(p, p->first ? "{}" : "}", p->first ? 2 : 1);
    p->arguments_whole = true;
    serve_call_ends(p, true);
    serve_forget(p);
    p->first = false;
    return to(p, AFTER);
}

static enum serve_step parameters(struct serve_parser *p, const struct serve_tagged_style *s)
{
    const enum serve_look parameter = serve_take_mark(p, s->parameter_begin);
    if (parameter == SERVE_LOOK_YES) return to(p, KEY);
    if (!serve_left(p)) return SERVE_STEP_MORE;
    const enum serve_look end = serve_look(p, 0, s->call_end), all = serve_look(p, 0, s->block_end);
    if (end == SERVE_LOOK_YES) {
        serve_take(p, strlen(s->call_end));
        return call_ends(p);
    }
    if (all == SERVE_LOOK_YES) return call_ends(p); /* the call's own end mark is missing */
    if (parameter == SERVE_LOOK_MORE || end == SERVE_LOOK_MORE || all == SERVE_LOOK_MORE) return SERVE_STEP_MORE;
    return abandon(p);
}

static enum serve_step key(struct serve_parser *p, const struct serve_tagged_style *s)
{
    const char *const ends[] = {s->key_end, NULL};
    size_t at, which;
    const enum serve_look look = serve_find(p, 0, SERVE_NAME_BYTES_MAX, ends, &at, &which);
    if (at > SERVE_NAME_BYTES_MAX) return abandon(p);
    if (look != SERVE_LOOK_YES) return SERVE_STEP_MORE;
    if (!at || memchr(serve_here(p), '\n', at) || memchr(serve_here(p), '<', at)) return abandon(p);
    p->word.bytes = 0;
    serve_text_put(p, &p->word, serve_here(p), at);
    p->kinds = serve_kinds(serve_tool_parameters(p, p->name.at), serve_text_string(p, &p->word));
    serve_take(p, at + strlen(s->key_end));
    return to(p, s->attributes ? ATTRIBUTES : VALUE_BEGINS);
}

static enum serve_step attributes(struct serve_parser *p)
{
    const char *const ends[] = {">", NULL};
    size_t at, which;
    const enum serve_look look = serve_find(p, 0, SERVE_HEAD_BYTES_MAX, ends, &at, &which);
    if (at > SERVE_HEAD_BYTES_MAX) return abandon(p);
    if (look != SERVE_LOOK_YES) return SERVE_STEP_MORE;
    if (at == 14 && !memcmp(serve_here(p), " string=\"true\"", 14))
        p->kinds = SERVE_KIND_STRING;
    else if (at == 15 && !memcmp(serve_here(p), " string=\"false\"", 15))
        p->kinds = SERVE_KIND_ANY;
    else if (at)
        return abandon(p);
    serve_take(p, at + 1);
    return to(p, VALUE_BEGINS);
}

static void put_string(struct serve_parser *p, struct serve_text *out, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        char escape[6];
        serve_text_put(p, out, escape, serve_json_escape((unsigned char)text[i], escape));
    }
}

/* Gives out `"key": ` and, of a string, the first quote. */
static void give_key(struct serve_parser *p, bool string)
{
    struct serve_text *out = &p->early;
    out->bytes = 0;
    serve_text_put(p, out, p->first ? "{\"" : ", \"", p->first ? 2 : 3);
    put_string(p, out, p->word.at, p->word.bytes);
    serve_text_put(p, out, "\": \"", string ? 4 : 3);
    serve_arguments(p, out->at, out->bytes);
    p->first = false;
}

static enum serve_step value_begins(struct serve_parser *p, const struct serve_tagged_style *s)
{
    if (s->value_begin) {
        const enum serve_look look = serve_take_mark(p, s->value_begin);
        if (look == SERVE_LOOK_MORE) return SERVE_STEP_MORE;
        if (look == SERVE_LOOK_NO) return abandon(p);
    }
    if (s->own_lines) {
        if (!serve_left(p)) return SERVE_STEP_MORE;
        if (*serve_here(p) == '\n') serve_take(p, 1);
    }
    p->escaped = p->kinds == SERVE_KIND_STRING;
    if (p->escaped) give_key(p, true);
    return to(p, VALUE);
}

/* Whether the end mark at `at` ends the value: something that may follow a parameter follows it. */
static enum serve_look ends_here(const struct serve_parser *p, const struct serve_tagged_style *s, size_t at)
{
    const char *const followers[] = {s->parameter_begin, s->call_end, s->block_end};
    at += strlen(s->parameter_end);
    const size_t blanks = serve_blanks(p, at);
    if (blanks > SERVE_GAP_BYTES_MAX) return SERVE_LOOK_NO;
    at += blanks;
    if (at == serve_left(p)) return p->over ? SERVE_LOOK_YES : SERVE_LOOK_MORE;
    enum serve_look best = SERVE_LOOK_NO;
    for (size_t i = 0; i < sizeof followers / sizeof *followers; i++) {
        const enum serve_look look = serve_look(p, at, followers[i]);
        if (look == SERVE_LOOK_YES) return look;
        if (look == SERVE_LOOK_MORE) best = look;
    }
    return best;
}

static void give_part(struct serve_parser *p, size_t bytes)
{
    p->early.bytes = 0;
    put_string(p, &p->early, serve_here(p), bytes);
    serve_take(p, bytes);
    if (p->early.bytes) serve_arguments(p, p->early.at, p->early.bytes);
}

static enum serve_step value_ends(struct serve_parser *p, const struct serve_tagged_style *s, size_t at)
{
    const bool line = s->own_lines && at && serve_here(p)[at - 1] == '\n';
    const size_t bytes = at - line;
    if (p->escaped) {
        give_part(p, bytes);
        serve_take(p, line + strlen(s->parameter_end));
        serve_arguments(p, "\"", 1);
        return to(p, PARAMETERS);
    }
    char *value = serve_value_of(serve_here(p), bytes, p->kinds);
    if (!value) {
        p->no_memory = true;
        return SERVE_STEP_ON;
    }
    serve_take(p, at + strlen(s->parameter_end));
    give_key(p, false);
    serve_arguments(p, value, strlen(value));
    free(value);
    return to(p, PARAMETERS);
}

static enum serve_step value(struct serve_parser *p, const struct serve_tagged_style *s)
{
    const char *const ends[] = {s->parameter_end, NULL};
    size_t at = p->seen, which;
    for (;; at++) {
        const enum serve_look mark = serve_find(p, at, SIZE_MAX, ends, &at, &which);
        if (mark != SERVE_LOOK_YES) break;
        const enum serve_look look = ends_here(p, s, at);
        if (look == SERVE_LOOK_YES) return value_ends(p, s, at);
        if (look == SERVE_LOOK_MORE) break;
    }
    if (!p->escaped) {
        p->seen = at;
        return SERVE_STEP_MORE;
    }
    if (s->own_lines && at && serve_here(p)[at - 1] == '\n') at--; /* it may be the value's last line break */
    if (at) give_part(p, at);
    return SERVE_STEP_MORE;
}

enum serve_step serve_tagged_step(struct serve_parser *p, const struct serve_tagged_style *s)
{
    switch (p->state) {
    case BLOCK: return block(p, s);
    case NAME: return name(p, s);
    case PARAMETERS: return parameters(p, s);
    case KEY: return key(p, s);
    case ATTRIBUTES: return attributes(p);
    case VALUE_BEGINS: return value_begins(p, s);
    case VALUE: return value(p, s);
    default: return block(p, s);
    }
}
