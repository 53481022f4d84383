/* Memory pressure, read from made-up trees of /proc and /sys. */
#include "os/os.h"

#include "tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PSI(some, full) \
    "some avg10=1.50 avg60=0.20 avg300=0.00 total=" some "\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=" full "\n"
#define EVENTS(high, max) "low 1000\nhigh " high "\nmax " max "\noom 500\noom_kill 200\noom_group_kill 0\n"

static struct os_pressure look(void)
{
    struct os_pressure p;
    memset(&p, 0xa5, sizeof p); /* everything is set, whatever there is */
    os_pressure_at(tree_root, &p);
    return p;
}

static void test_nothing(void **state)
{
    struct os_pressure p = look();
    assert_false(p.has_stall);
    assert_int_equal(p.stall_ns, 0);
    assert_false(p.has_events);
    assert_int_equal(p.events, 0);
}

static void test_machine(void **state)
{
    tree_put("/proc/pressure/memory", PSI("69449234", "5"));
    struct os_pressure p = look();
    assert_true(p.has_stall);
    assert_int_equal(p.stall_ns, 69449234000);
    assert_false(p.has_events);
    tree_put("/proc/pressure/memory", PSI("9000000000000", "5")); /* a hundred days */
    assert_int_equal(look().stall_ns, (uint64_t)9000000000000000);
}

static void test_v2(void **state)
{
    tree_put("/proc/pressure/memory", PSI("100", "5"));
    tree_put("/proc/self/mountinfo", MOUNT_ROOT MOUNT_V2);
    tree_put("/proc/self/cgroup", "0::/user.slice/app.scope\n");
    tree_put("/sys/fs/cgroup/user.slice/memory.pressure", PSI("7000", "6"));
    assert_int_equal(look().stall_ns, 100000); /* the own group has none: the machine's, not a parent's */
    tree_put("/sys/fs/cgroup/user.slice/app.scope/memory.pressure", PSI("30", "6"));
    assert_int_equal(look().stall_ns, 30000);
    assert_false(look().has_events);
    tree_put("/sys/fs/cgroup/user.slice/app.scope/memory.events", EVENTS("2", "30"));
    struct os_pressure p = look();
    assert_true(p.has_events);
    assert_int_equal(p.events, 32);
    /* A level's own count is taken where the kernel keeps it. */
    tree_put("/sys/fs/cgroup/user.slice/memory.events", EVENTS("999", "999"));
    tree_put("/sys/fs/cgroup/user.slice/memory.events.local", EVENTS("400", "0"));
    assert_int_equal(look().events, 432);
    tree_put("/sys/fs/cgroup/user.slice/app.scope/memory.events.local", EVENTS("0", "0"));
    assert_int_equal(look().events, 400);
    tree_put("/sys/fs/cgroup/other/memory.events.local", EVENTS("7", "7")); /* not on the way up */
    assert_int_equal(look().events, 400);
}

/* A file that is there and refused, or says something else: psi=0, a kernel of the future. */
static void test_v2_rubbish(void **state)
{
    tree_put("/proc/pressure/memory", PSI("100", "5"));
    tree_put("/proc/self/mountinfo", MOUNT_V2);
    tree_put("/proc/self/cgroup", "0::/x\n");
    const char *rubbish[] = {"",
                             "\n",
                             "some\n",
                             "some total=\n",
                             "some avg10=0.00 total=twelve\n",
                             "full total=77\n",
                             "someone avg10=0.00 total=3\n"};
    for (size_t i = 0; i < sizeof rubbish / sizeof *rubbish; i++) {
        tree_put("/sys/fs/cgroup/x/memory.pressure", rubbish[i]);
        assert_int_equal(look().stall_ns, 100000);
        tree_put("/sys/fs/cgroup/x/memory.events.local", rubbish[i]);
        assert_false(look().has_events);
    }
    tree_put("/sys/fs/cgroup/x/memory.events", "maximum 5\nmax 3\n"); /* one of the two is enough */
    assert_true(look().has_events);
    assert_int_equal(look().events, 3);
    tree_put("/proc/pressure/memory", "rubbish");
    assert_false(look().has_stall);
}

static void test_v2_namespace(void **state)
{
    tree_put("/proc/self/mountinfo", MOUNT_V2);
    tree_put("/proc/self/cgroup", "0::/\n");
    tree_put("/sys/fs/cgroup/memory.pressure", PSI("12", "1"));
    tree_put("/sys/fs/cgroup/memory.events.local", EVENTS("1", "2"));
    struct os_pressure p = look();
    assert_int_equal(p.stall_ns, 12000);
    assert_int_equal(p.events, 3);
}

static void test_v1(void **state)
{
    tree_put("/proc/pressure/memory", PSI("100", "5"));
    tree_put("/proc/self/mountinfo", MOUNT_ROOT MOUNT_V1_CPU MOUNT_V1_MEMORY);
    tree_put("/proc/self/cgroup", "12:cpu,cpuacct:/other\n5:memory:/a/b\n");
    assert_false(look().has_events);
    tree_put("/sys/fs/cgroup/memory/memory.failcnt", "0\n");
    assert_true(look().has_events);
    tree_put("/sys/fs/cgroup/memory/a/memory.failcnt", "40\n");
    tree_put("/sys/fs/cgroup/memory/a/b/memory.failcnt", "2\n");
    tree_put("/sys/fs/cgroup/memory/a/c/memory.failcnt", "900\n");
    struct os_pressure p = look();
    assert_int_equal(p.events, 42);
    assert_int_equal(p.stall_ns, 100000);
}

static void test_hybrid(void **state)
{
    tree_put("/proc/pressure/memory", PSI("100", "5"));
    tree_put("/proc/self/mountinfo", MOUNT_V1_MEMORY "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    tree_put("/proc/self/cgroup", "4:memory:/job\n0::/job\n");
    tree_put("/sys/fs/cgroup/memory/job/memory.failcnt", "5\n");
    tree_put("/sys/fs/cgroup/unified/job/memory.pressure", PSI("8", "5")); /* without a memory controller too */
    struct os_pressure p = look();
    assert_int_equal(p.events, 5);
    assert_int_equal(p.stall_ns, 8000);
}

/* The real machine, directly and through the table: counters do not go back. */
static void test_here(void **state)
{
    const struct os_calls *os = os_system();
    struct os_pressure a, b;
    os_pressure(&a);
    os->pressure(os->user, &b);
    assert_int_equal(a.has_stall, b.has_stall);
    assert_int_equal(a.has_events, b.has_events);
    assert_true(b.stall_ns >= a.stall_ns && b.events >= a.events);
    struct os_memory m, n;
    os_memory(&m);
    os->memory(os->user, &n);
    assert_int_equal(m.total_bytes, n.total_bytes);
    assert_int_equal(m.cgroup_limit_bytes, n.cgroup_limit_bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_TREE(test_nothing),      WITH_TREE(test_machine), WITH_TREE(test_v2),     WITH_TREE(test_v2_rubbish),
        WITH_TREE(test_v2_namespace), WITH_TREE(test_v1),      WITH_TREE(test_hybrid), cmocka_unit_test(test_here),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
