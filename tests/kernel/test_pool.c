/* The pool: every part of a job runs once, late threads touch no job that is over, barriers hold, ranges cover,
 * shutdown is clean, numbers are refused. */
#include "util.h"

#include <stdatomic.h>

#define ROUNDS 200

struct shared {
    struct kernel_pool *pool;
    atomic_uint calls;
    unsigned seen[KERNEL_THREADS_MAX];
    unsigned phase[KERNEL_THREADS_MAX]; /* plain: the barrier alone orders them */
    atomic_uint wrong;
};

static void count_calls(void *arg, unsigned worker, unsigned n_workers)
{
    struct shared *s = arg;
    atomic_fetch_add(&s->calls, 1);
    s->seen[worker]++;
}

static void walk_phases(void *arg, unsigned worker, unsigned n_workers)
{
    struct shared *s = arg;
    for (unsigned p = 1; p <= 5; p++) {
        s->phase[worker] = p;
        kernel_pool_barrier(s->pool);
        for (unsigned i = 0; i < n_workers; i++)
            if (s->phase[i] != p) atomic_fetch_add(&s->wrong, 1);
        kernel_pool_barrier(s->pool);
    }
}

static void test_jobs(void **state)
{
    static const unsigned sizes[] = {1, 2, 3, 8, 64, 256};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        unsigned n = sizes[i], rounds = n > 8 ? ROUNDS / 20 : ROUNDS;
        static struct shared s;
        memset(&s, 0, sizeof s);
        struct sluice_error err;
        assert_int_equal(kernel_pool_create(n, &s.pool, &err), SLUICE_OK);
        assert_int_equal(kernel_pool_threads(s.pool), n);
        for (unsigned r = 0; r < rounds; r++) kernel_pool_run(s.pool, count_calls, &s);
        assert_int_equal(atomic_load(&s.calls), n * rounds);
        for (unsigned w = 0; w < n; w++) assert_int_equal(s.seen[w], rounds);
        for (unsigned r = 0; r < (n > 8 ? 2 : 20); r++) kernel_pool_run(s.pool, walk_phases, &s);
        assert_int_equal(atomic_load(&s.wrong), 0);
        kernel_pool_destroy(s.pool);
    }
}

struct parts {
    atomic_uint calls[KERNEL_THREADS_MAX];
    unsigned n;
    atomic_uint wrong;
};

static void count_part(void *arg, unsigned part, unsigned n_parts)
{
    struct parts *s = arg;
    if (n_parts != s->n || part >= n_parts) atomic_fetch_add(&s->wrong, 1);
    atomic_fetch_add(&s->calls[part], 1);
}

/* Jobs of all numbers of parts, one at once after the other, each with an argument that is gone when it is over. */
static void test_parts(void **state)
{
    static const unsigned sizes[] = {1, 2, 3, 16};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct kernel_pool *p;
        struct sluice_error err;
        assert_int_equal(kernel_pool_create(sizes[i], &p, &err), SLUICE_OK);
        for (unsigned r = 0; r < 2000; r++) {
            const unsigned n_parts = r % 20;
            struct parts *s = calloc(1, sizeof *s);
            assert_non_null(s);
            s->n = n_parts < sizes[i] ? n_parts : sizes[i];
            kernel_pool_run_parts(p, n_parts, count_part, s);
            assert_int_equal(atomic_load(&s->wrong), 0);
            for (unsigned k = 0; k < KERNEL_THREADS_MAX; k++) assert_int_equal(atomic_load(&s->calls[k]), k < s->n);
            free(s);
        }
        kernel_pool_destroy(p);
    }
}

/* Workers that have gone to sleep wake again. */
static void test_after_sleep(void **state)
{
    static struct shared s;
    struct sluice_error err;
    struct os_mutex *m;
    struct os_cond *c;
    assert_int_equal(os_mutex_create(&m), 0);
    assert_int_equal(os_cond_create(&c), 0);
    assert_int_equal(kernel_pool_create(2, &s.pool, &err), SLUICE_OK);
    for (int r = 0; r < 5; r++) {
        os_mutex_lock(m);
        os_cond_wait_ns(c, m, 20 * 1000 * 1000);
        os_mutex_unlock(m);
        kernel_pool_run(s.pool, count_calls, &s);
    }
    assert_int_equal(atomic_load(&s.calls), 10);
    kernel_pool_destroy(s.pool);
    os_cond_destroy(c);
    os_mutex_destroy(m);
}

static void test_unused_pool(void **state)
{
    struct kernel_pool *p;
    struct sluice_error err;
    for (unsigned n = 1; n < 20; n++) {
        assert_int_equal(kernel_pool_create(n, &p, &err), SLUICE_OK);
        kernel_pool_destroy(p);
    }
    kernel_pool_destroy(NULL);
}

static void test_refusals(void **state)
{
    static const unsigned bad[] = {0, 257, 100000};
    for (size_t i = 0; i < 3; i++) {
        struct kernel_pool *p = (struct kernel_pool *)1;
        struct sluice_error err;
        char number[16];
        snprintf(number, sizeof number, "%u", bad[i]);
        assert_int_equal(kernel_pool_create(bad[i], &p, &err), SLUICE_ERR_USAGE);
        assert_null(p);
        assert_non_null(strstr(err.message, number));
        assert_non_null(strstr(err.message, "256"));
    }
}

static void test_ranges(void **state)
{
    for (size_t n = 0; n < 70; n++)
        for (size_t grain = 1; grain <= 8; grain *= 2)
            for (unsigned n_workers = 1; n_workers < 20; n_workers++) {
                size_t at = 0;
                for (unsigned w = 0; w < n_workers; w++) {
                    size_t begin, end;
                    kernel_pool_range(w, n_workers, n, grain, &begin, &end);
                    assert_int_equal(begin, at);
                    assert_true(end >= begin && end <= n);
                    assert_true(end == n || end % grain == 0);
                    at = end;
                }
                assert_int_equal(at, n);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_jobs),     cmocka_unit_test(test_after_sleep), cmocka_unit_test(test_unused_pool),
        cmocka_unit_test(test_refusals), cmocka_unit_test(test_ranges),      cmocka_unit_test(test_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
