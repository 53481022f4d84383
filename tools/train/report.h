/* What a trained model reaches: perplexity on the held-out part of each text, and how much the texts' routing differs.
 */
#ifndef TRAIN_REPORT_H
#define TRAIN_REPORT_H

#include "data.h"
#include "model.h"

void report(struct model *m, const struct data *d);

#endif
