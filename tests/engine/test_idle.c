/* Idle time brings in the memory that the first prompts would wait for (scratch and KV cache where they are little),
 * and looks at how much memory there is; sluice_idle never fails. */
#include "engine/engine.h"
#include "fault_os.h"
#include "support.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

static struct fault_os fault;
static struct sluice_error err;

static sluice_engine *open_demo(uint32_t sessions)
{
    char model[SUPPORT_PATH_MAX];
    sluice_engine *e = NULL;
    support_source("models/demo.gguf", model);
    struct sluice_options o = support_options(model);
    o.ctx = 1024;
    o.sessions = sessions;
    fault_os_init(&fault);
    assert_int_equal(engine_open(&fault.calls, &o, &e, &err), SLUICE_OK);
    return e;
}

static size_t resident(const struct engine_block *b)
{
    static unsigned char there[1 << 16];
    const size_t page = os_page_bytes(), n = b->bytes / page;
    size_t found = 0;
    assert_true(n <= sizeof there);
    assert_int_equal(mincore(b->at, b->bytes, there), 0);
    for (size_t i = 0; i < n; i++) found += there[i] & 1;
    return found * page;
}

static void test_small_blocks(void **state)
{
    struct sluice_stats stats;
    sluice_engine *e = open_demo(2);
    assert_true(resident(&e->kv) < e->kv.bytes && resident(&e->scratch) < e->scratch.bytes);
    sluice_stats(e, &stats);
    assert_true(stats.slots_bytes > e->plan.slots_floor_bytes); /* some came in with the dense weights */
    assert_false(sluice_idle(e, 0));                            /* nothing but looking at the machine's memory */
    assert_int_equal(e->idle_touched_bytes, 0);
    unsigned calls = 0;
    while (sluice_idle(e, 1)) assert_true(++calls < 100000);
    assert_int_equal(e->idle_touched_bytes, e->scratch.bytes + e->kv.bytes);
    assert_int_equal(resident(&e->scratch), e->scratch.bytes);
    assert_int_equal(resident(&e->kv), e->kv.bytes);
    sluice_stats(e, &stats);
    assert_int_equal(stats.slots_bytes, expert_cache_full_bytes(e->catalog)); /* one size of experts, and all fit */
    const unsigned populated = fault.n_populated;
    assert_true(populated > 0);
    while (sluice_idle(e, 1)) continue;
    assert_int_equal(fault.n_populated, populated);
    sluice_engine_close(e);
    fault_os_destroy(&fault);
}

static void test_refused(void **state)
{
    sluice_engine *e = open_demo(1);
    sluice_session *s;
    float logits[4096];
    const int32_t ids[3] = {1, 2, 3};
    os_touch_wait(e->toucher);
    const unsigned populated = fault.n_populated;
    fault.populate_error = ENOMEM;
    while (sluice_idle(e, 1)) continue;
    const unsigned asked = fault.n_populated - populated;
    assert_true(asked > 0);
    while (sluice_idle(e, 1)) continue;
    assert_int_equal(fault.n_populated, populated + asked); /* not asked again and again */
    assert_int_equal(sluice_session_open(e, &s, &err), SLUICE_OK);
    assert_int_equal(sluice_eval(s, ids, 3, logits, NULL, NULL, &err), SLUICE_OK);
    sluice_session_close(s);
    sluice_engine_close(e);
    fault_os_destroy(&fault);
}

static void test_large_blocks(void **state)
{
    sluice_engine *e = open_demo(16);
    assert_true(e->kv.bytes + e->scratch.bytes > (uint64_t)64 << 20);
    const size_t before = resident(&e->kv);
    while (sluice_idle(e, 1)) continue;
    assert_int_equal(e->idle_touched_bytes, 0);
    assert_int_equal(resident(&e->kv), before);
    sluice_engine_close(e);
    fault_os_destroy(&fault);
}

/* A budget that the plan's rows do not use up: that others leave less than it hurts nobody, less than the rows does. */
static void test_roomy_budget(void **state)
{
    struct os_memory memory;
    struct sluice_stats stats;
    sluice_engine *e = open_demo(1);
    os_memory(&memory);
    fault.memory = &memory;
    const uint64_t rows = plan_rows_bytes(&e->plan), own = rows / 2;
    assert_true(rows + ((uint64_t)200 << 20) < e->plan.budget_bytes);
    memory.cgroup_limit_bytes = memory.cgroup_room_bytes = UINT64_MAX;
    memory.own_bytes = own;
    memory.available_bytes = rows + ((uint64_t)100 << 20) - own;
    fault_skip_time(&fault, 1000000000);
    (void)sluice_idle(e, 0);
    sluice_stats(e, &stats);
    assert_int_equal(stats.slots_limit_bytes, e->plan.slots_bytes);
    memory.available_bytes = 0;
    memory.own_bytes = 0;
    fault_skip_time(&fault, 1000000000);
    (void)sluice_idle(e, 0);
    sluice_stats(e, &stats);
    assert_true(stats.slots_limit_bytes < e->plan.slots_bytes);
    sluice_engine_close(e);
    fault_os_destroy(&fault);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_blocks),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_large_blocks),
        cmocka_unit_test(test_roomy_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
