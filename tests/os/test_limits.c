/* Memory limits and processor quotas, read from made-up trees of /proc and /sys. */
#include "os/os.h"

#include "tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define GIB ((uint64_t)1 << 30)

static struct os_memory look(void)
{
    struct os_memory m;
    os_memory_at(tree_root, &m);
    return m;
}

static void test_machine(void **state)
{
    struct os_memory m = look();
    assert_int_equal(m.total_bytes, (uint64_t)16000000 * 1024);
    assert_int_equal(m.available_bytes, (uint64_t)9000000 * 1024);
    assert_int_equal(m.cgroup_limit_bytes, UINT64_MAX);
    assert_int_equal(m.cgroup_room_bytes, UINT64_MAX);
    assert_string_equal(m.cgroup_path, "");
    assert_false(m.can_ipc_lock);
    assert_int_equal(m.own_bytes, 0);
    tree_put("/proc/self/status", "VmRSS:\t   200 kB\nCapEff:\t0000000000004000\n");
    assert_true(look().can_ipc_lock);
    assert_int_equal(look().own_bytes, 200 * 1024);
    tree_put("/proc/meminfo", "MemTotal: 100 kB\nMemFree: 10 kB\nCached: 5 kB\n"); /* no MemAvailable */
    assert_int_equal(look().available_bytes, 15 * 1024);
}

static void test_v2(void **state)
{
    tree_put("/proc/self/mountinfo", MOUNT_ROOT MOUNT_V2);
    tree_put("/proc/self/cgroup", "0::/user.slice/app.scope\n");
    tree_put("/sys/fs/cgroup/user.slice/app.scope/memory.max", "max\n");
    tree_put("/sys/fs/cgroup/user.slice/app.scope/memory.high", "max\n");
    tree_put("/sys/fs/cgroup/user.slice/app.scope/memory.current", "1073741824\n");
    assert_int_equal(look().cgroup_limit_bytes, UINT64_MAX);
    /* The limit of a group above counts, with that group's use. */
    tree_put("/sys/fs/cgroup/user.slice/memory.max", "8589934592\n");
    tree_put("/sys/fs/cgroup/user.slice/memory.current", "5368709120\n");
    tree_put("/sys/fs/cgroup/user.slice/memory.stat",
             "anon 4\nfile 7\nactive_file 5\ninactive_file 1073741824\nslab 9\n");
    struct os_memory m = look();
    assert_int_equal(m.cgroup_limit_bytes, 8 * GIB);
    assert_int_equal(m.cgroup_used_bytes, 4 * GIB); /* without the page cache that can be dropped */
    assert_int_equal(m.cgroup_room_bytes, 4 * GIB);
    assert_string_equal(m.cgroup_path, "/sys/fs/cgroup/user.slice");
    /* A smaller one below it wins, though the one above has less room. */
    tree_put("/sys/fs/cgroup/user.slice/app.scope/memory.max", "6442450944\n");
    m = look();
    assert_int_equal(m.cgroup_limit_bytes, 6 * GIB);
    assert_int_equal(m.cgroup_used_bytes, GIB);
    assert_int_equal(m.cgroup_room_bytes, 4 * GIB);
    assert_string_equal(m.cgroup_path, "/sys/fs/cgroup/user.slice/app.scope");
    tree_put("/sys/fs/cgroup/user.slice/app.scope/memory.high", "2147483648\n");
    assert_int_equal(look().cgroup_limit_bytes, 2 * GIB);
    tree_put("/sys/fs/cgroup/user.slice/app.scope/memory.current", "9663676416\n"); /* above its limit */
    assert_int_equal(look().cgroup_room_bytes, 0);
}

/* In a container with its own cgroup namespace: the group is "/", its files lie at the mount point. */
static void test_v2_namespace(void **state)
{
    tree_put("/proc/self/mountinfo", MOUNT_V2);
    tree_put("/proc/self/cgroup", "0::/\n");
    tree_put("/sys/fs/cgroup/memory.max", "4294967296\n");
    tree_put("/sys/fs/cgroup/memory.current", "1024\n");
    struct os_memory m = look();
    assert_int_equal(m.cgroup_limit_bytes, 4 * GIB);
    assert_int_equal(m.cgroup_used_bytes, 1024);
    assert_string_equal(m.cgroup_path, "/sys/fs/cgroup");
    tree_put("/proc/self/cgroup", "0::/../other\n"); /* moved out of the namespace's root */
    assert_int_equal(look().cgroup_limit_bytes, 4 * GIB);
}

static void test_v1(void **state)
{
    tree_put("/proc/self/mountinfo", MOUNT_ROOT MOUNT_V1_CPU MOUNT_V1_MEMORY);
    tree_put("/proc/self/cgroup", "12:cpu,cpuacct:/other\n5:memory:/a/b\n1:name=systemd:/memory\n");
    tree_put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    tree_put("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "3221225472\n");
    tree_put("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "2147483648\n");
    tree_put("/sys/fs/cgroup/memory/a/memory.stat", "inactive_file 5\ntotal_inactive_file 1073741824\n");
    tree_put("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
    tree_put("/sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", "4096\n");
    struct os_memory m = look();
    assert_int_equal(m.cgroup_limit_bytes, 3 * GIB);
    assert_int_equal(m.cgroup_used_bytes, GIB);
    assert_string_equal(m.cgroup_path, "/sys/fs/cgroup/memory/a");
    /* Limits of levels that cannot be seen, from the kernel's own sum. */
    tree_put("/sys/fs/cgroup/memory/a/b/memory.stat", "hierarchical_memory_limit 1073741824\n");
    m = look();
    assert_int_equal(m.cgroup_limit_bytes, GIB);
    assert_int_equal(m.cgroup_used_bytes, 4096);
    tree_put("/sys/fs/cgroup/memory/a/b/memory.stat", "hierarchical_memory_limit 9223372036854771712\n");
    tree_put("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n");
    assert_int_equal(look().cgroup_limit_bytes, UINT64_MAX);
}

/* A v1 container: the group's name is the host's, the mount shows the subtree, at a path with a blank. */
static void test_v1_container(void **state)
{
    tree_put("/proc/self/mountinfo",
             "35 31 0:32 /docker/abc /sys/fs/cgroup/my\\040memory ro master:1 - cgroup cgroup rw,memory\n");
    tree_put("/proc/self/cgroup", "5:memory:/docker/abc\n");
    tree_put("/sys/fs/cgroup/my memory/memory.limit_in_bytes", "1073741824\n");
    tree_put("/sys/fs/cgroup/my memory/memory.usage_in_bytes", "4096\n");
    struct os_memory m = look();
    assert_int_equal(m.cgroup_limit_bytes, GIB);
    assert_string_equal(m.cgroup_path, "/sys/fs/cgroup/my memory");
    tree_put("/proc/self/cgroup", "5:memory:/docker/abc/inner\n");
    tree_put("/sys/fs/cgroup/my memory/inner/memory.limit_in_bytes", "536870912\n");
    assert_int_equal(look().cgroup_limit_bytes, GIB / 2);
    tree_put("/proc/self/cgroup", "5:memory:/docker/abcdef/inner\n"); /* not below the mount, only spelled alike */
    assert_int_equal(look().cgroup_limit_bytes, GIB);
    tree_put("/proc/self/cgroup", "5:memory:/gone/elsewhere\n");
    assert_int_equal(look().cgroup_limit_bytes, GIB);
}

static void test_hybrid(void **state)
{
    tree_put("/proc/self/mountinfo", MOUNT_V1_MEMORY "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    tree_put("/proc/self/cgroup", "4:memory:/job\n0::/job\n");
    tree_put("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "2147483648\n");
    tree_put("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "1024\n");
    tree_put("/sys/fs/cgroup/unified/job/cgroup.procs", "1\n"); /* no memory controller there */
    assert_int_equal(look().cgroup_limit_bytes, 2 * GIB);
    tree_put("/sys/fs/cgroup/unified/job/memory.max", "1073741824\n");
    struct os_memory m = look();
    assert_int_equal(m.cgroup_limit_bytes, GIB);
    assert_string_equal(m.cgroup_path, "/sys/fs/cgroup/unified/job");
}

static void test_rubbish(void **state)
{
    tree_put("/proc/self/mountinfo", "\n - \n1 2 3\n30 23 0:26 / - cgroup2 cgroup2 rw\n- cgroup2\n" MOUNT_V2);
    tree_put("/proc/self/cgroup", "\n:\n::\n0:\nnonsense\n0::/x\n");
    tree_put("/sys/fs/cgroup/x/memory.max", "twelve\n");
    assert_int_equal(look().cgroup_limit_bytes, UINT64_MAX);
    tree_put("/sys/fs/cgroup/x/memory.max", "");
    assert_int_equal(look().cgroup_limit_bytes, UINT64_MAX);
    tree_put("/sys/fs/cgroup/x/memory.max", "4096\n"); /* no memory.current: nothing used */
    assert_int_equal(look().cgroup_limit_bytes, 4096);
    assert_int_equal(look().cgroup_used_bytes, 0);
    char text[5000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    memcpy(text, "0::/", 4);
    tree_put("/proc/self/cgroup", text); /* too long a path */
    assert_int_equal(look().cgroup_limit_bytes, UINT64_MAX);
    tree_put("/proc/meminfo", "rubbish");
    assert_int_equal(look().total_bytes, 0);
}

static void test_quota(void **state)
{
    assert_int_equal(os_cpu_quota_at(tree_root), 0);
    tree_put("/proc/self/mountinfo", MOUNT_V2);
    tree_put("/proc/self/cgroup", "0::/a/b\n");
    tree_put("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    assert_int_equal(os_cpu_quota_at(tree_root), 0);
    tree_put("/sys/fs/cgroup/a/cpu.max", "250000 100000\n");
    assert_int_equal(os_cpu_quota_at(tree_root), 3);
    tree_put("/sys/fs/cgroup/a/b/cpu.max", "1000 100000\n");
    assert_int_equal(os_cpu_quota_at(tree_root), 1);
    tree_put("/proc/self/mountinfo", MOUNT_V1_CPU MOUNT_V1_MEMORY);
    tree_put("/proc/self/cgroup", "3:cpu,cpuacct:/x\n2:cpuset:/y\n");
    tree_put("/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "-1\n");
    tree_put("/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us", "100000\n");
    assert_int_equal(os_cpu_quota_at(tree_root), 0);
    tree_put("/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "400000\n");
    assert_int_equal(os_cpu_quota_at(tree_root), 4);
}

static void test_auto_percent(void **state)
{
    const uint64_t g = (uint64_t)1 << 30;
    assert_int_equal(os_auto_percent(0), 80);
    assert_int_equal(os_auto_percent(64 * g), 90);
    assert_int_equal(os_auto_percent(2 * g), 90);
    assert_int_equal(os_auto_percent(2 * g - 1), 80);
}

static void test_resident(void **state)
{
    uint64_t now, peak;
    tree_put("/proc/self/status", "Name:\tx\nVmHWM:\t   300 kB\nVmRSS:\t   200 kB\nThreads:\t1\n");
    os_resident_at(tree_root, &now, &peak);
    assert_true(now == 200 * 1024 && peak == 300 * 1024);
    tree_put("/proc/self/status", "Name:\tx\nVmSize:\t900 kB\nVmRSS:\t   200 kB\n"); /* gVisor's */
    os_resident_at(tree_root, &now, &peak);
    assert_true(now == 200 * 1024 && peak == 0);
    os_resident_at("/nowhere", &now, &peak);
    assert_true(now == 0 && peak == 0);
}

static void test_process(void **state)
{
    const char *const path = "/proc/self/status";
    tree_put(path, "VmRSS:\t 9000 kB\nRssAnon:\t 1500 kB\nRssFile:\t 7500 kB\nVmExe:\t 2000 kB\nVmLib:\t 5800 kB\n");
    assert_int_equal(os_process_bytes_at(tree_root), (1500 + 10400) * 1024);
    tree_put(path, "VmRSS:\t 8900 kB\nRssAnon:\t 1500 kB\nRssFile:\t 7400 kB\nVmExe:\t 2000 kB\nVmLib:\t 5800 kB\n");
    assert_int_equal(os_process_bytes_at(tree_root), (1500 + 10400) * 1024); /* whatever has come in */
    tree_put(path, "VmRSS:\t 12500 kB\nRssAnon:\t 1500 kB\nRssFile:\t 11000 kB\nVmExe:\t 2000 kB\nVmLib:\t 5800 kB\n");
    assert_int_equal(os_process_bytes_at(tree_root), 12500 * 1024);           /* but never less than is resident */
    tree_put(path, "VmRSS:\t 9000 kB\nVmExe:\t 2000 kB\nVmLib:\t 5800 kB\n"); /* before 4.5 */
    assert_int_equal(os_process_bytes_at(tree_root), (1200 + 10400) * 1024);
    assert_int_equal(os_process_bytes_at("/nowhere"), 0);
}

static void test_huge_pages(void **state)
{
    const char *const path = "/sys/kernel/mm/transparent_hugepage/enabled";
    assert_false(os_huge_pages_at(tree_root)); /* a kernel without them */
    tree_put(path, "always [madvise] never\n");
    assert_true(os_huge_pages_at(tree_root));
    tree_put(path, "[always] madvise never\n");
    assert_true(os_huge_pages_at(tree_root));
    tree_put(path, "always madvise [never]\n");
    assert_false(os_huge_pages_at(tree_root));
    tree_put(path, "");
    assert_false(os_huge_pages_at(tree_root));
}

/* The real machine: what it says is plausible. */
static void test_here(void **state)
{
    struct os_memory m;
    os_memory(&m);
    assert_true(m.total_bytes > 64 << 20);
    assert_true(m.available_bytes > 0 && m.available_bytes <= m.total_bytes);
    assert_true(m.own_bytes > 0 && m.own_bytes < m.total_bytes);
    assert_true(os_process_bytes() > 0);
    uint64_t now, peak;
    os_resident(&now, &peak);
    assert_true(now > 0 && peak >= now / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_TREE(test_process),     WITH_TREE(test_resident),     cmocka_unit_test(test_auto_percent),
        WITH_TREE(test_machine),     WITH_TREE(test_v2),           WITH_TREE(test_v2_namespace),
        WITH_TREE(test_v1),          WITH_TREE(test_v1_container), WITH_TREE(test_hybrid),
        WITH_TREE(test_rubbish),     WITH_TREE(test_quota),        WITH_TREE(test_huge_pages),
        cmocka_unit_test(test_here),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
