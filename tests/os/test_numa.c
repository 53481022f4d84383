/* Lists of memory nodes as the kernel writes them, and memory that is spread over the nodes there are. */
#include "os/os.h"
#include "tree.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define HAS_MEMORY "/sys/devices/system/node/has_memory"
#define ONLINE "/sys/devices/system/node/online"

static void test_lists(void **state)
{
    static const struct {
        const char *list;
        uint64_t nodes;
    } cases[] = {
        {"0\n", 1},           {"0-1\n", 3},
        {"0,2-3\n", 13},      {"0-3,8,10-11\n", 0xd0f},
        {"63\n", 1ull << 63}, {"1,60-70\n", 0xf000000000000002},
        {"64-70\n", 0},       {"\n", 0},
        {"0-\n", 0},          {"-1\n", 0},
        {"1-0\n", 0},         {"0,,1\n", 0},
        {"0 1\n", 0},         {"node0\n", 0},
        {"0-1", 3},           {"0-4294967295\n", UINT64_MAX},
    };
    (void)state;
    assert_int_equal(os_numa_nodes_at(tree_root), 0); /* no such files */
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tree_put(HAS_MEMORY, cases[i].list);
        assert_int_equal(os_numa_nodes_at(tree_root), cases[i].nodes);
    }
}

/* Nodes with processors alone are in the one list and not in the other. */
static void test_nodes_with_memory(void **state)
{
    (void)state;
    tree_put(ONLINE, "0-3\n");
    assert_int_equal(os_numa_nodes_at(tree_root), 15);
    tree_put(HAS_MEMORY, "0,2\n");
    assert_int_equal(os_numa_nodes_at(tree_root), 5);
}

static void test_spread(void **state)
{
    const struct os_calls *os = os_system();
    const size_t bytes = (size_t)8 << 20;
    const uint64_t nodes = os_numa_nodes_at("");
    (void)state;
    if (!nodes) skip(); /* a kernel that knows of no nodes */
    uint8_t *at = os->reserve(os->user, bytes);
    assert_non_null(at);
    const int rc = os_numa_spread(at, bytes, nodes);
    if (rc == -ENOSYS || rc == -EPERM) {
        os->release(os->user, at, bytes);
        skip(); /* seccomp */
    }
    assert_int_equal(rc, 0);
    assert_int_equal(os->commit(os->user, at, bytes), 0);
    memset(at, 1, bytes);
    assert_int_equal(os->decommit(os->user, at, bytes), 0);
    os->release(os->user, at, bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {WITH_TREE(test_lists), WITH_TREE(test_nodes_with_memory),
                                       cmocka_unit_test(test_spread)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
