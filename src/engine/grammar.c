/* Constrained answers: thin doors to room text, and the draw among what is allowed. */
#include "engine/engine.h"

#include <stdlib.h>

_Static_assert(SLUICE_OPENERS_BYTES_MAX == TEXT_OPENERS_BYTES_MAX, "as sluice.h says");

struct sluice_grammar {
    sluice_engine *engine;
    struct text_grammar *grammar, *openers; /* openers: or NULL */
    struct text_answer *answer;
};

static size_t vocab_of(const sluice_engine *e) { return e->model ? e->model->hp.n_vocab : text_n_vocab(e->tokenizer); }

enum sluice_status sluice_grammar_json(sluice_engine *e, const char *schema, size_t bytes, sluice_grammar **out,
                                       struct sluice_error *err)
{
    *out = NULL;
    if (e->model && !e->options.grammar)
        return base_fail(err, SLUICE_ERR_USAGE, "open the engine with sluice_options.grammar",
                         "there is no memory in the budget for constrained answers");
    enum sluice_status st =
        e->grammar_vocab ? SLUICE_OK : text_grammar_vocab_create(e->tokenizer, vocab_of(e), &e->grammar_vocab, err);
    if (st) return st;
    sluice_grammar *g = calloc(1, sizeof *g);
    if (!g) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for a constrained answer");
    g->engine = e;
    st = text_grammar_create(schema, bytes, &g->grammar, err);
    if (!st) st = text_answer_create(g->grammar, NULL, e->grammar_vocab, &g->answer, err);
    if (st)
        sluice_grammar_free(g);
    else
        *out = g;
    return st;
}

void sluice_grammar_free(sluice_grammar *g)
{
    if (!g) return;
    text_answer_destroy(g->answer);
    text_grammar_destroy(g->grammar);
    text_grammar_destroy(g->openers);
    free(g);
}

enum sluice_status sluice_grammar_openers(sluice_grammar *g, const char *const *texts, size_t n,
                                          struct sluice_error *err)
{
    struct text_grammar *openers = NULL;
    struct text_answer *answer;
    enum sluice_status st = n ? text_grammar_openers(texts, n, &openers, err) : SLUICE_OK;
    if (!st) st = text_answer_create(g->grammar, openers, g->engine->grammar_vocab, &answer, err);
    if (st) {
        text_grammar_destroy(openers);
        return st;
    }
    text_answer_destroy(g->answer);
    text_grammar_destroy(g->openers);
    g->answer = answer;
    g->openers = openers;
    return SLUICE_OK;
}

enum sluice_branch sluice_grammar_branch(const sluice_grammar *g)
{
    switch (text_answer_branch(g->answer)) {
    case TEXT_BRANCH_OPEN: return SLUICE_BRANCH_OPEN;
    case TEXT_BRANCH_FREE: return SLUICE_BRANCH_FREE;
    default: return SLUICE_BRANCH_DOCUMENT;
    }
}

void sluice_grammar_reset(sluice_grammar *g) { text_answer_reset(g->answer); }

enum sluice_status sluice_grammar_mask(sluice_grammar *g, const uint64_t **mask, struct sluice_error *err)
{
    return text_answer_mask(g->answer, mask, err);
}

enum sluice_status sluice_grammar_accept(sluice_grammar *g, int32_t id, struct sluice_error *err)
{
    return text_answer_accept(g->answer, id, err);
}

bool sluice_grammar_complete(const sluice_grammar *g) { return text_answer_complete(g->answer); }

enum sluice_status sluice_sample_constrained(sluice_session *s, sluice_grammar *g, int32_t *id,
                                             struct sluice_error *err)
{
    const uint64_t *mask = NULL;
    if (!s->has_logits)
        return base_fail(err, SLUICE_ERR_USAGE, "call sluice_eval first", "there are no logits to sample from");
    if (s->engine != g->engine)
        return base_fail(err, SLUICE_ERR_USAGE, NULL, "the grammar belongs to another engine than the session");
    const bool anything = text_answer_branch(g->answer) == TEXT_BRANCH_FREE;
    enum sluice_status st = anything ? SLUICE_OK : text_answer_mask(g->answer, &mask, err);
    if (st) return st;
    *id = (int32_t)sample_token_of(&s->sampling, &s->random, s->logits, s->engine->model->hp.n_vocab, mask, s->ids,
                                   s->n, s->answer, s->sample_scratch);
    return text_answer_accept(g->answer, *id, err);
}
