/* How much memory there is and how much of it this process may use. */
#include "os/linux/linux.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define CAP_IPC_LOCK_BIT 14 /* linux/capability.h */

/* cgroup v1 writes "no limit" as the largest multiple of a page below 2^63; nobody has this much memory. */
#define LIMIT_BYTES_MAX ((uint64_t)1 << 60)

/* The value of a "Name:   123 kB" line in bytes. */
static bool kib_of(const char *line, const char *name, uint64_t *bytes)
{
    const size_t n = strlen(name);
    uint64_t kib = 0;
    if (strncmp(line, name, n) != 0 || line[n] != ':' || sscanf(line + n + 1, "%" SCNu64, &kib) != 1) return false;
    *bytes = kib * 1024;
    return true;
}

static bool read_kib(const char *path, const char *name, uint64_t *bytes)
{
    FILE *f = fopen(path, "re");
    if (!f) return false;
    char line[256];
    bool found = false;
    while (!found && fgets(line, sizeof line, f)) found = kib_of(line, name, bytes);
    fclose(f);
    return found;
}

static bool can_lock(const char *root)
{
    char path[LINUX_PATH_BYTES];
    snprintf(path, sizeof path, "%s/proc/self/status", root);
    FILE *f = fopen(path, "re");
    if (!f) return false;
    char line[256];
    uint64_t effective = 0;
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "CapEff: %" SCNx64, &effective) == 1) break;
    fclose(f);
    return effective >> CAP_IPC_LOCK_BIT & 1;
}

/* What one group uses, without the page cache that the kernel would drop before it refuses anything. */
static uint64_t group_used(const struct linux_cgroup *c)
{
    uint64_t used = 0, cache = 0;
    if (!linux_cgroup_number(c->group, c->v2 ? "memory.current" : "memory.usage_in_bytes", &used)) return 0;
    linux_cgroup_stat(c->group, "memory.stat", c->v2 ? "inactive_file" : "total_inactive_file", &cache);
    return cache < used ? used - cache : 0;
}

static bool group_limit(const struct linux_cgroup *c, bool leaf, uint64_t *limit)
{
    /* memory.high is a limit too: above it the kernel slows the group down until it is useless. The sum that v1 keeps
     * over all levels also knows of those that are mounted out of sight. */
    const char *v2[] = {"memory.max", "memory.high"};
    uint64_t least = UINT64_MAX, value;
    if (c->v2) {
        for (unsigned i = 0; i < 2; i++)
            if (linux_cgroup_number(c->group, v2[i], &value) && value < least) least = value;
    } else {
        if (linux_cgroup_number(c->group, "memory.limit_in_bytes", &value)) least = value;
        if (leaf && linux_cgroup_stat(c->group, "memory.stat", "hierarchical_memory_limit", &value) && value < least)
            least = value;
    }
    *limit = least;
    return least < LIMIT_BYTES_MAX;
}

static void look_at_groups(const char *root, struct os_memory *out)
{
    struct linux_cgroup groups[LINUX_CGROUPS_MAX];
    unsigned n = linux_cgroups(root, "memory", groups);
    for (unsigned i = 0; i < n; i++) {
        struct linux_cgroup *c = &groups[i];
        bool leaf = true;
        do {
            uint64_t limit;
            if (group_limit(c, leaf, &limit)) {
                uint64_t used = group_used(c);
                uint64_t room = used < limit ? limit - used : 0;
                if (room < out->cgroup_room_bytes) out->cgroup_room_bytes = room;
                /* v1's sum makes the leaf as tight as the group above that set it; the higher one counts all users. */
                if (limit <= out->cgroup_limit_bytes) {
                    out->cgroup_limit_bytes = limit;
                    out->cgroup_used_bytes = used;
                    snprintf(out->cgroup_path, sizeof out->cgroup_path, "%.*s", (int)sizeof out->cgroup_path - 1,
                             c->group + strlen(root));
                }
            }
            leaf = false;
        } while (linux_cgroup_up(c));
    }
}

void os_memory_at(const char *root, struct os_memory *out)
{
    *out = (struct os_memory){.cgroup_limit_bytes = UINT64_MAX, .cgroup_room_bytes = UINT64_MAX};
    char path[LINUX_PATH_BYTES];
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    read_kib(path, "MemTotal", &out->total_bytes);
    if (!read_kib(path, "MemAvailable", &out->available_bytes)) { /* before 3.14 */
        uint64_t free_bytes = 0, cached_bytes = 0;
        read_kib(path, "MemFree", &free_bytes);
        read_kib(path, "Cached", &cached_bytes);
        out->available_bytes = free_bytes + cached_bytes;
    }
    uint64_t peak;
    os_resident_at(root, &out->own_bytes, &peak);
    struct rlimit lock;
    out->memlock_bytes = UINT64_MAX;
    if (getrlimit(RLIMIT_MEMLOCK, &lock) == 0 && lock.rlim_cur != RLIM_INFINITY) out->memlock_bytes = lock.rlim_cur;
    out->can_ipc_lock = can_lock(root);
    look_at_groups(root, out);
}

void os_memory(struct os_memory *out) { os_memory_at("", out); }

void linux_memory(void *user, struct os_memory *out) { os_memory_at("", out); }

void os_resident_at(const char *root, uint64_t *bytes, uint64_t *peak_bytes)
{
    char path[LINUX_PATH_BYTES], line[256];
    bool now = false, peak = false; /* some kernels say one of them alone */
    *bytes = *peak_bytes = 0;
    snprintf(path, sizeof path, "%s/proc/self/status", root);
    FILE *f = fopen(path, "re");
    if (!f) return;
    while (!(now && peak) && fgets(line, sizeof line, f)) {
        now = now || kib_of(line, "VmRSS", bytes);
        peak = peak || kib_of(line, "VmHWM", peak_bytes);
    }
    fclose(f);
}

void os_resident(uint64_t *bytes, uint64_t *peak_bytes) { os_resident_at("", bytes, peak_bytes); }

uint64_t os_process_bytes_at(const char *root)
{
    static const char *const names[] = {"VmRSS", "RssFile", "VmExe", "VmLib"};
    char path[LINUX_PATH_BYTES], line[256];
    uint64_t all = 0, file = 0, code = 0, library = 0, *const values[] = {&all, &file, &code, &library};
    snprintf(path, sizeof path, "%s/proc/self/status", root);
    FILE *f = fopen(path, "re");
    if (!f) return 0;
    while (fgets(line, sizeof line, f))
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) kib_of(line, names[i], values[i]);
    fclose(f);
    if (!file) file = code + library < all ? code + library : all; /* before 4.5 */
    const uint64_t whole = (code + library) / 3 * 4;
    return all - file + (whole > file ? whole : file);
}

uint64_t os_process_bytes(void) { return os_process_bytes_at(""); }
