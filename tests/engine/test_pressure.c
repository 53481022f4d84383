/* Who gives how much when memory gets short: the decision alone, a table. What comes of it in an engine is in
 * test_foresight.c (the cache) and test_prefix.c. */
#include "engine/engine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void test_decision(void **state)
{
    (void)state;
    const uint64_t G = (uint64_t)1 << 30, second = 1000000000;
    const struct pressure_facts usual = {.rows_bytes = 8 * G,
                                         .slots_bytes = 6 * G,
                                         .floor_bytes = G / 4,
                                         .allowed_bytes = 10 * G,
                                         .limits.slots_bytes = 6 * G,
                                         .calm_ns = 100 * second,
                                         .elapsed_ns = second};
    struct pressure_facts f = usual;
    assert_int_equal(pressure_decide(&f).slots_bytes, 6 * G);
    f.allowed_bytes = 8 * G; /* the budget itself is honoured */
    assert_int_equal(pressure_decide(&f).slots_bytes, 6 * G);
    f.allowed_bytes = 5 * G; /* the others' 2 GiB and a margin first */
    assert_int_equal(pressure_decide(&f).slots_bytes, 3 * G - pressure_margin_bytes(5 * G));
    f.allowed_bytes = G;
    assert_int_equal(pressure_decide(&f).slots_bytes, G / 4);
    f = usual;
    f.stall_ns = second / 2; /* stalled, but not for want of memory of ours */
    assert_int_equal(pressure_decide(&f).slots_bytes, 6 * G);
    f.hit_limit = true;
    assert_int_equal(pressure_decide(&f).slots_bytes, 6 * G - 6 * G / 16);
    f = usual;
    f.limits.slots_bytes = 2 * G; /* back, slowly */
    assert_int_equal(pressure_decide(&f).slots_bytes, 2 * G + 6 * G / 16);
    f.calm_ns = second;
    assert_int_equal(pressure_decide(&f).slots_bytes, 2 * G);
    f.calm_ns = 100 * second;
    f.limits.slots_bytes = 6 * G - 1;
    assert_int_equal(pressure_decide(&f).slots_bytes, 6 * G);
    assert_int_equal(pressure_decide(&f).prefix_bytes, 0);
}

/* `gone` MiB are missing: who gives how many of them? */
static void gives(struct pressure_facts f, uint64_t gone, uint64_t slots, uint64_t prefixes)
{
    const uint64_t M = (uint64_t)1 << 20;
    f.allowed_bytes = f.rows_bytes - gone * M;
    f.allowed_bytes += pressure_margin_bytes(f.rows_bytes); /* which is 512 MiB for both */
    const struct pressure_limits l = pressure_decide(&f);
    assert_int_equal((f.limits.slots_bytes - l.slots_bytes) / M, slots);
    assert_int_equal((f.limits.prefix_bytes - l.prefix_bytes) / M, prefixes);
}

/* Who gives first: what prefixes do not use, what the disk has too, then both by what they have. */
static void test_decision_of_prefixes(void **state)
{
    (void)state;
    const uint64_t G = (uint64_t)1 << 30, M = (uint64_t)1 << 20, second = 1000000000;
    const struct pressure_facts usual = {.rows_bytes = 32 * G,
                                         .slots_bytes = 10 * G,
                                         .floor_bytes = G,
                                         .prefix_bytes = 4 * G,
                                         .limits = {10 * G, 4 * G},
                                         .prefixes = {M, 3 * G + M, G},
                                         .calm_ns = 100 * second,
                                         .elapsed_ns = second};
    gives(usual, 600, 0, 600);
    gives(usual, 1023, 0, 1023);
    gives(usual, 2047, 0, 2047);
    gives(usual, 2047 + 1100, 900, 2047 + 200); /* 9 GiB above the floor, 2 GiB of prefixes */
    gives(usual, 2047 + 11 * 1024 - 1100, 9 * 1024 - 900, 2047 + 2048 - 200);
    gives(usual, 15 * 1024, 9 * 1024, 4095); /* nobody has any more */
    struct pressure_facts f = usual;
    f.limits = (struct pressure_limits){10 * G - 900 * M, 2 * G - 200 * M}; /* given; the same memory is missing */
    f.prefixes = (struct prefix_need){M, 2 * G - 200 * M, G / 2};
    f.calm_ns = second;
    gives(f, 2048 + 1100, 0, 0);
    gives(f, 2048 + 1100 + 300, 0, 300);
    f = usual; /* a stall takes what would bring something */
    f.allowed_bytes = 64 * G;
    f.stall_ns = second / 2;
    f.hit_limit = true;
    struct pressure_limits l = pressure_decide(&f);
    assert_int_equal(l.slots_bytes, 10 * G - 10 * G / 16);
    assert_int_equal(l.prefix_bytes, 3 * G + M - 4 * G / 16);
    f.limits = (struct pressure_limits){G + M, 2 * M}; /* and no more than there is */
    f.prefixes.used_bytes = 2 * M;
    l = pressure_decide(&f);
    assert_int_equal(l.slots_bytes, G);
    assert_int_equal(l.prefix_bytes, M);
    f = usual; /* both come back, and no farther than there is room for */
    f.allowed_bytes = 64 * G;
    f.limits = (struct pressure_limits){5 * G, G};
    l = pressure_decide(&f);
    assert_int_equal(l.slots_bytes, 5 * G + 10 * G / 16);
    assert_int_equal(l.prefix_bytes, G + 4 * G / 16);
    f.allowed_bytes = 32 * G - 7 * G; /* 7 are missing, and a margin; 6 of 14 are in use */
    l = pressure_decide(&f);
    assert_int_equal(l.slots_bytes + l.prefix_bytes, 7 * G - pressure_margin_bytes(25 * G));
    f.limits = usual.limits;
    l = pressure_decide(&(struct pressure_facts){.rows_bytes = 4 * G, /* no experts at all */
                                                 .prefix_bytes = G,
                                                 .limits = {0, G},
                                                 .prefixes = {M, G, 0},
                                                 .allowed_bytes = 3 * G});
    assert_int_equal(l.slots_bytes, 0);
    assert_int_equal(l.prefix_bytes, M);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_decision), cmocka_unit_test(test_decision_of_prefixes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
