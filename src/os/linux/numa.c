/* Machines with several memory nodes. All cores read all weights, so memory on the node of whoever touched it first
 * would leave the other nodes' controllers idle: large reservations are spread over the nodes, page by page. A policy
 * that the user has set (numactl) stays. With one node nothing is done. */
#include "os/linux/linux.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

/* linux/mempolicy.h */
#define POLICY_DEFAULT 0
#define POLICY_INTERLEAVE 3

#define NODES_MAX 64

/* "0", "0-1", "0,2-3": bits of the nodes below 64; 0: not a list of nodes. */
static uint64_t parse_nodes(const char *list)
{
    uint64_t nodes = 0;
    for (const char *at = list;;) {
        char *end;
        const unsigned long first = strtoul(at, &end, 10);
        unsigned long last = first;
        if (end == at || *at < '0' || *at > '9') return 0;
        if (*end == '-') {
            at = end + 1;
            last = strtoul(at, &end, 10);
            if (end == at || *at < '0' || *at > '9' || last < first) return 0;
        }
        for (unsigned long n = first; n <= last && n < NODES_MAX; n++) nodes |= UINT64_C(1) << n;
        if (*end == '\0' || *end == '\n') return nodes;
        if (*end != ',') return 0;
        at = end + 1;
    }
}

uint64_t os_numa_nodes_at(const char *root)
{
    static const char *const files[] = {"has_memory", "online"};
    uint64_t nodes = 0;
    for (size_t i = 0; i < sizeof files / sizeof files[0] && !nodes; i++) {
        char path[LINUX_PATH_BYTES], list[512];
        snprintf(path, sizeof path, "%s/sys/devices/system/node/%s", root, files[i]);
        FILE *f = fopen(path, "re");
        if (!f) continue;
        if (fgets(list, sizeof list, f)) nodes = parse_nodes(list);
        fclose(f);
    }
    return nodes;
}

int os_numa_spread(void *at, size_t bytes, uint64_t nodes)
{
#if defined(SYS_mbind) && defined(SYS_get_mempolicy)
    int mode = POLICY_DEFAULT;
    unsigned long mask[NODES_MAX / (8 * sizeof(unsigned long))];
    for (size_t i = 0; i < sizeof mask / sizeof mask[0]; i++)
        mask[i] = (unsigned long)(nodes >> (i * 8 * sizeof mask[0]) % NODES_MAX);
    if (syscall(SYS_get_mempolicy, &mode, NULL, 0UL, NULL, 0UL)) return -errno;
    if (mode != POLICY_DEFAULT) return 0;
    /* The kernel counts one bit less than it is told. */
    return syscall(SYS_mbind, at, bytes, POLICY_INTERLEAVE, mask, NODES_MAX + 1UL, 0U) ? -errno : 0;
#else
    return -ENOSYS;
#endif
}

void linux_spread(void *at, size_t bytes)
{
    const uint64_t nodes = os_numa_nodes_at("");
    if (nodes & (nodes - 1)) os_numa_spread(at, bytes, nodes); /* a wish: seccomp may forbid it */
}
