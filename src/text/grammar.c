#include "text/grammar.h"

#include "text/grammar_vocab.h"
#include "text/schema.h"
#include "text/schema_parts.h"
#include "text/vocab.h"

#include <stdlib.h>
#include <string.h>

struct text_grammar {
    struct automaton a;
    uint32_t root;
};

/* One of the two ways in which an answer may go, and where it stands there. */
struct way {
    uint64_t serial;
    uint32_t root;
    struct run run; /* configs: where the answer stands; none: it cannot go this way any more */
    bool complete;
};

struct text_answer {
    struct text_grammar_vocab *v;
    struct way document, opener;
    bool has_openers;
    bool masked; /* mask is of now */
    uint64_t *mask;
};

enum sluice_status text_grammar_create(const char *schema, size_t bytes, struct text_grammar **out,
                                       struct sluice_error *err)
{
    struct text_grammar *g = calloc(1, sizeof *g);
    *out = NULL;
    if (!g) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for a schema");
    enum sluice_status st = schema_compile(schema, bytes, &g->a, &g->root, err);
    if (st)
        free(g);
    else
        *out = g;
    return st;
}

enum sluice_status text_grammar_openers(const char *const *texts, size_t n, struct text_grammar **out,
                                        struct sluice_error *err)
{
    size_t bytes = 0;
    *out = NULL;
    for (size_t i = 0; i < n; i++) {
        if (!texts[i][0]) return base_fail(err, SLUICE_ERR_USAGE, NULL, "text %zu that may open an answer is empty", i);
        bytes += strlen(texts[i]);
        if (bytes > TEXT_OPENERS_BYTES_MAX)
            return base_fail(err, SLUICE_ERR_USAGE, "fewer tools, or tools with shorter names",
                             "the texts that may open an answer are longer than %u bytes in all",
                             TEXT_OPENERS_BYTES_MAX);
    }
    struct text_grammar *g = calloc(1, sizeof *g);
    if (!g) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for the ways to open an answer");
    schema_parts(&g->a);
    g->root = automaton_rule(&g->a, 0, AUTOMATON_NO_MOST);
    const uint32_t start = schema_space(&g->a, g->a.n_rules > g->root ? g->a.rules[g->root].start : 0);
    for (size_t i = 0; i < n; i++) {
        const uint32_t end = automaton_word(&g->a, start, texts[i], strlen(texts[i]));
        automaton_accept(&g->a, end);
        automaton_bytes(&g->a, end, 0x00, 0xff, end, 0);
    }
    enum sluice_status st = automaton_finish(&g->a, g->root, err);
    if (st)
        text_grammar_destroy(g);
    else
        *out = g;
    return st;
}

void text_grammar_destroy(struct text_grammar *g)
{
    if (!g) return;
    automaton_free(&g->a);
    free(g);
}

static enum sluice_status no_memory(struct sluice_error *err)
{
    return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for a constrained answer");
}

static void begin_way(struct way *w, const struct text_grammar *g, uint64_t serial)
{
    w->serial = serial;
    w->root = g->root;
    w->run.a = &g->a;
    w->run.base_node = RUN_NO_NODE;
}

enum sluice_status text_answer_create(const struct text_grammar *g, const struct text_grammar *openers,
                                      struct text_grammar_vocab *v, struct text_answer **out, struct sluice_error *err)
{
    struct text_answer *a = calloc(1, sizeof *a);
    *out = NULL;
    if (!a) return no_memory(err);
    a->v = v;
    begin_way(&a->document, g, ++v->n_answers);
    a->has_openers = openers;
    if (openers) begin_way(&a->opener, openers, ++v->n_answers);
    a->mask = malloc(v->n_words * sizeof *a->mask);
    if (a->mask) text_answer_reset(a);
    if (!a->mask || a->document.run.no_memory || a->opener.run.no_memory) {
        text_answer_destroy(a);
        return no_memory(err);
    }
    *out = a;
    return SLUICE_OK;
}

void text_answer_destroy(struct text_answer *a)
{
    if (!a) return;
    run_free(&a->document.run);
    run_free(&a->opener.run);
    free(a->mask);
    free(a);
}

static void reset_way(struct way *w)
{
    struct run *r = &w->run;
    r->n_configs = r->n_nodes = r->first_node = 0;
    w->complete = false;
    run_close(r, (struct run_config){.state = r->a->rules[w->root].start, .node = RUN_NO_NODE});
}

void text_answer_reset(struct text_answer *a)
{
    reset_way(&a->document);
    if (a->has_openers) reset_way(&a->opener);
    a->masked = false;
}

enum text_branch text_answer_branch(const struct text_answer *a)
{
    if (a->opener.complete) return TEXT_BRANCH_FREE;
    return a->opener.run.n_configs ? TEXT_BRANCH_OPEN : TEXT_BRANCH_DOCUMENT;
}

bool text_answer_complete(const struct text_answer *a) { return a->document.complete || a->opener.complete; }
size_t text_answer_mask_words(const struct text_answer *a) { return a->v->n_words; }

/* ---- masks ---- */

/* What follows a walk that left the configuration's rule: its stack says. */
static void mark_exits(struct text_answer *a, struct run *r, const struct grammar_mask *m, uint32_t node)
{
    const uint32_t n_configs = r->n_configs, n_nodes = r->n_nodes;
    run_pop(r, node);
    for (uint32_t i = 0; i < m->n_exits && !r->no_memory; i++)
        grammar_walk(a->v, r, n_configs, m->exits[i].token, m->exits[i].depth, a->mask);
    r->n_configs = n_configs;
    r->n_nodes = n_nodes;
}

static void mark_config(struct text_answer *a, struct way *w, uint32_t index)
{
    struct run *r = &w->run;
    const struct run_config c = r->configs[index];
    const bool shared = c.state < r->a->rules[w->root].start; /* states that come before the schema's own */
    const uint32_t depth = c.node == RUN_NO_NODE ? 0 : r->nodes[c.node].depth;
    const struct grammar_mask *m = NULL;
    if (depth <= AUTOMATON_HEIGHT_MAX / 2) m = grammar_mask_of(a->v, r->a, shared ? 0 : w->serial, &c);
    if (m) {
        for (size_t i = 0; i < a->v->n_words; i++) a->mask[i] |= m->bits[i];
        if (m->n_exits) mark_exits(a, r, m, c.node);
        return;
    }
    const uint32_t n_configs = r->n_configs;
    run_put(r, c);
    if (!r->no_memory) grammar_walk(a->v, r, n_configs, 0, 0, a->mask);
    r->n_configs = n_configs;
}

static void mark_way(struct text_answer *a, struct way *w)
{
    const uint32_t n = w->run.n_configs;
    for (uint32_t i = 0; i < n && !w->run.no_memory; i++) mark_config(a, w, i);
}

/* What reading bytes leads to, before it is known whether it counts. */
struct attempt {
    uint32_t n_configs, n_nodes; /* before */
    uint32_t begin;              /* the set behind the last byte */
    bool fits, complete;
};

static struct attempt try_bytes(struct way *w, const char *bytes, size_t n)
{
    struct run *r = &w->run;
    struct attempt t = {.n_configs = r->n_configs, .n_nodes = r->n_nodes, .complete = w->complete};
    uint32_t end = r->n_configs;
    t.fits = end || t.complete;
    for (size_t i = 0; i < n && t.fits && !r->no_memory; i++) {
        run_step(r, t.begin, end, (uint8_t)bytes[i]);
        t.complete = r->done;
        t.begin = end;
        end = r->n_configs;
        t.fits = t.begin < end || t.complete;
    }
    return t;
}

static void take_back(struct way *w, const struct attempt *t)
{
    w->run.n_configs = t->n_configs;
    w->run.n_nodes = t->n_nodes;
}

/* Control tokens are part of no document, but may be one with which an answer is opened. */
static void mark_controls(struct text_answer *a)
{
    char piece[TEXT_TOKEN_BYTES_MAX];
    for (uint32_t i = 0; i < a->v->n_controls && a->opener.run.n_configs && !a->opener.run.no_memory; i++) {
        const int32_t id = a->v->controls[i];
        const size_t n = text_token_bytes(a->v->tokenizer, id, true, piece, sizeof piece);
        const struct attempt t = try_bytes(&a->opener, piece, n);
        take_back(&a->opener, &t);
        if (n && t.fits) a->mask[id / 64] |= UINT64_C(1) << id % 64;
    }
}

static void mark_all(struct text_answer *a)
{
    memset(a->mask, 0xff, a->v->n_words * sizeof *a->mask);
    if (a->v->n_vocab % 64) a->mask[a->v->n_words - 1] = (UINT64_C(1) << a->v->n_vocab % 64) - 1;
    a->masked = true;
}

enum sluice_status text_answer_mask(struct text_answer *a, const uint64_t **mask, struct sluice_error *err)
{
    bool any = false;
    *mask = a->mask;
    if (!a->masked && a->opener.complete) mark_all(a);
    if (a->masked) return SLUICE_OK;
    memset(a->mask, 0, a->v->n_words * sizeof *a->mask);
    mark_way(a, &a->document);
    mark_way(a, &a->opener);
    mark_controls(a);
    if (a->document.run.no_memory || a->opener.run.no_memory) return no_memory(err);
    for (uint32_t i = 0; a->document.complete && i < a->v->n_ends; i++)
        a->mask[a->v->ends[i] / 64] |= UINT64_C(1) << a->v->ends[i] % 64;
    for (size_t i = 0; i < a->v->n_words && !any; i++) any = a->mask[i];
    a->masked = any;
    if (any) return SLUICE_OK;
    return base_fail(err, SLUICE_ERR_MODEL, NULL, "the vocabulary has no token with which the document could go on");
}

/* ---- reading ---- */

static void settle(struct way *w, const struct attempt *t)
{
    w->complete = t->fits && t->complete;
    if (t->fits)
        run_compact(&w->run, t->begin);
    else
        w->run.n_configs = w->run.n_nodes = 0;
}

/* control: of a control token, which no document holds. */
static enum sluice_status read_bytes(struct text_answer *a, const char *bytes, size_t n, bool control, bool *fits,
                                     struct sluice_error *err)
{
    *fits = true;
    if (!n || a->opener.complete) return SLUICE_OK;
    struct attempt document = {.n_configs = a->document.run.n_configs, .n_nodes = a->document.run.n_nodes}, opener;
    if (!control) document = try_bytes(&a->document, bytes, n);
    opener = try_bytes(&a->opener, bytes, n);
    *fits = document.fits || opener.fits;
    if (*fits) {
        settle(&a->document, &document);
        settle(&a->opener, &opener);
        a->masked = false;
    } else {
        take_back(&a->document, &document);
        take_back(&a->opener, &opener);
    }
    return a->document.run.no_memory || a->opener.run.no_memory ? no_memory(err) : SLUICE_OK;
}

enum sluice_status text_answer_accept_bytes(struct text_answer *a, const char *bytes, size_t n,
                                            struct sluice_error *err)
{
    bool fits;
    enum sluice_status st = read_bytes(a, bytes, n, false, &fits, err);
    if (st || fits) return st;
    return base_fail(err, SLUICE_ERR_USAGE, NULL, "'%.*s' does not go on with the document", (int)(n < 60 ? n : 60),
                     bytes);
}

enum sluice_status text_answer_accept(struct text_answer *a, int32_t id, struct sluice_error *err)
{
    char piece[TEXT_TOKEN_BYTES_MAX];
    bool fits = text_answer_complete(a);
    if (a->opener.complete)
        fits = id >= 0 && (size_t)id < a->v->n_vocab;
    else if (!text_ends_generation(a->v->tokenizer, id)) {
        const bool control = text_is_control(a->v->tokenizer, id);
        const size_t n = text_token_bytes(a->v->tokenizer, id, control, piece, sizeof piece);
        fits = n > 0;
        enum sluice_status st = fits ? read_bytes(a, piece, n, control, &fits, err) : SLUICE_OK;
        if (st) return st;
    }
    if (fits) return SLUICE_OK;
    return base_fail(err, SLUICE_ERR_USAGE, "take a token that the mask allows",
                     "token %d does not go on with the document", id);
}
