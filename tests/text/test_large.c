/* Long and hostile texts: whole books, long runs of one character, binary data. Every one must come back as it went in,
 * in time that grows with the length: an alarm far above what linear time needs ends the program otherwise. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Linear time is a second or two in all, in an instrumented build half a minute; one quadratic case is minutes. */
#define ALARM_S 240
#define RUN_BYTES 300000

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void test_books(void **state)
{
    (void)state;
    static const char *const books[] = {"alice", "don-quijote-es", "promessi-sposi-it", "shakespeare", "war-and-peace"};
    struct gguf *g = open_shared("train/demo.gguf");
    struct text_tokenizer *t = tokenizer_of(g);
    assert_int_equal(text_n_vocab(t), 4096);
    for (size_t i = 0; i < sizeof books / sizeof *books; i++) {
        char path[64];
        snprintf(path, sizeof path, "corpus/%s.txt", books[i]);
        struct blob b = load_shared(path);
        int32_t *ids;
        double begin = now_s();
        size_t n = encode(t, b.at, b.bytes, false, &ids), n_back;
        double seconds = now_s() - begin;
        print_message("%s: %zu bytes, %zu tokens, %.2f s\n", books[i], b.bytes, n, seconds);
        assert_in_range(n, b.bytes / 8, b.bytes / 2);
        char *back = decode(t, ids, n, false, &n_back);
        assert_int_equal(n_back, b.bytes);
        assert_memory_equal(back, b.at, b.bytes);
        free(back);
        free(ids);
        free(b.at);
    }
    text_tokenizer_destroy(t);
    gguf_close(g);
}

/* A long run of a repeated piece, with something before and after. */
static void check_run(const struct text_tokenizer *t, const char *before, const char *piece, const char *after)
{
    size_t n_before = strlen(before), n_piece = strlen(piece), n_after = strlen(after), n = n_before;
    char *text = malloc(n_before + RUN_BYTES + n_piece + n_after + 1);
    memcpy(text, before, n_before);
    for (; n < RUN_BYTES; n += n_piece) memcpy(text + n, piece, n_piece);
    memcpy(text + n, after, n_after);
    assert_round_trip(t, text, n + n_after);
    free(text);
}

static void check_runs(const char *path)
{
    static const char *const rows[][3] = {
        {"", " ", ""},
        {"x", " ", "x"},
        {"", " ", "\xe4\xb8\x80"},
        {"1", " ", "1"},
        {"", "\n", "a"},
        {"", "\t \n", "?"},
        {"", "a", ""},
        {"\xe4\xb8\x80", "A", "1"},
        {"", "A\xe4\xb8\x80", ""},
        {"e", "\xcc\x81", "x"},
        {" ", "7", "a"},
        {"'", "'s", "'"},
        {"", ".", "b"},
        {"", "<|", "|>"},
        {"", "\xff", ""},
        {"", "\xe2\x82\xac", ""},
        {"", "\xf0\x9f\x99\x82", ""},
    };
    struct gguf *g = open_shared(path);
    struct text_tokenizer *t = tokenizer_of(g);
    double begin = now_s();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) check_run(t, rows[i][0], rows[i][1], rows[i][2]);
    print_message("%s: %.1f s for %zu runs\n", path, now_s() - begin, sizeof rows / sizeof *rows);
    text_tokenizer_destroy(t);
    gguf_close(g);
}

static void test_runs_gpt2(void **state)
{
    (void)state;
    check_runs("oracle/vocab/gpt-2.gguf");
}
static void test_runs_llama_bpe(void **state)
{
    (void)state;
    check_runs("oracle/vocab/llama-bpe.gguf");
}
static void test_runs_qwen35(void **state)
{
    (void)state;
    check_runs("oracle/vocab/qwen35.gguf");
}
static void test_runs_deepseek_llm(void **state)
{
    (void)state;
    check_runs("oracle/vocab/deepseek-llm.gguf");
}
static void test_runs_falcon(void **state)
{
    (void)state;
    check_runs("oracle/vocab/falcon.gguf");
}
static void test_runs_llama_spm(void **state)
{
    (void)state;
    check_runs("oracle/vocab/llama-spm.gguf");
}

/* Every byte value in every place, short and long. */
static void test_binary(void **state)
{
    (void)state;
    static const char *const paths[] = {"oracle/vocab/gpt-2.gguf", "oracle/vocab/llama-bpe.gguf",
                                        "oracle/vocab/deepseek-coder.gguf", "oracle/vocab/llama-spm.gguf",
                                        "train/demo.gguf"};
    for (size_t p = 0; p < sizeof paths / sizeof *paths; p++) {
        struct gguf *g = open_shared(paths[p]);
        struct text_tokenizer *t = tokenizer_of(g);
        uint64_t x = 88172645463325252u;
        char text[600];
        for (int round = 0; round < 400; round++) {
            size_t n = (size_t)round % sizeof text;
            for (size_t i = 0; i < n; i++) {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                /* half raw bytes, half of a few troublesome ones */
                text[i] = x & 256 ? (char)x : "\0 \n\xc3\xa9\xe2\x80\xf0'A1"[x % 11];
            }
            assert_round_trip(t, text, n);
        }
        assert_round_trip(t, "", 0);
        assert_round_trip(t, "\0", 1);
        text_tokenizer_destroy(t);
        gguf_close(g);
    }
}

int main(void)
{
    need_shared();
    alarm(ALARM_S);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_books),          cmocka_unit_test(test_runs_gpt2),
        cmocka_unit_test(test_runs_qwen35),    cmocka_unit_test(test_runs_deepseek_llm),
        cmocka_unit_test(test_runs_falcon),    cmocka_unit_test(test_runs_llama_bpe),
        cmocka_unit_test(test_runs_llama_spm), cmocka_unit_test(test_binary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
