/* Chat formats: which one a real template is, and that a rendering is the template's own (as Jinja2 gave it) where the
 * built-in format is meant to agree: without tools, thinking, and texts that a template adds by itself. */
#include "support.h"
#include "text/chat.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGES_MAX 8

static struct blob load_template(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "oracle/templates/%s.jinja", name);
    return load_shared(path);
}

static void test_detection(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum text_chat_format format;
        bool exact;
    } rows[] = {
        {"Bielik-11B-v3.0-Instruct", TEXT_CHAT_CHATML, true},
        {"LFM2.5-8B-A1B", TEXT_CHAT_CHATML, true},
        {"MiMo-VL", TEXT_CHAT_CHATML, true},
        {"NousResearch-Hermes-3-Llama-3.1-8B-tool_use", TEXT_CHAT_CHATML, true},
        {"Qwen-Qwen2.5-7B-Instruct", TEXT_CHAT_CHATML, true},
        {"Qwen-Qwen3-0.6B", TEXT_CHAT_CHATML, true},
        {"Qwen3-Coder", TEXT_CHAT_CHATML, true},
        {"StepFun3.5-Flash", TEXT_CHAT_CHATML, true},
        {"openbmb-MiniCPM5-1B", TEXT_CHAT_CHATML, true},
        {"meta-llama-Llama-3.2-3B-Instruct", TEXT_CHAT_LLAMA3, true},
        {"meta-llama-Llama-3.3-70B-Instruct", TEXT_CHAT_LLAMA3, true},
        {"meetkai-functionary-medium-v3.1", TEXT_CHAT_LLAMA3, true},
        {"mistralai-Mistral-Nemo-Instruct-2407", TEXT_CHAT_MISTRAL, true},
        {"Mistral-Small-3.2-24B-Instruct-2506", TEXT_CHAT_MISTRAL_V7, true},
        {"unsloth-mistral-Devstral-Small-2507", TEXT_CHAT_MISTRAL_V7, true},
        {"Kimi-K2-Instruct", TEXT_CHAT_PLAIN, false},
        {"GLM-4.7-Flash", TEXT_CHAT_PLAIN, false},
        {"MiniMax-M2", TEXT_CHAT_PLAIN, false},
        {"deepseek-ai-DeepSeek-V3.1", TEXT_CHAT_PLAIN, false},
        {"deepseek-ai-DeepSeek-R1-Distill-Llama-8B", TEXT_CHAT_PLAIN, false},
        {"google-gemma-2-2b-it", TEXT_CHAT_PLAIN, false},
        {"microsoft-Phi-3.5-mini-instruct", TEXT_CHAT_PLAIN, false},
        {"ibm-granite-granite-3.3-2B-Instruct", TEXT_CHAT_PLAIN, false},
        {"tencent-Hy3", TEXT_CHAT_PLAIN, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct blob b = load_template(rows[i].name);
        bool exact = !rows[i].exact;
        enum text_chat_format f = text_chat_detect(b.at, b.bytes, &exact);
        if (f != rows[i].format || exact != rows[i].exact)
            fail_msg("%s: %s%s", rows[i].name, text_chat_name(f), exact ? "" : " (not exact)");
        free(b.at);
    }
}

static void test_detection_by_hand(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum text_chat_format format;
        bool exact;
    } rows[] = {
        {NULL, TEXT_CHAT_PLAIN, true},
        {"", TEXT_CHAT_PLAIN, true},
        {"{{ message }}", TEXT_CHAT_PLAIN, false},
        {"'[INST] ' + m + ' [/INST]'", TEXT_CHAT_MISTRAL_V1, true},
        {"'[INST] ' + m + '[/INST]'", TEXT_CHAT_MISTRAL_V3, true},
        {"'[INST]' + m + '[/INST]'", TEXT_CHAT_MISTRAL, true},
        {"'[INST] <<SYS>>' + s + '<</SYS>>' + m + ' [/INST]'", TEXT_CHAT_PLAIN, false},
        {"<|im_start|>user<|im_sep|>x<|im_end|>", TEXT_CHAT_PLAIN, false}, /* Phi-4 */
        {"<|im_start|>", TEXT_CHAT_PLAIN, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool exact;
        size_t bytes = rows[i].text ? strlen(rows[i].text) : 0;
        char *copy = bytes ? malloc(bytes) : NULL; /* not terminated, as in a file */
        if (copy) memcpy(copy, rows[i].text, bytes);
        assert_int_equal(text_chat_detect(copy ? copy : rows[i].text, bytes, &exact), rows[i].format);
        assert_int_equal(exact, rows[i].exact);
        free(copy);
    }
}

static void replace(char *text, const char *from, const char *to)
{
    size_t n_from = strlen(from), n_to = strlen(to);
    assert_true(n_to <= n_from);
    for (char *at = text; (at = strstr(at, from));) {
        memcpy(at, to, n_to);
        memmove(at + n_to, at + n_from, strlen(at + n_from) + 1);
    }
}

static json_t *load_json(const char *name)
{
    struct blob b = load_shared(name);
    json_error_t error;
    json_t *j = json_loadb(b.at, b.bytes, 0, &error);
    if (!j) fail_msg("%s: %s", name, error.text);
    free(b.at);
    return j;
}

/* `own_system`: the template puts a system text of its own first; the comparison begins at the first user turn. */
static void check_rendering(const char *name, const char *case_name, const char *own_system)
{
    json_t *all = load_json("oracle/templates/cases.json");
    json_t *c = json_object_get(json_object_get(all, "cases"), case_name);
    json_t *messages = json_object_get(c, "messages");
    struct text_message m[MESSAGES_MAX];
    size_t n = json_array_size(messages), first = 0, bytes;
    assert_in_range(n, 1, MESSAGES_MAX);
    for (size_t i = 0; i < n; i++) {
        json_t *j = json_array_get(messages, i);
        m[i] = (struct text_message){json_string_value(json_object_get(j, "role")),
                                     json_string_value(json_object_get(j, "content"))};
    }
    char path[256];
    snprintf(path, sizeof path, "oracle/templates/%s.expected.json", name);
    json_t *expected_all = load_json(path);
    const char *rendered = json_string_value(json_object_get(json_object_get(expected_all, case_name), "text"));
    assert_non_null(rendered);
    char *expected = strdup(rendered), *begin = expected;
    replace(expected, "<|bos|>", "");
    replace(expected, "<|eos|>", "</s>");
    if (own_system) {
        begin = strstr(expected, own_system);
        assert_non_null(begin);
        if (strcmp(m[0].role, "system") == 0) first = 1;
    }
    struct blob b = load_template(name);
    bool exact;
    enum text_chat_format f = text_chat_detect(b.at, b.bytes, &exact);
    char *got = NULL;
    struct sluice_error err;
    bool answer = json_is_true(json_object_get(c, "add_generation_prompt"));
    assert_int_equal(text_chat_render(f, m + first, n - first, answer, &got, &bytes, &err), SLUICE_OK);
    if (strcmp(got, begin) != 0) fail_msg("%s, %s:\n%s\nexpected:\n%s", name, case_name, got, begin);
    assert_int_equal(strlen(got), bytes);
    free(got);
    free(b.at);
    free(expected);
    json_decref(expected_all);
    json_decref(all);
}

static void test_rendering(void **state)
{
    (void)state;
    static const char *const cases[] = {"user", "system_user", "multi_turn", "closed", "empty_user"};
    static const struct {
        const char *name, *own_system;
    } rows[] = {
        {"Qwen3-Coder", NULL},
        {"Bielik-11B-v3.0-Instruct", NULL},
        {"LFM2.5-8B-A1B", NULL},
        {"Qwen-Qwen2.5-7B-Instruct", "<|im_start|>user"},
        {"meta-llama-Llama-3.2-3B-Instruct", "<|start_header_id|>user"},
        {"meta-llama-Llama-3.3-70B-Instruct", "<|start_header_id|>user"},
        {"mistralai-Mistral-Nemo-Instruct-2407", NULL},
        {"unsloth-mistral-Devstral-Small-2507", "[INST]"},
        {"Mistral-Small-3.2-24B-Instruct-2506", "[INST]"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
            check_rendering(rows[i].name, cases[c], rows[i].own_system);
    check_rendering("unsloth-mistral-Devstral-Small-2507", "system_user", NULL);
    check_rendering("Mistral-Small-3.2-24B-Instruct-2506", "system_user", NULL);
    check_rendering("Qwen-Qwen2.5-7B-Instruct", "system_user", NULL);
}

static void assert_renders(enum text_chat_format f, const struct text_message *m, size_t n, bool answer,
                           const char *expected)
{
    char *got = NULL;
    size_t bytes;
    struct sluice_error err;
    assert_int_equal(text_chat_render(f, m, n, answer, &got, &bytes, &err), SLUICE_OK);
    assert_string_equal(got, expected);
    assert_int_equal(bytes, strlen(expected));
    free(got);
}

static void test_rendering_by_hand(void **state)
{
    (void)state;
    static const struct text_message m[] = {
        {"system", "S"}, {"user", "one"}, {"assistant", "1"}, {"user", " two "}, {"assistant", "2"}};
    assert_renders(TEXT_CHAT_PLAIN, m, 4, true, "S\nUser: one\nAssistant: 1\nUser:  two \nAssistant:");
    assert_renders(TEXT_CHAT_LLAMA3, m + 3, 1, true,
                   "<|start_header_id|>user<|end_header_id|>\n\ntwo<|eot_id|>"
                   "<|start_header_id|>assistant<|end_header_id|>\n\n");
    assert_renders(TEXT_CHAT_MISTRAL_V1, m, 5, false, "[INST] S\n\none [/INST] 1</s>[INST]  two  [/INST] 2</s>");
    assert_renders(TEXT_CHAT_MISTRAL_V3, m, 4, true, "[INST] one[/INST] 1</s>[INST] S\n\n two [/INST]");
    assert_renders(TEXT_CHAT_MISTRAL_V7, m, 2, true, "[SYSTEM_PROMPT]S[/SYSTEM_PROMPT][INST]one[/INST]");
    for (int f = 0; f < TEXT_CHAT_FORMATS; f++) {
        assert_renders((enum text_chat_format)f, m, 0, false, "");
        assert_true(strlen(text_chat_name((enum text_chat_format)f)) > 3);
        assert_true(strlen(text_chat_stop((enum text_chat_format)f)) > 3);
    }
}

static void refused(enum text_chat_format f, const struct text_message *m, size_t n, const char *says)
{
    char *got = NULL;
    size_t bytes;
    struct sluice_error err;
    assert_int_equal(text_chat_render(f, m, n, true, &got, &bytes, &err), SLUICE_ERR_USAGE);
    assert_null(got);
    assert_non_null(strstr(err.message, says));
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct text_message tool[] = {{"user", "a"}, {"tool", "b"}}, late[] = {{"user", "a"}, {"system", "b"}},
                                     alone[] = {{"system", "a"}};
    for (int f = 0; f < TEXT_CHAT_FORMATS; f++) refused((enum text_chat_format)f, tool, 2, "tool");
    refused(TEXT_CHAT_MISTRAL, late, 2, "message 1");
    refused(TEXT_CHAT_MISTRAL_V1, alone, 1, "alone");
    assert_renders(TEXT_CHAT_MISTRAL_V7, late, 2, true, "[INST]a[/INST][SYSTEM_PROMPT]b[/SYSTEM_PROMPT]");
}

/* The text's marks are tokens of the model: one each, and the stop token ends generation. */
static void test_marks_are_tokens(void **state)
{
    (void)state;
    struct gguf *g = open_shared("oracle/vocab/qwen2.gguf");
    struct text_tokenizer *t = tokenizer_of(g);
    static const char text[] = "<|im_start|>user\nHi<|im_end|>\n";
    int32_t *ids;
    size_t n = encode(t, text, strlen(text), true, &ids);
    assert_int_equal(n, 6);
    assert_int_equal(ids[0], text_find_special(t, "<|im_start|>", 12));
    const char *stop = text_chat_stop(TEXT_CHAT_CHATML);
    assert_int_equal(ids[4], text_find_special(t, stop, strlen(stop)));
    assert_true(text_ends_generation(t, ids[4]));
    free(ids);
    text_tokenizer_destroy(t);
    gguf_close(g);
}

int main(void)
{
    need_shared();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_detection), cmocka_unit_test(test_detection_by_hand),
        cmocka_unit_test(test_rendering), cmocka_unit_test(test_rendering_by_hand),
        cmocka_unit_test(test_refusals),  cmocka_unit_test(test_marks_are_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
