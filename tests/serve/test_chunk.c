/* How much of a prompt is computed at once while others are being answered. */
#include "serve/chunk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#define MS ((uint64_t)1000000)

/* After many chunks of the size that was chosen, each costing read + n * token, with reads behind computing. */
static size_t settled(uint64_t token_ms, uint64_t read_ms, uint64_t *took_ms)
{
    struct chunk_cost c = {0};
    for (int i = 0; i < 40; i++) {
        const size_t n = chunk_choose(&c);
        const uint64_t computing = n * token_ms, ms = computing > read_ms ? computing : read_ms;
        chunk_measured(&c, n, ms * MS, (ms - computing) * MS, read_ms * MS);
        *took_ms = ms;
    }
    return chunk_choose(&c);
}

static void test_others_wait_for_about_a_second(void **state)
{
    (void)state;
    uint64_t ms;
    assert_int_equal(settled(1, 0, &ms), CHUNK_MAX); /* fast: no smaller than before */
    const size_t n = settled(20, 0, &ms);            /* 50 tokens/s */
    assert_in_range(n, 60, 80);
    assert_in_range(ms, 1000, 2000);
    assert_int_equal(settled(200, 0, &ms), CHUNK_MIN); /* 5 tokens/s: not fewer than that */
    assert_in_range(settled(20, 500, &ms), 40, 60);
    assert_in_range(ms, 700, 1600);
}

/* Where reading takes long, chunks are as large as computing keeps up with: nothing is read for few tokens. */
static void test_reading_is_shared(void **state)
{
    (void)state;
    uint64_t ms;
    assert_in_range(settled(40, 8000, &ms), 190, 210);
    assert_in_range(ms, 7900, 8400);
    assert_in_range(settled(40, 2000, &ms), 45, 55);
}

static void test_what_tells_nothing(void **state)
{
    (void)state;
    struct chunk_cost c = {0};
    const size_t at_first = chunk_choose(&c);
    assert_in_range(at_first, CHUNK_MIN, CHUNK_MAX);
    chunk_measured(&c, 1, 5000 * MS, 0, 0);
    assert_int_equal(chunk_choose(&c), at_first);
    chunk_measured(&c, 64, 10 * MS, 20 * MS, 30 * MS); /* clocks that disagree */
    assert_in_range(chunk_choose(&c), CHUNK_MIN, CHUNK_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_others_wait_for_about_a_second),
        cmocka_unit_test(test_reading_is_shared),
        cmocka_unit_test(test_what_tells_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
