/* What will be wanted next: guesses at experts before their router has spoken, how good each kind of guess has been in
 * this run, and whether it pays. Knows ids, counts and times that it is told; reads nothing and owns no slot.
 *
 * Sources:
 * - look-ahead: layer L+1's router on layer L's state; model/moe computes it, the candidates come ranked;
 * - transitions: learned, from the experts of layer L to those of the next layer with experts;
 * - next: learned, from a layer's experts for this token to its experts for the next token.
 *
 * Guesses never change a result (E5); deterministic; nothing is allocated after predict_create.
 *
 * Learned tables count pairs; a row that is full is halved. Width: for each source and rank the share of named experts
 * that came true is measured; only leading ranks whose precision is good enough are used. A source that costs more time
 * than it saves in this run is switched off and tried again later. */
#ifndef EXPERT_PREDICT_H
#define EXPERT_PREDICT_H

#include "expert/catalog.h"

enum predict_source { PREDICT_LOOKAHEAD, PREDICT_TRANSITIONS, PREDICT_NEXT, PREDICT_SOURCES };

#define PREDICT_WIDTH_MAX 32

struct predict; /* opaque */

/* tables: which of the learned tables are kept (bit PREDICT_TRANSITIONS, bit PREDICT_NEXT). A byte a pair: one that
 * would take more than 32 MiB, or that has no pair, is left out; its source then names nothing and predict_on says
 * false. */
enum sluice_status predict_create(const struct expert_catalog *catalog, unsigned tables, struct predict **out,
                                  struct sluice_error *err);
void predict_destroy(struct predict *p);
size_t predict_memory_bytes(const struct expert_catalog *catalog, unsigned tables);

/* ---- learning: one token's choice in one layer, layers in ascending order within a token. `ahead` as in
 * policy_route: tokens of one step come in order within a layer (a prefill step tells layer by layer), so the previous
 * token's choice in the same layer is the call before, and the choice of the previous layer for the same token is
 * remembered for at most PREDICT_AHEAD_MAX tokens of a step; later ones of a long prefill do not teach transitions. */
#define PREDICT_AHEAD_MAX 64
void predict_selected(struct predict *p, uint32_t layer, const uint32_t *ids, uint32_t n, uint32_t ahead);
void predict_prompt(struct predict *p); /* a new prompt: the token before it is not its predecessor */

/* ---- naming: up to `max` experts of the target layer, most likely first (ties to the lower id); returns how many.
 * Only experts that were chosen before are named, resident or not. Nothing learned of the layer yet: 0. Not more than
 * PREDICT_WIDTH_MAX are named, and by the first 32 of a choice. */
/* The experts of the first layer with experts after `layer`, given one token's choice in `layer`. *to: that layer, or
 * UINT32_MAX after the last one (then 0 are named). */
uint32_t predict_transitions(const struct predict *p, uint32_t layer, const uint32_t *ids, uint32_t n, uint32_t *to,
                             uint32_t *out, uint32_t max);
/* The experts of `layer` for the next token, given this token's choice there. */
uint32_t predict_next(const struct predict *p, uint32_t layer, const uint32_t *ids, uint32_t n, uint32_t *out,
                      uint32_t max);

/* ---- width: how many leading ranks are worth reading */
/* What became of a ranked list of n names: came_true[rank]. Only names that were not resident teach (others need no
 * read): asked[rank] says which. Names that were not read may and should be told too: it needs no read to see whether
 * they came true, and then nothing has to be explored. */
void predict_outcome(struct predict *p, enum predict_source s, const bool *came_true, const bool *asked, uint32_t n);
/* The number of leading ranks to use, 0..max. Before anything is measured: the ranks of a prior (one top-k). A little
 * more for one token in 16 (by predict_tick), unless the ranks behind it are told anyway. */
uint32_t predict_width(const struct predict *p, enum predict_source s, uint32_t max);

/* ---- paying: nanoseconds that guesses of a source saved (reads that a demand did not have to wait for) and cost
 * (demands that waited behind them, experts read again that they had displaced). */
void predict_saved(struct predict *p, enum predict_source s, uint64_t ns);
void predict_cost(struct predict *p, enum predict_source s, uint64_t ns);
void predict_tick(struct predict *p, uint32_t n_tokens);
/* Whether the source is to be used for the next token. A source is judged over windows of tokens; one that has cost
 * more than it saved rests for a while that doubles each time (bounded), then is tried again. */
bool predict_on(const struct predict *p, enum predict_source s);
/* allowed false: the user switched it off. automatic false: on whatever it costs. */
void predict_allow(struct predict *p, enum predict_source s, bool allowed, bool automatic);

#endif
