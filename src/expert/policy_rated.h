/* The ratings of experts, and who of the evictable ones is the coldest. For policy.c and the policies alone. */
#ifndef EXPERT_POLICY_RATED_H
#define EXPERT_POLICY_RATED_H

#include "expert/policy.h"

struct rated_layer {
    uint32_t coldest;    /* of its evictable keys, or POLICY_NONE; known if not stale */
    float rating;        /* of the coldest */
    uint64_t stamp;      /* likewise */
    uint32_t first_word; /* of its bits in `evictable` */
    uint32_t leaf;       /* its node in its class's tree */
    bool stale, unrated; /* coldest; and before it, ratings: to be found when asked for */
};

struct rated_tree {
    uint32_t first, n_layers; /* of its 2 * n_layers nodes */
};

struct rated {
    float *ratings;             /* [n_keys] */
    uint16_t *layer_of;         /* [n_keys] */
    uint64_t *evictable;        /* bit sets, one a layer; each begins with a word of its own */
    struct rated_layer *layers; /* [n_layers] */
    uint32_t *stale;            /* [n_layers] those that are */
    uint32_t n_stale;
    uint32_t *nodes;          /* trees of layers, one a class: see policy_rated.c */
    struct rated_tree *trees; /* [n_classes] */
};

size_t rated_array_bytes(const struct policy_shape *shape, uint32_t n_keys);
bool rated_begin(struct policy *p); /* false: no memory; rated_end is called then too */
void rated_end(struct policy *p);
/* Before the policy is told that a token chose these, and before they are stamped. */
void rated_route(struct policy *p, uint32_t layer, const uint32_t *ids, uint32_t n);
/* All ratings become 0. */
void rated_forget(struct policy *p);
/* As in policy.h. */
void rated_insert(struct policy *p, uint32_t class_index, uint32_t key);
void rated_remove(struct policy *p, uint32_t class_index, uint32_t key);
uint32_t rated_victim(struct policy *p, uint32_t class_index);
int rated_compare(struct policy *p, uint32_t a, uint32_t b);
void rated_check(struct policy *p);

#endif
