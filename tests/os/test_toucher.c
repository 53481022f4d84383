/* Memory that is brought in ahead: it is resident afterwards, both kinds of pages are tried, the faster one is used,
 * and a system that cannot do it is no error. */
#include "os/toucher.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#define MIB ((size_t)1 << 20)
#define RANGE_BYTES 4096u
#define SLOW_NS (4 * RANGE_BYTES) /* 0.25 GB/s: the memory is not at hand */

static struct os_calls calls;
static unsigned n_small, n_huge;
static int refuse;
static uint64_t clock_ns, small_ns, huge_ns;

static int populate(void *user, void *at, size_t bytes, bool huge)
{
    *(huge ? &n_huge : &n_small) += 1;
    clock_ns += huge ? huge_ns : small_ns;
    return refuse ? -refuse : os_system()->populate(user, at, bytes, huge);
}

static uint64_t now_ns(void *user)
{
    (void)user;
    return clock_ns;
}

static int set_up(void **state)
{
    (void)state;
    calls = *os_system();
    calls.populate = populate;
    calls.now_ns = now_ns;
    n_small = n_huge = 0;
    refuse = 0;
    return 0;
}

static void test_it_is_resident(void **state)
{
    (void)state;
    const struct os_calls *os = os_system();
    struct os_toucher *t;
    unsigned char there[4 * MIB / 4096];
    uint8_t *at = os->reserve(os->user, 4 * MIB);
    assert_non_null(at);
    assert_int_equal(os->commit(os->user, at, 4 * MIB), 0);
    if (os->populate(os->user, at, os_page_bytes(), false)) skip(); /* before Linux 5.14 */
    assert_int_equal(os_toucher_create(os, &t), 0);
    os_touch_begin(t, at, 2 * MIB);
    os_touch_begin(t, at + 2 * MIB, 2 * MIB); /* waits for the first */
    os_touch_wait(t);
    assert_int_equal(mincore(at, 4 * MIB, there), 0);
    for (size_t i = 0; i < 4 * MIB / os_page_bytes(); i++) assert_true(there[i] & 1);
    for (size_t i = 0; i < 4 * MIB; i += 512) assert_int_equal(at[i], 0);
    struct os_touch_figures f;
    os_touch_figures(t, &f);
    assert_int_equal(f.bytes[0] + f.bytes[1], 4 * MIB);
    assert_true(f.bytes[1] >= 2 * MIB && f.ns[1] > 0);
    assert_true(os_touch_estimate_ns(t, 4 * MIB) > 0);
    assert_int_equal(os_touch_estimate_ns(t, 0), 0);
    os_touch_begin(t, at, 0);
    os_toucher_destroy(t);
    os_toucher_destroy(NULL);
    os->release(os->user, at, 4 * MIB);
}

static void run(unsigned n)
{
    static uint8_t memory[RANGE_BYTES] __attribute__((aligned(4096)));
    struct os_toucher *t;
    assert_int_equal(os_toucher_create(&calls, &t), 0);
    for (unsigned i = 0; i < n; i++) os_touch_begin(t, memory, sizeof memory);
    os_toucher_destroy(t); /* finishes what is under way */
}

static void test_the_faster_kind(void **state)
{
    (void)state;
    small_ns = SLOW_NS;
    huge_ns = 10 * SLOW_NS;
    run(64);
    assert_int_equal(n_small + n_huge, 64);
    assert_true(n_huge >= 2 && n_huge <= 4); /* tried first, and now and then */
    n_small = n_huge = 0;
    small_ns = 10 * SLOW_NS;
    huge_ns = SLOW_NS;
    run(64);
    assert_true(n_small >= 2 && n_small <= 4);
    n_small = n_huge = 0;
    small_ns = 1;
    huge_ns = RANGE_BYTES / 8; /* 8 GB/s: there is nothing to gain */
    run(64);
    assert_int_equal(n_huge, 64);
}

static void test_it_cannot_be_done(void **state)
{
    (void)state;
    refuse = EINVAL;
    run(5);
    assert_int_equal(n_small + n_huge, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_it_is_resident, set_up),
        cmocka_unit_test_setup(test_the_faster_kind, set_up),
        cmocka_unit_test_setup(test_it_cannot_be_done, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
