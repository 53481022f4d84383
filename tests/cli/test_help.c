/* The manual page and the completions in the repository are what the option table says today. */
#include "cli/help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char *read_source(const char *name, size_t *bytes)
{
    char path[4096];
    const char *root = getenv("SLUICE_SOURCE");
    assert_non_null(root);
    snprintf(path, sizeof path, "%s/%s", root, name);
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("%s is missing", path);
    char *text = calloc(1, 1 << 18);
    *bytes = fread(text, 1, (1 << 18) - 1, file);
    fclose(file);
    return text;
}

static void compare(const char *name, const char *made, size_t made_bytes, const char *how)
{
    size_t bytes;
    char *text = read_source(name, &bytes);
    if (bytes != made_bytes || memcmp(text, made, bytes) != 0) fail_msg("%s is stale: run '%s > %s'", name, how, name);
    free(text);
}

static void committed_files_agree(void **state)
{
    static const struct {
        const char *shell, *file, *how;
    } shells[] = {{NULL, "man/sluice.1", "sluice help --man"},
                  {"bash", "completions/sluice.bash", "sluice help --completion bash"},
                  {"zsh", "completions/_sluice", "sluice help --completion zsh"},
                  {"fish", "completions/sluice.fish", "sluice help --completion fish"}};
    for (size_t i = 0; i < 4; i++) {
        char *made;
        size_t bytes;
        FILE *out = open_memstream(&made, &bytes);
        if (shells[i].shell)
            assert_true(help_completion(out, shells[i].shell));
        else
            help_man(out);
        fclose(out);
        compare(shells[i].file, made, bytes, shells[i].how);
        free(made);
    }
    assert_false(help_completion(stdout, "tcsh"));
}

/* The command has a use for this row, or for another one that looks the same on the left. */
static bool is_to_be_listed(enum cli_command command, const struct cli_option_row *row)
{
    for (unsigned i = 0; i < OPT_COUNT; i++) {
        const struct cli_option_row *other = &cli_option_rows[i];
        if (cli_takes(command, other->id) && strcmp(other->name, row->name) == 0 && other->letter == row->letter &&
            (other->value_name == row->value_name ||
             (other->value_name && row->value_name && strcmp(other->value_name, row->value_name) == 0)))
            return true;
    }
    return false;
}

static void help_lists_exactly_what_a_command_takes(void **state)
{
    for (unsigned c = 0; c < CLI_COMMANDS; c++) {
        char *made;
        size_t bytes;
        FILE *out = open_memstream(&made, &bytes);
        help_command(out, (enum cli_command)c);
        fclose(out);
        for (unsigned i = 0; i < OPT_COUNT; i++) {
            char left[96], letter[8] = "    ";
            const struct cli_option_row *row = &cli_option_rows[i];
            if (row->letter) snprintf(letter, sizeof letter, "-%c, ", row->letter);
            snprintf(left, sizeof left, "\n  %s--%s%s%s", letter, row->name, row->value_name ? " " : "",
                     row->value_name ? row->value_name : "");
            const char *at = strstr(made, left);
            bool listed = at && strchr(" \n", at[strlen(left)]);
            if (listed != is_to_be_listed((enum cli_command)c, row))
                fail_msg("%s: --%s is %s", cli_command_rows[c].name, row->name, listed ? "too much" : "missing");
        }
        free(made);
    }
}

static void overview_names_every_command(void **state)
{
    char *made;
    size_t bytes;
    FILE *out = open_memstream(&made, &bytes);
    help_overview(out);
    fclose(out);
    for (unsigned c = 0; c < CLI_COMMANDS; c++) {
        char line[40];
        snprintf(line, sizeof line, "\n  %s ", cli_command_rows[c].name);
        assert_non_null(strstr(made, line));
    }
    free(made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(committed_files_agree),
        cmocka_unit_test(help_lists_exactly_what_a_command_takes),
        cmocka_unit_test(overview_names_every_command),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
