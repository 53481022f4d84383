/* What the families' parts share: looking, taking, giving. */
#include "serve/toolcall_parser.h"

#include <stdlib.h>
#include <string.h>

/* ---- texts ---- */

void serve_text_put(struct serve_parser *p, struct serve_text *t, const char *text, size_t bytes)
{
    if (p->no_memory || !bytes) return;
    if (t->room - t->bytes <= bytes) {
        const size_t room = (t->bytes + bytes + 1) * 2;
        char *at = room > bytes ? realloc(t->at, room) : NULL;
        if (!at) {
            p->no_memory = true;
            return;
        }
        t->at = at;
        t->room = room;
    }
    memcpy(t->at + t->bytes, text, bytes);
    t->bytes += bytes;
}

const char *serve_text_string(struct serve_parser *p, struct serve_text *t)
{
    serve_text_put(p, t, "", 1); /* makes room and writes the NUL */
    if (p->no_memory) return "";
    t->bytes--;
    return t->at;
}

bool serve_holds(const char *text, size_t bytes, const char *what) { return memmem(text, bytes, what, strlen(what)); }

/* ---- what is to be read ---- */

bool serve_is_blank(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

size_t serve_blanks(const struct serve_parser *p, size_t at)
{
    size_t n = 0;
    while (at + n < serve_left(p) && serve_is_blank(serve_here(p)[at + n])) n++;
    return n;
}

enum serve_look serve_look(const struct serve_parser *p, size_t at, const char *mark)
{
    const size_t left = serve_left(p) - at, bytes = strlen(mark);
    if (left >= bytes) return memcmp(serve_here(p) + at, mark, bytes) ? SERVE_LOOK_NO : SERVE_LOOK_YES;
    return !p->over && !memcmp(serve_here(p) + at, mark, left) ? SERVE_LOOK_MORE : SERVE_LOOK_NO;
}

enum serve_look serve_find(const struct serve_parser *p, size_t from, size_t most, const char *const *marks, size_t *at,
                           size_t *which)
{
    for (*at = from; *at < serve_left(p) && *at <= most; ++*at) {
        bool more = false;
        for (*which = 0; marks[*which]; ++*which) {
            if (serve_here(p)[*at] != marks[*which][0]) continue;
            const enum serve_look look = serve_look(p, *at, marks[*which]);
            if (look == SERVE_LOOK_YES) return look;
            more = more || look == SERVE_LOOK_MORE;
        }
        if (more) return SERVE_LOOK_MORE;
    }
    return SERVE_LOOK_NO;
}

void serve_drop(struct serve_parser *p, size_t bytes)
{
    p->at += bytes;
    p->seen = 0;
}

void serve_take(struct serve_parser *p, size_t bytes)
{
    serve_text_put(p, &p->raw, serve_here(p), bytes);
    serve_drop(p, bytes);
}

enum serve_look serve_take_mark(struct serve_parser *p, const char *mark)
{
    serve_take(p, serve_blanks(p, 0));
    if (!serve_left(p) && !p->over) return SERVE_LOOK_MORE;
    const enum serve_look look = serve_look(p, 0, mark);
    if (look == SERVE_LOOK_YES) serve_take(p, strlen(mark));
    return look;
}

/* ---- giving ---- */

static void give(struct serve_parser *p, struct serve_event e)
{
    if (p->no_memory || (!e.bytes && e.kind != SERVE_EVENT_CALL_END)) return;
    if (e.bytes) {
        p->out.bytes = 0;
        serve_text_put(p, &p->out, e.text, e.bytes);
        e.text = serve_text_string(p, &p->out);
        if (p->no_memory) return;
    } else
        e.text = "";
    p->event(p->user, &e);
}

void serve_put(struct serve_parser *p, enum serve_event_kind kind, const char *text, size_t bytes)
{
    if (!bytes) return; /* text may be NULL then */
    while (p->trim && bytes && serve_is_blank(*text)) {
        text++;
        bytes--;
    }
    size_t tail = 0;
    while (tail < bytes && serve_is_blank(text[bytes - 1 - tail])) tail++;
    if (bytes > tail) {
        if (p->gap && kind == SERVE_EVENT_TEXT) give(p, (struct serve_event){.kind = kind, .text = "\n\n", .bytes = 2});
        if (kind == SERVE_EVENT_TEXT) p->gap = false;
        p->trim = false;
        give(p, (struct serve_event){.kind = kind, .text = p->blanks.at, .bytes = p->blanks.bytes});
        p->blanks.bytes = 0;
        give(p, (struct serve_event){.kind = kind, .text = text, .bytes = bytes - tail});
    }
    serve_text_put(p, &p->blanks, text + bytes - tail, tail);
}

bool serve_name_fits(const struct serve_parser *p, const char *name, size_t bytes)
{
    if (p->n_calls >= SERVE_CALLS_MAX) return false;
    if (!bytes || bytes > SERVE_NAME_BYTES_MAX) return false;
    for (size_t i = 0; i < bytes; i++)
        if ((unsigned char)name[i] <= ' ' || strchr("<>{}[]()\"'`,;\\|\177", name[i])) return false;
    return true;
}

static const struct serve_tool *tool_of(const struct serve_parser *p, const char *name)
{
    for (size_t i = 0; i < p->n_tools; i++)
        if (!strcmp(p->tools[i].name, name)) return &p->tools[i];
    return NULL;
}

bool serve_tool_is_known(const struct serve_parser *p, const char *name) { return tool_of(p, name); }

const json_t *serve_tool_parameters(const struct serve_parser *p, const char *name)
{
    const struct serve_tool *t = tool_of(p, name);
    return t ? t->parameters : NULL;
}

static void give_call(struct serve_parser *p)
{
    p->blanks.bytes = 0;
    give(p, (struct serve_event){.kind = SERVE_EVENT_CALL,
                                 .text = p->name.at,
                                 .bytes = p->name.bytes,
                                 .call = p->n_calls,
                                 .id = p->id.bytes ? serve_text_string(p, &p->id) : NULL});
}

void serve_call(struct serve_parser *p, const char *name, size_t bytes, const char *id, size_t id_bytes)
{
    if (p->name.at != name) {
        p->name.bytes = 0;
        serve_text_put(p, &p->name, name, bytes);
    }
    p->id.bytes = p->arguments.bytes = 0;
    serve_text_put(p, &p->id, id, id_bytes);
    p->calling = true;
    p->arguments_whole = false;
    p->told = p->raw.bytes;
    if (p->hold) return;
    p->raw.bytes = 0;
    give_call(p);
}

void serve_arguments(struct serve_parser *p, const char *text, size_t bytes)
{
    if (p->hold) {
        serve_text_put(p, &p->arguments, text, bytes);
        p->told = p->raw.bytes;
        return;
    }
    p->raw.bytes = 0;
    give(p, (struct serve_event){.kind = SERVE_EVENT_ARGUMENTS, .text = text, .bytes = bytes, .call = p->n_calls});
}

enum serve_json_step serve_stream_json(struct serve_parser *p)
{
    enum serve_json_step step = SERVE_JSON_MORE;
    size_t n = 0;
    p->word.bytes = 0;
    while (n < serve_left(p) && step == SERVE_JSON_MORE) {
        const unsigned char c = (unsigned char)serve_here(p)[n];
        const bool forbidden = c < 0x20 && serve_json_in_string(&p->json);
        if ((step = serve_json_step(&p->json, c)) == SERVE_JSON_BAD) break;
        char escape[6];
        if (forbidden)
            serve_text_put(p, &p->word, escape, serve_json_escape(c, escape));
        else
            serve_text_put(p, &p->word, (const char *)&c, 1);
        n++;
    }
    serve_take(p, n);
    if (p->word.bytes) serve_arguments(p, p->word.at, p->word.bytes);
    p->arguments_whole = step == SERVE_JSON_WHOLE;
    return step;
}

void serve_call_ends(struct serve_parser *p, bool whole)
{
    if (p->hold) {
        give_call(p);
        give(p, (struct serve_event){.kind = SERVE_EVENT_ARGUMENTS,
                                     .text = p->arguments.at,
                                     .bytes = p->arguments.bytes,
                                     .call = p->n_calls});
        p->raw.bytes -= p->told;
        if (p->raw.bytes) memmove(p->raw.at, p->raw.at + p->told, p->raw.bytes);
    }
    give(p, (struct serve_event){.kind = SERVE_EVENT_CALL_END, .call = p->n_calls, .whole = whole});
    p->calling = false;
    p->trim = true;
    p->n_calls++;
}

void serve_forget(struct serve_parser *p) { p->raw.bytes = 0; }

void serve_done(struct serve_parser *p)
{
    serve_forget(p);
    p->mode = SERVE_MODE_TEXT;
}

void serve_abandon(struct serve_parser *p)
{
    if (p->calling && (p->arguments_whole || !p->hold)) serve_call_ends(p, p->arguments_whole);
    p->calling = false;
    p->mode = SERVE_MODE_TEXT;
    serve_put(p, SERVE_EVENT_TEXT, p->raw.at, p->raw.bytes);
    p->raw.bytes = 0;
}
