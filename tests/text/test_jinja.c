/* The template interpreter, construct by construct: tests/text/jinja_cases.json has templates and what Jinja2 makes of
 * them; here are what must fail, where, and how; the limits; hostile templates; and which bytes were said. */
#include "support.h"
#include "text/jinja.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct jinja_template *parsed(const char *text, size_t bytes)
{
    struct jinja_template *t = NULL;
    struct sluice_error err = {0};
    if (jinja_parse("T", text, bytes, &t, &err) != SLUICE_OK) fail_msg("%s\n%s", text, err.message);
    return t;
}

static void test_cases(void **state)
{
    (void)state;
    char path[1024];
    snprintf(path, sizeof path, "%s/tests/text/jinja_cases.json", getenv("SLUICE_SOURCE"));
    json_error_t error;
    json_t *all = json_load_file(path, 0, &error), *row;
    if (!all) fail_msg("%s: %s", path, error.text);
    char *variables = json_dumps(json_object_get(all, "variables"), 0);
    struct jinja_time now;
    assert_true(jinja_time_read(json_string_value(json_object_get(all, "now")), &now));
    struct jinja_input in = {.json = variables, .json_bytes = strlen(variables), .now = &now};
    size_t i;
    assert_true(json_array_size(json_object_get(all, "cases")) > 100);
    json_array_foreach(json_object_get(all, "cases"), i, row)
    {
        json_t *text = json_array_get(row, 1), *expected = json_array_get(row, 2);
        struct jinja_template *t = parsed(json_string_value(text), json_string_length(text));
        struct text_rendered out;
        struct sluice_error err;
        if (jinja_render(t, &in, &out, &err) != SLUICE_OK) fail_msg("%s\n%s", json_string_value(text), err.message);
        if (out.bytes != json_string_length(expected) || memcmp(out.text, json_string_value(expected), out.bytes) != 0)
            fail_msg("%s\ngives    %s\nexpected %s", json_string_value(text), out.text, json_string_value(expected));
        text_rendered_free(&out);
        jinja_destroy(t);
    }
    free(variables);
    json_decref(all);
}

/* ---- faults ---- */

/* The status of parsing and rendering; the text, if there is one, is freed. */
static enum sluice_status run(const char *text, const char *json, const struct jinja_limits *limits,
                              struct sluice_error *err)
{
    struct jinja_template *t = NULL;
    struct text_rendered out;
    struct jinja_input in = {.json = json, .json_bytes = json ? strlen(json) : 0, .limits = limits};
    enum sluice_status status = jinja_parse("T", text, strlen(text), &t, err);
    if (status == SLUICE_OK) status = jinja_render(t, &in, &out, err);
    if (t && status == SLUICE_OK) text_rendered_free(&out);
    jinja_destroy(t);
    return status;
}

static void test_faults(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } rows[] = {
        /* the text of the template */
        {"{{ 1 +", "T, line 1, column 1: this tag has no end"},
        {"a\nb {{ 1 + }}", "T, line 2, column 10: expected an expression, got the end of the tag (}})"},
        {"é\n  é{% if x %}", "T, line 2, column 7: 'if' has no end ({% endif %})"},
        {"{% for x in y %}{% else %}", "'for' has no end ({% endfor %})"},
        {"{% endif %}", "line 1, column 4: unknown tag 'endif'"},
        {"{% macro f() %}", "'macro' has no end ({% endmacro %})"},
        {"{% include 'x' %}", "line 1, column 4: the tag 'include' is not supported"},
        {"{% import 'x' as y %}", "the tag 'import' is not supported"},
        {"{% extends 'x' %}", "the tag 'extends' is not supported"},
        {"{% for x in y recursive %}{% endfor %}", "recursive loops are not supported"},
        {"{% break %}", "'break' stands outside of a loop"},
        {"{% for i in x %}{% macro f() %}{% continue %}{% endmacro %}{% endfor %}", "'continue' stands outside"},
        {"{{ 'abc }}", "line 1, column 4: this text has no end"},
        {"{# a", "line 1, column 1: this comment has no end"},
        {"{% raw %} {% endraw", "this raw block has no end"},
        {"{{ (1] }}", "line 1, column 6: unexpected ']'"},
        {"{{ a ! b }}", "unexpected '!'"},
        {"{{ '\\xg0' }}", "needs more hexadecimal digits"},
        {"{{ 99999999999999999999 }}", "no number that fits in 64 bits"},
        {"{{ f(a=1, 2) }}", "an argument without a name follows one with a name"},
        {"{% macro f(a=1, b) %}{% endmacro %}", "a parameter without a default"},
        {"{% set 1 = 2 %}", "expected a name to assign to"},
        {"{% if %}{% endif %}", "expected an expression"},
        {"{{ x y }}", "expected the end of the tag (}}), got 'y'"},
        {"{% call 1 %}{% endcall %}", "expected a call"},
        /* what it does */
        {"a\n\n  {{ missing.x }}", "T, line 3, column 13: 'missing' is undefined"},
        {"{{ {}.x.y }}", "a dict has no attribute 'x'"},
        {"{{ [1][4].y }}", "a list has no item 4"},
        {"{{ missing() }}", "'missing' is undefined"},
        {"{{ missing + 1 }}", "line 1, column 12: 'missing' is undefined"},
        {"{{ 'a' + 1 }}", "can only concatenate str (not \"int\") to str"},
        {"{{ 1 + 'a' }}", "unsupported operand types for +: 'int' and 'str'"},
        {"{{ 1 < 'a' }}", "'<' not supported between instances of 'int' and 'str'"},
        {"{{ 1 / 0 }}", "division by zero"},
        {"{{ 1 % 0.0 }}", "division by zero"},
        {"{{ 9223372036854775807 + 1 }}", "does not fit in 64 bits"},
        {"{{ 2 ** 64 }}", "does not fit in 64 bits"},
        {"{{ 1e300|int }}", "does not fit in 64 bits"},
        {"{{ 5|length }}", "object of type 'int' has no length"},
        {"{{ 5|nosuch }}", "unknown filter 'nosuch'"},
        {"{{ 5 is nosuch }}", "unknown test 'nosuch'"},
        {"{{ [1]|map('nosuch')|list }}", "unknown filter 'nosuch'"},
        {"{{ 'a'.nosuch() }}", "a str has no attribute 'nosuch'"},
        {"{{ 'a'.replace('b') }}", "replace() needs the argument 'new'"},
        {"{{ 'a'.strip(1, 2) }}", "strip() takes at most 1 arguments, 2 are given"},
        {"{{ 'a'.split(by=',') }}", "split() does not know the argument 'by'"},
        {"{{ {[]: 1} }}", "unhashable type: 'list'"},
        {"{{ 1 in 5 }}", "'int' object is not iterable"},
        {"{% for x in 5 %}{% endfor %}", "line 1, column 8: 'int' object is not iterable"},
        {"{% set a, b = [1] %}", "cannot assign 1 values to 2 names"},
        {"{% set x = 1 %}{% set x.y = 2 %}", "only of a namespace"},
        {"{% set nosuch.y = 2 %}", "'nosuch' is undefined"},
        {"{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}", "the macro 'f' takes at most 1 arguments, 2 are given"},
        {"{% macro f(a) %}{% endmacro %}{{ f(b=2) }}", "the macro 'f' has no parameter 'b'"},
        {"{% macro f(a) %}{% endmacro %}{{ f(1, a=2) }}", "got 'a' twice"},
        {"{{ f(a=1, a=2) if f else dict(a=1, a=2) }}", "the argument 'a' is given twice"},
        {"{{ raise_exception('no ' ~ 'way') }}", "T, line 1, column 19: no way"},
        {"{{ strftime_now('%Y') }}", "none was given"},
        {"{{ missing|tojson }}", "'missing' is undefined"},
        {"{{ range|tojson }}", "cannot be written as JSON"},
        {"{{ range(1, 2, 0) }}", "the step of a range is zero"},
        {"{{ 'abc'[::0] }}", "step is zero"},
        {"{{ '%d' % 'x' }}", "%d needs a number"},
        {"{{ '%s %s' % 'x' }}", "not enough arguments"},
        {"{{ 'x' % 1 }}", "not all arguments are used"},
        {"{{ '{'.format(1) }}", "has no end"},
        {"{{ '{}'.format() }}", "no argument number 0"},
        {"{% set l = [1] %}{{ l.append(l) }}{{ l }}", "nests deeper than 1000"},
        {"{% set d = {} %}{{ d.update(x=d) }}{{ d|tojson }}", "nests deeper than 1000"},
        {"{% set l = [1] %}{{ l.append(l) }}{% set m = [1] %}{{ m.append(m) }}{{ l == m }}", "nests deeper than 1000"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sluice_error err = {0};
        enum sluice_status status = run(rows[i].text, NULL, NULL, &err);
        if (status != SLUICE_ERR_MODEL || err.status != status || !strstr(err.message, rows[i].says))
            fail_msg("%s\ngives    %d %s\nexpected %s", rows[i].text, status, err.message, rows[i].says);
        assert_int_equal(run(rows[i].text, NULL, NULL, NULL), SLUICE_ERR_MODEL); /* the error may be NULL */
    }
}

static void test_variables(void **state)
{
    (void)state;
    static const struct {
        const char *json, *says;
    } rows[] = {{"", "expected a value"},
                {"{", "expected a key"},
                {"[1]", "not an object"},
                {"{\"a\": 1,}", "expected a key"},
                {"{\"a\" 1}", "expected ':'"},
                {"{\"a\": 01}", "this is no value"},
                {"{\"a\": tru}", "no value"},
                {"{\"a\": \"\n\"}", "control"},
                {"{\"a\": \"x}", "has no end"},
                {"{\"a\": \"\\q\"}", "escape"},
                {"{\"a\": 1} 2", "follows"},
                {"{\n \"a\": +1}", "line 2, column 7"},
                {"{\"a\": 1e}", "no value"},
                {"{\"a\": [1 2]}", "expected ',' or ']'"},
                {"{\"a\": 9223372036854775808}", "does not fit in 64 bits"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sluice_error err = {0};
        enum sluice_status status = run("{{ a }}", rows[i].json, NULL, &err);
        if (status != SLUICE_ERR_USAGE || !strstr(err.message, rows[i].says))
            fail_msg("%s\ngives    %d %s\nexpected %s", rows[i].json, status, err.message, rows[i].says);
    }
    static const char json[] = "{\"b\":2,\"a\":[1, 1.0, -0.0, 1e5, 12345678901234567890.0, true, null], "
                               "\"c\":\"\\ud83d\\ude42\\u00e9\\/\\ud800\"}";
    static const char expected[] =
        "[1, 1.0, -0.0, 100000.0, 1.2345678901234567e+19, True, None]🙂é/\xef\xbf\xbd own";
    struct jinja_own own[] = {{"b", "own"}, {"unused", "x"}};
    struct jinja_input in = {.json = json, .json_bytes = strlen(json), .own = own, .n_own = 2};
    struct jinja_template *t = parsed("{{ a }}{{ c }} {{ b }}", 22);
    struct text_rendered out;
    struct sluice_error err;
    assert_int_equal(jinja_render(t, &in, &out, &err), SLUICE_OK);
    assert_string_equal(out.text, expected);
    text_rendered_free(&out);
    assert_true(jinja_uses(t, "a") && !jinja_uses(t, "tools"));
    jinja_destroy(t);
}

static void test_time(void **state)
{
    (void)state;
    struct jinja_time t;
    static const char *const bad[] = {"",
                                      "2026",
                                      "2026-13-01",
                                      "2026-02-29",
                                      "2026-7-4",
                                      "2026-07-04T",
                                      "2026-07-04T9",
                                      "2026-07-04x09:05",
                                      "2026-07-04T24:00",
                                      "2026-07-04T09:05:06Z",
                                      "2026-07-04T09:05:",
                                      "0000-01-01",
                                      "2026-07-04T09:5:06"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (jinja_time_read(bad[i], &t)) fail_msg("'%s' was read", bad[i]);
    assert_true(jinja_time_read("2024-02-29", &t) && t.day == 29 && t.hour == 0);
    assert_true(jinja_time_read("2026-07-04 09:05", &t) && t.minute == 5 && t.second == 0);
    assert_true(jinja_time_read("2026-07-04T23:59:60", &t) && t.second == 60);
}

/* ---- limits ---- */

static void limited(const char *text, const struct jinja_limits *limits, const char *says)
{
    struct sluice_error err = {0};
    enum sluice_status status = run(text, NULL, limits, &err);
    if (status != SLUICE_ERR_MODEL || !strstr(err.message, says))
        fail_msg("%.200s\ngives    %d %s\nexpected %s", text, status, err.message, says);
}

static void test_limits(void **state)
{
    (void)state;
    struct jinja_limits l;
    jinja_limits_init(&l);
    l.steps_max = 10000;
    static const char *const endless[] = {
        "{% for i in range(9999) %}{{ i }}{% endfor %}",
        "{% macro f(n) %}{% for i in range(99) %}{{ f(n) if n < 5 }}{% endfor %}{% endmacro %}{{ f(0) }}",
        "{{ range(99999)|sum }}",
        "{{ range(9999)|list|sort }}",
        "{{ [0] * 99999 }}",
        "{{ 'x' * 999999 }}",
        "{{ ('x' * 5000)|list|join(',')|length }}",
        "{% set ns = namespace(s='x') %}{% for i in range(30) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
        "{{ ('ab' * 9000).replace('', 'cd') }}",
        "{{ ''.ljust(99999) }}",
    };
    for (size_t i = 0; i < sizeof endless / sizeof *endless; i++) limited(endless[i], &l, "more than 10000 steps");
    jinja_limits_init(&l);
    l.memory_bytes_max = 100000;
    limited("{% set ns = namespace(s='x') %}{% for i in range(30) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}", &l,
            "more than 100000 bytes of memory");
    limited("{{ range(9999)|list }}", &l, "more than 100000 bytes of memory");
    jinja_limits_init(&l);
    l.output_bytes_max = 1000;
    limited("{% for i in range(999) %}ab{% endfor %}", &l, "writes more than 1000 bytes");
    limited("{% set x %}{{ 'x' * 1001 }}{% endset %}", &l, "writes more than 1000 bytes");
    jinja_limits_init(&l);
    l.depth_max = 50;
    limited("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", &l, "nests deeper than 50 evaluations");
    limited(
        "{{ 1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1 }}",
        &l, "nests deeper than 50 evaluations");
}

/* A long text of `n` times `part` between a beginning and an end. */
static char *long_text(const char *begin, const char *part, size_t n, const char *end)
{
    size_t bytes = strlen(part);
    char *text = malloc(strlen(begin) + n * bytes + strlen(end) + 1), *at = text;
    assert_non_null(text);
    at = stpcpy(at, begin);
    for (size_t i = 0; i < n; i++) at = stpcpy(at, part);
    strcpy(at, end);
    return text;
}

static void hostile(const char *begin, const char *part, size_t n, const char *end, const char *says)
{
    struct sluice_error err = {0};
    char *text = long_text(begin, part, n, end);
    enum sluice_status status = run(text, NULL, NULL, &err);
    if (says ? status != SLUICE_ERR_MODEL || !strstr(err.message, says) : status != SLUICE_OK)
        fail_msg("%.60s... gives %d %s", text, status, err.message);
    free(text);
}

static void test_hostile(void **state)
{
    (void)state;
    hostile("{{ ", "(", 100000, "", "brackets nest too deep");
    hostile("{{ ", "[", 199, "", "this tag has no end");
    hostile("{{ ", "not ", 100000, "1 }}", "nests deeper than 200");
    hostile("{{ ", "- ", 100000, "1 }}", "nests deeper than 200");
    hostile("", "{% if 1 %}", 100000, "", "nests deeper than 200");
    hostile("", "{% for i in [1] %}", 190, "", "has no end");
    hostile("{{ 1", " if 1 else 2", 80000, " }}", "nests deeper than 200");
    hostile("{{ 1", "+1", 100000, " }}", "nests deeper than 1000");
    hostile("{{ x", ".y", 100000, " }}", "nests deeper than 1000");
    hostile("{{ 'a'", "|upper", 100000, " }}", "nests deeper than 1000");
    char *names = malloc(10001 * 12 + 1), *at = names;
    assert_non_null(names);
    for (int i = 0; i < 10001; i++) at += sprintf(at, "{{ n%d }}", i);
    hostile(names, "", 0, "", "more than 10000 names");
    free(names);
    hostile("{{ ('a' * 1000000).rfind('b", "a", 300000, "') }}", NULL);
    hostile("{{ ('a' * 1000000).rfind('", "a", 300000, "b') }}", "steps");
    hostile("{{ 'a'", "~'b'", 100000, " }}", NULL);
    hostile("{{ 1", " < 2 > 1", 50000, " }}", NULL);
    hostile("{% if 0 %}", "{% elif 0 %}", 50000, "{% endif %}", NULL);
    hostile("{{ '%s' % '", "a", 500000, "' }}", NULL);
    hostile("", "{{ x }}", 100000, "", NULL);
    hostile("", "{# #}", 100000, "", NULL);
    hostile("{{ '", "\\n", 400000, "' }}", NULL);
    hostile("", "x", JINJA_SOURCE_BYTES_MAX + 1, "", "at most 1048576 are read");
    hostile("{% macro f(", "a, ", 50000, "b) %}{% endmacro %}", NULL);
    hostile("{{ {", "1:2,", 100000, "} }}", NULL);
    hostile("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "", 0, "", "nests deeper than 1000");
    hostile("{{ range(10 ** 18) }}", "", 0, "", "a range has more than 100000 items");
    hostile("{{ range(-9223372036854775807, 9223372036854775807)|length }}", "", 0, "", "more than 100000 items");
    hostile("{{ 'x' * 10 ** 18 }}", "", 0, "", "more than");
    hostile("{{ '%99999999d' % 1 }}", "", 0, "", "width is too large");
    hostile("{{ ''.center(10 ** 18) }}", "", 0, "", "more than");
    hostile("{{ [1,2,3][9223372036854775807:-9223372036854775807:-9223372036854775807] }}", "", 0, "", NULL);
    hostile("{{ 1.5|round(10 ** 9) }}", "", 0, "", "round() to");
    hostile("{{ -9223372036854775807 - 1 }}{{ (-9223372036854775807 - 1) // -1 }}", "", 0, "", "does not fit");
    hostile("{{ (-9223372036854775807 - 1) % -1 }}", "", 0, "", NULL);
    char *deep = long_text("{\"a\":", "[", 100000, "");
    struct sluice_error err = {0};
    assert_int_equal(run("{{ a }}", deep, NULL, &err), SLUICE_ERR_USAGE);
    assert_non_null(strstr(err.message, "nest too deep"));
    free(deep);
}

/* Any bytes may come; what is no UTF-8 passes through. */
static void test_bytes(void **state)
{
    (void)state;
    static const char text[] = "\xff{{ '\xfe\x80' }}{{ 'a\xf0\x9f'[1:]|length }}{{ '\xc3'|list|length }}\0z";
    struct jinja_template *t = parsed(text, sizeof text - 1);
    struct jinja_input in = {0};
    struct text_rendered out;
    struct sluice_error err;
    assert_int_equal(jinja_render(t, &in, &out, &err), SLUICE_OK);
    assert_int_equal(out.bytes, 7);
    assert_memory_equal(out.text,
                        "\xff\xfe\x80"
                        "21\0z",
                        8);
    text_rendered_free(&out);
    jinja_destroy(t);
}

/* Messages as structs are the same as messages in JSON. */
static void test_messages(void **state)
{
    (void)state;
    static const struct text_message m[] = {{"user", "Hi \"you\"\n"}, {"assistant", ""}};
    static const char text[] = "{{ messages|tojson }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}";
    static const char json[] = "{\"messages\": 5, \"add\": true}";
    struct jinja_template *t = parsed(text, sizeof text - 1);
    struct jinja_input in = {.json = json, .json_bytes = sizeof json - 1, .messages = m, .n_messages = 2};
    struct text_rendered out;
    struct sluice_error err;
    assert_int_equal(jinja_render(t, &in, &out, &err), SLUICE_OK);
    assert_string_equal(out.text,
                        "[{\"role\": \"user\", \"content\": \"Hi \\\"you\\\"\\n\"}, {\"role\": \"assistant\", "
                        "\"content\": \"\"}]<user>Hi \"you\"\n<assistant>");
    const struct text_range *last = &out.said[out.n_said - 1];
    assert_int_equal(last->end - last->begin, 9);
    assert_memory_equal(out.text + last->begin, "Hi \"you\"\n", 9);
    text_rendered_free(&out);
    in.n_messages = 0;
    assert_int_equal(jinja_render(t, &in, &out, &err), SLUICE_OK);
    assert_string_equal(out.text, "[]");
    text_rendered_free(&out);
    jinja_destroy(t);
}

/* ---- what was said ---- */

/* The rendering with what was said in brackets. */
static void said(const char *text, const char *json, const char *expected)
{
    struct jinja_template *t = parsed(text, strlen(text));
    struct jinja_own own = {"bos", "<s>"};
    struct jinja_input in = {.json = json, .json_bytes = strlen(json), .own = &own, .n_own = 1};
    struct text_rendered out;
    struct sluice_error err;
    if (jinja_render(t, &in, &out, &err) != SLUICE_OK) fail_msg("%s\n%s", text, err.message);
    char *shown = malloc(out.bytes + 2 * out.n_said + 1), *at = shown;
    size_t k = 0;
    for (size_t i = 0; i <= out.bytes; i++) {
        if (k < out.n_said && out.said[k].end == i) {
            *at++ = ']';
            k++;
        }
        if (k < out.n_said && out.said[k].begin == i) *at++ = '[';
        if (i < out.bytes) *at++ = out.text[i];
    }
    *at = '\0';
    assert_int_equal(k, out.n_said);
    if (strcmp(shown, expected) != 0) fail_msg("%s\ngives    %s\nexpected %s", text, shown, expected);
    free(shown);
    text_rendered_free(&out);
    jinja_destroy(t);
}

static void test_said(void **state)
{
    (void)state;
    static const char json[] = "{\"x\": \"one <s> two\", \"y\": \" y \", \"bos\": \"not this\", \"n\": 5,"
                               " \"messages\": [{\"role\": \"user\", \"content\": \"hi\", \"o\": {\"role\": \"sys\"}},"
                               " {\"role\": \"<s>\", \"content\": \"a</think>b\"}]}";
    said("{{ bos }}{{ x }}.", json, "<s>[one <s> two].");
    said("{{ 'a' + x + 'b' }}{{ 'c' ~ y|trim ~ n }}", json, "a[one <s> two]bc[y]5");
    said("{{ x[4:7] }} {{ x.split(' ')|join('-') }} {{ x|replace('<s>', 'S') }}", json,
         "[<s>] [one]-[<s>]-[two] [one ]S[ two]");
    said("{{ x|upper }} {{ x.title() }} {{ x[::-1] }}", json, "[ONE <S> TWO] [One <S> Two] [owt >s< eno]");
    said("{% set v %}<{{ y }}>{% endset %}{{ v }}{{ v|trim('<> ') }}", json, "<[ y ]>[y]");
    said("{% macro f(a) %}({{ a }}){% endmacro %}{{ f(y) }}{{ f('t') }}{{ f(f(y)) }}", json, "([ y ])(t)(([ y ]))");
    said("{{ {'k': y, 't': 1} }} {{ {'k': y}|tojson }}", json, "{'k': '[ y ]', 't': 1} {\"k\": \"[ y ]\"}");
    said("{{ '%s|%5s' % (y, 'z') }} {{ '{}={:>5}'.format('k', y) }}", json, "[ y ]|    z k=  [ y ]");
    said("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}", json, "<user>[hi]<[<s>]>[a</think>b]");
    said("{{ messages[0].o.role }} {{ messages[1].content.split('</think>')[-1] }}", json, "[sys] [b]");
    said("{% for k in messages[0] %}{{ k }} {% endfor %}", json, "[role] [content] [o] ");
    said("{{ x|indent(2, true) }}{{ y ~ y }}", json, "  [one <s> two y  y ]");
    said("{% set p %}{{ x }}{% endset %}{{ x }}{{ p }}", json, "[one <s> twoone <s> two]");
    said("no", json, "no");
    said("{{ '' ~ '' }}", json, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases), cmocka_unit_test(test_faults), cmocka_unit_test(test_variables),
        cmocka_unit_test(test_time),  cmocka_unit_test(test_limits), cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_bytes), cmocka_unit_test(test_said),   cmocka_unit_test(test_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
