/* Words of the pre-tokenizers, worked out by hand from the models' expressions; '|' stands between the words. */
#include "support.h"
#include "text/split.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct collected {
    char text[512];
    size_t n;
};

static enum sluice_status collect(void *user, const char *word, size_t bytes, struct sluice_error *err)
{
    (void)err;
    struct collected *c = user;
    assert_true(bytes > 0 && c->n + bytes + 2 < sizeof c->text);
    if (c->n > 0) c->text[c->n++] = '|';
    memcpy(c->text + c->n, word, bytes);
    c->n += bytes;
    c->text[c->n] = '\0';
    return SLUICE_OK;
}

static void assert_words(const char *pre, const char *text, const char *expected)
{
    struct text_split *s;
    struct text_split_work *w;
    struct text_split_facts facts;
    struct sluice_error err;
    struct collected c = {.n = 0};
    assert_int_equal(text_split_create(pre, strlen(pre), &s, &facts, &err), SLUICE_OK);
    assert_int_equal(text_split_work_create(&w, &err), SLUICE_OK);
    assert_int_equal(text_split_run(s, w, text, strlen(text), collect, &c, &err), SLUICE_OK);
    if (strcmp(c.text, expected) != 0) fail_msg("%s: '%s' gives '%s', expected '%s'", pre, text, c.text, expected);
    assert_in_range(text_split_memory_bytes(s), 100, 1000000);
    text_split_work_destroy(w);
    text_split_destroy(s);
}

#define HAN "\xe4\xbd\xa0\xe5\xa5\xbd"  /* two Han characters */
#define KANA "\xe3\x81\x93\xe3\x82\x93" /* two Hiragana characters */
#define E_ACUTE "e\xcc\x81"             /* e and a combining accent */
#define MVS "\xe1\xa0\x8e"              /* U+180E, no white space */
#define IDEOGRAPHIC "\xe3\x80\x80"      /* U+3000, white space */

static void test_words(void **state)
{
    (void)state;
    static const struct {
        const char *pre, *text, *words;
    } rows[] = {
        {"gpt-2", "I'll  pay 12345$\n\nnow", "I|'ll| | pay| 12345|$|\n|\n|now"},
        {"gpt-2", "I'LL", "I|'|LL"},
        {"default", "a+b 1234", "a|+|b| |123|4"},
        {"falcon", "a`b 1234", "a|`|b| |123|4"},
        {"starcoder", "ab 12", "ab| |1|2"},
        {"llama-bpe", "I'LL pay 12345$\n\n  now  ", "I|'LL| pay| |123|45|$\n\n| | now|  "},
        {"llama-bpe", "a \n b", "a| \n| b"},
        {"qwen2", "x12 " E_ACUTE "t", "x|1|2| e|\xcc\x81t"},
        {"qwen35", "x12 " E_ACUTE "t", "x|1|2| " E_ACUTE "t"},
        {"qwen2", MVS ".", MVS "."},
        {"qwen2", "a" IDEOGRAPHIC IDEOGRAPHIC "b", "a|" IDEOGRAPHIC "|" IDEOGRAPHIC "b"},
        {"qwen2", "a.\nb", "a|.\n|b"},
        {"seed-coder", "a.\nb", "a|.|\n|b"},
        {"laguna", "a.\nb", "a|.|\n|b"},
        {"minicpm5", "a1234", "a|123|4"},
        {"bailingmoe2", "it'Sx 12", "it|'S|x| |1|2"},
        {"gpt-4o", "HelloWorld DON'T don't ABCdef 12345", "Hello|World| DON'T| don't| ABCdef| |123|45"},
        {"gpt-4o", "a//\nb", "a|//\n|b"},
        {"gpt-4o", HAN E_ACUTE "A", HAN E_ACUTE "|A"},
        {"tekken", "don't 12 aB", "don|'t| |1|2| a|B"},
        {"kimi-k2", HAN "World" KANA HAN " " HAN "'s it's 1234",
         HAN "|World" KANA "|" HAN "| |" HAN "|'s| it's| |123|4"},
        {"deepseek-v3", "Hello, world! 12345 " HAN "it's _x", "Hello|,| world|!| |123|45| |" HAN "|it|'s| _|x"},
        {"deepseek-llm", "ab 12  ", "ab| |12|  "},
        {"deepseek-llm", "a   " HAN "1", "a|   |" HAN "|1"},
        {"deepseek-coder", "ab, 12\n", "ab|,| |1|2|\n"},
        {"olmo", "", ""},
        {"qwen2",
         "a\xff"
         "b\xc3",
         "a|\xff"
         "b|\xc3"},
        {"qwen2", " \xff\xff ", " \xff\xff| "},
        {"kimi-k2", HAN "\xe3\x80\x82" HAN, HAN "|\xe3\x80\x82|" HAN}, /* a full stop is no Han */
        {"exaone-moe", "Hello big world, ok", "Hello big world|,| ok"},
        {"tiny_aya", "1234567 1234x", "1|234|567| |123|4|x"},
        {"viking", "one, two 12", "one|,| two| |1|2"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) assert_words(rows[i].pre, rows[i].text, rows[i].words);
}

static enum sluice_status add_up(void *user, const char *word, size_t bytes, struct sluice_error *err)
{
    (void)word;
    (void)err;
    *(size_t *)user += bytes;
    return SLUICE_OK;
}

/* Long runs through every expression: no limit of PCRE2 is met, nothing is lost, and time does not grow with the square
 * (then the alarm ends the program). */
static void test_long_runs(void **state)
{
    (void)state;
    enum { RUN_BYTES = 300000 };
    static const char *const names[] = {
        "default",  "gpt-2",   "llama-bpe",    "qwen2",       "qwen35",         "falcon",      "starcoder",  "gpt-4o",
        "tekken",   "kimi-k2", "deepseek-llm", "deepseek-v3", "deepseek-coder", "bailingmoe2", "seed-coder", "laguna",
        "minicpm5", "youtu",   "bloom",        "viking",      "exaone-moe",     "tiny_aya",    "gemma4"};
    static const char *const runs[][3] = {
        {"x", " ", "x"}, {"", " ", HAN},         {"", "\n ", "a"},        {"a ", "b ", "1"}, {"", "1", "_"},
        {HAN, "A", "1"}, {"\xcc\x81", "A", " "}, {"A", HAN "A", ""},      {"a", "'s", ""},   {"", "12", "a"},
        {" ", ".", "/"}, {"", "e\xcc\x81", "B"}, {"", KANA "\r", "\xff"}, {"", "\xff", " "}};
    char *text = malloc(RUN_BYTES + 64);
    struct sluice_error err;
    struct text_split_work *w;
    assert_int_equal(text_split_work_create(&w, &err), SLUICE_OK);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct text_split *s;
        struct text_split_facts facts;
        assert_int_equal(text_split_create(names[i], strlen(names[i]), &s, &facts, &err), SLUICE_OK);
        for (size_t r = 0; r < sizeof runs / sizeof *runs; r++) {
            char *end = stpcpy(text, runs[r][0]);
            while (end < text + RUN_BYTES) end = stpcpy(end, runs[r][1]);
            end = stpcpy(end, runs[r][2]);
            size_t sum = 0;
            assert_int_equal(text_split_run(s, w, text, (size_t)(end - text), add_up, &sum, &err), SLUICE_OK);
            assert_int_equal(sum, end - text);
        }
        text_split_destroy(s);
    }
    text_split_work_destroy(w);
    free(text);
}

int main(void)
{
    alarm(240);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_words), cmocka_unit_test(test_long_runs)};
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
