/* Ghost caches: on recorded routings they count what a replay counts, a sample of the layers comes close; on made-up
 * models they do what a naive cache of bytes does; nothing is allocated after they were made. */
#include "counting.h"
#include "expert/cache.h"
#include "expert/ghost.h"
#include "expert/replay.h"
#include "shape.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- helpers ---- */

static struct expert_catalog *catalog_of(const struct expert_layer *layers, uint32_t n_layers)
{
    struct expert_catalog *c = NULL;
    struct sluice_error err;
    if (expert_catalog_create(layers, n_layers, 4096, &c, &err)) fail_msg("%s", err.message);
    return c;
}

static struct expert_ghosts *make(const struct expert_catalog *c, enum policy_kind policy,
                                  const struct expert_ghost_config *configs, uint32_t n, uint32_t layers_max)
{
    struct expert_ghosts *g = NULL;
    struct sluice_error err;
    const size_t before = counting_bytes;
    if (expert_ghosts_create(c, policy, configs, n, layers_max, &g, &err)) fail_msg("%s", err.message);
    const size_t bytes = counting_bytes - before, said = expert_ghosts_memory_bytes(c, n, layers_max);
    assert_true(bytes > 0 && bytes <= said);
    return g;
}

static struct expert_ghost_result result(const struct expert_ghosts *g, uint32_t i)
{
    struct expert_ghost_result r;
    expert_ghosts_result(g, i, &r);
    return r;
}

/* One step of a decode in one layer, as it is told. */
static void decode(struct expert_ghosts *g, uint32_t layer, const uint32_t *ids, uint32_t n)
{
    expert_ghosts_selected(g, layer, ids, NULL, n, 0);
    expert_ghosts_want(g, layer, ids, n);
}

/* n of n_expert, the lower ones more often. */
static void choose(struct shape_random *r, uint32_t n_expert, uint32_t *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n;) {
        uint32_t id = shape_below(r, 1 + shape_below(r, n_expert));
        bool twice = false;
        for (uint32_t k = 0; k < i; k++) twice = twice || ids[k] == id;
        if (!twice) ids[i++] = id;
    }
}

/* ---- recorded routings ---- */

static const char *const names[3] = {"qwen", "gemma", "gptoss"};

static bool load(int i, struct trace *t)
{
    const char *shared = getenv("SLUICE_SHARED");
    char path[4096];
    struct sluice_error err;
    snprintf(path, sizeof path, "%s/traces/%s.csv", shared ? shared : ".", names[i]);
    FILE *f = fopen(path, "r");
    if (!f) {
        print_message("no traces/%s.csv: left out\n", names[i]);
        return false;
    }
    fclose(f);
    if (trace_read(path, t, &err)) fail_msg("%s", err.message);
    return true;
}

/* The trace's model, with experts of one size. */
static struct expert_catalog *catalog_of_trace(const struct trace *t)
{
    struct expert_layer *layers = calloc(t->n_layers, sizeof *layers);
    uint64_t offset = 0;
    assert_non_null(layers);
    for (uint32_t i = 0; i < t->n_layers; i++)
        if (t->layers[i].n_expert)
            layers[i] = shape_layer(t->layers[i].n_expert, t->layers[i].n_used, 4000, 4000, 5000, 0, &offset);
    struct expert_catalog *c = catalog_of(layers, t->n_layers);
    assert_int_equal(expert_catalog_n_classes(c), 1);
    free(layers);
    return c;
}

static void tell_step(struct expert_ghosts *g, const struct trace *t, uint32_t begin, uint32_t end)
{
    static uint32_t ids[EXPERT_COUNT_MAX];
    static float weights[EXPERT_COUNT_MAX];
    static bool wanted[EXPERT_COUNT_MAX];
    expert_ghosts_begin(g, t->flags[begin] & TRACE_DECODE);
    for (uint32_t layer = 0; layer < t->n_layers; layer++) {
        uint32_t n = 0;
        memset(wanted, 0, sizeof wanted);
        for (uint32_t token = begin; token < end; token++) {
            n = trace_choice(t, token, layer, ids, weights);
            if (n) expert_ghosts_selected(g, layer, ids, weights, n, token - begin);
            for (uint32_t i = 0; i < n; i++) wanted[ids[i]] = true;
        }
        if (end - begin > 1) {
            n = 0;
            for (uint32_t e = 0; e < t->layers[layer].n_expert; e++)
                if (wanted[e]) ids[n++] = e;
        }
        if (n) expert_ghosts_want(g, layer, ids, n);
    }
    expert_ghosts_tick(g, end - begin);
}

static void tell(struct expert_ghosts *g, const struct trace *t)
{
    for (uint32_t begin = 0, end; begin < t->n_tokens; begin = end) {
        end = begin + 1;
        while (end < t->n_tokens && !(t->flags[end] & TRACE_STEP)) end++;
        if (t->flags[begin] & TRACE_PROMPT) expert_ghosts_prompt(g);
        tell_step(g, t, begin, end);
    }
}

/* Slots of some times K experts a layer. */
static const uint32_t times[4] = {2, 4, 8, 12};

static void configure(const struct trace *t, const struct expert_catalog *c, struct expert_ghost_config configs[4])
{
    for (int k = 0; k < 4; k++)
        configs[k] = (struct expert_ghost_config){.slots_bytes = (uint64_t)times[k] * replay_n_used(t) * t->n_layers *
                                                                 expert_catalog_class(c, 0)->slot_bytes};
}

static void test_equal_to_a_replay(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct trace t;
        if (!load(i, &t)) continue;
        struct expert_catalog *c = catalog_of_trace(&t);
        struct expert_ghost_config configs[4];
        configure(&t, c, configs);
        for (int policy = 0; policy < POLICY_KINDS; policy++) {
            struct expert_ghosts *g = make(c, (enum policy_kind)policy, configs, 4, 0);
            tell(g, &t);
            for (uint32_t k = 0; k < 4; k++) {
                struct replay_result r;
                struct sluice_error err;
                const struct replay_config config = {.policy = (enum policy_kind)policy,
                                                     .slots = times[k] * replay_n_used(&t) * t.n_layers};
                if (replay_run(&t, &config, &r, &err)) fail_msg("%s", err.message);
                const struct expert_ghost_result got = result(g, k);
                assert_true(r.hits > 0 && r.misses > 0);
                assert_int_equal(got.hits, r.hits);
                assert_int_equal(got.misses, r.misses);
                assert_int_equal(got.hit_bytes, r.hits * 13000);
                assert_int_equal(got.miss_bytes, r.misses * 13000);
                assert_int_equal(got.slots_bytes, configs[k].slots_bytes);
            }
            expert_ghosts_destroy(g);
        }
        expert_catalog_destroy(c);
        trace_free(&t);
    }
}

static double rate(const struct expert_ghost_result *r)
{
    return 100.0 * (double)r->hits / (double)(r->hits + r->misses);
}

/* The largest difference between the sampled hit rate and that of all layers, in points. */
static double far_off(const struct trace *t, const struct expert_catalog *c, enum policy_kind policy,
                      uint32_t layers_max)
{
    struct expert_ghost_config configs[4];
    double worst = 0;
    configure(t, c, configs);
    struct expert_ghosts *all = make(c, policy, configs, 4, 0);
    struct expert_ghosts *some = make(c, policy, configs, 4, layers_max);
    tell(all, t);
    tell(some, t);
    for (uint32_t k = 0; k < 4; k++) {
        const struct expert_ghost_result a = result(all, k), s = result(some, k);
        const double off = rate(&s) - rate(&a);
        assert_int_equal((s.hits + s.misses) * t->n_layers, (a.hits + a.misses) * layers_max);
        if (off > worst || -off > worst) worst = off > 0 ? off : -off;
    }
    expert_ghosts_destroy(some);
    expert_ghosts_destroy(all);
    return worst;
}

/* Layers differ in how well they can be cached, so a sample of layers is off by that (README.md). */
static void test_a_sample_comes_close(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct trace t;
        if (!load(i, &t)) continue;
        struct expert_catalog *c = catalog_of_trace(&t);
        for (int policy = 0; policy < POLICY_KINDS; policy++) {
            const double off12 = far_off(&t, c, (enum policy_kind)policy, 12);
            const double off24 = far_off(&t, c, (enum policy_kind)policy, 24);
            print_message("%-6s %-9s 12 layers: %.2f off, 24: %.2f\n", names[i], policy_name((enum policy_kind)policy),
                          off12, off24);
            assert_true(off24 <= 2);
            assert_true(off12 <= (policy == POLICY_AUTO ? 2 : 4));
        }
        expert_catalog_destroy(c);
        trace_free(&t);
    }
}

/* ---- made-up models ---- */

#define N_LAYERS 7
#define N_EXPERT 20
#define N_USED 3
#define N_KEYS ((N_LAYERS - 1) * N_EXPERT)

/* Dense, then small, large, middle, small, ... */
static struct expert_catalog *mixed(void)
{
    struct expert_layer layers[N_LAYERS] = {{0}};
    uint64_t offset = 0;
    for (uint32_t i = 1; i < N_LAYERS; i++) {
        const uint32_t bytes[3] = {60000, 4000, 15000};
        layers[i] = shape_layer(N_EXPERT, N_USED, bytes[i % 3], bytes[i % 3], bytes[i % 3], 0, &offset);
    }
    struct expert_catalog *c = catalog_of(layers, N_LAYERS);
    assert_int_equal(expert_catalog_n_classes(c), 3);
    return c;
}

static void test_a_full_ghost_has_cold_misses_only(void **state)
{
    (void)state;
    struct expert_catalog *c = mixed();
    const struct expert_ghost_config configs[2] = {{.slots_bytes = expert_cache_full_bytes(c)},
                                                   {.slots_bytes = UINT64_MAX}};
    for (uint32_t followed = 0; followed <= N_LAYERS; followed++) {
        struct expert_ghosts *g = make(c, POLICY_AUTO, configs, 2, followed);
        struct shape_random r = {followed};
        bool seen[N_LAYERS][N_EXPERT] = {{false}};
        const uint32_t n_followed = followed == 0 || followed >= N_LAYERS ? N_LAYERS - 1 : followed;
        for (uint32_t token = 0; token < 100; token++) {
            if (token == 50) expert_ghosts_prompt(g);
            expert_ghosts_begin(g, token % 50 >= 5);
            for (uint32_t layer = 1; layer < N_LAYERS; layer++) {
                uint32_t ids[N_USED];
                choose(&r, N_EXPERT, ids, N_USED);
                const struct expert_ghost_result before = result(g, 0);
                decode(g, layer, ids, N_USED);
                const struct expert_ghost_result after = result(g, 0);
                uint32_t cold = 0;
                for (uint32_t i = 0; i < N_USED; i++) {
                    cold += !seen[layer][ids[i]];
                    seen[layer][ids[i]] = true;
                }
                const uint64_t n = after.hits + after.misses - before.hits - before.misses;
                assert_true(n == 0 || n == N_USED);
                if (n) assert_int_equal(after.misses - before.misses, cold);
            }
            expert_ghosts_tick(g, 1);
        }
        const struct expert_ghost_result a = result(g, 0), b = result(g, 1);
        assert_int_equal(a.hits + a.misses, 90 * N_USED * n_followed);
        assert_int_equal(a.hits, b.hits);
        expert_ghosts_destroy(g);
    }
    expert_catalog_destroy(c);
}

/* A cache of bytes that evicts what was used longest ago. */
struct naive {
    const struct expert_catalog *catalog;
    uint64_t room_bytes, used_bytes, hits, misses, hit_bytes, miss_bytes;
    bool there[N_KEYS];
    uint64_t used_at[N_KEYS];
};

static const struct expert_class *class_of_key(const struct expert_catalog *c, uint32_t key)
{
    uint32_t layer, expert;
    expert_catalog_unkey(c, key, &layer, &expert);
    return expert_catalog_class(c, expert_catalog_class_of(c, layer));
}

static void naive_evict(struct naive *n, const uint32_t *keys, uint32_t n_keys)
{
    uint32_t best = N_KEYS;
    for (uint32_t key = 0; key < N_KEYS; key++) {
        bool held = false;
        for (uint32_t i = 0; i < n_keys; i++) held = held || keys[i] == key;
        if (!n->there[key] || held) continue;
        if (best == N_KEYS || n->used_at[key] < n->used_at[best]) best = key;
    }
    assert_true(best < N_KEYS);
    n->there[best] = false;
    n->used_bytes -= class_of_key(n->catalog, best)->slot_bytes;
}

static void naive_want(struct naive *n, uint64_t now, const uint32_t *keys, uint32_t n_keys)
{
    const struct expert_class *class = class_of_key(n->catalog, keys[0]);
    for (uint32_t i = 0; i < n_keys; i++) {
        n->used_at[keys[i]] = now;
        *(n->there[keys[i]] ? &n->hits : &n->misses) += 1;
        *(n->there[keys[i]] ? &n->hit_bytes : &n->miss_bytes) += class->expert_bytes;
    }
    for (uint32_t i = 0; i < n_keys; i++) {
        if (n->there[keys[i]]) continue;
        while (n->used_bytes + class->slot_bytes > n->room_bytes) naive_evict(n, keys, n_keys);
        n->there[keys[i]] = true;
        n->used_bytes += class->slot_bytes;
    }
}

static void test_mixed_sizes(void **state)
{
    (void)state;
    struct expert_catalog *c = mixed();
    const uint64_t floor = expert_cache_floor_bytes(c), full = expert_cache_full_bytes(c);
    struct expert_ghost_config configs[EXPERT_GHOSTS_MAX];
    struct naive naive[EXPERT_GHOSTS_MAX];
    memset(naive, 0, sizeof naive);
    for (uint32_t i = 0; i < EXPERT_GHOSTS_MAX; i++) {
        configs[i] = (struct expert_ghost_config){.slots_bytes = floor + (full - floor) * i / EXPERT_GHOSTS_MAX};
        naive[i].catalog = c;
        naive[i].room_bytes = configs[i].slots_bytes;
    }
    struct expert_ghosts *g = make(c, POLICY_LRU, configs, EXPERT_GHOSTS_MAX, 0);
    struct shape_random r = {3};
    expert_ghosts_begin(g, true);
    for (uint32_t token = 1; token < 500; token++) {
        for (uint32_t layer = 1; layer < N_LAYERS; layer++) {
            uint32_t ids[N_USED], keys[N_USED];
            choose(&r, N_EXPERT, ids, N_USED);
            for (uint32_t i = 0; i < N_USED; i++) keys[i] = expert_catalog_key(c, layer, ids[i]);
            decode(g, layer, ids, N_USED);
            /* Last use is by tokens, ties by key: all of a token's are equally old. */
            for (uint32_t i = 0; i < EXPERT_GHOSTS_MAX; i++) naive_want(&naive[i], token, keys, N_USED);
        }
        expert_ghosts_tick(g, 1);
    }
    for (uint32_t i = 0; i < EXPERT_GHOSTS_MAX; i++) {
        const struct expert_ghost_result got = result(g, i);
        assert_int_equal(got.hits, naive[i].hits);
        assert_int_equal(got.misses, naive[i].misses);
        assert_int_equal(got.hit_bytes, naive[i].hit_bytes);
        assert_int_equal(got.miss_bytes, naive[i].miss_bytes);
        if (i) assert_true(got.hits > result(g, i - 1).hits);
    }
    expert_ghosts_destroy(g);
    expert_catalog_destroy(c);
}

static void test_kept_and_reset(void **state)
{
    (void)state;
    struct expert_catalog *c = mixed();
    const uint64_t floor = expert_cache_floor_bytes(c);
    const uint32_t pins[3] = {expert_catalog_key(c, 1, 0), expert_catalog_key(c, 3, 0), expert_catalog_key(c, 3, 1)};
    uint8_t kept[N_KEYS] = {0};
    uint64_t pin_bytes = 0;
    for (int i = 0; i < 3; i++) {
        kept[pins[i]] = 1;
        pin_bytes += class_of_key(c, pins[i])->slot_bytes;
    }
    for (int policy = 0; policy < POLICY_KINDS; policy++) {
        /* Room for the pins; none, though they are named; no pins. */
        const struct expert_ghost_config configs[3] = {
            {.slots_bytes = floor + pin_bytes, .kept = kept},
            {.slots_bytes = floor, .kept = kept},
            {.slots_bytes = floor + pin_bytes},
        };
        struct expert_ghosts *g = make(c, (enum policy_kind)policy, configs, 3, 0);
        struct shape_random r = {5};
        const uint32_t first[N_USED] = {0, 1, 2};
        expert_ghosts_begin(g, true);
        decode(g, 1, first, N_USED);
        decode(g, 3, first, N_USED);
        expert_ghosts_tick(g, 1);
        for (uint32_t round = 0; round < 3; round++) {
            kept[pins[0]] = round != 1; /* let go once, and named again */
            expert_ghosts_kept(g, 0);
            expert_ghosts_kept(g, 1);
            for (uint32_t token = 0; token < 200; token++) { /* without the pinned ones */
                for (uint32_t layer = 1; layer < N_LAYERS; layer++) {
                    uint32_t ids[N_USED];
                    choose(&r, N_EXPERT - 3, ids, N_USED);
                    for (uint32_t i = 0; i < N_USED; i++) ids[i] += 3;
                    decode(g, layer, ids, N_USED);
                }
                expert_ghosts_tick(g, 1);
            }
            expert_ghosts_reset(g);
            for (uint32_t i = 0; i < 3; i++) {
                const struct expert_ghost_result now = result(g, i);
                assert_int_equal(now.hits + now.misses + now.hit_bytes + now.miss_bytes, 0);
                assert_int_equal(now.slots_bytes, configs[i].slots_bytes);
            }
            decode(g, 3, first, 2);
            assert_int_equal(result(g, 0).hits, 2); /* they were there, and a reset left them there */
            assert_int_equal(result(g, 1).hits, 0);
            assert_int_equal(result(g, 2).hits, 0);
            expert_ghosts_reset(g);
            decode(g, 1, first, 1);
            assert_int_equal(result(g, 0).hits, round != 1);
            assert_int_equal(result(g, 2).hits, 0);
        }
        expert_ghosts_destroy(g);
    }
    expert_catalog_destroy(c);
}

/* What is kept takes all that the floor leaves; the rest goes on, in waves where a want is larger. */
static void test_all_kept(void **state)
{
    (void)state;
    struct expert_catalog *c = mixed();
    const uint64_t floor = expert_cache_floor_bytes(c);
    uint8_t kept[N_KEYS];
    memset(kept, 1, sizeof kept);
    const struct expert_ghost_config configs[4] = {{.slots_bytes = 0, .kept = kept},
                                                   {.slots_bytes = 30000, .kept = kept}, /* no large one fits */
                                                   {.slots_bytes = 2 * floor, .kept = kept},
                                                   {.slots_bytes = expert_cache_full_bytes(c), .kept = kept}};
    for (uint32_t followed = 0; followed < N_LAYERS; followed++) {
        struct expert_ghosts *g = make(c, POLICY_AUTO, configs, 4, followed);
        struct shape_random r = {9};
        for (uint32_t step = 0; step < 200; step++) {
            uint32_t ids[N_EXPERT], n = step % 5 ? N_USED : N_EXPERT;
            expert_ghosts_begin(g, n == N_USED);
            for (uint32_t layer = 1; layer < N_LAYERS; layer++) {
                choose(&r, N_EXPERT, ids, n);
                for (uint32_t t = 0; t < n; t += N_USED)
                    expert_ghosts_selected(g, layer, ids + t, NULL, n - t < N_USED ? n - t : N_USED, t / N_USED);
                expert_ghosts_want(g, layer, ids, n);
            }
            expert_ghosts_tick(g, (n + N_USED - 1) / N_USED);
            if (step == 99) {
                memset(kept, 0, sizeof kept);
                for (uint32_t i = 0; i < 4; i++) expert_ghosts_kept(g, i);
            }
        }
        assert_int_equal(result(g, 0).hits, 0);
        assert_true(result(g, 2).hits > 0);
        assert_int_equal(result(g, 3).misses, 0); /* the first step, a prompt, took all */
        expert_ghosts_destroy(g);
    }
    expert_catalog_destroy(c);
}

static void test_nothing_is_allocated(void **state)
{
    (void)state;
    struct expert_catalog *c = mixed();
    uint8_t kept[N_KEYS] = {1, 1, 1};
    const struct expert_ghost_config configs[2] = {{.slots_bytes = 2 * expert_cache_floor_bytes(c), .kept = kept},
                                                   {.slots_bytes = expert_cache_full_bytes(c)}};
    for (int policy = 0; policy < POLICY_KINDS; policy++) {
        struct expert_ghosts *g = make(c, (enum policy_kind)policy, configs, 2, 4);
        struct shape_random r = {7};
        const unsigned before = counting_calls;
        assert_true(before > 0); /* the counter counts */
        for (uint32_t token = 0; token < 300; token++) {
            expert_ghosts_begin(g, true);
            for (uint32_t layer = 1; layer < N_LAYERS; layer++) {
                uint32_t ids[N_USED];
                choose(&r, N_EXPERT, ids, N_USED);
                decode(g, layer, ids, N_USED);
            }
            expert_ghosts_tick(g, 1);
            if (token % 50 == 49) {
                kept[token % N_KEYS] ^= 1;
                expert_ghosts_kept(g, 0);
                expert_ghosts_prompt(g);
                expert_ghosts_reset(g);
            }
        }
        result(g, 0);
        assert_int_equal(counting_calls, before);
        expert_ghosts_destroy(g);
    }
    expert_catalog_destroy(c);
}

/* A model without experts, and no ghosts at all: nothing happens. */
static void test_nothing_to_follow(void **state)
{
    (void)state;
    const struct expert_layer dense[2] = {{0}};
    struct expert_catalog *c = catalog_of(dense, 2);
    const struct expert_ghost_config config = {.slots_bytes = 1 << 20};
    struct expert_ghosts *g = make(c, POLICY_AUTO, &config, 1, 0);
    expert_ghosts_begin(g, true);
    expert_ghosts_want(g, 1, NULL, 0);
    expert_ghosts_tick(g, 1);
    expert_ghosts_kept(g, 0);
    assert_int_equal(result(g, 0).misses, 0);
    expert_ghosts_destroy(g);
    expert_catalog_destroy(c);
    c = mixed();
    g = make(c, POLICY_AUTO, NULL, 0, 3);
    const uint32_t ids[N_USED] = {0, 1, 2};
    decode(g, 1, ids, N_USED);
    expert_ghosts_destroy(g);
    expert_ghosts_destroy(NULL);
    expert_catalog_destroy(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_to_a_replay),
        cmocka_unit_test(test_a_sample_comes_close),
        cmocka_unit_test(test_a_full_ghost_has_cold_misses_only),
        cmocka_unit_test(test_mixed_sizes),
        cmocka_unit_test(test_kept_and_reset),
        cmocka_unit_test(test_all_kept),
        cmocka_unit_test(test_nothing_is_allocated),
        cmocka_unit_test(test_nothing_to_follow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
