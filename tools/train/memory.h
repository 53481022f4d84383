/* Zeroed arrays; a training run that has no memory for them ends with a message. */
#ifndef TRAIN_MEMORY_H
#define TRAIN_MEMORY_H

#include <stdio.h>
#include <stdlib.h>

static inline void *memory_zeroed(size_t n, size_t item_bytes)
{
    void *p = calloc(n ? n : 1, item_bytes);
    if (!p) {
        fprintf(stderr, "train: out of memory (%zu items of %zu bytes)\n", n, item_bytes);
        exit(4);
    }
    return p;
}

static inline float *memory_floats(size_t n) { return memory_zeroed(n, sizeof(float)); }
static inline int *memory_ints(size_t n) { return memory_zeroed(n, sizeof(int)); }

#endif
