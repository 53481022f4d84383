/* What all policies have in common; each one is a file of its own.
 *
 * Time is counted in tokens. Every key has a stamp, its last use: the time of the last token that selected it. */
#include "expert/policy_private.h"

#include "base/assert.h"

#include <stdlib.h>
#include <string.h>

static const struct policy_ops *const policies[POLICY_KINDS] = {
    [POLICY_LRU] = &policy_lru_ops,           [POLICY_LFU] = &policy_lfu_ops,
    [POLICY_HOTNESS] = &policy_hotness_ops,   [POLICY_FREQ_AGE] = &policy_freq_age_ops,
    [POLICY_EXPECTED] = &policy_expected_ops, [POLICY_RECALL] = &policy_recall_ops,
};

const char *policy_name(enum policy_kind kind)
{
    BASE_ASSERT((unsigned)kind < POLICY_KINDS, "a policy");
    return policies[kind]->name;
}

bool policy_by_name(const char *name, enum policy_kind *out)
{
    if (strcmp(name, "auto") == 0) {
        *out = POLICY_AUTO;
        return true;
    }
    for (int i = 0; i < POLICY_KINDS; i++)
        if (strcmp(name, policies[i]->name) == 0) {
            *out = (enum policy_kind)i;
            return true;
        }
    return false;
}

/* A use at this time; uses may be told out of order. */
static void stamp(struct policy *p, uint32_t key, uint64_t at)
{
    if (at > p->stamps[key]) p->stamps[key] = at;
    if (at > p->stamp_max) p->stamp_max = at;
}

static uint32_t count_keys(const struct policy_shape *shape)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < shape->n_layers; i++) {
        const struct policy_layer *l = &shape->layers[i];
        BASE_ASSERT(l->first_key == n, "the keys of layers follow each other");
        BASE_ASSERT(l->n_expert == 0 || (l->class_index < shape->n_classes && l->n_used <= l->n_expert),
                    "a layer has a class, and experts enough");
        n += l->n_expert;
    }
    return n;
}

enum sluice_status policy_create(enum policy_kind kind, const struct policy_shape *shape, struct policy **out,
                                 struct sluice_error *err)
{
    *out = NULL;
    BASE_ASSERT((unsigned)kind < POLICY_KINDS, "a policy");
    uint32_t n_keys = count_keys(shape);
    struct policy *p = calloc(1, sizeof *p);
    if (!p) goto fail;
    p->ops = policies[kind];
    p->n_layers = shape->n_layers;
    p->n_classes = shape->n_classes;
    p->n_keys = n_keys;
    p->clock = p->prompt_clock = 1; /* stamp 0: never used */
    p->layers = calloc((size_t)shape->n_layers + 1, sizeof *p->layers);
    p->stamps = calloc((size_t)n_keys + 1, sizeof *p->stamps);
    p->state = calloc(1, p->ops->state_bytes + 1);
    if (!p->layers || !p->stamps || !p->state) goto fail;
    if (shape->n_layers) memcpy(p->layers, shape->layers, shape->n_layers * sizeof *p->layers);
    if (!rated_begin(p) || (p->ops->begin && !p->ops->begin(p, shape))) goto fail;
    *out = p;
    return SLUICE_OK;

fail:
    policy_destroy(p);
    return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for the eviction policy of %u experts", n_keys);
}

void policy_destroy(struct policy *p)
{
    if (!p) return;
    if (p->state && p->ops->end) p->ops->end(p);
    rated_end(p);
    free(p->state);
    free(p->stamps);
    free(p->layers);
    free(p);
}

size_t policy_memory_bytes(const struct policy_shape *shape)
{
    uint32_t n_keys = count_keys(shape);
    size_t most = 0;
    for (int i = 0; i < POLICY_KINDS; i++) {
        size_t bytes = policies[i]->state_bytes;
        if (policies[i]->array_bytes) bytes += policies[i]->array_bytes(shape, n_keys);
        if (bytes > most) most = bytes;
    }
    return sizeof(struct policy) + ((size_t)shape->n_layers + 1) * sizeof(struct policy_layer) +
           ((size_t)n_keys + 1) * sizeof(uint64_t) + rated_array_bytes(shape, n_keys) + most;
}

void policy_prompt(struct policy *p)
{
    /* Past every stamp: a step that was given up has told of tokens that never came. */
    if (p->clock <= p->stamp_max) p->clock = p->stamp_max + 1;
    p->prompt_clock = p->clock;
    if (p->ops->prompt) p->ops->prompt(p);
}

void policy_tick(struct policy *p, uint32_t n) { p->clock += n; }

void policy_route(struct policy *p, uint32_t layer, const uint32_t *ids, const float *weights, uint32_t n,
                  uint32_t ahead)
{
    (void)weights; /* no policy gained from them (docs/CACHE-MEASURED.md) */
    BASE_ASSERT(layer < p->n_layers && n <= p->layers[layer].n_used, "a token's choice in a layer of the policy");
    for (uint32_t i = 0; i < n; i++) BASE_ASSERT(ids[i] < p->layers[layer].n_expert, "an expert of the layer");
    const uint64_t at = p->clock + ahead;
    rated_route(p, layer, ids, n);
    if (p->ops->route) p->ops->route(p, layer, ids, n, at);
    for (uint32_t i = 0; i < n; i++) stamp(p, p->layers[layer].first_key + ids[i], at);
}

void policy_insert(struct policy *p, uint32_t class_index, uint32_t key)
{
    BASE_ASSERT(key < p->n_keys && class_index < p->n_classes, "a key and a class of the policy");
    /* What comes in without having been selected in this prompt (a prefetch) counts as used now, or it would be the
     * next victim. */
    if (p->stamps[key] < p->prompt_clock) stamp(p, key, p->clock);
    rated_insert(p, class_index, key);
}

void policy_remove(struct policy *p, uint32_t class_index, uint32_t key)
{
    BASE_ASSERT(key < p->n_keys && class_index < p->n_classes, "a key and a class of the policy");
    rated_remove(p, class_index, key);
}

uint32_t policy_victim(struct policy *p, uint32_t class_index)
{
    BASE_ASSERT(class_index < p->n_classes, "a class of the policy");
    return rated_victim(p, class_index);
}

int policy_compare(struct policy *p, uint32_t a, uint32_t b)
{
    BASE_ASSERT(a < p->n_keys && b < p->n_keys, "keys of the policy");
    return rated_compare(p, a, b);
}

void policy_check(struct policy *p)
{
    for (uint32_t key = 0; key < p->n_keys; key++) BASE_ASSERT(p->stamps[key] <= p->stamp_max, "stamps are counted");
    rated_check(p);
}
