/* Real vocabularies against the ids that llama.cpp gives (the oracle's vocab folder), and back to text. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARK "\n__ggml_vocab_test__\n"

static void check_line(const struct text_tokenizer *t, const char *name, size_t number, const char *text, size_t bytes,
                       const char *line)
{
    int32_t *ids;
    size_t n = encode(t, text, bytes, false, &ids), i = 0;
    const char *at = line;
    for (;; i++) {
        char *end;
        long id = strtol(at, &end, 10);
        if (end == at) break;
        if (i < n && ids[i] != id) fail_msg("%s, text %zu: token %zu is %d, expected %ld", name, number, i, ids[i], id);
        at = end;
    }
    if (i != n) fail_msg("%s, text %zu: %zu tokens, expected %zu", name, number, n, i);
    free(ids);
    assert_round_trip(t, text, bytes);
}

static void check_vocabulary(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "oracle/vocab/%s.gguf", name);
    struct gguf *g = open_shared(path);
    snprintf(path, sizeof path, "oracle/vocab/%s.inp", name);
    struct blob texts = load_shared(path);
    snprintf(path, sizeof path, "oracle/vocab/%s.out", name);
    struct blob lines = load_shared(path);
    struct text_tokenizer *t = tokenizer_of(g);

    const char *text = texts.at, *end = texts.at + texts.bytes;
    char *line = lines.at;
    size_t n = 0;
    while (text < end) {
        const char *next = memmem(text, (size_t)(end - text), MARK, strlen(MARK));
        char *newline = strchr(line, '\n');
        assert_non_null(newline);
        *newline = '\0';
        check_line(t, name, n++, text, (size_t)((next ? next : end) - text), line);
        line = newline + 1;
        text = next ? next + strlen(MARK) : end;
    }
    assert_true(n > 40);
    size_t bytes = text_tokenizer_memory_bytes(t);
    print_message("%s: %zu texts, %zu tokens, %.1f MB\n", name, n, text_n_vocab(t), (double)bytes / 1e6);
    assert_in_range(bytes, text_n_vocab(t), 30000000);
    text_tokenizer_destroy(t);
    gguf_close(g);
    free(texts.at);
    free(lines.at);
}

#define VOCABULARY(function, name)     \
    static void function(void **state) \
    {                                  \
        (void)state;                   \
        check_vocabulary(name);        \
    }
VOCABULARY(test_deepseek_coder, "deepseek-coder")
VOCABULARY(test_deepseek_llm, "deepseek-llm")
VOCABULARY(test_falcon, "falcon")
VOCABULARY(test_gpt2, "gpt-2")
VOCABULARY(test_llama_bpe, "llama-bpe")
VOCABULARY(test_llama_spm, "llama-spm")
VOCABULARY(test_phi3, "phi-3")
VOCABULARY(test_qwen2, "qwen2")
VOCABULARY(test_qwen35, "qwen35")
VOCABULARY(test_refact, "refact")
VOCABULARY(test_starcoder, "starcoder")

/* Facts about the same files: BOS, EOS, what ends an answer. */
static void test_facts(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        int32_t bos, eos;
        bool adds_bos;
        const char *end;
    } rows[] = {
        {"oracle/vocab/llama-bpe.gguf", 128000, 128001, true, "<|eot_id|>"},
        {"oracle/vocab/qwen2.gguf", 151643, 151643, false, "<|im_end|>"},
        {"oracle/vocab/phi-3.gguf", 1, 32000, true, "<|end|>"},
        {"oracle/vocab/deepseek-llm.gguf", 100000, 100001, true,
         "<\xef\xbd\x9c"
         "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>"},
        {"oracle/vocab/starcoder.gguf", 0, 0, false, "<|endoftext|>"},
        {"oracle/vocab/llama-spm.gguf", 1, 2, true, "</s>"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct gguf *g = open_shared(rows[i].path);
        struct text_tokenizer *t = tokenizer_of(g);
        assert_int_equal(text_bos(t), rows[i].bos);
        assert_int_equal(text_eos(t), rows[i].eos);
        assert_int_equal(text_adds_bos(t), rows[i].adds_bos);
        assert_false(text_adds_eos(t));
        int32_t end = text_find_special(t, rows[i].end, strlen(rows[i].end));
        assert_true(end != TEXT_NO_TOKEN);
        assert_true(text_ends_generation(t, end));
        assert_true(text_ends_generation(t, text_eos(t)));
        assert_true(text_is_control(t, end));
        assert_false(text_ends_generation(t, 300));
        assert_int_equal(text_find_special(t, "the", 3), TEXT_NO_TOKEN);
        text_tokenizer_destroy(t);
        gguf_close(g);
    }
}

int main(void)
{
    need_shared();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_deepseek_coder), cmocka_unit_test(test_deepseek_llm), cmocka_unit_test(test_falcon),
        cmocka_unit_test(test_gpt2),           cmocka_unit_test(test_llama_bpe),    cmocka_unit_test(test_llama_spm),
        cmocka_unit_test(test_phi3),           cmocka_unit_test(test_qwen2),        cmocka_unit_test(test_qwen35),
        cmocka_unit_test(test_refact),         cmocka_unit_test(test_starcoder),    cmocka_unit_test(test_facts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
