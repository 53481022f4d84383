/* Heat with decay by half every EXPERT_USAGE_HALF_LIFE tokens.
 *
 * All experts decay alike, so nothing is multiplied a token: heat is stored as heat * weight with
 * weight = 2^(age / half life), and a selection adds the weight of its moment. The weight is computed anew from the
 * whole number `age`, never multiplied up, so it does not drift; after REBASE half lives everything is divided by a
 * power of two, which is exact, and age begins again. Sums of non-negative terms in a fixed order: the same calls give
 * the same bits. */
#include "expert/usage_private.h"

#include "base/assert.h"
#include "base/bits.h"
#include "base/math.h"

#include <stdlib.h>

#define HALF_LIFE EXPERT_USAGE_HALF_LIFE
#define REBASE 64 /* half lives */
#define EXPONENT_MAX 1022
#define LN2 0x1.62e42fefa39efp-1

/* ---- decay ---- */

static double power_of_two(int k) { return base_f64_of_bits((uint64_t)(1023 + k) << 52); } /* |k| <= EXPONENT_MAX */

/* 2^(age / half life), age below EXPONENT_MAX half lives. */
static double growth(uint64_t age)
{
    return math_exp_d(LN2 * ((double)(age % HALF_LIFE) / HALF_LIFE)) * power_of_two((int)(age / HALF_LIFE));
}

double usage_decay(uint64_t n_tokens) { return n_tokens / HALF_LIFE >= EXPONENT_MAX ? 0.0 : 1.0 / growth(n_tokens); }

static void rebase(struct expert_usage *u)
{
    const uint64_t halves = u->age / HALF_LIFE;
    const double factor = halves > EXPONENT_MAX ? 0.0 : power_of_two(-(int)halves);
    for (uint32_t i = 0; i < u->n_experts; i++) {
        u->known[i] *= factor;
        u->added[i] *= factor;
    }
    u->known_tokens *= factor;
    u->added_tokens *= factor;
    u->age %= HALF_LIFE;
}

/* ---- what the run tells ---- */

size_t expert_usage_memory_bytes(const struct expert_catalog *catalog)
{
    const size_t n = (size_t)expert_catalog_n_experts(catalog) + 1;
    return sizeof(struct expert_usage) + n * (2 * sizeof(double) + sizeof(uint32_t)) + usage_image_bytes(catalog);
}

enum sluice_status expert_usage_create(const struct expert_catalog *catalog, uint64_t fingerprint,
                                       struct expert_usage **out, struct sluice_error *err)
{
    *out = NULL;
    const size_t n = expert_catalog_n_experts(catalog);
    struct expert_usage *u = calloc(1, sizeof *u);
    if (!u) goto fail;
    *u = (struct expert_usage){.catalog = catalog,
                               .fingerprint = fingerprint,
                               .n_experts = (uint32_t)n,
                               .weight = 1.0,
                               .image_bytes = usage_image_bytes(catalog)};
    u->known = calloc(n + 1, sizeof *u->known);
    u->added = calloc(n + 1, sizeof *u->added);
    u->heap = calloc(n + 1, sizeof *u->heap);
    u->image = calloc(1, u->image_bytes);
    if (!u->known || !u->added || !u->heap || !u->image) goto fail;
    *out = u;
    return SLUICE_OK;

fail:
    expert_usage_free(u);
    return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for the heat of %zu experts", n);
}

void expert_usage_free(struct expert_usage *u)
{
    if (!u) return;
    free(u->image);
    free(u->heap);
    free(u->added);
    free(u->known);
    free(u);
}

void expert_usage_selected(struct expert_usage *u, uint32_t layer, const uint32_t *ids, uint32_t n)
{
    if (n == 0) return;
    for (uint32_t i = 0; i < n; i++) u->added[expert_catalog_key(u->catalog, layer, ids[i])] += u->weight;
    u->changed = true;
}

void expert_usage_tick(struct expert_usage *u, uint32_t n_tokens)
{
    if (n_tokens == 0) return;
    u->added_tokens += n_tokens * u->weight;
    u->since += n_tokens;
    u->age += n_tokens;
    if (u->age >= (uint64_t)REBASE * HALF_LIFE) rebase(u);
    u->weight = growth(u->age);
    u->changed = true;
}

bool expert_usage_changed(const struct expert_usage *u) { return u->changed; }

/* ---- what it is worth ---- */

double expert_usage_tokens(const struct expert_usage *u) { return (u->known_tokens + u->added_tokens) / u->weight; }

double expert_usage_probability(const struct expert_usage *u, uint32_t key)
{
    BASE_ASSERT(key < u->n_experts, "a key of the catalog");
    const double heat = u->known[key] + u->added[key], tokens = u->known_tokens + u->added_tokens;
    if (!(tokens > 0)) return 0.0;
    return heat < tokens ? heat / tokens : 1.0; /* a step that was given up has no tokens */
}

static bool hotter(const struct expert_usage *u, uint32_t a, uint32_t b)
{
    const double x = expert_usage_probability(u, a), y = expert_usage_probability(u, b);
    return x != y ? x > y : a < b;
}

/* Lets the key at place i of a heap of n, hottest on top, sink to where it belongs. */
static void sink(struct expert_usage *u, uint32_t i, uint32_t n)
{
    const uint32_t key = u->heap[i];
    for (uint32_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && hotter(u, u->heap[child + 1], u->heap[child])) child++;
        if (!hotter(u, u->heap[child], key)) break;
        u->heap[i] = u->heap[child];
    }
    u->heap[i] = key;
}

uint32_t expert_usage_hottest(struct expert_usage *u, double least, uint32_t *keys, uint32_t max)
{
    BASE_ASSERT(least > 0, "an expert that nobody has used is not hot");
    uint32_t n = 0, done = 0;
    for (uint32_t key = 0; key < u->n_experts; key++)
        if (expert_usage_probability(u, key) >= least) u->heap[n++] = key;
    for (uint32_t i = n / 2; i > 0; i--) sink(u, i - 1, n);
    while (done < max && n > 0) {
        keys[done++] = u->heap[0];
        u->heap[0] = u->heap[--n];
        sink(u, 0, n);
    }
    return done;
}
