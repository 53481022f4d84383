/* Made-up trees of /proc and /sys, for what reads the machine's limits. */
#ifndef TESTS_OS_TREE_H
#define TESTS_OS_TREE_H

extern char tree_root[256];

/* Set-up and tear-down of a test: a new folder with a machine of 16 GB in it, without control groups. */
int tree_begin(void **state);
int tree_end(void **state);
/* Writes a file, with the folders above it. */
void tree_put(const char *path, const char *text);

#define WITH_TREE(name) cmocka_unit_test_setup_teardown(name, tree_begin, tree_end)

/* Lines of /proc/self/mountinfo. */
#define MOUNT_V2 "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
#define MOUNT_V1_MEMORY "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
#define MOUNT_V1_CPU "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
#define MOUNT_ROOT "27 1 254:0 / / rw - ext4 /dev/vda rw,lowerdir=/memory\n"

#endif
