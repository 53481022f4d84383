/* AdamW with clipping of the whole gradient's norm. */
#ifndef TRAIN_ADAM_H
#define TRAIN_ADAM_H

#include "model.h"

struct adam {
    float *mean, *square; /* running averages of the gradient and of its square */
    int step;
};

void adam_init(struct adam *a, const struct model *m);
void adam_step(struct adam *a, struct model *m, float rate);
void adam_free(struct adam *a);

#endif
