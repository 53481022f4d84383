/* What the files of predict share. */
#ifndef EXPERT_PREDICT_PRIVATE_H
#define EXPERT_PREDICT_PRIVATE_H

#include "expert/predict.h"

#define PREDICT_NO_LAYER UINT32_MAX

/* Counts of pairs, by row: an expert that was chosen, and what was chosen then. A row is taught once for each use of
 * its expert and adds at most 1 to each of its counts, so no count is above the row's number of uses. */
struct predict_table {
    uint8_t *counts; /* for each layer [n_expert of it][n_expert of the target]; NULL: this source is not kept */
    uint8_t *uses;   /* [n_keys] how often a row was taught */
};

struct predict_layer {
    uint32_t n_expert, n_used, first_key;
    uint32_t before, after; /* the layers with experts beside it, or PREDICT_NO_LAYER */
    size_t across_at;       /* its rows in the table of transitions (to `after`) */
    size_t along_at;        /* its rows in the table of next */
    float n_tokens;         /* decayed */
    uint32_t n_last;        /* size of `last`; 0: not known */
};

/* The choices of one layer in the running step. */
struct predict_step {
    uint32_t layer;
    uint32_t n[PREDICT_AHEAD_MAX]; /* 0: this token's choice is not known */
    uint16_t *ids;                 /* [PREDICT_AHEAD_MAX][k_max] */
};

struct predict_ranks {
    float asked[PREDICT_WIDTH_MAX], came_true[PREDICT_WIDTH_MAX]; /* decayed */
    bool told[PREDICT_WIDTH_MAX];                                 /* since the last exploration, and not by it */
    bool exploring;                                               /* until the next tick */
    uint32_t width;                                               /* by what was measured */
};

struct predict_gate {
    bool kept; /* false: its table is not */
    bool allowed, automatic;
    uint64_t saved_ns, cost_ns; /* of the running window */
    uint32_t window_tokens;
    uint32_t rest_tokens; /* what is left of the rest; 0: it is used */
    uint32_t next_rest;   /* how long the next one will be */
};

struct predict {
    uint32_t n_layers, n_keys;
    uint32_t k_max, widest; /* largest top-k, largest layer */
    uint32_t last_ahead;    /* of the last call */
    uint64_t n_ticks;
    struct predict_layer *layers;       /* [n_layers] */
    struct predict_table across, along; /* transitions; next */
    float *popular;                     /* [n_keys] selections, decayed */
    uint16_t *last;                     /* [n_layers][k_max] the choice of the call before */
    struct predict_step step[2];        /* [0] the running layer, [1] the one before it */
    double *over, *under, *base;        /* [widest] while names are rated */
    struct predict_ranks ranks[PREDICT_SOURCES];
    struct predict_gate gates[PREDICT_SOURCES];
};

void predict_ranks_begin(struct predict *p);
void predict_ranks_tick(struct predict *p, uint32_t n_tokens);
void predict_gates_begin(struct predict *p);
void predict_tables_forget_step(struct predict *p);

#endif
