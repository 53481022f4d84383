/* The tree of prefixes: against a plain list of what was kept, under random texts with branches, small memory, and
 * everything that may leave leaving. */
#include "engine/prefix_tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TOKEN_BYTES 24u /* of a payload, each */
#define STATE_BYTES 700u
#define TEXT_MAX 900u

static struct prefix_tree tree;
static void *block;
static uint64_t state = 1;

static uint32_t below(uint32_t n)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 33) % n;
}

static void begin(uint64_t bytes, bool stateful)
{
    const struct prefix_sizes s = {
        .bytes = bytes, .run_bytes = PREFIX_RUN * TOKEN_BYTES, .state_bytes = stateful ? STATE_BYTES : 0};
    assert_true(prefix_tree_fits(&s));
    block = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    assert_non_null(block);
    prefix_tree_init(&tree, &s, block);
}

static void end(void)
{
    prefix_tree_check(&tree);
    free(block);
}

/* What a token at a position stands for: depends on everything before it, as a KV row does. */
static uint64_t row_of(const int32_t *ids, size_t position)
{
    uint64_t h = 7;
    for (size_t i = 0; i <= position; i++) h = (h ^ (uint64_t)(uint32_t)ids[i]) * UINT64_C(1099511628211);
    return h;
}

static void put_rows(uint32_t item, const int32_t *ids)
{
    const struct prefix_item *i = prefix_at(&tree, item);
    for (uint32_t k = 0; k < i->n; k++) {
        uint8_t row[TOKEN_BYTES];
        memset(row, (int)(row_of(ids, i->from + k) & 0xff), sizeof row);
        const uint64_t h = row_of(ids, i->from + k);
        memcpy(row, &h, sizeof h);
        prefix_tree_put(&tree, item, (uint64_t)k * TOKEN_BYTES, row, sizeof row);
    }
}

/* The rows of ids[0, n) are those that the tree has on the way to `run`. */
static void check_rows(uint32_t run, const int32_t *ids, size_t n)
{
    size_t to = n;
    for (; run != PREFIX_NONE; to = prefix_at(&tree, run)->from, run = prefix_at(&tree, run)->parent) {
        const struct prefix_item *i = prefix_at(&tree, run);
        assert_true(prefix_in_memory(i));
        for (size_t p = i->from; p < to; p++) {
            uint64_t h;
            prefix_tree_get(&tree, run, (p - i->from) * TOKEN_BYTES, &h, sizeof h);
            assert_int_equal(h, row_of(ids, p));
        }
    }
    assert_int_equal(to, 0);
}

static bool leave(void)
{
    const uint32_t victim = prefix_tree_victim(&tree, PREFIX_MEMORY);
    if (victim == PREFIX_NONE) return false;
    prefix_tree_remove(&tree, victim);
    return true;
}

/* Keeps ids[0, n) as the engine does; how many tokens are there now. */
static size_t keep(const int32_t *ids, size_t n)
{
    struct prefix_match m;
    prefix_tree_find(&tree, ids, n, &m);
    check_rows(m.run, ids, m.n);
    prefix_tree_touch(&tree, m.run);
    if (m.run != PREFIX_NONE) prefix_tree_pin(&tree, m.run);
    while (m.n < n) {
        const uint32_t most = n - m.n < PREFIX_RUN ? (uint32_t)(n - m.n) : PREFIX_RUN;
        uint32_t item;
        while ((item = prefix_tree_add(&tree, m.run, (uint32_t)m.n, ids + m.n, most)) == PREFIX_NONE && leave())
            continue;
        if (item == PREFIX_NONE) break;
        bool room;
        while (!(room = prefix_tree_room(&tree, item, (uint64_t)most * TOKEN_BYTES)) && leave()) continue;
        if (!room) {
            prefix_tree_unpin(&tree, item);
            prefix_tree_remove(&tree, item);
            break;
        }
        put_rows(item, ids);
        if (m.run != PREFIX_NONE) prefix_tree_unpin(&tree, m.run);
        m.run = item;
        m.n += most;
    }
    if (m.run != PREFIX_NONE) prefix_tree_unpin(&tree, m.run);
    return m.n;
}

/* A text that goes on from a beginning of another one; few different tokens, so that branches are many. */
static size_t invent(int32_t *ids, const int32_t *other, size_t n_other)
{
    size_t n = n_other ? below((uint32_t)n_other + 1) : 0;
    memcpy(ids, other, n * sizeof *ids);
    const size_t more = below(3) ? below(300) : below(4);
    for (size_t i = 0; i < more && n < TEXT_MAX; i++) ids[n++] = (int32_t)below(3);
    return n;
}

static void test_random(void **unused)
{
    static int32_t texts[40][TEXT_MAX];
    size_t n[40] = {0};
    begin(1 << 20, false); /* all of them fit */
    for (unsigned round = 0; round < 400; round++) {
        const uint32_t a = below(40), b = below(40);
        int32_t ids[TEXT_MAX];
        const size_t length = invent(ids, texts[b], n[b]);
        memcpy(texts[a], ids, length * sizeof *ids);
        n[a] = length;
        const size_t kept = keep(ids, length);
        struct prefix_match m;
        prefix_tree_find(&tree, ids, length, &m);
        assert_int_equal(m.n, kept);
        check_rows(m.run, ids, m.n);
        if (round % 20 == 0) prefix_tree_check(&tree);
    }
    assert_true(tree.n_items > 20);
    /* A text that is not there ends at the first token that differs, whoever has more of it. */
    int32_t ids[TEXT_MAX];
    memcpy(ids, texts[3], n[3] * sizeof *ids);
    for (size_t at = 0; at < n[3]; at += 7) {
        struct prefix_match m;
        ids[at] = 99;
        prefix_tree_find(&tree, ids, n[3], &m);
        assert_true(m.n <= at);
        ids[at] = texts[3][at];
    }
    while (leave()) continue;
    assert_int_equal(tree.n_items, 0);
    assert_int_equal(prefix_tree_memory_bytes(&tree), 0);
    end();
}

/* Little memory: nothing is ever wrong, what is in use stays, and what was used last is there. */
static void test_small(void **unused)
{
    const struct prefix_sizes s = {.run_bytes = PREFIX_RUN * TOKEN_BYTES};
    const uint64_t least = prefix_tree_least_bytes(&s);
    for (uint64_t bytes = least; bytes < least + 60000; bytes += 20011) {
        static int32_t texts[8][TEXT_MAX];
        size_t n[8] = {0};
        begin(bytes, false);
        for (unsigned round = 0; round < 300; round++) {
            const uint32_t a = below(8), b = below(8);
            int32_t ids[TEXT_MAX];
            const size_t length = invent(ids, texts[b], n[b]);
            memcpy(texts[a], ids, length * sizeof *ids);
            n[a] = length;
            const size_t kept = keep(ids, length);
            struct prefix_match m;
            prefix_tree_find(&tree, ids, length, &m);
            assert_int_equal(m.n, kept);
            assert_true(kept > 0 || length == 0);
            check_rows(m.run, ids, m.n);
            prefix_tree_check(&tree);
        }
        end();
    }
}

/* Forty turns: each copies only what is new, and an earlier turn that is edited shares what lies before it. */
static void test_turns(void **unused)
{
    int32_t ids[4000], edited[4000];
    size_t n = 0;
    begin(1 << 20, false);
    for (int turn = 0; turn < 14; turn++) {
        const size_t before = prefix_tree_memory_bytes(&tree);
        for (int i = 0; i < 249; i++) ids[n++] = (int32_t)below(1000);
        assert_int_equal(keep(ids, n), n);
        assert_true(prefix_tree_memory_bytes(&tree) - before <= 249 * TOKEN_BYTES + 3 * tree.page_bytes);
        if (n > TEXT_MAX * 4) break;
    }
    memcpy(edited, ids, sizeof ids);
    edited[500] = 5000;
    struct prefix_match m;
    prefix_tree_find(&tree, edited, n, &m);
    assert_int_equal(m.n, 500);
    const uint32_t n_items = tree.n_items;
    assert_int_equal(keep(edited, 600), 600);
    assert_int_equal(tree.n_items, n_items + 1);
    prefix_tree_find(&tree, ids, n, &m);
    assert_int_equal(m.n, n);
    end();
}

/* States: found where they stand, never behind the common part; gone before the rows that they end. */
static void test_states(void **unused)
{
    int32_t ids[600];
    struct prefix_match m;
    for (int i = 0; i < 600; i++) ids[i] = i % 7;
    begin(1 << 18, true);
    assert_int_equal(keep(ids, 600), 600);
    static const uint32_t at[] = {100, 128, 300, 600};
    for (size_t i = 0; i < 4; i++) {
        prefix_tree_find(&tree, ids, at[i], &m);
        assert_int_equal(m.n, at[i]);
        assert_int_equal(prefix_tree_state_at(&tree, m.run, at[i]), PREFIX_NONE);
        const uint32_t item = prefix_tree_add(&tree, m.run, at[i], NULL, 0);
        assert_int_not_equal(item, PREFIX_NONE);
        assert_true(prefix_tree_room(&tree, item, STATE_BYTES));
        prefix_tree_put(&tree, item, 690, &at[i], 4);
        prefix_tree_unpin(&tree, item);
        assert_int_equal(prefix_tree_state_at(&tree, m.run, at[i]), item);
    }
    static const uint32_t asked[] = {99, 100, 127, 128, 200, 299, 300, 599, 600},
                          there[] = {0, 100, 100, 128, 128, 128, 300, 300, 600};
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        prefix_tree_find(&tree, ids, asked[i], &m);
        assert_int_equal(m.n, asked[i]);
        assert_int_equal(m.state == PREFIX_NONE ? 0 : prefix_at(&tree, m.state)->from, there[i]);
    }
    ids[250] = 70;
    prefix_tree_find(&tree, ids, 600, &m);
    assert_int_equal(m.n, 250);
    uint32_t back;
    prefix_tree_get(&tree, m.state, 690, &back, 4);
    assert_int_equal(back, 128);
    prefix_tree_check(&tree);
    unsigned n_states = 0, order[16], n_left = 0;
    while (tree.n_items) {
        const uint32_t victim = prefix_tree_victim(&tree, PREFIX_MEMORY);
        n_states += prefix_at(&tree, victim)->n == 0;
        if (n_left < 16) order[n_left++] = prefix_at(&tree, victim)->n ? 1000 : prefix_at(&tree, victim)->from;
        prefix_tree_remove(&tree, victim);
        prefix_tree_check(&tree);
    }
    assert_int_equal(n_states, 4);
    assert_int_equal(order[0], 600); /* the end leaves first, and rows that nothing ends go with it */
    assert_int_equal(order[1], 1000);
    end();
}

/* What was used lately stays; what a later state stands for goes before. */
static void test_ranks(void **unused)
{
    int32_t a[128], b[128];
    struct prefix_match m;
    memset(a, 0, sizeof a);
    memset(b, 0x11, sizeof b);
    begin(1 << 18, false);
    keep(a, 128);
    keep(b, 128);
    prefix_tree_find(&tree, a, 128, &m);
    assert_true(leave()); /* neither was used again: the older */
    prefix_tree_find(&tree, a, 128, &m);
    assert_int_equal(m.n, 0);
    keep(a, 128);
    prefix_tree_find(&tree, b, 128, &m);
    prefix_tree_touch(&tree, m.run);
    prefix_tree_pin(&tree, m.run);
    assert_true(leave());
    assert_false(leave()); /* in use */
    prefix_tree_unpin(&tree, m.run);
    assert_true(leave());
    end();
}

/* What was often gone on from stays while what came later and was never used leaves, but not for ever. */
static void test_often_used(void **unused)
{
    (void)unused;
    int32_t often[128], once[128];
    struct prefix_match m;
    for (int i = 0; i < 128; i++) often[i] = -1 - i;
    begin(1 << 18, false);
    keep(often, 128);
    prefix_tree_find(&tree, often, 128, &m);
    for (int i = 0; i < 7; i++) prefix_tree_used(&tree, m.run);
    assert_int_equal(prefix_at(&tree, m.run)->uses, 7);
    int n = 0;
    for (bool there = true; there && n < 100; n++) {
        for (int i = 0; i < 128; i++) once[i] = 1000 * n + i;
        keep(once, 128);
        assert_true(leave());
        prefix_tree_find(&tree, often, 128, &m);
        there = m.n == 128;
    }
    assert_in_range(n, 3, 5); /* three doublings: the clock must come up to its rank */
    end();
}

/* Items on the disk: the order in which they are written, and who may leave which tier. */
static void test_files(void **unused)
{
    int32_t ids[384];
    struct prefix_match m;
    for (int i = 0; i < 384; i++) ids[i] = i;
    begin(1 << 18, false);
    keep(ids, 384);
    prefix_tree_find(&tree, ids, 384, &m);
    const uint32_t third = m.run, second = prefix_at(&tree, third)->parent, first = prefix_at(&tree, second)->parent;
    prefix_tree_set_file(&tree, first, PREFIX_FILE_DUE);
    prefix_tree_set_file(&tree, second, PREFIX_FILE_DUE);
    prefix_tree_set_file(&tree, third, PREFIX_FILE_DUE);
    prefix_tree_check(&tree);
    assert_int_equal(tree.first_due, first);
    assert_int_equal(prefix_tree_victim(&tree, PREFIX_DISK), PREFIX_NONE);
    prefix_tree_set_file(&tree, first, PREFIX_FILE_WRITING);
    prefix_tree_set_file(&tree, second, PREFIX_FILE_WRITING);
    prefix_tree_set_file(&tree, second, PREFIX_FILE_DUE); /* it went wrong: in the old order again */
    prefix_tree_set_file(&tree, first, PREFIX_FILE_DUE);
    assert_int_equal(tree.first_due, first);
    assert_int_equal(prefix_at(&tree, first)->due_after, second);
    prefix_tree_check(&tree);
    const uint32_t order[] = {first, second, third};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(tree.first_due, order[i]);
        prefix_tree_set_file(&tree, order[i], PREFIX_FILE_WRITING);
        prefix_tree_set_file(&tree, order[i], PREFIX_FILE_THERE);
        prefix_tree_check(&tree);
    }
    assert_int_equal(prefix_tree_victim(&tree, PREFIX_DISK), third);
    prefix_tree_drop(&tree, first); /* may be anywhere on the way, now that there are files */
    prefix_tree_check(&tree);
    prefix_tree_find(&tree, ids, 384, &m);
    assert_int_equal(m.n, 384);
    prefix_tree_set_file(&tree, third, PREFIX_FILE_NONE);
    assert_int_equal(prefix_tree_victim(&tree, PREFIX_DISK), second);
    prefix_tree_set_file(&tree, second, PREFIX_FILE_NONE);
    assert_int_equal(prefix_tree_victim(&tree, PREFIX_DISK), PREFIX_NONE); /* nothing else has the first */
    while (leave()) prefix_tree_check(&tree);
    assert_int_equal(tree.n_items, 1);
    assert_int_equal(prefix_tree_victim(&tree, PREFIX_DISK), first);
    prefix_tree_set_file(&tree, first, PREFIX_FILE_NONE);
    prefix_tree_remove(&tree, first);
    end();
}

/* Lets so many leave that n pages are enough, and takes the rest away. What lies behind is spoiled. */
static void limit(uint32_t n)
{
    while (tree.n_pages > n && leave()) continue;
    const uint32_t got = prefix_tree_limit(&tree, n);
    assert_true(got >= n || got == tree.n_pages_max);
    assert_int_equal(got, tree.n_pages_limit);
    memset(tree.pages + got * tree.page_bytes, 0xee, (tree.n_pages_max - got) * tree.page_bytes);
}

static void is_spoiled(void)
{
    const uint8_t *at = tree.pages + tree.n_pages_limit * tree.page_bytes,
                  *end = tree.pages + tree.n_pages_max * tree.page_bytes;
    for (; at < end; at++)
        if (*at != 0xee) fail_msg("a page behind the limit was used");
}

/* The end of the block is taken away and given back while texts come and go: nothing there is used, what stays keeps
 * its bytes, and what is pinned or being written is not moved. */
static void test_limits(void **unused)
{
    static int32_t texts[40][TEXT_MAX];
    size_t n[40] = {0};
    uint32_t moved = 0, in_the_way = 0;
    begin(1 << 18, false);
    for (unsigned round = 0; round < 300; round++) {
        const uint32_t a = below(40), b = below(40);
        int32_t ids[TEXT_MAX];
        n[a] = invent(ids, texts[b], n[b]);
        memcpy(texts[a], ids, n[a] * sizeof *ids);
        (void)keep(ids, n[a]);
        if (round % 5 == 0) {
            struct prefix_match m;
            uint32_t first = PREFIX_NONE, last = PREFIX_NONE;
            prefix_tree_find(&tree, texts[b], n[b], &m);
            if (m.run != PREFIX_NONE) {
                prefix_tree_pin(&tree, m.run);
                last = first = prefix_at(&tree, m.run)->page;
                while (tree.next_page[last] != PREFIX_NONE) last = tree.next_page[last];
            }
            const uint32_t before = tree.n_pages, wanted = below(tree.n_pages_max + 1);
            limit(wanted);
            moved += tree.n_pages == before && tree.n_pages;
            if (m.run != PREFIX_NONE) {
                assert_int_equal(prefix_at(&tree, m.run)->page, first);
                assert_true(last < tree.n_pages_limit);
                in_the_way += tree.n_pages_limit > wanted && tree.n_pages < tree.n_pages_limit;
                prefix_tree_unpin(&tree, m.run);
            }
        }
        for (unsigned k = 0; k < 40; k++) { /* a beginning of each, as far as it is there */
            struct prefix_match m;
            prefix_tree_find(&tree, texts[k], n[k], &m);
            check_rows(m.run, texts[k], m.n);
        }
        is_spoiled();
        prefix_tree_check(&tree);
    }
    assert_true(moved > 5 && in_the_way > 5);
    limit(0);
    assert_int_equal(tree.n_items, 0);
    assert_int_equal(keep(texts[0], n[0]), 0);
    limit(tree.n_pages_max);
    for (unsigned k = 0; !n[k]; k++) n[0] = n[k + 1], memcpy(texts[0], texts[k + 1], sizeof texts[0]);
    assert_int_equal(keep(texts[0], n[0]), n[0]);
    end();
}

/* Of those that may leave, those on the disk too, by rank. */
static void test_spare(void **unused)
{
    uint32_t items[20], spare[8];
    begin(1 << 17, false);
    for (int32_t k = 0; k < 20; k++) {
        items[k] = prefix_tree_add(&tree, PREFIX_NONE, 0, &k, 1);
        assert_true(prefix_tree_room(&tree, items[k], 100));
        if (k % 2) {
            prefix_tree_set_file(&tree, items[k], PREFIX_FILE_DUE);
            prefix_tree_set_file(&tree, items[k], k == 3 ? PREFIX_FILE_WRITING : PREFIX_FILE_THERE);
        }
        prefix_tree_rank(&tree, items[k], (double)(k * 7 % 20));
        if (k != 5) prefix_tree_unpin(&tree, items[k]);
    }
    assert_int_equal(prefix_tree_spare_bytes(&tree), 8 * tree.page_bytes);
    assert_int_equal(prefix_tree_spare(&tree, spare, 8), 8);
    assert_int_equal(prefix_tree_spare(&tree, spare, 3), 3);
    /* ranks of 1, 7, 9, 11, 13, 15, 17, 19: 7, 9, 3, 17, 11, 5, 19, 13 */
    assert_int_equal(spare[0], items[9]);
    assert_int_equal(spare[1], items[15]);
    assert_int_equal(spare[2], items[1]);
    prefix_tree_unpin(&tree, items[5]);
    prefix_tree_set_file(&tree, items[3], PREFIX_FILE_THERE);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random), cmocka_unit_test(test_small),  cmocka_unit_test(test_turns),
        cmocka_unit_test(test_states), cmocka_unit_test(test_ranks),  cmocka_unit_test(test_often_used),
        cmocka_unit_test(test_files),  cmocka_unit_test(test_limits), cmocka_unit_test(test_spare),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
