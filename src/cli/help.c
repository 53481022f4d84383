/* --help and the manual page. */
#include "cli/help.h"

#include "sluice.h"

#include <ctype.h>
#include <string.h>

#define WIDTH 100

static const struct {
    const char *code, *text;
} exit_codes[] = {
    {"0", "done"},
    {"1", "failed while running"},
    {"2", "wrong use: an option, an argument"},
    {"3", "the model file is damaged, incomplete or not supported"},
    {"4", "the memory or the machine does not suffice"},
    {"5", "the system failed a read or a write"},
    {"130", "interrupted (Ctrl-C)"},
    {"143", "ended by SIGTERM; by SIGHUP 129. A server that has finished what it accepted ends with 0"},
};

static const struct {
    const char *line, *what;
} examples[] = {
    {"sluice plan -m model.gguf --memory 8G", "how would 8 GiB be used?"},
    {"sluice run -m model.gguf --memory 8G -p \"Call me Ishmael.\"", "continue a text"},
    {"sluice chat -m model.gguf", "talk"},
    {"sluice serve -m model.gguf", "let programs talk: http://127.0.0.1:8080/v1"},
    {"sluice profile -m model.gguf -f my-text.txt", "which experts does my text use?"},
    {"sluice doctor /path/to/models", "is the disk fast enough?"},
};

/* Breaks text into lines of at most WIDTH columns; all but the first begin at `indent`. */
static void print_wrapped(FILE *out, const char *text, int indent, int column)
{
    while (*text) {
        size_t word = strcspn(text, " ");
        if (column > indent && column + 1 + (int)word > WIDTH) {
            fprintf(out, "\n%*s", indent, "");
            column = indent;
        } else if (column > indent) {
            fputc(' ', out);
            column++;
        }
        fwrite(text, 1, word, out);
        column += (int)word;
        text += word;
        while (*text == ' ') text++;
    }
    fputc('\n', out);
}

/* "-m, --model FILE" */
static void option_left(const struct cli_option_row *row, char *out, size_t bytes)
{
    char letter[8] = "    ";
    if (row->letter) snprintf(letter, sizeof letter, "-%c, ", row->letter);
    snprintf(out, bytes, "%s--%s%s%s", letter, row->name, row->value_name ? " " : "",
             row->value_name ? row->value_name : "");
}

/* The help with what follows from the row: values, range, default, variable. */
static void option_right(const struct cli_option_row *row, char *out, size_t bytes)
{
    char name[64];
    size_t n = (size_t)snprintf(out, bytes, "%s", row->help);
    if (row->choices && row->kind == CLI_CHOICE) n += (size_t)snprintf(out + n, bytes - n, "; one of %s", row->choices);
    if (row->kind == CLI_INTEGER || row->kind == CLI_NUMBER || row->kind == CLI_COUNTS)
        n += (size_t)snprintf(out + n, bytes - n, "; %.10g to %.10g", row->min, row->max);
    if (row->fallback) n += (size_t)snprintf(out + n, bytes - n, " (default: %s)", row->fallback);
    if (row->env) snprintf(out + n, bytes - n, " [%s]", cli_env_name(row, name));
}

void help_overview(FILE *out)
{
    fprintf(out,
            "sluice %d.%d.%d: mixture-of-experts language models larger than memory\n\nUsage: sluice COMMAND "
            "[options]\n\nCommands:\n",
            SLUICE_VERSION_MAJOR, SLUICE_VERSION_MINOR, SLUICE_VERSION_PATCH);
    for (unsigned i = 0; i < CLI_COMMANDS; i++)
        fprintf(out, "  %-12s %s\n", cli_command_rows[i].name, cli_command_rows[i].summary);
    fprintf(out, "\nExamples:\n");
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++)
        fprintf(out, "  %-62s %s\n", examples[i].line, examples[i].what);
    fprintf(
        out,
        "\n'sluice help COMMAND' explains a command and its options; 'sluice help --man', or 'man sluice' where it is "
        "installed, has everything.\n");
}

void help_command(FILE *out, enum cli_command command)
{
    const struct cli_command_row *c = &cli_command_rows[command];
    fprintf(out, "Usage: sluice %s%s%s\n\n", c->name, c->synopsis[0] ? " " : "", c->synopsis);
    print_wrapped(out, c->text, 0, 0);
    const char *group = "";
    bool shown[OPT_COUNT] = {false};
    for (unsigned first = 0; first < OPT_COUNT; first++) {
        if (shown[first] || !cli_takes(command, (enum cli_option)first)) continue;
        group = cli_option_rows[first].group;
        fprintf(out, "\n%s:\n", group);
        for (unsigned i = first; i < OPT_COUNT; i++) {
            const struct cli_option_row *row = &cli_option_rows[i];
            char left[64], right[512];
            if (strcmp(row->group, group) != 0 || !cli_takes(command, row->id)) continue;
            shown[i] = true;
            option_left(row, left, sizeof left);
            option_right(row, right, sizeof right);
            fprintf(out, "  %-27s", left);
            if (strlen(left) >= 27) fprintf(out, "\n%29s", "");
            print_wrapped(out, right, 29, 29);
        }
    }
    fprintf(out, "\nAn option is given as --name VALUE or --name=VALUE. It overrides its environment variable (in "
                 "brackets).\n");
}

/* roff: a backslash, a dash that must stay one, and a dot or quote at the begin of a line need an escape. */
static void roff_text(FILE *out, const char *text)
{
    if (*text == '.' || *text == '\'') fputs("\\&", out);
    for (; *text; text++) {
        if (*text == '\\')
            fputs("\\e", out);
        else if (*text == '-')
            fputs("\\-", out);
        else if (*text == '|')
            fputs("|\\:", out); /* a long list of values may break there */
        else
            fputc(*text, out);
    }
}

/* Capital words (FILE, N) in italics, options in bold. */
static void roff_synopsis(FILE *out, const char *text)
{
    while (*text) {
        size_t n = 0;
        if (*text == '-') {
            n = strcspn(text, " ]=.,");
            fputs("\\fB", out);
        } else if (isupper((unsigned char)*text)) {
            while (isupper((unsigned char)text[n])) n++;
            fputs("\\fI", out);
        }
        for (size_t i = 0; i < n; i++)
            if (text[i] == '-')
                fputs("\\-", out);
            else
                fputc(text[i], out);
        if (n)
            fputs("\\fR", out);
        else
            fputc(*text, out), n = 1;
        text += n;
    }
    fputc('\n', out);
}

static void man_option(FILE *out, const struct cli_option_row *row)
{
    char right[512];
    fputs(".TP\n\\fB", out);
    if (row->letter) fprintf(out, "\\-%c\\fR, \\fB", row->letter);
    fputs("\\-\\-", out);
    roff_text(out, row->name);
    fputs("\\fR", out);
    if (row->value_name) fprintf(out, " \\fI%s\\fR", row->value_name);
    fputc('\n', out);
    option_right(row, right, sizeof right);
    roff_text(out, right);
    fputs(".\n", out);
    fputs("Commands:", out);
    bool all = true;
    for (unsigned i = 0; i < CLI_COMMANDS; i++) all = all && cli_takes((enum cli_command)i, row->id);
    if (all) {
        fputs(" all.\n", out);
        return;
    }
    const char *comma = " ";
    for (unsigned i = 0; i < CLI_COMMANDS; i++)
        if (cli_takes((enum cli_command)i, row->id)) {
            fprintf(out, "%s%s", comma, cli_command_rows[i].name);
            comma = ", ";
        }
    fputs(".\n", out);
}

void help_man(FILE *out)
{
    fprintf(out,
            ".\\\" Made by 'sluice help --man' from src/cli/option_table.c; do not edit.\n"
            ".TH SLUICE 1 \"\" \"sluice %d.%d.%d\" \"User Commands\"\n.ad l\n.SH NAME\nsluice \\- run "
            "mixture\\-of\\-experts "
            "language models that are larger than memory\n.SH SYNOPSIS\n",
            SLUICE_VERSION_MAJOR, SLUICE_VERSION_MINOR, SLUICE_VERSION_PATCH);
    for (unsigned i = 0; i < CLI_COMMANDS; i++) {
        fprintf(out, "%s\\fBsluice %s\\fR ", i ? ".br\n" : "", cli_command_rows[i].name);
        roff_synopsis(out, cli_command_rows[i].synopsis);
    }
    fputs(
        ".SH DESCRIPTION\nSluice reads ordinary GGUF files, keeps the dense part of a model in memory, and reads the "
        "experts from the disk through a cache whose size the user decides.\nMore memory makes it faster; less memory "
        "never makes it wrong.\n.PP\nStandard output carries the result alone; everything else goes to standard "
        "error.\n.SH COMMANDS\n",
        out);
    for (unsigned i = 0; i < CLI_COMMANDS; i++) {
        fprintf(out, ".TP\n\\fB%s\\fR ", cli_command_rows[i].name);
        roff_synopsis(out, cli_command_rows[i].synopsis);
        roff_text(out, cli_command_rows[i].text);
        fputc('\n', out);
    }
    fputs(".SH OPTIONS\nAn option is given as \\fB\\-\\-name\\fR \\fIVALUE\\fR or \\fB\\-\\-name=\\fIVALUE\\fR and "
          "overrides its environment variable (in brackets), which overrides the default.\nA command refuses the "
          "options that it has no use for.\n",
          out);
    for (unsigned i = 0; i < OPT_COUNT; i++) man_option(out, &cli_option_rows[i]);
    fputs(".SH SIZES\nG means GiB and GB means 10^9 bytes, likewise K and M; decimals are allowed.\nA small "
          "number without a unit, which would be bytes, is refused.\nA percentage of "
          "\\fB\\-\\-memory\\fR is of what the machine or its cgroup allows, one of \\fB\\-\\-experts\\fR is of the "
          "bytes "
          "of all experts; a bare number for \\fB\\-\\-experts\\fR is a number of experts, and a percentage of "
          "\\fB\\-\\-lock\\-margin\\fR or \\fB\\-\\-simulate\\-used\\-memory\\fR is of the machine's memory.\n.SH EXIT "
          "STATUS\n",
          out);
    for (size_t i = 0; i < sizeof exit_codes / sizeof exit_codes[0]; i++) {
        fprintf(out, ".TP\n\\fB%s\\fR\n", exit_codes[i].code);
        roff_text(out, exit_codes[i].text);
        fputs(".\n", out);
    }
    fputs(".SH ENVIRONMENT\n", out);
    for (unsigned i = 0; i < OPT_COUNT; i++) {
        char name[64];
        if (!cli_option_rows[i].env) continue;
        fprintf(out, ".TP\n\\fB%s\\fR\n\\fB\\-\\-", cli_env_name(&cli_option_rows[i], name));
        roff_text(out, cli_option_rows[i].name);
        fputs("\\fR\n", out);
    }
    fputs(".TP\n\\fBXDG_STATE_HOME\\fR\nwhere the chat history is kept (default: \\fI~/.local/state\\fR)\n.SH "
          "FILES\n.TP\n"
          "\\fI~/.local/state/sluice/history\\fR\nlines typed in \\fBsluice chat\\fR on a terminal.\n.TP\n"
          "\\fIMODEL.sluice\\-usage\\fR\nwhich experts were used, over runs (\\fB\\-\\-usage\\fR).\n.TP\n"
          "\\fIMODEL.sluice\\-usage.lock\\fR\nempty; who writes the usage file holds it. May be removed when nothing "
          "runs.\n.TP\n"
          "\\fIOUT.part\\fR\na result that is not complete yet; of \\fBsluice pack\\fR also one that was "
          "interrupted, with which the same command goes on.\n.TP\n"
          "\\fIDIRECTORY/*.sluice\\-kv\\fR, \\fIlock\\fR\nbeginnings of texts that were computed "
          "(\\fB\\-\\-kv\\-dir\\fR); "
          "they hold what was said.\n.TP\n"
          "\\fIMODEL.sluice\\-hotlist\\fR\nexperts to load first, a text (\\fBsluice profile\\fR, "
          "\\fB\\-\\-hotlist\\fR).\n.TP\n"
          "\\fIMODEL.sluice\\-sums\\fR\nchecksums (\\fBsluice checksum\\fR, \\fB\\-\\-verify\\fR).\n.SH "
          "EXAMPLES\n",
          out);
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        fputs(".TP\n", out);
        roff_text(out, examples[i].line);
        fputc('\n', out);
        roff_text(out, examples[i].what);
        fputc('\n', out);
    }
}
