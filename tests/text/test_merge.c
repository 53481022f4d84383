/* Both merges against the slow definition (look at all pairs, merge the best one, begin again), over random
 * vocabularies and texts with many ties. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKENS_MAX 80
#define TEXT_MAX 48

static uint64_t random_state;

static unsigned random_below(unsigned n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (unsigned)(random_state % n);
}

struct words {
    char texts[TOKENS_MAX][32];
    char merges[TOKENS_MAX][68];
    int32_t left[TOKENS_MAX], right[TOKENS_MAX], result[TOKENS_MAX]; /* of merges, in order of rank */
    float scores[TOKENS_MAX];
    size_t n, n_merges;
};

static int32_t find(const struct words *w, const char *text)
{
    for (size_t i = 0; i < w->n; i++)
        if (strcmp(w->texts[i], text) == 0) return (int32_t)i;
    return -1;
}

/* Letters a, b, c and joins of what there is already, in random order, so that merges often cannot happen or tie. */
static void make_words(struct words *w)
{
    memset(w, 0, sizeof *w);
    for (char c = 'a'; c <= 'c'; c++) w->texts[w->n++][0] = c;
    size_t wanted = 10 + random_below(TOKENS_MAX - 20);
    for (size_t tries = 0; tries < 1000 && w->n < wanted; tries++) {
        unsigned a = random_below((unsigned)w->n), b = random_below((unsigned)w->n);
        char joined[64];
        snprintf(joined, sizeof joined, "%s%s", w->texts[a], w->texts[b]);
        if (strlen(joined) > 8) continue;
        int32_t id = find(w, joined);
        if (id < 0) {
            id = (int32_t)w->n;
            strcpy(w->texts[w->n++], joined);
        }
        if (w->n_merges == TOKENS_MAX) continue;
        size_t at = w->n_merges++;
        char *end = stpcpy(w->merges[at], w->texts[a]);
        *end++ = ' ';
        strcpy(end, w->texts[b]);
        w->left[at] = (int32_t)a;
        w->right[at] = (int32_t)b;
        w->result[at] = id;
    }
    for (size_t i = 0; i < w->n; i++) w->scores[i] = (float)random_below(6) - 3.0f;
}

static size_t slow_bpe(const struct words *w, const char *text, int32_t *ids)
{
    size_t n = strlen(text);
    for (size_t i = 0; i < n; i++) ids[i] = text[i] - 'a';
    for (;;) {
        size_t best = SIZE_MAX, at = 0;
        for (size_t i = 0; i + 1 < n; i++)
            for (size_t m = 0; m < w->n_merges; m++) {
                if (w->left[m] != ids[i] || w->right[m] != ids[i + 1]) continue;
                if (m < best) {
                    best = m;
                    at = i;
                }
                break;
            }
        if (best == SIZE_MAX) return n;
        ids[at] = w->result[best];
        n--;
        memmove(ids + at + 1, ids + at + 2, (n - at - 1) * sizeof *ids);
    }
}

static size_t slow_spm(const struct words *w, const char *text, int32_t *ids)
{
    size_t n = strlen(text);
    for (size_t i = 0; i < n; i++) ids[i] = text[i] - 'a';
    for (;;) {
        size_t at = SIZE_MAX;
        int32_t best = -1;
        for (size_t i = 0; i + 1 < n; i++) {
            char joined[64];
            snprintf(joined, sizeof joined, "%s%s", w->texts[ids[i]], w->texts[ids[i + 1]]);
            int32_t id = find(w, joined);
            if (id < 0 || (best >= 0 && w->scores[id] <= w->scores[best])) continue;
            best = id;
            at = i;
        }
        if (best < 0) return n;
        ids[at] = best;
        n--;
        memmove(ids + at + 1, ids + at + 2, (n - at - 1) * sizeof *ids);
    }
}

static struct gguf *open_words(const struct words *w, bool spm)
{
    const char *tokens[TOKENS_MAX], *merges[TOKENS_MAX];
    for (size_t i = 0; i < w->n; i++) tokens[i] = w->texts[i];
    for (size_t i = 0; i < w->n_merges; i++) merges[i] = w->merges[i];
    struct meta m = {0};
    meta_str(&m, "general.architecture", "llama");
    meta_str(&m, "tokenizer.ggml.model", spm ? "llama" : "gpt2");
    meta_str(&m, "tokenizer.ggml.pre", "gpt-2");
    meta_strs(&m, "tokenizer.ggml.tokens", tokens, w->n);
    meta_strs(&m, "tokenizer.ggml.merges", merges, w->n_merges);
    meta_f32s(&m, "tokenizer.ggml.scores", w->scores, w->n);
    meta_bool(&m, "tokenizer.ggml.add_space_prefix", false);
    return meta_open(&m);
}

static void check(bool spm)
{
    random_state = 0x9e3779b97f4a7c15u;
    size_t merged = 0;
    for (int vocabulary = 0; vocabulary < 60; vocabulary++) {
        struct words w;
        make_words(&w);
        struct gguf *g = open_words(&w, spm);
        struct text_tokenizer *t = tokenizer_of(g);
        for (int round = 0; round < 60; round++) {
            char text[TEXT_MAX + 1];
            size_t length = 1 + random_below(TEXT_MAX);
            unsigned letters = 1 + random_below(3);
            for (size_t i = 0; i < length; i++) text[i] = (char)('a' + random_below(letters));
            text[length] = '\0';
            int32_t ids[TEXT_MAX];
            size_t n = spm ? slow_spm(&w, text, ids) : slow_bpe(&w, text, ids);
            assert_ids(t, text, false, ids, n);
            merged += length - n;
        }
        text_tokenizer_destroy(t);
        gguf_close(g);
    }
    assert_true(merged > 10000); /* the vocabularies were worth it */
}

static void test_bpe(void **state)
{
    (void)state;
    check(false);
}

static void test_spm(void **state)
{
    (void)state;
    check(true);
}

struct looks {
    size_t n, most;
};

static bool goes_on(void *user)
{
    struct looks *l = user;
    return ++l->n < l->most;
}

/* One word without an end is given up in the middle, too; and all of it gives the same ids however often was asked. */
static void test_given_up(void **state)
{
    (void)state;
    enum { BYTES = 100000 };
    char *text = malloc(BYTES);
    int32_t *ids = malloc((BYTES + 8) * sizeof *ids), *others;
    struct words w;
    random_state = 1;
    make_words(&w);
    for (size_t i = 0; i < BYTES; i++) text[i] = (char)('a' + random_below(3));
    for (int spm = 0; spm < 2; spm++) {
        struct gguf *g = open_words(&w, spm);
        struct text_tokenizer *t = tokenizer_of(g);
        struct sluice_error err;
        struct looks l = {.most = SIZE_MAX};
        const struct text_encode_options o = {.watch = {goes_on, &l}};
        size_t n, looks, n_others = encode(t, text, BYTES, false, &others);
        assert_int_equal(text_encode(t, text, BYTES, &o, ids, BYTES + 8, &n, &err), SLUICE_OK);
        assert_int_equal(n, n_others);
        assert_memory_equal(ids, others, n * sizeof *ids);
        looks = l.n;
        assert_true(looks >= BYTES / TEXT_WATCH_STEPS);
        const size_t ends[] = {1, 2, looks / 2, looks};
        for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
            l = (struct looks){.most = ends[i]};
            assert_int_equal(text_encode(t, text, BYTES, &o, ids, BYTES + 8, &n, &err), SLUICE_CANCELLED);
            assert_int_equal(l.n, ends[i]); /* and not asked again */
        }
        free(others);
        text_tokenizer_destroy(t);
        gguf_close(g);
    }
    free(ids);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bpe), cmocka_unit_test(test_spm),
                                       cmocka_unit_test(test_given_up)};
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
