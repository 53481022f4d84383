/* The plan as a table, its properties over random inputs, and that the number a refusal names works. */
#include "expert/cache.h"
#include "expert/plan.h"
#include "shape.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define K ((uint64_t)1 << 10)
#define M ((uint64_t)1 << 20)
#define G ((uint64_t)1 << 30)

/* ---- sizes ---- */

static void test_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool count;
        enum plan_unit unit;
        double value;
    } good[] = {
        {NULL, false, PLAN_AUTO, 0},
        {"auto", false, PLAN_AUTO, 0},
        {"auto", true, PLAN_AUTO, 0},
        {"1B", false, PLAN_BYTES, 1},
        {"65536", false, PLAN_BYTES, 65536},
        {"8G", false, PLAN_BYTES, 8.0 * 1073741824},
        {"8g", false, PLAN_BYTES, 8.0 * 1073741824},
        {"8GiB", true, PLAN_BYTES, 8.0 * 1073741824},
        {"8gib", true, PLAN_BYTES, 8.0 * 1073741824},
        {"1.5G", false, PLAN_BYTES, 1.5 * 1073741824},
        {".5K", false, PLAN_BYTES, 512},
        {"2.K", false, PLAN_BYTES, 2048},
        {"8GB", false, PLAN_BYTES, 8e9},
        {"500MB", false, PLAN_BYTES, 5e8},
        {"3KB", true, PLAN_BYTES, 3000},
        {"3K", true, PLAN_BYTES, 3072},
        {"3KiB", true, PLAN_BYTES, 3072},
        {"2M", false, PLAN_BYTES, 2097152},
        {"2MiB", false, PLAN_BYTES, 2097152},
        {"1T", false, PLAN_BYTES, 1099511627776.0},
        {"1TiB", false, PLAN_BYTES, 1099511627776.0},
        {"1TB", false, PLAN_BYTES, 1e12},
        {"77B", true, PLAN_BYTES, 77},
        {"50%", false, PLAN_PERCENT, 50},
        {"0.5%", true, PLAN_PERCENT, 0.5},
        {"100%", true, PLAN_PERCENT, 100},
        {"4854", true, PLAN_COUNT, 4854},
        {"1", true, PLAN_COUNT, 1},
    };
    static const char *const bad[] = {
        "",
        " ",
        "G",
        "-1",
        "-8G",
        "+8G",
        "nan",
        "inf",
        "1e9",
        "0x10",
        "8 G",
        " 8G",
        "8G ",
        "8Q",
        "8GG",
        "8Gi",
        "8iB",
        "1,5G",
        "1.2.3G",
        "0",
        "0G",
        "0%",
        "100.1%",
        "200%",
        "%",
        "5%%",
        ".",
        "..",
        "auto ",
        "AUTO8",
        "99999999999999999999",
        "9999999999T",
        "0.0001",
        "8G\n",
        "\xff",
        "1/2",
        "infG",
        "1_000",
    };
    struct plan_size out;
    struct sluice_error err;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(plan_parse_size(good[i].text, good[i].count, "--x", &out, &err), SLUICE_OK);
        assert_int_equal(out.unit, good[i].unit);
        assert_true(out.value == good[i].value);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        for (int count = 0; count < 2; count++) {
            if (plan_parse_size(bad[i], count, "--x", &out, &err) != SLUICE_ERR_USAGE) fail_msg("'%s'", bad[i]);
            assert_non_null(strstr(err.message, "--x"));
            assert_true(err.hint[0] != 0);
        }
    static const char *const unitless[] = {"8", "28", "1.5", "65535"};
    for (size_t i = 0; i < sizeof unitless / sizeof *unitless; i++) {
        char asked[64];
        assert_int_equal(plan_parse_size(unitless[i], false, "--x", &out, &err), SLUICE_ERR_USAGE);
        assert_non_null(strstr(err.message, "--x"));
        snprintf(asked, sizeof asked, "is bytes: %sM or %sG?", unitless[i], unitless[i]);
        assert_string_equal(strstr(err.hint, "is bytes"), asked);
    }
    assert_int_equal(plan_parse_size("1.5", true, "--x", &out, &err), SLUICE_ERR_USAGE); /* half an expert */
    assert_int_equal(plan_parse_size("4294967296", true, "--x", &out, &err), SLUICE_ERR_USAGE);
}

static void test_format(void **state)
{
    (void)state;
    char out[24];
    assert_string_equal(plan_format_bytes(0, out), "0 bytes");
    assert_string_equal(plan_format_bytes(1023, out), "1023 bytes");
    assert_string_equal(plan_format_bytes(3 * G / 2, out), "1.50 GiB");
    assert_string_equal(plan_format_bytes(640 * M, out), "640.00 MiB");
    assert_string_equal(plan_format_bytes(UINT64_MAX, out), "16.00 EiB");
}

/* ---- the table ---- */

/* 24 layers of 64 experts, 8 a token, all of one size (slots of 1 MiB): floor 9 MiB, all 1536 MiB. */
static struct expert_catalog *plain_model(void)
{
    struct expert_layer layers[24];
    uint64_t at = 0;
    for (int i = 0; i < 24; i++) layers[i] = shape_layer(64, 8, 256 * 1024, 256 * 1024, 512 * 1024, 0, &at);
    struct expert_catalog *c = NULL;
    assert_int_equal(expert_catalog_create(layers, 24, 1, &c, NULL), SLUICE_OK);
    return c;
}

/* Two sizes: 16 layers of slots of 1 MiB, 8 of 2 MiB. Floor 27 MiB, all 2048 MiB. */
static struct expert_catalog *mixed_model(void)
{
    struct expert_layer layers[24];
    uint64_t at = 0;
    for (int i = 0; i < 24; i++)
        layers[i] = shape_layer(64, 8, 256 * 1024, 256 * 1024, i % 3 == 2 ? 1536 * 1024 : 512 * 1024, 0, &at);
    struct expert_catalog *c = NULL;
    assert_int_equal(expert_catalog_create(layers, 24, 1, &c, NULL), SLUICE_OK);
    return c;
}

/* What the input's KV cache takes: so much, and so much a position of the context; a ring of at most chunk + `window`
 * positions beside them. */
static struct kv_cache {
    uint64_t fixed_bytes, token_bytes, ring_bytes;
    uint32_t window;
} kv;

static uint64_t kv_bytes(const void *user, uint32_t ctx, uint32_t chunk)
{
    const struct kv_cache *c = user;
    const uint64_t ring = ((uint64_t)chunk + c->window + 63) / 64 * 64;
    if (ctx && c->token_bytes > (UINT64_MAX - c->fixed_bytes) / ctx) return UINT64_MAX;
    return c->fixed_bytes + c->token_bytes * ctx + c->ring_bytes * (ring < ctx ? ring : ctx);
}

/* Fixed rows: 100 + 300 + 20 + 10 + 2 (KV) + 4 (scratch) = 436 MiB; a context token 64 KiB + 1 KiB of scratch; a
 * chunk token 96 + 32 KiB. So 512 tokens are 32.5 MiB, 8192 are 520 MiB; a chunk of 512 is 64 MiB. */
static struct plan_input base_input(const struct expert_catalog *catalog)
{
    memset(&kv, 0, sizeof kv);
    kv.token_bytes = 64 * K;
    kv.fixed_bytes = 2 * M;
    return (struct plan_input){
        .machine_limit_bytes = 4 * G,
        .auto_percent = 80,
        .machine_total_bytes = 16 * G,
        .machine_limit_why = "available memory",
        .catalog = catalog,
        .process_bytes = 100 * M,
        .dense_bytes = 300 * M,
        .staging_bytes = 20 * M,
        .book_bytes = 10 * M,
        .kv_bytes = kv_bytes,
        .kv_user = &kv,
        .ctx_model = 40960,
        .scratch_bytes_per_chunk_token = 96 * K,
        .scratch_fixed_bytes = 4 * M,
        .scratch_bytes_per_ctx = 1 * K,
        .output_bytes_per_chunk_token = 32 * K,
    };
}

static uint64_t rows_sum(const struct plan *p)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < p->n_rows; i++) sum += p->rows[i].bytes;
    return sum;
}

static enum sluice_status make(struct plan_input *in, const char *memory, const char *experts, struct plan *out,
                               struct sluice_error *err)
{
    assert_int_equal(plan_parse_size(memory, false, "--memory", &in->memory, err), SLUICE_OK);
    assert_int_equal(plan_parse_size(experts, true, "--experts", &in->experts, err), SLUICE_OK);
    return plan_make(in, out, err);
}

#define AUTO_80 (4 * G / 5 * 4)

static const struct line {
    const char *memory, *experts;
    uint32_t ctx, chunk; /* asked */
    bool mixed;
    enum sluice_status status;
    /* expected */
    uint64_t budget;
    uint32_t ctx_got, chunk_got;
    uint64_t slots;   /* 0: what is left */
    const char *text; /* of a refusal: in the message or the hint */
} table[] = {
    /* automatic: everything fits in 80 % of 4 GiB */
    {NULL, NULL, 0, 0, false, SLUICE_OK, AUTO_80, 8192, 512, 1536 * M, NULL},
    {NULL, NULL, 0, 0, true, SLUICE_OK, AUTO_80, 8192, 512, 2048 * M, NULL},
    {NULL, NULL, 4096, 0, false, SLUICE_OK, AUTO_80, 4096, 512, 1536 * M, NULL},
    {NULL, NULL, 100, 0, false, SLUICE_OK, AUTO_80, 100, 100, 1536 * M, NULL},
    {NULL, NULL, 500, 0, false, SLUICE_OK, AUTO_80, 500, 500, 1536 * M, NULL},
    {NULL, NULL, 520, 0, false, SLUICE_OK, AUTO_80, 520, 512, 1536 * M, NULL},
    {NULL, NULL, 40960, 0, false, SLUICE_OK, AUTO_80, 40960, 480, 0, NULL}, /* a quarter of 240.8 MiB that are left */
    {NULL, NULL, 3000, 0, false, SLUICE_OK, AUTO_80, 3000, 512, 1536 * M, NULL},
    {NULL, NULL, 1, 0, false, SLUICE_OK, AUTO_80, 1, 1, 1536 * M, NULL},
    {NULL, NULL, 0, 7, false, SLUICE_OK, AUTO_80, 8192, 7, 1536 * M, NULL},
    {NULL, NULL, 0, 2048, false, SLUICE_OK, AUTO_80, 8192, 2048, 1536 * M, NULL},
    {NULL, NULL, 100, 100, false, SLUICE_OK, AUTO_80, 100, 100, 1536 * M, NULL},
    /* sizes of memory */
    {"4G", NULL, 0, 0, false, SLUICE_OK, 4 * G, 8192, 512, 1536 * M, NULL},
    {"4096M", NULL, 0, 0, false, SLUICE_OK, 4 * G, 8192, 512, 1536 * M, NULL},
    {"100%", NULL, 0, 0, false, SLUICE_OK, 4 * G, 8192, 512, 1536 * M, NULL},
    {"50%", NULL, 0, 0, false, SLUICE_OK, 2 * G, 8192, 1024, 0, NULL},
    {"25%", NULL, 0, 0, false, SLUICE_OK, 1 * G, 2048, 512, 0, NULL}, /* 4096: 260 MiB do not leave half */
    {"2G", NULL, 0, 0, true, SLUICE_OK, 2 * G, 8192, 1024, 0, NULL},
    {"1GB", NULL, 0, 0, false, SLUICE_OK, 1000000000, 2048, 512, 0, NULL},
    {"4294967296", NULL, 0, 0, false, SLUICE_OK, 4 * G, 8192, 512, 1536 * M, NULL},
    /* the context under pressure */
    {"1040M", NULL, 0, 0, false, SLUICE_OK, 1040 * M, 2048, 512, 0, NULL},
    {"700M", NULL, 0, 0, false, SLUICE_OK, 700 * M, 2048, 256, 0, NULL}, /* 130 of the 264 that the rest leaves */
    {"600M", NULL, 0, 0, false, SLUICE_OK, 600 * M, 1024, 192, 0, NULL},
    {"500M", NULL, 0, 0, false, SLUICE_OK, 500 * M, 512, 48, 0, NULL},
    {"500M", NULL, 600, 0, false, SLUICE_OK, 500 * M, 600, 48, 0, NULL},
    {"480M", NULL, 0, 0, false, SLUICE_OK, 480 * M, 512, 16, 0, NULL},
    /* at the floor: 436 + 32.5 + 9 + 1/8 MiB */
    {"489294B", NULL, 0, 0, false, SLUICE_ERR_MEMORY, 0, 0, 0, 0, "--memory 478M"},
    {"500826112", NULL, 0, 0, false, SLUICE_OK, 500826112, 512, 1, 9 * M, NULL},
    {"500826111", NULL, 0, 0, false, SLUICE_ERR_MEMORY, 0, 0, 0, 0, "--memory 478M"},
    {"478M", NULL, 0, 0, false, SLUICE_OK, 478 * M, 512, 4, 0, NULL},
    {"478M", NULL, 0, 0, true, SLUICE_ERR_MEMORY, 0, 0, 0, 0, "--memory 496M"},
    {"496M", NULL, 0, 0, true, SLUICE_OK, 496 * M, 512, 4, 0, NULL},
    {"100M", NULL, 0, 0, false, SLUICE_ERR_MEMORY, 0, 0, 0, 0, "the budget is 100.00 MiB"},
    {"1B", NULL, 0, 0, false, SLUICE_ERR_MEMORY, 0, 0, 0, 0, "--memory 478M"},
    {"1%", NULL, 0, 0, false, SLUICE_ERR_MEMORY, 0, 0, 0, 0, "--memory 478M"},
    {"500M", NULL, 8192, 0, false, SLUICE_ERR_MEMORY, 0, 0, 0, 0, "--memory 966M"},
    {"480M", NULL, 0, 512, false, SLUICE_ERR_MEMORY, 0, 0, 0, 0, "--memory 542M"},
    /* over the machine */
    {"4097M", NULL, 0, 0, false, SLUICE_ERR_MEMORY, 0, 0, 0, 0, "at most 4.00 GiB (available memory"},
    {"64G", NULL, 0, 0, false, SLUICE_ERR_MEMORY, 0, 0, 0, 0, "asks for 64.00 GiB"},
    {"64G", NULL, 0, 0, false, SLUICE_ERR_MEMORY, 0, 0, 0, 0, "--memory 4096M"},
    /* experts alone: the budget follows */
    {NULL, "512M", 0, 0, false, SLUICE_OK, 0, 8192, 1632, 512 * M, NULL},
    {NULL, "512", 0, 0, false, SLUICE_OK, 0, 8192, 1632, 512 * M, NULL},
    {NULL, "50%", 0, 0, false, SLUICE_OK, 0, 8192, 1632, 768 * M, NULL},
    {NULL, "100%", 0, 0, false, SLUICE_OK, 0, 8192, 512, 1536 * M, NULL},
    {NULL, "3G", 0, 0, false, SLUICE_OK, 0, 8192, 512, 1536 * M, NULL}, /* all experts need no more */
    {NULL, "9", 0, 0, false, SLUICE_OK, 0, 8192, 1632, 9 * M, NULL},
    {NULL, "9437184B", 0, 0, false, SLUICE_OK, 0, 8192, 1632, 9 * M, NULL},
    {NULL, "9437185B", 0, 0, false, SLUICE_OK, 0, 8192, 1632, 9 * M + 1, NULL},
    {NULL, "8", 0, 0, false, SLUICE_ERR_MEMORY, 0, 0, 0, 0, "--experts 9"},
    {NULL, "1%", 0, 0, true, SLUICE_ERR_MEMORY, 0, 0, 0, 0, "--experts 27M"},
    {NULL, "1024", 0, 0, true, SLUICE_OK, 0, 8192, 1632, 1024 * M, NULL}, /* the common size is 1 MiB */
    {NULL, "1G", 40960, 0, false, SLUICE_OK, 0, 40960, 0, 1024 * M, NULL},
    {NULL, "800M", 40960, 1024, true, SLUICE_OK, 0, 40960, 1024, 800 * M, NULL}, /* over 80 %, under the limit */
    {NULL, "1536M", 40960, 512, true, SLUICE_ERR_MEMORY, 0, 0, 0, 0, "use at most --experts"},
    /* both */
    {"2G", "1G", 0, 0, false, SLUICE_OK, 2 * G, 8192, 544, 1024 * M, NULL},
    {"1536M", "1G", 0, 0, false, SLUICE_OK, 1536 * M, 1024, 80, 1024 * M, NULL},
    {"1G", "1G", 0, 0, false, SLUICE_ERR_MEMORY, 0, 0, 0, 0, "--memory 1493M; or use at most --experts"},
    {"470M", "1G", 0, 0, false, SLUICE_ERR_MEMORY, 0, 0, 0, 0, "--memory 1493M"},
    /* misuse */
    {NULL, NULL, 40961, 0, false, SLUICE_ERR_USAGE, 0, 0, 0, 0, "40961 tokens was asked for; the model has 40960"},
};

static void check_line(const struct line *t, struct expert_catalog *catalog)
{
    struct plan_input in = base_input(catalog);
    in.ctx_asked = t->ctx;
    in.chunk_asked = t->chunk;
    struct plan p;
    struct sluice_error err = {0};
    enum sluice_status status = make(&in, t->memory, t->experts, &p, &err);
    const char *memory = t->memory ? t->memory : "auto", *experts = t->experts ? t->experts : "auto";
    if (status != t->status)
        fail_msg("%s/%s/%u/%u: status %d: %s", memory, experts, t->ctx, t->chunk, status, err.message);
    if (status) {
        assert_int_equal(err.status, status);
        if (!strstr(err.message, t->text) && !strstr(err.hint, t->text))
            fail_msg("'%s' is neither in '%s' nor in '%s'", t->text, err.message, err.hint);
        return;
    }
    if (t->budget && p.budget_bytes != t->budget) fail_msg("%s/%s: budget %" PRIu64, memory, experts, p.budget_bytes);
    if (p.ctx != t->ctx_got || (t->chunk_got && p.chunk != t->chunk_got))
        fail_msg("%s/%s/%u/%u: context %u, chunk %u", memory, experts, t->ctx, t->chunk, p.ctx, p.chunk);
    if (t->slots && p.slots_bytes != t->slots) fail_msg("%s/%s: slots %" PRIu64, memory, experts, p.slots_bytes);
    assert_true(rows_sum(&p) <= p.budget_bytes);
    if (!t->slots || !t->budget) assert_int_equal(rows_sum(&p), p.budget_bytes); /* nothing is given away */
}

static void test_table(void **state)
{
    (void)state;
    struct expert_catalog *plain = plain_model(), *mixed = mixed_model();
    assert_int_equal(expert_cache_floor_bytes(plain), 9 * M);
    assert_int_equal(expert_cache_full_bytes(plain), 1536 * M);
    assert_int_equal(expert_cache_floor_bytes(mixed), 27 * M);
    assert_int_equal(expert_cache_full_bytes(mixed), 2048 * M);
    assert_true(sizeof table / sizeof *table >= 40);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) check_line(&table[i], table[i].mixed ? mixed : plain);
    expert_catalog_destroy(plain);
    expert_catalog_destroy(mixed);
}

static void test_rows_have_names(void **state)
{
    (void)state;
    static const char *const names[] = {"process and tokenizer", "dense weights", "KV cache",    "scratch",
                                        "expert outputs",        "staging",       "bookkeeping", "expert slots"};
    struct expert_catalog *c = plain_model();
    struct plan_input in = base_input(c);
    struct plan p;
    struct sluice_error err;
    assert_int_equal(make(&in, "2G", NULL, &p, &err), SLUICE_OK);
    assert_int_equal(p.n_rows, 8);
    for (size_t i = 0; i < 8; i++) assert_string_equal(p.rows[i].name, names[i]);
    assert_int_equal(p.rows[2].bytes, 2 * M + 8192 * 64 * K);
    assert_int_equal(p.rows[3].bytes, 4 * M + 8192 * K + p.chunk * 96 * K);
    assert_int_equal(p.rows[4].bytes, p.chunk * 32 * K);
    assert_int_equal(p.slots_floor_bytes, 9 * M);
    assert_int_equal(p.slots_needed_bytes, 1536 * M);
    expert_catalog_destroy(c);
}

static void test_dense_model(void **state)
{
    (void)state;
    struct plan_input in = base_input(NULL);
    struct plan p;
    struct sluice_error err;
    assert_int_equal(make(&in, NULL, NULL, &p, &err), SLUICE_OK);
    assert_int_equal(p.slots_bytes, 0);
    assert_int_equal(p.ctx, 8192);
    assert_int_equal(make(&in, NULL, "1G", &p, &err), SLUICE_ERR_USAGE);
    assert_int_equal(make(&in, "10M", NULL, &p, &err), SLUICE_ERR_MEMORY);
    assert_non_null(strstr(err.hint, "--memory 469M"));
    in.ctx_model = 100; /* a toy: the largest power of two it has */
    assert_int_equal(make(&in, NULL, NULL, &p, &err), SLUICE_OK);
    assert_int_equal(p.ctx, 64);
    assert_int_equal(p.chunk, 64);
    in.ctx_model = 0; /* the file does not say */
    assert_int_equal(make(&in, NULL, NULL, &p, &err), SLUICE_OK);
    assert_int_equal(p.ctx, 8192);
}

/* Rings of windows grow with the chunk, and count in its share: an eighth of 2 GiB holds 256 MiB of 96 + 32 + 512 KiB a
 * token. A context that is no longer than the ring takes no more for a larger chunk. */
static void test_rings(void **state)
{
    (void)state;
    struct expert_catalog *c = plain_model();
    struct plan_input in = base_input(c);
    struct plan p;
    struct sluice_error err;
    kv.ring_bytes = 512 * K;
    kv.window = 64;
    assert_int_equal(make(&in, "2G", NULL, &p, &err), SLUICE_OK);
    assert_int_equal(p.chunk % 16, 0);
    const uint64_t chunk_bytes =
        (uint64_t)p.chunk * (128 * K) + kv_bytes(&kv, p.ctx, p.chunk) - kv_bytes(&kv, p.ctx, 0);
    assert_in_range(chunk_bytes, 256 * M - 64 * 640 * K, 256 * M);
    for (size_t i = 0; i < p.n_rows; i++)
        if (!strcmp(p.rows[i].name, "KV cache")) assert_int_equal(p.rows[i].bytes, kv_bytes(&kv, p.ctx, p.chunk));
    assert_true(rows_sum(&p) <= 2 * G);
    const uint32_t before = p.chunk;
    in.ctx_asked = 256;
    kv.window = 300;
    assert_int_equal(make(&in, "2G", NULL, &p, &err), SLUICE_OK);
    assert_true(p.chunk == 256 && before < 512);
    expert_catalog_destroy(c);
}

static void test_absurd_numbers_are_refused(void **state)
{
    (void)state;
    struct expert_catalog *c = plain_model();
    for (int i = 0; i < 7; i++) {
        struct plan_input in = base_input(c);
        uint64_t *const fields[] = {&in.dense_bytes,          &kv.token_bytes,   &in.scratch_bytes_per_chunk_token,
                                    &in.scratch_fixed_bytes,  &in.process_bytes, &in.output_bytes_per_chunk_token,
                                    &in.scratch_bytes_per_ctx};
        *fields[i] = UINT64_MAX - 5;
        struct plan p;
        struct sluice_error err;
        assert_int_equal(make(&in, NULL, NULL, &p, &err), SLUICE_ERR_MEMORY);
        assert_non_null(strstr(err.hint, "at most 4.00 GiB"));
    }
    struct plan_input in = base_input(c);
    in.machine_limit_bytes = 0;
    struct plan p;
    struct sluice_error err;
    assert_int_equal(make(&in, NULL, NULL, &p, &err), SLUICE_ERR_MEMORY);
    expert_catalog_destroy(c);
}

/* ---- advice ---- */

/* "SIZE with OPTION VALUE" in the advice. */
static bool advised(const char *text, const char *option, char value[32], char size[24])
{
    const char *at = strstr(text, option);
    if (!at) return false;
    assert_int_equal(sscanf(at + strlen(option), " %31[0-9A-Za-z_]", value), 1);
    assert_memory_equal(at - 6, " with ", 6);
    const char *begin = at - 6 - strlen(" 000.00 MiB");
    assert_int_equal(sscanf(begin + strcspn(begin, "0123456789"), "%23[0-9.MGiB ]", size), 1);
    size[strlen(size) - 1] = '\0';
    return true;
}

static void test_advice(void **state)
{
    (void)state;
    struct expert_catalog *c = plain_model(); /* a token uses 192 MiB */
    struct plan_input in = base_input(c);
    char text[PLAN_ADVICE_BYTES], value[32], size[24], want[24];
    struct plan p, q;
    struct sluice_error err;

    in.ctx_asked = 8192; /* 520 MiB of 1024, and 436 for the rest: 68 are left, of which a chunk takes an eighth */
    assert_int_equal(make(&in, "1G", NULL, &p, &err), SLUICE_OK);
    assert_int_equal(p.chunk, 128);
    assert_int_equal(p.slots_bytes, 52 * M);
    struct plan_input small = in;
    struct kv_cache small_kv = kv;
    small_kv.token_bytes = 34 * K;
    small.kv_user = &small_kv;
    assert_true(plan_advise(&in, &p, &small, text));
    assert_non_null(strstr(text, "gets 52.00 MiB, 3.4 % of the experts, and a token uses 192.00 MiB"));
    assert_non_null(strstr(text, "of the 1.00 GiB is 'KV cache': 514.00 MiB"));
    assert_true(advised(text, "--ctx", value, size));
    assert_string_equal(value, "2048");
    struct plan_input again = in;
    again.ctx_asked = 2048;
    assert_int_equal(plan_make(&again, &q, &err), SLUICE_OK);
    assert_string_equal(size, plan_format_bytes(q.slots_bytes, want));
    assert_true(advised(text, "--kv-type", value, size));
    assert_int_equal(plan_make(&small, &q, &err), SLUICE_OK);
    assert_string_equal(size, plan_format_bytes(q.slots_bytes, want));
    assert_true(advised(text, "--memory", value, size));
    again = in;
    assert_int_equal(make(&again, value, NULL, &q, &err), SLUICE_OK);
    assert_string_equal(size, plan_format_bytes(q.slots_bytes, want));
    assert_true(q.slots_bytes >= 2 * 192 * M);
    assert_true(q.budget_bytes % (100 * M) == 0); /* round, and no more than it takes */
    again.memory.value -= 100.0 * M;
    assert_int_equal(plan_make(&again, &q, &err), SLUICE_OK);
    assert_true(q.slots_bytes < 2 * 192 * M);

    assert_true(plan_advise(&in, &p, NULL, text));
    assert_false(advised(text, "--kv-type", value, size));
    in.machine_limit_bytes = 1 * G; /* more cannot be had */
    assert_true(plan_advise(&in, &p, NULL, text));
    assert_false(advised(text, "--memory", value, size));
    in = base_input(c);
    in.dense_bytes = 900 * M;
    assert_int_equal(make(&in, "1100M", NULL, &p, &err), SLUICE_OK);
    assert_true(plan_advise(&in, &p, NULL, text));
    assert_non_null(strstr(text, "is 'dense weights': 900.00 MiB"));
    assert_false(advised(text, "--ctx", value, size)); /* it is short already */

    in = base_input(c); /* little in all */
    in.process_bytes = 10 * M, in.dense_bytes = 1 * M, in.staging_bytes = in.book_bytes = 0;
    in.ctx_asked = 16, in.chunk_asked = 1;
    assert_int_equal(make(&in, "70M", NULL, &p, &err), SLUICE_OK);
    assert_true(plan_advise(&in, &p, NULL, text));
    assert_true(advised(text, "--memory", value, size));
    assert_string_equal(value, "410M"); /* 384 MiB for experts, 18.1 for the rest: 402.1 */

    in = base_input(c);
    assert_int_equal(make(&in, "2G", NULL, &p, &err), SLUICE_OK);
    assert_false(plan_advise(&in, &p, NULL, text));
    assert_int_equal(make(&in, NULL, "20", &p, &err), SLUICE_OK); /* as asked for */
    assert_false(plan_advise(&in, &p, NULL, text));
    in = base_input(NULL);
    assert_int_equal(make(&in, "1G", NULL, &p, &err), SLUICE_OK);
    assert_false(plan_advise(&in, &p, NULL, text));
    expert_catalog_destroy(c);
}

/* ---- properties ---- */

static void random_size(struct shape_random *r, bool experts, uint64_t about, char out[32])
{
    switch (shape_below(r, 5)) {
    case 0: strcpy(out, "auto"); break;
    case 1: snprintf(out, 32, "%u%%", 1 + shape_below(r, 100)); break;
    case 2:
        if (experts) {
            snprintf(out, 32, "%u", 1 + shape_below(r, 2000));
            break;
        } /* fall through */
    default: snprintf(out, 32, "%" PRIu64 "B", 1 + shape_next(r) % about);
    }
}

/* The option's value after `name` in a hint, or false. */
static bool named(const char *hint, const char *name, char out[32])
{
    const char *at = strstr(hint, name);
    return at && sscanf(at + strlen(name), " %31[0-9A-Za-z]", out) == 1;
}

static void check_made(const struct plan_input *in, const struct plan *p)
{
    assert_true(rows_sum(p) <= p->budget_bytes);
    assert_true(p->budget_bytes <= in->machine_limit_bytes);
    assert_true(p->slots_bytes >= p->slots_floor_bytes && p->slots_bytes <= p->slots_needed_bytes);
    assert_true(p->ctx >= 1 && p->chunk >= 1 && p->chunk <= p->ctx);
    if (in->ctx_asked) assert_int_equal(p->ctx, in->ctx_asked);
    if (in->chunk_asked) assert_int_equal(p->chunk, in->chunk_asked);
    if (!in->ctx_asked) assert_true(p->ctx <= 8192 && (p->ctx & (p->ctx - 1)) == 0);
    if (!in->chunk_asked) assert_true(p->chunk <= (p->slots_bytes < p->slots_needed_bytes ? 2048 : 512));
}

static void test_properties(void **state)
{
    (void)state;
    struct expert_catalog *models[2] = {plain_model(), mixed_model()};
    struct shape_random r = {7};
    int made = 0, refused = 0, fed = 0, fed_experts = 0;
    for (int i = 0; i < 30000; i++) {
        struct plan_input in = base_input(models[shape_below(&r, 2)]);
        in.machine_limit_bytes = 200 * M + shape_next(&r) % (4 * G);
        in.dense_bytes = shape_next(&r) % (1 * G);
        kv.token_bytes = shape_next(&r) % (128 * K);
        if (shape_below(&r, 2)) kv.ring_bytes = shape_next(&r) % (128 * K);
        kv.window = 1 + shape_below(&r, 2000);
        in.scratch_bytes_per_chunk_token = shape_next(&r) % (512 * K);
        in.output_bytes_per_chunk_token = shape_next(&r) % (512 * K);
        in.scratch_bytes_per_ctx = shape_next(&r) % (8 * K);
        if (shape_below(&r, 3) == 0) in.ctx_asked = 1 + shape_below(&r, 10000);
        if (shape_below(&r, 3) == 0) in.chunk_asked = 1 + shape_below(&r, in.ctx_asked ? in.ctx_asked : 1000);
        char memory[32], experts[32], again[32];
        random_size(&r, false, in.machine_limit_bytes, memory);
        random_size(&r, true, 2 * G, experts);
        struct plan p;
        struct sluice_error err = {0}, ignored;
        enum sluice_status status = make(&in, memory, experts, &p, &err);
        if (status == SLUICE_OK) {
            check_made(&in, &p);
            made++;
            continue;
        }
        assert_int_equal(status, SLUICE_ERR_MEMORY);
        assert_true(err.message[0] && err.hint[0]);
        refused++;
        if (named(err.hint, "--memory", again)) {
            if (make(&in, again, experts, &p, &ignored) != SLUICE_OK)
                fail_msg("%s/%s refused with '%s', then --memory %s with '%s'", memory, experts, err.message, again,
                         ignored.message);
            check_made(&in, &p);
            fed++;
        }
        if (strstr(err.hint, "at most --experts") && named(err.hint, "--experts", again)) {
            if (make(&in, memory, again, &p, &ignored) != SLUICE_OK)
                fail_msg("%s/%s refused with '%s', then --experts %s with '%s'", memory, experts, err.message, again,
                         ignored.message);
            check_made(&in, &p);
            fed_experts++;
        }
    }
    assert_true(made > 3000 && refused > 3000 && fed > 1000 && fed_experts > 300);
    expert_catalog_destroy(models[0]);
    expert_catalog_destroy(models[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_format),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_rows_have_names),
        cmocka_unit_test(test_dense_model),
        cmocka_unit_test(test_rings),
        cmocka_unit_test(test_absurd_numbers_are_refused),
        cmocka_unit_test(test_advice),
        cmocka_unit_test(test_properties),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
