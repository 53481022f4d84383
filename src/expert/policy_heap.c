/* Leftist trees threaded through an array (Crane 1972; Knuth, TAOCP 3, 5.2.3): merging walks right spines, which are at
 * most log2(n + 1) long, and so does the repair after a removal, because there the rank of each node on the way up is
 * one more than that of the node before. All operations are O(log n) in the worst case, clearing is O(roots). */
#include "expert/policy_heap.h"

#include "base/assert.h"

#include <stdlib.h>

#define RANK_MAX 40 /* of a tree of 2^32 things */

bool heap_init(struct policy_heap *h, uint32_t n, uint32_t n_roots, heap_order_fn *order, const void *user)
{
    *h = (struct policy_heap){.n_roots = n_roots, .order = order, .user = user};
    h->nodes = calloc((size_t)n + 1, sizeof *h->nodes);
    h->roots = malloc(((size_t)n_roots + 1) * sizeof *h->roots);
    if (!h->nodes || !h->roots) return false;
    heap_clear(h);
    return true;
}

void heap_free(struct policy_heap *h)
{
    free(h->nodes);
    free(h->roots);
    h->nodes = NULL;
    h->roots = NULL;
}

size_t heap_bytes(uint32_t n, uint32_t n_roots)
{
    return ((size_t)n + 1) * sizeof(struct heap_node) + ((size_t)n_roots + 1) * sizeof(uint32_t);
}

void heap_clear(struct policy_heap *h)
{
    for (uint32_t i = 0; i < h->n_roots; i++) h->roots[i] = HEAP_NONE;
}

static uint32_t rank_of(const struct heap_node *nodes, uint32_t i) { return i == HEAP_NONE ? 0 : nodes[i].rank; }

/* The shorter spine to the right; returns whether the rank changed. */
static bool repair(struct heap_node *nodes, uint32_t i)
{
    struct heap_node *n = &nodes[i];
    if (rank_of(nodes, n->left) < rank_of(nodes, n->right)) {
        uint32_t left = n->left;
        n->left = n->right;
        n->right = left;
    }
    uint32_t rank = rank_of(nodes, n->right) + 1;
    bool changed = rank != n->rank;
    n->rank = rank;
    return changed;
}

/* Merges the right spines of two trees from the first down, then repairs ranks from the bottom up. */
static uint32_t merge(struct policy_heap *h, uint32_t a, uint32_t b)
{
    struct heap_node *nodes = h->nodes;
    uint32_t spine[2 * RANK_MAX], n = 0, root = HEAP_NONE;
    while (a != HEAP_NONE && b != HEAP_NONE) {
        if (h->order(h->user, b, a) < 0) {
            uint32_t swap = a;
            a = b;
            b = swap;
        }
        BASE_ASSERT(n < 2 * RANK_MAX, "right spines of a leftist tree are logarithmic");
        spine[n++] = a;
        a = nodes[a].right;
    }
    root = a != HEAP_NONE ? a : b;
    while (n > 0) {
        uint32_t i = spine[--n];
        nodes[i].right = root;
        if (root != HEAP_NONE) nodes[root].parent = i;
        repair(nodes, i);
        root = i;
    }
    if (root != HEAP_NONE) nodes[root].parent = HEAP_NONE;
    return root;
}

void heap_insert(struct policy_heap *h, uint32_t root, uint32_t i)
{
    h->nodes[i] = (struct heap_node){HEAP_NONE, HEAP_NONE, HEAP_NONE, 1};
    h->roots[root] = merge(h, h->roots[root], i);
}

void heap_remove(struct policy_heap *h, uint32_t root, uint32_t i)
{
    struct heap_node *nodes = h->nodes;
    uint32_t parent = nodes[i].parent;
    uint32_t rest = merge(h, nodes[i].left, nodes[i].right);
    if (parent == HEAP_NONE) {
        BASE_ASSERT(h->roots[root] == i, "what has no parent is the root");
        h->roots[root] = rest;
        return;
    }
    if (nodes[parent].left == i)
        nodes[parent].left = rest;
    else
        nodes[parent].right = rest;
    if (rest != HEAP_NONE) nodes[rest].parent = parent;
    while (parent != HEAP_NONE && repair(nodes, parent)) parent = nodes[parent].parent;
}

void heap_check(const struct policy_heap *h, uint32_t root, uint32_t i)
{
    const struct heap_node *nodes = h->nodes, *n = &nodes[i];
    const uint32_t children[2] = {n->left, n->right};
    BASE_ASSERT(n->rank == rank_of(nodes, n->right) + 1, "a rank is the length of the right spine");
    BASE_ASSERT(rank_of(nodes, n->left) >= rank_of(nodes, n->right), "the right spine is the shortest way out");
    for (int k = 0; k < 2; k++) {
        if (children[k] == HEAP_NONE) continue;
        BASE_ASSERT(nodes[children[k]].parent == i, "a child knows its parent");
        BASE_ASSERT(h->order(h->user, i, children[k]) < 0, "a parent comes before its children");
    }
    if (n->parent == HEAP_NONE)
        BASE_ASSERT(h->roots[root] == i, "what has no parent is the root");
    else
        BASE_ASSERT(nodes[n->parent].left == i || nodes[n->parent].right == i, "a parent knows its children");
}
