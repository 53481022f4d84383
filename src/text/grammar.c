#include "text/grammar.h"

#include "text/grammar_vocab.h"
#include "text/schema.h"
#include "text/vocab.h"

#include <stdlib.h>
#include <string.h>

struct text_grammar {
    struct automaton a;
    uint32_t root;
};

struct text_answer {
    const struct text_grammar *g;
    struct text_grammar_vocab *v;
    uint64_t serial;
    struct run run; /* configs: where the answer stands */
    bool complete;
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

enum sluice_status text_answer_create(const struct text_grammar *g, struct text_grammar_vocab *v,
                                      struct text_answer **out, struct sluice_error *err)
{
    struct text_answer *a = calloc(1, sizeof *a);
    *out = NULL;
    if (!a) return no_memory(err);
    a->g = g;
    a->v = v;
    a->serial = ++v->n_answers;
    a->run.a = &g->a;
    a->run.base_node = RUN_NO_NODE;
    a->mask = malloc(v->n_words * sizeof *a->mask);
    if (a->mask) text_answer_reset(a);
    if (!a->mask || a->run.no_memory) {
        text_answer_destroy(a);
        return no_memory(err);
    }
    *out = a;
    return SLUICE_OK;
}

void text_answer_destroy(struct text_answer *a)
{
    if (!a) return;
    run_free(&a->run);
    free(a->mask);
    free(a);
}

void text_answer_reset(struct text_answer *a)
{
    a->run.n_configs = a->run.n_nodes = a->run.first_node = 0;
    a->complete = a->masked = false;
    run_close(&a->run, (struct run_config){.state = a->g->a.rules[a->g->root].start, .node = RUN_NO_NODE});
}

bool text_answer_complete(const struct text_answer *a) { return a->complete; }
size_t text_answer_mask_words(const struct text_answer *a) { return a->v->n_words; }

/* What follows a walk that left the configuration's rule: its stack says. */
static void mark_exits(struct text_answer *a, const struct grammar_mask *m, uint32_t node)
{
    struct run *r = &a->run;
    const uint32_t n_configs = r->n_configs, n_nodes = r->n_nodes;
    run_pop(r, node);
    for (uint32_t i = 0; i < m->n_exits && !r->no_memory; i++)
        grammar_walk(a->v, r, n_configs, m->exits[i].token, m->exits[i].depth, a->mask);
    r->n_configs = n_configs;
    r->n_nodes = n_nodes;
}

static void mark_config(struct text_answer *a, uint32_t index)
{
    struct run *r = &a->run;
    const struct run_config c = r->configs[index];
    const bool shared = c.state < a->g->a.rules[a->g->root].start; /* states that come before the schema's own */
    const uint32_t depth = c.node == RUN_NO_NODE ? 0 : r->nodes[c.node].depth;
    const struct grammar_mask *m = NULL;
    if (depth <= AUTOMATON_HEIGHT_MAX / 2) m = grammar_mask_of(a->v, &a->g->a, shared ? 0 : a->serial, &c);
    if (m) {
        for (size_t i = 0; i < a->v->n_words; i++) a->mask[i] |= m->bits[i];
        if (m->n_exits) mark_exits(a, m, c.node);
        return;
    }
    const uint32_t n_configs = r->n_configs;
    run_put(r, c);
    if (!r->no_memory) grammar_walk(a->v, r, n_configs, 0, 0, a->mask);
    r->n_configs = n_configs;
}

enum sluice_status text_answer_mask(struct text_answer *a, const uint64_t **mask, struct sluice_error *err)
{
    bool any = false;
    *mask = a->mask;
    if (a->masked) return SLUICE_OK;
    memset(a->mask, 0, a->v->n_words * sizeof *a->mask);
    const uint32_t n = a->run.n_configs;
    for (uint32_t i = 0; i < n && !a->run.no_memory; i++) mark_config(a, i);
    if (a->run.no_memory) return no_memory(err);
    for (uint32_t i = 0; a->complete && i < a->v->n_ends; i++)
        a->mask[a->v->ends[i] / 64] |= UINT64_C(1) << a->v->ends[i] % 64;
    for (size_t i = 0; i < a->v->n_words && !any; i++) any = a->mask[i];
    a->masked = any;
    if (any) return SLUICE_OK;
    return base_fail(err, SLUICE_ERR_MODEL, NULL, "the vocabulary has no token with which the document could go on");
}

static enum sluice_status read_bytes(struct text_answer *a, const char *bytes, size_t n, bool *fits,
                                     struct sluice_error *err)
{
    struct run *r = &a->run;
    const uint32_t n_configs = r->n_configs, n_nodes = r->n_nodes;
    uint32_t begin = 0, end = n_configs;
    bool complete = a->complete;
    *fits = true;
    for (size_t i = 0; i < n && *fits && !r->no_memory; i++) {
        run_step(r, begin, end, (uint8_t)bytes[i]);
        complete = r->done;
        begin = end;
        end = r->n_configs;
        *fits = begin < end || complete;
    }
    if (*fits && n && !r->no_memory) run_compact(r, begin);
    if (r->no_memory) return no_memory(err);
    if (*fits) {
        a->complete = complete;
        a->masked = false;
    } else {
        r->n_configs = n_configs;
        r->n_nodes = n_nodes;
    }
    return SLUICE_OK;
}

enum sluice_status text_answer_accept_bytes(struct text_answer *a, const char *bytes, size_t n,
                                            struct sluice_error *err)
{
    bool fits;
    enum sluice_status st = read_bytes(a, bytes, n, &fits, err);
    if (st || fits) return st;
    return base_fail(err, SLUICE_ERR_USAGE, NULL, "'%.*s' does not go on with the document", (int)(n < 60 ? n : 60),
                     bytes);
}

enum sluice_status text_answer_accept(struct text_answer *a, int32_t id, struct sluice_error *err)
{
    char piece[TEXT_TOKEN_BYTES_MAX];
    bool fits = a->complete;
    if (!text_ends_generation(a->v->tokenizer, id)) {
        const bool control = text_is_control(a->v->tokenizer, id);
        const size_t n = control ? 0 : text_token_bytes(a->v->tokenizer, id, false, piece, sizeof piece);
        fits = n > 0;
        enum sluice_status st = fits ? read_bytes(a, piece, n, &fits, err) : SLUICE_OK;
        if (st) return st;
    }
    if (fits) return SLUICE_OK;
    return base_fail(err, SLUICE_ERR_USAGE, "take a token that the mask allows",
                     "token %d does not go on with the document", id);
}
