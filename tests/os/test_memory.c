/* Reservations cost nothing, committed memory counts when touched, decommitted memory is really gone. */
#include "os/os.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB ((size_t)1 << 20)
#define PART (64 * MIB)
#define SLACK (8 * MIB)

static const struct os_calls *os;

/* Does touching this byte kill the process? */
static bool faults(volatile uint8_t *at)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL); /* cmocka and the sanitizers have handlers of their own */
        *at = 1;
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

static uint64_t resident(void)
{
    uint64_t now, peak;
    os_resident(&now, &peak);
    return now;
}

static void test_reserve(void **state)
{
    size_t bytes = (size_t)256 << 30; /* more than the machine has */
    uint64_t before = resident();
    uint8_t *at = os->reserve(os->user, bytes);
    if (!at) skip(); /* a limit on address space (ulimit -v) */
    assert_int_equal((uintptr_t)at % os_page_bytes(), 0);
    assert_true(resident() < before + SLACK);
    assert_true(faults(at));
    assert_int_equal(os->commit(os->user, at + PART, PART), 0);
    at[PART] = 1;
    at[2 * PART - 1] = 1;
    assert_true(faults(at + PART - 1));
    assert_true(faults(at + 2 * PART));
    assert_int_equal(os->release(os->user, at, bytes), 0);
    assert_null(os->reserve(os->user, 0));
    assert_null(os->reserve(os->user, SIZE_MAX / 2));
}

static void test_decommit(void **state)
{
    uint8_t *at = os->reserve(os->user, 4 * PART);
    assert_non_null(at);
    assert_int_equal(os->commit(os->user, at, 2 * PART), 0);
    uint64_t before = resident();
    memset(at, 1, 2 * PART);
    uint64_t full = resident();
    assert_true(full >= before + 2 * PART - SLACK);
    assert_int_equal(os->decommit(os->user, at, PART), 0);
    uint64_t half = resident();
    assert_true(half + PART - SLACK <= full);
    uint64_t now, peak;
    os_resident(&now, &peak);
    assert_true(peak + SLACK >= full);
    assert_true(faults(at));
    assert_int_equal(at[PART], 1); /* the neighbour is as it was */
    assert_int_equal(os->commit(os->user, at, PART), 0);
    assert_int_equal(at[0], 0); /* new memory, not the old bytes */
    assert_int_equal(os->decommit(os->user, at, 2 * PART), 0);
    assert_int_equal(os->decommit(os->user, at, 2 * PART), 0); /* twice does no harm */
    assert_true(resident() + 2 * PART - SLACK <= full);
    assert_int_equal(os->release(os->user, at, 4 * PART), 0);
}

static void test_bad_ranges(void **state)
{
    uint8_t *at = os->reserve(os->user, PART);
    assert_non_null(at);
    assert_int_equal(os->commit(os->user, at + 1, 4096), -EINVAL); /* not aligned */
    assert_int_equal(os->release(os->user, at, PART), 0);
    assert_int_equal(os->commit(os->user, at, PART), -ENOMEM); /* nothing there any more */
}

static void test_lock(void **state)
{
    size_t page = os_page_bytes();
    uint8_t *at = os->reserve(os->user, 16 * page);
    assert_non_null(at);
    assert_int_equal(os->commit(os->user, at, 16 * page), 0);
    int rc = os->lock(os->user, at, 16 * page);
    if (rc == -ENOMEM || rc == -EPERM || rc == -EAGAIN) {
        os->release(os->user, at, 16 * page);
        skip(); /* nothing may be locked here */
    }
    assert_int_equal(rc, 0);
    at[0] = 7;
    assert_int_equal(os->unlock(os->user, at, page), 0);
    assert_int_equal(os->decommit(os->user, at, 16 * page), 0); /* locked or not */
    assert_int_equal(os->commit(os->user, at, page), 0);
    assert_int_equal(at[0], 0);
    assert_int_equal(os->release(os->user, at, 16 * page), 0);
}

int main(void)
{
    os = os_system();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reserve),
        cmocka_unit_test(test_decommit),
        cmocka_unit_test(test_bad_ranges),
        cmocka_unit_test(test_lock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
