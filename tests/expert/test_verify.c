/* --verify: a bit that the disk, the cable or the memory turns over is caught and named; without it the wrong bytes are
 * handed out. A damaged file is caught by its checksums. */
#include "base/hash.h"
#include "cache_rig.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LAYER 3
#define EXPERT 5

static const char *const names[3] = {"layer 3, expert 5, part 1 of 3 (gate)", "layer 3, expert 5, part 2 of 3 (up)",
                                     "layer 3, expert 5, part 3 of 3 (down)"};

static void assert_says(const struct cache_rig *r, const char *text)
{
    if (!strstr(r->err.message, text)) fail_msg("'%s' does not say '%s'", r->err.message, text);
}

/* Sums of the whole rig's file, of its bytes as they should be. */
static struct expert_sums *make_sums(struct cache_rig *r)
{
    struct expert_sums_group groups[RIG_LAYERS * RIG_EXPERTS * 3];
    struct expert_sums *sums;
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->n_layers; i++)
        for (uint32_t e = 0; e < RIG_EXPERTS; e++)
            for (uint32_t p = 0; p < 3; p++) {
                struct expert_extent x = expert_catalog_extent(r->catalog, r->layers[i], e, p);
                groups[n++] =
                    (struct expert_sums_group){.file = x.file, .n = 1, .offset = x.offset, .unit_bytes = x.bytes};
            }
    assert_int_equal(expert_sums_create(groups, n, 1, &sums, &r->err), SLUICE_OK);
    for (uint32_t i = 0; i < sums->n_groups; i++) {
        struct base_hash h;
        base_hash_init(&h, 0);
        for (uint64_t at = 0; at < sums->groups[i].unit_bytes; at++) {
            uint8_t byte = test_file_byte(sums->groups[i].offset + at);
            base_hash_add(&h, &byte, 1);
        }
        sums->sums[i] = base_hash_value(&h);
    }
    return sums;
}

/* One thread or none, so that reads begin in order: gate is read 1, up 2, down 3 and 4. */
static void begin(struct cache_rig *r, enum io_backend backend, bool verify, const struct expert_sums *sums)
{
    rig_init(r, 1);
    r->threads = 1;
    rig_open(r, backend, false, 0);
    if (verify) assert_int_equal(expert_verify_create(&r->fault.calls, r->io, sums, &r->verify, &r->err), SLUICE_OK);
    if (rig_cache(r, POLICY_LRU, expert_cache_floor_bytes(r->catalog))) fail_msg("%s", r->err.message);
}

/* The status of asking for the expert; right: whether the bytes were those of the file. */
static enum sluice_status ask(struct cache_rig *r, bool *right)
{
    uint32_t id = EXPERT;
    struct expert_view view;
    *right = false;
    assert_int_equal(expert_want(r->cache, LAYER, &id, 1, &r->err), SLUICE_OK);
    enum sluice_status status = expert_take(r->cache, &view, &r->err);
    if (!status) status = expert_finish(r->cache, &view, &r->err);
    if (!status) {
        *right = rig_view_is_right(r, &view, 3);
        expert_give(r->cache, &view);
    }
    expert_abort(r->cache);
    while (io_outstanding(r->io)) expert_pump(r->cache);
    expert_cache_check(r->cache);
    return status;
}

/* Where in a part's read a byte lies that belongs to the part and not to the slack before it. */
static size_t inside(const struct cache_rig *r, uint32_t part)
{
    struct expert_extent x = expert_catalog_extent(r->catalog, LAYER, EXPERT, part);
    return (size_t)(x.offset % expert_catalog_align(r->catalog)) + 3;
}

static void a_flipped_bit(enum io_backend backend, uint32_t part, bool verify)
{
    struct cache_rig r;
    bool right;
    char at[40];
    begin(&r, backend, verify, NULL);
    struct expert_extent x = expert_catalog_extent(r.catalog, LAYER, EXPERT, part);
    fault_add(&r.fault, (struct fault_rule){.kind = FAULT_FLIP, .nth = part + 1, .bytes = inside(&r, part)});
    enum sluice_status status = ask(&r, &right);
    if (verify) {
        assert_int_equal(status, SLUICE_ERR_IO);
        assert_says(&r, names[part]);
        assert_says(&r, r.file.path);
        snprintf(at, sizeof at, "at byte %llu:", (unsigned long long)x.offset + 3);
        assert_says(&r, at);
        assert_true(r.err.hint[0] != 0);
        assert_false(expert_resident(r.cache, LAYER, EXPERT));
    } else {
        assert_int_equal(status, SLUICE_OK); /* nobody has noticed */
        assert_false(right);
    }
    fault_clear(&r.fault);
    if (verify) { /* the next token works, and with the right bytes */
        assert_int_equal(ask(&r, &right), SLUICE_OK);
        assert_true(right);
        assert_true(expert_verify_done_bytes(r.verify) >= x.bytes);
    }
    rig_end(&r);
}

static void flipped_bits_are_caught(void **state)
{
    (void)state;
    enum io_backend backends[3];
    unsigned n = rig_backends(backends);
    for (unsigned b = 0; b < n; b++)
        for (uint32_t part = 0; part < 3; part++) {
            a_flipped_bit(backends[b], part, true);
            a_flipped_bit(backends[b], part, false);
        }
}

/* The same wrong byte in every read: only a checksum can know. */
static void damage_is_caught_by_checksums(void **state)
{
    (void)state;
    enum io_backend backends[3];
    unsigned n = rig_backends(backends);
    for (unsigned b = 0; b < n; b++)
        for (int with_sums = 0; with_sums < 2; with_sums++) {
            struct cache_rig r;
            bool right;
            begin(&r, backends[b], false, NULL);
            expert_cache_destroy(r.cache);
            r.cache = NULL;
            struct expert_sums *sums = make_sums(&r);
            assert_int_equal(expert_verify_create(&r.fault.calls, r.io, with_sums ? sums : NULL, &r.verify, &r.err),
                             SLUICE_OK);
            assert_int_equal(expert_verify_covers(r.verify, r.catalog, &r.err), SLUICE_OK);
            if (rig_cache(&r, POLICY_LRU, expert_cache_floor_bytes(r.catalog))) fail_msg("%s", r.err.message);
            assert_int_equal(ask(&r, &right), SLUICE_OK); /* good as long as the file is */
            assert_true(right);
            struct expert_extent x = expert_catalog_extent(r.catalog, LAYER, EXPERT, 1);
            FILE *f = fopen(r.file.path, "r+b");
            assert_non_null(f);
            assert_int_equal(fseek(f, (long)x.offset + 77, SEEK_SET), 0);
            assert_int_equal(fputc(test_file_byte(x.offset + 77) ^ 0x40, f) == EOF, 0);
            assert_int_equal(fclose(f), 0);
            uint32_t others[3] = {1, 2, 3}; /* the floor is four experts: it is gone after two layers */
            expert_tick(r.cache, 1);
            rig_step(&r, 0, others, 3);
            expert_tick(r.cache, 1);
            rig_step(&r, 2, others, 3);
            assert_false(expert_resident(r.cache, LAYER, EXPERT));
            if (with_sums) {
                assert_int_equal(ask(&r, &right), SLUICE_ERR_MODEL);
                assert_says(&r, names[1]);
                assert_says(&r, "checksum");
                assert_says(&r, r.file.path);
            } else {
                assert_int_equal(ask(&r, &right), SLUICE_OK);
                assert_false(right);
            }
            rig_end(&r);
            expert_sums_free(sums);
        }
}

/* A second read that fails is an error of its own. */
static void failing_second_read(void **state)
{
    (void)state;
    struct cache_rig r;
    bool right;
    begin(&r, IO_SYNC, true, NULL);
    fault_add(&r.fault, (struct fault_rule){.kind = FAULT_ERROR, .nth = 2, .error = EIO});
    assert_int_equal(ask(&r, &right), SLUICE_ERR_IO);
    assert_says(&r, "layer 3, expert 5");
    fault_clear(&r.fault);
    assert_int_equal(ask(&r, &right), SLUICE_OK);
    assert_true(right);
    rig_end(&r);
}

/* An expert that nobody waits for any more: a line says what was found, and it is not kept. */
static void found_after_the_want_was_given_up(void **state)
{
    (void)state;
    struct cache_rig r;
    uint32_t id = EXPERT;
    begin(&r, IO_THREADS, true, NULL);
    fault_add(&r.fault, (struct fault_rule){.kind = FAULT_FLIP, .nth = 1, .bytes = inside(&r, 0)});
    assert_int_equal(expert_want(r.cache, LAYER, &id, 1, &r.err), SLUICE_OK);
    expert_abort(r.cache);
    while (io_outstanding(r.io)) expert_pump(r.cache);
    expert_cache_check(r.cache);
    assert_false(expert_resident(r.cache, LAYER, EXPERT));
    assert_true(rig_logged(&r, names[0]));
    rig_end(&r);
}

/* Checksums that do not cover the model check nothing and are refused. */
static void foreign_extents_are_refused(void **state)
{
    (void)state;
    struct cache_rig r;
    begin(&r, IO_SYNC, false, NULL);
    struct expert_sums *sums = make_sums(&r);
    sums->groups[0].unit_bytes--;
    assert_int_equal(expert_verify_create(&r.fault.calls, r.io, sums, &r.verify, &r.err), SLUICE_OK);
    assert_int_equal(expert_verify_covers(r.verify, r.catalog, &r.err), SLUICE_ERR_USAGE);
    assert_says(&r, "layer 0, expert 0, part 1");
    rig_end(&r);
    expert_sums_free(sums);
}

/* Longer than the window of the second read, with any alignment. */
static void long_extents(void **state)
{
    (void)state;
    struct test_file file;
    struct fault_os fault;
    struct base_log log = {0};
    struct io *io;
    struct expert_verify *verify;
    struct sluice_error err;
    uint32_t index;
    enum { BYTES = (3 << 19) + 12345 };
    fault_os_init(&fault);
    assert_true(test_file_make(&file, BYTES + 100));
    const struct io_config config = {.os = &fault.calls, .log = &log, .backend = IO_THREADS};
    assert_int_equal(io_open(&config, &io, &err), SLUICE_OK);
    assert_int_equal(io_file_add(io, file.path, &index, &err), SLUICE_OK);
    assert_int_equal(expert_verify_create(&fault.calls, io, NULL, &verify, &err), SLUICE_OK);
    uint8_t *data = malloc(BYTES);
    assert_non_null(data);
    for (size_t i = 0; i < BYTES; i++) data[i] = test_file_byte(33 + i);
    assert_int_equal(expert_verify_bytes(verify, index, 33, data, BYTES, &err), SLUICE_OK);
    static const size_t places[] = {0, (1 << 19) - 1, 1 << 19, BYTES - 1};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char at[40];
        data[places[i]] ^= 1;
        assert_int_equal(expert_verify_bytes(verify, index, 33, data, BYTES, &err), SLUICE_ERR_IO);
        snprintf(at, sizeof at, "at byte %zu:", 33 + places[i]);
        assert_non_null(strstr(err.message, at));
        data[places[i]] ^= 1;
    }
    free(data);
    expert_verify_destroy(verify);
    io_close(io);
    test_file_remove(&file);
    fault_os_destroy(&fault);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flipped_bits_are_caught),     cmocka_unit_test(damage_is_caught_by_checksums),
        cmocka_unit_test(failing_second_read),         cmocka_unit_test(found_after_the_want_was_given_up),
        cmocka_unit_test(foreign_extents_are_refused), cmocka_unit_test(long_extents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
