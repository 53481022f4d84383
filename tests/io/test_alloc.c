/* No allocation in submit, poll, raise, cancel and io_read_now after io_open. The linker routes the allocation calls of
 * the rooms through the counters here (-Wl,--wrap). */
#include "rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static unsigned n_allocations;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);

void *__wrap_malloc(size_t bytes)
{
    __atomic_add_fetch(&n_allocations, 1, __ATOMIC_RELAXED);
    return __real_malloc(bytes);
}

void *__wrap_calloc(size_t n, size_t bytes)
{
    __atomic_add_fetch(&n_allocations, 1, __ATOMIC_RELAXED);
    return __real_calloc(n, bytes);
}

void *__wrap_realloc(void *old, size_t bytes)
{
    __atomic_add_fetch(&n_allocations, 1, __ATOMIC_RELAXED);
    return __real_realloc(old, bytes);
}

static void test_none(void **state)
{
    enum io_backend backends[3];
    unsigned n = rig_backends(backends);
    for (unsigned i = 0; i < n; i++) {
        struct rig r;
        rig_init(&r, 300000, 64 * 16384);
        struct io_config config = rig_config(&r, backends[i]);
        config.piece_bytes = 4096;
        unsigned before = n_allocations;
        rig_open(&r, &config);
        assert_true(n_allocations > before); /* the counter counts */
        before = n_allocations;
        fault_add(&r.fault, (struct fault_rule){.kind = FAULT_SHORT, .nth = 5, .count = 20, .bytes = 1000});
        fault_add(&r.fault, (struct fault_rule){.kind = FAULT_ERROR, .nth = 40, .count = 3, .error = 11});
        struct io_request q[64], *list[64];
        for (unsigned k = 0; k < 64; k++) {
            q[k] = rig_request(&r, k * 4096, 16384, (enum io_priority)(k % 4), k * 16384);
            q[k].tag = k;
            list[k] = &q[k];
        }
        assert_int_equal(io_submit(r.io, list, 64, NULL), SLUICE_OK);
        for (unsigned k = 0; k < 64; k += 7) io_raise(r.io, &q[k], IO_DEMAND);
        io_cancel(r.io, &q[63]);
        assert_int_equal(io_read_now(r.io, r.index, 3, r.memory, 1, NULL), SLUICE_OK);
        unsigned seen[64] = {0};
        assert_int_equal(rig_drain(&r, seen, 64), 64);
        assert_int_equal(n_allocations, before);
        rig_end(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_none)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
