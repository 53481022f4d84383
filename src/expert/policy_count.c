/* `lfu` and `hotness`: the one that was used least often; ties by last use. Counts are kept when a key leaves (ghost
 * counts) and are there when it comes back; they are halved every some tokens. `lfu` keeps them across prompts and
 * halves them rarely; `hotness` forgets them at a new prompt and halves them every 16 tokens.
 *
 * Halving touches no key: a count is stored as mantissa and epoch (so many tokens each), count = mantissa * 2^(epoch -
 * now). Two keys compare by mantissa * 2^epoch, in which `now` does not occur, so a halving changes no order, and a
 * selection by a token that lies ahead is nothing special. This is real halving, not the integer kind (1 becomes 1/2,
 * not 0). The mantissa has 32 fractional bits; what is below is cut at the next selection.
 *
 * The rating is about log2(mantissa * 2^epoch), rounded to a float: what counts more is rated higher or the same, and
 * where ratings are the same the counts themselves are compared. */
#include "expert/policy_private.h"

#include <stdlib.h>
#include <string.h>

#define HOTNESS_HALVE_TICKS 16
#define LFU_HALVE_TICKS 4096
#define COUNT_ONE ((uint64_t)1 << 32)

struct count {
    uint64_t mantissa;
    uint64_t epoch; /* counted from `since` */
};

struct counts {
    struct count *keys; /* [n_keys] */
    uint64_t since;     /* clock: epoch 0 begins */
    uint32_t halve_ticks;
};

/* ---- order ---- */

static int compare_u64(uint64_t a, uint64_t b) { return a < b ? -1 : a > b; }

/* a * 2^d against b, exactly. */
static int compare_scaled(uint64_t a, uint64_t d, uint64_t b)
{
    if (a == 0) return b ? -1 : 0;
    if (d >= 64) return 1;
    int high = compare_u64(a, b >> d);
    if (high || (b >> d) << d == b) return high;
    return -1; /* bits of b below 2^d */
}

static int by_count(const struct policy *p, uint32_t a, uint32_t b)
{
    const struct counts *s = p->state;
    const struct count *x = &s->keys[a], *y = &s->keys[b];
    return x->epoch >= y->epoch ? compare_scaled(x->mantissa, x->epoch - y->epoch, y->mantissa)
                                : -compare_scaled(y->mantissa, y->epoch - x->epoch, x->mantissa);
}

/* 0 for nothing, else 1 + the whole part of the logarithm + how far the count is from there to its double. */
static float rating_of(const struct count *c)
{
    if (c->mantissa == 0) return 0;
    const unsigned spare = (unsigned)__builtin_clzll(c->mantissa);
    const uint64_t above = c->mantissa << spare << 1; /* bits below the first */
    return (float)((double)(c->epoch + 64 - spare) + (double)(above >> 32) * 0x1p-32);
}

/* ---- uses ---- */

static uint64_t shift(uint64_t value, uint64_t by) { return by < 64 ? value >> by : 0; }

/* One more use. Uses may be told out of order. */
static void add(struct policy *p, uint32_t key, uint64_t at)
{
    const struct counts *s = p->state;
    struct count *c = &s->keys[key];
    uint64_t epoch = (at - s->since) / s->halve_ticks;
    if (c->mantissa == 0) c->epoch = epoch;
    if (epoch > c->epoch) {
        c->mantissa = shift(c->mantissa, epoch - c->epoch);
        c->epoch = epoch;
    }
    uint64_t one = shift(COUNT_ONE, c->epoch - epoch);
    c->mantissa = c->mantissa <= UINT64_MAX - one ? c->mantissa + one : UINT64_MAX;
    p->rated.ratings[key] = rating_of(c);
}

static void counts_route(struct policy *p, uint32_t layer, const uint32_t *ids, uint32_t n, uint64_t at)
{
    for (uint32_t i = 0; i < n; i++) add(p, p->layers[layer].first_key + ids[i], at);
}

static void hotness_prompt(struct policy *p)
{
    struct counts *s = p->state;
    s->since = p->prompt_clock;
    memset(s->keys, 0, p->n_keys * sizeof *s->keys);
    rated_forget(p);
}

/* ---- beginning and end ---- */

static size_t counts_array_bytes(const struct policy_shape *shape, uint32_t n_keys)
{
    return ((size_t)n_keys + 1) * sizeof(struct count);
}

static bool counts_begin(struct policy *p, const struct policy_shape *shape)
{
    struct counts *s = p->state;
    s->since = p->prompt_clock;
    s->halve_ticks = shape->halve_ticks              ? shape->halve_ticks
                     : p->ops == &policy_hotness_ops ? HOTNESS_HALVE_TICKS
                                                     : LFU_HALVE_TICKS;
    s->keys = calloc((size_t)p->n_keys + 1, sizeof *s->keys);
    return s->keys != NULL;
}

static void counts_end(struct policy *p) { free(((struct counts *)p->state)->keys); }

const struct policy_ops policy_lfu_ops = {
    .name = "lfu",
    .state_bytes = sizeof(struct counts),
    .array_bytes = counts_array_bytes,
    .begin = counts_begin,
    .end = counts_end,
    .route = counts_route,
    .tie = by_count,
};

const struct policy_ops policy_hotness_ops = {
    .name = "hotness",
    .state_bytes = sizeof(struct counts),
    .array_bytes = counts_array_bytes,
    .begin = counts_begin,
    .end = counts_end,
    .prompt = hotness_prompt,
    .route = counts_route,
    .tie = by_count,
};
