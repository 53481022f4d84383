/* What a sequence remembers beside the rows that it keeps for every position: recurrent state, which a token
 * overwrites, and the rows of windows, which later ones overwrite. Rewinding needs copies of earlier states
 * (checkpoints); from the newest one that is early enough the tokens are computed again. A rewind within what the rings
 * of windows still hold needs none, if the model has no recurrent layers. States: standing at a position, or broken (a
 * step has failed in between; windows alone do not break, a step writes over nothing that was needed before it). */
#ifndef MODEL_STATE_H
#define MODEL_STATE_H

#include "model/hparams.h"
#include "model/window.h"

#define MODEL_CHECKPOINTS_MAX 32
#define MODEL_CHECKPOINTS_MIN 3
#define MODEL_CHECKPOINT_BYTES ((uint64_t)256 << 20) /* of all checkpoints, beyond the least number */
#define MODEL_CHECKPOINT_TOKENS 256                  /* between two checkpoints at most, while tokens come one by one */
#define MODEL_CHECKPOINT_SPAN 4096 /* windows alone: one for so many tokens of the context, beyond the least number */

struct model_state {
    uint64_t floats;                     /* of all recurrent layers; 0: the model has none */
    uint64_t layer_at[MODEL_LAYERS_MAX]; /* in floats */
    float *live;
    struct model_window window;
    size_t at;      /* live and the rings have seen the tokens [0, at) */
    bool broken;    /* live is nowhere */
    size_t bytes;   /* of a checkpoint at most; 0: there is no state */
    uint8_t *saved; /* [n_max][bytes], each the floats and then the window's rows */
    uint32_t n_saved, n_max, taken_slot;
    struct {
        size_t at; /* ascending */
        uint32_t slot;
    } checkpoint[MODEL_CHECKPOINTS_MAX];
};

/* Bytes of the state and its checkpoints beside the rings, 0 for models without. window_bytes: of a window's rows, 0
 * where there is no ring. Never less for a longer context. */
uint64_t model_state_bytes(const struct model_hparams *hp, uint64_t window_bytes, uint32_t ctx);
/* memory: model_state_bytes, aligned to 4. window: its rings are placed. The state stands at 0. */
void model_state_place(const struct model_hparams *hp, const struct model_window *window, uint32_t ctx, void *memory,
                       struct model_state *out);
/* The sequence is cut to n tokens. Returns the position that the state stands at now, at most n: tokens from there on
 * have to be computed again. */
size_t model_state_rewind(struct model_state *s, size_t n);
/* Around a step over the tokens [at, at + n). `keep`: the end of it is a place worth returning to. */
void model_state_begin(struct model_state *s, size_t n);
void model_state_end(struct model_state *s, size_t n, bool keep);

/* The latest position at or before n at which the state is known: it stands there, it can be taken back to there, or
 * there is a checkpoint. */
size_t model_state_known(const struct model_state *s, size_t n);
/* The latest checkpoint at or before n, or 0. */
size_t model_state_saved(const struct model_state *s, size_t n);
/* The state of one sequence as it was after `at` tokens (model_state_known) becomes that of another, which forgets its
 * own. */
void model_state_copy(struct model_state *to, const struct model_state *from, size_t at);

/* The state after `at` tokens (model_state_known; not 0), piece by piece: so many bytes, which mean the same whatever
 * the ring's size. */
uint64_t model_state_bytes_at(const struct model_state *s, size_t at);
void model_state_each(const struct model_state *s, size_t at, model_piece_fn *visit, void *user);
/* The sequence goes on from n tokens of its own, and what is known behind them is forgotten. Unlike a rewind it may be
 * followed by other tokens than those that were there. */
void model_state_cut(struct model_state *s, size_t n);
/* Gives the place for a state from elsewhere; then it is the one after `at` tokens, and a checkpoint. */
void *model_state_take(struct model_state *s);
void model_state_taken(struct model_state *s, size_t at);

static inline float *model_state_of(struct model_state *s, uint32_t layer) { return s->live + s->layer_at[layer]; }

#endif
