/* The bounded reader: little-endian values, the end, and staying failed (B2). */
#include "base/cursor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_values(void **state)
{
    static const uint8_t data[] = {0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e,
                                   0xff, 0x00, 0x00, 0xc0, 0x3f, 0,    0,    0,    0,    0,    0,    0xf8, 0xbf};
    struct base_cursor c;
    base_cursor_init(&c, data, sizeof data);
    assert_int_equal(base_cursor_left(&c), sizeof data);
    assert_int_equal(base_cursor_u8(&c), 0x01);
    assert_int_equal(base_cursor_u16(&c), 0x0302);
    assert_int_equal(base_cursor_u32(&c), 0x07060504);
    assert_true(base_cursor_u64(&c) == 0xff0e0d0c0b0a0908);
    assert_true(base_cursor_f32(&c) == 1.5f);
    assert_true(base_cursor_f64(&c) == -1.5);
    assert_int_equal(base_cursor_left(&c), 0);
    assert_false(c.failed);
}

static void test_u64(void **state)
{
    static const uint8_t data[] = {0xf1, 0xe2, 0xd3, 0xc4, 0xb5, 0xa6, 0x97, 0x88};
    struct base_cursor c;
    base_cursor_init(&c, data, sizeof data);
    assert_true(base_cursor_u64(&c) == 0x8897a6b5c4d3e2f1);
}

static void test_the_end_is_sticky(void **state)
{
    static const uint8_t data[] = {0xff, 0xff, 0xff, 0xff, 0xff};
    for (size_t bytes = 0; bytes < sizeof data; bytes++) {
        struct base_cursor c;
        base_cursor_init(&c, data, bytes);
        assert_true(base_cursor_u64(&c) == 0);
        assert_true(c.failed);
        assert_int_equal(base_cursor_left(&c), 0);
        /* There would be room for these, but a failed cursor reads nothing. */
        assert_int_equal(base_cursor_u8(&c), 0);
        assert_int_equal(base_cursor_u16(&c), 0);
        assert_int_equal(base_cursor_u32(&c), 0);
        assert_true(base_cursor_f32(&c) == 0.0f);
        assert_true(base_cursor_f64(&c) == 0.0);
        assert_null(base_cursor_take(&c, 0));
        assert_int_equal(c.at, 0);
    }
}

static void test_take(void **state)
{
    static const uint8_t data[] = {1, 2, 3, 4};
    struct base_cursor c;
    base_cursor_init(&c, data, sizeof data);
    assert_ptr_equal(base_cursor_take(&c, 3), data);
    assert_ptr_equal(base_cursor_take(&c, 0), data + 3);
    assert_ptr_equal(base_cursor_take(&c, 1), data + 3);
    assert_ptr_equal(base_cursor_take(&c, 0), data + 4);
    assert_false(c.failed);
    assert_null(base_cursor_take(&c, 1));
    assert_true(c.failed);
    base_cursor_init(&c, data, sizeof data);
    base_cursor_u8(&c);
    assert_null(base_cursor_take(&c, SIZE_MAX)); /* at + bytes would wrap */
    assert_true(c.failed);
    base_cursor_init(&c, data, sizeof data);
    base_cursor_u8(&c);
    assert_null(base_cursor_take(&c, 4));
}

static void test_nothing(void **state)
{
    struct base_cursor c;
    base_cursor_init(&c, NULL, 0);
    assert_int_equal(base_cursor_left(&c), 0);
    assert_int_equal(base_cursor_u8(&c), 0);
    assert_true(c.failed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values), cmocka_unit_test(test_u64),     cmocka_unit_test(test_the_end_is_sticky),
        cmocka_unit_test(test_take),   cmocka_unit_test(test_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
