/* Memory that is brought in beforehand: it is resident afterwards, the last range says how fast that is, and a system
 * that cannot do it is no error. */
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

static struct os_calls calls;
static unsigned n;
static int refuse;
static uint64_t clock_ns, range_ns;

static int populate(void *user, void *at, size_t bytes)
{
    n++;
    clock_ns += range_ns;
    return refuse ? -refuse : os_system()->populate(user, at, bytes);
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
    n = 0;
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
    if (os->populate(os->user, at, os_page_bytes())) skip(); /* before Linux 5.14 */
    assert_int_equal(os_toucher_create(os, &t), 0);
    os_touch_begin(t, at, 2 * MIB);
    os_touch_begin(t, at + 2 * MIB, 2 * MIB); /* waits for the first */
    os_touch_wait(t);
    assert_int_equal(mincore(at, 4 * MIB, there), 0);
    for (size_t i = 0; i < 4 * MIB / os_page_bytes(); i++) assert_true(there[i] & 1);
    for (size_t i = 0; i < 4 * MIB; i += 512) assert_int_equal(at[i], 0);
    struct os_touch_figures f;
    os_touch_figures(t, &f);
    assert_int_equal(f.bytes, 4 * MIB);
    assert_true(f.ns > 0);
    os_touch_begin(t, at, 0);
    os_toucher_destroy(t);
    os_toucher_destroy(NULL);
    os->release(os->user, at, 4 * MIB);
}

static uint8_t memory[RANGE_BYTES] __attribute__((aligned(RANGE_BYTES)));

static void test_the_pace(void **state)
{
    (void)state;
    struct os_toucher *t;
    struct os_touch_figures f;
    assert_int_equal(os_toucher_create(&calls, &t), 0);
    assert_int_equal(os_touch_estimate_ns(t, 100), 0); /* nothing is known */
    range_ns = 3 * RANGE_BYTES;
    os_touch_begin(t, memory, RANGE_BYTES);
    assert_int_equal(os_touch_estimate_ns(t, 1000), 3000);
    assert_int_equal(os_touch_estimate_ns(t, 0), 0);
    range_ns = RANGE_BYTES / 4;
    os_touch_begin(t, memory, RANGE_BYTES);
    assert_int_equal(os_touch_estimate_ns(t, 1000), 250); /* the last one alone */
    os_touch_figures(t, &f);
    assert_int_equal(f.bytes, 2 * RANGE_BYTES);
    assert_int_equal(f.ns, 3 * RANGE_BYTES + RANGE_BYTES / 4);
    refuse = ENOMEM;
    os_touch_begin(t, memory, RANGE_BYTES);
    assert_int_equal(os_touch_estimate_ns(t, 1000), 0);
    os_touch_figures(t, &f);
    assert_int_equal(f.bytes, 2 * RANGE_BYTES);
    os_toucher_destroy(t);
}

static void test_it_ends_what_it_began(void **state)
{
    (void)state;
    for (refuse = 0; refuse <= EINVAL; refuse += EINVAL) {
        struct os_toucher *t;
        n = 0;
        assert_int_equal(os_toucher_create(&calls, &t), 0);
        for (unsigned i = 0; i < 5; i++) os_touch_begin(t, memory, sizeof memory);
        os_toucher_destroy(t);
        assert_int_equal(n, 5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_it_is_resident, set_up),
        cmocka_unit_test_setup(test_the_pace, set_up),
        cmocka_unit_test_setup(test_it_ends_what_it_began, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
