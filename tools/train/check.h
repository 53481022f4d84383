/* Compares the gradients with finite differences on a tiny model. */
#ifndef TRAIN_CHECK_H
#define TRAIN_CHECK_H

/* Prints the relative error; 0 if it is below 1 %, else 1. */
int check_gradients(void);

#endif
