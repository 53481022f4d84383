/* Chat formats as three functions over one growing buffer. A template is not run; its marks name the format. */
#include "text/chat.h"

#include <stdlib.h>
#include <string.h>

const char *text_chat_name(enum text_chat_format f)
{
    switch (f) {
    case TEXT_CHAT_PLAIN: return "plain";
    case TEXT_CHAT_CHATML: return "chatml";
    case TEXT_CHAT_LLAMA3: return "llama3";
    case TEXT_CHAT_MISTRAL: return "mistral";
    case TEXT_CHAT_MISTRAL_V1: return "mistral-v1";
    case TEXT_CHAT_MISTRAL_V3: return "mistral-v3";
    case TEXT_CHAT_MISTRAL_V7: return "mistral-v7";
    case TEXT_CHAT_FORMATS: break;
    }
    return "unknown";
}

const char *text_chat_stop(enum text_chat_format f)
{
    switch (f) {
    case TEXT_CHAT_PLAIN: return "\nUser:";
    case TEXT_CHAT_CHATML: return "<|im_end|>";
    case TEXT_CHAT_LLAMA3: return "<|eot_id|>";
    case TEXT_CHAT_MISTRAL:
    case TEXT_CHAT_MISTRAL_V1:
    case TEXT_CHAT_MISTRAL_V3:
    case TEXT_CHAT_MISTRAL_V7: return "</s>";
    case TEXT_CHAT_FORMATS: break;
    }
    return "";
}

enum text_chat_format text_chat_detect(const char *template_text, size_t bytes, bool *exact)
{
    *exact = true;
    if (!template_text || bytes == 0) return TEXT_CHAT_PLAIN;
#define HAS(mark) (memmem(template_text, bytes, mark, sizeof(mark) - 1) != NULL)
    if (HAS("<|im_start|>") && HAS("<|im_end|>") && !HAS("<|im_sep|>")) return TEXT_CHAT_CHATML;
    if (HAS("<|start_header_id|>") && HAS("<|eot_id|>")) return TEXT_CHAT_LLAMA3;
    if (HAS("[INST]") && HAS("[/INST]") && !HAS("<<SYS>>")) { /* <<SYS>>: Llama 2 */
        if (HAS("[SYSTEM_PROMPT]")) return TEXT_CHAT_MISTRAL_V7;
        if (HAS(" [/INST]")) return TEXT_CHAT_MISTRAL_V1;
        return HAS("[INST] ") ? TEXT_CHAT_MISTRAL_V3 : TEXT_CHAT_MISTRAL;
    }
#undef HAS
    *exact = false;
    return TEXT_CHAT_PLAIN;
}

/* The conversation so far; `failed` once memory has run out, then writing does nothing. */
struct page {
    char *text;
    size_t n, room;
    bool failed;
    struct text_range *said; /* room for two a message */
    size_t n_said;
};

static void write_text(struct page *p, const char *text, size_t n)
{
    if (p->failed) return;
    if (n >= p->room - p->n) { /* keeps a byte for the terminator */
        size_t room = p->n + n + 1 + p->room;
        char *grown = room > n ? realloc(p->text, room) : NULL;
        if (!grown) {
            p->failed = true;
            return;
        }
        p->text = grown;
        p->room = room;
    }
    memcpy(p->text + p->n, text, n);
    p->n += n;
    p->text[p->n] = '\0';
}

static void say(struct page *p, const char *text) { write_text(p, text, strlen(text)); }

/* A message's own words. */
static void quote_bytes(struct page *p, const char *text, size_t n)
{
    p->said[p->n_said].begin = p->n;
    write_text(p, text, n);
    p->said[p->n_said++].end = p->n;
}

static void quote(struct page *p, const char *text) { quote_bytes(p, text, strlen(text)); }

static bool is_role(const struct text_message *m, const char *role) { return strcmp(m->role, role) == 0; }

static void render_plain(struct page *p, const struct text_message *m, size_t n, bool answer)
{
    for (size_t i = 0; i < n; i++) {
        if (is_role(&m[i], "user")) say(p, "User: ");
        /* an answer that came from the model has its space already: it is to come back as it was */
        if (is_role(&m[i], "assistant")) say(p, m[i].text[0] == ' ' ? "Assistant:" : "Assistant: ");
        quote(p, m[i].text);
        say(p, "\n");
    }
    if (answer) say(p, "Assistant:");
}

static void render_chatml(struct page *p, const struct text_message *m, size_t n, bool answer)
{
    for (size_t i = 0; i < n; i++) {
        say(p, "<|im_start|>");
        say(p, m[i].role);
        say(p, "\n");
        quote(p, m[i].text);
        say(p, "<|im_end|>\n");
    }
    if (answer) say(p, "<|im_start|>assistant\n");
}

static bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* Llama 3's own templates trim each text. */
static void render_llama3(struct page *p, const struct text_message *m, size_t n, bool answer)
{
    for (size_t i = 0; i < n; i++) {
        const char *text = m[i].text;
        while (is_blank(*text)) text++;
        size_t bytes = strlen(text);
        while (bytes > 0 && is_blank(text[bytes - 1])) bytes--;
        say(p, "<|start_header_id|>");
        say(p, m[i].role);
        say(p, "<|end_header_id|>\n\n");
        quote_bytes(p, text, bytes);
        say(p, "<|eot_id|>");
    }
    if (answer) say(p, "<|start_header_id|>assistant<|end_header_id|>\n\n");
}

/* After a question nothing opens the answer: [/INST] does. */
static void render_mistral(struct page *p, enum text_chat_format f, const struct text_message *m, size_t n)
{
    bool v1 = f == TEXT_CHAT_MISTRAL_V1, v3 = f == TEXT_CHAT_MISTRAL_V3, v7 = f == TEXT_CHAT_MISTRAL_V7;
    size_t bearer = n; /* the question that the system text begins */
    for (size_t i = 0; i < n && !v7 && is_role(&m[0], "system"); i++)
        if (is_role(&m[i], "user") && (bearer == n || !v1)) bearer = i;
    for (size_t i = 0; i < n; i++) {
        if (is_role(&m[i], "system")) {
            if (!v7) continue;
            say(p, "[SYSTEM_PROMPT]");
            quote(p, m[i].text);
            say(p, "[/SYSTEM_PROMPT]");
        } else if (is_role(&m[i], "user")) {
            say(p, v1 || v3 ? "[INST] " : "[INST]");
            if (i == bearer) {
                quote(p, m[0].text);
                say(p, "\n\n");
            }
            quote(p, m[i].text);
            say(p, v1 ? " [/INST]" : "[/INST]");
        } else {
            if (v1 || v3) say(p, " ");
            quote(p, m[i].text);
            say(p, "</s>");
        }
    }
}

static enum sluice_status check(enum text_chat_format f, const struct text_message *m, size_t n,
                                struct sluice_error *err)
{
    bool joins_system = f == TEXT_CHAT_MISTRAL || f == TEXT_CHAT_MISTRAL_V1 || f == TEXT_CHAT_MISTRAL_V3;
    bool has_user = false;
    for (size_t i = 0; i < n; i++) {
        has_user = has_user || is_role(&m[i], "user");
        if (!is_role(&m[i], "system") && !is_role(&m[i], "user") && !is_role(&m[i], "assistant"))
            return base_fail(err, SLUICE_ERR_USAGE, "known roles: system, user, assistant",
                             "message %zu has the role '%.40s'", i, m[i].role);
        if (joins_system && i > 0 && is_role(&m[i], "system"))
            return base_fail(
                err, SLUICE_ERR_USAGE, "put the system message first",
                "message %zu is a second or late system message; the model's format (%s) has no place for it", i,
                text_chat_name(f));
    }
    if (joins_system && n > 0 && is_role(&m[0], "system") && !has_user)
        return base_fail(err, SLUICE_ERR_USAGE, "add a user message",
                         "the system message stands alone; the model's format (%s) puts it into a user message",
                         text_chat_name(f));
    return SLUICE_OK;
}

enum sluice_status text_chat_render_marked(enum text_chat_format f, const struct text_message *messages, size_t n,
                                           bool answer, struct text_rendered *out, struct sluice_error *err)
{
    enum sluice_status status = check(f, messages, n, err);
    if (status != SLUICE_OK) return status;
    struct page p = {.said = calloc(2 * n + 1, sizeof *p.said)};
    if (!p.said) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for a conversation of %zu messages", n);
    say(&p, ""); /* an empty conversation is an empty text, not NULL */
    switch (f) {
    case TEXT_CHAT_CHATML: render_chatml(&p, messages, n, answer); break;
    case TEXT_CHAT_LLAMA3: render_llama3(&p, messages, n, answer); break;
    case TEXT_CHAT_MISTRAL:
    case TEXT_CHAT_MISTRAL_V1:
    case TEXT_CHAT_MISTRAL_V3:
    case TEXT_CHAT_MISTRAL_V7: render_mistral(&p, f, messages, n); break;
    case TEXT_CHAT_PLAIN:
    case TEXT_CHAT_FORMATS: render_plain(&p, messages, n, answer); break;
    }
    if (p.failed) {
        free(p.text);
        free(p.said);
        return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for a conversation of %zu messages", n);
    }
    *out = (struct text_rendered){.text = p.text, .bytes = p.n, .said = p.said, .n_said = p.n_said};
    return SLUICE_OK;
}

void text_rendered_free(struct text_rendered *r)
{
    free(r->text);
    free(r->said);
    *r = (struct text_rendered){0};
}

enum sluice_status text_chat_render(enum text_chat_format f, const struct text_message *messages, size_t n, bool answer,
                                    char **out, size_t *out_bytes, struct sluice_error *err)
{
    struct text_rendered r;
    enum sluice_status status = text_chat_render_marked(f, messages, n, answer, &r, err);
    if (status != SLUICE_OK) return status;
    *out = r.text;
    *out_bytes = r.bytes;
    free(r.said);
    return SLUICE_OK;
}
