/* Whether memory is short: two counters of the kernel.
 *
 * Pressure stall information ("some avg10=... total=MICROSECONDS", Documentation/accounting/psi.rst) counts the time in
 * which at least one task waited for memory. The file of the own group hears of every such wait of its tasks, whichever
 * level's limit (or the machine) caused it, so no other level needs to be asked. A kernel may know the file and refuse
 * to read it (psi=0, cgroup.pressure=0).
 *
 * A group's events say how often it reached its limit. In the unified hierarchy memory.events of a level contains those
 * of all groups below, siblings that have nothing to do with this process among them; memory.events.local (Linux 5.2)
 * counts the limit of that level alone, which is what concerns everybody below it. */
#include "os/linux/linux.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool read_stall(const char *path, uint64_t *ns)
{
    FILE *f = fopen(path, "re");
    if (!f) return false;
    char line[256];
    uint64_t us = 0;
    bool found = false;
    while (!found && fgets(line, sizeof line, f)) {
        const char *total = strncmp(line, "some ", 5) == 0 ? strstr(line, " total=") : NULL;
        found = total && sscanf(total, " total=%" SCNu64, &us) == 1;
    }
    fclose(f);
    if (found) *ns = us * 1000;
    return found;
}

static bool add_stat(const struct linux_cgroup *c, const char *file, const char *key, uint64_t *sum)
{
    uint64_t value;
    if (!linux_cgroup_stat(c->group, file, key, &value)) return false;
    *sum += value;
    return true;
}

/* Adds what one level counted. False: it counts nothing. */
static bool add_events(const struct linux_cgroup *c, uint64_t *sum)
{
    uint64_t value;
    if (!c->v2) {
        if (!linux_cgroup_number(c->group, "memory.failcnt", &value)) return false;
        *sum += value;
        return true;
    }
    const char *files[] = {"memory.events.local", "memory.events"};
    for (unsigned i = 0; i < 2; i++) {
        bool high = add_stat(c, files[i], "high", sum);
        bool max = add_stat(c, files[i], "max", sum);
        if (high || max) return true;
    }
    return false;
}

void os_pressure_at(const char *root, struct os_pressure *out)
{
    *out = (struct os_pressure){0};
    char path[LINUX_PATH_BYTES + 64];
    struct linux_cgroup groups[LINUX_CGROUPS_MAX];
    unsigned n = linux_cgroups(root, "memory", groups);
    for (unsigned i = 0; i < n; i++) {
        struct linux_cgroup *c = &groups[i];
        if (c->v2) {
            snprintf(path, sizeof path, "%s/memory.pressure", c->group);
            out->has_stall = read_stall(path, &out->stall_ns);
        }
        do {
            if (add_events(c, &out->events)) out->has_events = true;
        } while (linux_cgroup_up(c));
    }
    if (!out->has_stall) {
        snprintf(path, sizeof path, "%s/proc/pressure/memory", root);
        out->has_stall = read_stall(path, &out->stall_ns);
    }
}

void os_pressure(struct os_pressure *out) { os_pressure_at("", out); }

void linux_pressure(void *user, struct os_pressure *out) { os_pressure_at("", out); }
