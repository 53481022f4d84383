#include "tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

char tree_root[256];

void tree_put(const char *path, const char *text)
{
    char full[1024];
    snprintf(full, sizeof full, "%s%s", tree_root, path);
    for (char *slash = strchr(full + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(full, 0755);
        *slash = '/';
    }
    FILE *f = fopen(full, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

int tree_begin(void **state)
{
    const char *dir = getenv("TMPDIR");
    snprintf(tree_root, sizeof tree_root, "%s/sluice-os-XXXXXX", dir && dir[0] ? dir : "/tmp");
    if (!mkdtemp(tree_root)) return 1;
    tree_put("/proc/meminfo",
             "MemTotal:       16000000 kB\nMemFree:         1000000 kB\nMemAvailable:    9000000 kB\n");
    tree_put("/proc/self/status", "Name:\tx\nCapPrm:\t0000000000000000\nCapEff:\t000001ffffffbfff\n");
    return 0;
}

int tree_end(void **state)
{
    char command[512];
    snprintf(command, sizeof command, "rm -rf '%s'", tree_root);
    return system(command);
}
