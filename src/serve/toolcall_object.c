/* One state a place in the object. Arguments are given out as they come if the name came before them; else they are
 * kept until it is there. An object that lacks its last brace is a call all the same, for small models write such. */
#include "serve/toolcall_object.h"

#include <stdlib.h>
#include <string.h>

enum { OPEN, ITEM, FIRST_KEY, KEY, KEY_TEXT, COLON, VALUE, COLLECT, STREAM, SKIP, NEXT, AFTER, CLOSED };
enum { NAME, ARGUMENTS, ID, WRAPPER, OTHER, UNKNOWN };

void serve_object_begin(struct serve_parser *p, bool checked)
{
    p->state = OPEN;
    p->checked = checked;
    p->list = false;
}

static void begin_object(struct serve_parser *p)
{
    p->state = FIRST_KEY;
    p->nest = 0;
    p->name.bytes = p->id.bytes = p->early.bytes = 0;
    p->arguments_whole = false;
}

static unsigned key_of(const char *text)
{
    if (!strcmp(text, "name")) return NAME;
    if (!strcmp(text, "arguments") || !strcmp(text, "parameters")) return ARGUMENTS;
    if (!strcmp(text, "id")) return ID;
    if (!strcmp(text, "type") || !strcmp(text, "index")) return OTHER;
    return !strcmp(text, "function") ? WRAPPER : UNKNOWN;
}

static json_t *parse(const struct serve_text *t)
{
    json_error_t why;
    return json_loadb(t->at, t->bytes, JSON_DECODE_ANY | JSON_ALLOW_NUL, &why);
}

static bool give_early(struct serve_parser *p)
{
    if (p->checked && !serve_tool_is_known(p, p->name.at)) return false;
    char id[SERVE_NAME_BYTES_MAX];
    const size_t id_bytes = p->id.bytes <= sizeof id ? p->id.bytes : 0;
    if (id_bytes) memcpy(id, p->id.at, id_bytes);
    serve_call(p, p->name.at, p->name.bytes, id, id_bytes);
    serve_arguments(p, p->early.at, p->early.bytes);
    p->arguments_whole = true;
    return true;
}

/* Arguments that were collected: an object, one inside a string, or null. */
static bool arguments_collected(struct serve_parser *p, const json_t *value)
{
    p->early.bytes = 0;
    if (json_is_null(value))
        serve_text_put(p, &p->early, "{}", 2);
    else if (json_is_object(value))
        serve_text_put(p, &p->early, p->word.at, p->word.bytes);
    else if (json_is_string(value)) {
        json_error_t why;
        json_t *inner = json_loadb(json_string_value(value), json_string_length(value), JSON_ALLOW_NUL, &why);
        const bool object = json_is_object(inner);
        json_decref(inner);
        if (!object) return false;
        serve_text_put(p, &p->early, json_string_value(value), json_string_length(value));
    } else
        return false;
    return !p->name.bytes || give_early(p);
}

static bool collected(struct serve_parser *p)
{
    json_t *value = parse(&p->word);
    bool good = value;
    p->state = NEXT;
    if (good && p->key == ARGUMENTS)
        good = arguments_collected(p, value);
    else if (good && json_is_string(value) && p->key == NAME) {
        const char *name = json_string_value(value);
        good = !p->name.bytes && serve_name_fits(p, name, json_string_length(value));
        good = good && (!p->checked || serve_tool_is_known(p, name));
        if (good) {
            serve_text_put(p, &p->name, name, json_string_length(value));
            serve_text_string(p, &p->name);
            if (p->early.bytes) good = give_early(p);
        }
    } else if (good && json_is_string(value) && p->key == ID && !p->calling)
        serve_text_put(p, &p->id, json_string_value(value), json_string_length(value));
    else if (p->key == NAME)
        good = false;
    json_decref(value);
    return good;
}

/* The first byte of a value. False: there cannot be one (a second name, more arguments, a key that means nothing). */
static bool value_begins(struct serve_parser *p, char c)
{
    if (p->key == UNKNOWN || (p->key == NAME && p->name.bytes)) return false;
    if (p->key == ARGUMENTS && (p->calling || p->early.bytes)) return false;
    if (p->key == ID && c != '"') p->key = OTHER;
    p->json = (struct serve_json){0};
    p->word.bytes = 0;
    if (p->key == WRAPPER && c == '{') {
        serve_take(p, 1);
        p->nest++;
        p->state = FIRST_KEY;
        return p->nest < SERVE_JSON_NEST_MAX;
    }
    if (p->key == WRAPPER) p->key = c == '"' && !p->name.bytes ? NAME : OTHER;
    if (p->key == ARGUMENTS && c == '{' && p->name.bytes) {
        char id[SERVE_NAME_BYTES_MAX];
        const size_t id_bytes = p->id.bytes <= sizeof id ? p->id.bytes : 0;
        if (id_bytes) memcpy(id, p->id.at, id_bytes);
        serve_call(p, p->name.at, p->name.bytes, id, id_bytes);
        p->state = STREAM;
    } else
        p->state = p->key == OTHER ? SKIP : COLLECT;
    return true;
}

/* One more byte of a value that is looked at as a whole. False: it went wrong. */
static bool collect(struct serve_parser *p, char c)
{
    const bool forbidden = (unsigned char)c < 0x20 && serve_json_in_string(&p->json);
    const enum serve_json_step step = serve_json_step(&p->json, (unsigned char)c);
    char escape[6];
    if (step == SERVE_JSON_BAD) return false;
    if (step == SERVE_JSON_PAST) {
        if (p->state != SKIP) return false;
        p->state = NEXT;
        return true;
    }
    *escape = c;
    if (p->state != SKIP)
        serve_text_put(p, &p->word, escape, forbidden ? serve_json_escape((unsigned char)c, escape) : 1);
    serve_take(p, 1);
    if (step == SERVE_JSON_MORE || p->no_memory) return true;
    if (p->state == COLLECT) return collected(p);
    if (p->state == SKIP) {
        p->state = NEXT;
        return true;
    }
    json_t *key = parse(&p->word);
    p->key = key ? key_of(json_string_value(key)) : UNKNOWN;
    json_decref(key);
    p->state = COLON;
    return true;
}

static bool object_closes(struct serve_parser *p)
{
    serve_take(p, 1);
    p->state = NEXT;
    if (p->nest) {
        p->nest--;
        return true;
    }
    if (!p->name.bytes) return false;
    if (!p->calling) {
        if (p->checked) return false;
        serve_text_put(p, &p->early, "{}", 2);
        if (!give_early(p)) return false;
    }
    serve_call_ends(p, true);
    serve_forget(p);
    p->state = AFTER;
    return true;
}

/* One byte, not a blank, at a place where only certain marks may stand. */
static bool mark(struct serve_parser *p, char c)
{
    const int state = p->state;
    if ((state == OPEN || state == ITEM) && c == '{') {
        serve_take(p, 1);
        begin_object(p);
        return true;
    }
    if ((state == FIRST_KEY || state == NEXT) && c == '}') return object_closes(p);
    if ((state == FIRST_KEY || state == KEY) && c == '"') {
        p->json = (struct serve_json){0};
        p->word.bytes = 0;
        p->state = KEY_TEXT;
        return collect(p, c);
    }
    if (state == NEXT && c == ',')
        p->state = KEY;
    else if (state == COLON && c == ':')
        p->state = VALUE;
    else
        return false;
    serve_take(p, 1);
    return true;
}

/* Behind an object. */
static enum serve_step after(struct serve_parser *p, const struct serve_object_style *style)
{
    serve_take(p, serve_blanks(p, 0));
    if (!serve_left(p) && !p->over) return SERVE_STEP_MORE;
    if (p->state == AFTER && serve_left(p) && p->list && strchr(",]", *serve_here(p))) {
        p->state = *serve_here(p) == ',' ? ITEM : CLOSED;
        serve_take(p, 1);
        return SERVE_STEP_ON;
    }
    if (p->state == AFTER && !p->list && style->separator) {
        const enum serve_look look = serve_look(p, 0, style->separator);
        if (look == SERVE_LOOK_MORE) return SERVE_STEP_MORE;
        if (look == SERVE_LOOK_YES) {
            serve_take(p, strlen(style->separator));
            p->state = ITEM;
            return SERVE_STEP_ON;
        }
    }
    if (style->end && serve_take_mark(p, style->end) == SERVE_LOOK_MORE) return SERVE_STEP_MORE;
    serve_done(p);
    return SERVE_STEP_ON;
}

static bool go_on(struct serve_parser *p, const struct serve_object_style *style)
{
    const char c = *serve_here(p);
    switch (p->state) {
    case KEY_TEXT:
    case COLLECT:
    case SKIP: return collect(p, c);
    case STREAM: {
        const enum serve_json_step step = serve_stream_json(p);
        if (step == SERVE_JSON_WHOLE) p->state = NEXT;
        return step != SERVE_JSON_BAD;
    }
    default: break;
    }
    if (serve_is_blank(c)) {
        serve_take(p, 1);
        return true;
    }
    if (p->state == VALUE) return value_begins(p, c);
    if (p->state == OPEN && c == '[' && style->array) {
        serve_take(p, 1);
        p->list = true;
        p->state = ITEM;
        return true;
    }
    return mark(p, c);
}

enum serve_step serve_object_step(struct serve_parser *p, const struct serve_object_style *style)
{
    if (p->state >= AFTER) return after(p, style);
    if (!serve_left(p)) return SERVE_STEP_MORE;
    if (go_on(p, style)) return SERVE_STEP_ON;
    if (p->calling && p->arguments_whole) { /* the last brace is missing */
        serve_call_ends(p, true);
        p->state = AFTER;
        size_t n = 0;
        while (n < p->raw.bytes && serve_is_blank(p->raw.at[n])) n++;
        if (n == p->raw.bytes) return SERVE_STEP_ON;
    }
    serve_abandon(p);
    return SERVE_STEP_ON;
}
