/* What a good file yields. */
#include "file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void reads_a_small_model(void **state)
{
    struct file f = {0};
    file_model(&f);
    struct gguf *g = file_open(&f);
    assert_int_equal(gguf_version(g), 3);
    assert_int_equal(gguf_alignment(g), 32);
    assert_int_equal(gguf_n_shards(g), 1);
    assert_int_equal(gguf_n_values(g), 1);
    assert_int_equal(gguf_n_tensors(g), 2);
    const struct gguf_shard *shard = gguf_shard(g, 0);
    assert_string_equal(shard->path, "made-up.gguf");
    assert_int_equal(shard->bytes, f.bytes);
    assert_int_equal(shard->header_bytes, f.bytes - 128);

    const struct gguf_tensor *a = gguf_find_tensor(g, "a"), *b = gguf_find_tensor(g, "b");
    assert_ptr_equal(a, gguf_tensor(g, 0));
    assert_ptr_equal(b, gguf_tensor(g, 1));
    assert_int_equal(a->type, 8);
    assert_int_equal(a->n_dims, 1);
    assert_int_equal(a->bytes, 68);
    assert_int_equal(a->offset, shard->header_bytes);
    assert_int_equal(b->n_dims, 2);
    assert_int_equal(b->dims[0], 4);
    assert_int_equal(b->dims[1], 2);
    assert_int_equal(b->dims[2], 1);
    assert_int_equal(b->dims[3], 1);
    assert_int_equal(b->bytes, 32);
    assert_int_equal(b->offset, shard->header_bytes + 96);
    assert_int_equal(b->shard, 0);
    assert_null(gguf_find_tensor(g, "c"));
    assert_null(gguf_find_tensor(g, ""));
    assert_null(gguf_tensor(g, 2));
    assert_null(gguf_value(g, 1));
    assert_null(gguf_shard(g, 1));
    assert_true(gguf_memory_bytes(g) > 0 && gguf_memory_bytes(g) < 100000);
    struct sluice_error err;
    assert_int_equal(gguf_check_language_model(g, false, &err), SLUICE_OK);
    gguf_close(g);
    file_free(&f);
}

static void reads_version_2(void **state)
{
    struct file f = {0};
    file_model(&f);
    f.data[4] = 2;
    struct gguf *g = file_open(&f);
    assert_int_equal(gguf_version(g), 2);
    gguf_close(g);
    file_free(&f);
}

/* Offsets may come in any order and leave gaps; a tensor without dimensions is a single element. */
static void reads_any_order_and_gaps(void **state)
{
    struct file f = {0};
    file_head(&f, 3, 3, 0);
    file_tensor_1d(&f, "last", 0, 8, 4096);
    file_tensor(&f, "scalar", 0, 0, NULL, 0);
    file_tensor_1d(&f, "middle", 1, 3, 64);
    file_pad(&f, 32);
    file_zeros(&f, 4096 + 32);
    struct gguf *g = file_open(&f);
    const struct gguf_tensor *t = gguf_find_tensor(g, "scalar");
    assert_int_equal(t->n_dims, 0);
    assert_int_equal(t->dims[0], 1);
    assert_int_equal(t->bytes, 4);
    assert_int_equal(gguf_find_tensor(g, "middle")->bytes, 6);
    assert_string_equal(gguf_tensor(g, 0)->name, "last");
    gguf_close(g);
    file_free(&f);
}

static void obeys_the_alignment_key(void **state)
{
    struct file f = {0};
    file_head(&f, 3, 1, 1);
    file_key_u32(&f, "general.alignment", 4096);
    file_tensor_1d(&f, "a", 0, 8, 0);
    file_pad(&f, 4096);
    file_zeros(&f, 32);
    struct gguf *g = file_open(&f);
    assert_int_equal(gguf_alignment(g), 4096);
    assert_int_equal(gguf_tensor(g, 0)->offset, 4096);
    gguf_close(g);
    file_free(&f);
}

/* A file without tensors need not be padded, and some writers do not. */
static void reads_a_vocabulary_without_padding(void **state)
{
    struct file f = {0};
    file_head(&f, 3, 0, 1);
    file_key_str(&f, "general.architecture", "gpt2");
    struct gguf *g = file_open(&f);
    assert_int_equal(gguf_shard(g, 0)->header_bytes, f.bytes);
    gguf_close(g);
    file_free(&f);
}

static void file_all_types(struct file *f)
{
    file_head(f, 3, 0, 16);
    file_key(f, "u8", GGUF_U8), file_u8(f, 200);
    file_key(f, "i8", GGUF_I8), file_u8(f, (uint8_t)-3);
    file_key(f, "u16", GGUF_U16), file_u16(f, 65535);
    file_key(f, "i16", GGUF_I16), file_u16(f, (uint16_t)-300);
    file_key(f, "u32", GGUF_U32), file_u32(f, UINT32_MAX);
    file_key(f, "i32", GGUF_I32), file_u32(f, (uint32_t)-70000);
    file_key(f, "f32", GGUF_F32), file_u32(f, 0x40490fdb);
    file_key(f, "bool", GGUF_BOOL), file_u8(f, 1);
    file_key_str(f, "string", "h\xc3\xa9llo");
    file_key(f, "u64", GGUF_U64), file_u64(f, UINT64_MAX);
    file_key(f, "i64", GGUF_I64), file_u64(f, (uint64_t)INT64_MIN);
    file_key(f, "f64", GGUF_F64), file_u64(f, 0x400921fb54442d18);
    file_key_array(f, "strings", GGUF_STRING, 4);
    file_str(f, "zero"), file_str(f, ""), file_str(f, "two"), file_str(f, "three");
    file_key_array(f, "u16s", GGUF_U16, 3);
    file_u16(f, 7), file_u16(f, 8), file_u16(f, 65535);
    file_key_array(f, "bools", GGUF_BOOL, 2);
    file_u8(f, 0), file_u8(f, 1);
    file_key_array(f, "none", GGUF_STRING, 0);
}

static void reads_every_value_type(void **state)
{
    struct file f = {0};
    file_all_types(&f);
    struct gguf *g = file_open(&f);
    uint64_t u;
    int64_t i;
    double d;
    bool b;
    struct gguf_str s;
    assert_true(gguf_item_u64(gguf_find(g, "u8"), 0, &u) && u == 200);
    assert_true(gguf_item_i64(gguf_find(g, "u8"), 0, &i) && i == 200);
    assert_true(gguf_item_i64(gguf_find(g, "i8"), 0, &i) && i == -3);
    assert_false(gguf_item_u64(gguf_find(g, "i8"), 0, &u));
    assert_true(gguf_item_u64(gguf_find(g, "u16"), 0, &u) && u == 65535);
    assert_true(gguf_item_i64(gguf_find(g, "i16"), 0, &i) && i == -300);
    assert_true(gguf_item_u64(gguf_find(g, "u32"), 0, &u) && u == UINT32_MAX);
    assert_true(gguf_item_i64(gguf_find(g, "i32"), 0, &i) && i == -70000);
    assert_true(gguf_item_f64(gguf_find(g, "i32"), 0, &d) && d == -70000.0);
    assert_true(gguf_item_f64(gguf_find(g, "f32"), 0, &d) && d == (double)0x1.921fb6p1f);
    assert_false(gguf_item_u64(gguf_find(g, "f32"), 0, &u));
    assert_true(gguf_item_bool(gguf_find(g, "bool"), 0, &b) && b);
    assert_true(gguf_item_u64(gguf_find(g, "bool"), 0, &u) && u == 1);
    assert_false(gguf_item_bool(gguf_find(g, "u8"), 0, &b));
    assert_true(gguf_item_u64(gguf_find(g, "u64"), 0, &u) && u == UINT64_MAX);
    assert_false(gguf_item_i64(gguf_find(g, "u64"), 0, &i));
    assert_true(gguf_item_i64(gguf_find(g, "i64"), 0, &i) && i == INT64_MIN);
    assert_true(gguf_item_f64(gguf_find(g, "f64"), 0, &d) && d == 0x1.921fb54442d18p1);
    assert_true(gguf_item_str(gguf_find(g, "string"), 0, &s) && s.bytes == 6 && memcmp(s.at, "h\xc3\xa9llo", 6) == 0);
    assert_false(gguf_item_u64(gguf_find(g, "string"), 0, &u));
    assert_false(gguf_item_f64(gguf_find(g, "string"), 0, &d));
    assert_false(gguf_item_str(gguf_find(g, "u8"), 0, &s));
    gguf_close(g);
    file_free(&f);
}

static void reads_arrays(void **state)
{
    static const char *const strings[] = {"zero", "", "two", "three"};
    struct file f = {0};
    file_all_types(&f);
    struct gguf *g = file_open(&f);
    const struct gguf_value *v = gguf_find(g, "strings");
    struct gguf_str s;
    assert_int_equal(v->type, GGUF_ARRAY);
    assert_int_equal(v->item_type, GGUF_STRING);
    assert_int_equal(v->n, 4);
    for (size_t i = 4; i-- > 0;) {
        assert_true(gguf_item_str(v, i, &s));
        assert_int_equal(s.bytes, strlen(strings[i]));
        assert_memory_equal(s.at, strings[i], s.bytes);
    }
    assert_false(gguf_item_str(v, 4, &s));
    uint64_t u;
    v = gguf_find(g, "u16s");
    assert_true(gguf_item_u64(v, 0, &u) && u == 7);
    assert_true(gguf_item_u64(v, 2, &u) && u == 65535);
    assert_false(gguf_item_u64(v, 3, &u));
    bool b;
    assert_true(gguf_item_bool(gguf_find(g, "bools"), 0, &b) && !b);
    assert_true(gguf_item_bool(gguf_find(g, "bools"), 1, &b) && b);
    v = gguf_find(g, "none");
    assert_int_equal(v->n, 0);
    assert_false(gguf_item_str(v, 0, &s));
    gguf_close(g);
    file_free(&f);
}

static void converts_scalars_by_key(void **state)
{
    struct file f = {0};
    file_all_types(&f);
    struct gguf *g = file_open(&f);
    struct sluice_error err;
    uint32_t u = 5;
    float x = 0;
    bool b = false;
    struct gguf_str s;
    assert_int_equal(gguf_get_u32(g, "absent", false, &u, &err), SLUICE_OK);
    assert_int_equal(u, 5);
    assert_int_equal(gguf_get_u32(g, "u16", true, &u, &err), SLUICE_OK);
    assert_int_equal(u, 65535);
    assert_int_equal(gguf_get_u32(g, "bool", true, &u, &err), SLUICE_OK);
    assert_int_equal(u, 1);
    assert_int_equal(gguf_get_f32(g, "f64", true, &x, &err), SLUICE_OK);
    assert_true(x == 0x1.921fb6p1f);
    assert_int_equal(gguf_get_f32(g, "i8", true, &x, &err), SLUICE_OK);
    assert_true(x == -3.0f);
    assert_int_equal(gguf_get_bool(g, "bool", true, &b, &err), SLUICE_OK);
    assert_true(b);
    assert_int_equal(gguf_get_str(g, "string", true, &s, &err), SLUICE_OK);
    assert_int_equal(s.bytes, 6);

    assert_int_equal(gguf_get_u32(g, "absent", true, &u, &err), SLUICE_ERR_MODEL);
    error_says(&err, SLUICE_ERR_MODEL, "made-up.gguf", "'absent'", "missing", NULL);
    assert_int_equal(gguf_get_u32(g, "i32", true, &u, &err), SLUICE_ERR_MODEL);
    error_says(&err, SLUICE_ERR_MODEL, "'i32'", "-70000", NULL);
    assert_int_equal(gguf_get_u32(g, "u64", false, &u, &err), SLUICE_ERR_MODEL);
    error_says(&err, SLUICE_ERR_MODEL, "'u64'", "18446744073709551615", "4294967295", NULL);
    assert_int_equal(gguf_get_u32(g, "f32", false, &u, &err), SLUICE_ERR_MODEL);
    error_says(&err, SLUICE_ERR_MODEL, "'f32'", "an integer", "f32", NULL);
    assert_int_equal(gguf_get_u32(g, "u16s", false, &u, &err), SLUICE_ERR_MODEL);
    error_says(&err, SLUICE_ERR_MODEL, "'u16s'", "an array of u16", NULL);
    assert_int_equal(gguf_get_f32(g, "string", false, &x, &err), SLUICE_ERR_MODEL);
    error_says(&err, SLUICE_ERR_MODEL, "'string'", "a number", NULL);
    assert_int_equal(gguf_get_bool(g, "u8", false, &b, &err), SLUICE_ERR_MODEL);
    error_says(&err, SLUICE_ERR_MODEL, "'u8'", "a bool", NULL);
    assert_int_equal(gguf_get_str(g, "bool", false, &s, &err), SLUICE_ERR_MODEL);
    error_says(&err, SLUICE_ERR_MODEL, "'bool'", "a string", NULL);
    assert_int_equal(gguf_get_str(g, "strings", false, &s, NULL), SLUICE_ERR_MODEL);
    gguf_close(g);
    file_free(&f);
}

static void refuses_a_double_too_large_for_a_float(void **state)
{
    struct file f = {0};
    file_head(&f, 3, 0, 2);
    file_key(&f, "big", GGUF_F64), file_u64(&f, 0x7fe0000000000000);
    file_key(&f, "inf", GGUF_F64), file_u64(&f, 0x7ff0000000000000);
    struct gguf *g = file_open(&f);
    float x;
    struct sluice_error err;
    assert_int_equal(gguf_get_f32(g, "big", true, &x, &err), SLUICE_ERR_MODEL);
    error_says(&err, SLUICE_ERR_MODEL, "'big'", "e+30", NULL);
    assert_int_equal(gguf_get_f32(g, "inf", true, &x, &err), SLUICE_OK);
    assert_true(isinf(x));
    gguf_close(g);
    file_free(&f);
}

/* Enough names for the tables to grow many times, and similar ones. */
static void finds_every_name_among_many(void **state)
{
    enum { N = 5000 };
    struct file f = {0};
    char name[32];
    file_head(&f, 3, N, N);
    for (uint32_t i = 0; i < N; i++) {
        snprintf(name, sizeof name, "key.%u", i);
        file_key_u32(&f, name, i);
    }
    for (uint32_t i = 0; i < N; i++) {
        snprintf(name, sizeof name, "blk.%u.weight", i);
        file_tensor_1d(&f, name, 0, 8, (uint64_t)i * 32);
    }
    file_pad(&f, 32);
    file_zeros(&f, (size_t)N * 32);
    struct gguf *g = file_open(&f);
    for (uint32_t i = 0; i < N; i++) {
        uint32_t u = 0;
        snprintf(name, sizeof name, "key.%u", i);
        assert_int_equal(gguf_get_u32(g, name, true, &u, NULL), SLUICE_OK);
        assert_int_equal(u, i);
        snprintf(name, sizeof name, "blk.%u.weight", i);
        assert_ptr_equal(gguf_find_tensor(g, name), gguf_tensor(g, i));
        snprintf(name, sizeof name, "blk.%u.weight", i + N);
        assert_null(gguf_find_tensor(g, name));
    }
    gguf_close(g);
    file_free(&f);
}

/* The same for a copy under another name and in other memory; another for each change of what is not weights. */
static void a_fingerprint_is_of_metadata_and_directory(void **state)
{
    struct file f = {0};
    struct sluice_error err;
    file_model(&f);
    struct gguf *g = file_open(&f), *other;
    const uint64_t print = gguf_fingerprint(g);
    const size_t header_bytes = (size_t)gguf_shard(g, 0)->header_bytes;
    gguf_close(g);
    assert_int_equal(gguf_open_memory(f.data, f.bytes, "another-name.gguf", &other, &err), SLUICE_OK);
    assert_int_equal(gguf_fingerprint(other), print);
    gguf_close(other);
    unsigned n_changed = 0;
    for (size_t i = 24; i < f.bytes; i++) { /* not the magic, version and counts */
        f.data[i] ^= 1;
        if (gguf_open_memory(f.data, f.bytes, "made-up.gguf", &other, &err) == SLUICE_OK) {
            bool same = gguf_fingerprint(other) == print;
            if (i >= header_bytes && !same) fail_msg("weights at byte %zu count", i);
            n_changed += !same;
            gguf_close(other);
        }
        f.data[i] ^= 1;
    }
    assert_true(n_changed >= 20 + 5 + 2); /* key, value, names */
    file_zeros(&f, 32);
    g = file_open(&f);
    assert_int_not_equal(gguf_fingerprint(g), print); /* the size counts */
    gguf_close(g);
    file_free(&f);
}

static void names_value_types(void **state)
{
    assert_string_equal(gguf_value_type_name(GGUF_U8), "u8");
    assert_string_equal(gguf_value_type_name(GGUF_ARRAY), "array");
    assert_string_equal(gguf_value_type_name(GGUF_F64), "f64");
    assert_string_equal(gguf_value_type_name((enum gguf_value_type)99), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_a_small_model),
        cmocka_unit_test(reads_version_2),
        cmocka_unit_test(reads_any_order_and_gaps),
        cmocka_unit_test(obeys_the_alignment_key),
        cmocka_unit_test(reads_a_vocabulary_without_padding),
        cmocka_unit_test(reads_every_value_type),
        cmocka_unit_test(reads_arrays),
        cmocka_unit_test(converts_scalars_by_key),
        cmocka_unit_test(refuses_a_double_too_large_for_a_float),
        cmocka_unit_test(finds_every_name_among_many),
        cmocka_unit_test(a_fingerprint_is_of_metadata_and_directory),
        cmocka_unit_test(names_value_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
