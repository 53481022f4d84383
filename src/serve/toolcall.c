/* The parser's frame: where an answer begins, its reasoning, its text. What lies between a family's marks is the
 * family's own part (toolcall_FAMILY.c). */
#include "serve/toolcall.h"

#include "base/error.h"
#include "serve/toolcall_families.h"
#include "serve/toolcall_parser.h"

#include <stdlib.h>
#include <string.h>

#define START_BLANKS_MAX 4096u /* blanks at the beginning that are looked through for a mark */

static const char *const no_marks[] = {NULL};
static bool fits_none(const char *source, size_t bytes) { return false; }
static const struct serve_family plain = {.name = "plain", .marks = no_marks, .fits = fits_none};

/* The first that fits a template is taken: those whose marks others use as well stand behind those. */
static const struct serve_family *const families[] = {
    &serve_harmony, &serve_dsml,     &serve_deepseek,    &serve_kimi,   &serve_minimax, &serve_glm,
    &serve_mistral, &serve_nemotron, &serve_qwen3_coder, &serve_llama3, &serve_hermes,  &plain,
};
#define N_FAMILIES (sizeof families / sizeof *families)

const struct serve_family *serve_family_at(size_t i) { return i < N_FAMILIES ? families[i] : NULL; }

const char *serve_family_name(const struct serve_family *f) { return f->name; }

const struct serve_family *serve_family_find(const char *name)
{
    for (size_t i = 0; i < N_FAMILIES; i++)
        if (!strcmp(families[i]->name, name)) return families[i];
    return NULL;
}

bool serve_family_calls(const struct serve_family *f) { return f->step; }

json_t *serve_family_openers(const struct serve_family *f, const struct serve_tool *tools, size_t n_tools)
{
    json_t *list = json_array();
    bool good = list;
    for (size_t i = 0; good && !f->marks_are_messages && f->marks[i]; i++)
        good = !json_array_append_new(list, json_string(f->marks[i]));
    if (good && f->heads) good = f->heads(list, tools, n_tools);
    if (good) return list;
    json_decref(list);
    return NULL;
}

const struct serve_family *serve_family_detect(const char *chat_template, size_t bytes)
{
    for (size_t i = 0; chat_template && i < N_FAMILIES; i++)
        if (families[i]->fits(chat_template, bytes)) return families[i];
    return &plain;
}

/* ---- reasoning ---- */

static const char *const thoughts[][2] = {
    {"<think>", "</think>"},
    {"[THINK]", "[/THINK]"},
    {"<seed:think>", "</seed:think>"},
    {"<|inner_prefix|>", "<|inner_suffix|>"},
    {"<|START_THINKING|>", "<|END_THINKING|>"},
};

/* Whether the last of the marks in the prompt opens reasoning, and only blanks follow. */
static bool prompt_opens(const struct serve_parser *p, const char *prompt, size_t bytes)
{
    const size_t mark = strlen(p->think_begin);
    while (bytes && serve_is_blank(prompt[bytes - 1])) bytes--;
    return bytes >= mark && !memcmp(prompt + bytes - mark, p->think_begin, mark);
}

static void choose_thoughts(struct serve_parser *p, const struct serve_parser_options *o)
{
    if (o->no_reasoning || p->family->marks_are_messages) return;
    size_t which = 0;
    for (size_t i = 0; o->chat_template && i < sizeof thoughts / sizeof *thoughts; i++)
        if (serve_holds(o->chat_template, o->chat_template_bytes, thoughts[i][1])) {
            which = i;
            p->think_known = true;
            break;
        }
    p->think_begin = thoughts[which][0];
    p->think_end = thoughts[which][1];
    if (o->prompt && prompt_opens(p, o->prompt, o->prompt_bytes)) {
        p->mode = SERVE_MODE_REASONING;
        p->trim = p->reasoning_begins = true;
    }
}

static bool looks_for_blocks(const struct serve_parser *p)
{
    return p->family->step && !p->settled && (p->n_tools || p->family->marks_are_messages);
}

/* ---- steps ---- */

static enum serve_step begin_mode(struct serve_parser *p, enum serve_mode mode, size_t taken, bool trim)
{
    serve_drop(p, taken);
    p->mode = mode;
    p->trim = trim;
    if (trim) p->blanks.bytes = 0;
    return SERVE_STEP_ON;
}

static enum serve_step begin_block(struct serve_parser *p, size_t mark)
{
    p->mode = SERVE_MODE_BLOCK;
    p->state = 0;
    p->raw.bytes = 0;
    p->list = p->checked = false;
    if (p->family->marks[mark]) serve_take(p, strlen(p->family->marks[mark]));
    p->family->begin(p, mark);
    return SERVE_STEP_ON;
}

static enum serve_step start_step(struct serve_parser *p)
{
    const size_t at = serve_blanks(p, 0);
    if (at > START_BLANKS_MAX) return begin_mode(p, SERVE_MODE_TEXT, 0, false);
    if (at == serve_left(p) && !p->over) return SERVE_STEP_MORE;
    if (p->think_begin) {
        const enum serve_look begins = serve_look(p, at, p->think_begin), ends = serve_look(p, at, p->think_end);
        if (begins == SERVE_LOOK_YES) return begin_mode(p, SERVE_MODE_REASONING, at + strlen(p->think_begin), true);
        if (ends == SERVE_LOOK_YES) return begin_mode(p, SERVE_MODE_TEXT, at + strlen(p->think_end), true);
        if (begins == SERVE_LOOK_MORE || ends == SERVE_LOOK_MORE) return SERVE_STEP_MORE;
    }
    if (looks_for_blocks(p) && p->family->at_start) {
        const enum serve_look block = p->family->at_start(p, at);
        if (block == SERVE_LOOK_MORE) return SERVE_STEP_MORE;
        if (block == SERVE_LOOK_YES) {
            size_t none = 0;
            while (p->family->marks[none]) none++;
            return begin_block(p, none);
        }
    }
    return begin_mode(p, SERVE_MODE_TEXT, 0, false);
}

static enum serve_step reasoning_step(struct serve_parser *p)
{
    const char *marks[8] = {p->think_end};
    size_t at, which, n = 1;
    if (p->reasoning_begins) { /* the prompt opened it, and some models do so once more */
        const size_t blanks = serve_blanks(p, 0);
        const enum serve_look again = blanks > START_BLANKS_MAX ? SERVE_LOOK_NO : serve_look(p, blanks, p->think_begin);
        if (again == SERVE_LOOK_MORE) return SERVE_STEP_MORE;
        p->reasoning_begins = false;
        serve_drop(p, again == SERVE_LOOK_YES ? blanks + strlen(p->think_begin) : blanks);
        return SERVE_STEP_ON;
    }
    if (p->family->marks_end_reasoning && looks_for_blocks(p))
        for (size_t i = 0; p->family->marks[i] && n + 1 < sizeof marks / sizeof *marks; i++)
            marks[n++] = p->family->marks[i];
    const enum serve_look look = serve_find(p, 0, SIZE_MAX, marks, &at, &which);
    serve_put(p, SERVE_EVENT_REASONING, serve_here(p), at);
    serve_drop(p, at);
    if (look != SERVE_LOOK_YES) return SERVE_STEP_MORE;
    p->reasoning_cut = which;
    return begin_mode(p, SERVE_MODE_TEXT, which ? 0 : strlen(p->think_end), true);
}

static enum serve_step text_step(struct serve_parser *p)
{
    size_t at, which;
    const enum serve_look look =
        serve_find(p, 0, SIZE_MAX, looks_for_blocks(p) ? p->family->marks : no_marks, &at, &which);
    serve_put(p, SERVE_EVENT_TEXT, serve_here(p), at);
    serve_drop(p, at);
    return look == SERVE_LOOK_YES ? begin_block(p, which) : SERVE_STEP_MORE;
}

static enum serve_step step(struct serve_parser *p)
{
    switch (p->mode) {
    case SERVE_MODE_START: return start_step(p);
    case SERVE_MODE_REASONING: return reasoning_step(p);
    case SERVE_MODE_TEXT: return text_step(p);
    default: return p->family->step(p);
    }
}

/* Bytes of [at, in.bytes) without a character that is unfinished at the end. */
static size_t whole_bytes(const struct serve_parser *p)
{
    size_t n = p->in.bytes, back = 0;
    while (back < 3 && n - back > p->at && ((unsigned char)p->in.at[n - 1 - back] & 0xc0) == 0x80) back++;
    if (n - back == p->at) return n;
    const unsigned char lead = (unsigned char)p->in.at[n - 1 - back];
    const size_t wants = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : lead >= 0xc0 ? 1 : 0;
    return wants > back ? n - 1 - back : n;
}

static enum sluice_status run(struct serve_parser *p, struct sluice_error *err)
{
    p->whole = p->over ? p->in.bytes : whole_bytes(p);
    for (;;) {
        while (!p->no_memory && (serve_left(p) || p->over) && step(p) == SERVE_STEP_ON) continue;
        if (p->no_memory) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory to take an answer apart");
        if (!p->over || p->mode != SERVE_MODE_BLOCK) break;
        serve_abandon(p);
    }
    if (p->at < p->in.bytes - p->at) return SLUICE_OK; /* moved seldom enough for its cost to be that of reading */
    memmove(p->in.at, p->in.at + p->at, p->in.bytes - p->at);
    p->in.bytes -= p->at;
    p->whole -= p->at;
    p->at = 0;
    return SLUICE_OK;
}

enum sluice_status serve_parser_feed(struct serve_parser *p, const char *text, size_t bytes, struct sluice_error *err)
{
    serve_text_put(p, &p->in, text, bytes);
    return p->in.at ? run(p, err) : SLUICE_OK;
}

enum sluice_status serve_parser_end(struct serve_parser *p, struct sluice_error *err)
{
    if (p->over) return SLUICE_OK;
    p->over = true;
    serve_text_string(p, &p->in); /* so that there is something to point to */
    enum sluice_status st = run(p, err);
    if (st) return st;
    const enum serve_event_kind kind = p->mode == SERVE_MODE_REASONING ? SERVE_EVENT_REASONING : SERVE_EVENT_TEXT;
    if (!p->trim && p->blanks.bytes)
        p->event(p->user, &(struct serve_event){
                              .kind = kind, .text = serve_text_string(p, &p->blanks), .bytes = p->blanks.bytes});
    p->blanks.bytes = 0;
    return SLUICE_OK;
}

/* ---- making ---- */

static enum sluice_status copy_tools(struct serve_parser *p, const struct serve_parser_options *o)
{
    size_t bytes = 0;
    for (size_t i = 0; i < o->n_tools; i++) bytes += strlen(o->tools[i].name) + 1;
    if (!o->n_tools) return SLUICE_OK;
    p->tools = calloc(o->n_tools, sizeof *p->tools);
    p->names = malloc(bytes);
    if (!p->tools || !p->names) return SLUICE_ERR_MEMORY;
    char *at = p->names;
    for (size_t i = 0; i < o->n_tools; i++) {
        p->tools[i] = (struct serve_tool){.name = at, .parameters = o->tools[i].parameters};
        at = stpcpy(at, o->tools[i].name) + 1;
    }
    p->n_tools = o->n_tools;
    return SLUICE_OK;
}

enum sluice_status serve_parser_create(const struct serve_parser_options *o, struct serve_parser **out,
                                       struct sluice_error *err)
{
    struct serve_parser *p = calloc(1, sizeof *p);
    *out = NULL;
    if (!p || copy_tools(p, o)) {
        serve_parser_destroy(p);
        return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory to take an answer apart");
    }
    p->family = o->family ? o->family : &plain;
    p->no_reasoning = o->no_reasoning;
    p->hold = o->hold_calls;
    p->event = o->event;
    p->user = o->user;
    choose_thoughts(p, o);
    *out = p;
    return SLUICE_OK;
}

size_t serve_parser_calls(const struct serve_parser *p) { return p->n_calls + (p->calling && !p->hold); }

bool serve_parser_reasons(const struct serve_parser *p)
{
    if (p->family->marks_are_messages) return p->mode != SERVE_MODE_BLOCK || !serve_harmony_answers(p);
    return p->mode == SERVE_MODE_REASONING;
}

const char *serve_parser_thought_begin(const struct serve_parser *p)
{
    return p->mode == SERVE_MODE_START && p->think_known ? p->think_begin : NULL;
}

bool serve_parser_calls_from_thought(const struct serve_parser *p) { return p->reasoning_cut; }

void serve_parser_settle(struct serve_parser *p)
{
    if (p->mode == SERVE_MODE_BLOCK && !p->family->marks_are_messages) serve_abandon(p);
    p->settled = true;
}

const char *serve_parser_thought_end(const struct serve_parser *p) { return p->think_end; }

void serve_parser_destroy(struct serve_parser *p)
{
    if (!p) return;
    struct serve_text *const texts[] = {&p->in, &p->blanks,    &p->raw,  &p->out,  &p->name,
                                        &p->id, &p->arguments, &p->word, &p->early};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) free(texts[i]->at);
    free(p->tools);
    free(p->names);
    free(p);
}
