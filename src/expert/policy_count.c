/* `lfu` and `hotness`: the one that was used least often; ties by last use. Counts are kept when a key leaves (ghost
 * counts) and are there when it comes back; they are halved every some tokens. `lfu` keeps them across prompts and
 * halves them rarely; `hotness` forgets them at a new prompt and halves them every 16 tokens.
 *
 * Nothing ever touches all keys:
 *   - Halving. The count is stored as mantissa and epoch (so many tokens each), count = mantissa * 2^(epoch - now). Two
 *     keys compare by mantissa * 2^epoch, in which `now` does not occur, so a halving changes no order, and a selection
 *     by a token that lies ahead is nothing special. This is real halving, not the integer kind (1 becomes 1/2, not
 *     0). The mantissa has 32 fractional bits; what is below is cut at the next selection.
 *   - Forgetting. Counts are of the time from `since` on. Two heaps a class: `by_use` holds all evictable keys ordered
 *     by last use, `by_count` those whose last use is not before `since`, ordered by count. A prompt empties by_count
 *     in one step and sets `since` past every stamp given so far, so the forgotten keys are the first in by_use: its
 *     root is the coldest while it is one of them, else by_count's root is.
 *
 * All operations are O(log n), halving and forgetting O(1) and O(classes). */
#include "expert/policy_heap.h"
#include "expert/policy_private.h"

#include "base/assert.h"

#include <stdlib.h>

#define HOTNESS_HALVE_TICKS 16
#define LFU_HALVE_TICKS 4096
#define COUNT_ONE ((uint64_t)1 << 32)

struct count {
    uint64_t mantissa;
    uint64_t epoch; /* counted from `since` */
    uint64_t since; /* the `since` that it counts from; if that is over, the count is 0 */
};

struct counts {
    struct policy_heap by_use, by_count;
    struct count *keys; /* [n_keys] */
    uint64_t since;     /* clock: keys last used before it have no count */
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

static bool is_counted(const struct policy *p, uint32_t key)
{
    return p->stamps[key] >= ((const struct counts *)p->state)->since;
}

static int by_use(const void *user, uint32_t a, uint32_t b) { return policy_compare_use(user, a, b); }

static int by_count(const void *user, uint32_t a, uint32_t b)
{
    const struct policy *p = user;
    const struct counts *s = p->state;
    struct count x = s->keys[a], y = s->keys[b];
    if (x.since != s->since) x = (struct count){0};
    if (y.since != s->since) y = (struct count){0};
    int order = x.epoch >= y.epoch ? compare_scaled(x.mantissa, x.epoch - y.epoch, y.mantissa)
                                   : -compare_scaled(y.mantissa, y.epoch - x.epoch, x.mantissa);
    return order ? order : policy_compare_use(p, a, b);
}

/* ---- the set ---- */

static void counts_insert(struct policy *p, uint32_t key)
{
    struct counts *s = p->state;
    heap_insert(&s->by_use, p->class_of[key], key);
    if (is_counted(p, key)) heap_insert(&s->by_count, p->class_of[key], key);
}

static void counts_remove(struct policy *p, uint32_t key)
{
    struct counts *s = p->state;
    heap_remove(&s->by_use, p->class_of[key], key);
    if (is_counted(p, key)) heap_remove(&s->by_count, p->class_of[key], key);
}

static uint64_t shift(uint64_t value, uint64_t by) { return by < 64 ? value >> by : 0; }

/* One more use; the key is in no heap. Uses may be told out of order. */
static void add(struct policy *p, uint32_t key, uint64_t at)
{
    struct counts *s = p->state;
    struct count *c = &s->keys[key];
    uint64_t epoch = (at - s->since) / s->halve_ticks;
    if (c->since != s->since) *c = (struct count){0, epoch, s->since};
    if (epoch > c->epoch) {
        c->mantissa = shift(c->mantissa, epoch - c->epoch);
        c->epoch = epoch;
    }
    uint64_t one = shift(COUNT_ONE, c->epoch - epoch);
    c->mantissa = c->mantissa <= UINT64_MAX - one ? c->mantissa + one : UINT64_MAX;
    policy_stamp(p, key, at);
}

static void counts_route(struct policy *p, uint32_t layer, const uint32_t *ids, uint32_t n, uint64_t at)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t key = p->layers[layer].first_key + ids[i];
        bool evictable = p->class_of[key] != POLICY_NO_CLASS;
        if (evictable) counts_remove(p, key);
        add(p, key, at);
        if (evictable) counts_insert(p, key);
    }
}

static uint32_t counts_victim(struct policy *p, uint32_t class_index)
{
    const struct counts *s = p->state;
    uint32_t oldest = s->by_use.roots[class_index];
    if (oldest == POLICY_NONE || !is_counted(p, oldest)) return oldest;
    return s->by_count.roots[class_index];
}

static int counts_compare(struct policy *p, uint32_t a, uint32_t b) { return by_count(p, a, b); }

/* ---- beginning and end ---- */

static size_t counts_array_bytes(const struct policy_shape *shape, uint32_t n_keys)
{
    return 2 * heap_bytes(n_keys, shape->n_classes) + ((size_t)n_keys + 1) * sizeof(struct count);
}

static bool counts_begin(struct policy *p, const struct policy_shape *shape)
{
    struct counts *s = p->state;
    s->since = p->prompt_clock;
    s->halve_ticks = shape->halve_ticks              ? shape->halve_ticks
                     : p->ops == &policy_hotness_ops ? HOTNESS_HALVE_TICKS
                                                     : LFU_HALVE_TICKS;
    s->keys = calloc((size_t)p->n_keys + 1, sizeof *s->keys);
    return s->keys && heap_init(&s->by_use, p->n_keys, shape->n_classes, by_use, p) &&
           heap_init(&s->by_count, p->n_keys, shape->n_classes, by_count, p);
}

static void counts_end(struct policy *p)
{
    struct counts *s = p->state;
    heap_free(&s->by_use);
    heap_free(&s->by_count);
    free(s->keys);
}

static void hotness_prompt(struct policy *p)
{
    struct counts *s = p->state;
    s->since = p->prompt_clock;
    heap_clear(&s->by_count);
}

static void counts_check(struct policy *p)
{
    const struct counts *s = p->state;
    for (uint32_t key = 0; key < p->n_keys; key++) {
        if (p->class_of[key] == POLICY_NO_CLASS) continue;
        heap_check(&s->by_use, p->class_of[key], key);
        if (is_counted(p, key)) heap_check(&s->by_count, p->class_of[key], key);
    }
}

const struct policy_ops policy_lfu_ops = {
    .name = "lfu",
    .state_bytes = sizeof(struct counts),
    .array_bytes = counts_array_bytes,
    .begin = counts_begin,
    .end = counts_end,
    .route = counts_route,
    .insert = counts_insert,
    .remove = counts_remove,
    .victim = counts_victim,
    .compare = counts_compare,
    .check = counts_check,
};

const struct policy_ops policy_hotness_ops = {
    .name = "hotness",
    .state_bytes = sizeof(struct counts),
    .array_bytes = counts_array_bytes,
    .begin = counts_begin,
    .end = counts_end,
    .prompt = hotness_prompt,
    .route = counts_route,
    .insert = counts_insert,
    .remove = counts_remove,
    .victim = counts_victim,
    .compare = counts_compare,
    .check = counts_check,
};
