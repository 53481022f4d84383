/* Special tokens in a text: leftmost first, longest at one place; control tokens only when asked for, user-defined ones
 * always; none of them out of ordinary text. BOS, ends of an answer, spaces around special tokens. */
#include "support.h"

#include <stdlib.h>
#include <string.h>

enum { A, B, LESS, MORE, SPACE, AB, C_SHORT, C_LONG, C_OTHER, USER, USER_LONG, END, N_BPE };

static struct gguf *bpe_vocabulary(const char *pre)
{
    static const char *const tokens[N_BPE] = {"a",   "b",    "<",     ">",    "\xc4\xa0", "ab",
                                              "<a>", "<a>b", "b<a>a", "abab", "ababa",    "<|im_end|>"};
    static const int32_t types[N_BPE] = {1, 1, 1, 1, 1, 1, 3, 3, 3, 4, 4, 1};
    static const char *const merges[] = {"a b"};
    struct meta m = {0};
    meta_str(&m, "general.architecture", "llama");
    meta_str(&m, "tokenizer.ggml.model", "gpt2");
    meta_str(&m, "tokenizer.ggml.pre", pre);
    meta_strs(&m, "tokenizer.ggml.tokens", tokens, N_BPE);
    meta_i32s(&m, "tokenizer.ggml.token_type", types, N_BPE);
    meta_strs(&m, "tokenizer.ggml.merges", merges, 1);
    meta_u32(&m, "tokenizer.ggml.bos_token_id", C_SHORT);
    meta_u32(&m, "tokenizer.ggml.eos_token_id", C_LONG);
    meta_u32(&m, "tokenizer.ggml.eot_token_id", C_OTHER);
    return meta_open(&m);
}

#define IDS(...) ((const int32_t[]){__VA_ARGS__}), sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t)

static void test_matching(void **state)
{
    (void)state;
    struct gguf *g = bpe_vocabulary("gpt-2");
    struct text_tokenizer *t = tokenizer_of(g);
    assert_ids(t, "a<a>a", true, IDS(A, C_SHORT, A));
    assert_ids(t, "a<a>b", true, IDS(A, C_LONG)); /* longest at one place */
    assert_ids(t, "b<a>a", true, IDS(C_OTHER));   /* leftmost before longest */
    assert_ids(t, "b<a>b", true, IDS(B, C_LONG)); /* a start that does not finish */
    assert_ids(t, "<a><a>", true, IDS(C_SHORT, C_SHORT));
    assert_ids(t, "<a", true, IDS(LESS, A));
    assert_ids(t, "b<a>a", false, IDS(B, LESS, A, MORE, A)); /* control tokens are text unless asked for */
    assert_ids(t, "bababab", false, IDS(B, USER_LONG, B));
    assert_ids(t, "ababb", false, IDS(USER, B));
    assert_ids(t, "ab ab", false, IDS(AB, SPACE, AB));
    assert_ids(t, "", true, NULL, 0);
    assert_int_equal(text_find_special(t, "<a>", 3), C_SHORT);
    assert_int_equal(text_find_special(t, "<a>b", 4), C_LONG);
    assert_int_equal(text_find_special(t, "<a>a", 4), TEXT_NO_TOKEN);
    assert_int_equal(text_find_special(t, "a<a>", 4), TEXT_NO_TOKEN);
    assert_int_equal(text_find_special(t, "abab", 4), USER);
    assert_int_equal(text_find_special(t, "ab", 2), TEXT_NO_TOKEN);
    assert_int_equal(text_find_special(t, "", 0), TEXT_NO_TOKEN);
    text_tokenizer_destroy(t);
    gguf_close(g);
}

/* What a user said inside a template's marks: its control tokens are text, user-defined ones stay tokens. */
static void test_plain_stretches(void **state)
{
    (void)state;
    struct gguf *g = bpe_vocabulary("gpt-2");
    struct text_tokenizer *t = tokenizer_of(g);
    const char text[] = "<a>a<a>abab<a>b<a>a";
    const struct text_range said[] = {{3, 11}, {12, 14}}; /* "a<a>abab" and "a>" of "<a>b" */
    const struct text_encode_options options = {.special = true, .plain = said, .n_plain = 2};
    const int32_t want[] = {C_SHORT, A, LESS, A, MORE, USER, LESS, A, MORE, C_OTHER};
    int32_t ids[32];
    size_t n;
    assert_int_equal(text_encode(t, text, sizeof text - 1, &options, ids, 32, &n, NULL), SLUICE_OK);
    assert_int_equal(n, sizeof want / sizeof *want);
    assert_memory_equal(ids, want, sizeof want);
    /* All of it said: no control token at all. */
    const struct text_range all = {0, sizeof text - 1};
    const struct text_encode_options none = {.special = true, .plain = &all, .n_plain = 1};
    assert_int_equal(text_encode(t, text, sizeof text - 1, &none, ids, 32, &n, NULL), SLUICE_OK);
    for (size_t i = 0; i < n; i++) assert_true(ids[i] != C_SHORT && ids[i] != C_LONG && ids[i] != C_OTHER);
    /* Nothing said: as without the list. */
    const struct text_encode_options every = {.special = true};
    assert_int_equal(text_encode(t, text, sizeof text - 1, &every, ids, 32, &n, NULL), SLUICE_OK);
    assert_int_equal(ids[2], C_SHORT);
    text_tokenizer_destroy(t);
    gguf_close(g);
}

static void test_ends(void **state)
{
    (void)state;
    struct gguf *g = bpe_vocabulary("gpt-2");
    struct text_tokenizer *t = tokenizer_of(g);
    assert_int_equal(text_bos(t), C_SHORT);
    assert_int_equal(text_eos(t), C_LONG);
    assert_true(text_ends_generation(t, C_LONG));
    assert_true(text_ends_generation(t, C_OTHER)); /* by its key */
    assert_true(text_ends_generation(t, END));     /* by its text, though the file calls it normal */
    assert_true(text_is_control(t, END));
    assert_false(text_ends_generation(t, C_SHORT));
    assert_false(text_ends_generation(t, A));
    assert_false(text_ends_generation(t, TEXT_NO_TOKEN));
    assert_false(text_is_control(t, -1));
    assert_false(text_is_control(t, N_BPE));
    assert_false(text_is_control(t, USER));
    text_tokenizer_destroy(t);
    gguf_close(g);
}

static void encode_with(const struct text_tokenizer *t, const struct text_encode_options *o, const int32_t *ids,
                        size_t n)
{
    int32_t got[16];
    size_t n_got;
    struct sluice_error err;
    assert_int_equal(text_encode(t, "ab", 2, o, got, 16, &n_got, &err), SLUICE_OK);
    assert_int_equal(n_got, n);
    assert_memory_equal(got, ids, n * sizeof *ids);
}

static void test_bos(void **state)
{
    (void)state;
    struct gguf *g = bpe_vocabulary("gpt-2"), *g3 = bpe_vocabulary("llama-bpe");
    struct text_tokenizer *t = tokenizer_of(g), *t3 = tokenizer_of(g3);
    assert_false(text_adds_bos(t));
    assert_true(text_adds_bos(t3)); /* Llama 3's default */
    encode_with(t, &(struct text_encode_options){.bos = true}, IDS(AB));
    encode_with(t, &(struct text_encode_options){.force_bos = true}, IDS(C_SHORT, AB));
    encode_with(t3, &(struct text_encode_options){.bos = true}, IDS(C_SHORT, AB));
    encode_with(t3, &(struct text_encode_options){.bos = false}, IDS(AB));
    encode_with(t3, &(struct text_encode_options){.bos = true, .force_bos = true}, IDS(C_SHORT, AB));
    text_tokenizer_destroy(t);
    text_tokenizer_destroy(t3);
    gguf_close(g);
    gguf_close(g3);
}

static void test_room(void **state)
{
    (void)state;
    struct gguf *g = bpe_vocabulary("gpt-2");
    struct text_tokenizer *t = tokenizer_of(g);
    struct text_encode_options o = {.special = true};
    struct sluice_error err;
    int32_t ids[4] = {-7, -7, -7, -7};
    size_t n = 0;
    assert_int_equal(text_encode(t, "a b b", 5, &o, NULL, 0, &n, &err), SLUICE_OK); /* counting */
    assert_int_equal(n, 5);
    assert_int_equal(text_encode(t, "a b b", 5, &o, ids, 3, &n, &err), SLUICE_ERR_USAGE);
    assert_int_equal(n, 5);
    assert_int_equal(ids[3], -7);
    assert_non_null(strstr(err.message, "5"));
    text_tokenizer_destroy(t);
    gguf_close(g);
}

/* llama-bpe takes a word whole even where the merges would not make it; never a control token. */
static void test_whole_words(void **state)
{
    (void)state;
    static const char *const tokens[] = {"a", "b", "c", "ab", "abc", "cab"};
    static const int32_t types[] = {1, 1, 1, 1, 1, 3};
    static const char *const merges[] = {"a b"};
    for (int i = 0; i < 2; i++) {
        struct meta m = {0};
        meta_str(&m, "general.architecture", "llama");
        meta_str(&m, "tokenizer.ggml.model", "gpt2");
        meta_str(&m, "tokenizer.ggml.pre", i == 0 ? "gpt-2" : "llama-bpe");
        meta_strs(&m, "tokenizer.ggml.tokens", tokens, 6);
        meta_i32s(&m, "tokenizer.ggml.token_type", types, 6);
        meta_strs(&m, "tokenizer.ggml.merges", merges, 1);
        struct gguf *g = meta_open(&m);
        struct text_tokenizer *t = tokenizer_of(g);
        if (i == 0)
            assert_ids(t, "abc", false, IDS(3, 2));
        else
            assert_ids(t, "abc", false, IDS(4));
        assert_ids(t, "cab", false, IDS(2, 3));
        assert_ids(t, "cab", true, IDS(5));
        assert_false(text_adds_bos(t)); /* asked for by llama-bpe, but there is none */
        text_tokenizer_destroy(t);
        gguf_close(g);
    }
}

#define SP "\xe2\x96\x81"

static void test_sentencepiece(void **state)
{
    (void)state;
    enum { UNK, BOS, EOS, SPACED, SPACE_SIGN, S, LEFT, RIGHT, LEFT_S, N };
    static const char *const tokens[N] = {"<unk>", "<s>", "</s>", SP "s", SP, "s", "<", ">", "<s"};
    static const int32_t types[N] = {2, 3, 3, 1, 1, 1, 1, 1, 1};
    static const float scores[N] = {0, 0, 0, -1, -9, -9, -9, -9, -2};
    struct meta m = {0};
    meta_str(&m, "general.architecture", "llama");
    meta_str(&m, "tokenizer.ggml.model", "llama");
    meta_strs(&m, "tokenizer.ggml.tokens", tokens, N);
    meta_i32s(&m, "tokenizer.ggml.token_type", types, N);
    meta_f32s(&m, "tokenizer.ggml.scores", scores, N);
    struct gguf *g = meta_open(&m);
    struct text_tokenizer *t = tokenizer_of(g);
    assert_int_equal(text_bos(t), BOS); /* SentencePiece's defaults */
    assert_int_equal(text_eos(t), EOS);
    assert_true(text_adds_bos(t));
    assert_ids(t, "s", false, IDS(SPACED));
    assert_ids(t, " s", false, IDS(SPACE_SIGN, SPACED));
    assert_ids(t, "s</s>s", true, IDS(SPACED, EOS, SPACED)); /* a space in front after a special token too */
    assert_ids(t, "<s>", true, IDS(BOS));
    assert_ids(t, "<s>", false, IDS(SPACE_SIGN, LEFT_S, RIGHT));  /* merges never make the control token */
    assert_ids(t, "x\xc3\xa9", false, IDS(SPACE_SIGN, UNK, UNK)); /* no byte tokens: one unknown a character */
    text_tokenizer_destroy(t);
    gguf_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matching),      cmocka_unit_test(test_plain_stretches),
        cmocka_unit_test(test_ends),          cmocka_unit_test(test_bos),
        cmocka_unit_test(test_room),          cmocka_unit_test(test_whole_words),
        cmocka_unit_test(test_sentencepiece),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
