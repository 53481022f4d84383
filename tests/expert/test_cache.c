/* The cache under random operations, for every budget, number of classes, policy and back end: what is taken is what
 * was wanted, every byte of it is right while it is held, and after each operation all invariants hold. With one class
 * the set of residents is that of a naive cache. */
#include "cache_rig.h"
#include "naive_policy.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { FLOOR, FLOOR_AND_ONE, ODD, HALF, ALL, BUDGETS };

static uint64_t budget_of(const struct expert_catalog *c, int which)
{
    uint64_t floor = expert_cache_floor_bytes(c), full = expert_cache_full_bytes(c), least = UINT64_MAX;
    for (uint32_t i = 0; i < expert_catalog_n_classes(c); i++)
        if (expert_catalog_class(c, i)->slot_bytes < least) least = expert_catalog_class(c, i)->slot_bytes;
    switch (which) {
    case FLOOR: return floor;
    case FLOOR_AND_ONE: return floor + least;
    case ODD: return floor + 5 * least + 12345;
    case HALF: return (floor + full) / 2;
    default: return full + 4096;
    }
}

/* ---- random operations ---- */

struct walk {
    struct cache_rig *rig;
    struct shape_random random;
    uint64_t budget;
    uint32_t ids[RIG_EXPERTS], n;                    /* the want */
    bool was_there[RIG_EXPERTS], taken[RIG_EXPERTS]; /* by expert */
    struct expert_view held[RIG_USED];
    uint32_t n_held, n_taken;
};

static void check_walk(struct walk *w)
{
    expert_cache_check(w->rig->cache);
    struct expert_stats s = rig_stats(w->rig);
    assert_true(s.committed_bytes <= w->budget && s.held_bytes <= s.committed_bytes);
    assert_int_equal(s.quarantined, 0);
    for (uint32_t i = 0; i < w->n_held; i++) {
        assert_true(rig_view_is_right(w->rig, &w->held[i], 2)); /* what is held is not reused */
        assert_true(w->held[i].expert < RIG_EXPERTS);
    }
}

static void walk_take(struct walk *w)
{
    struct expert_view *v = &w->held[w->n_held];
    uint32_t next;
    const bool ready = expert_ready(w->rig->cache, &next);
    if (expert_take(w->rig->cache, v, &w->rig->err)) fail_msg("take: %s", w->rig->err.message);
    if (ready) assert_int_equal(v->expert, next);
    w->n_held++;
    w->n_taken++;
    assert_true(v->expert < RIG_EXPERTS && !w->taken[v->expert]);
    bool wanted = false;
    for (uint32_t i = 0; i < w->n; i++) wanted = wanted || w->ids[i] == v->expert;
    assert_true(wanted);
    assert_int_equal(v->was_hit, w->was_there[v->expert]);
    w->taken[v->expert] = true;
}

static void walk_give(struct walk *w)
{
    uint32_t i = shape_below(&w->random, w->n_held);
    struct expert_view *v = &w->held[i];
    if (expert_finish(w->rig->cache, v, &w->rig->err)) fail_msg("finish: %s", w->rig->err.message);
    assert_true(rig_view_is_right(w->rig, v, 3));
    if (shape_below(&w->random, 4) == 0) expert_pump(w->rig->cache);
    assert_true(rig_view_is_right(w->rig, v, 3));
    assert_true(expert_resident(w->rig->cache, v->layer, v->expert));
    expert_give(w->rig->cache, v);
    w->held[i] = w->held[--w->n_held];
}

/* One want, taken and given in random order; sometimes given up in the middle. */
static void walk_want(struct walk *w)
{
    struct cache_rig *r = w->rig;
    uint32_t layer = r->layers[shape_below(&w->random, r->n_layers)];
    w->n =
        shape_below(&w->random, 4) ? 1 + shape_below(&w->random, RIG_USED) : 1 + shape_below(&w->random, RIG_EXPERTS);
    rig_choose(&w->random, RIG_EXPERTS, w->ids, w->n);
    bool gives_up = shape_below(&w->random, 10) == 0;
    uint32_t n_there = 0;
    expert_pump(r->cache); /* so that what an aborted want left is settled or not, as expert_want will see it */
    while (io_outstanding(r->io) && shape_below(&w->random, 2)) expert_pump(r->cache);
    bool settled = io_outstanding(r->io) == 0;
    for (uint32_t e = 0; e < RIG_EXPERTS; e++) {
        w->taken[e] = false;
        w->was_there[e] = expert_resident(r->cache, layer, e);
    }
    for (uint32_t i = 0; i < w->n; i++) n_there += w->was_there[w->ids[i]];
    struct expert_stats before = rig_stats(r);
    for (uint32_t i = 0; i < w->n; i++) expert_selected(r->cache, layer, &w->ids[i], NULL, 1, i / RIG_USED);
    if (expert_want(r->cache, layer, w->ids, w->n, &r->err)) fail_msg("want: %s", r->err.message);
    if (!settled) /* more may have arrived meanwhile */
        for (uint32_t i = 0; i < w->n; i++) w->was_there[w->ids[i]] = false;
    check_walk(w);
    bool all_here = expert_all_here(r->cache);
    if (settled) assert_int_equal(all_here, n_there == w->n);

    w->n_taken = w->n_held = 0;
    uint32_t n_given = 0;
    while (n_given < w->n) {
        if (gives_up && shape_below(&w->random, 3) == 0) break;
        bool can_take = w->n_taken < w->n && w->n_held < RIG_USED;
        if (can_take && (w->n_held == 0 || shape_below(&w->random, 2))) {
            if (!settled) { /* the view itself says */
                struct expert_view *v = &w->held[w->n_held];
                assert_int_equal(expert_take(r->cache, v, &r->err), SLUICE_OK);
                assert_false(w->taken[v->expert]);
                w->taken[v->expert] = true;
                w->n_held++;
                w->n_taken++;
            } else {
                walk_take(w);
            }
        } else {
            walk_give(w);
            n_given++;
        }
        if (shape_below(&w->random, 3) == 0) expert_pump(r->cache);
        check_walk(w);
        if (n_given == w->n) break;
        assert_true(!all_here || expert_all_here(r->cache)); /* it stays so */
        all_here = expert_all_here(r->cache);
    }
    assert_false(n_given == w->n && expert_all_here(r->cache)); /* nothing is wanted any more */
    if (n_given < w->n) {
        expert_abort(r->cache);
        w->n_held = 0;
        check_walk(w);
        return;
    }
    struct expert_stats after = rig_stats(r);
    assert_int_equal(after.hits + after.misses - before.hits - before.misses, w->n);
    if (!settled) return;
    const struct expert_class *class = expert_catalog_class(r->catalog, expert_catalog_class_of(r->catalog, layer));
    assert_int_equal(after.hits - before.hits, n_there);
    assert_int_equal(after.read_bytes - before.read_bytes, (w->n - n_there) * class->expert_bytes); /* each once */
}

static void walk(struct cache_rig *r, enum policy_kind policy, uint64_t budget, uint64_t seed, int steps)
{
    if (rig_cache(r, policy, budget)) fail_msg("%s", r->err.message);
    struct walk w = {.rig = r, .random = {seed}, .budget = budget};
    for (int i = 0; i < steps; i++) {
        walk_want(&w);
        expert_tick(r->cache, 1 + shape_below(&w.random, 3));
        if (shape_below(&w.random, 40) == 0) expert_prompt(r->cache);
    }
    assert_true(rig_stats(r).misses > 0);
}

static void test_random_operations(void **state)
{
    (void)state;
    enum io_backend backends[3];
    unsigned n_backends = rig_backends(backends);
    for (uint32_t n_classes = 1; n_classes <= 3; n_classes += 2)
        for (unsigned b = 0; b < n_backends; b++)
            for (int budget = 0; budget < BUDGETS; budget++) {
                struct cache_rig r;
                bool buffered = (budget + b) % 3 == 2;
                rig_init(&r, n_classes);
                if (budget % 2) r.fault.direct_align = 4096;
                rig_open(&r, backends[b], buffered, 0);
                walk(&r, budget % 2 ? POLICY_LRU : POLICY_HOTNESS, budget_of(r.catalog, budget),
                     100 * n_classes + 10 * b + (uint64_t)budget, 120);
                rig_end(&r);
            }
}

/* ---- the same residents as a naive cache ---- */

struct naive_cache {
    struct naive_policy policy;
    uint32_t n_slots, n_resident;
    uint64_t hits, evictions;
};

/* n <= the floor: all slots are found before anything arrives. */
static void naive_want(struct naive_cache *c, const uint32_t *keys, uint32_t n)
{
    uint32_t n_hits = 0;
    bool miss[RIG_EXPERTS];
    for (uint32_t i = 0; i < n; i++) {
        miss[i] = c->policy.class_of[keys[i]] == NAIVE_NO_CLASS;
        n_hits += !miss[i];
        c->policy.class_of[keys[i]] = NAIVE_NO_CLASS; /* pinned */
    }
    c->hits += n_hits;
    for (uint32_t i = 0; i < n; i++) {
        if (!miss[i]) continue;
        if (c->n_resident == c->n_slots) {
            c->policy.class_of[naive_victim(&c->policy, 0)] = NAIVE_NO_CLASS;
            c->evictions++;
        } else {
            c->n_resident++;
        }
    }
    for (uint32_t i = 0; i < n; i++) naive_insert(&c->policy, 0, keys[i]);
}

static void test_one_class_is_the_naive_cache(void **state)
{
    (void)state;
    for (int kind = 0; kind < POLICY_KINDS; kind++)
        for (int budget = 0; budget < BUDGETS; budget++) {
            struct cache_rig r;
            static struct naive_cache naive;
            memset(&naive, 0, sizeof naive);
            struct shape_random random = {(uint64_t)budget + 1};
            rig_init(&r, 1);
            rig_open(&r, IO_AUTO, false, 0);
            uint64_t bytes = budget_of(r.catalog, budget);
            assert_int_equal(rig_cache(&r, (enum policy_kind)kind, bytes), SLUICE_OK);
            uint32_t n_keys = expert_catalog_n_experts(r.catalog);
            naive_init(&naive.policy, (enum policy_kind)kind, n_keys, RIG_EXPERTS, 0);
            naive.n_slots = (uint32_t)(bytes / expert_catalog_class(r.catalog, 0)->slot_bytes);
            if (naive.n_slots > n_keys) naive.n_slots = n_keys;
            for (int step = 0; step < 400; step++) {
                uint32_t layer = r.layers[(uint32_t)step % r.n_layers], ids[RIG_EXPERTS], keys[RIG_EXPERTS];
                uint32_t n = 1 + shape_below(&random, RIG_USED);
                rig_choose(&random, shape_below(&random, 2) ? RIG_EXPERTS : 5, ids, n);
                for (uint32_t i = 0; i < n; i++) keys[i] = expert_catalog_key(r.catalog, layer, ids[i]);
                naive_route(&naive.policy, keys[0] / RIG_EXPERTS, ids, n, 0);
                naive_want(&naive, keys, n);
                rig_step(&r, layer, ids, n);
                if ((uint32_t)step % r.n_layers == r.n_layers - 1) {
                    expert_tick(r.cache, 1);
                    naive_tick(&naive.policy);
                }
                if (shape_below(&random, 100) == 0) {
                    expert_prompt(r.cache);
                    naive_prompt(&naive.policy);
                }
                for (uint32_t k = 0; k < n_keys; k++) {
                    uint32_t l, e;
                    expert_catalog_unkey(r.catalog, k, &l, &e);
                    assert_int_equal(expert_resident(r.cache, l, e), naive.policy.class_of[k] != NAIVE_NO_CLASS);
                }
            }
            struct expert_stats s = rig_stats(&r);
            assert_int_equal(s.hits, naive.hits);
            assert_int_equal(s.evictions, naive.evictions);
            assert_int_equal(s.resident, naive.n_resident);
            assert_int_equal(s.slots, naive.n_resident); /* grown only as needed, or all of it */
            rig_end(&r);
        }
}

/* ---- waves ---- */

static void test_waves(void **state)
{
    (void)state;
    enum io_backend backends[3];
    unsigned n_backends = rig_backends(backends);
    for (unsigned b = 0; b < n_backends; b++) {
        struct cache_rig r;
        rig_init(&r, 3);
        rig_open(&r, backends[b], false, 0);
        assert_int_equal(rig_cache(&r, POLICY_HOTNESS, expert_cache_floor_bytes(r.catalog)), SLUICE_OK);
        uint32_t ids[RIG_EXPERTS];
        for (uint32_t i = 0; i < RIG_EXPERTS; i++) ids[i] = (i * 5 + 3) % RIG_EXPERTS;
        for (uint32_t round = 0; round < 3; round++)
            for (uint32_t l = 0; l < r.n_layers; l++) {
                uint64_t read = rig_stats(&r).read_bytes, hits = rig_stats(&r).hits;
                rig_step(&r, r.layers[l], ids, RIG_EXPERTS);
                const struct expert_class *class =
                    expert_catalog_class(r.catalog, expert_catalog_class_of(r.catalog, r.layers[l]));
                hits = rig_stats(&r).hits - hits;
                assert_int_equal(rig_stats(&r).read_bytes - read, (RIG_EXPERTS - hits) * class->expert_bytes);
            }
        /* All slots of a class hold experts of the same want: they are taken and given before the misses. */
        uint32_t layer = r.layers[0], n_there = 0;
        rig_step(&r, layer, ids, RIG_EXPERTS);
        for (uint32_t e = 0; e < RIG_EXPERTS; e++) n_there += expert_resident(r.cache, layer, e);
        assert_int_equal(n_there, RIG_USED + 1);
        uint64_t hits = rig_stats(&r).hits;
        rig_step(&r, layer, ids, RIG_EXPERTS);
        assert_int_equal(rig_stats(&r).hits - hits, n_there);
        assert_int_equal(rig_stats(&r).committed_bytes, expert_cache_floor_bytes(r.catalog));
        rig_end(&r);
    }
}

/* While some of the wanted have no slot, not all are here; the last ones are at some time. */
static void test_all_here(void **state)
{
    (void)state;
    struct cache_rig r;
    rig_init(&r, 1);
    rig_open(&r, IO_SYNC, false, 0);
    assert_int_equal(rig_cache(&r, POLICY_LRU, expert_cache_floor_bytes(r.catalog)), SLUICE_OK);
    uint32_t ids[RIG_EXPERTS], n_slots = RIG_USED + 1, seen = 0;
    for (uint32_t i = 0; i < RIG_EXPERTS; i++) ids[i] = i;
    assert_int_equal(expert_want(r.cache, r.layers[0], ids, RIG_EXPERTS, &r.err), SLUICE_OK);
    for (uint32_t left = RIG_EXPERTS; left > 0; left--) {
        struct expert_view view;
        if (left > n_slots) assert_false(expert_all_here(r.cache));
        assert_int_equal(expert_take(r.cache, &view, &r.err), SLUICE_OK);
        seen += expert_all_here(r.cache);
        assert_int_equal(expert_finish(r.cache, &view, &r.err), SLUICE_OK);
        expert_give(r.cache, &view);
    }
    assert_true(seen > 0);
    assert_false(expert_all_here(r.cache));
    rig_end(&r);
}

/* ---- chunks change class ---- */

static void hammer(struct cache_rig *r, uint32_t class_index, int rounds, struct shape_random *random)
{
    for (int i = 0; i < rounds; i++) {
        for (uint32_t l = 0; l < r->n_layers; l++) {
            uint32_t ids[RIG_USED];
            if (expert_catalog_class_of(r->catalog, r->layers[l]) != class_index) continue;
            rig_choose(random, RIG_EXPERTS, ids, RIG_USED);
            rig_step(r, r->layers[l], ids, RIG_USED);
        }
        expert_tick(r->cache, 1);
    }
}

static void test_chunks_change_class(void **state)
{
    (void)state;
    /* Whole layers that fall silent are colder for these two; the others compare what happened in each layer's own
     * time, and no layer of a model is ever silent. */
    const enum policy_kind kinds[] = {POLICY_LRU, POLICY_HOTNESS};
    for (int kind = 0; kind < 2; kind++) {
        struct cache_rig r;
        struct shape_random random = {9};
        rig_init(&r, 3);
        rig_open(&r, IO_AUTO, false, 0);
        uint64_t budget = expert_cache_floor_bytes(r.catalog);
        for (uint32_t i = 0; i < 3; i++) { /* enough for all of any one class besides the floor */
            const struct expert_class *class = expert_catalog_class(r.catalog, i);
            uint64_t all = (uint64_t) class->slot_bytes * class->n_experts;
            if (budget < expert_cache_floor_bytes(r.catalog) + all) budget = expert_cache_floor_bytes(r.catalog) + all;
        }
        assert_int_equal(rig_cache(&r, kinds[kind], budget), SLUICE_OK);
        hammer(&r, 0, 40, &random);
        uint64_t recarved = rig_stats(&r).recarved;
        assert_int_equal(recarved, 0);
        for (uint32_t class_index = 0; class_index < 3; class_index++) {
            hammer(&r, class_index, 200, &random); /* the topic changes: the class takes what it can use */
            uint64_t misses = rig_stats(&r).misses;
            hammer(&r, class_index, 20, &random);
            assert_int_equal(rig_stats(&r).misses, misses);
        }
        assert_true(rig_stats(&r).recarved > recarved);
        assert_true(rig_stats(&r).committed_bytes <= budget);
        rig_end(&r);
    }
}

/* ---- limits and misuse ---- */

static void test_below_the_floor(void **state)
{
    (void)state;
    struct cache_rig r;
    char number[32];
    rig_init(&r, 3);
    rig_open(&r, IO_AUTO, false, 0);
    uint64_t floor = expert_cache_floor_bytes(r.catalog);
    snprintf(number, sizeof number, "%llu", (unsigned long long)floor);
    assert_int_equal(rig_cache(&r, POLICY_LRU, floor - 1), SLUICE_ERR_MEMORY);
    assert_null(r.cache);
    assert_non_null(strstr(r.err.message, number));
    assert_int_equal(rig_cache(&r, POLICY_LRU, 0), SLUICE_ERR_MEMORY);
    assert_int_equal(rig_cache(&r, POLICY_LRU, floor), SLUICE_OK);
    assert_int_equal(rig_stats(&r).committed_bytes, floor);
    assert_true(expert_cache_memory_bytes(r.catalog, floor) > 0);
    assert_true(expert_cache_memory_bytes(r.catalog, 10 * floor) >= expert_cache_memory_bytes(r.catalog, floor));
    rig_end(&r);
}

/* Models of real shape: address space and frames suffice at every budget, and bookkeeping stays small. */
static void test_real_sizes(void **state)
{
    (void)state;
    static const struct {
        uint32_t n_layers, n_expert, n_used, part[3], down_of_some;
    } models[] = {
        {48, 128, 8, {884736, 884736, 1290240}, 884736},    /* 30B in 4 and 6 bits */
        {43, 256, 6, {4325376, 4325376, 4325376}, 5505024}, /* 284B */
        {36, 128, 4, {4406400, 4406400, 4406400}, 4406400}, /* 120B, one class */
        {64, 4096, 8, {64, 64, 64}, 4000000},               /* absurd: 1000 small slots a frame */
    };
    struct io_config io_config = {.os = os_system(), .backend = IO_SYNC};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        struct expert_layer layers[64];
        struct expert_cache_config config = {.os = os_system(), .policy = POLICY_HOTNESS};
        struct expert_catalog *catalog = NULL;
        struct sluice_error err;
        uint64_t at = 32;
        for (uint32_t l = 0; l < models[i].n_layers; l++)
            layers[l] = shape_layer(models[i].n_expert, models[i].n_used, models[i].part[0], models[i].part[1],
                                    l % 8 ? models[i].part[2] : models[i].down_of_some, 0, &at);
        assert_int_equal(expert_catalog_create(layers, models[i].n_layers, 4096, &catalog, &err), SLUICE_OK);
        assert_int_equal(io_open(&io_config, &config.io, &err), SLUICE_OK);
        config.catalog = catalog;
        uint64_t floor = expert_cache_floor_bytes(catalog), full = expert_cache_full_bytes(catalog);
        for (int part = 0; part <= 8; part++) {
            struct expert_cache *cache = NULL;
            struct expert_stats s;
            config.slots_bytes = floor + (full - floor) / 8 * (uint64_t)part + 7 * (uint64_t)part;
            if (expert_cache_create(&config, &cache, &err)) fail_msg("%zu/%d: %s", i, part, err.message);
            expert_cache_stats(cache, &s);
            assert_int_equal(s.committed_bytes, floor);
            if (i < 3) assert_true(expert_cache_memory_bytes(catalog, config.slots_bytes) < 4 << 20);
            expert_cache_check(cache);
            expert_cache_destroy(cache);
        }
        io_close(config.io);
        expert_catalog_destroy(catalog);
    }
}

static void test_dense_model(void **state)
{
    (void)state;
    struct expert_layer dense = {.n_expert = 0};
    struct expert_cache_config config = {.os = os_system(), .policy = POLICY_LRU};
    struct expert_catalog *catalog = NULL;
    struct expert_cache *cache = NULL;
    struct io_config io = {.os = os_system()};
    assert_int_equal(expert_catalog_create(&dense, 1, 512, &catalog, NULL), SLUICE_OK);
    assert_int_equal(io_open(&io, &config.io, NULL), SLUICE_OK);
    config.catalog = catalog;
    assert_int_equal(expert_cache_create(&config, &cache, NULL), SLUICE_OK);
    expert_prompt(cache);
    expert_tick(cache, 1);
    expert_pump(cache);
    expert_cache_check(cache);
    expert_cache_destroy(cache);
    io_close(config.io);
    expert_catalog_destroy(catalog);
}

/* Does the action stop the process, as a broken invariant must? */
static bool stops(struct cache_rig *r, void (*action)(struct cache_rig *))
{
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (!freopen("/dev/null", "w", stderr)) _exit(1);
        signal(SIGABRT, SIG_DFL);
        action(r);
        _exit(0);
    }
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void want_twice(struct cache_rig *r)
{
    uint32_t id = 1;
    expert_want(r->cache, 0, &id, 1, NULL);
    expert_want(r->cache, 0, &id, 1, NULL);
}
static void give_twice(struct cache_rig *r)
{
    uint32_t ids[2] = {1, 2};
    struct expert_view view;
    expert_want(r->cache, 0, ids, 2, NULL);
    expert_take(r->cache, &view, NULL);
    expert_finish(r->cache, &view, NULL);
    expert_give(r->cache, &view);
    expert_give(r->cache, &view);
}
static void want_the_same(struct cache_rig *r)
{
    uint32_t ids[2] = {1, 1};
    expert_want(r->cache, 0, ids, 2, NULL);
}
static void take_too_many(struct cache_rig *r)
{
    uint32_t ids[1] = {1};
    struct expert_view view;
    expert_want(r->cache, 0, ids, 1, NULL);
    expert_take(r->cache, &view, NULL);
    expert_take(r->cache, &view, NULL);
}
static void nothing_wrong(struct cache_rig *r)
{
    uint32_t id = 1;
    expert_want(r->cache, 0, &id, 1, NULL);
    rig_take_all(r, 1);
}

static void test_misuse_stops(void **state)
{
    (void)state;
    struct cache_rig r;
    rig_init(&r, 1);
    rig_open(&r, IO_SYNC, false, 0);
    assert_int_equal(rig_cache(&r, POLICY_LRU, expert_cache_full_bytes(r.catalog)), SLUICE_OK);
    assert_true(stops(&r, want_twice));
    assert_true(stops(&r, give_twice));
    assert_true(stops(&r, want_the_same));
    assert_true(stops(&r, take_too_many));
    assert_false(stops(&r, nothing_wrong));
    rig_end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_operations),
        cmocka_unit_test(test_one_class_is_the_naive_cache),
        cmocka_unit_test(test_waves),
        cmocka_unit_test(test_all_here),
        cmocka_unit_test(test_chunks_change_class),
        cmocka_unit_test(test_below_the_floor),
        cmocka_unit_test(test_dense_model),
        cmocka_unit_test(test_real_sizes),
        cmocka_unit_test(test_misuse_stops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
