/* Real chat templates, each with ten conversations: byte for byte what Jinja2 makes of them, or an error where it has
 * one. */
#include "support.h"
#include "text/jinja.h"

#include <dirent.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *load_json(const char *name)
{
    struct blob b = load_shared(name);
    json_error_t error;
    json_t *j = json_loadb(b.at, b.bytes, 0, &error);
    if (!j) fail_msg("%s: %s", name, error.text);
    free(b.at);
    return j;
}

static void check_case(const struct jinja_template *t, const char *name, const char *case_name, json_t *variables,
                       const struct jinja_time *now, json_t *expected)
{
    char *json = json_dumps(variables, 0);
    struct jinja_input in = {.json = json, .json_bytes = strlen(json), .now = now};
    struct text_rendered out;
    struct sluice_error err = {0};
    enum sluice_status status = jinja_render(t, &in, &out, &err);
    json_t *text = json_object_get(expected, "text");
    if (!text) {
        if (status != SLUICE_ERR_MODEL || !strstr(err.message, ", line ") || !strstr(err.message, ", column "))
            fail_msg("%s, %s: %d %s; expected an error", name, case_name, status, err.message);
    } else {
        if (status != SLUICE_OK) fail_msg("%s, %s: %s", name, case_name, err.message);
        if (out.bytes != json_string_length(text) || memcmp(out.text, json_string_value(text), out.bytes) != 0)
            fail_msg("%s, %s:\n%s\nexpected:\n%s", name, case_name, out.text, json_string_value(text));
        size_t end = 0; /* what was said: ascending, disjoint, inside */
        for (size_t i = 0; i < out.n_said; i++) {
            assert_true(out.said[i].begin >= end && out.said[i].end > out.said[i].begin);
            end = out.said[i].end;
        }
        assert_true(end <= out.bytes);
    }
    if (status == SLUICE_OK) text_rendered_free(&out);
    free(json);
}

static size_t check_template(const char *name, json_t *cases)
{
    char path[512];
    snprintf(path, sizeof path, "oracle/templates/%s.jinja", name);
    struct blob b = load_shared(path);
    snprintf(path, sizeof path, "oracle/templates/%s.expected.json", name);
    json_t *expected = load_json(path), *one;
    struct jinja_time now;
    assert_true(jinja_time_read(json_string_value(json_object_get(cases, "now")), &now));
    struct jinja_template *t = NULL;
    struct sluice_error err;
    if (jinja_parse(name, b.at, b.bytes, &t, &err) != SLUICE_OK) fail_msg("%s", err.message);
    const char *case_name;
    size_t n = 0;
    json_object_foreach(expected, case_name, one)
    {
        json_t *variables = json_copy(json_object_get(cases, "common"));
        json_t *own = json_object_get(json_object_get(cases, "cases"), case_name);
        assert_non_null(own);
        json_object_update(variables, own);
        check_case(t, name, case_name, variables, &now, one);
        json_decref(variables);
        n++;
    }
    jinja_destroy(t);
    json_decref(expected);
    free(b.at);
    return n;
}

static void test_real(void **state)
{
    (void)state;
    char path[1024];
    snprintf(path, sizeof path, "%s/oracle/templates", getenv("SLUICE_SHARED"));
    DIR *folder = opendir(path);
    assert_non_null(folder);
    json_t *cases = load_json("oracle/templates/cases.json");
    size_t n = 0, n_cases = 0;
    for (struct dirent *e; (e = readdir(folder));) {
        char *dot = strrchr(e->d_name, '.');
        if (!dot || strcmp(dot, ".jinja") != 0) continue;
        *dot = '\0';
        n_cases += check_template(e->d_name, cases);
        n++;
    }
    closedir(folder);
    json_decref(cases);
    printf("%zu templates, %zu cases\n", n, n_cases);
    assert_true(n > 40 && n_cases >= 10 * n);
}

int main(void)
{
    need_shared();
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_real)};
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
