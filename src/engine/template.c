#include "engine/template.h"

#include "engine/engine.h"
#include "text/jinja.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Memory of one rendering: variables, lists and strings of a long conversation take a few times its text (which the row
 * for texts holds already), and this much besides. */
#define RENDER_FIXED_BYTES ((size_t)4 << 20)
#define RENDER_TEXT_FACTOR 24u

/* Takes roles and texts out of the variables: RECORD role UNIT content for each message, CALLS behind it if there are
 * tool calls in it (or tools at all). These bytes are the template's own; the same bytes in what was said are told
 * apart by the rendering's `said`.
 * (No tag strips what is before it: these bytes count as white space.) */
#define RECORD '\x1e'
#define UNIT '\x1f'
#define CALLS '\x1d'
static const char reader_source[] =
    "{% if messages is not defined or messages is string or messages is not iterable %}"
    "{{ raise_exception('messages is not a list') }}{% endif %}"
    "{% for m in messages %}\x1e{{ m.role }}\x1f"
    "{% if m.content is string %}{{ m.content }}{% elif m.content is iterable %}"
    "{% for p in m.content %}{% if p is string %}{{ p }}{% elif p.text is defined %}{{ p.text }}{% endif %}{% endfor "
    "%}"
    "{% endif %}{% if m.tool_calls %}\x1d{% endif %}{% endfor %}{% if tools %}\x1d{% endif %}";

static enum sluice_status keep_source(sluice_engine *e, const char *text, size_t bytes, struct sluice_error *err)
{
    e->chat_source = strndup(text, bytes);
    if (e->chat_source) return SLUICE_OK;
    return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for a chat template of %zu bytes", bytes);
}

enum sluice_status template_open(sluice_engine *e, const char *text, size_t bytes, struct sluice_error *err)
{
    struct sluice_error why;
    if (!text || !bytes) return SLUICE_OK;
    const enum sluice_status st = jinja_parse("chat template", text, bytes, &e->chat_template, &why);
    if (!st) return keep_source(e, text, bytes, err);
    if (st == SLUICE_ERR_MEMORY)
        return base_fail(err, st, NULL, "%s", why.message); /* says nothing about the template */
    e->chat_template = NULL;
    base_log(&e->log, BASE_LOG_NOTE, "the file's chat template is not used: %s; the built-in format '%s' stands for it",
             why.message, text_chat_name(e->chat));
    return SLUICE_OK;
}

enum sluice_status template_open_given(sluice_engine *e, const char *text, struct sluice_error *err)
{
    struct sluice_error why;
    const size_t bytes = strlen(text);
    const enum sluice_status st = jinja_parse("--chat-template-file", text, bytes, &e->chat_template, &why);
    if (!st) return keep_source(e, text, bytes, err);
    if (st == SLUICE_ERR_MEMORY) return base_fail(err, st, NULL, "%s", why.message);
    return base_fail(err, SLUICE_ERR_USAGE, "'sluice template' renders a template with variables of your own", "%s",
                     why.message);
}

void template_close(sluice_engine *e)
{
    jinja_destroy(e->chat_template);
    free(e->chat_source);
}

uint64_t template_fixed_bytes(const sluice_engine *e) { return e->chat_template ? RENDER_FIXED_BYTES : 0; }

/* The text of a token as the template is to write it; "" if there is none. */
static const char *token_text(const sluice_engine *e, int32_t id, char out[TEXT_PIECE_BYTES_MAX + 1])
{
    size_t n = id < 0 ? 0 : text_token_bytes(e->tokenizer, id, true, out, TEXT_PIECE_BYTES_MAX);
    out[n] = '\0';
    return out;
}

static enum sluice_status check_role(const char *role, size_t i, struct sluice_error *err)
{
    static const char *const known[] = {"system", "user", "assistant", "tool", "developer"};
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        if (!strcmp(role, known[k])) return SLUICE_OK;
    return base_fail(err, SLUICE_ERR_USAGE, "the roles are system, developer, user, assistant and tool",
                     "message %zu has the role '%.40s'", i + 1, role);
}

static struct jinja_time local_time(void)
{
    const time_t seconds = time(NULL);
    struct tm local;
    if (!localtime_r(&seconds, &local)) return (struct jinja_time){.year = 1970, .month = 1, .day = 1};
    return (struct jinja_time){.year = local.tm_year + 1900,
                               .month = local.tm_mon + 1,
                               .day = local.tm_mday,
                               .hour = local.tm_hour,
                               .minute = local.tm_min,
                               .second = local.tm_sec};
}

static void set_limits(const sluice_engine *e, struct jinja_limits *l, size_t bytes)
{
    jinja_limits_init(l);
    l->watch = engine_text_watch(e);
    l->memory_bytes_max = RENDER_FIXED_BYTES + RENDER_TEXT_FACTOR * bytes;
}

/* in: but for the model's own words, the time and the limits. */
static enum sluice_status render(const sluice_engine *e, struct jinja_input *in, size_t bytes,
                                 struct text_rendered *out, struct sluice_error *err)
{
    char bos[TEXT_PIECE_BYTES_MAX + 1], eos[TEXT_PIECE_BYTES_MAX + 1];
    const struct jinja_own own[] = {{"bos_token", token_text(e, text_bos(e->tokenizer), bos)},
                                    {"eos_token", token_text(e, text_eos(e->tokenizer), eos)}};
    const struct jinja_time now = local_time();
    struct jinja_limits limits;
    set_limits(e, &limits, bytes);
    in->own = own;
    in->n_own = sizeof own / sizeof *own;
    in->now = &now;
    in->limits = &limits;
    return jinja_render(e->chat_template, in, out, err);
}

enum sluice_status template_render(const sluice_engine *e, const struct text_message *messages, size_t n,
                                   struct text_rendered *out, struct sluice_error *err)
{
    static const char json[] = "{\"add_generation_prompt\": true}";
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        enum sluice_status st = check_role(messages[i].role, i, err);
        if (st) return st;
        bytes += strlen(messages[i].text);
    }
    struct jinja_input in = {.json = json, .json_bytes = sizeof json - 1, .messages = messages, .n_messages = n};
    return render(e, &in, bytes, out, err);
}

/* ---- messages as JSON ---- */

/* The first of what was said that ends behind `at`. */
static size_t said_at(const struct text_rendered *r, size_t at)
{
    size_t low = 0, high = r->n_said;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (r->said[middle].end <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Where the next byte c from `at` to `end` is that was not said; `end` if there is none. Conversations have thousands
 * of messages: nothing is looked through once more for each of them. */
static size_t find_own(const struct text_rendered *r, size_t at, size_t end, char c)
{
    for (size_t said = said_at(r, at); at < end; at++) {
        while (said < r->n_said && r->said[said].end <= at) said++;
        if (said < r->n_said && r->said[said].begin <= at)
            at = r->said[said].end - 1;
        else if (r->text[at] == c)
            return at;
    }
    return end;
}

struct conversation {
    struct text_rendered read; /* holds the strings */
    struct text_message *messages;
    size_t n;
    bool calls; /* there are tools in it */
};

static void conversation_free(struct conversation *c)
{
    free(c->messages);
    text_rendered_free(&c->read);
}

/* Cuts what the reader has rendered into roles and texts, in place. */
static enum sluice_status split(struct conversation *c, struct sluice_error *err)
{
    struct text_rendered *r = &c->read;
    size_t n = 0, record = find_own(r, 0, r->bytes, RECORD);
    for (size_t at = record; at < r->bytes; at = find_own(r, at + 1, r->bytes, RECORD)) n++;
    c->calls = find_own(r, 0, r->bytes, CALLS) < r->bytes;
    c->messages = calloc(n + 1, sizeof *c->messages);
    if (!c->messages) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for %zu messages", n);
    while (c->n < n) {
        const size_t unit = find_own(r, record, r->bytes, UNIT), next = find_own(r, unit, r->bytes, RECORD),
                     end = find_own(r, unit, next, CALLS);
        struct text_message *m = &c->messages[c->n];
        *m = (struct text_message){.role = r->text + record + 1, .text = r->text + unit + 1};
        r->text[unit] = r->text[end] = '\0';
        enum sluice_status st = check_role(m->role, c->n++, err);
        if (st) return st;
        if (strlen(m->text) != end - unit - 1)
            return base_fail(err, SLUICE_ERR_USAGE, NULL, "the text of message %zu holds a NUL character", c->n);
        record = next;
    }
    return SLUICE_OK;
}

static enum sluice_status as_usage(enum sluice_status st, struct sluice_error *err)
{
    if (st != SLUICE_ERR_MODEL) return st;
    if (err) err->status = SLUICE_ERR_USAGE;
    return SLUICE_ERR_USAGE;
}

static enum sluice_status read_conversation(const sluice_engine *e, const char *vars, size_t bytes,
                                            struct conversation *out, struct sluice_error *err)
{
    struct jinja_template *reader = NULL;
    struct jinja_limits limits;
    *out = (struct conversation){.n = 0};
    enum sluice_status st = jinja_parse("messages", reader_source, sizeof reader_source - 1, &reader, err);
    if (st) return st;
    set_limits(e, &limits, bytes);
    const struct jinja_input in = {.json = vars, .json_bytes = bytes, .limits = &limits};
    st = as_usage(jinja_render(reader, &in, &out->read, err), err);
    jinja_destroy(reader);
    if (st) return st;
    st = split(out, err);
    if (st) conversation_free(out);
    return st;
}

enum sluice_status template_render_json(const sluice_engine *e, const char *vars, size_t bytes,
                                        struct text_rendered *out, struct sluice_error *err)
{
    struct conversation c;
    enum sluice_status st = read_conversation(e, vars, bytes, &c, err);
    if (st) return st;
    if (e->chat_template) {
        struct jinja_input in = {.json = vars, .json_bytes = bytes};
        st = as_usage(render(e, &in, bytes, out, err), err);
    } else if (c.calls) {
        st = base_fail(err, SLUICE_ERR_USAGE,
                       "leave the tools out, or give a chat template that knows them (--chat-template-file)",
                       "the chat format '%s' knows no tools", text_chat_name(e->chat));
    } else {
        for (size_t i = 0; i < c.n; i++)
            if (!strcmp(c.messages[i].role, "developer")) c.messages[i].role = "system";
        st = text_chat_render_marked(e->chat, c.messages, c.n, true, out, err);
    }
    conversation_free(&c);
    return st;
}

bool template_has_bos(const sluice_engine *e, const struct text_rendered *r)
{
    char bos[TEXT_PIECE_BYTES_MAX + 1];
    const size_t n = strlen(token_text(e, text_bos(e->tokenizer), bos));
    return e->chat_template && n && r->bytes >= n && !memcmp(r->text, bos, n) && !(r->n_said && r->said[0].begin < n);
}
