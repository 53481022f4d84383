/* What the cache does when the disk or the system fails: the error names what failed, nothing wrong is ever handed
 * out, memory that the kernel holds is left alone, and afterwards the cache works again. */
#include "cache_rig.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LEAKS_ARE_COUNTED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(LEAKS_ARE_COUNTED)
#include <sanitizer/lsan_interface.h>
static void leak_on_purpose(bool on)
{
    if (on)
        __lsan_disable();
    else
        __lsan_enable();
}
#else
static void leak_on_purpose(bool on) { (void)on; }
#endif

static void assert_says(const struct cache_rig *r, const char *text)
{
    if (!strstr(r->err.message, text)) fail_msg("'%s' does not say '%s'", r->err.message, text);
}

/* Opens a rig whose parts are read one piece each (but `down`, two); with one thread, or without threads, in order. */
static void begin(struct cache_rig *r, enum io_backend backend, unsigned threads, uint64_t extra,
                  uint32_t wait_limit_ms)
{
    rig_init(r, 1);
    r->threads = threads;
    rig_open(r, backend, false, wait_limit_ms);
    if (rig_cache(r, POLICY_HOTNESS, expert_cache_floor_bytes(r->catalog) + extra)) fail_msg("%s", r->err.message);
}

/* Takes the next expert and waits for all of it; which part fails first may be chance. */
static enum sluice_status take_and_finish(struct cache_rig *r, struct expert_view *view)
{
    enum sluice_status status = expert_take(r->cache, view, &r->err);
    if (!status) status = expert_finish(r->cache, view, &r->err);
    return status;
}

/* A read that takes longer is stuck. Long for a test, so that a busy machine does not make healthy reads look stuck. */
#define WAIT_LIMIT_MS 400

/* ---- failed reads ---- */

static void fail_one_part(enum io_backend backend, uint32_t part, enum sluice_status status, struct fault_rule rule)
{
    static const char *const names[3] = {"layer 3, expert 5, part 1 of 3 (gate)", "layer 3, expert 5, part 2 of 3 (up)",
                                         "layer 3, expert 5, part 3 of 3 (down)"};
    struct cache_rig r;
    struct expert_view view = {.layer = 0};
    uint32_t id = 5, others[3] = {1, 5, 9};
    begin(&r, backend, 1, 0, 0);
    rule.nth = part + 1; /* each part of the first layers is one read, or begins with one */
    fault_add(&r.fault, rule);
    assert_int_equal(expert_want(r.cache, 3, &id, 1, &r.err), SLUICE_OK);
    enum sluice_status got = expert_take(r.cache, &view, &r.err);
    if (part < 2) assert_int_equal(got, status);
    if (got == SLUICE_OK) {
        assert_int_equal(part, 2);
        assert_true(rig_view_is_right(&r, &view, 2));
        assert_int_equal(expert_finish(r.cache, &view, &r.err), status);
        assert_true(rig_view_is_right(&r, &view, 2)); /* still looked at: not reused before the abort */
        assert_int_equal(expert_finish(r.cache, &view, &r.err), status);
    }
    assert_int_equal(r.err.status, status);
    assert_says(&r, names[part]);
    assert_says(&r, r.file.path);
    assert_true(r.err.hint[0] != 0);
    expert_cache_check(r.cache);
    assert_false(expert_resident(r.cache, 3, 5));
    expert_abort(r.cache);
    while (io_outstanding(r.io)) expert_pump(r.cache);
    expert_cache_check(r.cache);
    assert_int_equal(rig_stats(&r).held_bytes, 0);
    fault_clear(&r.fault);
    rig_step(&r, 3, others, 3); /* the next token works */
    assert_true(expert_resident(r.cache, 3, 5));
    rig_end(&r);
}

static void test_error_in_each_part(void **state)
{
    (void)state;
    enum io_backend backends[3];
    unsigned n = rig_backends(backends);
    for (unsigned b = 0; b < n; b++)
        for (uint32_t part = 0; part < 3; part++)
            fail_one_part(backends[b], part, SLUICE_ERR_IO, (struct fault_rule){.kind = FAULT_ERROR, .error = EIO});
}

/* One of many fails: the others keep their slots, the error names the right one. */
static void test_error_among_many(void **state)
{
    (void)state;
    enum io_backend backends[3];
    unsigned n = rig_backends(backends);
    for (unsigned b = 0; b < n; b++)
        for (uint32_t nth = 1; nth < 60; nth += 7) {
            struct cache_rig r;
            uint32_t ids[RIG_EXPERTS];
            struct shape_random random = {nth};
            begin(&r, backends[b], 0, 0, 0);
            rig_choose(&random, RIG_EXPERTS, ids, RIG_EXPERTS);
            fault_add(&r.fault, (struct fault_rule){.kind = FAULT_ERROR, .error = EIO, .nth = nth});
            assert_int_equal(expert_want(r.cache, 2, ids, RIG_EXPERTS, &r.err), SLUICE_OK);
            enum sluice_status status = SLUICE_OK;
            for (uint32_t i = 0; i < RIG_EXPERTS && !status; i++) {
                struct expert_view view;
                status = expert_take(r.cache, &view, &r.err);
                if (!status) {
                    assert_true(rig_view_is_right(&r, &view, 2));
                    status = expert_finish(r.cache, &view, &r.err);
                }
                if (!status) {
                    assert_true(rig_view_is_right(&r, &view, 3));
                    expert_give(r.cache, &view);
                }
                expert_cache_check(r.cache);
            }
            assert_int_equal(status, SLUICE_ERR_IO);
            assert_says(&r, "layer 2, expert ");
            expert_abort(r.cache);
            expert_cache_check(r.cache);
            fault_clear(&r.fault);
            rig_step(&r, 2, ids, RIG_EXPERTS);
            rig_end(&r);
        }
}

static void test_short_reads(void **state)
{
    (void)state;
    enum io_backend backends[3];
    unsigned n = rig_backends(backends);
    for (unsigned b = 0; b < n; b++) {
        struct cache_rig r;
        uint32_t ids[3] = {0, 7, 15};
        begin(&r, backends[b], 0, 0, 0);
        fault_add(&r.fault, (struct fault_rule){.kind = FAULT_SHORT, .bytes = 512, .count = FAULT_ALWAYS});
        for (uint32_t l = 0; l < r.n_layers; l++) rig_step(&r, r.layers[l], ids, 3);
        rig_end(&r);
    }
}

static void test_truncated_file(void **state)
{
    (void)state;
    struct cache_rig r;
    uint32_t id = 15;
    struct expert_view view;
    begin(&r, IO_AUTO, 0, 0, 0);
    fault_add(&r.fault, (struct fault_rule){.kind = FAULT_CUT, .path = r.file.path, .bytes = 1000});
    assert_int_equal(expert_want(r.cache, 6, &id, 1, &r.err), SLUICE_OK);
    enum sluice_status status = take_and_finish(&r, &view);
    assert_int_equal(status, SLUICE_ERR_IO);
    assert_says(&r, "layer 6, expert 15");
    rig_end(&r); /* in the middle of a want */
}

/* One byte is missing at the very end of the last expert. */
static void test_last_byte_missing(void **state)
{
    (void)state;
    enum io_backend backends[3];
    unsigned n = rig_backends(backends);
    for (unsigned b = 0; b < n; b++)
        for (int cut = 0; cut < 2; cut++) {
            struct cache_rig r;
            uint32_t last = 0;
            begin(&r, backends[b], 0, 0, 0);
            for (uint32_t e = 0; e < RIG_EXPERTS; e++) {
                struct expert_extent x = expert_catalog_extent(r.catalog, 6, e, 2);
                if (x.offset + x.bytes == r.file.bytes) last = e;
            }
            struct expert_extent x = expert_catalog_extent(r.catalog, 6, last, 2);
            assert_int_equal(x.offset + x.bytes, r.file.bytes);
            if (cut) {
                struct expert_view view;
                fault_add(&r.fault, (struct fault_rule){
                                        .kind = FAULT_CUT, .path = r.file.path, .bytes = (size_t)r.file.bytes - 1});
                assert_int_equal(expert_want(r.cache, 6, &last, 1, &r.err), SLUICE_OK);
                enum sluice_status status = take_and_finish(&r, &view);
                assert_int_equal(status, SLUICE_ERR_IO);
                assert_says(&r, "part 3 of 3 (down)");
                expert_abort(r.cache);
            } else {
                rig_step(&r, 6, &last, 1); /* the direct read reaches past the end, and is good */
            }
            rig_end(&r);
        }
}

/* ---- reads that do not return ---- */

static unsigned hanging_backends(enum io_backend out[3])
{
    unsigned n = rig_backends(out), m = 0;
    for (unsigned i = 0; i < n; i++)
        if (out[i] != IO_SYNC) out[m++] = out[i]; /* with sync, the caller is what hangs */
    return m;
}

/* Gate and up can be used while down is still on its way. */
static void test_first_parts_first(void **state)
{
    (void)state;
    enum io_backend backends[3];
    unsigned n = hanging_backends(backends);
    for (unsigned b = 0; b < n; b++) {
        struct cache_rig r;
        uint32_t id = 4;
        struct expert_view view;
        begin(&r, backends[b], 1, 0, 0);
        fault_add(&r.fault, (struct fault_rule){.kind = FAULT_HANG, .nth = 3, .count = FAULT_ALWAYS});
        assert_int_equal(expert_want(r.cache, 0, &id, 1, &r.err), SLUICE_OK);
        fault_wait_hung(&r.fault, 1);
        assert_int_equal(expert_take(r.cache, &view, &r.err), SLUICE_OK);
        assert_true(rig_view_is_right(&r, &view, 2));
        assert_false(expert_resident(r.cache, 0, 4));
        expert_cache_check(r.cache);
        fault_release(&r.fault);
        assert_int_equal(expert_finish(r.cache, &view, &r.err), SLUICE_OK);
        assert_true(rig_view_is_right(&r, &view, 3));
        expert_give(r.cache, &view);
        expert_cache_check(r.cache);
        rig_end(&r);
    }
}

/* Who waits a little for a warm-up gets back while its read hangs: a line may have been typed meanwhile. */
static void test_warm_wait_ends(void **state)
{
    (void)state;
    enum io_backend backends[3];
    unsigned n = hanging_backends(backends);
    for (unsigned b = 0; b < n; b++) {
        struct cache_rig r;
        begin(&r, backends[b], 1, 0, 0);
        fault_add(&r.fault, (struct fault_rule){.kind = FAULT_HANG, .nth = 1, .count = FAULT_ALWAYS});
        assert_true(expert_warm(r.cache, expert_catalog_key(r.catalog, 0, 4)));
        fault_wait_hung(&r.fault, 1);
        assert_int_equal(expert_warm_wait(r.cache, 1000000), 1); /* not until it is stuck, which would leave none */
        assert_int_equal(expert_warm_wait(r.cache, 0), 1);
        expert_cache_check(r.cache);
        fault_release(&r.fault);
        assert_int_equal(expert_warm_wait(r.cache, UINT64_C(60000000000)), 0);
        assert_true(expert_resident(r.cache, 0, 4));
        expert_cache_check(r.cache);
        rig_end(&r);
    }
}

/* A want that is given up while reads are on their way: they finish into their slots and are not read again. */
static void test_abort_while_reading(void **state)
{
    (void)state;
    enum io_backend backends[3];
    unsigned n = hanging_backends(backends);
    for (unsigned b = 0; b < n; b++) {
        struct cache_rig r;
        uint32_t ids[3] = {4, 5, 6};
        begin(&r, backends[b], 0, 0, 0);
        fault_add(&r.fault, (struct fault_rule){.kind = FAULT_HANG, .count = FAULT_ALWAYS});
        assert_int_equal(expert_want(r.cache, 0, ids, 3, &r.err), SLUICE_OK);
        expert_abort(r.cache);
        expert_cache_check(r.cache);
        uint64_t read = rig_stats(&r).read_bytes;
        assert_int_equal(expert_want(r.cache, 0, ids, 3, &r.err), SLUICE_OK); /* joins them */
        expert_cache_check(r.cache);
        fault_release(&r.fault);
        rig_take_all(&r, 3);
        assert_int_equal(rig_stats(&r).read_bytes, read);
        rig_step(&r, 0, ids, 3);
        assert_int_equal(rig_stats(&r).hits, 3);
        rig_end(&r);
    }
}

static void wait_released(struct cache_rig *r)
{
    fault_release(&r->fault);
    while (io_outstanding(r->io) || rig_stats(r).quarantined) expert_pump(r->cache);
    expert_cache_check(r->cache);
}

static void test_stuck_then_released(void **state)
{
    (void)state;
    enum io_backend backends[3];
    unsigned n = hanging_backends(backends);
    for (unsigned b = 0; b < n; b++)
        for (unsigned part = 0; part < 3; part++) {
            struct cache_rig r;
            uint32_t id = 4, ids[3] = {4, 5, 6};
            struct expert_view view;
            begin(&r, backends[b], 0, 1 << 20, WAIT_LIMIT_MS);
            fault_add(&r.fault, (struct fault_rule){.kind = FAULT_HANG, .nth = part + 1});
            assert_int_equal(expert_want(r.cache, 0, &id, 1, &r.err), SLUICE_OK);
            enum sluice_status status = take_and_finish(&r, &view);
            assert_int_equal(status, SLUICE_ERR_TIMEOUT);
            assert_says(&r, "layer 0, expert 4, part ");
            expert_cache_check(r.cache);
            expert_abort(r.cache);
            expert_cache_check(r.cache);
            assert_int_equal(rig_stats(&r).quarantined, 1);
            rig_step(&r, 0, ids, 3); /* the same expert, into another slot */
            rig_step(&r, 2, ids, 3);
            assert_int_equal(rig_stats(&r).quarantined, 1);
            wait_released(&r);
            rig_step(&r, 0, ids, 3);
            rig_end(&r);
        }
}

/* More slots are stuck than the floor can spare. */
static void test_quarantine_below_the_floor(void **state)
{
    (void)state;
    enum io_backend backends[3];
    unsigned n = hanging_backends(backends);
    for (unsigned b = 0; b < n; b++) {
        struct cache_rig r;
        uint32_t ids[3] = {4, 5, 6}, other[1] = {9};
        struct expert_view view;
        begin(&r, backends[b], 0, 0, WAIT_LIMIT_MS);
        fault_add(&r.fault, (struct fault_rule){.kind = FAULT_HANG, .nth = 1, .count = 9});
        assert_int_equal(expert_want(r.cache, 0, ids, 3, &r.err), SLUICE_OK);
        assert_int_equal(take_and_finish(&r, &view), SLUICE_ERR_TIMEOUT);
        expert_abort(r.cache);
        /* Each want sees at least the stuck slots that are known by now; in the end none is left to work with. */
        enum sluice_status status = SLUICE_OK;
        for (int i = 0; i < 100 && status != SLUICE_ERR_IO; i++) {
            status = expert_want(r.cache, 2, other, 1, &r.err);
            if (!status) status = expert_take(r.cache, &view, &r.err);
            expert_cache_check(r.cache);
            expert_abort(r.cache);
        }
        assert_int_equal(status, SLUICE_ERR_IO);
        assert_says(&r, "of 4 expert slots of this size are left, at least 4 are needed");
        assert_says(&r, r.file.path);
        expert_cache_check(r.cache);
        fault_clear(&r.fault);
        wait_released(&r);
        rig_step(&r, 0, ids, 3);
        rig_end(&r);
    }
}

/* With three classes, the class that lost slots takes memory of the others. */
static void test_quarantine_takes_from_other_classes(void **state)
{
    (void)state;
    enum io_backend backends[3];
    if (hanging_backends(backends) == 0) skip();
    struct cache_rig r;
    struct shape_random random = {3};
    uint32_t ids[RIG_EXPERTS], id = 2;
    struct expert_view view;
    rig_init(&r, 3);
    rig_open(&r, backends[0], false, WAIT_LIMIT_MS);
    uint64_t extra = 10 * (uint64_t)expert_catalog_class(r.catalog, 0)->slot_bytes;
    assert_int_equal(rig_cache(&r, POLICY_LRU, expert_cache_floor_bytes(r.catalog) + extra), SLUICE_OK);
    rig_choose(&random, RIG_EXPERTS, ids, RIG_EXPERTS);
    rig_step(&r, 0, ids, RIG_EXPERTS);
    rig_step(&r, 3, ids, RIG_EXPERTS); /* layers 0, 3, 6 are of one class: all that is not floor is its */
    expert_tick(r.cache, 1);
    assert_int_equal(expert_catalog_class_of(r.catalog, 2), expert_catalog_class_of(r.catalog, 5));
    fault_add(&r.fault, (struct fault_rule){.kind = FAULT_HANG, .nth = 1});
    assert_int_equal(expert_want(r.cache, 2, &id, 1, &r.err), SLUICE_OK);
    enum sluice_status status = take_and_finish(&r, &view);
    assert_int_equal(status, SLUICE_ERR_TIMEOUT);
    expert_abort(r.cache);
    uint64_t recarved = rig_stats(&r).recarved;
    rig_step(&r, 2, ids, RIG_USED);
    assert_true(rig_stats(&r).recarved > recarved);
    wait_released(&r);
    rig_end(&r);
}

/* A chunk in which something is still being read does not change class. */
static void test_reading_chunk_stays(void **state)
{
    (void)state;
    enum io_backend backends[3];
    if (hanging_backends(backends) == 0) skip();
    struct cache_rig r;
    struct shape_random random = {4};
    uint32_t small = 4, ids[RIG_EXPERTS]; /* layer 4 is of the class of the smallest slots: two fit a frame */
    rig_init(&r, 3);
    rig_open(&r, backends[0], false, 0);
    for (uint32_t i = 0; i < 3; i++)
        assert_true(expert_catalog_class(r.catalog, i)->slot_bytes >=
                    expert_catalog_class(r.catalog, expert_catalog_class_of(r.catalog, small))->slot_bytes);
    assert_int_equal(rig_cache(&r, POLICY_LRU, expert_cache_floor_bytes(r.catalog) + 100000), SLUICE_OK);
    rig_choose(&random, RIG_EXPERTS, ids, RIG_EXPERTS);
    rig_step(&r, small, ids, 13);
    expert_tick(r.cache, 1);
    fault_add(&r.fault, (struct fault_rule){.kind = FAULT_HANG, .count = 3});
    assert_int_equal(expert_want(r.cache, small, ids + 13, 1, &r.err), SLUICE_OK);
    fault_wait_hung(&r.fault, 3); /* or a later read could be the one that hangs */
    expert_abort(r.cache);
    uint64_t recarved = rig_stats(&r).recarved;
    for (int i = 0; i < 100; i++) {
        uint32_t some[RIG_USED];
        rig_choose(&random, RIG_EXPERTS, some, RIG_USED);
        rig_step(&r, r.layers[0], some, RIG_USED);
        rig_step(&r, 5, some, RIG_USED);
        expert_tick(r.cache, 1);
    }
    assert_true(rig_stats(&r).recarved > recarved);
    assert_false(expert_resident(r.cache, small, ids[13]));
    fault_release(&r.fault);
    while (io_outstanding(r.io)) expert_pump(r.cache);
    assert_true(expert_resident(r.cache, small, ids[13]));
    uint64_t hits = rig_stats(&r).hits;
    rig_step(&r, small, ids + 13, 1);
    assert_int_equal(rig_stats(&r).hits, hits + 1);
    rig_end(&r);
}

/* A cache that is closed with a read still stuck leaves that memory alone. */
static void test_destroy_with_a_stuck_read(void **state)
{
    (void)state;
    enum io_backend backends[3];
    unsigned n = hanging_backends(backends);
    for (unsigned b = 0; b < n; b++) {
        struct cache_rig r;
        uint32_t id = 4;
        struct expert_view view;
        leak_on_purpose(true); /* it is left behind on purpose */
        begin(&r, backends[b], 0, 0, WAIT_LIMIT_MS);
        leak_on_purpose(false);
        fault_add(&r.fault, (struct fault_rule){.kind = FAULT_HANG, .nth = 1});
        assert_int_equal(expert_want(r.cache, 0, &id, 1, &r.err), SLUICE_OK);
        assert_int_equal(take_and_finish(&r, &view), SLUICE_ERR_TIMEOUT);
        expert_cache_destroy(r.cache);
        r.cache = NULL;
        assert_true(rig_logged(&r, "1 reads have not returned"));
        fault_release(&r.fault); /* writes into memory that is still there */
        struct io_done done;
        while (io_outstanding(r.io)) io_poll(r.io, &done, 1, true);
        rig_end(&r);
    }
}

/* ---- memory that the system refuses ---- */

static void test_commit_refused(void **state)
{
    (void)state;
    for (uint32_t n_classes = 1; n_classes <= 3; n_classes += 2) {
        struct cache_rig r;
        struct shape_random random = {3};
        rig_init(&r, n_classes);
        rig_open(&r, IO_AUTO, false, 0);
        uint64_t floor = expert_cache_floor_bytes(r.catalog), full = expert_cache_full_bytes(r.catalog);
        r.fault.commit_error = ENOMEM;
        assert_int_equal(rig_cache(&r, POLICY_LRU, full), SLUICE_ERR_MEMORY);
        char number[32];
        snprintf(number, sizeof number, "%llu", (unsigned long long)floor);
        assert_says(&r, number);
        r.fault.commit_error = 0;
        r.fault.n_commits = 0;
        assert_int_equal(rig_cache(&r, POLICY_LRU, floor), SLUICE_OK);
        unsigned floor_commits = r.fault.n_commits;
        expert_cache_destroy(r.cache);
        r.cache = NULL;

        for (unsigned more = 0; more < 6; more++) {
            r.n_lines = 0;
            r.fault.n_commits = 0;
            r.fault.commits_good = floor_commits + more;
            r.fault.commit_error = ENOMEM;
            assert_int_equal(rig_cache(&r, POLICY_LRU, full), SLUICE_OK);
            for (uint32_t i = 0; i < 60; i++) {
                uint32_t ids[RIG_USED];
                rig_choose(&random, RIG_EXPERTS, ids, RIG_USED);
                rig_step(&r, r.layers[i % r.n_layers], ids, RIG_USED);
                expert_tick(r.cache, 1);
            }
            struct expert_stats s = rig_stats(&r);
            assert_true(s.committed_bytes >= floor && s.committed_bytes < full);
            assert_int_equal(r.n_lines, 1);                                                    /* said, and once */
            if (n_classes == 1) assert_int_equal(r.fault.n_commits, floor_commits + more + 1); /* asked once */
            assert_true(rig_logged(&r, "the system refused"));
            expert_cache_destroy(r.cache);
            r.cache = NULL;
        }
        r.fault.commit_error = 0;
        r.fault.reserve_error = ENOMEM;
        assert_int_equal(rig_cache(&r, POLICY_LRU, full), SLUICE_ERR_MEMORY);
        assert_says(&r, "no address space");
        rig_end(&r);
    }
}

static int decommit_refused(void *user, void *at, size_t bytes)
{
    (void)user, (void)at, (void)bytes;
    return -ENOMEM;
}

/* Memory that the system does not take back stays counted, and is used again. */
static void test_decommit_refused(void **state)
{
    (void)state;
    struct cache_rig r;
    struct shape_random random = {3};
    rig_init(&r, 3);
    rig_open(&r, IO_AUTO, false, 0);
    r.fault.calls.decommit = decommit_refused;
    uint64_t budget = 2 * expert_cache_floor_bytes(r.catalog) + 777;
    assert_int_equal(rig_cache(&r, POLICY_LRU, budget), SLUICE_OK);
    for (uint32_t i = 0; i < 600; i++) {
        uint32_t ids[RIG_USED];
        rig_choose(&random, RIG_EXPERTS, ids, RIG_USED);
        rig_step(&r, r.layers[i / 100], ids, RIG_USED);
        expert_tick(r.cache, 1);
        assert_true(rig_stats(&r).committed_bytes <= budget);
    }
    assert_true(rig_stats(&r).recarved > 0);
    rig_end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_error_in_each_part),
        cmocka_unit_test(test_error_among_many),
        cmocka_unit_test(test_short_reads),
        cmocka_unit_test(test_truncated_file),
        cmocka_unit_test(test_first_parts_first),
        cmocka_unit_test(test_warm_wait_ends),
        cmocka_unit_test(test_abort_while_reading),
        cmocka_unit_test(test_stuck_then_released),
        cmocka_unit_test(test_quarantine_below_the_floor),
        cmocka_unit_test(test_quarantine_takes_from_other_classes),
        cmocka_unit_test(test_reading_chunk_stays),
        cmocka_unit_test(test_destroy_with_a_stuck_read),
        cmocka_unit_test(test_last_byte_missing),
        cmocka_unit_test(test_commit_refused),
        cmocka_unit_test(test_decommit_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
