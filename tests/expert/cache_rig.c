#include "cache_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void keep_line(void *user, enum base_log_level level, const char *text)
{
    struct cache_rig *r = user;
    (void)level;
    if (r->n_lines < 16) strncpy(r->lines[r->n_lines++], text, sizeof r->lines[0] - 1);
}

bool rig_logged(const struct cache_rig *r, const char *part)
{
    for (unsigned i = 0; i < r->n_lines; i++)
        if (strstr(r->lines[i], part)) return true;
    return false;
}

static const uint32_t part_bytes[3][3] = {{2976, 2976, 4960}, {1504, 1504, 2016}, {2976, 2976, 9952}};

/* Fills in the layers; `each` is room for the scattered one. Returns the length of the file. */
static uint64_t lay_out(struct cache_rig *r, uint32_t n_classes, struct expert_layer *layers,
                        struct expert_extent *each)
{
    uint64_t at = 32;
    r->n_layers = 0;
    for (uint32_t i = 0; i < RIG_LAYERS; i++) {
        layers[i] = (struct expert_layer){.n_expert = 0};
        if (i == 1) continue; /* dense */
        const uint32_t *bytes = part_bytes[i % n_classes];
        layers[i] = shape_layer(RIG_EXPERTS, RIG_USED, bytes[0], bytes[1], bytes[2], 0, &at);
        at += 32 * (1 + 2 * i);
        r->layers[r->n_layers++] = i;
    }
    struct expert_layer *last = &layers[RIG_LAYERS - 1];
    at = last->part[0].offset;
    for (uint32_t e = 0; e < RIG_EXPERTS; e++)
        for (uint32_t p = 0; p < 3; p++) {
            struct expert_extent *x = &each[(e * 7 % RIG_EXPERTS) * 3 + p];
            *x = (struct expert_extent){.file = 0, .bytes = last->part[p].bytes, .offset = at};
            at += last->part[p].bytes + (e + 1 < RIG_EXPERTS || p < 2 ? 32 * p : 0);
        }
    last->each = each;
    return at;
}

static struct expert_catalog *make_catalog(struct cache_rig *r, uint32_t n_classes, uint32_t align, uint64_t *bytes)
{
    struct expert_layer layers[RIG_LAYERS];
    struct expert_extent each[RIG_EXPERTS * 3];
    struct expert_catalog *c = NULL;
    *bytes = lay_out(r, n_classes, layers, each);
    assert_int_equal(expert_catalog_create(layers, RIG_LAYERS, align, &c, &r->err), SLUICE_OK);
    assert_int_equal(expert_catalog_n_classes(c), n_classes);
    return c;
}

void rig_init(struct cache_rig *r, uint32_t n_classes)
{
    memset(r, 0, sizeof *r);
    fault_os_init(&r->fault);
    r->log = (struct base_log){keep_line, r};
    uint64_t bytes = 0;
    r->catalog = make_catalog(r, n_classes, 1, &bytes);
    if (!test_file_make(&r->file, bytes)) fail_msg("no file for the test");
}

void rig_open(struct cache_rig *r, enum io_backend backend, bool buffered, uint32_t wait_limit_ms)
{
    struct io_config config = {.os = &r->fault.calls,
                               .log = &r->log,
                               .backend = backend,
                               .buffered = buffered,
                               .threads = r->threads,
                               .piece_bytes = 4096,
                               .wait_limit_ns = (uint64_t)wait_limit_ms * 1000000};
    uint32_t file = 99, n_classes = expert_catalog_n_classes(r->catalog);
    uint64_t bytes = 0;
    if (io_open(&config, &r->io, &r->err)) fail_msg("%s", r->err.message);
    if (io_file_add(r->io, r->file.path, &file, &r->err)) fail_msg("%s", r->err.message);
    assert_int_equal(file, 0);
    expert_catalog_destroy(r->catalog);
    r->catalog = make_catalog(r, n_classes, io_file_align(r->io, 0), &bytes);
}

enum sluice_status rig_cache(struct cache_rig *r, enum policy_kind policy, uint64_t slots_bytes)
{
    struct expert_cache_config config = {.os = &r->fault.calls,
                                         .log = &r->log,
                                         .io = r->io,
                                         .catalog = r->catalog,
                                         .policy = policy,
                                         .slots_bytes = slots_bytes,
                                         .verify = r->verify,
                                         .toucher = r->toucher,
                                         .may_grow = r->may_grow,
                                         .small_pages = r->small_pages,
                                         .touch_bytes_min = 1};
    return expert_cache_create(&config, &r->cache, &r->err);
}

void rig_close(struct cache_rig *r)
{
    expert_cache_destroy(r->cache);
    expert_verify_destroy(r->verify);
    io_close(r->io);
    r->cache = NULL;
    r->verify = NULL;
    os_toucher_destroy(r->toucher);
    r->toucher = NULL;
    r->may_grow = NULL;
    r->small_pages = false;
    r->io = NULL;
    r->n_lines = 0;
}

void rig_end(struct cache_rig *r)
{
    rig_close(r);
    expert_catalog_destroy(r->catalog);
    test_file_remove(&r->file);
    fault_os_destroy(&r->fault);
}

unsigned rig_backends(enum io_backend out[3])
{
    unsigned n = 0;
    out[n++] = IO_SYNC;
    out[n++] = IO_THREADS;
    if (fault_uring_works()) out[n++] = IO_URING;
    return n;
}

bool rig_view_is_right(const struct cache_rig *r, const struct expert_view *view, uint32_t n_parts)
{
    for (uint32_t p = 0; p < n_parts; p++) {
        struct expert_extent x = expert_catalog_extent(r->catalog, view->layer, view->expert, p);
        if (!test_file_matches(view->part[p], x.offset, x.bytes)) return false;
    }
    return true;
}

void rig_take_all(struct cache_rig *r, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct expert_view view;
        if (expert_take(r->cache, &view, &r->err)) fail_msg("take: %s", r->err.message);
        assert_true(rig_view_is_right(r, &view, 2));
        if (expert_finish(r->cache, &view, &r->err)) fail_msg("finish: %s", r->err.message);
        assert_true(rig_view_is_right(r, &view, 3));
        expert_give(r->cache, &view);
    }
}

void rig_step(struct cache_rig *r, uint32_t layer, const uint32_t *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += RIG_USED) /* so many tokens */
        expert_selected(r->cache, layer, ids + i, NULL, n - i < RIG_USED ? n - i : RIG_USED, i / RIG_USED);
    if (expert_want(r->cache, layer, ids, n, &r->err)) fail_msg("want: %s", r->err.message);
    rig_take_all(r, n);
    expert_cache_check(r->cache);
}

void rig_choose(struct shape_random *random, uint32_t n_expert, uint32_t *ids, uint32_t n)
{
    uint32_t all[EXPERT_COUNT_MAX];
    for (uint32_t i = 0; i < n_expert; i++) all[i] = i;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t j = i + shape_below(random, n_expert - i), swap = all[i];
        ids[i] = all[j];
        all[j] = swap;
    }
}

struct expert_stats rig_stats(const struct cache_rig *r)
{
    struct expert_stats s;
    expert_cache_stats(r->cache, &s);
    return s;
}
