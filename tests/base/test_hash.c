/* XXH64 against values of the public implementation, and the same value however the bytes are cut. */
#include "base/hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void known_texts(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t seed, value;
    } known[] = {
        {"", 0, 0xef46db3751d8e999},
        {"a", 0, 0xd24ec4f1a98c6e5b},
        {"abc", 0, 0x44bc2cf5ad770999},
        {"asdf", 0, 0x415872f599cea71e},
        {"xxhash", 0, 0x32dd38952c4bc720},
        {"xxhash", 20141025, 0xb559b98d844e0635},
        {"Call me Ishmael. Some years ago--never mind how long precisely-", 0, 0x02a2e85470d6fd96},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        assert_int_equal(base_hash_of(known[i].text, strlen(known[i].text), known[i].seed), known[i].value);
}

/* The buffer and values of the public implementation's own self test. */
static void fill(uint8_t *out, size_t n)
{
    uint64_t generator = 2654435761u;
    for (size_t i = 0; i < n; i++) {
        out[i] = (uint8_t)(generator >> 56);
        generator *= UINT64_C(11400714785074694797);
    }
}

static void known_lengths(void **state)
{
    (void)state;
    static const struct {
        size_t bytes;
        uint64_t seed, value;
    } known[] = {
        {0, 2654435761u, 0xac75fda2929b17ef},   {1, 0, 0xe934a84adb052768},
        {1, 2654435761u, 0x5014607643a9b4c3},   {14, 0, 0x8282dcc4994e35c8},
        {14, 2654435761u, 0xc3bd6bf63deb6df0},  {222, 0, 0xb641ae8cb691c174},
        {222, 2654435761u, 0x20cb8ab7ae10c14a},
    };
    uint8_t data[222];
    fill(data, sizeof data);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        assert_int_equal(base_hash_of(data, known[i].bytes, known[i].seed), known[i].value);
}

static void pieces_make_no_difference(void **state)
{
    (void)state;
    uint8_t data[222];
    fill(data, sizeof data);
    for (size_t bytes = 0; bytes <= sizeof data; bytes++) {
        uint64_t whole = base_hash_of(data, bytes, 7);
        for (size_t piece = 1; piece <= 70; piece += 3) {
            struct base_hash h;
            base_hash_init(&h, 7);
            for (size_t at = 0; at < bytes; at += piece)
                base_hash_add(&h, data + at, bytes - at < piece ? bytes - at : piece);
            base_hash_add(&h, data, 0);
            assert_int_equal(base_hash_value(&h), whole);
            assert_int_equal(base_hash_value(&h), whole); /* asking changes nothing */
        }
    }
}

static void each_bit_counts(void **state)
{
    (void)state;
    uint8_t data[100];
    fill(data, sizeof data);
    uint64_t before = base_hash_of(data, sizeof data, 0);
    for (size_t bit = 0; bit < 8 * sizeof data; bit++) {
        data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_not_equal(base_hash_of(data, sizeof data, 0), before);
        data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_texts),
        cmocka_unit_test(known_lengths),
        cmocka_unit_test(pieces_make_no_difference),
        cmocka_unit_test(each_bit_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
