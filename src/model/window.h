/* The rows of layers that look at a window alone: a ring, in which position p has row p % rows. A step writes over rows
 * that none of its queries looks at any more; how far back the ring goes then is `low`. What a token at some position
 * needs of it, the window's rows, is a part of the state (state.h): it can be saved, and brought back. */
#ifndef MODEL_WINDOW_H
#define MODEL_WINDOW_H

#include "model/hparams.h"

#include <stddef.h>
#include <stdint.h>

/* Beyond the window and the largest step: so many tokens, and as many as that step has, can always be taken back. */
#define MODEL_WINDOW_SLACK 64

struct model_window {
    uint32_t rows;        /* whole blocks of attention; 0: there is no ring */
    uint32_t back;        /* rows before its own that a token looks at: the largest window - 1 */
    uint64_t token_bytes; /* of one position, all parts */
    size_t low;           /* the rows from here on are there */
    uint32_t n_parts;
    struct {
        uint8_t *at;
        size_t row_bytes;
    } part[2 * MODEL_LAYERS_MAX]; /* keys, values */
};

/* Rows for a window and steps of `chunk` tokens. */
uint64_t model_window_rows(uint32_t window, uint32_t chunk);

/* The first position that a token at `at`, or one behind it, looks at. */
static inline size_t model_window_needs(const struct model_window *w, size_t at)
{
    return at > w->back ? at - w->back : 0;
}
/* Bytes of the rows that tokens from `at` on look at. */
static inline uint64_t model_window_bytes(const struct model_window *w, size_t at)
{
    return (at - model_window_needs(w, at)) * w->token_bytes;
}
/* Those rows, piece by piece, always in the same order and cut anywhere. */
typedef void model_piece_fn(void *user, void *piece, size_t bytes);
void model_window_each(const struct model_window *w, size_t at, model_piece_fn *visit, void *user);
/* A step over [at, at + n) is about to write its rows. */
void model_window_advance(struct model_window *w, size_t at, size_t n);

#endif
