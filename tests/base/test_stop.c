/* Stop texts: never a byte of one is passed on, and everything else is, however the text is cut into pieces. */
#include "base/stop.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct sink {
    char text[4096];
    size_t bytes;
};

static void collect(void *user, const char *text, size_t bytes)
{
    struct sink *s = user;
    assert_true(s->bytes + bytes < sizeof s->text);
    memcpy(s->text + s->bytes, text, bytes);
    s->bytes += bytes;
    s->text[s->bytes] = '\0';
}

static struct sink sink;
static struct stop_filter filter;

static void begin(const char *const *stops, size_t n)
{
    struct sluice_error err;
    memset(&sink, 0, sizeof sink);
    stop_init(&filter, collect, &sink);
    for (size_t i = 0; i < n; i++) assert_int_equal(stop_add(&filter, stops[i], &err), SLUICE_OK);
}

static void partial_stops_are_held(void **state)
{
    static const char *const stops[] = {"<|end|>", "\nUser:"};
    begin(stops, 2);
    assert_false(stop_push(&filter, "Hello <", 7));
    assert_string_equal(sink.text, "Hello ");
    assert_false(stop_push(&filter, "|en", 3));
    assert_string_equal(sink.text, "Hello ");
    assert_false(stop_push(&filter, "joy\nUs", 6));
    assert_string_equal(sink.text, "Hello <|enjoy");
    assert_true(stop_push(&filter, "er: more", 8));
    assert_string_equal(sink.text, "Hello <|enjoy");
    assert_true(stop_push(&filter, "still", 5));
    stop_end(&filter);
    assert_string_equal(sink.text, "Hello <|enjoy");
}

static void the_end_releases_what_was_held(void **state)
{
    static const char *const stops[] = {"abc"};
    begin(stops, 1);
    assert_false(stop_push(&filter, "xab", 3));
    assert_string_equal(sink.text, "x");
    stop_end(&filter);
    assert_string_equal(sink.text, "xab");
}

static void limits_are_refused(void **state)
{
    struct sluice_error err;
    char longest[STOP_BYTES_MAX + 2];
    memset(longest, 'a', sizeof longest);
    longest[STOP_BYTES_MAX + 1] = '\0';
    begin(NULL, 0);
    assert_int_equal(stop_add(&filter, longest, &err), SLUICE_ERR_USAGE);
    longest[STOP_BYTES_MAX] = '\0';
    assert_int_equal(stop_add(&filter, longest, &err), SLUICE_OK);
    assert_int_equal(stop_add(&filter, "", &err), SLUICE_OK);
    assert_int_equal(filter.n_stops, 1);
    for (int i = 1; i < STOP_STRINGS_MAX; i++) assert_int_equal(stop_add(&filter, "z", &err), SLUICE_OK);
    assert_int_equal(stop_add(&filter, "z", &err), SLUICE_ERR_USAGE);
}

/* Against the plain definition: the text before the first stop text that becomes complete. */
static void random_texts_agree_with_the_definition(void **state)
{
    static const char *const stops[] = {"aab", "ab", "bbb", "abaab", "ca"};
    uint32_t random = 1;
    for (int round = 0; round < 20000; round++) {
        char text[40];
        size_t n = 0, expect = SIZE_MAX, complete = SIZE_MAX, n_stops = 1 + (size_t)round % 5;
        begin(stops, n_stops);
        for (; n < sizeof text - 1; n++) {
            random = random * 1664525 + 1013904223;
            text[n] = (char)('a' + (random >> 24) % 3);
        }
        text[n] = '\0';
        for (size_t end = 1; end <= n && complete == SIZE_MAX; end++)
            for (size_t i = 0; i < n_stops; i++) {
                size_t bytes = strlen(stops[i]);
                if (bytes > end || memcmp(text + end - bytes, stops[i], bytes) != 0) continue;
                complete = end;
                if (end - bytes < expect) expect = end - bytes;
            }
        /* Byte by byte, the definition is exact. */
        bool hit = false;
        for (size_t i = 0; i < n && !hit; i++) hit = stop_push(&filter, text + i, 1);
        if (!hit) stop_end(&filter);
        assert_int_equal(hit, complete != SIZE_MAX);
        text[hit ? expect : n] = '\0';
        assert_string_equal(sink.text, text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(partial_stops_are_held),
        cmocka_unit_test(the_end_releases_what_was_held),
        cmocka_unit_test(limits_are_refused),
        cmocka_unit_test(random_texts_agree_with_the_definition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
