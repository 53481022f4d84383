/* Attention blocks. */
#ifndef MODEL_ATTENTION_H
#define MODEL_ATTENTION_H

#include "model/forward.h"

enum attention_qk_norm { QK_NORM_NONE, QK_NORM_HEAD /* RMS of each head */, QK_NORM_ROW /* RMS of the whole row */ };

struct attention_kind {
    enum attention_qk_norm qk_norm;
    bool neox; /* RoPE pairs (i, i + n_rot/2); else adjacent pairs */
};

/* x += wo attention(norm(x)): grouped-query attention with RoPE; scratch.x is the residual stream. */
enum sluice_status attention_gqa(struct model_run *r, const struct model_step *s, uint32_t layer,
                                 const struct attention_kind *kind, struct sluice_error *err);
/* Angles of the step's positions into scratch.cos and scratch.sin; once a step. */
void attention_angles(struct model_run *r, const struct model_step *s);

#endif
