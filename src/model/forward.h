/* The forward pass of one step: a chunk of tokens, of one sequence or of several, goes through all layers.
 * Architectures compose the pieces of attention.h, router.h, moe.h and ffn.h. */
#ifndef MODEL_FORWARD_H
#define MODEL_FORWARD_H

#include "expert/cache.h"
#include "expert/ghost.h"
#include "expert/usage.h"
#include "kernel/kernel.h"
#include "model/kv.h"
#include "model/model.h"
#include "model/scratch.h"

#include <string.h>

struct model_foresight; /* model/foresight.h */

#define MODEL_SPANS_MAX 64

/* What stays the same from step to step. One thread owns it. */
struct model_run {
    const struct model *model;
    struct kernel_ctx kernel;
    struct expert_cache *cache; /* NULL: a dense model */
    struct model_scratch scratch;
    struct model_foresight *foresight; /* NULL: nothing is guessed */
    struct expert_usage *usage;        /* told what is chosen; NULL: nobody */
    struct expert_ghosts *ghosts;      /* the same */
    /* Asked before every layer; false ends the step with SLUICE_CANCELLED. May be NULL. */
    bool (*go_on)(void *user, uint32_t layer);
    void *user;
    struct model_rest *rest; /* of the step under way; NULL: steps are not narrowed */
};

/* Receives the logits [n_vocab] of the step's token `index`, valid during the call; false ends the step with
 * SLUICE_CANCELLED. */
typedef bool model_logits_fn(void *user, size_t index, const float *logits);

/* Neighbouring tokens of the step that continue one sequence. */
struct model_span {
    struct model_kv *kv;
    size_t first, n_tokens; /* in the step */
    size_t pos0;            /* position of the first; kv holds all before it */
};

struct model_step {
    const int32_t *ids;             /* [n_tokens], each < n_vocab */
    size_t n_tokens;                /* 1 .. scratch.chunk */
    const struct model_span *spans; /* [n_spans] in order, none empty, all tokens, each sequence once */
    size_t n_spans;
    enum { MODEL_LOGITS_NONE, MODEL_LOGITS_LAST, MODEL_LOGITS_ALL } want; /* LAST: of each span */
    model_logits_fn *logits;
    void *user;
    const uint32_t *origin; /* of what is left of a step: the tokens' places in it; NULL: it is whole */
};

/* Behind the last layer's keys and values nobody looks at a token but for its logits. The step of those whose logits
 * are wanted, their rows of the residual stream in scratch.x moved together; without any it has no tokens, and what is
 * left of the layer is not computed. */
struct model_rest {
    const struct model_step *of; /* NULL: the step is still whole */
    struct model_step step;
    struct model_span spans[MODEL_SPANS_MAX];
    int32_t ids[MODEL_SPANS_MAX];
    uint32_t origin[MODEL_SPANS_MAX];
};

/* Whether model_narrow leaves less than the step. */
static inline bool model_narrows(const struct model_run *r, const struct model_step *s, uint32_t layer)
{
    return r->rest && layer + 1 == r->model->hp.n_layer && s->want != MODEL_LOGITS_ALL &&
           (s->want == MODEL_LOGITS_NONE || s->n_tokens != s->n_spans);
}
/* Moves the rows, of n floats a token of the whole step, together that belong to the tokens of a rest. */
static inline void model_narrow_rows(const struct model_step *rest, float *rows, size_t n)
{
    for (size_t i = 0; i < rest->n_tokens && rest->origin; i++)
        if (rest->origin[i] != i) memcpy(rows + i * n, rows + rest->origin[i] * n, n * sizeof *rows);
}
/* The step as it goes on in the layer when its keys, values and states are stored: itself, or its rest. May be asked
 * again (an attention block narrows before its queries look at anything, its layer asks behind it). */
const struct model_step *model_narrow(struct model_run *r, const struct model_step *s, uint32_t layer);

/* Whose a token of the step is, and where it stands there. */
static inline const struct model_span *model_span_of(const struct model_step *s, size_t token)
{
    const struct model_span *span = s->spans;
    while (token - span->first >= span->n_tokens) span++;
    return span;
}
static inline size_t model_pos(const struct model_span *span, size_t token) { return span->pos0 + token - span->first; }

/* On an error or cancel the KV rows from each span's pos0 on are undefined and the experts of the layer have been let
 * go; earlier rows and the cache stay good. Logits that are not finite: SLUICE_ERR_MODEL. */
enum sluice_status model_forward(struct model_run *r, const struct model_step *s, struct sluice_error *err);

#endif
