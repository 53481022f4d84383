#include "text/heap.h"

#include "base/assert.h"

void text_heap_push(struct text_heap *h, uint64_t key)
{
    BASE_ASSERT(h->n < h->n_max, "T4 each merge adds at most one entry more than it takes");
    size_t at = h->n++;
    while (at > 0 && h->keys[(at - 1) / 2] > key) {
        h->keys[at] = h->keys[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    h->keys[at] = key;
}

uint64_t text_heap_pop(struct text_heap *h)
{
    uint64_t top = h->keys[0], moving = h->keys[--h->n];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= h->n) break;
        if (child + 1 < h->n && h->keys[child + 1] < h->keys[child]) child++;
        if (h->keys[child] >= moving) break;
        h->keys[at] = h->keys[child];
        at = child;
    }
    h->keys[at] = moving;
    return top;
}
