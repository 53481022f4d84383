/* Recorded routings: what the router chose, token by token and layer by layer. Written while the engine runs, read by
 * `sluice replay`. The format is in README.md here. */
#ifndef EXPERT_TRACE_H
#define EXPERT_TRACE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRACE_VERSION 1u
#define TRACE_NONE UINT16_MAX /* no expert at this place of a choice */

struct trace_layer {
    uint32_t n_expert, n_used; /* n_expert 0: a dense layer */
    uint64_t expert_bytes;     /* of one expert */
};

/* ---- writing ---- */

struct trace_writer; /* opaque */

/* Writes to PATH.part, which becomes PATH when it is complete. SLUICE_ERR_IO if it cannot be created. */
enum sluice_status trace_create(const char *path, const char *model, const struct trace_layer *layers,
                                uint32_t n_layers, struct trace_writer **out, struct sluice_error *err);
/* These never fail: a write that did is told by trace_close. Nothing is allocated. */
void trace_prompt(struct trace_writer *w);                               /* a new prompt begins */
void trace_step(struct trace_writer *w, uint32_t n_tokens, bool decode); /* a step begins */
void trace_route(struct trace_writer *w, uint32_t layer, const uint32_t *ids, const float *weights /* or NULL */,
                 uint32_t n, uint32_t ahead);
void trace_step_end(struct trace_writer *w); /* all layers are done; a step without an end was given up */
/* The file is there, or the first failure is told and it is not. w is gone in either case; NULL is no trace. */
enum sluice_status trace_close(struct trace_writer *w, struct sluice_error *err);

/* ---- reading ---- */

enum trace_flag {
    TRACE_DECODE = 1, /* generated; otherwise part of a prompt */
    TRACE_PROMPT = 2, /* first token of a new prompt */
    TRACE_STEP = 4,   /* first token of a step */
};

struct trace {
    char model[128];
    struct trace_layer *layers; /* [n_layers] */
    uint32_t n_layers;
    uint32_t *layer_at; /* [n_layers + 1] where a layer's choice begins in a token's row */
    uint32_t n_tokens;
    uint8_t *flags;        /* [n_tokens] */
    uint16_t *ids;         /* [n_tokens][layer_at[n_layers]] */
    uint16_t *weights;     /* the same; upper halves of floats */
    uint64_t n_selections; /* ids that are not TRACE_NONE */
};

/* Our format, or the CSV with the columns turn,phase,step,layer,slot,expert,weight,residency,expert_bytes.
 * SLUICE_ERR_MODEL names the file and the place of what is wrong. */
enum sluice_status trace_read(const char *path, struct trace *out, struct sluice_error *err);
void trace_free(struct trace *t);

/* One choice: fills ids and weights (room for n_used) and returns how many there are. */
uint32_t trace_choice(const struct trace *t, uint32_t token, uint32_t layer, uint32_t *ids, float *weights);

/* For readers of formats (trace.c, trace_csv.c). */
enum sluice_status trace_begin(struct trace *t, const struct trace_layer *layers, uint32_t n_layers);
bool trace_add_token(struct trace *t, unsigned flags); /* false: no memory, or too many */
enum sluice_status trace_read_csv(const char *path, struct trace *out, struct sluice_error *err);
uint16_t trace_half(float weight); /* rounded to the upper half */

#endif
