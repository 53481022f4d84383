/* The file of checksums: what is written is read back, and anything else is refused. */
#include "base/hash.h"
#include "expert/sums.h"
#include "fault_os.h"
#include "test_file.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define FINGERPRINT UINT64_C(0x0123456789abcdef)

static const struct expert_sums_group groups[] = {
    {.file = 1, .n = 1, .offset = 64, .unit_bytes = 1000}, /* not in order: sorted when made */
    {.file = 0, .n = 4, .offset = 4096, .unit_bytes = 100},
    {.file = 0, .n = 1, .offset = 32, .unit_bytes = 7},
    {.file = 0, .n = 2, .offset = 4496, .unit_bytes = 100}, /* right behind the other */
};
#define N_SUMS 8

static char path[64];
static struct sluice_error err;

static struct expert_sums *make(void)
{
    struct expert_sums *s;
    assert_int_equal(expert_sums_create(groups, 4, FINGERPRINT, &s, &err), SLUICE_OK);
    assert_int_equal(s->n_sums, N_SUMS);
    for (uint64_t i = 0; i < s->n_sums; i++) s->sums[i] = 1000 + i;
    return s;
}

static void save(const uint8_t *data, size_t bytes)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, bytes, f), bytes);
    assert_int_equal(fclose(f), 0);
}

static enum sluice_status read_back(struct expert_sums **out)
{
    memset(&err, 0, sizeof err);
    return expert_sums_read(os_system(), path, FINGERPRINT, false, out, &err);
}

static void refused(const char *what)
{
    struct expert_sums *s;
    if (read_back(&s) != SLUICE_ERR_USAGE) fail_msg("'%s' is not refused: %s", what, err.message);
    assert_null(s);
    assert_non_null(strstr(err.message, what));
    assert_non_null(strstr(err.message, path));
    assert_non_null(strstr(err.hint, "sluice checksum"));
}

/* The same bytes with a right checksum of their own. */
static void seal(uint8_t *data, size_t bytes)
{
    uint64_t sum = base_hash_of(data, bytes - 8, 0);
    for (unsigned i = 0; i < 8; i++) data[bytes - 8 + i] = (uint8_t)(sum >> 8 * i);
}

static void comes_back(void **state)
{
    (void)state;
    struct expert_sums *s = make(), *back;
    uint8_t *data;
    size_t bytes;
    assert_int_equal(expert_sums_encode(s, &data, &bytes, &err), SLUICE_OK);
    assert_int_equal(bytes, 32 + 4 * 24 + N_SUMS * 8 + 8);
    save(data, bytes);
    assert_int_equal(read_back(&back), SLUICE_OK);
    assert_int_equal(back->n_groups, s->n_groups);
    assert_int_equal(back->fingerprint, FINGERPRINT);
    assert_memory_equal(back->groups, s->groups, s->n_groups * sizeof *s->groups);
    assert_memory_equal(back->sums, s->sums, N_SUMS * sizeof *s->sums);
    expert_sums_free(back);
    expert_sums_free(s);
    free(data);
}

static void finds_exact_extents_alone(void **state)
{
    (void)state;
    struct expert_sums *s = make();
    uint64_t sum = 0;
    static const struct {
        uint32_t file;
        uint64_t offset, bytes, sum; /* sum 0: none */
    } asked[] = {
        {0, 32, 7, 1000},    {0, 4096, 100, 1001}, {0, 4396, 100, 1004}, {0, 4496, 100, 1005}, {0, 4596, 100, 1006},
        {1, 64, 1000, 1007}, {0, 4696, 100, 0},    {0, 4097, 100, 0},    {0, 4096, 200, 0},    {0, 31, 7, 0},
        {0, 0, 7, 0},        {1, 32, 7, 0},        {2, 64, 1000, 0},     {1, 4096, 100, 0},
    };
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        bool found = expert_sums_find(s, asked[i].file, asked[i].offset, asked[i].bytes, &sum);
        assert_int_equal(found, asked[i].sum != 0);
        if (found) assert_int_equal(sum, asked[i].sum);
    }
    expert_sums_free(s);
}

/* Every byte of the file counts, and so does its length. */
static void damage_is_refused(void **state)
{
    (void)state;
    struct expert_sums *s = make();
    uint8_t *data;
    size_t bytes;
    assert_int_equal(expert_sums_encode(s, &data, &bytes, &err), SLUICE_OK);
    for (size_t i = 0; i < bytes; i++) {
        data[i] ^= 0x10;
        save(data, bytes);
        refused(i < 8 ? "is not a file of checksums" : i < 12 ? "version" : "damaged");
        data[i] ^= 0x10;
    }
    for (size_t n = 0; n < bytes; n++) {
        save(data, n);
        refused(n < 40 ? "is not a file of checksums" : "damaged");
    }
    expert_sums_free(s);
    free(data);
}

/* What a right checksum of its own does not excuse. */
static void nonsense_is_refused(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        uint8_t xor ;
        const char *says;
    } cases[] = {
        {16, 1, "belong to another model"},
        {8, 2, "version"},
        {12, 1, "disagree"},               /* groups */
        {15, 0x80, "disagree"},            /* absurdly many */
        {24, 1, "disagree"},               /* sums */
        {31, 0x80, "disagree"},            /* absurdly many */
        {32 + 4, 1, "make no sense"},      /* a group of none */
        {32 + 24 + 4, 1, "make no sense"}, /* of more than there are sums: it meets the next */
        {32 + 16, 7, "make no sense"},     /* units of no bytes */
        {32 + 9, 0x20, "make no sense"},   /* behind the next */
        {32 + 15, 0x80, "make no sense"},  /* further than any file */
    };
    struct expert_sums *s = make();
    uint8_t *data;
    size_t bytes;
    assert_int_equal(expert_sums_encode(s, &data, &bytes, &err), SLUICE_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        data[cases[i].at] ^= cases[i].xor ;
        seal(data, bytes);
        save(data, bytes);
        refused(cases[i].says);
        data[cases[i].at] ^= cases[i].xor ;
    }
    expert_sums_free(s);
    free(data);
}

static void absent_and_unreadable(void **state)
{
    (void)state;
    struct expert_sums *s;
    unlink(path);
    assert_int_equal(read_back(&s), SLUICE_ERR_IO);
    assert_non_null(strstr(err.hint, "sluice checksum"));
    assert_int_equal(expert_sums_read(os_system(), path, FINGERPRINT, true, &s, &err), SLUICE_OK);
    assert_null(s);
    save((const uint8_t *)"SLUICSUM and more, longer than the header of such a file", 50);
    static struct fault_os f;
    fault_os_init(&f);
    fault_add(&f, (struct fault_rule){.kind = FAULT_ERROR, .error = EINTR});
    fault_add(&f, (struct fault_rule){.kind = FAULT_ERROR, .nth = 2, .error = EIO});
    assert_int_equal(expert_sums_read(&f.calls, path, FINGERPRINT, true, &s, &err), SLUICE_ERR_IO);
    assert_int_equal(fault_reads(&f), 2);
    f.open_error = EACCES;
    assert_int_equal(expert_sums_read(&f.calls, path, FINGERPRINT, true, &s, &err), SLUICE_ERR_IO);
    assert_int_equal(f.n_open, 0);
    fault_os_destroy(&f);
}

static void groups_that_share_bytes_are_refused(void **state)
{
    (void)state;
    static const struct expert_sums_group bad[][2] = {
        {{.n = 2, .offset = 0, .unit_bytes = 10}, {.n = 1, .offset = 19, .unit_bytes = 1}},
        {{.n = 1, .offset = 0, .unit_bytes = 10}, {.n = 0, .offset = 19, .unit_bytes = 1}},
        {{.n = 1, .offset = 0, .unit_bytes = 10}, {.n = 1, .offset = 19, .unit_bytes = 0}},
    };
    struct expert_sums *s;
    for (size_t i = 0; i < 3; i++) assert_int_equal(expert_sums_create(bad[i], 2, 0, &s, &err), SLUICE_ERR_RUN);
    assert_int_equal(expert_sums_create(NULL, 0, 0, &s, &err), SLUICE_OK);
    uint64_t sum;
    assert_false(expert_sums_find(s, 0, 0, 1, &sum));
    expert_sums_free(s);
}

static int set_up(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/sluice-sums-XXXXXX");
    int fd = mkstemp(path);
    if (fd >= 0) close(fd);
    return fd < 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comes_back),
        cmocka_unit_test(finds_exact_extents_alone),
        cmocka_unit_test(damage_is_refused),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(groups_that_share_bytes_are_refused),
        cmocka_unit_test(absent_and_unreadable),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
