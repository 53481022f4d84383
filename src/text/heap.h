/* A min-heap of 64-bit keys over memory that the caller gives. Both merges use it: priority in the upper half, position
 * in the lower, so that equal priorities come leftmost first. */
#ifndef TEXT_HEAP_H
#define TEXT_HEAP_H

#include <stddef.h>
#include <stdint.h>

struct text_heap {
    uint64_t *keys;
    size_t n, n_max;
};

void text_heap_push(struct text_heap *h, uint64_t key); /* n < n_max */
uint64_t text_heap_pop(struct text_heap *h);            /* n > 0 */

#endif
