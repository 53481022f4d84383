/* Errors in words: formatting, truncation, bytes that a terminal must not see (B1), exit codes, log lines. */
#include "base/error.h"
#include "base/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_fail(void **state)
{
    struct sluice_error err;
    memset(&err, 'x', sizeof err);
    assert_int_equal(base_fail(&err, SLUICE_ERR_MODEL, "get another", "%s: %d of %d", "a.gguf", 3, 4),
                     SLUICE_ERR_MODEL);
    assert_int_equal(err.status, SLUICE_ERR_MODEL);
    assert_string_equal(err.message, "a.gguf: 3 of 4");
    assert_string_equal(err.hint, "get another");
    assert_int_equal(base_fail(&err, SLUICE_ERR_IO, NULL, "plain"), SLUICE_ERR_IO);
    assert_string_equal(err.message, "plain");
    assert_string_equal(err.hint, "");
    base_hint(&err, "use --memory %d", 12);
    assert_string_equal(err.hint, "use --memory 12");
    assert_string_equal(err.message, "plain");
    assert_int_equal(err.status, SLUICE_ERR_IO);
}

static void test_null_is_accepted(void **state)
{
    assert_int_equal(base_fail(NULL, SLUICE_ERR_USAGE, "hint", "%s", "text"), SLUICE_ERR_USAGE);
    base_hint(NULL, "%s", "text");
    base_log(NULL, BASE_LOG_NOTE, "%s", "text");
    struct base_log silent = {0};
    base_log(&silent, BASE_LOG_WARN, "%s", "text");
}

static void test_truncation(void **state)
{
    struct {
        struct sluice_error err;
        char guard[16];
    } box;
    char text[2000];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = 0;
    memset(&box, 'g', sizeof box);
    base_fail(&box.err, SLUICE_ERR_RUN, text, "%s", text);
    assert_int_equal(strlen(box.err.message), SLUICE_MESSAGE_BYTES_MAX - 1);
    assert_int_equal(strlen(box.err.hint), SLUICE_HINT_BYTES_MAX - 1);
    base_hint(&box.err, "%s%s", text, text);
    assert_int_equal(strlen(box.err.hint), SLUICE_HINT_BYTES_MAX - 1);
    for (size_t i = 0; i < sizeof box.guard; i++) assert_int_equal(box.guard[i], 'g');
}

/* A two-byte letter that the end of the message cuts in two. */
static void test_truncation_inside_a_letter(void **state)
{
    struct sluice_error err;
    char text[SLUICE_MESSAGE_BYTES_MAX + 8];
    memset(text, 'a', sizeof text);
    memcpy(text + SLUICE_MESSAGE_BYTES_MAX - 2, "\xc3\xa4", 3);
    base_fail(&err, SLUICE_ERR_RUN, NULL, "%s", text);
    assert_int_equal(strlen(err.message), SLUICE_MESSAGE_BYTES_MAX - 1);
    assert_int_equal(err.message[SLUICE_MESSAGE_BYTES_MAX - 2], '?');
}

static void test_printable(void **state)
{
    static const char *const cases[][2] = {
        {"", ""},
        {"a b~", "a b~"},
        {"\x1b[31mred\x07\n\t\x7f", "?[31mred????"},
        {"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"},
        {"\xc2\x9b", "??"},                          /* C1 control sequence introducer */
        {"\xc2\xa0", "\xc2\xa0"},                    /* the first code point after them */
        {"\x80x\xff", "?x?"},                        /* stray bytes */
        {"\xc3", "?"},                               /* cut */
        {"\xe2\x82", "??"},                          /* cut */
        {"\xe2\x82z", "??z"},                        /* interrupted */
        {"\xc0\x9b\xc1\xbf", "????"},                /* overlong */
        {"\xe0\x9f\xbf\xf0\x8f\xbf\xbf", "???????"}, /* overlong */
        {"\xed\xa0\x80", "???"},                     /* surrogate */
        {"\xed\x9f\xbf", "\xed\x9f\xbf"},            /* the last before them */
        {"\xf4\x90\x80\x80\xf5\x80", "??????"},      /* beyond U+10FFFF */
        {"\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[64];
        struct sluice_error err;
        strcpy(text, cases[i][0]);
        base_printable(text);
        assert_string_equal(text, cases[i][1]);
        base_fail(&err, SLUICE_ERR_RUN, cases[i][0], "<%s>", cases[i][0]);
        assert_memory_equal(err.message + 1, cases[i][1], strlen(cases[i][1]));
        base_hint(&err, "%s", cases[i][0]);
        assert_string_equal(err.hint, cases[i][1]);
    }
}

static void test_constant_hints_are_printable_too(void **state)
{
    struct sluice_error err;
    base_fail(&err, SLUICE_ERR_RUN, "a\nb", "c");
    assert_string_equal(err.hint, "a?b");
}

static void test_exit_codes(void **state)
{
    static const struct {
        enum sluice_status status;
        int code;
        const char *name;
    } expected[] = {
        {SLUICE_OK, 0, "ok"},
        {SLUICE_ERR_RUN, 1, "run"},
        {SLUICE_ERR_USAGE, 2, "usage"},
        {SLUICE_ERR_MODEL, 3, "model"},
        {SLUICE_ERR_MEMORY, 4, "memory"},
        {SLUICE_ERR_HARDWARE, 4, "hardware"},
        {SLUICE_ERR_IO, 5, "io"},
        {SLUICE_ERR_TIMEOUT, 5, "timeout"},
        {SLUICE_CANCELLED, 130, "cancelled"},
        {SLUICE_CONTEXT_FULL, 0, "context_full"},
        {(enum sluice_status)99, 1, "unknown"},
    };
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        assert_int_equal(base_exit_code(expected[i].status), expected[i].code);
        assert_string_equal(base_status_name(expected[i].status), expected[i].name);
    }
}

static char last_line[2048];
static int last_level = -1;

static void keep_line(void *user, enum base_log_level level, const char *text)
{
    assert_ptr_equal(user, last_line);
    strcpy(last_line, text);
    last_level = (int)level;
}

static void test_log(void **state)
{
    struct base_log log = {keep_line, last_line};
    base_log(&log, BASE_LOG_WARN, "%d %s", 5, "layers\x1b");
    assert_string_equal(last_line, "5 layers?");
    assert_int_equal(last_level, BASE_LOG_WARN);
    char text[4000];
    memset(text, 'b', sizeof text - 1);
    text[sizeof text - 1] = 0;
    base_log(&log, BASE_LOG_DEBUG, "%s", text);
    assert_true(strlen(last_line) >= 500 && strlen(last_line) < sizeof last_line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fail),       cmocka_unit_test(test_null_is_accepted),
        cmocka_unit_test(test_truncation), cmocka_unit_test(test_truncation_inside_a_letter),
        cmocka_unit_test(test_printable),  cmocka_unit_test(test_constant_hints_are_printable_too),
        cmocka_unit_test(test_exit_codes), cmocka_unit_test(test_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
