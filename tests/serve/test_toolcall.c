/* Answers taken apart: what comes out (toolcall_cases.c), that it does not depend on where the answer was cut, that an
 * answer which ends anywhere or has wrong bytes in it loses nothing, and which family a template is of. */
#include "serve/toolcall.h"
#include "toolcall_cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define SHOWN_MAX ((size_t)1 << 16)

struct shown {
    char at[SHOWN_MAX];
    size_t n;
    char last; /* kind of the group that is open */
    char arguments[SHOWN_MAX];
    size_t n_arguments, n_calls;
    bool in_call, held;
};

static void show(struct shown *s, const char *text, size_t bytes)
{
    assert_true(s->n + bytes < SHOWN_MAX);
    memcpy(s->at + s->n, text, bytes);
    s->n += bytes;
    s->at[s->n] = '\0';
}

static void group(struct shown *s, char kind)
{
    if (s->last == kind && kind != 'C') return;
    if (s->last == 'R' || s->last == 'T') show(s, ")", 1);
    s->last = kind;
    if (!kind) return;
    show(s, &kind, 1);
    show(s, "(", 1);
}

static bool is_object(const char *text, size_t bytes)
{
    json_error_t why;
    json_t *v = json_loadb(text, bytes, JSON_ALLOW_NUL, &why);
    const bool object = json_is_object(v);
    json_decref(v);
    return object;
}

static void take(void *user, const struct serve_event *e)
{
    struct shown *s = user;
    assert_int_equal(strlen(e->text) <= e->bytes, 1);
    assert_int_equal(e->text[e->bytes], 0);
    switch (e->kind) {
    case SERVE_EVENT_REASONING:
    case SERVE_EVENT_TEXT:
        assert_false(s->in_call);
        assert_true(e->bytes > 0);
        group(s, e->kind == SERVE_EVENT_TEXT ? 'T' : 'R');
        show(s, e->text, e->bytes);
        break;
    case SERVE_EVENT_CALL:
        assert_false(s->in_call);
        assert_int_equal(e->call, s->n_calls);
        group(s, 'C');
        show(s, e->text, e->bytes);
        show(s, "|", 1);
        if (e->id) show(s, e->id, strlen(e->id));
        show(s, "|", 1);
        s->in_call = true;
        s->n_arguments = 0;
        break;
    case SERVE_EVENT_ARGUMENTS:
        assert_true(s->in_call && e->bytes > 0 && s->n_arguments + e->bytes < SHOWN_MAX);
        assert_int_equal(e->call, s->n_calls);
        memcpy(s->arguments + s->n_arguments, e->text, e->bytes);
        s->n_arguments += e->bytes;
        break;
    case SERVE_EVENT_CALL_END:
        assert_true(s->in_call);
        assert_int_equal(e->call, s->n_calls);
        if (!e->whole) s->at[strrchr(s->at, 'C') ? (size_t)(strrchr(s->at, 'C') - s->at) : 0] = 'c';
        if (e->whole && !is_object(s->arguments, s->n_arguments))
            fail_msg("not an object: %.*s", (int)s->n_arguments, s->arguments);
        assert_false(s->held && !e->whole);
        show(s, s->arguments, s->n_arguments);
        show(s, ")", 1);
        s->in_call = false;
        s->last = 0;
        s->n_calls++;
        break;
    }
}

static json_t *parameters;
static const struct serve_tool *tools(void)
{
    static struct serve_tool list[3] = {{.name = "f"}, {.name = "g"}, {.name = "python"}};
    list[0].parameters = parameters;
    return list;
}

static int load(void **state)
{
    json_error_t why;
    (void)state;
    parameters = json_loads(
        "{\"type\": \"object\", \"properties\": {\"s\": {\"type\": \"string\"}, \"n\": {\"type\": \"integer\"}, \"b\": "
        "{\"type\": \"boolean\"}, \"o\": {\"type\": \"object\"}, \"e\": {\"anyOf\": [{\"type\": \"string\"}, "
        "{\"type\": "
        "\"null\"}]}, \"d\": {\"$ref\": \"#/$defs/d\"}}, \"$defs\": {\"d\": {\"enum\": [7, \"x\"]}}}",
        0, &why);
    return parameters ? 0 : -1;
}

static int unload(void **state)
{
    (void)state;
    json_decref(parameters);
    return 0;
}

/* What comes of the bytes, cut as `cut` says: 0: not; -1: everywhere; else at that place. */
static void run(const struct toolcall_case *c, const char *input, size_t bytes, long cut, bool hold, struct shown *out)
{
    struct serve_parser *p;
    struct sluice_error err;
    const struct serve_parser_options o = {.family = serve_family_find(c->family),
                                           .tools = tools(),
                                           .n_tools = c->no_tools ? 0 : 3,
                                           .hold_calls = hold,
                                           .chat_template = c->brackets ? "[THINK] [/THINK]" : NULL,
                                           .chat_template_bytes = c->brackets ? 16 : 0,
                                           .prompt = c->opened ? "user\nassistant\n<think>\n" : "</think><think> x",
                                           .prompt_bytes = c->opened ? 23 : 17,
                                           .event = take,
                                           .user = out};
    out->n = out->n_calls = 0;
    out->last = 0;
    out->in_call = false;
    out->held = hold;
    out->at[0] = '\0';
    assert_non_null(o.family);
    assert_int_equal(serve_parser_create(&o, &p, &err), SLUICE_OK);
    assert_int_equal(serve_parser_reasons(p), c->opened || !strcmp(c->family, "harmony"));
    for (size_t at = 0; at < bytes;) {
        size_t n = cut < 0 ? 1 : cut > 0 && at < (size_t)cut ? (size_t)cut : bytes - at;
        if (n > bytes - at) n = bytes - at;
        char *piece = malloc(n); /* so that a sanitizer sees what is read past it */
        assert_non_null(piece);
        memcpy(piece, input + at, n);
        assert_int_equal(serve_parser_feed(p, piece, n, &err), SLUICE_OK);
        free(piece);
        at += n;
    }
    assert_int_equal(serve_parser_end(p, &err), SLUICE_OK);
    group(out, 0);
    assert_false(out->in_call);
    assert_int_equal(serve_parser_calls(p), out->n_calls);
    serve_parser_destroy(p);
}

static struct shown a, b;

static void check(const struct toolcall_case *c, bool hold, long cut)
{
    const char *expected = hold && c->held ? c->held : c->expected;
    run(c, c->input, strlen(c->input), cut, hold, &a);
    if (strcmp(a.at, expected))
        fail_msg("%s%s, cut at %ld:\n  is       %s\n  must be  %s", c->name, hold ? " (held)" : "", cut, a.at,
                 expected);
}

static void test_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < n_toolcall_cases; i++) {
        const struct toolcall_case *c = &toolcall_cases[i];
        for (int hold = 0; hold < 2; hold++) {
            check(c, hold, 0);
            check(c, hold, -1);
            for (size_t cut = 1; cut < strlen(c->input); cut++) check(c, hold, (long)cut);
        }
    }
}

/* How often Ω stands in a text: nothing that a model says may get lost. */
static size_t omegas(const char *text, size_t bytes)
{
    size_t n = 0;
    for (size_t i = 0; i + 1 < bytes; i++) n += !memcmp(text + i, "Ω", 2);
    return n;
}

static void check_any(const struct toolcall_case *c, const char *input, size_t bytes)
{
    for (int hold = 0; hold < 2; hold++) {
        run(c, input, bytes, 0, hold, &a);
        run(c, input, bytes, -1, hold, &b);
        if (a.n != b.n || memcmp(a.at, b.at, a.n))
            fail_msg("%s: '%.*s'\n  in one   %s\n  in bytes %s", c->name, (int)bytes, input, a.at, b.at);
        if (omegas(a.at, a.n) != omegas(input, bytes))
            fail_msg("%s: '%.*s' lost something:\n  %s", c->name, (int)bytes, input, a.at);
    }
}

static void test_ends_anywhere(void **state)
{
    (void)state;
    for (size_t i = 0; i < n_toolcall_cases; i++)
        for (size_t n = 0; n < strlen(toolcall_cases[i].input); n++)
            if (((unsigned char)toolcall_cases[i].input[n] & 0xc0) != 0x80) /* characters stay whole */
                check_any(&toolcall_cases[i], toolcall_cases[i].input, n);
}

static uint64_t seed = 1;
static size_t random_below(size_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (size_t)(seed >> 33) % n;
}

static void test_wrong_bytes(void **state)
{
    static const char wrong[] = "<>{}[]\"\\/|=: \n,azΩ\1";
    (void)state;
    for (size_t i = 0; i < n_toolcall_cases; i++) {
        const struct toolcall_case *c = &toolcall_cases[i];
        const size_t bytes = strlen(c->input);
        char input[4096];
        for (int turn = 0; turn < 60 && bytes; turn++) {
            assert_true(bytes + 16 < sizeof input);
            memcpy(input, c->input, bytes);
            size_t n = bytes;
            for (size_t k = 1 + random_below(3); k-- > 0 && n;) {
                const size_t at = random_below(n);
                if (((unsigned char)input[at] & 0x80)) continue; /* characters stay whole */
                if (random_below(2)) {
                    input[at] = wrong[random_below(17)];
                } else {
                    memmove(input + at, input + at + 1, n - at - 1);
                    n--;
                }
            }
            check_any(c, input, n);
        }
    }
}

/* Two answers behind one another, with the mark of one inside the other. */
static void test_joined(void **state)
{
    (void)state;
    for (int turn = 0; turn < 1500; turn++) {
        const struct toolcall_case *c = &toolcall_cases[random_below(n_toolcall_cases)], *d = c;
        for (int tries = 0; tries < 200 && (d == c || strcmp(d->family, c->family)); tries++)
            d = &toolcall_cases[random_below(n_toolcall_cases)];
        char input[8192];
        const size_t first = random_below(strlen(c->input) + 1), second = random_below(strlen(d->input) + 1);
        size_t n = first;
        memcpy(input, c->input, first);
        while (n && ((unsigned char)c->input[n] & 0xc0) == 0x80) n--;
        size_t from = second;
        while (((unsigned char)d->input[from] & 0xc0) == 0x80) from--;
        memcpy(input + n, d->input + from, strlen(d->input) - from);
        check_any(c, input, n + strlen(d->input) - from);
    }
}

struct many {
    size_t n_calls;
    char text[SHOWN_MAX];
    size_t n;
};

static void take_many(void *user, const struct serve_event *e)
{
    struct many *m = user;
    if (e->kind == SERVE_EVENT_CALL_END) m->n_calls += e->whole;
    if (e->kind != SERVE_EVENT_TEXT) return;
    assert_true(m->n + e->bytes < sizeof m->text);
    memcpy(m->text + m->n, e->text, e->bytes);
    m->n += e->bytes;
    m->text[m->n] = '\0';
}

/* More calls than an answer may have: the others are text, to the last argument. */
static void test_too_many(void **state)
{
    (void)state;
    static const char *const rows[][4] = {
        {"hermes", "", "<tool_call>\n{\"name\": \"look\", \"arguments\": {\"o\": \"n%d\"}}\n</tool_call>\n", ""},
        {"qwen3_coder", "",
         "<tool_call>\n<function=look>\n<parameter=o>\nn%d\n</parameter>\n</function>\n</tool_call>\n", ""},
        {"mistral", "[TOOL_CALLS][", "{\"name\": \"look\", \"arguments\": {\"o\": \"n%d\"}}, ", "]"},
        {"llama3", "", "<|python_tag|>{\"name\": \"look\", \"parameters\": {\"o\": \"n%d\"}}<|eom_id|>", ""},
        {"harmony", "",
         "<|channel|>commentary to=functions.look <|constrain|>json<|message|>{\"o\": "
         "\"n%d\"}<|call|><|start|>assistant",
         ""},
        {"kimi", "<|tool_calls_section_begin|>",
         "<|tool_call_begin|>functions.look:0<|tool_call_argument_begin|>{\"o\": \"n%d\"}<|tool_call_end|>",
         "<|tool_calls_section_end|>"},
    };
    static struct many m;
    static char text[SHOWN_MAX];
    const struct serve_tool one = {.name = "look"};
    struct sluice_error err;
    for (size_t i = 0; i < 2 * sizeof rows / sizeof *rows; i++) {
        const char *const *row = rows[i / 2];
        struct serve_parser *p;
        const struct serve_parser_options o = {.family = serve_family_find(row[0]),
                                               .tools = &one,
                                               .n_tools = 1,
                                               .hold_calls = i % 2,
                                               .event = take_many,
                                               .user = &m};
        assert_non_null(o.family);
        int n = sprintf(text, "%s", row[1]);
        for (int k = 0; k < SERVE_CALLS_MAX + 40; k++) n += sprintf(text + n, row[2], k);
        n += sprintf(text + n, "%s", row[3]);
        m.n_calls = m.n = 0;
        assert_int_equal(serve_parser_create(&o, &p, &err), SLUICE_OK);
        for (int at = 0; at < n; at += 50)
            assert_int_equal(serve_parser_feed(p, text + at, (size_t)(n - at < 50 ? n - at : 50), &err), SLUICE_OK);
        assert_int_equal(serve_parser_end(p, &err), SLUICE_OK);
        assert_int_equal(serve_parser_calls(p), SERVE_CALLS_MAX);
        assert_int_equal(m.n_calls, SERVE_CALLS_MAX);
        for (int k = SERVE_CALLS_MAX; k < SERVE_CALLS_MAX + 40; k++) {
            char want[16];
            sprintf(want, "n%d", k);
            if (!strstr(m.text, want)) fail_msg("%s: %s is lost: %s", row[0], want, m.text);
        }
        serve_parser_destroy(p);
    }
}

static void count(void *user, const struct serve_event *e) { *(size_t *)user += e->bytes; }

/* A megabyte of what is held back while it is undecided: an alarm stands for "not quadratic". */
static void test_large(void **state)
{
    static const char *const parts[] = {"</parameter>", " ", "<", "\n", "<tool_call>", "<function=", "{", "<think>"};
    static const char *const names[] = {"qwen3_coder", "hermes", "llama3"};
    static const char *const begins[] = {"<function=f><parameter=o>", "<tool_call>{\"arguments\": {\"a\": \"",
                                         "{\"name\": \""};
    const size_t n = (size_t)1 << 20;
    struct serve_parser *p;
    struct sluice_error err;
    char *text = malloc(n);
    (void)state;
    assert_non_null(text);
    alarm(120);
    for (size_t i = 0; i < 3 * sizeof parts / sizeof *parts; i++) {
        const char *part = parts[i / 3];
        size_t at = strlen(begins[i % 3]), bytes = 0;
        const struct serve_parser_options o = {
            .family = serve_family_find(names[i % 3]), .tools = tools(), .n_tools = 3, .event = count, .user = &bytes};
        memcpy(text, begins[i % 3], at);
        for (size_t k = 0; at < n; k++) text[at++] = part[k % strlen(part)];
        assert_int_equal(serve_parser_create(&o, &p, &err), SLUICE_OK);
        for (at = 0; at < n; at += 64) assert_int_equal(serve_parser_feed(p, text + at, 64, &err), SLUICE_OK);
        assert_int_equal(serve_parser_end(p, &err), SLUICE_OK);
        assert_true(bytes > n - n / 4);
        serve_parser_destroy(p);
    }
    alarm(0);
    free(text);
}

static void test_families(void **state)
{
    static const struct {
        const char *file, *family;
    } known[] = {{"Qwen-Qwen3-0.6B", "hermes"},
                 {"Qwen-Qwen2.5-7B-Instruct", "hermes"},
                 {"NousResearch-Hermes-3-Llama-3.1-8B-tool_use", "hermes"},
                 {"Qwen3-Coder", "qwen3_coder"},
                 {"StepFun3.5-Flash", "qwen3_coder"},
                 {"meta-llama-Llama-3.2-3B-Instruct", "llama3"},
                 {"meta-llama-Llama-3.3-70B-Instruct", "llama3"},
                 {"mistralai-Mistral-Nemo-Instruct-2407", "mistral"},
                 {"Mistral-Small-3.2-24B-Instruct-2506", "mistral"},
                 {"deepseek-ai-DeepSeek-V3.1", "deepseek"},
                 {"deepseek-ai-DeepSeek-V3.2", "dsml"},
                 {"deepseek-ai-DeepSeek-V4-Flash-0731", "dsml"},
                 {"GLM-4.7-Flash", "glm"},
                 {"Kimi-K2-Instruct", "kimi"},
                 {"Kimi-K2-Thinking", "kimi"},
                 {"MiniMax-M2", "minimax"},
                 {"NVIDIA-Nemotron-Nano-v2", "nemotron"},
                 {"google-gemma-2-2b-it", "plain"}};
    const char *shared = getenv("SLUICE_SHARED");
    (void)state;
    for (size_t i = 0; serve_family_at(i); i++)
        assert_ptr_equal(serve_family_find(serve_family_name(serve_family_at(i))), serve_family_at(i));
    assert_null(serve_family_find("nothing"));
    assert_string_equal(serve_family_name(serve_family_detect(NULL, 0)), "plain");
    static const char harmony[] = "<|start|>assistant<|channel|>commentary to=functions.<|constrain|>json<|message|>";
    assert_string_equal(serve_family_name(serve_family_detect(harmony, sizeof harmony - 1)), "harmony");
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char path[1024], text[65536];
        snprintf(path, sizeof path, "%s/oracle/templates/%s.jinja", shared ? shared : "", known[i].file);
        FILE *in = fopen(path, "rb");
        if (!in) skip();
        const size_t n = fread(text, 1, sizeof text, in);
        fclose(in);
        if (strcmp(serve_family_name(serve_family_detect(text, n)), known[i].family))
            fail_msg("%s is taken for %s", known[i].file, serve_family_name(serve_family_detect(text, n)));
    }
}

/* A parser of that family with the tools, which shows what it finds in `a`. */
static struct serve_parser *parser_of(const struct serve_family *f)
{
    struct serve_parser *p;
    const struct serve_parser_options o = {.family = f, .tools = tools(), .n_tools = 3, .event = take, .user = &a};
    memset(&a, 0, sizeof a);
    assert_int_equal(serve_parser_create(&o, &p, NULL), SLUICE_OK);
    return p;
}

static void feed(struct serve_parser *p, const char *text, size_t bytes)
{
    assert_int_equal(serve_parser_feed(p, text, bytes, NULL), SLUICE_OK);
}

/* Every opener of a family begins calls; those without a mark are heads of calls. */
static void test_openers(void **state)
{
    (void)state;
    for (size_t i = 0; serve_family_at(i); i++) {
        const struct serve_family *f = serve_family_at(i);
        const char *name = serve_family_name(f);
        json_t *list = serve_family_openers(f, tools(), 3), *opener;
        size_t k;
        assert_int_equal(serve_family_calls(f), strcmp(name, "plain") != 0);
        assert_int_equal(json_array_size(list) > 0, strcmp(name, "plain") != 0 && strcmp(name, "harmony") != 0);
        json_array_foreach(list, k, opener)
        {
            struct serve_parser *p = parser_of(f);
            feed(p, json_string_value(opener), json_string_length(opener));
            if (a.n && !a.in_call) fail_msg("%s: '%s' is text: %s", name, json_string_value(opener), a.at);
            if (json_string_value(opener)[0] == '{') {
                feed(p, "}}", 2);
                assert_int_equal(serve_parser_calls(p), 1);
            }
            serve_parser_destroy(p);
        }
        json_decref(list);
    }
}

/* Of a document every byte is text, whatever it holds and whenever it is known that it is one. */
static void test_settled(void **state)
{
    static const char head
        [] = "<|channel|>final<|message|>",
    document[] =
        "{\"name\": \"Zoe\", \"t\": "
        "\"<tool_call>{<function=f>[TOOL_CALLS]f[ARGS]{}<TOOLCALL>[<|python_tag|>{<|end|><|start|>"
        "<|call|><｜tool▁calls▁begin｜><｜DSML｜tool_calls><|tool_calls_section_begin|><minimax:tool_call></think>\"}";
    char whole[sizeof document + 8];
    (void)state;
    snprintf(whole, sizeof whole, "T(%s)", document);
    for (size_t i = 0; serve_family_at(i); i++)
        for (size_t at = 0; at < 20; at++) {
            struct serve_parser *p = parser_of(serve_family_at(i));
            if (!strcmp(serve_family_name(serve_family_at(i)), "harmony")) feed(p, head, sizeof head - 1);
            for (size_t k = 0; k < sizeof document - 1; k++) {
                if (k == at) serve_parser_settle(p);
                feed(p, document + k, 1);
            }
            assert_int_equal(serve_parser_end(p, NULL), SLUICE_OK);
            group(&a, 0);
            if (strcmp(a.at, whole)) fail_msg("%s, known at %zu: %s", serve_family_name(serve_family_at(i)), at, a.at);
            serve_parser_destroy(p);
        }
}

/* Llama 3: what had begun as a call, and is a document as it turns out. */
static void test_settled_in_a_call(void **state)
{
    static const char document[] = "{\"name\": \"f\",\"parameters\": {}}";
    (void)state;
    for (size_t at = 1; at < 28; at++) {
        struct serve_parser *p = parser_of(serve_family_find("llama3"));
        feed(p, document, at);
        serve_parser_settle(p);
        feed(p, document + at, sizeof document - 1 - at);
        assert_int_equal(serve_parser_end(p, NULL), SLUICE_OK);
        group(&a, 0);
        assert_int_equal(serve_parser_calls(p), 0);
        assert_string_equal(a.at, "T({\"name\": \"f\",\"parameters\": {}})");
        serve_parser_destroy(p);
    }
}

static void test_calls_from_thought(void **state)
{
    static const struct {
        const char *family, *text;
        bool cut;
    } cases[] = {{"mistral", "<think>hm[TOOL_CALLS]", true},
                 {"mistral", "<think>hm</think>[TOOL_CALLS]", false},
                 {"kimi", "<think>hm<|tool_call_begin|>", true},
                 {"hermes", "<think>hm<tool_call>", false}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct serve_parser *p = parser_of(serve_family_find(cases[i].family));
        feed(p, cases[i].text, strlen(cases[i].text));
        assert_int_equal(serve_parser_calls_from_thought(p), cases[i].cut);
        serve_parser_destroy(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_ends_anywhere),
        cmocka_unit_test(test_wrong_bytes),
        cmocka_unit_test(test_joined),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_families),
        cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_openers),
        cmocka_unit_test(test_settled),
        cmocka_unit_test(test_settled_in_a_call),
        cmocka_unit_test(test_calls_from_thought),
    };
    return cmocka_run_group_tests(tests, load, unload) ? 1 : 0;
}
