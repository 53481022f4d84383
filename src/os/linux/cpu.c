/* How many processors this process may use, and which instructions they know (cpu_x86.c, cpu_arm.c). */
#include "os/linux/linux.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CPUS_MAX 8192

static unsigned affinity_count(void)
{
    cpu_set_t *set = CPU_ALLOC(CPUS_MAX);
    unsigned n = 0;
    if (set) {
        size_t bytes = CPU_ALLOC_SIZE(CPUS_MAX);
        if (sched_getaffinity(0, bytes, set) == 0) n = (unsigned)CPU_COUNT_S(bytes, set);
        CPU_FREE(set);
    }
    if (n == 0) {
        long online = sysconf(_SC_NPROCESSORS_ONLN);
        n = online > 0 ? (unsigned)online : 1;
    }
    return n;
}

/* quota and period of one group in microseconds; false: no quota. v2 writes both into cpu.max ("max 100000" without a
 * limit), v1 has a file for each and -1 for none. */
static bool group_quota(const struct linux_cgroup *c, uint64_t *quota, uint64_t *period)
{
    if (!c->v2)
        return linux_cgroup_number(c->group, "cpu.cfs_quota_us", quota) &&
               linux_cgroup_number(c->group, "cpu.cfs_period_us", period) && *quota > 0 && *period > 0;
    char path[LINUX_PATH_BYTES + 16];
    snprintf(path, sizeof path, "%s/cpu.max", c->group);
    FILE *f = fopen(path, "re");
    if (!f) return false;
    unsigned long long q = 0, p = 0;
    int n = fscanf(f, "%llu %llu", &q, &p);
    fclose(f);
    *quota = q;
    *period = p;
    return n == 2 && q > 0 && p > 0;
}

unsigned os_cpu_quota_at(const char *root)
{
    struct linux_cgroup groups[LINUX_CGROUPS_MAX];
    unsigned n = linux_cgroups(root, "cpu", groups);
    uint64_t least = 0;
    for (unsigned i = 0; i < n; i++) {
        do {
            uint64_t quota, period;
            if (!group_quota(&groups[i], &quota, &period)) continue;
            uint64_t cpus = quota / period + (quota % period ? 1 : 0);
            if (least == 0 || cpus < least) least = cpus;
        } while (linux_cgroup_up(&groups[i]));
    }
    return least > CPUS_MAX ? CPUS_MAX : (unsigned)least;
}

void os_cpu(struct os_cpu *out)
{
    *out = (struct os_cpu){.name = "unknown"};
    linux_cpu_features(out);
    out->n_threads = affinity_count();
    unsigned quota = os_cpu_quota_at("");
    if (quota && quota < out->n_threads) out->n_threads = quota;
}
