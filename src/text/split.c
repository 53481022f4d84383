/* Cutting by the expressions of split_table.c. */
#include "text/split.h"

#include "text/split_table.h"
#include "text/utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct text_split {
    pcre2_code *stages[SPLIT_STAGES_MAX];
    size_t n_stages;
    unsigned threes; /* see split_table.h */
};

struct text_split_work {
    pcre2_match_data *match;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
    char *repaired; /* the text with its invalid bytes replaced */
    size_t repaired_room;
};

static const struct split_name *find_name(const char *name, size_t name_bytes)
{
    for (size_t i = 0; i < split_n_names; i++)
        if (strlen(split_names[i].name) == name_bytes && memcmp(split_names[i].name, name, name_bytes) == 0)
            return &split_names[i];
    return NULL;
}

static enum sluice_status compile(const char *pattern, pcre2_code **out, struct sluice_error *err)
{
    int code;
    PCRE2_SIZE at;
    *out = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP | PCRE2_DOLLAR_ENDONLY,
                         &code, &at, NULL);
    if (!*out)
        return base_fail(err, SLUICE_ERR_RUN, "the PCRE2 library lacks Unicode support or is damaged",
                         "PCRE2 refused a pre-tokenizer's expression at offset %zu (error %d)", (size_t)at, code);
    pcre2_jit_compile(*out, PCRE2_JIT_COMPLETE); /* where it cannot, pcre2_match interprets: slower, the same words */
    return SLUICE_OK;
}

bool text_split_known(const char *name, size_t name_bytes) { return find_name(name, name_bytes) != NULL; }

void text_split_list(char *out, size_t room)
{
    const struct split_scheme *last = NULL;
    size_t at = 0;
    out[0] = '\0';
    for (size_t i = 0; i < split_n_names; i++) {
        size_t n = strlen(split_names[i].name);
        if (split_names[i].scheme == last || at + n + 3 > room) continue; /* one name a scheme */
        last = split_names[i].scheme;
        at += (size_t)snprintf(out + at, room - at, "%s%s", at ? ", " : "", split_names[i].name);
    }
}

const char *text_split_name(size_t i) { return i < split_n_names ? split_names[i].name : NULL; }

enum sluice_status text_split_create(const char *name, size_t name_bytes, struct text_split **out,
                                     struct text_split_facts *facts, struct sluice_error *err)
{
    const struct split_name *found = find_name(name, name_bytes);
    if (!found) {
        char known[SLUICE_MESSAGE_BYTES_MAX - 160];
        text_split_list(known, sizeof known);
        return base_fail(err, SLUICE_ERR_MODEL,
                         "a newer Sluice may know it; if you know which of them cuts texts alike, give it with --pre",
                         "tokenizer.ggml.pre is '%.*s', a pre-tokenizer that is not known; known are %s and their "
                         "aliases",
                         name_bytes > 64 ? 64 : (int)name_bytes, name, known);
    }
    struct text_split *s = calloc(1, sizeof *s);
    if (!s) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for the pre-tokenizer");
    s->threes = found->scheme->threes;
    while (s->n_stages < SPLIT_STAGES_MAX && found->scheme->stages[s->n_stages]) {
        enum sluice_status status = compile(found->scheme->stages[s->n_stages], &s->stages[s->n_stages], err);
        if (status != SLUICE_OK) {
            text_split_destroy(s);
            return status;
        }
        s->n_stages++;
    }
    *facts = found->facts;
    *out = s;
    return SLUICE_OK;
}

void text_split_destroy(struct text_split *s)
{
    if (!s) return;
    for (size_t i = 0; i < s->n_stages; i++) pcre2_code_free(s->stages[i]);
    free(s);
}

size_t text_split_memory_bytes(const struct text_split *s)
{
    size_t sum = sizeof *s;
    for (size_t i = 0; i < s->n_stages; i++) {
        size_t code = 0, jit = 0;
        pcre2_pattern_info(s->stages[i], PCRE2_INFO_SIZE, &code);
        pcre2_pattern_info(s->stages[i], PCRE2_INFO_JITSIZE, &jit);
        sum += code + jit;
    }
    return sum;
}

enum sluice_status text_split_work_create(struct text_split_work **out, struct sluice_error *err)
{
    struct text_split_work *w = calloc(1, sizeof *w);
    if (!w) goto fail;
    w->match = pcre2_match_data_create(1, NULL);
    w->context = pcre2_match_context_create(NULL);
    if (!w->match || !w->context) goto fail;
    w->stack = pcre2_jit_stack_create(32 * 1024, 1024 * 1024, NULL); /* NULL where there is no JIT */
    if (w->stack) pcre2_jit_stack_assign(w->context, NULL, w->stack);
    /* The expressions are ours and linear; the limits guard against foreign expressions and would refuse long runs. */
    pcre2_set_match_limit(w->context, UINT32_MAX);
    pcre2_set_depth_limit(w->context, UINT32_MAX);
    *out = w;
    return SLUICE_OK;
fail:
    text_split_work_destroy(w);
    return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for cutting a text into words");
}

void text_split_work_destroy(struct text_split_work *w)
{
    if (!w) return;
    pcre2_match_data_free(w->match);
    pcre2_match_context_free(w->context);
    pcre2_jit_stack_free(w->stack);
    free(w->repaired);
    free(w);
}

struct run {
    const struct text_split *split;
    struct text_split_work *work;
    const char *text;    /* as given */
    const char *subject; /* of the same length, valid UTF-8 */
    text_word_fn *word;
    void *user;
    struct sluice_error *err;
};

/* Finds the first match in piece[from, bytes). */
static enum sluice_status find(const struct run *r, size_t stage, const char *piece, size_t bytes, size_t from,
                               size_t *begin, size_t *end)
{
    const pcre2_code *code = r->split->stages[stage];
    struct text_split_work *w = r->work;
    int n = pcre2_match(code, (PCRE2_SPTR)piece, bytes, from, PCRE2_NO_UTF_CHECK, w->match, w->context);
    if (n == PCRE2_ERROR_JIT_STACKLIMIT)
        n = pcre2_match(code, (PCRE2_SPTR)piece, bytes, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, w->match, w->context);
    *begin = *end = bytes;
    if (n == PCRE2_ERROR_NOMATCH) return SLUICE_OK;
    if (n < 0)
        return base_fail(r->err, n == PCRE2_ERROR_NOMEMORY ? SLUICE_ERR_MEMORY : SLUICE_ERR_RUN, NULL,
                         "PCRE2 could not cut a text of %zu bytes into words (error %d)", bytes, n);
    const PCRE2_SIZE *range = pcre2_get_ovector_pointer(w->match);
    *begin = range[0];
    *end = range[1];
    return SLUICE_OK;
}

static enum sluice_status cut(const struct run *r, size_t stage, size_t at, size_t bytes);

/* A match of `stage` in groups of three characters, whole ones at its end. */
static enum sluice_status cut_threes(const struct run *r, size_t stage, size_t at, size_t bytes)
{
    size_t n = 0; /* characters left */
    for (size_t i = 0; i < bytes; i++) n += (r->subject[at + i] & 0xc0) != 0x80;
    for (size_t done = 0; done < bytes;) {
        size_t group = n % 3 ? n % 3 : 3, end = done;
        n -= group;
        while (end < bytes && group + ((r->subject[at + end] & 0xc0) == 0x80) > 0) {
            group -= (r->subject[at + end] & 0xc0) != 0x80;
            end++;
        }
        enum sluice_status status = cut(r, stage + 1, at + done, end - done);
        if (status != SLUICE_OK) return status;
        done = end;
    }
    return SLUICE_OK;
}

/* Cuts subject[at, at + bytes) by the stages from `stage` on. The depth is the number of stages. */
static enum sluice_status cut(const struct run *r, size_t stage, size_t at, size_t bytes)
{
    if (bytes == 0) return SLUICE_OK;
    if (stage == r->split->n_stages) return r->word(r->user, r->text + at, bytes, r->err);
    size_t done = 0;
    while (done < bytes) {
        size_t begin, end;
        enum sluice_status status = find(r, stage, r->subject + at, bytes, done, &begin, &end);
        if (status == SLUICE_OK) status = cut(r, stage + 1, at + done, begin - done);
        if (status == SLUICE_OK)
            status = r->split->threes >> stage & 1 ? cut_threes(r, stage, at + begin, end - begin)
                                                   : cut(r, stage + 1, at + begin, end - begin);
        if (status != SLUICE_OK) return status;
        done = end;
    }
    return SLUICE_OK;
}

/* A copy of text in which every byte that is no part of a valid character is the control character SUB. */
static enum sluice_status repair(struct text_split_work *w, const char *text, size_t bytes, struct sluice_error *err)
{
    if (bytes > w->repaired_room) {
        char *grown = realloc(w->repaired, bytes);
        if (!grown) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for a text of %zu bytes", bytes);
        w->repaired = grown;
        w->repaired_room = bytes;
    }
    memcpy(w->repaired, text, bytes);
    for (size_t at = 0; at < bytes;) {
        at += text_utf8_valid_bytes(text + at, bytes - at);
        if (at < bytes) w->repaired[at++] = 0x1a;
    }
    return SLUICE_OK;
}

enum sluice_status text_split_run(const struct text_split *s, struct text_split_work *w, const char *text, size_t bytes,
                                  text_word_fn *word, void *user, struct sluice_error *err)
{
    struct run r = {.split = s, .work = w, .text = text, .subject = text, .word = word, .user = user, .err = err};
    if (text_utf8_valid_bytes(text, bytes) < bytes) {
        enum sluice_status status = repair(w, text, bytes, err);
        if (status != SLUICE_OK) return status;
        r.subject = w->repaired;
    }
    return cut(&r, 0, 0, bytes);
}
