/* Recurrent state of one sequence: what layers remember that keep no rows by position. A token overwrites it, so
 * rewinding needs copies of earlier states (checkpoints); from the newest one that is early enough the tokens are
 * computed again. States: standing at a position, or broken (a step has failed in between). */
#ifndef MODEL_STATE_H
#define MODEL_STATE_H

#include "model/hparams.h"

#define MODEL_CHECKPOINTS_MAX 32
#define MODEL_CHECKPOINTS_MIN 3
#define MODEL_CHECKPOINT_BYTES ((uint64_t)256 << 20) /* of all checkpoints, beyond the least number */
#define MODEL_CHECKPOINT_TOKENS 256                  /* between two checkpoints at most, while tokens come one by one */

struct model_state {
    uint64_t floats;                     /* of all layers; 0: the model has no recurrent layers */
    uint64_t layer_at[MODEL_LAYERS_MAX]; /* in floats */
    float *live;
    size_t at;    /* live has seen the tokens [0, at) */
    bool broken;  /* live is nowhere */
    float *saved; /* [n_max][floats] */
    uint32_t n_saved, n_max;
    struct {
        size_t at; /* ascending */
        uint32_t slot;
    } checkpoint[MODEL_CHECKPOINTS_MAX];
};

/* Bytes of the state and its checkpoints, 0 for models without. */
uint64_t model_state_bytes(const struct model_hparams *hp);
/* memory: model_state_bytes, aligned to 4; the state stands at 0. */
void model_state_place(const struct model_hparams *hp, void *memory, struct model_state *out);
/* The sequence is cut to n tokens. Returns the position that the state stands at now, at most n: tokens from there on
 * have to be computed again. */
size_t model_state_rewind(struct model_state *s, size_t n);
/* Around a step over the tokens [at, at + n). `keep`: the end of it is a place worth returning to. */
void model_state_begin(struct model_state *s);
void model_state_end(struct model_state *s, size_t n, bool keep);

/* The latest position at or before n at which the state is known: it stands there or there is a checkpoint. */
size_t model_state_known(const struct model_state *s, size_t n);
/* The state of one sequence as it was after `at` tokens (model_state_known) becomes that of another, which forgets its
 * own. */
void model_state_copy(struct model_state *to, const struct model_state *from, size_t at);

/* The floats of the state after `at` tokens (model_state_known; not 0). */
const float *model_state_at(const struct model_state *s, size_t at);
/* The sequence goes on from n tokens of its own, and what is known behind them is forgotten. Unlike a rewind it may be
 * followed by other tokens than those that were there. */
void model_state_cut(struct model_state *s, size_t n);
/* Gives the place for a state from elsewhere; then it is the one after `at` tokens, and a checkpoint. */
float *model_state_take(struct model_state *s);
void model_state_taken(struct model_state *s, size_t at);

static inline float *model_state_of(struct model_state *s, uint32_t layer) { return s->live + s->layer_at[layer]; }

#endif
