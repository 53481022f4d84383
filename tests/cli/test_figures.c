/* Differences of figures, and the sentence about other sizes. */
#include "cli/figures.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

void sluice_cancel(sluice_engine *e) { (void)e; } /* what report.c would call after a Ctrl-C */

#define GIB ((uint64_t)1 << 30)

static void counts_are_subtracted_and_levels_are_not(void **state)
{
    struct sluice_stats a = {.hits = 5,
                             .shrinks = 1,
                             .shrunk_bytes = 10,
                             .grows = 1,
                             .kept_decode = 3,
                             .prefix_tokens = 2,
                             .prefix_returned_bytes = 10},
                        b = {.hits = 9,
                             .shrinks = 4,
                             .shrunk_bytes = 70,
                             .grows = 3,
                             .kept_decode = 8,
                             .prefix_tokens = 9,
                             .prefix_returned_bytes = 15};
    a.slots_bytes = a.slots_limit_bytes = a.locked_bytes = a.pinned = 50;
    b.slots_bytes = b.slots_limit_bytes = b.locked_bytes = b.pinned = 40;
    b.useful_memory_bytes = GIB;
    b.n_sizes = 1;
    b.sizes[0].tokens_per_second = 2;
    a.prefetch[0].name = "next"; /* by name: a list may begin with others later */
    a.prefetch[0].named = a.prefetch[0].came_true = a.prefetch[0].chosen = a.prefetch[0].reads = 100;
    a.prefetch[0].useful = a.prefetch[0].late = a.prefetch[0].wasted = 100;
    a.prefetch[0].useful_bytes = a.prefetch[0].wasted_bytes = 100;
    b.prefetch[1] = a.prefetch[0];
    b.prefetch[0].name = "lookahead";
    b.prefetch[0].named = 7;
    b.prefetch[1].on = true;
    b.prefetch[1].named = b.prefetch[1].came_true = b.prefetch[1].chosen = b.prefetch[1].reads = 130;
    b.prefetch[1].useful = b.prefetch[1].late = b.prefetch[1].wasted = 130;
    b.prefetch[1].useful_bytes = b.prefetch[1].wasted_bytes = 130;
    a.routes[0].name = b.routes[0].name = "token";
    a.routes[0].steps = a.routes[0].tokens = a.routes[0].layers = 2;
    a.routes[0].predicted_ns = a.routes[0].ns = a.routes[0].read_bytes = 2;
    b.routes[0].steps = b.routes[0].tokens = b.routes[0].layers = 3;
    b.routes[0].predicted_ns = b.routes[0].ns = b.routes[0].read_bytes = 3;
    const struct sluice_stats d = figures_difference(&a, &b);
    assert_int_equal(d.hits, 4);
    assert_int_equal(d.shrinks, 3);
    assert_int_equal(d.shrunk_bytes, 60);
    assert_int_equal(d.grows, 2);
    assert_int_equal(d.kept_decode, 5);
    assert_int_equal(d.prefix_tokens, 7);
    assert_int_equal(d.prefix_returned_bytes, 5);
    assert_int_equal(d.slots_bytes, 40);
    assert_int_equal(d.slots_limit_bytes, 40);
    assert_int_equal(d.locked_bytes, 40);
    assert_int_equal(d.pinned, 40);
    assert_int_equal(d.useful_memory_bytes, GIB);
    assert_true(d.sizes[0].tokens_per_second == 2);
    assert_int_equal(d.prefetch[0].named, 7);
    assert_true(d.prefetch[1].on);
    const uint64_t guesses[] = {d.prefetch[1].named,        d.prefetch[1].came_true,    d.prefetch[1].chosen,
                                d.prefetch[1].reads,        d.prefetch[1].useful,       d.prefetch[1].late,
                                d.prefetch[1].useful_bytes, d.prefetch[1].wasted_bytes, d.prefetch[1].wasted};
    for (size_t i = 0; i < sizeof guesses / sizeof guesses[0]; i++) assert_int_equal(guesses[i], 30);
    const uint64_t routes[] = {d.routes[0].steps,        d.routes[0].tokens, d.routes[0].layers,
                               d.routes[0].predicted_ns, d.routes[0].ns,     d.routes[0].read_bytes};
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) assert_int_equal(routes[i], 1);
    a.read_bytes = 500; /* reads that were asked for before, and withdrawn since */
    b.read_bytes = 300;
    assert_int_equal(figures_difference(&a, &b).read_bytes, 0);
}

/* What is said of a run of 4 tokens/s with a budget of 8 GiB. */
static void says(const struct sluice_stats *s, const char *want)
{
    const struct sluice_ledger ledger = {
        .budget_bytes = 8 * GIB, .rows = {{"process", GIB}, {"prefixes", GIB / 2}}, .n_rows = 2};
    char *text;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    figures_print(out, s, &ledger, false);
    fclose(out);
    assert_string_equal(text, want);
    free(text);
}

static void other_sizes_are_spoken_of_when_they_matter(void **state)
{
    struct sluice_stats s = {.tokens_decode = 400, .decode_ns = 100000000000, .n_sizes = 5};
    static const unsigned gib[] = {4, 6, 12, 16, 32};
    static const double speed[] = {2, 3, 6, 9.1, 12};
    for (size_t i = 0; i < 5; i++) {
        s.sizes[i].memory_bytes = gib[i] * GIB;
        s.sizes[i].tokens_per_second = speed[i];
    }
    const char *twice = "sizes    with 16.0 GiB (now 8.00 GiB) decode would have been 9.1 tokens/s (now 4.0)";
    char want[200];
    snprintf(want, sizeof want, "%s\n", twice); /* how much would be useful is not known */
    says(&s, want);
    s.useful_memory_bytes = 32 * GIB;
    snprintf(want, sizeof want, "%s; more than 32.0 GiB would not help\n", twice);
    says(&s, want);
    s.useful_memory_bytes = 16 * GIB;
    snprintf(want, sizeof want, "%s; more would not help\n", twice);
    says(&s, want);
    s.useful_memory_bytes = 12 * GIB; /* nearer than twice */
    says(&s, "sizes    with 12.0 GiB (now 8.00 GiB) decode would have been 6.0 tokens/s (now 4.0); more would not "
             "help\n");
    s.useful_memory_bytes = 8 * GIB;
    says(&s, "sizes    more memory than now (8.00 GiB) would not have made decode faster\n");
    s.useful_memory_bytes = 4 * GIB;
    says(&s, "sizes    more memory than now (8.00 GiB) would not have made decode faster; 4.00 GiB would do\n");
    s.useful_memory_bytes = 0;
    s.sizes[2].memory_bytes = s.sizes[3].memory_bytes = s.sizes[4].memory_bytes = 40 * GIB; /* nothing near */
    says(&s, "sizes    with 40.0 GiB (now 8.00 GiB) decode would have been 6.0 tokens/s (now 4.0)\n");
    s.sizes[2].tokens_per_second = 4.01; /* no gain worth a word */
    says(&s, "");
    s.n_sizes = 0;
    says(&s, "");
    s.n_sizes = 5;
    s.tokens_decode = s.decode_ns = 0; /* nothing was decoded */
    says(&s, "");
}

static void prefixes_that_gave_memory_back_are_spoken_of(void **state)
{
    struct sluice_stats s = {.prefix_tokens = 12, .prefix_memory_bytes = GIB / 8, .prefix_memory_limit = GIB / 2};
    says(&s, "prefixes 12 tokens were known; kept 128 MiB of 512 MiB\n");
    s.prefix_returned_bytes = GIB / 4; /* and grown again */
    says(&s, "prefixes 12 tokens were known; kept 128 MiB of 512 MiB; memory was short: 256 MiB went back, of "
             "512 MiB\n");
    s.prefix_returned_bytes = 0; /* what was not used yet */
    s.prefix_memory_limit = GIB / 4;
    s.prefix_disk_limit = GIB;
    says(&s, "prefixes 12 tokens were known; kept 128 MiB of 256 MiB, on the disk 0 B of 1.00 GiB; memory was "
             "short: 0 B went back, of 512 MiB\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_subtracted_and_levels_are_not),
        cmocka_unit_test(other_sizes_are_spoken_of_when_they_matter),
        cmocka_unit_test(prefixes_that_gave_memory_back_are_spoken_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
