/* Memory that comes before it is needed: all of the limit and no more, in any number of classes; taken by whoever grows
 * first; given back before any expert leaves; and asked for of whoever watches the machine's memory. */
#include "cache_rig.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static void begin(struct cache_rig *r, uint32_t n_classes, bool toucher)
{
    rig_init(r, n_classes);
    rig_open(r, IO_AUTO, false, 0);
    if (toucher) assert_int_equal(os_toucher_create(&r->fault.calls, &r->toucher), 0);
}

static void prepare(struct cache_rig *r)
{
    unsigned calls = 0;
    while (expert_cache_prepare(r->cache)) {
        expert_cache_check(r->cache);
        assert_true(++calls < 1000000);
        nanosleep(&(struct timespec){.tv_nsec = 10000}, NULL);
    }
    expert_cache_check(r->cache);
}

static unsigned populated(const struct cache_rig *r) { return r->fault.n_populated; }

/* Every expert of every layer, one layer behind the other. */
static void want_all(struct cache_rig *r)
{
    for (uint32_t i = 0; i < r->n_layers; i++) {
        uint32_t ids[RIG_EXPERTS];
        for (uint32_t e = 0; e < RIG_EXPERTS; e++) ids[e] = e;
        expert_step(r->cache, 1, true);
        if (expert_want(r->cache, r->layers[i], ids, RIG_EXPERTS, &r->err)) fail_msg("%s", r->err.message);
        rig_take_all(r, RIG_EXPERTS);
        expert_cache_check(r->cache);
    }
}

static void test_all_of_the_limit(void **state)
{
    for (uint32_t n_classes = 1; n_classes <= 3; n_classes += 2)
        for (uint32_t part = 0; part <= 8; part++) {
            struct cache_rig r;
            begin(&r, n_classes, true);
            const uint64_t floor = expert_cache_floor_bytes(r.catalog), full = expert_cache_full_bytes(r.catalog),
                           limit = floor + (full - floor) / 8 * part + (part < 8 ? 4096 * part : 0);
            uint32_t largest = 0;
            for (uint32_t i = 0; i < n_classes; i++)
                if (expert_catalog_class(r.catalog, i)->slot_bytes > largest)
                    largest = expert_catalog_class(r.catalog, i)->slot_bytes;
            assert_int_equal(rig_cache(&r, POLICY_LRU, limit), 0);
            assert_int_equal(rig_stats(&r).committed_bytes, floor);
            prepare(&r);
            const uint64_t there = rig_stats(&r).committed_bytes;
            assert_true(there <= limit && there + largest > (limit < full ? limit : full));
            assert_int_equal(rig_stats(&r).resident, 0);
            const unsigned n = populated(&r);
            assert_true((n > 0) == (there > floor));
            assert_false(expert_cache_prepare(r.cache));
            assert_int_equal(populated(&r), n);
            want_all(&r);
            if (part == 8) assert_int_equal(rig_stats(&r).resident, r.n_layers * RIG_EXPERTS);
            const uint64_t used = rig_stats(&r).committed_bytes;
            assert_true(used <= limit && used + largest > (limit < full ? limit : full));
            rig_end(&r);
        }
}

/* A frame that is taken while it is being touched is cut to its slots only then: until that what is left over counts,
 * and at the limit nobody loses an expert for it. */
static void test_taken_while_it_comes(void **state)
{
    struct cache_rig r;
    begin(&r, 3, true);
    r.fault.populate_ms = 2;
    assert_int_equal(rig_cache(&r, POLICY_LRU, expert_cache_full_bytes(r.catalog)), 0);
    for (int i = 0; i < 2; i++) {
        (void)expert_cache_prepare(r.cache);
        want_all(&r);
        assert_int_equal(rig_stats(&r).resident, r.n_layers * RIG_EXPERTS);
        assert_int_equal(rig_stats(&r).evictions, 0);
    }
    rig_end(&r);
}

/* What nobody has taken goes back first: no expert leaves for it. */
static void test_unused_memory_goes_first(void **state)
{
    struct cache_rig r;
    begin(&r, 3, true);
    const uint64_t floor = expert_cache_floor_bytes(r.catalog), full = expert_cache_full_bytes(r.catalog);
    assert_int_equal(rig_cache(&r, POLICY_LRU, full), 0);
    const uint32_t ids[] = {0, 1, 2, 3};
    expert_step(r.cache, 1, true);
    for (uint32_t i = 0; i < r.n_layers; i++) rig_step(&r, r.layers[i], ids, RIG_USED);
    const uint64_t resident = rig_stats(&r).resident, needed = rig_stats(&r).committed_bytes;
    prepare(&r);
    assert_true(rig_stats(&r).committed_bytes > needed);
    (void)expert_set_limit(r.cache, needed);
    expert_cache_check(r.cache);
    assert_int_equal(rig_stats(&r).resident, resident);
    assert_true(rig_stats(&r).committed_bytes <= needed);
    (void)expert_set_limit(r.cache, full);
    for (int i = 0; i < 50; i++) { /* also while it is being touched */
        assert_true(expert_cache_prepare(r.cache));
        assert_true(rig_stats(&r).committed_bytes > floor);
        (void)expert_set_limit(r.cache, floor);
        expert_cache_check(r.cache);
        (void)expert_set_limit(r.cache, full);
    }
    (void)expert_set_limit(r.cache, floor);
    expert_cache_check(r.cache);
    assert_int_equal(rig_stats(&r).committed_bytes, floor);
    want_all(&r);
    (void)expert_set_limit(r.cache, full);
    (void)expert_cache_prepare(r.cache);
    rig_end(&r); /* while it is being touched */
}

static uint64_t allowed;
static bool may_grow(void *user, uint64_t bytes) { return bytes <= allowed; }

static void test_whoever_watches_is_asked(void **state)
{
    struct cache_rig r;
    begin(&r, 1, true);
    const uint64_t floor = expert_cache_floor_bytes(r.catalog), full = expert_cache_full_bytes(r.catalog);
    r.may_grow = may_grow;
    allowed = floor + (full - floor) / 2;
    assert_int_equal(rig_cache(&r, POLICY_LRU, full), 0);
    prepare(&r);
    const uint64_t there = rig_stats(&r).committed_bytes;
    assert_true(there > floor && there <= allowed);
    allowed = full;
    prepare(&r);
    assert_true(rig_stats(&r).committed_bytes > there);
    rig_end(&r);
}

/* Without a thread nothing is brought in; a system that cannot touch memory, or has none, is used as it is. */
static void test_without(void **state)
{
    struct cache_rig r;
    begin(&r, 1, false);
    const uint64_t full = expert_cache_full_bytes(r.catalog);
    assert_int_equal(rig_cache(&r, POLICY_LRU, full), 0);
    const uint64_t before = rig_stats(&r).committed_bytes;
    assert_false(expert_cache_prepare(r.cache));
    assert_int_equal(rig_stats(&r).committed_bytes, before);
    rig_end(&r);

    begin(&r, 1, true);
    r.fault.populate_error = EINVAL;
    assert_int_equal(rig_cache(&r, POLICY_LRU, full), 0);
    prepare(&r);
    want_all(&r);
    assert_int_equal(rig_stats(&r).resident, r.n_layers * RIG_EXPERTS);
    rig_end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_of_the_limit),
        cmocka_unit_test(test_taken_while_it_comes),
        cmocka_unit_test(test_unused_memory_goes_first),
        cmocka_unit_test(test_whoever_watches_is_asked),
        cmocka_unit_test(test_without),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
