/* Locking with a margin, on a made-up machine that knows of each page whether it is locked and whether it is there. */
#include "os/locker.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)
#define STEP ((uint64_t)OS_LOCK_STEP_BYTES)
#define PAGES_MAX 2048 /* of 1 MiB each: the made-up machine need not count smaller ones */

/* Addresses that nobody touches. */
static uint8_t *const base = (uint8_t *)((uintptr_t)1 << 40);

struct machine {
    struct os_calls os;
    struct os_memory memory;
    bool locked[PAGES_MAX], there[PAGES_MAX];
    unsigned n_locks, n_looks;
    unsigned refuse_nth; /* from this call on, from 1; 0: never */
    int refuse_error;
    bool refuse_marks; /* the kernel marks the range before it fails to bring it in */
    size_t largest_bytes;
};

static void set(struct machine *m, const void *at, size_t bytes, bool locked)
{
    size_t first = (size_t)((const uint8_t *)at - base) / MIB;
    size_t end = ((size_t)((const uint8_t *)at - base) + bytes + MIB - 1) / MIB;
    assert_true(bytes > 0 && end <= PAGES_MAX);
    for (size_t i = first; i < end; i++) {
        m->locked[i] = locked;
        if (!locked || m->there[i]) continue;
        m->there[i] = true;
        m->memory.available_bytes -= MIB;
        if (m->memory.cgroup_room_bytes != UINT64_MAX) m->memory.cgroup_room_bytes -= MIB;
    }
}

static int machine_lock(void *user, const void *at, size_t bytes)
{
    struct machine *m = user;
    m->n_locks++;
    if (bytes > m->largest_bytes) m->largest_bytes = bytes;
    if (m->refuse_nth && m->n_locks >= m->refuse_nth) {
        if (m->refuse_marks) m->locked[((const uint8_t *)at - base) / MIB] = true;
        return -m->refuse_error;
    }
    set(m, at, bytes, true);
    return 0;
}

static int machine_unlock(void *user, const void *at, size_t bytes)
{
    set(user, at, bytes, false);
    return 0;
}

static void machine_memory(void *user, struct os_memory *out)
{
    struct machine *m = user;
    m->n_looks++;
    *out = m->memory;
}

static void machine_begin(struct machine *m, uint64_t available_bytes)
{
    memset(m, 0, sizeof *m);
    m->os = (struct os_calls){.user = m, .lock = machine_lock, .unlock = machine_unlock, .memory = machine_memory};
    m->memory = (struct os_memory){.total_bytes = 64 * GIB,
                                   .available_bytes = available_bytes,
                                   .cgroup_limit_bytes = UINT64_MAX,
                                   .cgroup_room_bytes = UINT64_MAX};
}

static uint64_t n_locked(const struct machine *m)
{
    uint64_t n = 0;
    for (unsigned i = 0; i < PAGES_MAX; i++) n += m->locked[i];
    return n;
}

/* The accounts, and that they are the truth. */
static void check(const struct machine *m, const struct os_locker *l, uint64_t wanted, uint64_t locked, uint64_t failed)
{
    assert_int_equal(l->wanted_bytes, wanted);
    assert_int_equal(l->locked_bytes, locked);
    assert_int_equal(l->skipped_bytes, wanted - locked);
    assert_int_equal(l->failed_bytes, failed);
    assert_int_equal(n_locked(m) * MIB, locked);
}

static void test_margin_default(void **state)
{
    struct machine m;
    struct os_locker l;
    machine_begin(&m, 8 * GIB);
    os_lock_begin(&l, &m.os, 0);
    assert_int_equal(l.margin_bytes, 64 * GIB / 20);
    m.memory.total_bytes = 16 * GIB;
    os_lock_begin(&l, &m.os, 0);
    assert_int_equal(l.margin_bytes, GIB);
    os_lock_begin(&l, &m.os, 12345);
    assert_int_equal(l.margin_bytes, 12345);
    check(&m, &l, 0, 0, 0);
    assert_int_equal(l.refusal, 0);
}

static void test_all(void **state)
{
    struct machine m;
    struct os_locker l;
    machine_begin(&m, 8 * GIB);
    os_lock_begin(&l, &m.os, GIB);
    assert_int_equal(os_lock_range(&l, base, 0, false), 0); /* nothing is all of it */
    assert_int_equal(m.n_locks, 0);
    assert_int_equal(m.n_looks, 0);
    check(&m, &l, 0, 0, 0);
    assert_int_equal(os_lock_range(&l, base, 700 * MIB, false), 700 * MIB);
    assert_int_equal(m.n_locks, 3);
    assert_int_equal(m.n_looks, 3); /* once a step */
    assert_int_equal(m.largest_bytes, STEP);
    check(&m, &l, 700 * MIB, 700 * MIB, 0);
    assert_int_equal(os_lock_range(&l, base + 700 * MIB, STEP, false), STEP);
    assert_int_equal(m.n_locks, 4);
    check(&m, &l, 956 * MIB, 956 * MIB, 0);
    os_unlock_range(&l, base, 700 * MIB, 700 * MIB);
    check(&m, &l, STEP, STEP, 0);
    os_unlock_range(&l, base, 0, 0);
    os_unlock_range(&l, base + 700 * MIB, STEP, STEP);
    check(&m, &l, 0, 0, 0);
}

static void test_margin_in_the_middle(void **state)
{
    struct machine m;
    struct os_locker l;
    machine_begin(&m, GIB + 3 * STEP - 1); /* a byte too little for the third step */
    os_lock_begin(&l, &m.os, GIB);
    assert_int_equal(os_lock_range(&l, base, 4 * STEP, false), 2 * STEP);
    check(&m, &l, 4 * STEP, 2 * STEP, 0);
    assert_int_equal(m.n_locks, 2); /* nothing was tried in vain */
    assert_int_equal(l.refusal, 0);
    os_unlock_range(&l, base, 4 * STEP, 2 * STEP);
    check(&m, &l, 0, 0, 0);
    /* What was locked before is there now, so it is not missing a second time. */
    assert_int_equal(os_lock_range(&l, base, 2 * STEP, true), 2 * STEP);
    check(&m, &l, 2 * STEP, 2 * STEP, 0);
    /* Exactly the margin remains. */
    m.memory.available_bytes = GIB + STEP;
    assert_int_equal(os_lock_range(&l, base + 2 * STEP, STEP, false), STEP);
    assert_int_equal(m.memory.available_bytes, GIB);
    assert_int_equal(os_lock_range(&l, base + 3 * STEP, 1, false), 0);
    assert_int_equal(l.skipped_bytes, 1);
}

static void test_margin_of_the_group(void **state)
{
    struct machine m;
    struct os_locker l;
    machine_begin(&m, 32 * GIB);
    m.memory.cgroup_room_bytes = GIB + STEP;
    os_lock_begin(&l, &m.os, GIB);
    assert_int_equal(os_lock_range(&l, base, 3 * STEP, false), STEP);
    check(&m, &l, 3 * STEP, STEP, 0);
    m.memory.cgroup_room_bytes = 0; /* above its limit */
    assert_int_equal(os_lock_range(&l, base + 3 * STEP, MIB, false), 0);
    check(&m, &l, 3 * STEP + MIB, STEP, 0);
}

static void test_resident(void **state)
{
    struct machine m;
    struct os_locker l;
    machine_begin(&m, GIB);
    memset(m.there, 1, sizeof m.there);
    os_lock_begin(&l, &m.os, GIB);
    assert_int_equal(os_lock_range(&l, base, 3 * STEP, true), 3 * STEP); /* takes nothing */
    check(&m, &l, 3 * STEP, 3 * STEP, 0);
    m.memory.available_bytes--; /* the margin is not there even so */
    assert_int_equal(os_lock_range(&l, base + 3 * STEP, STEP, true), 0);
    check(&m, &l, 4 * STEP, 3 * STEP, 0);
}

/* RLIMIT_MEMLOCK is reached at the n-th step. */
static void test_refused(void **state)
{
    for (unsigned nth = 1; nth <= 4; nth++) {
        struct machine m;
        struct os_locker l;
        machine_begin(&m, 8 * GIB);
        m.refuse_nth = nth;
        m.refuse_error = nth == 1 ? EPERM : ENOMEM;
        m.refuse_marks = nth % 2;
        os_lock_begin(&l, &m.os, GIB);
        size_t locked = os_lock_range(&l, base, 3 * STEP + MIB, false);
        uint64_t failed = nth == 4 ? MIB : STEP;
        assert_int_equal(locked, (nth - 1) * STEP);
        assert_int_equal(m.n_locks, nth); /* and no further */
        assert_int_equal(l.refusal, m.refuse_error);
        check(&m, &l, 3 * STEP + MIB, locked, failed);
        os_unlock_range(&l, base, 3 * STEP + MIB, locked);
        check(&m, &l, 0, 0, 0);
    }
}

/* Failed bytes outlive the unlocking of others, and are never more than what is skipped. */
static void test_failed_and_skipped(void **state)
{
    struct machine m;
    struct os_locker l;
    machine_begin(&m, 0);
    os_lock_begin(&l, &m.os, GIB);
    assert_int_equal(os_lock_range(&l, base, 2 * STEP, false), 0); /* keeps the margin */
    m.memory.available_bytes = 8 * GIB;
    m.refuse_nth = 2;
    m.refuse_error = ENOMEM;
    assert_int_equal(os_lock_range(&l, base + 2 * STEP, 2 * STEP, false), STEP);
    check(&m, &l, 4 * STEP, STEP, STEP);
    os_unlock_range(&l, base, 2 * STEP, 0);
    check(&m, &l, 2 * STEP, STEP, STEP);
    os_unlock_range(&l, base + 2 * STEP, 2 * STEP, STEP);
    check(&m, &l, 0, 0, 0);
}

/* A range that does not begin at a page: only its ends lie within one. */
static void test_between_pages(void **state)
{
    struct machine m;
    struct os_locker l;
    machine_begin(&m, 8 * GIB);
    os_lock_begin(&l, &m.os, GIB);
    const size_t bytes = (size_t)(2 * STEP), page = os_page_bytes();
    assert_int_equal(os_lock_range(&l, base + page / 2, bytes, false), bytes);
    assert_int_equal(m.n_locks, 3);
    assert_true(m.largest_bytes <= STEP);
    m.refuse_nth = 5;
    m.refuse_error = ENOMEM;
    os_lock_begin(&l, &m.os, GIB);
    assert_int_equal(os_lock_range(&l, base + page / 2, bytes, false), STEP - page / 2); /* up to a page's end */
}

/* Random ranges, on random machines: the accounts are always the truth. */
static void test_random(void **state)
{
    uint32_t seed = 1;
    for (unsigned run = 0; run < 60; run++) {
        struct machine m;
        struct os_locker l;
        size_t bytes[16] = {0}, locked[16] = {0};
        uint64_t wanted = 0, sum = 0;
        machine_begin(&m, GIB + (run % 10) * 150 * MIB);
        m.refuse_nth = run % 3 == 0 ? run / 3 + 1 : 0;
        m.refuse_error = ENOMEM;
        os_lock_begin(&l, &m.os, GIB);
        for (unsigned i = 0; i < 200; i++) {
            seed = seed * 1664525u + 1013904223u;
            unsigned slot = seed >> 28; /* of 128 MiB; a range of up to five of them */
            if (bytes[slot]) {
                wanted -= bytes[slot];
                sum -= locked[slot];
                os_unlock_range(&l, base + slot * 128 * MIB, bytes[slot], locked[slot]);
                bytes[slot] = 0;
            } else {
                unsigned n_slots = 0;
                while (n_slots < 5 && slot + n_slots < 16 && !bytes[slot + n_slots]) n_slots++;
                for (unsigned j = slot; j-- > 0;) /* a longer range may lie over this slot */
                    if (j * 128 * MIB + bytes[j] > slot * 128 * MIB) n_slots = 0;
                if (!n_slots) continue;
                bytes[slot] = n_slots * 128 * MIB - (seed >> 8) % 100 * MIB;
                locked[slot] = os_lock_range(&l, base + slot * 128 * MIB, bytes[slot], false);
                wanted += bytes[slot];
                sum += locked[slot];
            }
            check(&m, &l, wanted, sum, l.failed_bytes);
            assert_true(l.failed_bytes <= l.skipped_bytes);
            assert_true(m.memory.available_bytes >= GIB);
        }
    }
}

/* The real kernel: what it grants is locked and can be given back; what it refuses is counted. */
static void test_here(void **state)
{
    const struct os_calls *os = os_system();
    const size_t bytes = 4 * os_page_bytes();
    struct os_locker l;
    uint8_t *at = os->reserve(os->user, bytes);
    assert_non_null(at);
    assert_int_equal(os->commit(os->user, at, bytes), 0);
    os_lock_begin(&l, os, 1);
    size_t locked = os_lock_range(&l, at, bytes, false);
    assert_int_equal(l.wanted_bytes, bytes);
    assert_int_equal(l.locked_bytes, locked);
    assert_int_equal(l.refusal != 0, l.failed_bytes != 0);
    os_unlock_range(&l, at, bytes, locked);
    assert_int_equal(l.locked_bytes + l.skipped_bytes + l.failed_bytes, 0);
    assert_int_equal(os->decommit(os->user, at, bytes), 0);
    assert_int_equal(os->release(os->user, at, bytes), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_margin_default),
        cmocka_unit_test(test_all),
        cmocka_unit_test(test_margin_in_the_middle),
        cmocka_unit_test(test_margin_of_the_group),
        cmocka_unit_test(test_resident),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_failed_and_skipped),
        cmocka_unit_test(test_between_pages),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_here),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
