/* The program: finds the command, and turns its result into an exit code. */
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/interrupt.h"
#include "cli/out.h"
#include "cli/report.h"

#include <stdlib.h>
#include <string.h>

static int command_version(const struct cli_options *o)
{
    if (cli_flag(o, OPT_JSON))
        out_json(json_pack("{s:s}", "version", sluice_version()));
    else
        out_printf("sluice %s\n", sluice_version());
    return 0;
}

static int command_help(const struct cli_options *o)
{
    enum cli_command about;
    struct sluice_error err = {0};
    if (cli_flag(o, OPT_MAN)) {
        help_man(stdout);
    } else if (cli_given(o, OPT_COMPLETION)) {
        help_completion(stdout, cli_text(o, OPT_COMPLETION));
    } else if (o->n_words == 0) {
        help_overview(stdout);
    } else if (cli_find_command(o->words[0], &about)) {
        help_command(stdout, about);
    } else {
        cli_no_command(o->words[0], &err);
        return report_error(&err);
    }
    return 0;
}

static int (*const commands[CLI_COMMANDS])(const struct cli_options *o) = {
    [CLI_SERVE] = command_serve,       [CLI_RUN] = command_run,           [CLI_CHAT] = command_chat,
    [CLI_PLAN] = command_plan,         [CLI_INSPECT] = command_inspect,   [CLI_TOKENIZE] = command_tokenize,
    [CLI_TEMPLATE] = command_template, [CLI_LOGITS] = command_logits,     [CLI_PERPLEXITY] = command_perplexity,
    [CLI_BENCH] = command_bench,       [CLI_PROFILE] = command_profile,   [CLI_DOCTOR] = command_doctor,
    [CLI_QUANTIZE] = command_quantize, [CLI_CHECKSUM] = command_checksum, [CLI_VERIFY] = command_verify,
    [CLI_PACK] = command_pack,         [CLI_REPLAY] = command_replay,     [CLI_VERSION] = command_version,
    [CLI_HELP] = command_help,
};

int main(int argc, char **argv)
{
    static struct cli_options options; /* over a page; the stack is for the commands */
    struct sluice_error err = {0};
    out_open_standard();
    interrupt_install();
    if (argc < 2) {
        help_overview(stderr);
        return 2;
    }
    bool help = strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0;
    bool version = strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0;
    if ((help || version) && argc > 2) {
        base_fail(&err, SLUICE_ERR_USAGE,
                  help ? "'sluice help COMMAND' explains a command" : "'sluice version --json' prints JSON",
                  "%s stands alone, and '%.100s' follows", argv[1], argv[2]);
        return report_error(&err);
    }
    if (help) {
        help_overview(stdout);
        return out_finish(0);
    }
    if (version) {
        out_printf("sluice %s\n", sluice_version());
        return out_finish(0);
    }
    if (cli_parse(argc, argv, getenv, &options, &err)) return report_error(&err);
    if (cli_flag(&options, OPT_HELP)) {
        help_command(stdout, options.command);
        return out_finish(0);
    }
    return out_finish(commands[options.command](&options));
}
