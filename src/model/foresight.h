/* Guesses at the experts that come next, made while a step runs: what predict.h knows and the next layer's router on
 * this layer's state, told to the cache. Changes when bytes are read and nothing else (E5).
 *
 * Layers whose router is a table of token ids need no guess: their experts are named when the step begins, and all of
 * them come true.
 *
 * One token (decode): names with a measured width, read only while the disk is idle. Several tokens (a prompt): all
 * that the next layer's router would choose for them now, read ahead at once; or the whole next layer, where that costs
 * no more (route "layers"). */
#ifndef MODEL_FORESIGHT_H
#define MODEL_FORESIGHT_H

#include "expert/predict.h"
#include "model/forward.h"

#define FORESIGHT_TOKENS 64 /* tokens whose next router is computed at once */

enum foresight_route { FORESIGHT_SELECTED, FORESIGHT_LAYERS, FORESIGHT_BY_COST };

struct foresight_names {
    uint16_t ids[PREDICT_WIDTH_MAX];
    bool asked[PREDICT_WIDTH_MAX]; /* was not there when it was named */
    uint8_t n;
};

struct model_foresight {
    struct predict *predict; /* borrowed; NULL: nothing is guessed */
    bool certain;            /* the experts that a table gives are named */
    enum foresight_route route;
    double whole_cost; /* of reading a whole layer's missing experts, against selected ones a byte (1: the same) */
    uint64_t expert_read_ns;                /* one expert's read on an idle disk, as measured */
    uint64_t layers_whole, layers_selected; /* of prompts: how the next layer was read ahead */
    /* private */
    struct foresight_names *names; /* [PREDICT_SOURCES][n_layer] of single tokens */
    uint16_t *last;                /* [n_layer][n_expert_used] choice of the last token */
    uint32_t *ids, *counts;        /* [n_expert] */
    struct expert_source_stats seen[EXPERT_SOURCES];
    uint64_t misses; /* of the cache, at the last step's end */
    uint32_t n_full; /* steps in a row in which nothing missed */
};

enum sluice_status model_foresight_create(const struct model *m, struct model_foresight **out,
                                          struct sluice_error *err);
void model_foresight_destroy(struct model_foresight *f);
size_t model_foresight_memory_bytes(const struct model *m);

/* The step's tokens are known: names their experts in the layers whose router is a table. */
void foresight_begin(struct model_run *r, const struct model_step *s);
/* The layer's choice is known (scratch.ids): judges what was named and learns. */
void foresight_learn(struct model_run *r, const struct model_step *s, uint32_t layer);
/* The layer's experts have been wanted: names those of the next layer with experts. scratch.x is the residual stream
 * before this layer's experts. */
void foresight_ahead(struct model_run *r, const struct model_step *s, uint32_t layer);
/* All layers are done: names what the next token will want first, and settles what guesses were worth. */
void foresight_end(struct model_run *r, const struct model_step *s);

#endif
