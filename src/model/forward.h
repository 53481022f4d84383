/* The forward pass of one step: a chunk of tokens of one sequence goes through all layers. Architectures compose the
 * pieces of attention.h, router.h, moe.h and ffn.h. */
#ifndef MODEL_FORWARD_H
#define MODEL_FORWARD_H

#include "expert/cache.h"
#include "expert/ghost.h"
#include "expert/usage.h"
#include "kernel/kernel.h"
#include "model/kv.h"
#include "model/model.h"
#include "model/scratch.h"

struct model_foresight; /* model/foresight.h */

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
};

/* Receives one row of logits [n_vocab], valid during the call; false ends the step with SLUICE_CANCELLED. */
typedef bool model_logits_fn(void *user, size_t index, const float *logits);

struct model_step {
    const int32_t *ids; /* [n_tokens], each < n_vocab */
    size_t n_tokens;    /* 1 .. scratch.chunk */
    size_t pos0;        /* position of the first; kv holds all before it */
    struct model_kv *kv;
    enum { MODEL_LOGITS_NONE, MODEL_LOGITS_LAST, MODEL_LOGITS_ALL } want;
    model_logits_fn *logits;
    void *user;
};

/* On an error or cancel the KV rows from pos0 on are undefined and the experts of the layer have been let go; earlier
 * rows and the cache stay good. Logits that are not finite: SLUICE_ERR_MODEL. */
enum sluice_status model_forward(struct model_run *r, const struct model_step *s, struct sluice_error *err);

#endif
