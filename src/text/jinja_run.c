#include "text/jinja_run.h"

#include "text/jinja_char.h"
#include "text/jinja_template.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char limit_hint[] = "the template does more than a chat template needs; use another template";

/* The message is put together before it is quoted: base_fail makes it printable. */
static void set_error(struct jinja_run *r, enum sluice_status status, const char *hint, const char *what)
{
    if (jinja_failed(r)) return;
    struct jinja_place p = jinja_place(r->t, r->at);
    r->status = base_fail(r->err, status, hint, "%s, line %zu, column %zu: %s", r->t->name, p.line, p.column, what);
}

struct jinja_value jinja_fail(struct jinja_run *r, const char *format, ...)
{
    if (!jinja_failed(r)) {
        char what[SLUICE_MESSAGE_BYTES_MAX];
        va_list args;
        va_start(args, format);
        vsnprintf(what, sizeof what, format, args);
        va_end(args);
        set_error(r, SLUICE_ERR_MODEL, NULL, what);
    }
    return jinja_undefined();
}

static void fail_limit(struct jinja_run *r, const char *what) { set_error(r, SLUICE_ERR_MODEL, limit_hint, what); }

void jinja_fail_memory(struct jinja_run *r)
{
    char what[160];
    if (r->arena.limited) {
        snprintf(what, sizeof what, "its values take more than %zu bytes of memory", r->limits.memory_bytes_max);
        fail_limit(r, what);
    } else {
        set_error(r, SLUICE_ERR_MEMORY, NULL, "the machine has no memory left for its values");
    }
}

bool jinja_can_hold(struct jinja_run *r, int64_t n, size_t bytes)
{
    if (n <= 0 || bytes == 0 || (uint64_t)n <= r->limits.memory_bytes_max / bytes) return !jinja_failed(r);
    r->arena.full = r->arena.limited = true;
    jinja_fail_memory(r);
    return false;
}

void jinja_charge(struct jinja_run *r, uint64_t steps)
{
    if (steps > r->limits.steps_max - r->steps) {
        char what[160];
        snprintf(what, sizeof what, "it takes more than %llu steps", (unsigned long long)r->limits.steps_max);
        fail_limit(r, what);
        r->steps = r->limits.steps_max;
        return;
    }
    const struct text_watch *w = &r->limits.watch;
    const uint64_t before = r->steps / JINJA_WATCH_STEPS;
    r->steps += steps;
    if (w->goes_on && r->steps / JINJA_WATCH_STEPS != before && !jinja_failed(r) && !w->goes_on(w->user))
        set_error(r, SLUICE_CANCELLED, NULL, "the rendering is given up");
}

bool jinja_enter(struct jinja_run *r)
{
    if (jinja_failed(r)) return false;
    if (r->depth >= r->limits.depth_max) {
        char what[160];
        snprintf(what, sizeof what, "it nests deeper than %u evaluations", r->limits.depth_max);
        fail_limit(r, what);
        return false;
    }
    r->depth++;
    return true;
}

/* ---- output ---- */

static bool grow_output(struct jinja_run *r, size_t more)
{
    struct text_rendered *o = &r->out;
    if (more > r->limits.output_bytes_max - o->bytes) {
        char what[160];
        snprintf(what, sizeof what, "it writes more than %zu bytes", r->limits.output_bytes_max);
        fail_limit(r, what);
        return false;
    }
    if (o->bytes + more + 1 <= r->out_room) return true;
    size_t room = (o->bytes + more + 1) * 2;
    char *grown = realloc(o->text, room);
    if (!grown) {
        set_error(r, SLUICE_ERR_MEMORY, NULL, "the machine has no memory left for what it writes");
        return false;
    }
    o->text = grown;
    r->out_room = room;
    return true;
}

static bool add_said(struct jinja_run *r, size_t begin, size_t end)
{
    struct text_rendered *o = &r->out;
    if (o->n_said > 0 && o->said[o->n_said - 1].end == begin) {
        o->said[o->n_said - 1].end = end;
        return true;
    }
    if (o->n_said == r->said_room) {
        size_t room = r->said_room * 2 + 16;
        struct text_range *grown = realloc(o->said, room * sizeof *grown);
        if (!grown) {
            set_error(r, SLUICE_ERR_MEMORY, NULL, "the machine has no memory left for what it writes");
            return false;
        }
        o->said = grown;
        r->said_room = room;
    }
    o->said[o->n_said++] = (struct text_range){begin, end};
    return true;
}

void jinja_write(struct jinja_run *r, struct jinja_value text)
{
    jinja_charge_bytes(r, text.bytes);
    if (jinja_failed(r) || text.bytes == 0 || !grow_output(r, text.bytes)) return;
    struct text_rendered *o = &r->out;
    memcpy(o->text + o->bytes, text.text, text.bytes);
    const char *marks = jinja_arena_marks(&r->arena, text.text);
    for (size_t i = 0; marks && i < text.bytes;) {
        size_t begin = i;
        while (i < text.bytes && marks[i] == marks[begin]) i++;
        if (marks[begin] && !add_said(r, o->bytes + begin, o->bytes + i)) return;
    }
    o->bytes += text.bytes;
    o->text[o->bytes] = '\0';
}

struct jinja_value jinja_take_written(struct jinja_run *r, size_t from)
{
    struct text_rendered *o = &r->out;
    if (jinja_failed(r)) return jinja_undefined();
    size_t bytes = o->bytes - from;
    struct jinja_value v = jinja_copy_text(r, bytes ? o->text + from : "", bytes);
    if (jinja_failed(r)) return v;
    char *marks = jinja_arena_marks(&r->arena, v.text);
    while (o->n_said > 0 && o->said[o->n_said - 1].end > from) {
        struct text_range *s = &o->said[o->n_said - 1];
        size_t begin = s->begin > from ? s->begin - from : 0;
        memset(marks + begin, 1, s->end - from - begin);
        if (s->begin < from) { /* the stretch began before: its first part stays */
            s->end = from;
            break;
        }
        o->n_said--;
    }
    o->bytes = from;
    return v;
}

/* ---- texts ---- */

static bool build_room(struct jinja_build *b, size_t more)
{
    if (jinja_failed(b->r)) return false;
    if (more > JINJA_TEXT_BYTES_MAX - b->n) {
        jinja_fail(b->r, "a text becomes longer than %d bytes", JINJA_TEXT_BYTES_MAX);
        return false;
    }
    if (b->n + more <= b->room) return true;
    size_t room = b->n + more + b->room + 32;
    if (b->at && jinja_arena_extend(&b->r->arena, b->at, b->room, room - b->room)) {
        b->room = room;
        return true;
    }
    char *grown = jinja_arena_text(&b->r->arena, room);
    if (!grown) {
        jinja_fail_memory(b->r);
        return false;
    }
    jinja_arena_copy(&b->r->arena, grown, b->at, b->n);
    b->at = grown;
    b->room = room;
    return true;
}

void jinja_put(struct jinja_build *b, const char *text, size_t bytes)
{
    if (bytes == 0 || !build_room(b, bytes)) return;
    jinja_charge(b->r, bytes / 64);
    jinja_arena_copy(&b->r->arena, b->at + b->n, text, bytes);
    b->n += bytes;
}

void jinja_put_word(struct jinja_build *b, const char *word) { jinja_put(b, word, strlen(word)); }

void jinja_put_char(struct jinja_build *b, uint32_t c)
{
    char out[4];
    jinja_put(b, out, jinja_char_put(c, out));
}

void jinja_put_str(struct jinja_build *b, struct jinja_value text)
{
    if (jinja_is(text, JINJA_STR)) jinja_put(b, text.text, text.bytes);
}

struct jinja_value jinja_built(struct jinja_build *b) { return jinja_text(b->at ? b->at : "", b->n); }

struct jinja_value jinja_slice_text(struct jinja_value text, size_t begin, size_t end)
{
    struct jinja_value v = jinja_text(text.text + begin, end - begin);
    v.safe = text.safe;
    return v;
}

struct jinja_value jinja_copy_text(struct jinja_run *r, const char *text, size_t bytes)
{
    if (bytes > JINJA_TEXT_BYTES_MAX) return jinja_fail(r, "a text becomes longer than %d bytes", JINJA_TEXT_BYTES_MAX);
    char *at = jinja_arena_text(&r->arena, bytes + 1); /* never empty, so that it has marks */
    if (!at) {
        jinja_fail_memory(r);
        return jinja_undefined();
    }
    jinja_arena_copy(&r->arena, at, text, bytes);
    return jinja_text(at, bytes);
}

struct jinja_value jinja_as_safe(struct jinja_value text, bool safe)
{
    text.safe = safe;
    return text;
}

struct jinja_value jinja_escape(struct jinja_run *r, struct jinja_value text)
{
    if (!jinja_is(text, JINJA_STR) || text.safe) return text;
    struct jinja_build b = {.r = r};
    size_t begin = 0;
    for (size_t i = 0; i < text.bytes; i++) {
        char c = text.text[i];
        const char *name = c == '&'    ? "&amp;"
                           : c == '<'  ? "&lt;"
                           : c == '>'  ? "&gt;"
                           : c == '\'' ? "&#39;"
                           : c == '"'  ? "&#34;"
                                       : NULL;
        if (!name) continue;
        jinja_put(&b, text.text + begin, i - begin);
        jinja_put_word(&b, name);
        begin = i + 1;
    }
    jinja_charge_bytes(r, text.bytes);
    if (begin == 0) return jinja_as_safe(text, true);
    jinja_put(&b, text.text + begin, text.bytes - begin);
    return jinja_as_safe(jinja_built(&b), true);
}

/* ---- what is missing ---- */

struct jinja_value jinja_missing_new(struct jinja_run *r, enum jinja_kind of, struct jinja_value name)
{
    struct jinja_missing *m = jinja_arena_take(&r->arena, 1, sizeof *m);
    if (!m) {
        jinja_fail_memory(r);
        return jinja_undefined();
    }
    *m = (struct jinja_missing){.of = (uint8_t)of, .name = name};
    return (struct jinja_value){.kind = JINJA_UNDEFINED, .missing = m};
}

struct jinja_value jinja_missing_text(struct jinja_run *r, const char *text)
{
    struct jinja_missing *m = jinja_arena_take(&r->arena, 1, sizeof *m);
    if (!m) {
        jinja_fail_memory(r);
        return jinja_undefined();
    }
    m->text = text;
    return (struct jinja_value){.kind = JINJA_UNDEFINED, .missing = m};
}

#define QUOTED_BYTES_MAX 80

struct jinja_value jinja_fail_missing(struct jinja_run *r, struct jinja_value v)
{
    const struct jinja_missing *m = v.missing;
    if (!m) return jinja_fail(r, "a value is undefined");
    if (m->text) return jinja_fail(r, "%s", m->text);
    if (jinja_is(m->name, JINJA_INT))
        return jinja_fail(r, "a %s has no item %lld", jinja_kind_name(m->of), (long long)m->name.whole);
    if (!jinja_is(m->name, JINJA_STR)) return jinja_fail(r, "a %s has no such item", jinja_kind_name(m->of));
    int n = m->name.bytes < QUOTED_BYTES_MAX ? (int)m->name.bytes : QUOTED_BYTES_MAX;
    if (m->of == JINJA_ABSENT) return jinja_fail(r, "'%.*s' is undefined", n, m->name.text);
    return jinja_fail(r, "a %s has no attribute '%.*s'", jinja_kind_name(m->of), n, m->name.text);
}
