/* Training texts as token files: NAME.tr to learn from, NAME.va held out (int32 ids, native order; prep.py). */
#ifndef TRAIN_DATA_H
#define TRAIN_DATA_H

#include "random.h"
#include "shape.h"

#include <stdbool.h>

#define DATA_TEXTS_MAX 64

struct text {
    char name[64];
    int *train, *held_out;
    long n_train, n_held_out;
    double weight; /* how often it is drawn: size^0.7, so that small texts are not drowned */
};

struct data {
    struct text text[DATA_TEXTS_MAX];
    int n_texts;
    double weights_sum;
};

/* All pairs of files in a folder, by name. false, with a message: none, one too short for a window, or an id that
 * n_vocab does not cover. */
bool data_load(struct data *d, const char *folder, int n_window, int n_vocab);
void data_free(struct data *d);
/* One step's windows at random places: tokens [N] and the tokens that follow each, next [N]. */
void data_draw(const struct data *d, const struct shape *s, struct random *random, int *tokens, int *next);

#endif
