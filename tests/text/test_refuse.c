/* Vocabularies that cannot be trusted: refused with the key and the number, or harmless. */
#include "support.h"
#include "text/split.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A good byte-level vocabulary of five tokens, without the keys whose bit is set. */
enum { NO_MODEL = 1, NO_PRE = 2, NO_TOKENS = 4, NO_MERGES = 8 };

static struct meta start(unsigned without, const char *model, const char *pre)
{
    static const char *const tokens[] = {"a", "b", "ab", "?", "<end>"};
    static const char *const merges[] = {"a b"};
    struct meta m = {0};
    meta_str(&m, "general.architecture", "llama");
    if (!(without & NO_MODEL)) meta_str(&m, "tokenizer.ggml.model", model);
    if (!(without & NO_PRE)) meta_str(&m, "tokenizer.ggml.pre", pre);
    if (!(without & NO_TOKENS)) meta_strs(&m, "tokenizer.ggml.tokens", tokens, 5);
    if (!(without & NO_MERGES)) meta_strs(&m, "tokenizer.ggml.merges", merges, 1);
    return m;
}

static void refused(struct meta m, const char *says, const char *hint)
{
    struct gguf *g = meta_open(&m);
    struct text_tokenizer *t = NULL;
    struct sluice_error err = {0};
    assert_int_equal(text_tokenizer_create(g, NULL, &t, &err), SLUICE_ERR_MODEL);
    assert_null(t);
    if (!strstr(err.message, says)) fail_msg("'%s' does not say '%s'", err.message, says);
    if (!strstr(err.hint, hint)) fail_msg("hint '%s' does not say '%s'", err.hint, hint);
    assert_int_equal(text_tokenizer_create(g, NULL, &t, NULL), SLUICE_ERR_MODEL);
    gguf_close(g);
}

static void count_line(void *user, enum base_log_level level, const char *text)
{
    if (level == BASE_LOG_WARN) ++*(int *)user;
    assert_true(strlen(text) > 10);
}

static struct text_tokenizer *accepted(struct meta *m, struct gguf **g, int n_warnings)
{
    int n = 0;
    struct base_log log = {.line = count_line, .user = &n};
    struct text_tokenizer *t = NULL;
    struct sluice_error err;
    *g = meta_open(m);
    if (text_tokenizer_create(*g, &log, &t, &err) != SLUICE_OK) fail_msg("%s", err.message);
    assert_int_equal(n, n_warnings);
    return t;
}

static void test_names(void **state)
{
    (void)state;
    refused(start(0, "bert", "gpt-2"), "bert", "gpt2");
    refused(start(0, "", "gpt-2"), "tokenizer.ggml.model", "llama");
    refused(start(0, "gpt2", "no-such"), "'no-such'", "--pre");
    refused(start(0, "gpt2", "no-such"), "qwen2", "");
    refused(start(0, "gpt2", "no-such"), "tokenizer.ggml.pre", "");
    refused(start(0, "gpt2", "qwen"), "deepseek-v3", "");
    refused(start(0, "gpt2", "qwen"), "gemma4 and their aliases", ""); /* the list is whole */
    refused(start(NO_TOKENS, "gpt2", "gpt-2"), "tokenizer.ggml.tokens", "");
    refused(start(NO_MERGES, "gpt2", "gpt-2"), "tokenizer.ggml.merges", "");
    refused(start(0, "llama", "default"), "tokenizer.ggml.scores", "");
    struct gguf *g;
    struct meta m = start(NO_PRE, "gpt2", "");
    struct text_tokenizer *t = accepted(&m, &g, 1); /* a missing name is a warning */
    text_tokenizer_destroy(t);
    gguf_close(g);
}

/* Another pre-tokenizer than the file names. */
static void test_asked(void **state)
{
    (void)state;
    static const char *const files[] = {"no-such", "gpt-2", NULL};
    struct sluice_error err;
    struct text_tokenizer *t;
    for (size_t i = 0; i < 3; i++) {
        struct meta m = start(files[i] ? 0 : NO_PRE, "gpt2", files[i]);
        struct gguf *g = meta_open(&m);
        int n = 0;
        struct base_log log = {.line = count_line, .user = &n};
        assert_int_equal(text_tokenizer_create_as(g, "qwen2", &log, &t, &err), SLUICE_OK);
        assert_int_equal(n, 0); /* nothing is missing any more */
        assert_false(text_adds_bos(t));
        text_tokenizer_destroy(t);
        assert_int_equal(text_tokenizer_create_as(g, "nothing", NULL, &t, &err), SLUICE_ERR_USAGE);
        assert_non_null(strstr(err.message, "'nothing'"));
        assert_non_null(strstr(err.message, "kimi-k2"));
        gguf_close(g);
    }
    for (size_t i = 0; i < 2; i++) {
        struct meta m = start(0, i ? "no_vocab" : "llama", "");
        struct gguf *g = meta_open(&m);
        assert_int_equal(text_tokenizer_create_as(g, "qwen2", NULL, &t, &err), SLUICE_ERR_USAGE);
        assert_non_null(strstr(err.hint, "leave --pre out"));
        gguf_close(g);
    }
    struct meta m = start(0, "bert", "");
    struct gguf *g = meta_open(&m);
    assert_int_equal(text_tokenizer_create_as(g, "qwen2", NULL, &t, &err), SLUICE_ERR_MODEL); /* the first fault */
    gguf_close(g);
}

/* Every known name compiles and cuts words that together are the text. */
static void test_known_names(void **state)
{
    (void)state;
    static const char texts[] = "ab  ab\n\n a's 12345 \xe4\xb8\x80\xc3\xa9\xff\t ?!ab B\xcc\x81 \xe2\x80\xa8\r\n  ";
    for (size_t i = 0; text_split_name(i); i++) {
        const char *name = text_split_name(i);
        if (!strcmp(name, "gemma4") || !strcmp(name, "sarvam-moe")) continue; /* not spelt in GPT-2's alphabet */
        struct meta m = start(0, "gpt2", name);
        struct gguf *g = meta_open(&m);
        struct text_tokenizer *t = tokenizer_of(g);
        int32_t *ids;
        size_t n = encode(t, texts, sizeof texts - 1, false, &ids);
        assert_int_equal(n, sizeof texts - 1 - 3); /* three times "ab"; one '?' for each other byte */
        free(ids);
        text_tokenizer_destroy(t);
        gguf_close(g);
    }
}

static void test_arrays(void **state)
{
    (void)state;
    static const int32_t types[4] = {1, 1, 1, 1};
    static const float scores[6] = {0};
    static const char *const words[5] = {"a", "b", "c", "d", "e"};
    struct meta m = start(0, "gpt2", "gpt-2");
    meta_i32s(&m, "tokenizer.ggml.token_type", types, 4);
    refused(m, "4 items, there are 5", "");
    m = start(0, "gpt2", "gpt-2");
    meta_strs(&m, "tokenizer.ggml.token_type", words, 5);
    refused(m, "tokenizer.ggml.token_type", "");
    m = start(0, "gpt2", "gpt-2");
    meta_str(&m, "tokenizer.ggml.token_type", "x");
    refused(m, "tokenizer.ggml.token_type", "");
    m = start(0, "llama", "");
    meta_f32s(&m, "tokenizer.ggml.scores", scores, 6);
    refused(m, "6 items, there are 5", "");
    m = start(0, "llama", "");
    meta_strs(&m, "tokenizer.ggml.scores", words, 5);
    refused(m, "tokenizer.ggml.scores", "");
    m = start(NO_TOKENS, "gpt2", "gpt-2");
    meta_i32s(&m, "tokenizer.ggml.tokens", types, 4);
    refused(m, "tokenizer.ggml.tokens", "");
    m = start(NO_TOKENS, "gpt2", "gpt-2");
    meta_strs(&m, "tokenizer.ggml.tokens", words, 0);
    refused(m, "empty", "");
    m = start(NO_MERGES, "gpt2", "gpt-2");
    meta_u32(&m, "tokenizer.ggml.merges", 7);
    refused(m, "tokenizer.ggml.merges", "");
    m = start(NO_MERGES, "gpt2", "gpt-2");
    meta_i32s(&m, "tokenizer.ggml.merges", types, 4);
    refused(m, "tokenizer.ggml.merges", "");
    m = start(0, "gpt2", "gpt-2");
    meta_str(&m, "tokenizer.ggml.bos_token_id", "one");
    refused(m, "tokenizer.ggml.bos_token_id", "");
    m = start(NO_MODEL, "", "gpt-2");
    meta_u32(&m, "tokenizer.ggml.model", 1);
    refused(m, "tokenizer.ggml.model", "");
}

static void test_long_tokens(void **state)
{
    (void)state;
    char text[3000];
    memset(text, 'x', sizeof text);
    static const size_t lengths[] = {1020, 1021, 2048, 2049};
    for (size_t i = 0; i < 4; i++) {
        struct gguf_str tokens[2] = {{"a", 1}, {text, lengths[i]}};
        struct meta m = start(NO_TOKENS, "gpt2", "gpt-2");
        meta_texts(&m, "tokenizer.ggml.tokens", tokens, 2);
        if (i > 0) {
            refused(m, "token 1", "");
            continue;
        }
        struct gguf *g = meta_open(&m);
        struct text_tokenizer *t = tokenizer_of(g);
        struct text_decoder d = {.n_held = 3, .held = {0xf0, 0x9f, 0x99}};
        char out[TEXT_PIECE_BYTES_MAX];
        assert_int_equal(text_decode(t, &d, 1, false, out), 1023);
        text_tokenizer_destroy(t);
        gguf_close(g);
    }
    /* invalid bytes grow threefold on output */
    memset(text, '\xff', sizeof text);
    struct gguf_str tokens[1] = {{text, 341}};
    struct meta m = start(NO_TOKENS, "llama", "");
    float score = 0;
    meta_texts(&m, "tokenizer.ggml.tokens", tokens, 1);
    meta_f32s(&m, "tokenizer.ggml.scores", &score, 1);
    refused(m, "token 0", "");
}

/* Odd but harmless: each is taken, with a line where something is lost. */
static void test_harmless(void **state)
{
    (void)state;
    static const char *const tokens[] = {"a", "b", "ab", "a", "", "?"};
    static const char *const merges[] = {"a b", "a b", "a", "", " ", "  ", "x y", "a x", "ab ", " ab", "b a", "a  b"};
    static const int32_t types[] = {1, 1, 1, 1, -5, 99};
    struct meta m = {0};
    meta_str(&m, "general.architecture", "llama");
    meta_str(&m, "tokenizer.ggml.model", "gpt2");
    meta_str(&m, "tokenizer.ggml.pre", "gpt-2");
    meta_strs(&m, "tokenizer.ggml.tokens", tokens, 6);
    meta_strs(&m, "tokenizer.ggml.merges", merges, 12);
    meta_i32s(&m, "tokenizer.ggml.token_type", types, 6);
    meta_u32(&m, "tokenizer.ggml.bos_token_id", 6); /* out of range */
    meta_u32(&m, "tokenizer.ggml.eos_token_id", UINT32_MAX);
    meta_bool(&m, "tokenizer.ggml.add_bos_token", true);
    struct gguf *g;
    struct text_tokenizer *t = accepted(&m, &g, 4); /* duplicates, merges, BOS, no BOS to put */
    assert_int_equal(text_bos(t), TEXT_NO_TOKEN);
    assert_int_equal(text_eos(t), TEXT_NO_TOKEN);
    assert_false(text_adds_bos(t));
    static const int32_t expected[] = {2, 0, 5, 1};
    assert_ids(t, "abazb", false, expected, 4);
    struct text_encode_options o = {.force_bos = true};
    struct sluice_error err;
    size_t n;
    assert_int_equal(text_encode(t, "a", 1, &o, NULL, 0, &n, &err), SLUICE_ERR_USAGE);
    text_tokenizer_destroy(t);
    gguf_close(g);
}

/* No token for a byte, and nothing that could stand for it. */
static void test_no_stand_in(void **state)
{
    (void)state;
    static const char *const tokens[] = {"a", "b"};
    static const float scores[] = {0, 0};
    for (int spm = 0; spm < 2; spm++) {
        struct meta m = {0};
        meta_str(&m, "general.architecture", "llama");
        meta_str(&m, "tokenizer.ggml.model", spm ? "llama" : "gpt2");
        meta_str(&m, "tokenizer.ggml.pre", "qwen2");
        meta_strs(&m, "tokenizer.ggml.tokens", tokens, 2);
        meta_strs(&m, "tokenizer.ggml.merges", tokens, 0);
        meta_f32s(&m, "tokenizer.ggml.scores", scores, 2);
        meta_bool(&m, "tokenizer.ggml.add_space_prefix", false);
        struct gguf *g = meta_open(&m);
        struct text_tokenizer *t = tokenizer_of(g);
        struct text_encode_options o = {0};
        struct sluice_error err;
        size_t n;
        int32_t ids[16];
        if (!spm) {
            assert_int_equal(text_encode(t, "axb", 3, &o, ids, 16, &n, &err), SLUICE_ERR_MODEL);
            assert_non_null(strstr(err.message, "0x78"));
        } else { /* SentencePiece's unknown token is 0 by default */
            assert_int_equal(text_encode(t, "bxb", 3, &o, ids, 16, &n, &err), SLUICE_OK);
            assert_int_equal(n, 3);
            assert_int_equal(ids[1], 0);
        }
        text_tokenizer_destroy(t);
        gguf_close(g);
    }
}

static void test_no_vocabulary(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct meta m = start(i == 0 ? NO_MODEL : 0, i == 1 ? "no_vocab" : "none", "gpt-2");
        struct gguf *g = meta_open(&m);
        struct text_tokenizer *t = tokenizer_of(g);
        struct text_encode_options o = {.bos = true};
        struct sluice_error err;
        struct text_decoder d = {0};
        char out[TEXT_PIECE_BYTES_MAX];
        size_t n = 7;
        assert_int_equal(text_n_vocab(t), 0);
        assert_int_equal(text_bos(t), TEXT_NO_TOKEN);
        assert_int_equal(text_eos(t), TEXT_NO_TOKEN);
        assert_int_equal(text_encode(t, "a", 1, &o, NULL, 0, &n, &err), SLUICE_ERR_MODEL);
        assert_int_equal(n, 0);
        assert_non_null(strstr(err.message, "no tokenizer"));
        assert_int_equal(text_decode(t, &d, 0, true, out), 0);
        assert_int_equal(text_find_special(t, "a", 1), TEXT_NO_TOKEN);
        assert_false(text_ends_generation(t, 0));
        assert_in_range(text_tokenizer_memory_bytes(t), 1, 10000);
        text_tokenizer_destroy(t);
        gguf_close(g);
    }
    text_tokenizer_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),       cmocka_unit_test(test_asked),         cmocka_unit_test(test_known_names),
        cmocka_unit_test(test_arrays),      cmocka_unit_test(test_long_tokens),   cmocka_unit_test(test_harmless),
        cmocka_unit_test(test_no_stand_in), cmocka_unit_test(test_no_vocabulary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
