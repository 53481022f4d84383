/* Geometry of the catalog: classes, regions, extents, keys, and every refusal. */
#include "expert/catalog.h"
#include "os/os.h"
#include "shape.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct expert_catalog *build(const struct expert_layer *layers, uint32_t n, uint32_t align)
{
    struct expert_catalog *c = NULL;
    struct sluice_error err = {0};
    assert_int_equal(expert_catalog_create(layers, n, align, &c, &err), SLUICE_OK);
    return c;
}

static void test_classes_by_part_sizes(void **state)
{
    (void)state;
    uint64_t at = 96;
    struct expert_layer layers[6] = {
        shape_layer(8, 5, 1000, 1000, 2000, 0, &at),
        {.n_expert = 0}, /* dense */
        shape_layer(16, 4, 1000, 1000, 3000, 1, &at),
        shape_layer(8, 3, 1000, 1000, 2000, 0, &at),
        shape_layer(8, 3, 1000, 2000, 1000, 0, &at), /* same sum, other parts */
        {.n_expert = 4, .n_used = 1, .n_parts = 1, .n_parts_first = 1, .part = {{0, 0, 4000, 4000}}},
    };
    struct expert_catalog *c = build(layers, 6, 4096);
    assert_int_equal(expert_catalog_n_layers(c), 6);
    assert_int_equal(expert_catalog_n_classes(c), 4);
    assert_int_equal(expert_catalog_class_of(c, 0), 0);
    assert_int_equal(expert_catalog_class_of(c, 2), 1);
    assert_int_equal(expert_catalog_class_of(c, 3), 0);
    assert_int_equal(expert_catalog_class_of(c, 4), 2);
    assert_int_equal(expert_catalog_class_of(c, 5), 3);
    assert_int_equal(expert_catalog_class(c, 0)->k_max, 5);
    assert_int_equal(expert_catalog_class(c, 0)->n_experts, 16);
    assert_int_equal(expert_catalog_class(c, 0)->expert_bytes, 4000);
    assert_int_equal(expert_catalog_n_experts(c), 44);
    assert_int_equal(expert_catalog_total_bytes(c), 16 * 4000 + 16 * 5000 + 8 * 4000 + 4 * 4000);
    assert_int_equal(expert_catalog_token_bytes(c), 5 * 4000 + 4 * 5000 + 3 * 4000 + 3 * 4000 + 4000);
    assert_int_equal(expert_catalog_common_class(c), 0);
    assert_true(expert_catalog_memory_bytes(c) > 0);
    expert_catalog_destroy(c);
}

/* Whatever the offset of an expert, its direct read stays inside the part's region. */
static void test_regions_hold_the_worst_slack(void **state)
{
    (void)state;
    static const uint32_t aligns[] = {1, 32, 512, 4096, 65536};
    struct shape_random r = {1};
    for (size_t a = 0; a < sizeof aligns / sizeof *aligns; a++)
        for (int round = 0; round < 200; round++) {
            uint64_t at = 0, align = aligns[a];
            struct expert_layer l = shape_layer(3, 2, 1 + shape_below(&r, 9000), 1 + shape_below(&r, 9000),
                                                1 + shape_below(&r, 9000), 0, &at);
            struct expert_catalog *c = build(&l, 1, (uint32_t)align);
            const struct expert_class *k = expert_catalog_class(c, 0);
            assert_int_equal(k->slot_bytes % align, 0);
            assert_int_equal(k->slot_bytes % os_page_bytes(), 0);
            for (uint32_t p = 0; p < 3; p++) {
                uint64_t end = p + 1 < 3 ? k->part_at[p + 1] : k->slot_bytes;
                uint64_t worst = (l.part[p].bytes + 2 * (align - 1)) / align * align; /* head align - 1, tail up */
                assert_int_equal(k->part_at[p] % align, 0);
                assert_true(k->part_at[p] + worst <= end);
                for (uint64_t head = 0; head<align; head += align> 64 ? 32 : 1)
                    assert_true((head + l.part[p].bytes + align - 1) / align * align <= worst);
            }
            assert_true(k->slot_bytes < l.part[0].bytes + l.part[1].bytes + l.part[2].bytes + 3 * (2 * align + 64) +
                                            align + os_page_bytes());
            expert_catalog_destroy(c);
        }
}

static void test_extents_and_keys(void **state)
{
    (void)state;
    struct expert_extent each[3][3];
    for (uint32_t e = 0; e < 3; e++)
        for (uint32_t p = 0; p < 3; p++)
            each[e][p] = (struct expert_extent){.file = e, .bytes = 100 + p, .offset = 1000 * e + 32 * p};
    uint64_t at = 64;
    struct expert_layer layers[4] = {
        {.n_expert = 0},
        shape_layer(5, 2, 96, 96, 64, 7, &at),
        {.n_expert = 0},
        {.n_expert = 3,
         .n_used = 1,
         .n_parts = 3,
         .n_parts_first = 2,
         .part = {{.bytes = 100}, {.bytes = 101}, {.bytes = 102}},
         .each = &each[0][0]},
    };
    struct expert_catalog *c = build(layers, 4, 512);
    struct expert_extent want[3][3];
    memcpy(want, each, sizeof want);
    memset(each, 0xff, sizeof each); /* the catalog keeps a copy */
    for (uint32_t e = 0; e < 3; e++)
        for (uint32_t p = 0; p < 3; p++) {
            struct expert_extent x = expert_catalog_extent(c, 3, e, p);
            assert_int_equal(x.file, want[e][p].file);
            assert_int_equal(x.bytes, want[e][p].bytes);
            assert_int_equal(x.offset, want[e][p].offset);
        }
    struct expert_extent x = expert_catalog_extent(c, 1, 4, 1);
    assert_int_equal(x.file, 7);
    assert_int_equal(x.bytes, 96);
    assert_int_equal(x.offset, layers[1].part[1].offset + 4 * 96);

    uint32_t key = 0;
    for (uint32_t l = 0; l < 4; l++)
        for (uint32_t e = 0; e < layers[l].n_expert; e++, key++) {
            uint32_t layer = 99, expert = 99;
            assert_int_equal(expert_catalog_key(c, l, e), key);
            expert_catalog_unkey(c, key, &layer, &expert);
            assert_int_equal(layer, l);
            assert_int_equal(expert, e);
        }
    assert_int_equal(key, expert_catalog_n_experts(c));
    expert_catalog_destroy(c);
}

static void test_dense_model(void **state)
{
    (void)state;
    struct expert_layer layers[2] = {{.n_expert = 0}, {.n_expert = 0}};
    struct expert_catalog *c = build(layers, 2, 4096);
    assert_int_equal(expert_catalog_n_classes(c), 0);
    assert_int_equal(expert_catalog_n_experts(c), 0);
    assert_int_equal(expert_catalog_total_bytes(c), 0);
    expert_catalog_destroy(c);
    c = build(NULL, 0, 1);
    expert_catalog_destroy(c);
}

static void refuse(const struct expert_layer *layers, uint32_t n, const char *text)
{
    struct expert_catalog *c = (void *)1;
    struct sluice_error err = {0};
    assert_int_equal(expert_catalog_create(layers, n, 4096, &c, &err), SLUICE_ERR_MODEL);
    assert_null(c);
    if (!strstr(err.message, text)) fail_msg("'%s' does not say '%s'", err.message, text);
}

static void test_refusals(void **state)
{
    (void)state;
    uint64_t at = 0;
    struct expert_layer good = shape_layer(4, 2, 100, 100, 100, 0, &at), bad;
    bad = good, bad.n_expert = EXPERT_COUNT_MAX + 1, refuse(&bad, 1, "4097 experts");
    bad = good, bad.n_used = 0, refuse(&bad, 1, "uses 0 of 4");
    bad = good, bad.n_used = 5, refuse(&bad, 1, "uses 5 of 4");
    bad = good, bad.n_parts = 0, refuse(&bad, 1, "0 parts");
    bad = good, bad.n_parts = EXPERT_PARTS_MAX + 1, refuse(&bad, 1, "5 parts");
    bad = good, bad.part[1].bytes = 0, refuse(&bad, 1, "part 1 of an expert is empty");
    bad = good, bad.part[2].stride_bytes = 99, refuse(&bad, 1, "99 bytes apart");
    bad = good, bad.part[2].stride_bytes = UINT64_MAX / 2, refuse(&bad, 1, "bytes apart");
    bad = good, bad.part[0].offset = UINT64_MAX - 5, refuse(&bad, 1, "which no file has");
    bad = good, bad.part[0].file = 1024, refuse(&bad, 1, "file number 1024");
    bad = good;
    for (int p = 0; p < 3; p++) bad.part[p].bytes = UINT32_MAX, bad.part[p].stride_bytes = UINT32_MAX;
    refuse(&bad, 1, "one expert needs more than");

    struct expert_extent each[4 * 3];
    for (int i = 0; i < 12; i++) each[i] = (struct expert_extent){0, 100, 0};
    each[7].bytes = 101;
    bad = good, bad.each = each, refuse(&bad, 1, "expert 2, part 1 has 101 bytes");

    struct expert_layer *many = calloc(EXPERT_LAYERS_MAX + 1, sizeof *many);
    assert_non_null(many);
    refuse(many, EXPERT_LAYERS_MAX + 1, "1025 layers");
    for (uint32_t i = 0; i <= EXPERT_CLASSES_MAX; i++) many[i] = shape_layer(1, 1, 32 + i, 32, 32, 0, &at);
    refuse(many, EXPERT_CLASSES_MAX + 1, "more than 64 different");
    struct expert_catalog *c = build(many, EXPERT_CLASSES_MAX, 4096);
    expert_catalog_destroy(c);
    free(many);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_classes_by_part_sizes),
        cmocka_unit_test(test_regions_hold_the_worst_slack),
        cmocka_unit_test(test_extents_and_keys),
        cmocka_unit_test(test_dense_model),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
