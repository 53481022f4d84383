/* `lru`: the one that was not used for longest. A heap a class, ordered by last use. */
#include "expert/policy_heap.h"
#include "expert/policy_private.h"

#include "base/assert.h"

struct lru {
    struct policy_heap by_use;
};

static int by_use(const void *user, uint32_t a, uint32_t b) { return policy_compare_use(user, a, b); }

static size_t lru_array_bytes(const struct policy_shape *shape, uint32_t n_keys)
{
    return heap_bytes(n_keys, shape->n_classes);
}

static bool lru_begin(struct policy *p, const struct policy_shape *shape)
{
    struct lru *s = p->state;
    return heap_init(&s->by_use, p->n_keys, shape->n_classes, by_use, p);
}

static void lru_end(struct policy *p) { heap_free(&((struct lru *)p->state)->by_use); }

static void lru_insert(struct policy *p, uint32_t key)
{
    struct lru *s = p->state;
    heap_insert(&s->by_use, p->class_of[key], key);
}

static void lru_remove(struct policy *p, uint32_t key)
{
    heap_remove(&((struct lru *)p->state)->by_use, p->class_of[key], key);
}

static void lru_route(struct policy *p, uint32_t layer, const uint32_t *ids, uint32_t n, uint64_t at)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t key = p->layers[layer].first_key + ids[i];
        bool evictable = p->class_of[key] != POLICY_NO_CLASS;
        if (evictable) lru_remove(p, key);
        policy_stamp(p, key, at);
        if (evictable) lru_insert(p, key);
    }
}

static uint32_t lru_victim(struct policy *p, uint32_t class_index)
{
    return ((struct lru *)p->state)->by_use.roots[class_index];
}

static int lru_compare(struct policy *p, uint32_t a, uint32_t b) { return policy_compare_use(p, a, b); }

static void lru_check(struct policy *p)
{
    const struct lru *s = p->state;
    for (uint32_t key = 0; key < p->n_keys; key++)
        if (p->class_of[key] != POLICY_NO_CLASS) heap_check(&s->by_use, p->class_of[key], key);
    _Static_assert(HEAP_NONE == POLICY_NONE, "an empty heap has no victim");
}

const struct policy_ops policy_lru_ops = {
    .name = "lru",
    .state_bytes = sizeof(struct lru),
    .array_bytes = lru_array_bytes,
    .begin = lru_begin,
    .end = lru_end,
    .route = lru_route,
    .insert = lru_insert,
    .remove = lru_remove,
    .victim = lru_victim,
    .compare = lru_compare,
    .check = lru_check,
};
