/* Words of every known pre-tokenizer against what the models' own library and llama.cpp make of awkward texts
 * (tests/golden/pre/words.json), and ids of a vocabulary of plain characters (raw.gguf) against llama.cpp's. */
#include "support.h"
#include "text/split.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS_MAX 256

static json_t *golden;

static const char *golden_path(const char *name)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/tests/golden/pre/%s", getenv("SLUICE_SOURCE"), name);
    return path;
}

struct lengths {
    size_t at[WORDS_MAX], n;
};

static enum sluice_status collect(void *user, const char *word, size_t bytes, struct sluice_error *err)
{
    (void)word;
    (void)err;
    struct lengths *l = user;
    assert_in_range(l->n, 0, WORDS_MAX - 1);
    l->at[l->n++] = bytes;
    return SLUICE_OK;
}

static void show(const char *what, const char *text, const size_t *lengths, size_t n)
{
    printf("%s:", what);
    for (size_t i = 0; i < n; text += lengths[i++]) printf(" [%.*s]", (int)lengths[i], text);
    printf("\n");
}

/* True if the words are those of a list of lengths. */
static bool same(const struct lengths *got, const json_t *want)
{
    if (json_array_size(want) != got->n) return false;
    for (size_t i = 0; i < got->n; i++)
        if ((size_t)json_integer_value(json_array_get(want, i)) != got->at[i]) return false;
    return true;
}

static size_t count_faults(const char *name, const json_t *words, const json_t *others)
{
    struct text_split *s;
    struct text_split_work *w;
    struct text_split_facts facts;
    struct sluice_error err;
    const json_t *texts = json_object_get(golden, "texts");
    size_t faults = 0;
    if (text_split_create(name, strlen(name), &s, &facts, &err)) fail_msg("%s: %s", name, err.message);
    assert_int_equal(text_split_work_create(&w, &err), SLUICE_OK);
    for (size_t i = 0; i < json_array_size(texts); i++) {
        const char *text = json_string_value(json_array_get(texts, i));
        const json_t *want = json_array_get(words, i);
        struct lengths got = {.n = 0};
        char index[32];
        assert_int_equal(text_split_run(s, w, text, strlen(text), collect, &got, &err), SLUICE_OK);
        snprintf(index, sizeof index, "%zu", i);
        assert_true(!json_object_get(others, index) ||
                    !same(&got, json_object_get(others, index))); /* the list is true */
        if (same(&got, want)) continue;
        struct lengths expected = {.n = json_array_size(want)};
        for (size_t k = 0; k < expected.n; k++) expected.at[k] = (size_t)json_integer_value(json_array_get(want, k));
        printf("%s, text %zu\n", name, i);
        show("  gives   ", text, got.at, got.n);
        show("  expected", text, expected.at, expected.n);
        faults++;
    }
    text_split_work_destroy(w);
    text_split_destroy(s);
    return faults;
}

static void test_words(void **state)
{
    (void)state;
    const json_t *schemes = json_object_get(golden, "schemes"), *scheme, *name;
    size_t faults = 0, i, k, n_names = 0;
    json_array_foreach(schemes, i, scheme)
    {
        json_array_foreach(json_object_get(scheme, "names"), k, name)
        {
            faults += count_faults(json_string_value(name), json_object_get(scheme, "words"),
                                   json_object_get(scheme, "llama.cpp"));
            n_names++;
        }
    }
    assert_int_equal(faults, 0);
    assert_in_range(n_names, 60, 1000);
}

/* Each known name is in the golden file, or is one of those that this list explains. */
static void test_all_names_are_covered(void **state)
{
    (void)state;
    static const char *const others[] = {
        "gemma4", "sarvam-moe",         /* plain characters: below */
        "deepseek-v4", "deepseek-v3.1", /* names that llama.cpp does not write: as deepseek-v3 */
    };
    const json_t *scheme, *name;
    size_t k, m, n;
    for (n = 0; text_split_name(n); n++) {
        bool found = false;
        json_array_foreach(json_object_get(golden, "schemes"), k, scheme)
            json_array_foreach(json_object_get(scheme, "names"), m, name) found |=
            !strcmp(json_string_value(name), text_split_name(n));
        for (size_t i = 0; i < sizeof others / sizeof *others; i++) found |= !strcmp(others[i], text_split_name(n));
        if (!found) fail_msg("%s is not in the golden file", text_split_name(n));
        assert_true(text_split_known(text_split_name(n), strlen(text_split_name(n))));
    }
    assert_in_range(n, 60, 1000);
    assert_false(text_split_known("gpt-", 4));
}

static void test_plain_characters(void **state)
{
    (void)state;
    json_error_t why;
    struct sluice_error err;
    struct gguf *g;
    json_t *rows = json_load_file(golden_path("raw.json"), 0, &why), *row;
    size_t i;
    if (!rows) fail_msg("%s: %s", golden_path("raw.json"), why.text);
    if (gguf_open(os_system(), golden_path("raw.gguf"), &g, &err)) fail_msg("%s", err.message);
    struct text_tokenizer *t = tokenizer_of(g);
    assert_true(text_adds_bos(t));
    json_array_foreach(rows, i, row)
    {
        const char *text = json_string_value(json_array_get(row, 0));
        const json_t *want = json_array_get(row, 1);
        int32_t ids[128];
        const size_t n = json_array_size(want);
        assert_in_range(n, 1, 128);
        for (size_t k = 0; k < n; k++) ids[k] = (int32_t)json_integer_value(json_array_get(want, k));
        assert_ids(t, text, false, ids, n);
        if (!strstr(text, "\xe2\x96\x81")) assert_round_trip(t, text, strlen(text)); /* U+2581 is a space */
    }
    assert_round_trip(t, "\xff the\xc3", 6); /* no UTF-8 */
    assert_in_range(i, 10, 100);
    text_tokenizer_destroy(t);
    gguf_close(g);
    json_decref(rows);
}

int main(void)
{
    json_error_t why;
    golden = json_load_file(golden_path("words.json"), 0, &why);
    if (!golden) {
        printf("%s: %s\n", golden_path("words.json"), why.text);
        return 1;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_words), cmocka_unit_test(test_all_names_are_covered),
                                       cmocka_unit_test(test_plain_characters)};
    int code = cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
    json_decref(golden);
    return code;
}
