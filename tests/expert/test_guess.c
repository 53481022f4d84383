/* What is known beforehand: guesses, warm-up, pins, the protection of decode's experts, and a limit that moves. Under
 * random operations all invariants hold and every byte is right; then each rule alone. */
#include "cache_rig.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Slots for `n` experts of a model with one class. */
static uint64_t slots(const struct cache_rig *r, uint32_t n)
{
    return (uint64_t)n * expert_catalog_class(r->catalog, 0)->slot_bytes;
}

static void begin(struct cache_rig *r, enum policy_kind policy, uint32_t n_slots)
{
    rig_init(r, 1);
    rig_open(r, IO_AUTO, false, 0);
    if (rig_cache(r, policy, slots(r, n_slots))) fail_msg("%s", r->err.message);
}

static void settle(struct cache_rig *r)
{
    expert_pump(r->cache);
    while (io_outstanding(r->io)) expert_pump(r->cache);
}

static void step(struct cache_rig *r, bool decode, uint32_t n_tokens, uint32_t layer, const uint32_t *ids, uint32_t n)
{
    expert_step(r->cache, n_tokens, decode);
    rig_step(r, layer, ids, n);
    expert_tick(r->cache, n_tokens);
    expert_cache_check(r->cache);
}

/* ---- random operations ---- */

static void random_foresight(struct cache_rig *r, struct shape_random *random)
{
    uint32_t layer = r->layers[shape_below(random, r->n_layers)], ids[RIG_EXPERTS], n = 1 + shape_below(random, 6);
    rig_choose(random, RIG_EXPERTS, ids, n);
    switch (shape_below(random, 5)) {
    case 0:
    case 1:
        expert_guess(r->cache, (enum expert_source)shape_below(random, EXPERT_WARM), shape_below(random, 2), layer, ids,
                     n);
        break;
    case 2: expert_warm(r->cache, expert_catalog_key(r->catalog, layer, ids[0])); break;
    case 3:
        for (uint32_t i = 0; i < n; i++) ids[i] = expert_catalog_key(r->catalog, layer, ids[i]);
        expert_pin(r->cache, ids, n);
        break;
    default: expert_pump(r->cache); break;
    }
    expert_cache_check(r->cache);
}

static void random_step(struct cache_rig *r, struct shape_random *random, uint64_t floor, uint64_t most, bool faults)
{
    const bool decode = shape_below(random, 3) != 0;
    expert_step(r->cache, decode ? 1 : 1 + shape_below(random, 64), decode);
    for (uint32_t i = 0; i < r->n_layers; i++) {
        uint32_t ids[RIG_EXPERTS], n = decode ? RIG_USED : 1 + shape_below(random, RIG_EXPERTS);
        rig_choose(random, RIG_EXPERTS, ids, n);
        random_foresight(r, random);
        expert_selected(r->cache, r->layers[i], ids, NULL, decode ? n : 1, 0);
        enum sluice_status st = expert_want(r->cache, r->layers[i], ids, n, &r->err);
        for (uint32_t k = 0; k < n && !st; k++) {
            struct expert_view v;
            if (shape_below(random, 4) == 0) random_foresight(r, random);
            if ((st = expert_take(r->cache, &v, &r->err))) break;
            if ((st = expert_finish(r->cache, &v, &r->err))) break;
            assert_true(rig_view_is_right(r, &v, 3));
            expert_cache_check(r->cache);
            expert_give(r->cache, &v);
        }
        if (st && !faults) fail_msg("%s", r->err.message);
        if (st) expert_abort(r->cache);
        expert_cache_check(r->cache);
    }
    expert_tick(r->cache, 1);
    if (shape_below(random, 6) == 0) {
        uint64_t limit = floor + (most > floor ? shape_below(random, (uint32_t)(most - floor)) : 0);
        expert_set_limit(r->cache, limit);
        expert_cache_check(r->cache);
        assert_true(rig_stats(r).committed_bytes <= rig_stats(r).limit_bytes);
    }
    if (shape_below(random, 12) == 0) expert_guesses_drop(r->cache);
    if (shape_below(random, 3) == 0) expert_cache_prepare(r->cache);
    if (shape_below(random, 12) == 0) expert_warm_wait(r->cache, 1000000);
    expert_cache_check(r->cache);
}

static void test_random_operations(void **state)
{
    (void)state;
    enum io_backend backends[3];
    unsigned n_backends = rig_backends(backends);
    for (uint32_t n_classes = 1; n_classes <= 3; n_classes += 2)
        for (unsigned b = 0; b < n_backends; b++)
            for (int budget = 0; budget < 4; budget++)
                for (int faults = 0; faults < 2; faults++) {
                    struct cache_rig r;
                    rig_init(&r, n_classes);
                    rig_open(&r, backends[b], budget == 2, 0);
                    const uint64_t floor = expert_cache_floor_bytes(r.catalog),
                                   full = expert_cache_full_bytes(r.catalog);
                    const uint64_t most = budget == 0   ? floor
                                          : budget == 1 ? floor + full / 5
                                          : budget == 2 ? full / 2 + floor / 2
                                                        : full;
                    if (budget % 2 == 0) assert_int_equal(os_toucher_create(&r.fault.calls, &r.toucher), 0);
                    r.small_pages = (budget + (int)b) % 2 == 0;
                    if (faults && budget == 2) r.fault.populate_error = EINVAL;
                    if (faults) fault_add(&r.fault, (struct fault_rule){.kind = FAULT_ERROR, .nth = 40, .error = EIO});
                    if (faults) fault_add(&r.fault, (struct fault_rule){.kind = FAULT_SHORT, .nth = 60, .bytes = 512});
                    assert_int_equal(rig_cache(&r, (enum policy_kind)((budget + (int)b) % POLICY_KINDS), most), 0);
                    struct shape_random random = {77 + 10 * b + (uint64_t)budget};
                    for (int i = 0; i < 40; i++) random_step(&r, &random, floor, most, faults);
                    settle(&r);
                    expert_cache_check(r.cache);
                    struct expert_stats s = rig_stats(&r);
                    uint64_t reads = 0;
                    for (int i = 0; i < EXPERT_SOURCES; i++) {
                        const struct expert_source_stats *x = &s.sources[i];
                        assert_true(x->came_true <= x->named && x->useful + x->late <= x->reads);
                        if (i != EXPERT_WARM) assert_true(x->useful + x->late + x->wasted <= x->reads);
                        reads += x->reads;
                    }
                    if (budget == 3) assert_true(reads > 0);
                    rig_end(&r);
                }
}

/* ---- guesses ---- */

static void test_a_guess_comes_true(void **state)
{
    (void)state;
    struct cache_rig r;
    begin(&r, POLICY_LRU, 40);
    const uint32_t first[] = {0, 1, 2}, named[] = {3, 4, 5, 6}, chosen[] = {4, 6, 9};
    expert_step(r.cache, 1, true);
    rig_step(&r, r.layers[0], first, 3);
    expert_guess(r.cache, EXPERT_LOOKAHEAD, false, r.layers[1], named, 4);
    settle(&r);
    assert_true(expert_resident(r.cache, r.layers[1], 4));
    uint64_t read_before = rig_stats(&r).read_bytes;
    rig_step(&r, r.layers[1], chosen, 3);
    struct expert_stats s = rig_stats(&r);
    const struct expert_source_stats *x = &s.sources[EXPERT_LOOKAHEAD];
    const uint64_t one = expert_catalog_class(r.catalog, 0)->expert_bytes;
    assert_int_equal(s.read_bytes - read_before, one); /* only what was not guessed */
    assert_int_equal(x->named, 4);
    assert_int_equal(x->came_true, 2);
    assert_int_equal(x->chosen, 3);
    assert_int_equal(x->reads, 4);
    assert_int_equal(x->useful, 2);
    assert_int_equal(x->useful_bytes, 2 * one);
    assert_int_equal(x->late, 0);
    assert_int_equal(s.hits, 2);
    rig_end(&r);
}

/* While a demanded read hangs, no guess begins; once it is done, they do. */
static void test_guesses_wait_for_demand(void **state)
{
    (void)state;
    struct cache_rig r;
    rig_init(&r, 1);
    r.threads = 4;
    rig_open(&r, IO_THREADS, false, 0);
    assert_int_equal(rig_cache(&r, POLICY_LRU, slots(&r, 60)), 0);
    const uint32_t one = 0, named[] = {3, 4};
    fault_add(&r.fault, (struct fault_rule){.kind = FAULT_HANG, .count = 3}); /* the parts of one expert */
    expert_step(r.cache, 1, true);
    assert_int_equal(expert_want(r.cache, r.layers[0], &one, 1, &r.err), 0);
    fault_wait_hung(&r.fault, 3);
    expert_guess(r.cache, EXPERT_LOOKAHEAD, false, r.layers[1], named, 2);
    for (int i = 0; i < 20; i++) expert_pump(r.cache);
    assert_int_equal(rig_stats(&r).sources[EXPERT_LOOKAHEAD].reads, 0);
    fault_release(&r.fault);
    rig_take_all(&r, 1);
    settle(&r);
    assert_int_equal(rig_stats(&r).sources[EXPERT_LOOKAHEAD].reads, 2);
    assert_true(expert_resident(r.cache, r.layers[1], 3));
    rig_end(&r);
}

static void test_a_guess_that_is_late(void **state)
{
    (void)state;
    struct cache_rig r;
    rig_init(&r, 1);
    r.threads = 4;
    rig_open(&r, IO_THREADS, false, 0);
    assert_int_equal(rig_cache(&r, POLICY_LRU, slots(&r, 60)), 0);
    const uint32_t id = 7, wrong = 8;
    fault_add(&r.fault, (struct fault_rule){.kind = FAULT_HANG, .count = 6});
    expert_step(r.cache, 1, true);
    expert_guess(r.cache, EXPERT_NEXT, false, r.layers[0], &id, 1);
    expert_guess(r.cache, EXPERT_NEXT, false, r.layers[2], &wrong,
                 1); /* for the same step: its layer is still to come */
    assert_int_equal(expert_want(r.cache, r.layers[0], &id, 1, &r.err), 0);
    fault_release(&r.fault);
    rig_take_all(&r, 1);
    struct expert_stats s = rig_stats(&r);
    assert_int_equal(s.sources[EXPERT_NEXT].late, 1);
    assert_int_equal(s.sources[EXPERT_NEXT].useful, 0);
    assert_int_equal(s.misses, 1);
    assert_int_equal(s.read_bytes, 2 * expert_catalog_class(r.catalog, 0)->expert_bytes); /* not read again */
    settle(&r);
    expert_cache_check(r.cache);
    rig_end(&r);
}

/* Guesses have their own few slots: whatever is guessed, what demand brought stays. */
static void test_guesses_push_out_guesses(void **state)
{
    (void)state;
    struct cache_rig r;
    begin(&r, POLICY_LRU, 40); /* of 96 experts */
    for (uint32_t i = 0; i < r.n_layers; i++) {
        const uint32_t a[] = {0, 1, 2}, b[] = {3, 4, 5};
        step(&r, true, 1, r.layers[i], a, 3);
        step(&r, true, 1, r.layers[i], b, 3);
    } /* 36 residents */
    for (uint32_t e = 6; e < RIG_EXPERTS; e++) {
        expert_step(r.cache, 1, true);
        expert_guess(r.cache, EXPERT_NEXT, false, r.layers[e % r.n_layers], &e, 1);
        settle(&r);
        expert_cache_check(r.cache);
    }
    uint32_t n_demanded = 0, n_guesses = 0;
    for (uint32_t i = 0; i < r.n_layers; i++)
        for (uint32_t e = 0; e < RIG_EXPERTS; e++) {
            if (!expert_resident(r.cache, r.layers[i], e)) continue;
            n_demanded += e < 6;
            n_guesses += e >= 6;
        }
    assert_int_equal(n_guesses, 5); /* 40 slots / 8 */
    assert_int_equal(n_demanded, 35);
    assert_int_equal(rig_stats(&r).sources[EXPERT_NEXT].wasted, 10 - 5);
    rig_end(&r);
}

/* With the smallest cache there is no room for a guess, and a want never fails for one. */
static void test_no_guess_at_the_floor(void **state)
{
    (void)state;
    struct cache_rig r;
    rig_init(&r, 1);
    rig_open(&r, IO_AUTO, false, 0);
    assert_int_equal(rig_cache(&r, POLICY_LRU, expert_cache_floor_bytes(r.catalog)), 0);
    for (uint32_t i = 0; i < 30; i++) {
        const uint32_t ids[] = {i % 16, (i + 5) % 16, (i + 9) % 16}, next[] = {(i + 1) % 16, (i + 2) % 16};
        expert_step(r.cache, 1, true);
        expert_guess(r.cache, EXPERT_LOOKAHEAD, false, r.layers[1], next, 2);
        rig_step(&r, r.layers[0], ids, 3);
        rig_step(&r, r.layers[1], ids, 3);
        expert_tick(r.cache, 1);
        expert_cache_check(r.cache);
    }
    assert_int_equal(rig_stats(&r).sources[EXPERT_LOOKAHEAD].reads, 0);
    assert_true(rig_stats(&r).sources[EXPERT_LOOKAHEAD].named > 0);
    rig_end(&r);
}

/* ---- warm-up and pins ---- */

static void test_warm(void **state)
{
    (void)state;
    struct cache_rig r;
    begin(&r, POLICY_LRU, 8);
    uint32_t n = 0;
    for (uint32_t k = 0; k < 20; k++) n += expert_warm(r.cache, k);
    assert_int_equal(n, 8); /* never by eviction */
    assert_int_equal(expert_warm_wait(r.cache, UINT64_C(10000000000)), 0);
    assert_int_equal(rig_stats(&r).resident, 8);
    const uint32_t ids[] = {0, 1, 2};
    step(&r, true, 1, r.layers[0], ids, 3);
    struct expert_stats s = rig_stats(&r);
    assert_int_equal(s.hits, 3);
    assert_int_equal(s.sources[EXPERT_WARM].reads, 8);
    assert_int_equal(s.sources[EXPERT_WARM].useful, 3);
    assert_int_equal(s.sources[EXPERT_WARM].wasted, 5);
    assert_int_equal(s.sources[EXPERT_WARM].named, 8);
    assert_int_equal(s.sources[EXPERT_WARM].came_true + s.sources[EXPERT_WARM].chosen, 0); /* it has none */
    rig_end(&r);
}

static void flood(struct cache_rig *r, bool decode, uint32_t n_tokens)
{
    for (uint32_t i = 0; i < r->n_layers; i++) {
        uint32_t ids[RIG_EXPERTS];
        for (uint32_t e = 0; e < RIG_EXPERTS; e++) ids[e] = e;
        step(r, decode, n_tokens, r->layers[i], ids, RIG_EXPERTS);
    }
}

static void test_pins_stay(void **state)
{
    (void)state;
    struct cache_rig r;
    begin(&r, POLICY_LRU, 12);
    uint32_t pins[] = {expert_catalog_key(r.catalog, r.layers[0], 3), expert_catalog_key(r.catalog, r.layers[0], 4)};
    expert_pin(r.cache, pins, 2);
    flood(&r, true, 1);
    assert_true(expert_resident(r.cache, r.layers[0], 3) && expert_resident(r.cache, r.layers[0], 4));
    assert_false(expert_resident(r.cache, r.layers[0], 5));
    assert_int_equal(rig_stats(&r).pinned, 2);
    expert_pin(r.cache, NULL, 0);
    flood(&r, true, 1);
    assert_false(expert_resident(r.cache, r.layers[0], 3) || expert_resident(r.cache, r.layers[0], 4));
    /* More than there is room for: the floor stays open, and everything goes on. */
    uint32_t all[RIG_LAYERS * RIG_EXPERTS], n = expert_catalog_n_experts(r.catalog);
    for (uint32_t k = 0; k < n; k++) all[k] = k;
    expert_pin(r.cache, all, n);
    flood(&r, true, 1);
    assert_int_equal(rig_stats(&r).pinned, 12);
    rig_end(&r);
}

/* ---- protection ---- */

static uint32_t decode_experts_left(bool decode_first)
{
    struct cache_rig r;
    begin(&r, POLICY_LRU, 40);
    uint32_t n = 0;
    for (uint32_t i = 0; i < r.n_layers; i++) {
        const uint32_t ids[] = {0, 1, 2};
        step(&r, decode_first, 1, r.layers[i], ids, 3);
    }
    flood(&r, false, 64);
    for (uint32_t i = 0; i < r.n_layers; i++)
        for (uint32_t e = 0; e < 3; e++) n += expert_resident(r.cache, r.layers[i], e);
    if (decode_first) assert_int_equal(rig_stats(&r).kept_decode, 18);
    /* The next decode step ends it: then everything may leave again. */
    flood(&r, true, 1);
    if (decode_first)
        for (uint32_t e = 0; e < 3; e++) assert_false(expert_resident(r.cache, r.layers[0], e));
    rig_end(&r);
    return n;
}

static void test_a_prefill_does_not_flush_decode(void **state)
{
    (void)state;
    assert_int_equal(decode_experts_left(true), 18);
    assert_true(decode_experts_left(false) < 9); /* the same experts, brought by no decode step */
}

/* ---- the limit ---- */

static void test_the_coldest_leave(void **state)
{
    (void)state;
    struct cache_rig r;
    begin(&r, POLICY_LRU, 60);
    for (uint32_t i = 0; i < 60; i++) {
        uint32_t id = i % 10;
        step(&r, true, 1, r.layers[i / 10], &id, 1);
    }
    assert_int_equal(rig_stats(&r).resident, 60);
    unsigned before = r.fault.n_decommits;
    uint64_t returned = expert_set_limit(r.cache, slots(&r, 33));
    expert_cache_check(r.cache);
    struct expert_stats s = rig_stats(&r);
    assert_true(r.fault.n_decommits > before);
    assert_true(s.committed_bytes <= slots(&r, 33));
    assert_int_equal(returned, slots(&r, 60) - s.committed_bytes);
    for (uint32_t i = 0; i < 60; i++)
        assert_int_equal(expert_resident(r.cache, r.layers[i / 10], i % 10), i >= 60 - s.resident);
    /* What was moved is what it was. */
    for (uint32_t i = 60 - s.resident; i < 60; i++) {
        uint32_t id = i % 10;
        uint64_t misses = rig_stats(&r).misses;
        rig_step(&r, r.layers[i / 10], &id, 1);
        assert_int_equal(rig_stats(&r).misses, misses);
    }
    /* No more than the limit is used, then it grows back. */
    flood(&r, true, 1);
    assert_true(rig_stats(&r).committed_bytes <= slots(&r, 33));
    expert_set_limit(r.cache, UINT64_MAX);
    flood(&r, true, 1);
    assert_int_equal(rig_stats(&r).resident, 60);
    /* To the floor and below: what is needed stays. */
    expert_set_limit(r.cache, 0);
    expert_cache_check(r.cache);
    assert_true(rig_stats(&r).committed_bytes >= expert_cache_floor_bytes(r.catalog));
    assert_true(rig_stats(&r).committed_bytes <= 2 * expert_cache_floor_bytes(r.catalog));
    flood(&r, true, 1);
    rig_end(&r);
}

static void test_pins_give_way_to_the_limit(void **state)
{
    (void)state;
    struct cache_rig r;
    begin(&r, POLICY_LRU, 40);
    uint32_t all[RIG_LAYERS * RIG_EXPERTS], n = expert_catalog_n_experts(r.catalog);
    for (uint32_t k = 0; k < n; k++) all[k] = k;
    expert_pin(r.cache, all, n);
    flood(&r, true, 1);
    assert_true(rig_stats(&r).pinned > 30);
    expert_set_limit(r.cache, slots(&r, 10));
    expert_cache_check(r.cache);
    assert_true(rig_stats(&r).committed_bytes <= slots(&r, 10));
    assert_int_equal(rig_stats(&r).pinned, 0);
    assert_true(rig_logged(&r, "pinned experts may leave"));
    flood(&r, true, 1);
    rig_end(&r);
}

/* ---- reads that do not return ---- */

#define WAIT_LIMIT_MS 50

static void begin_hanging(struct cache_rig *r, uint32_t n_slots)
{
    rig_init(r, 1);
    rig_open(r, IO_THREADS, false, WAIT_LIMIT_MS);
    if (rig_cache(r, POLICY_LRU, slots(r, n_slots))) fail_msg("%s", r->err.message);
}

static void end_hanging(struct cache_rig *r)
{
    fault_release(&r->fault);
    while (io_outstanding(r->io) || rig_stats(r).quarantined) expert_pump(r->cache);
    expert_cache_check(r->cache);
}

/* What stays gives way where stuck memory would leave too little to work with. */
static void test_pins_give_way_to_stuck_memory(void **state)
{
    (void)state;
    struct cache_rig r;
    struct expert_view view;
    begin_hanging(&r, 6);
    const uint32_t pins[] = {expert_catalog_key(r.catalog, r.layers[0], 0),
                             expert_catalog_key(r.catalog, r.layers[0], 1)};
    const uint32_t first[] = {0, 1, 2}, lost[] = {4}, others[] = {5, 6, 7};
    rig_step(&r, r.layers[1], others, 3); /* all six slots are there */
    rig_step(&r, r.layers[0], first, 3);
    expert_pin(r.cache, pins, 2);
    assert_int_equal(rig_stats(&r).pinned, 2);
    fault_add(&r.fault, (struct fault_rule){.kind = FAULT_HANG});
    assert_int_equal(expert_want(r.cache, r.layers[1], lost, 1, &r.err), SLUICE_OK);
    enum sluice_status status = expert_take(r.cache, &view, &r.err);
    if (!status) status = expert_finish(r.cache, &view, &r.err);
    assert_int_equal(status, SLUICE_ERR_TIMEOUT);
    expert_abort(r.cache);
    assert_int_equal(rig_stats(&r).quarantined, 1);
    for (uint32_t i = 1; i < r.n_layers; i++) rig_step(&r, r.layers[i], others, 3);
    end_hanging(&r);
    rig_step(&r, r.layers[0], first, 3);
    rig_end(&r);
}

/* A guess whose read hung was read for nothing, once. */
static void test_a_guess_that_hangs(void **state)
{
    (void)state;
    struct cache_rig r;
    begin_hanging(&r, 40);
    const uint32_t first[] = {0, 1, 2}, named[] = {3};
    expert_step(r.cache, 1, true);
    rig_step(&r, r.layers[0], first, 3);
    fault_add(&r.fault, (struct fault_rule){.kind = FAULT_HANG, .count = FAULT_ALWAYS});
    expert_guess(r.cache, EXPERT_LOOKAHEAD, false, r.layers[1], named, 1);
    assert_int_equal(rig_stats(&r).sources[EXPERT_LOOKAHEAD].reads, 1);
    while (!rig_stats(&r).quarantined) expert_pump(r.cache);
    end_hanging(&r);
    const struct expert_source_stats s = rig_stats(&r).sources[EXPERT_LOOKAHEAD];
    assert_int_equal(s.reads, 1);
    assert_int_equal(s.wasted, 1);
    rig_step(&r, r.layers[1], named, 1);
    rig_end(&r);
}

/* A layer that is being read is not warmed as well: what is missing may be on its way a moment later. */
static void test_no_warm_up_of_a_layer_in_use(void **state)
{
    (void)state;
    struct cache_rig r;
    begin(&r, POLICY_LRU, 40);
    const uint32_t ids[] = {0};
    assert_int_equal(expert_want(r.cache, r.layers[0], ids, 1, &r.err), SLUICE_OK);
    assert_false(expert_warm(r.cache, expert_catalog_key(r.catalog, r.layers[0], 5)));
    assert_true(expert_warm(r.cache, expert_catalog_key(r.catalog, r.layers[1], 5)));
    rig_take_all(&r, 1);
    assert_true(expert_warm(r.cache, expert_catalog_key(r.catalog, r.layers[0], 5)));
    rig_end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_operations),
        cmocka_unit_test(test_a_guess_comes_true),
        cmocka_unit_test(test_guesses_wait_for_demand),
        cmocka_unit_test(test_a_guess_that_is_late),
        cmocka_unit_test(test_guesses_push_out_guesses),
        cmocka_unit_test(test_no_guess_at_the_floor),
        cmocka_unit_test(test_warm),
        cmocka_unit_test(test_pins_stay),
        cmocka_unit_test(test_a_prefill_does_not_flush_decode),
        cmocka_unit_test(test_the_coldest_leave),
        cmocka_unit_test(test_pins_give_way_to_the_limit),
        cmocka_unit_test(test_pins_give_way_to_stuck_memory),
        cmocka_unit_test(test_a_guess_that_hangs),
        cmocka_unit_test(test_no_warm_up_of_a_layer_in_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
