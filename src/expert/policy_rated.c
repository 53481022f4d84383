/* Where the order changes with time, a heap of all keys would have to be rebuilt at every token; where it does not,
 * such a heap costs its logarithm with every use, and a cache miss at every step of that. But the order changes a layer
 * at a time: a token changes the ratings and last uses of some of its layer's few hundred experts, and all others stand
 * still. So two steps: the coldest evictable expert of each layer (found by looking at all of the layer's, after their
 * order changed or the coldest left), and among the layers of a class a tournament (Knuth, TAOCP 3, 5.2.3) of their
 * coldest: node i of a class's tree holds the winner of 2 i and 2 i + 1, node 1 is the first, the last half are the
 * layers. A layer with another coldest plays its way up again. A selection costs O(experts of a layer / top-k + log
 * layers), whatever the number of slots.
 *
 * Both are put off until a victim is asked for: a prefill tells of hundreds of tokens before that. What is put off
 * depends on the layer's own past alone, so when it is done makes no difference. */
#include "expert/policy_private.h"

#include "base/assert.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint32_t words_of(const struct policy_layer *l) { return (l->n_expert + 63) / 64; }

static size_t count_words(const struct policy_layer *layers, uint32_t n_layers)
{
    size_t n = 0;
    for (uint32_t l = 0; l < n_layers; l++) n += words_of(&layers[l]);
    return n + 1;
}

size_t rated_array_bytes(const struct policy_shape *shape, uint32_t n_keys)
{
    return ((size_t)n_keys + 1) * (sizeof(float) + sizeof(uint16_t)) +
           count_words(shape->layers, shape->n_layers) * sizeof(uint64_t) +
           ((size_t)shape->n_layers + 1) * (sizeof(struct rated_layer) + 3 * sizeof(uint32_t)) +
           ((size_t)shape->n_classes + 1) * sizeof(struct rated_tree);
}

/* ---- order ---- */

static int compare_equals(const struct policy *p, uint32_t a, uint32_t b)
{
    int order = p->ops->tie ? p->ops->tie(p, a, b) : 0;
    return order ? order : policy_compare_use(p, a, b);
}

static int compare_keys(const struct policy *p, uint32_t a, uint32_t b)
{
    const float *ratings = p->rated.ratings;
    if (ratings[a] != ratings[b]) return ratings[a] < ratings[b] ? -1 : 1;
    return compare_equals(p, a, b);
}

/* Of two layers, or POLICY_NONE, the one with the colder coldest expert. What it looks at was copied (`enter`): layers
 * are few and side by side, keys are many and far apart. */
static uint32_t colder_layer(const struct policy *p, uint32_t a, uint32_t b)
{
    if (a == POLICY_NONE || b == POLICY_NONE) return a == POLICY_NONE ? b : a;
    const struct rated_layer *x = &p->rated.layers[a], *y = &p->rated.layers[b];
    if (x->rating != y->rating) return x->rating < y->rating ? a : b;
    const int order = p->ops->tie ? p->ops->tie(p, x->coldest, y->coldest) : 0;
    if (order) return order < 0 ? a : b;
    if (x->stamp != y->stamp) return x->stamp < y->stamp ? a : b;
    return x->coldest < y->coldest ? a : b;
}

/* ---- beginning and end ---- */

static void place(struct policy *p)
{
    struct rated *r = &p->rated;
    uint32_t n = 0, word = 0;
    for (uint32_t l = 0; l < p->n_layers; l++)
        if (p->layers[l].n_expert) r->trees[p->layers[l].class_index].n_layers++;
    for (uint32_t k = 0; k < p->n_classes; n += 2 * r->trees[k++].n_layers) r->trees[k].first = n;
    for (uint32_t i = 0; i < n; i++) r->nodes[i] = POLICY_NONE;
    for (uint32_t l = 0; l < p->n_layers; word += words_of(&p->layers[l++])) {
        r->layers[l].coldest = POLICY_NONE;
        r->layers[l].first_word = word;
        for (uint32_t e = 0; e < p->layers[l].n_expert; e++) r->layer_of[p->layers[l].first_key + e] = (uint16_t)l;
    }
    for (uint32_t k = 0; k < p->n_classes; k++)
        for (uint32_t l = 0, leaf = r->trees[k].n_layers; l < p->n_layers; l++)
            if (p->layers[l].n_expert && p->layers[l].class_index == k) r->layers[l].leaf = leaf++;
}

bool rated_begin(struct policy *p)
{
    struct rated *r = &p->rated;
    BASE_ASSERT(p->n_layers <= UINT16_MAX, "layers are few");
    r->ratings = calloc((size_t)p->n_keys + 1, sizeof *r->ratings);
    r->layer_of = calloc((size_t)p->n_keys + 1, sizeof *r->layer_of);
    r->evictable = calloc(count_words(p->layers, p->n_layers), sizeof *r->evictable);
    r->layers = calloc((size_t)p->n_layers + 1, sizeof *r->layers);
    r->stale = calloc((size_t)p->n_layers + 1, sizeof *r->stale);
    r->nodes = calloc((size_t)p->n_layers + 1, 2 * sizeof *r->nodes);
    r->trees = calloc((size_t)p->n_classes + 1, sizeof *r->trees);
    if (!r->ratings || !r->layer_of || !r->evictable || !r->layers || !r->stale || !r->nodes || !r->trees) return false;
    place(p);
    return true;
}

void rated_end(struct policy *p)
{
    struct rated *r = &p->rated;
    free(r->trees);
    free(r->nodes);
    free(r->stale);
    free(r->layers);
    free(r->evictable);
    free(r->layer_of);
    free(r->ratings);
}

/* ---- stale and fresh layers ---- */

/* A layer has another coldest. On the way up the rest is right as soon as somebody else won, now as before. */
static void enter(struct policy *p, uint32_t layer, uint32_t coldest)
{
    struct rated *r = &p->rated;
    struct rated_layer *l = &r->layers[layer];
    uint32_t *nodes = r->nodes + r->trees[p->layers[layer].class_index].first, i = l->leaf;
    l->coldest = coldest;
    if (coldest != POLICY_NONE) {
        l->rating = r->ratings[coldest];
        l->stamp = p->stamps[coldest];
    }
    nodes[i] = coldest == POLICY_NONE ? POLICY_NONE : layer;
    while (i >>= 1) {
        const uint32_t before = nodes[i], now = colder_layer(p, nodes[2 * i], nodes[2 * i + 1]);
        if (now == before && now != layer) break;
        nodes[i] = now;
    }
}

/* Until a victim is asked for, the tree goes by what the layer's coldest was. */
static void make_stale(struct policy *p, uint32_t layer)
{
    struct rated *r = &p->rated;
    if (r->layers[layer].stale) return;
    r->stale[r->n_stale++] = layer;
    r->layers[layer].stale = true;
}

/* The coldest evictable key of a layer, or POLICY_NONE. */
static uint32_t find_coldest(const struct policy *p, uint32_t layer)
{
    const struct rated *r = &p->rated;
    const uint64_t *words = r->evictable + r->layers[layer].first_word;
    const uint32_t first = p->layers[layer].first_key, n_words = words_of(&p->layers[layer]);
    const float *ratings = r->ratings;
    uint32_t best = POLICY_NONE;
    float least = INFINITY;
    for (uint32_t w = 0; w < n_words; w++)
        for (uint64_t bits = words[w]; bits; bits &= bits - 1) {
            const uint32_t key = first + 64 * w + (uint32_t)__builtin_ctzll(bits);
            if (ratings[key] > least) continue;
            if (ratings[key] == least && best != POLICY_NONE && compare_equals(p, best, key) < 0) continue;
            best = key;
            least = ratings[key];
        }
    return best;
}

static void refresh_all(struct policy *p)
{
    struct rated *r = &p->rated;
    while (r->n_stale) {
        const uint32_t layer = r->stale[--r->n_stale];
        struct rated_layer *l = &r->layers[layer];
        if (l->unrated) p->ops->rate(p, layer, r->ratings + p->layers[layer].first_key);
        l->unrated = l->stale = false;
        enter(p, layer, find_coldest(p, layer));
    }
}

void rated_route(struct policy *p, uint32_t layer, const uint32_t *ids, uint32_t n)
{
    struct rated_layer *l = &p->rated.layers[layer];
    if (p->ops->rate) {
        make_stale(p, layer);
        l->unrated = true;
        return;
    }
    /* The chosen become warmer, all others stay: the coldest is another one only if it was chosen. */
    for (uint32_t i = 0; i < n; i++)
        if (p->layers[layer].first_key + ids[i] == l->coldest) make_stale(p, layer);
}

void rated_forget(struct policy *p)
{
    memset(p->rated.ratings, 0, p->n_keys * sizeof *p->rated.ratings);
    for (uint32_t l = 0; l < p->n_layers; l++) make_stale(p, l);
}

/* ---- the set ---- */

/* Its layer; in: whether it has been in the set. */
static uint32_t flip(struct policy *p, uint32_t class_index, uint32_t key, bool in)
{
    struct rated *r = &p->rated;
    const uint32_t layer = r->layer_of[key], expert = key - p->layers[layer].first_key;
    uint64_t *word = &r->evictable[r->layers[layer].first_word + expert / 64];
    const uint64_t bit = UINT64_C(1) << expert % 64;
    BASE_ASSERT(p->layers[layer].class_index == class_index, "a key has its layer's class");
    BASE_ASSERT(((*word & bit) != 0) == in, "a key is inserted once, and then removed");
    *word ^= bit;
    return layer;
}

void rated_insert(struct policy *p, uint32_t class_index, uint32_t key)
{
    const uint32_t layer = flip(p, class_index, key, false);
    const struct rated_layer *l = &p->rated.layers[layer];
    if (l->stale || (l->coldest != POLICY_NONE && compare_keys(p, l->coldest, key) < 0)) return;
    enter(p, layer, key);
}

void rated_remove(struct policy *p, uint32_t class_index, uint32_t key)
{
    const uint32_t layer = flip(p, class_index, key, true);
    if (p->rated.layers[layer].coldest == key) make_stale(p, layer);
}

uint32_t rated_victim(struct policy *p, uint32_t class_index)
{
    const struct rated *r = &p->rated;
    const struct rated_tree *tree = &r->trees[class_index];
    refresh_all(p);
    const uint32_t layer = tree->n_layers ? r->nodes[tree->first + 1] : POLICY_NONE;
    return layer == POLICY_NONE ? POLICY_NONE : r->layers[layer].coldest;
}

int rated_compare(struct policy *p, uint32_t a, uint32_t b)
{
    refresh_all(p);
    return compare_keys(p, a, b);
}

void rated_check(struct policy *p)
{
    const struct rated *r = &p->rated;
    refresh_all(p);
    for (uint32_t l = 0; l < p->n_layers; l++) {
        const struct rated_layer *layer = &r->layers[l];
        uint32_t n = 0;
        for (uint32_t e = 0; e < p->layers[l].n_expert; e++) {
            const uint32_t key = p->layers[l].first_key + e;
            BASE_ASSERT(r->ratings[key] >= 0, "ratings are ordered");
            if (!(r->evictable[layer->first_word + e / 64] >> e % 64 & 1)) continue;
            n++;
            BASE_ASSERT(compare_keys(p, layer->coldest, key) <= 0, "a layer knows its coldest expert");
        }
        BASE_ASSERT((n == 0) == (layer->coldest == POLICY_NONE), "a layer with evictable experts has a coldest");
        if (n == 0) continue;
        BASE_ASSERT(memcmp(&layer->rating, &r->ratings[layer->coldest], sizeof layer->rating) == 0 &&
                        layer->stamp == p->stamps[layer->coldest],
                    "what layers are compared by is what it was copied from");
        BASE_ASSERT(r->nodes[r->trees[p->layers[l].class_index].first + layer->leaf] == l, "a layer is in its tree");
    }
    for (uint32_t k = 0; k < p->n_classes; k++) {
        const uint32_t *nodes = r->nodes + r->trees[k].first;
        for (uint32_t i = 1; i < r->trees[k].n_layers; i++)
            BASE_ASSERT(nodes[i] == colder_layer(p, nodes[2 * i], nodes[2 * i + 1]), "the colder one wins");
    }
}
