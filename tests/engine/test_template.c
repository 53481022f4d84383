/* The model file's own chat template is what is rendered; what users say cannot become a special token in it; one that
 * cannot be used is said, and a built-in format stands for it. */
#include "engine/engine.h"
#include "rewrite.h"
#include "support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char model[SUPPORT_PATH_MAX], path[64];
static struct sluice_error err;

static sluice_engine *open_with(const char *template)
{
    struct sluice_options o = support_options(path);
    sluice_engine *e;
    rewrite_gguf(model, path, &(struct rewrite){.put_str_key = "tokenizer.chat_template", .put_str = template});
    o.vocab_only = true;
    o.log = support_keep_line;
    support_forget_lines();
    if (sluice_engine_open(&o, &e, &err)) fail_msg("%s (%s)", err.message, err.hint);
    return e;
}

static const char own[] = "{% for m in messages %}[{{ m.role|upper }}]{{ m.content }}{{ eos_token }}{% endfor %}"
                          "{% if add_generation_prompt %}[ASSISTANT]{% endif %}";

static void test_it_is_rendered(void **state)
{
    (void)state;
    sluice_engine *e = open_with(own);
    struct sluice_model_info info;
    sluice_model_info(e, &info);
    assert_string_equal(info.chat_format, "template");
    assert_true(info.chat_format_exact);
    char eos[TEXT_PIECE_BYTES_MAX + 1], want[4000], *text;
    eos[text_token_bytes(e->tokenizer, text_eos(e->tokenizer), true, eos, TEXT_PIECE_BYTES_MAX)] = '\0';
    assert_true(eos[0]);
    const struct sluice_message m[] = {{"system", "Be brief."}, {"user", "Hello"}};
    size_t bytes;
    if (sluice_chat_render(e, m, 2, &text, &bytes, &err)) fail_msg("%s", err.message);
    snprintf(want, sizeof want, "[SYSTEM]Be brief.%s[USER]Hello%s[ASSISTANT]", eos, eos);
    assert_string_equal(text, want);
    assert_int_equal(bytes, strlen(want));
    sluice_free(text);
    sluice_engine_close(e);
}

static unsigned count(const int32_t *ids, size_t n, int32_t id)
{
    unsigned k = 0;
    for (size_t i = 0; i < n; i++) k += ids[i] == id;
    return k;
}

/* The template writes two; the one that the user typed stays text. */
static void test_what_is_said_stays_text(void **state)
{
    (void)state;
    sluice_engine *e = open_with(own);
    char eos[TEXT_PIECE_BYTES_MAX + 1], typed[TEXT_PIECE_BYTES_MAX + 20];
    const int32_t id = text_eos(e->tokenizer);
    eos[text_token_bytes(e->tokenizer, id, true, eos, TEXT_PIECE_BYTES_MAX)] = '\0';
    snprintf(typed, sizeof typed, "I type %s here", eos);
    const struct sluice_message m[] = {{"system", "Be brief."}, {"user", typed}};
    int32_t *ids;
    size_t n;
    if (sluice_chat_encode(e, m, 2, &ids, &n, &err)) fail_msg("%s", err.message);
    assert_int_equal(count(ids, n, id), 2);
    sluice_free(ids);
    sluice_engine_close(e);
}

/* A template that writes BOS itself gets no second one. */
static void test_bos_once(void **state)
{
    (void)state;
    static const char *const templates[] = {"{{ bos_token }}{{ messages[0].content }}", "{{ messages[0].content }}"};
    const struct sluice_message m[] = {{"user", "Hello"}};
    for (int i = 0; i < 2; i++) {
        sluice_engine *e = open_with(templates[i]);
        const int32_t bos = text_bos(e->tokenizer);
        int32_t *ids;
        size_t n;
        if (sluice_chat_encode(e, m, 1, &ids, &n, &err)) fail_msg("%s", err.message);
        if (bos >= 0) assert_int_equal(count(ids, n, bos), i == 0 || text_adds_bos(e->tokenizer) ? 1 : 0);
        assert_true(n > 0);
        sluice_free(ids);
        sluice_engine_close(e);
    }
}

static void test_refusals(void **state)
{
    (void)state;
    sluice_engine *e = open_with("{% if messages|length > 1 %}{{ raise_exception('one message only') }}{% endif %}ok");
    const struct sluice_message m[] = {{"user", "Hello"}, {"user", "again"}}, strange[] = {{"wizard", "Hello"}};
    char *text;
    size_t bytes;
    assert_int_equal(sluice_chat_render(e, m, 2, &text, &bytes, &err), SLUICE_ERR_MODEL);
    assert_non_null(strstr(err.message, "one message only"));
    assert_int_equal(sluice_chat_render(e, strange, 1, &text, &bytes, &err), SLUICE_ERR_USAGE);
    assert_non_null(strstr(err.message, "wizard"));
    assert_int_equal(sluice_chat_render(e, m, 1, &text, &bytes, &err), SLUICE_OK);
    sluice_free(text);
    sluice_engine_close(e);
}

static void test_one_that_cannot_be_used(void **state)
{
    (void)state;
    sluice_engine *e = open_with("{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>"); /* no endfor */
    struct sluice_model_info info;
    sluice_model_info(e, &info);
    assert_true(support_said("chat template is not used"));
    assert_string_not_equal(info.chat_format, "template");
    const struct sluice_message m[] = {{"user", "Hello"}};
    char *text;
    size_t bytes;
    if (sluice_chat_render(e, m, 1, &text, &bytes, &err)) fail_msg("%s", err.message);
    assert_non_null(strstr(text, "Hello"));
    sluice_free(text);
    sluice_engine_close(e);
}

static void expect_json(const sluice_engine *e, const char *vars, enum sluice_status status, const char *want)
{
    char *text;
    size_t bytes;
    enum sluice_status st = sluice_chat_render_json(e, vars, strlen(vars), &text, &bytes, &err);
    if (st != status) fail_msg("%s: %s (%s)", vars, sluice_status_name(st), st ? err.message : text);
    if (st) {
        assert_non_null(strstr(err.message, want));
        return;
    }
    assert_string_equal(text, want);
    sluice_free(text);
}

/* Whatever a template may ask for: tools, parts, flags. Refusals of the template are the caller's fault. */
static void test_variables_as_json(void **state)
{
    (void)state;
    sluice_engine *e = open_with("{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
                                 "{% if tools %}{{ tools[0].function.name }}{% endif %}{% if think %}<t>{% endif %}"
                                 "{% if sad %}{{ raise_exception('I am sad') }}{% endif %}");
    assert_non_null(strstr(sluice_chat_template(e), "I am sad"));
    expect_json(e,
                "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], \"think\": true,"
                "\"tools\": [{\"function\": {\"name\": \"look\"}}]}",
                SLUICE_OK, "[user]Hilook<t>");
    expect_json(e, "{\"messages\": [], \"sad\": 1}", SLUICE_ERR_USAGE, "I am sad");
    expect_json(e, "{\"messages\": [{\"role\": \"im_end|>\"}]}", SLUICE_ERR_USAGE, "message 1 has the role");
    expect_json(e, "{\"messages\": 7}", SLUICE_ERR_USAGE, "not a list");
    expect_json(e, "{}", SLUICE_ERR_USAGE, "not a list");
    expect_json(e, "{\"messages\": [", SLUICE_ERR_USAGE, "line 1");
    sluice_engine_close(e);
}

/* The demo model has no template: roles and texts go through the built-in format. */
static void test_json_with_a_built_in_format(void **state)
{
    (void)state;
    struct sluice_options o = support_options(model);
    sluice_engine *e;
    o.vocab_only = true;
    if (sluice_engine_open(&o, &e, &err)) fail_msg("%s", err.message);
    assert_null(sluice_chat_template(e));
    const struct sluice_message m[] = {{"system", "Be \x1e\x1f\x1d brief."}, {"user", ""}, {"user", "Hello"}};
    char *want;
    size_t bytes;
    if (sluice_chat_render(e, m, 3, &want, &bytes, &err)) fail_msg("%s", err.message);
    static const char vars[] =
        "{\"messages\": [{\"role\": \"developer\", \"content\": \"Be \\u001e\\u001f\\u001d brief.\"}, {\"role\": "
        "\"user\"},"
        "{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"Hel\"}, {\"text\": \"lo\"}]}]}";
    expect_json(e, vars, SLUICE_OK, want);
    int32_t *ids, *same;
    size_t n, n_same;
    if (sluice_chat_encode_json(e, vars, sizeof vars - 1, &ids, &n, &err)) fail_msg("%s", err.message);
    if (sluice_chat_encode(e, m, 3, &same, &n_same, &err)) fail_msg("%s", err.message);
    assert_int_equal(n, n_same);
    assert_memory_equal(ids, same, n * sizeof *ids);
    sluice_free(ids);
    sluice_free(same);
    sluice_free(want);
    expect_json(e, "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}], \"tools\": [{}]}", SLUICE_ERR_USAGE,
                "knows no tools");
    expect_json(e, "{\"messages\": [{\"role\": \"assistant\", \"content\": null, \"tool_calls\": [1]}]}",
                SLUICE_ERR_USAGE, "knows no tools");
    expect_json(e, "{\"messages\": [{\"role\": \"user\", \"content\": \"a\\u0000b\"}]}", SLUICE_ERR_USAGE, "NUL");
    sluice_engine_close(e);
}

struct watch {
    unsigned looks, wanted_for; /* given up at the look behind */
};

static bool look(void *user, const struct sluice_progress *p)
{
    struct watch *w = user;
    return p->phase != SLUICE_PHASE_TEXT || w->looks++ < w->wanted_for;
}

/* A conversation of very many messages takes time in proportion (this program's own limit would pass otherwise), the
 * caller is asked in between, and what it gives up ends. */
static void test_many_messages(void **state)
{
    (void)state;
    enum { MESSAGES = 60000 };
    static const char one[] = "{\"role\": \"user\", \"content\": \"x\"},";
    struct watch w = {0};
    struct sluice_options o = support_options(model);
    sluice_engine *e;
    char *vars = malloc(64 + MESSAGES * sizeof one), *at = vars, *text;
    assert_non_null(vars);
    at += sprintf(at, "{\"messages\": [");
    for (int i = 0; i < MESSAGES; i++) at += sprintf(at, "%s", one);
    at[-1] = ']';
    *at++ = '}';
    o.vocab_only = true;
    o.progress = look;
    o.user = &w;
    o.text_bytes = (uint64_t)(at - vars) * 2;
    if (sluice_engine_open(&o, &e, &err)) fail_msg("%s", err.message);
    int32_t *ids;
    size_t n, bytes;
    w = (struct watch){.wanted_for = UINT32_MAX};
    if (sluice_chat_encode_json(e, vars, (size_t)(at - vars), &ids, &n, &err)) fail_msg("%s", err.message);
    assert_true(n >= MESSAGES);
    sluice_free(ids);
    const unsigned looks = w.looks;
    assert_true(looks > 10);
    for (unsigned wanted_for = 0; wanted_for < looks; wanted_for += looks / 2) {
        w = (struct watch){.wanted_for = wanted_for};
        assert_int_equal(sluice_chat_encode_json(e, vars, (size_t)(at - vars), &ids, &n, &err), SLUICE_CANCELLED);
        assert_null(ids);
        assert_int_equal(w.looks, wanted_for + 1);
    }
    w = (struct watch){.wanted_for = 1};
    assert_int_equal(sluice_chat_render_json(e, vars, (size_t)(at - vars), &text, &bytes, &err), SLUICE_CANCELLED);
    free(vars);
    sluice_engine_close(e);
}

static int set_up(void **state)
{
    (void)state;
    support_source("models/demo.gguf", model);
    snprintf(path, sizeof path, "/tmp/sluice-template-%d.gguf", (int)getpid());
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_is_rendered),
        cmocka_unit_test(test_what_is_said_stays_text),
        cmocka_unit_test(test_bos_once),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_one_that_cannot_be_used),
        cmocka_unit_test(test_variables_as_json),
        cmocka_unit_test(test_json_with_a_built_in_format),
        cmocka_unit_test(test_many_messages),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
