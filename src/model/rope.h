/* Rotation angles: which frequencies a RoPE scaling gives, and the step's sines and cosines. */
#ifndef MODEL_ROPE_H
#define MODEL_ROPE_H

#include "model/forward.h"

/* out[n_rot / 2]: angle = position * out[i]. factors: [n_rot / 2] divisors, or NULL. */
void model_rope_frequencies(const struct model_rope *rope, const float *factors, double *out);
/* Angles of the step's positions into scratch.cos and scratch.sin, for every set of the model; once a step. */
void model_rope_angles(struct model_run *r, const struct model_step *s);
/* The same for one position; freq: of the set. cos, sin: [n_rot / 2]. */
void model_rope_angles_at(const struct kernel_table *table, const struct model_rope *rope, const double *freq,
                          size_t pos, float *cos, float *sin);

#endif
