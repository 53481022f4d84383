/* Heaps of numbered things, for the policies alone. One forest: each thing is in at most one of n_roots heaps. The
 * order is the owner's; a thing is taken out before its place in the order changes, and put in again after. */
#ifndef EXPERT_POLICY_HEAP_H
#define EXPERT_POLICY_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HEAP_NONE UINT32_MAX

struct heap_node {
    uint32_t parent, left, right;
    uint32_t rank; /* nodes on the right spine; a leaf 1 */
};

/* Negative if a comes before b; a total order. */
typedef int heap_order_fn(const void *user, uint32_t a, uint32_t b);

struct policy_heap {
    struct heap_node *nodes; /* [n] */
    uint32_t *roots;         /* [n_roots] the first of each heap, or HEAP_NONE */
    uint32_t n_roots;
    heap_order_fn *order;
    const void *user;
};

bool heap_init(struct policy_heap *h, uint32_t n, uint32_t n_roots, heap_order_fn *order, const void *user);
void heap_free(struct policy_heap *h);
size_t heap_bytes(uint32_t n, uint32_t n_roots);

void heap_insert(struct policy_heap *h, uint32_t root, uint32_t i);
void heap_remove(struct policy_heap *h, uint32_t root, uint32_t i);
void heap_clear(struct policy_heap *h); /* all heaps are empty */
/* Asserts order, balance and links of one thing that is in the heap; for all of them: the heap is sound. */
void heap_check(const struct policy_heap *h, uint32_t root, uint32_t i);

#endif
