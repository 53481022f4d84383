/* Where the order changes with time, a heap of all keys would have to be rebuilt at every token. But it changes a layer
 * at a time: a token of a layer changes the ratings of its few hundred experts, and all others stand still. So two
 * steps: the coldest evictable expert of each layer (found by looking at all of the layer's, after the ratings changed
 * or the coldest left), and a heap of the layers of a class, ordered by that. A selection costs O(experts of a layer /
 * top-k + log layers), whatever the number of slots.
 *
 * Both are put off until a victim is asked for: a prefill tells of hundreds of tokens before that. What is put off
 * depends on the layer's own past alone, so when it is done makes no difference. */
#include "expert/policy_rated.h"

#include "base/assert.h"

#include <math.h>
#include <stdlib.h>

size_t rated_array_bytes(const struct policy_shape *shape, uint32_t n_keys)
{
    return ((size_t)n_keys + 1) * (sizeof(float) + sizeof(uint16_t)) +
           ((size_t)shape->n_layers + 1) * (sizeof(struct rated_layer) + sizeof(uint32_t)) +
           heap_bytes(shape->n_layers, shape->n_classes);
}

static int compare_keys(const struct policy *p, uint32_t a, uint32_t b)
{
    const struct rated *r = p->state;
    if (r->ratings[a] != r->ratings[b]) return r->ratings[a] < r->ratings[b] ? -1 : 1;
    return policy_compare_use(p, a, b);
}

static int compare_layers(const void *user, uint32_t a, uint32_t b)
{
    const struct policy *p = user;
    const struct rated *r = p->state;
    return compare_keys(p, r->layers[a].coldest, r->layers[b].coldest);
}

bool rated_begin(struct policy *p, const struct policy_shape *shape,
                 void (*rate)(struct policy *p, uint32_t layer, float *ratings))
{
    struct rated *r = p->state;
    r->rate = rate;
    r->ratings = calloc((size_t)p->n_keys + 1, sizeof *r->ratings);
    r->layer_of = calloc((size_t)p->n_keys + 1, sizeof *r->layer_of);
    r->layers = calloc((size_t)p->n_layers + 1, sizeof *r->layers);
    r->stale = calloc((size_t)p->n_layers + 1, sizeof *r->stale);
    if (!r->ratings || !r->layer_of || !r->layers || !r->stale) return false;
    BASE_ASSERT(p->n_layers <= UINT16_MAX, "layers are few");
    for (uint32_t l = 0; l < p->n_layers; l++) {
        r->layers[l].coldest = POLICY_NONE;
        for (uint32_t e = 0; e < p->layers[l].n_expert; e++) r->layer_of[p->layers[l].first_key + e] = (uint16_t)l;
    }
    return heap_init(&r->by_layer, p->n_layers, shape->n_classes, compare_layers, p);
}

void rated_end(struct policy *p)
{
    struct rated *r = p->state;
    heap_free(&r->by_layer);
    free(r->stale);
    free(r->layers);
    free(r->layer_of);
    free(r->ratings);
}

/* ---- stale and fresh layers ---- */

static bool is_stale(const struct rated_layer *l) { return l->unrated || l->unsorted; }

/* Before anything changes that the layer's place in the heap depends on. */
static void leave(struct policy *p, uint32_t layer)
{
    struct rated *r = p->state;
    if (!is_stale(&r->layers[layer]) && r->layers[layer].coldest != POLICY_NONE)
        heap_remove(&r->by_layer, p->layers[layer].class_index, layer);
}

static void enter(struct policy *p, uint32_t layer)
{
    struct rated *r = p->state;
    if (r->layers[layer].coldest != POLICY_NONE) heap_insert(&r->by_layer, p->layers[layer].class_index, layer);
}

static void make_stale(struct policy *p, uint32_t layer, bool unrated)
{
    struct rated *r = p->state;
    struct rated_layer *l = &r->layers[layer];
    if (!is_stale(l)) {
        leave(p, layer);
        r->stale[r->n_stale++] = layer;
    }
    l->unsorted = true;
    l->unrated = l->unrated || unrated;
}

static void refresh(struct policy *p, uint32_t layer)
{
    struct rated *r = p->state;
    struct rated_layer *l = &r->layers[layer];
    const uint32_t first = p->layers[layer].first_key, end = first + p->layers[layer].n_expert;
    if (l->unrated) r->rate(p, layer, r->ratings + first);
    l->unrated = l->unsorted = false;
    l->coldest = POLICY_NONE;
    if (!l->n_evictable) return;
    const uint16_t *class_of = p->class_of;
    const float *ratings = r->ratings;
    uint32_t best = POLICY_NONE;
    float least = INFINITY;
    for (uint32_t key = first; key < end; key++) {
        if (ratings[key] > least || class_of[key] == POLICY_NO_CLASS) continue;
        if (ratings[key] == least && best != POLICY_NONE && policy_compare_use(p, best, key) < 0) continue;
        best = key;
        least = ratings[key];
    }
    l->coldest = best;
}

static void refresh_all(struct policy *p)
{
    struct rated *r = p->state;
    while (r->n_stale) {
        uint32_t layer = r->stale[--r->n_stale];
        refresh(p, layer);
        enter(p, layer);
    }
}

/* ---- the set ---- */

void rated_route(struct policy *p, uint32_t layer, const uint32_t *ids, uint32_t n, uint64_t at)
{
    make_stale(p, layer, true);
    for (uint32_t i = 0; i < n; i++) policy_stamp(p, p->layers[layer].first_key + ids[i], at);
}

void rated_insert(struct policy *p, uint32_t key)
{
    struct rated *r = p->state;
    uint32_t layer = r->layer_of[key];
    struct rated_layer *l = &r->layers[layer];
    BASE_ASSERT(p->class_of[key] == p->layers[layer].class_index, "a key has its layer's class");
    l->n_evictable++;
    if (is_stale(l) || (l->coldest != POLICY_NONE && compare_keys(p, l->coldest, key) < 0)) return;
    leave(p, layer);
    l->coldest = key;
    enter(p, layer);
}

void rated_remove(struct policy *p, uint32_t key)
{
    struct rated *r = p->state;
    struct rated_layer *l = &r->layers[r->layer_of[key]];
    l->n_evictable--;
    if (!is_stale(l) && l->coldest == key) make_stale(p, r->layer_of[key], false);
}

uint32_t rated_victim(struct policy *p, uint32_t class_index)
{
    struct rated *r = p->state;
    refresh_all(p);
    uint32_t layer = r->by_layer.roots[class_index];
    return layer == HEAP_NONE ? POLICY_NONE : r->layers[layer].coldest;
}

int rated_compare(struct policy *p, uint32_t a, uint32_t b)
{
    refresh_all(p);
    return compare_keys(p, a, b);
}

void rated_check(struct policy *p)
{
    struct rated *r = p->state;
    refresh_all(p);
    for (uint32_t l = 0; l < p->n_layers; l++) {
        uint32_t n = 0;
        for (uint32_t e = 0; e < p->layers[l].n_expert; e++) {
            uint32_t key = p->layers[l].first_key + e;
            BASE_ASSERT(r->ratings[key] >= 0, "ratings are ordered");
            if (p->class_of[key] == POLICY_NO_CLASS) continue;
            n++;
            BASE_ASSERT(compare_keys(p, r->layers[l].coldest, key) <= 0, "a layer knows its coldest expert");
        }
        BASE_ASSERT(n == r->layers[l].n_evictable, "evictable experts are counted");
        BASE_ASSERT((n == 0) == (r->layers[l].coldest == POLICY_NONE), "a layer with evictable experts has a coldest");
        if (n) heap_check(&r->by_layer, p->layers[l].class_index, l);
    }
}
