/* What a damaged or foreign GGUF is refused with: each error names the file, the key or tensor, and the number. */
#include "file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A test's file is built, refused and freed. */
#define REFUSED(f, ...)                                          \
    do {                                                         \
        file_refused(&(f), SLUICE_ERR_MODEL, __VA_ARGS__, NULL); \
        file_free(&(f));                                         \
    } while (0)

static void versions(void **state)
{
    struct file f = {0};
    file_model(&f);
    f.data[4] = 1;
    REFUSED(f, "version 1", "2 and 3", "anew");
    file_model(&f);
    f.data[4] = 4;
    REFUSED(f, "version 4", "newer");
    file_model(&f);
    f.data[4] = 0;
    REFUSED(f, "version 0");
    file_model(&f);
    memcpy(f.data + 4, "\0\0\0\3", 4);
    REFUSED(f, "big-endian", "00 00 00 03", "little-endian");
}

/* Cut anywhere, the file is refused, and the message says how much there is. */
static void truncation_at_every_byte(void **state)
{
    struct file f = {0};
    file_model(&f);
    size_t whole = f.bytes;
    char has[64];
    for (size_t bytes = 4; bytes < whole; bytes++) {
        f.bytes = bytes;
        snprintf(has, sizeof has, "has %zu", bytes);
        if (bytes < 24)
            file_refused(&f, SLUICE_ERR_MODEL, "download it again", NULL);
        else if (bytes >= whole - 128)
            file_refused(&f, SLUICE_ERR_MODEL, has, "download the file again", "needs", NULL);
        else
            file_refused(&f, SLUICE_ERR_MODEL, "download", NULL);
    }
    f.bytes = whole;
    struct gguf *g = file_open(&f);
    gguf_close(g);
    file_free(&f);
}

static void truncated_header(void **state)
{
    struct file f = {0};
    file_model(&f);
    f.bytes = 24 + 8 + 10;
    file_poke_u64(&f, 8, 0); /* no tensors, so that the count is plausible */
    REFUSED(f, "ends inside its header", "key 1 of 1", "42 bytes", "download it again");
    file_head(&f, 3, 0, 1);
    file_key_str(&f, "general.name", "abc");
    file_poke_u64(&f, 24 + 8 + 12 + 4, 1000);
    REFUSED(f, "ends inside its header", "'general.name'", "1000 more bytes", "has 59 bytes");
    file_head(&f, 3, 0, 1);
    file_key_array(&f, "scores", GGUF_F32, 100);
    file_zeros(&f, 99 * 4);
    REFUSED(f, "ends inside its header", "'scores'", "100 items of 4 bytes");
}

static void truncated_data(void **state)
{
    struct file f = {0};
    file_model(&f);
    f.bytes -= 1;
    REFUSED(f, "needs 288 bytes and has 287", "tensor 'b'", "ends at byte 288", "incomplete");
}

static void absurd_counts(void **state)
{
    struct file f = {0};
    file_head(&f, 3, UINT64_MAX, 0);
    REFUSED(f, "18446744073709551615 tensors", "24 bytes");
    file_head(&f, 3, 0, (uint64_t)1 << 60);
    REFUSED(f, "1152921504606846976 keys");
    file_head(&f, 3, 0, (1 << 20) + 1);
    file_zeros(&f, (size_t)14 * ((1 << 20) + 1));
    REFUSED(f, "1048577 keys", "limit is 1048576");
}

static void names(void **state)
{
    struct file f = {0};
    file_head(&f, 3, 0, 1);
    file_key_u32(&f, "", 1);
    file_zeros(&f, 32);
    REFUSED(f, "key 1 of 1", "0 bytes");
    file_head(&f, 3, 0, 1);
    file_key_u32(&f, "ab", 1);
    f.data[24 + 8] = 0;
    REFUSED(f, "zero byte", "'?b'");
    file_head(&f, 3, 0, 1);
    file_u64(&f, 65536);
    file_zeros(&f, 70000);
    REFUSED(f, "65536 bytes", "65535");
    char name[129];
    memset(name, 'x', 128);
    name[128] = 0;
    file_head(&f, 3, 1, 0);
    file_tensor_1d(&f, name, 0, 8, 0);
    file_zeros(&f, 100);
    REFUSED(f, "tensor 1 of 1", "128 bytes", "127");
    file_head(&f, 3, 1, 0);
    file_tensor_1d(&f, name + 1, 0, 8, 0);
    file_pad(&f, 32), file_zeros(&f, 32);
    gguf_close(file_open(&f));
    file_free(&f);
}

static void duplicates(void **state)
{
    struct file f = {0};
    file_head(&f, 3, 0, 3);
    file_key_u32(&f, "k", 1), file_key_u32(&f, "l", 1), file_key_u32(&f, "k", 2);
    REFUSED(f, "key 'k'", "twice", "key 3 of 3");
    file_head(&f, 3, 2, 0);
    file_tensor_1d(&f, "a", 0, 8, 0), file_tensor_1d(&f, "a", 0, 8, 32);
    file_pad(&f, 32), file_zeros(&f, 64);
    REFUSED(f, "tensor 'a'", "twice", "tensor 2 of 2");
}

static void value_types(void **state)
{
    struct file f = {0};
    file_head(&f, 3, 0, 1);
    file_key(&f, "k", 13), file_u64(&f, 0);
    REFUSED(f, "key 'k'", "value type 13");
    file_head(&f, 3, 0, 1);
    file_key_array(&f, "k", 77, 1), file_u64(&f, 0);
    REFUSED(f, "key 'k'", "item type 77");
    file_head(&f, 3, 0, 1);
    file_key_array(&f, "k", GGUF_ARRAY, 1), file_zeros(&f, 32);
    REFUSED(f, "key 'k'", "array of arrays");
    file_head(&f, 3, 0, 1);
    file_key(&f, "k", GGUF_BOOL), file_u8(&f, 2);
    REFUSED(f, "key 'k'", "holds 2", "bool");
    file_head(&f, 3, 0, 1);
    file_key_array(&f, "k", GGUF_BOOL, 3), file_u8(&f, 1), file_u8(&f, 255), file_u8(&f, 0);
    REFUSED(f, "key 'k'", "holds 255");
}

static void array_lengths(void **state)
{
    struct file f = {0};
    file_head(&f, 3, 0, 1);
    file_key_array(&f, "tokens", GGUF_STRING, UINT64_MAX), file_str(&f, "abc");
    REFUSED(f, "key 'tokens'", "18446744073709551615 strings", "11 bytes");
    file_head(&f, 3, 0, 1);
    file_key_array(&f, "k", GGUF_U64, UINT64_MAX / 8 + 2), file_zeros(&f, 64);
    REFUSED(f, "'k'", "2305843009213693953 items");
    file_head(&f, 3, 0, 1);
    file_key_array(&f, "tokens", GGUF_STRING, 2);
    file_str(&f, "abc"), file_u64(&f, UINT64_MAX - 3), file_zeros(&f, 16);
    REFUSED(f, "'tokens'", "18446744073709551612 more bytes");
}

static void alignments(void **state)
{
    static const uint32_t bad[] = {0, 4, 24, 1 << 25, UINT32_MAX};
    struct file f = {0};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char number[32];
        snprintf(number, sizeof number, "is %u;", bad[i]);
        file_head(&f, 3, 0, 1);
        file_key_u32(&f, "general.alignment", bad[i]);
        REFUSED(f, "'general.alignment'", number, "power of two");
    }
    file_head(&f, 3, 0, 1);
    file_key_str(&f, "general.alignment", "32");
    REFUSED(f, "'general.alignment'", "integer", "string");
    file_head(&f, 3, 1, 1);
    file_key_u32(&f, "general.alignment", 64);
    file_tensor_1d(&f, "a", 0, 8, 32);
    file_zeros(&f, 400);
    REFUSED(f, "tensor 'a'", "offset 32", "alignment 64");
}

static void one_tensor(struct file *f, uint32_t type, uint32_t n_dims, const uint64_t *dims, uint64_t offset)
{
    file_head(f, 3, 1, 0);
    file_tensor(f, "blk.0.w", type, n_dims, dims, offset);
    file_zeros(f, 1024);
}

static void shapes(void **state)
{
    struct file f = {0};
    one_tensor(&f, 0, 2, (const uint64_t[]){8, 0}, 0);
    REFUSED(f, "tensor 'blk.0.w'", "dimension 1", "is 0");
    one_tensor(&f, 0, 1, (const uint64_t[]){(uint64_t)-8}, 0);
    REFUSED(f, "tensor 'blk.0.w'", "dimension 0", "is -8");
    one_tensor(&f, 0, 5, (const uint64_t[]){1, 1, 1, 1, 1}, 0);
    REFUSED(f, "tensor 'blk.0.w'", "5 dimensions", "limit is 4");
    one_tensor(&f, 0, 4, (const uint64_t[]){1 << 20, 1 << 20, 1 << 20, 16}, 0);
    REFUSED(f, "tensor 'blk.0.w'", "more elements", "1048576, 1048576, 1048576, 16");
    one_tensor(&f, 0, 3, (const uint64_t[]){1 << 20, 1 << 20, 1 << 22}, 0);
    REFUSED(f, "tensor 'blk.0.w'", "more bytes", "4611686018427387904 elements");
    one_tensor(&f, 12, 1, (const uint64_t[]){255}, 0);
    REFUSED(f, "tensor 'blk.0.w'", "255 elements", "256", "Q4_K");
    one_tensor(&f, 8, 0, NULL, 0);
    REFUSED(f, "tensor 'blk.0.w'", "1 elements", "32", "Q8_0");
}

static void offsets(void **state)
{
    struct file f = {0};
    one_tensor(&f, 0, 1, (const uint64_t[]){8}, (uint64_t)1 << 62);
    REFUSED(f, "tensor 'blk.0.w'", "needs", "has");
    one_tensor(&f, 0, 1, (const uint64_t[]){8}, UINT64_MAX - 31);
    REFUSED(f, "tensor 'blk.0.w'", "beyond any file");
    one_tensor(&f, 0, 1, (const uint64_t[]){8}, 33);
    REFUSED(f, "tensor 'blk.0.w'", "offset 33", "alignment 32");
    file_head(&f, 3, 3, 0);
    file_tensor_1d(&f, "a", 0, 16, 0), file_tensor_1d(&f, "b", 0, 8, 64), file_tensor_1d(&f, "c", 0, 8, 32);
    file_pad(&f, 32), file_zeros(&f, 96);
    REFUSED(f, "'a' and 'c' overlap", "ends at byte 192", "begins at 160");
    file_head(&f, 3, 2, 0);
    file_tensor_1d(&f, "a", 0, 8, 0), file_tensor_1d(&f, "b", 0, 8, 0);
    file_pad(&f, 32), file_zeros(&f, 96);
    REFUSED(f, "'a' and 'b' overlap");
}

static void types(void **state)
{
    static const struct {
        uint32_t id;
        const char *text, *hint;
    } bad[] = {
        {139, "type 139 (IQ4_K), which only the fork ik_llama.cpp knows", "mainline"},
        {97, "type 97 (", "mainline"},
        {158, "type 158 (", "mainline"},
        {202, "type 202 (", "mainline"},
        {4000000000u, "type 4000000000 (no known name), which only the fork", "mainline"},
        {4, "type 4 (Q4_2), whose layout", "another quantisation"},
        {77, "type 77 (no known name), whose layout", "newer Sluice"},
    };
    struct file f = {0};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        one_tensor(&f, bad[i].id, 1, (const uint64_t[]){256}, 0);
        REFUSED(f, "tensor 'blk.0.w'", bad[i].text, bad[i].hint);
    }
    /* known layout, but nothing computes with it: not this room's affair */
    one_tensor(&f, 16, 1, (const uint64_t[]){256}, 0);
    struct gguf *g = file_open(&f);
    assert_int_equal(gguf_tensor(g, 0)->bytes, 66);
    gguf_close(g);
    file_free(&f);
}

static void joined_files(void **state)
{
    struct file f = {0};
    file_model(&f);
    file_model(&f);
    REFUSED(f, "second GGUF begins at byte 288 of 576", "cat", "separate shards");
    /* the first one ends without padding */
    file_head(&f, 3, 1, 0);
    file_tensor_1d(&f, "a", 1, 3, 0);
    file_pad(&f, 32), file_zeros(&f, 6);
    file_model(&f);
    REFUSED(f, "second GGUF begins at byte 70", "cat");
    file_shard(&f, 0, 2, 4, 2, "a");
    file_shard(&f, 1, 2, 4, 2, "b");
    REFUSED(f, "second GGUF", "cat");
    file_model(&f);
    file_zeros(&f, (1 << 20) + 33);
    REFUSED(f, "accounts for 288 bytes", "1048897");
    file_model(&f);
    file_zeros(&f, 1000);
    gguf_close(file_open(&f)); /* a little padding harms nobody */
    file_free(&f);
}

static void control_characters_stay_out_of_messages(void **state)
{
    struct file f = {0};
    file_head(&f, 3, 0, 1);
    file_key(&f, "a\x1b[31m\xff", 13), file_zeros(&f, 8);
    REFUSED(f, "'a?[31m?'");
}

static void header_limit(void **state)
{
    /* A string of 600 MiB fits into the file and not into a header. Sparse: nobody reads that far. */
    struct file f = {0};
    size_t bytes = (size_t)600 << 20;
    file_head(&f, 3, 0, 1);
    file_key(&f, "k", GGUF_STRING);
    file_u64(&f, bytes);
    f.data = realloc(f.data, bytes + 1000);
    assert_non_null(f.data);
    struct gguf *g;
    struct sluice_error err;
    assert_int_equal(gguf_open_memory(f.data, bytes + 1000, "big.gguf", &g, &err), SLUICE_ERR_MODEL);
    error_says(&err, SLUICE_ERR_MODEL, "big.gguf", "536870912 bytes", "key 1 of 1 'k'", NULL);
    file_free(&f);
}

static void check_refused(const char *key, const char *value, unsigned n_tensors, bool vocab_only, const char *text)
{
    struct file f = {0};
    file_head(&f, 3, n_tensors, key ? 1 : 0);
    if (key) file_key_str(&f, key, value);
    if (n_tensors) file_tensor_1d(&f, "a", 0, 8, 0);
    file_pad(&f, 32), file_zeros(&f, 32);
    struct gguf *g = file_open(&f);
    struct sluice_error err;
    enum sluice_status status = gguf_check_language_model(g, vocab_only, &err);
    if (text) {
        assert_int_equal(status, SLUICE_ERR_MODEL);
        error_says(&err, SLUICE_ERR_MODEL, "made-up.gguf", "not a", text, NULL);
    } else {
        assert_int_equal(status, SLUICE_OK);
    }
    gguf_close(g);
    file_free(&f);
}

static void no_language_model(void **state)
{
    check_refused("general.architecture", "clip", 1, false, "projector");
    check_refused("general.type", "mmproj", 1, false, "projector");
    check_refused("general.type", "adapter", 1, false, "LoRA adapter");
    check_refused("general.type", "imatrix", 1, false, "importance matrix");
    check_refused("general.architecture", "controlvector", 1, false, "control vector");
    check_refused("general.architecture", "llama", 0, false, "'llama' and 0 tensors");
    check_refused("general.architecture", "llama", 0, true, NULL);
    check_refused("general.architecture", "llama", 1, false, NULL);
    check_refused("general.architecture", "", 1, false, "'general.architecture' is empty");
    check_refused(NULL, NULL, 1, false, "'general.architecture' is missing");
}

static void architecture_of_the_wrong_type(void **state)
{
    struct file f = {0};
    file_head(&f, 3, 0, 1);
    file_key_u32(&f, "general.architecture", 7);
    struct gguf *g = file_open(&f);
    struct sluice_error err;
    assert_int_equal(gguf_check_language_model(g, true, &err), SLUICE_ERR_MODEL);
    error_says(&err, SLUICE_ERR_MODEL, "'general.architecture'", "a string", "u32", NULL);
    gguf_close(g);
    file_free(&f);
}

static void split_in_memory(void **state)
{
    struct file f = {0};
    file_shard(&f, 0, 3, 6, 2, "a");
    REFUSED(f, "shard 1 of 3", "memory", "path");
    file_head(&f, 3, 0, 1);
    file_key_str(&f, "split.count", "3");
    REFUSED(f, "'split.count'", "integer");
    file_head(&f, 3, 0, 1);
    file_key_u32(&f, "split.count", 3);
    REFUSED(f, "'split.no'", "missing");
    file_head(&f, 3, 0, 2);
    file_key_u32(&f, "split.count", 100000), file_key_u32(&f, "split.no", 0);
    REFUSED(f, "100000 shards", "99999");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions),
        cmocka_unit_test(truncation_at_every_byte),
        cmocka_unit_test(truncated_header),
        cmocka_unit_test(truncated_data),
        cmocka_unit_test(absurd_counts),
        cmocka_unit_test(names),
        cmocka_unit_test(duplicates),
        cmocka_unit_test(value_types),
        cmocka_unit_test(array_lengths),
        cmocka_unit_test(alignments),
        cmocka_unit_test(shapes),
        cmocka_unit_test(offsets),
        cmocka_unit_test(types),
        cmocka_unit_test(joined_files),
        cmocka_unit_test(control_characters_stay_out_of_messages),
        cmocka_unit_test(header_limit),
        cmocka_unit_test(no_language_model),
        cmocka_unit_test(architecture_of_the_wrong_type),
        cmocka_unit_test(split_in_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
