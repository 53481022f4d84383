/* The policies that give each expert a rating which changes with every token of its layer (`freq-age`, `expected`,
 * `recall`). For them alone; the struct is the first member of their state.
 *
 * A rating is a number that depends on what was routed in that layer alone, up to its last token: between two tokens of
 * a layer its ratings stand still. The coldest of a class is found by (rating, last use, key). */
#ifndef EXPERT_POLICY_RATED_H
#define EXPERT_POLICY_RATED_H

#include "expert/policy_heap.h"
#include "expert/policy_private.h"

struct rated_layer {
    uint32_t coldest;       /* of its evictable keys, or POLICY_NONE; known if not stale */
    uint32_t n_evictable;   /* keys */
    bool unrated, unsorted; /* ratings; coldest: to be found when asked for */
};

struct rated {
    /* Writes the ratings of one layer's experts; none is NaN or negative. */
    void (*rate)(struct policy *p, uint32_t layer, float *ratings /* [n_expert] */);
    float *ratings;             /* [n_keys] */
    uint16_t *layer_of;         /* [n_keys] */
    struct rated_layer *layers; /* [n_layers] */
    uint32_t *stale;            /* [n_layers] those that are unrated or unsorted */
    uint32_t n_stale;
    struct policy_heap by_layer; /* the layers that are not stale and have a coldest, by it; a heap a class */
};

size_t rated_array_bytes(const struct policy_shape *shape, uint32_t n_keys);
bool rated_begin(struct policy *p, const struct policy_shape *shape,
                 void (*rate)(struct policy *p, uint32_t layer, float *ratings));
void rated_end(struct policy *p);
/* A token chose these: their last use is now, and the layer is to be rated again. */
void rated_route(struct policy *p, uint32_t layer, const uint32_t *ids, uint32_t n, uint64_t at);
/* As in struct policy_ops. */
void rated_insert(struct policy *p, uint32_t key);
void rated_remove(struct policy *p, uint32_t key);
uint32_t rated_victim(struct policy *p, uint32_t class_index);
int rated_compare(struct policy *p, uint32_t a, uint32_t b);
void rated_check(struct policy *p);

#endif
