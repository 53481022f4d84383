/* After it was created the cache allocates nothing: the allocator is wrapped by the linker and counts. */
#include "cache_rig.h"
#include "counting.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_no_allocation(void **state)
{
    (void)state;
    enum io_backend backends[3];
    unsigned n = rig_backends(backends);
    for (unsigned b = 0; b < n * POLICY_KINDS; b++) {
        struct cache_rig r;
        struct shape_random random = {b + 1};
        rig_init(&r, 3);
        rig_open(&r, backends[b % n], false, 0);
        uint64_t floor = expert_cache_floor_bytes(r.catalog);
        unsigned before = counting_calls;
        assert_int_equal(rig_cache(&r, (enum policy_kind)(b / n), 2 * floor), SLUICE_OK);
        assert_true(counting_calls > before); /* the counter counts */
        before = counting_calls;
        for (uint32_t i = 0; i < 300; i++) {
            uint32_t ids[RIG_EXPERTS], n_ids = i % 7 ? RIG_USED : RIG_EXPERTS, layer = r.layers[i % r.n_layers];
            rig_choose(&random, RIG_EXPERTS, ids, n_ids);
            for (uint32_t t = 0; t < n_ids; t += RIG_USED)
                expert_selected(r.cache, layer, ids + t, NULL, n_ids - t < RIG_USED ? n_ids - t : RIG_USED,
                                t / RIG_USED);
            assert_int_equal(expert_want(r.cache, layer, ids, n_ids, &r.err), SLUICE_OK);
            if (i % 11 == 10)
                expert_abort(r.cache);
            else
                rig_take_all(&r, n_ids);
            expert_tick(r.cache, 1);
            if (i % 50 == 49) expert_prompt(r.cache);
        }
        assert_int_equal(counting_calls, before);
        assert_true(rig_stats(&r).recarved > 0);
        rig_end(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_allocation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
