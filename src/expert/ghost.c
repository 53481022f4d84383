#include "expert/ghost.h"

#include "base/assert.h"
#include "expert/cache.h"
#include "expert/slots_sim.h"

#include <stdlib.h>

#define NOT_FOLLOWED UINT32_MAX

struct ghost {
    struct slots_sim slots;
    const uint8_t *kept; /* the caller's */
    struct expert_ghost_result result;
};

struct expert_ghosts {
    uint32_t n_layers, n_followed, n_ghosts;
    bool decode;                 /* the running step */
    uint32_t *index_of;          /* [n_layers] of a layer among those that are followed */
    struct policy_layer *layers; /* [n_followed] with keys of their own */
    uint32_t *first_key;         /* [n_followed] the catalog's key of expert 0 */
    struct policy_shape shape;   /* of layers */
    uint64_t followed_bytes;     /* slots of all experts of the layers that are followed */
    uint64_t full_bytes;         /* and of all layers */
    uint64_t floor_bytes;        /* of the cache; pins leave it free */
    struct ghost *ghosts;        /* [n_ghosts] */
    uint64_t *expert_bytes;      /* [n_classes] real bytes of one */
    uint64_t *slot_bytes;        /* [n_classes] */
};

/* ---- which layers ---- */

static uint32_t count_layers(const struct expert_catalog *c)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < expert_catalog_n_layers(c); i++) n += expert_catalog_layer(c, i)->n_expert != 0;
    return n;
}

static uint32_t count_followed(const struct expert_catalog *c, uint32_t layers_max)
{
    const uint32_t n = count_layers(c);
    return layers_max && layers_max < n ? layers_max : n;
}

/* The middles of n_followed equal stretches of the layers with experts. Fills layers, and where they are from. */
static void follow(const struct expert_catalog *c, uint32_t n_followed, struct policy_layer *layers, uint32_t *from)
{
    const uint32_t n = count_layers(c);
    uint32_t taken = 0, nth = 0, n_keys = 0;
    for (uint32_t i = 0; i < expert_catalog_n_layers(c) && taken < n_followed; i++) {
        const struct expert_layer *l = expert_catalog_layer(c, i);
        if (!l->n_expert) continue;
        if (nth++ != (uint32_t)((2 * (uint64_t)taken + 1) * n / (2 * (uint64_t)n_followed))) continue;
        layers[taken] = (struct policy_layer){.first_key = n_keys,
                                              .n_expert = l->n_expert,
                                              .n_used = l->n_used,
                                              .class_index = expert_catalog_class_of(c, i)};
        n_keys += l->n_expert;
        from[taken++] = i;
    }
    BASE_ASSERT(taken == n_followed, "layers are spread over those that there are");
}

size_t expert_ghosts_memory_bytes(const struct expert_catalog *catalog, uint32_t n_ghosts, uint32_t layers_max)
{
    struct policy_layer layers[EXPERT_LAYERS_MAX];
    uint32_t from[EXPERT_LAYERS_MAX];
    const size_t n_followed = count_followed(catalog, layers_max), n_layers = expert_catalog_n_layers(catalog),
                 n_classes = expert_catalog_n_classes(catalog);
    follow(catalog, (uint32_t)n_followed, layers, from);
    const struct policy_shape shape = {
        .layers = layers, .n_layers = (uint32_t)n_followed, .n_classes = (uint32_t)n_classes};
    return sizeof(struct expert_ghosts) + (n_layers + 1) * sizeof(uint32_t) +
           (n_followed + 1) * (sizeof *layers + sizeof(uint32_t)) + (n_classes + 1) * 2 * sizeof(uint64_t) +
           (n_ghosts + 1) * sizeof(struct ghost) + n_ghosts * slots_memory_bytes(&shape);
}

/* ---- beginning and end ---- */

/* The sample's share of so many bytes. Doubles are exact for all that a machine has; the whole stays the whole. */
static uint64_t share(const struct expert_ghosts *g, uint64_t bytes)
{
    if (bytes >= g->full_bytes) return g->followed_bytes;
    return (uint64_t)((double)bytes * ((double)g->followed_bytes / (double)g->full_bytes));
}

static void describe(struct expert_ghosts *g, const struct expert_catalog *c)
{
    for (uint32_t i = 0; i < g->n_layers; i++) g->index_of[i] = NOT_FOLLOWED;
    follow(c, g->n_followed, g->layers, g->first_key);
    for (uint32_t i = 0; i < g->n_followed; i++) {
        const uint32_t layer = g->first_key[i];
        g->index_of[layer] = i;
        g->first_key[i] = expert_catalog_key(c, layer, 0);
        g->followed_bytes +=
            (uint64_t)g->layers[i].n_expert * expert_catalog_class(c, g->layers[i].class_index)->slot_bytes;
    }
    for (uint32_t i = 0; i < g->shape.n_classes; i++) {
        const struct expert_class *class = expert_catalog_class(c, i);
        g->slot_bytes[i] = class->slot_bytes;
        g->expert_bytes[i] = class->expert_bytes;
    }
}

static enum sluice_status add_ghost(struct expert_ghosts *g, enum policy_kind policy,
                                    const struct expert_ghost_config *config, struct sluice_error *err)
{
    struct ghost *ghost = &g->ghosts[g->n_ghosts];
    const uint64_t floor = g->floor_bytes;
    const struct slots_config how = {
        .policy = policy,
        .shape = &g->shape,
        .slot_bytes = g->slot_bytes,
        .room_bytes = share(g, config->slots_bytes),
        .kept_bytes_max = config->slots_bytes > floor ? share(g, config->slots_bytes - floor) : 0,
    };
    enum sluice_status status = slots_create(&ghost->slots, &how, err);
    if (status) return status;
    ghost->kept = config->kept;
    ghost->result.slots_bytes = config->slots_bytes;
    g->n_ghosts++;
    expert_ghosts_kept(g, g->n_ghosts - 1);
    return SLUICE_OK;
}

enum sluice_status expert_ghosts_create(const struct expert_catalog *catalog, enum policy_kind policy,
                                        const struct expert_ghost_config *ghosts, uint32_t n_ghosts,
                                        uint32_t layers_max, struct expert_ghosts **out, struct sluice_error *err)
{
    *out = NULL;
    BASE_ASSERT(n_ghosts <= EXPERT_GHOSTS_MAX, "ghosts are few");
    enum sluice_status status = SLUICE_ERR_MEMORY;
    struct expert_ghosts *g = calloc(1, sizeof *g);
    if (!g) goto fail;
    g->n_layers = expert_catalog_n_layers(catalog);
    g->n_followed = count_followed(catalog, layers_max);
    const uint32_t n_classes = expert_catalog_n_classes(catalog);
    g->index_of = calloc((size_t)g->n_layers + 1, sizeof *g->index_of);
    g->layers = calloc((size_t)g->n_followed + 1, sizeof *g->layers);
    g->first_key = calloc((size_t)g->n_followed + 1, sizeof *g->first_key);
    g->expert_bytes = calloc((size_t)n_classes + 1, sizeof *g->expert_bytes);
    g->slot_bytes = calloc((size_t)n_classes + 1, sizeof *g->slot_bytes);
    g->ghosts = calloc((size_t)n_ghosts + 1, sizeof *g->ghosts);
    if (!g->index_of || !g->layers || !g->first_key || !g->expert_bytes || !g->slot_bytes || !g->ghosts) goto fail;
    g->shape = (struct policy_shape){.layers = g->layers, .n_layers = g->n_followed, .n_classes = n_classes};
    g->full_bytes = expert_cache_full_bytes(catalog);
    g->floor_bytes = expert_cache_floor_bytes(catalog);
    describe(g, catalog);
    for (uint32_t i = 0; i < n_ghosts; i++) {
        status = add_ghost(g, policy, &ghosts[i], err);
        if (status) goto fail_said;
    }
    *out = g;
    return SLUICE_OK;

fail:
    base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for %u ghost caches", n_ghosts);
fail_said:
    expert_ghosts_destroy(g);
    return status;
}

void expert_ghosts_destroy(struct expert_ghosts *g)
{
    if (!g) return;
    for (uint32_t i = 0; i < g->n_ghosts; i++) slots_destroy(&g->ghosts[i].slots);
    free(g->ghosts);
    free(g->slot_bytes);
    free(g->expert_bytes);
    free(g->first_key);
    free(g->layers);
    free(g->index_of);
    free(g);
}

/* ---- a step ---- */

void expert_ghosts_begin(struct expert_ghosts *g, bool decode) { g->decode = decode; }

void expert_ghosts_selected(struct expert_ghosts *g, uint32_t layer, const uint32_t *ids, const float *weights,
                            uint32_t n, uint32_t ahead)
{
    BASE_ASSERT(layer < g->n_layers, "a layer of the catalog");
    const uint32_t index = g->index_of[layer];
    if (index == NOT_FOLLOWED) return;
    for (uint32_t i = 0; i < g->n_ghosts; i++) policy_route(g->ghosts[i].slots.policy, index, ids, weights, n, ahead);
}

void expert_ghosts_want(struct expert_ghosts *g, uint32_t layer, const uint32_t *ids, uint32_t n)
{
    BASE_ASSERT(layer < g->n_layers, "a layer of the catalog");
    const uint32_t index = g->index_of[layer];
    if (index == NOT_FOLLOWED) return;
    const uint64_t bytes = g->expert_bytes[g->layers[index].class_index];
    for (uint32_t i = 0; i < g->n_ghosts; i++) {
        const uint32_t n_hits = slots_want(&g->ghosts[i].slots, index, ids, n);
        struct expert_ghost_result *r = &g->ghosts[i].result;
        if (!g->decode) continue;
        r->hits += n_hits;
        r->misses += n - n_hits;
        r->hit_bytes += n_hits * bytes;
        r->miss_bytes += (n - n_hits) * bytes;
    }
}

void expert_ghosts_tick(struct expert_ghosts *g, uint32_t n_tokens)
{
    for (uint32_t i = 0; i < g->n_ghosts; i++) policy_tick(g->ghosts[i].slots.policy, n_tokens);
}

void expert_ghosts_prompt(struct expert_ghosts *g)
{
    for (uint32_t i = 0; i < g->n_ghosts; i++) policy_prompt(g->ghosts[i].slots.policy);
}

/* ---- pins and results ---- */

static void keep(struct expert_ghosts *g, struct ghost *ghost, bool yes)
{
    for (uint32_t l = 0; l < g->n_followed; l++)
        for (uint32_t e = 0; e < g->layers[l].n_expert; e++)
            if ((ghost->kept && ghost->kept[g->first_key[l] + e]) == yes)
                slots_keep(&ghost->slots, g->layers[l].first_key + e, yes);
}

void expert_ghosts_kept(struct expert_ghosts *g, uint32_t i)
{
    BASE_ASSERT(i < g->n_ghosts, "a ghost");
    keep(g, &g->ghosts[i], false); /* first, for what leaves makes room for what comes */
    keep(g, &g->ghosts[i], true);
}

void expert_ghosts_result(const struct expert_ghosts *g, uint32_t i, struct expert_ghost_result *out)
{
    BASE_ASSERT(i < g->n_ghosts, "a ghost");
    *out = g->ghosts[i].result;
}

void expert_ghosts_reset(struct expert_ghosts *g)
{
    for (uint32_t i = 0; i < g->n_ghosts; i++)
        g->ghosts[i].result = (struct expert_ghost_result){.slots_bytes = g->ghosts[i].result.slots_bytes};
}
