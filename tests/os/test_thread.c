/* Threads, locks, conditions and the clock. */
#include "os/os.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct shared {
    struct os_mutex *mutex;
    struct os_cond *cond;
    unsigned count, turn;
    bool done, signals_blocked;
    char name[32];
};

static void shared_init(struct shared *s)
{
    memset(s, 0, sizeof *s);
    assert_int_equal(os_mutex_create(&s->mutex), 0);
    assert_int_equal(os_cond_create(&s->cond), 0);
}

static void shared_end(struct shared *s)
{
    os_cond_destroy(s->cond);
    os_mutex_destroy(s->mutex);
}

static void add_many(void *arg)
{
    struct shared *s = arg;
    for (unsigned i = 0; i < 10000; i++) {
        os_mutex_lock(s->mutex);
        s->count++;
        os_mutex_unlock(s->mutex);
    }
}

static void test_mutex(void **state)
{
    struct shared s;
    shared_init(&s);
    struct os_thread *t[4];
    for (unsigned i = 0; i < 4; i++) assert_int_equal(os_thread_start(&t[i], add_many, &s, "count", 65536), 0);
    for (unsigned i = 0; i < 4; i++) os_thread_join(t[i]);
    assert_int_equal(s.count, 40000);
    shared_end(&s);
}

static void answer(void *arg)
{
    struct shared *s = arg;
    os_mutex_lock(s->mutex);
    for (unsigned i = 0; i < 500; i++) {
        while (s->turn != 1) os_cond_wait(s->cond, s->mutex);
        s->turn = 0;
        s->count++;
        os_cond_broadcast(s->cond);
    }
    os_mutex_unlock(s->mutex);
}

static void test_cond(void **state)
{
    struct shared s;
    shared_init(&s);
    struct os_thread *t;
    assert_int_equal(os_thread_start(&t, answer, &s, NULL, 0), 0);
    os_mutex_lock(s.mutex);
    for (unsigned i = 0; i < 500; i++) {
        s.turn = 1;
        os_cond_signal(s.cond);
        while (s.turn != 0) os_cond_wait_ns(s.cond, s.mutex, UINT64_MAX); /* longer than any clock */
    }
    os_mutex_unlock(s.mutex);
    os_thread_join(t);
    assert_int_equal(s.count, 500);
    shared_end(&s);
}

static void test_timed_wait(void **state)
{
    const struct os_calls *os = os_system();
    struct shared s;
    shared_init(&s);
    os_mutex_lock(s.mutex);
    uint64_t from = os->now_ns(os->user), wait = 20000000;
    while (os_cond_wait_ns(s.cond, s.mutex, wait)) {
    } /* true would be a spurious wake-up */
    assert_true(os->now_ns(os->user) - from >= wait);
    assert_false(os_cond_wait_ns(s.cond, s.mutex, 0));
    os_mutex_unlock(s.mutex);
    shared_end(&s);
}

static void tell(void *arg)
{
    struct shared *s = arg;
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    os_mutex_lock(s->mutex);
    s->signals_blocked = sigismember(&blocked, SIGINT) && sigismember(&blocked, SIGTERM);
    pthread_getname_np(pthread_self(), s->name, sizeof s->name);
    s->done = true;
    os_cond_signal(s->cond);
    os_mutex_unlock(s->mutex);
}

static void test_name_and_signals(void **state)
{
    struct shared s;
    shared_init(&s);
    struct os_thread *t;
    assert_int_equal(os_thread_start(&t, tell, &s, "a-name-that-is-too-long", 1), 0);
    os_thread_join(t);
    assert_true(s.signals_blocked);
    assert_string_equal(s.name, "a-name-that-is-");
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    assert_false(sigismember(&blocked, SIGINT)); /* the creator's are as they were */
    shared_end(&s);
}

static void test_detach(void **state)
{
    struct shared *s = malloc(sizeof *s);
    for (unsigned i = 0; i < 50; i++) {
        shared_init(s);
        struct os_thread *t;
        assert_int_equal(os_thread_start(&t, tell, s, "free", 0), 0);
        os_thread_detach(t);
        os_mutex_lock(s->mutex);
        while (!s->done) os_cond_wait(s->cond, s->mutex);
        os_mutex_unlock(s->mutex);
        shared_end(s);
    }
    free(s);
}

static void test_clock(void **state)
{
    const struct os_calls *os = os_system();
    uint64_t last = os->now_ns(os->user);
    assert_true(last > 0);
    for (unsigned i = 0; i < 1000; i++) {
        uint64_t now = os->now_ns(os->user);
        assert_true(now >= last);
        last = now;
        os_cpu_relax();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mutex),      cmocka_unit_test(test_cond),
        cmocka_unit_test(test_timed_wait), cmocka_unit_test(test_name_and_signals),
        cmocka_unit_test(test_detach),     cmocka_unit_test(test_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
