#include "serve/toolcall_named.h"

#include <string.h>

enum { BETWEEN, HEAD, ARGUMENTS, TAIL };

void serve_named_begin(struct serve_parser *p, bool section)
{
    p->state = section ? BETWEEN : HEAD;
    p->first = section;
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

/* Before a call: another one, or the end of them. */
static enum serve_step between(struct serve_parser *p, const struct serve_named_style *s)
{
    const enum serve_look call = serve_take_mark(p, s->call_begin);
    if (call == SERVE_LOOK_YES) return to(p, HEAD);
    if (s->section_end) {
        const enum serve_look end = serve_look(p, 0, s->section_end);
        if (end == SERVE_LOOK_MORE) return SERVE_STEP_MORE;
        if (end == SERVE_LOOK_YES && !p->first) {
            serve_take(p, strlen(s->section_end));
            serve_done(p);
            return SERVE_STEP_ON;
        }
    }
    if (call == SERVE_LOOK_MORE) return SERVE_STEP_MORE;
    if (p->first) return abandon(p);
    serve_done(p);
    return SERVE_STEP_ON;
}

/* From the mark to the brace. A call without arguments has its end mark in place of that. */
static enum serve_step head(struct serve_parser *p, const struct serve_named_style *s)
{
    const char *const marks[] = {"{", s->call_begin, s->call_end, NULL};
    struct serve_named_head h = {0};
    size_t at, which;
    const enum serve_look look = serve_find(p, 0, SERVE_HEAD_BYTES_MAX, marks, &at, &which);
    if (at > SERVE_HEAD_BYTES_MAX) return abandon(p);
    if (look != SERVE_LOOK_YES) return SERVE_STEP_MORE;
    size_t begin = serve_blanks(p, 0), end = at;
    while (end > begin && serve_is_blank(serve_here(p)[end - 1])) end--;
    if (which == 1 || begin > end || !s->read(serve_here(p) + begin, end - begin, &h) ||
        !serve_name_fits(p, h.name, h.name_bytes))
        return abandon(p);
    /* Copied before what they point to is taken. */
    char name[SERVE_NAME_BYTES_MAX], id[SERVE_HEAD_BYTES_MAX];
    memcpy(name, h.name, h.name_bytes);
    if (h.id) memcpy(id, h.id, h.id_bytes);
    serve_take(p, at);
    serve_call(p, name, h.name_bytes, id, h.id ? h.id_bytes : 0);
    p->json = (struct serve_json){0};
    if (which == 0) return to(p, ARGUMENTS);
    serve_arguments(p, "{}", 2);
    p->arguments_whole = true;
    serve_call_ends(p, true);
    return to(p, TAIL);
}

static enum serve_step tail(struct serve_parser *p, const struct serve_named_style *s)
{
    enum serve_look look = serve_take_mark(p, "```"); /* DeepSeek V3 */
    if (look == SERVE_LOOK_MORE) return SERVE_STEP_MORE;
    if (s->call_end) look = serve_take_mark(p, s->call_end);
    if (look == SERVE_LOOK_MORE) return SERVE_STEP_MORE;
    serve_forget(p);
    p->first = false;
    return to(p, BETWEEN);
}

enum serve_step serve_named_step(struct serve_parser *p, const struct serve_named_style *s)
{
    switch (p->state) {
    case BETWEEN: return between(p, s);
    case HEAD: return head(p, s);
    case TAIL: return tail(p, s);
    default: break;
    }
    if (!serve_left(p)) return SERVE_STEP_MORE;
    const enum serve_json_step step = serve_stream_json(p);
    if (step == SERVE_JSON_BAD) return abandon(p);
    if (step == SERVE_JSON_MORE) return SERVE_STEP_MORE;
    serve_call_ends(p, true);
    return to(p, TAIL);
}
